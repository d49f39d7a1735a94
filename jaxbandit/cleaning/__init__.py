"""Cleaning an ambiguous database under a budget (Cheng et al. 2010), one algorithm a file."""

from jaxbandit.cleaning.ee import EE, ee
from jaxbandit.cleaning.epsilon_greedy import EpsilonGreedy, epsilon_greedy
from jaxbandit.cleaning.epsilon_greedy_alike import EpsilonGreedyAlike, epsilon_greedy_alike
from jaxbandit.cleaning.extract import AmbiguityTable, ambiguity, read_records
from jaxbandit.cleaning.gamma import Tuned, gamma_exact, gamma_printed, tune
from jaxbandit.cleaning.greedy import Greedy
from jaxbandit.cleaning.greedy_alike import GreedyAlike
from jaxbandit.cleaning.index import Index
from jaxbandit.cleaning.known_sc import KnownSc
from jaxbandit.cleaning.problem import (
    Cleaning,
    InformedPull,
    Outcome,
    Pull,
    Totals,
    View,
    of_table,
    synthetic,
    uniform_false_values,
)
from jaxbandit.cleaning.random import Random
from jaxbandit.cleaning.random_alike import RandomAlike
from jaxbandit.cleaning.renewal import Removed, expected_removed, expected_removed_of_table
from jaxbandit.cleaning.stopping import Level, allowed_failures, level_for_budget, stopping_index
from jaxbandit.laws import Beta, Histogram, Law, Normal, Uniform, fit_beta

__all__ = [
    "EE",
    "AmbiguityTable",
    "Beta",
    "Cleaning",
    "EpsilonGreedy",
    "EpsilonGreedyAlike",
    "Greedy",
    "GreedyAlike",
    "Histogram",
    "Index",
    "InformedPull",
    "KnownSc",
    "Law",
    "Level",
    "Normal",
    "Outcome",
    "Pull",
    "Random",
    "RandomAlike",
    "Removed",
    "Totals",
    "Tuned",
    "Uniform",
    "View",
    "allowed_failures",
    "ambiguity",
    "ee",
    "epsilon_greedy",
    "epsilon_greedy_alike",
    "expected_removed",
    "expected_removed_of_table",
    "fit_beta",
    "gamma_exact",
    "gamma_printed",
    "level_for_budget",
    "of_table",
    "read_records",
    "stopping_index",
    "synthetic",
    "tune",
    "uniform_false_values",
]
