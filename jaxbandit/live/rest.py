"""The rest of a session as a problem and a policy that are simulated: what the forecasts of all families stand on."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.grammar import Execution, Policy, Problem, Tree, execution_of
from jaxbandit.pytree import pytree
from jaxbandit.wilson import Z


def _forwarding(grammar: type, field: str) -> Any:
    """Makes a base class that takes whatever a subclass does not define from the problem or policy in its ``field``:
    the methods that ``grammar`` declares, and what is optional in the grammar where that one has it."""

    def method(name: str) -> Any:
        return lambda self, *given: getattr(getattr(self, field), name)(*given)

    declared = {name: method(name) for name in vars(grammar) if not name.startswith("_")}
    other = {"__getattr__": lambda self, name: getattr(object.__getattribute__(self, field), name)}
    return type(f"{grammar.__name__}Forwarding", (), declared | other)


_OfProblem: Any = _forwarding(Problem, "problem")
_OfPolicy: Any = _forwarding(Policy, "policy")


@pytree
@dataclass(frozen=True)
class Rest(_OfProblem):  # type: ignore[misc]
    """Stands for the session's problem, as far as a family's subclass does not override it."""

    problem: Any


@pytree
@dataclass(frozen=True)
class Continued(_OfPolicy):  # type: ignore[misc]
    """Runs the session's policy on, beginning with the state that it has reached in the session."""

    policy: Any
    state: Tree

    @property
    def execution(self) -> Execution:
        """Returns the policy's hints for the engine, without scratch fields: here a run begins with their contents."""
        return replace(execution_of(self.policy), scratch=(), many_steps="")

    def init(self, view: Any) -> Tree:
        """Returns the state that the policy has reached in the session."""
        return self.state


@pytree
@dataclass(frozen=True)
class Paid(Continued):
    """Runs the session's policy on, and counts what its pulls cost."""

    @property
    def execution(self) -> Execution:
        """Returns the policy's hints, but for ``masked``: a run that is out of money may end before the policy does."""
        return replace(super().execution, masked=False)

    def advance(self, view: Any, state: Any, sample: Callable[[Tree], Tree]) -> Any:
        """Makes one pull, also where the policy could make several, as money is counted by the pull."""
        pull = self.ask(view, state)
        return self.tell(view, state, pull, sample(pull))


class SpentState(NamedTuple):
    """Holds the policy's own state, and what was ``paid`` since (int32)."""

    inner: Tree
    paid: Array


@pytree
@dataclass(frozen=True)
class Afforded(Paid):
    """Runs the session's policy on until a pull would cost more than what is ``left`` of the money (int32). In the
    session, such a pull is not answered to its end either, and the policy is not told of it. ``prices``: says by its
    method ``cost`` what is still to be paid for a pull (int32)."""

    prices: Any
    left: Array

    def init(self, view: Any) -> Any:
        """Returns the state that the policy has reached, with nothing paid since."""
        return SpentState(self.state, jnp.int32(0))

    def ask(self, view: Any, state: Any) -> Tree:
        """Asks for the policy's next pull."""
        return self.policy.ask(view, state.inner)

    def tell(self, view: Any, state: Any, pull: Tree, outcome: Tree) -> Any:
        """Counts what the pull costs, and tells the policy its outcome where the money is enough for it."""
        paid = state.paid + self.prices.cost(pull)
        inner, told = state.inner, self.policy.tell(view, state.inner, pull, outcome)
        return SpentState(jax.tree.map(lambda new, old: jnp.where(paid <= self.left, new, old), told, inner), paid)

    def done(self, view: Any, state: Any) -> Array:
        """Returns whether the policy is done, or the money was not enough for a pull."""
        return self.policy.done(view, state.inner) | (state.paid > self.left)  # type: ignore[no-any-return]

    def answer(self, view: Any, state: Any) -> dict[str, Array]:
        """Returns what the policy answers."""
        return self.policy.answer(view, state.inner)  # type: ignore[no-any-return]


def room(most: int, least: int) -> int:
    """Returns a power of two, at least both numbers: arrays of few sizes are compiled for."""
    return max(least, 1 << (most - 1).bit_length())


def interval(gain: np.ndarray) -> dict[str, Any]:
    """Returns the 95 % interval of the mean of simulated gains, ``ci_low`` to ``ci_high``, and the number of runs."""
    half = Z * gain.std(ddof=1) / gain.size**0.5
    return {"ci_low": gain.mean() - half, "ci_high": gain.mean() + half, "runs": gain.size}


def bought(name: str, gain: np.ndarray) -> dict[str, Any]:
    """Returns the mean of simulated gains under ``name``, its ``interval``, and their quantiles ``p5`` and ``p95``."""
    low, high = (float(np.quantile(gain, share)) for share in (0.05, 0.95))
    return {name: gain.mean(), "p5": low, "p95": high} | interval(gain)
