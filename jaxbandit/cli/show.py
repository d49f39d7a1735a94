"""``jaxbandit show``."""

import sys
from dataclasses import dataclass

from jaxbandit.cli.arguments import Folder, Format
from jaxbandit.cli.console import say, unwritable
from jaxbandit.errors import BadInput


@dataclass(frozen=True)
class Show:
    """Print the table of a folder of results again, draw its picture again, and write report.html."""

    folder: Folder
    """A folder that run, reproduce or tune wrote."""
    format: Format = "text"
    """How the table is printed."""

    def __call__(self) -> None:
        """Prints the tables, draws the picture, writes the report."""
        from jaxbandit.study import folder, picture
        from jaxbandit.study.report import REPORT, report
        from jaxbandit.study.store import RESULTS
        from jaxbandit.study.table import render

        rows = folder.read(self.folder / folder.SUMMARY)
        if (self.folder / RESULTS).exists() and not (self.folder / folder.FINISHED).exists():
            say(f"the study in {self.folder} goes on, or was interrupted: this is what it had before")
        more = folder.read(self.folder / folder.TIMINGS) if (self.folder / folder.TIMINGS).exists() else []
        drawing = folder.read(self.folder / folder.FIGURE) if (self.folder / folder.FIGURE).exists() else None
        try:
            tables = [render(table, self.format) for table in (rows, more) if table]
            with unwritable(self.folder):
                if drawing is not None:
                    picture.save(self.folder, drawing)
                folder.write(self.folder / REPORT, report(self.folder).encode())
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise BadInput("DIR", str(self.folder), "a folder of results as jaxbandit wrote them") from None
        sys.stdout.write("\n".join(tables))
