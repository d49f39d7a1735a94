"""Rand by tables: all nodes of one specificity cost the same, so a pair is drawn from numbers of nodes.

``test_fast_baselines_equal_their_rules`` (tests/test_extraction_fast.py) ties it to ``extraction/rand.py``.
"""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.extraction.fast.tables import rows_for
from jaxbandit.extraction.problem import Extraction, Outcome, Pull, View
from jaxbandit.extraction.rand import Rand, State
from jaxbandit.extraction.retrieved import PICK, Retrieved, exclude_list
from jaxbandit.grammar import Execution, accelerated
from jaxbandit.pytree import pytree
from jaxbandit.random.draws import integers


@pytree
@dataclass(frozen=True)
class TabledRand:
    """Runs a ``rule`` of Rand. ``node``: int32, (nodes,), those that may be asked, by specificity; ``start``: int32,
    (s_max + 2,), where each specificity begins; ``rows``: static."""

    rule: Rand
    node: Array
    start: Array
    rows: int = field(metadata={"static": True})

    execution = Execution(most_lanes=64, masked=True, gain_ns=2_700, loss_ns=10_000)

    def init(self, view: View) -> State:
        """Starts a run, with nothing asked and nothing retrieved."""
        return State(Retrieved.nothing(view, self.rows))

    def _drawn(self, view: View, state: State) -> tuple[Array, Array, Array]:
        """Draws the pair that ``Rand.ask`` draws, first its configuration and specificity, then its node; and whether
        it can be asked."""
        allowed = (view.cost <= view.budget - state.retrieved.spent) & (jnp.diff(self.start) > 0)
        among = allowed if self.rule.dear == "avoid" else jnp.ones_like(allowed)
        many = jnp.where(among, jnp.diff(self.start), 0).reshape(-1)
        place = jnp.arange(many.shape[0], dtype=jnp.int32)
        until = jnp.sum(jnp.where(place[None, :] <= place[:, None], many, 0), axis=1, dtype=jnp.int32)
        drawn = integers(view.choices, PICK, state.retrieved.queries, jnp.maximum(until[-1], 1))
        group = jnp.minimum(jnp.sum(until <= drawn, dtype=jnp.int32), many.shape[0] - 1)
        configuration, s = group // allowed.shape[1], group % allowed.shape[1]
        node = self.node[jnp.clip(self.start[s] + drawn - until[group] + many[group], 0, self.node.shape[0] - 1)]
        return node, configuration, allowed[configuration, s]

    def ask(self, view: View, state: State) -> Pull:
        """Asks the pair that is drawn."""
        node, configuration, asked = self._drawn(view, state)
        exclude = exclude_list(view, state.retrieved, node, jnp.where(asked, view.lengths[configuration], 0))
        return Pull(node, configuration.astype(jnp.int32), exclude, state.retrieved.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Adds the answer to what was retrieved, and its cost to what was spent."""
        return self.rule.tell(view, state, pull, outcome)

    def done(self, view: View, state: State) -> Array:
        """Says that a run is over where the budget allows no pair, or not the one that was drawn."""
        return ~self._drawn(view, state)[2]

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Reports what was retrieved and spent: see ``Retrieved.answer``."""
        return state.retrieved.answer()


@accelerated.register
def _(rule: Rand, problem: Any) -> TabledRand | Rand:
    if not isinstance(problem, Extraction):
        return rule
    specificity = np.asarray(problem.poset.specificity)
    node = np.asarray(problem.poset.leaves) if rule.leaves else np.arange(len(specificity), dtype=np.int32)
    node = node[np.argsort(specificity[node], kind="stable")]
    start = np.searchsorted(specificity[node], np.arange(problem.cost.shape[1] + 1))
    return TabledRand(rule, jnp.asarray(node), jnp.asarray(start, jnp.int32), rows_for(problem))
