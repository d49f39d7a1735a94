"""Index policies: an arm's index is a number made of the arm's own record, and the arm with the largest one is pulled.

UCB (Auer, Cesa-Bianchi and Fischer, "Finite-time analysis of the multiarmed bandit problem", Machine Learning 2002) is
of this form, and so are many rules that users write. A class of theirs has the index alone; the rest is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.contract import breach
from jaxbandit.describe import brief, is_array, type_of
from jaxbandit.errors import BadInput
from jaxbandit.pytree import pytree
from jaxbandit.topk.empirical import largest

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32, Num


class State(NamedTuple):
    """Holds the sum of each arm's rewards (``total``), how often it was pulled (``pulls``), which arms gave nothing
    when pulled last, as their records have ended (``ended``), and each arm's index (``indices``): infinite before its
    first pull, and -infinite after its end. As the state holds it, ``jaxbandit.check`` finds an index that is NaN."""

    total: Num[Array, " arms"]
    pulls: Int32[Array, " arms"]
    ended: Bool[Array, " arms"]
    indices: Float32[Array, " arms"]


@pytree
@dataclass(frozen=True)
class IndexPolicy(ABC):
    """Is the base of rules that pull the arm with the largest index until the budget is spent: a subclass says what the
    ``index`` is, and may add fields. ``want``: K. First each arm is pulled once, as far as the budget goes. Of equal
    indices the lower arm's counts as the larger; arms are numbered in a random order. The answer is the K largest
    means.

    Example:
        >>> from dataclasses import dataclass
        >>> import jax
        >>> import jax.numpy as jnp
        >>> from jaxbandit import topk
        >>> @jax.tree_util.register_dataclass
        ... @dataclass(frozen=True)
        ... class UCB(topk.IndexPolicy):
        ...     width: jax.Array
        ...
        ...     def index(self, view, mean, pulls):
        ...         return mean + jnp.sqrt(self.width * jnp.log(jnp.sum(pulls)) / pulls)
        >>> index = UCB(jnp.int32(2), jnp.float32(2)).index(None, jnp.array([0.5, 0.25]), jnp.array([4, 1]))
        >>> [round(each, 2) for each in index.tolist()]
        [1.4, 2.04]
    """

    want: Int32[Array, ""]

    state_from: ClassVar[dict[str, str]] = {".indices": "index"}
    """Of leaves of the state, which method of a subclass they come from: ``jaxbandit.check`` complains of that one."""

    __repr__ = brief

    @abstractmethod
    def index(self, view: View, mean: Float32[Array, " arms"], pulls: Int32[Array, " arms"]) -> Float32[Array, " arms"]:
        """Returns the index of each arm.

        Args:
            view: what is known of the run.
            mean: the mean of each arm's rewards, float32.
            pulls: how often each arm was pulled, int32, at least once.
        """

    def init(self, view: View) -> State:
        """Begins with no pulls."""
        nothing, never = jnp.zeros(view.arms, jnp.int32), jnp.zeros(view.arms, bool)
        return State(view.nothing((view.arms,)), nothing, never, jnp.full(view.arms, jnp.inf, jnp.float32))

    def ask(self, view: View, state: State) -> Pull:
        """Pulls an arm that was never pulled, or else the one with the largest index."""
        arm = jnp.argmax(state.indices).astype(jnp.int32)
        return Pull(arm[None], first=state.pulls[arm][None], times=jnp.int32(1), used=jnp.int32(1), few=True)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Adds the reward to the record of the arm, and finds the indices anew.

        Raises:
            BadInput: where ``index`` raises something, or there is not one index for each arm.
        """
        total, pulls = state.total.at[pull.arm].add(outcome.total), state.pulls.at[pull.arm].add(outcome.made)
        ended = state.ended.at[pull.arm].set(outcome.made == 0)
        known = jnp.maximum(pulls, 1)
        name = f"policy {type(self).__name__}.index"
        try:
            index = self.index(view, total.astype(jnp.float32) / known.astype(jnp.float32), known)
        except BadInput:
            raise
        except Exception as error:  # of a method that its author wrote, as this one is not
            raise breach(name, error) from error
        if not is_array(index) or jnp.shape(index) != (view.arms,):
            found = f"an array of shape {jnp.shape(index)}" if is_array(index) else type_of(index)
            raise BadInput(name, found, f"shape ({view.arms},), an index of each arm; see docs/own-index.md")
        index = jnp.where(ended, -jnp.inf, jnp.where(pulls == 0, jnp.inf, index))
        return State(total, pulls, ended, index.astype(jnp.float32))

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when the budget is spent, or no arm has a reward left."""
        return (jnp.sum(state.pulls) >= view.budget) | jnp.all(state.ended)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Chooses the K largest means."""
        return {"chosen": largest(view.mean(state.total, state.pulls), self.want), "arm_pulls": state.pulls}
