"""What rules that come back to entities remember: a record of each entity met that has false values left."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.pulls import Outcome, Pull, Totals
from jaxbandit.cleaning.view import View
from jaxbandit.random.draws import below
from jaxbandit.random.race import UNLIMITED
from jaxbandit.xla.exact import quotient
from jaxbandit.xla.prefix import highest, marked, nth

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32

PICK = 1
"""What a word of the policy's stream is for: an entity at random."""


class Records(NamedTuple):
    """Arrays of which the first ``size`` entries are in use: an entity, the operations on it so far (``tried``) and how
    many of them succeeded (``gained``). ``met``: how many entities were met."""

    entity: Int32[Array, " capacity"]
    tried: Int32[Array, " capacity"]
    gained: Int32[Array, " capacity"]
    size: Int32[Array, ""]
    met: Int32[Array, ""]

    @classmethod
    def none(cls, view: View) -> Records:
        """Makes the records of a run that has met no entity."""
        blank, zero = jnp.zeros(view.capacity, jnp.int32), jnp.int32(0)
        return cls(blank, blank, blank, zero, zero)

    @property
    def used(self) -> Bool[Array, " capacity"]:
        """Marks the entries that are in use."""
        return jnp.arange(self.entity.shape[0], dtype=jnp.int32) < self.size

    def unmet(self, view: View) -> Int32[Array, ""]:
        """Returns how many entities were not met."""
        return view.entities - self.met

    def estimates(self) -> Float32[Array, " capacity"]:
        """Computes the share of operations that succeeded, by entry; -1 where no entity is."""
        share = quotient(self.gained.astype(jnp.float32), jnp.maximum(self.tried, 1).astype(jnp.float32))
        return jnp.where(self.used, share, -1)

    def highest(self, view: View) -> tuple[Bool[Array, " capacity"], Int32[Array, ""]]:
        """Finds the highest estimate: which entries have it, and how many unmet entities, whose estimate is 0."""
        estimates = self.estimates()
        best = jnp.maximum(highest(estimates), 0)
        return estimates == best, jnp.where(best == 0, self.unmet(view), 0)

    def pick(
        self, view: View, entries: Bool[Array, " capacity"], unmet: Int32[Array, ""], spent: Int32[Array, ""]
    ) -> Int32[Array, ""]:
        """Draws one of some entries and some unmet entities, each as likely: its entry, or ``size`` for the next unmet
        one, which is any of them, as they come in random order.

        ``spent``: the operations so far, which address the random word: ``ask`` and ``tell`` of one operation draw the
        same.
        """
        some = marked(entries)
        rank = below(view.choices, PICK, spent, jnp.maximum(some.total + unmet, 1))
        return jnp.where(rank < some.total, nth(some, rank), self.size)

    def one_operation(self, view: View, entry: Int32[Array, ""]) -> Pull:
        """Makes the pull of one operation on the entity of an entry, or on the next unmet one."""
        known = entry < self.size
        fresh = view.in_random_order(jnp.minimum(self.met, view.entities - 1))
        entity = jnp.where(known, self.entity[entry], fresh)
        gained = jnp.where(known, self.gained[entry], 0)
        return Pull(
            entity=entity,
            attempt=jnp.where(known, self.tried[entry], 0),
            successes=view.false_values(entity) - gained,
            failures=jnp.int32(UNLIMITED),
            cleans=jnp.int32(1),
        )

    def after(self, entry: Int32[Array, ""], pull: Pull, outcome: Outcome) -> Records:
        """Returns the records after the outcome of ``one_operation``. The last entity takes the place of one that is
        clean."""
        known = entry < self.size
        clean = outcome.removed == pull.successes
        end = self.size - known.astype(jnp.int32)  # the last entry in use, or the first that is not
        old = jnp.where(known, self.gained[entry], 0)
        told = (pull.entity, pull.attempt + outcome.cleans, old + outcome.removed)
        entity, tried, gained = (
            column.at[entry].set(jnp.where(clean, jnp.where(known, column[end], column[entry]), value))
            for column, value in zip(self[:3], told, strict=True)
        )
        met = self.met + (~known).astype(jnp.int32)
        return Records(entity, tried, gained, end + (~clean).astype(jnp.int32), met)


class State(NamedTuple):
    """The state of a rule that makes one operation after the other."""

    records: Records
    totals: Totals

    @classmethod
    def begin(cls, view: View) -> State:
        """Makes the state of a run that has met no entity."""
        return cls(Records.none(view), Totals.zero())

    def after(self, entry: Int32[Array, ""], pull: Pull, outcome: Outcome) -> State:
        """Returns the state after the outcome of an operation on the entity of an entry."""
        clean = outcome.removed == pull.successes
        return State(self.records.after(entry, pull, outcome), self.totals.add(outcome, clean))

    def over(self, view: View) -> Bool[Array, ""]:
        """Tells whether the budget is spent or no false value is left."""
        return (self.totals.spent >= view.budget) | (self.records.size + self.records.unmet(view) <= 0)
