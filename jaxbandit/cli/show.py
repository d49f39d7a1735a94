"""``jaxbandit show``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

import tyro

from jaxbandit.cli.arguments import Folder, Format
from jaxbandit.cli.console import GOES_ON, columns, say, unwritable
from jaxbandit.errors import BadInput

AnyFormat = Literal["text", "markdown", "latex", "csv", "json", "png", "pdf", "svg"]


@dataclass(frozen=True)
class Show:
    """Print the table of a folder of results again, draw its picture again, and write report.html."""

    folder: Folder
    """A folder that run, reproduce or tune wrote."""
    metric: tyro.conf.UseAppendAction[
        Annotated[tuple[str, ...], tyro.conf.arg(metavar="METRIC", help_behavior_hint="(default: all)")]
    ] = ()
    """The column of the table; give it again for another. The picture is of the first one."""
    x: Annotated[str | None, tyro.conf.arg(metavar="PARAM", help_behavior_hint="(default: the first swept)")] = None
    """The param on the picture's x axis. By default, the first list of numbers in the study."""
    format: AnyFormat = "text"
    """text, markdown, latex, csv or json: how the table is printed. png, pdf or svg: the file that the picture is
    written to, figure.png, figure.pdf or figure.svg; the table is then printed as text."""

    def __call__(self) -> None:
        """Prints the tables, draws the picture, and writes the report. What is damaged in the stored results is said
        last: tables and the picture stand without them."""
        from jaxbandit.study import canvas, display, folder
        from jaxbandit.study.report import REPORT, report
        from jaxbandit.study.results import goes_on
        from jaxbandit.study.table import render

        kind = self.format if self.format in ("png", "pdf", "svg") else "png"
        form = cast("Format", self.format) if self.format in get_args(Format) else "text"
        if (self.folder / folder.WORDS).exists():
            self._verdict(form)
            return
        if goes_on(self.folder):
            if not (self.folder / folder.SUMMARY).exists():
                raise BadInput(
                    "DIR", str(self.folder), "a finished study; the command that began this one continues it"
                )
            say(GOES_ON.format(self.folder))
        if (self.folder / folder.FINISHED).exists() and folder.altered(self.folder):
            say(f"{self.folder / folder.SUMMARY} was changed after the study; the command that made it writes it anew")
        damage: list[BadInput] = []
        more = folder.read(self.folder / folder.TIMINGS) if (self.folder / folder.TIMINGS).exists() else []
        chosen = bool(self.metric or self.x)
        try:
            tables = [
                display.table(self.folder, self.metric, form, columns()),
                *([render(more, form, width=columns())] if more and not self.metric else []),
            ]
            drawn = chosen or kind != "png" or (self.folder / folder.FIGURE).exists()
            first = self.metric[0] if self.metric else None
            drawing = display.drawing(self.folder, first, self.x) if drawn else None
            with unwritable(self.folder) as written:
                if drawing is not None:
                    folder.write(self.folder / f"figure.{kind}", canvas.encoded(drawing, kind))
                with _noted(damage, self.folder):
                    folder.write(self.folder / REPORT, report(self.folder).encode())
        except BadInput:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise BadInput("DIR", str(self.folder), "a folder of results as jaxbandit wrote them") from None
        asked = chosen or kind != "png"
        if asked and written():
            say(f"picture in {self.folder / f'figure.{kind}'}")
        sys.stdout.write("\n".join(tables))
        sys.stdout.flush()
        self._look_at_results(damage)
        if asked and not written():
            raise BadInput("DIR", str(self.folder), f"a folder that can be written, for figure.{kind}")
        if damage:
            raise damage[0]

    def _look_at_results(self, damage: list[BadInput]) -> None:
        """Says which classes ran the policies, and adds to ``damage`` what cannot be read of a finished study: of any
        metric, as the report reads the first one alone."""
        from jaxbandit.study import folder
        from jaxbandit.study.describe import implementations
        from jaxbandit.study.results import check_values, open_results

        said = {""}
        for place in (self.folder, *sorted(self.folder.glob("studies/*"))):
            finished = (place / folder.FINISHED).exists()
            with _noted(damage if finished else [], place):
                data = open_results(place)
                if (line := implementations(data)) not in said:
                    said.add(line)
                    say(line)
                if finished:
                    check_values(data)

    def _verdict(self, form: Format) -> None:
        """Shows a folder that ``tune`` wrote: the candidates of each problem, and the verdict in words."""
        from jaxbandit.study import folder
        from jaxbandit.study.table import render

        if self.metric or self.x is not None or self.format not in get_args(Format):
            raise BadInput(
                "DIR", str(self.folder), f"a folder of jaxbandit run; {self.folder / 'report.html'} has pictures"
            )
        sys.stdout.write(render(folder.read(self.folder / folder.CANDIDATES), form, width=columns()))
        for line in (self.folder / folder.WORDS).read_text().splitlines():
            say(line)


@contextmanager
def _noted(damage: list[BadInput], place: Path) -> Iterator[None]:
    """Adds an error inside to ``damage``, naming the folder, or a file in it where the error does."""
    try:
        yield
    except BadInput as error:
        named = error.field == "DIR" and str(error.value).startswith(str(place))
        damage.append(BadInput("DIR", error.value if named else str(place), error.allowed))
