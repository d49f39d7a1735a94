"""A cleaning problem as its user describes it, and what is known of it without a simulation."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jaxbandit.cleaning import gamma
from jaxbandit.cleaning.claims import AmbiguityTable
from jaxbandit.cleaning.expectation import best_within, expected_within
from jaxbandit.cleaning.fast.exchangeable import LENGTHS, MOST_FALSE_VALUES
from jaxbandit.cleaning.fast.pool import MOST_REMEMBERED, too_many
from jaxbandit.cleaning.problem import Cleaning, capacity_for, of_table, synthetic
from jaxbandit.cleaning.stopping import DELTA
from jaxbandit.describe import brief
from jaxbandit.errors import BadInput
from jaxbandit.laws import Law


@dataclass(frozen=True)
class Setting:
    """A cleaning problem as its user describes it.

    ``weights``: float64, the distribution of r over 0, 1, 2 ...; ``entities``: how many, those with r = 0 included;
    ``paired``: whether runs of the same number meet the same entities whatever the policy.
    """

    budget: int
    entities: int
    weights: np.ndarray
    sc_pdf: Law
    table: AmbiguityTable | None = None
    paired: bool = True

    __repr__ = brief

    @property
    def counted(self) -> bool:
        """Tells whether exchangeable entities may be counted: where runs need not be paired, and the tables fit."""
        most = np.flatnonzero(self.weights).max()
        return not self.paired and self.budget <= LENGTHS[-1] and bool(most <= MOST_FALSE_VALUES)

    def problem(self, on_tape: bool = False) -> Cleaning:
        """Makes the problem that lanes are run against."""
        if self.table is None:
            return synthetic(
                budget=self.budget, entities=self.entities, false_values=self.weights, sc_pdf=self.sc_pdf,
                on_tape=on_tape, paired=not self.counted,
            )  # fmt: skip
        return of_table(budget=self.budget, false_values=self.table.false_values, sc_pdf=self.sc_pdf, on_tape=on_tape)

    def remembered(self) -> None:
        """Checks that a run can remember each entity that it meets.

        Raises:
            BadInput: where they are too many.
        """
        if capacity_for(self.entities, self.budget) > MOST_REMEMBERED:
            raise too_many(self.budget)

    @cached_property
    def distribution(self) -> np.ndarray:
        """Returns ``weights`` as probabilities of r = 0, 1, 2 ... (float64)."""
        share: np.ndarray = self.weights / self.weights.sum()
        return share

    def visits(self, t: int, need: int, early_stopping: bool = True) -> tuple[float, float]:
        """Computes what EE removes and how many operations it makes, in expectation, where it can visit every
        entity."""
        gain, cost = gamma.visit(t, need, self.sc_pdf.cells(DELTA), self.distribution, early_stopping=early_stopping)
        return self.entities * gain, self.entities * cost

    def expected(self, t: int, need: int, early_stopping: bool = True) -> float:
        """Computes what EE removes within the budget, in expectation: see ``expected_within``."""
        rows = None if self.table is None else self.table.false_values
        return expected_within(
            self.budget, t, need, self.sc_pdf.cells(DELTA), self.distribution, self.entities, rows, early_stopping
        )

    def tuned(self, objective: gamma.Objective, delta: float, early_stopping: bool) -> tuple[int, int, float, float]:
        """Finds EE's best t, need and q for this problem, and their Gamma (section 5.4).

        ``lemma3`` takes entities never to run out, as the paper does; ``exact`` has as many as there are.
        """
        cells = self.sc_pdf.cells(delta)
        try:
            if objective == "lemma3":
                best = gamma.tune(cells, self.distribution, delta, objective)
            else:
                best = best_within(self.budget, cells, self.distribution, self.entities, delta, early_stopping)
        except BadInput as error:
            if error.field != "t_hat":
                raise
            # Many false values at a low sc-probability: a search over t that would not end soon.
            allowed = f"to be given, with q: tuning tries each t up to 1024, and this problem asks for {error.value}"
            raise BadInput("policy.ee.t", "missing", allowed) from None
        return int(best.t), int(best.need), float(best.q), float(best.gamma)
