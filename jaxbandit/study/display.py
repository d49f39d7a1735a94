"""Results shown from Python: ``plot`` and ``table`` of a Dataset, a folder of results or rows."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxbandit.errors import BadInput
from jaxbandit.study import folder, picture
from jaxbandit.study.results import rows_of
from jaxbandit.study.store import RESULTS
from jaxbandit.study.summary import Row, metrics, varying
from jaxbandit.study.table import WIDTH, Format, render
from jaxbandit.words import counted

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    Results = xr.Dataset | Path | str | Sequence[Row]


def plot(results: "Results", metric: str | None = None, x: str | None = None) -> "Figure":
    """Draws the means of a metric with the bands of their 95 % intervals, a curve for each policy.

    Args:
        results: of ``open_results`` or ``run_study``, or what was selected from it; a folder of results; or rows, as
            ``summary.json`` has them.
        metric: what is drawn; the first one of the study where None.
        x: the param on the x axis, a number or a word. Where None, it is the first list of numbers in the study (its
            checkpoints, then its sweep, then its policies' lists); where there is none, a dot stands for each mean.

    Returns:
        The figure; ``savefig("figure.pdf")`` writes it, and a notebook shows it.

    Raises:
        BadInput: for a metric or a param that the results do not have, a folder without results, missing runs.

    Example:
        >>> import jaxbandit
        >>> study = jaxbandit.Study.of(
        ...     {
        ...         "runs": 50,
        ...         "problem": {"kind": "cleaning/synthetic", "entities": 1_000, "budget": 100},
        ...         "policy": [{"kind": "ee", "t": [2, 3], "q": 0.667}],
        ...     }
        ... )
        >>> results = jaxbandit.run_study(study, progress=False)
        >>> jaxbandit.plot(results, metric="removed").axes[0].get_ylabel()
        'false values removed'
    """
    from jaxbandit.study.canvas import draw

    return draw(**drawing(results, metric, x))


def table(results: "Results", metric: str | Sequence[str] = (), format: Format = "text", width: int = WIDTH) -> str:
    """Returns the table of results that ``jaxbandit run`` and ``show`` print.

    Args:
        results: see ``plot``.
        metric: the columns, one or several; where empty, all but percentiles such as ``pulls_50``.
        format: text, markdown, latex, csv or json.
        width: in characters, that a text keeps to.

    Returns:
        The table, which ends with a newline.

    Raises:
        BadInput: see ``plot``.

    Example:
        >>> import jaxbandit
        >>> study = jaxbandit.Study.of(
        ...     {
        ...         "runs": 50,
        ...         "problem": {"kind": "cleaning/synthetic", "entities": 1_000, "budget": 100},
        ...         "policy": [{"kind": "ee", "t": [2, 3], "q": 0.667}],
        ...     }
        ... )
        >>> results = jaxbandit.run_study(study, progress=False)
        >>> print(jaxbandit.table(results, "removed", "csv").splitlines()[0])
        policy,budget,t,q,metric,mean,ci_low,ci_high,runs
    """
    rows, about = _known(results)
    names = [metric] if isinstance(metric, str) else metric
    return render(_chosen(rows, names), format, every=bool(names), paired=about.get("paired", True), width=width)


def drawing(results: "Results", metric: str | None = None, x: str | None = None) -> dict[str, Any]:
    """Returns the arguments of ``canvas.draw`` for ``plot``, JSON-ready. The picture of a folder is its own where
    neither is given: that of a paper's figure has the paper's axes."""
    if metric is None and x is None and isinstance(results, str | Path) and (Path(results) / folder.FIGURE).exists():
        own: dict[str, Any] = folder.read(Path(results) / folder.FIGURE)
        return own
    rows, about = _known(results)
    rows = _chosen(rows, metrics(rows)[:1] if metric is None else [metric])
    params = varying(rows)
    if x is not None and x not in params:
        raise BadInput("x", x, f"a param that differs between rows: {', '.join(params) or 'there is none'}")
    given = [name for name in params if all(name in row["params"] for row in rows)]
    title = Path(results).resolve().name if isinstance(results, str | Path) else ""
    return picture.of_rows(rows, about.get("swept", given), title, about.get("labels_of_axes", {}), x)


def _chosen(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    known = metrics(rows)
    for name in names:
        if name not in known:
            raise BadInput("metric", name, f"one of {', '.join(known)}")
    return [row for name in names for row in rows if row["metric"] == name] if names else list(rows)


def _known(results: Any) -> tuple[list[Row], Mapping[str, Any]]:
    """Returns the rows, and what is known of the study: ``swept``, ``labels_of_axes``, and whether its runs are
    ``paired``."""
    if isinstance(results, str | Path):
        place = Path(results)
        about: dict[str, Any] = {}
        for inner in [place / RESULTS, *sorted(place.glob(f"studies/*/{RESULTS}"))]:
            if (inner / "zarr.json").exists():
                attributes = folder.read(inner / "zarr.json")["attributes"]
                about["swept"] = list(dict.fromkeys([*about.get("swept", ()), *attributes.get("swept", ())]))
                about["labels_of_axes"] = about.get("labels_of_axes", {}) | attributes.get("labels_of_axes", {})
                about["paired"] = about.get("paired", True) and _paired(attributes)
        rows = folder.read(place / folder.SUMMARY)
        if not _are_rows(rows):
            raise BadInput("DIR", str(place), "a folder of results as jaxbandit wrote them")
        return rows, about
    if isinstance(results, list | tuple):
        if not _are_rows(results):
            given = counted(len(results), "item", "items")
            raise BadInput("results", given, "rows as summary.json has them, at least one")
        return list(results), {}
    if not hasattr(results, "data_vars"):
        raise BadInput("results", results, "a Dataset of open_results or run_study, a folder of results, or rows")
    labels = {
        str(name): held.attrs["long_name"] for name, held in results.variables.items() if "long_name" in held.attrs
    }
    swept, paired = results.attrs.get("swept", []), _paired(results.attrs)
    return rows_of(results), {"swept": swept, "labels_of_axes": labels, "paired": paired}


def _paired(attributes: Mapping[str, Any]) -> bool:
    """Returns whether the study that such attributes are of has runs of one number meet the same draws under each
    policy."""
    problem = json.loads(attributes.get("study", "{}")).get("problem")
    return not isinstance(problem, Mapping) or problem.get("paired", True) is not False


def _are_rows(found: Any) -> bool:
    return bool(found) and all(isinstance(row, dict) and Row.__required_keys__ <= row.keys() for row in found)
