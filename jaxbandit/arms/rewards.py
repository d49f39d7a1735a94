"""The laws of an arm's rewards, given its mean.

A law draws the sum of any number of rewards of an arm in one go (``total``), or reward by reward, each from a word of
its own (``tape``). Means are int32 in units of 2^-24 of the law's scale, which is [0, 1] unless the law says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import erf, erfinv

from jaxbandit.pytree import pytree
from jaxbandit.random.counts import _until_accepted
from jaxbandit.random.draws import exponential, scale, uniform
from jaxbandit.random.permutation import position
from jaxbandit.random.stream import Stream, substream, words
from jaxbandit.random.trials import MOST_TRIALS, UNITS, many_successes, successes
from jaxbandit.xla.batch import over_lanes
from jaxbandit.xla.elementary import cos_of_turn, exp, log, pinned
from jaxbandit.xla.exact import quotient, root

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32, Num

_LARGE = 2.0**29


@dataclass(frozen=True)
class Scale:
    """Says what rules may know of rewards: they lie about ``low`` to ``low + width`` (float32), and each is 0 or 1
    where ``whole``."""

    low: Array | float = 0.0
    width: Array | float = 1.0
    whole: bool = False

    def place(self, mean: Array) -> Array:
        """Returns where a mean reward (float32) is on the scale, from 0 to 1."""
        return quotient(mean - self.low, self.width)

    def units(self, total: Array, count: Array, equal_counts: bool) -> Array:
        """Returns empirical means as numbers that can be compared exactly, as ``View.mean`` says."""
        if self.whole and equal_counts:
            return total
        mean = self.place(quotient(total.astype(jnp.float32), jnp.maximum(count, 1).astype(jnp.float32)))
        return jnp.clip(jnp.where(count > 0, mean, 0) * UNITS, -_LARGE, _LARGE).astype(jnp.int32)


class Rewards:
    """Is the base of the laws. A law has at least ``one``; the other methods have a default that is made of it."""

    @property
    def whole(self) -> bool:
        """Returns whether all rewards are 0 or 1, so that totals are int32 and not float32."""
        return False

    @property
    def even(self) -> bool:
        """Returns whether an arm can be pulled without end."""
        return True

    @property
    def by_row(self) -> bool:
        """Returns whether rewards depend on the user's row of an arm."""
        return False

    def one(self, key: Stream, arm: Array, row: Array | None, attempt: Array, mean: Array) -> Array:
        """Draws reward number ``attempt`` (from 0) of an arm: elementwise, a function of this address alone."""
        raise NotImplementedError

    def made(self, row: Array | None, first: Array, count: Array) -> Array:
        """Returns how many of ``count`` pulls can be made after the first ``first`` of an arm."""
        return count

    def tape(self, key: Stream, arm: Array, row: Array | None, first: Array, count: Array, mean: Array) -> Array:
        """Draws the sum of ``count`` rewards from number ``first`` on, one reward after the other."""
        most = over_lanes(jnp.max(count, initial=0))

        def add(state: tuple[Array, Array]) -> tuple[Array, Array]:
            done, total = state
            reward = self.one(key, arm, row, first + done, mean)
            return done + 1, total + jnp.where(done < count, reward, 0).astype(total.dtype)

        start = jnp.zeros(arm.shape, jnp.int32 if self.whole else jnp.float32)
        return lax.while_loop(lambda state: state[0] < most, add, (jnp.int32(0), start))[1]

    def total(self, key: Stream, arm: Array, row: Array | None, first: Array, count: Array, mean: Array) -> Array:
        """Draws the sum of ``count`` rewards from number ``first`` on, in one go where the law allows it."""
        return self.tape(key, arm, row, first, count, mean)

    @property
    def most(self) -> int | None:
        """Returns the most rewards whose sum ``total`` draws, or None without a bound: ``many`` draws larger sums."""
        return None

    def many(self, key: Stream, arm: Array, row: Array | None, first: Array, count: Array, mean: Array) -> Array:
        """Draws the sum of more than ``most`` rewards of an arm."""
        raise NotImplementedError

    @property
    def scale(self) -> Scale:
        """Returns the scale of the means and of the rewards."""
        return Scale(whole=self.whole)


def unit(mean: Array) -> Array:
    """Returns means in units of 2^-24 (int32) as float32 numbers, exactly."""
    exact: Array = mean.astype(jnp.float32) * jnp.float32(1 / UNITS)
    return exact


@pytree
@dataclass(frozen=True)
class Bernoulli(Rewards):
    """Draws rewards that are 1 with probability ``mean``, else 0. A sum is binomial."""

    @property
    def whole(self) -> bool:
        """Returns whether all rewards are 0 or 1, so that totals are int32 and not float32."""
        return True

    def one(self, key: Stream, arm: Array, row: Array | None, attempt: Array, mean: Array) -> Array:
        """Compares the top 24 bits of a word with the mean."""
        bits = (words(key, arm, attempt)[0] >> jnp.uint32(8)).astype(jnp.int32)
        return jnp.less(bits, mean).astype(jnp.int32)

    def total(self, key: Stream, arm: Array, row: Array | None, first: Array, count: Array, mean: Array) -> Array:
        """Draws a binomial number, or gives 0 where ``many`` has to draw it."""
        return successes(key, arm, first, count, mean)

    @property
    def most(self) -> int | None:
        """Returns the most trials whose successes ``total`` draws."""
        return MOST_TRIALS

    def many(self, key: Stream, arm: Array, row: Array | None, first: Array, count: Array, mean: Array) -> Array:
        """Draws a binomial number of more than ``most`` trials."""
        return many_successes(key, arm, first, count, mean)


@pytree
@dataclass(frozen=True)
class Gaussian(Rewards):
    """Draws normal rewards with standard deviation ``sd``, the same for all arms; means lie on the scale [low, low +
    width]. A sum is normal. The law is exact to 6.7 standard deviations."""

    low: Float32[Array, ""]
    width: Float32[Array, ""]
    sd: Float32[Array, ""]

    def _mean(self, mean: Array) -> Array:
        return self.low + pinned(self.width * unit(mean))

    def _normal(self, key: Stream, arm: Array, attempt: Array) -> Array:
        """Draws a standard normal number by the two words at an address."""
        first, second = words(key, arm, attempt)
        turn = (second >> jnp.uint32(8)).astype(jnp.int32).astype(jnp.float32) * jnp.float32(2**-24)
        return _standard_normal(first, turn)

    def one(self, key: Stream, arm: Array, row: Array | None, attempt: Array, mean: Array) -> Array:
        """Draws a reward as the mean plus a normal deviate."""
        return self._mean(mean) + pinned(self.sd * self._normal(key, arm, attempt))

    def total(self, key: Stream, arm: Array, row: Array | None, first: Array, count: Array, mean: Array) -> Array:
        """Draws a sum as a normal number with ``count`` times the mean and the variance."""
        many = count.astype(jnp.float32)
        deviation = pinned(pinned(self.sd * root(many)) * self._normal(key, arm, first))
        return jnp.where(count > 0, pinned(many * self._mean(mean)) + deviation, 0)

    @property
    def scale(self) -> Scale:
        """Returns the scale of the means and of the rewards."""
        return Scale(self.low, self.width, self.whole)


@pytree
@dataclass(frozen=True)
class Bounded(Rewards):
    """Draws rewards in [0, 1] with the arm's mean, by a law of a ``shape`` (static) with a ``spread`` above 0.

    - "beta": Beta(spread m, spread (1 - m)), so ``spread`` is alpha + beta;
    - "uniform": on [m - w, m + w], where w is ``spread``, or less if that does not fit into [0, 1];
    - "normal": normal with mean m and standard deviation ``spread``, truncated to the widest [m - w, m + w] within
      [0, 1], so that its mean stays m.

    Sums have no law that is quick to draw: rewards are drawn one by one.
    """

    spread: Float32[Array, ""]
    shape: str = field(metadata={"static": True})

    def one(self, key: Stream, arm: Array, row: Array | None, attempt: Array, mean: Array) -> Array:
        """Draws a reward in [0, 1] by the law of this shape."""
        m = unit(mean)
        if self.shape == "beta":
            return self._beta(key, arm, attempt, m)
        wide = jnp.minimum(m, 1 - m)
        centred = (uniform(words(key, arm, attempt)[0]) - 0.5) * 2
        if self.shape == "uniform":
            return m + pinned(jnp.minimum(wide, self.spread) * centred)
        # By inversion, as the truncated part of the density may be narrow.
        spread = self.spread * jnp.float32(2**0.5)
        inside = erf(quotient(wide, spread))
        deviate = pinned(spread * erfinv(centred * inside))
        return m + jnp.clip(deviate, -wide, wide)

    def _beta(self, key: Stream, arm: Array, attempt: Array, m: Array) -> Array:
        own = substream(key, arm, attempt)
        shapes = (jnp.maximum(pinned(self.spread * x), 1e-30) for x in (m, 1 - m))
        logs = [_log_gamma(own, number, shape) for number, shape in enumerate(shapes, 1)]
        drawn = quotient(1, 1 + exp(jnp.clip(logs[1] - logs[0], -80, 80)))
        return jnp.where(m <= 0, 0, jnp.where(m >= 1, 1, drawn))


def _standard_normal(word: Array, turn: Array) -> Array:
    """Draws a standard normal number (float32) by Box and Muller's transform. ``word``: uint32, for its size; ``turn``:
    float32, uniform on [0, 1), for its direction."""
    return pinned(root(2 * exponential(word)) * cos_of_turn(turn))


def _log_gamma(key: Stream, purpose: int, shape: Array) -> Array:
    """Draws the logarithm of a gamma variate of any ``shape`` above 0, float32.

    Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000), with their step from
    shape + 1 to a shape below 1, taken in logarithms so that nothing underflows.
    """
    own = substream(key, purpose)
    low = shape < 1
    d = jnp.where(low, shape + 1, shape) - jnp.float32(1 / 3)
    c = root(quotient(1, 9 * d))

    def attempt(number: Array) -> tuple[Array, Array]:
        first, second = words(own, 1, number)
        turn, _ = words(own, 2, number)
        x = _standard_normal(first, uniform(turn))
        v = 1 + pinned(c * x)
        drawn = pinned(3 * log(jnp.maximum(v, jnp.float32(1e-6))))
        cube = pinned(pinned(v * v) * v)
        bound = pinned(0.5 * x * x) + pinned(d * ((1 - cube) + drawn))
        return drawn, (v > 0) & (-exponential(second) < bound)

    found = log(d) + _until_accepted(jnp.ones(d.shape, bool), jnp.zeros(d.shape, jnp.float32), attempt)
    return found - jnp.where(low, quotient(exponential(words(own, 3, 0)[0]), shape), 0)


@pytree
@dataclass(frozen=True)
class Replay(Rewards):
    """Draws rewards from a record of each row: ``values`` (int32 where all are 0 or 1, else float32), of which row i
    has ``length[i]`` from ``offset[i]`` on.

    ``again`` (static): draw with replacement, without end; else each reward of the record is given once, in a random
    order, and then the arm gives no more. ``low`` and ``width``: the scale of the means.
    """

    values: Num[Array, " rewards"]
    offset: Int32[Array, " rows"]
    length: Int32[Array, " rows"]
    low: Float32[Array, ""]
    width: Float32[Array, ""]
    again: bool = field(metadata={"static": True})

    @property
    def whole(self) -> bool:
        """Returns whether all rewards are 0 or 1, so that totals are int32 and not float32."""
        return bool(jnp.issubdtype(self.values.dtype, jnp.integer))

    @property
    def even(self) -> bool:
        """Returns whether an arm can be pulled without end."""
        return self.again

    @property
    def by_row(self) -> bool:
        """Returns whether rewards depend on the user's row of an arm."""
        return True

    def one(self, key: Stream, arm: Array, row: Array | None, attempt: Array, mean: Array) -> Array:
        """Draws a reward from the record of ``row``."""
        size = self.length[row]
        if self.again:
            at = scale(words(key, arm, attempt)[0], size)
        else:
            at = position(key, arm, jnp.minimum(attempt, size - 1), size)
        return self.values[self.offset[row] + at]

    def made(self, row: Array | None, first: Array, count: Array) -> Array:
        """Returns how many of ``count`` pulls the record still has rewards for."""
        return count if self.again else jnp.clip(self.length[row] - first, 0, count)

    @property
    def scale(self) -> Scale:
        """Returns the scale of the means and of the rewards."""
        return Scale(self.low, self.width, self.whole)


def is_whole(values: Any) -> bool:
    """Returns whether all rewards in ``values`` are 0 or 1."""
    return bool(((values == 0) | (values == 1)).all())
