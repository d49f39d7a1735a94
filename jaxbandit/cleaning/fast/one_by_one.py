"""Operations one by one, some at random and some greedy, where exchangeable entities are counted.

With chance epsilon an operation falls on any entity alive, else on one of the highest estimate. Entities that failed
once at most are numbers by their records, and so are the unmet. Nearly always the highest estimate is among them: 1, or
that of most successes and one failure. So a run of operations is drawn from these numbers, by a loop for all lanes. It
ends where one falls on an entity that failed more often, or may do so: that is the policy's to find, and first of its
next pull.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.epsilon_greedy import EXPLORE
from jaxbandit.cleaning.fast.exchangeable import Chances
from jaxbandit.random.draws import bernoulli, scale
from jaxbandit.random.stream import Stream, words
from jaxbandit.xla.batch import whole
from jaxbandit.xla.exact import quotient
from jaxbandit.xla.fence import ENDLESS, as_one_kernel, once_in_blocks, patiently

ONE_BY_ONE = 15
"""What a word of the outcomes' stream is for."""

NOTHING, BEST = -2, -1
"""Values of ``SequenceOutcome.following``: nothing is known of the next operation; it falls on a highest estimate."""
FAILED, DIRTY, CLEAN = range(3)
"""What an operation can do: fail, or leave its entity with false values or without."""

NEW, BYTE = 4, 8
"""The most entities that fail for the second time in a pull."""

_TOP = 2**31 - 1
_TURNS = 64
"""On accelerators, between two questions whether most lanes go on."""


class Counts(NamedTuple):
    """The entities alive. ``few``: how many have a record of ``Chances`` or one before it, of the first 2 ``width``,
    the first being the unmet; ``more``: how many failed twice or more, ``promising``: how many of these have a success
    (int32 all); ``bound``: none of these has a higher estimate (float32)."""

    few: tuple[Array, ...]
    more: Array
    promising: Array
    bound: Array

    @property
    def alive(self) -> Array:
        """Counts all entities that have false values left (int32)."""
        return self.few[-1] + self.more


class Sequence(NamedTuple):
    """A pull: an operation on an entity that is known, if there is one, and then a run of operations on others.

    ``words`` (int32): operations before these; ``choices``: the policy's stream; ``epsilon`` (float32): the chance of
    an operation at random; ``failures`` and ``successes`` (int32): the record of the one entity, no failures where
    there is none; ``counts``: it is counted in; ``cleans`` (int32): the most operations.
    """

    words: Array
    choices: Stream
    epsilon: Array
    failures: Array
    successes: Array
    counts: Counts
    cleans: Array


class SequenceOutcome(NamedTuple):
    """The outcome of a ``Sequence``, int32 all. ``cleans`` and ``removed``: operations made and false values removed;
    ``result``: what the operation on the known entity did, see ``FAILED``; ``counts``: after all operations; ``new``:
    1 + the successes of each entity that failed for the second time, a byte each, the last one lowest; ``following``:
    the entity of the next operation, as a number among those that failed twice or more, or see ``NOTHING``."""

    cleans: Array
    removed: Array
    result: Array
    counts: Counts
    new: Array
    following: Array


def estimate(gained: Array, failed: Array | int) -> Array:
    """Returns the estimate of an entity, the share of its operations that succeeded (float32)."""
    return quotient(gained.astype(jnp.float32), jnp.maximum(gained + failed, 1).astype(jnp.float32))


def make_sequence(chances: Chances, key: Stream, pull: Sequence) -> SequenceOutcome:
    """Draws the outcome of a pull, by the stream ``key`` of the run's outcomes."""
    found: SequenceOutcome = _make_sequence(chances, key, pull)
    return found


@jax.custom_batching.custom_vmap
def _make_sequence(table: Chances, key: Stream, pull: Sequence) -> SequenceOutcome:
    one: SequenceOutcome = jax.tree.map(lambda x: x[0], _of_all(table, *jax.tree.map(lambda x: x[None], (key, pull))))
    return one


@_make_sequence.def_vmap
def _(size: int, batched: Any, table: Chances, key: Stream, pull: Sequence) -> tuple[SequenceOutcome, Any]:
    given = whole(size, batched, [table, key, pull])
    own = any(jax.tree.leaves(batched[0]))
    found = jax.vmap(_make_sequence.fun)(*given) if own else _of_all(table, *given[1:])
    return found, jax.tree.map(lambda _: True, found)


class _Run(NamedTuple):
    """Where all lanes stand in a sequence. ``few``: (records, lanes), the others (lanes,): see ``Counts`` and
    ``SequenceOutcome``; ``rank``: of the entity of the last operation; ``going``: 1 if that operation was made."""

    few: Array
    more: Array
    promising: Array
    bound: Array
    made: Array
    removed: Array
    new: Array
    rank: Array
    going: Array

    def tell(self, record: Array, drawn: Array, where: Array) -> "_Run":
        """Counts an operation with the result ``drawn`` on an entity of a record in ``few``, in the lanes ``where``.

        ``few[i]`` counts the entities with record i or one before it. So an entity that leaves record a for a later one
        b takes 1 from the counts a to b - 1.
        """
        rows = jnp.arange(self.few.shape[0], dtype=jnp.int32)[:, None]
        side = self.few.shape[0] // 2
        start = jnp.where(where, record, 2 * side)
        stop = jnp.where(drawn == DIRTY, record + 1, jnp.where(drawn == CLEAN, 2 * side, record + side))
        again, gained = where & (drawn == FAILED) & (record >= side), record - side
        return self._replace(
            few=self.few - ((rows >= start) & (rows < stop)).astype(jnp.int32),
            more=self.more + again.astype(jnp.int32),
            promising=self.promising + (again & (gained > 0)).astype(jnp.int32),
            bound=jnp.where(again, jnp.maximum(self.bound, estimate(gained, 2)), self.bound),
            new=jnp.where(again, self.new << BYTE | gained + 1, self.new),
            made=self.made + where.astype(jnp.int32),
            removed=self.removed + (where & (drawn != FAILED)).astype(jnp.int32),
        )


def _of_all(table: Chances, key: Stream, pull: Sequence) -> SequenceOutcome:
    """Draws the outcomes of all lanes; the leaves of all but the table have a first axis, the lanes.

    The loop ends when a quarter of the lanes have ended. The others go on with the same words in their next pull, so
    results do not depend on where the loop stopped them.
    """
    records = table.clean.shape[0]
    side = records // 2
    # The loop takes the first records alone (docs/xla-cpu.md).
    few_chances = table.success[:records], table.clean
    asked = jnp.sum(pull.cleans > 0, dtype=jnp.int32)

    def turn(_: Array, run: _Run) -> _Run:
        few, number = run.few, pull.words + run.made
        # Certain entities have the estimate 1, and positive ones an estimate above 0.
        unmet, certain, end = few[0], few[side - 1] - few[0], few[-1]
        explore, place = words(pull.choices, EXPLORE, number)
        positive = certain + end - few[side] + run.promising
        anyone = bernoulli(explore, pull.epsilon) | (positive == 0)
        rank = scale(place, jnp.where(anyone, end + run.more, certain)) + jnp.where(anyone, 0, unmet)
        # Where none has the estimate 1, the last record has the highest of those that failed once.
        rank = once_in_blocks(jnp.where(anyone | (certain > 0), rank, _TOP))
        top = rank == _TOP
        place = jnp.where(top, end - 1, rank)
        record = jnp.zeros_like(rank)
        for upto in few[:-1]:
            record = record + (upto <= place).astype(jnp.int32)
        success, clean = (chance.at[record].get(mode="promise_in_bounds") for chance in few_chances)
        word = words(key, ONE_BY_ONE, number)[0] >> jnp.uint32(1)
        drawn = jnp.where(word < clean, CLEAN, jnp.where(word < success, DIRTY, FAILED))
        # The last record has the highest estimate if no entity that failed twice may have one as high.
        sure = ~top | (estimate(record - side, 1) > run.bound)
        more = (run.going > 0) & (run.made < pull.cleans) & (run.new >> (NEW - 1) * BYTE == 0)
        move = once_in_blocks(jnp.where(more & (place < end) & sure, 1 + 4 * record + drawn, 0))
        run = run.tell((move - 1) >> 2, (move - 1) & 3, move > 0)
        going = (move > 0).astype(jnp.int32)
        return run._replace(rank=rank, going=going)

    def many(_: Array, run: _Run) -> Array:
        return 4 * jnp.sum(run.going, dtype=jnp.int32) > 3 * asked

    result, run = _known(table, key, pull)
    run = as_one_kernel(lambda: patiently(ENDLESS, many, turn, run, _TURNS))
    full = run.new >> (NEW - 1) * BYTE > 0
    met = (run.going == 0) & (run.made < pull.cleans) & ~full & (run.few[-1] + run.more > 0)
    following = jnp.where(met, jnp.where(run.rank == _TOP, BEST, run.rank - run.few[-1]), NOTHING)
    counts = Counts(tuple(run.few), run.more, run.promising, run.bound)
    return SequenceOutcome(run.made, run.removed, result, counts, run.new, following)


def _known(table: Chances, key: Stream, pull: Sequence) -> tuple[Array, _Run]:
    """Makes the operation on the known entity. Returns its result, and where the run of others begins."""
    side, zero = table.width, jnp.zeros_like(pull.words)
    failures, successes = pull.failures, pull.successes
    made, listed = (pull.cleans > 0) & (failures > 0), failures > 1
    won, last = (word >> jnp.uint32(1) for word in words(key, ONE_BY_ONE, pull.words))
    success, clean = table.of(jnp.where(made, failures, 0), jnp.where(made, successes, 0))
    result = once_in_blocks(jnp.where(won < success, jnp.where(last < clean, CLEAN, DIRTY), FAILED))
    counts = pull.counts
    left = (made & listed & (result == CLEAN)).astype(jnp.int32)
    more = counts.more - left
    promising = counts.promising - jnp.where(successes > 0, left, 0)
    promising = promising + (made & listed & (result == DIRTY) & (successes == 0)).astype(jnp.int32)
    after = estimate(successes + (result == DIRTY), failures + (result == FAILED))
    bound = jnp.where(made & listed & (result != CLEAN), jnp.maximum(counts.bound, after), counts.bound)
    bound = jnp.where(promising > 0, bound, 0)
    few, going = jnp.stack(counts.few), (pull.cleans > 0).astype(jnp.int32)
    run = _Run(few, more, promising, bound, zero, zero, zero, zero, going)
    begun = run.tell(side + successes, result, made & ~listed)
    return result, begun._replace(made=made.astype(jnp.int32), removed=(made & (result != FAILED)).astype(jnp.int32))
