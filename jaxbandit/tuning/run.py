"""Tuning a study: candidates are found, frozen, and judged on runs that the search did not use."""

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxbandit.conformance import check_once
from jaxbandit.devices import use_all_cores
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Problem
from jaxbandit.progress import Progress
from jaxbandit.study import folder
from jaxbandit.study.spec import Configuration, Study
from jaxbandit.study.summary import Moments, Row, dumps, plain, show
from jaxbandit.tuning.candidates import Point, finalists
from jaxbandit.tuning.judge import LEAST, Judge, Verdict
from jaxbandit.tuning.options import MOST_CANDIDATES, TuneOptions
from jaxbandit.tuning.values import Values
from jaxbandit.words import counted

LEADING = 10
"""How many of the best candidates are shown."""
_SEARCH_RUNS = 1 << 31
"""The number of the search's first run: the judge's begin at 0, as those of ``jaxbandit run`` do."""


@dataclass(frozen=True)
class TuningOutcome:
    """Holds the outcome of tuning for one problem.

    Attributes:
        options: what was asked.
        params: of the problem, where several are swept.
        verdict: "best", "within" or "undecided".
        candidates: that were judged, in the order in which they were proposed.
        judge: what it saw of them, by their number.
        runs: of all candidates, the search's included.
        searched: the runs of the search alone.
        promising: the candidate with the highest mean in the search, and that mean; None where all are judged.
    """

    options: TuneOptions
    params: Mapping[str, Any]
    verdict: Verdict
    candidates: Sequence[Configuration]
    judge: Judge
    runs: int
    searched: int
    promising: tuple[Configuration, float] | None

    @functools.cached_property
    def chosen(self) -> int:
        """Returns the number of the candidate that is chosen: where nothing was decided, the best mean in question."""
        return self.judge.best_mean if self.verdict == "undecided" else self.judge.chosen

    def mean(self, number: int) -> float:
        """Returns a candidate's mean of the metric."""
        return self.options.sign * self.judge.mean(number) + 0.0  # of -0.0 too

    def status(self, number: int) -> str:
        """Returns what became of a candidate: "chosen", "survivor", "eliminated" or "failed"."""
        if number == self.chosen:
            return "chosen"
        if number in self.judge.failed:
            return "failed"
        return "eliminated" if number in self.judge.eliminated else "survivor"

    def rows(self) -> list[Row]:
        """Returns each candidate's mean of the metric, with its 95 % interval, as a summary has them. Params that other
        candidates of its policy differ in are there at their defaults, too."""
        metric, rows = self.options.metric, []
        named: dict[str, set[str]] = {}
        for each in self.candidates:
            named.setdefault(each.name, set()).update(each.params)
        for number, each in enumerate(self.candidates):
            moments = Moments(metric.binary, metric.bounded(each.setting))
            moments.add(self.options.sign * self.judge.values(number))
            rows.append(moments.row(each.name, _whole(each, named[each.name]), metric.name, None))
        return rows

    def ranked(self) -> list[Row]:
        """Returns the rows of all candidates, the chosen one first, then by their means."""
        rows, failed = self.rows(), self.judge.failed
        order = sorted(range(len(rows)), key=lambda one: (one != self.chosen, one in failed, -self.judge.mean(one)))
        return [rows[number] for number in order]

    def record(self) -> dict[str, Any]:
        """Returns the verdict as ``verdict.json`` has it: see ``docs/tuning.md``."""

        def named(number: int) -> dict[str, Any]:
            return {"policy": self.candidates[number].name, "params": self.candidates[number].params}

        survivors, options = [named(number) for number in self.judge.survivors], self.options
        return {
            "verdict": self.verdict, "chosen": named(self.chosen), "survivors": survivors, "within": options.within,
            "relative": options.relative, "confidence": options.confidence, "metric": options.metric.name,
            "mean": self.mean(self.chosen), "at_most_behind": self.judge.behind(self.chosen),
            "runs": self.runs, "search_runs": self.searched,
            "candidates": len(self.candidates), "best_seen": self._best_seen(),
            "failed": [{**named(number), "runs": runs} for number, runs in sorted(self.judge.failed.items())],
        }  # fmt: skip

    def _ahead(self) -> tuple[Configuration, float, int]:
        """Returns what looked best before it was judged, its mean there, and its number; -1 where it was not judged."""
        number = max(range(len(self.candidates)), key=lambda one: (one not in self.judge.failed, self.judge.mean(one)))
        if self.promising is None:
            return self.candidates[number], self.mean(number), number
        each, mean = self.promising
        number = _distinct([*self.candidates, each])[1][-1]  # under other parameters it may be the same policy
        return (self.candidates[number], mean, number) if number < len(self.candidates) else (each, mean, -1)

    def _best_seen(self) -> dict[str, Any]:
        """Returns what looked best before it was judged, and why it was not chosen, if it was not."""
        each, mean, number = self._ahead()
        return {"policy": each.name, "params": each.params, "mean": mean, "not_chosen": self._why_not(number)}

    def _why_not(self, number: int) -> str | None:
        if number == self.chosen:
            return None
        if number in self.judge.failed:
            return f"it has no value in {counted(self.judge.failed[number], 'run', 'runs')}"
        if number in self.judge.eliminated:
            better, runs = self.judge.eliminated[number]
            return f"{self.candidates[better].label} is surely better after {runs:,} runs of each"
        if number < 0:
            return "other candidates were ahead of it when the search had given them more runs"
        if self.verdict == "within":
            return "the chosen one is surely no worse by more than what does not matter"
        return "it is among those that cannot be told apart, and another one's mean is better now"

    def sentences(self) -> list[str]:
        """Returns the verdict in words, a line for each sentence."""
        options, chosen = self.options, self.candidates[self.chosen]
        size = f"{options.within:.3g}" if not options.relative else f"{100 * options.within:.3g} %"
        sure = f"{100 * options.confidence:.10g} %"
        all_of_them = counted(len(self.candidates), "candidate", "candidates")
        said = {
            "best": f"is the best of {all_of_them}, at {sure}",
            "within": f"is within {size} of the best of {all_of_them}, at {sure}",
            "undecided": f"leads; undecided among {len(self.judge.survivors)} candidates",
        }[self.verdict]
        where = f"{show(self.params)}: " if self.params else ""
        lines = [
            f"{where}{chosen.label} {said}: {options.metric.name} {self.mean(self.chosen):.5g} in "
            f"{self.judge.values(self.chosen).size:,} runs of it ({self.runs:,} of all)"
        ]
        most = self.judge.behind(self.chosen)
        if self.verdict != "best" and 0 < most < math.inf:
            step = 10.0 ** (math.floor(math.log10(most)) - 1)
            lines.append(f"no candidate is ahead of it by more than {math.ceil(most / step) * step:.2g}, at {sure}")
        seen, mean, number = self._ahead()
        if why := self._why_not(number):
            lines.append(f"{seen.label} looked best, with {mean:.5g}; not chosen: {why}")
        for number, failed in sorted(self.judge.failed.items()):
            runs = counted(failed, "run", "runs")
            lines.append(f"{self.candidates[number].label} is left out: no {options.metric.name} in {runs}")
        if self.verdict == "undecided":
            names = [self.candidates[number].label for number in self.judge.survivors]
            lines.append(f"not told apart: {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}")
            if options.relative and self.mean(self.chosen) == 0:
                lines.append(f"nothing is within {size} of 0: say `within` as a difference, with relative = false")
        return lines


def _whole(each: Configuration, names: set[str]) -> dict[str, Any]:
    """Returns a candidate's params, and the defaults of those of ``names`` that it leaves out and that matter to it."""
    parameters = each.family.policies[each.name].parameters
    values = {one.name: one.default for one in parameters} | each.params
    return each.params | {
        one.name: one.default
        for one in parameters
        if one.name in names - each.params.keys() and isinstance(one.default, int | float | str) and one.matters(values)
    }


def tuned(study: Study, out: Path, tell: Progress) -> list[TuningOutcome]:
    """Tunes a study for each of its problems, in a folder that is its own; see ``jaxbandit.tune``."""
    use_all_cores()
    options = TuneOptions.of(study)
    found = [_tuned(study, options, setting, params, out, tell) for setting, params in study.settings()]
    folder.write(out / folder.VERDICT, _json(record(found)))
    folder.write(out / folder.WORDS, "".join(f"{line}\n" for each in found for line in each.sentences()).encode())
    folder.write(out / folder.CANDIDATES, dumps([row for each in found for row in each.ranked()]))
    return found


def record(found: Sequence[TuningOutcome]) -> dict[str, Any]:
    """Returns the content of ``verdict.json``: of one problem, or a list of them under ``problems``."""
    if len(found) == 1:
        return found[0].record()
    return {"problems": [{"problem": dict(each.params), **each.record()} for each in found]}


def _json(value: Any) -> bytes:
    return (json.dumps(plain("verdict", value), indent=1) + "\n").encode()


def _check(study: Study, options: TuneOptions, setting: Any, problem: Problem, params: Mapping[str, Any]) -> None:
    """Checks a policy of each kind that is not of this package: see ``jaxbandit.check``."""
    if not study.family.checked:
        middle = [
            (each.kind, {**each.given, **{name: axis.at(0.5) for name, axis in each.axes.items()}})
            for each in options.policies
        ]
        some = [study.configuration(setting, problem, params, kind, given) for kind, given in middle]
        check_once((problem, each.policy) for each in some)


def _tuned(
    study: Study, options: TuneOptions, setting: Any, params: Mapping[str, Any], out: Path, tell: Progress
) -> TuningOutcome:
    problem = setting.problem()
    _check(study, options, setting, problem, params)

    def built(points: Sequence[Point]) -> tuple[list[Configuration], list[int]]:
        return _distinct(
            [study.configuration(setting, problem, params, options.policies[at].kind, given) for at, given in points]
        )

    searched = Values(study, options.metric, out / "search.zarr", _SEARCH_RUNS, tell, "searching")
    seen: dict[str, tuple[Configuration, float]] = {}

    def means(points: Sequence[Point], runs: int) -> np.ndarray:
        members, places = built(points)
        if (price := searched.price(members, runs)) > options.most_runs:
            allowed = f"more than {price:,}, which the search alone has taken after its next step"
            raise BadInput("tune.most_runs", options.most_runs, allowed)
        values = searched.read(searched.prepare(members), [0] * len(members), runs)
        found = np.array([own.mean() for own in values])
        seen.update((each.label, (each, float(mean))) for each, mean in zip(members, found, strict=True))
        scores: np.ndarray = options.sign * found[places]
        return scores

    members, _ = built(finalists(options, means, study.seed, lambda points: built(points)[1]))
    least = searched.spent + len(members) * LEAST
    of_them = counted(len(members), "candidate", "candidates")
    if len(members) > MOST_CANDIDATES:
        raise BadInput("tune.candidates", of_them, f"at most {MOST_CANDIDATES:,}, those of all policies together")
    if least > options.most_runs:
        allowed = f"at least {least:,}, for {of_them} with {LEAST} runs each"
        raise BadInput("tune.most_runs", options.most_runs, allowed)
    values = Values(study, options.metric, out / "results.zarr", 0, tell, "judging")
    values.prepare(members)
    for name in (folder.VERDICT, folder.WORDS, folder.CANDIDATES):
        (out / name).unlink(missing_ok=True)  # of other options, where this is interrupted
    judge, verdict = _judged(options, values, members, searched.spent)
    finite = [each for each in seen.values() if np.isfinite(each[1])]
    promising = max(finite, key=lambda each: options.sign * each[1]) if finite else None
    own = {name: params[name] for name in study.sweep}
    runs = searched.spent + values.spent
    return TuningOutcome(options, own, verdict, members, judge, runs, searched.spent, promising)


def _distinct(members: Sequence[Configuration]) -> tuple[list[Configuration], list[int]]:
    """Returns the configurations whose policies differ, and the place of each one's policy among them."""
    found: dict[Any, int] = {}
    kept: list[Configuration] = []
    places = []
    for each in members:
        leaves, structure = jax.tree.flatten(each.policy)
        arrays = map(np.asarray, leaves)
        key = (structure, tuple((leaf.shape, str(leaf.dtype), leaf.tobytes()) for leaf in arrays))
        if key not in found:
            found[key] = len(kept)
            kept.append(each)
        places.append(found[key])
    return kept, places


def _judged(
    options: TuneOptions, values: Values, members: Sequence[Configuration], searched: int
) -> tuple[Judge, Verdict]:
    """Runs the candidates that are in question on until there is a verdict."""
    metric = options.metric
    judge = Judge(
        len(members), options.within, options.relative, options.confidence, options.most_runs // len(members),
        metric.binary, metric.binary or all(metric.bounded(each.setting) for each in members),
    )  # fmt: skip
    verdict: Verdict = "undecided"
    while verdict == "undecided" and judge.survivors:
        target = judge.following()
        missing = judge.missing(target)
        if searched + values.spent + sum(target - first for first in missing.values()) > options.most_runs:
            break
        read = values.read(list(missing), list(missing.values()), target)
        verdict = judge.decide(target, {one: options.sign * own for one, own in zip(missing, read, strict=True)})
    if not judge.survivors:
        raise BadInput("tune.metric", options.metric.name, "one that has a value in each run of some candidate")
    return judge, verdict
