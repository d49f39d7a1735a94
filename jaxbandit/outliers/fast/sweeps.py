"""The sweeps of a batch of GOLD. Its pulls are ordered by their *turn*, which is sweep * n + arm, where the present
sweep is 0."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.outliers.fast.leap import low_bits
from jaxbandit.outliers.gold import NEVER
from jaxbandit.outliers.record import Seen

SWEEPS = 32
"""The most sweeps in a batch."""
LOST, PERHAPS, KEPT = range(3)
"""The status of an edge: lost, possibly kept, or kept."""


class State(NamedTuple):
    """Holds a run of GOLD between batches. ``edges``: int8, (n, n), ``LOST``, ``PERHAPS`` or ``KEPT``; ``labels``: the
    lowest arm of each arm's community among the arms that are not terminal, (n,); ``members``: the arms of this sweep
    (bool); ``cursor``: the first arm that may still be pulled in it; ``scores``: (n,), ``NEVER`` at first. Bools: no
    edge may stay ``PERHAPS`` (``strict``), the next pull is evaluated alone (``close``), there are enough terminal arms
    (``ended``)."""

    seen: Seen
    edges: Array
    labels: Array
    members: Array
    cursor: Array
    scores: Array
    strict: Array
    close: Array
    ended: Array


def rank(members: Array) -> Array:
    """Returns how many members have a lower number than each arm: int32, (n,)."""
    padded = jnp.pad(members, (0, -members.shape[0] % 32)).reshape(-1, 32).astype(jnp.uint32)
    groups = jnp.sum(padded << jnp.arange(32, dtype=jnp.uint32), axis=-1, dtype=jnp.uint32)
    places = jnp.arange(members.shape[0], dtype=jnp.int32)
    counts = lax.population_count(groups).astype(jnp.int32)
    whole = jnp.cumsum(counts) - counts
    return whole[places // 32] + lax.population_count(groups[places // 32] & low_bits(places % 32)).astype(jnp.int32)


def of_sweep(state: State) -> tuple[Array, Array]:
    """Returns how many arms a sweep has, and how many of them were already pulled in this one."""
    arms = jnp.arange(state.members.shape[0], dtype=jnp.int32)
    size = jnp.sum(state.members, dtype=jnp.int32)
    return size, jnp.sum(state.members & (arms < state.cursor), dtype=jnp.int32)


def open_pairs(state: State) -> Array:
    """Returns the pairs of arms that are not terminal: bool, (n, n)."""
    free = state.scores == NEVER
    return free[:, None] & free[None, :]


def pulls_until(state: State, last: Array) -> Array:
    """Returns the pulls of each arm until the turn ``last``: int32, (n,), or (sweeps, n) where ``last`` is (sweeps,
    1)."""
    n = state.members.shape[0]
    arms = jnp.arange(n, dtype=jnp.int32)
    made = last // n + (arms <= last % n).astype(jnp.int32) - (arms < state.cursor).astype(jnp.int32)
    return jnp.where(state.members & (last >= 0), jnp.maximum(made, 0), 0)


def so_far(state: State) -> tuple[Array, Array]:
    """Returns the pulls of each arm (1 where there are none) and its successes, before the batch: (n,)."""
    return jnp.maximum(state.seen.pulls, 1), state.seen.ones


def by_sweep(
    state: State, last: Array, counts: Array, outcome: Array
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Returns pulls and successes after each sweep of a batch, (sweeps, n), and at its end, (n,)."""
    n = state.members.shape[0]
    turns = jnp.arange(1, SWEEPS + 1, dtype=jnp.int32)[:, None] * n - 1

    def after(counts: Array) -> tuple[Array, Array]:
        ones = lax.population_count(outcome & low_bits(counts)).astype(jnp.int32)
        return jnp.maximum(state.seen.pulls + counts, 1), state.seen.ones + ones

    return after(jnp.minimum(pulls_until(state, turns), counts)), after(counts)


def turn_before(state: State, turn: Array) -> Array:
    """Returns the last turn before ``turn`` whose pull is not made yet, -1 where there is none."""
    n = state.members.shape[0]
    arms = jnp.arange(n, dtype=jnp.int32)
    sweep, arm = turn // n, turn % n
    here = jnp.max(jnp.where(state.members & (arms < arm) & ((sweep > 0) | (arms >= state.cursor)), arms, -1))
    end = jnp.max(jnp.where(state.members & ((sweep > 1) | (arms >= state.cursor)), arms, -1))
    earlier = jnp.where((sweep > 0) & (end >= 0), (sweep - 1) * n + end, -1)
    return jnp.where(here >= 0, sweep * n + here, earlier)
