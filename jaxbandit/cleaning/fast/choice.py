"""Which implementation of a rule runs on which problem.

Exchangeable entities are counted where runs need not be paired, and where that is faster: not where many operations
fall on entities with a record of their own.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from jaxbandit.cleaning.ee import EE
from jaxbandit.cleaning.epsilon_greedy import EpsilonGreedy
from jaxbandit.cleaning.fast import ticks
from jaxbandit.cleaning.fast.epsilon_greedy import EpsilonGreedyByParts
from jaxbandit.cleaning.fast.epsilon_greedy_counted import CountedEpsilonGreedy
from jaxbandit.cleaning.fast.exchangeable import Tables
from jaxbandit.cleaning.fast.greedy import GreedyByVisits
from jaxbandit.cleaning.fast.greedy_counted import CountedGreedy
from jaxbandit.cleaning.fast.index import IndexByLists
from jaxbandit.cleaning.fast.pool import room
from jaxbandit.cleaning.fast.random import RandomInRuns
from jaxbandit.cleaning.fast.random_counted import CountedRandom
from jaxbandit.cleaning.fast.random_in_passes import RandomInPasses
from jaxbandit.cleaning.greedy import Greedy
from jaxbandit.cleaning.index import Index
from jaxbandit.cleaning.known_sc import KnownSc
from jaxbandit.cleaning.problem import SIZES, Cleaning, Synthetic, Table
from jaxbandit.cleaning.random import Random
from jaxbandit.errors import BadInput
from jaxbandit.grammar import accelerated, lean

_NEVER = 2**32 - 1
"""A threshold that no word reaches (``random.thresholds``)."""
_COUNTING = CountedRandom, CountedGreedy, CountedEpsilonGreedy
_OWN = (EE, KnownSc, RandomInRuns, RandomInPasses, GreedyByVisits, EpsilonGreedyByParts, IndexByLists, *_COUNTING)


def _tables(problem: Cleaning) -> Tables | None:
    """Returns the tables that counting draws from, where the problem has them."""
    return problem.tables if isinstance(problem, Synthetic) else None


def _ample(problem: Cleaning) -> int:
    """Returns the same room for budgets from some hundreds to 16,384: one program for most sweeps, and no slower."""
    return SIZES[2] if room(problem) == SIZES[1] else room(problem)


def _fits(problem: Cleaning) -> bool:
    """Tells whether a run comes back to few enough entities, so that ``ticks`` and ``one_by_one`` can count them."""
    if not isinstance(problem, Synthetic) or problem.tables is None:
        return False
    return ticks.fits(int(problem.budget), float(problem.size) * float(problem.ambiguous))


def _operations_an_entity(problem: Cleaning) -> float:
    """Returns how many operations of the budget there are for each entity, about."""
    if isinstance(problem, Table):
        return int(problem.budget) / problem.counts.shape[0]
    if isinstance(problem, Synthetic):
        return int(problem.budget) / max(float(problem.size) * float(problem.ambiguous), 1)
    return 0


def _most_false_values(problem: Cleaning) -> int:
    """Returns the most false values that an entity may have; 0 where that is not known."""
    if isinstance(problem, Table):
        return int(np.max(problem.counts))
    if isinstance(problem, Synthetic):
        return 1 + int(np.sum(np.asarray(problem.thresholds) < _NEVER))
    return 0


def _explores_enough(epsilon: float, tables: Tables) -> bool:
    """Tells whether exploration finds the perfect records that exploitation uses up.

    Each exploring operation meets an entity, which takes ``streak`` further operations before its first failure. Where
    exploitation wants more than those, it goes to entities with many different records, each a class of its own.
    """
    return epsilon * float(tables.streak) >= 1 - epsilon


@accelerated.register
def _(rule: Random, problem: Any) -> Any:
    if not isinstance(problem, Cleaning):
        return rule
    if _fits(problem):
        return CountedRandom()
    return (RandomInPasses if _operations_an_entity(problem) >= 2 else RandomInRuns)(_ample(problem))


@accelerated.register
def _(rule: Greedy, problem: Any) -> Any:
    if not isinstance(problem, Cleaning):
        return rule
    counted = _tables(problem) and _operations_an_entity(problem) < 1  # above that, most records differ
    return CountedGreedy(room(problem)) if counted else GreedyByVisits(_ample(problem))


@accelerated.register
def _(rule: EpsilonGreedy, problem: Any) -> Any:
    if not isinstance(problem, Cleaning):
        return rule
    if (tables := _tables(problem)) and _fits(problem) and _explores_enough(float(rule.epsilon), tables):
        return CountedEpsilonGreedy(rule.epsilon, _ample(problem), tables.chances.width)
    return EpsilonGreedyByParts(rule.epsilon, _ample(problem))


@accelerated.register
def _(rule: Index, problem: Any) -> Any:
    if not isinstance(problem, Cleaning):
        return rule
    made, most = rule.allowed.shape[2], _most_false_values(problem)
    if most > made:
        allowed = f"one that is made for this problem's, up to {most}"
        raise BadInput("policy Index", f"a rule for up to {made} false values an entity", allowed)
    return IndexByLists(rule.allowed, rule.first, room(problem))


@lean.register
def _(problem: Cleaning, policy: Any) -> Cleaning:
    if type(policy) not in _OWN:
        return problem
    if isinstance(problem, Synthetic) and not isinstance(policy, _COUNTING):
        problem = replace(problem, tables=None)
    return replace(problem, capacity=0)
