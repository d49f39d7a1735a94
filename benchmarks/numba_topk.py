"""Scalar numba loops for the top-K rules: what jaxbandit is timed against.

Bernoulli arms whose means are uniform on [0, 1], drawn afresh in each run, in units of 2^-24. Runs are spread over all
cores, one thread a core. An arm's pulls of a round are drawn in one go from the exact binomial law; selection is by
counts of equal totals, which is O(n); uniform sampling, OptMAI and SAR follow the library's schedules (of SAR, phases
that pull nothing are taken together). LUCB searches its two arms by vector instructions, and KL-LUCB solves for the
bounds of the few arms that can have the least.

Every loop is built over two samplers: numba's own (``np.random``, with its binomial), and one by hand: xoroshiro128+
in registers, and trials decided 64 at a time, bit by bit, until none is left open (``_halved``).
"""

import math
from functools import cache
from typing import Any

import numpy as np
from numba import njit, prange, types
from numba.extending import intrinsic

from benchmarks.numba_cleaning import U, _start, _xoroshiro
from jaxbandit.topk import fast
from jaxbandit.topk.optmai import optmai
from jaxbandit.topk.sar import sar

GENERATORS = ("np.random", "xoroshiro128+")
POLICIES = ("uniform", "optmai", "sar", "lucb", "kl-lucb")

Jitted = Any
_BITS = 24
_UNITS = 1 << _BITS


# Samplers. ``word(state) -> (state, 24 bits)``; ``binomial(state, count, mean) -> (state, successes)``, the mean in
# units of 2^-24. All integers are int64.


@njit
def _twister_word(state):
    return state, np.int64(np.random.random() * _UNITS)  # noqa: NPY002


@njit
def _twister_binomial(state, count, mean):
    return state, np.random.binomial(count, mean / _UNITS)  # noqa: NPY002


@njit
def _xoroshiro_word(state):
    state, out = _xoroshiro(state)
    return state, np.int64(out >> U(64 - _BITS))


@intrinsic
def _ones(typingctx, word):
    """How many bits of a uint64 are set."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@njit
def _halved(state, count, mean):
    """Compares the trials' random numbers with the mean, a bit of all of them at a time: about log2(count) + 2 words.

    Where the mean's bit is 1, trials whose bit is 0 succeed and the others stay open; where it is 0, trials whose bit
    is 1 fail. Which trials stay open does not matter, only how many.
    """
    if count == 1:
        state, out = _xoroshiro(state)
        return state, np.int64(np.int64(out >> U(64 - _BITS)) < mean)
    successes, bits = 0, mean
    while count > 0 and bits > 0:
        zeros, left = 0, count
        while left >= 64:
            state, out = _xoroshiro(state)
            zeros += _ones(out)
            left -= 64
        if left:
            state, out = _xoroshiro(state)
            zeros += _ones(out >> U(64 - left))
        bit = bits >> (_BITS - 1)
        successes += zeros * bit
        count = zeros + (count - 2 * zeros) * bit
        bits = (bits << 1) & (_UNITS - 1)
    return state, successes


# Selection. ``counts`` is int32 scratch memory that is all 0 before and after.


@njit
def _cut(values, size, want, counts):
    """The ``want``-th largest of the first ``size`` values (a small range), and how many are above."""
    low = high = values[0]
    for i in range(1, size):
        low, high = min(low, values[i]), max(high, values[i])
    for i in range(size):
        counts[values[i] - low] += 1
    above, at = 0, high
    while above + counts[at - low] < want:
        above += counts[at - low]
        at -= 1
    for value in range(low, high + 1):
        counts[value - low] = 0
    return at, above


@njit
def _best_sum(means, want, scratch, counts):
    """The sum of the ``want`` largest means: by their high bits, then those that share the last one's high bits."""
    n = means.size
    for i in range(n):
        counts[means[i] >> 12] += 1
    above, at = 0, (_UNITS - 1) >> 12
    while above + counts[at] < want:
        above += counts[at]
        at -= 1
    total, close = 0, 0
    for i in range(n):
        high = means[i] >> 12
        counts[high] = 0
        if high > at:
            total += means[i]
        elif high == at:
            scratch[close] = means[i]
            close += 1
    some = scratch[:close]
    some.sort()
    for i in range(want - above):
        total += some[close - 1 - i]
    return total


# The rules: ``run(state, means, ...) -> (state, sum of the chosen means, pulls, most pulls of an arm)``.
# ``plan`` is the schedule, a row (size, share, keep, by gap) a round; ``space`` is scratch memory, a row an array.


def _uniform(word: Jitted, binomial: Jitted) -> Jitted:
    @njit
    def run(state, means, want, budget, plan, space, counts):
        n, total = means.size, space[0]
        share = budget // n
        for i in range(n):
            state, total[i] = binomial(state, share, means[i])
        at, above = _cut(total, n, want, counts)
        room, chosen = want - above, 0
        for i in range(n):
            if total[i] > at:
                chosen += means[i]
            elif total[i] == at and room > 0:
                chosen += means[i]
                room -= 1
        return state, chosen, share * n, share

    return run


def _rounds(word: Jitted, binomial: Jitted) -> Jitted:
    """OptMAI with reused rewards, and SAR. Active arms are kept at the front, in order."""

    @njit
    def run(state, means, want, budget, plan, space, counts):
        mean, total, gap = space[0], space[1], space[2]
        active = means.size
        for i in range(active):
            mean[i] = means[i]
            total[i] = 0
        need, chosen, pulls, given = want, 0, 0, 0
        for row in range(plan.shape[0]):
            if need == 0 or need == active:
                break
            share, keep, by_gap = plan[row, 1], plan[row, 2], plan[row, 3]
            given += share
            pulls += share * active
            if share:
                for i in range(active):
                    state, more = binomial(state, share, mean[i])
                    total[i] += more
            left = 0
            if by_gap:
                kth, above = _cut(total, active, need, counts)
                after = -1
                level = 0
                for i in range(active):
                    if total[i] == kth:
                        level += 1
                    elif total[i] < kth:
                        after = max(after, total[i])
                if above + level > need:
                    after = kth
                for i in range(active):
                    gap[i] = max(total[i] - after, kth - total[i])
                far, beyond = _cut(gap, active, active - keep, counts)
                going, room = active - keep - beyond, need - above
                for i in range(active):
                    top = total[i] > kth
                    if total[i] == kth and room > 0:
                        top = True
                        room -= 1
                    gone = gap[i] > far
                    if gap[i] == far and going > 0:
                        gone = True
                        going -= 1
                    if gone:
                        if top:
                            chosen += mean[i]
                            need -= 1
                    else:
                        mean[left], total[left] = mean[i], total[i]
                        left += 1
            else:
                at, above = _cut(total, active, keep, counts)
                room = keep - above
                for i in range(active):
                    if total[i] > at or (total[i] == at and room > 0):
                        room -= total[i] == at
                        mean[left], total[left] = mean[i], total[i]
                        left += 1
            active = keep
        if need == active:
            for i in range(active):
                chosen += mean[i]
        return state, chosen, pulls, given

    return run


# LUCB. All bounds move in each round, as t does, so the two arms to pull are searched among all: by vector instructions
# (bounds above 0 are compared as integers, whose maximum LLVM vectorises), a block at a time, and then within the best
# block. Binary heaps of bounds for a later t, searched from the top, took five times as long: many arms are equal or
# nearly so. The chosen arms are those in the first K slots. Ties go to the lower arm, by 10^-12 of an arm's number.

_K1, _DELTA, _BLOCK, _TIE = 1.25, 0.1, 64, 1e-12


@njit
def _largest(values, start, end, bits):
    """The slot of the largest of ``values`` from ``start`` to ``end``; ``bits`` are the same as int64."""
    best, block = np.int64(0), start
    for low in range(start, end, _BLOCK):
        some = bits[low : min(low + _BLOCK, end)]
        found = np.int64(0)
        for i in range(some.size):
            found = max(found, some[i])
        if found > best:
            best, block = found, low
    while bits[block] != best:
        block += 1
    return block


@njit(fastmath=True)
def _reach(values, slopes, width, bounds):
    for i in range(bounds.size):
        bounds[i] = values[i] + width * slopes[i]


@njit
def _radius_of(mean, made, chosen, tie):
    """What is sought is the largest: of the chosen, 2 - the mean, and of the others, 1 + the mean; and its slope."""
    return (2 - mean if chosen else 1 + mean) - tie, 1 / math.sqrt(made)


@njit
def _by_radius(value, root, made, arm, want, t, bound, weak, strong):
    n = arm.size
    _reach(value, root, math.sqrt(0.5 * (math.log(_K1 * n / _DELTA) + 4 * math.log(t))), bound)
    bits = bound.view(np.int64)
    return _largest(bound, 0, want, bits), _largest(bound, want, n, bits)


# KL-LUCB. An upper bound is 1 less the lower one of 1 less the mean, so both searches are for the least lower bound.
# An arm's is below the least found so far where the divergence of that one is at most the arm's level: two products.

_KL_K1, _KL_ALPHA = 405.5, 1.1


@njit
def _divergence_of(mean, made, chosen, tie):
    """The mean whose lower bound is sought, and its entropy, negative."""
    p = mean if chosen else 1 - mean
    return p, p * math.log(p) + (1 - p) * math.log(1 - p) if 0 < p < 1 else 0.0


@njit
def _lower(p, entropy, level):
    """The least q whose divergence from ``p`` is at most ``level``: by Newton's method on x in q = p exp(-x)."""
    if p <= 0:
        return 0.0
    x = (level - entropy) / p + math.log(p)  # where ln(1 - q) counts as 0, which is beyond
    for _ in range(50):
        share = math.exp(-x)
        q = p * share
        rest = (1 - p) * math.log(1 - q) if p < 1 else 0.0
        step = (entropy - p * math.log(p) + p * x - rest - level) / max(p * (1 - share) / (1 - q), 1e-300)
        x = max(x - step, 0.0)
        if abs(step) <= 1e-12 * x:
            break
    return p * math.exp(-x)


@njit
def _least_bound(means, entropies, made, arm, rate, first, start, end):
    best = _lower(means[first], entropies[first], rate / made[first])
    log_q, log_other, at = math.log(max(best, 1e-300)), math.log(1 - best), first
    for slot in range(start, end):
        p = means[slot]
        if best < p and (entropies[slot] - p * log_q - (1 - p) * log_other) * made[slot] > rate:
            continue
        q = _lower(p, entropies[slot], rate / made[slot])
        if q < best or (q == best and arm[slot] < arm[at]):
            best, at = q, slot
            log_q, log_other = math.log(max(best, 1e-300)), math.log(1 - best)
    return at


@njit
def _by_divergence(value, root, made, arm, want, t, bound, weak, strong):
    x = math.log(_KL_K1 * arm.size / _DELTA) + _KL_ALPHA * math.log(t)
    rate = x + math.log(x)
    return (
        _least_bound(value, root, made, arm, rate, weak, 0, want),
        _least_bound(value, root, made, arm, rate, strong, want, arm.size),
    )


def _lucb(word: Jitted, binomial: Jitted, of: Jitted = _radius_of, search: Jitted = _by_radius) -> Jitted:
    @njit
    def place(slot, want, arm, total, made, value, level, root):
        mean, tie = total[slot] / made[slot], arm[slot] * _TIE
        value[slot], root[slot] = of(mean, made[slot], slot < want, tie)
        level[slot] = 2 - mean + tie if slot < want else 1 + mean - tie

    @njit
    def run(state, means, want, budget, plan, space, counts):
        n = means.size
        arm, total, made = space[0], space[1], space[2]
        value, level, root, bound = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
        level_bits = level.view(np.int64)
        ones = 0
        for i in range(n):
            state, bits = word(state)
            total[i] = bits < means[i]
            ones += total[i]
            made[i] = 1
        # Of equal means, the first arms are chosen.
        left, right, zeros = 0, want, max(0, want - ones)
        for i in range(n):
            if left < want and (total[i] == 1 or zeros > 0):
                zeros -= total[i] == 0
                arm[left] = i
                left += 1
            else:
                arm[right] = i
                right += 1
        for slot in range(n):
            bound[slot] = total[arm[slot]]
        for slot in range(n):
            total[slot] = bound[slot]
            place(slot, want, arm, total, made, value, level, root)
        out, into = _largest(level, 0, want, level_bits), _largest(level, want, n, level_bits)
        spent, t, weak, strong = n, 1, 0, want
        while spent < budget:
            weak, strong = search(value, root, made, arm, want, t, bound, weak, strong)
            for slot in (weak, strong):
                if spent < budget:
                    before = level[slot]
                    state, bits = word(state)
                    total[slot] += bits < means[arm[slot]]
                    made[slot] += 1
                    place(slot, want, arm, total, made, value, level, root)
                    spent += 1
                    if slot < want:
                        if level[slot] > level[out]:
                            out = slot
                        elif slot == out and level[slot] < before:
                            out = _largest(level, 0, want, level_bits)
                    elif level[slot] > level[into]:
                        into = slot
                    elif slot == into and level[slot] < before:
                        into = _largest(level, want, n, level_bits)
            if level[into] - 1 > 2 - level[out]:
                arm[out], arm[into] = arm[into], arm[out]
                total[out], total[into] = total[into], total[out]
                made[out], made[into] = made[into], made[out]
                place(out, want, arm, total, made, value, level, root)
                place(into, want, arm, total, made, value, level, root)
                out, into = _largest(level, 0, want, level_bits), _largest(level, want, n, level_bits)
            t += 1
        chosen, most = 0, 0
        for slot in range(want):
            chosen += means[arm[slot]]
        for slot in range(n):
            most = max(most, made[slot])
        return state, chosen, spent, most

    return run


def _kl_lucb(word: Jitted, binomial: Jitted) -> Jitted:
    return _lucb(word, binomial, _divergence_of, _by_divergence)


_RULES = {"uniform": _uniform, "optmai": _rounds, "sar": _rounds, "lucb": _lucb, "kl-lucb": _kl_lucb}
_SAMPLERS = {"np.random": (_twister_word, _twister_binomial), "xoroshiro128+": (_xoroshiro_word, _halved)}
_ROWS = 4


@cache
def _simulate(policy: str, generator: str) -> Jitted:
    word, binomial = _SAMPLERS[generator]
    rule = _RULES[policy](word, binomial)

    @njit(parallel=True)
    def simulate(runs, seed, n, want, budget, plan, threads):
        regret, pulls, most = np.zeros(runs), np.zeros(runs, np.int64), np.zeros(runs, np.int64)
        for thread in prange(threads):
            state = _start(seed, thread)
            means, space = np.zeros(n, np.int64), np.zeros((_ROWS, n), np.int64)
            counts = np.zeros(max(4096, budget + 1), np.int32)
            for run in range(thread, runs, threads):
                for arm in range(n):
                    state, means[arm] = word(state)
                state, chosen, pulls[run], most[run] = rule(state, means, want, budget, plan, space, counts)
                best = _best_sum(means, want, space[0], counts)
                regret[run] = (best - chosen) / (want * float(_UNITS))
        return regret, pulls, most

    return simulate


def simulate(
    policy: str, generator: str, *, runs: int, seed: int, arms: int, want: int, budget: int, threads: int
) -> dict[str, np.ndarray]:
    """Runs of a rule: "regret" (float64), "pulls" and "pulls_100" (int64), each of shape (runs,)."""
    plan = np.zeros((1, 4), np.int64)
    if policy == "optmai":
        plan = np.array(fast.optmai.rounds_of(optmai(arms, want, budget), arms), np.int64)
    if policy == "sar":
        plan = np.array(fast.sar.rounds_of(sar(arms, want, budget), arms), np.int64)
    found = _simulate(policy, generator)(runs, seed, arms, want, budget, plan, threads)
    return dict(zip(("regret", "pulls", "pulls_100"), found, strict=True))
