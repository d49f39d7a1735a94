"""What a study is about, and what its results come to, in sentences for its user."""

from collections.abc import Sequence
from typing import Any

from jaxbandit.errors import BadInput
from jaxbandit.study.picture import Point, by_curve
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import Row, identity, metrics, show


def description(study: Study) -> list[str]:
    """The problem with its files, columns and other parameters, and what its family says of it.

    Raises:
        BadInput: where an input file cannot be read, and for parameters that do not go together.
    """
    lines = [headline(study.named())]
    if study.family.describe is not None:
        for setting, _ in study.settings():
            lines += [line for line in study.family.describe(setting) if line not in lines]
    return lines


def headline(named: dict[str, Any]) -> str:
    """A line for ``Study.named``: the problem's kind and parameters, and what is swept."""
    problem = dict(named["problem"])
    kind = problem.pop("kind")

    def listed(values: dict[str, Any]) -> str:
        return "; ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in values.items())

    given, swept = listed(problem), listed(named["sweep"])
    return f"problem {kind}" + (f": {given}" if given else "") + (f"; swept: {swept}" if swept else "")


def _shown(value: Any) -> str:
    """A value as ``show`` has it, but all of a list of texts: they name columns."""
    texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return ", ".join(value) if texts else show(value)


def reads_files(study: Study) -> bool:
    """Whether the problem is made of a user's files, so that a look at what was read from them is worth its lines."""
    named = study.named()
    return identity(named) != identity({"problem": study.problem, "sweep": study.sweep})


def check_target(study: Study, target: float | None) -> None:
    """Whether a share can be aimed at.

    Raises:
        BadInput: where it is none, or the problem has no such thing.
    """
    if target is None:
        return
    if study.kind.conclude is None:
        raise BadInput("--target", target, f"none for {study.problem['kind']}: it is for a table, as cleaning/table")
    if not 0 < target <= 1:
        raise BadInput("--target", target, "a share of all false values, above 0 and at most 1, such as 0.9")


def conclusions(study: Study, rows: Sequence[Row], target: float | None = None) -> list[str]:
    """Which policy and which budget to take, under each setting that is swept beside the budget; nothing where the
    problem's kind has nothing to say.

    Args:
        study: whose ``rows`` these are.
        rows: of a summary.
        target: see ``ProblemKind.conclude``.

    Raises:
        BadInput: see ``check_target``.
    """
    check_target(study, target)
    if study.kind.conclude is None:
        return []
    lines: list[str] = []
    seen: set[str] = set()
    for setting, params in study.settings():
        at = {name: value for name, value in params.items() if name != "budget"}
        if identity(at) in seen:
            continue
        seen.add(identity(at))
        own = [row for row in rows if all(identity(row["params"].get(name)) == identity(at[name]) for name in at)]
        curves = {metric: _curves([row for row in own if row["metric"] == metric]) for metric in metrics(own)}
        if at and len(own) < len(rows):
            lines.append("with " + ", ".join(f"{name} {show(value)}" for name, value in at.items()) + ":")
        lines += study.kind.conclude(setting, curves, target)
    return lines


def _curves(rows: Sequence[Row]) -> dict[str, list[Point]]:
    """Points by policy over budgets, ``ee (tuning exact)`` where its parameters tell it from others."""
    return {
        f"{policy} ({more})" if more else policy: points
        for label, points in by_curve(rows, "budget").items()
        for policy, _, more in [label.partition(", ")]
    }
