"""NRR in leaps: ``tests/test_outlier_policies.py::test_nrr_is_its_oracle`` ties it to ``jaxbandit.outliers.nrr``.

A leap is up to n pulls, one an arm. All that moves the mean up, and all that moves it down, bound what it is after each
of them, and so do such sums of squares for sigma. If no mean, old or new, comes near the values that the threshold may
take, the set stays as it was; else the first of the pulls alone is made.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.grammar import Execution, accelerated
from jaxbandit.outliers.fast.leap import clear, cyclic, outliers, select
from jaxbandit.outliers.intervals import mean
from jaxbandit.outliers.nrr import NRR, State
from jaxbandit.outliers.problem import Once, OutlierArms, Pull, View
from jaxbandit.outliers.record import means_of


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LeapingNRR(NRR):
    """``n`` (static): how many arms; its state and all else are those of the rule."""

    n: int = field(metadata={"static": True})

    @property
    def execution(self) -> Execution:
        """A run is a first sweep and, nearly always, one leap, in a few arrays of all arms."""
        return Execution(stride=2, in_cache=True, step_bytes=320 * self.n, masked=True, gain_ns=1)

    def tell(self, view: View, state: State, pull: Pull, outcome: Array) -> State:
        """Does what ``NRR.tell`` does, and leaves the state of a run that is over as it is."""
        return select(~self.done(view, state), super().tell(view, state, pull, outcome), state)

    def advance(self, view: View, state: State, sample: Callable[[Once], Array]) -> State:
        """Pulls the next arms once each, and looks whether the set changed; up to the last pull it surely had not."""
        n, first, place = self.n, state.seen.total == 0, cyclic(self.n, state.arm)
        left = jnp.where(self.done(view, state), 0, view.budget - state.seen.total)
        most = jnp.minimum(self.need - state.same, left) if self.of.rule == "k-sigma" else jnp.minimum(left, 1)
        counts = (place < jnp.where(first, n, most)).astype(jnp.int32)
        outcome = sample(Once(counts, state.seen.pulls))
        alone = ~first & ~self._stays(view, state, counts, outcome) & (place > 0)
        seen = state.seen.add(*(jnp.where(alone, 0, x) for x in (counts, outcome)))
        made = seen.total - state.seen.total
        found = outliers(self.of, seen, view.unit, made > 0)
        changed = jnp.any(found != state.found) | first
        arm = jnp.where(first, 1, state.arm + made)
        arm = jnp.where(arm >= n, arm - n, arm)
        return select(made > 0, State(seen, arm, found, jnp.where(changed, 0, state.same + made)), state)

    def _stays(self, view: View, state: State, counts: Array, outcome: Array) -> Array:
        """Whether the set surely stays the same while these arms are pulled."""
        assert self.of.k is not None
        n, k = self.n, self.of.k.hi
        later = state.seen.add(counts, outcome)
        old, new = (view.unit * means_of(jnp.maximum(x.pulls, 1), x.ones) for x in (state.seen, later))
        # From the mean on, so that what moves it hardly moves sigma.
        mu = mean(old)
        start, end = old - mu, new - mu
        gain, growth = end - start, end * end - start * start
        up, down, wider, narrower = (mean(jnp.maximum(x, 0)) for x in (gain, -gain, growth, -growth))
        square = mean(start * start)
        least_sigma = jnp.sqrt(jnp.maximum(square - narrower - jnp.square(jnp.maximum(up, down)), 0))
        most_sigma = jnp.sqrt(square + wider)
        unsure = clear(n, k, least_sigma) + jnp.float32(2.0**-18) * (1 + k / jnp.maximum(least_sigma, 1e-3))
        beyond = jnp.zeros(n, bool)
        within = jnp.zeros(n, bool)
        for sign in (1, -1) if self.of.sides == "both" else (1,):
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
    return LeapingNRR(rule.of, rule.need, problem.source.arms)
