"""The bounds of Zhou, Chen and Li 2014 against another reading of the paper, and what it says of them."""

from typing import Any

import pytest

from jaxbandit.errors import BadInput
from jaxbandit.topk import (
    PROVEN,
    bounds,
    lower_bound,
    lower_bound_accuracy,
    lower_bound_confidence,
    regret_bound,
    sample_size,
)
from tests.oracles import topk as oracles

CASES = [(1000, 10, 0.1, 0.05), (1000, 499, 0.3, 0.5), (10, 5, 0.01, 0.9), (10, 8, 0.2, 1e-6), (7, 7, 0.1, 0.1)]


@pytest.mark.parametrize(("n", "k", "epsilon", "delta"), CASES)
def test_sample_sizes(n: int, k: int, epsilon: float, delta: float) -> None:
    size = sample_size(n, k, epsilon, delta)
    assert size == pytest.approx(oracles.sample_size(n, k, epsilon, delta))
    assert sample_size(n, k, epsilon, delta, constant=3.5) == pytest.approx(3.5 * size)
    if size > 0:
        assert regret_bound(n, k, size, delta) == pytest.approx(epsilon)
        assert regret_bound(n, k, 7 * size, delta, constant=7) == pytest.approx(epsilon)
    else:
        assert regret_bound(n, k, 1, delta) == 0 == size
    if 2 * k <= n:
        assert regret_bound(n, k, 123, delta) == pytest.approx(oracles.theorem_4_3(n, k, 123, delta))


@pytest.mark.parametrize(("n", "k", "delta"), [(20, 1, 0.9), (1000, 10, 0.05), (100_000, 2000, 1e-9)])
def test_the_proven_constant_covers_the_rounds_of_the_printed_rule(n: int, k: int, delta: float) -> None:
    """The lemmas' losses of all rounds, added up, are no more than the bound."""
    budget, lost, size, round_ = 10.0 * n, 0.0, n, 0
    beta = float(oracles.beta_printed())
    while size > 1:
        pulls, chance = beta**round_ * (1 - beta) * budget, delta / 2 ** (round_ + 1)
        lemma = oracles.lemma_4_1 if size >= 4 * k else oracles.lemma_4_2
        lost += lemma(size, k, pulls, chance)
        size -= -(-size // 4)
        round_ += 1
    assert lost <= regret_bound(n, k, budget, delta, constant=PROVEN)
    assert 50_000 < PROVEN < 51_000


def test_lower_bounds() -> None:
    case = (100, 12, 0.01, 0.005)
    assert lower_bound(*case) == pytest.approx(oracles.lower_bound(*case))
    assert lower_bound_accuracy(100, 12, 0.01) == pytest.approx(oracles.theorem_5_1(100, 0.01))
    assert lower_bound_confidence(*case) == pytest.approx(oracles.theorem_5_5(*case))
    assert lower_bound_confidence(*case, constant=1 / 20000) == pytest.approx(oracles.lemma_5_4(*case))
    together = lower_bound_accuracy(100, 12, 0.01) + lower_bound_confidence(*case)
    assert lower_bound(*case) == pytest.approx(together)
    assert lower_bound(100, 80, 0.01, 0.005, constant=2) == pytest.approx(2 * oracles.theorem_4_5(100, 80, 0.01, 0.005))
    assert lower_bound(3, 3, 0.01, 0.005) == 0


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("sample_size", (0, 1, 0.1, 0.1), "arms = 0: a whole number of at least 1"),
        ("sample_size", (5, 0, 0.1, 0.1), "want = 0: a whole number from 1 to 5, the number of arms"),
        ("sample_size", (5, 6, 0.1, 0.1), "want = 6: a whole number from 1 to 5, the number of arms"),
        ("sample_size", (5, 2.0, 0.1, 0.1), "want = 2.0: a whole number from 1 to 5, the number of arms"),
        ("sample_size", (5, 2, 0, 0.1), "epsilon = 0: a number above 0"),
        ("sample_size", (5, 2, float("nan"), 0.1), "epsilon = nan: a number above 0"),
        ("sample_size", (5, 2, 0.1, 1), "delta = 1: a number above 0 and below 1"),
        ("regret_bound", (5, 2, -1, 0.1), "budget = -1: a number above 0"),
        ("lower_bound", (100, 9, 0.01, 0.01), "want = 9: a whole number from 10 to n/2 = 50"),
        ("lower_bound", (100, 10, 0.02, 0.01), "epsilon = 0.02: a number above 0, at most 0.01"),
        ("lower_bound", (100, 90, 0.01, 0.02), "delta = 0.02: a number above 0, at most 0.01"),
        ("lower_bound_accuracy", (100, 51, 0.01), "want = 51: a whole number from 10 to n/2 = 50"),
        ("lower_bound_confidence", (100, 51, 0.01, 0.01), "want = 51: a whole number from 1 to n/2 = 50"),
    ],
)
def test_bad_input(name: str, arguments: tuple[Any, ...], line: str) -> None:
    with pytest.raises(BadInput) as caught:
        getattr(bounds, name)(*arguments)
    assert str(caught.value) == line
