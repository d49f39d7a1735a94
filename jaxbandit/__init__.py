"""A batch simulator in JAX for exploration-exploitation systems: thousands of runs advance together.

A tour::

    from jaxbandit import cleaning, simulate
    problem = cleaning.synthetic(
        budget=1_000, entities=50_000, false_values=cleaning.uniform_false_values(0, 19), sc_pdf=cleaning.Uniform()
    )
    answers = simulate(problem, cleaning.ee(3, 0.667), runs=500)  # arrays by name, of shape (1, 500)

- ``simulate`` runs policies on problems, which the families have: ``cleaning``, ``topk``, ``outliers``, ``extraction``.
- A study is stored, continued and stopped when it knows enough: ``load_study`` reads one from a file, ``Study.of`` from
  a mapping, ``experiment`` takes objects. ``run_study`` runs it, ``open_results`` opens what was stored; ``plot`` and
  ``table`` show it, and ``paired_differences``, ``ranks`` and ``quantiles`` compare its policies.
- ``tune`` finds the best policy and parameters for a problem, and says how sure that is; ``train`` trains a policy.
- A ``Problem`` and a ``Policy`` of one's own are classes of a few methods, and ``Execution`` says how the engine runs
  one best. ``check`` finds what is wrong with them, ``testing.conformance`` does so in a test suite, and
  ``register_policy`` makes one known to study files.
- ``cache`` keeps compiled programs on disk for the next process, as the command line does.
- ``BadInput`` is the error that a user's input can cause, one line that says where, what and what is allowed.

``help(jaxbandit.simulate)`` tells more, and so does each of the others. On the command line: ``jaxbandit list``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jaxbandit.errors import BadInput
from jaxbandit.programs.imported import WHEN as _WHEN  # noqa: F401  (notes the time)

if TYPE_CHECKING:
    from jaxbandit.conformance import check
    from jaxbandit.engine import simulate
    from jaxbandit.grammar import Execution, Policy, Problem
    from jaxbandit.programs.cache import cache
    from jaxbandit.study.compare import paired_differences, quantiles, ranks
    from jaxbandit.study.display import plot, table
    from jaxbandit.study.objects import experiment, run_study
    from jaxbandit.study.plugins import register_policy
    from jaxbandit.study.results import open_results
    from jaxbandit.study.spec import Study
    from jaxbandit.study.spec import load as load_study
    from jaxbandit.tuning import tune
    from jaxbandit.tuning.train import train

__version__ = "0.2.0"
"""The version of the package, which folders of results keep."""

_MODULES = ("cleaning", "extraction", "outliers", "testing", "topk")

__all__ = [
    "BadInput", "Execution", "Policy", "Problem", "Study", "__version__", "cache", "check", "experiment", "load_study",
    "open_results", "paired_differences", "plot", "quantiles", "ranks", "register_policy", "run_study", "simulate",
    "table", "train", "tune",
]  # fmt: skip

_HOMES = {
    "programs.cache": ("cache",),
    "conformance": ("check",),
    "engine": ("simulate",),
    "grammar": ("Execution", "Policy", "Problem"),
    "study.compare": ("paired_differences", "quantiles", "ranks"),
    "study.display": ("plot", "table"),
    "study.objects": ("experiment", "run_study"),
    "study.plugins": ("register_policy",),
    "study.results": ("open_results",),
    "study.spec": ("Study", "load_study"),
    "tuning": ("train", "tune"),
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are asked for: a command's help must not wait for JAX."""
    if name in _MODULES:
        return importlib.import_module(f"jaxbandit.{name}")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"jaxbandit.{home}"), "load" if name == "load_study" else name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, for tab completion."""
    return sorted([*__all__, *_MODULES])
