"""Scalar numba loops for the cleaning policies: what jaxbandit is timed against.

The problem is section 6's of Cheng et al. 2010: false values uniform on 0 ... 19, uniform sc-pdf. Each operation is
one Bernoulli trial. Runs are spread over all cores, a block of runs a thread. Nothing of the size of the database is
ever made: entities are exchangeable, so one is drawn when it is first met, and a run keeps only those that it may come
back to. A probability is a threshold for 32 random bits, so that it is drawn and used without a conversion.

Every loop is built over two generators: numba's own (``np.random``, Mersenne Twister), and xoroshiro128+, seeded by
splitmix64, which the compiler keeps in registers.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

MOST = 19
"""The most false values of an entity: they are uniform on 0 ... MOST."""

GENERATORS = ("np.random", "xoroshiro128+")
POLICIES = ("known-sc", "random", "greedy", "epsilon-greedy", "ee")

Jitted = Any
U = np.uint64


# Generators. ``word(state) -> (state, 32 bits)`` and ``two(state) -> (state, 32 bits, 32 bits)``, the bits as int64.


@njit
def _twister_word(state):
    return state, np.int64(np.random.randint(0, 1 << 32))  # noqa: NPY002


@njit
def _twister_two(state):
    high = np.int64(np.random.randint(0, 1 << 32))  # noqa: NPY002
    return state, high, np.int64(np.random.randint(0, 1 << 32))  # noqa: NPY002


@njit
def _xoroshiro(state):
    a, b = state
    out = a + b
    b ^= a
    a = ((a << U(24)) | (a >> U(40))) ^ b ^ (b << U(16))
    b = (b << U(37)) | (b >> U(27))
    return (a, b), out


@njit
def _xoroshiro_word(state):
    state, out = _xoroshiro(state)
    return state, np.int64(out >> U(32))


@njit
def _xoroshiro_two(state):
    state, out = _xoroshiro(state)
    return state, np.int64(out >> U(32)), np.int64(out & U(0xFFFFFFFF))


@njit
def _splitmix(x):
    x += U(0x9E3779B97F4A7C15)
    x = (x ^ (x >> U(30))) * U(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U(27))) * U(0x94D049BB133111EB)
    return x ^ (x >> U(31))


@njit
def _start(seed, block):
    """The state of a block's generators; numba's own is the thread's."""
    np.random.seed((seed * 1_000_003 + block) & 0xFFFFFFFF)  # noqa: NPY002
    a = _splitmix(U(seed) << U(32) | U(block))
    return a, _splitmix(a)


@njit
def _below(word, bound):
    return (word * bound) >> 32


@intrinsic
def _highest_bit(typingctx, word):
    """The place of the highest bit that is set, of a uint64 that is not 0."""

    def codegen(context, builder, signature, args):
        zeros = builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(args[0].type, 63), zeros)

    return types.int64(types.uint64), codegen


# The policies. Each is built over a generator and gives ``run(state, budget, entities, space)``, one run with
# ``entities`` ambiguous entities, which returns the state, the operations, the false values removed, and the entities
# finished. ``space`` is the thread's scratch memory.


class Space(NamedTuple):
    """Scratch memory of a thread: a run writes what it reads of it first, or leaves it as it found it.

    ``pool`` (int64, (budget + 1,)): entities that may be drawn again. The rest is for epsilon-greedy: ``records``
    (uint32, an entity that was met a row), ``buckets`` (int32, by rank of the estimate: where its members begin in
    ``members``, how many there are, and are room for), ``touched`` (int32, how many buckets were used, and which),
    ``bits`` and ``upper`` (uint64, which buckets have members, and which words of ``bits`` are not 0), and ``ranks``.
    """

    pool: np.ndarray
    records: np.ndarray
    buckets: np.ndarray
    members: np.ndarray
    touched: np.ndarray
    bits: np.ndarray
    upper: np.ndarray
    ranks: np.ndarray


def _ee(word: Jitted, two: Jitted, t: int, need: int) -> Jitted:
    """A walk: each entity is drawn, explored, perhaps exploited, and forgotten."""

    @njit
    def run(state, budget, entities, space):
        spent = removed = finished = 0
        for _ in range(entities):
            if spent == budget:
                break
            state, p, bits = two(state)
            r = 1 + _below(bits, MOST)
            tried = gained = 0
            left = min(t, budget - spent)
            while tried < left and gained < r and tried - gained <= t - need:
                state, bits = word(state)
                gained += bits < p
                tried += 1
            if gained >= need:
                left = budget - spent
                while tried < left and gained < r:
                    state, bits = word(state)
                    gained += bits < p
                    tried += 1
            spent += tried
            removed += gained
            finished += gained == r
        return state, spent, removed, finished

    return run


def _known_sc(word: Jitted, two: Jitted) -> Jitted:
    """Entities in descending order of p; the order statistics of uniforms come one by one (Renyi)."""

    @njit
    def run(state, budget, entities, space):
        spent = removed = finished = 0
        best = 1.0
        for rank in range(entities):
            if spent == budget:
                break
            state, high, bits = two(state)
            state, low = word(state)
            gap = -math.log((high * 4294967296.0 + low + 0.5) * 2.0**-64) / (entities - rank)
            # exp(-gap), to 2e-13 where it is a polynomial
            best *= 1.0 - gap * (1.0 - gap * (0.5 - gap / 6.0)) if gap < 1e-3 else math.exp(-gap)
            p = np.int64(best * 4294967296.0)
            r = 1 + _below(bits, MOST)
            # Most trials succeed: a branch on failures is cheaper here than counting successes without one.
            end = min(budget, spent + r)
            while spent < end:
                state, bits = word(state)
                spent += 1
                if bits < p:
                    r -= 1
                    removed += 1
                elif end < budget:
                    end += 1
            finished += r == 0
        return state, spent, removed, finished

    return run


def _random(word: Jitted, two: Jitted) -> Jitted:
    """A pool of the met entities with false values left, ``p * 32 + r`` each; the last fills the hole of a clean one.

    A draw beyond the pool is an entity not met before, which is added.
    """

    @njit
    def run(state, budget, entities, space):
        pool = space.pool
        spent = removed = finished = size = 0
        alive = entities
        while spent < budget and alive > 0:
            state, bits = word(state)
            slot = _below(bits, alive)
            if slot < size:
                entity = pool[slot]
            else:
                state, p, bits = two(state)
                entity = p * 32 + 1 + _below(bits, MOST)
                slot = size
                size += 1
            state, bits = word(state)
            hit = np.int64(bits < entity >> 5)
            entity -= hit
            spent += 1
            removed += hit
            if entity & 31 == 0:
                size -= 1
                alive -= 1
                finished += 1
                entity = pool[size] if slot < size else entity
            pool[slot] = entity
        return state, spent, removed, finished

    return run


def _greedy(word: Jitted, two: Jitted) -> Jitted:
    """The pool holds the entities tried in vain; after a first success the entity is cleaned to the end.

    For until then every estimate is 0, and after it this entity's is the only one above 0.
    """

    @njit
    def run(state, budget, entities, space):
        pool = space.pool
        spent = removed = finished = size = 0
        alive = entities
        while spent < budget and alive > 0:
            state, bits = word(state)
            slot = _below(bits, alive)
            if slot < size:
                entity = pool[slot]
            else:
                state, p, bits = two(state)
                entity = p * 32 + 1 + _below(bits, MOST)
                slot = size
                pool[slot] = entity
                size += 1
            p, r = entity >> 5, entity & 31
            state, bits = word(state)
            spent += 1
            if bits >= p:
                continue
            size -= 1
            pool[slot] = pool[size]
            tried, gained, left = 0, 1, budget - spent
            while tried < left and gained < r:
                state, bits = word(state)
                gained += bits < p
                tried += 1
            spent += tried
            removed += gained
            alive -= 1
            finished += gained == r
        return state, spent, removed, finished

    return run


# Columns of a record (an entity that was met) and of a bucket (the entities that share an estimate).
_P, _R, _TRIED, _GAINED, _SLOT, _PLACE = range(6)
_FIRST, _SIZE, _CAPACITY = range(3)


@njit
def _join(space, id_, rank, used):
    """An entity joins the bucket of an estimate; returns how much of ``members`` is used."""
    buckets, members = space.buckets, space.members
    size = buckets[rank, _SIZE]
    if size == buckets[rank, _CAPACITY]:
        room = max(4, 2 * size)
        for i in range(size):
            members[used + i] = members[buckets[rank, _FIRST] + i]
        buckets[rank, _FIRST] = used
        buckets[rank, _CAPACITY] = room
        used += room
        if size == 0:
            space.touched[1 + space.touched[0]] = rank
            space.touched[0] += 1
    if size == 0:
        space.bits[rank >> 6] |= U(1) << U(rank & 63)
        space.upper[rank >> 12] |= U(1) << U((rank >> 6) & 63)
    members[buckets[rank, _FIRST] + size] = id_
    space.records[id_, _PLACE] = size
    buckets[rank, _SIZE] = size + 1
    return used


@njit
def _leave(space, id_, rank):
    """An entity leaves the bucket of an estimate; the last one fills its place."""
    buckets, members = space.buckets, space.members
    size = buckets[rank, _SIZE] - 1
    first, place = buckets[rank, _FIRST], space.records[id_, _PLACE]
    last = members[first + size]
    members[first + place] = last
    space.records[last, _PLACE] = place
    buckets[rank, _SIZE] = size
    if size == 0:
        space.bits[rank >> 6] &= ~(U(1) << U(rank & 63))
        if space.bits[rank >> 6] == U(0):
            space.upper[rank >> 12] &= ~(U(1) << U((rank >> 6) & 63))


@njit
def _highest(space, top):
    """The highest estimate's rank, -1 where there is none; looked for from ``top`` on."""
    for i in range(top, -1, -1):
        if space.upper[i] != U(0):
            i = i << 6 | _highest_bit(space.upper[i])
            return i << 6 | _highest_bit(space.bits[i])
    return -1


def _epsilon_greedy(word: Jitted, two: Jitted, epsilon: float) -> Jitted:
    """Buckets of equal estimates under a bitmap of three levels, whose highest bit is the best estimate.

    An estimate is known by its rank among all fractions gained / tried that there can be, which a table gives
    (``ranks``, made once). A bucket is an array that doubles as it fills, so its tied entities are drawn from
    anew in each step. The pool is random's, of numbers of records.
    """
    threshold = int(epsilon * 2**32)

    @njit
    def run(state, budget, entities, space):
        pool, records, ranks = space.pool, space.records, space.ranks
        top = len(space.upper) - 1
        spent = removed = finished = size = met = used = 0
        alive = entities
        while spent < budget and alive > 0:
            state, bits = word(state)
            best = _highest(space, top) if bits >= threshold else -1
            state, bits = word(state)
            if best >= 0:
                id_ = np.int64(space.members[space.buckets[best, _FIRST] + _below(bits, space.buckets[best, _SIZE])])
            else:
                slot = _below(bits, alive)
                if slot < size:
                    id_ = pool[slot]
                else:
                    id_ = met
                    met += 1
                    state, p, bits = two(state)
                    records[id_, _P] = p
                    records[id_, _R] = 1 + _below(bits, MOST)
                    records[id_, _TRIED] = 0
                    records[id_, _GAINED] = 0
                    records[id_, _SLOT] = size
                    pool[size] = id_
                    size += 1
            tried, gained = np.int64(records[id_, _TRIED]), np.int64(records[id_, _GAINED])
            state, bits = word(state)
            hit = np.int64(bits < records[id_, _P])
            spent += 1
            removed += hit
            clean = gained + hit == records[id_, _R]
            old = ranks[tried, gained] if gained > 0 else -1
            new = -1 if clean or gained + hit == 0 else ranks[tried + 1, gained + hit]
            records[id_, _TRIED] = tried + 1
            records[id_, _GAINED] = gained + hit
            if old != new:
                if old >= 0:
                    _leave(space, id_, old)
                if new >= 0:
                    used = _join(space, id_, new, used)
            if clean:
                size -= 1
                alive -= 1
                finished += 1
                slot = records[id_, _SLOT]
                pool[slot] = pool[size]
                records[pool[slot], _SLOT] = slot
        for i in range(1, 1 + space.touched[0]):
            rank = space.touched[i]
            space.buckets[rank, _SIZE] = space.buckets[rank, _CAPACITY] = 0
            space.bits[rank >> 6] = space.upper[rank >> 12] = U(0)
        space.touched[0] = 0
        return state, spent, removed, finished

    return run


@cache
def _ranks(budget: int) -> np.ndarray:
    """The rank of gained / tried among all such fractions: int32, (budget + 1, MOST + 1), by tried and gained."""
    tried, gained = np.arange(budget + 1)[:, None], np.arange(MOST + 1)
    _, ranks = np.unique(gained / np.maximum(tried, gained).clip(1), return_inverse=True)
    return ranks.reshape(budget + 1, MOST + 1).astype(np.int32)


def _spread(run: Jitted, ranked: bool) -> Jitted:
    """Runs spread over the threads, a block each; the answers are int64, (runs, 3): spent, removed, finished."""

    @njit(parallel=True)
    def spread(seed, budget, entities, ranks, blocks):
        runs = len(entities)
        answers = np.empty((runs, 3), np.int64)
        length = budget + 1 if ranked else 1
        distinct = (ranks.max() >> 12) + 1
        for block in prange(blocks):
            space = Space(
                np.empty(budget + 1, np.int64),
                np.empty((length, 8), np.uint32),
                np.zeros((distinct << 12, 3), np.int32),
                np.empty(4 * length, np.int32),
                np.zeros(length + 1, np.int32),
                np.zeros(distinct << 6, np.uint64),
                np.zeros(distinct, np.uint64),
                ranks,
            )
            state = _start(seed, block)
            for i in range(runs * block // blocks, runs * (block + 1) // blocks):
                state, spent, removed, finished = run(state, budget, entities[i], space)
                answers[i, 0], answers[i, 1], answers[i, 2] = spent, removed, finished
        return answers

    return spread


_WORDS = {"np.random": (_twister_word, _twister_two), "xoroshiro128+": (_xoroshiro_word, _xoroshiro_two)}
_BUILD: dict[str, Callable[..., Jitted]] = {
    "known-sc": _known_sc, "random": _random, "greedy": _greedy, "epsilon-greedy": _epsilon_greedy, "ee": _ee,
}  # fmt: skip


@cache
def _compiled(policy: str, generator: str, epsilon: float) -> Jitted:
    knobs = {"epsilon-greedy": (epsilon,), "ee": (3, 3)}
    run = _BUILD[policy](*_WORDS[generator], *knobs.get(policy, ()))
    return _spread(run, policy == "epsilon-greedy")


def simulate(
    policy: str, generator: str, *, runs: int, seed: int = 0, budget: int = 10_000, entities: int = 50_000,
    epsilon: float = 0.5,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Independent runs of a policy: EE's (t, need) = (3, 3) with early stopping.

    Args:
        policy: one of ``POLICIES``.
        generator: one of ``GENERATORS``.
        runs: how many.
        seed: 0 to 2^32 - 1. The results depend on the number of threads too.
        budget: operations, 1 to 2^31 - 1.
        entities: those without a false value counted in, 1 to 2^31 - 1.
        epsilon: of epsilon-greedy; each is compiled.

    Returns:
        ``cleans``, ``removed`` and ``finished``: int64, (runs,) each.
    """
    ambiguous = np.random.default_rng(seed).binomial(entities, MOST / (MOST + 1), runs)
    ranks = _ranks(budget) if policy == "epsilon-greedy" else np.zeros((1, 1), np.int32)
    answers = _compiled(policy, generator, epsilon)(seed, budget, ambiguous, ranks, numba.get_num_threads())
    return {"cleans": answers[:, 0], "removed": answers[:, 1], "finished": answers[:, 2]}
