"""What is to be tuned, from a study and its table ``[tune]``: the metric, what does not matter, and the space.

    [tune]
    metric = "regret"          # of the family, the first one where left out
    within = 0.005             # a difference that does not matter; a share of the metric's mean with relative = true
    confidence = 0.95
    most_runs = 1_000_000      # of all candidates together
    search = "grid"            # or "sobol", "halving", "optuna", "gradient"
    candidates = 256
    [tune.space]
    epsilon = { from = 0.01, to = 0.9, log = true }
    [tune.space.ee]            # of the policy ``ee`` alone
    t = [1, 2, 3, 5, 8]

A parameter that stands in the space is searched, over a domain that is given or, with "all", over its own; so is a list
of a policy. Without a space, the parameters that the study leaves open are searched over the domains that they declare,
but for those that are searched on request; ``space = "all"`` asks for these too. Each policy's default is a candidate.
Policies that know the truth, as ``known-sc``, are left out.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

from jaxbandit.errors import BadInput, quoted
from jaxbandit.registry import Metric, Parameter, PolicyKind, flag, one_of, text, whole, without_kind
from jaxbandit.space import Choice, Domain, domain
from jaxbandit.study.keys import check_keys
from jaxbandit.study.spec import Study

ALL = "all"
SEARCHES = ("grid", "sobol", "halving", "optuna", "gradient")
MOST_CANDIDATES = 4096
"""The judge holds all pairs of them."""


@dataclass(frozen=True)
class Open:
    """Holds a policy of the study, with the parameters of it that are open.

    ``given`` is fixed, ``axes`` are searched, by name; one that depends on others comes after them. ``complete``:
    whether the policy has defaults for its axes.
    """

    kind: str
    given: Mapping[str, Any]
    axes: Mapping[str, Domain]
    complete: bool
    parameters: Mapping[str, Parameter]

    def matters(self, name: str, values: Mapping[str, Any]) -> bool:
        """Returns whether an axis makes a difference where the axes before it have these values."""
        defaults = {each.name: each.default for each in self.parameters.values()}
        return self.parameters[name].matters({**defaults, **self.given, **values})

    def proposed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what the policy is given: what is fixed, and of these values of its axes those that matter."""
        own: dict[str, Any] = {}
        for name in self.axes:
            if name in values and self.matters(name, own):
                own[name] = values[name]
        return {**self.given, **own}


def metric_of(study: Study, table: str, given: Mapping[str, Any]) -> Metric:
    """Returns the metric that a study's table ``[tune]`` or ``[train]`` names, or the family's first.

    Raises:
        BadInput: for a key that the table does not have, for a study in parts, and for a metric that the family lacks.
    """
    check_keys(table, given)
    if study.checkpoints or study.stop_when:
        raise BadInput(table, "with checkpoints or stop_when", "a study without them; sweep the budget")
    metrics = {metric.name: metric for metric in study.family.metrics}
    name = text(f"{table}.metric", given.get("metric", next(iter(metrics))))
    if name not in metrics:
        raise BadInput(f"{table}.metric", name, f"one of {', '.join(metrics)}")
    return metrics[name]


@dataclass(frozen=True)
class TuneOptions:
    """Holds a checked table ``[tune]``; see the head of this module."""

    metric: Metric
    within: float
    relative: bool
    confidence: float
    most_runs: int
    search: str
    candidates: int
    policies: tuple[Open, ...]

    @classmethod
    def of(cls, study: Study) -> "TuneOptions":
        """Checks the table ``[tune]`` of a study, key by key, and returns it.

        Raises:
            BadInput: naming the key of the table that is wrong.
        """
        given = dict(study.tune or {})
        metric = metric_of(study, "tune", given)
        relative = flag("tune.relative", given.get("relative", "within" not in given))
        within = _number("tune.within", given.get("within", 0.005), 0, 1 if relative else math.inf)
        if within == 0 and "most_runs" not in given:
            raise BadInput("tune.within", 0, "a number above 0, or most_runs too: equal candidates take all of them")
        plan = cls(
            metric, within, relative, _confidence(given.get("confidence", 0.95)),
            whole(2, 10**12)("tune.most_runs", given.get("most_runs", 1_000_000)),
            one_of(*SEARCHES)("tune.search", given.get("search", "grid")),
            whole(1, MOST_CANDIDATES)("tune.candidates", given.get("candidates", 256)), _opened(study),
        )  # fmt: skip
        if plan.most_runs < 2 * 64:
            raise BadInput(
                "tune.most_runs", plan.most_runs, "at least 128, the runs of two candidates at the first evaluation"
            )
        return plan

    @property
    def sign(self) -> float:
        """Returns what a value is multiplied by, so that higher is better."""
        return -1.0 if self.metric.lower_is_better else 1.0


def leaves_open(study: Study) -> bool:
    """Returns whether there is a parameter that the study does not give and that is searched unasked."""
    kinds = [(study.family.policies[table["kind"]], table) for table in study.policies]
    return any(
        not kind.reference and set(_open(kind, table, {}, None, SEARCHES[0]).axes) - set(table) for kind, table in kinds
    )


def _number(field: str, value: Any, low: float, high: float) -> float:
    sound = isinstance(value, int | float) and not isinstance(value, bool) and low <= value < high
    if not sound:
        raise BadInput(
            field, quoted(value), f"a number from {low:g}" + (f", below {high:g}" if high < math.inf else "")
        )
    return float(value)


def _confidence(value: Any) -> float:
    """Returns the confidence: no more than where sums of runs are still close enough to normal for its error."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.5 <= value <= 1 - 1e-9:
        raise BadInput("tune.confidence", quoted(value), "a number from 0.5 to 0.999999999")
    return float(value)


def _opened(study: Study) -> tuple[Open, ...]:
    given = study.tune or {}
    space, search = given.get("space"), given.get("search", SEARCHES[0])
    if space not in (None, ALL) and (not isinstance(space, Mapping) or not space):
        raise BadInput("tune.space", space, f'a table of domains by parameter, or "{ALL}"')
    kinds = {table["kind"]: study.family.policies[table["kind"]] for table in study.policies}
    if all(kind.reference for kind in kinds.values()):
        raise BadInput("policy", ", ".join(kinds), "a policy that does not know the truth")
    named = space if isinstance(space, Mapping) else {}
    _check_names(named, kinds)
    return tuple(
        _open(kinds[table["kind"]], table, named, space, search)
        for table in study.policies
        if not kinds[table["kind"]].reference
    )


def _check_names(named: Mapping[str, Any], kinds: Mapping[str, PolicyKind]) -> None:
    """Checks that all that stands in the space is a parameter of a policy."""
    there = {kind.name: [each.name for each in kind.parameters] for kind in kinds.values() if not kind.reference}
    known = dict.fromkeys(name for names in there.values() for name in names)
    for name, value in named.items():
        if name in there and isinstance(value, Mapping) and name not in known:
            for key in set(value) - set(there[name]):
                raise BadInput(f"tune.space.{name}.{key}", value[key], f"a parameter of {name}")
        elif name not in known:
            of_it = f"a table of domains of {name}'s parameters" if name in there else "a parameter of a policy"
            raise BadInput(
                f"tune.space.{name}", value, f"{of_it}: {', '.join(there.get(name, known)) or 'there is none'}"
            )


def _open(kind: PolicyKind, table: Mapping[str, Any], named: Mapping[str, Any], space: Any, search: str) -> Open:
    given = without_kind(table)
    own, axes, asked = named.get(kind.name, {}), {}, {}
    for parameter in kind.parameters:
        name, value = parameter.name, given.get(parameter.name)
        field, wanted = f"tune.space.{name}", named.get(name)
        if name in own:
            field, wanted = f"tune.space.{kind.name}.{name}", own[name]
        if wanted is not None:
            if value is not None and not isinstance(value, list):
                raise BadInput(field, wanted, f"what [[policy]] leaves open; it says {name} = {value}")
            axes[name] = _domain(field, wanted, parameter)
            asked[name] = field
        elif isinstance(value, list) and parameter.swept:
            axes[name] = Choice(tuple(value))
        elif value is None and parameter.domain is not None:
            unasked = space is None and not parameter.on_request
            # A gradient climbs over ranges alone.
            if (unasked or space == ALL) and not (search == "gradient" and isinstance(parameter.domain, Choice)):
                axes[name] = parameter.domain
    fixed = {name: value for name, value in given.items() if name not in axes}
    complete = all(
        (each.name in fixed or not each.required) and (each.name not in fixed or each.partner in {"", *fixed})
        for each in kind.parameters
    )
    parameters = {each.name: each for each in kind.parameters}
    for name in list(axes):
        if not _can_matter(parameters[name], parameters, fixed, axes):
            if name in asked:
                where = parameters[name].condition
                raise BadInput(asked[name], "searched", f"a parameter that matters; {name} does where {where}")
            del axes[name]
    order = TopologicalSorter({name: [each for each in parameters[name].when if each in axes] for name in axes})
    return Open(kind.name, fixed, {name: axes[name] for name in order.static_order()}, complete, parameters)


def _can_matter(
    parameter: Parameter, parameters: Mapping[str, Parameter], fixed: Mapping[str, Any], axes: Mapping[str, Domain]
) -> bool:
    """Returns whether what a parameter depends on has, or may be proposed, a value under which it matters."""

    def values(name: str) -> Iterator[Any]:
        if name in axes:
            yield from axes[name].spread(16)
        else:
            yield fixed.get(name, parameters[name].default)

    return all(any(value in domain for value in values(name)) for name, domain in parameter.when.items())


def _domain(field: str, given: Any, parameter: Parameter) -> Domain:
    """Returns the domain that is given, each end of which, or each value, the parameter takes; its own for "all"."""
    if given == ALL:
        if parameter.domain is None:
            raise BadInput(field, given, "a domain; the parameter declares none")
        return parameter.domain
    found = domain(field, given)
    if isinstance(found, Choice):
        for value in found.values:
            parameter.parse(field, value)
        return found
    parameter.parse(f"{field}.from", given["from"] if isinstance(given, Mapping) else found.low)
    parameter.parse(f"{field}.to", given["to"] if isinstance(given, Mapping) else found.high)
    try:
        parameter.parse(field, 0.37 * found.low + 0.63 * found.high + 1e-9)
    except BadInput:
        return domain(field, given, whole=True)
    return found
