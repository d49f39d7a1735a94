"""What a study is about, and what its results come to, in sentences for its user."""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxbandit.study.results import IMPLEMENTED_BY, column, ran_by, rules_of, value_of
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import identity, show
from jaxbandit.words import counted

if TYPE_CHECKING:
    import xarray as xr


def description(study: Study) -> list[str]:
    """Returns the problem with its files, columns and other parameters, and what its family says of it.

    Raises:
        BadInput: where an input file cannot be read, and for parameters that do not go together.
    """
    lines = [headline(study.named())]
    if study.family.describe is not None:
        for setting, _ in study.settings():
            lines += [line for line in study.family.describe(setting) if line not in lines]
    return lines


def headline(named: dict[str, Any]) -> str:
    """Returns a line for ``Study.named``: the problem's kind and parameters, and what is swept."""
    problem = dict(named["problem"])
    kind = problem.pop("kind")

    def listed(values: dict[str, Any]) -> str:
        return "; ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in values.items())

    given, swept = listed(problem), listed(named["sweep"])
    return f"problem {kind}" + (f": {given}" if given else "") + (f"; swept: {swept}" if swept else "")


def implementations(data: "xr.Dataset") -> str:
    """Returns a line that says which class ran each policy that its rule's own class did not run; where several did, at
    which values of a param. It is empty where there is no such policy, and for results that do not say it."""
    if IMPLEMENTED_BY not in data.coords:
        return ""
    like = data[IMPLEMENTED_BY]
    names = ["kind", *(name for name in data.attrs["params"] if name in data.coords)]
    columns = {name: data[name].broadcast_like(like).transpose(*like.dims).values.ravel() for name in names}
    return _implementations(like.values.ravel(), columns, data.attrs["rules"])


def implementations_of(study: Study) -> str:
    """Returns the same line for the results of a study, without a look at them."""
    members = study.configurations()
    names = list(dict.fromkeys(name for each in members for name in each.params))
    columns = {name: column([each.params.get(name) for each in members]) for name in names}
    kinds = column([each.name for each in members])
    return _implementations(column(ran_by(study)), {"kind": kinds, **columns}, rules_of(study))


def _implementations(ran: np.ndarray, columns: dict[str, np.ndarray], rules: list[str]) -> str:
    """Returns the line. ``ran``: the class of each configuration; ``columns``: its kind and params; ``rules``: the
    classes of the policies as they are written."""
    kinds = columns.pop("kind")
    said = []
    for kind in dict.fromkeys(kinds):
        by = {name: (kinds == kind) & (ran == name) for name in dict.fromkeys(ran[kinds == kind])}
        where = _where(list(by.values()), columns) if len(by) > 1 else [""]
        fast = [f"as {name}{at}" for name, at in zip(by, where, strict=True) if name not in rules]
        said += [f"{kind} {' and '.join(fast)}"] if fast else []
    return f"fast implementations: {'; '.join(said)}" if said else ""


def _where(groups: list[np.ndarray], columns: dict[str, np.ndarray]) -> list[str]:
    """Tells disjoint groups of configurations (masks) apart by the first param that does, or else by their sizes."""
    for name, values in columns.items():
        found = [{identity(each): each for each in map(value_of, values[group])} for group in groups]
        if sum(map(len, found)) == len(set(itertools.chain(*found))):
            return [f" at {name} {show(list(some.values()))}" for some in found]
    return [f" in {counted(int(group.sum()), 'configuration', 'configurations')}" for group in groups]


def _shown(value: Any) -> str:
    """Returns a value as ``show`` has it, but all of a list of texts: they name columns."""
    texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return ", ".join(value) if texts else show(value)


def reads_files(study: Study) -> bool:
    """Returns whether the problem is made of a user's files, so that a description of what was read from them is worth
    its lines."""
    named = study.named()
    return identity(named) != identity({"problem": study.problem, "sweep": study.sweep})
