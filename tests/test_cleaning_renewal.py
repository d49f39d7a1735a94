"""The finite-budget law of EE against the oracle, full enumeration, a plain simulation, and its own limit."""

from collections import Counter
from functools import cache

import numpy as np
import pytest

from jaxbandit.cleaning import renewal
from jaxbandit.cleaning.gamma import Floats, gamma_exact
from jaxbandit.cleaning.renewal import expected_removed, expected_removed_of_table
from jaxbandit.errors import BadInput
from tests.oracles import cleaning_formulas as oracle

UNIFORM = np.full(1000, 1 / 1000)
TO_19 = np.full(20, 1 / 20)


Left = tuple[tuple[int, int], ...]
"""How many entities of each r are still to be visited: pairs (r, count)."""


def _law(budget: int, t: int, need: int, cells: Floats, false_values: Floats | Left, early: bool) -> Floats:
    """P(removed = k), by enumeration of Algorithm 2: ``false_values`` is the distribution of r where entities do not
    run out, or the entities that there are."""
    endless = isinstance(false_values, np.ndarray)
    weights = false_values[1:] / false_values[1:].sum() if endless else np.zeros(0)

    def shift(law: Floats) -> Floats:
        return np.concatenate([[0.0], law[:-1]])

    @cache
    def fresh(c: int, there: Left) -> Floats:
        law = np.zeros(budget + 1)
        if endless:
            drawn = [(r, weight, there) for r, weight in enumerate(weights, 1)]
        else:
            total = sum(count for _, count in there)
            drawn = [
                (r, count / total, tuple((x, k - (x == r)) for x, k in there if k > (x == r))) for r, count in there
            ]
        if not drawn:
            law[0] = 1
        for i, p in enumerate((np.arange(cells.size) + 0.5) / cells.size):
            for r, weight, rest in drawn:
                law += cells[i] * weight * visit(c, p, r, 0, 0, rest)
        return law

    @cache
    def visit(c: int, p: float, r: int, m: int, d: int, rest: Left) -> Floats:
        if c == 0:
            return np.eye(budget + 1)[0]
        if m == r or (d == t and m < need) or (early and d < t and t - (d - m) < need):
            return fresh(c, rest)
        # Beyond t only m matters; d stays at t + 1 so that the test is not made again.
        d = d + 1 if d < t else t + 1
        return p * shift(visit(c - 1, p, r, m + 1, d, rest)) + (1 - p) * visit(c - 1, p, r, m, d, rest)

    return fresh(budget, () if endless else tuple(false_values))


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(("t", "need"), [(1, 0), (1, 1), (2, 1), (3, 3), (3, 2), (4, 0), (20, 15)])
def test_agrees_with_enumeration(t: int, need: int, early: bool) -> None:
    rng = np.random.default_rng(t)
    cells, false_values = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(5))
    result = expected_removed(9, t, need, cells, false_values, early_stopping=early)
    nodes = list(zip([0.125, 0.375, 0.625, 0.875], cells.tolist(), strict=True))
    visit = oracle.mix_visits(t, need, dict(enumerate(false_values.tolist())), nodes, early, 9)
    for budget in (0, 1, 2, 5, 9):
        assert result.mean[budget] == pytest.approx(oracle.ee_expected_removed(budget, visit), abs=1e-12)
        law, k = _law(budget, t, need, cells, false_values, early), np.arange(budget + 1)
        mean = law @ k
        assert result.mean[budget] == pytest.approx(mean, abs=1e-12)
        assert result.std[budget] == pytest.approx(np.sqrt(law @ (k - mean) ** 2), abs=1e-6)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(("t", "need"), [(1, 1), (2, 1), (3, 2), (4, 0)])
def test_entities_that_run_out_agree_with_enumeration(t: int, need: int, early: bool) -> None:
    cells, k = np.random.default_rng(t).dirichlet(np.ones(4)), np.arange(13)
    rows = [1, 3, 0, 1, 2]
    result = expected_removed_of_table(12, t, need, cells, rows, early_stopping=early)
    # Of two entities each has no false value, one or two.
    law_of_r, pairs = np.array([0.5, 0.2, 0.3]), [(a, b) for a in range(3) for b in range(3)]
    drawn = expected_removed(12, t, need, cells, law_of_r, early_stopping=early, entities=2)
    for budget in (0, 1, 4, 12):
        law = _law(budget, t, need, cells, ((1, 2), (2, 1), (3, 1)), early)
        mean = law @ k[: budget + 1]
        assert result.mean[budget] == pytest.approx(mean, abs=1e-12)
        assert result.std[budget] == pytest.approx(np.sqrt(law @ (k[: budget + 1] - mean) ** 2), abs=1e-6)
        law = np.zeros(budget + 1)
        for pair in pairs:
            there = tuple(Counter(r for r in pair if r).items())
            law += law_of_r[list(pair)].prod() * _law(budget, t, need, cells, there, early)
        mean = law @ k[: budget + 1]
        assert drawn.mean[budget] == pytest.approx(mean, abs=1e-12)
        assert drawn.std[budget] == pytest.approx(np.sqrt(law @ (k[: budget + 1] - mean) ** 2), abs=1e-6)


def test_a_large_table() -> None:
    """Where the quadrature has fewer nodes than the degree of its polynomial: the law of r is nearly all that counts,
    few entities visited are as if they were without end, and in the end every entity has been visited once."""
    rows = np.repeat([1, 2, 5], [300, 200, 100])
    law = np.bincount(rows) / rows.size
    assert rows.size / 2 > renewal._NODES
    table = expected_removed_of_table(4000, 2, 1, UNIFORM, rows)
    drawn = expected_removed(4000, 2, 1, UNIFORM, law, entities=rows.size)
    assert np.abs(table.mean - drawn.mean).max() < 0.005 * table.mean[-1]
    assert table.std[-1] < drawn.std[-1]
    assert table.mean[300] == pytest.approx(expected_removed(300, 2, 1, UNIFORM, law).mean[-1], rel=1e-3)
    once = expected_removed(4000, 2, 1, UNIFORM, law, entities=1).mean[-1]
    assert table.mean[-1] == pytest.approx(600 * once, rel=1e-3)


@pytest.mark.parametrize("early", [False, True])
def test_agrees_with_a_plain_simulation(early: bool) -> None:
    rng, budget, runs, t, need = np.random.default_rng(7), 300, 2000, 4, 3
    c, removed = np.full(runs, budget), np.zeros(runs, int)
    p, r, m, d = np.zeros(runs), np.zeros(runs, int), np.zeros(runs, int), np.full(runs, -1)
    for _ in range(budget):
        new = (d < 0) | (m == r) | ((d == t) & (m < need)) | (early & (d < t) & (t - (d - m) < need))
        p = np.where(new, rng.integers(0, 1000, runs) / 1000 + 0.0005, p)
        r, m, d = np.where(new, rng.integers(1, 20, runs), r), np.where(new, 0, m), np.where(new, 0, d)
        hit = rng.random(runs) < p
        m, d, removed, c = m + hit, np.where(d < t, d + 1, t + 1), removed + hit, c - 1
    result = expected_removed(budget, t, need, UNIFORM, TO_19, early_stopping=early)
    assert abs(removed.mean() - result.mean[-1]) < 4 * result.std[-1] / np.sqrt(runs)
    assert removed.std() == pytest.approx(result.std[-1], rel=4 / np.sqrt(2 * runs))


def test_the_rate_tends_to_gamma() -> None:
    t, need = np.array([3, 5, 2]), np.array([3, 5, 1])
    mean = expected_removed(4000, t, need, UNIFORM, TO_19).mean
    assert np.diff(mean)[:, -1] == pytest.approx(gamma_exact(UNIFORM, TO_19, 5)[t - 1, need], rel=2e-3)


def test_a_known_p_is_a_binomial() -> None:
    result = expected_removed(500, 3, 2, np.eye(10)[6], TO_19)
    n = np.arange(501)
    assert np.allclose(result.mean, 0.65 * n, rtol=1e-10)
    assert np.allclose(result.std, np.sqrt(0.65 * 0.35 * n), atol=1e-5)


def test_batch_gives_what_singles_give_without_compiling_again() -> None:
    rng = np.random.default_rng(0)
    cells, false_values = rng.dirichlet(np.ones(20), 3), rng.dirichlet(np.ones(4), 3)
    before = renewal._removed._cache_size()
    whole = expected_removed(40, np.array([[1], [4]]), 1, cells, false_values)
    assert whole.mean.shape == (2, 3, 41)
    for i, j in np.ndindex(2, 3):
        one = expected_removed(50 + i, [1, 4][i], 1, cells[j], false_values[j])
        assert np.allclose(one.mean[:41], whole.mean[i, j], atol=1e-12)
    assert renewal._removed._cache_size() == before + 2


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"budget": -1}, "budget"),
        ({"t": 0}, "t"),
        ({"need": 4}, "need"),
        ({"entities": 0}, "entities"),
        ({"entities": float("nan")}, "entities"),
        ({"t": [3, 3, 3], "need": [1, 2]}, "t, need, cells, false_values, entities"),
        ({"t": [3, 3, 3], "cells": np.tile(UNIFORM, (2, 1))}, "t, need, cells, false_values, entities"),
    ],
)
def test_bad_input_names_the_field(change: dict[str, object], field: str) -> None:
    good: dict[str, object] = {"budget": 5, "t": 3, "need": 3, "cells": UNIFORM, "false_values": TO_19}
    with pytest.raises(BadInput) as error:
        expected_removed(**good | change)  # type: ignore[arg-type]
    assert error.value.field == field
