"""``jaxbandit tune``."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

import tyro

from jaxbandit.cli.arguments import StudyFile
from jaxbandit.cli.console import say
from jaxbandit.errors import BadInput


@dataclass(frozen=True)
class Tune:
    """Tune the policies for the problems of a study file."""

    study: StudyFile
    """The study, a TOML file."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Folder for the results."""

    def __call__(self) -> None:
        """Prints the table of tuned parameters."""
        from jaxbandit.study import folder
        from jaxbandit.study.run import facts
        from jaxbandit.study.spec import load
        from jaxbandit.study.summary import Row, dumps
        from jaxbandit.study.table import render

        study = load(self.study)
        if study.family.tune is None:
            raise BadInput("problem.kind", study.problem["kind"], "a problem of a family whose policies can be tuned")
        identity = {"tune": study.canonical()}
        if self.out is not None:
            folder.check(self.out, identity)
        rows, start = [], time.monotonic()
        for setting, params in study.settings():
            for row in study.family.tune(setting):
                rows.append(cast(Row, {**row, "params": {**params, **row["params"]}}))
                say(f"{time.monotonic() - start:.0f} s: {row['policy']}, {row['metric']} = {row['mean']:.6g}")
        if self.out is not None:
            with folder.claimed(self.out, identity, facts()):
                folder.write(self.out / folder.SUMMARY, dumps(rows))
        sys.stdout.write(render(rows))
