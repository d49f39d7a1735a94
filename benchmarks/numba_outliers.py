"""Scalar numba loops for the outlier-arm rules: what jaxbandit is timed against.

They follow the pseudocode of Zhuang et al. 2017 and of Ban and He 2020 with O(n) work a pull, one run a thread at a
time. For k-sigma: a pull's mean, then mu and sigma, then the radii, then the test, which ends at the first active arm.
For GOLD: the edges of the pulled arm, as no other can be lost, and communities only where two arms that were neighbours
have no neighbour in common. Rewards are drawn one by one, by xoroshiro128+ in registers. The log term (log(1/delta')
or z^2, here the reach) comes from the library's table.
"""

from typing import Any

import numpy as np
from numba import njit, prange

from benchmarks.numba_cleaning import _splitmix, _xoroshiro
from jaxbandit.outliers import GOLD, IB, NRR, WRR
from jaxbandit.outliers.intervals import width_of_threshold

U = np.uint64


@njit
def _reach(table, total):
    octave = 0
    while total >> (octave + 1):
        octave += 1
    x = total / 2.0 ** (octave - 1) - 3.0
    later = last = 0.0
    for j in range(table.shape[1] - 1, 0, -1):
        later, last = 2 * x * later - last + table[octave, j], later
    return x * later - last + table[octave, 0]


@njit
def _active(bounded, y, m, k, scale, reach, beta, only):
    """Whether any arm is active (``only`` < 0), or that one."""
    n = y.size
    mu = 0.0
    for i in range(n):
        mu += y[i]
    mu /= n
    square = 0.0
    for i in range(n):
        square += (y[i] - mu) ** 2
    sigma = np.sqrt(square / n)
    theta = mu + k * sigma
    across = 0.0
    if bounded:
        for i in range(n):
            inverse = 1.0 / m[i]
            beta[i] = np.sqrt(reach * 0.5 * inverse)
            across += inverse
        across = np.sqrt(scale * reach * 0.5 * across / n)
    else:
        turn = k / sigma if sigma > 0 else 0.0
        for i in range(n):
            weight = m[i] + reach
            share = (y[i] * m[i] + reach * 0.5) / weight
            squared = reach * share * (1 - share) / m[i]
            beta[i] = np.sqrt(squared)
            across += (1 + turn * (y[i] - mu)) ** 2 * squared
        across = np.sqrt(across) / n
    some = False
    for i in range(n):
        if beta[i] + across > abs(y[i] - theta):
            some = True
            break
    if only < 0:
        return some, some
    return some, beta[only] + across > abs(y[only] - theta)


@njit
def _outliers(y, k, found):
    mu = 0.0
    for i in range(y.size):
        mu += y[i]
    mu /= y.size
    square = 0.0
    for i in range(y.size):
        square += (y[i] - mu) ** 2
    theta = mu + k * np.sqrt(square / y.size)
    for i in range(y.size):
        found[i] = y[i] > theta


@njit(parallel=True)
def _k_sigma(bounded, weighted, p, truth, k, scale, table, rho, cap, runs, seed, threads):
    n = p.size
    answers = np.zeros((runs, 2))
    for thread in prange(threads):
        state = (_splitmix(U(seed) * U(1000003) + U(2 * thread + 1)), _splitmix(U(seed) * U(7919) + U(2 * thread + 2)))
        m, s, y, beta = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
        found = np.zeros(n, np.bool_)
        for number in range(thread, runs, threads):
            for i in range(n):
                state, word = _xoroshiro(state)
                m[i] = 1.0
                s[i] = 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                y[i] = s[i]
            total, i, c = n, 0, np.zeros(n)
            some, own = _active(bounded, y, m, k, scale, _reach(table, total), beta, -1)
            while some and total < cap:
                i = i + 1 if i + 1 < n else 0
                c[i] += rho
                while True:
                    state, word = _xoroshiro(state)
                    m[i] += 1.0
                    s[i] += 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                    y[i] = s[i] / m[i]
                    total += 1
                    some, own = _active(bounded, y, m, k, scale, _reach(table, total), beta, i if weighted else -1)
                    if not weighted or not own or m[i] >= c[i] or total >= cap:
                        break
            _outliers(y, k, found)
            answers[number, 0] = total
            answers[number, 1] = np.all(found == truth)
    return answers


@njit(parallel=True)
def _naive(p, truth, k, need, cap, runs, seed, threads):
    n = p.size
    answers = np.zeros((runs, 2))
    for thread in prange(threads):
        state = (_splitmix(U(seed) * U(1000003) + U(2 * thread + 1)), _splitmix(U(seed) * U(7919) + U(2 * thread + 2)))
        m, s, y = np.zeros(n), np.zeros(n), np.zeros(n)
        found, last = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        for number in range(thread, runs, threads):
            for i in range(n):
                state, word = _xoroshiro(state)
                m[i] = 1.0
                s[i] = 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                y[i] = s[i]
            total, i, same = n, 0, 0
            _outliers(y, k, last)
            while same < need and total < cap:
                i = i + 1 if i + 1 < n else 0
                state, word = _xoroshiro(state)
                m[i] += 1.0
                s[i] += 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                y[i] = s[i] / m[i]
                total += 1
                _outliers(y, k, found)
                same += 1
                for j in range(n):
                    if found[j] != last[j]:
                        same = 0
                        last[j] = found[j]
            answers[number, 0] = total
            answers[number, 1] = np.all(last == truth)
    return answers


@njit(parallel=True)
def _iterative(p, truth, k, width, table, cap, runs, seed, threads):
    n = p.size
    answers = np.zeros((runs, 2))
    for thread in prange(threads):
        state = (_splitmix(U(seed) * U(1000003) + U(2 * thread + 1)), _splitmix(U(seed) * U(7919) + U(2 * thread + 2)))
        m, s, y, unit = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
        left, found = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        for number in range(thread, runs, threads):
            for i in range(n):
                state, word = _xoroshiro(state)
                m[i] = 1.0
                s[i] = 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                y[i], unit[i], left[i] = s[i], width * np.sqrt(0.5), True
            total, many = n, n
            while many > 0 and total < cap:
                # Only the root of the reach changes with T.
                root = np.sqrt(_reach(table, total))
                best, rival, top = -1, -1, -1.0
                for i in range(n):
                    if left[i] and (best < 0 or y[i] > y[best]):
                        best = i
                for i in range(n):
                    if left[i] and i != best:
                        upper = y[i] + root * unit[i]
                        if upper > top:
                            rival, top = i, upper
                if rival < 0 or y[best] - root * unit[best] >= top:
                    _outliers(y, k, found)
                    if not found[best]:
                        break
                    left[best] = False
                    many -= 1
                    continue
                i = rival
                if m[best] < m[rival] or (m[best] == m[rival] and best < rival):
                    i = best
                state, word = _xoroshiro(state)
                m[i] += 1.0
                s[i] += 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                y[i] = s[i] / m[i]
                unit[i] = width * np.sqrt(0.5 / m[i])
                total += 1
            _outliers(y, k, found)
            answers[number, 0] = total
            answers[number, 1] = np.all(found == truth)
    return answers


@njit
def _half(bounded, m, s, reach):
    """An arm's radius, squared."""
    if bounded:
        return reach * 0.5 / m
    weight = m + reach
    share = (s + reach * 0.5) / weight
    return reach * share * (1 - share) / m


@njit
def _parted(edge, arm, gone, lost):
    """Whether an arm and one that it lost the edge to have no neighbour in common."""
    for number in range(lost):
        common = False
        for j in range(edge.shape[0]):
            if edge[arm, j] and edge[gone[number], j]:
                common = True
                break
        if not common:
            return True
    return False


@njit
def _settle(edge, done, largest, seen, stack):
    """Marks the arms of small communities as done; how many there are."""
    n, fresh = done.size, 0
    seen[:] = done
    for start in range(n):
        if seen[start]:
            continue
        seen[start] = True
        stack[0], size, at = start, 1, 0
        while at < size:
            arm = stack[at]
            at += 1
            for j in range(n):
                if edge[arm, j] and not seen[j]:
                    seen[j] = True
                    stack[size] = j
                    size += 1
        if size <= largest:
            fresh += size
            for number in range(size):
                done[stack[number]] = True
    return fresh


@njit(parallel=True)
def _gold(bounded, p, truth, b, largest, enough, table, cap, runs, seed, threads):
    n = p.size
    answers = np.zeros((runs, 2))
    for thread in prange(threads):
        state = (_splitmix(U(seed) * U(1000003) + U(2 * thread + 1)), _splitmix(U(seed) * U(7919) + U(2 * thread + 2)))
        m, s, y, unit = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
        edge = np.ones((n, n), np.bool_)
        done, seen, members = np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        stack, gone = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for number in range(thread, runs, threads):
            edge[:] = True
            done[:] = False
            many, total = 0, n
            for i in range(n):
                state, word = _xoroshiro(state)
                m[i] = 1.0
                s[i] = 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                y[i] = s[i]
                unit[i] = b * np.sqrt(0.5)
            while many < enough and total < cap:
                for i in range(n):
                    members[i] = not done[i]
                for i in range(n):
                    if not members[i] or total >= cap:
                        continue
                    state, word = _xoroshiro(state)
                    m[i] += 1.0
                    s[i] += 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                    y[i] = s[i] / m[i]
                    total += 1
                    reach = _reach(table, total)
                    mine, lost = y[i], 0
                    if bounded:
                        # Only the root of the reach changes with T.
                        unit[i] = b * np.sqrt(0.5 / m[i])
                        root, own = np.sqrt(reach), unit[i]
                        for j in range(n):
                            if edge[i, j] and abs(mine - y[j]) > root * (own + unit[j]):
                                edge[i, j] = edge[j, i] = False
                                gone[lost] = j
                                lost += 1
                    else:
                        own = np.sqrt(_half(bounded, m[i], s[i], reach))
                        for j in range(n):
                            if edge[i, j] and abs(mine - y[j]) > b * (own + np.sqrt(_half(bounded, m[j], s[j], reach))):
                                edge[i, j] = edge[j, i] = False
                                gone[lost] = j
                                lost += 1
                    if lost > 0 and _parted(edge, i, gone, lost):
                        many += _settle(edge, done, largest, seen, stack)
            answers[number, 0] = total
            answers[number, 1] = np.all(done == truth)
    return answers


def simulate(
    rule: Any, table: np.ndarray, p: np.ndarray, truth: np.ndarray, *, cap: int, runs: int, seed: int, threads: int
) -> np.ndarray:
    """Runs of one of our rules with its table of log terms: float64, (runs, 2), the pulls and whether the set found is
    ``truth`` (bool, (n,))."""
    answers: np.ndarray
    bounded, ends = rule.interval.name == "bounded", (cap, runs, seed, threads)
    if isinstance(rule, GOLD):
        answers = _gold(bounded, p, truth, rule.b.exact(), int(rule.largest), int(rule.enough), table, *ends)
        return answers
    k = rule.interval.k.exact()
    if isinstance(rule, NRR):
        answers = _naive(p, truth, k, int(rule.need), *ends)
        return answers
    if isinstance(rule, IB):
        answers = _iterative(p, truth, k, np.sqrt(2) * rule.scale.exact(), table, *ends)
        return answers
    ratio = rule.rho if isinstance(rule, WRR) else None
    rho = float(ratio.units) + float(ratio.part) / float(ratio.parts) if ratio else 0.0
    scale = width_of_threshold(p.size, k, rule.interval.delta.exact())
    answers = _k_sigma(bounded, rho > 0, p, truth, k, scale, table, rho, *ends)
    return answers
