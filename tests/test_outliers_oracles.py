"""The outlier-arm oracles against hand-worked cases, plain recomputations, symmetries and each other."""

from __future__ import annotations

import itertools
import math
import random as stdlib_random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from tests.oracles import outliers as o

F = Fraction
MEANS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.95)
BERNOULLI = [name for name in o.INTERVALS if name != "bounded"]


def tape(rewards: dict[int, str], then: int | None = None):
    """Make ``reward`` from a string of 0 and 1 per arm; past its end every reward is ``then``."""

    def reward(arm, j):
        bits = rewards.get(arm, "")
        if j < len(bits):
            return int(bits[j])
        assert then is not None
        return then

    return reward


def constant(values):
    return lambda arm, j: values[arm]


def random_tape(means, seed):
    """Make ``reward`` by independent Bernoulli draws, the same ones whatever the order of the pulls."""
    drawn: dict[int, list[int]] = {}

    def reward(arm, j):
        if arm not in drawn:
            drawn[arm] = []
        while len(drawn[arm]) <= j:
            block = np.random.default_rng([seed, arm, len(drawn[arm])]).random(4096)
            drawn[arm] += [int(x < means[arm]) for x in block]
        return drawn[arm][j]

    return reward


def replay(run, reward, n):
    """Yield T, the pulls and the means of every arm after each pull from the n-th on, by NumPy."""
    m, total = np.zeros(n, dtype=int), np.zeros(n)
    for t, arm in enumerate(run.pulls, start=1):
        total[arm] += float(reward(arm, int(m[arm])))
        m[arm] += 1
        if t >= n:
            yield t, m.copy(), total / m


def active_printed(t, m, y, n, k, delta, interval):
    """Eq. 2 in its two cases, with the formulas of section 4.3 written out once more."""
    level = 6 * delta / (np.pi**2 * (n + 1) * t**2)
    mu, sigma = y.mean(), y.std()
    theta = mu + k * sigma
    if interval == "bounded":
        l_k = ((1 + k * np.sqrt(n - 1)) / np.sqrt(n) + k / np.sqrt(2 * np.log(np.pi**2 * n**3 / (6 * delta)))) ** 2
        beta = np.sqrt(np.log(1 / level) / (2 * m))
        beta_theta = np.sqrt(l_k / (2 * stats.hmean(m)) * np.log(1 / level))
    else:
        z = special.erfcinv(level / 2) if interval == "bernoulli" else stats.norm.isf(level / 2)
        p = (m * y + z**2 / 2) / (m + z**2)
        beta = z * np.sqrt(p * (1 - p) / (m + z**2 if interval.endswith("coull") else m))
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = k * y / (n * np.sqrt(sigma)) if interval == "bernoulli" else k * (y - mu) / (n * sigma)
        beta_theta = np.sqrt((((weight + 1 / n) * beta) ** 2).sum()) if sigma > 1e-12 else np.inf
    return np.where(y > theta, y - beta < theta + beta_theta, y + beta > theta - beta_theta)


# Formulas.


def test_l_and_rho_star_by_hand():
    # (1 + 2 * 2) / sqrt 5 + sqrt(4 / (2 ln(pi^2 125 / .6))) = 2.236068 + .512026
    assert o.l_of_k(5, 2, 0.1) == pytest.approx(2.748094**2, rel=1e-6)
    assert o.rho_star(5, 2, 0.1) == pytest.approx(4 ** (2 / 3) / 7.552021 ** (1 / 3), rel=1e-6)


@pytest.mark.parametrize(("n", "k", "delta"), [(5, 2, 0.1), (20, 2.5, 0.1), (200, 3, 0.01), (3, 3, 0.1)])
def test_rho_star_minimises_the_worst_case_of_equation_6(n, k, delta):
    # sup over y of H_WRR / H2 is at H1 / H2 = n.
    grid = np.linspace(1, 40, 390_001)
    worst = (n / grid + (grid - 1) / grid) * (1 + np.sqrt(o.l_of_k(n, k, delta) * grid)) ** 2
    assert o.rho_star(n, k, delta) == pytest.approx(grid[worst.argmin()], abs=1e-3)


def test_rho_star_is_at_least_1():
    assert o.rho_star(3, 3, 0.1) == 1
    assert o.l_of_k(3, 3, 0.1) > (3 - 1) ** 2  # the bare formula is below 1


def test_quantiles_far_in_the_tail():
    assert o.erfc_inverse(0.5) == pytest.approx(0.4769362762044699)
    assert o.upper_point(0.025) == pytest.approx(1.959963984540054)
    for q in (1e-3, 1e-9, 1e-17, 1e-30):
        assert o.erfc_inverse(q) == pytest.approx(special.erfcinv(q), rel=1e-12)
        assert o.upper_point(q) == pytest.approx(stats.norm.isf(q), rel=1e-12)


def test_what_z_is_printed_and_meant():
    printed, corrected = o.INTERVALS["bernoulli"], o.INTERVALS["bernoulli-corrected"]
    level = 1e-3
    assert o.z_value(printed, level, "zhuang2017") == pytest.approx(special.erfinv(1 - level / 2))
    assert o.z_value(printed, level, "ban2020") == pytest.approx(special.erfinv(1 - level))
    # The two-sided normal quantile is sqrt(2) times the inverse error function.
    assert o.z_value(corrected, level, "zhuang2017") == pytest.approx(math.sqrt(2) * special.erfinv(1 - level))
    assert o.z_value(corrected, level, "ban2020") == o.z_value(corrected, level, "zhuang2017")


def test_arm_radius_by_hand():
    assert o.arm_radius("bounded", 8, 3, math.exp(-4)) == pytest.approx(0.5)
    assert o.arm_radius("bounded", 8, 3, math.exp(-4), width=3) == pytest.approx(1.5)
    level = 2 * special.erfc(2.0)  # printed z = 2: p~ = (3 + 2) / (8 + 4) = 5 / 12
    assert o.arm_radius("bernoulli", 8, 3, level) == pytest.approx(2 * math.sqrt(35 / 144 / 8))
    level = 2 * stats.norm.sf(2.0)
    assert o.arm_radius("bernoulli-corrected", 8, 3, level) == pytest.approx(2 * math.sqrt(35 / 144 / 8))
    assert o.arm_radius("bernoulli-agresti-coull", 8, 3, level) == pytest.approx(2 * math.sqrt(35 / 144 / 12))


def test_all_three_corrections_at_once_make_the_first_radius_less_than_one_half():
    for total in (5, 50, 5000):
        level = o.delta_prime(5, 0.1, total)
        assert o.arm_radius("bernoulli-agresti-coull", 1, 0, level) < 0.5
        assert o.arm_radius("bernoulli-corrected", 1, 0, level) > 0.9


def test_bounded_threshold_radius_uses_the_harmonic_mean():
    level = math.exp(-3)
    value = o.threshold_radius("bounded", [1, 2, 4], [0, 0, 0], [], 2, 0.1, level)
    assert value == pytest.approx(math.sqrt(o.l_of_k(3, 2, 0.1) / (2 * 12 / 7) * 3))


def test_corrected_threshold_radius_is_the_delta_method():
    rng = np.random.default_rng(7)
    y, radii, k = rng.random(7), rng.random(7), 2.5
    step, gradient = 1e-6, []
    for i in range(7):
        up, down = y.copy(), y.copy()
        up[i] += step
        down[i] -= step
        gradient.append((up.mean() + k * up.std() - down.mean() - k * down.std()) / (2 * step))
    expected = np.sqrt(((np.array(gradient) * radii) ** 2).sum())
    m = [1] * 7
    assert o.threshold_radius("bernoulli-corrected", m, list(y), list(radii), k, 0.1, 0.01) == pytest.approx(expected)
    printed = o.threshold_radius("bernoulli", m, list(y), list(radii), k, 0.1, 0.01)
    by_hand = np.sqrt((((k * y / (7 * np.sqrt(y.std())) + 1 / 7) * radii) ** 2).sum())
    assert printed == pytest.approx(by_hand)
    assert printed != pytest.approx(expected)


def test_bounds_by_hand():
    means, k, delta = [0.0, 0.0, 1.0], 0.0, 0.1  # theta = 1/3
    assert o.h1_h2(means, k) == pytest.approx((27, 9 + 9 + 9 / 4))
    h = 27 * (1 + 1 / math.sqrt(3)) ** 2  # l(0) = 1 / n
    assert o.rr_bound(means, k, delta) == pytest.approx(8 * h * (math.log(80 * math.pi**2 * h / 3) + 1) + 12)
    assert o.wrr_bound(means, k, delta, rho=1) == pytest.approx(o.rr_bound(means, k, delta) + 6)
    h = (27 / 4 + 3 * 20.25 / 4) * (1 + math.sqrt(4 / 3)) ** 2
    expected = 8 * h * (math.log(80 * math.pi**2 * h / 3) + 1) + 36
    assert o.wrr_bound(means, k, delta, rho=4) == pytest.approx(expected)
    assert o.rr_bound([0.5, 0.5], 1, 0.1) == math.inf
    b = o.gold_b(2.5)
    d3 = 2 * (b + 1) ** 2 / 0.25
    expected = 12 * d3 * (math.log(6 * d3) + 0.5 * math.log(math.pi**2 * 3 / 0.6)) + 4
    assert o.gold_bound([0.0, 0.25, 1.0], 2.5, 0.1) == pytest.approx(expected)
    assert o.gold_bound([0.0, 0.25, 1.0], 2.5, 0.1, gap_power=2) > 4 * expected
    assert o.gold_bound([0.5, 0.5], 2.5, 0.1) == math.inf


# k-sigma outliers.


def test_k_sigma_outliers_are_exact():
    # With one arm apart, its distance from the mean is sqrt(n - 1) sigma: never more than that.
    assert o.k_sigma_outliers([0, 0, 0, 0, 1], 1.99) == {4}
    assert o.k_sigma_outliers([0, 0, 0, 0, 1], 2) == frozenset()
    assert o.k_sigma_outliers([0.1] * 3, 0) == frozenset()
    assert o.k_sigma_outliers([0.1, 0.2, 0.3], 0) == {2}  # 0.2 is the mean, whatever floats say
    assert o.k_sigma_outliers([1, 0, 0, 0, 0], 1) == {0}  # low arms are no outliers
    assert o.k_sigma_outliers([0, 1, 1, 1, 1], 1) == frozenset()


def test_uniform_means_have_no_arm_above_two_sigma():
    assert o.k_sigma_outliers([F(i, 99) for i in range(100)], 2) == frozenset()


# RR and WRR.


@pytest.mark.parametrize("interval", o.INTERVALS)
@pytest.mark.parametrize("rule", ["rr", "wrr"])
def test_runs_stop_at_the_first_pull_without_active_arms(rule, interval):
    n, k, delta = 4, 1, 0.1
    reward = random_tape([0.05, 0.1, 0.15, 0.95], 3)
    run = getattr(o, rule)(reward, n, k, delta, interval=interval, cap=30_000)
    assert not run.capped
    assert run.outliers == {3}
    states = [
        (t, active_printed(t, m, y, n, k, delta, interval).any())
        for t, m, y in replay(run, reward, n)
        if t > len(run.pulls) - 300 or t < 500
    ]
    assert [t for t, active in states if not active] == [len(run.pulls)]


def test_rr_goes_round_from_the_second_arm():
    run = o.rr(constant([0, 0, 0]), 3, 1, 0.1, cap=9)
    assert run.pulls == [0, 1, 2, 1, 2, 0, 1, 2, 0]
    assert o.rr(constant([0, 0, 0]), 3, 1, 0.1, cap=9, start=0).pulls == [0, 1, 2] * 3


def test_rr_by_hand():
    # Means 0, 0, 1 and k = 0: theta = 1/3, so the two low arms decide, and l = 1/3. After whole sweeps of m pulls
    # the test is 1/3 >= (1 + sqrt(1/3)) sqrt(ln(9 m^2 4 pi^2 / .6) / (2 m)), or m >= 11.196 ln(592.2 m^2).
    run = o.rr(constant([0, 0, 1]), 3, 0, 0.1, start=0)
    m = next(m for m in itertools.count(1) if m >= (1 + 3**-0.5) ** 2 * 9 / 2 * math.log(36 * math.pi**2 / 0.6 * m * m))
    assert 3 * (m - 1) < len(run.pulls) <= 3 * m
    assert run.outliers == {2}
    assert run.margin < 1e-3 < 0.3 < run.answer_margin  # stopping was close, the answer was not


def test_wrr_extra_pulls_by_hand():
    # All arms stay active (sigma = 0). The counters go 2.5, 5, 7.5, 10; an arm leaves when m >= c, m starting at 1.
    run = o.wrr(constant([0, 0]), 2, 1, 0.1, rho=2.5, cap=22)
    assert run.pulls == [0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1]
    assert run.capped


def test_wrr_counters_are_exact():
    # 1.1 + ... + 1.1 is 11 after ten turns, where the arm has 11 pulls: it leaves without an extra one.
    run = o.wrr(constant([0, 0]), 2, 1, 0.1, rho=1.1, cap=60)
    stays = [len(list(group)) for _, group in itertools.groupby(run.pulls[2:])]
    assert set(stays[:20]) == {1}
    assert stays[20:22] == [2, 2]  # c = 12.1, m = 12
    assert run.ties == 4  # both arms at 11 and again at 22
    assert o.wrr(constant([0, 0]), 2, 1, 0.1, rho=2, cap=60).ties == 0


def test_wrr_with_rho_1_is_rr():
    reward = random_tape(MEANS, 1)
    for interval in o.INTERVALS:
        a = o.rr(reward, 6, 1.5, 0.1, interval, cap=3_000)
        b = o.wrr(reward, 6, 1.5, 0.1, 1, interval, cap=3_000)
        # The pulls are the same: with rho = 1, m_i >= c_i after the regular pull.
        assert (a.pulls, a.outliers, a.capped) == (b.pulls, b.outliers, b.capped)


def test_wrr_gives_an_inactive_arm_one_pull_and_makes_up_for_it_later():
    n, k, delta, rho = 4, 1, 0.1, 3
    reward = random_tape([0.05, 0.1, 0.5, 0.95], 5)
    run = o.wrr(reward, n, k, delta, rho, "bernoulli-corrected", cap=20_000)
    assert not run.capped
    c = [0] * n
    previous, leaves = 0, True
    states = {t: (m, y) for t, m, y in replay(run, reward, n)}
    alone = extra = 0
    for t in range(n + 1, len(run.pulls) + 1):
        arm = run.pulls[t - 1]
        m, y = states[t]
        if leaves:
            assert arm == (previous + 1) % n
            c[arm] += rho
        else:
            assert arm == previous
            extra += 1
        active = bool(active_printed(t, m, y, n, k, delta, "bernoulli-corrected")[arm])
        leaves = not active or m[arm] >= c[arm]
        alone += not active and m[arm] < c[arm]
        previous = arm
    assert extra > 100
    assert alone > 10
    assert run.counts(n) == list(states[len(run.pulls)][0])


@pytest.mark.parametrize("rule", ["rr", "wrr"])
def test_right_answers_within_the_bound(rule):
    means, k, delta = (0.1, 0.2, 0.9), 0.5, 0.1
    bound = getattr(o, f"{rule}_bound")(means, k, delta)
    for seed in range(6):
        run = getattr(o, rule)(random_tape(means, seed), 3, k, delta)
        assert run.outliers == o.k_sigma_outliers(means, k) == {2}
        assert not run.capped
        assert len(run.pulls) <= bound


def test_extra_pulls_save_pulls_when_one_arm_is_close_to_the_threshold():
    means, k = [0.05] * 6 + [0.55, 1.0], 0.6
    assert 0.4 < o.threshold(means, k)[2] < 0.45
    reward = random_tape(means, 0)
    even = o.rr(reward, 8, k, 0.1, "bernoulli-corrected", cap=50_000)
    weighted = o.wrr(reward, 8, k, 0.1, None, "bernoulli-corrected", cap=50_000)
    assert even.outliers == weighted.outliers == {6, 7}
    assert len(weighted.pulls) < 0.8 * len(even.pulls)
    assert max(weighted.counts(8)) == weighted.counts(8)[6]


def test_shifted_rewards_change_nothing():
    reward = random_tape([0.05, 0.1, 0.95], 2)
    run = o.wrr(reward, 3, 0.5, 0.1, 2)
    moved = o.wrr(lambda i, j: reward(i, j) + F(3, 4), 3, 0.5, 0.1, 2)
    assert (moved.pulls, moved.outliers) == (run.pulls, run.outliers)
    scaled = o.wrr(lambda i, j: 4 * reward(i, j), 3, 0.5, 0.1, 2, width=4)
    assert (scaled.pulls, scaled.outliers) == (run.pulls, run.outliers)


# Rewards that decide nothing: every run ends by the cap, with numbers in all its fields.


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("interval", o.INTERVALS)
@pytest.mark.parametrize("rule", ["rr", "wrr"])
def test_equal_rewards_end_by_the_cap(rule, interval, value):
    run = getattr(o, rule)(constant([value] * 5), 5, 2, 0.1, interval=interval, cap=200)
    assert run.capped
    assert len(run.pulls) == 200
    assert run.outliers == frozenset()
    assert run.margin > 0
    assert not math.isnan(run.margin)
    assert run.ties == 0


def test_equal_means_that_are_no_binary_fraction():
    # Each mean is 1/3 after three pulls: no arm is above the threshold, whatever 3 * (1/3) rounds to.
    run = o.rr(tape(dict.fromkeys(range(7), "100")), 7, 1, 0.1, cap=21)
    assert run.outliers == frozenset()
    assert (run.ties, run.answer_margin) == (0, math.inf)


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("samples", ["kept", "fresh"])
def test_ib_on_equal_rewards_ends_by_the_cap(samples, value):
    run = o.ib(constant([value] * 3), 3, 1, 0.1, samples=samples, cap=300)
    assert (run.capped, len(run.pulls), run.outliers) == (True, 300, frozenset())
    assert run.counts(3) == [100, 100, 100]


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("interval", o.INTERVALS)
def test_gold_on_equal_rewards_ends_by_the_cap(interval, value):
    run = o.gold(constant([value] * 5), 5, 2.5, 0.8, 0.1, interval, cap=200)
    assert (run.capped, len(run.pulls), run.outliers) == (True, 200, frozenset())
    assert run.scores == [None] * 5
    assert run.lost == {}
    assert run.places == [0] * 5
    assert run.margin > 0


@pytest.mark.parametrize("rule", ["rr", "wrr", "ib"])
def test_two_arms_with_the_same_distance_from_the_threshold_never_settle(rule):
    # With n = 2 and k = 1 the better mean is the threshold itself.
    run = getattr(o, rule)(constant([0, 1]), 2, 1, 0.1, cap=500)
    assert run.outliers == frozenset()
    assert run.ties >= 1
    if rule != "ib":
        assert run.capped


@pytest.mark.parametrize("interval", BERNOULLI)
def test_bernoulli_intervals_need_binary_rewards(interval):
    with pytest.raises(ValueError, match="0 or 1"):
        o.rr(constant([0.5, 0.5]), 2, 1, 0.1, interval, cap=10)


@pytest.mark.parametrize("rule", ["rr", "wrr"])
def test_the_cap(rule):
    reward = random_tape([0.05, 0.1, 0.95], 2)
    full = getattr(o, rule)(reward, 3, 0.5, 0.1)
    t = len(full.pulls)
    assert getattr(o, rule)(reward, 3, 0.5, 0.1, cap=t) == full
    cut = getattr(o, rule)(reward, 3, 0.5, 0.1, cap=t - 1)
    assert (cut.capped, cut.pulls) == (True, full.pulls[:-1])
    with pytest.raises(ValueError, match="cap"):
        getattr(o, rule)(reward, 3, 0.5, 0.1, cap=2)


# Margins.


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", ["rr", "wrr", "gold"])
def test_radii_wrong_by_less_than_the_margin_change_no_pull(rule, seed):
    means = [0.05, 0.1, 0.15, 0.95] if rule == "gold" else [0.05, 0.1, 0.95]
    reward = random_tape(means, seed)

    def play(width):
        if rule == "gold":
            return o.gold(reward, 4, 2.5, 0.75, 0.1, width=width, cap=20_000)
        more = {"rho": 2.5} if rule == "wrr" else {}
        return getattr(o, rule)(reward, 3, 0.5, 0.1, width=width, **more)

    run = play(1.0)
    assert not run.capped
    assert 0 < run.margin < 0.1
    for factor in (-0.9, 0.9):
        assert play(1 + factor * run.margin).pulls == run.pulls
    if rule == "rr":  # every decision is the same comparison here, so the bound is sharp
        assert {len(play(1 + factor * run.margin).pulls) for factor in (-1.1, 1.1)} != {len(run.pulls)}


@pytest.mark.parametrize("samples", ["kept", "fresh"])
@pytest.mark.parametrize("seed", range(3))
def test_ib_margins(seed, samples):
    reward = random_tape([0.1, 0.5, 0.95], seed)
    run = o.ib(reward, 3, 0.5, 0.1, sigma=0.5, samples=samples)
    assert not run.capped
    assert 0 < run.margin < 0.1
    for factor in (-0.4, 0.4):
        moved = o.ib(reward, 3, 0.5, 0.1, sigma=0.5 * (1 + factor * run.margin), samples=samples)
        assert moved.pulls == run.pulls


def test_the_margin_of_a_partition():
    rng = np.random.default_rng(1)
    for _ in range(200):
        n = int(rng.integers(2, 8))
        scores = rng.normal(size=(n, n)) - 0.5
        scores = np.triu(scores, 1) + np.triu(scores, 1).T
        parts, margin = o.partition(scores)

        def components(cut, scores=scores, n=n):
            label = list(range(n))
            for i, j in itertools.combinations(range(n), 2):
                if scores[i, j] >= cut and label[i] != label[j]:
                    old, new = label[i], label[j]
                    label = [new if x == old else x for x in label]
            return {frozenset(a for a in range(n) if label[a] == x) for x in label}

        assert set(parts) == components(0)
        assert components(0.999 * margin) == components(-0.999 * margin) == components(0)
        assert components(1.001 * margin) != components(0) or components(-1.001 * margin) != components(0)


# NRR and IB.


def test_nrr_by_hand():
    # k = 1, 1/delta = 4. Means and sets: (1,0,0) {0} | (1,1/2,0) {0} | (1,1/2,0) {0} | (1/2,1/2,0) {} |
    # (1/2,1/3,0) {0} | same | (1/3,1/3,0) {} | (1/3,1/4,0) {} | same | (1/2,1/4,0) {0} | (1/2,1/5,0) | same |
    # (3/5,1/5,0) | (3/5,1/6,0): the fourth pull without a change.
    run = o.nrr(tape({0: "10011", 1: "010000", 2: "00000"}, then=0), 3, 1, 0.25)
    assert run.pulls == [0, 1, 2, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]
    assert run.outliers == {0}
    assert not run.capped
    assert run.margin == pytest.approx(1 - 12 / (7 + math.sqrt(26)))  # (1/3, 1/4, 0): 12/36 against (7 + sqrt 26)/36


def test_nrr_on_equal_rewards_stops_after_one_over_delta_pulls():
    for delta, pulls in ((0.1, 10), (0.05, 20), (0.3, 4), (F(1, 3), 3), (0.01, 100)):
        run = o.nrr(constant([0] * 4), 4, 2, delta)
        assert len(run.pulls) == 4 + pulls
        assert (run.outliers, run.capped, run.ties) == (frozenset(), False, 0)
    assert o.nrr(constant([0] * 4), 4, 2, 0.1, cap=13).capped


def test_nrr_depends_on_ties_only_where_it_says_so():
    run = o.nrr(constant([0, 1]), 2, 1, 0.5)  # the better mean is the threshold at each of three evaluations
    assert (run.outliers, run.ties) == (frozenset(), 4)  # and once more in the answer


def test_ib_by_hand():
    # Means 1 and 0, sigma = 1/2, delta = .1: 1 >= sqrt(L / (2 m0)) + sqrt(L / (2 m1)), L = ln(80 t^3). At t = 68,
    # m = 34, 34 it is 1.0012, at t = 69, m = 35, 34 it is .9953. Then one arm is left, below the threshold 1/2.
    run = o.ib(constant([1, 0]), 2, 0, 0.1, sigma=0.5)
    assert run.pulls == [0, 1] * 34 + [0]
    assert (run.outliers, run.capped) == ({0}, False)
    fresh = o.ib(constant([1, 0]), 2, 0, 0.1, sigma=0.5, samples="fresh")
    assert fresh.pulls == [*run.pulls, 1]


def test_ib_pulls_the_less_known_of_two_arms():
    reward = random_tape([0.2, 0.6, 0.9], 8)
    delta = 0.1
    run = o.ib(reward, 3, 0, delta, sigma=0.5)
    assert run.outliers == {1, 2}
    for (t, m, y), arm in zip(replay(run, reward, 3), run.pulls[3:], strict=False):
        if t > 2_000:
            break
        radius = 0.5 * np.sqrt(2 * np.log(12 * t**3 / delta) / m)
        best = int(y.argmax())
        shifted = y + radius
        shifted[best] = y[best] - radius[best]
        rival = int(shifted.argmax())
        if rival == best:
            break  # the first search is over
        assert radius[arm] == max(radius[best], radius[rival])
        assert arm in (best, rival)
        if m[best] == m[rival]:
            assert arm == min(best, rival)


def test_ib_searches_share_their_pulls_or_start_anew():
    reward = random_tape([0.1, 0.5, 0.9], 4)
    kept = o.ib(reward, 3, 0, 0.1, sigma=0.5)
    fresh = o.ib(reward, 3, 0, 0.1, sigma=0.5, samples="fresh")
    assert kept.outliers == fresh.outliers
    assert 2 in kept.outliers
    assert len(kept.pulls) < len(fresh.pulls)
    # The first search does not know of the others.
    same = len(common_prefix(kept.pulls, fresh.pulls))
    assert same > 50


def common_prefix(a, b):
    return list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def test_a_fresh_search_counts_its_own_arms_and_pulls():
    # Means 1, .6, 0, all above the threshold .533 but the last. The second search has n = 2 and starts at t = 0.
    run = o.ib(constant([1, F(3, 5), 0]), 3, 0, 0.1, sigma=0.5, samples="fresh")
    first = next(t for t in range(3, len(run.pulls)) if 0 not in run.pulls[t:])
    second = next(
        t
        for t in itertools.count(2)
        if sum(math.sqrt(math.log(80 * t**3) / (2 * m)) for m in ((t + 1) // 2, t // 2)) <= 0.6
    )
    assert run.outliers == {0, 1}
    assert run.pulls[first:] == [*([1, 2] * second)[:second], 2]


def test_ib_never_returns_without_a_look_at_every_arm():
    run = o.ib(constant([0.5]), 1, 1, 0.1)
    assert (run.pulls, run.outliers, run.capped) == ([0], frozenset(), False)


# GOLD.


def test_b():
    assert o.gold_b(2.5) == pytest.approx(1.8741, abs=5e-5)
    assert o.gold_b(5) == pytest.approx(7.0645 / 4.9355, abs=1e-4)
    # What b is made for: the ratio of the distances at which pairs separate.
    b = o.gold_b(2.5)
    assert (b + 1) / (b - 1) * math.exp(1 / 16) == pytest.approx(3.5)
    with pytest.raises(ValueError, match="eps"):
        o.gold_b(math.exp(1 / 16) - 1)


def test_the_size_limit_is_exact():
    assert 100 * (1 - 0.9) < 10
    assert o.size_limit(100, 0.9) == 10
    assert o.size_limit(20, 0.95) == 1
    assert o.size_limit(47, 0.9) == F(47, 10)


def gold_by_numpy(reward, run, n, eps, rho, delta):
    """Replay GOLD with Hoeffding's intervals: scores and graph, from the pulls alone."""
    b, limit = o.gold_b(eps), n * (1 - F(str(rho)))
    graph = np.ones((n, n), dtype=bool)
    scores = [None] * n
    for t, m, y in replay(run, reward, n):
        radius = np.sqrt(np.log(np.pi**2 * n * t**2 / (6 * delta)) / (2 * m))
        neighbours = np.abs(y[:, None] - y) <= b * (radius[:, None] + radius)
        graph &= neighbours
        connected = np.linalg.matrix_power(graph.astype(np.int64), n) > 0  # the diagonal is always there
        if t > n:
            for i in range(n):
                if connected[i].sum() <= limit and scores[i] is None:
                    scores[i] = t
    return scores, graph


def test_gold_against_a_replay():
    means = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.9, 0.95]
    for seed in range(2):
        reward = random_tape(means, seed)
        run = o.gold(reward, 8, 2.5, 0.75, 0.1, cap=8_000)
        scores, graph = gold_by_numpy(reward, run, 8, 2.5, 0.75, 0.1)
        assert run.scores == scores
        pairs = itertools.combinations(range(8), 2)
        assert {pair for pair in pairs if not graph[pair]} == set(run.lost)
        assert run.outliers == {i for i in range(8) if scores[i] is not None}
        assert o.ranked_first(run.scores, {6, 7})
        assert set(run.ranking[:2]) == {6, 7}
        assert not run.capped


def test_gold_graph_starts_complete_and_a_lost_edge_stays_lost():
    # Arms 0 and 1 part, then both give rewards that bring them together: the edge does not come back.
    n, eps, delta = 3, 2.5, 0.1
    reward = tape({0: "0" * 260 + "1" * 500, 1: "1" * 260 + "0" * 500, 2: "01" * 380}, then=0)
    run = o.gold(reward, n, eps, 0.6, delta, cap=2_000)
    assert (0, 1) in run.lost
    assert min(run.lost.values()) > n
    when = run.lost[0, 1]
    b = o.gold_b(eps)
    states = {t: (m, y) for t, m, y in replay(run, reward, n)}

    def near(t):
        m, y = states[t]
        radius = np.sqrt(np.log(np.pi**2 * n * t**2 / (6 * delta)) / (2 * m))
        return abs(y[0] - y[1]) <= b * (radius[0] + radius[1])

    assert near(when - 1)
    assert not near(when)
    assert near(len(run.pulls))


def test_gold_lost_edges_count_in_the_communities():
    # Arms 0 and 1 part, come together again, and then arm 2, which held them together, leaves: 0 and 1 are alone.
    phases = {0: (0, 1, F(1, 2)), 1: (1, 0, F(1, 2)), 2: (F(1, 2), 1, 1)}

    def reward(arm, j):
        return phases[arm][min(j // 260, 2)]

    run = o.gold(reward, 3, 2.5, F(2, 3), 0.1, cap=10_000)
    assert not run.capped
    assert run.lost[0, 1] < 1_000 < run.lost[0, 2]
    assert run.scores[0] == run.lost[0, 2]


@pytest.mark.parametrize("interval", o.INTERVALS)
def test_gold_first_graph_is_complete(interval):
    run = o.gold(constant([0, 1] * 3), 6, 2.5, 0.6, 0.1, interval, cap=6)
    assert run.lost == {}


def one_apart(t, n=6):
    """Whether n - 1 arms of mean 0 and one of mean 1, all pulled in turn up to T = t, are no neighbours."""
    counts = [t // n + (i < t % n) for i in range(n)]
    radius = [math.sqrt(math.log(math.pi**2 * n * t**2 / 0.6) / (2 * m)) for m in counts]
    return all(o.gold_b(2.5) * (radius[i] + radius[-1]) < 1 for i in range(n - 1))


def test_gold_by_hand():
    # One arm gives 1, five give 0, n (1 - rho) = 1. The last arm is terminal at the first T at which all its edges
    # are gone, and that sweep ends the run.
    reward = constant([0, 0, 0, 0, 0, 1])
    run = o.gold(reward, 6, 2.5, F(5, 6), 0.1)
    t = next(t for t in itertools.count(7) if one_apart(t))
    assert run.scores == [None] * 5 + [t]
    assert max(run.lost.values()) == t
    assert set(run.lost) == {(i, 5) for i in range(5)}
    assert run.pulls == list(range(6)) * math.ceil(t / 6)
    assert (run.outliers, run.capped) == ({5}, False)
    assert run.ranking == [5, 0, 1, 2, 3, 4]
    assert run.places == [1, 1, 1, 1, 1, 0]
    early = o.gold(reward, 6, 2.5, F(5, 6), 0.1, stop="pull")
    assert (early.pulls, early.scores) == (run.pulls[:t], run.scores)


def test_the_printed_test_waits_for_a_normal_arm():
    # n (1 - rho) = 2 outliers stay together. They are terminal by <=; by < nothing is. The normal arms are equal here
    # and stay together too, so that the run goes on to the cap.
    reward = constant([0, 0, 0, 0, 1, 1])
    run = o.gold(reward, 6, 2.5, F(2, 3), 0.1)
    assert (run.outliers, run.capped) == ({4, 5}, False)
    assert run.scores[4] == run.scores[5] == max(run.lost.values())
    printed = o.gold(reward, 6, 2.5, F(2, 3), 0.1, terminal="below", cap=2_000)
    assert (printed.outliers, printed.capped) == (frozenset(), True)
    assert printed.lost == run.lost
    # One outlier is terminal by < 2, but the run then waits for a second one, and no longer pulls the first.
    printed = o.gold(constant([0, 0, 0, 0, 0, 1]), 6, 2.5, F(2, 3), 0.1, terminal="below", cap=2_000)
    assert (printed.outliers, printed.capped) == ({5}, True)
    assert printed.pulls[-1] != 5
    assert 2 * printed.counts(6)[5] < printed.counts(6)[0]


def test_with_at_most_one_outlier_the_printed_test_never_holds():
    # n (1 - rho) = 1: no community has fewer than one arm.
    printed = o.gold(random_tape([0.0, 0.5, 1.0], 0), 3, 2.5, F(2, 3), 0.1, terminal="below", cap=5_000)
    assert (printed.capped, printed.outliers) == (True, frozenset())
    assert len(printed.lost) == 3  # although all arms are apart


def test_gold_scores_are_set_once():
    means = [0.05, 0.1, 0.15, 0.2, 0.5, 0.95]
    run = o.gold(random_tape(means, 1), 6, 2.5, F(2, 3), 0.1, cap=30_000)
    assert run.scores[5] < run.scores[4] < len(run.pulls)
    assert run.ranking[:2] == [5, 4]
    # An arm that was terminal when a sweep began is pulled no more.
    last = max(t for t, arm in enumerate(run.pulls, start=1) if arm == 5)
    assert last < run.scores[5] + 6


def test_gold_sweeps_pull_the_arms_that_were_not_terminal():
    means = [0.05, 0.1, 0.15, 0.2, 0.5, 0.95]
    run = o.gold(random_tape(means, 1), 6, 2.5, F(2, 3), 0.1, cap=30_000)
    at = 6
    while at < len(run.pulls):
        sweep = [i for i in range(6) if run.scores[i] is None or run.scores[i] > at]
        assert run.pulls[at : at + len(sweep)] == sweep
        at += len(sweep)
    assert at == len(run.pulls)


@pytest.mark.parametrize("interval", o.INTERVALS)
def test_gold_does_not_care_for_up_and_down(interval):
    reward = random_tape([0.05, 0.1, 0.15, 0.95], 6)
    run = o.gold(reward, 4, 2.5, 0.75, 0.1, interval, cap=20_000)
    turned = o.gold(lambda i, j: 1 - reward(i, j), 4, 2.5, 0.75, 0.1, interval, cap=20_000)
    assert not run.capped
    assert run.outliers == {3}
    assert replace(turned, margin=run.margin) == run


def test_gold_finds_outliers_between_normal_arms():
    means = [0.0, 0.02, 0.04, 0.06, 0.5, 0.94, 0.96, 0.98, 1.0]
    assert o.is_outlier_group(means, {4}, 2.5, 0.85)
    run = o.gold(random_tape(means, 0), 9, 2.5, F(8, 9), 0.1)
    assert run.ranking[0] == 4
    assert o.ranked_first(run.scores, {4})
    assert len(run.pulls) <= o.gold_bound(means, 2.5, 0.1, gap_power=2)


def test_gold_cap():
    reward = constant([0, 0, 0, 0, 0, 1])
    full = o.gold(reward, 6, 2.5, F(5, 6), 0.1)
    assert o.gold(reward, 6, 2.5, F(5, 6), 0.1, cap=len(full.pulls)) == full
    cut = o.gold(reward, 6, 2.5, F(5, 6), 0.1, cap=len(full.pulls) - 1)
    assert (cut.capped, cut.pulls) == (True, full.pulls[:-1])


def test_unknown_names_are_refused():
    reward = constant([0, 1])
    with pytest.raises(ValueError, match="interval"):
        o.rr(reward, 2, 1, 0.1, "gaussian", cap=10)
    with pytest.raises(ValueError, match="terminal"):
        o.gold(reward, 2, 2.5, 0.9, 0.1, terminal="less", cap=10)
    with pytest.raises(ValueError, match="samples"):
        o.ib(reward, 2, 1, 0.1, samples="old", cap=10)
    with pytest.raises(ValueError, match="rho"):
        o.wrr(reward, 2, 1, 0.1, 0.5, cap=10)


def test_ranked_first():
    assert o.ranked_first([5, None, 9, 7], {0, 3})
    assert not o.ranked_first([5, None, 9, 7], {0, 2})
    assert not o.ranked_first([5, 5, 9], {0})  # a shared place is not the first place
    assert not o.ranked_first([None, None], {0})
    assert o.ranked_first([None, None], set())


# Outlier arms and groups by definition.


def by_all_subsets(means, j, eps, rho, sizes):
    """Definition 3.1 word for word: some subset above and some subset below."""
    y, eps, rho = [F(str(v)) for v in means], F(str(eps)), F(str(rho))
    n = len(y)

    def subsets(arms):
        return [s for size in range(len(arms) + 1) for s in itertools.combinations(arms, size)]

    def inner(side):
        gaps = []
        for i in side:
            up = [y[a] - y[i] for a in side if y[a] > y[i]]
            down = [y[i] - y[a] for a in side if y[a] < y[i]]
            gaps.append(max(min(up) if up else 0, min(down) if down else 0))
        return gaps

    for upper in subsets([i for i in range(n) if y[i] > y[j]]):
        for lower in subsets([i for i in range(n) if y[i] < y[j]]):
            total = len(upper) + len(lower)
            if total < rho * n or (total == rho * n and sizes == "above"):
                continue
            if any(0 < len(side) <= (1 - rho) * n for side in (upper, lower)):
                continue
            gaps = inner(upper) + inner(lower)
            nearest = [min(abs(y[j] - y[i]) for i in side) for side in (upper, lower) if side]
            if all(d > (1 + eps) * gap for d in nearest for gap in gaps):
                return True
    return False


def test_outlier_arms_by_all_subsets():
    rng = stdlib_random.Random(5)
    found = 0
    for _ in range(60):
        n = rng.randint(3, 7)
        means = [rng.choice([0.0, 0.02, 0.05, 0.06, 0.1, 0.5, 0.9, 0.95, 1.0]) for _ in range(n)]
        eps, rho = rng.choice([0.5, 2.5]), rng.choice([0.6, 0.75, 0.8])
        for sizes in ("above", "at-least"):
            expected = {j for j in range(n) if by_all_subsets(means, j, eps, rho, sizes)}
            assert o.outlier_arms(means, eps, rho, sizes) == expected
            found += len(expected)
    assert found > 30


def test_outlier_group_by_hand():
    # Gaps .1, .1, .1 and then .36: more than 3.5 times .1; .35 is not more, whatever floats make of it.
    assert o.is_outlier_group([0.1, 0.2, 0.3, 0.4, 0.76], {4}, 2.5, 0.75)
    assert not o.is_outlier_group([0.1, 0.2, 0.3, 0.4, 0.75], {4}, 2.5, 0.75)
    assert not o.is_outlier_group([0.1, 0.2, 0.3, 0.4, 0.76], {3, 4}, 2.5, 0.5)
    # A wide gap inside the group does not matter.
    assert o.is_outlier_group([0.0, 0.01, 0.02, 0.03, 0.4, 1.0], {4, 5}, 2.5, 0.6)
    # A group in the middle needs more than n (1 - rho) arms on both sides.
    means = [0.0, 0.01, 0.5, 0.98, 0.99, 1.0]
    assert o.is_outlier_group(means, {2}, 2.5, 0.75)
    assert not o.is_outlier_group(means, {2}, 2.5, 0.6)
    # Arms in between belong to the group or forbid it.
    assert not o.is_outlier_group(means, {1, 3}, 2.5, 0.6)
    assert not o.is_outlier_group(means, set(), 2.5, 0.6)
    assert not o.is_outlier_group(means, set(range(6)), 2.5, 0.6)


def test_a_group_of_exactly_the_assumed_size_is_none_as_printed():
    # rho n = 9 normal arms of 10: the definition asks for more than 9 (and floats could say 9 > 9.000...).
    means = [0.01 * i for i in range(9)] + [0.9]
    assert not o.is_outlier_group(means, {9}, 2.5, 0.9)
    assert o.is_outlier_group(means, {9}, 2.5, 0.9, sizes="at-least")
    assert o.outlier_groups(means, 2.5, 0.9) == []
    assert o.outlier_groups(means, 2.5, 0.9, sizes="at-least") == [frozenset({9})]
    assert o.outlier_arms(means, 2.5, 0.9) == frozenset()


def test_groups_of_all_windows():
    # 0.9 alone is no group, since 0.5 then is a normal arm far from its neighbour; as an arm it is an outlier.
    means = [0.5, 0.0, 0.01, 0.02, 0.03, 0.9]
    assert o.outlier_groups(means, 2.5, 0.6) == [{0, 5}]
    assert o.outlier_arms(means, 2.5, 0.6) == {0, 5}
    turned = [1 - v for v in map(F, map(str, means))]
    assert o.outlier_groups(turned, 2.5, 0.6) == [{0, 5}]


def test_uniform_normal_arms_leave_no_room_for_an_upper_group():
    rng = np.random.default_rng(0)
    for _ in range(20):
        means = [round(float(v), 6) for v in rng.random(18)]
        assert not o.is_outlier_group([*means, 0.99999, 1.0], {18, 19}, 2.5, 0.85)
