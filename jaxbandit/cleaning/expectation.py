"""What EE is expected to remove from the entities that there are, at any budget: what ``tune`` promises."""

import numpy as np
from numpy.typing import NDArray

from jaxbandit.cleaning import gamma
from jaxbandit.cleaning.gamma import Floats
from jaxbandit.cleaning.renewal import expected_removed, expected_removed_of_table

MOST_EXPECTED, MOST_LISTED = 1 << 20, 1000
"""The largest budget, and the most entities of a table one by one, for which expectations are computed exactly."""


def expected_within(
    budget: int, t: int, need: int, cells: Floats, false_values: Floats, entities: int,
    rows: NDArray[np.int32] | None, early_stopping: bool,
) -> float:  # fmt: skip
    """False values that EE removes within a budget, in expectation.

    It is exact (see ``renewal``) with two exceptions. Of a table of more than ``MOST_LISTED`` ambiguous entities, each
    entity's r is taken as drawn from the table's distribution: an error of some 0.1 % where entities run out. Beyond a
    budget of ``MOST_EXPECTED`` the law of large numbers is enough.

    Args:
        budget, t, need, cells, false_values, early_stopping: as for ``expected_removed``, of one problem.
        entities: how many there are, those without a false value counted in.
        rows: how many false values each entity of a table has; None where entities are drawn.

    Raises:
        BadInput: as ``expected_removed``.
    """
    gain, cost = (entities * each for each in gamma.visit(t, need, cells, false_values, early_stopping=early_stopping))
    listed = rows is not None and np.count_nonzero(rows) <= MOST_LISTED
    reach = min(budget, max(1023, 2 * int(cost)))  # with twice the cost, most often every entity was visited
    while reach <= MOST_EXPECTED:
        if rows is not None and listed:
            law = expected_removed_of_table(reach, t, need, cells, rows, early_stopping=early_stopping)
        else:
            law = expected_removed(
                reach, t, need, cells, false_values, early_stopping=early_stopping, entities=entities
            )
        removed = float(law.mean[-1])
        if reach == budget or removed > gain * (1 - 1e-6):
            return removed
        reach = min(budget, 4 * reach)
    return gain * min(1.0, budget / cost)
