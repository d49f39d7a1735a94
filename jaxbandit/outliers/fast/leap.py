"""Leaps: certified batches of pulls. Between two events nothing is decided, so these are drawn in bulk.

After e_i more pulls of each arm, and at any time before, every empirical mean lies in (1 - r) yhat + r [0, 1] with
r = max e_i / (m_i + e_i). So whatever the rewards were,

    theta_hat stays within (1 - r) theta_hat + r [min, max] of mean(x) + k std(x) over x in [0, 1]^n,
    |yhat_i - theta_hat| grows to at most (1 - r) |yhat_i - theta_hat| + r (1 + sqrt(1 + k^2)) / 2,

as sigma is a seminorm; and a radius shrinks at most by the factor 1 - r, since delta' only falls. With
x = r / (1 - r) = max e_i / m_i, a gap that is below a radius by some margin stays below it while x times what it can
lose is below the margin. That is a certificate for a leap; where it gives none, one pull is made. The end of a leap is
evaluated as the state after any pull is, so a leap changes no answer and no stopping time.

Evaluations are in float32, and trusted where they are clear. Where they are not, the rule's own decide.
"""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.outliers.intervals import Estimates, Interval
from jaxbandit.outliers.record import Seen
from jaxbandit.xla.fence import rarely

S = TypeVar("S")


def clear(n: int, k: Array, sigma: Array) -> Array:
    """From which distance on float32 tells a mean from the threshold, radii counted in: several times its error.

    Means are summed in units of 2^-bits; what that does to sigma grows with 1 / sigma.
    """
    unit = 2.0 ** -(30 - (n - 1).bit_length())
    least: Array = 2.0**-20 + (2 + k) * jnp.float32(unit) * (1 + 1 / jnp.maximum(sigma, jnp.float32(1e-3)))
    return least


def select(condition: Array, yes: S, no: S) -> S:
    """One of two states."""
    chosen: S = jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
    return chosen


def low_bits(count: Array) -> Array:
    """A mask of the lowest ``count`` bits, 0 to 32: uint32."""
    some = (jnp.uint32(1) << jnp.minimum(count, 31).astype(jnp.uint32)) - 1
    return jnp.where(count >= 32, jnp.uint32(0xFFFFFFFF), some)


def cyclic(n: int, cursor: Array) -> Array:
    """The place of each arm, 0 to n - 1, in the order that begins at ``cursor``: int32, shape (n,)."""
    after = jnp.arange(n, dtype=jnp.int32) - cursor
    return jnp.where(after < 0, after + n, after)


class Statistics(NamedTuple):
    """What a leaping k-sigma rule knows of its state. float32.

    ``at``: the estimates; ``unsure``: the distance that float32 cannot be trusted below; ``least``: the fewest pulls of
    an arm; ``widest``: no arm's radius is above it; ``growth``: by how much an active arm's overlap can shrink, times
    x, by what becomes of the means; ``turn``: the part of it that the threshold's radius has; ``spread``: by how much
    the threshold can move, over the root mean square of the moves of the means.
    """

    at: Estimates
    unsure: Array
    least: Array
    widest: Array
    growth: Array
    turn: Array
    spread: Array


def evaluate(of: Interval, seen: Seen, log_term: Array, unit: float) -> Statistics:
    """The statistics after any pull but the first n."""
    assert of.k is not None
    n, k = seen.pulls.shape[-1], jnp.asarray(of.k.hi)
    at = of.estimates(seen, log_term, unit)
    least = jnp.maximum(jnp.min(seen.pulls), 1).astype(jnp.float32)
    widest = jnp.sqrt(log_term / (4 * least))
    safe = jnp.where(at.sigma > 0, at.sigma, 1)
    if of.rule == "robust" or of.name == "bounded":
        turn = jnp.zeros_like(least)
    elif of.name == "bernoulli":
        # sqrt(sigma) may grow to sqrt(sigma + r / 2).
        turn = at.theta_radius * (1 + 1 / (4 * safe))
    else:
        # The direction of y - mu turns by at most x / (2 sigma), which is at most 1/2.
        turn = widest * k * jnp.float32(1.04) / (2 * safe * jnp.sqrt(jnp.float32(n)))
    turn = jnp.where(at.sigma > 0, turn, 0)
    unsure = clear(n, k, at.sigma)
    growth = (1 + jnp.sqrt(1 + k * k)) / 2 + turn
    if of.rule == "robust":
        # The median of (1 - r) yhat + r x moves by r at most from (1 - r) times the old one, and so does MAD.
        growth, unsure = 1 + jnp.float32(1.4827) * k, unsure * (2 + 3 * k)
    # The median and MAD may move with any mean, however few arms are pulled.
    spread = (1 + 3 * k) * jnp.sqrt(jnp.float32(n)) if of.rule == "robust" else jnp.sqrt(1 + k * k)
    return Statistics(at, unsure, least, widest, growth, turn, spread)


def within_sweep(now: Statistics, sure: Array, most: Array, place: Array, moves: Array) -> Array:
    """Of the next arms in turn, how many can surely be pulled before an overlap ``sure`` of one arm is used up: int32.

    Each mean moves by at most ``most``, and the threshold by ``now.spread`` times the arms' root mean square move.
    ``place``: how many arms come before the one whose overlap it is; ``moves``: what its own pulls may take, times
    ``most``.
    """
    n = now.at.overlap.shape[-1]
    spread = now.spread
    still = (sure / most - now.at.theta_radius - now.turn) / spread
    still = jnp.where((now.at.sigma > 0) & (most > now.at.sigma), 0, still)
    own = still - moves / spread
    before, after = (whole(jnp.float32(n) * jnp.square(jnp.maximum(x, 0))) for x in (still, own))
    return jnp.maximum(jnp.minimum(before, place), after)


def active(of: Interval, seen: Seen, now: Statistics, unit: float, matters: Array) -> Array:
    """Which arms are active (Eq. 2), bool (n,): right where float32 is sure, and everywhere where ``matters``."""
    careful = rarely(lambda of, seen: of.active(seen, unit))
    found: Array = careful(matters, now.at.overlap > 0, of, seen)
    return found


def outliers(of: Interval, seen: Seen, unit: float, matters: Array | bool = True) -> Array:
    """The set of Eq. 3: bool (n,), right where it ``matters``. None where all means are equal."""
    now = evaluate(of, seen, jnp.float32(1), unit)
    close = jnp.any(jnp.abs(now.at.excess) <= now.unsure) & (now.at.sigma > 0) & matters
    careful = rarely(lambda of, seen: of.outliers(seen, unit))
    found: Array = careful(close, (now.at.excess > 0) & (now.at.sigma > 0), of, seen)
    return found


def whole(x: Array) -> Array:
    """The integer part of ``x`` >= 0 as int32, at most 2^24, taken a little low so that rounding certifies nothing."""
    return jnp.minimum(x * jnp.float32(1 - 1e-5), jnp.float32(2**24)).astype(jnp.int32)
