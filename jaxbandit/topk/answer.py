"""What is measured of a run that chooses K arms, whatever the rule."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.prefix import best
from jaxbandit.arms.problem import View

SHARES = (0, 10, 25, 50, 75, 90, 100)
"""The percentiles of an arm's pulls that are kept."""


def answer(
    view: View, chosen: Array, pulls: Array, ranked: Callable[[int], Array], *, stopped: Array | None = None
) -> dict[str, Array]:
    """The answers of a run.

    Args:
        view: of the run.
        chosen: bool, shape (arms,), by arm.
        pulls: int32 scalar, all that were made.
        ranked: the k-th largest number of pulls of an arm (int32 scalar), by k from 1 to the number of arms.
        stopped: bool scalar, whether a rule that stops by itself did; none for a rule of a fixed budget.

    Returns:
        int32 scalars: ``View.measured``'s, ``pulls``, and ``pulls_0`` ... ``pulls_100``, the percentiles of an arm's
        pulls (the least that at least so many percent of the arms do not exceed). ``stopped``, where it is given.
    """
    found = view.measured(chosen) | {"pulls": pulls}
    for share in SHARES:
        found[f"pulls_{share}"] = ranked(view.arms - max(1, -(-share * view.arms // 100)) + 1)
    return found if stopped is None else found | {"stopped": stopped}


def by_rank(pulls: Array) -> Callable[[int], Array]:
    """``ranked`` for the pulls of each arm, int32 of shape (arms,)."""
    return lambda rank: best(pulls, jnp.int32(rank), jnp.ones(pulls.shape, bool))[1]
