"""What is measured of a run that chooses K arms, whatever the rule."""

import jax.numpy as jnp
from jax import Array

from jaxbandit.arms.prefix import added, best
from jaxbandit.arms.problem import View

SHARES = (0, 10, 25, 50, 75, 90, 100)
"""The percentiles of an arm's pulls that are kept."""


def answer(
    view: View, chosen: Array, pulls: Array, *, falling: bool = False, stopped: Array | None = None
) -> dict[str, Array]:
    """The answers of a run.

    Args:
        view: of the run.
        chosen: bool, shape (arms,), by arm.
        pulls: int32, shape (arms,), of each arm, in any order; ``falling``: in falling order.
        stopped: bool scalar, whether a rule that stops by itself did; none for a rule of a fixed budget.

    Returns:
        int32 scalars: ``View.measured``'s, ``pulls``, all pulls made, and ``pulls_0`` ... ``pulls_100``, the
        percentiles of an arm's pulls (the least that at least so many percent of the arms do not exceed). ``stopped``,
        where it is given.
    """
    found = view.measured(chosen) | {"pulls": added(pulls)}
    everywhere = jnp.ones(pulls.shape, bool)
    for share in SHARES:
        from_top = view.arms - max(1, -(-share * view.arms // 100)) + 1
        value = pulls[from_top - 1] if falling else best(pulls, jnp.int32(from_top), everywhere)[1]
        found[f"pulls_{share}"] = value
    return found if stopped is None else found | {"stopped": stopped}
