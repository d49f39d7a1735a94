"""Uniform sampling: every arm equally often, then the K largest means (Zhou, Chen and Li 2014, section 6, Remark 4.2).

It does not plan for its budget, so one run gives its answers at smaller budgets too (``simulate``'s checkpoints).
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.prefix import best
from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.contract import brief
from jaxbandit.grammar import Execution


class State(NamedTuple):
    """``total``: the sum of an arm's rewards; ``made``: its pulls (int32); both of shape (arms,). ``asked`` (int32):
    pulls asked for in each arm; ``extra``: the same of the pulls left over."""

    total: Array
    made: Array
    asked: Array
    extra: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Uniform:
    """``want``: K (int32); ``spread``: whether the Q mod n pulls that are left over go to one arm each, else nobody
    gets them (bool)."""

    want: Array
    spread: Array

    execution = Execution(stride=1, in_cache=True, masked=True)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Nothing pulled."""
        zeros, zero = jnp.zeros((view.arms,), jnp.int32), jnp.int32(0)
        return State(view.nothing((view.arms,)), zeros, zero, zero)

    def _extra(self, view: View) -> Array:
        return jnp.where(self.spread, view.budget % view.arms, 0)

    def ask(self, view: View, state: State) -> Pull:
        """All that is left to pull at once."""
        arm = jnp.arange(view.arms, dtype=jnp.int32)
        share = view.budget // view.arms + (arm < self._extra(view)).astype(jnp.int32)
        count = jnp.maximum(share - state.asked - (arm < state.extra).astype(jnp.int32), 0)
        over = self.done(view, state)
        return Pull(arm, state.made, jnp.where(over, 0, count), jnp.where(over, 0, view.arms))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Add it up."""
        asked, extra = (
            jnp.where(pull.used > 0, new, old)
            for new, old in ((view.budget // view.arms, state.asked), (self._extra(view), state.extra))
        )
        return State(state.total + outcome.total, state.made + outcome.made, asked, extra)

    def done(self, view: View, state: State) -> Array:
        """Every arm was pulled its share."""
        return (state.asked >= view.budget // view.arms) & (state.extra >= self._extra(view))

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """The K largest means, ties to the lower arm."""
        chosen, _ = best(view.mean(state.total, state.made), self.want, jnp.ones(view.arms, bool))
        return {"chosen": chosen, "arm_pulls": state.made}


def uniform(want: int, spread: bool = False) -> Uniform:
    """Uniform sampling for ``want`` arms; see ``Uniform``."""
    return Uniform(jnp.int32(want), jnp.bool_(spread))
