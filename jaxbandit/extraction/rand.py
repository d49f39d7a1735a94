"""Rand and RandL: a node, or a leaf, and a configuration at random (baselines of Rekatsinas, Deshpande and
Parameswaran 2019), all pairs alike."""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.contract import brief
from jaxbandit.extraction.problem import Extraction, Outcome, Pull, View
from jaxbandit.extraction.retrieved import PICK, Retrieved, add, capacity, exclude_list, named
from jaxbandit.grammar import Execution
from jaxbandit.random.draws import integers

DEAR = ("avoid", "stop")


class State(NamedTuple):
    """``got``: what was bought."""

    got: Retrieved


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rand:
    """``node``: int32, (nodes,), those that may be asked, by specificity; ``start``: int32, (s_max + 2,), where each
    specificity begins. ``dear`` (static): "avoid" draws among the pairs that the budget still allows; "stop" draws
    among all and ends with the first that is too dear."""

    node: Array
    start: Array
    rows: int = field(metadata={"static": True})
    dear: str = field(metadata={"static": True})

    execution = Execution(masked=True)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Nothing asked."""
        return State(Retrieved.nothing(view, self.rows))

    def _allowed(self, view: View, state: State) -> Array:
        """bool (C, s_max + 1)."""
        return (view.cost <= view.budget - state.got.spent) & (jnp.diff(self.start) > 0)

    def ask(self, view: View, state: State) -> Pull:
        """A pair, drawn by the number of queries."""
        allowed = self._allowed(view, state)
        among = allowed if self.dear == "avoid" else jnp.ones_like(allowed)
        many = jnp.where(among, jnp.diff(self.start), 0).reshape(-1)
        place = jnp.arange(many.shape[0])
        until = jnp.sum(jnp.where(place[None, :] <= place[:, None], many, 0), axis=1)
        drawn = integers(view.choices, PICK, state.got.queries, jnp.maximum(until[-1], 1))
        group = jnp.minimum(jnp.sum(until <= drawn), many.shape[0] - 1)
        configuration, s = group // allowed.shape[1], group % allowed.shape[1]
        node = self.node[jnp.clip(self.start[s] + drawn - until[group] + many[group], 0, self.node.shape[0] - 1)]
        asked = allowed[configuration, s]
        lengths = jnp.array([length for _, length in view.configurations], jnp.int32)
        exclude = exclude_list(view, state.got, node, jnp.where(asked, lengths[configuration], 0))
        return Pull(node, configuration.astype(jnp.int32), exclude, state.got.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Add it up."""
        return State(add(view, state.got, pull, outcome)[0])

    def done(self, view: View, state: State) -> Array:
        """No pair is within what is left, or the one drawn is not."""
        return ~self.ask(view, state).asked

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Retrieved.answer``."""
        return state.got.answer()


def rand(problem: Extraction, *, leaves: bool = False, dear: str = "avoid") -> Rand:
    """Rand, or RandL where ``leaves``, for a problem (or for others of the same domain and at most its budget).

    Raises:
        BadInput: for a ``dear`` that does not exist.
    """
    specificity = np.asarray(problem.poset.specificity)
    node = np.asarray(problem.poset.leaves) if leaves else np.arange(len(specificity), dtype=np.int32)
    node = node[np.argsort(specificity[node], kind="stable")]
    start = np.searchsorted(specificity[node], np.arange(problem.cost.shape[1] + 1))
    return Rand(jnp.asarray(node), jnp.asarray(start, jnp.int32), capacity(problem), named("dear", dear, DEAR))
