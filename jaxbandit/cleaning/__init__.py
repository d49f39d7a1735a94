"""Cleaning an ambiguous database under a budget (Cheng et al. 2010), one rule a file."""

from jaxbandit.cleaning import fast
from jaxbandit.cleaning.claims import AmbiguityTable, ambiguity, read_records
from jaxbandit.cleaning.ee import EE, ee
from jaxbandit.cleaning.epsilon_greedy import EpsilonGreedy, epsilon_greedy
from jaxbandit.cleaning.gamma import Tuned, gamma_exact, gamma_printed, tune
from jaxbandit.cleaning.greedy import Greedy, greedy
from jaxbandit.cleaning.index import Index, index
from jaxbandit.cleaning.known_sc import KnownSc, known_sc
from jaxbandit.cleaning.problem import Cleaning, of_table, synthetic, uniform_false_values
from jaxbandit.cleaning.pulls import Outcome, Pull, RankedPull, Told, Totals
from jaxbandit.cleaning.random import Random, random
from jaxbandit.cleaning.renewal import Removed, expected_removed, expected_removed_of_table
from jaxbandit.cleaning.stopping import Level, allowed_failures, level_for_budget, stopping_index
from jaxbandit.cleaning.trained import load as load_score
from jaxbandit.cleaning.trained import shipped as shipped_score
from jaxbandit.cleaning.trained import trained
from jaxbandit.cleaning.view import View
from jaxbandit.laws import Beta, Histogram, Law, Mixture, Normal, Uniform
from jaxbandit.mixtures import Fit, fit, fit_beta

__all__ = [
    "EE",
    "AmbiguityTable",
    "Beta",
    "Cleaning",
    "EpsilonGreedy",
    "Fit",
    "Greedy",
    "Histogram",
    "Index",
    "KnownSc",
    "Law",
    "Level",
    "Mixture",
    "Normal",
    "Outcome",
    "Pull",
    "Random",
    "RankedPull",
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
    "fit",
    "fit_beta",
    "gamma_exact",
    "gamma_printed",
    "greedy",
    "index",
    "known_sc",
    "level_for_budget",
    "load_score",
    "of_table",
    "random",
    "read_records",
    "shipped_score",
    "stopping_index",
    "synthetic",
    "trained",
    "tune",
    "uniform_false_values",
]
