"""Stored results as xarray shows them: what their dimensions and coordinates are, and how they are opened."""

import itertools
import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxbandit.errors import BadInput
from jaxbandit.grammar import faster
from jaxbandit.study.folder import FINISHED, STUDY
from jaxbandit.study.spec import Configuration, Study
from jaxbandit.study.store import (
    ALL_STORED,
    DONE,
    RESULTS,
    Coordinate,
    Place,
    Store,
    coordinate_chunk,
    numbers_of_chunks,
)
from jaxbandit.study.summary import Always, Moments, Row, exactly, identity

if TYPE_CHECKING:
    import xarray as xr

IMPLEMENTED_BY = "implemented_by"
"""The coordinate that names the class that ran a configuration: the rule's own, or a faster implementation."""


def check_names(study: Study, members: Sequence[Configuration]) -> None:
    """Checks that no parameter of ``members`` has the name of a metric, as both are variables of the results.

    Raises:
        BadInput: naming it.
    """
    names = {name for each in members for name in (*each.params, *each.point)}
    for metric in study.family.metrics:
        if metric.name in names:
            raise BadInput("parameter", metric.name, "a name that is not that of a metric")


def described(
    study: Study, members: Sequence[Configuration], store: Store, places: Mapping[int, Place], budgets: Sequence[float]
) -> tuple[dict[str, Coordinate], dict[str, Any]]:
    """Returns the coordinates and the attributes of a study's group.

    A swept parameter's values stand along its dimension, texts where they are no numbers. ``kind`` is the policies'
    kind; what else a policy has as a parameter, tuned ones included, stands along ``policy`` and the swept parameters,
    NaN or empty where it has none. So does ``implemented_by``, the name of the class that ran the configuration; the
    attribute ``rules`` names the classes of the policies as they are written.
    """
    dimensions = tuple(store.labels)
    found: dict[str, Coordinate] = {}
    for name, texts in store.labels.items():
        found[name] = Coordinate((name,), column([json.loads(text) for text in texts]), "")
    kinds = {identity(each.label): each.name for each in members}
    found["kind"] = Coordinate(("policy",), column([kinds.get(text, "") for text in store.labels["policy"]]), "")
    if budgets:
        found["checkpoint"] = Coordinate(("checkpoint",), column(list(budgets)), "budget spent")
    shape = tuple(map(len, store.labels.values()))
    for name in dict.fromkeys(name for each in members for name in each.params):
        if name in found or name in study.labels or (budgets and name == "budget"):
            continue
        given = {places[id(each)]: each.params.get(name) for each in members}
        values: list[Any] = [given.get(place) for place in np.ndindex(*shape)]
        found[name] = Coordinate(dimensions, column(values).reshape(shape), "")
    ran = dict(zip(map(places.get, map(id, members)), ran_by(study), strict=True))
    classes = column([ran.get(place, "") for place in np.ndindex(*shape)])
    found[IMPLEMENTED_BY] = Coordinate(dimensions, classes.reshape(shape), "class that ran the policy")
    wanted: dict[str, list[Any]] = {"policy": list(dict.fromkeys(each.label for each in members))}
    for name in members[0].point:
        wanted[name] = list({identity(each.point[name]): each.point[name] for each in members}.values())
    first = {each.label: each for each in members}.values()
    return found, {
        "study": identity(study.canonical()),
        "selected": identity(wanted),
        "metrics": " ".join(metric.name for metric in study.family.metrics),
        "lower_is_better": " ".join(metric.name for metric in study.family.metrics if metric.lower_is_better),
        "binary": " ".join(metric.name for metric in study.family.metrics if metric.binary),
        "implementation": study.implementation,
        "references": [each.label for each in first if study.family.policies[each.name].reference],
        "share": " ".join(
            metric.name for metric in study.family.metrics if all(metric.bounded(each.setting) for each in members)
        ),
        "coordinates": " ".join(name for name in found if name not in (*dimensions, "checkpoint")),
        "rules": rules_of(study),
        "params": list(dict.fromkeys(name for each in members for name in each.params)),
        "swept": study.swept,
        "labels_of_axes": study.labels_of_axes,
    }


def ran_by(study: Study) -> list[str]:
    """Returns the name of the class that runs each configuration."""
    members = study.configurations()
    if study.implementation != "fast":
        return [type(each.policy).__name__ for each in members]
    return [type(faster(each.policy, each.problem)).__name__ for each in members]


def rules_of(study: Study) -> list[str]:
    """Returns the names of the classes of a study's policies as they are written."""
    return list(dict.fromkeys(type(each.policy).__name__ for each in study.configurations()))


def column(values: list[Any]) -> np.ndarray:
    """Returns numbers as they are, with NaN for None; all else as texts, tables and lists as JSON."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.array(values)
    if all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values):
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.array(["" if value is None else exactly(value) for value in values], np.dtypes.StringDType())


def rows_of(data: "xr.Dataset") -> list[Row]:
    """Returns the rows of what is in ``data``, as ``summary.json`` has them: of fewer configurations or runs where it
    was selected from.

    Raises:
        BadInput: for a Dataset that is none of ``open_results``, or where runs are missing.
    """
    about = data.attrs
    names = [name for name in about.get("metrics", "").split() if name in data]
    if not names or "policy" not in data.coords or any("run" not in data[name].dims for name in names):
        raise BadInput("results", type(data).__name__, "a Dataset of open_results or run_study, with its runs")
    finished(data)
    always = Always(runs) if (runs := planned(data)) else None
    binary, share = (about.get(kind, "").split() for kind in ("binary", "share"))
    dimensions = [name for name in data[names[0]].dims if name != "run"]
    swept = [name for name in dimensions if name not in ("policy", "checkpoint")]
    params = about["params"] if "params" in about else [*swept, *about["coordinates"].split()]
    # In the order of ``summary.json``: the policies and then the checkpoints of each setting.
    dimensions.sort(key=lambda name: (name == "checkpoint") - (name not in ("policy", "checkpoint")))
    rows = []
    for place in np.ndindex(*(data.sizes[name] for name in dimensions)):
        part = data.isel(dict(zip(dimensions, place, strict=True)))
        at = {name: value_of(part[name].values[()]) for name in params if name in part.coords}
        if "checkpoint" in part.coords:
            at["budget"] = value_of(part["checkpoint"].values[()])
        given = {name: at[name] for name in dict.fromkeys([*params, *at]) if at.get(name) is not None}
        policy = str(part["kind" if "kind" in part.coords else "policy"].values[()])
        for name in names:
            moments = Moments(name in binary, name in share)
            moments.add(np.ascontiguousarray(values_of(data, part[name])))
            rows.append(moments.row(policy, given, name, always))
    return rows


def value_of(label: Any) -> Any:
    """Returns a coordinate's value as a param, None where there is none: the reverse of ``column``."""
    value = label.item() if isinstance(label, np.generic | np.ndarray) else label
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, str):
        with suppress(ValueError):  # a name may begin so too
            return None if not value else json.loads(value) if value[0] in "{[" else value
    return value


def values_of(data: "xr.Dataset", metric: "xr.DataArray") -> np.ndarray:
    """Returns the values of a metric, or of a part of it, read from where ``data`` is stored.

    Raises:
        BadInput: where a chunk of them is damaged.
    """
    try:
        values: np.ndarray = metric.values
        return values
    except (ValueError, RuntimeError) as error:
        folder = str(Path(data.encoding.get("source", RESULTS)).parent)
        allowed = f"undamaged results; what wrote them repairs a chunk of {metric.name} ({error})"
        raise BadInput("DIR", folder, allowed) from None


def planned(data: "xr.Dataset") -> int | None:
    """Returns for how many runs intervals that hold at any stop are tightest; None where nothing that was seen decided
    how many runs there are, so that Student's are right."""
    return int(data.attrs.get("planned", 0)) or None


def check_values(data: "xr.Dataset") -> None:
    """Reads the values of all metrics, a configuration at a time, which checks them.

    Raises:
        BadInput: where a chunk of them is damaged.
    """
    for name in data.attrs["metrics"].split():
        metric = data[name]
        for place in np.ndindex(*metric.shape[: metric.dims.index("run")]):
            values_of(data, metric[place])


def finished(data: "xr.Dataset") -> None:
    """Checks that no runs of the results are missing.

    Raises:
        BadInput: where there are some, or there is none at all.
    """
    if data.sizes.get("run") == 0:
        raise BadInput("runs", 0, "at least 1")
    if "done" in data:
        raise BadInput(
            "DIR", "a study with missing runs", "a study that is finished; the command that began it goes on"
        )


def open_results(path: Path | str) -> "xr.Dataset":
    """Returns the stored results of a study, each run of it, read from disk as they are used.

    Args:
        path: the folder that ``jaxbandit run`` was given, or one under ``studies`` of a figure's.

    Returns:
        Each metric as a float64 variable (policy, swept parameters ..., run[, checkpoint]), in the order of the study
        file; see ``described`` for the coordinates. Where runs are missing, as of a study that goes on, they are NaN
        and the variable ``done`` says which are there. Plain ``xarray.open_zarr`` shows the same, and also what an
        earlier study in the folder had beyond this one.

    Raises:
        BadInput: where there are no stored results.

    Example:
        >>> import jaxbandit, tempfile
        >>> study = jaxbandit.Study.of(
        ...     {
        ...         "runs": 50,
        ...         "problem": {"kind": "cleaning/synthetic", "entities": 1_000, "budget": 100},
        ...         "policy": [{"kind": "ee", "t": [2, 3], "q": 0.667}],
        ...     }
        ... )
        >>> folder = tempfile.mkdtemp()
        >>> _ = jaxbandit.run_study(study, folder, progress=False)
        >>> sorted(jaxbandit.open_results(folder).data_vars)
        ['cleans', 'effectiveness', 'finished', 'removed']
    """
    path = Path(path)
    group = path if path.name == RESULTS else path / RESULTS
    if not (group / "zarr.json").exists():
        raise BadInput("path", str(path), f"a folder with {RESULTS}, written by a study")
    if _is_of_tuning(group.parent):
        opens = "this one is of a tuning, which `jaxbandit show` opens"
        raise BadInput("path", str(path), f"a folder that `jaxbandit run` wrote; {opens}")
    try:
        data, lost = _read(group)
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        reason = f"{_unreadable(group)}{str(error).splitlines()[0]}"
        raise BadInput(
            "path", str(path), f"results that can be read; what wrote them repairs them ({reason})"
        ) from None
    if lost is not None:
        gone = lost.relative_to(group).as_posix()
        raise BadInput("path", str(path), f"results that are all there; what wrote them computes {gone} again")
    return data


def goes_on(out: Path) -> bool:
    """Returns whether there are stored results of a study that is not finished: it goes on, or was interrupted."""
    return (out / RESULTS).exists() and not (out / FINISHED).exists()


def _is_of_tuning(folder: Path) -> bool:
    """Returns whether a folder was begun by ``jaxbandit tune``, whose results have no coordinates."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return "tune" in json.loads((folder / STUDY).read_bytes())["identity"]
    return False


def stored_runs(path: Path | str) -> tuple[int, int]:
    """Returns how many runs the folder ``path`` has of that configuration of its study that has most, those included
    that an earlier study has and this one does not show; and how many it shows."""
    import zarr

    group = zarr.open_group(Path(path) / RESULTS, mode="r")
    done: Any = group[DONE]
    held: Any = group.attrs
    shown = int(held.get("runs", 0))
    if done.shape[-1] == shown:
        return shown, shown
    selected, known = json.loads(held["selected"]), held["labels"]
    places = itertools.product(*([known[name].index(identity(each)) for each in selected[name]] for name in known))
    with suppress(ValueError, RuntimeError):  # a chunk of what is not shown may be damaged
        length = int(held["length"])
        return max(
            sum(
                int(done[(*place, slice(number * length, (number + 1) * length))].sum())
                for number in numbers_of_chunks(Path(path) / RESULTS, DONE, place)
            )
            for place in places
        ), shown
    return shown, shown


def _read(group: Path) -> "tuple[xr.Dataset, Path | None]":
    """Returns what ``open_results`` does, and the first array or chunk that was stored and is gone, where one is."""
    import xarray as xr

    with warnings.catch_warnings():  # a folder that is no array now is looked for below, by its name
        warnings.filterwarnings("ignore", "Object at .* is not recognized as a component of a Zarr hierarchy")
        data: xr.Dataset = xr.open_zarr(group, consolidated=False, chunks=None)
    selected, known = json.loads(data.attrs.pop("selected")), data.attrs.pop("labels")
    metrics = data.attrs["metrics"].split()
    gone = next((group / name for name in (*metrics, DONE) if name not in data), None)
    gone = gone or _load_coordinates(group, data, known)
    if gone is not None:
        return data, gone
    data = data.isel({name: [known[name].index(identity(label)) for label in selected[name]] for name in known})
    data = data.isel(run=slice(data.attrs.pop("runs", None)))
    for name, label in data.attrs.pop("labels_of_axes", {}).items():
        if name in data.variables:
            data[name].attrs.setdefault("long_name", label)
    indices = [[known[name].index(identity(label)) for label in selected[name]] for name in known]
    # An array may have room for far more runs than are there.
    whole = all(path.is_file() for path, _ in _chunks(group, data[DONE], indices)) and _all_done(
        group, data[DONE], indices
    )
    # Of a study that goes on, some runs and their chunks have never been there.
    expected = metrics if whole else [DONE] if (group.parent / FINISHED).exists() else []
    chunks = (path for name in expected for path, _ in _chunks(group, data[name], indices))
    return data.drop_vars(DONE) if whole else data, next((path for path in chunks if not path.is_file()), None)


def _all_done(group: Path, done: "xr.DataArray", indices: Sequence[Sequence[int]]) -> bool:
    """Returns whether all runs are there.

    Raises:
        ValueError: where a chunk of what says so is damaged; it names the chunk.
    """
    try:
        return bool(done.values.all())  # xarray would import dask, where that is installed
    except (ValueError, RuntimeError):
        for path, part in _chunks(group, done, indices):
            try:
                done.isel(part).load()
            except (ValueError, RuntimeError) as error:
                raise ValueError(f"{path.relative_to(group).as_posix()}: {error}") from None
        raise


def _chunks(
    group: Path, array: "xr.DataArray", indices: Sequence[Sequence[int]]
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yields the chunks of an array of runs, and which part of it each has. ``indices``: places in the store, along
    each dimension but runs."""
    length = array.encoding["chunks"][len(indices)]
    more = ["0"] if "checkpoint" in array.dims else []
    for place in itertools.product(*map(enumerate, indices)):
        at: dict[str, Any] = {str(name): spot for name, (spot, _) in zip(array.dims, place, strict=False)}
        for number in range(-(-array.sizes["run"] // length)):
            path = group.joinpath(str(array.name), "c", *(str(stored) for _, stored in place), str(number), *more)
            yield path, {**at, "run": slice(number * length, (number + 1) * length)}


def _unreadable(group: Path) -> str:
    """Returns the first description in the group that is no JSON object, with a colon; empty where all are."""
    for path in (group / "zarr.json", *sorted(group.glob("*/zarr.json"))):
        with suppress(ValueError):
            if isinstance(json.loads(path.read_bytes()), dict):
                continue
        return f"{path.relative_to(group).as_posix()}: "
    return ""


def _load_coordinates(group: Path, data: "xr.Dataset", known: Mapping[str, Any]) -> Path | None:
    """Reads all coordinates, which checks them, and returns the first chunk of one that should be there and is not:
    Zarr would read it as zeros or empty texts, and xarray would number the places along its dimension."""
    checkpoint = ["checkpoint"] if "checkpoint" in data.dims else []
    stored = data.attrs.pop(ALL_STORED, False)
    others: str = json.loads((group / "zarr.json").read_text())["attributes"]["coordinates"]  # xarray keeps it
    for name in [*known, *checkpoint, *others.split()]:
        if name not in data.coords:
            return group / name
        path = coordinate_chunk(group, name, data[name].ndim)
        if path.is_dir() or (stored and not path.exists()):
            return path
        try:
            data.variables[name].load()
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"{path.relative_to(group).as_posix()}: {error}") from None
    return None
