"""A paper's figure or table: studies to run, rows to compute from them, and how they are drawn in the paper's axes.

    def fig4a(request: Request) -> Plan:
        study = request.study({"problem": {...}, "policy": [...], "sweep": {"budget": [2_000, 10_000]}})
        axes = Axes(x="budget", metric="effectiveness", xlabel="budget", ylabel="effectiveness",
                    published={"ee": [(10_000, 0.65)]})
        return Plan(studies=[study], axes=axes)

    FIGURES = {"cheng2010/fig4a": Figure("cheng2010/fig4a", "Effectiveness against budget", 1000, fig4a)}

``make`` only declares; what takes time goes into ``rows`` or ``timings``, which are called once all is checked.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jaxbandit.errors import BadInput
from jaxbandit.progress import Progress, Status
from jaxbandit.registry import whole
from jaxbandit.study import folder, picture
from jaxbandit.study.run import facts, run
from jaxbandit.study.spec import MAX_RUNS, MAX_SEED, Study
from jaxbandit.study.summary import Row, dumps, identity


@dataclass(frozen=True)
class Request:
    """Holds what a user asks of a figure. ``data``: a file or a folder of theirs, for figures on real data."""

    runs: int
    seed: int = 0
    data: Path | None = None

    def study(self, mapping: Mapping[str, Any], labels: Mapping[str, Any] | None = None) -> Study:
        """Returns a study with the runs and the seed that were asked for; ``mapping`` may have its own. See
        ``Study.of``."""
        return Study.of({"seed": self.seed, "runs": self.runs, **mapping}, labels=labels)


@dataclass(frozen=True)
class Axes:
    """Says how the rows of a figure are drawn.

    Attributes:
        x: the param on the horizontal axis, or a function from a row to a number or a text (a category); where that
            gives None, the row is a level across the picture.
        metric: the metric on the vertical axis; other rows are not drawn.
        xlabel, ylabel: as in the paper, with units.
        curve: the name of a row's curve, or None for a row that is not drawn. By policy, and by whatever else tells
            the rows at one x apart, where it is left out and ``x`` is a param.
        xlog, ylog: whether an axis is logarithmic.
        published: the paper's own (x, y), by the name of the curve that they stand beside.
        bars: a histogram in the place of curves.
    """

    x: str | Callable[[Row], Any]
    metric: str
    xlabel: str
    ylabel: str
    curve: Callable[[Row], str | None] | None = None
    xlog: bool = False
    ylog: bool = False
    published: Mapping[str, Sequence[tuple[Any, float]]] = field(default_factory=dict)
    bars: bool = False

    def draw(self, rows: Sequence[Row], title: str) -> dict[str, Any]:
        """Returns the arguments of ``picture.curves`` for some rows, JSON-ready."""
        rows = [row for row in rows if row["metric"] == self.metric]
        series: dict[str, list[picture.Point]] = {}
        if self.curve is None and isinstance(self.x, str):
            series = picture.by_curve(rows, self.x)
        else:
            for row in rows:
                name = self.curve(row) if self.curve else row["policy"]
                place = row["params"].get(self.x) if isinstance(self.x, str) else self.x(row)
                if name is not None:
                    series.setdefault(name, []).append([place, row["mean"], row["ci_low"], row["ci_high"]])
        return {
            "series": series, "xlabel": self.xlabel, "ylabel": self.ylabel, "title": title, "xlog": self.xlog,
            "ylog": self.ylog, "published": {name: list(map(list, points)) for name, points in self.published.items()},
        } | ({"bars": True} if self.bars else {})  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Says what a figure consists of: studies, computed rows, timings and axes.

    Attributes:
        studies: run one after another; their rows come first in ``summary.json``.
        rows: given the studies' rows, computes more, which follow them (of ``runs`` 0 where nothing was sampled).
        timings: measures; its rows go to ``timings.json``, since a summary holds no times.
        axes: the picture, of all these rows; None for a table.
    """

    studies: Sequence[Study] = ()
    rows: Callable[[list[Row]], list[Row]] | None = None
    timings: Callable[[], list[Row]] | None = None
    axes: Axes | None = None


@dataclass(frozen=True)
class Figure:
    """Declares a figure or a table of a paper. ``name``: ``paper/figure``; ``runs``: how many, where a user does not
    say."""

    name: str
    title: str
    runs: int
    make: Callable[[Request], Plan]


def _same_without(figure: Figure, request: Request, plan: Plan) -> bool:
    """Returns whether a figure's studies are the same without the data that a user gave."""
    try:
        other = figure.make(replace(request, data=None))
    except BadInput:
        return False
    return [study.identity() for study in plan.studies] == [study.identity() for study in other.studies]


def reproduce(
    figure: Figure,
    request: Request,
    out: Path | str,
    progress: Progress | None = None,
    *,
    executor: Executor | None = None,
    in_flight: int | None = None,
) -> list[Row]:
    """Runs what is missing of a figure and writes ``summary.json`` and, where there are any, ``timings.json`` and
    ``figure.json``, from which ``figure.png`` is drawn. Each study has a folder of its own under ``out/studies``.
    ``executor`` and ``in_flight``: see ``run``.

    Returns:
        The rows of ``summary.json``.

    Raises:
        BadInput: before anything is written: see ``run``; and for data that the figure takes none of.
    """
    out = Path(out)
    tell = progress or (lambda status: None)
    whole(1, MAX_RUNS)("--runs", request.runs)
    whole(0, MAX_SEED)("--seed", request.seed)
    data = folder.checksum("--data", request.data) if request.data else None
    plan = figure.make(request)
    if request.data and _same_without(figure, request, plan):
        raise BadInput("--data", str(request.data), f"left out, as {figure.name} takes none")
    configurations = [study.configurations() for study in plan.studies]
    keys = [identity([each.name, each.params]) for some in configurations for each in some]
    if len(set(keys)) < len(keys):
        raise ValueError(f"{figure.name}: two studies have the same policy and params; give them labels")
    counts = [study.runs * len(some) for study, some in zip(plan.studies, configurations, strict=True)]
    asked = {
        "figure": figure.name, "seed": request.seed, "data": data,
        "studies": [study.identity() for study in plan.studies],
    }  # fmt: skip
    studies = [study.canonical() for study in plan.studies]
    noted = facts() | ({"data": request.data.name} if request.data else {})
    with folder.claimed(out, asked, noted, {"runs": request.runs, "studies": studies}):
        rows: list[Row] = []
        for number, study in enumerate(plan.studies):

            def report(status: Status, number: int = number) -> None:
                doing = status.doing + (f", study {number + 1} of {len(counts)}" if len(counts) > 1 else "")
                left = status.left if number + 1 == len(counts) else None  # of this study alone
                tell(status._replace(done=sum(counts[:number]) + status.done, of=sum(counts), doing=doing, left=left))

            place = out / "studies" / str(number + 1)
            rows += run(study, place, report, executor=executor, in_flight=in_flight)
        tell(Status(sum(counts), sum(counts), "computing what is not simulated"))
        if plan.rows is not None:
            rows += plan.rows(list(rows))
        timings = plan.timings() if plan.timings is not None else []
        if timings:
            folder.write(out / folder.TIMINGS, dumps(timings))
        folder.write(out / folder.SUMMARY, dumps(rows))
        if plan.axes is not None:
            picture.save(out, plan.axes.draw([*rows, *timings], f"{figure.name}: {figure.title}"))
    return rows
