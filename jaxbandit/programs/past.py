"""What this process has run by which programs, so that calls of other sizes can share one."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxbandit.programs.store import here

PATIENCE = 2.0
"""Seconds that calls may run in all by programs that are there for other numbers of runs, before one is compiled for
theirs; or as many as it took to compile one. None if it is below 0."""


@dataclass
class Past:
    """What was run of what is compiled, whatever its size.

    ``waited``: the most seconds that a program was waited for; ``pace``: by program, the seconds that a wave of lanes
    took for each unit of its work; by size, ``lost``: the seconds that programs of other sizes ran in place of one of
    its own, and ``worked``: units of work that were run (``Execution.growth``).
    """

    waited: float = 0.0
    pace: dict[Any, float] = field(default_factory=dict)
    lost: defaultdict[Any, float] = field(default_factory=lambda: defaultdict(float))
    worked: defaultdict[Any, float] = field(default_factory=lambda: defaultdict(float))

    def lent(self, size: Any, seconds: Mapping[Any, float]) -> Any | None:
        """The program that runs what one of ``size`` would, where that costs less time than to compile one;
        ``seconds``: what each would take."""
        quickest = min(seconds, key=seconds.__getitem__, default=None)
        allowed = max(PATIENCE, self.waited) - self.lost[size] if PATIENCE >= 0 else -1.0
        return quickest if quickest is not None and seconds[quickest] <= allowed else None


_past: dict[Any, Past] = {}


def past_of(matter: Any) -> Past:
    """What was run of ``matter``, by JAX's settings of now."""
    return _past.setdefault(here(matter), Past())
