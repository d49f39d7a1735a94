"""``jaxbandit tune``: parameters by formula, where a family has one, and by simulation, with a verdict."""

import json
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from jaxbandit.cli.arguments import Platform, Plugins, StudyFile
from jaxbandit.cli.console import columns, say, unwritable
from jaxbandit.errors import BadInput
from jaxbandit.progress import Display, Status

_TUNED = "tuned.json"
_LONG = 5.0
"""Seconds after which a policy's result is worth a line before the table."""


@dataclass(frozen=True)
class Tune:
    """Find the best policy and parameters for the problems of a study file, and how sure that is.

    Where the file has a table [tune], or a folder is given, candidates are simulated until one is the best of them, or
    within what does not matter, with 95 %: see docs/tuning.md. Where it has none, what formulas say is printed first.
    """

    study: StudyFile
    """The study, a TOML file."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Folder for the results, verdict.json among them; after an interruption the same command goes on."""

    platform: Platform = None
    plugin: Plugins = ()

    @property
    def continues(self) -> bool:
        """Returns whether there is something that the same command need not do again."""
        kept = (_TUNED, "search.zarr", "results.zarr")
        return self.out is not None and any((self.out / name).exists() for name in kept)

    def __call__(self) -> None:
        """Prints the table of tuned parameters, and the verdict."""
        from jaxbandit.study.describe import description, reads_files
        from jaxbandit.study.spec import load
        from jaxbandit.tuning import claimed
        from jaxbandit.tuning.options import TuneOptions, leaves_open

        study = load(self.study, counted=False)
        by_formula = study.tune is None and study.family.tune is not None
        by_simulation = study.tune is not None or (self.out is not None and leaves_open(study))
        if not by_formula and not by_simulation:
            allowed = "a study with a table [tune], or with policies whose parameters are left open: see docs/tuning.md"
            raise BadInput("STUDY", str(self.study), allowed)
        if by_simulation:
            TuneOptions.of(study)  # what is wrong is said before there is a folder
        for line in description(study) if reads_files(study) else ():
            say(line)
        with ExitStack() as held:
            if self.out is not None:
                held.enter_context(claimed(study, self.out))
            if by_formula:
                self._by_formula(study)
            if by_simulation:
                self._by_simulation(study, self.out or Path(held.enter_context(tempfile.TemporaryDirectory())))

    def _by_simulation(self, study: Any, out: Path) -> None:
        from jaxbandit.study.table import render
        from jaxbandit.tuning import tuned
        from jaxbandit.tuning.run import LEADING

        with Display("tuning", "") as display:
            found = tuned(study, out, display)
        if self.out is not None:
            from jaxbandit.tuning import report

            with unwritable(out):
                report.save(out, found)
        for each in found:
            sys.stdout.write(render(each.ranked()[:LEADING], width=columns()))
            for line in each.sentences():
                say(line)

    def _by_formula(self, study: Any) -> None:
        from jaxbandit.study import folder
        from jaxbandit.study.summary import Row, dumps, identity, show
        from jaxbandit.study.table import render

        settings = list(study.settings())
        tuned = self._tuned_before()
        rows: list[Row] = []
        with Display("tuning", "problems") as display:
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
            say(f"results in {self.out}")
        sys.stdout.write(render(rows, width=columns()))
        sys.stdout.flush()
        for name in dict.fromkeys(row["metric"] for row in rows):
            if name in study.family.tune_terms:
                say(f"{name}: {study.family.tune_terms[name]}")

    def _tuned_before(self) -> dict[str, list[Any]]:
        """Returns the rows of each setting that this command tuned before it was interrupted, by the setting's
        params."""
        from jaxbandit.study import folder

        if self.out is None or not (self.out / _TUNED).exists():
            return {}
        tuned: dict[str, list[Any]] = folder.read(self.out / _TUNED)
        return tuned


def _told(rows: Iterable[dict[str, Any]], status: Status, display: Display) -> list[dict[str, Any]]:
    """Collects the rows of a setting. What they were tuned for is said as they come, in a line for each policy that
    took long: its other rows come with the first one and are in the table."""
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
