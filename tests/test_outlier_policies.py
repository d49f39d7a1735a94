"""Every outlier rule, as it is written and in its faster implementation, against its oracle on shared tapes."""

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from scipy import stats

from jaxbandit.arms.problem import given
from jaxbandit.engine import simulate
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Implementation, accelerated
from jaxbandit.outliers import fast
from jaxbandit.outliers.double_float import DoubleFloat
from jaxbandit.outliers.fast.gold import GOLDInBatches
from jaxbandit.outliers.fast.gold import State as BatchState
from jaxbandit.outliers.fast.ib import IBInBatches
from jaxbandit.outliers.fast.log_terms import tabulated
from jaxbandit.outliers.fast.rr import RRInBatches
from jaxbandit.outliers.fast.wrr import WRRInBatches
from jaxbandit.outliers.gold import GOLD, NEVER, factor, sizes
from jaxbandit.outliers.ib import IB
from jaxbandit.outliers.ib import State as IBState
from jaxbandit.outliers.intervals import NAMES, interval
from jaxbandit.outliers.nrr import NRR, patience
from jaxbandit.outliers.problem import MOST, OUTCOME, OutlierArms, few
from jaxbandit.outliers.record import DECIDED, FLAT, Seen
from jaxbandit.outliers.rr import RR
from jaxbandit.outliers.truth import Labelled
from jaxbandit.outliers.wrr import WRR, Ratio
from jaxbandit.random import stream, substream, words
from jaxbandit.random.trials import UNITS
from tests.oracles import outliers as oracles

N, CAP, RUNS, BLOCK, GOLD_CAP = 6, 1500, 3, 256, 6000
CLEAR = 1e-9
"""Decisions with a margin below this are not compared: the oracle's own are of float64."""


def arms(p: Any, cap: int = CAP, levels: Any = None) -> OutlierArms:
    """Arms on a tape, in the order of their means, of which a run's answer shows each."""
    labels = np.zeros(len(p)) if levels is None else levels
    source = Labelled(given(p, shuffled=False), jnp.asarray(labels, jnp.int32))
    return OutlierArms(jnp.int32(cap), source, on_tape=True, show_arms=True)


def both(problem: Any, policy: Any, **of: Any) -> dict[str, np.ndarray]:
    """The answers of a rule, which are those of its faster implementation, bit for bit."""
    reference, fast_answers = (simulate(problem, policy, implementation=name, **of) for name in ("reference", "fast"))
    assert reference.keys() == fast_answers.keys() >= {"outliers", "arm_pulls", "pulls", "code"}
    for name, values in reference.items():
        assert np.array_equal(values, fast_answers[name]), name
    return reference


@lru_cache(maxsize=4096)
def block(seed: int, run: int, arm: int, number: int) -> np.ndarray:
    return np.asarray(_block(np.uint32(seed), np.uint32(run), np.uint32(arm), np.uint32(number)))


@jax.jit
def _block(seed: Any, run: Any, arm: Any, number: Any) -> Any:
    return words(substream(stream(seed, run), OUTCOME), arm, number * BLOCK + jnp.arange(BLOCK, dtype=jnp.uint32))[0]


def tape(p: np.ndarray, seed: int, run: int) -> Callable[[int, int], int]:
    limits = np.rint(p * UNITS)
    return lambda arm, j: int(block(seed, run, arm, j // BLOCK)[j % BLOCK] >> 8 < limits[arm])


def instances(many: int, seed: int) -> tuple[list[np.ndarray], list[float]]:
    """Arms with and without an outlier, with means at the ends of the range, and all equal; and a k for each."""
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
    policy: Callable[[float], Any],
    oracle: Callable[..., oracles.Run],
    seed: int,
    many: int = 10,
    ends: bool = True,
    cap: int = CAP,
) -> None:
    means, ks = instances(many, seed)
    answers = both([arms(p, cap) for p in means], [policy(k) for k in ks], runs=RUNS, seed=seed, lanes=64)
    compared = long_runs = 0
    for number, (p, k) in enumerate(zip(means, ks, strict=True)):
        for run in range(RUNS):
            found = {name: v[number, run] for name, v in answers.items()}
            trace = oracle(tape(p, seed, run), k)
            if trace.margin < CLEAR or trace.ties:
                continue
            compared += 1
            assert int(found["pulls"]) == len(trace.pulls), (p, k, run)
            assert (int(found["code"]) > DECIDED) == trace.capped
            if trace.capped and p.min() == p.max() and p[0] in (0, 1):
                assert int(found["code"]) == FLAT
            assert found["arm_pulls"].tolist() == trace.counts(N)
            if trace.answer_margin > CLEAR:
                assert set(np.flatnonzero(found["outliers"])) == trace.outliers
            long_runs += len(trace.pulls) > 3 * N and not trace.capped
    assert compared > many * RUNS / 2
    assert long_runs > compared / 5 or not ends


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_rr_is_its_oracle(name: str) -> None:
    def policy(k: float) -> RR:
        return RR(interval(name, 0.1, k))

    compare(policy, lambda reward, k: oracles.rr(reward, N, k, 0.1, name, cap=CAP), 1, ends=name != "bounded")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rho"), [("bounded", 2.5), ("bernoulli", 1.0), ("bernoulli-corrected", 2.5)])
def test_wrr_is_its_oracle(name: str, rho: float) -> None:
    def policy(k: float) -> WRR:
        return WRR(interval(name, 0.1, k), Ratio.of(rho))

    compare(policy, lambda reward, k: oracles.wrr(reward, N, k, 0.1, rho, name, cap=CAP), 2, ends=name != "bounded")


def evaluated(
    m: list[int], s: list[int], k: float, delta: float, name: str, sides: str, rule: str
) -> tuple[list[float], list[float]]:
    """By how much each arm is active, and by how much it is beyond the threshold: a plain reading of both rules."""
    n, total = len(m), sum(m)
    y = [a / b for a, b in zip(s, m, strict=True)]
    delta_prime = 6 * delta / (math.pi**2 * (n + (2 if sides == "both" else 1)) * total**2)
    radii = [oracles.arm_radius(name, a, b, delta_prime) for a, b in zip(m, s, strict=True)]
    mu, sigma, _ = oracles.threshold(y, k)
    slack, beyond = [-math.inf] * n, [-math.inf] * n
    for sign in (1, -1) if sides == "both" else (1,):
        if rule == "robust":
            centre = statistics.median(y)
            spread = 1.4826 * k * statistics.median(abs(v - centre) for v in y)
            beta = (1 + 2 * 1.4826 * k) * max(radii)
        else:
            centre, spread = mu, k * sigma
            signed = k if name == "bounded" else sign * k
            beta = oracles.threshold_radius(name, m, y, radii, signed, delta, delta_prime)
        over = [sign * (v - centre) - spread for v in y]
        beyond = [max(a, b) for a, b in zip(beyond, over, strict=True)]
        slack = [max(a, r + beta - abs(b)) for a, b, r in zip(slack, over, radii, strict=True)]
    return ([math.inf] * n, [-1.0] * n) if sigma == 0 else (slack, beyond)


def plain(reward: Callable[[int, int], int], k: float, rho: float, cap: int, **of: Any) -> oracles.Run:
    """RR, or WRR where ``rho`` is above 0, with any sides and rule of the threshold."""
    pulls, m, s = [], [0] * N, [0] * N
    margin = math.inf

    def pull(arm: int) -> None:
        s[arm] += reward(arm, m[arm])
        m[arm] += 1
        pulls.append(arm)

    def evaluate() -> list[bool]:
        nonlocal margin
        slack, _ = evaluated(m, s, k, **of)
        margin = min(margin, *map(abs, slack))
        return [v > 0 for v in slack]

    for arm in range(N):
        pull(arm)
    arm, due = 0, [0.0] * N
    active = evaluate()
    while any(active) and len(pulls) < cap:
        arm = (arm + 1) % N
        due[arm] += rho
        while True:
            pull(arm)
            active = evaluate()
            if len(pulls) >= cap or not active[arm] or m[arm] >= due[arm]:
                break
    _, beyond = evaluated(m, s, k, **of)
    found = frozenset(i for i in range(N) if beyond[i] > 0)
    return oracles.Run(found, pulls, any(active), margin, min(map(abs, beyond)), 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rho", "sides", "rule"),
    [(0.0, "both", "k-sigma"), (2.5, "both", "k-sigma"), (0.0, "both", "robust"), (2.5, "above", "robust")],
)
def test_other_thresholds_are_the_plain_loop(rho: float, sides: str, rule: str) -> None:
    name, cap, delta = "bernoulli-corrected", 2500, 0.1
    scale = 0.25 if rule == "robust" else 1.0

    def policy(k: float) -> RR | WRR:
        of = interval(name, delta, k * scale, sides=sides, rule=rule)
        return WRR(of, Ratio.of(rho)) if rho else RR(of)

    def reference(reward: Callable[[int, int], int], k: float) -> oracles.Run:
        return plain(reward, k * scale, rho, cap, delta=delta, name=name, sides=sides, rule=rule)

    compare(policy, reference, 7, ends=rho > 0 and rule == "k-sigma", cap=cap)


@pytest.mark.parametrize("named", [{"sides": "below"}, {"rule": "mad"}, {"name": "wald"}])
def test_an_interval_that_does_not_exist_is_named(named: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(named))):
        interval(**{"name": "bounded", "delta": 0.1, **named})


def test_nrr_is_its_oracle() -> None:
    delta = 0.03

    def policy(k: float) -> NRR:
        return NRR(interval("bounded", delta, k), jnp.int32(patience(delta)))

    compare(policy, lambda reward, k: oracles.nrr(reward, N, k, delta, cap=CAP), 3)


@pytest.mark.slow
def test_ib_is_its_oracle() -> None:
    """The radius is a narrow one, so that searches end."""
    delta, sigma = 0.1, 0.15

    def policy(k: float) -> IB:
        return IB(interval("bounded", delta, k), DoubleFloat.of(sigma))

    compare(policy, lambda reward, k: oracles.ib(reward, N, k, delta, sigma=sigma, cap=CAP), 5, ends=False)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [20, 400, 3000])
def test_means_that_differ_little_are_no_equal_means(name: str, n: int) -> None:
    """Near 0 and near 1: float32 has their sigma, and what it cannot tell the rule's own evaluation decides."""
    rng, of = np.random.default_rng(n), interval(name, 0.1, k=2.0)

    @jax.jit
    def found(seen: Seen) -> tuple[Any, Array, Array]:
        now = fast.leap.evaluate(of, seen, jnp.float32(9.0), 1.0)
        return now, fast.leap.outliers(of, seen, 1.0), of.outliers(seen, 1.0)

    for pulls, level in ((400_000, 4.0), (30_000, 1.0), (50_000, 0.02)):
        ones = rng.poisson(level, n)
        ones[3] += 60
        for each in (ones, pulls - ones):
            seen = Seen(jnp.full(n, pulls, jnp.int32), jnp.asarray(each, jnp.int32), jnp.int32(n * (pulls // n)))
            now, quickly, exactly = found(seen)
            sigma = (each / pulls).std()
            assert float(now.at.sigma) == pytest.approx(sigma, rel=1e-3, abs=2.0 ** -(30 - (n - 1).bit_length()))
            assert all(np.isfinite(np.asarray(value)).all() for value in jax.tree.leaves(now))
            assert np.array_equal(quickly, exactly)


@pytest.mark.parametrize("sides", ["above", "both"])
@pytest.mark.parametrize("name", NAMES)
def test_what_rr_plans_ends_no_run_whatever_the_rewards_are(name: str, sides: str) -> None:
    """From records of means that differ much, little and hardly at all; and where they differ little, it plans much."""
    n, many = 8, 300
    rng = np.random.default_rng(11)
    pulls = np.broadcast_to(rng.choice([5, 40, 1_000, 30_000], (many, 1)), (many, n))
    spread, level = (rng.choice(values, (many, 1)) for values in ([1e-5, 1e-3, 0.05, 0.4], [0.0, 1e-4, 0.3, 1.0]))
    ones = rng.binomial(pulls, np.clip(level + spread * rng.normal(size=(many, n)), 0, 1))
    view = arms(np.full(n, 0.5), 2**30).view(stream(0, 0), None)
    for k in (0.5, 2.0):
        rule = RR(interval(name, 0.1, k, sides=sides))
        quick = RRInBatches(rule, tabulated(rule.interval, n), n)

        def planned(pulls: Array, ones: Array, cursor: Array, quick: RRInBatches = quick) -> Any:
            seen, extra = Seen(pulls, ones, jnp.sum(pulls)), jnp.int32(1)
            state = quick.init(view)._replace(seen=seen, sweeps=jnp.int32(0), extra=extra, cursor=cursor)
            return quick.advance(view, state, lambda sums: sums.counts * 0)

        records = (jnp.asarray(x, jnp.int32) for x in (pulls, ones, rng.integers(0, n, many)))
        after = jax.jit(jax.vmap(planned))(*records)
        m, s, cursor, sweeps, extra = map(np.asarray, (*after.seen[:2], after.cursor, after.sweeps, after.extra))
        keeps = np.asarray(after.any_active)
        place = (np.arange(n) - cursor[:, None]) % n
        active = jax.jit(jax.vmap(lambda *seen, rule=rule: rule.interval.active(Seen(*seen), 1.0)))
        above = s / m > (s / m).mean(axis=1, keepdims=True)
        rewards = [above * 0, above | True, above, ~above, *(rng.random((12, many, n)) < rng.random((12, many, 1)))]
        for share in (0.0, 0.3, 1.0):
            whole = np.floor(share * sweeps)[:, None].astype(int)
            part = np.where(sweeps > 0, (share < 1) * rng.integers(0, n, many), np.ceil(share * (extra - 1)))
            made = whole + (place < part[:, None])
            for hits in rewards:
                now = m + made, s + made * hits
                seen = (*now, now[0].sum(axis=1))
                still = np.asarray(active(*(jnp.asarray(x, jnp.int32) for x in seen))).any(axis=1)
                assert still[keeps & (sweeps + extra > 1)].all(), (name, sides, k, share)
        sigma = (s / m).std(axis=1)
        alike = (sigma > 0) & (sigma < 1e-3) & keeps
        assert np.median((sweeps / m.min(axis=1) / np.maximum(sigma, 1e-9))[alike]) > 5


def test_nrr_never_waits_for_more_pulls_than_a_budget_can_have() -> None:
    assert [patience(delta) for delta in (0.3, 0.1, 1e-12)] == [4, 10, 2**31 - 1]


@pytest.mark.slow
def test_a_batch_of_ib_makes_the_pulls_of_the_rule_from_any_record() -> None:
    """Of more arms than a batch has candidates, many with the same record or the same mean."""
    n, many = 14, 4_000
    rng = np.random.default_rng(5)
    pulls = rng.choice([1, 2, 3, 4, 6, 10, 30], (many, n))
    few = rng.random((many, 1)) < 0.5
    pulls = np.where(few, np.minimum(pulls, 3), pulls)
    ones = np.maximum(pulls - rng.choice([0, 1, 1, 2], (many, n)), 0)
    problem = arms(rng.choice([0.1, 0.5, 0.9], n), 10_000)
    rule = IB(interval("bounded", 0.1, 2.0), DoubleFloat.of(0.15))
    quick, instance = IBInBatches(rule, tabulated(rule, n), n), problem.draw(stream(0, 0))
    view, left = problem.view(stream(0, 0), instance), jnp.ones(n, bool)

    def compared(key: Any, pulls: Array, ones: Array) -> tuple[Array, Array]:
        drawn = instance._replace(outcomes=key)
        seen = Seen(pulls, ones, jnp.sum(pulls, dtype=jnp.int32))
        move = rule.move(seen, left, 1.0)
        state = quick.at(seen, left, jnp.bool_(True))
        after = quick.advance(view, state, lambda pull: problem.pull(key, drawn, pull))

        def one(state: Any) -> Any:
            pull = rule.ask(view, state)
            return rule.tell(view, state, pull, problem.pull(key, drawn, pull))

        start = IBState(seen, move.left, move.arm, move.ended)
        single = lax.while_loop(lambda state: state.seen.total < after.seen.total, one, start)
        same = jnp.array([jnp.all(x == y) for x, y in zip(after.seen, single.seen, strict=True)])
        return jnp.where(move.ended, 0, after.seen.total - seen.total), jnp.all(same) | move.ended

    keys = stream(1, jnp.arange(many, dtype=jnp.uint32))
    made, same = jax.jit(jax.vmap(compared))(keys, jnp.int32(pulls), jnp.int32(ones))
    assert same.all(), np.flatnonzero(~np.asarray(same))
    assert made.max() > 8
    assert made[made > 0].mean() > 3


@pytest.mark.slow
def test_ib_takes_the_threshold_that_is_asked() -> None:
    """Its searches end at arms below the median and MAD, if these are the threshold: three arms are above it, and none
    is above mu + 2 sigma. (It pulls the other arms so little that it finds them in some runs alone.)"""
    p = np.array([0.1, 0.15, 0.2, 0.2, 0.25, 0.3, 0.7, 0.75, 0.8])
    for rule, high in (("robust", True), ("k-sigma", False)):
        policy = IB(interval("bounded", 0.1, 2.0, rule=rule), DoubleFloat.of(0.15))
        found = both(arms(p, 20_000), policy, runs=20, seed=3)["outliers"]
        assert not found[..., :6].any()
        assert found[..., 6:].any() == high


def test_ib_walks_on_where_bounds_are_all_but_level() -> None:
    """Arms of equal means have upper bounds that float32 does not tell apart: a step must not end at each pull."""
    cap, steps = 1_000_000, [0]
    problem = arms([0.4] * (N - 1) + [0.9], cap)
    rule = IB(interval("bounded", 0.1, 1.3), DoubleFloat.of(0.5))
    answers = simulate(problem, rule, runs=1, progress=lambda status: steps.append(status.idle))
    assert answers["pulls"].tolist() == [[cap]]
    assert max(steps) < cap / 32


def gold_policy(name: str, eps: float, largest: int, enough: int, at_once: bool) -> GOLD:
    return GOLD(
        interval(name, 0.1), DoubleFloat.of(factor(eps)), jnp.int32(largest), jnp.int32(enough), jnp.bool_(at_once)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bounded", "bernoulli-corrected"])
def test_gold_is_its_oracle(name: str) -> None:
    n = 10
    cases = []
    for number, (p, rho) in enumerate(
        [
            ([0.1, 0.15, 0.97, 0.2, 0.1, 0.15, 0.1, 0.1, 0.2, 0.15], 0.9),
            ([0.1, 0.15, 0.95, 0.1, 0.95, 0.15, 0.1, 0.1, 0.15, 0.15], 0.8),
            ([0.0, 1.0, 0.8, 0.2, 0.4, 0.6, 0.0, 1.0, 0.2, 0.8], 0.6),
            ([0.0, 1.0, 0.0, 0.0, 0.5, 0.02, 0.0, 0.0, 0.0, 0.0], 0.7),
            ([0.05, 0.95, 0.0, 0.05, 0.05, 1.0, 0.0, 1.0, 0.5, 0.45], 0.7),
            ([1.0] * n, 0.8),
        ]
    ):
        for terminal in ("at-most", "below"):
            at_once = number % 2 == 1
            cases.append((np.array(p), rho, terminal, 30.0 if number % 3 else 2.5, at_once))
    policies = [gold_policy(name, eps, *sizes(n, rho, terminal), now) for _, rho, terminal, eps, now in cases]
    answers = both([arms(p, GOLD_CAP) for p, *_ in cases], policies, runs=1, seed=6, lanes=12)
    ends, compared = [0] * 4, 0
    for number, (p, rho, terminal, eps, at_once) in enumerate(cases):
        found = {name: v[number, 0] for name, v in answers.items()}
        stop = "pull" if at_once else "sweep"
        trace = oracles.gold(tape(p, 6, 0), n, eps, rho, 0.1, name, terminal=terminal, stop=stop, cap=GOLD_CAP)
        if trace.margin < CLEAR or trace.ties:
            continue
        compared += 1
        assert int(found["pulls"]) == len(trace.pulls), cases[number]
        assert (int(found["code"]) > DECIDED) == trace.capped
        assert found["arm_pulls"].tolist() == trace.counts(n)
        assert found["scores"].tolist() == [NEVER if score is None else score for score in trace.scores]
        assert set(np.flatnonzero(found["outliers"])) == trace.outliers
        ends[int(found["code"])] += 1
    assert compared > len(cases) / 2
    assert ends[DECIDED] >= 3
    assert ends[FLAT] == 2


@pytest.mark.slow
def test_gold_begins_again_where_an_open_edge_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast.gold, "_SAFE", 0.0)
    problem = arms([0.1, 0.12, 0.1, 0.14, 0.1, 0.5, 0.52, 0.9, 0.92], GOLD_CAP)
    rule = gold_policy("bernoulli", 2.5, 2, 4, False)
    in_batches: GOLDInBatches = accelerated(rule, problem)

    def run(number: Array) -> tuple[BatchState, Array]:
        key = stream(8, number)
        instance = problem.draw(key)
        view = problem.view(key, instance)

        def step(carry: tuple[BatchState, Array]) -> tuple[BatchState, Array]:
            state, again = carry
            after = in_batches.advance(view, state, lambda pull: problem.pull(key, instance, pull))
            return after, again | (after.strict & ~state.strict)

        start = in_batches.init(view), jnp.bool_(False)
        return lax.while_loop(lambda carry: ~in_batches.done(view, carry[0]), step, start)

    ended, again = jax.jit(jax.vmap(run))(jnp.arange(24, dtype=jnp.uint32))
    assert jnp.any(again)
    assert not jnp.all(again)
    plain = simulate(problem, rule, runs=24, seed=8, implementation="reference")
    assert np.array_equal(ended.seen.pulls, plain["arm_pulls"][0])
    assert np.array_equal(ended.scores, plain["scores"][0])


@pytest.mark.parametrize("p", [0.0, 0.003, 0.3, 0.5, 0.92, 1.0])
@pytest.mark.parametrize("count", [0, 1, 7, MOST])
def test_successes_of_a_few_pulls_have_the_binomial_law(p: float, count: int) -> None:
    words = (np.arange(2**16, dtype=np.uint64) * 2**16 + 2**15).astype(np.uint32)
    found = few(jnp.asarray(words), jnp.full(words.shape, p, jnp.float32), jnp.full(words.shape, count, jnp.int32))
    shares = np.bincount(np.asarray(found), minlength=count + 1) / words.size
    assert shares.size == count + 1
    assert np.abs(shares - stats.binom.pmf(np.arange(count + 1), count, p)).max() < 2.5 / words.size


@pytest.mark.slow
def test_batches_of_several_words_change_nothing() -> None:
    """With so many arms WRR records a batch in more than one word."""
    n, cap = 70, 5000
    problem = arms(np.append(np.linspace(0.1, 0.6, n - 2), [0.97, 1.0]), cap)
    rule = WRR(interval("bernoulli-corrected", 0.1, 1.2), Ratio.of(4.7))
    in_batches: WRRInBatches = accelerated(rule, problem)
    assert in_batches.words > 1
    answers = both(problem, rule, runs=4, seed=9)
    spread = answers["arm_pulls"].max(-1) - answers["arm_pulls"].min(-1)
    assert spread.min() > 10  # else activity never mattered


@pytest.mark.slow
def test_batches_change_nothing_in_long_runs() -> None:
    n = 12
    problem = arms(np.append(np.linspace(0.2, 0.4, n - 1), 0.9), 3000)
    of = interval("bernoulli-corrected", 0.1, 2.0)
    for rule in (RR(of), WRR(of, Ratio.of(3.3))):
        answers = both(problem, rule, runs=8, seed=4)
        assert answers["pulls"].min() > 100 * n  # else nothing was long


def rules() -> list[Any]:
    of = interval("bernoulli-corrected", 0.1, 1.3)
    ratio, scale = Ratio.of(2.5), DoubleFloat.of(0.15)
    return [RR(of), WRR(of, ratio), NRR(of, jnp.int32(20)), IB(of, scale), gold_policy("bounded", 30.0, 1, 1, False)]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(5))
def test_a_run_at_a_checkpoint_is_one_with_that_budget(number: int) -> None:
    """A batch is cut where the budget ends, and goes on from there. At 3, each arm is pulled once in any case."""
    p, rule, given = [0.1, 0.2, 0.15, 0.3, 0.97, 0.25], rules()[number], {"runs": 4, "seed": 2}
    answers = both(arms(p), rule, **given, checkpoints=[3, 61, 300])
    for place, cap in enumerate([3, 61, 300, CAP]):
        alone = simulate(arms(p, cap), rule, **given)
        for name, values in alone.items():
            if name != "endless":
                assert np.array_equal(values, answers[name][:, :, place]), (name, cap)
    assert (answers["pulls"][0, :, 0] == N).all()


def leaves(thing: Any) -> Iterator[Any]:
    """All that can be reached from an object that a rule was given."""
    if isinstance(thing, list | tuple):
        for one in thing:
            yield from leaves(one)
    elif isinstance(thing, dict):
        yield from leaves(list(thing.values()))
    elif is_dataclass(thing):
        yield from leaves([getattr(thing, field.name) for field in fields(thing)])
    else:
        yield thing


@pytest.mark.parametrize("implementation", get_args(Implementation))
@pytest.mark.parametrize("number", range(5))
def test_no_rule_sees_the_truth(number: int, implementation: Implementation) -> None:
    """Nothing that a rule is given, or keeps, is a mean, a level or a key; outcomes are rewards alone."""
    p, levels = np.array([0.11, 0.23, 0.37, 0.53, 0.97, 0.29]), np.array([0, 0, 0, 0, 3, 0])
    problem, policy = arms(p, levels=levels), rules()[number]
    if implementation == "fast":
        policy = accelerated(policy, problem)
    key = stream(12345, 67890)
    instance = problem.draw(key)
    view = problem.view(key, instance)
    hidden = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves((key, instance))]
    hidden = [x for x in hidden if not np.array_equal(x, np.arange(N))] + [p]  # arms are in the order of their rows
    assert len(hidden) == 7

    def sample(pull: Any) -> Any:
        outcome = problem.pull(key, instance, pull)
        assert all(isinstance(x, Array) and jnp.issubdtype(x.dtype, jnp.integer) for x in leaves(outcome))
        return outcome

    def step(state: Any) -> tuple[Any, Any]:
        if hasattr(policy, "advance"):
            return policy.advance(view, state, sample), 0
        pull = policy.ask(view, state)
        outcome = sample(pull)
        return policy.tell(view, state, pull, outcome), outcome

    assert {type(leaf) for leaf in leaves(view)} <= {int, float, type(jnp.int32(0))}
    state, stepped = policy.init(view), jax.jit(step)
    if implementation == "fast":  # a trace meets all that the rule is given
        jax.eval_shape(step, state)
        return
    for _ in range(2 * N):
        state, outcome = stepped(state)
        for leaf in leaves([view, state, outcome]):
            assert not any(np.array_equal(np.asarray(leaf, np.float64), x) for x in hidden)
    assert int(state.seen.total) >= 2 * N
