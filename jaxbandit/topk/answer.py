"""What is measured of a run that chooses K arms, whatever the rule."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.prefix import best
from jaxbandit.arms.problem import View
from jaxbandit.arms.pulls import percentiles


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
        ``View.measured``'s, and int32 scalars: ``pulls``, those of ``percentiles``, and ``stopped``, where it is given.
    """
    found = view.measured(chosen) | {"pulls": pulls}
    found |= percentiles(view.arms, lambda rank: ranked(view.arms - rank + 1))
    return found if stopped is None else found | {"stopped": stopped}


def by_rank(pulls: Array) -> Callable[[int], Array]:
    """``ranked`` for the pulls of each arm, int32 of shape (arms,)."""
    return lambda rank: best(pulls, jnp.int32(rank), jnp.ones(pulls.shape, bool))[1]
