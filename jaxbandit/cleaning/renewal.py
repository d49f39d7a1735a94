"""What an Explore-Exploit run removes on a finite budget: exact mean and standard deviation, without sampling.

An EE run (Cheng et al. 2010, Algorithm 2) visits fresh entities one after another until the budget or the entities run
out. With P the law of a visit's cost (a power series whose n-th coefficient is the chance of n cleans) and h(d) the
chance that a visit makes its d-th clean and that it succeeds, the mean rate of successes at clean n is a coefficient of
``h * starts``, where ``starts`` counts the visits that begin after n cleans:

- entities without end: 1 / (1 - P), a renewal process (Feller, An Introduction to Probability Theory I, chapter XIII);
- n independent entities: 1 + P + ... + P^(n-1) = (1 - P^n) / (1 - P); of N entities of which each has a false value
  with probability a, (1 - (1 - a + a P)^N) / (1 - P);
- the entities of a table, each with its own r and so its own P_i, in random order: give each a time, uniform on [0, 1],
  and visit them by their times. Those before time x are then independent of each other, so that an entity's rate is the
  integral over x of h_i times the product of 1 - x + x P_j over all others. It is a polynomial in x, which
  Gauss-Legendre quadrature integrates.

All series are evaluated on a circle of the complex plane, multiplied and divided point by point, and transformed back.
The circle's radius is below 1, so that what lies beyond the budget does not fold back into it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxbandit.cleaning.cells import Floats, common_shape, midpoints, problem
from jaxbandit.cleaning.gamma import power_of_two
from jaxbandit.cleaning.given import numbers, whole_numbers
from jaxbandit.devices import float64
from jaxbandit.errors import BadInput
from jaxbandit.parsers import whole

if TYPE_CHECKING:
    from jaxtyping import Float64

_WRAP = 4
"""Points on the circle for each clean of the budget."""

_FOLD = 1e-14
"""A coefficient that is one turn of the circle beyond another is added to it, damped by this factor. To undo the
damping within the budget makes rounding errors larger, by 1 over the factor's ``_WRAP``-th root at most."""

_NODES = 200
"""The most nodes of the quadrature."""

_NEED, _EACH = "whole numbers from 0 to t", "a list of whole numbers of at least 0, one of each entity"


class Removed(NamedTuple):
    """The false values that a run removes on each budget 0 to C.

    mean: the expected number.
    std: its standard deviation over runs.

    Example:
        >>> from jaxbandit import cleaning
        >>> cells, weights = cleaning.Uniform().cells(0.01), cleaning.uniform_false_values(0, 9) / 10
        >>> removed = cleaning.expected_removed(50, 3, 2, cells, weights)
        >>> [f"{removed.mean[budget]:.1f} +- {removed.std[budget]:.1f}" for budget in (10, 50)]
        ['5.7 +- 2.1', '28.0 +- 5.7']
    """

    mean: Float64[Floats, "*problems budgets"]
    std: Float64[Floats, "*problems budgets"]


class _Visit(NamedTuple):
    """The laws of a visit by clean number 0 to L - 1 and kind of entity; ``gain`` is what the visit has removed."""

    ends: Array  # P(the visit ends here)
    total: Array  # E[gain; the visit ends here]
    success: Array  # P(this clean is made and succeeds)
    square: Array  # E[growth of gain^2 here]


def _visit(t: Array, need: Array, cells: Array, kinds: Array, *, length: int, early_stopping: bool) -> _Visit:
    """Computes the laws of one visit, ``[length, kinds]``, by a scan over cleans k that carries two things for each
    number of successes s.

    ``kinds``: [R, kinds], a distribution of r = 1 to R for each. ``pmf`` is the binomial probability of s in k for each
    p. ``kept`` is the fraction of the orders of s successes and k - s failures that the exploration does not reject: it
    depends neither on p nor on r.
    """
    p, s = midpoints(cells.shape[-1]), jnp.arange(kinds.shape[0])
    more = lax.cumsum(kinds, axis=0, reverse=True)  # P(r > s)

    def clean(carry: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], _Visit]:
        pmf, kept = carry
        pmf = pmf * (1 - p) + jnp.pad(pmf[:-1], ((1, 0), (0, 0))) * p
        mixed = pmf @ cells
        up = mixed[1:] * kept * (s + 1) / k  # reaches s + 1 now, if r > s
        kept = (kept * (k - s) + jnp.pad(kept[:-1], (1, 0)) * s) / k
        rejects = (k <= t) & (t - (k - s) < need) if early_stopping else (k == t) & (s < need)
        dropped = jnp.where(rejects, mixed[:-1] * kept, 0)  # with s successes, if r > s
        ends = _Visit(
            ends=up @ kinds + dropped @ more,
            total=(up * (s + 1)) @ kinds + (dropped * s) @ more,
            success=up @ more,
            square=(up * (2 * s + 1)) @ more,
        )
        return (pmf, jnp.where(rejects, 0, kept)), ends

    start = jnp.zeros((s.size + 1, p.size)).at[0].set(1), jnp.zeros(s.size).at[0].set(1)
    visit = lax.scan(clean, start, jnp.arange(1, length))[1]
    return _Visit(*(jnp.pad(x, ((1, 0), (0, 0))) for x in visit))


def _damping(length: int) -> Array:
    return jnp.asarray(_FOLD) ** (jnp.arange(length) / (_WRAP * length))


def _on_circle(series: Array) -> Array:
    """Evaluates power series, ``[length, ...]``, at points of the circle."""
    length = series.shape[0]
    damped = (series.T * _damping(length)).T
    return jnp.fft.rfft(damped, _WRAP * length, axis=0)


def _moments(rate: Array, square: Array, length: int) -> tuple[Array, Array]:
    """Computes mean and standard deviation after each clean, from the values on the circle of E[R]'s and E[R^2]'s
    growth."""

    def series(values: Array) -> Array:
        return jnp.cumsum(jnp.fft.irfft(values, _WRAP * length)[:length] / _damping(length))

    mean = series(rate)
    return mean, jnp.sqrt(jnp.maximum(series(square) - mean**2, 0))


@partial(jax.jit, static_argnames=("length", "early_stopping"))
def _removed(
    t: Array, need: Array, cells: Array, false_values: Array, entities: Array, *, length: int, early_stopping: bool
) -> tuple[Array, Array]:
    """Computes the moments for independent entities; they have no end where ``entities`` is infinite."""

    @partial(jnp.vectorize, signature="(),(),(m),(r),()->(c),(c)")
    def one(t: Array, need: Array, cells: Array, false_values: Array, entities: Array) -> tuple[Array, Array]:
        share = false_values[1:].sum()
        visit = _visit(
            t, need, cells, false_values[1:, None] / share, length=length, early_stopping=early_stopping
        )  # fmt: skip
        ends, total, success, square = (_on_circle(x[:, 0]) for x in visit)
        ending, count = jnp.isfinite(entities), jnp.where(jnp.isfinite(entities), entities, 1)
        left = 1 - share + share * ends
        others = jnp.where(ending, left ** (count - 1), 0)
        starts = (1 - left * others) / (1 - ends)
        # E[R^2]: a visit that has ended adds 2 gain E[what follows] to its own square.
        after = (starts - count * share * others) / (1 - ends)
        return _moments(success * starts, square * starts + 2 * total * success * after, length)

    law: tuple[Array, Array] = one(t, need, cells, false_values, entities)
    return law


@partial(jax.jit, static_argnames=("length", "early_stopping"))
def _removed_of_table(
    t: Array, need: Array, cells: Array, kinds: Array, counts: Array, nodes: Array, weights: Array,
    *, length: int, early_stopping: bool,
) -> tuple[Array, Array]:  # fmt: skip
    """Computes the moments for a table. ``counts``: [kinds], how many entities there are of each; ``nodes`` and
    ``weights``: of the quadrature."""
    visit = _visit(t, need, cells, kinds, length=length, early_stopping=early_stopping)
    ends, total, success, square = (_on_circle(x) for x in visit)

    def add(sums: tuple[Array, Array], node: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        x, weight = node
        left = 1 - x + x * ends
        others = weight * jnp.exp(jnp.log(left) @ counts)
        each = counts / left
        rate, gain = (each * success).sum(-1), (each * total).sum(-1)
        own, twice = (each * square).sum(-1), (each / left * success * total).sum(-1)
        return (sums[0] + others * rate, sums[1] + others * (own + 2 * x * (rate * gain - twice))), None

    zero = jnp.zeros(ends.shape[0], ends.dtype)
    rate, growth = lax.scan(add, (zero, zero), (nodes, weights))[0]
    return _moments(rate, growth, length)


def expected_removed(
    budget: int,
    t: ArrayLike,
    need: ArrayLike,
    cells: ArrayLike,
    false_values: ArrayLike,
    *,
    early_stopping: bool = True,
    entities: ArrayLike = np.inf,
) -> Removed:
    """Computes mean and standard deviation of the false values that EE removes, for every budget up to ``budget``.

    Exact for entities with independent (p, r), where p is the midpoint of a cell; only those with r >= 1 are visited.
    Where much of an sc-pdf's mass is in one cell, smaller ones are needed: with Beta(0.05, 4), r = 4, t = 5, need = 2
    and 30 entities, a budget of 100 removes 1.7 % less by cells of 0.0001 than by those of 0.001. The effectiveness of
    the paper's Eq. 1 is ``mean[..., C] / C``.

    Args:
        budget: the largest budget, in cleans. Programs are compiled per power of two of it.
        t: int[...], cleans of the exploration, at least 1.
        need: int[...], successes among them that lead to exploitation, 0 to t: ceil(t q).
        cells: float[..., M], probabilities of M equal cells of [0, 1] under the sc-pdf; p sits at the midpoints.
        false_values: float[..., R + 1], the distribution of r over 0 to R. All leading dimensions broadcast.
        early_stopping: drop an entity as soon as ``need`` cannot be met (section 5.5).
        entities: number[...], at least 1: how many there are, those with r = 0 counted in; by default without end.

    Raises:
        BadInput: an argument out of range, not probabilities, no entity with a false value, or shapes that clash.

    Example:
        >>> from jaxbandit import cleaning
        >>> cells = cleaning.Uniform().cells(0.01)
        >>> weights = cleaning.uniform_false_values(0, 9) / 10
        >>> removed = cleaning.expected_removed(50, 3, 2, cells, weights)
        >>> removed.mean.shape
        (51,)
    """
    pdf, counts = problem(cells, false_values)
    number = numbers("entities", entities, "numbers of at least 1")
    shapes = {"cells": pdf.shape[:-1], "false_values": counts.shape[:-1], "entities": number.shape}
    tries, successes = _exploration(t, need, **shapes)
    length = _length(budget)
    if not (number >= 1).all():
        raise BadInput("entities", entities, "at least 1")
    with float64():
        mean, std = _removed(tries, successes, pdf, counts, number, length=length, early_stopping=early_stopping)
        return Removed(*(np.asarray(x)[..., : budget + 1] for x in (mean, std)))


def expected_removed_of_table(
    budget: int, t: int, need: int, cells: ArrayLike, false_values: ArrayLike, *, early_stopping: bool = True
) -> Removed:
    """Computes what ``expected_removed`` does, for the entities of a table, each visited once, in random order.

    Args:
        budget, t, need, early_stopping: as for ``expected_removed``.
        cells: float[M], as there.
        false_values: int[entities], how many each entity has; those with none are not visited.

    Raises:
        BadInput: as ``expected_removed``.

    Example:
        >>> from jaxbandit import cleaning
        >>> cells = cleaning.Uniform().cells(0.01)
        >>> weights = cleaning.uniform_false_values(0, 9) / 10
        >>> removed = cleaning.expected_removed_of_table(20, 3, 2, cells, [2, 0, 5])
        >>> removed.mean.shape
        (21,)
    """
    each = whole_numbers("false_values", false_values, _EACH)
    if each.ndim != 1 or not each.size or (each < 0).any():
        raise BadInput("false_values", each.tolist(), _EACH)
    found = np.bincount(each)
    pdf, _ = problem(cells, found / found.sum())
    tries, successes = _exploration(t, need)
    length = _length(budget)
    held = np.flatnonzero(found[1:])
    counts = found[1:][held].astype(np.float64)
    # A polynomial of degree entities - 1; of many entities a smooth function with its mass near the ends.
    most = int(counts.sum())
    nodes, weights = np.polynomial.legendre.leggauss(min(most // 2 + 1, _NODES))
    with float64():
        mean, std = _removed_of_table(
            tries, successes, pdf, np.eye(found.size - 1)[:, held], counts, (nodes + 1) / 2, weights / 2,
            length=length, early_stopping=early_stopping,
        )  # fmt: skip
        return Removed(np.asarray(mean)[: budget + 1], np.asarray(std)[: budget + 1])


def _exploration(t: ArrayLike, need: ArrayLike, **shapes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Checks the cleans of an exploration and the successes that are needed, and returns them as int64."""
    tries, successes = whole_numbers("t", t, "whole numbers of at least 1"), whole_numbers("need", need, _NEED)
    if not (tries >= 1).all():
        raise BadInput("t", tries.tolist(), "whole numbers of at least 1")
    common_shape(t=tries.shape, need=successes.shape, **shapes)
    if not ((successes >= 0) & (successes <= tries)).all():
        raise BadInput("need", successes.tolist(), _NEED)
    return tries, successes


def _length(budget: int) -> int:
    """Returns the size of the series."""
    return max(16, power_of_two(whole(0, 2**31 - 2)("budget", budget) + 1))
