"""The best use of an entity whose p is not known: go on or give up, by the record so far.

An entity with s successes, f failures and ``left`` false values is worked on while that is worth its price, ``level``
false values per clean. Its optimal value is ::

    V(s, f, left) = max(0, -level + P (1 + V(s+1, f, left-1)) + (1-P) V(s, f+1, left)),    P = E[p | s, f]

and its index is the level at which going on is worth exactly nothing: the largest ratio of expected false values
removed to expected cleans over all rules that make at least one clean (Gittins and Jones 1974, with a budget in place
of a discount). This is no part of Cheng et al. 2010, whose section 3 gives the model.

Cut at a horizon of N cleans of an entity, where the rule either gives up or finishes it, come what may: that is worth
``left (1 - level E[1/p | s, f])``. So each value is that of a rule one can follow: never too high, and exact at level
0. At most R of the N cleans have succeeded, so at levels well above R / N nothing but giving up is in question there
and the cut is immaterial. To make sure, double the horizon and compare.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxbandit.cleaning.cells import Floats, Ints, common_shape, distribution, midpoints, problem
from jaxbandit.cleaning.given import law_of, weights_of
from jaxbandit.devices import float64
from jaxbandit.errors import BadInput
from jaxbandit.laws import Law

if TYPE_CHECKING:
    from jaxtyping import Float64, Int32

NEVER = int(np.iinfo(np.int32).max)  # allowed failures of an entity that is not given up within the table

MOST_INDEXED = 256
"""The most false values of an entity for which tables of ``index`` are made: they grow with its square."""

DELTA = 0.001
"""The precision of section 5.4, at which expectations are computed too."""

_LEVELS = 1024  # prices tried for an index


class Level(NamedTuple):
    """The worth of a clean when a budget is spent in the best way.

    level: false values per clean; 0 if the budget pays for everything.
    removed: expected false values removed in total.
    effectiveness: ``removed`` per clean of the budget (Cheng et al. 2010, Eq. 1).

    Example:
        >>> from jaxbandit import cleaning
        >>> cells, weights = cleaning.Uniform().cells(0.01), cleaning.uniform_false_values(0, 9) / 10
        >>> best = cleaning.level_for_budget(cells, weights, 100, [50, 100])
        >>> best.level.round(3).tolist(), best.removed.round(1).tolist()  # of each budget
        ([0.681, 0.668], [34.4, 68.1])
    """

    level: Float64[Floats, "*problems"]
    removed: Float64[Floats, "*problems"]
    effectiveness: Float64[Floats, "*problems"]


def _posterior(cells: Array, size: int, horizon: int) -> tuple[Array, Array]:
    """Computes E[p | s, n - s] as ``[horizon, size]`` by n and s < size; E[1/p | s, horizon - s] as ``[size]``.

    Softmax scales the weights p^s (1-p)^f by the largest of them: f may be in the thousands.
    """
    p, s = midpoints(cells.shape[-1]), jnp.arange(size)[:, None]

    def weights(n: Array | int) -> Array:
        return jax.nn.softmax(jnp.log(cells) + s * jnp.log(p) + jnp.maximum(n - s, 0) * jnp.log1p(-p))

    return lax.map(lambda n: weights(n) @ p, jnp.arange(horizon)), weights(horizon) @ (1 / p)


class _Table(NamedTuple):
    """The value of the best rule, by ``[..., left, s]`` with left = 0 to R and s = 0 to R - 1."""

    worth: Array  # E[removed] - level E[cleans]
    cleans: Array  # E[cleans]


def _end(level: Array, inverse: Array) -> _Table:
    """Takes the better choice at the horizon: finish the entity or give it up."""
    left = jnp.arange(inverse.size + 1)[:, None]
    return _best(_Table(left * (1 - level * inverse), left * inverse))


def _best(go: _Table) -> _Table:
    """Keeps going on where that is worth something, else gives up."""
    return _Table(*(jnp.where(go.worth > 0, x, 0) for x in go))


def _go(level: Array, mean: Array, after: _Table) -> _Table:
    """Evaluates going on after n cleans, from the best rule after n + 1. At left = 0 there is nothing to go on with."""

    def mix(table: Array, success: int) -> Array:
        up = jnp.pad(table[..., :-1, 1:], [(0, 0)] * (table.ndim - 2) + [(1, 0), (0, 1)])
        return mean * (success + up) + (1 - mean) * table

    left = jnp.arange(mean.size + 1)[:, None]
    return _Table(jnp.where(left > 0, mix(after.worth, 1) - level, 0), 1 + mix(after.cleans, 0))


def _by_failures(table: Array, failures: int) -> Array:
    """Reorders ``[n, left, s]`` to ``[left, s, f]``, where n = s + f."""
    s = jnp.arange(table.shape[-1])[:, None]
    return jnp.moveaxis(table[s + jnp.arange(failures + 1), :, s], 2, 0)


@partial(jax.jit, static_argnames=("size", "failures", "horizon"))
def _index(cells: Array, *, size: int, failures: int, horizon: int) -> Array:
    # Squares: indices fall like 1 / f, so the low end must be the denser.
    level = ((jnp.arange(_LEVELS) / _LEVELS) ** 2)[:, None, None]

    def step(after: _Table, mean: Array) -> tuple[_Table, None]:
        return _best(_go(level, mean, after)), None

    def ratio(after: _Table, mean: Array) -> tuple[_Table, Array]:
        go = _go(level, mean, after)
        return _best(go), (level + go.worth / go.cleans).max(0)  # E[removed] / E[cleans] of one rule a level

    @partial(jnp.vectorize, signature="(m)->(l,s,f)")
    def one(cells: Array) -> Array:
        mean, inverse = _posterior(cells, size, horizon)
        after = lax.scan(step, _end(level, inverse), mean[failures + size :], reverse=True)[0]
        ratios = lax.scan(ratio, after, mean[: failures + size], reverse=True)[1]
        left, s = jnp.arange(size + 1)[:, None], jnp.arange(size)
        return jnp.where(((left > 0) & (left + s <= size))[..., None], _by_failures(ratios, failures), 0)

    index: Array = one(cells)
    return index


@partial(jax.jit, static_argnames=("size", "failures", "horizon"))
def _allowed(cells: Array, level: Array, *, size: int, failures: int, horizon: int) -> Array:
    @partial(jnp.vectorize, signature="(m),()->(r,s)")
    def one(cells: Array, level: Array) -> Array:
        def step(after: _Table, mean: Array) -> tuple[_Table, Array]:
            go = _go(level, mean, after)
            return _best(go), go.worth > 0

        mean, inverse = _posterior(cells, size, horizon)
        on = lax.scan(step, _end(level, inverse), mean, reverse=True)[1]
        runs = jnp.cumprod(_by_failures(on, failures).astype(jnp.int32), -1).sum(-1)
        runs = jnp.where(runs > failures, NEVER, runs)
        r, s = jnp.arange(size + 1)[:, None], jnp.arange(size)
        return jnp.where(s < r, runs[jnp.maximum(r - s, 0), s], 0).astype(jnp.int32)

    table: Array = one(cells, level)
    return table


@partial(jax.jit, static_argnames=("horizon",))
def _level(cells: Array, false_values: Array, entities: Array, budget: Array, *, horizon: int) -> tuple[Array, Array]:
    @partial(jnp.vectorize, signature="(m),(r),(),()->(),()")
    def one(cells: Array, false_values: Array, entities: Array, budget: Array) -> tuple[Array, Array]:
        mean, inverse = _posterior(cells, false_values.size - 1, horizon)

        def fresh(level: Array) -> tuple[Array, Array]:
            """Returns the worth and the cleans of all entities, untried."""
            table = lax.scan(lambda x, m: (_best(_go(level, m, x)), None), _end(level, inverse), mean, reverse=True)[0]
            return entities * (false_values @ table.worth[:, 0]), entities * (false_values @ table.cleans[:, 0])

        def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = (ends[0] + ends[1]) / 2
            over = fresh(middle)[1] > budget
            return jnp.where(over, middle, ends[0]), jnp.where(over, ends[1], middle)

        zero = jnp.zeros(())
        level = lax.fori_loop(0, 50, halve, (zero, jnp.ones(())))[1]
        level = jnp.where(fresh(zero)[1] > budget, level, zero)
        return level, fresh(level)[0] + level * budget

    found: tuple[Array, Array] = one(cells, false_values, entities, budget)
    return found


def _sizes(false_values: int, failures: int, horizon: int | None) -> dict[str, int]:
    if false_values < 1:
        raise BadInput("max_false_values", false_values, "at least 1")
    if failures < 0:
        raise BadInput("max_failures", failures, "at least 0")
    least = failures + false_values
    if horizon is not None and horizon < least:
        raise BadInput("horizon", horizon, f"at least max_failures + max_false_values = {least}")
    return {"size": false_values, "failures": failures, "horizon": 8 * least if horizon is None else horizon}


def stopping_index(
    cells: ArrayLike, max_false_values: int, max_failures: int = 64, *, horizon: int | None = None
) -> Float64[Floats, "*problems left s f"]:
    """Computes the index of an entity by its record: expected false values removed per clean, under the best stopping
    rule.

    Args:
        cells: float[..., M], probabilities of M equal cells of [0, 1] under the sc-pdf; p sits at the midpoints.
        max_false_values: R.
        max_failures: F, the last f of the table.
        horizon: N, cleans of an entity after which it is finished or given up; by default 8 (F + R).

    Returns:
        float64[..., R + 1, R, F + 1] at [left, s, f]; 0 where left = 0 or left + s > R. It is the best ratio
        of 1024 rules, each optimal at one level: never too high, and too low by less than 1e-4.

    Raises:
        BadInput: not probabilities, or a size out of range.

    Example:
        >>> from jaxbandit import cleaning
        >>> cells = cleaning.Uniform().cells(0.01)
        >>> weights = cleaning.uniform_false_values(0, 9) / 10
        >>> index = cleaning.stopping_index(cells, 3, 8)
        >>> index.dtype
        dtype('float64')
    """
    pdf = distribution("cells", cells)
    sizes = _sizes(max_false_values, max_failures, horizon)
    with float64():
        return np.asarray(_index(pdf, **sizes))


def allowed_failures(
    cells: ArrayLike, level: ArrayLike, max_false_values: int, max_failures: int = 64, *, horizon: int | None = None
) -> Int32[Ints, "*problems rows R"]:
    """Computes how many failures an entity may have before it is given up: go on while f is below the entry.

    Args:
        cells: float[..., M], as for ``stopping_index``; so are ``max_failures`` and ``horizon``.
        level: float[...], the price of a clean, 0 to 1 false values. Leading dimensions broadcast.
        max_false_values: R.

    Returns:
        int32[..., R + 1, R] at [r, s] for an entity that began with r false values and has lost s; ``NEVER`` if it is
        not given up at any f up to ``max_failures``, 0 where s >= r.

    Raises:
        BadInput: as ``stopping_index``, or a level out of range.

    Example:
        >>> from jaxbandit import cleaning
        >>> cells = cleaning.Uniform().cells(0.01)
        >>> weights = cleaning.uniform_false_values(0, 9) / 10
        >>> cleaning.allowed_failures(cells, 0.6, 3, 8).dtype
        dtype('int32')
    """
    pdf = distribution("cells", cells)
    sizes = _sizes(max_false_values, max_failures, horizon)
    price = np.asarray(level, np.float64)
    if not ((price >= 0) & (price <= 1)).all():
        raise BadInput("level", level, "0 to 1")
    common_shape(cells=pdf.shape[:-1], level=price.shape)
    with float64():
        return np.asarray(_allowed(pdf, price, **sizes))


def ladder(level: float) -> np.ndarray:
    """Returns the levels of a run whose budget ends at about ``level``: float64, descending to 0, always 18 of them.

    The step below ``level`` is slight: it is often the very index of a class of fresh entities, part of which the
    budget pays for.
    """
    above = np.geomspace(max(0.9, level), max(level, 1e-3), 8, endpoint=False)
    below = np.array([1 - 1e-9, 0.98, 0.95, 0.9, 0.8, 0.65, 0.5, 0.3, 0.15, 0.0])
    return np.concatenate([above, level * below])


def level_for_budget(
    cells: ArrayLike, false_values: ArrayLike, entities: ArrayLike, budget: ArrayLike, *, horizon: int = 1024
) -> Level:
    """Finds the level at which the expected cost of treating every entity by the best stopping rule meets the budget.

    This is the minimum over levels of ``entities E[V(0, 0, r)] + level budget``, Lagrange's dual. The expected cost
    jumps at the indices of fresh entities; there the minimum takes part of those entities. ``removed`` is the best for
    a budget met on average, which many entities come near to, and so bounds what any algorithm without knowledge of p
    can remove in expectation from entities with independent (p, r).

    Args:
        cells: float[..., M], as for ``stopping_index``.
        false_values: float[..., R + 1], the distribution of r over 0 to R.
        entities: number[...], at least 1: those with r = 0 count too, unless ``false_values`` leaves them out.
        budget: number[...], above 0, in cleans. All leading dimensions broadcast.
        horizon: N; levels well above R / N do not depend on it.

    Raises:
        BadInput: not probabilities, no entity with a false value, or a number out of range.

    Example:
        >>> from jaxbandit import cleaning
        >>> cells = cleaning.Uniform().cells(0.01)
        >>> weights = cleaning.uniform_false_values(0, 9) / 10
        >>> level = cleaning.level_for_budget(cells, weights, 100, 50)
        >>> bool(0 < level.effectiveness < 1)
        True
    """
    pdf, counts = problem(cells, false_values)
    number, cleans = np.asarray(entities, np.float64), np.asarray(budget, np.float64)
    if not (number >= 1).all():
        raise BadInput("entities", entities, "at least 1")
    if not (cleans > 0).all():
        raise BadInput("budget", budget, "above 0")
    if horizon < 1:
        raise BadInput("horizon", horizon, "at least 1")
    leading = {"cells": pdf.shape[:-1], "false_values": counts.shape[:-1]}
    common_shape(**leading, entities=number.shape, budget=cleans.shape)
    with float64():
        level, removed = (np.asarray(x) for x in _level(pdf, counts, number, cleans, horizon=horizon))
    return Level(level, removed, removed / cleans)


def allowed_at_levels(
    budget: int, entities: int, false_values: np.ndarray, sc_pdf: Law
) -> Int32[Ints, "levels rows R"]:
    """Computes the failures at which ``index`` gives entities up, at [k, r, s] for level k of the ``ladder``, r false
    values at the beginning and s of them lost.

    Args:
        budget, entities, false_values, sc_pdf: the problem, as for ``synthetic``.

    Raises:
        BadInput: for more than ``MOST_INDEXED`` false values.
    """
    weights, sc_pdf = weights_of(false_values), law_of(sc_pdf)
    most = int(np.flatnonzero(weights).max())
    if most > MOST_INDEXED:
        raise BadInput("false_values", f"up to {most}", f"at most {MOST_INDEXED} an entity")
    cells = sc_pdf.cells(DELTA)
    level = level_for_budget(cells, weights / weights.sum(), entities, budget).level
    return allowed_failures(cells, ladder(float(level)), most)
