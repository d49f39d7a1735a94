"""``jaxbandit fit``."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from jaxbandit.words import counted

if TYPE_CHECKING:
    from jaxbandit import mixtures


@dataclass(frozen=True)
class Fit:
    """Fit an sc-pdf to an agent's records: a mixture of beta laws, with standard errors, a check, a study's lines."""

    records: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A CSV file or an SQLite database with a row for each entity."""
    successes: Annotated[str, tyro.conf.arg(metavar="COLUMN")] = "successes"
    """The column of the successful operations on the entity."""
    attempts: Annotated[str, tyro.conf.arg(metavar="COLUMN")] = "attempts"
    """The column of all operations on the entity."""
    table: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: the only one)")] = None
    """The table to read, of an SQLite database with several."""
    components: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: of the lowest BIC)")] = (
        None
    )
    """How many beta laws are mixed, from 1 to 6."""
    json: bool = False
    """Print one JSON object instead of lines."""

    def __call__(self) -> None:
        """Prints a line for each component, what the fit is worth, and what a study file says for entities and arms."""
        from jaxbandit.cleaning.claims import read_records
        from jaxbandit.mixtures import fit

        successes, attempts = read_records(self.records, self.successes, self.attempts, self.table)
        found = fit(successes, attempts, self.components)
        if self.json:
            print(json.dumps(_facts(found), indent=2))
            return
        for number, (law, errors) in enumerate(zip(found.components, found.errors, strict=True), 1):
            pairs = zip(("weight", "alpha", "beta"), law, errors, strict=True)
            parts = [
                f"{name} {value:.4g}" + ("" if math.isnan(wide) else f" +- {wide:.2g}") for name, value, wide in pairs
            ]
            print(f"component {number}: {', '.join(parts)}")
        if any(math.isnan(wide) for errors in found.errors for wide in errors):
            print("these records do not determine what stands without +-: it may be far off")
        records = counted(found.records, "record", "records")
        print(f"{records}, log-likelihood {found.log_likelihood:.2f}, BIC {found.bic:.2f}")
        poor = "; the law describes these records poorly" if found.check < 0.05 else ""
        print(f"check: of records drawn from the law, {found.check:.1%} are further from it than these{poor}")
        written = _written(found.components)
        print(f"in a study file: sc_pdf = {written}")
        print(f"in a study file of arms:\nn = {successes.size}\nmeans = {written}")


def _facts(found: "mixtures.Fit") -> dict[str, Any]:
    """Returns the fit as JSON has it; a missing error is null."""
    names = ("weight", "alpha", "beta")
    parts = []
    for law, errors in zip(found.components, found.errors, strict=True):
        known = [None if math.isnan(error) else error for error in errors]
        parts.append(dict(zip(names, law, strict=True)) | {"errors": dict(zip(names, known, strict=True))})
    return {
        "components": parts, "records": found.records, "log_likelihood": found.log_likelihood, "bic": found.bic,
        "check": found.check, "sc_pdf": _written(found.components),
    }  # fmt: skip


def _written(components: tuple[tuple[float, float, float], ...]) -> str:
    if len(components) == 1:
        return f"{{ beta = [{components[0][1]:.6g}, {components[0][2]:.6g}] }}"
    parts = ", ".join(f"{{ weight = {w:.6g}, beta = [{a:.6g}, {b:.6g}] }}" for w, a, b in components)
    return f"{{ mixture = [{parts}] }}"
