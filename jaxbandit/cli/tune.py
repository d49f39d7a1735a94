"""``jaxbandit tune``: parameters by formula, where a family has one, and by simulation, with a verdict."""

import json
import sys
import tempfile
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
    """Find the best policy and parameters for the problems of a study file, and how sure that is.

    Where the file has a table [tune], or a folder is given, candidates are simulated until one is the best of them, or
    within what does not matter, with 95 %: see docs/tuning.md. Where it has none, what formulas say is printed first.
    """

    study: StudyFile
    """The study, a TOML file."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Folder for the results, verdict.json among them; after an interruption the same command goes on."""

    plugin: Plugins = ()

    @property
    def continues(self) -> bool:
        """Whether there is something that the same command need not do again."""
        kept = (_TUNED, "search.zarr", "results.zarr")
        return self.out is not None and any((self.out / name).exists() for name in kept)

    def __call__(self) -> None:
        """Prints the table of tuned parameters, and the verdict."""
        from jaxbandit.study.describe import description, reads_files
        from jaxbandit.study.spec import load
        from jaxbandit.tuning import claimed
        from jaxbandit.tuning.plan import leaves_open

        study = load(self.study)
        by_formula = not study.tune and study.family.tune is not None
        by_simulation = bool(study.tune) or (self.out is not None and leaves_open(study))
        if not by_formula and not by_simulation:
            allowed = "a study with a table [tune], or with policies whose parameters are left open: see docs/tuning.md"
            raise BadInput("STUDY", str(self.study), allowed)
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

        with Display("tuning", "") as display:
            found = tuned(study, out, display)
        if self.out is not None:
            from jaxbandit.tuning import picture

            for number, each in enumerate(found, 1):
                picture.save(out, number, each)
        for each in found:
            sys.stdout.write(render(each.leading()))
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
