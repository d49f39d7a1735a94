"""Leaps: certified batches of pulls. An *event* is a pull after which a rule decides something. Pulls that surely hold
no event are drawn in bulk.

After e_i more pulls of each arm, and at any time before, every empirical mean lies in (1 - r) yhat + r [0, 1] with
r = max e_i / (m_i + e_i). So whatever the rewards were,

    theta_hat stays within (1 - r) theta_hat + r [min, max] of mean(x) + k std(x) over x in [0, 1]^n,
    |yhat_i - theta_hat| grows to at most (1 - r) |yhat_i - theta_hat| + r (1 + sqrt(1 + k^2)) / 2,

as sigma is a seminorm; and a radius shrinks at most by the factor 1 - r, since delta' only falls. So let no arm get
more than x m_i further pulls, x = r / (1 - r). Then radius - gap falls by at most x G, where G is known now
(``Statistics.growth``): while it is above x G, no comparison changes, and these pulls may be drawn at once. That is a
certificate for a leap; where it gives none, one pull is made. The state after a leap is evaluated as after any pull, so
that a leap changes no answer and no stopping time.

Evaluations are in float32, and trusted where they are clear. Otherwise the rule's own evaluation in float64 decides.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.outliers.intervals import Estimates, Interval
from jaxbandit.outliers.record import Seen
from jaxbandit.xla.fence import rarely
from jaxbandit.xla.formula import formula


@formula
def clear(n: int, k: Array, sigma: Array) -> Array:
    """Returns the distance of a mean from the threshold above which float32 tells on which side it is (float32), which
    is several times the error of that distance, the radii's errors included.

    Means are summed in units of 2^-bits; the error of sigma from that grows with 1 / sigma.
    """
    unit = 2.0 ** -(30 - (n - 1).bit_length())
    least: Array = 2.0**-20 + (2 + k) * jnp.float32(unit) * (1 + 1 / jnp.maximum(sigma, jnp.float32(1e-3)))
    return least


def low_bits(count: Array) -> Array:
    """Returns a mask of the lowest ``count`` bits, 0 to 32: uint32."""
    some = (jnp.uint32(1) << jnp.minimum(count, 31).astype(jnp.uint32)) - 1
    return jnp.where(count >= 32, jnp.uint32(0xFFFFFFFF), some)


def cyclic(n: int, cursor: Array) -> Array:
    """Returns the place of each arm, 0 to n - 1, in the order that begins at ``cursor``: int32, shape (n,)."""
    after = jnp.arange(n, dtype=jnp.int32) - cursor
    return jnp.where(after < 0, after + n, after)


class Statistics(NamedTuple):
    """Holds what a k-sigma rule in batches evaluates of its state, in float32.

    ``at``: the estimates; ``unsure``: below this distance float32 cannot be trusted; ``least``: the fewest pulls of an
    arm; ``widest``: no arm's radius is above it; ``growth`` + ``turn``: G of the module, by which an active arm's
    overlap shrinks for each unit of x; ``turn``: the part that is due to other weights of the radii in the threshold's,
    for x up to sigma; ``most_turn``: what all of that takes at most, for any x; ``firmness``: the root mean square of
    the moves of the means is at least ``firmness`` times the move of the threshold.
    """

    at: Estimates
    unsure: Array
    least: Array
    widest: Array
    growth: Array
    turn: Array
    most_turn: Array
    firmness: Array


@formula
def evaluate(interval: Interval, seen: Seen, log_term: Array, unit: float) -> Statistics:
    """Evaluates the state after any pull but the first n."""
    assert interval.k is not None
    n, k = seen.pulls.shape[-1], jnp.asarray(interval.k.hi)
    at = interval.estimates(seen, log_term, unit)
    least = jnp.maximum(jnp.min(seen.pulls), 1).astype(jnp.float32)
    widest = jnp.sqrt(log_term / (4 * least))
    safe = jnp.where(at.sigma > 0, at.sigma, 1)
    narrowest = jnp.min(at.radii) / jnp.sqrt(jnp.float32(n))
    if interval.rule == "robust" or interval.name == "bounded":
        turn, floor = jnp.zeros_like(least), at.theta_radius
    elif interval.name == "bernoulli":
        # sqrt(sigma) may grow to sqrt(sigma + r / 2); weights of a threshold above are 1 / n at least.
        turn, floor = at.theta_radius * (1 + 1 / (4 * safe)), narrowest * (interval.sides == "above")
    else:
        # The direction of y - mu turns by at most x / (2 sigma), which is at most 1/2; the weights' squares add up to
        # (1 + k^2) / n.
        turn = widest * k * jnp.float32(1.04) / (2 * safe * jnp.sqrt(jnp.float32(n)))
        floor = narrowest * jnp.sqrt(1 + k * k)
    turn = jnp.where(at.sigma > 0, turn, 0)
    most_turn = jnp.maximum(at.theta_radius - floor, 0)
    unsure = clear(n, k, at.sigma)
    growth = (1 + jnp.sqrt(1 + k * k)) / 2
    if interval.rule == "robust":
        # The median of (1 - r) yhat + r x moves by r at most from (1 - r) times the old one, and so does MAD.
        growth, unsure = 1 + jnp.float32(1.4827) * k, unsure * (2 + 3 * k)
    # The median and MAD may move with any mean, however few arms are pulled.
    spread = (1 + 3 * k) * jnp.sqrt(jnp.float32(n)) if interval.rule == "robust" else jnp.sqrt(1 + k * k)
    return Statistics(at, unsure, least, widest, growth, turn, most_turn, 1 / spread)


@formula
def within_sweep(now: Statistics, sure: Array, most: Array, place: Array, moves: Array) -> Array:
    """Returns how many of the next arms can surely be pulled before an overlap ``sure`` of one arm is used up: int32.

    Each mean moves by at most ``most``; see ``Statistics.firmness``.
    ``place``: how many arms come before the arm with the overlap; ``moves``: its own pull may use up ``moves`` times
    ``most`` of it.
    """
    n = now.at.overlap.shape[-1]
    some = jnp.where((now.at.sigma > 0) & (most > now.at.sigma), 0, sure - now.turn * most)
    still = (jnp.maximum(some, sure - now.most_turn) / most - now.at.theta_radius) * now.firmness
    own = still - moves * now.firmness
    before, after = (whole(jnp.float32(n) * jnp.square(jnp.maximum(x, 0))) for x in (still, own))
    return jnp.maximum(jnp.minimum(before, place), after)


def active(interval: Interval, seen: Seen, now: Statistics, unit: float, matters: Array) -> Array:
    """Returns which arms are active (equation 2), bool (n,): where float32 is not sure, exactly if it ``matters``."""
    careful = rarely(lambda interval, seen: interval.active(seen, unit), light=True)
    found: Array = careful(matters, now.at.overlap > 0, interval, seen)
    return found


def any_active(interval: Interval, seen: Seen, unit: float, likely: Array, unclear: Array) -> Array:
    """Returns whether any arm is active (bool): as is ``likely`` by float32, or where it is ``unclear``, exactly."""
    careful = rarely(lambda interval, seen: jnp.any(interval.active(seen, unit)), light=True)
    found: Array = careful(unclear, likely, interval, seen)
    return found


def outliers(interval: Interval, seen: Seen, unit: float, matters: Array | bool = True) -> Array:
    """Returns the estimated outliers (equation 3), bool (n,): where float32 is not sure, exactly if it ``matters``."""
    now = evaluate(interval, seen, jnp.float32(1), unit)
    close = jnp.any(jnp.abs(now.at.excess) <= now.unsure) & (now.at.sigma > 0) & matters
    careful = rarely(lambda interval, seen: interval.outliers(seen, unit), light=True)
    found: Array = careful(close, (now.at.excess > 0) & (now.at.sigma > 0), interval, seen)
    return found


@formula
def whole(x: Array) -> Array:
    """Returns the integer part of ``x`` >= 0 as int32, at most 2^24, a little low so that rounding certifies
    nothing."""
    return jnp.minimum(x * jnp.float32(1 - 1e-5), jnp.float32(2**24)).astype(jnp.int32)
