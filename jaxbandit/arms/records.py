"""Arms from a user's table: their means, or records of rewards that are replayed."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from jaxbandit.arms.problem import MOST_PULLS, Given, given
from jaxbandit.arms.rewards import Replay, is_whole
from jaxbandit.errors import BadInput
from jaxbandit.user_tables import columns, number, whole_cells

MOST_REWARDS = 1 << 24


def read_counts(
    path: str | Path, successes: str = "successes", trials: str = "trials", arm: str | None = None
) -> tuple[tuple[str, ...], NDArray[np.int64], NDArray[np.int64]]:
    """Reads the arms of a table of (arm, successes, trials), which has a row for each arm.

    Args:
        path: a CSV file in UTF-8 with a header, or an SQLite database of one table.
        successes, trials: the columns.
        arm: the column of the arms' names; they are numbered where None.

    Returns:
        The names, and two int64 arrays of shape (arms,).

    Raises:
        BadInput: for a file that cannot be read as such a table, counts that are not whole, an arm without a trial or
            with fewer trials than successes, and an arm that is there twice.
    """
    wanted = {"successes": (successes,), "trials": (trials,)} | ({"arm": (arm,)} if arm else {})
    names: dict[str, int] = {}
    rows: list[tuple[int, int]] = []
    for line, cells in columns(path, wanted):
        won, tried = whole_cells((successes, trials), cells[:2], line)
        if tried < 1:
            raise BadInput(f"{trials} in line {line}", tried, "at least one trial")
        if tried < won:
            raise BadInput(f"{trials} in line {line}", tried, f"at least the {won} successes")
        label = cells[2] if arm else str(len(rows))
        if not label:
            raise BadInput(f"{arm} in line {line}", "empty", "the name of an arm")
        if label in names:
            raise BadInput(f"{arm} in line {line}", label, f"each arm once; it is in line {names[label]} too")
        names[label] = line
        rows.append((won, tried))
    counts = np.array(rows, np.int64)
    return tuple(names), counts[:, 0], counts[:, 1]


def read_rewards(path: str | Path, arm: str = "arm", reward: str = "reward") -> dict[str, NDArray[np.float64]]:
    """Reads the rewards of a table of (arm, reward), which has a row for each pull: float64 by arm, in the order in
    which arms appear.

    Raises:
        BadInput: for a file that cannot be read as such a table, and a reward that is not a finite number.
    """
    found: dict[str, list[float]] = {}
    for line, (name, cell) in columns(path, {"arm": (arm,), "reward": (reward,)}):
        value = number(cell)
        if not np.isfinite(value):
            more = "" if cell else "; delete the row of a reward that is missing"
            raise BadInput(f"{reward} in line {line}", cell or "empty", "a finite number" + more)
        if not name:
            raise BadInput(f"{arm} in line {line}", "empty", "the name of an arm")
        found.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in found.items()}


def replay(records: list[NDArray[np.float64]], *, again: bool, shuffled: bool = True) -> tuple[Given, Replay]:
    """Makes the means and the rewards of arms whose records are replayed.

    Args:
        records: the rewards of each arm, at least one.
        again: with replacement; else each reward once, until the record is used up.
        shuffled: see ``given``.

    Raises:
        BadInput: for an arm without rewards, more than ``MOST_REWARDS`` rewards in all, and rewards that float32 does
            not tell apart.
    """
    lengths = np.array([len(record) for record in records])
    if not lengths.size or not lengths.all():
        raise BadInput("records", f"{lengths.tolist()} rewards", "at least one reward of each arm")
    few_enough(int(lengths.sum()))
    values = np.concatenate(records)
    if is_whole(values):
        low, width = 0.0, 1.0
        kept: NDArray[Any] = values.astype(np.int32)
    else:
        low, width = float(values.min()), float(np.ptp(values)) or 1.0
        kept = told_apart("records", values, width)
    # A mean of equal numbers may be rounded to beyond them.
    means = given([np.clip(record.mean(), low, low + width) for record in records], low, width, shuffled=shuffled)
    offsets = np.append(0, lengths.cumsum()[:-1])
    return means, Replay(
        jnp.asarray(kept), jnp.asarray(offsets, jnp.int32), jnp.asarray(lengths, jnp.int32), jnp.float32(low),
        jnp.float32(width), again,
    )  # fmt: skip


def few_enough(rewards: int) -> None:
    """Refuses more than ``MOST_REWARDS`` rewards.

    Raises:
        BadInput: naming how many there are.
    """
    if rewards > MOST_REWARDS:
        raise BadInput("records", f"{rewards} rewards", f"at most {MOST_REWARDS}")


def told_apart(name: str, values: NDArray[np.float64], width: float) -> NDArray[np.float32]:
    """Returns numbers, whose range has this ``width``, as float32.

    Raises:
        BadInput: naming ``name``, where one of different numbers is off, or a mean of such rewards would be, by more
            than a thousandth of the width, and where a sum of them could be infinite.
    """
    largest = np.abs(values).max()
    with np.errstate(over="ignore"):
        kept = values.astype(np.float32)
        step = np.spacing(np.float32(largest)) if np.ptp(values) else 0.0
        off = max(step, np.abs(kept - values).max())
    summed = largest <= np.finfo(np.float32).max / MOST_PULLS
    if not (summed and off <= width / 1000 and np.finfo(np.float32).tiny <= width):
        allowed = "numbers that 32-bit floats tell apart: subtract one number from all, or take another unit"
        raise BadInput(name, f"from {values.min():.10g} to {values.max():.10g}", allowed)
    return kept
