"""Expectations of the cleaning algorithms of Cheng et al. 2010, by plain quadrature and recursion.

A density ``pdf`` of the sc-probability is a function on (0, 1); where it jumps or has a kink, name the places
in ``breaks``. The functions that mix over p take ``nodes``, a list of (p, weight) with weights of sum 1: a
discrete law of the sc-probability, or the quadrature of a density made by ``pdf_nodes``. Where p and the
weights are Fractions, so is the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from scipy.integrate import quad

Number = float | Fraction
Pdf = Callable[[float], float]


def needed(t: int, q: Number) -> int:
    """Return ceil(t q); a float q is first read as the simple fraction next to it (2 / 3, 667 / 1000)."""
    exact = q if isinstance(q, Fraction) else Fraction(q).limit_denominator(10**9)
    return math.ceil(t * exact)


def _integral(function: Callable[[float], float], breaks: Sequence[float]) -> float:
    """Integrate over [0, 1], in pieces between the breaks."""
    edges = [0.0, *sorted({float(b) for b in breaks if 0 < b < 1}), 1.0]
    pieces = pairwise(edges)
    return math.fsum(quad(function, a, b, epsabs=1e-13, epsrel=1e-12, limit=400)[0] for a, b in pieces)


def _inverse_moment(pdf: Pdf, breaks: Sequence[float]) -> float:
    """Return the integral of pdf(p) / p over (0, 1), inf where it diverges.

    With p = exp(-x) it is the integral of pdf(exp(-x)) over x > 0: it diverges if that does not tend to 0.
    """
    if pdf(2.0**-1000) > 1e-12:
        return math.inf
    edges = [0.0, *sorted(-math.log(b) for b in breaks if 0 < b < 1), math.inf]
    pieces = pairwise(edges)
    return math.fsum(
        quad(lambda x: pdf(math.exp(-x)), a, b, epsabs=1e-13, epsrel=1e-12, limit=400)[0] for a, b in pieces
    )


def gamma_printed(
    t: int, q: Number, mean_false_values: Number, pdf: Pdf, breaks: Sequence[float] = ()
) -> tuple[float, float]:
    """Return (E[gamma], E[chi]) of Lemma 3, Equations 4 to 7, as printed.

    The condition of Equation 6 is E[r] > ceil(tq) - 1, as in its proof (C.3). The second integrand holds
    (1 - P_ne(p)) / p, which is summed term by term so that nothing is divided by p; with ceil(tq) = 0 it is
    1 / p, and the cost may be inf.
    """
    mean = float(mean_false_values)
    need = needed(t, q)
    reachable = mean > need - 1

    def not_exploited(p: float) -> float:  # Equation 6
        if not reachable:
            return 1.0
        return math.fsum(math.comb(t, m) * p**m * (1 - p) ** (t - m) for m in range(need))

    def exploited_over_p(p: float) -> float:  # (1 - P_ne(p)) / p, for need > 0
        if not reachable:
            return 0.0
        return math.fsum(math.comb(t, m) * p ** (m - 1) * (1 - p) ** (t - m) for m in range(need, t + 1))

    def explored(p: float) -> float:  # Equation 7
        return min(t * p, mean)

    def gain(p: float) -> float:
        rejected = not_exploited(p)
        return (rejected * explored(p) + (1 - rejected) * mean) * pdf(p)

    def cost(p: float) -> float:
        return (not_exploited(p) * t + exploited_over_p(p) * mean) * pdf(p)

    places = [*breaks, mean / t]
    expected_gain = _integral(gain, places)  # Equation 4
    if need == 0 and reachable:
        return expected_gain, mean * _inverse_moment(pdf, breaks)
    return expected_gain, _integral(cost, places)  # Equation 5


def best_printed(
    mean_false_values: Number, mean_p: Number, pdf: Pdf, delta: Number, breaks: Sequence[float] = ()
) -> tuple[int, Fraction, float]:
    """Return (t, q, Gamma) of the grid search of section 5.4; ties go to the smallest q, then t.

    t is each integer of [1, E[r] / E[p]] (and 1 at least), q each of 0, delta, 2 delta, ... below 1, and 1.
    """
    step = delta if isinstance(delta, Fraction) else Fraction(delta).limit_denominator(10**9)
    grid = [k * step for k in range(math.ceil(1 / step))] + [Fraction(1)]
    last = max(1, math.floor(float(mean_false_values) / float(mean_p) + 1e-9))  # Equation 8
    found: list[tuple[float, Fraction, int]] = []
    for t in range(1, last + 1):
        seen: dict[int, float] = {}
        for q in grid:
            need = needed(t, q)  # q matters only through it
            if need not in seen:
                gain, cost = gamma_printed(t, q, mean_false_values, pdf, breaks)
                seen[need] = gain / cost
            found.append((seen[need], q, t))
    best = max(value for value, _, _ in found)
    q, t = min((q, t) for value, q, t in found if value >= best * (1 - 1e-10))
    return t, q, best


def pdf_nodes(pdf: Pdf, breaks: Sequence[float] = (), count: int = 64) -> list[tuple[float, float]]:
    """Return (p, weight) by Gauss-Legendre, ``count`` nodes on each piece of [0, 1] between the breaks."""
    x, w = np.polynomial.legendre.leggauss(count)
    edges = [0.0, *sorted({float(b) for b in breaks if 0 < b < 1}), 1.0]
    nodes = []
    for a, b in pairwise(edges):
        for unit, weight in zip(x.tolist(), w.tolist(), strict=True):
            p = a + (b - a) * (unit + 1) / 2
            nodes.append((p, weight * (b - a) / 2 * pdf(p)))
    total = math.fsum(weight for _, weight in nodes)
    if abs(total - 1) > 1e-6:
        raise ValueError(f"the density has integral {total}: not 1, or more nodes or breaks are needed")
    return nodes


def _phase(t: int, need: int, r: int, early_stopping: bool, s: int, f: int, exploiting: bool) -> str:
    """Say what Algorithm 2 (with section 5.5 or without) does next after s successes and f failures."""
    if s == r:
        return "end"  # lines 7 and 18: no false value left
    if exploiting:
        return "exploit"  # line 18
    if early_stopping and t - f < need:
        return "end"  # section 5.5
    if s + f < t:
        return "explore"  # line 7
    return "exploit" if s >= need else "end"  # line 17


def visit_exact(t: int, need: int, r: int, p: Number, early_stopping: bool) -> tuple[Number, Number]:
    """Return (E[gamma], E[chi]) of a full EE visit of an entity with r false values and sc-probability p.

    The budget has no end. An exploitation with p = 0 costs inf.
    """

    def rest(s: int, f: int) -> tuple[Number, Number]:
        phase = _phase(t, need, r, early_stopping, s, f, False)
        if phase == "end":
            return 0, 0
        if phase == "exploit":
            return (r - s, (r - s) / p) if p > 0 else (0, math.inf)
        gain: Number = 0
        cost: Number = 1
        if p > 0:
            after = rest(s + 1, f)
            gain += p * (1 + after[0])
            cost += p * after[1]
        if p < 1:
            after = rest(s, f + 1)
            gain += (1 - p) * after[0]
            cost += (1 - p) * after[1]
        return gain, cost

    return rest(0, 0)


def _walk(
    t: int, need: int, r: int, p: Number, early_stopping: bool, horizon: int
) -> tuple[dict[tuple[int, int], Number], list[Number]]:
    """Follow one visit clean by clean up to ``horizon``: see ``visit_law`` and ``visit_gain_by``."""
    law: dict[tuple[int, int], Number] = {}
    gain_by: list[Number] = [0]
    states: dict[tuple[int, int, bool], Number] = {}  # successes, failures, exploiting: the visits not ended
    first = _phase(t, need, r, early_stopping, 0, 0, False)
    if first == "end":
        law[0, 0] = 1
    else:
        states[0, 0, first == "exploit"] = 1
    for cost in range(1, horizon + 1):
        gain_by.append(gain_by[-1] + p * sum(states.values()))
        after: dict[tuple[int, int, bool], Number] = {}
        for (s, f, exploiting), probability in states.items():
            for s2, f2, chance in ((s + 1, f, p), (s, f + 1, 1 - p)):
                if chance == 0:
                    continue
                phase = _phase(t, need, r, early_stopping, s2, f2, exploiting)
                if phase == "end":
                    law[cost, s2] = law.get((cost, s2), 0) + probability * chance
                else:
                    state = (s2, f2, phase == "exploit")
                    after[state] = after.get(state, 0) + probability * chance
        states = after
    return law, gain_by


def visit_law(
    t: int, need: int, r: int, p: Number, early_stopping: bool, horizon: int
) -> dict[tuple[int, int], Number]:
    """Return the probability of each (cost, gain) of a full visit, for cost <= horizon."""
    return _walk(t, need, r, p, early_stopping, horizon)[0]


def visit_gain_by(t: int, need: int, r: int, p: Number, early_stopping: bool, horizon: int) -> list[Number]:
    """Return the expected false values removed by the first c cleans of a visit, for c = 0 .. horizon."""
    return _walk(t, need, r, p, early_stopping, horizon)[1]


@dataclass(frozen=True)
class MixedVisit:
    """A visit of an entity drawn at random: r > 0 and p are drawn independently."""

    law: dict[tuple[int, int], Number]
    """The probability of each (cost, gain) of a full visit, for cost <= horizon."""
    gain_by: list[Number]
    """The expected false values removed by its first c cleans, for c = 0 .. horizon."""


def _positive(false_value_weights: Mapping[int, Number]) -> dict[int, Number]:
    """Return the law of r given r > 0: the others are never chosen (Algorithm 2, line 4)."""
    kept = {r: weight for r, weight in false_value_weights.items() if r > 0 and weight > 0}
    total = sum(kept.values())
    return {r: Fraction(1) * weight / total for r, weight in kept.items()}


def mix_visits(
    t: int,
    need: int,
    false_value_weights: Mapping[int, Number],
    nodes: Sequence[tuple[Number, Number]],
    early_stopping: bool,
    horizon: int,
) -> MixedVisit:
    """Mix ``visit_law`` and ``visit_gain_by`` over r (weights given r > 0) and p (nodes)."""
    law: dict[tuple[int, int], Number] = {}
    gain_by: list[Number] = [0] * (horizon + 1)
    for r, r_weight in _positive(false_value_weights).items():
        for p, p_weight in nodes:
            one_law, one_gain_by = _walk(t, need, r, p, early_stopping, horizon)
            for key, probability in one_law.items():
                law[key] = law.get(key, 0) + r_weight * p_weight * probability
            for c, gain in enumerate(one_gain_by):
                gain_by[c] += r_weight * p_weight * gain
    return MixedVisit(law, gain_by)


def mix_exact(
    t: int,
    need: int,
    false_value_weights: Mapping[int, Number],
    nodes: Sequence[tuple[Number, Number]],
    early_stopping: bool,
) -> tuple[Number, Number]:
    """Mix ``visit_exact`` over r (weights given r > 0) and p (nodes).

    With need = 0 the cost holds 1 / p: the nodes of a density do not show a divergence there.
    """
    gain: Number = 0
    cost: Number = 0
    for r, r_weight in _positive(false_value_weights).items():
        for p, p_weight in nodes:
            one = visit_exact(t, need, r, p, early_stopping)
            gain += r_weight * p_weight * one[0]
            cost += r_weight * p_weight * one[1]
    return gain, cost


def ee_expected_removed(budget: int, visit: MixedVisit) -> Number:
    """Return E[R] of EE with infinitely many i.i.d. entities; ``visit`` has a horizon of ``budget`` at least.

    A run of budget b begins with a visit. What its first b cleans remove counts; if it ends at a cost c <= b,
    the run goes on as a fresh one of budget b - c.
    """
    if len(visit.gain_by) <= budget:
        raise ValueError("the visits are not followed up to the budget")
    removed: list[Number] = [0]
    for b in range(1, budget + 1):
        total = visit.gain_by[b]
        for (cost, _), probability in visit.law.items():
            if cost <= b:
                total += probability * removed[b - cost]
        removed.append(total)
    return removed[budget]


def known_sc_expected(false_values: Sequence[int], sc_probabilities: Sequence[Number], budget: int) -> Number:
    """Return E[R] of known-sc (section 3.3): one clean after the other over the false values in its order."""
    order = sorted(range(len(false_values)), key=lambda j: (-sc_probabilities[j], j))
    queue = [sc_probabilities[j] for j in order for _ in range(false_values[j])]  # p, by false value
    ahead: list[Number] = [0] * (len(queue) + 1)  # E[R] still to come with the first k removed, at budget b
    for _ in range(budget):
        now: list[Number] = [0] * (len(queue) + 1)
        for k, p in enumerate(queue):
            now[k] = p * (1 + ahead[k + 1]) + (1 - p) * ahead[k]
        ahead = now
    return ahead[0]


def best_stopping_index(
    successes: int,
    failures: int,
    left: int,
    pdf: Pdf,
    horizon: int,
    breaks: Sequence[float] = (),
    count: int = 128,
) -> float:
    """Return the largest E[false values removed] / E[cost] over the stopping rules that clean once at least.

    The entity has ``left`` false values after ``successes`` and ``failures``; p has the posterior of the
    density ``pdf``. A rule ends when no false value is left, and after ``horizon`` cleans at the latest. The
    ratio lambda is the best one if the best rule for "1 per false value removed, -lambda per clean" is worth
    0.
    """
    if left <= 0 or horizon <= 0:
        raise ValueError("there is nothing to clean")
    nodes = pdf_nodes(pdf, breaks, count)

    def moment(s: int, f: int) -> float:
        return math.fsum(weight * p**s * (1 - p) ** f for p, weight in nodes)

    mean = {  # after a more successes and b more failures: the chance that the next clean succeeds
        (a, b): moment(successes + a + 1, failures + b) / moment(successes + a, failures + b)
        for a in range(min(left, horizon))
        for b in range(horizon - a)
    }

    def worth(price: float) -> float:
        value: dict[tuple[int, int], float] = {}  # of the best rule from here that may stop at once
        first = 0.0
        for n in range(horizon - 1, -1, -1):
            for a in range(min(n, left - 1) + 1):
                b = n - a
                on_success = value.get((a + 1, b), 0.0)
                on_failure = value.get((a, b + 1), 0.0)
                first = mean[a, b] * (1 + on_success) + (1 - mean[a, b]) * on_failure - price
                value[a, b] = max(0.0, first)
        return first  # of (0, 0), the last one done: the first clean is not optional

    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if worth(middle) >= 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
