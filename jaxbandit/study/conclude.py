"""Which policy, and which budget? What a study's results answer at their end, in sentences.

A family says by a ``registry.Question`` what is asked: by which metric, and in which words.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from jaxbandit.errors import BadInput
from jaxbandit.registry import Metric, Question
from jaxbandit.study.compare import leading
from jaxbandit.study.differences import MANY
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import Row, identity, show
from jaxbandit.study.table import estimate
from jaxbandit.wilson import share_interval, student
from jaxbandit.words import counted

if TYPE_CHECKING:
    import xarray as xr

_SHOWN = 3
"""The policies that are named at each budget."""
_ALL_OF_IT = 0.99
"""A policy that spends a smaller share of its budget ends by itself."""


@dataclass(frozen=True)
class Cell:
    """Holds what one policy did with one budget: a row by metric.

    Attributes:
        reference: whether the policy knows the truth.
        close: whether it is the best one, or the runs cannot tell it from that.
    """

    setting: Any
    label: str
    reference: bool
    budget: float
    rows: Mapping[str, Row]
    close: bool = False

    def mean(self, metric: str) -> float:
        """Returns the mean of a metric, NaN where there is none."""
        found = self.rows[metric]["mean"]
        return math.nan if found is None else found


def check_target(study: Study, target: float | None) -> None:
    """Checks that a study's results can be held against ``target``.

    Raises:
        BadInput: where they cannot, or the problem has no such thing.
    """
    if target is None:
        return
    question = study.question
    if question is None:
        raise BadInput("--target", target, f"none for {study.problem['kind']}, of which nothing is asked")
    if not 0 < target < math.inf or (_in_percent(_decisive(study, question)) and target > 1):
        raise BadInput("--target", target, question.target)


def conclusions(
    study: Study, rows: Sequence[Row], target: float | None = None, data: "xr.Dataset | None" = None
) -> list[str]:
    """Sentences that say which policy and which budget to take, under each setting that is swept beside the budget.

    Args:
        study: whose ``rows`` these are.
        rows: all of the study's, in its order.
        target: how much of the question's metric is wanted. It is reached where no part of the 95 % interval is worse.
        data: the study's results, which tell what the runs cannot tell from the best policy.

    Returns:
        The sentences; none where the family has no question.

    Raises:
        BadInput: see ``check_target``.
    """
    check_target(study, target)
    question = study.question
    if question is None:
        return []
    lines: list[str] = []
    cells = _cells(study, question, rows, data)
    count = sum(not cell.reference for some in cells.values() for cell in some)
    for beside, some in cells.items():
        lines += [f"with {beside}:"] * (len(cells) > 1)
        lines += sentences(question, _decisive(study, question), some, target, count)
    return lines


def _decisive(study: Study, question: Question) -> Metric:
    return next(metric for metric in study.family.metrics if metric.name == question.metric)


def _in_percent(metric: Metric) -> bool:
    return metric.share or metric.binary


def _cells(study: Study, question: Question, rows: Sequence[Row], data: Any) -> dict[str, list[Cell]]:
    """Returns the cells by what is swept beside the budget, in words."""
    members, given = study.configurations(), iter(rows)
    places = {place: number for number, place in enumerate(dict.fromkeys(identity(each.point) for each in members))}
    points = len(study.checkpoints) + 1
    near, one = None, rows[0]["runs"] == 1  # which tells no policy from another
    if data is not None and not one:
        near = [[each.label for each in contenders] for _, contenders in leading(data, question.metric)]
    found: dict[str, list[Cell]] = {}
    for each in members:
        beside = ", ".join(f"{name} {show(value)}" for name, value in each.point.items() if name != "budget")
        for point in range(points):
            own = {metric.name: next(given) for metric in study.family.metrics}
            row = own[question.metric]
            best = [] if near is None else near[places[identity(each.point)] * points + point]
            if row["mean"] is not None:
                reference = study.family.policies[each.name].reference
                budget = row["params"]["budget"]
                cell = Cell(each.setting, each.label, reference, budget, own, one or each.label in best)
                found.setdefault(beside, []).append(cell)
    return found


def sentences(question: Question, metric: Metric, cells: Sequence[Cell], target: float | None, count: int) -> list[str]:
    """Returns the answer under one setting. ``metric``: that of the question; ``target``: see ``conclusions``;
    ``count``: how many cells of all settings are held against it."""
    answer = _Answer(question, metric, count)
    real = [cell for cell in cells if not cell.reference]
    lines = [question.opening(cells[0].setting)]
    for budget in sorted({cell.budget for cell in cells}):
        there = [cell for cell in cells if cell.budget == budget]
        lines.append(f"  with a {answer.word} of {_number(budget)}: {answer.at(there)}")
    if not real:
        return [*lines, f"only {cells[0].label} was run, which knows what nobody does"]
    return [*lines, *answer.leaving(real), *answer.aimed(real, target)]


@dataclass(frozen=True)
class _Answer:
    """Answers a question under one setting: see ``sentences``."""

    question: Question
    metric: Metric
    count: int

    @property
    def sign(self) -> float:
        return -1.0 if self.metric.lower_is_better else 1.0

    @property
    def percent(self) -> bool:
        return _in_percent(self.metric)

    @property
    def word(self) -> str:
        return "cap" if self.question.capped else "budget"

    def at(self, cells: Sequence[Cell]) -> str:
        """Returns what each policy does with a budget, the best first."""
        real = sorted((cell for cell in cells if not cell.reference), key=self.rank)
        parts = [
            f"{self.value(cell)} by {cell.label}{self.aside(cell)}"
            + (", which the runs cannot tell from the best" if cell.close and place else "")
            for place, cell in enumerate(real[:_SHOWN])
        ]
        rest = real[_SHOWN:]
        if close := sum(cell.close for cell in rest):
            parts.append(f"nor can they tell {close} more")
        if worse := [cell.label for cell in rest if not cell.close]:
            parts.append(f"worse by {worse[0] if len(worse) == 1 else f'{len(worse)} more'}")
        parts += [f"{self.value(cell)} by {cell.label}, which is out of reach" for cell in cells if cell.reference]
        return "; ".join(parts)

    def leaving(self, cells: Sequence[Cell]) -> list[str]:
        """Returns what there is to say of policies that end before their largest budget is spent."""
        last = {cell.label: cell for cell in sorted(cells, key=lambda cell: cell.budget)}.values()
        early = [cell for cell in last if self.ends_early(cell) and cell.mean(self.question.metric) < _ALL_OF_IT]
        rows = [cell.rows[self.question.metric] for cell in early]
        said = [self.question.leaves(row["policy"], row["params"]) for row in rows]
        return [
            words.format(policy=cell.label, spent=f"{self.spent(cell):,.0f}")
            for cell, words in zip(early, said, strict=True)
            if words
        ]

    def aimed(self, cells: Sequence[Cell], target: float | None) -> list[str]:
        """Returns the cheapest policy and budget that reach the target."""
        question, best = self.question, min(cells, key=self.rank)
        if target is None:
            return [f"add --target X for the cheapest policy and budget that reach X, {question.target}"]
        if best.rows[question.metric]["ci_low"] is None:
            return ["no interval, and so no confidence: whether a target is reached needs runs = 2 at least"]
        goal = question.aim.format(f"{100 * target:g} %" if self.percent else f"{target:g}")
        enough: dict[str, Cell] = {}
        for cell in sorted(cells, key=self.cost):
            if self.reaches(cell, target):
                enough.setdefault(cell.label, cell)
        if not enough:
            return [
                f"{goal}, nothing that was run is enough with a confidence of 95 %; the best is {self.value(best)}, by "
                f"{best.label} with a {self.word} of {_number(best.budget)}"
            ]
        chosen = min(enough.values(), key=self.cost)
        of_it = f", of which it spends {self.spent(chosen):,.0f}" if self.ends_early(chosen) else ""
        lines = [
            f"{goal}, the cheapest that was run is {chosen.label} with a {self.word} of {_number(chosen.budget)}"
            f"{of_it}: {self.value(chosen)}; it reaches the target with a confidence of 95 %, "
            f"for all {counted(self.count, 'policy and budget', 'policies and budgets')} that were run"
        ]
        others = [label for label in dict.fromkeys(cell.label for cell in cells) if label != chosen.label]
        if others:
            needed = ", ".join(f"{each} {self.price(enough[each]) if each in enough else 'none'}" for each in others)
            lines.append(f"the least {question.unit if question.capped else 'budgets'} of the others: {needed}")
        below = [cell for cell in cells if cell.label == chosen.label and cell.budget < chosen.budget]
        if below:
            last = max(below, key=lambda cell: cell.budget)
            lines.append(
                f"{last.label} with {_number(last.budget)} comes to {self.value(last)}; {self.word}s in between were "
                "not run"
            )
        return lines

    def rank(self, cell: Cell) -> tuple[float, float]:
        """Returns the least of the best; of equal ones, of that which spends less."""
        return -self.sign * cell.mean(self.question.metric), self.spent(cell)

    def cost(self, cell: Cell) -> tuple[float, ...]:
        """Returns the least of the cheapest; of those that cost the same, of the best."""
        paid = (cell.budget, self.spent(cell))
        return (*(paid[::-1] if self.question.capped else paid), *self.rank(cell))

    def price(self, cell: Cell) -> str:
        return f"{self.spent(cell):,.0f}" if self.question.capped else _number(cell.budget)

    def reaches(self, cell: Cell, target: float) -> bool:
        """Returns whether a cell reaches the target, so surely that of all cells none does so wrongly, with a
        confidence of 95 %. Few values that never varied tell nothing of how rarely they do."""
        row = cell.rows[self.question.metric]
        mean, end, runs = cell.mean(self.question.metric), row["ci_low" if self.sign > 0 else "ci_high"], row["runs"]
        if end is None or (end == mean and 0 < runs < MANY):
            return False
        level = 1 - 0.05 / max(2, self.count)
        wider = student(level, runs) / student(0.975, runs) if runs > 1 else 1.0
        ends = [mean + (end - mean) * wider]
        if self.metric.binary and runs:
            ends.append(share_interval(mean, runs, NormalDist().inv_cdf(level))[self.sign < 0])
        return min(self.sign * (each - target) for each in ends) >= 0

    def spent(self, cell: Cell) -> float:
        return cell.mean(self.question.spent)

    def ends_early(self, cell: Cell) -> bool:
        return self.spent(cell) < _ALL_OF_IT * cell.budget

    def aside(self, cell: Cell) -> str:
        means = {name: cell.mean(name) for name in cell.rows}
        words = [f"{self.spent(cell):,.0f} {self.question.unit}"] if self.ends_early(cell) else []
        words += [self.question.aside(cell.setting, means)] if self.question.aside else []
        return f" ({', '.join(words)})" if words else ""

    def value(self, cell: Cell) -> str:
        row = cell.rows[self.question.metric]
        return _share(row) if self.percent else estimate(row, ends=True)


def _number(budget: float) -> str:
    return f"{int(budget) if budget == int(budget) else budget:,}"


def _share(row: Row) -> str:
    """Returns a share with its interval, in percent, to as many digits as tell its ends apart."""
    mean, low, high = row["mean"] or 0.0, row["ci_low"], row["ci_high"]
    if low is None or high is None:
        return f"{100 * mean:.1f} %"
    low, high = max(0.0, low), min(1.0, high)
    places = next((places for places in range(1, 4) if f"{low:.{places}%}" != f"{high:.{places}%}"), 1)
    return f"{100 * mean:.{places}f} % [{100 * low:.{places}f}, {100 * high:.{places}f}]"
