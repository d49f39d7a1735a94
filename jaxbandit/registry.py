"""What a family offers to study files and the command line: its problems, policies and metrics, by name."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from jaxbandit.contract import place, raised_in
from jaxbandit.describe import brief
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Policy, Problem
from jaxbandit.parameters import LEFT_OUT, Key, Parameter, Required
from jaxbandit.parsers import between, flag, one_of, real, takes, text, whole
from jaxbandit.scores import Score, Trainable


class Setting(Protocol):
    """Describes a problem as its user does, before anything is drawn: a policy is built and tuned for it.

    Example:
        >>> import jaxbandit
        >>> problem = {"kind": "topk/bernoulli", "n": 8, "K": 2, "budget": 80}
        >>> (each,) = jaxbandit.Study.of({"runs": 1, "problem": problem, "policy": [{"kind": "sar"}]}).configurations()
        >>> each.setting.budget, type(each.setting.problem()).__name__
        (80, 'Arms')
    """

    def problem(self) -> Problem:
        """Returns the problem against which lanes are run."""


Answers = Mapping[str, np.ndarray]
"""A policy's answers by name, each of shape (runs, ...)."""


def answered(name: str) -> Callable[[Any, Answers], np.ndarray]:
    """Returns a function for ``Metric.of`` that gives the answers called ``name`` as they are.

    Example:
        >>> import numpy as np
        >>> from jaxbandit.registry import Metric, answered
        >>> Metric("pulls", "pulls used", answered("pulls")).of(None, {"pulls": np.array([3, 4])}).tolist()
        [3.0, 4.0]
    """
    return lambda setting, answers: answers[name].astype(np.float64)


@dataclass(frozen=True)
class Metric:
    """Computes ``of(setting, answers)``: from a policy's answers, each of shape (runs, ...), float64 of shape (runs,).

    ``binary``: whether a run's value is 0 or 1, so that the mean is a share of runs and has Wilson's interval;
    ``share``: whether a run's value is a share, from 0 to 1, so that the mean has an interval even where it never
    varied; ``within_1``: of what is no share, from a setting to whether its values are from 0 to 1 there all the same;
    ``lower_is_better``: as of a regret or a cost.

    Example:
        >>> from jaxbandit.registry import Metric
        >>> Metric("pulls", "pulls used", lambda problem, answers: answers["pulls"], lower_is_better=True).name
        'pulls'
    """

    name: str
    label: str
    of: Callable[[Any, Answers], np.ndarray]
    binary: bool = False
    lower_is_better: bool = False
    share: bool = False
    within_1: Callable[[Any], bool] = lambda setting: False

    def bounded(self, setting: Any) -> bool:
        """Returns whether a run's value is from 0 to 1 on a setting."""
        return self.share or self.within_1(setting)


@dataclass(frozen=True)
class Question:
    """Says what the results of a study are asked: which policy, and which budget? ``study.conclude`` has the sentences.

    Attributes:
        metric: the one that decides. Where it is of shares, values and targets are in percent.
        opening: from a setting to the line that comes first, which ends where values follow.
        aim: what a target means, with {} in its place, as "to remove {}".
        target: what a target may be, for who gives another.
        spent: the metric of what a run spends of its budget, in ``unit``.
        capped: whether a budget is a cap that runs seldom reach, so that what they spend is what a policy costs.
        aside: from a setting and the means of a policy by metric to what else there is to say of it.
        leaves: from a policy's kind and its params to a sentence with {policy} and {spent}, said where it ends before
            its budget is spent; empty for a policy of which there is nothing to say.

    Example:
        >>> from jaxbandit.study.families import FAMILIES
        >>> question = FAMILIES["topk"].question
        >>> question.metric, question.aim.format("0.05"), question.unit
        ('regret', 'for a regret of at most 0.05', 'pulls')
    """

    metric: str
    opening: Callable[[Any], str]
    aim: str
    target: str
    spent: str
    unit: str
    capped: bool = False
    aside: Callable[[Any, Mapping[str, float]], str] | None = None
    leaves: Callable[[str, Mapping[str, Any]], str] = lambda kind, params: ""


@dataclass(frozen=True)
class ProblemKind:
    """Declares a kind of problem. ``build`` takes the parsed parameters, by name, and returns the setting.

    ``metrics``: those of problems of this kind alone, after the family's; ``question``: what results are asked, where
    it is not the family's.

    Example:
        >>> from jaxbandit.registry import parse
        >>> from jaxbandit.study.families import FAMILIES
        >>> kind = FAMILIES["cleaning"].problems["synthetic"]
        >>> setting = kind.build(**parse("problem", kind.parameters, {"budget": 100, "entities": 50}))
        >>> int(setting.problem().budget)
        100
    """

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    build: Callable[..., Any]
    metrics: tuple[Metric, ...] = ()
    question: Question | None = None


@dataclass(frozen=True)
class PolicyKind:
    """Declares a kind of policy. ``build`` takes the setting and the parsed parameters, and returns the policy and the
    parameters to report.

    ``anytime``: whether the policy does the same whatever its budget, until that is spent. Its runs can be recorded at
    checkpoints, which are smaller budgets. ``reference``: whether it knows the truth, so that it shows how well a
    policy could do, and is none to take.

    Example:
        >>> from jaxbandit import topk
        >>> from jaxbandit.registry import Parameter, PolicyKind, parse, whole
        >>> keys = (Parameter("want", whole(1, 9), "how many arms", 1),)
        >>> kind = PolicyKind("even", "all arms", keys, lambda setting, want: (topk.uniform(want), {"K": want}))
        >>> kind.build(None, **parse("policy.even", kind.parameters, {}))
        (Uniform(want=1, spread=False), {'K': 1})
    """

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    build: Callable[..., tuple[Policy, Mapping[str, Any]]]
    anytime: bool = False
    fingerprint: str = ""
    """The SHA-256 of the plugin's source, where it comes from one."""
    reference: bool = False
    retired: Mapping[str, str] = field(default_factory=dict)
    """Keys that study files of earlier versions may have, each with the reason why it is left aside."""


def measured(metric: Metric, setting: Any, answers: Answers) -> np.ndarray:
    """Returns a metric's values, float64 of shape (runs,), from a policy's ``answers`` to the problem that ``setting``
    describes.

    Raises:
        BadInput: where a user's function fails, or gives something of another shape, or that the metric says it is not.

    Example:
        >>> import numpy as np
        >>> from jaxbandit.registry import Metric, measured
        >>> pulls = Metric("pulls", "pulls used", lambda problem, answers: answers["pulls"])
        >>> measured(pulls, None, {"pulls": np.array([3, 4])}).tolist()
        [3.0, 4.0]
    """
    own = getattr(metric.of, "__module__", "").partition(".")[0] != "jaxbandit"
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.asarray(metric.of(setting, answers), np.float64)
    except Exception as error:
        if not own:
            raise
        allowed = f"a function of the problem and of the answers {', '.join(answers)}; it raised {raised_in(error)}"
        raise BadInput(f"metric {metric.name}", place(error), allowed) from error
    runs = len(next(iter(answers.values())))
    if values.shape != (runs,):
        raise BadInput(
            f"metric {metric.name}", f"an array of shape {values.shape}", f"a value a run, of shape ({runs},)"
        )
    if own and metric.binary:
        _refuse(metric, values[~np.isnan(values) & ~np.isin(values, (0, 1))], "0 or 1 in each run, as it is binary")
    elif own and metric.bounded(setting):
        _refuse(metric, values[np.abs(values - 0.5) > 0.5 + _ROUNDING], "from 0 to 1 in each run, as a share is")
        values = np.clip(values, 0, 1)
    return values


_ROUNDING = 1e-9
"""By which a share may be beyond 0 or 1, as one that is computed."""


def _refuse(metric: Metric, wrong: np.ndarray, allowed: str) -> None:
    if wrong.size:
        raise BadInput(f"metric {metric.name}", f"{wrong[0]:g}", allowed)


@dataclass(frozen=True)
class Family:
    """Holds a family of problems with the policies that can run on them. The first metric is the one that is plotted.

    Example:
        >>> from jaxbandit.study.families import FAMILIES
        >>> family = FAMILIES["topk"]
        >>> family.metrics[0].name, "sar" in family.policies, family.problems["bernoulli"].name
        ('regret', True, 'bernoulli')
    """

    name: str
    problems: Mapping[str, ProblemKind]
    policies: Mapping[str, PolicyKind]
    metrics: tuple[Metric, ...]
    common: tuple[str, ...] = field(default=())
    """Problem parameters that are reported in every row (a budget)."""
    tune: Callable[[Any], Iterable[dict[str, Any]]] | None = None
    """A function from a setting to the best parameters found for it, as summary rows, which may come one by one."""
    tune_terms: Mapping[str, str] = field(default_factory=dict)
    """What the metrics of ``tune`` say, a phrase each by its name."""
    describe: Callable[[Any], list[str]] | None = None
    """A function from a setting to sentences on what it holds (a table's entities, its oddities), for its user."""
    axes: tuple[str, ...] = ()
    """Swept params in the order in which they can be the x axis, where it is not that of the study."""
    fingerprint: str = ""
    """What else the results depend on, where names do not tell: of a family made of a user's objects."""
    question: Question | None = None
    """What the results are asked, on problems whose kind has no question of its own."""
    failed: Callable[[Mapping[str, np.ndarray]], np.ndarray] | None = None
    """A function from answers to the runs whose values are not sound (bool, (runs,)), as they ran out of room."""
    checked: bool = False
    """Whether a study need not check its users' own problems and policies: see ``jaxbandit.check``."""
    trainable: Trainable | None = None
    """What ``jaxbandit train`` can train policies of this family on."""

    __repr__ = brief


def parse(
    kind: str, parameters: tuple[Parameter, ...], given: Mapping[str, Any], *, alone: bool = True
) -> dict[str, Any]:
    """Checks ``given`` against ``parameters`` and fills in the defaults; ``kind``: what errors call the table;
    ``alone``: whether that is all, so that a partner which is not there is missing.

    Raises:
        BadInput: for a key that does not exist, one that is missing, and whatever a parameter's own check refuses.

    Example:
        >>> from jaxbandit.registry import Parameter, parse, whole
        >>> keys = (Parameter("t", whole(1, 9), "operations", 3), Parameter("n", whole(1, 99), "how many"))
        >>> parse("policy.ee", keys, {"n": 5})
        {'t': 3, 'n': 5}
    """
    names = [parameter.name for parameter in parameters]
    for key in given:
        if key not in names:
            raise BadInput(f"{kind}.{key}", given[key], f"no such key; there are {', '.join(names) or 'none'}")
    values = {}
    for parameter in parameters:
        if parameter.name in given:
            values[parameter.name] = parameter.parse(f"{kind}.{parameter.name}", given[parameter.name])
        elif parameter.required:
            raise BadInput(f"{kind}.{parameter.name}", "missing", parameter.help)
        else:
            values[parameter.name] = parameter.default
        if alone and parameter.name in given and parameter.partner and parameter.partner not in given:
            allowed = f"to be given together with {parameter.name}, or neither"
            raise BadInput(f"{kind}.{parameter.partner}", "missing", allowed)
    return values


def without_kind(table: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a table of a study file but for its ``kind``: the parameters of what that names."""
    return {name: value for name, value in table.items() if name != "kind"}


def trained(summary: str, load: Callable[[str, str], Score], shipped: Callable[[], Score], scored: Any) -> PolicyKind:
    """Declares the kind of policies that decide by a trained score.

    Args:
        summary: one line.
        load: reads a score from a path; takes the path and the field that errors name.
        shipped: loads the score that comes with the package.
        scored: makes the policies of some scores; takes a setting and a list of scores, as ``Trainable`` says.
    """

    def score_at(name: str, value: Any) -> Score:
        return load(text(name, value), name)

    def build(setting: Any, path: Score | None) -> tuple[Policy, Mapping[str, Any]]:
        score = path or shipped()
        return scored(setting, [score])[0], {"score": score.sha256[:8]}

    path = Parameter("path", score_at, "a score that jaxbandit train wrote; else the one that comes along", None)
    return PolicyKind("trained", summary, (path,), build)


__all__ = [
    "LEFT_OUT", "Family", "Key", "Metric", "Parameter", "PolicyKind", "ProblemKind", "Question", "Required",
    "Setting", "answered", "between", "flag", "measured", "one_of", "parse", "real", "takes", "text", "whole",
]  # fmt: skip
