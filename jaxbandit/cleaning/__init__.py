"""Cleaning an ambiguous database under a budget (Cheng et al. 2010), one rule a file."""

from jaxbandit.cleaning import fast
from jaxbandit.cleaning.ee import EE, ee
from jaxbandit.cleaning.epsilon_greedy import EpsilonGreedy, epsilon_greedy
from jaxbandit.cleaning.extract import AmbiguityTable, ambiguity, read_records
from jaxbandit.cleaning.gamma import Tuned, gamma_exact, gamma_printed, tune
from jaxbandit.cleaning.greedy import Greedy, greedy
from jaxbandit.cleaning.index import Index, index
from jaxbandit.cleaning.known_sc import KnownSc, known_sc
from jaxbandit.cleaning.problem import (
    Cleaning,
    Informed,
    Outcome,
    Pull,
    Told,
    Totals,
    of_table,
    synthetic,
    uniform_false_values,
)
from jaxbandit.cleaning.random import Random, random
from jaxbandit.cleaning.renewal import Removed, expected_removed, expected_removed_of_table
from jaxbandit.cleaning.stopping import Level, allowed_failures, level_for_budget, stopping_index
from jaxbandit.cleaning.view import View
from jaxbandit.laws import Beta, Histogram, Law, Normal, Uniform, fit_beta

__all__ = [
    "EE",
    "AmbiguityTable",
    "Beta",
    "Cleaning",
    "EpsilonGreedy",
    "Greedy",
    "Histogram",
    "Index",
    "Informed",
    "KnownSc",
    "Law",
    "Level",
    "Normal",
    "Outcome",
    "Pull",
    "Random",
    "Removed",
    "Told",
    "Totals",
    "Tuned",
    "Uniform",
    "View",
    "allowed_failures",
    "ambiguity",
    "ee",
    "epsilon_greedy",
    "expected_removed",
    "expected_removed_of_table",
    "fast",
    "fit_beta",
    "gamma_exact",
    "gamma_printed",
    "greedy",
    "index",
    "known_sc",
    "level_for_budget",
    "of_table",
    "random",
    "read_records",
    "stopping_index",
    "synthetic",
    "tune",
    "uniform_false_values",
]
