"""Values of the metric by candidate and run, which are computed once and then stored.

So a tuning that was killed takes the same steps again, from the values on disk, and goes on; and one that is given more
runs or candidates finds what there was.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jaxbandit.engine import Batch
from jaxbandit.progress import Progress, Status
from jaxbandit.registry import Metric, measured
from jaxbandit.study.spec import Configuration, Study
from jaxbandit.study.store import Damaged, Place, Store
from jaxbandit.tuning.judge import LEAST
from jaxbandit.words import counted

_ROOM = 1 << 14
"""Runs of all candidates that are simulated at a time, and lost by an interruption."""


def valued(study: Study, metric: Metric, setting: Any, answers: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the metric's values of a policy's runs: float64, (runs,); NaN of a run that has no end or no room.

    ``answers``: of ``Batch.run``, "endless" among them.
    """
    own = {name: values for name, values in answers.items() if name != "endless"}
    failed = answers["endless"] if study.family.failed is None else answers["endless"] | study.family.failed(own)
    return np.where(failed, np.nan, measured(metric, setting, own))


@dataclass
class Values:
    """Computes and stores the values of one metric under one setting.

    ``path``: of the group, see ``Store``; ``first_run``: the number that the first run has in the simulation.
    """

    study: Study
    metric: Metric
    path: Path
    first_run: int
    tell: Progress
    doing: str
    spent: int = 0
    """Runs that were asked for so far, each once, stored ones included."""
    _asked: dict[str, int] = field(default_factory=dict)
    _known: dict[str, list[object]] = field(default_factory=dict)
    _members: list[Configuration] = field(default_factory=list)
    _store: Store | None = None
    _batch: Batch | None = None

    def prepare(self, members: Sequence[Configuration]) -> list[int]:
        """Returns the numbers that ``read`` takes for these candidates. Some of those before keep theirs, and the
        programs."""
        numbers = {each.label: number for number, each in enumerate(self._members)}
        if self._store is None or not all(each.label in numbers for each in members):
            self._members, self._batch = list(members), None
            self._known.setdefault("policy", []).extend(each.label for each in members)
            for name in members[0].point:
                self._known.setdefault(name, []).append(members[0].point[name])
            self._store = Store(self.path, self._known, [self.metric.name], [], 1)
            return list(range(len(members)))
        return [numbers[each.label] for each in members]

    def price(self, members: Sequence[Configuration], stop: int) -> int:
        """Returns what ``spent`` is once the runs of ``members`` below ``stop`` were read."""
        return self.spent + sum(max(0, stop - self._asked.get(each.label, 0)) for each in members)

    def read(self, which: Sequence[int], first: Sequence[int], stop: int) -> list[np.ndarray]:
        """Returns the values of candidates ``which`` from run ``first`` of each to ``stop`` - 1, float64."""
        assert self._store is not None
        store = self._store
        store.room(stop)
        places = {
            number: store.place({"policy": each.label, **each.point}) for number, each in enumerate(self._members)
        }
        while True:
            self._fill(store, places, which, stop)
            try:
                found = [
                    store.read(places[one], self.metric.name, begin, stop)
                    for one, begin in zip(which, first, strict=True)
                ]
            except Damaged as damage:
                store.forget(damage)
                continue
            for one, begin in zip(which, first, strict=True):
                label = self._members[one].label
                begin = max(begin, self._asked.get(label, 0))
                self._asked[label] = max(begin, stop)
                self.spent += max(0, stop - begin)
            return found

    def _fill(self, store: Store, places: dict[int, Place], which: Sequence[int], stop: int) -> None:
        """Simulates and stores what is missing below ``stop``: together what is missing from one run on."""
        while True:
            gaps = {one: store.missing(places[one], stop) for one in which}
            behind = {one: gap[0] for one, gap in gaps.items() if gap}
            if not behind:
                return
            start = min(begin for begin, _ in behind.values())
            some = [one for one, (begin, _) in behind.items() if begin == start]
            end = min([stop, *(end for one, (_, end) in behind.items() if one in some)])
            end = min([end, *(begin for begin, _ in behind.values() if begin > start)])
            # Of very many candidates not all at a time: a file is written anew with each part of its runs.
            some = some[: _ROOM // min(LEAST, end - start)]
            end = min(end, start + _ROOM // len(some))
            self._simulate(store, places, some, start, end)

    def _simulate(self, store: Store, places: dict[int, Place], some: Sequence[int], start: int, end: int) -> None:
        self._batch = self._batch or Batch(
            [(each.problem, each.policy) for each in self._members], implementation=self.study.implementation
        )
        doing = f"{self.doing}: {counted(len(some), 'candidate', 'candidates')}, runs {start + 1:,} to {end:,}"

        def onward(status: Status) -> None:
            self.tell(Status(0, 0, f"{doing} ({status.doing})"))

        answers = self._batch.each(
            some, runs=end - start, seed=self.study.seed, first_run=self.first_run + start, room=_ROOM, progress=onward
        )
        rows = []
        for number, one in enumerate(some):
            own = valued(self.study, self.metric, self._members[one].setting, answers[number])
            rows.append({self.metric.name: own})
        store.write([places[one] for one in some], start, rows)
