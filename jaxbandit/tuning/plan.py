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

A parameter that stands in the space is searched; so is a list of a policy. Without a space, a policy's parameters that
the study leaves open are searched over the domains that they declare. Each policy's default is a candidate too.
Policies that know the truth, as ``known-sc``, are left out.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxbandit.errors import BadInput
from jaxbandit.registry import Metric, Parameter, flag, one_of, text, whole
from jaxbandit.space import Choice, Domain, domain
from jaxbandit.study.spec import Study

SEARCHES = ("grid", "sobol", "halving", "optuna", "gradient")
MOST_CANDIDATES = 4096
"""The judge holds all pairs of them."""


@dataclass(frozen=True)
class Open:
    """A policy of the study with what is open of it: ``given`` is fixed, ``axes`` are searched, by name; ``complete``:
    whether it has defaults for these."""

    kind: str
    given: Mapping[str, Any]
    axes: Mapping[str, Domain]
    complete: bool


@dataclass(frozen=True)
class Plan:
    """A checked table ``[tune]``; see the head of this module."""

    metric: Metric
    within: float
    relative: bool
    confidence: float
    most_runs: int
    search: str
    candidates: int
    policies: tuple[Open, ...]

    @classmethod
    def of(cls, study: Study) -> "Plan":
        """The plan of a study.

        Raises:
            BadInput: naming the key of the table that is wrong.
        """
        given = dict(study.tune)
        keys = ("metric", "within", "relative", "confidence", "most_runs", "search", "candidates", "space")
        for key, value in given.items():
            if key not in keys:
                raise BadInput(f"tune.{key}", value, f"no such key; there are {', '.join(keys)}")
        if study.checkpoints or study.stop_when:
            raise BadInput("tune", "with checkpoints or stop_when", "a study without them; sweep the budget")
        metrics = {metric.name: metric for metric in study.family.metrics}
        name = text("tune.metric", given.get("metric", next(iter(metrics))))
        if name not in metrics:
            raise BadInput("tune.metric", name, f"one of {', '.join(metrics)}")
        relative = flag("tune.relative", given.get("relative", "within" not in given))
        within = _number("tune.within", given.get("within", 0.005), 0, 1 if relative else math.inf)
        if within == 0 and "most_runs" not in given:
            raise BadInput("tune.within", 0, "a number above 0, or most_runs too: equal candidates take all of them")
        plan = cls(
            metrics[name], within, relative, _number("tune.confidence", given.get("confidence", 0.95), 0.5, 1),
            whole(2, 10**12)("tune.most_runs", given.get("most_runs", 1_000_000)),
            one_of(*SEARCHES)("tune.search", given.get("search", "grid")),
            whole(1, MOST_CANDIDATES)("tune.candidates", given.get("candidates", 256)), _opened(study),
        )  # fmt: skip
        if plan.most_runs < 2 * 64:
            raise BadInput(
                "tune.most_runs", plan.most_runs, "at least 128, the runs of two candidates at the first look"
            )
        return plan

    @property
    def sign(self) -> float:
        """What a value is multiplied by, so that higher is better."""
        return -1.0 if self.metric.lower_is_better else 1.0


def leaves_open(study: Study) -> bool:
    """Whether a policy of the study is not given a parameter that says where its best value is to be looked for."""
    kinds = study.family.policies
    return any(
        each.search is not None and each.name not in table
        for table in study.policies
        for each in kinds[table["kind"]].parameters
    )


def _number(field: str, value: Any, low: float, high: float) -> float:
    sound = isinstance(value, int | float) and not isinstance(value, bool) and low <= value < high
    if not sound:
        raise BadInput(field, value, f"a number from {low:g}" + (f", below {high:g}" if high < math.inf else ""))
    return float(value)


def _opened(study: Study) -> tuple[Open, ...]:
    space = study.tune.get("space")
    if space is not None and (not isinstance(space, Mapping) or not space):
        raise BadInput("tune.space", space, "a table of domains by parameter")
    kinds = {table["kind"]: study.family.policies[table["kind"]] for table in study.policies}
    if all(kind.reference for kind in kinds.values()):
        raise BadInput("policy", ", ".join(kinds), "a policy that does not know the truth")
    used: set[str] = set()
    found = []
    for table in study.policies:
        if kinds[table["kind"]].reference:
            continue
        kind, given, axes = kinds[table["kind"]], dict(table), {}
        del given["kind"]
        own = (space or {}).get(kind.name, {})
        for parameter in kind.parameters:
            name, value = parameter.name, given.get(parameter.name)
            field, wanted = f"tune.space.{name}", (space or {}).get(name)
            if name in own:
                field, wanted = f"tune.space.{kind.name}.{name}", own[name]
            if wanted is not None:
                used |= {kind.name, name}
                if value is not None and not isinstance(value, list):
                    raise BadInput(field, wanted, f"what [[policy]] leaves open; it says {name} = {value}")
                axes[name] = _domain(field, wanted, parameter)
            elif isinstance(value, list) and parameter.swept:
                axes[name] = Choice(tuple(value))
            elif value is None and space is None and parameter.search is not None:
                axes[name] = parameter.search
        fixed = {name: value for name, value in given.items() if name not in axes}
        complete = all(
            (each.name in fixed or not each.required) and (each.name not in fixed or each.partner in {"", *fixed})
            for each in kind.parameters
        )
        found.append(Open(kind.name, fixed, axes, complete))
    for name, value in (space or {}).items():
        if name not in used:
            there = dict.fromkeys(each.name for kind in kinds.values() for each in kind.parameters)
            raise BadInput(
                f"tune.space.{name}", value, f"a parameter of a policy: {', '.join(there) or 'there is none'}"
            )
        if name in kinds:
            for key in set(value) - {each.name for each in kinds[name].parameters}:
                raise BadInput(f"tune.space.{name}.{key}", value[key], f"a parameter of {name}")
    return tuple(found)


def _domain(field: str, given: Any, parameter: Parameter) -> Domain:
    """The domain that is given, each end of which, or each value, the parameter takes."""
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
