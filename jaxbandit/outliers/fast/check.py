"""The check of a pull of WRR: whether it ends the arm's turn, as far as float32 tells, by the sums that ``wrr.py``
keeps."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.outliers.fast.leap import clear
from jaxbandit.xla.fence import computed_once


class Start(NamedTuple):
    """Holds constants of a batch from where it begins: ``k`` and l(k) (``scale``); the mean of all means (``middle``);
    the log term, its growth with each pull (``step``) and the relative error of that (``doubt``); whether nothing but
    0, or nothing but 1, was drawn (``even``); all pulls so far (``total``); and the arm ``best`` of the state."""

    k: Array
    scale: Array
    middle: Array
    log_term: Array
    step: Array
    doubt: Array
    even: Array
    total: Array
    best: Array


def features(kind: str, pulls: Array, ones: Array, middle: Array, log_term: Array) -> tuple[Array, ...]:
    """Returns what an arm adds to the sums: z = mean less ``middle``, z^2, and 1 / pulls for the bounded interval, or
    else the squared radius q, q z and q z^2."""
    m, s = pulls.astype(jnp.float32), ones.astype(jnp.float32)
    each = 1 / m
    z = s * each - middle
    if kind == "bounded":
        return z, z * z, each
    q = _bernoulli(m, s, each, log_term)
    return z, z * z, q, q * z, q * z * z


@functools.lru_cache
def checked(kind: str, sides: str, n: int) -> Callable[..., Array]:
    """Returns ``_Check.after`` for these intervals and ``n`` arms, computed once (docs/xla-cpu.md)."""
    once: Callable[..., Array] = computed_once(_Check(kind, (1.0,) if sides == "above" else (1.0, -1.0), n).after)
    return once


class _Level(NamedTuple):
    """Holds the log term ``now``, its ``growth`` since the batch began as a factor, and the relative error of a sum
    (``drift``)."""

    now: Array
    growth: Array
    drift: Array


@dataclass(frozen=True)
class _Check:
    """Checks pulls by intervals of a ``kind`` for ``n`` arms, with a threshold above, and one below where ``signs`` has
    -1."""

    kind: str
    signs: tuple[float, ...]
    n: int

    def after(self, *operands: Array) -> Array:
        """Returns 2 where a pull ends its arm's turn, 4 where float32 does not tell that or whether any arm is active,
        else 0. ``operands``: see ``_Batch._one`` in ``wrr.py``, which has them in this order."""
        n, sums = self.n, 3 if self.kind == "bounded" else 5
        start = Start(*operands[:9])
        total, due, arm, pulls, ones, paid = operands[9:15]
        state, of_best, made = operands[15 : 15 + sums], operands[15 + sums : 15 + 2 * sums], operands[-1]
        k, middle, log_term, doubt = start.k, start.middle, start.log_term, start.doubt
        so_far = (total - start.total + made + 1).astype(jnp.float32)
        now = log_term + start.step * so_far
        old, new = (features(self.kind, *x, middle, log_term) for x in ((pulls, ones), (pulls + 1, ones + paid)))
        z, square, *rest = (x + (b - a) for x, a, b in zip(state, old, new, strict=True))
        mu = z * jnp.float32(1 / n)
        sigma = jnp.sqrt(jnp.maximum(square * jnp.float32(1 / n) - mu * mu, 0))
        turn = 1 / jnp.maximum(sigma, jnp.float32(1e-5))
        drift = jnp.float32(2.0**-21) + so_far * jnp.float32(2.0**-24)
        m, s = (pulls + 1).astype(jnp.float32), (ones + paid).astype(jnp.float32)
        each = 1 / m
        level = _Level(now, now / log_term, drift)
        if self.kind == "bounded":
            half = jnp.float32(0.5) * now
            across = [jnp.sqrt(start.scale * half * rest[0] * jnp.float32(1 / n))] * len(self.signs)
            noise = drift * across[0]
            radius, radius_of_best = jnp.sqrt(half * each), jnp.sqrt(half * of_best[2])
        else:
            radius, radius_of_best = jnp.sqrt(_bernoulli(m, s, each, now)), jnp.sqrt(of_best[2])
            across, noise = self._bernoulli(start, rest, level, mu, turn)
        widest = functools.reduce(jnp.maximum, across)
        unsure = jnp.float32(2.0**-19) + clear(n, k, sigma) + drift * (jnp.abs(mu) + k * sigma) + noise
        unsure = unsure + (radius + radius_of_best) * doubt + widest * ((level.growth - 1) * jnp.float32(0.25) + doubt)
        unsure = jnp.where(sigma > 1e-5, unsure, jnp.float32(1e9))
        overlap, overlap_of_best = (
            functools.reduce(
                jnp.maximum,
                [
                    mine + beta - jnp.abs(sign * (place - mu) - k * sigma)
                    for sign, beta in zip(self.signs, across, strict=True)
                ],
            )
            for mine, place in ((radius, new[0]), (radius_of_best, of_best[0]))
        )
        overlap_of_best = jnp.where(arm == start.best, overlap, overlap_of_best)
        # Where nothing but 0, or nothing but 1, was drawn, sums of squares are exactly 0, and all arms are active.
        still = start.even & (square == 0)
        full = pulls + 1 >= due
        over = full | ((overlap <= 0) & ~still)
        lives = still | (overlap > unsure) | (overlap_of_best > unsure)
        unclear = (~full & (jnp.abs(overlap) <= unsure) & ~still) | (over & ~lives)
        unclear = unclear | (doubt >= jnp.float32(1e8))
        code: Array = jnp.where(unclear, 4, jnp.where(over, 2, 0))
        return code

    def _bernoulli(
        self, start: Start, rest: list[Array], level: _Level, mu: Array, turn: Array
    ) -> tuple[list[Array], Array]:
        """Returns the radius of each threshold by Bernoulli intervals, and their largest error; ``turn``: 1 / sigma."""
        printed, n = self.kind == "bernoulli", self.n
        # A radius squared grows by a factor from ``growth`` to its square.
        between = level.growth * (level.growth + 1) * jnp.float32(0.5)
        slope = start.k * (jnp.sqrt(turn) if printed else turn)
        across: list[Array] = []
        noise = jnp.zeros_like(mu)
        for sign in self.signs:
            height = 1 + sign * slope * (start.middle if printed else -mu)
            parts = height * height * rest[0], 2 * height * slope * rest[1], slope * slope * rest[2]
            whole = between * jnp.maximum(parts[0] + sign * parts[1] + parts[2], 0)
            size = between * (parts[0] + jnp.abs(parts[1]) + parts[2])
            across.append(jnp.sqrt(whole) * jnp.float32(1 / n))
            least = jnp.maximum(across[-1], jnp.float32(1e-6))
            noise = jnp.maximum(noise, level.drift * size * jnp.float32(1 / n**2) / least)
        return across, noise


def _bernoulli(m: Array, s: Array, each: Array, log_term: Array) -> Array:
    """Returns a radius, squared (see ``Interval.radii``); ``each``: 1 / m."""
    share, half = 1 / (m + log_term), log_term * jnp.float32(0.5)
    found: Array = log_term * each * ((s + half) * share) * ((m - s + half) * share)
    return found
