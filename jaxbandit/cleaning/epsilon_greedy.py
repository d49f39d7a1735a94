"""epsilon-Greedy: with probability epsilon as Random, else as Greedy (Cheng et al. 2010, section 4.3, Algorithm 5).

Here many entities can have an estimate above 0, so the best must be found among all met: they stand in blocks, each
with its best estimate and how many share it, and an operation recomputes the blocks that it touches.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.cleaning.pool import Entry, Pool, below, place_among, select
from jaxbandit.cleaning.problem import Outcome, Pull, Totals, View
from jaxbandit.cleaning.random import one_operation, pick
from jaxbandit.errors import BadInput
from jaxbandit.random.draws import uniform
from jaxbandit.random.stream import words

EXPLORE, TIE = 2, 3


class Ranking(NamedTuple):
    """Estimates by slot in blocks: ``estimates`` float32 (blocks, width), 0 where a slot is free; ``best`` float32
    (blocks,) and ``ties`` int32 (blocks,): each block's highest estimate and how many slots have it."""

    estimates: Array
    best: Array
    ties: Array

    @classmethod
    def empty(cls, capacity: int) -> "Ranking":
        """For ``capacity`` slots, a power of two."""
        width = 1 << ((capacity.bit_length() - 1) // 2)
        blocks = capacity // width
        return cls(
            jnp.zeros((blocks, width), jnp.float32), jnp.zeros(blocks, jnp.float32), jnp.zeros(blocks, jnp.int32)
        )

    def put(self, slot: Array, estimate: Array, where: Array, last: Array, vacated: Array) -> "Ranking":
        """Where ``where``: the slot gets an estimate; where ``vacated``: that of ``last``, whose slot becomes free."""
        blocks, width = self.estimates.shape
        kept = self.estimates.reshape(-1)
        first = jnp.where(where | vacated, slot, kept.size)
        second = jnp.where(vacated, last, kept.size)
        kept = kept.at[first].set(jnp.where(vacated, self.at(last), estimate), mode="drop")
        kept = kept.at[second].set(0, mode="drop").reshape(blocks, width)
        best, ties = self.best, self.ties
        for row in (first // width, second // width):
            here = kept[jnp.minimum(row, blocks - 1)]
            high = jnp.max(here)
            best = best.at[row].set(high, mode="drop")
            ties = ties.at[row].set(jnp.sum(here == high, dtype=jnp.int32), mode="drop")
        return Ranking(kept, best, ties)

    def at(self, slot: Array) -> Array:
        """A slot's estimate."""
        return self.estimates.reshape(-1)[jnp.clip(slot, 0, self.estimates.size - 1)]


class State(NamedTuple):
    """``pool``: the entities met that have false values left; ``ranking``: their estimates, by slot; the rest as in
    ``random.py``."""

    pool: Pool
    ranking: Ranking
    met: Array
    slot: Array
    at: Entry
    totals: Totals


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EpsilonGreedy:
    """``epsilon``: the share of random operations, 0 to 1 (float32); ``memory`` (static): the most entities that a run
    can meet, a power of two. Estimates are equal if they are as float32: to 4,096 operations an entity, if they are."""

    epsilon: Array
    memory: int = field(metadata={"static": True})

    def init(self, view: View) -> State:
        """Nothing met."""
        pool, ranking, zero = Pool.empty(self.memory), Ranking.empty(self.memory), jnp.int32(0)
        return State(pool, ranking, zero, *self._pick(view, pool, ranking, zero, zero), Totals.zero())

    def _pick(self, view: View, pool: Pool, ranking: Ranking, met: Array, index: Array) -> tuple[Array, Entry]:
        slot, entry = pick(view, pool, met, index)
        high = jnp.max(ranking.best)
        ties = jnp.where(ranking.best == high, ranking.ties, 0)
        rank = below(view.choices, TIE, index, jnp.maximum(jnp.sum(ties, dtype=jnp.int32), 1))
        block, rank = place_among(ties, rank)
        estimates = ranking.estimates[jnp.minimum(block, ties.shape[0] - 1)]
        column, _ = place_among((estimates == high).astype(jnp.int32), rank)
        best = block * estimates.shape[0] + column
        greedy = (uniform(words(view.choices, EXPLORE, index)[0]) >= self.epsilon) & (high > 0)
        return jnp.where(greedy, best, slot), select(greedy, pool.at(best), entry)

    def ask(self, view: View, state: State) -> Pull:
        """One operation."""
        return one_operation(view, state.at, self.done(view, state))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Update the estimate, where the last of the pool takes a clean entity's slot, and draw the next."""
        moved = outcome.cleans > 0
        clean = moved & (outcome.removed == pull.successes)
        after = state.at.add(outcome)
        new = state.slot >= state.pool.size
        estimate = after.gained.astype(jnp.float32) / jnp.maximum(after.tried, 1).astype(jnp.float32)
        ranking = state.ranking.put(state.slot, estimate, moved & ~clean, state.pool.size - 1, clean & ~new)
        pool = state.pool.put(state.slot, after, where=moved, keep=~clean)
        met = state.met + (moved & new).astype(jnp.int32)
        totals = state.totals.add(outcome, clean)
        return State(pool, ranking, met, *self._pick(view, pool, ranking, met, totals.spent), totals)

    def done(self, view: View, state: State) -> Array:
        """The budget is spent, or no false value is left."""
        return (state.totals.spent >= view.budget) | (state.pool.size + view.entities - state.met <= 0)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Totals``."""
        return state.totals.answer()


def epsilon_greedy(epsilon: float, memory: int) -> EpsilonGreedy:
    """epsilon-Greedy with a given epsilon.

    Raises:
        BadInput: for an epsilon outside [0, 1].
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.floating) or not 0 <= epsilon <= 1:
        raise BadInput("epsilon", epsilon, "a number from 0 to 1")
    return EpsilonGreedy(jnp.float32(epsilon), memory)
