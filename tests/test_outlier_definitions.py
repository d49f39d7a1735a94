"""Outliers by known means and the theorems' bounds, against the oracles."""

from math import isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxbandit.errors import BadInput
from jaxbandit.outliers import bounds
from jaxbandit.outliers import definitions as d
from jaxbandit.outliers.gold import factor
from jaxbandit.outliers.wrr import rho_star
from tests.oracles import outliers as o

means = st.lists(st.integers(0, 60).map(lambda v: v / 60), min_size=3, max_size=11)
ks = st.sampled_from([0.5, 1.0, 1.5, 2.0, 2.5])
epsilons, rhos = st.sampled_from([0.1, 0.5, 2.5]), st.sampled_from([0.6, 0.75, 0.9])
sizes = st.sampled_from(["above", "at-least"])


@settings(deadline=None)
@given(means, ks)
def test_k_sigma(y: list[float], k: float) -> None:
    found = d.k_sigma_outliers(y, k)
    assert found == o.k_sigma_outliers(y, k)
    both = d.k_sigma_outliers(y, k, two_sided=True)
    assert both == found | o.k_sigma_outliers([-v for v in y], k)


def test_robust() -> None:
    y = [0.2, 0.21, 0.22, 0.23, 0.24, 0.9, 0.95]
    assert d.robust_outliers(y, 3) == {5, 6}
    assert d.k_sigma_outliers(y, 3) == frozenset()
    assert d.robust_outliers([1 - v for v in y], 3) == frozenset()
    assert d.robust_outliers([1 - v for v in y], 3, two_sided=True) == {5, 6}


@settings(deadline=None, max_examples=60)
@given(means, epsilons, rhos, sizes)
def test_groups(y: list[float], eps: float, rho: float, size: d.Sizes) -> None:
    assert set(d.outlier_groups(y, eps, rho, size)) == set(o.outlier_groups(y, eps, rho, size))


def test_groups_of_many_arms_are_found_at_once() -> None:
    y = [arm / 6000 for arm in range(3686)] + [0.9 + arm / 6000 for arm in range(410)]  # hours by all pairs
    assert d.outlier_groups(y, 2.5, 0.9, "at-least") == []
    assert d.outlier_groups(y[:-1], 2.5, 0.9, "at-least") == [frozenset(range(3686, 4095))]


@given(st.lists(st.floats(0.01, 0.99), min_size=4, max_size=30, unique=True), ks, st.floats(0.01, 0.5))
def test_bounds(y: list[float], k: float, delta: float) -> None:
    for ours, theirs in (
        (bounds.rr_bound(y, k, delta), o.rr_bound(y, k, delta)),
        (bounds.wrr_bound(y, k, delta), o.wrr_bound(y, k, delta)),
        (bounds.wrr_bound(y, k, delta, 2.0), o.wrr_bound(y, k, delta, 2.0)),
        (bounds.gold_bound(y, 2.5, delta), o.gold_bound(y, 2.5, delta)),
        (bounds.gold_bound(y, 2.5, delta, form="proof"), o.gold_bound(y, 2.5, delta, gap_power=2)),
        (rho_star(len(y), k, delta), o.rho_star(len(y), k, delta)),
    ):
        assert isclose(ours, theirs, rel_tol=1e-6)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: d.k_sigma_outliers([0.1, 0.2], 2), "means"),
        (lambda: d.k_sigma_outliers([0.1, 0.2, 0.3], 0), "k"),
        (lambda: d.outlier_groups([0.1, 0.2, 0.3], 0.06, 0.9), "eps"),
        (lambda: d.outlier_groups([0.1, 0.2, 0.3], 1, 0.5), "rho"),
        (lambda: factor(0.064), "eps"),
    ],
)
def test_bad_input(call: object, field: str) -> None:
    with pytest.raises(BadInput) as error:
        call()  # type: ignore[operator]
    assert error.value.field == field
