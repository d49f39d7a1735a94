"""The keys of a study's tables: what must hold of them before anything is built, and the files that they name."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxbandit.errors import BadInput, quoted
from jaxbandit.registry import Family, Parameter, Required, parse, without_kind
from jaxbandit.study.folder import checksum
from jaxbandit.study.plugins import OWN
from jaxbandit.study.summary import identity, plain

if TYPE_CHECKING:
    from jaxbandit.study.spec import Study

MAX_CONFIGURATIONS = 2**16
KEYS = {
    "tune": ("metric", "within", "relative", "confidence", "most_runs", "search", "candidates", "space"),
    "train": ("kind", "hidden", "metric", "statistics", "generations", "population", "runs"),
}
"""The keys of the tables that ``tuning`` reads, by the table's name."""
_log = logging.getLogger("jaxbandit")


def check(study: Study) -> None:
    """Checks all that can be checked of a study before anything is built."""
    parameters = {parameter.name: parameter for parameter in study.kind.parameters}
    for key, values in study.sweep.items():
        if key not in parameters:
            raise BadInput(f"sweep.{key}", values, f"a parameter of the problem: {', '.join(parameters)}")
        if key in study.problem:
            raise BadInput(f"sweep.{key}", values, "a parameter that [problem] does not give as well")
        if not isinstance(values, list) or not values:
            raise BadInput(f"sweep.{key}", values, "a list of at least one value")
        if len({identity(value) for value in values}) < len(values):
            raise BadInput(f"sweep.{key}", values, "each value once")
        for value in values:
            parameters[key].parse(f"sweep.{key}", value)
    first = {key: values[0] for key, values in study.sweep.items()}
    parse("problem", study.kind.parameters, without_kind(study.problem) | first)
    kinds = study.family.policies
    count = 0
    for policy in study.policies:
        name = policy.get("kind", "missing")
        if not isinstance(name, str) or name not in kinds:
            raise BadInput("policy.kind", name, f"one of {', '.join(kinds)}; {OWN}")
        for key in study.lists(policy):
            if not policy[key]:
                raise BadInput(f"policy.{name}.{key}", policy[key], "a value, or a list of at least one")
        count += math.prod(len(policy[key]) for key in study.lists(policy))
    count *= math.prod(map(len, study.sweep.values()))
    if count > MAX_CONFIGURATIONS:
        raise BadInput("sweep", f"{count} configurations", f"at most {MAX_CONFIGURATIONS}")
    for policy in study.policies:
        for given in study.choices(policy):
            parse(f"policy.{policy['kind']}", kinds[policy["kind"]].parameters, given, alone=study.tune is None)
    _check_checkpoints(study, parameters.get("budget"))
    check_keys("tune", study.tune or {})
    check_keys("train", study.train)


def check_keys(table: str, given: Mapping[str, Any]) -> None:
    """Checks that a table has no keys but those of ``KEYS``."""
    for key, value in given.items():
        if key not in KEYS[table]:
            raise BadInput(f"{table}.{key}", value, f"no such key; there are {', '.join(KEYS[table])}")


def _check_checkpoints(study: Study, budget: Parameter | None) -> None:
    given = study.checkpoints
    if not isinstance(given, list):
        raise BadInput("checkpoints", quoted(given), "a list of budgets")
    if not given:
        return
    if budget is None or "budget" not in study.problem:
        raise BadInput("checkpoints", given, "none where [problem] gives no budget of its own")
    last = study.problem["budget"]
    for earlier, value in zip([None, *given], [*given, last], strict=True):
        budget.parse("checkpoints", value)
        if earlier is not None and not earlier < value:
            raise BadInput("checkpoints", given, f"ascending budgets below {last}")


def check_recorded(study: Study, setting: Any) -> None:
    """Checks that the policies can be recorded at the study's checkpoints, and that the problem of a ``setting`` could
    have so small a budget: outlier rules begin with a pull of each arm."""
    if not study.checkpoints:
        return
    for table in study.policies:
        if not study.family.policies[table["kind"]].anytime:
            allowed = f"none, as {table['kind']} cannot be recorded on its way: sweep the budget"
            raise BadInput("checkpoints", study.checkpoints, allowed)
    if is_dataclass(setting) and hasattr(setting, "budget"):
        try:
            replace(setting, budget=study.checkpoints[0])  # type: ignore[type-var]
        except BadInput as error:
            raise BadInput("checkpoints", study.checkpoints, f"budgets, {error.allowed}") from None


def without_retired(policies: Sequence[Mapping[str, Any]], family: Family) -> list[dict[str, Any]]:
    """Returns the tables of policies without keys of earlier versions, each of which is named with its reason."""
    kept = []
    for policy in policies:
        kind = family.policies.get(str(policy.get("kind")))
        retired = kind.retired if kind else {}
        for key in [key for key in policy if key in retired]:
            _log.warning("jaxbandit: policy.%s.%s is left aside: %s", policy["kind"], key, retired[key])
        kept.append({key: value for key, value in policy.items() if key not in retired})
    return kept


def content(field: str, path: str) -> dict[str, str]:
    """Returns what identifies a file: its name does not count, its content does."""
    return {"sha256": checksum(field, Path(path))}


def named(field: str, path: str) -> str:
    """Returns a file's name and the beginning of its checksum, for labels."""
    return f"{Path(path).name}:{checksum(field, Path(path))[:8]}"


def declared(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> list[str]:
    """Returns the names in ``given``, in the order of ``parameters``."""
    return [parameter.name for parameter in parameters if parameter.name in given]


def paths(field: str, value: Any, change: Callable[[str, str], Any]) -> Any:
    """Returns ``value`` with ``change(field, path)`` for every text under a key ``path``; ``field`` is the dotted
    name."""
    if isinstance(value, Mapping):
        return {name: paths(f"{field}.{name}", item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [paths(field, item, change) for item in value]
    return change(field, value) if field.endswith(".path") and isinstance(value, str) else value


def once(parameter: Parameter) -> Parameter:
    """Returns the parameter with a parser that keeps what it made: a parser may read a file, or fit to one."""
    made: dict[str, Any] = {}

    def parse(field: str, value: Any) -> Any:
        key = identity(value)
        if key not in made:
            made[key] = parameter.parse(field, value)
        return made[key]

    return replace(parameter, parse=parse)


def reported(parameter: Parameter, given: Mapping[str, Any], parsed: Mapping[str, Any]) -> Any:
    """Returns a value as rows show it: the parsed one where it is a scalar, else as its user wrote it; files by name
    alone."""
    name, value = parameter.name, parsed[parameter.name]
    if value is None or not isinstance(value, bool | int | float | str):
        value = given.get(name, None if parameter.default is Required else parameter.default)
    return plain(name, paths(f".{name}", value, lambda _, path: Path(path).name))


def apart(name: str) -> str:
    """Returns what a policy's parameter is called in rows where the problem's of the same name is shown."""
    return f"policy.{name}"


def beside(shared: Mapping[str, Any], own: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the params of a policy with ``own`` ones and its ``report``, beside those of the problem, ``shared``.

    One of a name that is among ``shared`` is the policy's own if it was given or has another value: see ``apart``.
    """
    params = dict(shared)
    for name, value in {**own, **report}.items():
        clash = name in shared and (name in own or value != shared[name])
        params[apart(name) if clash else name] = value
    return params
