"""Random by passes over its entities: how many operations fall on each, and which problems it is taken for.

Its law is enumerated in ``test_cleaning_policies.py``, beside that of the other ways to run the rule.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxbandit import cleaning, simulate
from jaxbandit.cleaning import Beta, Uniform, of_table, synthetic, uniform_false_values
from jaxbandit.cleaning.fast.random_in_passes import RandomInPasses, share
from jaxbandit.grammar import accelerated
from jaxbandit.random import stream, words
from jaxbandit.testing import conformance

DRAWS = 1 << 18
RULE = cleaning.random()


def table(rows: int, budget: int, sc_pdf: Any = None) -> Any:
    return of_table(budget=budget, false_values=np.arange(rows) % 5 + 1, sc_pdf=sc_pdf or Uniform())


@pytest.mark.parametrize(
    ("ticks", "entities"), [(8, 1), (9, 2), (31, 3), (2, 40), (0, 7), (80, 10), (8_000, 1_000), (1 << 26, 1 << 24)]
)
def test_ticks_fall_on_an_entity_as_on_any(ticks: int, entities: int) -> None:
    word = words(stream(4, 5), 1, jnp.arange(DRAWS))[0]
    drawn = np.asarray(jax.vmap(share, (0, None, None))(word, jnp.int32(ticks), jnp.int32(entities)))
    chance = stats.binom.pmf(np.arange(33), ticks, 1 / entities)
    observed, wanted = np.bincount(drawn, minlength=33)[:33], chance * DRAWS
    assert observed.sum() == DRAWS
    large = wanted >= 10
    if large.sum() > 1:
        assert (
            stats.chisquare(observed[large], wanted[large] * observed[large].sum() / wanted[large].sum()).pvalue > 1e-4
        )
    assert observed[~large].sum() <= 20 + 5 * wanted[~large].sum()


def test_problems_whose_entities_are_met_again() -> None:
    weights = uniform_false_values(0, 3)  # three quarters of the entities have a false value

    def drawn(budget: int, paired: bool) -> Any:
        return synthetic(budget=budget, entities=100, false_values=weights, sc_pdf=Uniform(), paired=paired)

    taken = [type(accelerated(RULE, problem)).__name__ for problem in (
        table(100, 200), table(100, 199), drawn(150, True), drawn(149, True), drawn(200, False), drawn(30, False)
    )]  # fmt: skip
    passes, runs = "RandomInPasses", "RandomInRuns"
    assert taken == [passes, runs, passes, runs, passes, "CountedRandom"]
    greedy = [type(accelerated(cleaning.greedy(), drawn(budget, False))).__name__ for budget in (74, 75)]
    assert greedy == ["CountedGreedy", "GreedyByVisits"]


def test_it_conforms() -> None:
    other = table(20, 100, Beta(9, 1))
    assert isinstance(accelerated(RULE, other), RandomInPasses)
    assert conformance(table(20, 100), RULE, other) == []


@pytest.mark.slow
@pytest.mark.usefixtures("fast_programs")
@pytest.mark.parametrize(("rows", "budget", "runs"), [(300, 600, 2_000), (100, 5_000, 2_000), (5, 30, 20_000)])
def test_it_has_the_law_of_runs(rows: int, budget: int, runs: int) -> None:
    """At a checkpoint too: it is within a pass for most lanes that come to one."""
    problem = table(rows, budget, Beta(2, 3))
    quick, checked, plain = (
        simulate(problem, policy, runs=runs, seed=seed, implementation=way, checkpoints=at)
        for policy, seed, way, at in (
            (RULE, 1, "fast", []), (RULE, 2, "fast", [budget // 3]), (RULE, 3, "reference", [budget // 3])
        )
    )  # fmt: skip
    for answer in ("cleans", "removed", "finished"):
        ends = quick[answer][0], checked[answer][0][:, 1], plain[answer][0][:, 1]
        parts = checked[answer][0][:, 0], plain[answer][0][:, 0]
        for one, two in (ends[:2], ends[1:], parts):
            error = np.sqrt((one.var() + two.var()) / runs)
            assert abs(one.mean() - two.mean()) <= 4 * error
            if min(one.std(), two.std()) > 1:  # else nearly all runs are alike, as where all is clean
                assert abs(np.log(one.std() / two.std())) < 0.12
