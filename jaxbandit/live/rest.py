"""The rest of a session as a problem and a policy that are simulated: what the forecasts of all families stand on."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

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


def interval(gain: np.ndarray) -> dict[str, Any]:
    """Returns the 95 % interval of the mean of simulated gains, ``ci_low`` to ``ci_high``, and the number of runs."""
    half = Z * gain.std(ddof=1) / gain.size**0.5
    return {"ci_low": gain.mean() - half, "ci_high": gain.mean() + half, "runs": gain.size}


def bought(name: str, gain: np.ndarray) -> dict[str, Any]:
    """Returns the mean of simulated gains under ``name``, its ``interval``, and their quantiles ``p5`` and ``p95``."""
    low, high = (float(np.quantile(gain, share)) for share in (0.05, 0.95))
    return {name: gain.mean(), "p5": low, "p95": high} | interval(gain)
