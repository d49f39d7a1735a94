"""known-sc: the reference that knows every sc-probability (Cheng et al. 2010, section 3.3).

Entities in descending order of sc-probability, each cleaned to the end before the next.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.problem import InformedPull, Outcome, Totals, View
from jaxbandit.contract import brief
from jaxbandit.grammar import Execution
from jaxbandit.random.race import UNLIMITED


class State(NamedTuple):
    """``rank`` of the entity at hand, with ``tried`` and ``gained`` on it (int32); ``height``: see ``View.best``."""

    rank: Array
    height: Array
    tried: Array
    gained: Array
    totals: Totals


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KnownSc:
    """It has no parameters."""

    execution = Execution(masked=True)

    __repr__ = brief

    def init(self, view: View) -> State:
        """At the best entity."""
        zero = jnp.int32(0)
        return State(zero, jnp.float32(0), zero, zero, Totals.zero())

    def ask(self, view: View, state: State) -> InformedPull:
        """Clean the entity at hand to the end."""
        entity, probability, _ = view.best(state.rank, state.height)
        return InformedPull(
            entity=entity,
            attempt=state.tried,
            successes=view.false_values(entity) - state.gained,
            failures=jnp.int32(UNLIMITED),
            cleans=jnp.where(state.rank < view.entities, view.budget - state.totals.spent, 0),
            probability=probability,
        )

    def tell(self, view: View, state: State, pull: InformedPull, outcome: Outcome) -> State:
        """Go on, or to the next entity in rank."""
        clean = (outcome.cleans > 0) & (outcome.removed == pull.successes)
        _, _, height = view.best(state.rank, state.height)
        return State(
            rank=state.rank + clean.astype(jnp.int32),
            height=jnp.where(clean, height, state.height),
            tried=jnp.where(clean, 0, state.tried + outcome.cleans),
            gained=jnp.where(clean, 0, state.gained + outcome.removed),
            totals=state.totals.add(outcome, clean),
        )

    def done(self, view: View, state: State) -> Array:
        """The budget is spent, or every entity is clean."""
        return (state.totals.spent >= view.budget) | (state.rank >= view.entities)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Totals``."""
        return state.totals.answer()
