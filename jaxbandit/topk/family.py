"""The top-K family as study files and the command line see it: problems, policies and metrics, by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jaxbandit.arms.models import BUDGET, Model, problems
from jaxbandit.arms.problem import MOST_ARMS, Arms, Drawn, arms
from jaxbandit.arms.pulls import metrics as pulls_of_arms
from jaxbandit.arms.rewards import Gaussian
from jaxbandit.contract import brief
from jaxbandit.errors import BadInput
from jaxbandit.random.trials import UNITS
from jaxbandit.registry import Family, Metric, Parameter, PolicyKind, Question, flag, one_of, real, text, whole
from jaxbandit.scores import Score, Trainable
from jaxbandit.space import Choice, Range
from jaxbandit.topk.confidence import CONFIDENCE, OVERLAP, RATES
from jaxbandit.topk.halving import sequential_halving
from jaxbandit.topk.lucb import ODD, lucb
from jaxbandit.topk.optmai import OptMAI, optmai
from jaxbandit.topk.sar import sar
from jaxbandit.topk.shares import printed_beta
from jaxbandit.topk.trained import STATISTICS, USUAL, Trained, load, policies, shipped
from jaxbandit.topk.uniform import uniform

Answers = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Setting:
    """A top-K problem as its user describes it. ``want``: K."""

    budget: int
    want: int
    model: Model

    __repr__ = brief

    def __post_init__(self) -> None:
        if not 1 <= self.want <= self.arms:
            raise BadInput("problem.K", self.want, f"a whole number from 1 to {self.arms}, the number of arms")

    @property
    def arms(self) -> int:
        """How many arms there are."""
        return self.model.means.arms

    def problem(self, on_tape: bool = False) -> Arms:
        """What lanes are run against."""
        return arms(self.budget, self.model.means, self.model.rewards, on_tape=on_tape)

    def one_pull_each(self, policy: str) -> None:
        """Refuses a budget that does not give each arm a pull."""
        if self.budget < self.arms:
            raise BadInput("problem.budget", self.budget, f"at least {self.arms} for {policy}, a pull for each arm")


_K = Parameter("K", whole(1, MOST_ARMS), "how many arms to choose, from 1 to n")


def _setting(model: Model, K: int, budget: int) -> Setting:
    return Setting(budget, K, model)


PROBLEMS = problems((_K, BUDGET), _setting, count="K")


def _beta(name: str, value: Any) -> float | None:
    if value == "printed":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.75 < value < 1:
        raise BadInput(name, value, 'a number above 0.75 and below 1, or "printed" for 0.75 e^0.2')
    return float(value)


# Where arms are listed by their means, "lowest" knows more than a rule may.
_TIES = Parameter(
    "ties", one_of("lowest", "random"), "of equal gaps the lowest arm's goes first, or in a random order", "random",
    on_request=True,
)  # fmt: skip
_DELTA = Parameter("delta", CONFIDENCE, "confidence, above 0 and below 1", 0.1, search=Range(1e-4, 0.9, log=True))
_READINGS = (
    Parameter("shares", one_of("carry", "floor", "cumulative"), "what becomes of a round's remainder: carried into the "
              "next round, lost, or an arm's shares added up before they are rounded down", "carry", on_request=True),
    Parameter("accept", one_of("rank", "kth", "printed"), "which of the arms that go are accepted: by rank, or all "
              "with at least the K'-th mean, or as printed the (K'+1)-th", "rank", on_request=True,
              when={"last": Choice(("ar",))}),
    Parameter("last", one_of("ar", "uniform"), "the last stage: accept-reject, or uniform sampling (Remark 4.1)", "ar",
              on_request=True),
    Parameter("reduce", flag, "where K >= n/2, look for the n - K worst arms (Theorem 4.5)", False, on_request=True),
    _TIES,
)  # fmt: skip


def _optmai(setting: Setting, beta: float | None, **readings: Any) -> tuple[OptMAI, dict[str, Any]]:
    return optmai(setting.arms, setting.want, setting.budget, beta=beta or printed_beta(), **readings), {}


def _printed(setting: Setting, **readings: Any) -> tuple[OptMAI, dict[str, Any]]:
    ours = {"beta": printed_beta(), "inflate": False, "reuse": False, **readings}
    return optmai(setting.arms, setting.want, setting.budget, **ours), {}


def _uniform(setting: Setting, remainder: str) -> tuple[Any, dict[str, Any]]:
    setting.one_pull_each("uniform")
    return uniform(setting.want, remainder == "spread"), {}


def _sar(setting: Setting, ties: str) -> tuple[Any, dict[str, Any]]:
    setting.one_pull_each("sar")
    return sar(setting.arms, setting.want, setting.budget, ties=ties), {}


def _lucb(setting: Setting, delta: float, odd: str) -> tuple[Any, dict[str, Any]]:
    setting.one_pull_each("lucb")
    return lucb(setting.want, delta=delta, odd=odd), {}


def _stopping(divergence: str, name: str) -> Any:
    def build(setting: Setting, **given: Any) -> tuple[Any, dict[str, Any]]:
        setting.one_pull_each(name)
        if divergence == "kl" and isinstance(setting.model.rewards, Gaussian):
            raise BadInput("policy.kind", name, "a rule that does not need rewards in [0, 1]: lucb-stop")
        return lucb(setting.want, divergence=divergence, **given), {}

    k1, alpha = RATES[divergence]
    parameters = (
        # These are the rule's promise: a search would give it up.
        Parameter("epsilon", OVERLAP, "stop when the two bounds overlap by less than this", 0.1, on_request=True),
        replace(_DELTA, on_request=True),
        Parameter("k1", real(1e-3, 1e9), "factor in the exploration rate", k1, search=Range(0.1, 1000, log=True),
                  on_request=True),
        Parameter("alpha", real(0, 100), "power of the round in the exploration rate", alpha, search=Range(1, 8),
                  on_request=True),
    )  # fmt: skip
    return parameters, build


def _halving(setting: Setting, reuse: bool, carry: bool) -> tuple[Any, dict[str, Any]]:
    return sequential_halving(setting.arms, setting.want, setting.budget, reuse=reuse, carry=carry), {}


def _score(name: str, value: Any) -> Score:
    return load(text(name, value), name)


def _scored(setting: Setting, scores: Sequence[Score]) -> list[Trained]:
    return policies(setting.want, scores)


def _trained(setting: Setting, path: Score | None) -> tuple[Trained, dict[str, Any]]:
    score = path or shipped()
    return _scored(setting, [score])[0], {"score": score.sha256[:8]}


POLICIES = (
    PolicyKind(
        "uniform", "every arm equally often (section 6)",
        (Parameter("remainder", one_of("drop", "spread"), "what becomes of Q mod n pulls: drop or spread", "drop"),),
        _uniform,
    ),
    PolicyKind(
        "optmai", "OptMAI as section 6 runs it: Q', rewards reused",
        (
            Parameter("beta", _beta, 'above 0.75 and below 1, or "printed"', 0.8, search=Range(0.76, 0.98)),
            Parameter("inflate", flag, "allot with Q' in the place of Q", True),
            Parameter("reuse", flag, "judge by all rewards of an arm, else by those of the round", True),
            *_READINGS,
        ), _optmai,
    ),
    PolicyKind("optmai-printed", "OptMAI as in Algorithms 1 to 3: 0.75 e^0.2, Q, fresh means", _READINGS, _printed),
    PolicyKind("sar", "successive accepts and rejects (Bubeck et al. 2013)", (_TIES,), _sar),
    PolicyKind(
        "lucb", "LUCB run to the budget (Kalyanakrishnan et al. 2012)",
        (_DELTA, Parameter("odd", one_of(*ODD), "who gets a last pull without a pair", "weak",
                           on_request=True)), _lucb, anytime=True,
    ),
    PolicyKind("lucb-stop", "LUCB with its own stopping rule (2012)", *_stopping("hoeffding", "lucb-stop")),
    PolicyKind(
        "kl-lucb", "KL-LUCB with its own stopping rule (Kaufmann and Kalyanakrishnan 2013)",
        *_stopping("kl", "kl-lucb"),
    ),
    PolicyKind(
        "halving", "sequential halving (Karnin et al. 2013) for K arms",
        (
            Parameter("reuse", flag, "judge by all rewards of an arm, else by those of the round", False),
            Parameter("carry", flag, "what a round leaves goes to the next, else it is lost", False),
        ), _halving,
    ),
    PolicyKind(
        "trained", "rounds shared by a trained score of arms (docs/trained.md)",
        (Parameter("path", _score, "a score that jaxbandit train wrote; else the one that comes along", None),),
        _trained,
    ),
)  # fmt: skip


def _regret(setting: Setting, answers: Answers) -> np.ndarray:
    units = answers["regret_high"] * 4096.0 + answers["regret_low"]
    regret: np.ndarray = units * (setting.model.width / 2.0**24) / setting.want
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
    Metric(
        "regret", "aggregate regret (mean of the best K arms less that of the chosen)", _regret, lower_is_better=True
    ),
    Metric("precision", "precision (of equal arms at the cut, any is right)", _precision, share=True),
    Metric("expected_precision", "precision (equal arms at the cut: a random top K)", _expected_precision, share=True),
    Metric("exact", "probability of a set of K best arms", _exact, binary=True),
    Metric("pulls", "pulls used", _count("pulls"), lower_is_better=True),
    *pulls_of_arms(lower_is_better=False),
    Metric("stopped", "share of runs that a stopping rule ended", _stopped, binary=True),
)


def _described(setting: Setting) -> list[str]:
    means, want = setting.model.means, setting.want
    lines = [f"{setting.arms:,} arms, of which the {want:,} best are wanted"]
    if isinstance(means, Drawn):
        return [f"{lines[0]}; their means are drawn afresh in each run"]
    ordered = np.sort(np.asarray(means.means))[::-1] * (setting.model.width / UNITS)
    lines.append(f"the best mean is {ordered[0] - ordered[-1]:.4g} above the worst")
    if want < setting.arms:
        gap, ties = ordered[want - 1] - ordered[want], int((ordered == ordered[want - 1]).sum())
        cut = f"no. {want:,} is {gap:.4g} above no. {want + 1:,}" if gap else f"{ties:,} arms are equal at the cut"
        lines[-1] += f"; {cut}"
    return lines


def _opening(setting: Setting) -> str:
    best, chosen = ("arm", "one") if setting.want == 1 else (f"{setting.want:,} arms", f"{setting.want:,}")
    return f"which rule, how many pulls? Regret (the mean of the best {best} less that of the chosen {chosen}):"


_QUESTION = Question(
    "regret", _opening, "for a regret of at most {}", "a regret that is low enough, above 0, such as 0.01", "pulls",
    "pulls", aside=lambda setting, means: f"precision {100 * means['precision']:.3g} %",
)  # fmt: skip


FAMILY = Family(
    "topk",
    PROBLEMS,
    {kind.name: kind for kind in POLICIES},
    METRICS,
    common=("n", "K", "budget"),
    describe=_described,
    question=_QUESTION,
    trainable=Trainable(STATISTICS, USUAL, _scored),
)

__all__ = ["FAMILY", "Setting"]
