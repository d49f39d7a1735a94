"""Wall times of what a figure times."""

import time
from collections.abc import Callable, Sequence
from typing import Any

REPEATS = 6
"""So many that the least and the greatest time hold the median between them with 97 %."""


def seconds_of(calls: Sequence[Callable[[], Any]]) -> list[list[float]]:
    """Wall times of warm repeats of each call."""
    seconds: list[list[float]] = [[] for _ in calls]
    for repeat in range(REPEATS + 1):
        # In turns, so that what else the machine does meets all calls alike.
        for taken, call in zip(seconds, calls, strict=True):
            start = time.perf_counter()
            call()
            if repeat:  # the first one compiles
                taken.append(time.perf_counter() - start)
    return seconds
