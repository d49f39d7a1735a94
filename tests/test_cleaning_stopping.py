"""Stopping indices against the oracle, closed forms, plain recursion at the index itself, and each other."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from jaxbandit.cleaning import stopping
from jaxbandit.cleaning.gamma import Floats
from jaxbandit.cleaning.renewal import expected_removed
from jaxbandit.cleaning.stopping import NEVER, allowed_failures, level_for_budget, stopping_index
from jaxbandit.errors import BadInput
from tests.oracles import cleaning_formulas as oracle

UNIFORM = np.full(1000, 1 / 1000)
TO_19 = np.full(20, 1 / 20)

Worth = Callable[[int, int, int], tuple[float, float]]


def _plain(cells: Floats, level: float, horizon: int) -> Worth:
    """(go, expected cost of going on) at (s, f, left), by recursion."""
    p = (np.arange(cells.size) + 0.5) / cells.size

    @cache
    def value(s: int, f: int, left: int) -> tuple[float, float]:
        if left == 0:
            return 0.0, 0.0
        if s + f == horizon:
            weights = cells * p**s * (1 - p) ** f
            cleans = left * (weights / p).sum() / weights.sum()
            return (left - level * cleans, cleans) if left > level * cleans else (0.0, 0.0)
        worth, cost = go(s, f, left)
        return (worth, cost) if worth > 0 else (0.0, 0.0)

    @cache
    def go(s: int, f: int, left: int) -> tuple[float, float]:
        weights = cells * p**s * (1 - p) ** f
        mean = (weights * p).sum() / weights.sum()
        (v1, c1), (v0, c0) = value(s + 1, f, left - 1), value(s, f + 1, left)
        return -level + mean * (1 + v1) + (1 - mean) * v0, 1 + mean * c1 + (1 - mean) * c0

    return go


def _pdfs() -> list[Floats]:
    rng = np.random.default_rng(3)
    two = np.zeros(12)
    two[[1, 10]] = 0.7, 0.3
    return [rng.dirichlet(np.full(12, 0.3)), np.full(12, 1 / 12), two]


@pytest.mark.parametrize("cells", _pdfs())
def test_going_on_at_the_index_is_worth_nothing(cells: Floats) -> None:
    index = stopping_index(cells, 3, 6, horizon=20)
    for s, f, left in [(0, 0, 3), (0, 0, 1), (1, 0, 2), (0, 2, 3), (1, 4, 2), (2, 6, 1), (0, 6, 3)]:
        got = index[left, s, f]
        assert _plain(cells, got - 1e-9, 20)(s, f, left)[0] > 0  # never too high
        assert _plain(cells, got + 1e-4, 20)(s, f, left)[0] < 0


@pytest.mark.parametrize("pdf", [lambda p: 1.0, lambda p: 12 * p * (1 - p) ** 2])
def test_index_agrees_with_the_oracle(pdf: oracle.Pdf) -> None:
    index = stopping_index(pdf((np.arange(1000) + 0.5) / 1000) * UNIFORM, 6, 30)
    for s, f, left in [(0, 0, 6), (0, 0, 2), (2, 1, 4), (1, 3, 5)]:
        assert index[left, s, f] == pytest.approx(oracle.best_stopping_index(s, f, left, pdf, 40), abs=1e-4)


def test_last_false_value_under_the_uniform_pdf() -> None:
    """Indices fall with each failure, so the best rule makes one clean: the index is the mean of a Beta posterior."""
    index = stopping_index(UNIFORM, 6, 30)
    s, f = np.arange(6)[:, None], np.arange(31)
    assert np.allclose(index[1], (s + 1) / (s + f + 2), atol=1e-5)


def test_a_known_p_is_the_index() -> None:
    index = stopping_index(np.eye(10)[7], 4, 5)
    left, s = np.arange(5)[:, None], np.arange(4)
    valid = (left > 0) & (left + s <= 4)
    assert np.allclose(index[valid], 0.75, atol=1e-9)
    assert (index[~valid] == 0).all()


def test_index_falls_with_failures_and_does_not_depend_on_the_horizon() -> None:
    index = stopping_index(UNIFORM, 6, 30)
    assert np.diff(index, axis=-1).max() <= 0
    assert np.abs(index - stopping_index(UNIFORM, 6, 30, horizon=16 * 36)).max() < 1e-9


@pytest.mark.parametrize("cells", _pdfs())
def test_allowed_failures_are_those_with_an_index_above_the_level(cells: Floats) -> None:
    levels = np.array([0.05, 0.2, 0.45, 0.8])
    index = stopping_index(cells, 4, 15)
    table = allowed_failures(cells, levels, 4, 15)
    assert table.shape == (4, 5, 4)
    for i, level in enumerate(levels):
        for r in range(5):
            for s in range(4):
                above = int((index[r - s, s] > level).sum()) if s < r else 0
                assert table[i, r, s] == (NEVER if above == 16 else above)
    # One more success never lowers it: where success no longer helps, the likelier success did not either.
    r, s = np.arange(5)[:, None], np.arange(3)
    assert (np.diff(table.astype(float), axis=-1)[:, s + 1 < r] >= 0).all()


def test_level_0_never_gives_up() -> None:
    table = allowed_failures(UNIFORM, 0.0, 3, 4)
    assert (table == np.where(np.arange(3) < np.arange(4)[:, None], NEVER, 0)).all()


@pytest.mark.parametrize("cells", _pdfs())
def test_expected_cost_at_the_level_meets_the_budget(cells: Floats) -> None:
    false_values = np.array([0.2, 0.3, 0.1, 0.4])
    full = 1000 * (false_values @ np.arange(4)) * (cells / ((np.arange(12) + 0.5) / 12)).sum()
    for budget in (100, 1000, 0.7 * full):
        found = level_for_budget(cells, false_values, 1000, budget, horizon=25)

        def spent(level: float) -> float:
            fresh = [_plain(cells, level, 25)(0, 0, r) for r in (1, 2, 3)]
            return 1000 * sum(w * c for w, (go, c) in zip(false_values[1:], fresh, strict=True) if go > 0)

        assert spent(found.level + 1e-9) <= budget <= spent(found.level - 1e-9)
        assert found.effectiveness == found.removed / budget
    rest = level_for_budget(cells, false_values, 1000, [full * 1.001, 2 * full], horizon=25)
    assert (rest.level == 0).all()
    assert rest.removed == pytest.approx(1700, rel=1e-9)


def test_bounds_explore_exploit_and_starts_at_the_best_index() -> None:
    budgets = np.array([1.0, 1e4, 1e5, 1e6])
    found = level_for_budget(UNIFORM, TO_19, 50_000, budgets, horizon=64)
    assert found.effectiveness[0] == pytest.approx(stopping_index(UNIFORM, 19, 0, horizon=64)[19, 0, 0], abs=1e-4)
    assert (np.diff(found.level) <= 0).all()
    assert found.removed[1] > expected_removed(10_000, 5, 5, UNIFORM, TO_19).mean[-1]


def test_no_recompilation_across_problems_of_one_shape() -> None:
    programs = stopping._index, stopping._allowed, stopping._level
    before = [x._cache_size() for x in programs]
    for cells in _pdfs():
        stopping_index(cells, 2, 3)
        allowed_failures(cells, cells[0], 2, 3)
        level_for_budget(cells, [0.1, 0.9], 10, 100 * cells[0] + 1, horizon=17)
    assert [x._cache_size() for x in programs] == [n + 1 for n in before]


def test_batch_gives_what_singles_give() -> None:
    cells = np.stack(_pdfs())
    index = stopping_index(cells, 3, 4)
    level = level_for_budget(cells, [0.0, 0.5, 0.5], 10, [[3.0], [9.0]], horizon=16)
    assert index.shape == (3, 4, 3, 5)
    assert level.level.shape == (2, 3)
    for i, row in enumerate(cells):
        assert np.allclose(stopping_index(row, 3, 4), index[i], atol=1e-12)
        one = level_for_budget(row, [0.0, 0.5, 0.5], 10, 9.0, horizon=16)
        assert one.removed == pytest.approx(level.removed[1, i], rel=1e-12)


def test_many_failures_do_not_underflow() -> None:
    index = stopping_index(np.eye(100)[[90, 99]].mean(0), 2, 3000, horizon=3002)
    assert index[1, 0, 3000] == pytest.approx(0.905, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: stopping_index(UNIFORM, 0), "max_false_values"),
        (lambda: stopping_index(UNIFORM, 3, -1), "max_failures"),
        (lambda: stopping_index(UNIFORM, 3, 5, horizon=7), "horizon"),
        (lambda: stopping_index(UNIFORM * 2, 3), "cells"),
        (lambda: allowed_failures(UNIFORM, 1.5, 3), "level"),
        (lambda: allowed_failures(np.eye(3), [0.1, 0.2], 3), "cells, level"),
        (lambda: level_for_budget(UNIFORM, TO_19, 0, 5), "entities"),
        (lambda: level_for_budget(UNIFORM, TO_19, 10, 0), "budget"),
        (lambda: level_for_budget(UNIFORM, TO_19, 10, 5, horizon=0), "horizon"),
    ],
)
def test_bad_input_names_the_field(call: Callable[[], object], field: str) -> None:
    with pytest.raises(BadInput) as error:
        call()
    assert error.value.field == field
