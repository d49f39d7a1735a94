"""The oracles of the top-K rules against hand-worked cases, enumeration, published figures and each other."""

from __future__ import annotations

import itertools
import math
import random as stdlib_random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from tests.oracles import topk

F = Fraction


def constant(values):
    """Make a tape on which each arm always pays the same."""
    return lambda arm, j: values[arm]


def tape(rows):
    """Make a tape from a string of 0 and 1 per arm."""
    return lambda arm, j: int(rows[arm][j])


def bernoulli(means, seed):
    """Make a tape of independent draws, the same ones whatever the order of the calls."""
    drawn: dict[tuple[int, int], int] = {}

    def reward(arm: int, j: int) -> int:
        if (arm, j) not in drawn:
            drawn[arm, j] = int(stdlib_random.Random(f"{seed}-{arm}-{j}").random() < means[arm])
        return drawn[arm, j]

    return reward


def fractions(seed):
    """Make a tape of rational rewards, whose means all but surely never tie."""

    def reward(arm: int, j: int) -> Fraction:
        return F(stdlib_random.Random(f"{seed}-{arm}-{j}").getrandbits(40), 2**40)

    return reward


def halves(reward, n, k, budget, **options):
    return topk.sequential_halving(reward, n, k, budget, **options)


def confidence(reward, n, k, budget, **options):
    return topk.lucb_confidence(reward, n, k, epsilon=0.3, delta=0.2, budget=budget, **options)


def kl_to_budget(reward, n, k, budget, **options):
    return topk.kl_lucb(reward, n, k, epsilon=None, delta=0.1, budget=budget, **options)


RULES = {
    "uniform": (topk.uniform, {"remainder": ("drop", "spread")}),
    "optmai": (
        topk.optmai,
        {"shares": ("carry", "floor", "cumulative"), "accept": ("rank", "kth", "printed"), "reduce": (False, True)},
    ),
    "optmai-ties": (
        topk.optmai,
        {
            "qe": ("quarter", "strict"),
            "quarter": ("up", "down"),
            "qe_while": ("at least", "more than"),
            "gap_ties": ("priority", "accept", "reject"),
            "fill": ("at once", "rounds"),
        },
    ),
    "optmai-last": (
        topk.optmai,
        {"last": ("uniform",), "last_budget": ("rest", "round"), "inflate": (True, False), "reuse": (True, False)},
    ),
    "optmai-printed": (
        topk.optmai_printed,
        {"qe": ("quarter", "strict"), "accept": ("rank", "printed"), "shares": ("carry", "floor", "cumulative")},
    ),
    "sar": (
        topk.sar,
        {"accept": ("rank", "printed"), "stop": ("early", "phases"), "gap_ties": ("priority", "accept", "reject")},
    ),
    "lucb": (topk.lucb, {"odd": ("weak", "strong", "skip"), "clock": ("round", "pulls")}),
    "lucb-confidence": (confidence, {"stop": ("less", "at most"), "first_check": (True, False)}),
    "kl-lucb": (kl_to_budget, {"rate": ("log", "log + log log")}),
    "halving": (halves, {"reuse": (False, True), "shares": ("floor", "carry")}),
}
VARIANTS = [
    pytest.param(rule, dict(zip(options, values, strict=True)), id="-".join([name, *map(str, values)]))
    for name, (rule, options) in RULES.items()
    for values in itertools.product(*options.values())
]


def check(result: topk.Result, n: int, k: int, budget: int) -> None:
    assert len(result.chosen) == len(set(result.chosen)) == k
    assert list(result.chosen) == sorted(result.chosen)
    counted = [sum(c for arm, c in result.sequence if arm == i) for i in range(n)]
    assert list(result.pulls) == counted
    assert all(c > 0 for _, c in result.sequence)
    assert result.spent <= budget
    if result.history:
        shares = [sum(c for arms, c in result.history if i in arms) for i in range(n)]
        assert list(result.pulls) == shares


# Every rule and every reading.


@pytest.mark.parametrize(("rule", "options"), VARIANTS)
def test_budget_and_answer(rule, options):
    for n, k, budget in [(1, 1, 0), (1, 1, 7), (2, 1, 5), (2, 2, 9), (3, 2, 2), (5, 1, 43), (6, 3, 61), (9, 2, 0),
                         (9, 2, 88), (9, 9, 30), (11, 2, 150), (13, 12, 77), (17, 1, 120)]:  # fmt: skip
        means = [i / n for i in range(n)]
        check(rule(bernoulli(means, 0), n, k, budget, **options), n, k, budget)
        for values in ([1] * n, [i % 2 for i in range(n)]):
            check(rule(constant(values), n, k, budget, **options), n, k, budget)


@pytest.mark.parametrize(("rule", "options"), VARIANTS)
def test_constant_and_distinct_rewards_are_ranked_right(rule, options):
    if rule in (topk.optmai, topk.optmai_printed) and options.get("accept") == "printed":
        options = {**options, "gap_ties": "accept"}  # else the last two arms are a coin flip, see below
    for n, k in [(2, 1), (3, 1), (4, 2), (5, 4), (8, 1), (9, 2), (10, 7)]:
        order = stdlib_random.Random(n).sample(range(n), n)
        values = [F(2 ** order[i], 2**n) for i in range(n)]
        best = tuple(sorted(i for i in range(n) if order[i] >= n - k))
        assert rule(constant(values), n, k, 40 * n, **options).chosen == best


@pytest.mark.parametrize(("rule", "options"), VARIANTS)
def test_renaming_the_arms_renames_the_run(rule, options):
    # With one priority per arm and decision, nothing may depend on an arm's number, except the order within a round.
    n, k, budget = 9, 2, 95
    means = [0.1, 0.3, 0.3, 0.5, 0.5, 0.5, 0.8, 0.8, 1]
    reward = bernoulli(means, "names")
    new = [4, 8, 1, 0, 7, 3, 6, 2, 5]  # the new number of each arm
    old = [new.index(i) for i in range(n)]

    def ties(step, what):
        return stdlib_random.Random(f"{step}-{what}").sample(range(n), n)

    def new_ties(step, what):
        priorities = ties(step, what)
        return [priorities[old[i]] for i in range(n)]

    first = rule(reward, n, k, budget, ties=ties, **options)
    second = rule(lambda arm, j: reward(old[arm], j), n, k, budget, ties=new_ties, **options)
    assert second.chosen == tuple(sorted(new[i] for i in first.chosen))
    assert [second.pulls[new[i]] for i in range(n)] == list(first.pulls)


def test_equal_arms_go_by_priority():
    ties = [5, 0, 3, 1, 4, 2]
    for rule in (topk.uniform, topk.lucb, halves, topk.optmai, topk.sar, topk.optmai_printed):
        assert rule(constant([1] * 6), 6, 3, 60).chosen == (0, 1, 2)
        assert rule(constant([1] * 6), 6, 3, 60, ties=ties).chosen == (1, 3, 5)


@pytest.mark.parametrize("name", ["uniform", "halving", "sar", "optmai", "optmai-printed"])
def test_rules_of_rounds_never_look_at_the_scale_of_the_reward(name):
    rule = RULES[name][0]
    reward = bernoulli([0.2, 0.4, 0.5, 0.6, 0.7, 0.7, 0.9], 3)
    plain = rule(reward, 7, 2, 90)
    assert rule(lambda arm, j: 3 * reward(arm, j) - 1, 7, 2, 90) == plain
    assert rule(lambda arm, j: np.int32(reward(arm, j)), 7, 2, 90) == plain
    assert rule(lambda arm, j: np.bool_(reward(arm, j)), 7, 2, 90) == plain
    assert rule(lambda arm, j: bool(reward(arm, j)), 7, 2, 90) == plain


def test_the_tape_is_read_once_and_in_order():
    for rule in (topk.uniform, topk.lucb, halves, topk.optmai, topk.sar, topk.optmai_printed, kl_to_budget):
        seen: dict[int, list[int]] = {i: [] for i in range(10)}

        def reward(arm: int, j: int, seen=seen) -> int:
            seen[arm].append(j)
            return (arm * j) % 3 % 2

        result = rule(reward, 10, 2, 77)
        assert [seen[i] for i in range(10)] == [list(range(c)) for c in result.pulls]


def test_means_are_compared_exactly():
    # 1/3 of 3 pulls against 333333333333333333333/10^21 would tie as floats.
    values = [F(333333333333333333333, 10**21), F(1, 3)]
    assert topk.uniform(constant(values), 2, 1, 6).chosen == (1,)
    assert topk.uniform(constant([float(v) for v in values]), 2, 1, 6).chosen == (0,)


# Uniform.


def test_uniform_by_hand():
    reward = tape(["0101", "1110", "0110", "1000"])
    result = topk.uniform(reward, 4, 2, 15)
    assert result.sequence == ((0, 3), (1, 3), (2, 3), (3, 3))
    assert result.chosen == (1, 2)
    spread = topk.uniform(reward, 4, 2, 15, remainder="spread", ties=[3, 2, 0, 1])
    assert spread.sequence == ((0, 3), (1, 3), (2, 3), (3, 3), (1, 1), (2, 1), (3, 1))
    assert spread.chosen == (1, 2)
    # Means 1/3, 3/4 (arm 1 has one pull more), 2/3, 1/3: the fourth sample of arm 1 costs it nothing against 2/3.
    assert topk.uniform(reward, 4, 1, 13, remainder="spread", ties=[1, 0, 2, 3]).chosen == (1,)


def test_too_small_a_budget_leaves_the_priorities():
    for rule in (topk.uniform, topk.sar, halves):
        result = rule(constant([0, 1, 2]), 3, 1, 2)
        assert (result.spent, result.chosen) == (0, (0,))
    result = topk.lucb(constant([0, 1, 2]), 3, 1, 2)
    assert (result.sequence, result.chosen) == (((0, 1), (1, 1)), (1,))


# OptMAI.


def test_the_inflated_budget():
    q = topk.inflated_budget(1000, 20000, 0.9)
    assert float(q) == pytest.approx(20000 / (1 - 0.9 ** (math.log(1000) / math.log(4 / 3))), rel=1e-13)
    assert topk.inflated_budget(1000, 20000, "0.9") == q
    assert float(topk.beta_printed()) == pytest.approx(0.75 * math.exp(0.2), rel=1e-15)


def test_optmai_by_hand():
    # n = 8, beta = 0.8: Q' = 100 / (1 - 0.8^(ln 8 / ln(4/3))) = 100 / (1 - 0.19932) = 124.89, allotments 24.98, 19.98,
    # 15.99, 12.79, 10.23. QE at 8, 6 and 4 arms (K = 1): 24.98/8 = 3, 19.98/6 = 3, 15.99/4 = 3 by "floor".
    reward = constant([3, 1, 4, 1, 5, 9, 2, 6])
    sets = (0, 1, 2, 3, 4, 5, 6, 7), (0, 2, 4, 5, 6, 7), (2, 4, 5, 7), (4, 5, 7), (5, 7)
    result = topk.optmai(reward, 8, 1, 100, shares="floor")
    # AR at 3 arms, 12.79/3 = 4: the gaps are 4 (arm 4), 3 and 3: arm 4 goes. At 2 arms, 10.23/2 = 5: both gaps are 3,
    # arm 5 goes by its lower number, and its rank is 1.
    assert result.history == tuple(zip(sets, (3, 3, 3, 4, 5), strict=True))
    assert result.chosen == (5,)
    assert result.sequence[-5:] == ((4, 4), (5, 4), (7, 4), (5, 5), (7, 5))
    # Carried: 24.98/8 = 3; (44.96 - 24)/6 = 3; (60.95 - 42)/4 = 4; (73.74 - 58)/3 = 5; (83.97 - 73)/2 = 5.
    carried = topk.optmai(reward, 8, 1, 100)
    assert carried.history == tuple(zip(sets, (3, 3, 4, 5, 5), strict=True))
    # Real shares of an arm: 3.12, +3.33 = 6.45, +4.00 = 10.45, +4.26 = 14.71, +5.12 = 19.83.
    cumulative = topk.optmai(reward, 8, 1, 100, shares="cumulative")
    assert cumulative.history == tuple(zip(sets, (3, 3, 4, 4, 5), strict=True))
    # The other priority: arm 7 goes first, of rank 2: it is discarded, and arm 5 fills the answer without a pull.
    other = topk.optmai(reward, 8, 1, 100, shares="floor", ties=[7, 6, 5, 4, 3, 2, 1, 0])
    assert (other.chosen, other.history[3:]) == ((5,), result.history[3:])
    # "rounds" goes on with the single arm: 8.19 pulls.
    rounds = topk.optmai(reward, 8, 1, 100, shares="floor", ties=[7, 6, 5, 4, 3, 2, 1, 0], fill="rounds")
    assert rounds.history[5:] == (((5,), 8),)


def test_optmai_printed_by_hand():
    # beta = 0.91605 and Q = 120: allotments 10.07, 9.23, 8.45: 10.07/4 = 2, 9.23/3 = 3 and 8.45/2 = 4, means of the
    # round only. Round 0: means 1/2, 1, 0, 1/2. QE: arm 2 goes. Round 1 (AR, K' = 1): means 1, 0, 1/3, gaps 2/3, 1,
    # 2/3: arm 1 goes.
    reward = tape(["101110000", "11000", "00", "100101111"])
    result = topk.optmai_printed(reward, 4, 1, 120, shares="floor")
    assert result.history == (((0, 1, 2, 3), 2), ((0, 1, 3), 3), ((0, 3), 4))
    # Round 2: 0/4 against 4/4, though over all rounds arm 0 has 4/9 and arm 3 has 6/9.
    assert result.chosen == (3,)
    # With all samples: round 1 has 4/5, 2/5 and 2/5: the gaps are 2/5 each, arm 0 goes first and is accepted.
    assert topk.optmai_printed(reward, 4, 1, 120, shares="floor", reuse=True).chosen == (0,)


def test_the_simpler_last_stage():
    # Remark 4.1. Allotments 20, 16, 12.8, 10.24: shares 2, 2, 3 at 8, 6, 4 arms; 60 are left for 3 arms.
    reward = constant([3, 1, 4, 1, 5, 9, 2, 6])
    options = {"inflate": False, "shares": "floor", "last": "uniform"}
    rest = topk.optmai(reward, 8, 1, 100, **options)
    assert [share for _, share in rest.history] == [2, 2, 3, 20]
    assert (rest.history[-1][0], rest.chosen, rest.spent) == ((4, 5, 7), (5,), 100)
    one = topk.optmai(reward, 8, 1, 100, last_budget="round", **options)
    assert [share for _, share in one.history] == [2, 2, 3, 3]
    # Where 4K > n there is no other stage, and it is uniform sampling.
    plain = bernoulli([0.3, 0.5, 0.6, 0.7, 0.8], 1)
    uniform = topk.uniform(plain, 5, 2, 63)
    last = topk.optmai(plain, 5, 2, 63, last="uniform")
    assert (last.chosen, last.sequence) == (uniform.chosen, uniform.sequence)


def test_qe_at_exactly_4k_arms():
    reward = constant(list(range(8)))
    assert [len(s) for s, _ in topk.optmai(reward, 8, 2, 200).history][:2] == [8, 6]
    by_qe = topk.optmai(reward, 8, 2, 200)
    by_ar = topk.optmai(reward, 8, 2, 200, qe_while="more than")
    assert by_qe.history[1][0] == (2, 3, 4, 5, 6, 7)
    # AR: kth = 6, after = 5: the gaps are 6 and 5 (arms 0 and 1), 4, 3, 2, 1, 1, 2 (arm 7): the same two go.
    assert by_ar.history == by_qe.history
    assert topk.optmai(constant([0, 9, 9, 9, 9, 9, 50, 90]), 8, 2, 200, qe_while="more than").history[1][0] == (
        1, 2, 3, 4, 5, 6,
    )  # fmt: skip


def round_of(means):
    """Make a run whose estimates are the given means."""
    run = topk._Run(constant(means), len(means), 1, None, None)
    run.round(range(len(means)), 1)
    return run


def test_accept_reject_by_enumeration():
    for size, k in [(1, 1), (2, 1), (4, 2), (5, 2), (5, 4), (6, 3)]:
        for means in itertools.product(range(3), repeat=size):
            run = round_of(means)
            order = run.ranked(range(size), 0)
            level = sorted(means, reverse=True)
            for accept, gap_ties in itertools.product(("rank", "kth"), ("priority", "accept", "reject")):
                s, t = topk._accept_reject(run, set(range(size)), set(), k, accept, gap_ties, 0)
                gone = set(range(size)) - s - t
                assert len(t) == k or len(s) == 3 * size // 4
                assert 4 * len(s) >= 3 * size - 3  # no more than a quarter, rounded up
                if accept == "rank":
                    assert t <= set(order[:k])
                    assert gone <= set(order[k:])
                assert all(means[i] >= level[k - 1] for i in t)
                assert all(means[i] <= level[k - 1] for i in gone)
                assert len(s) + len(t) >= k


def test_the_order_of_removal_by_hand():
    # Means 5 4 | 1 0 with K' = 2: gaps 4, 3, 3, 4.
    run = round_of([5, 4, 1, 0])
    for gap_ties, expected in [("priority", {0}), ("accept", {0}), ("reject", set())]:
        s, t = topk._accept_reject(run, {0, 1, 2, 3}, set(), 2, "rank", gap_ties, 0)
        assert (t, len(s)) == (expected, 3)
    # Of eight arms two go: 9 8 8 | 7 7 6 6 6 with K' = 3: gaps 2, 1, 1, 1, 1, 2, 2, 2.
    run = round_of([9, 8, 8, 7, 7, 6, 6, 6])
    eight = set(range(8))
    assert topk._accept_reject(run, eight, set(), 3, "rank", "accept", 0) == ({1, 2, 3, 4, 5, 6}, {0})
    assert topk._accept_reject(run, eight, set(), 3, "rank", "reject", 0) == ({0, 1, 2, 3, 4, 5}, set())
    assert topk._accept_reject(run, eight, set(), 3, "rank", "priority", 0) == ({1, 2, 3, 4, 6, 7}, {0})


def test_quartile_elimination_by_enumeration():
    for size in (4, 5, 6):
        for means in itertools.product(range(3), repeat=size):
            run = round_of(means)
            arms = set(range(size))
            for quarter, remove in (("up", math.ceil(size / 4)), ("down", size // 4)):
                kept = topk._quartile_elimination(run, arms, quarter, "quarter", 0)
                strict = topk._quartile_elimination(run, arms, quarter, "strict", 0)
                assert len(kept) == size - remove
                assert kept <= strict
                assert max(means[i] for i in arms - kept) <= min(means[i] for i in kept)
                # What "strict" spares ties with an arm that it would have kept in any case.
                assert {means[i] for i in strict - kept} <= {min(means[i] for i in kept)}
                if len(set(means)) == size:
                    assert kept == strict


def test_the_printed_accept_takes_arms_beyond_the_cut():
    # Just K arms of mean 1, the others 0: all gaps are 1, and 0 >= the (K'+1)-th mean.
    values = [0] * 7 + [1] * 3
    assert topk.optmai(constant(values), 10, 3, 500).chosen == (7, 8, 9)
    assert topk.optmai(constant(values), 10, 3, 500, accept="kth").chosen == (7, 8, 9)
    printed = topk.optmai(constant(values), 10, 3, 500, accept="printed")
    assert topk.aggregate_regret(values, printed.chosen) == 1
    # Of two arms it takes the one that the argmax finds first, whatever the samples.
    for bits in itertools.product("01", repeat=8):
        reward = tape(["".join(bits[:4]), "".join(bits[4:])])
        assert topk.optmai(reward, 2, 1, 16, accept="printed").chosen == (0,)
        assert topk.optmai(reward, 2, 1, 16, accept="printed", ties=[1, 0]).chosen == (1,)


@pytest.mark.parametrize("shares", ["carry", "floor", "cumulative"])
def test_the_strict_quartile_stalls_on_ties(shares):
    for rule in (topk.optmai, topk.optmai_printed):
        result = rule(constant([1] * 8), 8, 1, 100, qe="strict", shares=shares, ties=[3, 1, 2, 0, 4, 5, 6, 7])
        assert result.ended == "stalled"
        assert result.chosen == (3,)
        assert {arms for arms, _ in result.history} == {tuple(range(8))}
        assert len(set(result.pulls)) == 1
        assert (8 if shares == "floor" else 92) <= result.spent <= 100
        # One better arm does not help: the quartile is still tied.
        assert rule(constant([1] * 7 + [2]), 8, 1, 100, qe="strict", shares=shares).ended == "stalled"
        # Two arms below the quartile go, the rest are stuck.
        result = rule(constant([0, 0, *[1] * 6]), 8, 1, 100, qe="strict", shares=shares)
        assert result.history[-1][0] == (2, 3, 4, 5, 6, 7)


def test_the_number_of_rounds_and_the_budget_of_section_6():
    # R <= ln n / ln(4/3), and so (1 - beta^R) Q' <= Q, when a quarter is rounded up; n = 1 is the exception.
    for n in range(2, 3000):
        size, rounds = n, 0
        while size:
            size, rounds = 3 * size // 4, rounds + 1
        assert rounds <= math.log(n) / math.log(4 / 3)
    for n, beta in [(2, 0.8), (7, 0.9), (164, 0.8), (1000, 0.76)]:
        size, rounds = n, 0
        while size:
            size, rounds = 3 * size // 4, rounds + 1
        assert (1 - Decimal(repr(beta)) ** rounds) * topk.inflated_budget(n, 10**6, beta) <= 10**6


def test_the_largest_number_of_samples_of_an_arm():
    # Theorem 4.3: O(Q / n^0.3), with beta as printed. The real shares of an arm that stays to the end, over Q:
    beta = float(topk.beta_printed())
    for n in (16, 64, 256, 10**3, 10**4, 10**6):
        size, r, cap = n, 0, 0.0
        while size:
            cap += beta**r * (1 - beta) / size
            size, r = 3 * size // 4, r + 1
        assert 0.1 < cap * n**0.3 < 0.4
        if n <= 256:
            result = topk.optmai_printed(lambda arm, j: arm, n, 2, 50 * n)
            assert result.chosen == (n - 2, n - 1)
            # The run ends before the last round; a carried share may be a little larger than the real one.
            assert 0.5 * cap < max(result.pulls) / (50 * n) < 1.05 * cap


def test_the_reduction():
    # Theorem 4.5.
    for seed, (n, k) in enumerate([(9, 5), (9, 8), (8, 4), (12, 9)]):
        reward = bernoulli([(i + 1) / (n + 1) for i in range(n)], seed)
        result = topk.optmai(reward, n, k, 90, reduce=True)
        worst = topk.optmai(lambda arm, j, reward=reward: 1 - reward(arm, j), n, n - k, 90)
        assert set(result.chosen) | set(worst.chosen) == set(range(n))
        assert (result.sequence, result.history) == (worst.sequence, worst.history)
        assert topk.optmai(reward, n, n, 90, reduce=True).spent == 0
        assert topk.optmai(reward, n, n, 90).spent == 0
        assert topk.optmai(reward, n, 3, 90, reduce=True) == topk.optmai(reward, n, 3, 90)
    assert topk.optmai(reward, 12, 12, 90, fill="rounds").spent > 0
    # At K = n/2 too: with all equal, the lowest priorities are the worst then.
    assert topk.optmai(constant([1] * 4), 4, 2, 60).chosen == (0, 1)
    assert topk.optmai(constant([1] * 4), 4, 2, 60, reduce=True).chosen == (2, 3)
    assert topk.optmai(constant([1] * 5), 5, 2, 60, reduce=True).chosen == (0, 1)
    # QE drops the best arms of the reduced problem's complement: 20 arms, the worst one is sought.
    result = topk.optmai(constant([F(i, 20) for i in range(20)]), 20, 19, 400, reduce=True)
    assert result.chosen == tuple(range(1, 20))
    assert result.history[1][0] == tuple(range(15))


@pytest.mark.parametrize("rule", [topk.sar, topk.optmai, topk.lucb, kl_to_budget])
def test_the_worst_arms_on_one_minus_x(rule):
    # Without ties of means and without QE, seeking the n - K worst is the same run, seen from below.
    rounds = rule in (topk.sar, topk.optmai)
    for seed, (n, k) in enumerate([(6, 2), (6, 3), (7, 4), (5, 3)]):
        reward = fractions(seed)
        budget = 44 + n % 2  # LUCB: no single pull left over
        upper = rule(reward, n, k, budget, **({"gap_ties": "accept"} if rounds else {}))
        lower = rule(
            lambda arm, j, reward=reward: 1 - reward(arm, j),
            n,
            n - k,
            budget,
            **({"gap_ties": "reject"} if rounds else {}),
        )
        assert set(upper.chosen) | set(lower.chosen) == set(range(n))
        assert upper.pulls == lower.pulls


# SAR.


def test_sar_by_hand():
    # logbar(4) = 1/2 + 1/2 + 1/3 + 1/4 = 19/12; 36 * 12/19 = 22.74: n_k = 6, 8, 12.
    assert topk.sar_schedule(4, 40) == [0, 6, 8, 12]
    reward = constant([3, 0, 2, 7])
    result = topk.sar(reward, 4, 2, 40)
    # Phase 1: gaps 1, 3, 1, 5: 3 is accepted. Phase 2: gaps 1, 3, 1: 1 is rejected. Phase 3: 0 is accepted.
    assert result.history == (((0, 1, 2, 3), 6), ((0, 1, 2), 2), ((0, 2), 4))
    assert (result.chosen, result.pulls) == ((0, 3), (12, 8, 12, 6))
    assert topk.sar(reward, 4, 2, 40, ties=[3, 2, 1, 0]) == result
    # K = 1: in the first phase the gaps are 4, 7, 5, 4: 1 goes, then 2, then 0 against 3.
    assert topk.sar(reward, 4, 1, 40).history == (((0, 1, 2, 3), 6), ((0, 2, 3), 2), ((0, 3), 4))
    # K = 3: gaps 3, 2, 2, 7: 3 is accepted, then 0; of 1 and 2, both 2, arm 1 goes by its number, and is rejected.
    three = topk.sar(reward, 4, 3, 40)
    assert three.history == (((0, 1, 2, 3), 6), ((0, 1, 2), 2), ((1, 2), 4))
    assert three.chosen == (0, 2, 3)


def test_sar_stops_early_with_the_same_answer():
    for seed in range(20):
        reward = bernoulli([0.2, 0.2, 0.5, 0.5, 0.9, 0.9], seed)
        for k, accept in itertools.product(range(1, 7), ("rank", "printed")):
            early = topk.sar(reward, 6, k, 70, accept=accept)
            phases = topk.sar(reward, 6, k, 70, accept=accept, stop="phases")
            assert early.chosen == phases.chosen
            assert early.history == phases.history[: early.rounds]
            assert phases.rounds == 5


def test_sar_printed_rejects_tied_arms():
    # All tied: the lowest priority is rejected first, and the last K are left.
    assert topk.sar(constant([1] * 5), 5, 2, 60).chosen == (0, 1)
    assert topk.sar(constant([1] * 5), 5, 2, 60, accept="printed").chosen == (3, 4)


def test_the_schedule_of_sar():
    for n in (2, 3, 7, 20, 45):
        for budget in (0, n - 1, n, n + 1, 3 * n, 10 * n + 3):
            times = topk.sar_schedule(n, budget)
            assert times == sorted(times)
            assert sum(times[1:]) + times[-1] <= max(budget, 0)
    # Section 6.2: "a worker could receive up to 143 tasks", n = 164 and Q = 10 n.
    assert topk.sar_schedule(164, 1640)[-1] == 143


# LUCB.


def test_lucb_by_hand():
    # t = 1: 0 is the top, 1 and 2 tie. t = 2: arm 2 has the wider bound. t = 3: they tie again.
    reward = constant([1, 0, 0])
    first = ((0, 1), (1, 1), (2, 1), (0, 1), (1, 1), (0, 1), (2, 1))
    assert topk.lucb(reward, 3, 1, 7).sequence == first
    assert topk.lucb(reward, 3, 1, 8).sequence == (*first, (0, 1))
    assert topk.lucb(reward, 3, 1, 8, odd="skip").sequence == first
    assert topk.lucb(reward, 3, 1, 8, odd="strong").sequence == (*first, (1, 1))
    assert topk.lucb(reward, 3, 1, 8, odd="strong", ties=[0, 2, 1]).sequence[3:] == (
        (0, 1), (2, 1), (0, 1), (1, 1), (2, 1),
    )  # fmt: skip

    def fresh(step, what):
        return [0, 2, 1] if (step, what) == (3, "strong") else [0, 1, 2]

    assert topk.lucb(reward, 3, 1, 8, odd="strong", ties=fresh).sequence == (*first, (2, 1))
    assert topk.lucb(reward, 3, 3, 8).sequence == ()


def test_lucb_answers_with_the_last_samples():
    # The top at the comparison is arm 0 (1/1 against 0/1); the pulls then give 1/2 and 1/2, and the priority decides.
    reward = tape(["10", "01"])
    assert topk.lucb(reward, 2, 1, 4).chosen == (0,)
    assert topk.lucb(reward, 2, 1, 4, ties=[1, 0]).chosen == (1,)
    assert topk.lucb(reward, 2, 1, 4, ties=lambda step, what: [1, 0] if step == 2 else [0, 1]).chosen == (1,)
    # One pull of the weak arm alone: 1/2 against 0/1.
    assert topk.lucb(reward, 2, 1, 3, ties=[1, 0]).chosen == (0,)


def test_lucb_explores_by_the_bounds():
    # Two wide arms of mean 0 against a narrow one of mean 1/2, K = 1 of 4: the bound is mean + c / sqrt(u).
    reward = tape(["1" * 99, "10" * 50, "0" * 99, "0" * 99])
    result = topk.lucb(reward, 4, 1, 60, delta=0.3)
    top = [arm for arm, _ in result.sequence[4::2]]
    assert set(top) <= {0, 1}
    pulls = [1, 1, 1, 1]
    total = [1, 1, 0, 0]
    for t, (weak, strong) in enumerate(zip(result.sequence[4::2], result.sequence[5::2], strict=True), start=1):
        ranked = sorted(range(4), key=lambda i: (-F(total[i], pulls[i]), i))
        upper = [total[i] / pulls[i] + math.sqrt(math.log(1.25 * 4 * t**4 / 0.3) / (2 * pulls[i])) for i in range(4)]
        assert weak == (ranked[0], 1)
        assert strong[0] == max(ranked[1:], key=lambda i: (round(upper[i], 9), -i))
        for arm in (weak[0], strong[0]):
            total[arm] += reward(arm, pulls[arm])
            pulls[arm] += 1
    assert tuple(pulls) == result.pulls


@pytest.mark.parametrize("clock", ["round", "pulls"])
def test_lucb_stops_where_its_formula_says(clock):
    # Rewards 1 and 0: after t - 1 pairs both arms have t pulls, and the overlap is 2 beta(t, t) - 1.
    for epsilon, delta in [(0.3, 0.1), (0.0, 0.4), (-0.5, 0.1)]:
        result = topk.lucb_confidence(constant([0, 1]), 2, 1, epsilon=epsilon, delta=delta, clock=clock)
        t = 1
        while True:
            age = t if clock == "round" else 2 * t
            if 2 * math.sqrt(math.log(1.25 * 2 * age**4 / delta) / (2 * t)) - 1 < epsilon:
                break
            t += 1
        assert (result.chosen, result.pulls, result.rounds, result.ended) == ((1,), (t, t), t, "answer")
        assert t > 5
        cut = topk.lucb_confidence(constant([0, 1]), 2, 1, epsilon=epsilon, delta=delta, clock=clock, budget=2 * t - 2)
        assert (cut.ended, cut.spent) == ("budget", 2 * t - 2)
        full = topk.lucb_confidence(constant([0, 1]), 2, 1, epsilon=epsilon, delta=delta, clock=clock, budget=2 * t)
        assert full == result


def test_lucb_first_check():
    easy = {"epsilon": 10.0, "delta": 0.1}
    assert topk.lucb_confidence(constant([0, 1]), 2, 1, **easy).spent == 2
    assert topk.lucb_confidence(constant([0, 1]), 2, 1, first_check=False, **easy).spent == 4
    assert topk.kl_lucb(constant([0, 1]), 2, 1, epsilon=1.0, delta=0.1).spent == 4


def test_lucb_with_a_budget_is_lucb_cut_off():
    for seed in range(5):
        reward = bernoulli([0.2, 0.5, 0.5, 0.6, 0.9], seed)
        plain = topk.lucb(reward, 5, 2, 61, delta=0.1)
        cut = topk.lucb_confidence(reward, 5, 2, epsilon=-9, delta=0.1, budget=61)
        assert (plain.chosen, plain.sequence) == (cut.chosen, cut.sequence)
        stopped = topk.lucb_confidence(reward, 5, 2, epsilon=0.4, delta=0.1)
        assert topk.lucb(reward, 5, 2, 2000, delta=0.1).sequence[: stopped.spent] == stopped.sequence
        assert stopped.spent < 2000


def test_lucb_is_right_as_often_as_it_promises():
    wrong = 0
    means = [0.2, 0.3, 0.7, 0.8]
    for seed in range(60):
        result = topk.lucb_confidence(bernoulli(means, f"pac {seed}"), 4, 2, epsilon=0.2, delta=0.1)
        wrong += min(means[i] for i in result.chosen) < 0.7 - 0.2
    assert wrong <= 6


def test_kl_lucb_stops_where_its_formula_says():
    # Rewards 0 and 1: L = exp(-beta / u) of the top, U = 1 - exp(-beta / u) of the other.
    for rate, k1, alpha in [("log", 3.0, 2.0), ("log + log log", 405.5, 1.1)]:
        result = topk.kl_lucb(constant([0, 1]), 2, 1, epsilon=0.1, delta=0.05, rate=rate, k1=k1, alpha=alpha)
        t = 2
        while True:
            x = math.log(k1 * 2 * t**alpha / 0.05)
            x += math.log(x) if rate == "log + log log" else 0
            if 1 - 2 * math.exp(-x / t) <= 0.1:
                break
            t += 1
        assert (result.pulls, result.rounds, result.chosen) == ((t, t), t, (1,))


def test_kl_bounds():
    assert topk.kl_lower(F(0), 5, 3.0) == 0
    assert topk.kl_lower(F(1), 5, 3.0) == pytest.approx(math.exp(-3 / 5), rel=1e-14)
    # d(1/2, q) = -ln(4 q (1 - q)) / 2.
    assert topk.kl_lower(F(1, 2), 4, 3.0) == pytest.approx((1 - math.sqrt(1 - math.exp(-2 * 3 / 4))) / 2, rel=1e-12)
    tiny = topk.kl_lower(F(1, 2), 1, 30.0)  # next to 0: q (1 - q) = exp(-60) / 4
    assert tiny == pytest.approx(math.exp(-60) / 4, rel=1e-12)
    for pulls, level in [(1, 0.5), (3, 8.0), (40, 8.0), (900, 12.0)]:
        for hits in range(0, pulls + 1, max(1, pulls // 7)):
            p = F(hits, pulls)
            low, high = topk.kl_lower(p, pulls, level), 1 - topk.kl_lower(1 - p, pulls, level)
            assert low <= p <= high
            # Pinsker: the interval is within Hoeffding's.
            assert low >= p - math.sqrt(level / (2 * pulls)) - 1e-12
            assert high <= p + math.sqrt(level / (2 * pulls)) + 1e-12
            if hits:
                assert pulls * topk.kl_divergence(float(p), low) == pytest.approx(level, rel=1e-9)


def test_the_constant_of_kl_lucb():
    # 405.5 is just above what the guarantee asks at alpha = 1.1.
    alpha = 1.1
    least = 2 * math.e + 1 + math.e / (alpha - 1) + (math.e + 1) / (alpha - 1) ** 2
    assert 405.4 < least < 405.5


def test_the_margin_is_the_closest_call():
    # n = 3, K = 1, one pull each of 0.5, 0.25 and 0.2: only the strong arm was chosen by bounds, 0.05 apart.
    assert topk.lucb(constant([0.5, 0.25, 0.2]), 3, 1, 4).margin == pytest.approx(0.05)
    assert topk.lucb(constant([1, 0, 0]), 3, 1, 4).margin == math.inf
    assert topk.uniform(constant([1, 0, 0]), 3, 1, 4).margin == math.inf


# Sequential halving.


def test_halving_by_hand():
    reward = constant([3, 1, 4, 1, 5, 9, 2, 6])
    result = topk.sequential_halving(reward, 8, 2, 54)
    assert result.history == (((0, 1, 2, 3, 4, 5, 6, 7), 3), ((2, 4, 5, 7), 6))
    assert result.chosen == (5, 7)
    assert topk.sequential_halving(reward, 8, 2, 54, shares="carry").history[1] == ((2, 4, 5, 7), 7)
    assert [len(s) for s, _ in topk.sequential_halving(reward, 8, 3, 90).history] == [8, 4]
    assert [len(s) for s, _ in topk.sequential_halving(constant(list(range(5))), 5, 1, 90).history] == [5, 3, 2]
    # Fresh means: arm 0 has 1, 0 and arm 1 has 0, 1 in the two rounds (Q = 8: 8/(2*4) = 1, 8/(2*2) = 2).
    reward = tape(["100", "101", "000", "000"])
    assert topk.sequential_halving(reward, 4, 1, 8).chosen == (1,)
    assert topk.sequential_halving(tape(["1100", "1010", "0000", "0000"]), 4, 1, 8, ties=[1, 0, 2, 3]).chosen == (1,)
    assert topk.sequential_halving(tape(["111", "011", "000", "010"]), 4, 1, 8, reuse=True).chosen == (0,)
    assert topk.sequential_halving(tape(["110", "011", "000", "000"]), 4, 1, 8).chosen == (1,)


def test_the_rounds_of_halving():
    for n in range(1, 80):
        for k in range(1, n + 1):
            size, rounds = n, 0
            while size > k:
                size, rounds = max(k, math.ceil(size / 2)), rounds + 1
            result = topk.sequential_halving(constant([0] * n), n, k, 0)
            assert result.rounds == rounds == math.ceil(math.log2(n / k) - 1e-12)
            assert len(result.chosen) == k


# Exact laws.


def test_two_arms_are_compared_once():
    # With n = 2 and K = 1, uniform, SAR, halving and OptMAI all compare two equal samples of m.
    p = (F(1, 3), F(3, 5))
    for m, budgets in [(1, (2, 4, 2, 5)), (3, (6, 8, 7, 13))]:
        rules = (topk.uniform, topk.sar, topk.sequential_halving, topk.optmai)
        right = dict.fromkeys(rules, F(0))
        for bits in itertools.product((0, 1), repeat=2 * m):
            weight = math.prod(p[i // m] if bit else 1 - p[i // m] for i, bit in enumerate(bits))
            reward = tape([bits[:m], bits[m:]])
            for rule, budget in zip(rules, budgets, strict=True):
                for ties in ([0, 1], [1, 0]):
                    result = rule(reward, 2, 1, budget, ties=ties)
                    assert set(result.pulls) == {m}
                    right[rule] += weight * (result.chosen == (1,)) / 2

        def law(q, hits, m=m):
            return math.comb(m, hits) * q**hits * (1 - q) ** (m - hits)

        exact = sum(
            law(p[0], a) * law(p[1], b) * (1 if b > a else F(1, 2) if a == b else 0)
            for a in range(m + 1)
            for b in range(m + 1)
        )
        assert right == dict.fromkeys(rules, exact)


# Measures.


def test_regret_by_enumeration():
    means = [F(1, 10), F(9, 10), F(1, 2), F(1, 2), F(3, 10)]
    assert topk.aggregate_regret(means, (0, 4)) == (F(9, 10) + F(1, 2) - F(4, 10)) / 2
    for k in range(1, 6):
        sets = list(itertools.combinations(range(5), k))
        best = max(sum(means[i] for i in t) for t in sets)
        for t in sets:
            assert topk.aggregate_regret(means, t) == (best - sum(means[i] for i in t)) / k
            assert topk.aggregate_regret([float(x) for x in means], t) == pytest.approx(
                float(topk.aggregate_regret(means, t)), abs=1e-15
            )


def test_precision_by_enumeration():
    for means in itertools.product((0, 1, 2), repeat=4):
        for k in range(1, 5):
            sets = list(itertools.combinations(range(4), k))
            best = max(sum(means[i] for i in s) for s in sets)
            tops = [set(s) for s in sets if sum(means[i] for i in s) == best]
            for t in sets:
                values = [F(len(set(t) & top), k) for top in tops]
                assert topk.precision(means, t) == max(values)
                assert topk.precision(means, t, ties="expected") == sum(values) / len(values)
                assert topk.precision(means, t, ties="index") in values
                assert (topk.precision(means, t) == 1) == (topk.aggregate_regret(means, t) == 0)
    assert topk.precision([1, 1, 1], (1, 2), ties="index") == F(1, 2)


# Sample sizes.


def test_sample_sizes():
    assert topk.corollary_4_4(1000, 10, 0.1, 0.05) == pytest.approx(100000 * (1 + math.log(20) / 10))
    assert topk.theorem_4_5(10, 8, 0.1, 0.05) == pytest.approx(250 * (0.25 + math.log(20) / 8))
    for n, k in [(10, 5), (10, 8), (31, 30)]:
        # Theorem 4.5 is Corollary 4.4 for the n - K worst: a regret of eps over K arms is eps K / (n - K) over those.
        reduced = topk.corollary_4_4(n, n - k, 0.02 * k / (n - k), 0.1)
        assert topk.theorem_4_5(n, k, 0.02, 0.1) == pytest.approx(reduced)
        assert topk.theorem_4_5(n, k, 0.02, 0.1) <= topk.corollary_4_4(n, k, 0.02, 0.1) * (1 + 1e-12)
    assert topk.sample_size(10, 5, 0.1, 0.1) == pytest.approx(topk.corollary_4_4(10, 5, 0.1, 0.1))
    assert topk.sample_size(10, 10, 0.1, 0.1) == 0
    # The regret of Theorem 4.3 at the size of Corollary 4.4 is epsilon.
    assert topk.theorem_4_3(50, 7, topk.corollary_4_4(50, 7, 0.03, 0.2), 0.2) == pytest.approx(0.03)


def test_the_rounds_lose_what_the_lemmas_say():
    # Lemma 4.1, on the worst of all: the arm to keep is better by just more than epsilon; its loss is rarer than delta.
    n, k, budget, delta = 4, 1, 4000, 0.5
    epsilon = topk.lemma_4_1(n, k, budget, delta)
    assert epsilon == pytest.approx(math.sqrt(4 / 4000 * (10 + 4 * math.log(4))))
    assert topk.lemma_4_2(n, k, budget, delta) == pytest.approx(math.sqrt(4 / 4000 * (4 + math.log(4))))
    lost = 0
    for seed in range(20):
        hits = np.random.default_rng(seed).binomial(budget // n, [0.5, 0.5, 0.5, 0.5 + epsilon])
        kept = topk._quartile_elimination(round_of(hits.tolist()), set(range(4)), "up", "quarter", 0)
        lost += 3 not in kept
    assert lost <= 10


def test_lower_bounds():
    assert topk.theorem_5_1(100, 0.01) == pytest.approx(1e6)
    assert topk.lemma_5_4(100, 4, 0.01, 0.005) == pytest.approx(topk.theorem_5_5(100, 4, 0.01, 0.005) / 20000)
    both = topk.theorem_5_1(100, 0.01) + topk.theorem_5_5(100, 4, 0.01, 0.005)
    assert topk.lower_bound(100, 4, 0.01, 0.005) == pytest.approx(both)
    assert topk.lower_bound(100, 80, 0.01, 0.005) == topk.theorem_4_5(100, 80, 0.01, 0.005)
    assert topk.lemma_5_4(100, 4, 0.01, 0.005) == pytest.approx(66.23, abs=0.01)
    assert topk.lemma_5_2(100, 5000) == 10000


def test_bad_values_are_refused():
    reward = constant([1, 2, 3])
    for call in (
        lambda: topk.uniform(reward, 3, 4, 9),
        lambda: topk.uniform(reward, 3, 0, 9),
        lambda: topk.uniform(reward, 3, 1, -1),
        lambda: topk.uniform(reward, 3, 1, 9, remainder="lost"),
        lambda: topk.optmai(reward, 3, 1, 9, beta=0.75),
        lambda: topk.optmai(reward, 3, 1, 9, shares="round"),
        lambda: topk.optmai(reward, 3, 1, 9, accept="strict"),
        lambda: topk.sar(reward, 3, 1, 9, stop="late"),
        lambda: topk.lucb(reward, 3, 1, 9, odd="both"),
        lambda: topk.kl_lucb(reward, 3, 1, epsilon=None, delta=0.1),
        lambda: topk.sequential_halving(reward, 3, 1, 9, shares="cumulative"),
        lambda: topk.precision([1, 2], (0,), ties="none"),
    ):
        with pytest.raises(ValueError, match=r".+"):
            call()
