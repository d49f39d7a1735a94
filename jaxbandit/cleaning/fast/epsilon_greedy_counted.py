"""epsilon-Greedy where exchangeable entities are counted (``one_by_one.py``).

``tests/test_cleaning_counted.py`` ties its law to the paper's rule by enumeration, and by means to
``fast/epsilon_greedy.py``, which ``tests/test_cleaning_policies.py`` ties to ``cleaning/epsilon_greedy.py``.

Entities that failed once at most are numbers by their successes; the others are a list of records. A step makes one
operation on the entity that the last step stopped at, and then a run of operations on others.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.cleaning.fast.exchangeable import pack, unpack
from jaxbandit.cleaning.fast.one_by_one import (
    BEST,
    BYTE,
    CLEAN,
    DIRTY,
    FAILED,
    NEW,
    NOTHING,
    Counts,
    Sequence,
    SequenceOutcome,
    estimate,
)
from jaxbandit.cleaning.fast.pool import PADDING
from jaxbandit.cleaning.pulls import Totals
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.grammar import Execution
from jaxbandit.pytree import pytree
from jaxbandit.random.draws import below
from jaxbandit.random.stream import Stream
from jaxbandit.xla.batch import whole
from jaxbandit.xla.platforms import by_platform

TIE = 3

_WIDE = 128
"""Rows that accelerators compare together."""


def search(estimates: Callable[[Array], Array], size: int) -> Callable[..., Array]:
    """Makes ``f(rows, needed, end, best, ties, high, low, index)``, which finds, where ``needed``, a slot before
    ``end`` of the highest estimate, at random among ties. ``best`` is the highest estimate elsewhere, which ``ties``
    entities have: it returns -1 for one of these.

    ``estimates``: of some rows, float32; ``size``: how many rows are compared together, but on accelerators, where each
    turn waits for the host, ``_WIDE``.
    """

    def by(
        size: int, rows: Array, needed: Array, end: Array, least: Array, others: Array, high: Array, low: Array,
        index: Array,
    ) -> Array:  # fmt: skip
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

    def one(*operands: Array) -> Array:
        found: Array = by_platform(*operands, cpu=partial(by, size), default=partial(by, _WIDE))
        return found

    searched = jax.custom_batching.custom_vmap(one)

    @searched.def_vmap
    def of_all(lanes: int, batched: list[bool], *operands: Array) -> tuple[Array, bool]:
        """Searches only if some lane needs it."""
        full = whole(lanes, batched, list(operands))
        return lax.cond(jnp.any(full[1]), jax.vmap(one), lambda *_: jnp.zeros(lanes, jnp.int32), *full), True

    found: Callable[..., Array] = searched
    return found


def _estimates(rows: Array) -> Array:
    return estimate(*unpack(rows))


_searched = search(_estimates, 8)


class State(NamedTuple):
    """The state of a run. ``rows``: int32, shape (memory + PADDING,), ``pack`` of (successes, failures) of the entities
    that failed twice or more; ``counts``: how many entities there are; ``at``: ``pack`` of the record of the entity
    that is next, 0 where none is known; and ``slot``: its row, if it failed twice (int32)."""

    rows: Array
    counts: Counts
    at: Array
    slot: Array
    totals: Totals


@pytree
@dataclass(frozen=True)
class CountedEpsilonGreedy:
    """Epsilon-greedy for problems that are not ``paired``. ``epsilon``: as in ``EpsilonGreedy``; ``memory`` (static):
    the most entities that a run can meet; ``width`` (static): see ``exchangeable.width``."""

    epsilon: Array
    memory: int = field(metadata={"static": True})
    width: int = field(metadata={"static": True})

    execution = Execution(stride=4, most_lanes=128, scratch=("rows",), masked=True, gain_ns=3)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins the run with no entity met: all are counted as unmet."""
        zero = jnp.int32(0)
        rows = jnp.zeros(self.memory + PADDING, jnp.int32)
        counts = Counts((view.entities,) * (2 * self.width), zero, zero, jnp.float32(0))
        return State(rows, counts, zero, zero, Totals.zero())

    def ask(self, view: View, state: State) -> Sequence:
        """Asks for all operations that are left of the budget."""
        gained, failed = unpack(state.at)
        spent = state.totals.spent
        left = jnp.where(self.done(view, state), 0, view.budget - spent)
        return Sequence(spent, view.choices, self.epsilon, failed, gained, state.counts, left)

    def tell(self, view: View, state: State, pull: Sequence, outcome: SequenceOutcome) -> State:
        """Writes the records of entities that failed twice, and finds the entity of the next operation."""
        made, result, following = outcome.cleans, outcome.result, outcome.following
        few, more, promising, bound = outcome.counts
        # The row of the known entity: where it is clean, the last row takes its place.
        known = (made > 0) & (pull.failures > 1)
        clean = known & (result == CLEAN)
        last = state.rows[jnp.clip(pull.counts.more - 1, 0, self.memory)]
        told = pack(pull.successes + (result == DIRTY), pull.failures + (result == FAILED))
        # The rows of entities that failed for the second time come behind, the last one of them at the end.
        nowhere, size = self.memory + PADDING, pull.counts.more - clean.astype(jnp.int32)
        places, values = [jnp.where(known, state.slot, nowhere)], [jnp.where(clean, last, told)]
        for number in range(NEW):
            gained = (outcome.new >> BYTE * number & (1 << BYTE) - 1) - 1
            places.append(jnp.where(gained >= 0, more - 1 - number, nowhere))
            values.append(pack(gained, 2))
        # A row that leaves from the end may be that of a new one: the last write must be alone there.
        places[0] = jnp.where(clean & (state.slot >= size), nowhere, places[0])
        rows = state.rows.at[jnp.stack(places)].set(jnp.stack(values), mode="drop")

        # The highest estimate of those that failed once, and how many have it.
        best = following == BEST
        failed_once = few[self.width - 1 :]  # up to each number of successes, those with no failure counted in
        gained, fewer = jnp.int32(-1), jnp.int32(0)
        for upto in failed_once[:-1]:
            gained = gained + (upto < failed_once[-1]).astype(jnp.int32)
            fewer = jnp.where(upto < failed_once[-1], upto, fewer)
        gained = jnp.maximum(gained, 0)
        ties = jnp.where(gained > 0, failed_once[-1] - fewer, 0)
        spent = state.totals.spent + made
        slot = _searched(rows, best, more, estimate(gained, 1), ties, *view.choices, spent)
        slot = jnp.where(best, slot, following)
        at = jnp.where(slot < 0, pack(gained, 1), rows[jnp.clip(slot, 0, self.memory)])
        bound = jnp.where(best, _estimates(at), bound)
        stays = (made == 0) & (following == NOTHING)
        at = jnp.where(following == NOTHING, jnp.where(stays, state.at, 0), at)
        finished = state.totals.finished + pull.counts.alive - outcome.counts.alive
        totals = Totals(spent, state.totals.removed + outcome.removed, finished)
        return State(rows, Counts(few, more, promising, bound), at, jnp.where(stays, state.slot, slot), totals)

    def done(self, view: View, state: State) -> Array:
        """Ends the run when the budget is spent or no false value is left."""
        return (state.totals.spent >= view.budget) | (state.counts.alive <= 0)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()
