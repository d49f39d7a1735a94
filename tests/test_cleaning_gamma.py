"""Gamma against the oracles, plain loops over the paper's equations, and the published rule."""

from fractions import Fraction
from math import ceil, comb

import numpy as np
import pytest

from jaxbandit.cleaning import gamma as module
from jaxbandit.cleaning.gamma import Floats, gamma_exact, gamma_printed, tune
from jaxbandit.errors import BadInput
from tests.oracles import cleaning_formulas as oracle

UNIFORM = np.full(1000, 1 / 1000)
TO_19 = np.full(20, 1 / 20)


def _mid(cells: Floats) -> Floats:
    return (np.arange(cells.size) + 0.5) / cells.size


def _printed(cells: Floats, false_values: Floats, t: int, need: int) -> float:
    mean = sum(r * w for r, w in enumerate(false_values))
    gain = cost = 0.0
    for p, weight in zip(_mid(cells), cells, strict=True):
        only = sum(comb(t, m) * p**m * (1 - p) ** (t - m) for m in range(need)) if mean > need - 1 else 1.0
        gain += weight * (only * min(t * p, mean) + (1 - only) * mean)
        cost += weight * (only * t + (1 - only) * mean / p)
    return gain / cost


def _exact(cells: Floats, false_values: Floats, t: int, need: int, early: bool) -> float:
    nodes = list(zip(_mid(cells).tolist(), cells.tolist(), strict=True))
    gain, cost = oracle.mix_exact(t, need, dict(enumerate(false_values.tolist())), nodes, early)
    return float(gain / cost)


@pytest.mark.parametrize("largest", [1, 12])
def test_every_rule_agrees_with_plain_loops(largest: int) -> None:
    rng, t_max = np.random.default_rng(largest), 7
    cells, false_values = rng.dirichlet(np.full(9, 0.5)), rng.dirichlet(np.ones(largest + 1))
    printed = gamma_printed(cells, false_values, t_max)
    exact = {early: gamma_exact(cells, false_values, t_max, early_stopping=early) for early in (False, True)}
    for t in range(1, t_max + 1):
        for need in range(t_max + 1):
            if need > t:
                assert np.isnan([printed[t - 1, need], exact[False][t - 1, need], exact[True][t - 1, need]]).all()
                continue
            assert printed[t - 1, need] == pytest.approx(_printed(cells, false_values, t, need), rel=1e-12)
            for early, tensor in exact.items():
                assert tensor[t - 1, need] == pytest.approx(_exact(cells, false_values, t, need, early), rel=1e-12)


@pytest.mark.parametrize("pdf", [lambda p: 1.0, lambda p: 6 * p * (1 - p)])
def test_lemma_3_by_quadrature(pdf: oracle.Pdf) -> None:
    cells = pdf(_mid(UNIFORM)) * UNIFORM
    tensor = gamma_printed(cells, TO_19, 12)
    for t, q in [(1, Fraction(1)), (3, Fraction(1, 3)), (3, Fraction(1)), (12, Fraction(1, 2)), (12, Fraction(11, 12))]:
        gain, cost = oracle.gamma_printed(t, q, 9.5, pdf)
        assert tensor[t - 1, oracle.needed(t, q)] == pytest.approx(gain / cost, rel=1e-5)


def test_published_rule() -> None:
    best = tune(UNIFORM, TO_19, 0.001, "lemma3")
    assert (best.t, best.need, best.q) == (3, 3, 0.667)


def test_exact_objective_has_a_better_rule() -> None:
    best = tune(UNIFORM, TO_19, 0.001, "exact")
    gamma = gamma_exact(UNIFORM, TO_19, 5)
    assert (best.t, best.need, best.q) == (5, 5, 0.801)
    assert best.gamma == pytest.approx(gamma[4, 5], rel=1e-12)
    assert best.gamma > 1.02 * gamma[2, 3]
    without = tune(UNIFORM, TO_19, 0.001, "exact", early_stopping=False)
    assert (without.t, without.need, without.q) == (2, 2, 0.501)


def test_mean_on_the_edge_of_equation_6() -> None:
    """E[r] = 9 is not above ceil(tq) - 1 = 9, however its sum was rounded."""
    false_values = np.full(19, 1 / 19)
    tensor = gamma_printed(UNIFORM, false_values, 12)
    assert tensor[11, 10] == pytest.approx(np.minimum(12 * _mid(UNIFORM), 9).mean() / 12, rel=1e-12)


@pytest.mark.parametrize("delta", [0.001, 0.03, 0.25, 1 / 3, 0.4, 1.0])
def test_q_is_the_smallest_on_the_grid(delta: float) -> None:
    step = Fraction(delta).limit_denominator(1000)
    grid = [k * step for k in range(ceil(1 / step))] + [Fraction(1)]
    want = {(t, need): q for t in range(1, 20) for q in reversed(grid) for need in [ceil(t * q)]}
    t, need, q = module.rules(step, 19)
    assert dict(zip(zip(t.tolist(), need.tolist(), strict=True), q.tolist(), strict=True)) == pytest.approx(
        {rule: float(q) for rule, q in want.items()}, abs=0
    )
    assert list(zip(q, t, strict=True)) == sorted(zip(q, t, strict=True))


@pytest.mark.parametrize("place", [0, 3, 77, 99])
def test_ties_go_to_the_smallest_q_then_t(place: int) -> None:
    """With one known p every rule has Gamma = p."""
    best = tune(np.eye(100)[place], np.full(9, 1 / 9), 0.01, "exact", t_max=16)
    assert (best.t, best.need, best.q) == (1, 0, 0.0)
    assert best.gamma == pytest.approx((place + 0.5) / 100, rel=1e-12)


def test_tie_between_different_needs() -> None:
    """With r = 1 and early stopping, (1, 1) and (2, 2) both give up after one failure."""
    best = tune(UNIFORM, [0.0, 1.0], 0.001, "exact")
    assert (best.t, best.need, best.q) == (1, 1, 0.001)


def test_t_stays_within_t_hat() -> None:
    few, rare = np.eye(20)[3], np.eye(20)[0] * 0.9 + np.eye(20)[1] * 0.1
    assert tune(UNIFORM, few, 0.001, "exact", t_max=2).t <= 2
    assert tune(np.eye(1000)[999], few, 0.001, "exact").t <= 3
    assert tune(UNIFORM, rare, 0.001, "exact").t == 1  # Eq. 8 gives 0


def test_batch_gives_what_singles_give_without_compiling_again() -> None:
    rng = np.random.default_rng(0)
    cells, false_values = rng.dirichlet(np.ones(50), (6, 1)), rng.dirichlet(np.ones(8), 5)
    before = module._best.compiled._cache_size()
    for objective in ("lemma3", "exact"):
        whole = tune(cells, false_values, 0.02, objective)
        assert whole.t.shape == (6, 5)
        for i, j in np.ndindex(6, 5):
            one = tune(cells[i, 0], false_values[j], 0.02, objective)
            assert (one.t, one.need, one.q) == (whole.t[i, j], whole.need[i, j], whole.q[i, j])
            assert one.gamma == pytest.approx(whole.gamma[i, j], rel=1e-12)
    assert module._best.compiled._cache_size() == before + 4  # two objectives, two sizes of batch


def test_far_tails_stay_finite() -> None:
    tensor = gamma_exact(np.eye(1000)[[0, 999]], np.eye(60)[59], 100)
    valid = np.arange(101) <= np.arange(1, 101)[:, None]
    assert np.allclose(tensor[:, valid], [[0.0005], [0.9995]], rtol=1e-10)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 0.002}, "cells"),
        ({"cells": UNIFORM * 2}, "cells"),
        ({"cells": 1.0}, "cells"),
        ({"cells": np.tile(UNIFORM, (3, 1)), "false_values": np.tile(TO_19, (2, 1))}, "cells, false_values"),
        ({"false_values": [1.0, 0.0]}, "false_values"),
        ({"false_values": [1.5, -0.5]}, "false_values"),
        ({"objective": "lemma4"}, "objective"),
        ({"t_max": 0}, "t_max"),
        ({"cells": np.eye(1000)[0]}, "t_hat"),
    ],
)
def test_bad_input_names_the_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(BadInput) as error:
        tune(**{"cells": UNIFORM, "false_values": TO_19, "delta": 0.001} | change)  # type: ignore[arg-type]
    assert error.value.field == field
