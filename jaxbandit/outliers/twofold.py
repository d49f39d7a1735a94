"""Numbers of two float32: what a rule looks at where float32 alone cannot tell two values apart.

The sum of ``hi`` and ``lo``, to about 44 bits. Only exact products are ever added to, so a compiler that contracts a
product and a sum into one rounding changes nothing. Dekker, "A floating-point technique for extending the available
precision", Numer. Math. 18, 1971.
"""

from dataclasses import dataclass
from typing import Union

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

Number = Union[Array, "Twofold"]
"""What a formula of this family computes on: float32, or two of them."""


def _fast(a: Array, b: Array) -> "Twofold":
    """a + b exactly, where |a| >= |b|."""
    total = a + b
    return Twofold(total, b - (total - a))


def _sum(a: Array, b: Array) -> "Twofold":
    """a + b exactly."""
    total = a + b
    part = total - a
    return Twofold(total, (a - (total - part)) + (b - part))


def _halves(a: Array) -> tuple[Array, Array]:
    """a as a sum of two parts of at most 12 bits each, whose products are exact."""
    high = lax.bitcast_convert_type(lax.bitcast_convert_type(a, jnp.uint32) & jnp.uint32(0xFFFFF000), jnp.float32)
    return high, a - high


def _product(a: Array, b: Array) -> "Twofold":
    """a b, to 2^-46."""
    (ah, al), (bh, bl) = _halves(a), _halves(b)
    cross = _sum(ah * bl, al * bh)
    top = _sum(ah * bh, cross.hi)
    return _fast(top.hi, top.lo + (cross.lo + al * bl))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Twofold:
    """``hi`` + ``lo``: float32 arrays of one shape, |lo| at most half a unit in the last place of hi."""

    hi: Array
    lo: Array

    @classmethod
    def of(cls, value: float | np.ndarray) -> "Twofold":
        """From float64 on the host."""
        hi = np.asarray(value, np.float64).astype(np.float32)
        lo = (np.asarray(value, np.float64) - hi.astype(np.float64)).astype(np.float32)
        return cls(hi, lo)  # type: ignore[arg-type]

    @classmethod
    def whole(cls, value: Array) -> "Twofold":
        """From int32, exactly."""
        top = value & jnp.int32(~0xFFF)
        return _fast(top.astype(jnp.float32), (value - top).astype(jnp.float32))

    def __neg__(self) -> "Twofold":
        return Twofold(-self.hi, -self.lo)

    def __add__(self, other: "Twofold") -> "Twofold":
        high, low = _sum(self.hi, other.hi), _sum(self.lo, other.lo)
        high = _fast(high.hi, high.lo + low.hi)
        return _fast(high.hi, high.lo + low.lo)

    def __sub__(self, other: "Twofold") -> "Twofold":
        return self + -other

    def __mul__(self, other: "Twofold") -> "Twofold":
        top = _product(self.hi, other.hi)
        cross = _product(self.hi, other.lo) + _product(self.lo, other.hi)
        return top + cross

    def __truediv__(self, other: "Twofold") -> "Twofold":
        first = self.hi / other.hi
        rest = self - other * _alone(first)
        second = rest.hi / other.hi
        rest = rest - other * _alone(second)
        return _alone(first) + _fast(second, rest.hi / other.hi)

    def __abs__(self) -> "Twofold":
        return where(self.hi < 0, -self, self)

    def sqrt(self) -> "Twofold":
        """The square root; 0 of what is not above 0."""
        positive = self.hi > 0
        root = jnp.sqrt(jnp.where(positive, self.hi, 1))
        rest = self - _product(root, root)
        full = _fast(root, rest.hi / (2 * root))
        return where(positive, full, Twofold(jnp.zeros_like(root), jnp.zeros_like(root)))

    def sum(self) -> "Twofold":
        """Along the last axis."""
        values, size = self, self.hi.shape[-1]
        while size > 1:
            half = size // 2
            first, second = (jax.tree.map(lambda x, s=s: x[..., s], values) for s in _parts(size, half))
            added = first + second
            rest = jax.tree.map(lambda x, h=half, n=size: x[..., 2 * h : n], values)
            values = jax.tree.map(lambda a, b: jnp.concatenate([a, b], -1), added, rest)
            size = values.hi.shape[-1]
        return Twofold(values.hi[..., 0], values.lo[..., 0])


def _parts(size: int, half: int) -> tuple[slice, slice]:
    return slice(0, half), slice(half, 2 * half)


def _alone(a: Array) -> Twofold:
    return Twofold(a, jnp.zeros_like(a))


def where(condition: Array, yes: Twofold, no: Twofold) -> Twofold:
    """One of two."""
    return Twofold(jnp.where(condition, yes.hi, no.hi), jnp.where(condition, yes.lo, no.lo))
