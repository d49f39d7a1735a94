"""Scalar numba loops for CRUX with Chao92 and Shen's estimator (GSChao): what jaxbandit is timed against.

One run a thread at a time, an active node's frequency counts kept up to date with each answer, and its estimates
renewed only then. Readings are the defaults of ``tests/oracles/extraction.py``; ``bootstrap`` is how many samples
estimate a variance at a node of few answers (at others it is by the delta method), 0 for its floor alone.

A proportional answer is drawn by binary search in a node's cumulative popularities, repeats being dropped. For the
k largest of uniform x popularity, a node's members are looked at by descending popularity until none can be among them.
Random words come from xoroshiro128+, in registers.
"""

import math
import os

import numpy as np
from numba import njit, prange

from benchmarks.numba_cleaning import _splitmix, _xoroshiro
from benchmarks.numpy_extraction import FEW, FLOOR, LISTS, REMOVALS, TABLE, Arrays, arrays, capacity, delta
from jaxbandit.extraction import Domain, Extraction

U = np.uint64
_delta = njit(delta)


@njit
def _uniform(state):
    state, word = _xoroshiro(state)
    return state, (word >> U(11)) * 2.0**-53


@njit
def _proportional(of, state, node, k, exclude, excluded, out):
    begin, end = of.start[node], of.start[node + 1]
    inside = 0
    for j in range(excluded):
        above = of.ancestors[of.leaf[exclude[j]]]
        for a in above:
            if a == node:
                inside += 1
    wanted = min(k, end - begin - inside)
    found, tries = 0, 0
    while found < wanted:
        tries += 1
        if tries > 50 * k:  # so few have popularity left that all of them are looked at
            return state, _by_clocks(of, begin, end, wanted, exclude, excluded, out, found, state)
        state, u = _uniform(state)
        u *= of.until[end - 1]
        low, high = begin, end - 1
        while low < high:
            middle = (low + high) // 2
            if of.until[middle] > u:
                high = middle
            else:
                low = middle + 1
        entity = of.member[low]
        new = True
        for j in range(excluded):
            new = new and exclude[j] != entity
        for j in range(found):
            new = new and out[j] != entity
        if new:
            out[found] = entity
            found += 1
    return state, found


@njit
def _by_clocks(of, begin, end, wanted, exclude, excluded, out, found, state):
    rings = np.full(wanted, np.inf)
    first = found
    for i in range(begin, end):
        entity = of.member[i]
        new = True
        for j in range(excluded):
            new = new and exclude[j] != entity
        for j in range(first):
            new = new and out[j] != entity
        state, u = _uniform(state)
        if new:
            found = _insert(rings, out, first, found, wanted, -np.log1p(-u) / of.weight[entity], entity)
    return found


@njit
def _insert(keys, out, first, found, most, key, entity):
    """Keeps the ``most`` smallest keys of places from ``first`` on in order; returns how many there are."""
    if found == most and key >= keys[most - 1]:
        return found
    place = min(found, most - 1)
    while place > first and keys[place - 1] > key:
        keys[place], out[place] = keys[place - 1], out[place - 1]
        place -= 1
    keys[place], out[place] = key, entity
    return min(found + 1, most)


@njit
def _k_largest(of, state, node, k, exclude, excluded, out):
    keys = np.full(k, np.inf)
    found = 0
    for i in range(of.start[node], of.start[node + 1]):
        entity = of.member[i]
        if found == k and of.weight[entity] <= -keys[k - 1]:
            break
        new = True
        for j in range(excluded):
            new = new and exclude[j] != entity
        state, u = _uniform(state)
        if new:
            found = _insert(keys, out, 0, found, k, -u * of.weight[entity], entity)
    return state, found


@njit
def _subset(state, size, count, chosen):
    """``count`` of 0 ... size - 1 at random (Floyd)."""
    for j in range(count):
        top = size - count + j
        state, u = _uniform(state)
        drawn = int(u * (top + 1))
        for i in range(j):
            if chosen[i] == drawn:
                drawn = top
                break
        chosen[j] = drawn
    return state


@njit
def _gain(n, distinct, ones, pairs, m):
    """Chao92 and Shen, from n, D, f1 and the sum of i (i - 1) f_i."""
    unseen = ones / n
    cover = 1 - unseen
    if cover <= 0:
        return m * unseen
    gamma = max(distinct / cover * pairs / (n * (n - 1)) - 1, 0.0)
    f0 = distinct / cover + n * unseen / cover * gamma - distinct
    if unseen <= 0 or f0 <= 0:
        return 0.0
    return f0 * (1 - max(1 - unseen / f0, 0.0) ** m)


@njit
def _listed(of, state, counts, n, distinct, ones, pairs, c, chosen):
    """The gain of configuration c with one exclude list drawn from entities that came ``counts`` times each."""
    length = of.length[c]
    if length >= distinct:
        return state, float(of.k[c])
    state = _subset(state, distinct, length, chosen)
    for j in range(length):
        i = counts[chosen[j]]
        n, ones, pairs = n - i, ones - (i == 1), pairs - i * (i - 1)
    return state, _gain(n, distinct - length, ones, pairs, of.k[c])


@njit
def _estimate(of, state, counts, n, gain, variance, bootstrap, answers, some, present, chosen):
    """Gains and variances of a node whose entities came ``counts`` times each; ``answers`` has each answer's entity."""
    distinct, ones, pairs = counts.size, 0, 0
    for i in counts:
        ones, pairs = ones + (i == 1), pairs + i * (i - 1)
    for c in range(of.k.size):
        if of.length[c] == 0:
            gain[c] = _gain(n, distinct, ones, pairs, of.k[c])
        else:
            total = 0.0
            for _ in range(LISTS):
                state, one = _listed(of, state, counts, n, distinct, ones, pairs, c, chosen)
                total += one
            gain[c] = total / LISTS
        variance[c] = 0.0
    if bootstrap == 0:
        return state
    if n > FEW:
        sums = np.zeros(TABLE.shape[0])
        for i in counts:
            sums += TABLE[:, i]
        for c in range(of.k.size):
            both, fall, own = _delta(sums, of.k[c], of.length[c])
            short = 0.5 * math.erfc(-fall / math.sqrt(2)) if of.length[c] else 0.0
            variance[c] = (1 - short) * (both + short * (of.k[c] - own) ** 2)
        return state
    mean, square = np.zeros(of.k.size), np.zeros(of.k.size)
    for _ in range(bootstrap):
        some[:distinct] = 0
        for _ in range(n):
            state, u = _uniform(state)
            some[answers[int(u * n)]] += 1
        there, ones, pairs = 0, 0, 0
        for e in range(distinct):
            i = some[e]
            if i > 0:
                present[there] = i
                there, ones, pairs = there + 1, ones + (i == 1), pairs + i * (i - 1)
        for c in range(of.k.size):
            if of.length[c] == 0:
                one = _gain(n, there, ones, pairs, of.k[c])
            else:
                state, one = _listed(of, state, present[:there], n, there, ones, pairs, c, chosen)
            mean[c] += one
            square[c] += one * one
    for c in range(of.k.size):
        variance[c] = max(square[c] / bootstrap - (mean[c] / bootstrap) ** 2, 0.0)
    return state


@njit
def _widen(width, variance, asked, s):
    """Renews a slot's confidence bounds, but for the root of log t."""
    for c in range(width.shape[1]):
        width[s, c] = np.sqrt(max(variance[s, c], FLOOR) / max(asked[s, c], 1))


@njit
def _keep_good(active, among, gain, width, filled, t):
    """Algorithm 2, lines 14 to 16."""
    best, root = -np.inf, np.sqrt(np.log(t))
    for s in range(filled):
        for c in range(active.shape[1]):
            if among[s, c]:
                best = max(best, gain[s, c] - width[s, c] * root)
    for s in range(filled):
        for c in range(active.shape[1]):
            active[s, c] = among[s, c] and gain[s, c] + width[s, c] * root >= best


@njit(parallel=True)
def run(of, largest, budget, removal, bootstrap, slots, most, runs, seed, threads):
    """int64, (runs, 3): the distinct entities, queries and nodes of each run; -1 where ``slots`` were too few."""
    result = np.zeros((runs, 3), np.int64)
    configurations = of.k.size
    for thread in prange(threads):
        state = (_splitmix(U(seed) * U(1000003) + U(2 * thread + 1)), _splitmix(U(seed) * U(7919) + U(2 * thread + 2)))
        slot_of = np.full(of.specificity.size, -1, np.int32)
        row_of = np.full(of.leaf.size, -1, np.int32)
        entity, times = np.zeros(most, np.int32), np.zeros(most, np.int64)
        node, n, distinct = np.zeros(slots, np.int32), np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        rows, answers = np.empty((slots, most), np.int32), np.empty((slots, most), np.int32)
        place = np.empty((slots, most), np.int32)  # of a row in its node's ``rows``
        counts, some, present = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
        gain, variance = np.zeros((slots, configurations)), np.zeros((slots, configurations))
        asked = np.zeros((slots, configurations), np.int64)
        width = np.zeros((slots, configurations))
        active = np.zeros((slots, configurations), np.bool_)
        among = np.zeros((slots, configurations), np.bool_)
        stale, void = np.zeros(slots, np.bool_), np.zeros(slots, np.bool_)
        barren = np.zeros(slots, np.bool_)
        exclude, chosen = np.zeros(of.length.max() + 1, np.int64), np.zeros(of.length.max() + 1, np.int64)
        out = np.zeros(of.k.max(), np.int64)
        for number in range(thread, runs, threads):
            filled, size, left, t = 1, 0, budget, 1
            node[0], slot_of[0], n[0], distinct[0], void[0], barren[0] = 0, 0, 0, 0, False, False
            for c in range(configurations):
                gain[0, c], variance[0, c], asked[0, c], among[0, c] = of.k[c], 0.0, 0, True
            _widen(width, variance, asked, 0)
            if removal == 0:
                active[0] = True
            else:
                _keep_good(active, among, gain, width, filled, t)
            while left > 0:
                best, s, c, root = -np.inf, -1, -1, np.sqrt(np.log(t))
                for i in range(filled):
                    for j in range(configurations):
                        cost = of.cost[j, of.specificity[node[i]]]
                        if active[i, j] and cost <= left:
                            score = (gain[i, j] + width[i, j] * root) / cost
                            if score > best or (score == best and node[i] < node[s]):
                                best, s, c = score, i, j
                if s < 0:
                    break
                excluded = min(of.length[c], distinct[s])
                state = _subset(state, distinct[s], excluded, chosen)
                for j in range(excluded):
                    exclude[j] = entity[rows[s, chosen[j]]]
                if largest:
                    state, found = _k_largest(of, state, node[s], of.k[c], exclude, excluded, out)
                else:
                    state, found = _proportional(of, state, node[s], of.k[c], exclude, excluded, out)
                left -= of.cost[c, of.specificity[node[s]]]
                asked[s, c] += 1
                if found == 0 and not (distinct[s] > 0 and excluded == distinct[s]):
                    barren[s] = True
                    for i in range(filled):
                        for a in of.ancestors[node[i]]:
                            if a == node[s]:
                                void[i] = stale[i] = True
                for j in range(found):
                    row = row_of[out[j]]
                    new = row < 0
                    if new:
                        row = row_of[out[j]] = size
                        entity[row], times[row] = out[j], 0
                        size += 1
                    times[row] += 1
                    for a in of.ancestors[of.leaf[out[j]]]:
                        i = slot_of[a] if a >= 0 else -1
                        if i >= 0:
                            if new:
                                place[i, row] = distinct[i]
                                rows[i, distinct[i]] = row
                                distinct[i] += 1
                            answers[i, n[i]] = place[i, row]
                            n[i] += 1
                            stale[i] = True
                for i in range(filled):
                    for j in range(configurations):
                        among[i, j] = True if removal == 2 else active[i, j]
                for d in of.child[of.child_start[node[s]] : of.child_start[node[s] + 1]]:
                    i = slot_of[d]
                    if i < 0:
                        if filled == slots:
                            result[number, 0] = -1
                            left = 0
                            break
                        i = slot_of[d] = filled
                        filled += 1
                        node[i], n[i], distinct[i], stale[i] = d, 0, 0, True
                        void[i] = barren[i] = False
                        asked[i] = 0
                        for a in of.ancestors[d]:
                            if a >= 0 and slot_of[a] >= 0 and barren[slot_of[a]]:
                                void[i] = True
                        for row in range(size):
                            for a in of.ancestors[of.leaf[entity[row]]]:
                                if a == d:
                                    place[i, row] = distinct[i]
                                    rows[i, distinct[i]] = row
                                    distinct[i] += 1
                                    for _ in range(times[row]):
                                        answers[i, n[i]] = place[i, row]
                                        n[i] += 1
                    for j in range(configurations):
                        among[i, j] = True
                for i in range(filled):
                    if stale[i] and among[i].any():
                        stale[i] = False
                        if void[i] or n[i] == 0:
                            for j in range(configurations):
                                gain[i, j], variance[i, j] = 0.0 if void[i] else of.k[j], 0.0
                        else:
                            for j in range(distinct[i]):
                                counts[j] = times[rows[i, j]]
                            state = _estimate(
                                of, state, counts[: distinct[i]], n[i], gain[i], variance[i], bootstrap, answers[i],
                                some, present, chosen,
                            )  # fmt: skip
                        _widen(width, variance, asked, i)
                _widen(width, variance, asked, s)
                if removal == 0:
                    active[:filled] = among[:filled]
                else:
                    _keep_good(active, among, gain, width, filled, t)
                t += 1
            if result[number, 0] == 0:
                result[number] = size, t - 1, filled
            for row in range(size):
                row_of[entity[row]] = -1
            for i in range(filled):
                slot_of[node[i]] = -1
                stale[i] = False
    return result


def simulate(
    domain: Domain, problem: Extraction, *, removal: str = "lasting", bootstrap: int = 10, runs: int, seed: int,
    threads: int | None = None, slots: int = 16384, of: Arrays | None = None,
) -> np.ndarray:  # fmt: skip
    """Distinct entities, queries and nodes of each run, int64 (runs, 3), of one of our problems; ``of``: its arrays."""
    of = of or arrays(domain, problem)
    most = capacity(of, int(problem.budget))
    slots = min(slots, of.specificity.size)
    found: np.ndarray = run(of, problem.crowd.model == "k-largest", int(problem.budget), REMOVALS.index(removal),
                            bootstrap, slots, most, runs, seed, threads or os.cpu_count() or 1)  # fmt: skip
    return found
