"""What ``benchmarks.counting`` counts, where it is known."""

import numpy as np

from benchmarks.counting import counts
from jaxbandit import Policy
from jaxbandit.arms.problem import Drawn, arms
from jaxbandit.arms.rewards import Bernoulli
from jaxbandit.cleaning import known_sc, of_table, random
from jaxbandit.laws import Uniform
from jaxbandit.topk.uniform import uniform


def test_pulls_and_new_ones_are_counted_as_the_rule_makes_them() -> None:
    """Operations that always succeed: ``random`` makes each by itself, ``known-sc`` all of an entity's at once."""
    table = of_table(budget=9, false_values=np.array([3, 1]), sc_probabilities=np.array([1.0, 1.0]))
    assert counts(table, random(), 2) == (4, 2)
    assert counts(table, known_sc(), 2) == (2, 2)
    rule: Policy = uniform(3)
    assert counts(arms(120, Drawn(Uniform().quantiles(), 12), Bernoulli()), rule, 2) == (12, 12)
