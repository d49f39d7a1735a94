"""What EE is expected to remove from the entities that there are, at any budget: what ``tune`` promises.

Gamma takes neither entities nor the budget to run out. Where entities do, the best rule gives fewer of them up; where
the budget does, it explores less. ``best_within`` finds it.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from jaxbandit.cleaning import gamma
from jaxbandit.cleaning.cells import Floats
from jaxbandit.cleaning.gamma import Tuned
from jaxbandit.cleaning.renewal import expected_removed, expected_removed_of_table
from jaxbandit.cleaning.rules import rules

MOST_EXPECTED, MOST_LISTED = 1 << 20, 1000
"""The largest budget, and the most entities of a table one by one, for which expectations are computed exactly."""
_AMPLE, _MANY = 2, 100
"""Entities do not run out where to visit all of them costs ``_AMPLE`` times the budget, in expectation; and where a
budget removes ``_MANY`` false values, what it cuts off a last visit hardly matters."""
_WEIGHED, _WEIGHED_MORE, _BRIEF, _CLIMBED = 24, 8, 8, 48
"""Rules whose expectations are compared: so many at most by a guess, of more tries than those so many again, those
of so many tries at most, and so many on the way from the best of these to a better one."""
_MOST_TRIES, _LITTLE = 256, 1e-4
"""Rules of more tries are not looked for; nor of twice as many, where those before gained no more than this share."""
_WORK, _LIGHT = 1 << 17, 1 << 12
"""The cleans of all those by a guess together, at most. Where entities are ample, a clean counts once for so many pairs
of a cell and a number of false values."""


def expected_within(
    budget: int, t: int, need: int, cells: Floats, false_values: Floats, entities: int,
    rows: NDArray[np.int32] | None, early_stopping: bool,
) -> float:  # fmt: skip
    """Computes the false values that EE removes within a budget, in expectation.

    Given the ``cells`` it is exact (see ``renewal``) with two exceptions. Of a table of more than ``MOST_LISTED``
    ambiguous entities, each entity's r is taken as drawn from the table's distribution: an error of some 0.1 % where
    entities run out. Beyond a budget of ``MOST_EXPECTED`` the law of large numbers is enough.

    Args:
        budget, t, need, cells, false_values, early_stopping: as for ``expected_removed``, of one problem.
        entities: how many there are, those without a false value counted in.
        rows: how many false values each entity of a table has; None where entities are drawn.

    Raises:
        BadInput: as ``expected_removed``.
    """
    gain, cost = (entities * each for each in gamma.visit(t, need, cells, false_values, early_stopping=early_stopping))
    listed = rows is not None and np.count_nonzero(rows) <= MOST_LISTED
    largest = min(budget, max(1023, 2 * int(cost)))  # with twice the cost, most often every entity was visited
    while largest <= MOST_EXPECTED:
        if rows is not None and listed:
            law = expected_removed_of_table(largest, t, need, cells, rows, early_stopping=early_stopping)
        else:
            law = expected_removed(
                largest, t, need, cells, false_values, early_stopping=early_stopping, entities=entities
            )
        removed = float(law.mean[-1])
        if largest == budget or removed > gain * (1 - 1e-6):
            return removed
        largest = min(budget, 4 * largest)
    return gain * min(1.0, budget / cost)


def _climbed(
    value: Floats, some: NDArray[np.intp], t: NDArray[np.int32], need: NDArray[np.int32],
    expected: Callable[[int, int], float], most: int,
) -> NDArray[np.intp]:  # fmt: skip
    """Weighs ``some`` rules, then the neighbours of the best one, and so on as long as one of these is better and fewer
    than ``most`` were weighed. Writes into ``value``, and returns all that were weighed, in order."""
    rule = list(zip(t.tolist(), need.tolist(), strict=True))
    number = {each: one for one, each in enumerate(rule)}
    fresh, weighed, best, most = some.tolist(), list[int](), -1, most + some.size
    while fresh and most > 0:
        value[fresh] = [expected(*rule[one]) for one in fresh]
        weighed, most = [*weighed, *fresh], most - len(fresh)
        best, before = max(weighed, key=value.__getitem__), best
        if best == before:
            break
        tries, successes = rule[best]
        far = max(1, tries // 4)
        near = ((tries + a, successes + b) for a in {-far, -1, 0, 1, far} for b in (-1, 0, 1))
        fresh = [number[each] for each in near if each in number and number[each] not in weighed]
    return np.array(sorted(weighed))


def best_within(
    budget: int, cells: Floats, false_values: Floats, entities: int, delta: float, early_stopping: bool
) -> Tuned:
    """Finds the rule (t, q) by which EE is expected to remove the most within a budget, and its Gamma.

    Where entities are ample and the budget is too, that is the rule of ``gamma.tune``. Else the law of large numbers
    has a first guess of what a rule removes: the budget times Gamma, or less if all entities give less. The best rules
    by this guess and the one of ``gamma.tune`` are compared by ``expected_within``, each entity's r being taken as
    drawn; and where fewer than ``_MANY`` values are removed others, of few tries that all have to succeed or of many,
    since the guess knows nothing of visits that the budget cuts. Then come the neighbours of the best rule, as long as
    one of them is better. For budgets, or numbers of false values, so large that this takes long, the guess is enough.
    Ties go to the smallest q, then to the smallest t.

    Above the t_hat of ``gamma.tune``, t is tried up to the next power of two, and, as an entity that no fresh one
    replaces is worth more tries, to twice as many where entities run out and the best rule that gives one up takes more
    than half of those; and so on, up to ``_MOST_TRIES``, while that gains anything.

    Args:
        budget, cells, false_values, entities, early_stopping: as for ``expected_within``.
        delta: as for ``gamma.tune``.

    Raises:
        BadInput: as ``gamma.tune``.
    """
    best = gamma.tune(cells, false_values, delta, "exact", early_stopping=early_stopping)
    top = max(16, gamma.power_of_two(int(gamma.largest_t(cells, false_values))))
    found, most, before, weighed = best, 0.0, 0.0, 0
    while True:
        gain, cost = (entities * x for x in gamma.visits(top, cells, false_values, early_stopping=early_stopping))
        ample = cost[best.t - 1, best.need] >= _AMPLE * budget
        many = budget * best.gamma >= _MANY
        if ample and many:
            return best
        t, need, q = rules(Fraction(delta).limit_denominator(1_000_000), top)
        # Without a need, t is of no consequence.
        new = (t > weighed) & ((need > 0) | (t == 1))
        t, need, q = t[new], need[new], q[new]
        gains, costs = gain[t - 1, need], cost[t - 1, need]
        value = np.minimum(gains, budget * gains / costs)
        some = np.argsort(-value, kind="stable")[: _WEIGHED_MORE if weighed else _WEIGHED]
        work = min(budget, costs[some].max()) * (max(1.0, cells.size * false_values.size / _LIGHT) if ample else 1.0)
        few = some[: int(_WORK / work)]
        others = (need == t) & (t <= min(_BRIEF, few.size))
        if few.size == _WEIGHED:
            others |= (t & (t - 1) == 0) & ((need == t // 2) | (need == t - t // 8))
        if few.size > 1:
            others = others & ~many | (t == best.t) & (need == best.need)

            def expected(t: int, need: int) -> float:
                return expected_within(budget, t, need, cells, false_values, entities, None, early_stopping)

            more = _CLIMBED if few.size == _WEIGHED else few.size
            some = _climbed(value, np.union1d(few, np.flatnonzero(others)), t, need, expected, more)
        first = np.min(some[value[some] >= value[some].max() * (1 - 1e-9)])
        if value[first] > most * (1 + 1e-9):
            found, most = Tuned(t[first], need[first], q[first], gains[first] / costs[first]), value[first]
        giving_up = some[need[some] > 0]
        last = giving_up[np.argmax(value[giving_up])]
        if ample or top >= _MOST_TRIES or t[last] <= top // 2 or value[last] <= before * (1 + _LITTLE):
            return found
        top, before, weighed = 2 * top, value[last], top
