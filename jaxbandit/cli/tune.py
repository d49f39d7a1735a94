"""``jaxbandit tune``."""

import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from jaxbandit.cli.arguments import Plugins, StudyFile
from jaxbandit.cli.console import say
from jaxbandit.errors import BadInput
from jaxbandit.progress import Display, Status

_TUNED = "tuned.json"


@dataclass(frozen=True)
class Tune:
    """Tune the policies for the problems of a study file."""

    study: StudyFile
    """The study, a TOML file."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Folder for the results; after an interruption the same command tunes the settings that are left."""

    plugin: Plugins = ()

    @property
    def continues(self) -> bool:
        """Whether there are settings that the same command need not tune again."""
        return self.out is not None and (self.out / _TUNED).exists()

    def __call__(self) -> None:
        """Prints the table of tuned parameters."""
        from jaxbandit.study import folder
        from jaxbandit.study.describe import description, reads_files
        from jaxbandit.study.run import facts
        from jaxbandit.study.spec import load
        from jaxbandit.study.summary import Row, dumps, identity, show
        from jaxbandit.study.table import render

        study = load(self.study)
        if study.family.tune is None:
            raise BadInput("problem.kind", study.problem["kind"], "a problem of a family whose policies can be tuned")
        for line in description(study) if reads_files(study) else ():
            say(line)
        settings = list(study.settings())
        with ExitStack() as held:
            if self.out is not None:
                held.enter_context(folder.claimed(self.out, {"tune": study.canonical()}, facts(study)))
            display = held.enter_context(Display("tuning", "problems"))
            tuned = self._tuned_before()
            rows: list[Row] = []
            for number, (setting, params) in enumerate(settings):
                display(Status(number, len(settings), f"tuning for {show(params) if params else 'the problem'}"))
                key = identity(params)
                if key not in tuned:
                    tuned[key] = []
                    for row in study.family.tune(setting):
                        tuned[key].append({**row, "params": {**params, **row["params"]}})
                        display.say(f"jaxbandit: {row['policy']}, {row['metric']} = {row['mean']:.6g}")
                    if self.out is not None:
                        folder.write(self.out / _TUNED, json.dumps(tuned).encode())
                rows += tuned[key]
            if self.out is not None:
                folder.write(self.out / folder.SUMMARY, dumps(rows))
        sys.stdout.write(render(rows))

    def _tuned_before(self) -> dict[str, list[Any]]:
        """The rows of each setting that this command tuned before it was interrupted, by the setting's params."""
        from jaxbandit.study import folder

        if self.out is None or not (self.out / _TUNED).exists():
            return {}
        tuned: dict[str, list[Any]] = folder.read(self.out / _TUNED)
        return tuned
