"""The cleaning algorithms of Cheng et al. 2010 (sections 3.3, 4, 5 and Appendix B), one line at a time.

Entities are numbered from 0. Three things come from the caller, so that a test can hand the same ones to
another implementation:

- ``clean(entity, attempt)``: whether the ``attempt``-th clean (from 0, counted per entity over the run)
  succeeds;
- ``choose(candidates)``: the pseudocode's random choice, among entities given in ascending order. It is
  called at every random choice, even when there is a single candidate;
- ``uniform()``: line 3 of Algorithm 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

Clean = Callable[[int, int], bool]
Choose = Callable[[list[int]], int]


@dataclass(frozen=True)
class Trace:
    """What a run did."""

    pulls: list[tuple[int, bool]]
    """Each clean in order: the entity, and whether a false value was removed."""
    removed: int
    """R of section 3.2: the number of false values removed."""
    spent: int
    """The number of cleans, one cost unit each."""
    finished: int
    """Entities with no false value left that had some at the start."""
    left: list[int]
    """False values left, per entity."""


class Agent:
    """The cleaning agent of section 3.2 and the state it works on: r, the budget C, the cleans so far."""

    def __init__(self, false_values: Sequence[int], budget: int, clean: Clean) -> None:
        self.start = list(false_values)
        self.r = list(false_values)
        self.budget = budget
        self.attempts = [0 for _ in false_values]
        self.pulls: list[tuple[int, bool]] = []
        self._clean = clean

    def clean(self, entity: int) -> bool:
        """Do one clean(T_j): one cost unit, and one false value less if it succeeds (section 3.2)."""
        if self.budget <= 0 or self.r[entity] <= 0:
            raise ValueError("a clean without budget, or on an entity that has no false value")
        success = bool(self._clean(entity, self.attempts[entity]))
        self.attempts[entity] += 1
        self.pulls.append((entity, success))
        if success:
            self.r[entity] -= 1
        self.budget -= 1
        return success

    def dirty(self) -> list[int]:
        """Return the entities where r_j > 0, in ascending order."""
        return [j for j in range(len(self.r)) if self.r[j] > 0]

    def trace(self) -> Trace:
        """Return what was done up to now."""
        return Trace(
            pulls=list(self.pulls),
            removed=sum(1 for _, success in self.pulls if success),
            spent=len(self.pulls),
            finished=sum(1 for j in range(len(self.r)) if self.start[j] > 0 and self.r[j] == 0),
            left=list(self.r),
        )


def known_sc(
    false_values: Sequence[int], sc_probabilities: Sequence[float | Fraction], budget: int, clean: Clean
) -> Trace:
    """Section 3.3: entities by descending sc-probability, each cleaned to the end before the next one.

    Among equal sc-probabilities, the lowest index comes first.
    """
    agent = Agent(false_values, budget, clean)
    order = sorted(range(len(false_values)), key=lambda j: (-sc_probabilities[j], j))
    for j in order:
        while agent.budget > 0 and agent.r[j] > 0:
            agent.clean(j)
    return agent.trace()


def random(false_values: Sequence[int], budget: int, choose: Choose, clean: Clean) -> Trace:
    """Algorithm 3, Random."""
    agent = Agent(false_values, budget, clean)
    while agent.budget > 0 and agent.dirty():  # line 1
        j = choose(agent.dirty())  # line 2
        agent.clean(j)  # lines 3-5
    return agent.trace()


def _highest(candidates: list[int], estimates: list[Fraction]) -> list[int]:
    """Return the candidates with the highest estimate, in ascending order."""
    best = max(estimates[j] for j in candidates)
    return [j for j in candidates if estimates[j] == best]


def greedy(false_values: Sequence[int], budget: int, choose: Choose, clean: Clean) -> Trace:
    """Algorithm 4, Greedy; one of the highest estimates is drawn at random (section 4.2)."""
    n = len(false_values)
    agent = Agent(false_values, budget, clean)
    s = [0] * n  # line 1
    t = [0] * n
    estimates = [Fraction(0)] * n
    while agent.budget > 0 and agent.dirty():  # line 2
        j = choose(_highest(agent.dirty(), estimates))  # line 3
        if agent.clean(j):  # lines 4, 5 and 9
            s[j] += 1  # line 6
        t[j] += 1  # line 7
        estimates[j] = Fraction(s[j], t[j])  # line 8
    return agent.trace()


def epsilon_greedy(
    false_values: Sequence[int],
    budget: int,
    epsilon: float | Fraction,
    uniform: Callable[[], float | Fraction],
    choose: Choose,
    clean: Clean,
) -> Trace:
    """Algorithm 5, epsilon-Greedy; ``uniform`` is called once per step, before ``choose``."""
    n = len(false_values)
    agent = Agent(false_values, budget, clean)
    s = [0] * n  # line 1
    t = [0] * n
    estimates = [Fraction(0)] * n
    while agent.budget > 0 and agent.dirty():  # line 2
        choice = uniform()  # line 3
        dirty = agent.dirty()
        j = choose(dirty if choice < epsilon else _highest(dirty, estimates))  # lines 4-7
        if agent.clean(j):  # lines 8, 9 and 13
            s[j] += 1  # line 10
        t[j] += 1  # line 11
        estimates[j] = Fraction(s[j], t[j])  # line 12
    return agent.trace()


def ee(
    false_values: Sequence[int],
    budget: int,
    t: int,
    q: Fraction,
    early_stopping: bool,
    choose: Choose,
    clean: Clean,
) -> Trace:
    """Algorithm 2, EE, for given (t, q); with ``early_stopping`` also section 5.5, by the loss-free rule.

    m / t >= q is compared as m >= ceil(t q). Section 5.5 ends an exploration after d cleans with m successes
    once m / t >= q is out of reach: t - (d - m) < ceil(t q). An entity that failed the test is no longer
    considered (line 23), and the run ends when no entity is left to consider.
    """
    if not isinstance(q, Fraction | int):
        raise TypeError("q is an exact Fraction here")
    need = math.ceil(t * q)
    agent = Agent(false_values, budget, clean)
    considered = [True for _ in false_values]
    while agent.budget > 0:  # line 3
        candidates = [i for i in agent.dirty() if considered[i]]
        if not candidates:
            break
        i = choose(candidates)  # line 4
        m = 0  # line 6
        d = 0
        while agent.budget > 0 and d < t and agent.r[i] > 0:  # line 7
            if early_stopping and t - (d - m) < need:  # section 5.5
                break
            if agent.clean(i):  # lines 8, 9 and 11
                m += 1  # line 10
            d += 1  # line 12
        if agent.budget == 0:  # line 13
            break  # line 14
        if m >= need:  # lines 15 and 17
            while agent.budget > 0 and agent.r[i] > 0:  # line 18
                agent.clean(i)  # lines 19-21
        else:
            considered[i] = False  # line 23
    return agent.trace()


def framework(
    false_values: Sequence[int],
    budget: int,
    explore: Callable[[Agent, int], bool],
    exploit: Callable[[Agent, int], None],
    discard: bool,
    choose: Choose,
    clean: Clean,
) -> Trace:
    """Algorithm 1, Framework; ``explore`` returns whether the condition of line 4 is satisfied.

    ``discard`` adds line 23 of Algorithm 2, which Algorithm 1 does not have: an entity that is not exploited
    is no longer considered. Both procedures must stop when ``agent.budget`` is 0 ("Quit if C = 0").
    """
    agent = Agent(false_values, budget, clean)
    discarded: set[int] = set()
    while agent.budget > 0:  # line 1
        candidates = [i for i in agent.dirty() if i not in discarded]
        if not candidates:
            break
        i = choose(candidates)  # line 2
        satisfied = explore(agent, i)  # line 3
        if agent.budget > 0 and satisfied:  # line 4
            exploit(agent, i)  # line 5
        elif discard:
            discarded.add(i)
    return agent.trace()
