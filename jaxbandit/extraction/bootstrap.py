"""The bootstrap of a sample's frequency counts: n of its n answers drawn again, each time any of them.

A resample is exact: each of the n draws takes one word and falls to an entity by integers alone. Whose entity is whose
does not matter, so it too is frequency counts. It costs the product of answers and distinct entities, in vectors.
"""

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxbandit.extraction.estimators import Estimator, chao92_shen
from jaxbandit.random.draws import LARGEST, scale
from jaxbandit.random.fence import once_in_blocks as fenced
from jaxbandit.random.stream import Stream, words
from jaxbandit.random.trials import over_lanes

_DRAWS, _ENTITIES = 32, 64
"""Draws and entities that are compared at a time."""


def before(f: Array) -> Array:
    """How many entities are in the columns before each one: int32, of the shape of ``f`` (..., V)."""
    column = jnp.arange(f.shape[-1])
    earlier = (column[:, None] < column[None, :]).astype(jnp.float32)
    return (f.astype(jnp.float32) @ earlier).astype(jnp.int32)


def resampled(key: Stream, f: Array, sizes: Array, copies: int, columns: int) -> tuple[Array, Array]:
    """Bootstrap samples of some samples, as frequency counts.

    Args:
        key: of each sample, (samples,). The draws of its copy c are the words (n, index) with index = c, copies + c,
            2 copies + c ...: two draws each.
        f: int32 (samples, V), its frequency counts.
        sizes: int32 (V,) or (samples, V), the i of each column f_i, all different.
        copies: how many resamples (static).
        columns: of the result, which are of the sizes 1 ... ``columns`` (static).

    Returns:
        int32 (samples, copies, columns); and bool (samples,), whether no entity came up more often than there are
        columns.
    """
    sizes = jnp.broadcast_to(sizes, f.shape)
    n, distinct = jnp.sum(f * sizes, axis=1), jnp.sum(f, axis=1)
    longest, most = over_lanes(jnp.max(n, initial=0)), over_lanes(jnp.max(distinct, initial=0))
    below = fenced(before(f))
    bounds = Stream(key.high[:, None, None], key.low[:, None, None])
    copy = jnp.arange(copies, dtype=jnp.int32)
    size = jnp.arange(1, columns + 1, dtype=jnp.int32)

    def entities(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """The next entities in the order of the columns: how often each is drawn."""
        first, found, fits = carry
        rank = first + jnp.arange(_ENTITIES, dtype=jnp.int32)
        times, start = jnp.zeros((2, f.shape[0], _ENTITIES), jnp.int32)
        for v in range(f.shape[1]):
            within = rank - below[:, v, None]
            mine = (within >= 0) & (within < f[:, v, None])
            times += jnp.where(mine, sizes[:, v, None], 0)
            start += sizes[:, v, None] * jnp.clip(within, 0, f[:, v, None])
        times, start = fenced(times), fenced(start)

        def draws(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            done, count = carry
            number = done + jnp.arange(_DRAWS, dtype=jnp.int32)[:, None]
            index = (number[::2] // 2) * copies + copy
            pair = jnp.stack(words(bounds, n[:, None, None], index), axis=2)
            place = scale(pair.reshape(f.shape[0], _DRAWS, copies), n[:, None, None])
            place = fenced(jnp.where(number < n[:, None, None], place, LARGEST))
            for i in range(_DRAWS):
                # Unsigned, so that what lies before an entity's answers is far beyond them.
                inside = (place[:, i, :, None] - start[:, None, :]).astype(jnp.uint32) < times[:, None, :].astype(
                    jnp.uint32
                )
                count += inside.astype(jnp.int32)
            return done + _DRAWS, count

        none = jnp.zeros((f.shape[0], copies, _ENTITIES), jnp.int32)
        _, count = lax.while_loop(lambda carry: carry[0] < longest, draws, (jnp.int32(0), none))
        for e in range(_ENTITIES):
            found += (count[:, :, e, None] == size).astype(jnp.int32)
        return first + _ENTITIES, found, fits & jnp.all(count <= columns, axis=(1, 2))

    nothing = (jnp.int32(0), jnp.zeros((f.shape[0], copies, columns), jnp.int32), jnp.ones(f.shape[0], bool))
    _, found, fits = lax.while_loop(lambda carry: carry[0] < most, entities, nothing)
    return found, fits


def spread(gains: Array) -> tuple[Array, Array]:
    """The mean of gains over the first axis, and their variance: the mean squared distance from it."""
    mean = jnp.sum(gains, axis=0) / gains.shape[0]
    return mean, jnp.sum((gains - mean) ** 2, axis=0) / gains.shape[0]


def bootstrap_variance(
    key: Stream,
    f: Array,
    m: ArrayLike,
    estimator: Estimator = chao92_shen,
    copies: int = 10,
    columns: int | None = None,
) -> Array:
    """v_q of "Balancing Exploration and Exploitation", before its floor: the variance of an estimated gain.

    Args:
        key: scalars.
        f: int32 (samples, F), frequency counts f_1 ... f_F.
        m: further answers, a whole number.
        estimator: of the gain, one of ``estimators.ESTIMATORS``.
        copies: how many bootstrap samples, at least 1.
        columns: of a resample's frequency counts, 4 F where left out: an entity that comes up more often than that
            does not count in it.

    Returns:
        float32 (samples,).
    """
    own = Stream(*words(key, 0, jnp.arange(f.shape[0])))
    sizes = jnp.arange(1, f.shape[1] + 1, dtype=jnp.int32)
    again, _ = resampled(own, f, sizes, copies, columns or 4 * f.shape[1])
    return spread(jnp.moveaxis(estimator(again, m, None), 1, 0))[1]
