"""Iterative Best Arm Identification (IB): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS
2017, section 5.2: the best arm is searched for and removed, until the one found is not an estimated outlier.

The search is CLUCB of Chen, Lin, King, Lyu and Chen, "Combinatorial Pure Exploration of Multi-Armed Bandits", NIPS
2014, Algorithm 1, for one arm: the best mean and, of the others, the highest upper bound; of these two the one with
fewer pulls is pulled, until the lower bound of the first is not below the upper bound of the second. All searches go on
from all pulls made so far, so that one event carries them all.

A pull depends on the one before, so there is nothing to leap over: a step is a pull.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.outliers.intervals import Interval, all_equal, arm_radii, equal_means, means_of
from jaxbandit.outliers.leap import CAPPED, DECIDED, FLAT, RUNNING, Seen, above_threshold, answer, select
from jaxbandit.outliers.problem import One, View
from jaxbandit.outliers.twofold import Twofold
from jaxbandit.random.fence import rarely

_UNSURE = 2.0**-20
"""The distance, in sums of a mean and radii as large, that float32 cannot be trusted below."""


class State(NamedTuple):
    """``left``: the arms that were not removed, bool (n,); ``arm``: the one that is pulled next; ``code``."""

    seen: Seen
    left: Array
    arm: Array
    code: Array


class _Move(NamedTuple):
    """What is left, the arm to pull, and whether the rule has ended."""

    left: Array
    arm: Array
    ended: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class IB:
    """``of``: the interval of ``intervals.clucb``; all else as in ``RR``."""

    k: Twofold
    of: Interval
    cap: Array
    n: int = field(metadata={"static": True})

    def init(self, view: View) -> State:
        """The first arm."""
        return State(Seen.nothing(self.n), jnp.ones(self.n, bool), jnp.int32(0), jnp.int32(RUNNING))

    def ask(self, view: View, state: State) -> One:
        """The arm, once."""
        here = jnp.arange(self.n, dtype=jnp.int32) == state.arm
        attempt = jnp.sum(jnp.where(here, state.seen.pulls, 0), dtype=jnp.int32)
        return One(state.arm, attempt, (state.code == RUNNING).astype(jnp.int32))

    def tell(self, view: View, state: State, pull: One, outcome: Array) -> State:
        """Each arm once at first; then what CLUCB wants."""
        arms = jnp.arange(self.n, dtype=jnp.int32)
        here = (arms == pull.arm).astype(jnp.int32)
        seen = state.seen.add(here * pull.made, here * outcome)
        opening = seen.total < self.n
        some = Seen(jnp.maximum(seen.pulls, 1), seen.ones, jnp.maximum(seen.total, 1))
        unclear, arm = self._glance(some, state.left)
        needed = unclear & ~opening & (state.code == RUNNING)
        otherwise = _Move(state.left, arm, jnp.bool_(False))
        move: _Move = _closely(needed, otherwise, self, some, state.left)
        stuck = jnp.where(all_equal(some.pulls, some.ones), FLAT, CAPPED)
        code = jnp.where(move.ended, DECIDED, jnp.where(seen.total < self.cap, RUNNING, stuck)).astype(jnp.int32)
        after = State(seen, move.left, jnp.where(opening, seen.total, move.arm), code)
        return select(state.code == RUNNING, after, state)

    def _glance(self, seen: Seen, left: Array) -> tuple[Array, Array]:
        """Whether float32 does not tell what to do, or a search is over; and the arm to pull if neither."""
        arms = jnp.arange(self.n, dtype=jnp.int32)
        y = jnp.where(left, means_of(seen.pulls, seen.ones), -1)
        best = jnp.argmax(y).astype(jnp.int32)
        here = arms == best

        def of(x: Array, where: Array) -> Array:
            return jnp.sum(jnp.where(where, x, 0), dtype=x.dtype)

        radii = arm_radii(self.of, seen.pulls, seen.ones, self.of.reach_at(seen.total))
        others = left & ~here
        upper = jnp.where(others, y + radii, -1)
        rival = jnp.argmax(upper).astype(jnp.int32)
        there = arms == rival
        pulls, ones = of(seen.pulls, here), of(seen.ones, here)
        close = others & (y >= of(y, here) - _UNSURE) & ~equal_means(seen.pulls, seen.ones, pulls, ones)
        top, rival_pulls, rival_ones = of(upper, there), of(seen.pulls, there), of(seen.ones, there)
        alike = (seen.pulls == rival_pulls) & (seen.ones == rival_ones)
        close = close | (others & ~alike & (upper >= top - _UNSURE * (1 + top)))
        lower = of(y - radii, here)
        over = top - lower <= _UNSURE * (1 + top)
        first = (pulls < rival_pulls) | ((pulls == rival_pulls) & (best < rival))
        return jnp.any(close) | over | ~jnp.any(others), jnp.where(first, best, rival)

    def done(self, view: View, state: State) -> Array:
        """The best arm left is no outlier, or none is left, or the cap is reached."""
        return state.code != RUNNING

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``leap.answer``."""
        return answer(self.of, self.k, state.seen, state.code)


def _largest(of: Twofold, among: Array) -> Array:
    """The first of the largest numbers: its place, int32."""
    top = jnp.max(jnp.where(among, of.hi, -jnp.inf))
    level = among & (of.hi == top)
    least = jnp.max(jnp.where(level, of.lo, -jnp.inf))
    return jnp.argmax(level & (of.lo == least)).astype(jnp.int32)


@rarely
def _closely(policy: IB, seen: Seen, left: Array) -> _Move:
    """What to do, exactly; searches that are over without a further pull included."""
    arms = jnp.arange(policy.n, dtype=jnp.int32)
    y: Any = means_of(seen.pulls, seen.ones, precise=True)
    reach = policy.of.reach_at(seen.total, precise=True)
    radii: Any = arm_radii(policy.of, seen.pulls, seen.ones, reach, precise=True)
    found = above_threshold(policy.of, policy.k, seen) & ~all_equal(seen.pulls, seen.ones)
    upper = y + radii

    def at(x: Any, arm: Array) -> Any:
        return jax.tree.map(lambda v: v[arm], x)

    def search(carry: tuple[_Move, Array]) -> tuple[_Move, Array]:
        left = carry[0].left
        best = _largest(y, left)
        others = left & (arms != best)
        rival = _largest(upper, others)
        over = ~jnp.any(others) | ((at(upper, rival) - (at(y, best) - at(radii, best))).hi <= 0)
        pulls, rival_pulls = seen.pulls[best], seen.pulls[rival]
        first = (pulls < rival_pulls) | ((pulls == rival_pulls) & (best < rival))
        kept = jnp.where(over & found[best], others, left)
        again = over & found[best] & jnp.any(others)
        return _Move(kept, jnp.where(first, best, rival), over & ~again), again

    start = _Move(left, jnp.int32(0), jnp.bool_(False)), jnp.bool_(True)
    return lax.while_loop(lambda carry: carry[1], search, start)[0]
