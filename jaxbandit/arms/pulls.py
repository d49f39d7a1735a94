"""How often the arms of a run were pulled: percentiles, as every family of arms gives them."""

from collections.abc import Callable
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.registry import Metric
from jaxbandit.xla.prefix import added, best

T = TypeVar("T")

_SHARES = (0, 10, 25, 50, 75, 90, 100)


def percentiles(arms: int, ranked: Callable[[int], T]) -> dict[str, T]:
    """``pulls_0`` ... ``pulls_100``: the least number of pulls that at least so many percent of the arms do not exceed.

    Args:
        arms: how many there are.
        ranked: the k-th smallest number of pulls of an arm (int32 scalar), by k from 1 to ``arms``.
    """
    return {f"pulls_{share}": ranked(max(1, -(-share * arms // 100))) for share in _SHARES}


def counted(pulls: Array) -> dict[str, Array]:
    """All pulls of a run as ``pulls``, int32, and those of ``percentiles``, of each arm's (int32, shape (arms,))."""
    arms, everywhere = pulls.shape[0], jnp.ones(pulls.shape, bool)

    def ranked(rank: Array) -> Array:
        return best(pulls, arms - rank + 1, everywhere)[1]

    # A loop, so that the selection is compiled once.
    found = lax.map(ranked, jnp.asarray(list(percentiles(arms, int).values()), jnp.int32))
    return {"pulls": added(pulls)} | dict(zip(percentiles(arms, int), found, strict=True))


def metrics(*, lower_is_better: bool) -> tuple[Metric, ...]:
    """The same as metrics."""
    names = {0: "least pulls of an arm", 100: "most pulls of an arm"}

    def metric(share: int) -> Metric:
        name = f"pulls_{share}"
        return Metric(
            name,
            names.get(share, f"pulls of an arm, {share} % quantile"),
            lambda setting, answers: answers[name].astype(np.float64),
            lower_is_better=lower_is_better,
        )

    return tuple(map(metric, _SHARES))
