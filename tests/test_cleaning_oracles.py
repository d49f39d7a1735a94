"""The cleaning oracles against hand-worked cases, published facts and each other."""

from __future__ import annotations

import itertools
import math
import random as stdlib_random
from fractions import Fraction

import pytest

from tests.oracles import cleaning, cleaning_formulas

F = Fraction


def uniform_pdf(p: float) -> float:
    return 1.0


def tape(bits: dict[int, str]):
    """Make ``clean`` from a string of 0 and 1 per entity."""
    return lambda entity, attempt: bits[entity][attempt] == "1"


def random_tape(probabilities, seed):
    """Make ``clean`` by independent draws, the same ones whatever the order of the calls."""
    drawn: dict[tuple[int, int], bool] = {}

    def clean(entity: int, attempt: int) -> bool:
        if (entity, attempt) not in drawn:
            number = stdlib_random.Random(f"{seed}-{entity}-{attempt}").random()
            drawn[entity, attempt] = number < probabilities[entity]
        return drawn[entity, attempt]

    return clean


def first(candidates: list[int]) -> int:
    assert candidates == sorted(candidates)
    return candidates[0]


def script(*entities: int):
    """Make ``choose`` that takes these entities in turn, which must be among the candidates."""
    turns = iter(entities)

    def choose(candidates: list[int]) -> int:
        entity = next(turns)
        assert entity in candidates
        return entity

    return choose


def by_rank(order: list[int]):
    """Make ``choose`` that takes the candidate that comes first in a permutation."""
    return lambda candidates: min(candidates, key=order.index)


def check_trace(trace: cleaning.Trace, false_values, budget) -> None:
    successes = [sum(1 for e, ok in trace.pulls if e == j and ok) for j in range(len(false_values))]
    assert trace.left == [r - s for r, s in zip(false_values, successes, strict=True)]
    assert min(trace.left) >= 0
    assert trace.removed == sum(successes)
    assert trace.spent == len(trace.pulls) <= budget
    assert trace.finished == sum(1 for r, x in zip(false_values, trace.left, strict=True) if r > 0 and x == 0)


# Hand-worked runs.


def test_known_sc_by_hand():
    # Figure 2's entities: T5 (p 1), T4 (.7), then T2 before T3 (.4 both), then T1.
    bits = {4: "1", 3: "11011", 1: "01", 2: "", 0: ""}
    trace = cleaning.known_sc([5, 3, 6, 4, 1], [0.1, 0.4, 0.4, 0.7, 1], 8, tape(bits))
    assert trace.pulls == [
        (4, True), (3, True), (3, True), (3, False), (3, True), (3, True), (1, False), (1, True),
    ]  # fmt: skip
    assert trace == cleaning.Trace(trace.pulls, removed=6, spent=8, finished=2, left=[5, 2, 6, 0, 0])


def test_random_by_hand():
    trace = cleaning.random([1, 0, 2], 10, script(2, 0, 2, 2, 0), tape({0: "01", 2: "101"}))
    assert trace.pulls == [(2, True), (0, False), (2, False), (2, True), (0, True)]
    assert (trace.removed, trace.spent, trace.finished, trace.left) == (3, 5, 2, [0, 0, 0])


def test_greedy_by_hand():
    offered = []

    def choose(candidates):
        offered.append(candidates)
        return {0: 1, 1: 1, 2: 2, 6: 0}.get(len(offered) - 1, candidates[0])

    trace = cleaning.greedy([1, 2, 3, 0], 8, choose, tape({0: "1", 1: "001", 2: "1011"}))
    # 1 fails twice (a tie at 0 with the others), 2 succeeds and is cleaned to the end, then 0 and 1 tie.
    assert offered == [[0, 1, 2], [0, 1, 2], [0, 1, 2], [2], [2], [2], [0, 1], [1]]
    assert [e for e, _ in trace.pulls] == [1, 1, 2, 2, 2, 2, 0, 1]
    assert (trace.removed, trace.finished, trace.left) == (5, 2, [0, 1, 0, 0])


def test_epsilon_greedy_by_hand():
    # Steps 1 and 3 explore (choice < .5 is strict: .5 is greedy). After step 3 the estimates are 1/2, 1, 0.
    offered = []
    turns = iter([0, 0, 1, 1, 0])

    def choose(candidates):
        offered.append(candidates)
        return next(turns)

    choices = iter([F(1, 4), F(1, 2), F(0), F(3, 4), F(9, 10)])
    clean = tape({0: "101", 1: "11"})
    trace = cleaning.epsilon_greedy([3, 2, 1], 5, F(1, 2), lambda: next(choices), choose, clean)
    assert offered == [[0, 1, 2], [0], [0, 1, 2], [1], [0]]
    assert trace.pulls == [(0, True), (0, False), (1, True), (1, True), (0, True)]
    assert trace.left == [1, 0, 1]


def test_ee_by_hand():
    q = F(667, 1000)  # ceil(3 * .667) = 3
    bits = {0: "011", 1: "11101", 2: "11", 3: "101"}
    plain = cleaning.ee([4, 4, 2, 4, 0], 99, 3, q, False, script(0, 1, 2, 3), tape(bits))
    # 0 and 3 fail the test, 1 is exploited to the end, 2 is cleaned fully while it is explored.
    assert plain.pulls == [(e, b == "1") for e in range(4) for b in bits[e]]
    assert (plain.removed, plain.spent, plain.finished, plain.left) == (10, 13, 2, [2, 0, 0, 2, 0])
    early = cleaning.ee([4, 4, 2, 4, 0], 99, 3, q, True, script(0, 1, 2, 3), tape(bits))
    assert [e for e, _ in early.pulls] == [0, 1, 1, 1, 1, 1, 2, 2, 3, 3]
    assert early.left == [4, 0, 0, 3, 0]
    # With q = 2/3 two of three are enough.
    bits = {0: "01101"}
    loose = cleaning.ee([3], 99, 3, F(2, 3), True, first, tape(bits))
    assert loose.left == [0]
    # The budget ends in an exploration, then in an exploitation.
    assert cleaning.ee([9], 2, 3, q, False, first, tape({0: "111"})).spent == 2
    assert cleaning.ee([9], 4, 3, q, False, first, tape({0: "1110"})).left == [6]


def test_ee_extreme_thresholds():
    # q = 0: no entity is thrown away. q = 1 with early stopping: the first failure ends a visit.
    clean = random_tape([0.5] * 5, "extreme")
    assert cleaning.ee([3, 0, 2, 4, 1], 1000, 2, F(0), True, first, clean).left == [0] * 5
    trace = cleaning.ee([3], 10, 2, F(1), True, first, tape({0: "1010"}))
    assert trace.pulls == [(0, True), (0, False)]
    with pytest.raises(TypeError):
        cleaning.ee([3], 10, 3, 0.667, True, first, clean)


# Properties.


@pytest.mark.parametrize("seed", range(60))
def test_properties_on_random_tapes(seed):
    rng = stdlib_random.Random(f"case-{seed}")
    n = rng.randint(1, 9)
    false_values = [rng.randint(0, 5) for _ in range(n)]
    p = [rng.choice([0.2, 0.5, 0.9]) for _ in range(n)]
    budget = rng.randint(0, 40)
    clean = random_tape(p, seed)
    order = rng.sample(range(n), n)
    t, q = rng.randint(1, 4), F(rng.randint(0, 6), 6)
    runs = {
        "known-sc": cleaning.known_sc(false_values, p, budget, clean),
        "random": cleaning.random(false_values, budget, rng.choice, clean),
        "greedy": cleaning.greedy(false_values, budget, rng.choice, clean),
        "epsilon": cleaning.epsilon_greedy(false_values, budget, 0.5, rng.random, rng.choice, clean),
        "ee": cleaning.ee(false_values, budget, t, q, False, by_rank(order), clean),
        "ee early": cleaning.ee(false_values, budget, t, q, True, by_rank(order), clean),
    }
    for name, trace in runs.items():
        check_trace(trace, false_values, budget)
        if not name.startswith("ee"):  # the others stop only when all is spent or all is clean
            assert trace.spent == budget or sum(trace.left) == 0
        attempts: dict[int, int] = {}
        for entity, success in trace.pulls:
            attempts[entity] = attempts.get(entity, -1) + 1
            assert success == clean(entity, attempts[entity])

    # epsilon 0 and 1 are Greedy and Random.
    a = cleaning.epsilon_greedy(false_values, budget, 0, lambda: 0.3, by_rank(order), clean)
    assert a == cleaning.greedy(false_values, budget, by_rank(order), clean)
    a = cleaning.epsilon_greedy(false_values, budget, 1, lambda: 0.3, by_rank(order), clean)
    assert a == cleaning.random(false_values, budget, by_rank(order), clean)

    # Greedy stays on an entity from its first success to its last false value.
    succeeded: dict[int, int] = {}
    for entity, success in runs["greedy"].pulls:
        for other, count in succeeded.items():
            assert other == entity or count == false_values[other]
        if success:
            succeeded[entity] = succeeded.get(entity, 0) + 1

    # EE visits each entity once, in the order of the permutation.
    for name in ("ee", "ee early"):
        visited = [e for e, _ in itertools.groupby(e for e, _ in runs[name].pulls)]
        assert visited == [e for e in order if false_values[e] > 0][: len(visited)]

    # Early stopping loses nothing: with budget enough, the same entities pass the test.
    full = cleaning.ee(false_values, 10**6, t, q, False, by_rank(order), clean)
    early = cleaning.ee(false_values, 10**6, t, q, True, by_rank(order), clean)
    for e in range(n):
        slow = [ok for j, ok in full.pulls if j == e]
        fast = [ok for j, ok in early.pulls if j == e]
        assert fast == slow[: len(fast)]
        if len(slow) > t or sum(slow[:t]) * q.denominator >= q.numerator * t:
            assert fast == slow


@pytest.mark.parametrize("seed", range(30))
def test_ee_is_a_framework(seed):
    rng = stdlib_random.Random(f"framework-{seed}")
    n = rng.randint(1, 8)
    false_values = [rng.randint(0, 5) for _ in range(n)]
    clean = random_tape([rng.random() for _ in range(n)], seed)
    budget, t, q = rng.randint(0, 40), rng.randint(1, 4), F(rng.randint(0, 6), 6)
    order = rng.sample(range(n), n)

    def explore(agent, entity):
        results = []
        while agent.budget > 0 and len(results) < t and agent.r[entity] > 0:
            results.append(agent.clean(entity))
        return F(sum(results), t) >= q

    def exploit(agent, entity):
        while agent.budget > 0 and agent.r[entity] > 0:
            agent.clean(entity)

    trace = cleaning.framework(false_values, budget, explore, exploit, True, by_rank(order), clean)
    assert trace == cleaning.ee(false_values, budget, t, q, False, by_rank(order), clean)


# Lemma 3 and section 5.4.


def test_ceil_guard():
    assert cleaning_formulas.needed(3, 0.667) == 3
    assert cleaning_formulas.needed(3, 2 / 3) == cleaning_formulas.needed(3, F(2, 3)) == 2
    assert cleaning_formulas.needed(100, 0.07) == 7
    assert cleaning_formulas.needed(10, 0.3) == 3
    assert cleaning_formulas.needed(5, 0) == 0


def test_lemma_3_by_hand():
    # t = 3, ceil(tq) = 3, uniform: P_ne = 1 - p^3.
    gain, cost = cleaning_formulas.gamma_printed(3, 0.667, 9.5, uniform_pdf)
    assert gain == pytest.approx(3 / 2 - 3 / 5 + 9.5 / 4, rel=1e-12)
    assert cost == pytest.approx(3 - 3 / 4 + 9.5 / 3, rel=1e-12)
    # t = 1, ceil(tq) = 1: P_ne = 1 - p, so the gain is int (1 - p) p + 9.5 p and the cost int (1 - p) + 9.5.
    assert cleaning_formulas.gamma_printed(1, 1, 9.5, uniform_pdf) == pytest.approx((1 / 6 + 4.75, 10), rel=1e-12)
    # q = 0 exploits everything: E[r] is gained, and the cost has a pole unless the density vanishes at 0.
    assert cleaning_formulas.gamma_printed(4, 0, 9.5, uniform_pdf) == (pytest.approx(9.5), math.inf)
    assert cleaning_formulas.gamma_printed(4, 0, 9.5, lambda p: 2 * p) == pytest.approx((9.5, 19), rel=1e-10)
    # E[r] <= ceil(tq) - 1: nothing is ever exploited, min(tp, E[r]) has a kink at 1/2.
    assert cleaning_formulas.gamma_printed(2, 1, 1, uniform_pdf) == pytest.approx((0.75, 2), rel=1e-12)


def test_lemma_3_with_a_histogram():
    # 4/3 on [0, 1/4) and (1/2, 1], 0 between; the integrals are those of polynomials piece by piece.
    def pdf(p):
        return 0.0 if 0.25 <= p <= 0.5 else 4 / 3

    def moment(k):
        return 4 / 3 * (0.25 ** (k + 1) + 1 - 0.5 ** (k + 1)) / (k + 1)

    gain, cost = cleaning_formulas.gamma_printed(2, 1, 9.5, pdf, breaks=(0.25, 0.5))
    assert gain == pytest.approx(2 * (moment(1) - moment(3)) + 9.5 * moment(2), rel=1e-12)
    assert cost == pytest.approx(2 * (1 - moment(2)) + 9.5 * moment(1), rel=1e-12)


def test_published_parameters():
    # Section 6.1: t = 3, q = 0.667 at delta = 0.001; it is the lower end of a plateau that ends at q = 1.
    t, q, value = cleaning_formulas.best_printed(9.5, 0.5, uniform_pdf, 0.001)
    assert (t, q) == (3, F(667, 1000))
    assert value == pytest.approx(3.275 / (2.25 + 9.5 / 3), rel=1e-12)
    gain, cost = cleaning_formulas.gamma_printed(3, 1, 9.5, uniform_pdf)
    assert gain / cost == pytest.approx(value, rel=1e-12)
    # A coarse grid shows the plateau's next point, and q = 2/3 itself lies below it.
    assert cleaning_formulas.best_printed(9.5, 0.5, uniform_pdf, F(1, 3))[:2] == (3, F(1))
    assert cleaning_formulas.best_printed(9.5, 0.5, uniform_pdf, 0.3)[:2] == (3, F(9, 10))
    # Figure 4(g): for t = 3 the effectiveness increases with q.
    ratios = [
        gain / cost for gain, cost in (cleaning_formulas.gamma_printed(3, F(k, 3), 9.5, uniform_pdf) for k in range(4))
    ]
    assert ratios == sorted(ratios)


# One visit.

RULES = [(1, 1), (2, 0), (2, 1), (3, 2), (3, 3), (5, 3)]


def test_visit_by_hand():
    p = F(1, 3)
    # t = 2, need = 2, r = 3: gain 2p(1-p) * 1 + p^2 * 3; cost 2 + p^2 / p. Early: 1 if the first one fails.
    assert cleaning_formulas.visit_exact(2, 2, 3, p, False) == (F(4, 9) + F(3, 9), 2 + p)
    assert cleaning_formulas.visit_exact(2, 2, 3, p, True) == (F(2, 9) + F(3, 9), 1 + p + p)
    # r = 1 is done after one success, whatever the test would say.
    assert cleaning_formulas.visit_exact(2, 2, 1, p, False) == (p + (1 - p) * p, 1 + (1 - p))
    assert cleaning_formulas.visit_law(2, 2, 1, p, True, 5) == {(1, 1): p, (1, 0): 1 - p}
    assert cleaning_formulas.visit_law(1, 0, 1, p, True, 3) == {(k, 1): p * (1 - p) ** (k - 1) for k in (1, 2, 3)}
    assert cleaning_formulas.visit_exact(2, 0, 3, F(0), False) == (0, math.inf)
    assert cleaning_formulas.visit_exact(2, 1, 3, F(0), False) == (0, 2)
    assert cleaning_formulas.visit_exact(2, 2, 0, p, False) == (0, 0)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(("t", "need"), RULES)
def test_visit_law_has_the_moments_of_visit_exact(t, need, early):
    for r, p in itertools.product([1, 2, 3, 6], [0.3, 0.75, 1.0]):
        law = cleaning_formulas.visit_law(t, need, r, p, early, 160)
        gain, cost = cleaning_formulas.visit_exact(t, need, r, p, early)
        assert sum(law.values()) == pytest.approx(1, abs=1e-12)
        assert sum(g * w for (_, g), w in law.items()) == pytest.approx(gain, rel=1e-9)
        assert sum(c * w for (c, _), w in law.items()) == pytest.approx(cost, rel=1e-9)
        assert gain == pytest.approx(p * cost, rel=1e-12)  # Wald: a clean succeeds with probability p
        by = cleaning_formulas.visit_gain_by(t, need, r, p, early, 160)
        assert by[0] == 0
        assert by[1] == p
        assert by[-1] == pytest.approx(gain, rel=1e-9)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(("t", "need"), RULES)
def test_visit_law_is_that_of_ee(t, need, early):
    # One entity, every tape of 9 cleans: the oracle's own run gives the law.
    r, p, horizon = 3, F(2, 5), 9
    law: dict[tuple[int, int], Fraction] = {}
    seen: set[tuple[bool, ...]] = set()
    for bits in itertools.product([False, True], repeat=horizon + 1):
        trace = cleaning.ee([r], horizon + 1, t, F(need, t), early, first, lambda _, k, bits=bits: bits[k])
        path = tuple(ok for _, ok in trace.pulls)
        if path in seen or len(path) > horizon:
            continue
        seen.add(path)
        key = (trace.spent, trace.removed)
        law[key] = law.get(key, 0) + p**trace.removed * (1 - p) ** (trace.spent - trace.removed)
    assert law == cleaning_formulas.visit_law(t, need, r, p, early, horizon)


def test_early_stopping_costs_less_and_keeps_the_exploited():
    for t, need in RULES:
        for p in (F(1, 5), F(1, 2), F(9, 10)):
            plain = cleaning_formulas.visit_exact(t, need, 9, p, False)
            early = cleaning_formulas.visit_exact(t, need, 9, p, True)
            assert early[1] <= plain[1]
            # With ceil(tq) = 1 the last clean still decides: nothing is saved.
            assert (early[1] < plain[1]) == (need > 1)


# A whole run of EE.


def test_run_with_one_probability_is_linear():
    # Every clean succeeds with the same probability, whatever EE does: E[R] = pC.
    for (t, need), early in itertools.product(RULES, [False, True]):
        visit = cleaning_formulas.mix_visits(t, need, {0: 3, 1: 1, 4: 2}, [(F(2, 7), F(1))], early, 12)
        for budget in range(13):
            assert cleaning_formulas.ee_expected_removed(budget, visit) == F(2, 7) * budget


@pytest.mark.parametrize(("t", "need", "early"), [(1, 1, False), (2, 1, True), (2, 2, False), (2, 2, True)])
def test_run_by_enumeration(t, need, early):
    # Two kinds of r and of p: each assignment to as many entities as the budget, each sequence of outcomes.
    budget = 4
    nodes = [(F(1, 4), F(1, 2)), (F(4, 5), F(1, 2))]
    kinds = [(r, p, w * v) for r, w in ((1, F(1, 3)), (3, F(2, 3))) for p, v in nodes]
    total = F(0)
    for entities in itertools.product(kinds, repeat=budget):
        for outcomes in itertools.product([False, True], repeat=budget):
            turn = iter(outcomes)
            trace = cleaning.ee(
                [r for r, _, _ in entities],
                budget,
                t,
                F(need, t),
                early,
                first,
                lambda _e, _k, turn=turn: next(turn),
            )
            assert trace.spent == budget  # each visit costs 1 at least
            probability = math.prod((w for _, _, w in entities), start=F(1))
            for entity, success in trace.pulls:
                probability *= entities[entity][1] if success else 1 - entities[entity][1]
            total += probability * trace.removed
    visit = cleaning_formulas.mix_visits(t, need, {0: 5, 1: 1, 3: 2}, nodes, early, budget)
    assert cleaning_formulas.ee_expected_removed(budget, visit) == total


@pytest.mark.parametrize(("t", "need", "early"), [(3, 3, True), (3, 2, False)])
def test_run_by_simulation(t, need, early):
    budget, runs = 40, 4000
    weights = dict.fromkeys(range(20), 1)
    visit = cleaning_formulas.mix_visits(
        t, need, weights, cleaning_formulas.pdf_nodes(uniform_pdf, count=40), early, budget
    )
    expected = cleaning_formulas.ee_expected_removed(budget, visit)
    rng = stdlib_random.Random(2010)
    removed = []
    for _ in range(runs):
        false_values = [rng.randint(1, 19) for _ in range(budget)]
        p = [rng.random() for _ in range(budget)]
        trace = cleaning.ee(false_values, budget, t, F(need, t), early, first, lambda e, _, p=p: rng.random() < p[e])
        removed.append(trace.removed)
    mean = sum(removed) / runs
    deviation = math.sqrt(sum((x - mean) ** 2 for x in removed) / (runs - 1))
    assert abs(mean - expected) < 4 * deviation / math.sqrt(runs)
    assert expected / budget > 0.5  # better than Random at the same mean


def test_long_runs_have_the_effectiveness_of_one_visit():
    # Lemma 2: E[R] / C tends to E[gamma] / E[chi]. The increments of E[R] show it at a moderate budget.
    nodes = cleaning_formulas.pdf_nodes(uniform_pdf, count=64)
    weights = {1: F(1, 2), 2: F(1, 2)}
    visit = cleaning_formulas.mix_visits(2, 2, weights, nodes, True, 60)
    gain, cost = cleaning_formulas.mix_exact(2, 2, weights, nodes, True)
    step = cleaning_formulas.ee_expected_removed(60, visit) - cleaning_formulas.ee_expected_removed(59, visit)
    assert step == pytest.approx(gain / cost, rel=1e-9)


def test_nodes_must_be_a_law():
    assert sum(w for _, w in cleaning_formulas.pdf_nodes(lambda p: 2 * p)) == pytest.approx(1)
    with pytest.raises(ValueError, match="integral"):
        cleaning_formulas.pdf_nodes(lambda p: p)
    with pytest.raises(ValueError, match="budget"):
        cleaning_formulas.ee_expected_removed(9, cleaning_formulas.mix_visits(1, 1, {1: 1}, [(F(1, 2), F(1))], True, 8))


# known-sc.


def test_known_sc_expected_by_hand():
    # One entity of two false values at 1/2, three cleans: E[min(Binomial(3, 1/2), 2)] = (0 + 3 + 6 + 2) / 8.
    assert cleaning_formulas.known_sc_expected([2], [F(1, 2)], 3) == F(11, 8)
    assert cleaning_formulas.known_sc_expected([2, 3], [F(1), F(0)], 9) == 2
    assert cleaning_formulas.known_sc_expected([0, 0], [F(1), F(1, 2)], 9) == 0


def test_known_sc_expected_by_enumeration_and_optimality():
    false_values, p, budget = [2, 0, 1, 2], [F(1, 4), F(1), F(1, 2), F(3, 4)], 6
    total = F(0)
    for outcomes in itertools.product([False, True], repeat=budget):
        turn = iter(outcomes)
        trace = cleaning.known_sc(false_values, p, budget, lambda _e, _k, turn=turn: next(turn))
        probability = F(1, 2) ** (budget - trace.spent)  # outcomes that are not used
        for entity, success in trace.pulls:
            probability *= p[entity] if success else 1 - p[entity]
        total += probability * trace.removed
    assert cleaning_formulas.known_sc_expected(false_values, p, budget) == total

    # Section 3.3 claims that no policy does better.
    memo: dict[tuple[tuple[int, ...], int], Fraction] = {}

    def best(left: tuple[int, ...], b: int) -> Fraction:
        if b == 0 or sum(left) == 0:
            return F(0)
        if (left, b) not in memo:
            memo[left, b] = max(
                p[j] * (1 + best((*left[:j], left[j] - 1, *left[j + 1 :]), b - 1)) + (1 - p[j]) * best(left, b - 1)
                for j in range(len(left))
                if left[j] > 0
            )
        return memo[left, b]

    assert best(tuple(false_values), budget) == total


# The best stopping rule.


def test_index_by_hand():
    index = cleaning_formulas.best_stopping_index
    # One false value left: the posterior mean only falls, so one clean is best.
    assert index(0, 0, 1, uniform_pdf, 30) == pytest.approx(1 / 2, abs=1e-10)
    assert index(2, 1, 1, uniform_pdf, 30) == pytest.approx(3 / 5, abs=1e-10)
    # Two left: clean once, and after a success once more: (1/2 + 1/2 * 2/3) / (1 + 1/2).
    assert index(0, 0, 2, uniform_pdf, 30) == pytest.approx(5 / 9, abs=1e-10)
    # A single clean at most: the posterior mean.
    assert index(3, 4, 9, uniform_pdf, 1) == pytest.approx(4 / 9, abs=1e-10)
    # p is almost known: the index is p.
    assert index(1, 1, 5, lambda p: 1e4 * (abs(p - 0.3) < 5e-5), 20, (0.29995, 0.30005)) == pytest.approx(0.3, abs=1e-4)


@pytest.mark.parametrize(("s", "f", "left"), [(0, 0, 2), (0, 0, 4), (1, 2, 3), (0, 3, 4)])
def test_index_by_enumeration_of_all_rules(s, f, left):
    horizon = 4
    states = [(a, n - a) for n in range(1, horizon) for a in range(n + 1) if a < left]

    def mean(a: int, b: int) -> Fraction:  # of the Beta(1 + s + a, 1 + f + b) posterior
        return F(1 + s + a, 2 + s + f + a + b)

    best = F(0)
    for chosen in itertools.product([False, True], repeat=len(states)):
        goes_on = {(0, 0): True, **dict(zip(states, chosen, strict=True))}
        reach = {(0, 0): F(1)}
        gain = cost = F(0)
        for n in range(horizon):
            for a in range(min(n, left - 1) + 1):
                b = n - a
                weight = reach.get((a, b), F(0))
                if weight and goes_on[a, b]:
                    cost += weight
                    gain += weight * mean(a, b)
                    reach[a + 1, b] = reach.get((a + 1, b), F(0)) + weight * mean(a, b)
                    reach[a, b + 1] = reach.get((a, b + 1), F(0)) + weight * (1 - mean(a, b))
        best = max(best, gain / cost)
    assert cleaning_formulas.best_stopping_index(s, f, left, uniform_pdf, horizon) == pytest.approx(
        float(best), abs=1e-10
    )


def test_index_is_monotone():
    def index(s, f, left, horizon=40):
        return cleaning_formulas.best_stopping_index(s, f, left, uniform_pdf, horizon)

    assert index(0, 0, 1) < index(0, 0, 2) < index(0, 0, 5) < index(0, 0, 10)
    assert index(0, 2, 5) < index(0, 1, 5) < index(0, 0, 5) < index(1, 0, 5)
    assert index(0, 0, 5, 5) < index(0, 0, 5, 40)
    with pytest.raises(ValueError, match="nothing"):
        index(0, 0, 0)


def test_the_best_rule_of_a_fresh_entity_beats_ee():
    # Every (t, q) of EE is a stopping rule of a fresh entity with known r, so no ratio exceeds the index.
    nodes = cleaning_formulas.pdf_nodes(uniform_pdf, count=32)
    r = 6
    index = cleaning_formulas.best_stopping_index(0, 0, r, uniform_pdf, 120)
    for t in range(1, 6):
        for need in range(1, t + 1):
            gain, cost = cleaning_formulas.mix_exact(t, need, {r: 1}, nodes, True)
            assert gain / cost < index + 1e-9
