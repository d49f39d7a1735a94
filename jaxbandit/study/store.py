"""Stored results: one Zarr group a study, ``results.zarr``, that xarray opens as it is.

Each metric is a float64 array (policy, swept parameters ..., run[, checkpoint]), NaN where nothing was run, and
``done`` says which runs are there. Both lie in chunks of some runs of one configuration. A chunk is a file with a
checksum (CRC-32C), replaced as a whole or not at all; ``done`` is written after the values that it speaks of. So a
program that is killed loses what it had in hand, and nothing else.

Labels along ``policy`` and the swept parameters are only ever added at the end: a study is extended in place. They and
the length of the chunks are attributes of the group, written before any array. Should the group or an array not be
readable as such, the folder is set aside, named, and all is computed again.
"""

import json
import logging
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

try:
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec
except ImportError:
    raise ModuleNotFoundError("jaxbandit: stored studies need more packages: pip install 'jaxbandit[lab]'") from None

from jaxbandit.errors import BadInput
from jaxbandit.study.summary import identity

RESULTS = "results.zarr"
DONE = "done"
ALL_STORED = "all_coordinates_stored"
"""The attribute of groups in which a coordinate without its chunk has lost it; else it could be one of zeros."""
_log = logging.getLogger("jaxbandit")

Place = tuple[int, ...]
"""Where a configuration stands: its index along ``policy`` and along each swept parameter."""

Span = tuple[int, int]
"""Runs ``first`` to ``stop - 1``."""


class Coordinate(NamedTuple):
    """Values that xarray shows along dimensions, with a description, which may be empty."""

    dimensions: tuple[str, ...]
    values: np.ndarray
    description: str


class Damaged(Exception):
    """Says that a stored chunk is damaged or gone: ``place`` and ``span`` are what it held."""

    def __init__(self, path: Path, place: Place, span: Span) -> None:
        super().__init__(str(path))
        self.path, self.place, self.span = path, place, span


class Store:
    """Keeps the values of a study's metrics on disk, by configuration and run.

    Args:
        path: of the Zarr group; it is made where there is none.
        labels: names of dimensions with their labels (JSON-ready), ``policy`` first. Labels that the group has already
            keep their places.
        metrics: the names of the arrays.
        checkpoints: budgets at which runs are recorded, the last one included; empty for none.
        runs: how many runs the arrays have room for at least.
    """

    def __init__(
        self, path: Path, labels: Mapping[str, Sequence[Any]], metrics: Sequence[str], checkpoints: Sequence[float],
        runs: int,
    ) -> None:  # fmt: skip
        self.path, self._metrics = path, tuple(metrics)
        self._points = len(checkpoints)
        self._labels: dict[str, list[str]] = {}
        with zarr.config.set({"array.write_empty_chunks": True}):  # NaN and False are values, too
            try:
                self._open(labels, runs)
            except OSError:
                raise
            except Exception as error:  # whatever Zarr says of damaged metadata: without it the values have no labels
                aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
                _log.warning("jaxbandit: %s cannot be read (%s); it is kept as %s", path, _line(error), aside.name)
                path.rename(aside)
                self._open(labels, runs)
        self._spans: dict[Place, list[Span]] = {}

    def _open(self, labels: Mapping[str, Sequence[Any]], runs: int) -> None:
        """Opens the group, or makes it, with room for all labels and runs."""
        if not self.path.is_dir() and self.path.exists():
            raise ValueError("no folder")
        self._group = zarr.open_group(self.path, mode="a")
        held: Any = self._group.attrs.get("labels")
        if held is None:
            if any(inner.is_dir() for inner in self.path.iterdir()):
                raise ValueError("no labels")
            length = min(1 << 16, max(1 << 10, 1 << (runs // 16).bit_length()))
            held = {name: [] for name in labels}
            self._group.update_attributes({"labels": held, "length": length})
        self._length = int(cast(int, self._group.attrs["length"]))
        self._labels = {
            name: list(dict.fromkeys([*known, *(identity(label) for label in labels[name])]))
            for name, known in held.items()
        }
        new = [name for name in self._metrics if name not in self._group]
        if new and DONE in self._group:
            _log.warning("jaxbandit: %s has no %s yet; its runs are computed again", self.path, ", ".join(new))
            del self._group[DONE]
        if new:  # what is noted from now on says nothing of metrics that are not here, as ``tune`` stores one at a time
            for name, array in list(self._group.arrays()):  # of runs: coordinates stay
                if name not in self._metrics and "run" in (getattr(array.metadata, "dimension_names", None) or ()):
                    del self._group[name]
        self._arrays = {name: self._array(name, runs) for name in (*self._metrics, DONE)}
        # Of one length, which they are not where an extension was killed while it made room.
        self.room(max(array.shape[len(self._labels)] for array in self._arrays.values()))
        if held != self._labels:
            self._group.update_attributes({"labels": self._labels})

    def _array(self, name: str, runs: int) -> Any:
        more = () if name == DONE or not self._points else (self._points,)
        room = (*map(len, self._labels.values()), runs, *more)
        chunks = (*[1] * len(self._labels), self._length, *more)
        if name in self._group:
            array: Any = self._group[name]
            if array.chunks != chunks:
                raise ValueError(f"{name} has other chunks")
            at = len(self._labels)  # what is beyond the labels was made for some that were never added
            wanted = (*room[:at], max(array.shape[at], runs), *more)
            if array.shape != wanted:
                array.resize(wanted)
            return array
        return self._group.create_array(
            name,
            shape=room,
            chunks=chunks,
            dtype="bool" if name == DONE else "float64",
            fill_value=False if name == DONE else np.nan,
            compressors=[ZstdCodec(level=1), Crc32cCodec()],
            dimension_names=[*self._labels, "run", *(["checkpoint"] if more else [])],
        )

    def place(self, labels: Mapping[str, Any]) -> Place:
        """Returns the place of a configuration, from its label along each dimension."""
        return tuple(known.index(identity(labels[name])) for name, known in self._labels.items())

    def room(self, runs: int) -> None:
        """Makes room in all arrays for so many runs."""
        for array in self._arrays.values():
            at = len(self._labels)
            if array.shape[at] < runs:
                array.resize((*array.shape[:at], runs, *array.shape[at + 1 :]))

    def held(self, place: Place) -> list[Span]:
        """Returns the runs that are there, in order, as spans that do not touch."""
        if place not in self._spans:
            self._spans[place] = self._read_spans(place)
        return self._spans[place]

    def _read_spans(self, place: Place) -> list[Span]:
        array, found = self._arrays[DONE], list[Span]()
        for number in numbers_of_chunks(self.path, DONE, place):
            first, path = number * self._length, self._file(DONE, place, number * self._length)
            try:
                if path.is_dir():
                    raise IsADirectoryError(path)
                flags = array[(*place, slice(first, first + self._length))]
            except Exception as error:  # whatever a codec says of a damaged file
                self._note(path, error)
                continue
            edges = (first + np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))).tolist()
            for a, b in zip(edges[::2], edges[1::2], strict=True):
                if found and found[-1][1] == a:
                    a = found.pop()[0]
                found.append((a, b))
        return found

    def missing(self, place: Place, stop: int) -> list[Span]:
        """Returns the runs below ``stop`` that are not there."""
        gaps, at = [], 0
        for first, end in [*self.held(place), (stop, stop)]:
            if at < min(first, stop):
                gaps.append((at, min(first, stop)))
            at = max(at, end)
        return gaps

    def write(self, places: Sequence[Place], first: int, values: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Stores runs from ``first`` on: for each place every metric's values, float64 (runs[, checkpoints])."""
        stop = first + len(values[0][self._metrics[0]])
        for name in self._metrics:
            for place, own in zip(places, values, strict=True):
                self._check_beside(name, place, first, stop)
                self._arrays[name][(*place, slice(first, stop))] = own[name]
        for place in places:
            self._arrays[DONE][(*place, slice(first, stop))] = True
            self._mark(place, (first, stop), True)

    def _check_beside(self, name: str, place: Place, first: int, stop: int) -> None:
        """Checks chunks that are written in part: what they hold beside it is kept, and must be sound or nothing."""
        for at, end in _pieces(first, stop, self._length):
            start = at - at % self._length
            if end - at == self._length:
                continue
            if any(a < start + self._length and start < b for a, b in self.held(place)):
                try:
                    self.read(place, name, start, min(start + self._length, self._arrays[name].shape[len(place)]))
                except Damaged as damage:
                    self.forget(damage)
            else:
                _remove(self._file(name, place, start))

    def forget(self, damage: Damaged) -> None:
        """Drops a damaged chunk, naming it: its runs are missing from here on."""
        self._note(damage.path, damage)
        first, stop = damage.span
        self._arrays[DONE][(*damage.place, slice(first, min(stop, self._arrays[DONE].shape[-1])))] = False
        self._mark(damage.place, damage.span, False)

    def _note(self, path: Path, error: object) -> None:
        what = "is damaged" if path.exists() else "is gone"
        _log.warning("jaxbandit: %s %s; its runs are computed again", path, what)
        _remove(path)

    def _mark(self, place: Place, span: Span, there: bool) -> None:
        first, stop = span
        rest = [
            part for a, b in self.held(place) for part in ((a, min(b, first)), (max(a, stop), b)) if part[0] < part[1]
        ]
        merged: list[Span] = []
        for a, b in sorted([*rest, span] if there else rest):
            if merged and merged[-1][1] == a:
                a = merged.pop()[0]
            merged.append((a, b))
        self._spans[place] = merged

    def read(self, place: Place, metric: str, first: int, stop: int) -> np.ndarray:
        """Returns a metric's values of runs that are there: float64 of shape (stop - first[, checkpoints]).

        Raises:
            Damaged: where a chunk of them is not as it was written.
        """
        array = self._arrays[metric]
        span = (*place, slice(first, stop))
        if all(self._file(metric, place, at).is_file() for at, _ in _pieces(first, stop, self._length)):
            try:
                values: np.ndarray = array[span]
                return values
            except Exception:  # whatever a codec says of a damaged file
                pass
        for at, end in _pieces(first, stop, self._length):
            path = self._file(metric, place, at)
            whole = at - at % self._length, at - at % self._length + self._length
            if not path.is_file():
                raise Damaged(path, place, whole)
            try:
                array[(*place, slice(at, end))]
            except Exception:
                raise Damaged(path, place, whole) from None
        raise OSError(f"{self.path}: cannot be read")

    def _file(self, name: str, place: Place, run: int) -> Path:
        more = [0] if self._points and name != DONE else []
        return self.path.joinpath(name, "c", *map(str, [*place, run // self._length, *more]))

    def label(self, coordinates: Mapping[str, Coordinate], attributes: Mapping[str, Any]) -> None:
        """Writes coordinates, and attributes of the group, where they are new; drops what are no coordinates now."""
        if coordinates:
            for folder in self.path.iterdir():
                if folder.is_dir() and folder.name not in (*self._arrays, *coordinates):
                    shutil.rmtree(folder)
        for name, (dimensions, values, description) in coordinates.items():
            with suppress(Exception):  # a damaged one is written again
                held: Any = self._group.get(name)
                there = coordinate_chunk(self.path, name, len(dimensions)).is_file()
                if there and held.shape == values.shape and np.array_equal(held[...], values):
                    continue
            array = self._group.create_array(
                name, shape=values.shape, dtype=values.dtype, chunks=values.shape, dimension_names=dimensions,
                compressors=[ZstdCodec(level=1), Crc32cCodec()],
                attributes={"long_name": description} if description else {}, overwrite=True,
                config={"write_empty_chunks": True},
            )  # fmt: skip
            array[...] = values
        more = {**attributes, **({ALL_STORED: True} if coordinates else {})}
        new = {name: value for name, value in more.items() if self._group.attrs.get(name) != value}
        if new:
            self._group.update_attributes(new)

    def claim(self, platform: str) -> None:
        """Notes on which platform values are computed, before the first of them is stored.

        Raises:
            BadInput: see ``check_platform``.
        """
        _refuse(self.path, self._group.attrs.get("platform"), platform)
        if "platform" not in self._group.attrs:
            self._group.update_attributes({"platform": platform})

    @property
    def concluded(self) -> bool:
        """Returns whether a study was finished here, so that the group says how many runs it has."""
        return "runs" in self._group.attrs

    @property
    def labels(self) -> dict[str, list[str]]:
        """Returns all labels that the arrays have, as JSON texts, in the order of their places."""
        return self._labels

    @property
    def length(self) -> int:
        """Returns the number of runs in a chunk."""
        return self._length


def coordinate_chunk(group: Path, name: str, dimensions: int) -> Path:
    """Returns the file that has all values of a coordinate."""
    return group.joinpath(name, "c", *["0"] * dimensions)


def numbers_of_chunks(group: Path, name: str, place: Place) -> list[int]:
    """Returns which chunks of runs a configuration has, in order. An array may have room for far more of them."""
    folder = group.joinpath(name, "c", *map(str, place))
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdecimal())


def _remove(path: Path) -> None:
    """Removes a chunk, and what is in the place of one."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def check_platform(path: Path, platform: str) -> None:
    """Refuses to mix values of two platforms (cpu, gpu, tpu): some round divisions, square roots, exponentials and
    logarithms of float32 otherwise than others, so that the bits of a run can differ.

    Raises:
        BadInput: where the group at ``path`` has values of another platform.
    """
    held = None
    with suppress(OSError, ValueError):  # no group yet, or a damaged one
        group = json.loads((path / "zarr.json").read_text())
        attributes = group.get("attributes") if isinstance(group, dict) else None
        held = attributes.get("platform") if isinstance(attributes, dict) else None
    _refuse(path, held, platform)


def _refuse(path: Path, held: Any, platform: str) -> None:
    if held not in (None, platform):
        allowed = f"a folder of results from {platform}; these are from {held}, and bits can differ between the two"
        raise BadInput("out", str(path.parent), allowed)


def _line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _pieces(first: int, stop: int, length: int) -> Iterator[Span]:
    """Cuts a span at multiples of ``length``."""
    at = first
    while at < stop:
        end = min(stop, at - at % length + length)
        yield at, end
        at = end
