"""NRR in batches of pulls: ``tests/test_outlier_policies.py::test_nrr_is_its_oracle`` ties it to
``jaxbandit.outliers.nrr``.

A batch is up to n pulls, one an arm. The sum of all moves of the mean upwards and the sum of those downwards bound the
mean after each pull; sums of squares bound sigma in the same way. So they bound the threshold. If no arm's mean, old or
new, is near the values that the threshold may take, the set stays the same. Else only the first pull is made.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxbandit.grammar import Execution, accelerated
from jaxbandit.outliers.fast.leap import clear, cyclic, outliers
from jaxbandit.outliers.intervals import mean
from jaxbandit.outliers.nrr import NRR, State
from jaxbandit.outliers.problem import Once, OutlierArms, Pull, View
from jaxbandit.outliers.record import Seen, means_of
from jaxbandit.pytree import pytree
from jaxbandit.xla.entries import select
from jaxbandit.xla.formula import formula


@pytree
@dataclass(frozen=True)
class NRRInBatches(NRR):
    """Runs NRR in batches; its state is that of the rule. ``n`` (static): how many arms."""

    n: int = field(metadata={"static": True})

    @property
    def execution(self) -> Execution:
        """Says that a run is a first sweep and, nearly always, one batch, in a few arrays of all arms."""
        gain, loss, step = 60 * self.n, 300 * self.n, 320 * self.n
        return Execution(stride=2, cache_mib=1, step_bytes=step, masked=True, gain_ns=gain, loss_ns=loss, growth=0)

    def tell(self, view: View, state: State, pull: Pull, outcome: Array) -> State:
        """Does what ``NRR.tell`` does, and leaves the state of a run that is over as it is."""
        return select(~self.done(view, state), super().tell(view, state, pull, outcome), state)

    def advance(self, view: View, state: State, sample: Callable[[Once], Array]) -> State:
        """Pulls the next arms once each, as far as the set surely stays the same, and estimates it after the last."""
        n, first, place = self.n, state.seen.total == 0, cyclic(self.n, state.arm)
        left = jnp.where(self.done(view, state), 0, view.budget - state.seen.total)
        most = jnp.minimum(self.need - state.same, left) if self.interval.rule == "k-sigma" else jnp.minimum(left, 1)
        most = jnp.where(first, n, jnp.clip(most, 0, n))
        counts = (place < most).astype(jnp.int32)
        outcome = sample(Once(counts, state.seen.pulls))
        together = first | self._stays(view, state, counts, outcome)
        made, kept = jnp.where(together, most, jnp.minimum(most, 1)), together | (place == 0)
        pulls, ones, total = state.seen
        seen = Seen(pulls + counts * kept, ones + outcome * kept, total + made)
        found = outliers(self.interval, seen, view.unit, made > 0)
        changed = jnp.any(found != state.found) | first
        arm = jnp.where(first, 1, state.arm + made)
        arm = jnp.where(arm >= n, arm - n, arm)
        return select(made > 0, State(seen, arm, found, jnp.where(changed, 0, state.same + made)), state)

    @formula
    def _stays(self, view: View, state: State, counts: Array, outcome: Array) -> Array:
        """Returns whether the set surely stays the same while these arms are pulled: bool."""
        assert self.interval.k is not None
        n, k = self.n, self.interval.k.hi
        later = state.seen.add(counts, outcome)
        old, new = (view.unit * means_of(jnp.maximum(x.pulls, 1), x.ones) for x in (state.seen, later))
        # Distances from the mean: so a move of the mean hardly moves sigma.
        mu = mean(old)
        start, end = old - mu, new - mu
        move, growth = end - start, end * end - start * start
        # At any time in the batch, some of the arms have moved: the mean of all is at most ``up`` above ``mu`` and at
        # most ``down`` below it, and the mean of squares is at most ``wider`` above ``square``, or ``narrower`` below.
        up, down, wider, narrower = (mean(jnp.maximum(x, 0)) for x in (move, -move, growth, -growth))
        square = mean(start * start)
        least_sigma = jnp.sqrt(jnp.maximum(square - narrower - jnp.square(jnp.maximum(up, down)), 0))
        most_sigma = jnp.sqrt(square + wider)
        unsure = clear(n, k, least_sigma) + jnp.float32(2.0**-18) * (1 + k / jnp.maximum(least_sigma, 1e-3))
        beyond = jnp.zeros(n, bool)
        within = jnp.zeros(n, bool)
        for sign in (1, -1) if self.interval.sides == "both" else (1,):
            # The threshold is from ``least`` to ``most``, and an arm's mean, old or new, from ``low`` to ``high``.
            back, forth = (down, up) if sign > 0 else (up, down)
            least, most = sign * mu - back + k * least_sigma - unsure, sign * mu + forth + k * most_sigma + unsure
            low, high = jnp.minimum(sign * old, sign * new), jnp.maximum(sign * old, sign * new)
            beyond = beyond | (low > most)
            within = within | ((high >= least) & (low <= most))
        return jnp.all(beyond | ~within) & (least_sigma > 0)


@accelerated.register
def _(rule: NRR, problem: Any) -> Any:
    if not isinstance(problem, OutlierArms):
        return rule
    return NRRInBatches(rule.interval, rule.need, problem.source.arms)
