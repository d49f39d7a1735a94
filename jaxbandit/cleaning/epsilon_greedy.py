"""epsilon-Greedy: with probability epsilon as Random, else as Greedy (Cheng et al. 2010, section 4.3, Algorithm 5).

Here many entities can have an estimate above 0. Nearly always some have the estimate 1: they stand first among the
entities met, then those with an estimate between, then those with 0, and an operation moves at most three. Only while
no estimate is 1, those between are searched for the highest.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.cleaning.pool import PADDING, Entry, below, row_at
from jaxbandit.cleaning.problem import Outcome, Totals, Tries, View
from jaxbandit.cleaning.random import PICK, single
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Execution
from jaxbandit.random.draws import uniform
from jaxbandit.random.fence import once
from jaxbandit.random.stream import Stream, words

EXPLORE, TIE = 2, 3


def search(estimates: Callable[[Array], Array], size: int) -> Callable[..., Array]:
    """``f(rows, needed, end, best, ties, high, low, index)``: where ``needed``, a slot before ``end`` of the highest
    estimate, at random among ties. ``best`` is the highest of others elsewhere, ``ties`` of them: -1 for one of these.

    ``estimates``: of some rows, float32; ``size``: how many rows are looked at together.
    """

    def one(
        rows: Array, needed: Array, end: Array, least: Array, others: Array, high: Array, low: Array, index: Array
    ) -> Array:
        capacity = rows.shape[0]
        stop = jnp.where(needed, end, 0)

        def chunk(begin: Array) -> tuple[Array, Array]:
            first = jnp.minimum(begin, max(0, capacity - size))
            part = lax.dynamic_slice_in_dim(rows, first, min(size, capacity))
            slots = first + jnp.arange(part.shape[0], dtype=jnp.int32)
            return slots, jnp.where((slots >= begin) & (slots < stop), estimates(part), -1)

        def highest(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            begin, best, ties = state
            _, found = chunk(begin)
            top = jnp.maximum(best, jnp.max(found))
            here = jnp.sum(found == top, dtype=jnp.int32)
            return begin + size, top, jnp.where(top > best, 0, ties) + here

        def more(state: tuple[Array, ...]) -> Array:
            return state[0] < stop

        zero = jnp.int32(0)
        _, best, ties = lax.while_loop(more, highest, (zero, least, others))

        def tied(begin: Array) -> Array:
            return jnp.sum(chunk(begin)[1] == best, dtype=jnp.int32)

        # The chunk that has the rank among ties, then the place in it: prefix sums of all would cost much more.
        rank = below(Stream(high, low), TIE, index, jnp.maximum(ties, 1)) - jnp.where(best > least, 0, others)
        begin, rank, _ = lax.while_loop(
            lambda state: (state[0] < stop) & (state[1] >= state[2]),
            lambda state: (state[0] + size, state[1] - state[2], tied(state[0] + size)),
            (zero, rank, tied(zero)),
        )
        slots, found = chunk(begin)
        before = jnp.cumsum(found == best, dtype=jnp.int32)
        slot = jnp.max(jnp.where((found == best) & (before == rank + 1), slots, 0))
        return jnp.where(rank < 0, -1, slot)

    searched = jax.custom_batching.custom_vmap(one)

    @searched.def_vmap
    def of_all(lanes: int, batched: list[bool], *operands: Array) -> tuple[Array, bool]:
        """Not at all where no lane needs it."""
        full = [x if has else jnp.broadcast_to(x, (lanes, *x.shape)) for x, has in zip(operands, batched, strict=True)]
        return lax.cond(jnp.any(full[1]), jax.vmap(one), lambda *_: jnp.zeros(lanes, jnp.int32), *full), True

    found: Callable[..., Array] = searched
    return found


def _estimates(rows: Array) -> Array:
    return rows[:, 2].astype(jnp.float32) / jnp.maximum(rows[:, 1], 1).astype(jnp.float32)


_searched = search(_estimates, 64)


class State(NamedTuple):
    """``rows``: int32, shape (memory, 3), the entities met that have false values left, an ``Entry`` each: those with
    an estimate of 1 to ``certain``, with one above 0 to ``positive``, all to ``size``. ``met``: how many were met;
    ``slot`` and ``at``: the entity that is next, drawn when the last one's outcome is told, as in ``random.py``."""

    rows: Array
    certain: Array
    positive: Array
    size: Array
    met: Array
    slot: Array
    at: Entry
    totals: Totals


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EpsilonGreedy:
    """``epsilon``: the share of random operations, 0 to 1 (float32); ``memory`` (static): the most entities that a run
    can meet. Estimates are equal if they are as float32: to 4,096 operations an entity, if they are."""

    epsilon: Array
    memory: int = field(metadata={"static": True})

    execution = Execution(scratch=("rows",), masked=True)

    def init(self, view: View) -> State:
        """Nothing met."""
        zero = jnp.int32(0)
        rows = jnp.zeros((self.memory + PADDING, 3), jnp.int32)
        nothing = State(rows, zero, zero, zero, zero, zero, Entry(zero, zero, zero), Totals.zero())
        return self._drawn(view, nothing)

    def _drawn(self, view: View, state: State) -> State:
        """The state with the next entity."""
        index = state.totals.spent
        exploit = uniform(words(view.choices, EXPLORE, index)[0]) >= self.epsilon
        greedy = once((exploit & (state.positive > 0)).astype(jnp.int32)) > 0
        needed = greedy & (state.certain == 0)
        best = _searched(state.rows, needed, state.positive, jnp.float32(0), jnp.int32(0), *view.choices, index)
        alive = jnp.maximum(state.size + view.entities - state.met, 1)
        bound = jnp.where(greedy, state.certain, alive)
        drawn = below(view.choices, jnp.where(greedy, TIE, PICK), index, bound)
        slot = jnp.minimum(jnp.where(needed, best, drawn), state.size)
        met = row_at(state.rows, slot)
        fresh = Entry(view.in_random_order(jnp.minimum(state.met, view.entities - 1)), jnp.int32(0), jnp.int32(0))
        at = Entry(*(jnp.where(slot < state.size, a, b) for a, b in zip(met, fresh, strict=True)))
        return state._replace(slot=slot, at=at)

    def ask(self, view: View, state: State) -> Tries:
        """One operation."""
        return single(view, state.at, self.done(view, state))

    def tell(self, view: View, state: State, pull: Tries, outcome: Outcome) -> State:
        """Move the entity to those of its new estimate, or out if it is clean, and draw the next."""
        rows, certain, positive, size, met, slot, at, totals = state
        moved = outcome.cleans > 0
        clean = moved & (outcome.removed == pull.successes)
        after = at.add(outcome)
        new = slot >= size
        grown = size + (moved & new).astype(jnp.int32)
        # Parts are numbered 0, 1, 2. What is clean leaves by the end of the last part.
        old = jnp.where(slot < certain, 0, jnp.where(slot < positive, 1, 2))
        part = jnp.where(after.gained == after.tried, 0, jnp.where(after.gained > 0, 1, 2))
        part = once(jnp.where(moved, jnp.where(clean, 2, part), old))
        down, up = part > old, part < old
        # The hole at the slot wanders over the borders between; each time the entity at the border fills it.
        over_first = (jnp.minimum(old, part) == 0) & (part != old)
        over_second = (jnp.maximum(old, part) == 2) & (part != old)
        border = jnp.where(up, certain, certain - 1), jnp.where(up, positive, positive - 1)
        row, capacity = jnp.stack(after), rows.shape[0]
        one = jnp.where(jnp.where(up, over_second, ~over_first), border[1], border[0])
        one, two = (once(jnp.clip(place, 0, capacity - 1)) for place in (one, jnp.where(up, border[0], border[1])))
        crossings = once(over_first.astype(jnp.int32) + over_second.astype(jnp.int32))
        # One read and one write: of two, XLA would copy the array in between.
        places = jnp.stack([slot, one, two])
        first, second, last = rows[jnp.stack([one, two, once(jnp.clip(grown - 1, 0, capacity - 1))])]
        end = jnp.where(clean & ~new, last, row)
        values = jnp.stack([jnp.where(crossings == 0, end, first), jnp.where(crossings == 1, end, second), end])
        write = jnp.stack([moved, crossings > 0, crossings > 1])
        # Where borders meet, what is written last stands.
        again = jnp.stack(
            [write[1] & (slot == one) | write[2] & (slot == two), write[2] & (one == two), jnp.bool_(False)]
        )
        rows = rows.at[jnp.where(write & ~again, places, capacity)].set(values, mode="drop")
        step = up.astype(jnp.int32) - down.astype(jnp.int32)
        state = State(
            rows=rows,
            certain=certain + jnp.where(over_first, step, 0),
            positive=positive + jnp.where(over_second, step, 0),
            size=grown - clean.astype(jnp.int32),
            met=met + (moved & new).astype(jnp.int32),
            slot=slot,
            at=at,
            totals=totals.add(outcome, clean),
        )
        return self._drawn(view, state)

    def done(self, view: View, state: State) -> Array:
        """The budget is spent, or no false value is left."""
        return (state.totals.spent >= view.budget) | (state.size + view.entities - state.met <= 0)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Totals``."""
        return state.totals.answer()


def epsilon_greedy(epsilon: float, memory: int) -> EpsilonGreedy:
    """epsilon-Greedy with a given epsilon.

    Raises:
        BadInput: for an epsilon outside [0, 1].
    """
    return EpsilonGreedy(share(epsilon), memory)


def share(epsilon: float) -> Array:
    """A given epsilon, checked (float32)."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.floating) or not 0 <= epsilon <= 1:
        raise BadInput("epsilon", epsilon, "a number from 0 to 1")
    found: Array = jnp.float32(epsilon)
    return found
