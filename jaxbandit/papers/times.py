"""Measures how long the calls take that a figure compares."""

import time
from collections.abc import Callable, Sequence
from typing import Any

REPEATS = 6
"""So many that the least and the greatest time hold the median between them with 97 %."""


def seconds_of(calls: Sequence[Callable[[], Any]]) -> list[list[float]]:
    """Measures the wall times of warm repeats of each call, in seconds."""
    seconds: list[list[float]] = [[] for _ in calls]
    for repeat in range(REPEATS + 1):
        # In turns, so that other work of the machine slows all calls down equally.
        for taken, call in zip(seconds, calls, strict=True):
            start = time.perf_counter()
            call()
            if repeat:  # the first one compiles
                taken.append(time.perf_counter() - start)
    return seconds
