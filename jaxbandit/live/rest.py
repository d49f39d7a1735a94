"""The rest of a session as a problem and a policy that are simulated: what the forecasts of all families stand on."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import Array

from jaxbandit.grammar import Tree
from jaxbandit.random.stream import Stream


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rest:
    """The session's problem, as far as a family does not override it."""

    problem: Any

    @property
    def budget(self) -> Array:
        """Of the whole session."""
        budget: Array = self.problem.budget
        return budget

    def draw(self, key: Stream) -> Any:
        """As the problem does."""
        return self.problem.draw(key)

    def view(self, key: Stream, instance: Any) -> Any:
        """As in the session."""
        return self.problem.view(key, instance)

    def pull(self, key: Stream, instance: Any, pull: Any) -> Any:
        """As the problem does."""
        return self.problem.pull(key, instance, pull)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Continued:
    """The session's policy, from the state that it reached."""

    policy: Any
    state: Tree

    def init(self, view: Any) -> Tree:
        """The state reached."""
        return self.state

    def ask(self, view: Any, state: Tree) -> Tree:
        """As the policy does."""
        return self.policy.ask(view, state)

    def tell(self, view: Any, state: Tree, pull: Tree, outcome: Tree) -> Tree:
        """As the policy does."""
        return self.policy.tell(view, state, pull, outcome)

    def done(self, view: Any, state: Tree) -> Array:
        """As the policy does."""
        return self.policy.done(view, state)  # type: ignore[no-any-return]

    def answer(self, view: Any, state: Tree) -> dict[str, Array]:
        """As the policy does."""
        return self.policy.answer(view, state)  # type: ignore[no-any-return]


def interval(gain: np.ndarray) -> dict[str, Any]:
    """The 95 % interval of the mean of simulated gains, ``ci_low`` to ``ci_high``, and of how many ``runs``."""
    half = 1.96 * gain.std(ddof=1) / gain.size**0.5
    return {"ci_low": gain.mean() - half, "ci_high": gain.mean() + half, "runs": gain.size}


def bought(name: str, gain: np.ndarray) -> dict[str, Any]:
    """The mean of simulated gains under ``name``, its interval, and between which numbers 90 % of them are."""
    low, high = (float(np.quantile(gain, share)) for share in (0.05, 0.95))
    return {name: gain.mean(), "p5": low, "p95": high} | interval(gain)
