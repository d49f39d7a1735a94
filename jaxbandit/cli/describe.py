"""``jaxbandit describe``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jaxbandit.cli.arguments import Plugins
from jaxbandit.cli.console import printable
from jaxbandit.errors import BadInput
from jaxbandit.words import counted

Columns = Annotated[
    tuple[tuple[str, ...], ...],  # by occurrence: --value A B and --value A --value B name the same columns
    tyro.conf.UseAppendAction,
    tyro.conf.arg(metavar="COLUMN ...", help_behavior_hint="(default: none)"),
]


@dataclass(frozen=True)
class Describe:
    """Say what a study file or a table holds: entities, ambiguity, spellings that are nearly the same."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A study file (.toml), or a table: a CSV file or an SQLite database."""
    entity: Columns = ()
    """The columns that name the entity, of a table of claims."""
    value: Columns = ()
    """The columns of claimed values, each of them an entity of its own."""
    table: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: the only one)")] = None
    """The table to read, of an SQLite database with several."""
    normalise: Annotated[str, tyro.conf.arg(metavar="HOW")] = "none"
    """How values are compared: none or casefold."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints the description of the study or the table, a line each."""
        lines = self._of_study() if self.file.suffix == ".toml" else self._of_table()
        # A cell may hold line breaks, too.
        print("\n".join(printable(line.replace("\n", "\N{REPLACEMENT CHARACTER}")) for line in lines))

    def _of_study(self) -> list[str]:
        from jaxbandit.study.describe import description
        from jaxbandit.study.spec import load
        from jaxbandit.tuning.options import TuneOptions
        from jaxbandit.tuning.train import TrainOptions

        entity, value = _named(self.entity), _named(self.value)
        normalise = None if self.normalise == "none" else self.normalise
        options = ("--entity", entity), ("--value", value), ("--table", self.table), ("--normalise", normalise)
        for name, given in options:
            if given:
                shown = given if isinstance(given, str) else " ".join(given)
                raise BadInput(name, shown, "for a table alone; a study file names its columns")
        study = load(self.file)
        if study.runs:
            study.configurations()  # what run would refuse
        if study.tune is not None:
            TuneOptions.of(study)
        if study.train:
            TrainOptions.of(study)
        runs = f"; {counted(study.runs, 'run', 'runs')} of each configuration" if study.runs else ""
        return [*description(study), f"policies: {', '.join(study.policy_labels)}{runs}"]

    def _of_table(self) -> list[str]:
        from jaxbandit import user_tables
        from jaxbandit.cleaning.claims import ambiguity
        from jaxbandit.cleaning.describe import describe

        entity, value = _named(self.entity), _named(self.value)
        if bool(entity) != bool(value):
            missing, there = ("--value", "--entity") if entity else ("--entity", "--value")
            raise BadInput(missing, "missing", f"to be given together with {there}, or neither")
        if self.normalise != "none" and not entity:
            raise BadInput("--normalise", self.normalise, "with --entity and --value, whose values it compares")
        names = user_tables.header(self.file, self.table)
        rows = [cells for _, cells in user_tables.columns(self.file, {"columns": names}, self.table)]
        lines = [f"{self.file.name}: {counted(len(rows), 'row', 'rows')}, {counted(len(names), 'column', 'columns')}"]
        for name, values in zip(names, zip(*rows, strict=True), strict=True):
            different = dict.fromkeys(value for value in values if value)
            example = next(iter(different), "")
            lines.append(
                f"  {name}: {counted(len(different), 'different value', 'different values')}, "
                f"{counted(values.count(''), 'empty cell', 'empty cells')}"
                + (f', such as "{example}"' if example else "")
            )
        if other := user_tables.other_delimiter(names):
            lines.append(other)
        if not entity:
            return [
                *lines, "for what its claims disagree on, name the columns: --entity COLUMN ... --value COLUMN ...",
                "for rewards or successes of arms, write a study of topk/replay or outliers/replay (jaxbandit list)",
            ]  # fmt: skip
        found = ambiguity(self.file, entity, value, self.table, normalise=self.normalise)
        return [*lines, *describe(found)]


def _named(columns: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Returns all columns that an option names, in whichever occurrence of it."""
    return tuple(name for names in columns for name in names)
