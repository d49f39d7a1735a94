"""Percentiles of how often the arms of a run were pulled, as every family of arms reports them."""

from collections.abc import Callable
from typing import TypeVar

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.registry import Metric, answered
from jaxbandit.xla.prefix import added, best

T = TypeVar("T")

_SHARES = (0, 10, 25, 50, 75, 90, 100)


def percentiles(arms: int, ranked: Callable[[int], T]) -> dict[str, T]:
    """Returns ``pulls_0`` ... ``pulls_100``: the least number of pulls that at least so many percent of the arms do not
    exceed.

    Args:
        arms: how many arms there are.
        ranked: the k-th smallest number of pulls of an arm (int32 scalar), by k from 1 to ``arms``.
    """
    return {f"pulls_{share}": ranked(max(1, -(-share * arms // 100))) for share in _SHARES}


def counted(pulls: Array) -> dict[str, Array]:
    """Returns the sum of each arm's ``pulls`` (int32, shape (arms,)) as ``pulls``, and their ``percentiles``."""
    arms, everywhere = pulls.shape[0], jnp.ones(pulls.shape, bool)

    def ranked(rank: Array) -> Array:
        return best(pulls, arms - rank + 1, everywhere)[1]

    # By a loop, so that the selection is compiled once.
    found = lax.map(ranked, jnp.asarray(list(percentiles(arms, int).values()), jnp.int32))
    return {"pulls": added(pulls)} | dict(zip(percentiles(arms, int), found, strict=True))


def metrics(*, lower_is_better: bool) -> tuple[Metric, ...]:
    """Returns the metrics that report these percentiles, for a family that has few or many pulls as its aim."""
    names = {0: "least pulls of an arm", 100: "most pulls of an arm"}

    def metric(share: int) -> Metric:
        name = f"pulls_{share}"
        return Metric(
            name,
            names.get(share, f"pulls of an arm, {share} % quantile"),
            answered(name),
            lower_is_better=lower_is_better,
        )

    return tuple(map(metric, _SHARES))
