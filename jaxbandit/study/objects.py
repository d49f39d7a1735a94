"""Studies from Python: of problems and policies that are objects, a user's own ones among them."""

import hashlib
import inspect
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxbandit import contract
from jaxbandit.conformance import check_once
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Policy, Problem
from jaxbandit.progress import Progress, shown
from jaxbandit.registry import Family, Metric, Parameter, PolicyKind, ProblemKind, one_of, real
from jaxbandit.study import picture
from jaxbandit.study.results import IMPLEMENTED_BY, open_results
from jaxbandit.study.run import run
from jaxbandit.study.sources import source_of
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import identity, plain

if TYPE_CHECKING:
    import xarray as xr

Values = Callable[[Any, Mapping[str, np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class _GivenProblem:
    """Shows a problem to metrics: all of its attributes, ``budget`` being that of the checkpoint."""

    given: Any
    budget: float | None
    swept_values: Mapping[str, Any]

    def problem(self) -> Any:
        return self.given

    def __getattr__(self, name: str) -> Any:
        return getattr(self.given, name)


def experiment(
    problem: Problem | Mapping[str, Problem] | Callable[..., Problem],
    policies: Mapping[str, Policy | Callable[..., Policy]],
    metrics: Mapping[str, Values] | Sequence[Metric],
    *,
    runs: int,
    seed: int = 0,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    checkpoints: Sequence[float] = (),
    stop_when: Mapping[str, Any] | None = None,
    check: bool = True,
) -> Study:
    """Returns a study of objects: it is stored, continued, stopped and reported as one of a study file, and given more
    runs.

    Args:
        problem: see ``jaxbandit.Problem``; several by name are swept, as the parameter ``problem``; a function makes
            problems of swept values, which it takes by name.
        policies: by name; or functions from the problem to the policy, where it is tuned to it. Such a function takes
            swept values by name, too.
        metrics: by name, functions ``(problem, answers) -> float64 of shape (runs,)`` of what the policies answer, each
            of shape (runs, ...). The first one is what is drawn. ``Metric`` gives a label too, and says whether lower
            values are better.
        runs, seed: as in a study file.
        sweep: lists of numbers or texts by name, as ``{"gap": [0.1, 0.2]}`` for ``lambda gap: Bandit(gap)`` and
            ``{"width": [1.0, 2.0]}`` for ``lambda problem, width: UCB(width)``. Every combination is run.
        checkpoints: budgets below the problem's field ``budget`` at which each run is recorded too; for policies that
            do not plan for their budget.
        stop_when: as in a study file; ``runs`` is then the most.
        check: whether a few lanes of each structure are run first: see ``jaxbandit.check``. Neither this nor
            ``run_study`` does so where it is False.

    The x axis of the picture is the first list of numbers: ``checkpoints``, or else the first one in ``sweep``.

    Raises:
        BadInput: naming the argument, or what breaks the contract of a problem or a policy.

    What the objects are counts by their classes' names and their values, and by the source files of their classes and
    of functions, so that a folder of results belongs to them: an edit of such a file makes another study.

    Example:
        >>> from jaxbandit import cleaning, experiment, run_study
        >>> problem = cleaning.synthetic(
        ...     budget=100, entities=1_000, false_values=cleaning.uniform_false_values(0, 9), sc_pdf=cleaning.Uniform()
        ... )
        >>> share = {"share": lambda problem, answers: answers["removed"] / 100}
        >>> study = experiment(problem, {"ee": cleaning.ee(3, 0.667)}, share, runs=20)
        >>> run_study(study, progress=False)["share"].sizes["run"]
        20
    """
    swept = _swept(sweep)
    made_by = _takes("problem", problem, swept) if callable(problem) and not hasattr(problem, "draw") else None
    problems = _problems(problem, made_by, swept)
    _check_objects(problems, policies)
    kinds = {name: _kind(name, policy, swept, made_by or ()) for name, policy in policies.items()}
    used = {each.name for kind in kinds.values() for each in kind.parameters} | set(made_by or ())
    for name in swept:
        if name not in used:
            takes = f"a policy's takes the problem first: lambda problem, {name}: ..."
            raise BadInput("sweep", name, f"a parameter of a function that makes the problem or a policy; {takes}")
    measured = _measured(metrics)
    if not isinstance(checkpoints, list | tuple | np.ndarray):
        raise BadInput("checkpoints", checkpoints, "a list of budgets")

    table: dict[str, Any] = {"kind": "experiment/given"}
    if len(checkpoints):
        table["budget"] = _common_budget(problems, checkpoints)
    family = Family(
        "experiment",
        {"given": _problem_kind(problems, made_by, len(checkpoints) > 0)},
        kinds,
        measured,
        axes=tuple(swept),
        fingerprint=_fingerprint(problems if made_by is None else {"made": problem}, policies, measured),
        checked=True,
    )
    mapping: dict[str, Any] = {"seed": seed, "runs": runs, "problem": table}
    mapping["policy"] = [
        {"kind": name, **{each.name: swept[each.name] for each in kind.parameters}} for name, kind in kinds.items()
    ]
    mapping["checkpoints"] = np.asarray(checkpoints).tolist()
    mapping["sweep"] = {"problem": list(problems)} if isinstance(problem, Mapping) else {}
    mapping["sweep"] |= {name: swept[name] for name in made_by or ()}
    if stop_when is not None:
        mapping["stop_when"] = stop_when
    study = Study.of(mapping, family=family)
    if check:
        check_once((each.problem, each.policy) for each in study.configurations())
    return study


def _check_objects(problems: Mapping[str, Any], policies: Mapping[str, Any]) -> None:
    """Checks that problems and policies have names, and what the engine expects of them."""
    _check_names("problem", problems, lambda each: True, "of problems by name")
    _check_names("policies", policies, lambda each: not isinstance(each, str | None), "of policies by name")
    for each in problems.values():
        contract.inspect("problem", each)
    for own in policies.values():
        if isinstance(own, type) or not callable(own):
            contract.inspect("policy", own)


def _common_budget(problems: Mapping[str, Any], checkpoints: Sequence[float]) -> float:
    """Returns the budget of all problems, which checkpoints are below."""
    given = (getattr(each, "budget", None) for each in problems.values())
    budget, *others = {None if each is None else float(each) for each in given}
    if others or budget is None:
        raise BadInput("checkpoints", list(checkpoints), "none, where problems have no budget or different ones")
    return budget


def _problem_kind(problems: Mapping[str, Any], made_by: Sequence[str] | None, checkpoints: bool) -> ProblemKind:
    """Returns the problems as a family has them. ``checkpoints``: whether there are any, at which the budget is another
    one."""
    if made_by is None:
        parameters = [Parameter("problem", one_of(*problems), "one of the problems", next(iter(problems)))]
    else:
        parameters = [Parameter(name, _scalar, "a value of sweep") for name in made_by]
    if checkpoints:
        parameters.append(Parameter("budget", real(0, 2.0**31), "the problem's"))

    def setting(**values: Any) -> _GivenProblem:
        budget = values.pop("budget") if checkpoints else None
        given = problems[values["problem"] if made_by is None else identity(values)]
        return _GivenProblem(given, budget if budget is not None else getattr(given, "budget", None), values)

    return ProblemKind("given", "problems given as objects", tuple(parameters), setting)


def _problems(problem: Any, made_by: Sequence[str] | None, swept: Mapping[str, Any]) -> dict[str, Problem]:
    """Returns the problems by name, or by the values of ``sweep`` that a function makes them of."""
    if made_by is None:
        return dict(problem) if isinstance(problem, Mapping) else {"given": problem}
    points = (dict(zip(made_by, values, strict=True)) for values in product(*(swept[name] for name in made_by)))
    return {identity(point): contract.made("problem", "problem", problem, **point) for point in points}


def _kind(name: str, policy: Any, swept: Mapping[str, Any], made_by: Sequence[str]) -> PolicyKind:
    """Returns a policy as a family has it. Its parameters are what it takes of ``sweep`` and the problem does not."""
    takes = _takes(name, policy, swept, 1) if callable(policy) else []

    def build(setting: _GivenProblem, **own: Any) -> tuple[Policy, dict[str, Any]]:
        if not callable(policy):
            return policy, {}
        shared = {each: setting.swept_values[each] for each in takes if each in made_by}
        return contract.made(f"policies[{name!r}]", "policy", policy, setting.given, **own, **shared), {}

    parameters = tuple(Parameter(each, _scalar, "a value of sweep") for each in takes if each not in made_by)
    return PolicyKind(name, "given as an object", parameters, build, anytime=True)


def _swept(sweep: Any) -> dict[str, list[Any]]:
    """Checks the lists of ``sweep`` and returns them by name."""
    if not isinstance(sweep, Mapping | None):
        raise BadInput("sweep", sweep, "a dict of lists by name")
    found = {}
    for name, values in (sweep or {}).items():
        if not isinstance(name, str) or name in _TAKEN:
            raise BadInput("sweep", name, f"names of parameters, none of {', '.join(_TAKEN)}")
        found[name] = plain(f"sweep.{name}", values, nulls=False)
        if not isinstance(found[name], list) or not found[name]:
            raise BadInput(f"sweep.{name}", values, "a list of at least one value")
    return found


def _scalar(field: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or value == "":
        raise BadInput(field, value, "a number or a text")
    return value


def _takes(name: str, function: Any, swept: Mapping[str, Any], first: int = 0) -> list[str]:
    """Returns the swept values that a function takes by name, from its parameter number ``first`` on."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[first:]
    except (TypeError, ValueError):  # of some functions that are not written in Python
        return []
    named = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    for each in named:
        if each.default is each.empty and each.name not in swept:
            raise BadInput("sweep", ", ".join(swept) or "none", f"a list for {each.name}, which {name} takes")
    names = {each.name for each in named}
    return [each for each in swept if each in names]


def _measured(metrics: Any) -> tuple[Metric, ...]:
    """Metrics as a family has them, checked."""
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
    return measured


_TAKEN = ("policy", "problem", "run", "checkpoint", "kind", "done", IMPLEMENTED_BY)


def _check_names(field: str, given: Any, sound: Callable[[Any], bool], what: str) -> None:
    if not isinstance(given, Mapping) or not given:
        raise BadInput(field, given if given else "none", f"a dict {what}, at least one")
    for name, each in given.items():
        if not isinstance(name, str) or not name or not sound(each):
            raise BadInput(field, f"{name!r}: {each!r}", f"a dict {what}")


def _fingerprint(problems: Mapping[str, Any], policies: Mapping[str, Any], metrics: Sequence[Metric]) -> str:
    """Returns the SHA-256 of what the objects are: their sources, and the values of those that are no functions."""
    found = hashlib.sha256()
    for name, each in [*problems.items(), *sorted(policies.items()), *((metric.name, metric.of) for metric in metrics)]:
        found.update(f"{name} {type(each).__module__}.{type(each).__qualname__}".encode())
        found.update(source_of(each if callable(each) else type(each)).encode())
        if not callable(each):
            leaves, treedef = jax.tree.flatten(each)
            found.update(str(treedef).encode())
            for leaf in map(np.asarray, leaves):
                found.update(f"{leaf.dtype} {leaf.shape}".encode() + leaf.tobytes())
    return found.hexdigest()


def run_study(
    study: Study | Mapping[str, Any],
    out: Path | str | None = None,
    *,
    progress: Progress | bool = True,
    executor: Executor | None = None,
    max_steps: int | None = None,
    check: bool = True,
) -> "xr.Dataset":
    """Runs a study, or what is missing of it, and opens its results.

    Args:
        study: of ``load_study`` or ``experiment``, or what ``Study.of`` takes.
        out: the folder of results; where None they are kept in memory alone.
        progress: called with a ``Status`` whenever that changes. Where True, it is shown on stderr: as a bar if that is
            a terminal or a notebook's, as a line now and then elsewhere; where False, nothing is.
        executor, check: see ``jaxbandit.study.run.run``.
        max_steps: see ``simulate``.

    Returns:
        See ``open_results``. ``summary.json`` in ``out`` has the rows with their intervals, ``figure.png`` the picture
        that ``plot`` draws.

    Raises:
        BadInput: see ``jaxbandit.study.run.run``.

    Example:
        >>> import jaxbandit
        >>> study = jaxbandit.Study.of(
        ...     {
        ...         "runs": 50,
        ...         "problem": {"kind": "cleaning/synthetic", "entities": 1_000, "budget": 100},
        ...         "policy": [{"kind": "ee", "t": [2, 3], "q": 0.667}],
        ...     }
        ... )
        >>> results = jaxbandit.run_study(study, progress=False)
        >>> results["removed"].sizes["run"]
        50
    """
    if not isinstance(study, Study):
        study = Study.of(study)
    with ExitStack() as held:
        tell = held.enter_context(shown(progress))
        place = out if out is not None else held.enter_context(tempfile.TemporaryDirectory())
        rows = run(study, place, tell, executor=executor, max_steps=max_steps, check=check)
        results = open_results(place)
        if out is None:
            return results.load()
        drawing = picture.of_rows(rows, study.swept, Path(out).resolve().name, study.labels_of_axes)
        picture.save(Path(out), drawing)
        return results


__all__ = ["experiment", "run_study"]
