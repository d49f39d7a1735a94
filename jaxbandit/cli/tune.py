"""``jaxbandit tune``."""

import json
import sys
import time
from collections.abc import Iterable
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
_LONG = 5.0
"""Seconds after which a policy's result is worth a line before the table."""


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
        from jaxbandit.study.families import FAMILIES
        from jaxbandit.study.run import facts
        from jaxbandit.study.spec import load
        from jaxbandit.study.summary import Row, dumps, identity, show
        from jaxbandit.study.table import render

        study = load(self.study)
        if study.family.tune is None:
            tuned_ones = " or ".join(name for name, family in FAMILIES.items() if family.tune is not None)
            allowed = (
                f"a problem of {tuned_ones}, where parameters are searched for; elsewhere run compares lists of them"
            )
            raise BadInput("problem.kind", study.problem["kind"], allowed)
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
                status = Status(number, len(settings), f"tuning for {show(params) if params else 'the problem'}")
                display(status)
                key = identity(params)
                if key not in tuned:
                    found = _told(study.family.tune(setting), status, display)
                    tuned[key] = [{**row, "params": {**params, **row["params"]}} for row in found]
                    if self.out is not None:
                        folder.write(self.out / _TUNED, json.dumps(tuned).encode())
                rows += tuned[key]
            if self.out is not None:
                folder.write(self.out / folder.SUMMARY, dumps(rows))
        if self.out is not None:
            say(f"results in {self.out}")
        sys.stdout.write(render(rows))

    def _tuned_before(self) -> dict[str, list[Any]]:
        """The rows of each setting that this command tuned before it was interrupted, by the setting's params."""
        from jaxbandit.study import folder

        if self.out is None or not (self.out / _TUNED).exists():
            return {}
        tuned: dict[str, list[Any]] = folder.read(self.out / _TUNED)
        return tuned


def _told(rows: Iterable[dict[str, Any]], status: Status, display: Display) -> list[dict[str, Any]]:
    """The rows of a setting, as a list. What they were tuned for is said as they come: of each policy that took long, a
    line, since its other rows come with the first one and are in the table."""
    from jaxbandit.study.summary import identity, show

    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    since = time.monotonic()
    for row in rows:
        found.append(row)
        which = identity([row["policy"], row["params"]])
        if which not in seen:
            seen.add(which)
            took, since = time.monotonic() - since, time.monotonic()
            if took >= _LONG:
                what = f"{row['policy']} ({show(row['params'])}): {row['metric']} {row['mean']:,.6g}"
                display.say(f"jaxbandit: {what}, after {took:.0f} s")
        done = ", ".join(dict.fromkeys(each["policy"] for each in found))
        display(status._replace(doing=f"{status.doing}, {done} done"))
    return found
