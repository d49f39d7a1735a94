"""Uniform sampling pulls every arm equally often and chooses the K largest means (Zhou, Chen and Li 2014, section 6 and
Remark 4.2).

It does not plan for its budget, so one run gives its answers at smaller budgets too (``simulate``'s checkpoints).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.describe import brief
from jaxbandit.parameters import checked
from jaxbandit.pytree import pytree
from jaxbandit.topk.empirical import largest
from jaxbandit.topk.given import Remainder, Want

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Num


class State(NamedTuple):
    """Holds the sum of each arm's rewards (``total``), how often it was pulled (``pulls``), and the part of the budget
    that is ``spent``."""

    total: Num[Array, " arms"]
    pulls: Int32[Array, " arms"]
    spent: Int32[Array, ""]


@pytree
@dataclass(frozen=True)
class Uniform:
    """Selects arms by uniform sampling (Zhou, Chen and Li 2014, section 6). ``want``: K; ``spread``: whether the Q mod
    n pulls that are left over go to one arm each, else they are not made.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import random, topk
        >>> from jaxbandit.arms.problem import View
        >>> from jaxbandit.arms.rewards import Scale
        >>> view = View(jnp.int32(10), arms=4, even=True, scale=Scale(whole=True), choices=random.stream(0, 0))
        >>> rules = topk.uniform(2), topk.uniform(2, remainder="spread")
        >>> [rule.ask(view, rule.init(view)).times.tolist() for rule in rules]
        [[2, 2, 2, 2], [3, 3, 2, 2]]
    """

    want: Int32[Array, ""]
    spread: Bool[Array, ""]

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins with no pulls and no rewards."""
        return State(view.nothing((view.arms,)), jnp.zeros(view.arms, jnp.int32), jnp.int32(0))

    def _share(self, view: View, budget: Array) -> Array:
        """Returns how often each arm is pulled within a budget."""
        arm = jnp.arange(view.arms, dtype=jnp.int32)
        return budget // view.arms + (self.spread & (arm < budget % view.arms)).astype(jnp.int32)

    def ask(self, view: View, state: State) -> Pull:
        """Pulls all arms at once as often as the budget allows; a budget that was raised asks for the difference."""
        arm = jnp.arange(view.arms, dtype=jnp.int32)
        times = self._share(view, view.budget) - self._share(view, state.spent)
        return Pull(arm, first=state.pulls, times=times, used=jnp.int32(view.arms))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Adds the rewards, and notes that the budget is spent."""
        return State(state.total + outcome.total, state.pulls + outcome.made, view.budget)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when every arm was pulled its share of the budget."""
        return state.spent >= view.budget

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Chooses the K largest means; of equal means, the lower arm's comes first."""
        return {"chosen": largest(view.mean(state.total, state.pulls), self.want), "arm_pulls": state.pulls}


@checked
def uniform(want: Want, *, remainder: Remainder = "drop") -> Uniform:
    """Makes uniform sampling that chooses ``want`` arms.

    Args:
        want: K.
        remainder: what becomes of Q mod n pulls: "drop", or "spread" over as many arms, the lower ones (which win
            ties, too).

    Raises:
        BadInput: for an argument out of range.

    Example:
        >>> from jaxbandit import topk
        >>> int(topk.uniform(10).want)
        10
    """
    return Uniform(jnp.int32(want), jnp.bool_(remainder == "spread"))
