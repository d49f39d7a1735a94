"""``jaxbandit reproduce``."""

import difflib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from jaxbandit.cli.arguments import Out, Platform, Scheduler
from jaxbandit.cli.console import columns, progress_shown, workers
from jaxbandit.errors import BadInput


@dataclass(frozen=True)
class Reproduce:
    """Reproduce a figure or a table of a paper."""

    figure: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PAPER/FIGURE")]
    """The figure, one of those that `jaxbandit list figures` prints."""
    out: Out
    """Folder for the results; the same command continues an interrupted study."""
    runs: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: the figure's own)")] = None
    """How many runs each configuration has."""
    seed: Annotated[int, tyro.conf.arg(metavar="S")] = 0
    """The seed, a whole number from 0 to 2^32 - 1."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: none)")] = None
    """A file or a folder of data, for figures on real data."""
    scheduler: Scheduler = None
    """Address of a Dask scheduler, such as tcp://host:8786, whose workers compute; this machine where left out."""
    platform: Platform = None
    continues: ClassVar[bool] = True

    def __call__(self) -> None:
        """Runs the figure's studies, writes the folder, and prints the table."""
        from jaxbandit.papers import FIGURES
        from jaxbandit.study import folder
        from jaxbandit.study.figure import Request, reproduce
        from jaxbandit.study.table import render

        if self.figure not in FIGURES:
            raise BadInput(
                "PAPER/FIGURE", self.figure, "a figure that `jaxbandit list` names" + _near(self.figure, FIGURES)
            )
        figure = FIGURES[self.figure]
        request = Request(figure.runs if self.runs is None else self.runs, self.seed, self.data)
        with workers(self.scheduler) as (executor, in_flight), progress_shown(self.out) as progress:
            rows = reproduce(figure, request, self.out, progress, executor=executor, in_flight=in_flight)
        timings = folder.read(self.out / folder.TIMINGS) if (self.out / folder.TIMINGS).exists() else []
        sys.stdout.write("\n".join(render(table, width=columns()) for table in (rows, timings) if table))


def _near(name: str, names: Any) -> str:
    near = difflib.get_close_matches(name, names, 3)
    return f", such as {', '.join(near)}" if near else ""
