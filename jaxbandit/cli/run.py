"""``jaxbandit run``."""

import sys
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import tyro

from jaxbandit.cli.arguments import Out, Platform, Plugins, Scheduler, StudyFile
from jaxbandit.cli.console import columns, progress_shown, say, workers
from jaxbandit.errors import BadInput


@dataclass(frozen=True)
class Run:
    """Run a study file, or what is missing of it, and store its results."""

    study: StudyFile
    """The study, a TOML file."""
    out: Out
    """Folder for the results; the same command continues an interrupted study, or extends it."""
    runs: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: the study's)")] = None
    """Runs of each configuration, in the place of the study's. More in the same folder use those that are there."""
    scheduler: Scheduler = None
    """Address of a Dask scheduler, such as tcp://host:8786, whose workers compute; this machine where left out."""
    target: Annotated[float | None, tyro.conf.arg(metavar="X", help_behavior_hint="(default: none)")] = None
    """Name the cheapest policy and budget for this: the share of all false values to remove from a table of claims, the
    regret that is low enough for top-K, the share of runs that find exactly the outliers, or entities to extract."""
    implementation: Annotated[
        Literal["fast", "reference"] | None, tyro.conf.arg(help_behavior_hint="(default: the study's, or fast)")
    ] = None
    """How policies are run: fast, by what is fastest, or reference, each as it is written in its rule's file."""
    platform: Platform = None
    lanes: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: by the device)")] = None
    """Runs that advance together on a device; chosen from its memory and cores, and the size of a run's state."""
    plugin: Plugins = ()
    continues: ClassVar[bool] = True

    def __call__(self) -> None:
        """Runs the study, writes the folder, and prints the table; sentences on problem and results go to stderr."""
        from jaxbandit.study import picture
        from jaxbandit.study.conclude import check_target, conclusions
        from jaxbandit.study.describe import description, implementations_of, reads_files
        from jaxbandit.study.results import open_results, stored_runs
        from jaxbandit.study.run import run
        from jaxbandit.study.spec import load
        from jaxbandit.study.table import render

        if self.lanes is not None and not 1 <= self.lanes < 2**31:
            raise BadInput("--lanes", self.lanes, "a whole number from 1 to 2147483647")
        study = load(self.study, counted=self.runs is None)
        if self.runs is not None:
            study = study.with_runs(self.runs, "--runs")
        if self.implementation is not None:
            study = replace(study, implementation=self.implementation)
        check_target(study, self.target)
        study.configurations()  # what does not fit is said before all else
        for line in description(study) if reads_files(study) else ():
            say(line)
        with workers(self.scheduler) as (executor, in_flight), progress_shown(self.out) as progress:
            rows = run(study, self.out, progress, executor=executor, in_flight=in_flight, lanes=self.lanes)
        picture.save(self.out, picture.of_rows(rows, study.swept, self.study.stem, study.labels_of_axes))
        sys.stdout.write(render(rows, paired=study.problem.get("paired", True) is not False, width=columns()))
        sys.stdout.flush()
        there, first = stored_runs(self.out)
        if there > first:
            say(f"{self.out} has {there:,} runs of a configuration, of which this shows the first {first:,}")
        data = open_results(self.out) if study.question else None  # xarray, which it imports, takes a while
        for line in (implementations_of(study), *conclusions(study, rows, self.target, data)):
            if line:
                say(line)
