"""Scalar numba loops for the outlier-arm rules: what jaxbandit is timed against.

They follow the pseudocode of Zhuang et al. 2017 with O(n) work a pull, one run a thread at a time: a pull's mean, then
mu and sigma, then the radii, then the test, which ends at the first active arm. Rewards are drawn one by one, by
xoroshiro128+ in registers. The reach (log(1/delta') or z^2) comes from the library's table.
"""

from typing import Any

import numpy as np
from numba import njit, prange

from benchmarks.numba_cleaning import _splitmix, _xoroshiro

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


@njit(parallel=True)
def run(bounded, weighted, p, k, scale, table, rho, cap, runs, seed, threads):
    """The pulls of each run: int64, shape (runs,)."""
    n = p.size
    pulls = np.zeros(runs, np.int64)
    for thread in prange(threads):
        state = (_splitmix(U(seed) * U(1000003) + U(2 * thread + 1)), _splitmix(U(seed) * U(7919) + U(2 * thread + 2)))
        m, s, y, beta = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
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
            pulls[number] = total
    return pulls


def simulate(policy: Any, p: np.ndarray, *, rho: float, runs: int, seed: int, threads: int) -> np.ndarray:
    """Runs of RR, or of WRR where ``rho`` > 0, with the interval of one of ours."""
    double = [np.asarray(x.hi, np.float64) + np.asarray(x.lo, np.float64) for x in (policy.of.reach, policy.of.scale)]
    k = float(policy.k.hi) + float(policy.k.lo)
    pulls: np.ndarray = run(policy.of.name == "bounded", rho > 0, p, k, float(double[1]), double[0], rho,
                            int(policy.cap), runs, seed, threads)  # fmt: skip
    return pulls
