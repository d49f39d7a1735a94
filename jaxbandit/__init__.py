"""A batch simulator in JAX for exploration-exploitation systems: thousands of runs advance together.

``simulate`` runs policies on problems. A whole study, stored and resumed, comes from a file (``load_study``), a mapping
(``Study.of``) or objects (``experiment``); ``run_study`` runs it, ``open_results`` opens what was stored, ``plot`` and
``table`` show it. The families have packages of their own, as ``jaxbandit.cleaning``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jaxbandit.errors import BadInput

if TYPE_CHECKING:
    from jaxbandit.conformance import check
    from jaxbandit.engine import simulate
    from jaxbandit.grammar import Execution, Policy, Problem
    from jaxbandit.study.compare import paired_differences, quantiles, ranks
    from jaxbandit.study.display import plot, table
    from jaxbandit.study.objects import experiment, run_study
    from jaxbandit.study.results import open_results
    from jaxbandit.study.spec import Study
    from jaxbandit.study.spec import load as load_study

__version__ = "0.1.0"

__all__ = [
    "BadInput", "Execution", "Policy", "Problem", "Study", "__version__", "check", "experiment", "load_study",
    "open_results", "paired_differences", "plot", "quantiles", "ranks", "run_study", "simulate", "table",
]  # fmt: skip

_HOMES = {
    "conformance": ("check",),
    "engine": ("simulate",),
    "grammar": ("Execution", "Policy", "Problem"),
    "study.compare": ("paired_differences", "quantiles", "ranks"),
    "study.display": ("plot", "table"),
    "study.objects": ("experiment", "run_study"),
    "study.results": ("open_results",),
    "study.spec": ("Study", "load_study"),
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are asked for: a command's help must not wait for JAX."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"jaxbandit.{home}"), "load" if name == "load_study" else name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
