"""Every outlier rule against its oracle on shared tapes, leaping and pull by pull."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxbandit.engine import simulate
from jaxbandit.outliers.intervals import NAMES, interval
from jaxbandit.outliers.leap import DECIDED, FLAT
from jaxbandit.outliers.nrr import NRR, patience
from jaxbandit.outliers.problem import MOST, OUTCOME, Bernoulli, few
from jaxbandit.outliers.rr import RR
from jaxbandit.outliers.twofold import Twofold
from jaxbandit.outliers.wrr import WRR, Share
from jaxbandit.random import stream, substream, words
from tests.oracles import outliers as oracles

N, CAP, RUNS, BLOCK = 6, 1500, 3, 256
CLEAR = 1e-9
"""Decisions with a margin below this are not compared: the oracle's own are of float64."""


@lru_cache(maxsize=4096)
def block(seed: int, run: int, arm: int, number: int) -> np.ndarray:
    return np.asarray(_block(np.uint32(seed), np.uint32(run), np.uint32(arm), np.uint32(number)))


@jax.jit
def _block(seed: Any, run: Any, arm: Any, number: Any) -> Any:
    return words(substream(stream(seed, run), OUTCOME), arm, number * BLOCK + jnp.arange(BLOCK, dtype=jnp.uint32))[0]


def tape(p: np.ndarray, seed: int, run: int) -> Callable[[int, int], int]:
    limits = (p.astype(np.float32) * np.float32(2**32)).astype(np.uint64)
    return lambda arm, j: int(block(seed, run, arm, j // BLOCK)[j % BLOCK] < limits[arm])


def instances(many: int, seed: int) -> tuple[list[np.ndarray], list[float]]:
    """Arms with and without an outlier, with means at the ends of the range, and all alike; and a k for each."""
    rng = np.random.default_rng(seed)
    means, ks = [], []
    for number in range(many):
        p = np.round(rng.uniform(0, 0.4, N), 2)
        if number % 5:
            p[rng.integers(N)] = 0.97
        if number % 7 == 0:
            p[rng.integers(N)] = 1.0
        if number % 11 == 0:
            p[:] = number % 2
        means.append(p)
        ks.append(float(rng.choice([0.9, 1.3, 1.7, 2.0])))
    return means, ks


def compare(
    policy: Callable[[float, bool], Any],
    oracle: Callable[..., oracles.Run],
    seed: int,
    many: int = 10,
    ends: bool = True,
) -> None:
    means, ks = instances(many, seed)
    problems = [Bernoulli(jnp.asarray(p, jnp.float32), True) for p in means]
    answers = [
        simulate(problems, [policy(k, leaping) for k in ks], runs=RUNS, seed=seed, lanes=64)
        for leaping in (True, False)
    ]
    compared = leapt = 0
    for number, (p, k) in enumerate(zip(means, ks, strict=True)):
        for run in range(RUNS):
            leap, step = ({name: v[number, run] for name, v in some.items()} for some in answers)
            for name in leap:
                assert np.array_equal(leap[name], step[name]), (name, p, k, run)
            trace = oracle(tape(p, seed, run), k)
            if trace.margin < CLEAR or trace.ties:
                continue
            compared += 1
            assert int(leap["pulls"]) == len(trace.pulls), (p, k, run)
            assert (int(leap["code"]) > DECIDED) == trace.capped
            if trace.capped and p.min() == p.max() and p[0] in (0, 1):
                assert int(leap["code"]) == FLAT
            assert leap["arm_pulls"].tolist() == trace.counts(N)
            if trace.answer_margin > CLEAR:
                assert set(np.flatnonzero(leap["outliers"])) == trace.outliers
            leapt += len(trace.pulls) > 3 * N and not trace.capped
    assert compared > many * RUNS / 2
    assert leapt > compared / 5 or not ends


@pytest.mark.parametrize("name", NAMES)
def test_rr_is_its_oracle(name: str) -> None:
    def policy(k: float, leaping: bool) -> RR:
        return RR(Twofold.of(k), interval(name, N, 0.1, k=k), np.int32(CAP), np.int32(1), np.bool_(leaping), N)

    compare(policy, lambda reward, k: oracles.rr(reward, N, k, 0.1, name, cap=CAP), 1, ends=name != "bounded")


@pytest.mark.parametrize(("name", "rho"), [("bounded", 2.5), ("bernoulli", 1.0), ("bernoulli-corrected", 2.5)])
def test_wrr_is_its_oracle(name: str, rho: float) -> None:
    def policy(k: float, leaping: bool) -> WRR:
        of = interval(name, N, 0.1, k=k)
        return WRR(Twofold.of(k), of, Share.of(rho), np.int32(CAP), np.int32(1), np.bool_(leaping), N)

    compare(policy, lambda reward, k: oracles.wrr(reward, N, k, 0.1, rho, name, cap=CAP), 2, ends=name != "bounded")


def test_nrr_is_its_oracle() -> None:
    delta = 0.03

    def policy(k: float, leaping: bool) -> NRR:
        of = interval("bounded", N, delta, k=k)
        need = np.int32(patience(delta))
        return NRR(Twofold.of(k), of, need, np.int32(CAP), np.int32(1), np.bool_(leaping), N)

    compare(policy, lambda reward, k: oracles.nrr(reward, N, k, delta, cap=CAP), 3)


@pytest.mark.parametrize("p", [0.0, 0.003, 0.3, 0.5, 0.92, 1.0])
@pytest.mark.parametrize("count", [0, 1, 7, MOST])
def test_successes_of_a_few_pulls_have_the_binomial_law(p: float, count: int) -> None:
    words = (np.arange(2**16, dtype=np.uint64) * 2**16 + 2**15).astype(np.uint32)
    found = few(jnp.asarray(words), jnp.full(words.shape, p, jnp.float32), jnp.full(words.shape, count, jnp.int32))
    shares = np.bincount(np.asarray(found), minlength=count + 1) / words.size
    assert shares.size == count + 1
    assert np.abs(shares - stats.binom.pmf(np.arange(count + 1), count, p)).max() < 2.5 / words.size


def test_leaping_changes_nothing_in_long_runs() -> None:
    n = 12
    p = jnp.asarray(np.append(np.linspace(0.2, 0.4, n - 1), 0.9), jnp.float32)
    of = interval("bernoulli-corrected", n, 0.1, k=2.0)
    common = (Twofold.of(2.0), of), (np.int32(60_000), np.int32(1))
    for rule, extra in ((RR, ()), (WRR, (Share.of(3.3),))):
        policies = [rule(*common[0], *extra, *common[1], np.bool_(leaping), n) for leaping in (True, False)]
        answers = simulate(Bernoulli(p, True), policies, runs=8, seed=4)
        assert answers["pulls"].min() > 100 * n  # else nothing was long
        for values in answers.values():
            assert np.array_equal(values[0], values[1])
