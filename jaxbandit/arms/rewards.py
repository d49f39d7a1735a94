"""The laws of an arm's rewards, given its mean.

A law draws the sum of any number of rewards of an arm in one go (``total``), or reward by reward from words of their
own (``tape``). Means are int32 in units of 2^-24 of the law's scale, which is [0, 1] unless the law says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import erf, erfinv

from jaxbandit.random.counts import _until_accepted, pinned
from jaxbandit.random.draws import exponential, scale, uniform
from jaxbandit.random.permutation import position
from jaxbandit.random.stream import Stream, substream, words
from jaxbandit.random.trials import MOST_CHAINED, UNITS, many_successes, successes
from jaxbandit.xla.batch import over_lanes

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32, Num

_LARGE = 2.0**29


@dataclass(frozen=True)
class Scale:
    """What everybody knows of rewards: they lie about ``low`` to ``low + width`` (float32), and where ``whole``, each
    is 0 or 1."""

    low: Array | float = 0.0
    width: Array | float = 1.0
    whole: bool = False

    def place(self, mean: Array) -> Array:
        """A mean reward (float32) on the scale, 0 to 1."""
        return (mean - self.low) / self.width

    def units(self, total: Array, count: Array, alike: bool) -> Array:
        """See ``View.mean``."""
        if self.whole and alike:
            return total
        mean = self.place(total.astype(jnp.float32) / jnp.maximum(count, 1).astype(jnp.float32))
        return jnp.clip(jnp.where(count > 0, mean, self.place(jnp.float32(0))) * UNITS, -_LARGE, _LARGE).astype(
            jnp.int32
        )


class Rewards:
    """The base of the laws. Static: ``whole``, rewards are 0 or 1 and totals int32, else they are float32; ``even``,
    an arm can be pulled for ever; ``by_row``, rewards depend on the user's row of an arm."""

    @property
    def whole(self) -> bool:
        """See the class."""
        return False

    @property
    def even(self) -> bool:
        """See the class."""
        return True

    @property
    def by_row(self) -> bool:
        """See the class."""
        return False

    def one(self, key: Stream, arm: Array, row: Array | None, attempt: Array, mean: Array) -> Array:
        """Reward number ``attempt`` (from 0) of an arm; elementwise, a function of its address alone."""
        raise NotImplementedError

    def made(self, row: Array | None, first: Array, count: Array) -> Array:
        """How many of ``count`` pulls can be made after ``first``."""
        return count

    def tape(self, key: Stream, arm: Array, row: Array | None, first: Array, count: Array, mean: Array) -> Array:
        """The sum of ``count`` rewards from number ``first`` on, one after the other."""
        most = over_lanes(jnp.max(count, initial=0))

        def add(state: tuple[Array, Array]) -> tuple[Array, Array]:
            done, total = state
            reward = self.one(key, arm, row, first + done, mean)
            return done + 1, total + jnp.where(done < count, reward, 0).astype(total.dtype)

        start = jnp.zeros(arm.shape, jnp.int32 if self.whole else jnp.float32)
        return lax.while_loop(lambda state: state[0] < most, add, (jnp.int32(0), start))[1]

    def total(self, key: Stream, arm: Array, row: Array | None, first: Array, count: Array, mean: Array) -> Array:
        """The sum of ``count`` rewards from number ``first`` on, in one go where the law allows it."""
        return self.tape(key, arm, row, first, count, mean)

    @property
    def most(self) -> int | None:
        """The most rewards that ``total`` draws the sum of, where there is a bound: beyond it, ``many`` does."""
        return None

    def many(self, key: Stream, arm: Array, row: Array | None, first: Array, count: Array, mean: Array) -> Array:
        """The sum of more than ``most`` rewards."""
        raise NotImplementedError

    @property
    def scale(self) -> Scale:
        """See ``Scale``."""
        return Scale(whole=self.whole)

    def place(self, mean: Array) -> Array:
        """See ``Scale``."""
        return self.scale.place(mean)


def _unit(mean: Array) -> Array:
    """float32, exact."""
    exact: Array = mean.astype(jnp.float32) * jnp.float32(1 / UNITS)
    return exact


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bernoulli(Rewards):
    """1 with probability ``mean``, else 0. A sum is binomial."""

    @property
    def whole(self) -> bool:
        """See ``Rewards``."""
        return True

    def one(self, key: Stream, arm: Array, row: Array | None, attempt: Array, mean: Array) -> Array:
        """The top 24 bits of a word decide."""
        bits = (words(key, arm, attempt)[0] >> jnp.uint32(8)).astype(jnp.int32)
        return jnp.less(bits, mean).astype(jnp.int32)

    def total(self, key: Stream, arm: Array, row: Array | None, first: Array, count: Array, mean: Array) -> Array:
        """Binomial; 0 where it is to be drawn by ``many``."""
        return successes(key, arm, first, count, mean)

    @property
    def most(self) -> int | None:
        """See ``Rewards``."""
        return MOST_CHAINED

    def many(self, key: Stream, arm: Array, row: Array | None, first: Array, count: Array, mean: Array) -> Array:
        """Binomial."""
        return many_successes(key, arm, first, count, mean)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Gaussian(Rewards):
    """Normal with standard deviation ``sd``, the same for all arms; means lie on the scale [low, low + width]. A sum is
    normal. Words are exact to 6.7 standard deviations."""

    low: Float32[Array, ""]
    width: Float32[Array, ""]
    sd: Float32[Array, ""]

    def _mean(self, mean: Array) -> Array:
        return self.low + pinned(self.width * _unit(mean))

    def _normal(self, key: Stream, arm: Array, attempt: Array) -> Array:
        """Box and Muller's transform of the two words at an address."""
        first, second = words(key, arm, attempt)
        turn = (second >> jnp.uint32(8)).astype(jnp.int32).astype(jnp.float32) * jnp.float32(2**-24)
        return pinned(jnp.sqrt(2 * exponential(first)) * jnp.cos(jnp.float32(6.2831853) * turn))

    def one(self, key: Stream, arm: Array, row: Array | None, attempt: Array, mean: Array) -> Array:
        """Its mean and a normal deviate."""
        return self._mean(mean) + pinned(self.sd * self._normal(key, arm, attempt))

    def total(self, key: Stream, arm: Array, row: Array | None, first: Array, count: Array, mean: Array) -> Array:
        """Normal, with ``count`` times the mean and the variance."""
        many = count.astype(jnp.float32)
        deviation = pinned(pinned(self.sd * jnp.sqrt(many)) * self._normal(key, arm, first))
        return jnp.where(count > 0, pinned(many * self._mean(mean)) + deviation, 0)

    @property
    def scale(self) -> Scale:
        """See ``Rewards``."""
        return Scale(self.low, self.width, self.whole)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bounded(Rewards):
    """A law on [0, 1] with the arm's mean, of the ``shape`` (static) and its parameter ``spread`` (above 0).

    - "beta": Beta(spread m, spread (1 - m)), so ``spread`` is alpha + beta;
    - "uniform": on [m - w, m + w], w being ``spread``, or what of it fits between 0 and 1;
    - "normal": normal with mean m and standard deviation ``spread``, truncated to the widest [m - w, m + w] within
      [0, 1], so that its mean stays m.

    Sums have no law that is quick to draw: rewards are drawn one by one.
    """

    spread: Float32[Array, ""]
    shape: str = field(metadata={"static": True})

    def one(self, key: Stream, arm: Array, row: Array | None, attempt: Array, mean: Array) -> Array:
        """A reward in [0, 1]."""
        m = _unit(mean)
        if self.shape == "beta":
            return self._beta(key, arm, attempt, m)
        wide = jnp.minimum(m, 1 - m)
        centred = (uniform(words(key, arm, attempt)[0]) - 0.5) * 2
        if self.shape == "uniform":
            return m + pinned(jnp.minimum(wide, self.spread) * centred)
        # By inversion; the part of the bell that is left may be narrow.
        root = jnp.float32(2**0.5)
        inside = erf(wide / (self.spread * root))
        deviate = pinned(self.spread * root * erfinv(centred * inside))
        return m + jnp.clip(deviate, -wide, wide)

    def _beta(self, key: Stream, arm: Array, attempt: Array, m: Array) -> Array:
        own = substream(key, arm, attempt)
        logs = [_log_gamma(own, number, jnp.maximum(self.spread * x, 1e-30)) for number, x in ((1, m), (2, 1 - m))]
        drawn = 1 / (1 + jnp.exp(jnp.clip(logs[1] - logs[0], -80, 80)))
        return jnp.where(m <= 0, 0, jnp.where(m >= 1, 1, drawn))


def _log_gamma(key: Stream, purpose: int, shape: Array) -> Array:
    """The logarithm of a gamma variate of any ``shape`` above 0, float32.

    Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000), with their step from
    shape + 1 to a shape below 1, taken in logarithms so that nothing underflows.
    """
    own = substream(key, purpose)
    low = shape < 1
    d = jnp.where(low, shape + 1, shape) - jnp.float32(1 / 3)
    c = 1 / jnp.sqrt(9 * d)

    def attempt(number: Array) -> tuple[Array, Array]:
        first, second = words(own, 1, number)
        turn, _ = words(own, 2, number)
        x = pinned(jnp.sqrt(2 * exponential(first)) * jnp.cos(jnp.float32(6.2831853) * uniform(turn)))
        v = 1 + pinned(c * x)
        log = 3 * jnp.log(jnp.maximum(v, jnp.float32(1e-6)))
        cube = pinned(pinned(v * v) * v)
        bound = pinned(0.5 * x * x) + pinned(d * ((1 - cube) + log))
        return log, (v > 0) & (-exponential(second) < bound)

    log = jnp.log(d) + _until_accepted(jnp.ones(d.shape, bool), jnp.zeros(d.shape, jnp.float32), attempt)
    return log - jnp.where(low, exponential(words(own, 3, 0)[0]) / shape, 0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Replay(Rewards):
    """Rewards from a record of each row: ``values`` (int32 where all are 0 or 1, else float32), of which row i has
    ``length[i]`` from ``offset[i]`` on.

    ``again`` (static): drawn with replacement, for ever; else each reward of the record is given once, in a random
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
        """See ``Rewards``."""
        return bool(jnp.issubdtype(self.values.dtype, jnp.integer))

    @property
    def even(self) -> bool:
        """See ``Rewards``."""
        return self.again

    @property
    def by_row(self) -> bool:
        """See ``Rewards``."""
        return True

    def one(self, key: Stream, arm: Array, row: Array | None, attempt: Array, mean: Array) -> Array:
        """A reward of the record of ``row``."""
        size = self.length[row]
        if self.again:
            at = scale(words(key, arm, attempt)[0], size)
        else:
            at = position(key, arm, jnp.minimum(attempt, size - 1), size)
        return self.values[self.offset[row] + at]

    def made(self, row: Array | None, first: Array, count: Array) -> Array:
        """Until the record is used up."""
        return count if self.again else jnp.clip(self.length[row] - first, 0, count)

    @property
    def scale(self) -> Scale:
        """See ``Rewards``."""
        return Scale(self.low, self.width, self.whole)


def is_whole(values: Any) -> bool:
    """Whether all rewards are 0 or 1."""
    return bool(((values == 0) | (values == 1)).all())
