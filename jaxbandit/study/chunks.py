"""What a study has still to compute, chunk by chunk, and what its stored values add up to."""

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from jaxbandit.study.spec import Configuration
from jaxbandit.study.store import Place, Span, Store
from jaxbandit.study.summary import Moments
from jaxbandit.wilson import Z
from jaxbandit.words import counted

_log = logging.getLogger("jaxbandit")

# A chunk is what an interruption can cost: some seconds. It starts as a guess and follows the clock.
_FIRST_JOBS, _MOST_JOBS = 1 << 14, 1 << 22
_SHORT, _LONG = 5.0, 40.0
_BLOCK = 1 << 18
"""Runs whose values are read at a time."""


def first_size(members: int) -> int:
    """Returns how many runs of each configuration the first chunk has."""
    return max(1, _FIRST_JOBS // members)


@dataclass
class Pile:
    """Holds the chunks still to compute for configurations of one policy, which are compiled together."""

    members: list[Configuration]
    spans: deque[Span]
    size: int

    @property
    def runs(self) -> int:
        """Returns how many runs are still to be made."""
        return sum((stop - first) * len(self.members) for first, stop in self.spans)

    def next(self, length: int) -> int:
        """Returns how many runs of each member the next chunk has: about ``size``, and the same again and again, as
        each new size may be a compilation; whole chunks of the store, which has chunks of ``length``, where they are
        that long."""
        first, stop = self.spans[0]
        count = -(-(stop - first) // -(-(stop - first) // self.size))
        if self.size >= length:
            count = min(stop - first, -(-count // length) * length)
        return count

    def take(self, length: int) -> Span:
        """Takes the next chunk off and returns its runs."""
        count = self.next(length)
        first, stop = self.spans.popleft()
        if first + count < stop:
            self.spans.appendleft((first + count, stop))
        return first, first + count

    def timed(self, runs: int, seconds: float) -> None:
        """Fits the size of chunks to the seconds that one of so many runs of each member took. Others of its size may
        have been begun before."""
        if seconds < _SHORT:
            self.size = max(self.size, min(4 * runs, max(1, _MOST_JOBS // len(self.members))))
        elif seconds > _LONG:
            self.size = min(self.size, max(1, runs // 4))


@dataclass
class WidthEstimate:
    """Estimates roughly how wide an interval is, as runs come in whatever order."""

    runs: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, values: np.ndarray) -> None:
        """Adds the values of some more runs to the estimate."""
        count, mean = values.size, float(values.mean())
        gap, total = mean - self.mean, self.runs + count
        self.squares += float(((values - mean) ** 2).sum()) + gap * gap * self.runs * count / total
        self.mean, self.runs = self.mean + gap * count / total, total

    @property
    def half_width(self) -> float:
        """Returns half of the width of a 95 % interval."""
        return Z * float(np.sqrt(self.squares / max(1, self.runs - 1) / max(1, self.runs)))


@dataclass
class Tally:
    """Adds up stored values, which are read once; ``sources`` are the configurations whose difference it is, or the
    one."""

    sources: tuple[Configuration, ...]
    metric: str
    moments: list[Moments]
    upto: int = 0
    without: int = 0
    """Runs that have no value, at a checkpoint at least."""

    def read(self, store: Store, places: Mapping[int, Place], runs: int) -> None:
        """Adds the runs up to ``runs``; it can be called again after ``Damaged``."""
        while self.upto < runs:
            stop = min(runs, self.upto + _BLOCK)
            parts = [store.read(places[id(source)], self.metric, self.upto, stop) for source in self.sources]
            with np.errstate(invalid="ignore"):
                values = parts[0] if len(parts) == 1 else parts[0] - parts[1]
            for moments, column in zip(self.moments, values.reshape(len(values), -1).T, strict=True):
                moments.add(np.ascontiguousarray(column))
            self.without += int((~np.isfinite(values)).reshape(len(values), -1).any(1).sum())
            self.upto = stop

    def lacking(self) -> str:
        """Returns how many runs have no value, as ``12 of 400 runs of ucb 0.5``."""
        labels = " and ".join(each.label for each in self.sources)
        return f"{self.without:,} of {counted(self.upto, 'run', 'runs')} of {labels}"


def say_lacking(tallies: list[Tally]) -> None:
    """Warns, in a line for each metric, of runs in which it is not a number, so that it has no mean there."""
    lacking: dict[str, list[Tally]] = {}
    for tally in tallies:
        if tally.without:
            lacking.setdefault(tally.metric, []).append(tally)
    for metric, found in lacking.items():
        others = counted(len(found) - 1, "more configuration", "more configurations")
        more = f", and of {others}" if len(found) > 1 else ""
        _log.warning("jaxbandit: %s is not a number in %s%s: no mean there", metric, found[0].lacking(), more)
