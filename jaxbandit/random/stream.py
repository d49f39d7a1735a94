"""Streams of random words that have addresses.

A word depends on the seed, the run, what it is for, and which draw it is; on nothing else. Not on the place of
the lane in a batch, the size of the batch, the chunk or the device. So results do not change when a study is cut,
moved or resumed, and two policies with the same run number meet the same instance.

The block function is threefry2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
SC 2011), bit-equal to JAX's own, but written out round by round, so that it is compiled with its surroundings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxbandit.parsers import whole

if TYPE_CHECKING:
    from jaxtyping import UInt32

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


class Stream(NamedTuple):
    """The key of a stream; of scalars for one lane.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import random
        >>> keys = random.stream(0, jnp.arange(3))  # of runs 0, 1 and 2
        >>> alone = random.Stream(keys.high[2], keys.low[2])  # of run 2
        >>> bool(random.words(alone, 1, 0)[0] == random.words(keys, 1, 0)[0][2])
        True
    """

    high: UInt32[Array, "*lanes"]
    low: UInt32[Array, "*lanes"]


def _u32(value: ArrayLike) -> Array | np.ndarray:
    # A number of the host needs no operation on a device.
    return (value if isinstance(value, Array) else np.asarray(value)).astype(np.uint32)


def block(key: Stream, high: ArrayLike, low: ArrayLike) -> tuple[UInt32[Array, " ..."], UInt32[Array, " ..."]]:
    """Returns two words of 32 bits at the counter (``high``, ``low``) under ``key``: threefry2x32, 20 rounds.

    All arguments are taken as uint32 and broadcast. Returns two uint32 arrays.

    Example:
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> first, second = random.block(key, 0, 0)
        >>> first.dtype
        dtype('uint32')
    """
    found: tuple[Array, Array] = _threefry(*key, _u32(high), _u32(low))
    return found


@jax.jit
def _threefry(first: Array, second: Array, high: Array, low: Array) -> tuple[Array, Array]:
    """Computes a block. It is a function of its own so that JAX traces it once."""
    k = first, second, first ^ second ^ np.uint32(_PARITY)
    x, y = high + k[0], low + k[1]
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            x = x + y
            y = ((y << np.uint32(turn)) | (y >> np.uint32(32 - turn))) ^ x
        x = x + k[(group + 1) % 3]
        y = y + (k[(group + 2) % 3] + np.uint32(group + 1))
    return x, y


def stream(seed: ArrayLike, run: ArrayLike) -> Stream:
    """Returns the stream of run number ``run`` under ``seed``: both are unsigned and of 32 bits.

    Raises:
        BadInput: for a single number that is no whole one of 32 bits; arrays are taken as uint32.

    Example:
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> key.high.dtype
        dtype('uint32')
    """
    for name, value in (("seed", seed), ("run", run)):
        if np.isscalar(value):
            whole(0, 2**32 - 1)(name, value)
    high, low = jnp.broadcast_arrays(jnp.asarray(_u32(seed)), jnp.asarray(_u32(run)))
    return Stream(high, low)


def substream(key: Stream, purpose: ArrayLike, index: ArrayLike = 0) -> Stream:
    """Returns a stream of its own for one purpose, with all 64 bits of counter free again.

    The counter's top bit tells a derived key from a word, so a purpose below 2^31 serves both without a clash.
    ``index`` numbers the streams of one purpose.

    Example:
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> other = random.substream(key, 3)
        >>> other.high.dtype
        dtype('uint32')
    """
    return Stream(*block(key, _u32(purpose) | np.uint32(0x80000000), index))


def words(key: Stream, purpose: ArrayLike, index: ArrayLike) -> tuple[UInt32[Array, " ..."], UInt32[Array, " ..."]]:
    """Returns the pair of uint32 words number ``index`` drawn from ``key`` for ``purpose`` (below 2^31).

    Example:
        >>> from jaxbandit import random
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> first, second = random.words(key, 1, 0)
        >>> first.dtype
        dtype('uint32')
    """
    pair: tuple[Array, Array] = block(key, purpose, index)
    return pair
