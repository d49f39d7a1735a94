"""Chunks that are computed elsewhere: what an executor is given, what comes back, and what must hold there."""

import functools
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxbandit import __version__
from jaxbandit.engine import Batch
from jaxbandit.errors import BadInput, quoted
from jaxbandit.grammar import Implementation, Policy, Problem
from jaxbandit.programs import store
from jaxbandit.programs.cache import cache, programs


class Task(NamedTuple):
    """A chunk: runs ``first`` and on of some configurations, and how they are made (``engine.Batch``).

    ``package``: what the package is where results are kept (``package``); ``cached``: whether that process keeps its
    programs, and so a worker may.
    """

    problems: list[Problem]
    policies: list[Policy]
    seed: int
    first: int
    runs: int
    room: int
    checkpoints: list[float]
    max_steps: int | None
    lanes: int | None
    implementation: Implementation
    package: tuple[str, str]
    cached: bool


Computed = tuple[dict[str, np.ndarray], float, str]
"""Answers of a chunk, the seconds that it took, and on which platform."""


def platform() -> str:
    """Returns what this process computes on: cpu, gpu or tpu."""
    return str(jax.local_devices()[0].platform)


@functools.cache
def package() -> tuple[str, str]:
    """Returns the package's version, and a digest of its files.

    Raises:
        BadInput: where a file has changed since this process imported the package, so that nobody knows what runs.
    """
    if store.edited():
        raise BadInput(
            "jaxbandit", "other files than when it was imported", "as it was: start Python anew, here or there"
        )
    return __version__, store.digest()[:12]


def programs_are_kept() -> bool:
    """Returns whether this process keeps its programs on disk."""
    return programs() is not None


def compute(task: Task) -> Computed:
    """Computes a chunk, where the executor says.

    Raises:
        BadInput: where the package is another one than where results are kept: they would not be of one law.
    """
    start = time.monotonic()
    if (here := package()) != task.package:
        wanted = f"{' '.join(task.package)}, as where the results are kept"
        raise BadInput("a worker's jaxbandit", " ".join(here), wanted)
    if task.cached:
        cache()
    pairs = list(zip(task.problems, task.policies, strict=True))
    batch = Batch(pairs, task.checkpoints, task.max_steps, implementation=task.implementation)
    answers = batch.run(
        range(len(pairs)), runs=task.runs, seed=task.seed, first_run=task.first, lanes=task.lanes, room=task.room
    )
    return answers, time.monotonic() - start, platform()


def check_executor(executor: Any) -> None:
    """Checks that it is one, and not one whose processes would never end.

    Raises:
        BadInput: naming it.
    """
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        allowed = "None, or an object with submit, as concurrent.futures.Executor has"
        raise BadInput("executor", quoted(executor), allowed)
    how: Callable[[], str] | None = getattr(getattr(executor, "_mp_context", None), "get_start_method", None)
    if how is not None and how() == "fork":
        allowed = "one made with mp_context=multiprocessing.get_context('spawn'), as JAX hangs in a fork"
        raise BadInput("executor", f"{type(executor).__name__} of forked processes", allowed)


def window(executor: Executor | None) -> int:
    """Returns how many chunks an executor is given at a time, if nobody says."""
    workers = getattr(executor, "_max_workers", None)
    return 2 * workers if isinstance(workers, int) else 8
