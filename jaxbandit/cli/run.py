"""``jaxbandit run``."""

import sys
from dataclasses import dataclass
from typing import ClassVar

from jaxbandit.cli.arguments import Out, Plugins, Scheduler, StudyFile
from jaxbandit.cli.console import progress_bar, workers


@dataclass(frozen=True)
class Run:
    """Run a study file, or what is missing of it, and store its results."""

    study: StudyFile
    """The study, a TOML file."""
    out: Out
    """Folder for the results; the same command continues an interrupted study, or extends it."""
    scheduler: Scheduler = None
    """Address of a Dask scheduler, such as tcp://host:8786, whose workers compute; this machine where left out."""
    plugin: Plugins = ()
    continues: ClassVar[bool] = True

    def __call__(self) -> None:
        """Writes the folder, prints the table."""
        from jaxbandit.study import picture
        from jaxbandit.study.run import run
        from jaxbandit.study.spec import load
        from jaxbandit.study.table import render

        study = load(self.study)
        with workers(self.scheduler) as (executor, in_flight), progress_bar(self.out) as progress:
            rows = run(study, self.out, progress, executor=executor, in_flight=in_flight)
        picture.save(self.out, picture.of_rows(rows, study.swept, self.study.stem, study.labels_of_axes))
        sys.stdout.write(render(rows))
