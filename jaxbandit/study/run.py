"""Running a study in chunks that are stored as they come, so that an interruption costs little and changes nothing."""

import hashlib
import logging
import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from jaxbandit import __version__
from jaxbandit.conformance import check_once
from jaxbandit.devices import use_all_cores
from jaxbandit.engine import Batch, endless_runs
from jaxbandit.errors import BadInput
from jaxbandit.programs.ahead import Ahead
from jaxbandit.progress import Clock, Progress, Status
from jaxbandit.registry import measured
from jaxbandit.study import folder
from jaxbandit.study.chunks import Pile, Tally, WidthEstimate, first_size, say_lacking
from jaxbandit.study.elsewhere import Task, check_executor, compute, package, platform, programs_are_kept, window
from jaxbandit.study.enough import FIRST, following, planned
from jaxbandit.study.results import check_names, described
from jaxbandit.study.spec import Configuration, Study
from jaxbandit.study.store import RESULTS, Damaged, Span, Store, check_platform
from jaxbandit.study.summary import Always, Moments, Row, dumps, identity

_log = logging.getLogger("jaxbandit")

_ROOM = 1 << 18
"""Runs that a program has room for, where there are as many: its chunk can grow, and it is compiled once."""


def run(
    study: Study,
    out: Path | str,
    progress: Progress | None = None,
    *,
    executor: Executor | None = None,
    in_flight: int | None = None,
    max_steps: int | None = None,
    lanes: int | None = None,
    check: bool = True,
) -> list[Row]:
    """Runs a study, or what is missing of it, and writes ``out/summary.json``.

    Args:
        study: see ``Study``.
        out: the folder of results: new, empty, or begun with this study or one that this one extends. ``study.json``
            says which study it holds, ``results.zarr`` has each run's metrics: see ``store.py`` and ``open_results``.
        progress: called with a ``Status`` whenever that changes.
        executor: where chunks are computed, such as ``dask.distributed.Client.get_executor()``; this process, on all
            its devices, where None. Which it is changes no bit of the results.
        in_flight: chunks given to the executor at a time; twice its workers, where it tells their number, or else 8.
        max_steps, lanes: see ``jaxbandit.simulate``.
        check: whether problems and policies that are not of this package are checked first: see ``jaxbandit.check``.

    Returns:
        One row for each configuration, checkpoint and metric, in the study's order.

    Raises:
        BadInput: before anything is written: where two configurations are the same, parameters do not go together,
            ``out`` holds something else, or a check fails. Before results are: where ``out`` has some of another
            platform. Later, where runs of a policy do not end, or ``stop_when`` waits for a metric that a run does not
            have.
    """
    if not study.runs:
        raise BadInput("runs", "missing", "how many runs of each configuration; only `jaxbandit tune` does without")
    if executor is not None:
        check_executor(executor)
    out = Path(out)
    tell = progress or (lambda status: None)
    tell(Status(0, 0, "preparing problems and policies"))
    use_all_cores(say=executor is None)
    configurations = study.configurations()
    check_names(study, configurations)
    canonical = study.canonical()
    if check and not study.family.checked:
        check_once((each.problem, each.policy) for each in configurations)
    with folder.claimed(out, study.identity(), facts(study), canonical):
        if (rows := _finished(out, canonical)) is not None:
            total = rows[0]["runs"] * len(configurations)
            tell(Status(total, total, "done"))
            return rows
        if executor is None:
            check_platform(out / RESULTS, platform())
        at_a_time = in_flight or window(executor)
        work = _Work(study, configurations, out / RESULTS, tell, executor, at_a_time, max_steps, lanes)
        (out / folder.FINISHED).unlink(missing_ok=True)
        rows = work.rows()
        folder.write(out / folder.SUMMARY, dumps(rows))
        folder.write(out / folder.FINISHED, (identity(_seal(out, canonical)) + "\n").encode())
    return rows


def facts(study: Study | None = None) -> dict[str, Any]:
    """Returns what results were computed with: noted beside them, though they should not depend on it.

    ``study``: its problem is noted as its user knows it, with the names of its files; and which implementation of its
    policies is run.
    """
    devices = jax.local_devices()
    named = {} if study is None else {"named": study.named(), "implementation": study.implementation}
    return {"jax": jax.__version__, "device": f"{len(devices)} x {devices[0].device_kind}", **named}


def _finished(out: Path, canonical: Mapping[str, Any]) -> list[Row] | None:
    """Returns the rows of a study that was finished before, where no file of it has changed since."""
    try:
        if folder.read(out / folder.FINISHED) == _seal(out, canonical):
            return cast("list[Row]", folder.read(out / folder.SUMMARY))
    except (BadInput, OSError):
        pass
    return None


def _seal(out: Path, canonical: Mapping[str, Any]) -> dict[str, str]:
    """Returns what tells a finished study: its files with their sizes and times are enough, as each has its own
    checksum."""
    files = []
    for place, _, names in os.walk(out / RESULTS):
        for name in names:
            path = os.path.join(place, name)
            stat = os.stat(path)
            files.append(f"{os.path.relpath(path, out)} {stat.st_size} {stat.st_mtime_ns}")
    parts = {
        "study": identity(canonical).encode(),
        "results": "\n".join(sorted(files)).encode(),
        "summary": (out / folder.SUMMARY).read_bytes(),
    }
    return {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}


@dataclass
class _Work:
    """A study that is being computed: its configurations (``members``), and the store at ``path`` that takes their
    runs, until there are as many as ``_target``, or as its rule of stopping asks for.

    ``in_flight``: chunks that the executor has at a time; the other arguments are those of ``run_study``.
    """

    study: Study
    members: list[Configuration]
    path: Path
    progress: Progress
    executor: Executor | None
    in_flight: int
    max_steps: int | None
    lanes: int | None
    _sizes: dict[str, int] = field(default_factory=dict)
    _widths: dict[tuple[int, int], WidthEstimate] = field(default_factory=dict)
    _clock: Clock = field(default_factory=Clock)
    _done: int = 0
    _before: int = 0
    """Runs that are done, and those that were when the policy at hand began."""

    def __post_init__(self) -> None:
        study = self.study
        self._metrics = [metric.name for metric in study.family.metrics]
        self._budgets = [*study.checkpoints, study.problem["budget"]] if study.checkpoints else []
        rule = study.stop_when
        self._width_metric = rule.metric if rule else self._metrics[0]
        self._target = min(study.runs, FIRST) if rule else study.runs
        labels = {"policy": [each.label for each in self.members]}
        labels |= {name: [each.point[name] for each in self.members] for name in self.members[0].point}
        self._store = Store(self.path, labels, self._metrics, self._budgets, self._target)
        self._places = {id(each): self._store.place({"policy": each.label, **each.point}) for each in self.members}
        self._store.label(*described(study, self.members, self._store, self._places, self._budgets))

    def rows(self) -> list[Row]:
        """Computes and stores what is missing, and makes the rows."""
        points = max(1, len(self._budgets))
        tallies = [
            Tally((each,), metric.name, [Moments(metric.binary, metric.bounded(each.setting)) for _ in range(points)])
            for each in self.members
            for metric in self.study.family.metrics
        ]
        rule = self.study.stop_when
        pairs = [
            Tally(pair, rule.metric, [Moments() for _ in range(points)]) for pair in self._pairs()
        ] if rule else []  # fmt: skip
        awaited = [tally for tally in pairs or tallies if rule is not None and tally.metric == rule.metric]
        watched = [moments for tally in awaited for moments in tally.moments]
        always: Always | None = None
        while True:
            self._store.room(self._target)
            self._fill()
            total = self._target * len(self.members)
            self.progress(Status(total, total, "reading the results back"))
            try:
                for tally in [*tallies, *pairs]:
                    tally.read(self._store, self._places, self._target)
            except Damaged as damage:
                self._store.forget(damage)
                continue
            for tally in awaited:
                if tally.without:
                    raise BadInput(
                        "stop_when.metric", tally.metric, f"one with a value in each run; none in {tally.lacking()}"
                    )
            if rule is None:
                break
            always = always or planned(rule, watched, self.study.runs)
            if not self._store.concluded:  # else what is noted is of the runs that were there before
                self._store.label({}, {"planned": always.runs})
            target = following(rule, always, watched, self.study.runs)
            if target is None:
                break
            self._target = target
        say_lacking(tallies)
        made = identity({"jaxbandit": __version__, **facts()})
        planned_for = always.runs if always else 0
        self._store.label({}, {"runs": self._target, "planned": planned_for, "computed_with": made})
        return [
            moments.row(tally.sources[0].name, self._params(tally.sources[0], point), tally.metric, always)
            for each in self.members
            for point in range(points)
            for tally in tallies
            if tally.sources[0] is each
            for moments in [tally.moments[point]]
        ]

    def _params(self, member: Configuration, point: int) -> dict[str, Any]:
        return member.params | ({"budget": self._budgets[point]} if self._budgets else {})

    def _pairs(self) -> Iterator[tuple[Configuration, ...]]:
        """Yields the two configurations under each setting whose difference is waited for."""
        rule = self.study.stop_when
        if rule is not None and rule.difference:
            by_point: dict[str, dict[str, Configuration]] = {}
            for each in self.members:
                by_point.setdefault(identity(each.point), {})[each.label] = each
            for beside in by_point.values():
                yield tuple(beside[label] for label in rule.difference)

    def _fill(self) -> None:
        """Computes and stores the runs below the target that are not there."""
        while piles := self._piles():
            self._done = sum(min(b, self._target) - min(a, self._target)
                             for each in self.members for a, b in self._store.held(self._places[id(each)]))  # fmt: skip
            self._before = self._done
            if self.executor is not None:
                self._clock.begin(sum(pile.runs for pile in piles))
                self._report(0, "running elsewhere")
                self._scatter(piles, self.executor)
            else:
                self._compute_here(piles)

    def _compute_here(self, piles: list[Pile]) -> None:
        """Has this process compute all chunks, pile by pile, while the programs of later piles compile."""
        study, checkpoints, length = self.study, list(self.study.checkpoints), self._store.length
        batches = [
            Batch(
                [(each.problem, each.policy) for each in pile.members], checkpoints, self.max_steps,
                implementation=study.implementation,
            )
            for pile in piles
        ]  # fmt: skip
        rooms = [min(pile.runs, _ROOM) for pile in piles]
        programs = [
            program
            for pile, batch, room in zip(piles, batches, rooms, strict=True)
            for program in batch.programs(range(len(pile.members)), runs=pile.next(length), lanes=self.lanes, room=room)
        ]
        with Ahead(programs) as ahead:
            for number, (pile, batch, room) in enumerate(zip(piles, batches, rooms, strict=True), 1):
                self._before = self._done
                self._clock.begin(pile.runs, sum(later.runs for later in piles[number:]))
                running = f"running {pile.members[0].name} ({number} of {len(piles)})"
                if platform() != "cpu":
                    width = batch.lanes(range(len(pile.members)), runs=pile.next(length), lanes=self.lanes, room=room)
                    running += f", {width:,} lanes a device"

                def onward(status: Status, running: str = running) -> None:
                    doing = running if status.doing == "running" else status.doing
                    self._report(status.done, doing, status.idle, ahead.left())

                while pile.spans:
                    first, stop = pile.take(length)
                    start = self._clock.running
                    answers = batch.run(
                        range(len(pile.members)), runs=stop - first, seed=study.seed, first_run=first,
                        lanes=self.lanes, room=room, progress=onward, ahead=ahead,
                    )  # fmt: skip
                    computed = answers, self._clock.running - start, platform()
                    self._keep(pile, (first, stop), computed, running, ahead.left())

    def _piles(self) -> list[Pile]:
        found: dict[tuple[str, tuple[Span, ...]], list[Configuration]] = {}
        for each in self.members:
            missing = tuple(self._store.missing(self._places[id(each)], self._target))
            if missing:
                found.setdefault((each.name, missing), []).append(each)
        return [
            Pile(members, deque(spans), self._sizes.get(name, first_size(len(members))))
            for (name, spans), members in found.items()
        ]

    def _task(self, pile: Pile, span: Span, room: int) -> Task:
        (first, stop), study = span, self.study
        return Task(
            [each.problem for each in pile.members], [each.policy for each in pile.members], study.seed, first,
            stop - first, room, list(study.checkpoints), self.max_steps, self.lanes, study.implementation, package(),
            programs_are_kept(),
        )  # fmt: skip

    def _scatter(self, piles: list[Pile], executor: Executor) -> None:
        """Has chunks computed elsewhere, some at a time, and stores them in whatever order they come."""
        running: dict[Future[Any], tuple[Pile, Span]] = {}
        waiting = deque(piles)
        rooms = {id(pile): min(pile.runs, _ROOM) for pile in piles}
        try:
            while waiting or running:
                while waiting and len(running) < self.in_flight:
                    pile = waiting[0]
                    span = pile.take(self._store.length)
                    running[executor.submit(compute, self._task(pile, span, rooms[id(pile)]))] = pile, span
                    if not pile.spans:
                        waiting.popleft()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    pile, span = running.pop(future)
                    self._keep(pile, span, future.result(), "running elsewhere")
        finally:
            for future in running:
                future.cancel()

    def _keep(
        self, pile: Pile, span: Span, computed: tuple[dict[str, np.ndarray], float, str], doing: str,
        compiling: float = 0.0,
    ) -> None:  # fmt: skip
        (first, stop), (answers, seconds, where) = span, computed
        self._store.claim(where)
        if endless := int(answers.pop("endless").sum()):
            of = (stop - first) * len(pile.members)
            raise BadInput("policy", pile.members[0].name, f"one whose runs end; {endless_runs(endless, of)}")
        values = [self._values(each, answers, number) for number, each in enumerate(pile.members)]
        self._store.write([self._places[id(each)] for each in pile.members], first, values)
        pile.timed(stop - first, seconds)
        self._sizes[pile.members[0].name] = pile.size
        for each, own in zip(pile.members, values, strict=True):
            for point, column in enumerate(own[self._width_metric].reshape(stop - first, -1).T):
                if np.isfinite(column).all():
                    self._widths.setdefault((id(each), point), WidthEstimate()).add(column)
        self._done += (stop - first) * len(pile.members)
        self._report(0, doing, 0, compiling)

    def _values(self, member: Configuration, answers: Mapping[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
        """Returns the metrics of one configuration, each float64 of shape (runs[, checkpoints])."""
        own = {name: values[number] for name, values in answers.items()}
        if not self._budgets:
            return {metric.name: measured(metric, member.setting, own) for metric in member.family.metrics}
        there = [{name: values[:, point] for name, values in own.items()} for point in range(len(self._budgets))]
        settings = [replace(member.setting, budget=budget) for budget in self._budgets]
        return {
            metric.name: np.stack([measured(metric, *each) for each in zip(settings, there, strict=True)], axis=1)
            for metric in member.family.metrics
        }

    def _report(self, more: int, doing: str, idle: int = 0, compiling: float = 0.0) -> None:
        """Tells the progress; ``compiling``: the seconds until all is compiled."""
        widths = [each.half_width for each in self._widths.values() if each.runs > 1]
        done = self._done + more
        self._clock.tell(doing.startswith("running"), done - self._before)
        total = self._target * len(self.members)
        left = compiling + self._clock.left()
        self.progress(Status(done, total, doing, idle, max(widths, default=None), left))
