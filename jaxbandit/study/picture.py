"""What a picture shows: which rows, along which axis, as which curves. ``canvas`` draws it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxbandit.study import folder
from jaxbandit.study.summary import Row, identity, metrics, show, telling

Point = Sequence[Any]
"""(x, mean, low, high): x a number, a text (a category) or None; low and high None where there is no interval."""


def save(out: Path, drawing: Mapping[str, Any]) -> None:
    """Draws ``figure.png`` and keeps what it is drawn from, the arguments of ``draw``, in ``figure.json``."""
    from jaxbandit.study.canvas import encoded

    image = encoded(drawing, "png")
    folder.write(out / folder.FIGURE, (json.dumps(drawing, indent=1) + "\n").encode())
    folder.write(out / folder.PICTURE, image)


def of_rows(
    rows: Sequence[Row], swept: Sequence[str], title: str, labels: Mapping[str, str], x: str | None = None
) -> dict[str, Any]:
    """Returns the arguments of ``draw``, JSON-ready, for the first metric of ``rows``.

    Args:
        rows: of a study.
        swept: params that may be the x axis; it is the first of them that is numeric and has several values.
        title: of the picture.
        labels: of axes, by the name of the metric or the param.
        x: the param on the x axis, of whatever values, where the first numeric one is not wanted.

    The x axis is logarithmic where it spans more than a factor of 20.
    """
    first = metrics(rows)[:1]
    rows = [row for row in rows if [row["metric"]] == first]
    x = x or next((name for name in swept if _numeric(rows, name)), None)
    values = [row["params"][x] for row in rows if row["params"].get(x) is not None] if x and _numeric(rows, x) else []
    return {
        "series": by_curve(rows, x),
        "xlabel": labels.get(x, x.replace("_", " ")) if x else "",
        "ylabel": labels.get(first[0], first[0].replace("_", " ")) if first else "",
        "title": title,
        "xlog": bool(values) and min(values) > 0 and max(values) > 20 * min(values),
    }


def _numeric(rows: Sequence[Row], name: str) -> bool:
    """Returns whether a param has several values in ``rows``, all of them numbers."""
    given = [row["params"][name] for row in rows if row["params"].get(name) is not None]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in given)
    return numbers and len(set(given)) > 1


def by_curve(rows: Sequence[Row], x: str | None) -> dict[str, list[Point]]:
    """Points by curve, one curve for each policy and for whatever else tells rows at the same x apart."""
    series: dict[str, list[Point]] = {}
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        beside = [name for name in _beside(own, x) if name != x]
        for row in own:
            extra = [f"{name} {show(row['params'][name])}" for name in beside if name in row["params"]]
            place = row["params"].get(x) if x else None
            if place is not None and (isinstance(place, bool) or not isinstance(place, int | float)):
                place = show(place)
            point = [place, row["mean"], row["ci_low"], row["ci_high"]]
            series.setdefault(", ".join([policy, *extra]), []).append(point)
    return series


def _beside(rows: Sequence[Row], x: str | None) -> list[str]:
    """Returns the params that tell apart rows of one policy that stand at the same x."""
    at: dict[str, list[Row]] = {}
    for row in rows:
        at.setdefault(identity(row["params"].get(x) if x else None), []).append(row)
    return list(dict.fromkeys(name for group in at.values() for name in telling(group)))
