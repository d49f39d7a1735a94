"""A batch simulator in JAX for exploration-exploitation systems: thousands of runs advance together.

``simulate`` runs policies on problems; ``jaxbandit.cleaning`` has the first family of both; ``jaxbandit.study`` and the
command line run, store and draw whole studies.
"""

from typing import TYPE_CHECKING, Any

from jaxbandit.errors import BadInput

if TYPE_CHECKING:
    from jaxbandit.engine import Policy, Problem, simulate

__version__ = "0.1.0"

__all__ = ["BadInput", "Policy", "Problem", "__version__", "simulate"]


def __getattr__(name: str) -> Any:
    """The engine's names, imported when asked for: a command's help must not wait for JAX."""
    if name in ("Policy", "Problem", "simulate"):
        from jaxbandit import engine

        return getattr(engine, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
