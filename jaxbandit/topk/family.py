"""The top-K family as study files and the command line see it: problems, policies and metrics, by name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxbandit.arms.problem import MOST_ARMS, MOST_PULLS, Arms, Drawn, Given, arms, given
from jaxbandit.arms.records import read_counts, read_rewards, replay
from jaxbandit.arms.rewards import Bernoulli, Bounded, Gaussian, Rewards
from jaxbandit.cleaning.sc_pdf import Uniform
from jaxbandit.cleaning.sc_pdf import parse as parse_law
from jaxbandit.errors import BadInput
from jaxbandit.registry import Family, Metric, Parameter, PolicyKind, ProblemKind, flag, one_of, real, text, whole
from jaxbandit.topk.answer import SHARES
from jaxbandit.topk.halving import sequential_halving
from jaxbandit.topk.lucb import ODD, lucb
from jaxbandit.topk.optmai import optmai, printed_beta
from jaxbandit.topk.rounds import Rounds
from jaxbandit.topk.sar import sar
from jaxbandit.topk.uniform import uniform

Answers = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Setting:
    """A top-K problem as its user describes it. ``want``: K; ``width``: of the scale that means are on."""

    budget: int
    want: int
    means: Given | Drawn
    rewards: Rewards
    width: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.want <= self.arms:
            raise BadInput("problem.K", self.want, f"a whole number from 1 to {self.arms}, the number of arms")

    @property
    def arms(self) -> int:
        """How many arms there are."""
        return self.means.arms

    def problem(self, on_tape: bool = False) -> Arms:
        """What lanes are run against."""
        return arms(self.budget, self.means, self.rewards, on_tape=on_tape)

    def one_pull_each(self, policy: str) -> None:
        """Refuses a budget that does not give each arm a pull."""
        if self.budget < self.arms:
            raise BadInput("problem.budget", self.budget, f"at least {self.arms} for {policy}, a pull for each arm")


@contextmanager
def _key(name: str) -> Iterator[None]:
    """Says which key of the study file a function of the library complains about: it knows its own arguments alone."""
    try:
        yield
    except BadInput as error:
        own = error.field
        full = name if own == name.rpartition(".")[2] else f"{name}.{own}"
        raise BadInput(full, error.value, error.allowed) from None


@dataclass(frozen=True)
class _Two:
    """The first arms have one mean and the others another; ``count`` None is K."""

    high: float
    low: float
    count: int | None


_FORMS = (
    '"uniform", { normal = { mean = 0.5, variance = 0.1 } }, { beta = [2, 5] } or { histogram = [...] }, drawn afresh '
    "in each run; { two = [0.6, 0.5] } (K arms of the first mean), { list = [...] }, "
    'or { table = { path = "arms.csv", successes = ..., trials = ... } }'
)


def _means(name: str, value: Any) -> Any:
    if isinstance(value, Mapping) and len(value) == 1:
        ((form, found),) = value.items()
        if form == "two":
            count = None
            if isinstance(found, Mapping) and {"means"} <= set(found) <= {"means", "count"}:
                count = whole(0, MOST_ARMS)(f"{name}.two.count", found.get("count", 0)) if "count" in found else None
                found = found["means"]
            if not isinstance(found, list | tuple) or len(found) != 2:
                raise BadInput(f"{name}.two", found, "two means, or { means = [0.6, 0.5], count = 10 }")
            high, low = (_number(f"{name}.two", each) for each in found)
            return _Two(high, low, count)
        if form == "list":
            if not isinstance(found, list | tuple) or not 1 <= len(found) <= MOST_ARMS:
                raise BadInput(f"{name}.list", found, f"1 to {MOST_ARMS} means")
            return np.array([_number(f"{name}.list[{place}]", each) for place, each in enumerate(found)])
        if form == "table":
            keys = ("path", "successes", "trials")
            if not isinstance(found, Mapping) or "path" not in found or set(found) - set(keys):
                raise BadInput(f"{name}.table", found, '{ path = "arms.csv", successes = ..., trials = ... }')
            with _key(f"{name}.table"):
                _, won, tried = read_counts(**{key: text(key, each) for key, each in found.items()})
            return won / tried
    try:
        return parse_law(value)
    except BadInput as error:
        if error.field == "sc_pdf":
            raise BadInput(name, value, _FORMS) from None
        raise BadInput(f"{name}.{error.field}", error.value, error.allowed) from None


def _number(name: str, value: Any) -> float:
    return real(-1e30, 1e30)(name, value)


_SAME_ORDER = "how many arms, a whole number; that of the list or table where there is one"
_N = Parameter("n", whole(1, MOST_ARMS), _SAME_ORDER, None)
_K = Parameter("K", whole(1, MOST_ARMS), "how many arms to choose, from 1 to n")
_BUDGET = Parameter("budget", whole(0, MOST_PULLS), f"pulls, a whole number from 0 to {MOST_PULLS}")
_MEANS = Parameter("means", _means, f"the arms' means: {_FORMS}", Uniform())
_SHUFFLED = Parameter(
    "shuffled",
    flag,
    "number the arms at random in each run, so that ties fall at random (else a sorted list helps)",
    True,
)


def _given(n: int | None, want: int, means: Any, low: float, width: float, shuffled: bool) -> Given | Drawn:
    if isinstance(means, np.ndarray):
        if n is not None and n != means.size:
            raise BadInput("problem.n", n, f"{means.size}, as many as there are means, or nothing")
        with _key("problem"):
            return given(means, low, width, shuffled=shuffled)
    if n is None:
        raise BadInput("problem.n", "missing", "how many arms, a whole number")
    if isinstance(means, _Two):
        count = want if means.count is None else means.count
        with _key("problem"):
            return given(np.where(np.arange(n) < count, means.high, means.low), low, width, shuffled=shuffled)
    return Drawn(means.quantiles(), n)


def _bernoulli(n: int | None, K: int, budget: int, means: Any, shuffled: bool) -> Setting:
    return Setting(budget, K, _given(n, K, means, 0.0, 1.0, shuffled), Bernoulli())


def _gaussian(n: int | None, K: int, budget: int, means: Any, sd: float, shuffled: bool) -> Setting:
    low, width = 0.0, 1.0
    values = means if isinstance(means, np.ndarray) else None
    if isinstance(means, _Two):
        values = np.array([means.low, means.high])
    if values is not None:
        low, width = float(values.min()), float(np.ptp(values)) or 1.0
    rewards = Gaussian(jnp.float32(low), jnp.float32(width), jnp.float32(sd))
    return Setting(budget, K, _given(n, K, means, low, width, shuffled), rewards, width)


def _bounded(
    n: int | None, K: int, budget: int, means: Any, law: str, spread: float, shuffled: bool
) -> Setting:  # fmt: skip
    return Setting(budget, K, _given(n, K, means, 0.0, 1.0, shuffled), Bounded(jnp.float32(spread), law))


@lru_cache(maxsize=16)
def _records(path: str, columns: tuple[tuple[str, str], ...], again: bool, _changed: float) -> Any:
    named = dict(columns)
    with _key("problem"):
        if "reward" in named:
            return replay(list(read_rewards(path, **named).values()), again=again)
        _, won, tried = read_counts(path, **named)
        records = [np.repeat([1.0, 0.0], [s, t - s]) for s, t in zip(won, tried, strict=True)]
        return replay(records, again=again)


def _replay(
    K: int, budget: int, path: str, arm: str | None, reward: str | None, successes: str, trials: str,
    replacement: bool,
) -> Setting:  # fmt: skip
    columns = {"arm": arm or "arm", "reward": reward} if reward else {"successes": successes, "trials": trials}
    try:
        changed = Path(path).stat().st_mtime
    except OSError:
        changed = 0.0
    means, rewards = _records(path, tuple(columns.items()), replacement, changed)
    return Setting(budget, K, means, rewards, float(rewards.width))


PROBLEMS = (
    ProblemKind("bernoulli", "arms that pay 0 or 1", (_N, _K, _BUDGET, _MEANS, _SHUFFLED), _bernoulli),
    ProblemKind(
        "gaussian", "arms that pay a normal amount; given means may be any numbers",
        (_N, _K, _BUDGET, _MEANS, Parameter("sd", real(1e-6, 1e6), "standard deviation of a reward", 1.0), _SHUFFLED),
        _gaussian,
    ),
    ProblemKind(
        "bounded", "arms that pay between 0 and 1",
        (
            _N, _K, _BUDGET, _MEANS,
            Parameter("law", one_of("beta", "uniform", "normal"), "beta, uniform or truncated normal", "beta"),
            Parameter("spread", real(1e-3, 1e4), "beta: alpha + beta; uniform: half the width; normal: the standard "
                      "deviation before truncation", 2.0),
            _SHUFFLED,
        ), _bounded,
    ),
    ProblemKind(
        "replay", "arms that pay what a table of past rewards has",
        (
            _K, _BUDGET,
            Parameter("path", text, "a CSV or SQLite file", swept=False),
            Parameter("arm", text, "the column that names the arm, in a table of rewards (arm)", None, swept=False),
            Parameter("reward", text, "the column of rewards, a row a pull; or else", None, swept=False),
            Parameter("successes", text, "the column of successes, a row an arm", "successes", swept=False),
            Parameter("trials", text, "the column of trials", "trials", swept=False),
            Parameter("replacement", flag, "draw with replacement; else until an arm's record is used up", True),
        ), _replay,
    ),
)  # fmt: skip


def _beta(name: str, value: Any) -> float | None:
    if value == "printed":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.75 < value < 1:
        raise BadInput(name, value, 'a number above 0.75 and below 1, or "printed" for 0.75 e^0.2')
    return float(value)


_READINGS = (
    Parameter("shares", one_of("carry", "floor", "cumulative"), "what becomes of a round's remainder: carried into the "
              "next round, lost, or an arm's shares added up before they are rounded down", "carry"),
    Parameter("accept", one_of("rank", "kth", "printed"), "which of the arms that go are accepted: by rank, or all "
              "with at least the K'-th mean, or as printed the (K'+1)-th", "rank"),
    Parameter("last", one_of("ar", "uniform"), "the last stage: accept-reject, or uniform sampling (Remark 4.1)", "ar"),
    Parameter("reduce", flag, "where K >= n/2, look for the n - K worst arms (Theorem 4.5)", False),
)  # fmt: skip


def _optmai(setting: Setting, beta: float | None, **readings: Any) -> tuple[Rounds, dict[str, Any]]:
    return optmai(setting.arms, setting.want, setting.budget, beta=beta or printed_beta(), **readings), {}


def _printed(setting: Setting, **readings: Any) -> tuple[Rounds, dict[str, Any]]:
    ours = {"beta": printed_beta(), "inflate": False, "reuse": False, **readings}
    return optmai(setting.arms, setting.want, setting.budget, **ours), {}


def _uniform(setting: Setting, remainder: str) -> tuple[Any, dict[str, Any]]:
    setting.one_pull_each("uniform")
    return uniform(setting.want, remainder == "spread"), {}


def _sar(setting: Setting) -> tuple[Any, dict[str, Any]]:
    setting.one_pull_each("sar")
    return sar(setting.arms, setting.want, setting.budget), {}


def _lucb(setting: Setting, delta: float, odd: str) -> tuple[Any, dict[str, Any]]:
    setting.one_pull_each("lucb")
    return lucb(setting.want, delta=delta, odd=odd), {}


def _stopping(divergence: str, name: str) -> Any:
    def build(setting: Setting, epsilon: float, delta: float, k1: float, alpha: float) -> tuple[Any, dict[str, Any]]:
        setting.one_pull_each(name)
        if divergence == "kl" and isinstance(setting.rewards, Gaussian):
            raise BadInput("policy.kind", name, "a rule that does not need rewards in [0, 1]: lucb-stop")
        rule = lucb(
            setting.want,
            delta=delta,
            epsilon=None if epsilon < 0 else epsilon,
            divergence=divergence,
            k1=k1,
            alpha=alpha,
        )
        return rule, {}

    return build


def _halving(setting: Setting, reuse: bool, carry: bool) -> tuple[Any, dict[str, Any]]:
    return sequential_halving(setting.arms, setting.want, setting.budget, reuse=reuse, carry=carry), {}


_CONFIDENCE = real(1e-9, 1 - 1e-6)
_EPSILON = Parameter("epsilon", real(0, 1), "stop when the two bounds overlap by less than this", 0.1)
_DELTA = Parameter("delta", _CONFIDENCE, "confidence, above 0 and below 1", 0.1)


def _rate(k1: float, alpha: float) -> tuple[Parameter, Parameter]:
    return (
        Parameter("k1", real(1e-3, 1e9), "factor in the exploration rate", k1),
        Parameter("alpha", real(0, 100), "power of the round in the exploration rate", alpha),
    )


POLICIES = (
    PolicyKind(
        "uniform", "every arm equally often (section 6)",
        (Parameter("remainder", one_of("drop", "spread"), "what becomes of Q mod n pulls: drop or spread", "drop"),),
        _uniform,
    ),
    PolicyKind(
        "optmai", "OptMAI as section 6 runs it: Q', rewards reused",
        (
            Parameter("beta", _beta, 'above 0.75 and below 1, or "printed"', 0.8),
            Parameter("inflate", flag, "allot with Q' in the place of Q", True),
            Parameter("reuse", flag, "judge by all rewards of an arm, else by those of the round", True),
            *_READINGS,
        ), _optmai,
    ),
    PolicyKind("optmai-printed", "OptMAI as in Algorithms 1 to 3: 0.75 e^0.2, Q, fresh means", _READINGS, _printed),
    PolicyKind("sar", "successive accepts and rejects (Bubeck et al. 2013)", (), _sar),
    PolicyKind(
        "lucb", "LUCB run to the budget (Kalyanakrishnan et al. 2012)",
        (_DELTA, Parameter("odd", one_of(*ODD), "who gets a last pull without a pair", "weak")), _lucb, anytime=True,
    ),
    PolicyKind(
        "lucb-stop", "LUCB with its own stopping rule (2012)", (_EPSILON, _DELTA, *_rate(1.25, 4.0)),
        _stopping("hoeffding", "lucb-stop"),
    ),
    PolicyKind(
        "kl-lucb", "KL-LUCB with its own stopping rule (Kaufmann and Kalyanakrishnan 2013)",
        (_EPSILON, _DELTA, *_rate(405.5, 1.1)), _stopping("kl", "kl-lucb"),
    ),
    PolicyKind(
        "halving", "sequential halving (Karnin et al. 2013) for K arms",
        (
            Parameter("reuse", flag, "judge by all rewards of an arm, else by those of the round", False),
            Parameter("carry", flag, "what a round leaves goes to the next, else it is lost", False),
        ), _halving,
    ),
)  # fmt: skip


def _regret(setting: Setting, answers: Answers) -> np.ndarray:
    units = answers["regret_high"] * 4096.0 + answers["regret_low"]
    regret: np.ndarray = units * (setting.width / 2.0**24) / setting.want
    return regret


def _precision(setting: Setting, answers: Answers) -> np.ndarray:
    share: np.ndarray = (answers["right"] + np.minimum(answers["level"], answers["room"])) / float(setting.want)
    return share


def _expected_precision(setting: Setting, answers: Answers) -> np.ndarray:
    chance = answers["room"] / np.maximum(answers["ties"], 1)
    share: np.ndarray = (answers["right"] + answers["level"] * chance) / setting.want
    return share


def _exact(setting: Setting, answers: Answers) -> np.ndarray:
    # All that are above the last of the best are chosen, and none below it.
    found: np.ndarray = (answers["right"] + answers["room"] == setting.want) & (
        answers["right"] + answers["level"] == setting.want
    )
    return found.astype(np.float64)


def _stopped(setting: Setting, answers: Answers) -> np.ndarray:
    if "stopped" in answers:
        return answers["stopped"].astype(np.float64)
    return np.zeros(answers["pulls"].shape)


def _count(name: str) -> Any:
    return lambda setting, answers: answers[name].astype(np.float64)


METRICS = (
    Metric("regret", "aggregate regret (equation 1)", _regret, lower_is_better=True),
    Metric("precision", "precision (of equal arms at the cut, any is right)", _precision),
    Metric("expected_precision", "precision (equal arms at the cut: a random top K)", _expected_precision),
    Metric("exact", "probability of a set of K best arms", _exact, binary=True),
    Metric("pulls", "pulls used", _count("pulls"), lower_is_better=True),
    *(
        Metric(
            f"pulls_{share}",
            {0: "least pulls of an arm", 100: "most pulls of an arm"}.get(
                share, f"pulls of an arm, {share} % quantile"
            ),
            _count(f"pulls_{share}"),
        )
        for share in SHARES
    ),
    Metric("stopped", "share of runs that a stopping rule ended", _stopped, binary=True),
)

FAMILY = Family(
    "topk",
    {kind.name: kind for kind in PROBLEMS},
    {kind.name: kind for kind in POLICIES},
    METRICS,
    common=("n", "K", "budget"),
)

__all__ = ["FAMILY", "Setting"]
