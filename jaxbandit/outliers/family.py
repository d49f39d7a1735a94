"""The family of outlier arms as study files and the command line see it: problems, policies and metrics, by name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any, cast

import numpy as np

from jaxbandit.arms.models import BUDGET, Model, problems
from jaxbandit.arms.problem import Drawn
from jaxbandit.arms.pulls import metrics as pulls_of_arms
from jaxbandit.arms.rewards import Replay, Rewards
from jaxbandit.errors import BadInput, quoted, under
from jaxbandit.outliers.gold import GOLD, gold
from jaxbandit.outliers.ib import IB, ib
from jaxbandit.outliers.intervals import Interval, interval
from jaxbandit.outliers.nrr import NRR, nrr
from jaxbandit.outliers.planning import table
from jaxbandit.outliers.problem import MOST_PARTED, ZERO_ONE
from jaxbandit.outliers.record import DECIDED
from jaxbandit.outliers.rr import RR
from jaxbandit.outliers.setting import Setting
from jaxbandit.outliers.truth import Definition, Labelled, SyntheticMeans, injected, source
from jaxbandit.outliers.wrr import WRR, rho_star, wrr
from jaxbandit.parameters import parameters
from jaxbandit.random.trials import UNITS
from jaxbandit.registry import (
    Answers,
    Family,
    Metric,
    Parameter,
    PolicyKind,
    ProblemKind,
    Question,
    answered,
    one_of,
    parse,
    whole,
    without_kind,
)

LEAST_ARMS, MOST_ARMS = 3, 4096


_CAP = replace(BUDGET, default=10_000_000, help="the cap: pulls after which a rule answers with what it has")
_ARMS = Parameter("n", whole(LEAST_ARMS, MOST_ARMS), f"how many arms, {LEAST_ARMS} to {MOST_ARMS}")
_CASE = Parameter("case", whole(0, 2**32 - 1), "number of a test case: the same arms in each run; drawn afresh in each "
                  "where left out", None)  # fmt: skip
_NAME, _K, _TWO_SIDED, _EPS, _RHO, _SIZES = parameters(Definition)
_DEFINITION = replace(_NAME, name="definition")
_SIGMA, _GROUPS = (_K, _TWO_SIDED), (_EPS, _RHO)


def _given(model: Model, budget: int, definition: str, **values: Any) -> Setting:
    rewards = model.rewards
    if isinstance(rewards, Replay) and not rewards.again:
        raise BadInput("problem.replacement", False, "true: the rules go on pulling an arm whose record is used up")
    if not rewards.whole and budget > MOST_PARTED:
        raise BadInput("problem.budget", budget, f"at most {MOST_PARTED} where rewards are not 0 or 1")
    if definition == "groups" and isinstance(model.means, Drawn):
        raise BadInput("problem.definition", definition, "k-sigma or robust where a law draws the means")
    # A record of 0 and 1 that is drawn from with replacement has the law of an arm with the record's mean.
    return _setting(model.means, budget, Definition(definition, **values), ZERO_ONE if rewards.whole else rewards)


def _setting(means: Any, budget: int, definition: Definition, rewards: Rewards = ZERO_ONE) -> Setting:
    if not LEAST_ARMS <= means.arms <= MOST_ARMS:
        raise BadInput("problem.n", means.arms, f"{LEAST_ARMS} to {MOST_ARMS} arms")
    return Setting(budget, source(means, definition), definition, rewards)


def _synthetic(
    n: int, budget: int, definition: str, k: float, two_sided: bool, outlying: int | None, case: int | None
) -> Setting:
    count = max(1, int(n / (2 * (1 + k * k)))) if outlying is None else outlying
    if count >= n:
        raise BadInput("problem.outlying", count, f"fewer than {n}, the number of arms")
    means = SyntheticMeans.of(n, count)
    return _setting(means if case is None else means.case(case), budget, Definition(definition, k, two_sided))


def _injected(n: int, budget: int, side: str, eps: float, rho: float, k: float, case: int | None) -> Setting:
    count = n - ceil(n * Fraction(repr(rho)))
    if count < 1:
        raise BadInput("problem.rho", rho, f"such that at least one of {n} arms is an outlier")
    if side == "intermediate" and (n - count) // 2 <= n - n * Fraction(repr(rho)):
        raise BadInput("problem.n", n, f"enough for more than (1 - rho) n = {n * (1 - rho):g} arms on each side")
    arms = injected(n, eps, count, side)
    judge = Definition("groups", k, eps=eps, rho=rho)
    return Setting(budget, arms if case is None else arms.case(case), judge)


_MODELS = problems((_CAP, _DEFINITION, *_SIGMA, *_GROUPS, _SIZES), _given)

PROBLEMS = (
    ProblemKind(
        "synthetic", "0 or 1; normal arms around 0.3, and a few from 0.8 to 1 (for Zhuang et al. 2017, section 5.1)",
        (
            _ARMS, _CAP, replace(_DEFINITION, parse=one_of("k-sigma", "robust"), help="what an outlier is: k-sigma or "
                                 "robust"), *_SIGMA,
            Parameter("outlying", whole(0, MOST_ARMS), "how many arms are from 0.8 to 1; where left out, half of what "
                      "k-sigma can tell, n / (2 (1 + k^2)), and at least 1", None),
            _CASE,
        ), _synthetic,
    ),
    ProblemKind(
        "injected", "0 or 1; one (eps, rho)-group of outliers (Ban and He 2020, section 6.1), at times with a part "
        "that is one as well",
        (
            _ARMS, _CAP,
            Parameter("side", one_of("upper", "intermediate", "lower"), "where the outliers lie: upper, intermediate "
                      "or lower", "upper"),
            *_GROUPS, replace(_K, help="what rules that look for k-sigma take"), _CASE,
        ), _injected,
    ),
    *(_MODELS[name] for name in ("bernoulli", "bounded", "replay")),
)  # fmt: skip


_NAMED, _DELTA, _OWN_K = parameters(interval, leave_out=("sides", "rule"), delta=0.1)
_INTERVAL = replace(_NAMED, name="interval", default=None)


def _interval(
    setting: Setting, policy: str, name: str | None, delta: float, k: float | None = None, **more: str
) -> Interval:
    """Returns the interval by name; by default, the one that fits the rewards."""
    whole = setting.rewards.whole
    name = name or ("bernoulli-corrected" if whole else "bounded")
    if not whole and name != "bounded":
        raise BadInput(f"policy.{policy}.interval", name, "bounded, as not all rewards are 0 or 1")
    return interval(name, delta, k, **more)


def _sigma(
    setting: Setting, rule: str, delta: float, k: float | None, name: str | None
) -> tuple[Interval, dict[str, Any]]:
    """Returns the threshold that the problem defines outliers by, or with another k; and the report of it."""
    judge = setting.definition
    k = judge.k if k is None else k
    sides, threshold = "both" if judge.two_sided else "above", "robust" if judge.name == "robust" else "k-sigma"
    intervals = _interval(setting, rule, name, delta, k, sides=sides, rule=threshold)
    return intervals, {"k": k, "interval": intervals.name}


def _rr(setting: Setting, delta: float, k: float | None, interval: str | None) -> tuple[RR, dict[str, Any]]:
    intervals, told = _sigma(setting, "rr", delta, k, interval)
    return RR(intervals), told


def _wrr(
    setting: Setting, delta: float, k: float | None, interval: str | None, rho: float | None
) -> tuple[WRR, dict[str, Any]]:
    _zero_or_one(setting, "wrr")
    intervals, told = _sigma(setting, "wrr", delta, k, interval)
    rho = rho_star(setting.arms, told["k"], delta) if rho is None else rho
    return wrr(intervals, rho=rho), told | {"rho": rho}


def _ib(setting: Setting, delta: float, k: float | None, scale: float) -> tuple[IB, dict[str, Any]]:
    _zero_or_one(setting, "ib")
    if setting.definition.two_sided:
        raise BadInput("policy.kind", "ib", "a rule that looks for outliers below, too: rr, wrr or nrr")
    intervals, told = _sigma(setting, "ib", delta, k, "bounded")
    return ib(intervals, scale=scale), {"k": told["k"]}


def _zero_or_one(setting: Setting, rule: str) -> None:
    if not setting.rewards.whole:
        raise BadInput("policy.kind", rule, "a rule for rewards other than 0 and 1: rr or nrr")


def _nrr(setting: Setting, delta: float, k: float | None) -> tuple[NRR, dict[str, Any]]:
    intervals, told = _sigma(setting, "nrr", delta, k, "bounded")
    return nrr(intervals, delta=delta), {"k": told["k"]}


def _gold(
    setting: Setting, delta: float, eps: float | None, rho: float | None, interval: str | None, size: str, at_once: bool
) -> tuple[GOLD, dict[str, Any]]:
    _zero_or_one(setting, "gold")
    eps, rho = (own or default for own, default in ((eps, setting.definition.eps), (rho, setting.definition.rho)))
    intervals = _interval(setting, "gold", interval, delta)
    with under("policy.gold"):
        rule = gold(intervals, setting.arms, eps=eps, rho=rho, size=size, at_once=at_once)
    return rule, {"eps": eps, "rho": rho, "interval": intervals.name}


POLICIES = (
    PolicyKind("rr", "round-robin until no arm is active (Zhuang et al. 2017, Algorithm 1)",
               (_DELTA, _OWN_K, _INTERVAL), _rr, anytime=True),
    PolicyKind("wrr", "weighted round-robin (Zhuang et al. 2017, Algorithm 2)",
               (_DELTA, _OWN_K, _INTERVAL, *parameters(wrr, rho=None)), _wrr, anytime=True),
    PolicyKind("nrr", "round-robin until the set was the same for 1/delta pulls (section 5.2)",
               (replace(_DELTA, help="1/delta pulls without a change of the set end the run"), _OWN_K), _nrr,
               anytime=True),
    PolicyKind("ib", "best arms one by one, by CLUCB, until one is no outlier (Zhuang et al. 2017, section 5.2)",
               (_DELTA, _OWN_K, *parameters(ib)), _ib, anytime=True),
    PolicyKind("gold", "ranks arms by when they come apart from the others (Ban and He 2020, Algorithm 1)",
               (_DELTA, _INTERVAL, *parameters(gold, leave_out=("arms",), eps=None, rho=None)), _gold,
               anytime=True),
)  # fmt: skip


def _correct(setting: Setting, answers: Answers) -> np.ndarray:
    exact: np.ndarray = (answers["hits"] == answers["wanted"]) & (answers["hits"] == answers["found"])
    return exact.astype(np.float64)


def _share(part: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Returns ``part`` / ``of``, and 1 where ``of`` is 0."""
    share: np.ndarray = np.where(of > 0, part / np.maximum(of, 1), 1.0)
    return share


def _precision(setting: Setting, answers: Answers) -> np.ndarray:
    return _share(answers["hits"], answers["found"])


def _recall(setting: Setting, answers: Answers) -> np.ndarray:
    return _share(answers["hits"], answers["wanted"])


def _f1(setting: Setting, answers: Answers) -> np.ndarray:
    return _share(2 * answers["hits"], answers["found"] + answers["wanted"])


def _capped(setting: Setting, answers: Answers) -> np.ndarray:
    over: np.ndarray = answers["code"] != DECIDED
    return over.astype(np.float64)


METRICS = (
    Metric("correct", "share of runs with exactly the outliers", _correct, binary=True),
    Metric("pulls", "pulls", answered("pulls"), lower_is_better=True),
    Metric("precision", "precision (1 where no arm is said to be an outlier)", _precision, share=True),
    Metric("recall", "recall (1 where there is no outlier)", _recall, share=True),
    Metric("f1", "F1 (1 where there is no outlier, and none is said to be)", _f1, share=True),
    Metric("ranking", "share of runs that rank outliers first", answered("ranked"), binary=True),
    Metric("capped", "share of runs that the cap ended", _capped, binary=True, lower_is_better=True),
    Metric("outliers", "outliers there are", answered("wanted")),
    *pulls_of_arms(lower_is_better=True),
)


def _rules() -> Iterator[tuple[PolicyKind, dict[str, Any]]]:
    """Yields the rules of a planning table, fast ones first: with the interval for rewards 0 and 1, and with the proved
    one."""
    own = [kind for kind in POLICIES if any(parameter.name == "interval" for parameter in kind.parameters)]
    yield from ((kind, {}) for kind in POLICIES if kind not in own and kind.name != "ib")
    yield from ((kind, {"interval": name}) for name in ("bernoulli-corrected", "bounded") for kind in own)


def _fits(setting: Setting, kind: PolicyKind, given: Mapping[str, Any]) -> bool:
    try:
        kind.build(setting, **parse(f"policy.{kind.name}", kind.parameters, given))
    except BadInput:
        return False
    return True


RUNS = 100
"""The runs of each rule in a planning table."""


def plan(
    problem: Setting | Mapping[str, Any],
    runs: int = RUNS,
    seed: int = 0,
    rules: Sequence[Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Returns a planning table, which says what rules will cost on arms as a user guesses them.

    Args:
        problem: a setting, or a table as in a study file: ``{"kind": "outliers/bernoulli", "means": {"list": [...]}}``.
        runs: of each rule, at least 2.
        seed: 0 to 2^32 - 1.
        rules: tables as in a study file, ``{"kind": "wrr", "delta": 0.05}``; where None, every rule that fits the
            rewards, with the interval that is proved and with the one for rewards 0 and 1; but not IB, which takes
            minutes up to a large cap.

    Returns:
        Summary rows of ``pulls``, the mean with its 95 % interval (normal, over runs); ``pulls_of_19_in_20``, what 19
        of 20 runs stay within; ``correct`` and ``capped``, shares of runs with Wilson's intervals; and for given means
        and proved intervals ``bound``, that of Theorem 2 or 3, or of the proof of Theorem 5.7.

    Raises:
        BadInput: for a table that is wrong, naming its key.

    Example:
        >>> from jaxbandit import outliers
        >>> means = {"list": [0.2, 0.2, 0.3, 0.3, 0.9]}
        >>> problem = {"kind": "outliers/bernoulli", "means": means, "k": 1.5, "budget": 2_000}
        >>> rows = outliers.plan(problem, runs=4, rules=[{"kind": "rr"}])
        >>> sorted({row["metric"] for row in rows})[:2]
        ['capped', 'correct']
    """
    whole(2, 2**31 - 1)("runs", runs)
    if not isinstance(problem, Setting | Mapping):
        raise BadInput("problem", quoted(problem), 'a table as in a study file, {"kind": "outliers/bernoulli", ...}')
    if not isinstance(problem, Setting):
        kinds = {f"outliers/{kind.name}": kind for kind in PROBLEMS}
        kind = kinds[one_of(*kinds)("problem.kind", problem.get("kind", "missing"))]
        problem = kind.build(**parse("problem", kind.parameters, without_kind(problem)))
    setting = cast(Setting, problem)
    if rules is None:
        return list(table(setting, _fitting(setting), METRICS, runs, seed))
    known = {kind.name: kind for kind in POLICIES}
    named = [one_of(*known)("rules.kind", rule.get("kind", "missing")) for rule in rules]
    chosen = [(known[name], without_kind(rule)) for name, rule in zip(named, rules, strict=True)]
    return list(table(setting, chosen, METRICS, runs, seed))


def _fitting(setting: Setting) -> list[tuple[PolicyKind, dict[str, Any]]]:
    """Returns the rules that fit the rewards, the cheapest first."""
    return [(kind, given) for kind, given in _rules() if _fits(setting, kind, given)]


def _planned(setting: Setting) -> Iterator[dict[str, Any]]:
    """Yields the rows of ``plan`` for all rules that fit, as they are simulated."""
    return table(setting, _fitting(setting), METRICS, RUNS, seed=0)


def _described(setting: Setting) -> list[str]:
    if not isinstance(setting.source, Labelled):
        return [f"{setting.arms:,} arms, drawn afresh in each run and judged there"]
    found = np.flatnonzero(np.asarray(setting.source.levels))
    means = np.asarray(setting.source.given.means) / UNITS
    rows = ", ".join(str(row) for row in found[:10]) + (", ..." if found.size > 10 else "")
    judged = f"{found.size:,} of them {'is an outlier' if found.size == 1 else 'are outliers'}, counted from 0: {rows}"
    return [
        f"{setting.arms:,} arms with means from {means.min():.4g} to {means.max():.4g} of their scale, mean "
        f"{means.mean():.4g}, standard deviation {means.std():.4g}",
        judged if found.size else "none of them is an outlier",
    ]


def _opening(setting: Setting) -> str:
    none = isinstance(setting.source, Labelled) and not np.asarray(setting.source.levels).any()
    exactly = "find that there are no outliers, as none of these arms is one" if none else "find exactly the outliers"
    return f"which rule, how many pulls? Runs that {exactly}:"


_QUESTION = Question(
    "correct", _opening,
    "to find exactly the outliers in {} of the runs", "a share of runs, above 0 and at most 1, such as 0.95", "pulls",
    "pulls", capped=True,
)  # fmt: skip


FAMILY = Family(
    "outliers",
    {kind.name: kind for kind in PROBLEMS},
    {kind.name: kind for kind in POLICIES},
    METRICS,
    common=("n", "budget"),
    tune=_planned,
    describe=_described,
    question=_QUESTION,
)

__all__ = ["FAMILY", "Setting", "plan"]
