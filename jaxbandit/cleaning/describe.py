"""Describes a table of claims in sentences for its user, with the spellings that may be of one value.

Nothing is changed: whether two spellings are one claim is for the user to say. An operation that is spent on telling
them apart is lost.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxbandit.cleaning.claims import AmbiguityTable
from jaxbandit.words import counted

_TIME = re.compile(r"(\d{1,2}):(\d\d)\s*(?:([apAP])(?=[mM.A-Z]|\b))?")
_NOTHING = {"", "na", "nan", "none", "null", "nil", "unknown", "notavailable", "notapplicable", "missing", "tbd", "tba"}
"""Values that say that there is none, letters and digits alone."""

_MOST = 0.8
"""A column is one of times or of numbers where at least so many of its different values are."""


class Spellings(NamedTuple):
    """False values that may be none: what ``spellings`` found in a table.

    ``alike``: how many differ from another value of their entity in spelling alone; ``example``: two such values and
    their entity, None where there is none; ``placeholders``: values that seem to claim nothing, each with the number
    of entities that have it; ``left``: false values without both; ``times``: whether some columns hold times of day.
    """

    alike: int
    example: tuple[str, str, str] | None
    placeholders: dict[str, int]
    left: int
    times: bool


def spellings(table: AmbiguityTable) -> Spellings:
    """Looks for values that are written differently and read as the same.

    Times of day are read as such wherever most values of a column hold one (dates beside them do not count), numbers
    as numbers; of other values only letters and digits count, and no case.
    """
    pooled: dict[str, set[str]] = defaultdict(set)
    for column, candidates in zip(table.columns, table.candidates, strict=True):
        pooled[column].update(candidates)
    kinds = {column: _kind(values) for column, values in pooled.items()}
    alike = left = 0
    example: tuple[str, str, str] | None = None
    placeholders: Counter[str] = Counter()
    for name, column, candidates in zip(table.names, table.columns, table.candidates, strict=True):
        first: dict[str, str] = {}
        claiming: set[str] = set()
        for value in candidates:
            read, claims = _read(value, kinds[column])
            if read in first:
                alike += 1
                example = example or (first[read], value, name)
            first.setdefault(read, value)
            if claims:
                claiming.add(read)
            else:
                placeholders[value] += 1
        left += max(len(claiming) - 1, 0)
    return Spellings(alike, example, dict(placeholders.most_common()), left, "time" in kinds.values())


def _kind(values: set[str]) -> str:
    """Tells what most of a column's values are: "time", "number" or "text"."""
    for kind, is_one in (("time", _TIME.search), ("number", _number)):
        if sum(is_one(value) is not None for value in values) >= max(1, _MOST * len(values)):
            return kind
    return "text"


def _number(value: str) -> float | None:
    try:
        return float(value.replace(",", ""))
    except ValueError:
        return None


def _read(value: str, kind: str) -> tuple[str, bool]:
    """Returns a value as it is compared, and whether it seems to claim anything."""
    letters = "".join(filter(str.isalnum, unicodedata.normalize("NFKC", value).casefold()))
    if letters in _NOTHING:
        return letters, False
    if kind == "time":
        if found := _TIME.search(value):
            half = (found[3] or "").lower()
            hour = int(found[1]) % 12 + 12 * (half == "p") if half else int(found[1])
            return f"{hour}:{found[2]}", True
        return letters, False
    if kind == "number":
        number = _number(value)
        return (f"{number!r}", True) if number is not None else (letters, any(map(str.isdigit, letters)))
    return letters, True


def describe(table: AmbiguityTable) -> list[str]:
    """Sentences on a table's entities, its false values, its empty cells, and what is odd in it."""
    counts, total = table.false_values, int(table.false_values.sum())
    cells = table.rows * len(set(table.columns))
    lines = [
        f"{counted(table.rows, 'row', 'rows')} with {counted(cells, 'cell', 'cells')} of values, {table.empty:,} of "
        "them empty, which claim nothing",
        f"{counted(counts.size, 'entity', 'entities')}, {np.count_nonzero(counts):,} of them ambiguous, with "
        f"{counted(total, 'false value', 'false values')}: {_distribution(counts)}",
    ]
    silent = sum(not candidates for candidates in table.candidates)
    if silent:
        lines.append(f"entities without any value: {silent:,}, which are left as they are")
    found = spellings(table)
    if found.example:
        ways = "in how a time of day is written" if found.times else "in case, spaces, signs or how a number is written"
        one, other, name = found.example
        lines.append(
            f"look: {counted(found.alike, 'false value differs', 'false values differ')} from another value of the "
            f'same entity only {ways}, as "{one}" and "{other}" at {name}'
        )
    if found.placeholders:
        held = list(found.placeholders.items())[:3]
        shown = [f'"{value}" (at {counted(number, "entity", "entities")})' for value, number in held]
        more = f" and {len(found.placeholders) - 3:,} more" if len(found.placeholders) > 3 else ""
        lines.append(f"look: some values seem to claim nothing, and count as claims: {', '.join(shown)}{more}")
    if found.left < total:
        lines.append(
            f"{counted(found.left, 'false value', 'false values')} would be left of {total:,} without these; nothing "
            'was changed: bring them to one form first if they are the same (normalise = "casefold" ignores case)'
        )
    return lines


def _distribution(counts: NDArray[np.int32]) -> str:
    """Says in words how many entities have how many false values."""
    sizes = np.bincount(counts)
    held = np.flatnonzero(sizes)
    if held.size <= 12:
        return ", ".join(f"{sizes[r]:,} {'has' if sizes[r] == 1 else 'have'} {r}" for r in held)
    low, middle, high = np.percentile(counts[counts > 0], [25, 50, 75])
    return (
        f"{sizes[0]:,} have none; the quartiles of the others are {low:g}, {middle:g} and {high:g}, the most {held[-1]}"
    )
