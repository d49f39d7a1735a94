"""Finds how much of a parameter of the problem, such as its budget, a policy needs for a metric to reach a value.

The metric is taken to improve, or to worsen, all the way along the parameter. The range between a value that surely
does not reach it and one that surely does is halved again and again; all values share their runs' randomness. A value
is settled when the interval of its mean, which holds at any number of runs, leaves the goal out.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jaxbandit.devices import use_all_cores
from jaxbandit.engine import Batch
from jaxbandit.errors import BadInput
from jaxbandit.progress import Progress, Status, shown
from jaxbandit.registry import Metric
from jaxbandit.study.spec import Configuration, Study
from jaxbandit.study.summary import Always, Moments, Row
from jaxbandit.tuning.values import valued

EVALUATIONS = 40
"""So many values of the parameter share the error of a policy's answer; a range of 2^31 needs 31."""

_FIRST, _ROOM = 256, 1 << 12

_SAME = 1 << 14
"""Runs after which a value without bounds that was the same in all is taken for the mean: another one is then rarer
than 1 in 5,000 runs, at 95 %."""


@dataclass(frozen=True)
class Needed:
    """Says how much of the parameter a policy needs.

    Attributes:
        policy: label.
        params: of the policy, those that it is tuned to where ``mean`` is.
        low, high: the value needed is above ``low``, which surely does not reach the goal, and at most ``high``, which
            surely does. None where the range ends first: with ``low`` None even its first value reaches the goal, with
            ``high`` None no end of it surely does.
        mean: of the metric at ``high``, or at the end of the range.
        runs: of all values together.
        told: False where an end of the range could not be told apart from the goal, so that nothing is known of it.
    """

    kind: str
    policy: str
    params: Mapping[str, Any]
    low: int | None
    high: int | None
    mean: float
    runs: int
    told: bool = True


@dataclass(frozen=True)
class Goal:
    """Says that ``metric`` is to be at least ``value``, or at most that where lower is better."""

    metric: Metric
    value: float

    def __str__(self) -> str:
        return f"{self.metric.name} {'<=' if self.metric.lower_is_better else '>='} {self.value:g}"


def goal(study: Study, metric: str | None, reach: float) -> Goal:
    """Returns the goal that ``metric``, by default the family's first, is to reach the value ``reach``.

    Raises:
        BadInput: for a metric that the family does not have.
    """
    metrics = {each.name: each for each in study.family.metrics}
    name = metric or next(iter(metrics))
    if name not in metrics:
        raise BadInput("--metric", name, f"one of {', '.join(metrics)}")
    if not math.isfinite(reach):
        raise BadInput("--reach", reach, "a finite number")
    return Goal(metrics[name], reach)


def needed(
    study: Study, wanted: Goal, parameter: str = "budget", low: int | None = None, high: int | None = None,
    within: float = 0.02, most_runs: int = 1_000_000, progress: Progress | bool = True,
    told: Callable[[Needed], None] = lambda each: None,
) -> list[Needed]:  # fmt: skip
    """Returns what each policy of a study needs, with 95 % confidence each.

    Args:
        study: its value of ``parameter`` is not used; other swept parameters are not allowed.
        wanted: of ``goal``.
        parameter: of the problem, a whole number.
        low, high: the range to search; where None, the least and the greatest value that the study sweeps, its
            checkpoints and its budget, or a 64th and 64 times the one value that it gives.
        within: the range is halved until its ends are this near to each other, as a share.
        most_runs: of a policy, all values together.
        told: called with what a policy needs as soon as that is found.

    Raises:
        BadInput: naming the argument, and for values that the problem or a policy cannot have.
    """
    use_all_cores()
    first, last = _range(study, parameter, low, high)
    if not 0 < within < 10:
        raise BadInput("--within", within, "a share above 0, as 0.02")
    if most_runs < 2 * _FIRST:
        raise BadInput("--most-runs", most_runs, f"at least {2 * _FIRST}, with which the ends of the range are tried")
    # Of policies, tuned to a value or not, those at the first value stand for all.
    members = _end(study, parameter, "--from", first, low is not None)
    _end(study, parameter, "--to", last, high is not None)
    metric, labels = wanted.metric, [each.label for each in members]
    within_1 = metric.binary or all(metric.bounded(each.setting) for each in members)
    if within_1 and not 0 <= wanted.value <= 1:
        raise BadInput("--reach", wanted.value, f"a number from 0 to 1, as {metric.name} is one")
    found = []
    with shown(progress, "planning", "policies") as tell:
        for number, label in enumerate(labels):

            def doing(value: int, runs: int, number: int = number, label: str = label) -> None:
                tell(Status(number, len(labels), f"{label}: {parameter} {value:,}, {runs:,} runs"))

            search = _Search(_roomy(study, parameter, last), wanted, parameter, number, most_runs, doing)
            found.append(search.between(first, last, within))
            told(found[-1])
    return found


def _range(study: Study, parameter: str, low: int | None, high: int | None) -> tuple[int, int]:
    names = [each.name for each in study.kind.parameters]
    if parameter not in names:
        raise BadInput("--parameter", parameter, f"a parameter of the problem: {', '.join(names)}")
    others = [name for name in study.sweep if name != parameter]
    if others:
        raise BadInput("sweep", ", ".join(others), f"one value each; only {parameter} is searched")
    given = study.sweep.get(parameter, [study.problem[parameter]] if parameter in study.problem else [])
    given = [*study.checkpoints, *given] if parameter == "budget" else given
    numbers = [value for value in given if isinstance(value, int) and not isinstance(value, bool)]
    if len(numbers) == 1:
        numbers = [max(1, numbers[0] // 64), 64 * numbers[0]]
    if (low is None or high is None) and not numbers:
        raise BadInput("--from", "missing", f"the range of {parameter} to search, --from and --to")
    first, last = low if low is not None else min(numbers), high if high is not None else max(numbers)
    if last > 2**31 - 1:
        raise BadInput("--to", last, "at most 2147483647")
    if not 1 <= first < last:
        raise BadInput("--from", first, f"at least 1 and below --to, {last}")
    return first, last


def _end(study: Study, parameter: str, option: str, value: int, given: bool) -> list[Configuration]:
    """Returns the configurations at an end of the range, which the ``option`` gives, if it is ``given``."""
    try:
        return _at(study, parameter, value)
    except BadInput as error:
        if error.field != f"problem.{parameter}":
            raise
        allowed = error.allowed if given else f"{error.allowed}; left out, it comes from the study's values"
        raise BadInput(option, value, allowed) from None


def _roomy(study: Study, parameter: str, last: int) -> Study:
    """Returns the study with room for the last value, where its problem can make some: so that all values share a
    program."""
    room = f"largest_{parameter}"
    if room not in {each.name for each in study.kind.parameters} - set(study.problem):
        return study
    return replace(study, problem={**study.problem, room: last})


def _at(study: Study, parameter: str, value: int) -> list[Configuration]:
    sweep = {name: values for name, values in study.sweep.items() if name != parameter}
    return replace(study, problem={**study.problem, parameter: value}, sweep=sweep).configurations()


@dataclass
class _Search:
    """Searches for what one policy needs, which is number ``place`` of the study."""

    study: Study
    wanted: Goal
    parameter: str
    place: int
    most_runs: int
    tell: Any
    runs: int = 0
    means: dict[int, float] = field(default_factory=dict)

    def between(self, first: int, last: int, within: float) -> Needed:
        ends = self._reaches(first), self._reaches(last)
        if True not in ends:
            return self._made(last, None)
        if ends[0] == ends[1]:
            return self._made(None, first)
        low, high = (first, last) if ends[0] is not True else (last, first)
        untold = low if None in ends else None
        while abs(high - low) > max(1, within * min(low, high)):
            middle = round(math.sqrt(low * high))
            if middle in (low, high):
                middle = (low + high) // 2
            answer = self._reaches(middle)
            if answer is None:
                break
            low, high = (low, middle) if answer else (middle, high)
        return self._made(None if low == untold else low, high, low != untold)

    def _made(self, low: int | None, high: int | None, told: bool = True) -> Needed:
        at = (high if high is not None else low) or 0
        member = _at(self.study, self.parameter, at)[self.place]  # with the parameters that a policy is tuned to there
        own = {name: value for name, value in member.params.items() if name != self.parameter}
        return Needed(member.name, member.label, own, low, high, self.means.get(at, math.nan), self.runs, told)

    def _reaches(self, value: int) -> bool | None:
        """Returns whether the goal is surely reached there (True) or surely not (False); None where the runs do not
        tell."""
        member = _at(self.study, self.parameter, value)[self.place]
        batch = _batch(member, self.study)
        metric, always = self.wanted.metric, None
        total = Moments(metric.binary, metric.bounded(member.setting))
        for start, stop in self._stages():
            self.tell(value, stop)
            parts = [
                self._values(batch, member, first, min(first + _ROOM, stop)) for first in range(start, stop, _ROOM)
            ]
            values = np.concatenate(parts)
            if not np.isfinite(values).all():
                raise BadInput("--metric", metric.name, f"one that has a value in each run of {member.label}")
            total.add(values)
            self.runs += stop - start
            self.means[value] = total.mean
            always = always or Always(4 * _FIRST, 0.05 / EVALUATIONS)
            low, high = always.interval(total)
            wanted = self.wanted.value
            left_out = wanted < low or high < wanted
            if left_out if total.variance else total.runs >= _SAME:
                return total.mean <= wanted if metric.lower_is_better else total.mean >= wanted
        return None

    def _values(self, batch: Batch, member: Configuration, start: int, stop: int) -> np.ndarray:
        """Returns the metric's values of some runs, no more than the program has room for: more would compile
        another."""
        answers = batch.run([0], runs=stop - start, seed=self.study.seed, first_run=start, room=_ROOM)
        return valued(self.study, self.wanted.metric, member.setting, {name: own[0] for name, own in answers.items()})

    def _stages(self) -> Iterator[tuple[int, int]]:
        start, stop = 0, _FIRST
        while self.runs + stop - start <= self.most_runs:
            yield start, stop
            start, stop = stop, 2 * stop


def _batch(member: Configuration, study: Study) -> Batch:
    """Returns a batch whose program is the same for all values that are tried."""
    return Batch([(member.problem, member.policy)], implementation=study.implementation, hurry=False)


def rows_of(found: Sequence[Needed], wanted: Goal, parameter: str) -> list[Row]:
    """Returns rows as a summary has them: the value that surely reaches the goal, with the range that was told, and
    ``reached``, which says of what it is the border. There is no value where the range has no border."""
    rows = []
    for each in found:
        low, high = (None if end is None else float(end) for end in (each.low, each.high))
        value = high if low is not None else None
        if low is not None and high is not None:
            low, high = min(low, high), max(low, high)  # where less of the parameter is better, they are the other way
        params, metric = {**each.params, "reached": _reached(each)}, f"{parameter} for {wanted}"
        rows.append(
            Row(policy=each.kind, params=params, metric=metric, mean=value, ci_low=low, ci_high=high, runs=each.runs)
        )
    return rows


def _reached(each: Needed) -> str:
    if each.high is None:
        return "nowhere"
    if not each.told:
        return "not told"
    if each.low is None:
        return "everywhere"
    return "from here on" if each.low < each.high else "up to here"


def sentence(each: Needed, wanted: Goal, parameter: str) -> str:
    """Returns what a policy needs, in words."""
    if each.high is None:
        there = "for which no runs were left" if math.isnan(each.mean) else f"there {each.mean:.4g}"
        return f"{each.policy}: {wanted} is not surely reached up to {parameter} {each.low:,} ({there})"
    if not each.told:
        there = f"at a {parameter} of {each.high:,} ({each.mean:.4g})"
        return f"{each.policy}: {wanted} {there}; the runs do not tell how far that goes"
    if each.low is None:
        return f"{each.policy}: {wanted} is reached all the way from {parameter} {each.high:,} on ({each.mean:.4g})"
    if each.low > each.high:
        return f"{each.policy}: {wanted} up to a {parameter} of {each.high:,}, and no longer at {each.low:,} (at 95 %)"
    return f"{each.policy}: {wanted} takes a {parameter} above {each.low:,} and at most {each.high:,} (at 95 %)"


__all__ = ["Goal", "Needed", "goal", "needed", "rows_of", "sentence"]
