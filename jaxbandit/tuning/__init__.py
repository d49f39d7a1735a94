"""Tuning with a certified answer: which policy, with which parameters, and how sure that is.

``options.py`` reads what is asked, ``candidates.py`` proposes candidates, ``judge.py`` compares them on runs that the
search did not use, ``values.py`` has these runs computed and stored, ``run.py`` is the whole of it. ``train.py`` finds
the weights of a trained policy, ``needed.py`` the budget that a policy needs.
"""

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxbandit.progress import Progress, shown
from jaxbandit.study import folder
from jaxbandit.study.results import column
from jaxbandit.study.run import facts
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import plain
from jaxbandit.tuning.options import TuneOptions
from jaxbandit.tuning.run import TuningOutcome, record, tuned
from jaxbandit.tuning.train import TrainingOutcome, train

if TYPE_CHECKING:
    import xarray as xr


class Tuning(NamedTuple):
    """Holds what ``tune`` found: the candidates that were judged, and the verdict as ``verdict.json`` has it."""

    data: "xr.Dataset"
    verdict: dict[str, Any]


def tune(
    study: Study | Mapping[str, Any], out: Path | str | None = None, *, progress: Progress | bool = True, **table: Any
) -> Tuning:
    """Finds the best policy and parameters for each problem of a study, and says how sure that is.

    Args:
        study: of ``load_study`` or ``experiment``, or what ``Study.of`` takes; its ``runs`` are not used.
        out: a folder that keeps the runs, so that an interrupted tuning goes on, and one with more ``most_runs`` or
            ``candidates`` uses what was run before; with ``report.html``, as ``jaxbandit tune --out`` writes it. None
            to keep nothing.
        progress: called with a ``Status`` whenever that changes; shown on stderr where True, nowhere where False.
        table: keys of the table ``[tune]``, as ``metric="regret", space={"beta": {"from": 0.76, "to": 0.99}}``; they go
            before those of the study. See ``docs/tuning.md``.

    Returns:
        A dataset of the candidates (dimension ``candidate``) with mean, interval, runs and status, and the verdict.

    Raises:
        BadInput: naming the key that is wrong; where the policies have no value of the metric; where ``out`` is the
            folder of something else.

    Example:
        >>> import jaxbandit
        >>> found = jaxbandit.tune(
        ...     {
        ...         "problem": {"kind": "cleaning/synthetic", "entities": 1_000, "budget": 100},
        ...         "policy": [{"kind": "ee", "t": [2, 8], "q": 0.667}],
        ...     },
        ...     metric="removed", within=5, relative=False, most_runs=2_000, progress=False,
        ... )
        >>> found.verdict["verdict"] in ("best", "within", "undecided")
        True
    """
    if not isinstance(study, Study):
        study = Study.of(study, counted=False)
    study = replace(study, tune={**(study.tune or {}), **plain("tune", table, nulls=False)})
    TuneOptions.of(study)  # what is wrong is said before there is a folder
    with ExitStack() as held:
        tell = held.enter_context(shown(progress, "tuning", ""))
        place = Path(out if out is not None else held.enter_context(tempfile.TemporaryDirectory()))
        held.enter_context(claimed(study, place))
        found = tuned(study, place, tell)
        if out is not None:
            from jaxbandit.tuning import report

            report.save(place, found)
    return Tuning(_dataset(found), record(found))


def claimed(study: Study, out: Path) -> Any:
    """Makes a folder that of this study's tuning, which may be given more runs, policies and candidates."""
    return folder.claimed(
        out, {"tune": study.identity()}, facts(study), {**study.canonical(), "tune": dict(study.tune or {})}
    )


def _dataset(found: list[TuningOutcome]) -> "xr.Dataset":
    import numpy as np
    import xarray as xr

    rows = [(each, number, row) for each in found for number, row in enumerate(each.rows())]
    names = list(dict.fromkeys(name for _, _, row in rows for name in row["params"]))
    numbers = {
        "mean": [row["mean"] for *_, row in rows], "ci_low": [row["ci_low"] for *_, row in rows],
        "ci_high": [row["ci_high"] for *_, row in rows], "runs": [row["runs"] for *_, row in rows],
    }  # fmt: skip
    data = xr.Dataset({name: ("candidate", np.array(values, float)) for name, values in numbers.items()})
    data["runs"] = data["runs"].astype(int)
    data["status"] = "candidate", [each.status(number) for each, number, _ in rows]
    data = data.assign_coords(policy=("candidate", [row["policy"] for *_, row in rows]))
    for name in names:
        data = data.assign_coords({name: ("candidate", column([row["params"].get(name) for *_, row in rows]))})
    data.attrs["metric"] = found[0].options.metric.name
    return data


__all__ = ["TrainingOutcome", "Tuning", "TuningOutcome", "claimed", "train", "tune", "tuned"]
