"""The extraction oracles against hand-worked cases, exact laws and published values."""

from __future__ import annotations

import itertools
import math
import random as stdlib_random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from tests.oracles import extraction as ex

F = Fraction

# Two attributes: a root with the leaves 1 and 2; a root over 1, which has the leaves 2 and 3.
TREES = [[0, 0, 0], [0, 0, 1, 1]]
# One attribute: a root with the leaves 1 (entities 0, 1, 2) and 2 (entity 3).
FORK = ex.Poset([[0, 0, 0]], [(1,), (1,), (1,), (2,)])
ROOT, ONE, TWO = (0,), (1,), (2,)
PLAIN = ex.Readings(bootstrap=0)


def never(*_):
    raise AssertionError("no random choice is due here")


NO_CHANCE = ex.Chance(never, never, never)


def seeded(seed) -> ex.Chance:
    """Make independent choices that depend on the address alone."""

    def generator(draw):
        return stdlib_random.Random(f"{seed}-{draw}")

    def resample(draw, counts):
        drawn = Counter(generator(draw).choices(range(len(counts)), weights=counts, k=sum(counts)))
        return [drawn[j] for j in range(len(counts))]

    return ex.Chance(
        lambda draw, items, size: generator(draw).sample(items, size),
        resample,
        lambda draw, items: generator(draw).choice(items),
    )


def script(*answers):
    """Make ``answer`` that returns these in turn, by the query's round."""
    return lambda query: answers[query.round - 1]


def fork_cost(k, length, s):
    return ex.linear_cost(k, length, s, s_max=1, k_max=2)


def fork_problem(budget, configurations=((1, 0), (2, 0))):
    """Root queries cost 1/2 and 1, leaf queries 3/2 and 2."""
    return ex.Problem(FORK, configurations, fork_cost, F(budget))


# Estimators.


def test_estimators_by_hand():
    f = ex.frequencies([1, 0, 2, 1])
    assert f == {1: 2, 2: 1}
    assert (ex.sample_size(f), ex.distinct(f)) == (4, 3)
    assert ex.good_turing(f, 2) == 1
    # C = 1/2, D/C = 6, gamma^2 = 6 * 2/12 - 1 = 0: N = 6, f0 = 3, 3 (1 - (5/6)^2) = 11/12.
    assert ex.chao92(f) == 6
    assert ex.chao92_shen(f, 2) == pytest.approx(11 / 12)
    # y_1 = 3 * 2/(2 * 1) = 3 = K, f0 = 3/2, 3/2 (1 - (2/3)^2) = 5/6.
    assert ex.hwang_shen_points(f) == [(1, 3)]
    assert ex.hwang_shen(f, 2) == pytest.approx(5 / 6)
    # p1 = 1/4: (3/2 - 3 * 2 * (9/16)/6)/(3/2) = 5/8, and with K' = 4 (3/2 - 3/4)/(5/3) = 9/20.
    assert ex.new_regr_same(f, 2) == pytest.approx(5 / 8)
    assert ex.new_regr_formula(f, 2, 3, 4) == pytest.approx(9 / 20)
    assert ex.new_regr_formula(f, 2, 3, 9) == 0  # clamped: (1.5 - 1.6875) < 0
    assert ex.new_regr_formula(f, 2, 30, 1) == 2
    # C = 2/3, D/C = 9/2, gamma^2 = 9/2 * 12/30 - 1 = 4/5, N = 9/2 + 6 (1/3)/(2/3) 4/5 = 6.9.
    assert ex.chao92({1: 2, 4: 1}) == pytest.approx(6.9)


@pytest.mark.parametrize(
    ("f", "classes"),
    [
        ({1: 156, 2: 19, 3: 2, 4: 1}, 844),
        ({1: 102, 2: 26, 3: 8, 4: 2, 5: 1, 6: 1, 7: 1}, 378),
    ],
)
def test_chao92_on_holsts_coins(f, classes):
    # The dies of 204 ancient coins, obverse and reverse: the worked example of Chao and Lee (1992).
    assert ex.sample_size(f) == 204
    assert round(ex.chao92(f)) == classes


@pytest.mark.parametrize("name", ex.ESTIMATORS)
def test_estimators_at_their_limits(name):
    estimate = ex.ESTIMATORS[name]
    assert estimate({1: 5}, 7, ()) == 7  # f1 = n: m f1/n
    assert estimate({2: 3, 3: 1}, 7, ()) == 0  # f1 = 0: all of the mass is seen
    assert estimate({1: 1}, 3, ()) == 3
    if name not in ("good-turing", "chao"):
        assert estimate({1: 2, 3: 1, 4: 1}, 3, ()) == pytest.approx(6 / 9)  # f2 = 0: m f1/n
    for f in ({1: 3, 2: 2, 5: 1}, {1: 9, 2: 1}, {1: 1, 2: 9, 3: 4}, {1: 4, 2: 3, 3: 2, 4: 1}):
        assert estimate(f, 0, ()) == pytest.approx(0, abs=1e-12)
        gains = [estimate(f, m, ()) for m in (1, 2, 5, 20)]
        assert all(0 < g <= m for g, m in zip(gains, (1, 2, 5, 20), strict=True))
        assert gains == sorted(gains)
    assert set(ex.ESTIMATORS) == {"good-turing", "chao", "hwang", "newr", "newr-same"}


def test_good_turing_is_unbiased_for_the_mass_unseen_before_the_last_answer():
    # E f1/n = sum p (1 - p)^(n-1), over all samples of four.
    p = [F(1, 2), F(1, 3), F(1, 6)]
    mean = F(0)
    for sample in itertools.product(range(3), repeat=4):
        f = ex.frequencies(Counter(sample).values())
        mean += math.prod(p[j] for j in sample) * F(f.get(1, 0), 4)
    assert mean == sum(q * (1 - q) ** 3 for q in p)


def test_estimators_on_the_expected_sample_of_equal_entities():
    # N entities alike, n answers: f_i = N C(n, i) p^i (1 - p)^(n - i) makes every y_i = N - 1 exactly.
    total, n = 20, 15
    p = F(1, total)
    f = {i: total * math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(1, n + 1)}
    unseen = total * (1 - p) ** n
    assert ex.sample_size(f) == n
    assert ex.distinct(f) + unseen == total
    assert {y for _, y in ex.hwang_shen_points(f)} == {total - 1}
    k = ex.hwang_shen_k(f)
    assert k == pytest.approx(total - 1)
    assert k * f[1] / n == pytest.approx(float(unseen))
    # sum i (i - 1) f_i = n (n - 1)/N, so gamma^2 = D/(C N) - 1, which is small.
    coverage = 1 - f[1] / n
    ratio = ex.distinct(f) / coverage
    assert ex.chao92(f) == ratio + n * (1 - coverage) / coverage * (ratio / total - 1)
    for m in (1, 5, 20):
        truth = float(unseen * (1 - (1 - p) ** m))
        # Shen's formula with the true f0 but f1/n for the mass: at most 1/(N - 1) too high.
        assert truth < ex.hwang_shen(f, m) < truth * 20 / 19 + 1e-9
        assert truth < ex.chao92_shen(f, m) < 1.11 * truth
        # NewRegr takes each new entity for a singleton still, and so falls behind where m is large.
        assert 0.85 * truth < ex.new_regr_same(f, m) < truth
    assert ex.good_turing(f, 20) > 1.6 * truth


def test_shen_limits():
    assert ex.shen(1e12, 0.25, 4) == pytest.approx(1.0, rel=1e-3)
    assert ex.shen(math.inf, 0.25, 4) == 1
    assert ex.shen(0.2, 0.5, 3) == 0.2  # 1 - C above f0: no odd power of a negative number
    assert ex.shen(0.0, 0.5, 3) == ex.shen(2.0, 0.0, 3) == 0


def sample_with_ratios(ratios, n):
    """Return real-valued f with y_i equal to the ratios and sum i f_i = n."""
    f = {1: 1.0}
    for i, y in enumerate(ratios, start=1):
        f[i + 1] = (n - i) * f[i] / ((i + 1) * y)
    scale = n / ex.sample_size(f)
    return {i: scale * fi for i, fi in f.items()}


@pytest.mark.parametrize("b2", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("weights", ["log", "value"])
def test_hwang_shen_recovers_its_own_curve(b2, weights):
    f = sample_with_ratios([40 * math.exp(-0.3 * i**b2) for i in range(1, 6)], 100)
    assert ex.hwang_shen_k(f, weights=weights) == pytest.approx(40, rel=1e-6)


def test_hwang_shen_with_few_or_rising_points():
    # Two points: b2 = 1, and K = y_1^2/y_2. y_1 = 12 * 6/4 = 18, y_2 = 11 * 2/3 = 22/3.
    assert ex.hwang_shen_k({1: 6, 2: 2, 3: 1}) == pytest.approx(18**2 / (22 / 3))
    # A gap: y_1 and y_4 alone, for f_3 = 0 makes y_2 infinite and y_3 nothing.
    assert [i for i, _ in ex.hwang_shen_points({1: 6, 2: 2, 4: 1, 5: 1})] == [1, 4]
    # Rising points: b1 = 0, and K is their geometric mean.
    f = sample_with_ratios([2.0, 4.0, 8.0], 50)
    assert ex.hwang_shen_k(f) == pytest.approx(4)
    assert ex.hwang_shen_k({1: 4}) is None
    assert ex.hwang_shen_k({2: 4}) is None
    assert ex.hwang_shen_k({1: 4, 3: 2}) is None


def test_hwang_shen_is_the_least_squares_fit_within_its_bounds():
    f = {1: 61, 2: 25, 3: 14, 4: 6, 5: 4, 6: 2, 7: 1}
    points = ex.hwang_shen_points(f)
    i, z = np.array([j for j, _ in points]), np.log([y for _, y in points])

    def residuals(theta):
        return theta[0] + theta[1] * i ** theta[2] - z

    fit = optimize.least_squares(residuals, [3, -0.5, 1], bounds=([-9, -99, 0.5], [99, 0, 2]))
    finer = ex.hwang_shen_k(f, [2 ** (j / 256) for j in range(-256, 257)])
    assert finer == pytest.approx(math.exp(fit.x[0]), rel=1e-2)


def test_hwang_shen_runs_away_along_a_power_law_but_its_gain_does_not():
    f = sample_with_ratios([20.0 / i for i in range(1, 7)], 120)
    ks = [ex.hwang_shen_k(f, [b2]) for b2 in (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16)]
    assert ks == sorted(ks)
    assert ks[-1] > 1000 * ks[1]
    unseen = f[1] / 120
    gains = [ex.shen(k * unseen, unseen, 5) for k in ks]
    assert gains == sorted(gains)
    assert gains[-1] / gains[1] < 1.1
    assert gains[-1] <= ex.good_turing(f, 5)


def test_new_regr_agrees_with_good_turing_to_first_order_only_where_k_is_one_over_p1():
    f = {1: 10, 2: 4, 3: 2}
    n, p1 = ex.sample_size(f), 2 * 4 / (24 * 10)
    m = 1e-5
    assert ex.new_regr_formula(f, m, 1 / p1, 1 / p1) / m == pytest.approx(10 / n, rel=0.01)
    # With K' = K without bound the slope is (f1 + 2 f2)/n instead.
    assert ex.new_regr_formula(f, m, 1e9, 1e9) / m == pytest.approx((10 + 8) / n, rel=0.01)


def test_new_regr_moves_a_lot_with_k_next():
    f = {1: 30, 2: 12, 3: 6, 4: 2}
    k = ex.hwang_shen_k(f)
    gains = [ex.new_regr_formula(f, 20, k, k * ratio) for ratio in (1, 1.04, 1.1)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] - gains[2] > 1


def test_logistic_fit_recovers_a_logistic_and_matches_least_squares():
    xs = list(range(20, 220, 20))
    exact = [(x, ex.logistic(x, 80, 0.03, 90)) for x in xs]
    a, g, d = ex.logistic_fit(exact)
    assert [ex.logistic(x, a, g, d) for x in xs] == pytest.approx([y for _, y in exact], rel=0.02)
    assert ex.logistic(240, a, g, d) == pytest.approx(ex.logistic(240, 80, 0.03, 90), rel=0.02)
    noise = stdlib_random.Random(1)
    noisy = [(x, y * math.exp(noise.gauss(0, 0.1))) for x, y in exact]
    ys = np.array([y for _, y in noisy])

    def curve(x, a, g, d):
        return a / (1 + np.exp(-g * (x - d)))

    best, _ = optimize.curve_fit(curve, xs, ys, p0=[80, 0.03, 90])
    least = float(((curve(np.array(xs), *best) - ys) ** 2).sum())
    a, g, d = ex.logistic_fit(noisy)
    mine = sum((ex.logistic(x, a, g, d) - y) ** 2 for x, y in noisy)
    assert least <= mine <= 1.05 * least
    assert ex.logistic_fit(noisy[:2]) is None
    assert ex.logistic_fit([(5, 1.0), (5, 2.0), (7, 1.0)]) is None


def test_new_regr_uses_the_past():
    f = {1: 30, 2: 12, 3: 6, 4: 2}
    n = ex.sample_size(f)
    k = ex.hwang_shen_k(f)
    # Short of three pairs, or with a curve that is flat, K' = K.
    assert ex.new_regr(f, 10, [(50, k)]) == ex.new_regr_same(f, 10)
    flat = [(n - 60, k), (n - 30, k), (n, k)]
    a, g, d = ex.logistic_fit(flat)
    assert ex.logistic(n + 10, a, g, d) == pytest.approx(k, rel=0.01)
    # A curve that grows takes away from the gain; one that misses K at n moves "logistic" but not "ratio".
    growing = [(x, ex.logistic(x, 1.05 * k, 0.05, 20)) for x in (n - 40, n - 20, n - 10, n)]
    assert ex.new_regr(f, 10, growing) < ex.new_regr_same(f, 10)
    ahead = ex.logistic(n + 10, *ex.logistic_fit(growing))
    assert ex.new_regr(f, 10, growing) == ex.new_regr_formula(f, 10, k, ahead)
    higher = [(x, 1.02 * y) for x, y in growing]
    ratio = ex.new_regr(f, 10, growing, "ratio")
    assert ex.new_regr(f, 10, higher, "ratio") == pytest.approx(ratio)
    assert 0 < ex.new_regr(f, 10, higher) < 0.98 * ex.new_regr(f, 10, growing)


# The poset.


def test_poset_by_hand():
    poset = ex.Poset(TREES, [(1, 2), (1, 2), (2, 3)])
    assert poset.nodes == [
        (0, 0),
        (0, 1), (1, 0), (2, 0),
        (0, 2), (0, 3), (1, 1), (2, 1),
        (1, 2), (2, 3),
    ]  # fmt: skip
    assert poset.leaf_nodes == [(1, 2), (2, 3)]
    assert poset.children((0, 0)) == [(1, 0), (2, 0), (0, 1)]
    assert poset.children((1, 1)) == [(1, 2)]  # (1, 3) holds no entity
    assert poset.ancestors((1, 2)) == [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (1, 2)]
    assert (poset.population((0, 1)), poset.population((2, 1))) == ([0, 1, 2], [2])
    assert (poset.specificity((0, 3)), poset.specificity((1, 1)), poset.depth((0, 3))) == (1, 2, 2)
    assert poset.is_below((1, 2), (0, 1))
    assert not poset.is_below((1, 2), (2, 0))
    full = ex.Poset(TREES, [(1, 2), (1, 2), (2, 3)], empty_nodes=True)
    assert len(full.nodes) == 3 * 4
    assert len(full.leaf_nodes) == 2 * 2
    assert full.population((1, 3)) == []
    assert (1, 3) in full.children((1, 1))
    with pytest.raises(ValueError, match="leaf"):
        ex.Poset(TREES, [(1, 1)])


def test_poset_against_its_definition():
    # Event type, location and time of Eventbrite's shape: trees of depth 1, 3 and 2. Every entity sits at
    # 2 * 4 * 3 = 24 nodes, which is also the published node populations' sum over the number of events.
    rng = stdlib_random.Random(3)
    trees = [[0, 0, 0, 0], [0, 0, 0, 1, 1, 2, 3, 3, 4, 5], [0, 0, 0, 1, 1, 2]]
    tree_leaves = [[i for i in range(len(t)) if i not in t[1:]] for t in trees]
    leaves = [tuple(rng.choice(choices) for choices in tree_leaves) for _ in range(30)]
    poset = ex.Poset(trees, leaves)
    assert sum(len(poset.population(v)) for v in poset.nodes) == 30 * 24
    for v in poset.nodes:
        assert poset.population(v) == [e for e in range(30) if poset.is_below(leaves[e], v)]
        assert poset.population(v)
        below = [u for u in poset.nodes if u != v and poset.is_below(u, v)]
        # Direct descendants: below v, with nothing between.
        direct = [u for u in below if not any(w not in (u, v) and poset.is_below(u, w) for w in below)]
        assert sorted(poset.children(v)) == sorted(direct)
        assert (v in poset.leaf_nodes) == (not below)


# Answers and costs.


def test_answers_by_hand():
    weights, uniforms = [1.0, 2.0, 4.0], [0.9, 0.5, 0.2]
    # Clocks: .105, .347, .402. Products: .9, 1, .8.
    assert ex.proportional_by_clocks(weights, uniforms, [0, 1, 2], 2) == [0, 1]
    assert ex.k_largest(weights, uniforms, [0, 1, 2], 2) == [1, 0]
    assert ex.k_largest(weights, uniforms, [0, 2], 5) == [0, 2]
    assert ex.proportional_by_clocks(weights, uniforms, [], 2) == []
    # Of 1, 2, 4 with weight 7: .5 * 7 = 3.5 falls to the last; then of 1, 2 with weight 3: .2 * 3 = .6 to the first.
    assert ex.proportional_in_sequence(weights, [0.5, 0.2], [0, 1, 2], 2) == [2, 0]
    poset = ex.Poset([[0, 0, 0]], [(1,), (1,), (2,)])
    for model, expected in (("proportional", 0), ("k-largest", 1)):
        answer = ex.answers(poset, weights, model, lambda query: uniforms)
        assert answer(ex.Query(1, ROOT, 1, 0, ())) == [expected]
        assert answer(ex.Query(1, ROOT, 2, 1, (1,))) == [0, 2]
        assert answer(ex.Query(1, ONE, 2, 2, (0, 1))) == []
    assert set(ex.MODELS) == {"proportional", "k-largest"}


def test_proportional_law_by_enumeration():
    # Weights 1, 2, 3: cells of 1/6 and 1/60 decide the first and the second draw exactly.
    weights = [F(1), F(2), F(3)]
    pairs: Counter[tuple[int, ...]] = Counter()
    for a, b in itertools.product(range(6), range(60)):
        drawn = ex.proportional_in_sequence(weights, [F(2 * a + 1, 12), F(2 * b + 1, 120)], [0, 1, 2], 2)
        pairs[tuple(drawn)] += F(1, 360)
    for i, j in itertools.permutations(range(3), 2):
        assert pairs[i, j] == weights[i] / 6 * weights[j] / (6 - weights[i])
    for e in range(3):
        expected = sum((p for pair, p in pairs.items() if e in pair), F(0))
        assert ex.inclusion_proportional(weights, 2)[e] == expected
    assert ex.inclusion_proportional(weights, 1) == [F(1, 6), F(1, 3), F(1, 2)]
    assert ex.inclusion_proportional(weights, 5) == [1, 1, 1]


def test_k_largest_law_by_hand():
    # P(U > 2 V) = 1/4.
    assert ex.inclusion_k_largest([1, 2], 1) == pytest.approx([1 / 4, 3 / 4])
    assert ex.inclusion_k_largest([3, 3, 3], 1) == pytest.approx([1 / 3] * 3)
    # Three weights 1, 1, 2, one chosen: the last with probability 1/2 + (1/2) (1/3) = 2/3.
    assert ex.inclusion_k_largest([1, 1, 2], 1) == pytest.approx([1 / 6, 1 / 6, 2 / 3])
    for k in range(1, 6):
        assert sum(ex.inclusion_k_largest([1, 2, 2.5, 7, 0.1], k)) == pytest.approx(k)


@pytest.mark.parametrize("model", ex.MODELS)
def test_models_follow_their_laws(model):
    weights, k, runs = [0.5, 1.0, 2.0, 2.0, 6.0], 2, 6000
    rng = np.random.default_rng(7)
    hits = np.zeros(5)
    for uniforms in rng.random((runs, 5)):
        hits[ex.MODELS[model](weights, uniforms, range(5), k)] += 1
    law = {"proportional": ex.inclusion_proportional, "k-largest": ex.inclusion_k_largest}[model]
    p = np.array([float(x) for x in law(weights, k)])
    assert np.all(np.abs(hits / runs - p) < 4.5 * np.sqrt(p * (1 - p) / runs))
    # The unpopular one comes rarely under both, and far more so under the k largest.
    assert (p[0] < 0.02) == (model == "k-largest")


def test_expected_gain_by_hand():
    weights = [F(1), F(2), F(3), F(6)]
    # At leaf 1 without entity 1: entities 0 and 2, weights 1 and 3; entity 2 is known.
    query = ex.Query(1, ONE, 1, 1, (1,))
    assert ex.expected_gain(FORK, weights, "proportional", query, {1, 2}) == pytest.approx(1 / 4)
    # P(U > 3 V) = 1/6.
    assert ex.expected_gain(FORK, weights, "k-largest", query, {1, 2}) == pytest.approx(1 / 6)
    assert ex.expected_gain(FORK, weights, "proportional", ex.Query(1, ONE, 5, 0, ()), {1}) == 2
    assert ex.expected_gain(FORK, weights, "k-largest", ex.Query(1, TWO, 5, 1, (3,)), {3}) == 0


def test_costs_by_hand():
    assert ex.linear_cost(20, 0, 0, s_max=3) == 1
    assert ex.linear_cost(5, 2, 1, s_max=2) == F(1, 4) + 1 + F(1, 2)
    assert ex.linear_cost(20, 10, 3, s_max=3) == 7
    costs = [ex.step_cost(k, e, 2) for k, e in ((5, 0), (10, 0), (20, 0), (5, 2), (10, 5), (20, 5), (20, 10))]
    assert costs == [F(c, 100) for c in (20, 60, 80, 30, 110, 130, 150)]


# What an agent knows.


def agent_after(*answers, readings=PLAIN, chance=NO_CHANCE, poset=FORK, queries=None, budget=100):
    configurations = [(1, 0), (2, 0), (4, 0), (1, 1), (1, 2)]
    problem = ex.Problem(poset, configurations, fork_cost, F(budget))
    agent = ex.Agent(problem, script(*answers), chance, readings)
    for node, k, length in queries or [(poset.root, 4, 0)] * len(answers):
        agent.issue((node, k, length))
        agent.t += 1
    return agent


def test_answers_count_at_all_ancestors():
    poset = ex.Poset(TREES, [(1, 2), (1, 2), (2, 3)])
    agent = agent_after([0, 2], [0], poset=poset, queries=[((0, 0), 2, 0), ((1, 0), 1, 0)])
    assert agent.counts[0, 0] == {0: 2, 2: 1}
    assert agent.counts[0, 1] == {0: 2, 2: 1}
    # Entity 0 was asked for at (1, 0), and counts at the nodes beside and below it too.
    for v in ((1, 0), (0, 2), (1, 1), (1, 2)):
        assert agent.counts[v] == {0: 2}
    for v in ((2, 0), (0, 3), (2, 1), (2, 3)):
        assert agent.counts[v] == {2: 1}
    assert list(agent.entities) == [0, 2]
    assert agent.left == 100 - 1 - F(1, 2) - 1
    # K of the nodes with f1 and f2: y_1 = 2 * 1/2 = 1 at n = 3.
    assert agent.history == {v: [(3, 1.0)] for v in ((0, 0), (0, 1))}


def test_exclude_list_average_by_hand():
    # Root: entity 0 twice, 1 once. Without 0 the sample is {1: 1}, and m f1/n = 1; without 1 it is {2: 1}, and 0.
    asked = []

    def subset(draw, items, size):
        asked.append((draw, items, size))
        return [items[draw.copy % 4 == 3]]

    readings = ex.Readings(bootstrap=0, exclude_draws=8)
    agent = agent_after([0, 1], [0], readings=readings, chance=ex.Chance(subset, never, never))
    assert agent.estimate(ex.good_turing, (ROOT, 1, 1)) == (6 / 8, 0)
    assert asked[5] == (ex.Draw("estimate", 3, ROOT, 1, 1, 3, 5), [0, 1], 1)
    # Two to exclude of two, nothing is left: the gain of a node never seen, without a random choice.
    assert agent.estimate(ex.good_turing, (ROOT, 1, 2)) == (1, 0)
    assert len(asked) == 8
    # Never seen: k or 1.
    assert agent.estimate(never, (TWO, 4, 0)) == (4, 0)
    one = agent_after(readings=ex.Readings(unseen="one"))
    assert one.estimate(never, (TWO, 4, 0)) == (1, 0)


def test_bootstrap_by_hand():
    # Counts (2, 1) become (3, 0) and (1, 2): gains 0 and 4/3, so the mean is 2/3 and the variance 4/9.
    draws = []

    def resample(draw, counts):
        draws.append(draw)
        assert counts == [2, 1]
        return [[3, 0], [1, 2]][draw.copy]

    chance = ex.Chance(never, resample, never)
    agent = agent_after([0, 1], [0], readings=ex.Readings(bootstrap=2), chance=chance)
    assert agent.estimate(ex.good_turing, (ROOT, 4, 0)) == (pytest.approx(4 / 3), pytest.approx(4 / 9))
    assert draws == [ex.Draw("bootstrap", 3, ROOT, 4, 0, 3, b) for b in range(2)]
    agent = agent_after([0, 1], [0], readings=ex.Readings(bootstrap=2, gain="bootstrap-mean"), chance=chance)
    assert agent.estimate(ex.good_turing, (ROOT, 4, 0)) == (pytest.approx(2 / 3), pytest.approx(4 / 9))


def test_bootstrap_draws_its_own_exclude_list():
    # The resample (1, 1, 2) without entity 2 has f1 = n = 2; without entity 0 m f1/n = 1/3.
    def subset(draw, items, size):
        assert draw.purpose in ("estimate", "bootstrap-exclude")
        return [2] if draw.purpose == "bootstrap-exclude" and draw.copy == 0 else [0]

    chance = ex.Chance(subset, lambda draw, counts: [1, 1, 2], never)
    readings = ex.Readings(bootstrap=2, exclude_draws=1)
    agent = agent_after([0, 1, 2], [0], readings=readings, chance=chance)
    r, variance = agent.estimate(ex.good_turing, (ROOT, 1, 1))
    assert r == 1  # {1: 1, 2: 1}
    assert variance == pytest.approx(((1 - 1 / 3) / 2) ** 2)


def test_sigma_by_hand():
    agent = agent_after([0, 1], [0])
    assert agent.sigma((ROOT, 4, 0), 0.5) == pytest.approx(math.sqrt(0.5 * math.log(3) / 2))
    assert agent.sigma((ROOT, 4, 0), 0) == pytest.approx(math.sqrt(0.01 * math.log(3) / 2))
    assert agent.sigma((ROOT, 2, 0), 0.5) == pytest.approx(math.sqrt(0.5 * math.log(3)))
    for readings, times in (
        (ex.Readings(asked_by="node"), 2),
        (ex.Readings(never_asked="plus-one"), 1),
        (ex.Readings(asked_by="node", never_asked="plus-one"), 3),
    ):
        agent = agent_after([0, 1], [0], readings=readings)
        assert agent.sigma((ROOT, 2, 0), 0.5) == pytest.approx(math.sqrt(0.5 * math.log(3) / times))
    fresh = agent_after(readings=ex.Readings(never_asked="infinite"))
    assert fresh.sigma((ROOT, 2, 0), 0.5) == math.inf
    assert agent_after().sigma((ROOT, 2, 0), 0.5) == 0  # log 1


def test_empty_answers():
    full = ex.Poset([[0, 0, 0, 1, 1]], [(3,)], empty_nodes=True)
    # Leaf 2 is empty: nothing to be had there any more. Node 1 is not touched.
    agent = agent_after([], poset=full, queries=[((2,), 2, 0)])
    assert agent.estimate(never, ((2,), 2, 0)) == (0, 0)
    assert agent.estimate(never, ((1,), 2, 0)) == (2, 0)
    # An empty answer above rules out all that is below.
    agent = agent_after([], poset=ex.Poset([[0, 0, 0, 1, 1]], [(2,)], empty_nodes=True), queries=[((1,), 2, 0)])
    assert agent.is_empty((3,))
    assert not agent.is_empty((2,))
    assert not agent.is_empty(ROOT)
    # Entity 3 is all of leaf 2: a query without it finds nothing, and that says nothing.
    queries = [(TWO, 1, 0), (TWO, 1, 1)]
    for rule, expected in (("unless-covered", False), ("always", True), ("ignored", False)):
        agent = agent_after([3], [], readings=ex.Readings(empty=rule), queries=queries)
        assert agent.queries[1].exclude == (3,)
        assert agent.is_empty(TWO) == expected
    ignored = agent_after([], poset=full, queries=[((2,), 2, 0)], readings=ex.Readings(empty="ignored"))
    assert not ignored.is_empty((2,))


def test_short_exclude_lists_and_their_cost():
    for reading, spent in (("configured", F(1, 2) + 1), ("actual", F(1, 2))):
        agent = agent_after([0], readings=ex.Readings(short_list=reading), queries=[(ROOT, 1, 2)])
        assert agent.queries[0].exclude == ()
        assert 100 - agent.left == spent
    agent = agent_after(readings=ex.Readings(short_list="unavailable"))
    assert agent.can_ask((ROOT, 1, 0))
    assert not agent.can_ask((ROOT, 1, 1))
    with pytest.raises(ValueError, match="cannot be asked"):
        agent.issue((ROOT, 1, 1))
    # From all that was retrieved: an entity elsewhere takes a place in the list.
    agent = agent_after([3], [0], readings=ex.Readings(exclude_from="all"), queries=[(TWO, 1, 0), (ONE, 1, 1)])
    assert agent.queries[1].exclude == (3,)
    # It takes nothing out of the sample of leaf 1: {1: 1}, so m f1/n = 1; with entity 0 in the list nothing is left.
    for listed, expected in ((3, 1), (0, 4)):
        agent.chance = ex.Chance(lambda draw, items, size, listed=listed: [listed], never, never)
        agent.readings = ex.Readings(exclude_from="all", bootstrap=0)
        assert agent.estimate(lambda f, m, past: 1, (ONE, 4, 1)) == (expected, 0)
    # Exactly what is left may be spent, unless the pseudocode's strict inequality is meant.
    assert agent_after(budget=1).can_ask((ROOT, 2, 0))
    assert not agent_after(budget=1, readings=ex.Readings(affordable="less")).can_ask((ROOT, 2, 0))


@pytest.mark.parametrize("answer", [[0, 0], [0, 1, 2], [3], [1, 2]])
def test_wrong_answers_are_refused(answer):
    # Twice the same, more than k, of another node, excluded.
    agent = agent_after([1], readings=ex.Readings(), queries=[(ONE, 1, 0)])
    agent._answer = lambda query: answer
    with pytest.raises(ValueError, match="no answer"):
        agent.issue((ONE, 2, 0) if answer != [1, 2] else (ONE, 1, 1))


# Policies, by hand.


def asked(trace):
    return [(query.node[0], query.k) for query in trace.queries]


def test_crux_by_hand_with_lasting_removal():
    # Line 6: r = k and sigma = 0, so (1, 0) is bad at once. Round 1: root, n = 2, r = 2; the leaves enter, leaf 1 with
    # r = 2, leaf 2 never seen with r = 2; all with k = 1 are bad. Round 2: the root is cheapest; entities 0, 2 make
    # m f1/n = 1 there and at leaf 1; leaf 2 alone survives. Round 3 spends the rest on it.
    trace = ex.crux(fork_problem(4), ex.good_turing, script([0, 1], [0, 2], [3]), NO_CHANCE, PLAIN)
    assert asked(trace) == [(0, 2), (0, 2), (2, 2)]
    assert (trace.entities, trace.spent) == ([0, 1, 2, 3], 4)
    assert trace.active[:3] == [
        [(ROOT, 2, 0)],
        [(ROOT, 2, 0), (ONE, 2, 0), (TWO, 2, 0)],
        [(TWO, 2, 0)],
    ]
    sigma = math.sqrt(0.01 * math.log(2))
    assert trace.candidates[1] == [
        ex.Scored((ROOT, 2, 0), pytest.approx(2 + sigma), 2, pytest.approx(sigma), F(1)),
        ex.Scored((ONE, 2, 0), pytest.approx((2 + sigma) / 2), 2, pytest.approx(sigma), F(2)),
        ex.Scored((TWO, 2, 0), pytest.approx((2 + sigma) / 2), 2, pytest.approx(sigma), F(2)),
    ]
    # The strict inequality of line 8 leaves the last query out.
    strict = ex.Readings(bootstrap=0, affordable="less")
    trace = ex.crux(fork_problem(4), ex.good_turing, script([0, 1], [0, 2]), NO_CHANCE, strict)
    assert (asked(trace), trace.spent) == ([(0, 2), (0, 2)], 2)
    assert trace.candidates[-1] == []


def test_crux_by_hand_without_removal():
    # Round 1: 1/.5 = 2/1, and the first configuration wins the tie. Round 2: n = 1, sigma over cost decides for it
    # again. Round 3: entity 0 came twice, r = 0; leaf 2 has (2 + sigma)/2. Rounds 4 and 5: the root again.
    readings = ex.Readings(bootstrap=0, removal="none")
    answer = script([0], [0], [3], [1], [2])
    trace = ex.crux(fork_problem(4), ex.good_turing, answer, NO_CHANCE, readings)
    assert asked(trace) == [(0, 1), (0, 1), (2, 2), (0, 1), (0, 1)]
    assert (trace.entities, trace.spent) == ([0, 3, 1, 2], 4)
    r = [scored.r for scored in trace.candidates[3]]
    assert r == pytest.approx([1 / 3, 2 / 3])  # with 1 left only the root can be asked
    # A caller that wants the other one of the tie.
    trace = ex.crux(
        fork_problem(1), ex.good_turing, script([0, 1]), NO_CHANCE, readings, select=lambda candidates: candidates[-1]
    )
    assert asked(trace) == [(0, 2)]


def test_crux_by_hand_removal_lasting_or_fresh():
    # As above up to round 3. Leaf 2 gives entity 3 twice in rounds 3 and 4, and then nothing is new there. Lasting:
    # leaf 2 is all there is. Fresh: leaf 1 is back, where m f1/n = 1, and then the root's cheapest query.
    answers = [[0, 1], [0, 2], [3], [3]]
    lasting = ex.crux(fork_problem(9), ex.good_turing, script(*answers, [3]), NO_CHANCE, PLAIN)
    assert asked(lasting) == [(0, 2), (0, 2), (2, 2), (2, 2), (2, 2)]
    assert lasting.spent == 8
    readings = ex.Readings(bootstrap=0, removal="fresh")
    answers += [[1, 2], [0], [0]]
    fresh = ex.crux(fork_problem(9), ex.good_turing, script(*answers), NO_CHANCE, readings)
    assert asked(fresh) == [(0, 2), (0, 2), (2, 2), (2, 2), (1, 2), (0, 1), (0, 1)]
    assert fresh.spent == 9


def test_crux_options_of_the_frontier():
    # Without the removal of line 6 both configurations of the root stand, with the gain 1 of a node never seen too.
    for readings in (ex.Readings(bootstrap=0, removal_at_start=False), ex.Readings(bootstrap=0, unseen="one")):
        trace = ex.crux(fork_problem(F(1, 2)), ex.good_turing, script([0]), NO_CHANCE, readings)
        assert trace.active[0] == [(ROOT, 1, 0), (ROOT, 2, 0)]
        assert asked(trace) == [(0, 1)]
    # Round 1 removes the leaves' queries with k = 1, as sigma = 0; after round 2 (the root again; sigma is large) they
    # would not be bad. They come in again with the leaves, unless reentry is off.
    for reentry, back in ((True, (1, 2)), (False, (2,))):
        readings = ex.Readings(bootstrap=0, reentry=reentry, variance_floor=3.0)
        answer = script([0, 3], [0, 1])
        trace = ex.crux(fork_problem(2), ex.good_turing, answer, NO_CHANCE, readings, select=follow_root)
        assert trace.active[1] == [(v, 2, 0) for v in (ROOT, ONE, TWO)]
        assert trace.active[2] == [(ROOT, 2, 0), *((v, k, 0) for v in (ONE, TWO) for k in back)]
    # No growth: the root alone.
    trace = ex.crux(fork_problem(3), ex.good_turing, script([0, 1], [0, 1], [0, 1]), NO_CHANCE, PLAIN, grow=False)
    assert asked(trace) == [(0, 2)] * 3


def follow_root(candidates):
    return next(scored for scored in candidates if scored.candidate[0] == ROOT)


def test_root_chao_by_hand():
    # Chao92: n = 4, f = {1: 2, 2: 1}, N = 6 as above; 3 (1 - (5/6)^2) of two.
    trace = ex.root_chao(fork_problem(3), script([0, 1], [0, 2], [1, 3]), NO_CHANCE, PLAIN)
    assert asked(trace) == [(0, 2)] * 3
    assert [scored.r for (scored,) in trace.candidates[:3]] == pytest.approx([2, 2, 11 / 12])


def test_gs_exact_by_hand():
    # Weights 1, 2, 3, 6, one entity a query. Round 1: a root query brings 1 for 1/2. Entity 3 comes: the root brings
    # 1 - 6/12 for 1/2, so 1 an amount; leaf 1 brings 1 for 3/2; leaf 2 nothing. Entity 3 again: the same.
    weights = [F(1), F(2), F(3), F(6)]
    problem = fork_problem(2, [(1, 0)])

    def gain(query, retrieved):
        return ex.expected_gain(FORK, weights, "proportional", query, retrieved)

    trace = ex.gs_exact(problem, gain, script([3], [3], [2], [1]), NO_CHANCE)
    assert asked(trace) == [(0, 1)] * 4
    assert [s.score for s in trace.candidates[1]] == pytest.approx([1, 2 / 3, 0])
    assert [s.score for s in trace.candidates[3]] == pytest.approx([1 / 2])  # 3/12 for 1/2; no leaf for 1/2
    # Entities 3 and 2 known: the root brings 3/12 for 1/2, leaf 1 1/2 for 3/2.
    trace = ex.gs_exact(fork_problem(3, [(1, 0)]), gain, script([3], [2], [1], [1], [0], [0]), NO_CHANCE)
    assert [s.score for s in trace.candidates[2]] == pytest.approx([1 / 2, 1 / 3, 0])
    # Entities 1, 2 and 3 known: 1/12 for 1/2 against 1/6 for 3/2.
    assert [s.score for s in trace.candidates[3]] == pytest.approx([1 / 6, 1 / 9, 0])


def test_gs_exact_reads_the_realised_answer():
    # The root would return known entities, leaf 2 a new one.
    def answer(query):
        return [0] if query.node != TWO else [3]

    def gain(query, retrieved):
        return len(set(answer(query)) - retrieved)

    frontier = ex.gs_exact(fork_problem(2, [(1, 0)]), gain, answer, NO_CHANCE)
    assert asked(frontier) == [(0, 1), (2, 1)]
    assert [s.candidate[0] for s in frontier.candidates[0]] == [ROOT]
    everywhere = ex.gs_exact(fork_problem(2, [(1, 0)]), gain, answer, NO_CHANCE, reach="all")
    assert [s.candidate[0] for s in everywhere.candidates[0]] == [ROOT, ONE, TWO]


def test_gs_exact_asks_with_the_list_that_it_weighed():
    # Two entities known of leaf 1; which one is left out of the answer is drawn, weighed, and asked with.
    def subset(draw, items, size):
        assert draw.purpose == "issue"
        return [items[-1]]

    seen = {}

    def gain(query, retrieved):
        seen[query.round, query.node, query.k, query.length] = query.exclude
        return 1.0 if query.round == 1 else float(query.node == ONE and query.length == 1)

    chance = ex.Chance(subset, never, never)
    trace = ex.gs_exact(fork_problem(3, [(2, 0), (1, 1)]), gain, script([0, 1], [0]), chance)
    assert trace.queries[1] == ex.Query(2, ONE, 1, 1, (1,))
    assert seen[2, ONE, 1, 1] == (1,)


def test_rand_by_hand():
    offered = []

    def pick(draw, items):
        offered.append((draw.round, items))
        return items[-1]

    chance = ex.Chance(never, never, pick)
    trace = ex.rand(fork_problem(4), script([3], [3]), chance)
    # 2 for the last leaf and 2 more: then nothing is left.
    assert (asked(trace), trace.spent) == ([(2, 2), (2, 2)], 4)
    assert offered[0] == (1, [(v, k, 0) for v in (ROOT, ONE, TWO) for k in (1, 2)])
    offered.clear()
    trace = ex.rand(fork_problem(F(7, 2)), script([3], [3]), chance)
    # 3/2 left: the leaves' dearer query is no longer offered.
    assert asked(trace) == [(2, 2), (2, 1)]
    assert offered[1] == (2, [(ROOT, 1, 0), (ROOT, 2, 0), (ONE, 1, 0), (TWO, 1, 0)])
    trace = ex.rand(fork_problem(F(7, 2)), script([3]), chance, dear="stop")
    assert (asked(trace), trace.spent) == ([(2, 2)], 2)
    offered.clear()
    trace = ex.rand_leaf(fork_problem(2), script([3]), chance)
    assert offered == [(1, [(v, k, 0) for v in (ONE, TWO) for k in (1, 2)])]


def test_bfs_by_hand():
    poset = ex.Poset(TREES, [(1, 2), (1, 2), (2, 3)], empty_nodes=True)

    def problem(budget):
        return ex.Problem(poset, [(1, 0), (2, 0)], lambda k, length, s: F(k), F(budget))

    # All entities of a node are returned, up to k.
    def answer(query):
        return poset.population(query.node)[: query.k]

    trace = ex.bfs(problem(100), answer, NO_CHANCE, configuration=(2, 0))
    nodes = [query.node for query in trace.queries]
    assert nodes == [
        (0, 0),
        (1, 0), (2, 0), (0, 1),
        (1, 1), (2, 1), (0, 2), (0, 3),
        (1, 2), (1, 3), (2, 2), (2, 3),
    ]  # fmt: skip
    assert trace.answers[-3:] == [[], [], [2]]
    # The budget ends in the fourth query; a cheaper one further on may still be asked.
    assert len(ex.bfs(problem(7), answer, NO_CHANCE, configuration=(2, 0)).queries) == 3
    turns = {1: (2, 0), 2: (2, 0), 3: (2, 0)}
    chance = ex.Chance(never, never, lambda draw, items: turns.get(draw.round, items[0]))
    assert [q.k for q in ex.bfs(problem(5), answer, chance).queries] == [2, 2]
    turns = {1: (2, 0), 2: (1, 0), 3: (1, 0)}
    assert [q.k for q in ex.bfs(problem(5), answer, chance).queries] == [2, 1, 1, 1]
    # Where the root's child 1 answers nothing, all below it is passed over, also by another way down.
    pruned = ex.bfs(
        problem(100), lambda query: [] if query.node == (1, 0) else answer(query), NO_CHANCE, configuration=(2, 0)
    )
    assert [q.node for q in pruned.queries] == [v for v in nodes if v == (1, 0) or v[0] != 1]


def test_bfs_skips_or_stops():
    def cost(k, length, s):
        return F(3) if s == 1 else F(1)

    poset = ex.Poset([[0, 0], [0, 0]], [(1, 1)])
    problem = ex.Problem(poset, [(1, 0)], cost, F(3))
    for dear in ("stop", "skip"):
        trace = ex.bfs(problem, lambda query: [0], NO_CHANCE, configuration=(1, 0), dear=dear)
        assert [q.node for q in trace.queries] == [(0, 0)]


# Policies, on random instances.


def random_instance(seed):
    rng = stdlib_random.Random(seed)
    trees = []
    for _ in range(rng.randint(1, 3)):
        tree = [0]
        for i in range(1, rng.randint(2, 6)):
            tree.append(rng.randrange(i))
        trees.append(tree)
    tree_leaves = [[i for i in range(len(t)) if i not in t[1:]] for t in trees]
    leaves = [tuple(rng.choice(c) for c in tree_leaves) for _ in range(rng.randint(1, 12))]
    poset = ex.Poset(trees, leaves, empty_nodes=rng.random() < 0.3)
    weights = [rng.uniform(0.1, 10) for _ in leaves]
    model = rng.choice(list(ex.MODELS))
    configurations = [(1, 0), (3, 0), (2, 1), (3, 2)]
    if rng.random() < 0.5:

        def cost(k, length, s):
            return ex.linear_cost(k, length, s, s_max=len(trees), k_max=3, l_max=2)
    else:
        cost = ex.step_cost
    problem = ex.Problem(poset, configurations, cost, F(rng.randint(0, 30), 10))

    def uniforms(query):
        draw = stdlib_random.Random(f"{seed}-{query.round}-{query.node}-{query.k}-{query.exclude}")
        return [draw.random() for _ in leaves]

    readings = ex.Readings(
        unseen=rng.choice(["k", "one"]),
        gain=rng.choice(["point", "bootstrap-mean"]),
        removal=rng.choice(["lasting", "fresh", "none"]),
        removal_at_start=rng.random() < 0.5,
        reentry=rng.random() < 0.5,
        never_asked=rng.choice(["one", "plus-one", "infinite"]),
        asked_by=rng.choice(["configuration", "node"]),
        bootstrap=rng.choice([0, 3]),
        exclude_draws=2,
        exclude_from=rng.choice(["node", "all"]),
        short_list=rng.choice(["configured", "actual", "unavailable"]),
        affordable=rng.choice(["at most", "less"]),
        empty=rng.choice(["unless-covered", "always", "ignored"]),
    )
    return problem, ex.answers(poset, weights, model, uniforms), weights, model, readings


def check(trace, problem, readings):
    assert trace.spent <= problem.budget
    assert trace.entities == list(dict.fromkeys(itertools.chain(*trace.answers)))
    assert [query.round for query in trace.queries] == list(range(1, len(trace.queries) + 1))
    known: set[int] = set()
    spent = F(0)
    for query, answer in zip(trace.queries, trace.answers, strict=True):
        population = set(problem.poset.population(query.node))
        assert set(query.exclude) <= known
        if readings.exclude_from == "node":
            assert set(query.exclude) <= population
            assert len(query.exclude) == min(query.length, len(known & population))
        left = population - set(query.exclude)
        assert len(answer) == min(query.k, len(left))
        known |= set(answer)
        length = len(query.exclude) if readings.short_list == "actual" else query.length
        spent += problem.cost(query.k, length, problem.poset.specificity(query.node))
    assert spent == trace.spent


@pytest.mark.parametrize("seed", range(25))
def test_policies_on_random_instances(seed):
    problem, answer, weights, model, readings = random_instance(seed)
    chance = seeded(seed)
    poset = problem.poset

    def gain(query, retrieved):
        return ex.expected_gain(poset, weights, model, query, retrieved)

    runs = {name: ex.crux(problem, e, answer, chance, readings) for name, e in ex.ESTIMATORS.items()}
    assert ex.crux(problem, ex.new_regr, answer, chance, readings) == runs["newr"]
    for trace in runs.values():
        for query, candidates in zip(trace.queries, trace.candidates, strict=False):
            best = max(candidates, key=lambda s: s.score)
            assert best.candidate == (query.node, query.k, query.length)
    runs["root-chao"] = ex.root_chao(problem, answer, chance, readings)
    assert {query.node for query in runs["root-chao"].queries} <= {poset.root}
    runs["gs-exact"] = ex.gs_exact(problem, gain, answer, chance, readings)
    for trace in runs.values():
        # A node is a candidate only after a query right above it.
        reached = {poset.root}
        for query, candidates in zip(trace.queries, trace.candidates, strict=False):
            assert {scored.candidate[0] for scored in candidates} <= reached
            reached |= set(poset.children(query.node))
    runs["rand"] = ex.rand(problem, answer, chance, readings)
    runs["rand-leaf"] = ex.rand_leaf(problem, answer, chance, readings)
    assert {query.node for query in runs["rand-leaf"].queries} <= set(poset.leaf_nodes)
    runs["bfs"] = ex.bfs(problem, answer, chance, readings)
    assert max(Counter(query.node for query in runs["bfs"].queries).values(), default=1) == 1
    for trace in runs.values():
        check(trace, problem, readings)


def test_expected_gain_is_the_mean_gain():
    # Over many draws of the answer, from the state that a run has reached.
    weights = [1.0, 2.0, 3.0, 6.0]
    query = ex.Query(1, ROOT, 2, 1, (1,))
    rng = np.random.default_rng(5)
    for model in ex.MODELS:
        answer = ex.answers(FORK, weights, model, lambda query: rng.random(4))
        gains = np.array([len(set(answer(query)) - {1, 3}) for _ in range(4000)])
        expected = ex.expected_gain(FORK, [F(w) for w in weights], model, query, {1, 3})
        assert abs(gains.mean() - expected) < 4.5 * gains.std() / math.sqrt(len(gains))
