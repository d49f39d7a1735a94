"""Gamma = E[gamma] / E[chi] of Explore-Exploit for every rule (t, need) at once, and the rule that maximises it.

Cheng et al. 2010, sections 5.3 to 5.5 and appendix C.3. A rule is a pair (t, need) with 0 <= need <= t (``rules.py``).
All that Gamma asks of the sc-pdf are the expected binomial probabilities ``A[n, m] = E[C(n, m) p^m (1-p)^(n-m)]``. One
matrix product gives them for the largest n, and each smaller n follows from the next by dropping one clean at random.
No step subtracts, so a result is good to a few rounding errors.

Given p, a visit removes p times as many values as it makes cleans, on average (Wald's identity: a clean is decided on
before its outcome is known). So E[chi] is E[gamma] with the weights f(p) / p in place of f(p).
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxbandit.cleaning.cells import Floats, Ints, common_shape, midpoints, problem
from jaxbandit.cleaning.rules import rules
from jaxbandit.devices import float64
from jaxbandit.errors import BadInput
from jaxbandit.parsers import is_real, whole
from jaxbandit.xla.options import ShortRun

if TYPE_CHECKING:
    from jaxtyping import Float64, Int32

Objective = Literal["lemma3", "exact"]

_SLACK = 1e-9  # relative: E[r] and E[p] are rounded sums, and 18.999999999999996 is 19
_T_LIMIT = 1024  # the largest t that is tried without being asked for by name


class Tuned(NamedTuple):
    """The best rule (t, q) of EE for each problem, as ``tune`` finds it.

    t: cleans of the exploration.
    need: ceil(t q), the successes that lead to exploitation.
    q: the smallest q of the grid with ceil(t q) = need.
    gamma: false values removed per clean, by the chosen objective.

    Example:
        >>> from jaxbandit import cleaning
        >>> laws = [cleaning.Uniform().cells(0.01), cleaning.Beta(5, 2).cells(0.01)]
        >>> best = cleaning.tune(laws, cleaning.uniform_false_values(0, 9) / 10, 0.01)
        >>> best.t.tolist(), best.gamma.round(3).tolist()  # of each law
        ([4, 6], [0.637, 0.76])
        >>> cleaning.ee(int(best.t[0]), float(best.q[0]))
        EE(t=4, need=4, early_stopping=True)
    """

    t: Int32[Ints, "*problems"]
    need: Int32[Ints, "*problems"]
    q: Float64[Floats, "*problems"]
    gamma: Float64[Floats, "*problems"]


def _sum_from(x: Array) -> Array:
    """Sums, for each k, the entries from k on, along the last axis."""
    return lax.cumsum(x, axis=x.ndim - 1, reverse=True)


def _sum_below(x: Array) -> Array:
    """Sums, for each k, the entries before k, along the last axis."""
    return jnp.pad(jnp.cumsum(x, -1)[..., :-1], [(0, 0)] * (x.ndim - 1) + [(1, 0)])


def _binomials(weights: Array, t_max: int) -> Array:
    """Computes ``A: [t_max + 1, k, t_max + 1]``, by n, weight and m and 0 where m > n, from ``weights: [k, M]``."""
    p, m = midpoints(weights.shape[-1])[:, None], jnp.arange(t_max + 1)
    log_choose = jnp.cumsum(jnp.log(jnp.where(m > 0, (t_max + 1 - m) / jnp.maximum(m, 1), 1.0)))
    top = weights @ jnp.exp(log_choose + m * jnp.log(p) + (t_max - m) * jnp.log1p(-p))

    def drop(row: Array, n: Array) -> tuple[Array, Array]:
        """Returns the row of n - 1 cleans from that of n: one of them at random is left out, a failure or a success."""
        failure, success = row * jnp.maximum(n - m, 0), jnp.pad(row[:, 1:], ((0, 0), (0, 1))) * (m + 1)
        row = (failure + success) / n
        return row, row

    rows = lax.scan(drop, top, jnp.arange(t_max, 0, -1))[1]
    return jnp.concatenate([rows[::-1], top[None]])


def _removed(a: Array, false_values: Array, early_stopping: bool) -> Array:
    """Computes the expected false values removed in a visit, ``[t_max + 1, t_max + 1]`` by t and need, for ``a[n, m]``.

    Three kinds of visits add to it: those that meet need, and so remove all r; those of entities with r < need, which
    are clean after r successes; and those of other entities that are given up after m < need successes.

    Only r >= 1 counts: the weight of r = 0 is multiplied by 0. The scale of ``false_values`` cancels in Gamma.
    """
    size = a.shape[-1]
    n, m = jnp.arange(size)[:, None], jnp.arange(size)
    r = jnp.arange(false_values.shape[-1])

    def fit(x: Array) -> Array:
        return jnp.pad(x, (0, size))[:size]

    exactly, more = fit(false_values), fit(_sum_from(false_values)[1:])  # P(r = m) and P(r > m)
    at_least = _sum_from(a)  # P(at least m successes in n cleans)
    kept = fit(_sum_from(r * false_values)) * at_least  # r >= need, and need is met
    if not early_stopping:
        return kept + _sum_below(m * (exactly * at_least + more * a))
    # ``n`` counts the failures that end the exploration: t - need + 1. An entity with m < need false values is finished
    # if its m-th success comes before the n-th failure, so within n + m - 1 cleans. One with more is given up with m
    # successes if the n-th failure is clean n + m: any of these is the last with the same chance, so a share n / (n +
    # m) of all orders ends with a failure.
    last = jnp.minimum(n + m, size - 1)
    finished = at_least[jnp.maximum(last - 1, 0), m]
    given_up = a[last, m] * n / jnp.maximum(n + m, 1)
    lost = _sum_below(m * (exactly * finished + more * given_up))
    failures = jnp.clip(n - m + 1, 0, size - 1)  # by t and need, which ``n`` and ``m`` count here
    return kept + lost[failures, m]


def _gain_and_cost(cells: Array, false_values: Array, t_max: int, early_stopping: bool) -> tuple[Array, Array]:
    """Computes E[gamma] and E[chi], ``[t_max, t_max + 1]`` each by t - 1 and need."""
    weights = jnp.stack([cells, cells / midpoints(cells.shape[-1])])
    a = _binomials(weights, t_max)
    gain, cost = (_removed(a[:, k], false_values, early_stopping)[1:] for k in (0, 1))
    return gain, cost


def _exact(cells: Array, false_values: Array, t_max: int, early_stopping: bool) -> Array:
    """Computes ``gamma_exact`` of one problem, ``[t_max, t_max + 1]``; it means nothing where need > t."""
    gain, cost = _gain_and_cost(cells, false_values, t_max, early_stopping)
    return gain / cost


def _printed(cells: Array, false_values: Array, t_max: int) -> Array:
    """Computes ``gamma_printed`` of one problem, ``[t_max, t_max + 1]``; it means nothing where need > t."""
    p, m = midpoints(cells.shape[-1]), jnp.arange(t_max + 1)
    t = m[1:, None]
    mean = false_values @ jnp.arange(false_values.shape[-1])
    a = _binomials(jnp.stack([cells, cells / p]), t_max)[1:]

    def clean(pmf: Array, t: Array) -> tuple[Array, Array]:
        pmf = pmf * (1 - p) + jnp.pad(pmf[:-1], ((1, 0), (0, 0))) * p
        return pmf, pmf @ (cells * jnp.minimum(t * p, mean))

    start = jnp.zeros((t_max + 1, p.size)).at[0].set(1)
    explored = lax.scan(clean, start, m[1:])[1]  # E[E_t(p); m successes], Eq. 7
    possible = mean > (m - 1) * (1 + _SLACK)  # Eq. 6
    explored_only = jnp.stack([explored, a[:, 0]])
    removed, ended = jnp.where(possible, _sum_below(explored_only), explored_only.sum(-1, keepdims=True))
    exploited, cleans = jnp.where(possible, _sum_from(a.swapaxes(0, 1)), 0.0)  # P and E[1/p] of m >= need
    gamma: Array = (removed + exploited * mean) / (ended * t + cleans * mean)  # Eq. 4 and 5
    return gamma


def _gamma(cells: Array, false_values: Array, t_max: int, objective: Objective, early_stopping: bool) -> Array:
    if objective == "exact":
        return _exact(cells, false_values, t_max, early_stopping)
    return _printed(cells, false_values, t_max)


@partial(jax.jit, static_argnames=("t_max", "objective", "early_stopping"))
def _tensor(cells: Array, false_values: Array, *, t_max: int, objective: Objective, early_stopping: bool) -> Array:
    one = partial(_gamma, t_max=t_max, objective=objective, early_stopping=early_stopping)
    valid = jnp.arange(t_max + 1) <= jnp.arange(1, t_max + 1)[:, None]
    tensor: Array = lax.map(
        lambda x: jnp.where(valid, one(*x), jnp.nan), (cells, false_values), batch_size=_chunk(t_max)
    )
    return tensor


@partial(ShortRun, static_argnames=("t_max", "objective", "early_stopping"))
def _best(
    cells: Array,
    false_values: Array,
    t_hat: Array,
    t: Array,
    need: Array,
    *,
    t_max: int,
    objective: Objective,
    early_stopping: bool,
) -> tuple[Array, Array]:
    # Gamma is a ratio of sums of M terms, none negative, over products of t_max factors: this bounds its rounding.
    tie = 4 * (cells.shape[-1] + 8 * t_max) * np.finfo(np.float64).eps

    def one(cells: Array, false_values: Array, t_hat: Array) -> tuple[Array, Array]:
        gamma = _gamma(cells, false_values, t_max, objective, early_stopping)[t - 1, need]
        gamma = jnp.where(t <= t_hat, gamma, -jnp.inf)
        first = jnp.argmax(gamma >= gamma.max() * (1 - tie))
        return first, gamma[first]

    return jax.vmap(one)(cells, false_values, t_hat)


def _chunk(t_max: int) -> int:
    """Returns how many problems are computed at a time: about 200 MB of temporaries."""
    return max(1, 2**21 // (t_max + 1) ** 2)


def power_of_two(n: int) -> int:
    """Returns the smallest power of two that is at least ``n``."""
    return 1 << (n - 1).bit_length()


def _flat(cells: ArrayLike, false_values: ArrayLike) -> tuple[tuple[int, ...], Floats, Floats]:
    pdf, counts = problem(cells, false_values)
    shape = common_shape(cells=pdf.shape[:-1], false_values=counts.shape[:-1])

    def flat(x: Floats) -> Floats:
        return np.broadcast_to(x, shape + x.shape[-1:]).reshape(-1, x.shape[-1])

    return shape, flat(pdf), flat(counts)


def _evaluate(
    cells: ArrayLike, false_values: ArrayLike, t_max: int, objective: Objective, early_stopping: bool
) -> Floats:
    t_max = whole(1, 2**31 - 1)("t_max", t_max)
    shape, pdf, counts = _flat(cells, false_values)
    with float64():
        gamma = _tensor(pdf, counts, t_max=t_max, objective=objective, early_stopping=early_stopping)
        return np.asarray(gamma).reshape(*shape, t_max, t_max + 1)


def gamma_printed(cells: ArrayLike, false_values: ArrayLike, t_max: int) -> Float64[Floats, "*problems T T+1"]:
    """Computes Gamma by Lemma 3 as printed (Cheng et al. 2010, Eq. 4 to 7; Eq. 6 with the ceil(tq) of appendix C.3).

    E[r] is the mean over all entities, those without a false value too (section 5.3). Early stopping plays no part.

    Args:
        cells: float[..., M], the probability of each of M equal cells of [0, 1] under the sc-pdf. Integrals are sums
            over the midpoints, so 1/p stays finite where need = 0, but it grows with M if the pdf has mass at 0.
        false_values: float[..., R + 1], the distribution of r over 0 to R. Leading dimensions broadcast.
        t_max: the largest t.

    Returns:
        float64[..., t_max, t_max + 1], the false values removed per clean at [t - 1, need]; nan where need > t.

    Raises:
        BadInput: not probabilities, no entity with a false value, or shapes that do not go together.

    Example:
        >>> from jaxbandit import cleaning
        >>> cells = cleaning.Uniform().cells(0.01)
        >>> weights = cleaning.uniform_false_values(0, 9) / 10
        >>> cleaning.gamma_printed(cells, weights, 5).shape
        (5, 6)
    """
    return _evaluate(cells, false_values, t_max, "lemma3", False)


def gamma_exact(
    cells: ArrayLike, false_values: ArrayLike, t_max: int, *, early_stopping: bool = True
) -> Float64[Floats, "*problems T T+1"]:
    """Computes Gamma of a full visit (Cheng et al. 2010, Eq. 2 for Algorithm 2) for the distribution of r, given r >=
    1.

    With early stopping (section 5.5) the exploration ends at once when need can no longer be met in t cleans, that is
    after t - need + 1 failures; ``early_stopping`` says whether. ``cells``, ``false_values``, ``t_max``, the result and
    the errors are those of ``gamma_printed``.

    Example:
        >>> from jaxbandit import cleaning
        >>> cells = cleaning.Uniform().cells(0.01)
        >>> weights = cleaning.uniform_false_values(0, 9) / 10
        >>> cleaning.gamma_exact(cells, weights, 5).shape
        (5, 6)
    """
    return _evaluate(cells, false_values, t_max, "exact", early_stopping)


def largest_t(cells: Floats, false_values: Floats) -> Ints:
    """Computes t_hat = floor(E[r] / E[p]), at least 1, of each problem (Eq. 8, E[r] over all entities); see
    ``tune``."""
    mean_p = cells @ ((np.arange(cells.shape[-1]) + 0.5) / cells.shape[-1])
    mean_r = false_values @ np.arange(false_values.shape[-1])
    largest: Ints = np.maximum(np.floor(mean_r / mean_p * (1 + _SLACK)), 1).astype(np.int32)
    return largest


_visits = ShortRun(_gain_and_cost, static_argnames=("t_max", "early_stopping"))


def visits(
    t_max: int, cells: ArrayLike, false_values: ArrayLike, *, early_stopping: bool = True
) -> tuple[Floats, Floats]:
    """Computes what a full visit removes and how many cleans it takes, in expectation: E[gamma] and E[chi] of Eq. 2.

    Both count an entity without a false value, which is not visited, as 0: so they are means over all entities.

    Args:
        t_max: the largest t. Programs are compiled per power of two of it.
        cells, false_values, early_stopping: as for ``gamma_exact``, of one problem.

    Returns:
        float64[t_max, t_max + 1] each, at [t - 1, need]; where need > t they mean nothing.

    Raises:
        BadInput: as ``gamma_exact``.
    """
    pdf, counts = problem(cells, false_values)
    with float64():
        found = _visits(pdf, counts, t_max=max(16, power_of_two(t_max)), early_stopping=early_stopping)
        gain, cost = (np.asarray(x)[:t_max, : t_max + 1] for x in found)
        return gain, cost


def visit(
    t: int, need: int, cells: ArrayLike, false_values: ArrayLike, *, early_stopping: bool = True
) -> tuple[float, float]:
    """Returns ``visits`` for one rule, 0 <= need <= t and t at least 1; BadInput for a rule out of range too."""
    if not 1 <= t <= _T_LIMIT:
        raise BadInput("t", t, f"1 to {_T_LIMIT}")
    if not 0 <= need <= t:
        raise BadInput("need", need, "0 to t")
    gain, cost = visits(t, cells, false_values, early_stopping=early_stopping)
    return float(gain[t - 1, need]), float(cost[t - 1, need])


def tune(
    cells: ArrayLike,
    false_values: ArrayLike,
    delta: float,
    objective: Objective = "exact",
    *,
    early_stopping: bool = True,
    t_max: int | None = None,
) -> Tuned:
    """Finds the rule (t, q) of the largest Gamma (Cheng et al. 2010, section 5.4), for each of many problems.

    t runs over 1 to t_hat = floor(E[r] / E[p]) (Eq. 8, E[r] over all entities), at least 1; q over the grid {0, delta,
    2 delta, ..., 1}. Ties, to within rounding, go to the smallest q, then to the smallest t.

    Args:
        cells: float[..., M] with M = ceil(1 / delta); see ``gamma_printed``.
        false_values: float[..., R + 1], the distribution of r over 0 to R. Leading dimensions broadcast.
        delta: the step of the grid of q, in (0, 1]; read as the nearest fraction of denominator up to a million.
        objective: "exact" for ``gamma_exact``, "lemma3" for ``gamma_printed``, as the paper has it.
        early_stopping: for "exact" only.
        t_max: a limit on t. Without one, the largest t_hat. Programs are compiled per power of two of it.

    Raises:
        BadInput: as ``gamma_printed``; M does not fit delta; t_hat above 1024 and no ``t_max`` given.

    Example:
        >>> from jaxbandit import cleaning
        >>> cells = cleaning.Uniform().cells(0.01)
        >>> weights = cleaning.uniform_false_values(0, 9) / 10
        >>> best = cleaning.tune(cells, weights, 0.01)
        >>> int(best.t), int(best.need)
        (4, 4)
    """
    if objective not in ("lemma3", "exact"):
        raise BadInput("objective", objective, "one of lemma3, exact")
    if not is_real(delta) or not 0 < delta <= 1:
        raise BadInput("delta", delta, "a number in (0, 1]")
    step = Fraction(float(delta)).limit_denominator(1_000_000)
    shape, pdf, counts = _flat(cells, false_values)
    if step == 0 or pdf.shape[-1] != ceil(1 / step):
        raise BadInput("cells", pdf.shape, f"the last dimension must be ceil(1 / delta) with delta = {delta!r}")
    if pdf.shape[0] == 0:
        raise BadInput("cells", pdf.shape, "at least one problem")
    t_hat = largest_t(pdf, counts)
    if t_max is None and t_hat.max() > _T_LIMIT:
        raise BadInput("t_hat", int(t_hat.max()), f"above {_T_LIMIT}: give a t_max")
    t_hat = np.minimum(t_hat, t_hat.max() if t_max is None else t_max)
    if t_hat.min() < 1:
        raise BadInput("t_max", t_max, "at least 1")
    # Few programs, not one for each t_hat: a power of two each, on blocks of one size.
    tops = np.array([max(16, power_of_two(x)) for x in t_hat.tolist()])
    count = len(pdf)
    best = Tuned(np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count), np.empty(count))
    for top in np.unique(tops).tolist():
        t, need, q = rules(step, top)
        rows = np.flatnonzero(tops == top)
        block = min(_chunk(top), power_of_two(count))
        for start in range(0, len(rows), block):
            part = rows[start : start + block]
            full = np.resize(part, block)
            some = pdf[full], counts[full], t_hat[full]
            with float64():
                out = _best(*some, t, need, t_max=top, objective=objective, early_stopping=early_stopping)
            first, gamma = (np.asarray(x)[: len(part)] for x in out)
            best.t[part], best.need[part], best.q[part], best.gamma[part] = t[first], need[first], q[first], gamma
    return Tuned(best.t.reshape(shape), best.need.reshape(shape), best.q.reshape(shape), best.gamma.reshape(shape))
