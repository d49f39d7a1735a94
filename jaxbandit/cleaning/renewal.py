"""What an Explore-Exploit run removes on a finite budget: exact mean and standard deviation, without sampling.

An EE run (Cheng et al. 2010, Algorithm 2) visits fresh entities one after another, so on a supply that does not run
out it is a renewal process cut at the budget. With P the law of a visit's cost and h(d) the chance that a visit makes
its d-th clean and that it succeeds, the mean rate at clean n is r = h + P * r (Feller, An Introduction to Probability
Theory I, chapter XIII). The series 1 / (1 - P) is found by Newton's iteration on Fourier products.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxbandit.cleaning.gamma import Floats, common_shape, midpoints, power_of_two, problem
from jaxbandit.errors import BadInput


class Removed(NamedTuple):
    """False values removed by a run on each budget 0 to C: float64[..., C + 1] each.

    mean: the expected number.
    std: its standard deviation over runs.
    """

    mean: Floats
    std: Floats


class _Visit(NamedTuple):
    """By clean number 0 to L - 1 of a visit; ``gain`` is what the visit has removed."""

    ends: Array  # P(the visit ends here)
    total: Array  # E[gain; the visit ends here]
    success: Array  # P(this clean is made and succeeds)
    square: Array  # E[growth of gain^2 here]


def _visit(t: Array, need: Array, cells: Array, false_values: Array, *, length: int, early_stopping: bool) -> _Visit:
    """The laws of one visit: a walk over cleans k that carries two things for each number of successes s.

    ``pmf`` is the binomial probability of s in k for each p. ``kept`` is the fraction of the orders of s successes and
    k - s failures that the exploration does not reject: it depends neither on p nor on r.
    """
    p, s = midpoints(cells.shape[-1]), jnp.arange(false_values.shape[-1] - 1)
    counts = false_values[1:] / false_values[1:].sum()  # P(r = s + 1), given r >= 1
    more = lax.cumsum(counts, reverse=True)  # P(r > s)

    def clean(carry: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], _Visit]:
        pmf, kept = carry
        pmf = pmf * (1 - p) + jnp.pad(pmf[:-1], ((1, 0), (0, 0))) * p
        mixed = pmf @ cells
        up = mixed[1:] * kept * (s + 1) / k  # reaches s + 1 now, if r > s
        kept = (kept * (k - s) + jnp.pad(kept[:-1], (1, 0)) * s) / k
        rejects = (k <= t) & (t - (k - s) < need) if early_stopping else (k == t) & (s < need)
        dropped = jnp.where(rejects, mixed[:-1] * kept * more, 0)
        ends = _Visit(
            ends=up @ counts + dropped.sum(),
            total=(up * (s + 1)) @ counts + dropped @ s,
            success=up @ more,
            square=(up * (2 * s + 1)) @ more,
        )
        return (pmf, jnp.where(rejects, 0, kept)), ends

    start = jnp.zeros((s.size + 1, p.size)).at[0].set(1), jnp.zeros(s.size).at[0].set(1)
    visit = lax.scan(clean, start, jnp.arange(1, length))[1]
    return _Visit(*(jnp.pad(x, (1, 0)) for x in visit))


def _convolve(a: Array, b: Array) -> Array:
    n = a.shape[-1]
    return jnp.fft.irfft(jnp.fft.rfft(a, 2 * n) * jnp.fft.rfft(b, 2 * n), 2 * n)[:n]


def _reciprocal(a: Array) -> Array:
    """The power series 1 / a, for a[0] = 1 and a length that is a power of two."""
    b = jnp.ones(1)
    while b.size < a.size:
        b = jnp.pad(b, (0, b.size))
        b = _convolve(b, jnp.zeros(b.size).at[0].set(2) - _convolve(a[: b.size], b))
    return b


@partial(jax.jit, static_argnames=("length", "early_stopping"))
def _removed(
    t: Array, need: Array, cells: Array, false_values: Array, *, length: int, early_stopping: bool
) -> tuple[Array, Array]:
    @partial(jnp.vectorize, signature="(),(),(m),(r)->(c),(c)")
    def one(t: Array, need: Array, cells: Array, false_values: Array) -> tuple[Array, Array]:
        visit = _visit(t, need, cells, false_values, length=length, early_stopping=early_stopping)
        starts = _reciprocal((-visit.ends).at[0].set(1))  # P(a visit begins after n cleans)
        rate = _convolve(starts, visit.success)
        # E[R^2]: a visit that has ended adds 2 gain E[what follows] to its own square.
        square = _convolve(starts, visit.square + 2 * _convolve(visit.total, rate))
        mean = jnp.cumsum(rate)
        return mean, jnp.sqrt(jnp.maximum(jnp.cumsum(square) - mean**2, 0))

    law: tuple[Array, Array] = one(t, need, cells, false_values)
    return law


def expected_removed(
    budget: int,
    t: ArrayLike,
    need: ArrayLike,
    cells: ArrayLike,
    false_values: ArrayLike,
    *,
    early_stopping: bool = True,
) -> Removed:
    """Mean and standard deviation of the false values that EE removes, for every budget up to ``budget``.

    Exact for a practically unlimited supply of entities with independent (p, r); only those with r >= 1 are visited.
    The effectiveness of the paper's Eq. 1 is ``mean[..., C] / C``.

    Args:
        budget: the largest budget, in cleans. Programs are compiled per power of two of it.
        t: int[...], cleans of the exploration, at least 1.
        need: int[...], successes among them that lead to exploitation, 0 to t: ceil(t q).
        cells: float[..., M], probabilities of M equal cells of [0, 1] under the sc-pdf; p sits at the midpoints.
        false_values: float[..., R + 1], the distribution of r over 0 to R. All leading dimensions broadcast.
        early_stopping: drop an entity as soon as ``need`` is out of reach (section 5.5).

    Raises:
        BadInput: an argument out of range, not probabilities, no entity with a false value, or shapes that clash.
    """
    pdf, counts = problem(cells, false_values)
    tries, successes = np.asarray(t), np.asarray(need)
    common_shape(t=tries.shape, need=successes.shape, cells=pdf.shape[:-1], false_values=counts.shape[:-1])
    if budget < 0:
        raise BadInput("budget", budget, "at least 0")
    if not (tries >= 1).all():
        raise BadInput("t", t, "at least 1")
    if not ((successes >= 0) & (successes <= tries)).all():
        raise BadInput("need", need, "0 to t")
    length = max(16, power_of_two(budget + 1))
    with jax.enable_x64(True):
        mean, std = _removed(tries, successes, pdf, counts, length=length, early_stopping=early_stopping)
        return Removed(*(np.asarray(x)[..., : budget + 1] for x in (mean, std)))
