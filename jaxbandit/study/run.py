"""Running a study in chunks that are stored as they come, so that an interruption costs little and changes nothing."""

import hashlib
import io
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxbandit.engine import simulate
from jaxbandit.study import folder
from jaxbandit.study.spec import Configuration, Study
from jaxbandit.study.summary import Moments, Row, dumps

Progress = Callable[[int, int], None]
"""Called with (runs finished, runs in all), counted over configurations."""

_RANGE = "_runs"
_log = logging.getLogger("jaxbandit")

# A chunk is what an interruption can cost: some seconds. It starts as a guess and follows the clock.
_FIRST_JOBS, _MOST_JOBS = 1 << 14, 1 << 22
_SHORT, _LONG = 3.0, 40.0


class _Chunk(NamedTuple):
    """Stored answers of runs ``first`` to ``stop - 1`` of all configurations of one policy."""

    first: int
    stop: int
    path: Path


def run(study: Study, out: Path | str, progress: Progress | None = None) -> list[Row]:
    """Runs a study, or what is missing of it, and writes ``out/summary.json``.

    Args:
        study: see ``Study``.
        out: the folder of results: new, empty, or begun with the same study. ``study.json`` says which study it
            holds, ``chunks`` has the answers by policy as NumPy archives, arrays of shape (configurations, runs).
        progress: called between chunks of work.

    Returns:
        One row for each configuration and metric, in the study's order.

    Raises:
        BadInput: before anything is written: where two configurations are the same, parameters do not go together,
            or ``out`` holds something else.
    """
    out = Path(out)
    configurations = study.configurations()
    with folder.claimed(out, study.canonical(), facts()):
        by_policy: dict[str, list[Configuration]] = {}
        for configuration in configurations:
            by_policy.setdefault(configuration.name, []).append(configuration)
        total, finished = study.runs * len(configurations), 0
        rows: dict[int, list[Row]] = {}
        for name, members in by_policy.items():

            def report(runs: int, base: int = finished) -> None:
                if progress is not None:
                    progress(base + runs, total)

            chunks = _fill(study, out / "chunks" / name, members, report)
            for member, its_rows in zip(members, _rows(members, chunks), strict=True):
                rows[id(member)] = its_rows
            finished += study.runs * len(members)
        ordered = [row for configuration in configurations for row in rows[id(configuration)]]
        folder.write(out / folder.SUMMARY, dumps(ordered))
    return ordered


def facts() -> dict[str, Any]:
    """What results were computed with: noted beside them, though they should not depend on it."""
    devices = jax.local_devices()
    return {"jax": jax.__version__, "device": f"{len(devices)} x {devices[0].device_kind}"}


def _fill(study: Study, place: Path, members: list[Configuration], report: Callable[[int], None]) -> list[_Chunk]:
    """Computes the runs that are not stored yet; returns all chunks, by their runs."""
    place.mkdir(parents=True, exist_ok=True)
    chunks = _stored(place)
    size = max(1, _FIRST_JOBS // len(members))
    done = len(members) * sum(chunk.stop - chunk.first for chunk in chunks)
    report(done)

    def during(runs: int, _: int) -> None:
        report(done + runs)

    for first, stop in list(_gaps(chunks, study.runs)):
        while first < stop:
            count = _share(stop - first, size)
            start = time.monotonic()
            answers = simulate(
                [member.problem for member in members], [member.policy for member in members],
                runs=count, first_run=first, seed=study.seed, progress=during,
            )  # fmt: skip
            took = time.monotonic() - start
            chunks.append(_store(place, first, answers))
            first, done = first + count, done + count * len(members)
            report(done)
            if took < _SHORT:
                size = min(4 * size, max(1, _MOST_JOBS // len(members)))
            elif took > _LONG:
                size = max(1, size // 4)
    return sorted(chunks)


def _share(runs: int, size: int) -> int:
    """About ``size``, such that the chunks are alike: each new shape is a compilation."""
    return -(-runs // -(-runs // size))


def _gaps(chunks: list[_Chunk], runs: int) -> Iterator[tuple[int, int]]:
    at = 0
    for chunk in [*chunks, _Chunk(runs, runs, Path())]:
        if at < chunk.first:
            yield at, chunk.first
        at = chunk.stop


def _store(place: Path, first: int, answers: dict[str, np.ndarray]) -> _Chunk:
    """A chunk's name ends with the SHA-256 of its content."""
    stop = first + next(iter(answers.values())).shape[1]
    buffer = io.BytesIO()
    np.savez(buffer, **answers, **{_RANGE: np.array([first, stop])})  # type: ignore[arg-type]
    data = buffer.getvalue()
    path = place / f"{first:010d}-{hashlib.sha256(data).hexdigest()}.npz"
    folder.write(path, data)
    return _Chunk(first, stop, path)


def _stored(place: Path) -> list[_Chunk]:
    """The chunks of an earlier run, by their runs, without those that are damaged or overlap."""
    chunks = []
    for path in place.glob("*.npz"):
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != path.stem.rpartition("-")[2]:
            _log.warning("jaxbandit: %s is damaged; its runs are computed again", path)
            path.unlink()
            continue
        with np.load(io.BytesIO(data)) as archive:
            first, stop = archive[_RANGE].tolist()
        chunks.append(_Chunk(first, stop, path))
    kept: list[_Chunk] = []
    for chunk in sorted(chunks):
        if not kept or chunk.first >= kept[-1].stop:
            kept.append(chunk)
    return kept


def _rows(members: list[Configuration], chunks: list[_Chunk]) -> list[list[Row]]:
    """The rows of each configuration. One chunk is in memory at a time."""
    metrics = members[0].family.metrics
    moments = [[Moments() for _ in metrics] for _ in members]
    for chunk in chunks:
        with np.load(chunk.path) as archive:
            answers = {name: archive[name] for name in archive.files if name != _RANGE}
        for number, member in enumerate(members):
            own = {name: values[number] for name, values in answers.items()}
            for metric, sums in zip(metrics, moments[number], strict=True):
                with np.errstate(divide="ignore", invalid="ignore"):
                    sums.add(np.asarray(metric.of(member.setting, own), np.float64))
    return [
        [sums.row(member.name, member.params, metric.name) for metric, sums in zip(metrics, its_moments, strict=True)]
        for member, its_moments in zip(members, moments, strict=True)
    ]
