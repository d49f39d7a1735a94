"""The top-K family as study files and the command line see it: problems, policies and metrics, by name."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jaxbandit.arms.models import BUDGET, Model, problems
from jaxbandit.arms.problem import MOST_ARMS, Arms, Drawn, arms
from jaxbandit.arms.pulls import metrics as pulls_of_arms
from jaxbandit.arms.rewards import Gaussian
from jaxbandit.describe import brief
from jaxbandit.errors import BadInput
from jaxbandit.parameters import parameters
from jaxbandit.random.trials import UNITS
from jaxbandit.registry import Answers, Family, Metric, Parameter, PolicyKind, Question, answered, trained, whole
from jaxbandit.scores import Score, Trainable
from jaxbandit.topk.confidence import RATES
from jaxbandit.topk.given import SIZES
from jaxbandit.topk.halving import sequential_halving
from jaxbandit.topk.lucb import lucb
from jaxbandit.topk.optmai import OptMAI, optmai
from jaxbandit.topk.sar import sar
from jaxbandit.topk.trained import STATISTICS, USUAL, Trained, load, policies, shipped
from jaxbandit.topk.uniform import uniform
from jaxbandit.words import counted


@dataclass(frozen=True)
class Setting:
    """Describes a top-K problem as its user does: the budget, the model of the arms, and K (``want``)."""

    budget: int
    want: int
    model: Model

    __repr__ = brief

    def __post_init__(self) -> None:
        if not 1 <= self.want <= self.arms:
            raise BadInput("problem.K", self.want, f"a whole number from 1 to {self.arms}, the number of arms")

    @property
    def arms(self) -> int:
        """Returns the number n of arms that the model has."""
        return self.model.means.arms

    def problem(self, on_tape: bool = False) -> Arms:
        """Returns the problem that runs are simulated against; ``on_tape``: see ``Arms``."""
        return arms(self.budget, self.model.means, self.model.rewards, on_tape=on_tape)

    def one_pull_each(self, policy: str) -> None:
        """Refuses a budget that does not give each arm a pull, as ``policy`` needs."""
        if self.budget < self.arms:
            raise BadInput("problem.budget", self.budget, f"at least {self.arms} for {policy}, a pull for each arm")


_K = Parameter("K", whole(1, MOST_ARMS), "how many arms to choose, from 1 to n")


def _setting(model: Model, K: int, budget: int) -> Setting:
    return Setting(budget, K, model)


PROBLEMS = problems((_K, BUDGET), _setting, count="K")


def _optmai(setting: Setting, beta: float | None, **readings: Any) -> tuple[OptMAI, dict[str, Any]]:
    return optmai(setting.arms, setting.want, setting.budget, beta=beta or "printed", **readings), {}


def _printed(setting: Setting, **readings: Any) -> tuple[OptMAI, dict[str, Any]]:
    return _optmai(setting, None, inflate=False, reuse=False, **readings)


def _uniform(setting: Setting, remainder: str) -> tuple[Any, dict[str, Any]]:
    setting.one_pull_each("uniform")
    return uniform(setting.want, remainder=remainder), {}


def _sar(setting: Setting, ties: str) -> tuple[Any, dict[str, Any]]:
    setting.one_pull_each("sar")
    return sar(setting.arms, setting.want, setting.budget, ties=ties), {}


def _lucb(setting: Setting, delta: float, odd: str) -> tuple[Any, dict[str, Any]]:
    setting.one_pull_each("lucb")
    return lucb(setting.want, delta=delta, odd=odd), {}


def _stopping(divergence: str, name: str) -> Any:
    def build(setting: Setting, **given: Any) -> tuple[Any, dict[str, Any]]:
        setting.one_pull_each(name)
        if isinstance(setting.model.rewards, Gaussian):
            allowed = "a rule that does not stop by bounds, which need rewards on a scale: lucb, optmai, sar, halving"
            raise BadInput("policy.kind", name, allowed)
        return lucb(setting.want, divergence=divergence, **given), {}

    k1, alpha = RATES[divergence]
    declared = parameters(lucb, leave_out=("want", "divergence", "odd"), epsilon=0.1, k1=k1, alpha=alpha)
    # These parameters are the rule's promise, which a search would give up.
    return tuple(replace(each, on_request=True) for each in declared), build


def _halving(setting: Setting, **readings: Any) -> tuple[Any, dict[str, Any]]:
    return sequential_halving(setting.arms, setting.want, setting.budget, **readings), {}


def _scored(setting: Setting, scores: Sequence[Score]) -> list[Trained]:
    return policies(setting.want, scores)


POLICIES = (
    PolicyKind(
        "uniform", "every arm equally often (section 6)", parameters(uniform, leave_out=SIZES), _uniform,
        anytime=True,
    ),
    PolicyKind(
        "optmai", "OptMAI as section 6 runs it: Q', rewards reused", parameters(optmai, leave_out=SIZES), _optmai
    ),
    PolicyKind(
        "optmai-printed",
        "OptMAI with the printed beta, 0.75 e^0.2, Q and fresh means (Algorithms 1 to 3, but for accept)",
        parameters(optmai, leave_out=(*SIZES, "beta", "inflate", "reuse")), _printed,
    ),
    PolicyKind(
        "sar", "successive accepts and rejects (Bubeck et al. 2013)", parameters(sar, leave_out=SIZES), _sar
    ),
    PolicyKind(
        "lucb", "LUCB run to the budget (Kalyanakrishnan et al. 2012)",
        parameters(lucb, leave_out=("want", "epsilon", "divergence", "k1", "alpha")), _lucb, anytime=True,
    ),
    PolicyKind("lucb-stop", "LUCB with its own stopping rule (2012)", *_stopping("hoeffding", "lucb-stop")),
    PolicyKind(
        "kl-lucb", "KL-LUCB with its own stopping rule (Kaufmann and Kalyanakrishnan 2013)",
        *_stopping("kl", "kl-lucb"),
    ),
    PolicyKind(
        "halving", "sequential halving (Karnin et al. 2013) for K arms",
        parameters(sequential_halving, leave_out=SIZES), _halving,
    ),
    trained("rounds shared by a trained score of arms (docs/trained.md)", load, shipped, _scored),
)  # fmt: skip


def _of_choice(metric: Callable[[Setting, Answers], np.ndarray]) -> Callable[[Setting, Answers], np.ndarray]:
    """Returns the metric, which is one of K arms chosen by at most the budget's pulls, for a user's policies too."""

    @functools.wraps(metric)
    def checked(setting: Setting, answers: Answers) -> np.ndarray:
        for needed, from_it in (("chosen", "wanted"), ("arm_pulls", "pulls")):
            if from_it not in answers:
                raise BadInput("policy.answer", f"no {needed}", "chosen and arm_pulls (docs/own-arms.md)")
        for chosen in np.unique(answers["wanted"]).tolist():
            if chosen != setting.want:
                raise BadInput("policy.answer['chosen']", f"{chosen} arms in a run", f"K = {setting.want}")
        if (most := int(answers["pulls"].max(initial=0))) > setting.budget:
            raise BadInput(
                "policy.answer['arm_pulls']", f"{most:,} in a run", f"a budget of {setting.budget:,} at most"
            )
        return metric(setting, answers)

    return checked


@_of_choice
def _regret(setting: Setting, answers: Answers) -> np.ndarray:
    units = answers["regret_high"] * 4096.0 + answers["regret_low"]
    regret: np.ndarray = units * (setting.model.width / 2.0**24) / setting.want
    return regret


@_of_choice
def _precision(setting: Setting, answers: Answers) -> np.ndarray:
    share: np.ndarray = (answers["right"] + np.minimum(answers["level"], answers["room"])) / float(setting.want)
    return share


@_of_choice
def _expected_precision(setting: Setting, answers: Answers) -> np.ndarray:
    chance = answers["room"] / np.maximum(answers["ties"], 1)
    share: np.ndarray = (answers["right"] + answers["level"] * chance) / setting.want
    return share


@_of_choice
def _exact(setting: Setting, answers: Answers) -> np.ndarray:
    # All arms above the last of the K best are chosen, and none below it.
    found: np.ndarray = (answers["right"] + answers["room"] == setting.want) & (
        answers["right"] + answers["level"] == setting.want
    )
    return found.astype(np.float64)


def _stopped(setting: Setting, answers: Answers) -> np.ndarray:
    if "stopped" in answers:
        return answers["stopped"].astype(np.float64)
    return np.zeros(answers["pulls"].shape)


METRICS = (
    Metric(
        "regret",
        "aggregate regret (mean of the best K arms less that of the chosen)",
        _regret,
        lower_is_better=True,
        within_1=lambda setting: bool(setting.model.width <= 1),  # all means lie on the scale
    ),
    Metric("precision", "precision (of equal arms at the cut, any is right)", _precision, share=True),
    Metric("expected_precision", "precision (equal arms at the cut: a random top K)", _expected_precision, share=True),
    Metric("exact", "probability of a set of K best arms", _exact, binary=True),
    Metric("pulls", "pulls used", _of_choice(answered("pulls")), lower_is_better=True),
    *pulls_of_arms(lower_is_better=False),
    Metric("stopped", "share of runs that a stopping rule ended", _stopped, binary=True),
)


def _described(setting: Setting) -> list[str]:
    means, want = setting.model.means, setting.want
    wanted = "the best one is" if want == 1 else f"the {want:,} best are"
    lines = [f"{counted(setting.arms, 'arm', 'arms')}, of which {wanted} wanted"]
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
