"""Scalar numba loops for the outlier-arm rules: what jaxbandit is timed against.

They follow the pseudocode of Zhuang et al. 2017 and of Ban and He 2020, one run a thread at a time, one pull after the
other. For k-sigma a pull takes O(1) work nearly always: sums over the arms are kept, radii are bounded by those at the
log terms of a sweep's ends, and one arm that is surely active shows that some are. Where the bounds do not decide, all
arms are tested as the papers say. For IB a pull looks at each arm. For GOLD it looks at the edges of the pulled arm, as
no other can be lost, by bounds likewise, and at communities only where two arms that were neighbours have no neighbour
in common. Rewards are drawn one by one, by xoroshiro128+ in registers. The log term (log(1/delta') or z^2, here the
reach) comes from the library's table.
"""

from typing import Any

import numpy as np
from numba import njit, prange

from benchmarks.numba_cleaning import _splitmix, _xoroshiro
from jaxbandit.outliers import GOLD, IB, NRR, WRR
from jaxbandit.outliers.intervals import width_of_threshold

U = np.uint64
SLACK = 1e-9  # what sums over a sweep may be off by, and more


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
def _half(bounded, m, s, reach):
    """An arm's radius, squared. It grows with the reach."""
    if bounded:
        return reach * 0.5 / m
    weight = m + reach
    share = (s + reach * 0.5) / weight
    return reach * share * (1 - share) / m


@njit
def _across(bounded, sums, n, k, scale, mu, sigma):
    """The radius of the threshold, from ``sums`` of squared radii, times 1, y and y^2."""
    if bounded:
        return np.sqrt(scale * sums[0] / n)
    turn = k / sigma if sigma > 0 else 0.0
    base = 1 - turn * mu
    square = base * base * sums[0] + 2 * base * turn * sums[1] + turn * turn * sums[2]
    return np.sqrt(max(square, 0.0)) / n


@njit
def _add(bounded, sums, half, y):
    """Adds an arm's squared radius to such sums."""
    sums[0] += half
    if not bounded:
        sums[1] += half * y
        sums[2] += half * y * y


@njit
def _tested(bounded, y, m, s, k, scale, reach):
    """Which arm is the most active one, by how much, the threshold, and its radius: all arms are looked at."""
    n = y.size
    mu = 0.0
    for i in range(n):
        mu += y[i]
    mu /= n
    square = 0.0
    for i in range(n):
        square += (y[i] - mu) ** 2
    sigma = np.sqrt(square / n)
    turn, across = k / sigma if sigma > 0 else 0.0, 0.0
    for i in range(n):
        half = _half(bounded, m[i], s[i], reach)
        across += half if bounded else (1 + turn * (y[i] - mu)) ** 2 * half
    across = np.sqrt(scale * across / n) if bounded else np.sqrt(across) / n
    theta, best, most = mu + k * sigma, 0, -np.inf
    for i in range(n):
        margin = np.sqrt(_half(bounded, m[i], s[i], reach)) + across - abs(y[i] - theta)
        if margin > most:
            best, most = i, margin
    return best, most, theta, across


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
def _k_sigma(bounded, p, truth, k, scale, table, rho, cap, runs, seed, threads):
    n = p.size
    answers = np.zeros((runs, 2))
    for thread in prange(threads):
        state = (_splitmix(U(seed) * U(1000003) + U(2 * thread + 1)), _splitmix(U(seed) * U(7919) + U(2 * thread + 2)))
        m, s, y = np.zeros(n), np.zeros(n), np.zeros(n)
        below, above, less, more = np.zeros(n), np.zeros(n), np.zeros(3), np.zeros(3)
        found = np.zeros(n, np.bool_)
        for number in range(thread, runs, threads):
            for i in range(n):
                state, word = _xoroshiro(state)
                m[i] = 1.0
                s[i] = 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                y[i] = s[i]
            total, i, witness, left = n, 0, 0, 0
            low = high = first = second = 0.0
            c = np.zeros(n)
            while True:
                if left == 0:  # a sweep begins
                    left, low, high = n, _reach(table, total), _reach(table, total + n)
                    first, second = y.sum(), (y * y).sum()
                    less[:] = more[:] = 0.0
                    for j in range(n):
                        below[j], above[j] = _half(bounded, m[j], s[j], low), _half(bounded, m[j], s[j], high)
                        _add(bounded, less, below[j], y[j])
                        _add(bounded, more, above[j], y[j])
                mu = first / n
                sigma = np.sqrt(max(second / n - mu * mu, 0.0))
                theta, across = mu + k * sigma, _across(bounded, less, n, k, scale, mu, sigma)
                some = np.sqrt(below[witness]) + across > abs(y[witness] - theta) + SLACK
                own = False
                if m[i] < c[i]:  # WRR pulls an arm again as long as it is active
                    gap = abs(y[i] - theta)
                    own = np.sqrt(below[i]) + across > gap + SLACK
                    some |= own
                    if not own:
                        most = np.sqrt(above[i]) + _across(bounded, more, n, k, scale, mu, sigma)
                        some &= most < gap - SLACK  # else the bounds do not tell
                if not some:
                    reach = _reach(table, total)
                    witness, margin, theta, across = _tested(bounded, y, m, s, k, scale, reach)
                    if margin <= 0:
                        break
                    own = m[i] < c[i] and np.sqrt(_half(bounded, m[i], s[i], reach)) + across > abs(y[i] - theta)
                if total >= cap:
                    break
                if not own:
                    i = i + 1 if i + 1 < n else 0
                    c[i] += rho
                state, word = _xoroshiro(state)
                _add(bounded, less, -below[i], y[i])
                if rho > 0:
                    _add(bounded, more, -above[i], y[i])
                first, second = first - y[i], second - y[i] * y[i]
                m[i] += 1.0
                s[i] += 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                y[i] = s[i] / m[i]
                first, second = first + y[i], second + y[i] * y[i]
                below[i] = _half(bounded, m[i], s[i], low)
                _add(bounded, less, below[i], y[i])
                if rho > 0:
                    above[i] = _half(bounded, m[i], s[i], high)
                    _add(bounded, more, above[i], y[i])
                total += 1
                left -= 1
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
        last = np.zeros(n, np.bool_)
        for number in range(thread, runs, threads):
            for i in range(n):
                state, word = _xoroshiro(state)
                m[i] = 1.0
                s[i] = 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                y[i] = s[i]
            total, i, same = n, 0, 0
            _outliers(y, k, last)
            first, second = y.sum(), (y * y).sum()
            while same < need and total < cap:
                i = i + 1 if i + 1 < n else 0
                state, word = _xoroshiro(state)
                first, second = first - y[i], second - y[i] * y[i]
                m[i] += 1.0
                s[i] += 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                y[i] = s[i] / m[i]
                first, second = first + y[i], second + y[i] * y[i]
                total += 1
                theta = first / n + k * np.sqrt(max(second / n - (first / n) ** 2, 0.0))
                other = 0
                for j in range(n):
                    other += last[j] != (y[j] > theta)
                same += 1
                if other > 0:
                    same = 0
                    for j in range(n):
                        last[j] = y[j] > theta
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
def _bounds(bounded, m, s, low, high, b):
    """Of an arm's radius times b, during a sweep."""
    near, far = np.sqrt(_half(bounded, m, s, low)), np.sqrt(_half(bounded, m, s, high))
    return b * near * (1 - SLACK), b * far * (1 + SLACK)


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
        m, s, y = np.zeros(n), np.zeros(n), np.zeros(n)
        near, far = np.zeros(n), np.zeros(n)  # bounds of the radii, times b
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
            while many < enough and total < cap:
                low, high = _reach(table, total), _reach(table, total + n)
                for i in range(n):
                    members[i] = not done[i]
                    near[i], far[i] = _bounds(bounded, m[i], s[i], low, high, b)
                for i in range(n):
                    if not members[i] or total >= cap:
                        continue
                    state, word = _xoroshiro(state)
                    m[i] += 1.0
                    s[i] += 1.0 if (word >> U(11)) * 2.0**-53 < p[i] else 0.0
                    y[i] = s[i] / m[i]
                    total += 1
                    near[i], far[i] = _bounds(bounded, m[i], s[i], low, high, b)
                    mine, lost, some = y[i], 0, 0
                    for j in range(n):
                        some += edge[i, j] & (abs(mine - y[j]) > near[i] + near[j])
                    if some > 0:
                        reach = _reach(table, total)
                        for j in range(n):
                            gap = abs(mine - y[j])
                            if (
                                edge[i, j]
                                and gap > near[i] + near[j]
                                and (
                                    gap > far[i] + far[j]
                                    or gap
                                    > b
                                    * (
                                        np.sqrt(_half(bounded, m[i], s[i], reach))
                                        + np.sqrt(_half(bounded, m[j], s[j], reach))
                                    )
                                )
                            ):
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
    answers = _k_sigma(bounded, p, truth, k, scale, table, rho, *ends)
    return answers
