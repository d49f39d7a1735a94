"""Explore-Exploit (EE): Cheng, Lo, Yang, Luk, Li and Xie, "Explore or Exploit? Effective Strategies for
Disambiguating Large Databases", PVLDB 3(1), 2010, Algorithm 2 and section 5.5.

Each entity is met once, in random order: cleaned up to t times to explore, then, if at least a share q of those
operations succeeded, to the end. So a run follows a random permutation, and its state is a few numbers.

Equation 9 is strict: as printed it also leaves an entity that can still reach a share of exactly q, which line 17 lets
pass. Here an entity is left once it cannot reach q. The two differ where t q is a whole number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.pulls import Outcome, Pull, Totals
from jaxbandit.cleaning.rules import needed
from jaxbandit.cleaning.view import View
from jaxbandit.describe import brief
from jaxbandit.grammar import Execution
from jaxbandit.parameters import Key, checked
from jaxbandit.parsers import flag, real, whole
from jaxbandit.pytree import pytree
from jaxbandit.random.race import UNLIMITED
from jaxbandit.space import Range

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32


class State(NamedTuple):
    """The state of a run. ``place``: of the entity at hand in the run's random order; ``entity``: its number, and
    ``began``: the false values that it had at first; ``tried`` and ``gained``: operations on it and how many succeeded;
    ``exploiting``: whether it is cleaned to the end."""

    place: Int32[Array, ""]
    entity: Int32[Array, ""]
    began: Int32[Array, ""]
    tried: Int32[Array, ""]
    gained: Int32[Array, ""]
    exploiting: Bool[Array, ""]
    totals: Totals


@pytree
@dataclass(frozen=True)
class EE:
    """The policy EE: Cheng et al. 2010, Algorithm 2 and section 5.5. ``t``: operations to explore an entity with (at
    least 1); ``need``: how many must succeed for it to be exploited, ceil(t q) (0 to t); ``early_stopping``: whether to
    leave an entity once it cannot succeed.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import cleaning, random
        >>> problem = cleaning.of_table(budget=9, false_values=np.array([4]), sc_pdf=cleaning.Uniform())
        >>> key = random.stream(0, 0)
        >>> view, rule = problem.view(key, problem.draw(key)), cleaning.ee(3, 0.5)
        >>> state = rule.init(view)
        >>> state = rule.tell(view, state, rule.ask(view, state), cleaning.Outcome(np.int32(3), removed=np.int32(2)))
        >>> bool(state.exploiting), int(rule.ask(view, state).cleans)  # 2 of 3 succeeded: the rest goes there
        (True, 6)
    """

    t: Int32[Array, ""]
    need: Int32[Array, ""]
    early_stopping: Bool[Array, ""]

    execution = Execution(masked=True, unroll=4, gain_ns=6)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins with nothing tried (line 6) and an entity at random, the first of the order (line 4)."""
        zero = jnp.int32(0)
        entity = view.in_random_order(zero)
        return State(zero, entity, view.false_values(entity), zero, zero, jnp.bool_(False), Totals.zero())

    def ask(self, view: View, state: State) -> Pull:
        """Asks for up to t operations to explore (lines 7 to 12), fewer where section 5.5 stops early; or for all that
        are left, to exploit (lines 18 to 21)."""
        left = view.budget - state.totals.spent
        open_ = state.place < view.entities  # else the run is over, and asks for nothing
        explore = jnp.minimum(left, self.t - state.tried)
        failures = self.t - self.need + 1 - (state.tried - state.gained)
        return Pull(
            entity=state.entity,
            attempt=state.tried,
            successes=state.began - state.gained,
            failures=jnp.where(self.early_stopping & ~state.exploiting, failures, UNLIMITED),
            cleans=jnp.where(open_, jnp.where(state.exploiting, left, explore), 0),
        )

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Exploits an entity of which enough operations succeeded, and leaves others for good to go on to the next
        entity (lines 15 to 23, then 4)."""
        tried, gained = state.tried + outcome.cleans, state.gained + outcome.removed
        moved = outcome.cleans > 0  # not where the run is over
        clean = moved & (outcome.removed == pull.successes)
        hopeless = self.early_stopping & (tried - gained > self.t - self.need)
        explored = tried >= self.t
        good = gained >= self.need
        leave = clean | (moved & ~state.exploiting & (hopeless | (explored & ~good)))
        place = state.place + leave.astype(jnp.int32)
        entity = jnp.where(leave, view.in_random_order(jnp.minimum(place, view.entities - 1)), state.entity)
        return State(
            place=place,
            entity=entity,
            began=jnp.where(leave, view.false_values(entity), state.began),
            tried=jnp.where(leave, 0, tried),
            gained=jnp.where(leave, 0, gained),
            exploiting=(state.exploiting | (moved & explored & good)) & ~leave,
            totals=state.totals.add(outcome, clean),
        )

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when the budget is spent (lines 3 and 13), or when every entity was met."""
        return (state.totals.spent >= view.budget) | (state.place >= view.entities)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Returns the counts of the run by name, as ``Totals`` has them."""
        return state.totals.answer()


@checked
def ee(
    t: Annotated[int, Key(whole(1, 2**20), search=Range(1, 32, log=True, whole=True), partner="q")],
    q: Annotated[float, Key(real(0, 1), search=Range(0, 1), partner="t")],
    # Without it, operations are spent on entities that are given up all the same.
    early_stopping: Annotated[bool, Key(flag, on_request=True)] = True,
) -> EE:
    """Makes the policy EE with given parameters t and q.

    Args:
        t: exploration frequency, from 1 on (a study that leaves it out has it tuned).
        q: exploitation threshold, 0 to 1 (a study that leaves it out has it tuned). 0.667 of t = 3 is all 3.
        early_stopping: leave an entity that can no longer pass (section 5.5).

    Raises:
        BadInput: for values out of range.

    Example:
        >>> from jaxbandit import cleaning
        >>> rule = cleaning.ee(3, 0.667)
        >>> int(rule.t), int(rule.need)
        (3, 3)
    """
    return EE(jnp.int32(t), jnp.int32(needed(t, q)), jnp.bool_(early_stopping))
