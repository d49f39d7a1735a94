"""Studies from Python: of problems and policies that are objects, a user's own ones among them."""

import hashlib
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxbandit.conformance import check_once
from jaxbandit.contract import inspect
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Policy, Problem
from jaxbandit.registry import Family, Metric, Parameter, PolicyKind, ProblemKind, one_of, real
from jaxbandit.study import picture
from jaxbandit.study.results import open_results
from jaxbandit.study.run import Progress, run
from jaxbandit.study.spec import Study

if TYPE_CHECKING:
    import xarray as xr

Values = Callable[[Any, Mapping[str, np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class _Setting:
    """A problem, as metrics see it: all of its attributes, ``budget`` being that of the checkpoint."""

    given: Any
    budget: float | None

    def problem(self) -> Any:
        return self.given

    def __getattr__(self, name: str) -> Any:
        return getattr(self.given, name)


def experiment(
    problem: Problem | Mapping[str, Problem],
    policies: Mapping[str, Policy | Callable[[Any], Policy]],
    metrics: Mapping[str, Values] | Sequence[Metric],
    *,
    runs: int,
    seed: int = 0,
    checkpoints: Sequence[float] = (),
    stop_when: Mapping[str, Any] | None = None,
    check: bool = True,
) -> Study:
    """A study of objects: it is stored, continued, stopped and reported as one of a study file, and given more runs.

    Args:
        problem: see ``jaxbandit.Problem``; several by name are swept, as the parameter ``problem``.
        policies: by name; or functions from the problem to the policy, where it is tuned to it.
        metrics: by name, functions ``(problem, answers) -> float64 of shape (runs,)`` of what the policies answer, each
            of shape (runs, ...). The first one is what is drawn. ``Metric`` gives a label too, and says whether lower
            values are better.
        runs, seed: as in a study file.
        checkpoints: budgets below the problem's field ``budget`` at which each run is recorded too; for policies that
            do not plan for their budget.
        stop_when: as in a study file; ``runs`` is then the most.
        check: whether a few lanes of each structure are run first: see ``jaxbandit.check``. Neither this nor
            ``run_study`` does so where it is False.

    Raises:
        BadInput: naming the argument, or what breaks the contract of a problem or a policy.

    What the objects are counts by their classes' names and their values, so that a folder of results belongs to them; a
    function that is changed is not noticed.
    """
    problems = dict(problem) if isinstance(problem, Mapping) else {"given": problem}
    _check_names("problem", problems, lambda each: True, "of problems by name")
    _check_names("policies", policies, lambda each: each is not None, "of policies by name")
    for each in problems.values():
        inspect("problem", each)
    for own in policies.values():
        if isinstance(own, type) or not callable(own):
            inspect("policy", own)
    if isinstance(metrics, Mapping):
        _check_names("metrics", metrics, callable, "of functions by name")
        measured = tuple(Metric(name, name, of) for name, of in metrics.items())
    elif isinstance(metrics, list | tuple) and metrics and all(isinstance(each, Metric) for each in metrics):
        measured = tuple(metrics)
    else:
        raise BadInput("metrics", metrics, "a dict of functions by name, or a list of Metric")
    names = [each.name for each in measured]
    for name in names:
        if not re.fullmatch(r"[A-Za-z][\w-]*", name) or name in _TAKEN or names.count(name) > 1:
            raise BadInput(
                "metrics", name, f"names of letters, digits, _ and -, each once, none of {', '.join(_TAKEN)}"
            )
    if not isinstance(checkpoints, list | tuple | np.ndarray):
        raise BadInput("checkpoints", checkpoints, "a list of budgets")

    def built(policy: Any) -> Callable[[_Setting], tuple[Policy, dict[str, Any]]]:
        return lambda setting: (policy(setting.given) if callable(policy) else policy, {})

    budgets = {getattr(each, "budget", None) is None or float(each.budget) for each in problems.values()}  # type: ignore[attr-defined]
    parameters = [Parameter("problem", one_of(*problems), "one of the problems", next(iter(problems)))]
    table: dict[str, Any] = {"kind": "experiment/given"}
    if len(checkpoints):
        if len(budgets) > 1 or True in budgets:
            raise BadInput("checkpoints", list(checkpoints), "none, where problems have no budget or different ones")
        table["budget"] = budgets.pop()
        parameters.append(Parameter("budget", real(0, 2.0**31), "the problem's"))

    def setting(problem: str, budget: float | None = None) -> _Setting:
        return _Setting(problems[problem], budget if budget is not None else getattr(problems[problem], "budget", None))

    family = Family(
        "experiment",
        {"given": ProblemKind("given", "problems given as objects", tuple(parameters), setting)},
        {
            name: PolicyKind(name, "given as an object", (), built(policy), anytime=True)
            for name, policy in policies.items()
        },
        measured,
        fingerprint=_fingerprint(problems, policies, measured),
        checked=True,
    )
    mapping: dict[str, Any] = {"seed": seed, "runs": runs, "problem": table}
    mapping |= {"policy": [{"kind": name} for name in policies], "checkpoints": np.asarray(checkpoints).tolist()}
    if isinstance(problem, Mapping):
        mapping["sweep"] = {"problem": list(problems)}
    if stop_when is not None:
        mapping["stop_when"] = stop_when
    study = Study.of(mapping, family=family)
    if check:
        check_once((each.problem, each.policy) for each in study.configurations())
    return study


_TAKEN = ("policy", "problem", "run", "checkpoint", "kind", "done")


def _check_names(field: str, given: Any, sound: Callable[[Any], bool], what: str) -> None:
    if not isinstance(given, Mapping) or not given:
        raise BadInput(field, given if given else "none", f"a dict {what}, at least one")
    for name, each in given.items():
        if not isinstance(name, str) or not name or not sound(each):
            raise BadInput(field, f"{name!r}: {each!r}", f"a dict {what}")


def _fingerprint(problems: Mapping[str, Any], policies: Mapping[str, Any], metrics: Sequence[Metric]) -> str:
    """SHA-256 of what the objects are: policies only of those that are no functions."""
    found = hashlib.sha256()
    for name, each in [*problems.items(), *sorted(policies.items()), *((metric.name, None) for metric in metrics)]:
        found.update(f"{name} {type(each).__module__}.{type(each).__qualname__}".encode())
        if not callable(each):
            leaves, treedef = jax.tree.flatten(each)
            found.update(str(treedef).encode())
            for leaf in map(np.asarray, leaves):
                found.update(f"{leaf.dtype} {leaf.shape}".encode() + leaf.tobytes())
    return found.hexdigest()


def run_study(
    study: Study,
    out: Path | str | None = None,
    *,
    progress: Progress | None = None,
    executor: Executor | None = None,
    check: bool = True,
) -> "xr.Dataset":
    """Runs a study, or what is missing of it, and opens its results.

    Args:
        study: of ``load_study``, ``Study.of`` or ``experiment``.
        out: the folder of results; where None they are kept in memory alone.
        progress, executor, check: see ``jaxbandit.study.run.run``.

    Returns:
        See ``open_results``. ``summary.json`` in ``out`` has the rows with their intervals, ``figure.png`` the picture
        that ``plot`` draws.

    Raises:
        BadInput: see ``jaxbandit.study.run.run``.
    """
    if out is not None:
        rows = run(study, out, progress, executor=executor, check=check)
        drawing = picture.of_rows(rows, study.swept, Path(out).resolve().name, study.labels_of_axes)
        picture.save(Path(out), drawing)
        return open_results(out)
    with tempfile.TemporaryDirectory() as place:
        run(study, place, progress, executor=executor, check=check)
        return open_results(place).load()


__all__ = ["experiment", "run_study"]
