"""What a study is about, and what its results come to, in sentences for its user."""

from typing import Any

from jaxbandit.study.spec import Study
from jaxbandit.study.summary import identity, show


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
