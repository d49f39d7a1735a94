"""Checks whether a pull of WRR ends the turn of its arm, in a time that does not depend on the number of arms.

The check reads sums over all arms, which ``wrr.py`` keeps up to date. It computes in float32 and bounds its own error.
Where the error could change what it says, it says ``UNCLEAR``, and an evaluation of all arms decides.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.outliers.fast.leap import clear
from jaxbandit.xla.fence import computed_once
from jaxbandit.xla.formula import formula

GOES_ON, ENDS, UNCLEAR = range(3)
"""What a check says of the arm's turn. It is ``UNCLEAR``, too, where the turn ends and perhaps no arm is active."""


class Start(NamedTuple):
    """Holds constants of a batch, as of its beginning: ``k``; l(k) (``width``); the mean of all means (``middle``); the
    log term, by how much it grows with each pull (``step``) and the relative error of that (``doubt``); whether nothing
    but 0, or nothing but 1, was drawn (``even``); all pulls so far (``total``); and the arm ``best`` of the state."""

    k: Array
    width: Array
    middle: Array
    log_term: Array
    step: Array
    doubt: Array
    even: Array
    total: Array
    best: Array


class OnePull(NamedTuple):
    """Holds a pull that is checked (int32): the ``total`` of pulls before its word, the pulls that end the arm's turn
    in any case (``due``), the ``arm``, the arm's ``pulls`` and ``ones`` before this pull, and the ``reward``."""

    total: Array
    due: Array
    arm: Array
    pulls: Array
    ones: Array
    reward: Array


class Features(NamedTuple):
    """Holds what an arm adds to the sums, or the sums (float32): ``z``, the arm's mean less ``Start.middle``; its
    ``square``; ``q``, which is 1 / pulls for the bounded interval, or else the squared radius of the arm's interval;
    q z (``q_z``) and q z^2 (``q_square``), which the bounded interval does not need (None)."""

    z: Array
    square: Array
    q: Array
    q_z: Array | None = None
    q_square: Array | None = None


@formula
def features(kind: str, pulls: Array, ones: Array, middle: Array, log_term: Array) -> Features:
    """Returns what arms with these records add to the sums, for an interval of a ``kind``."""
    m, s = pulls.astype(jnp.float32), ones.astype(jnp.float32)
    inverse = 1 / m
    z = s * inverse - middle
    if kind == "bounded":
        return Features(z, z * z, inverse)
    q = _squared_radius(m, s, log_term)
    return Features(z, z * z, q, q * z, q * z * z)


@functools.lru_cache
def checked(kind: str, sides: str, n: int) -> Callable[..., Array]:
    """Returns ``_Check.after`` for these intervals and ``n`` arms, computed once (docs/xla-cpu.md)."""
    once: Callable[..., Array] = computed_once(
        formula(_Check(kind, (1.0,) if sides == "above" else (1.0, -1.0), n).after)
    )
    return once


class _Now(NamedTuple):
    """Holds estimates after the pull that is checked: ``mu`` (less ``Start.middle``) and ``sigma`` of the means, the
    ``log_term``, by which factor it is above that of the start (``growth``), and the relative error of a sum
    (``sum_error``)."""

    mu: Array
    sigma: Array
    log_term: Array
    growth: Array
    sum_error: Array


@dataclass(frozen=True)
class _Check:
    """Checks pulls by intervals of a ``kind`` for ``n`` arms, with a threshold above (1 in ``signs``), and one below
    where ``signs`` has -1."""

    kind: str
    signs: tuple[float, ...]
    n: int

    def after(self, start: Start, pull: OnePull, sums: Features, best: Features, made: Array) -> Array:
        """Returns ``GOES_ON``, ``ENDS`` or ``UNCLEAR`` (int32).

        ``sums``: over all arms, before the pull; ``best``: what the arm ``start.best`` adds to them; ``made``: the
        pulls since ``pull.total`` was counted.
        """
        pulls, ones = pull.pulls + 1, pull.ones + pull.reward
        old, new = (
            features(self.kind, *record, start.middle, start.log_term)
            for record in ((pull.pulls, pull.ones), (pulls, ones))
        )
        sums = jax.tree.map(lambda total, before, after: total + (after - before), sums, old, new)
        now = self._now(start, sums, (pull.total - start.total + made + 1).astype(jnp.float32))
        radius, radius_of_best = self._radii(now, pulls, ones, best)
        betas, beta_error = self._betas(start, now, sums)

        unsure = jnp.float32(2.0**-19) + clear(self.n, start.k, now.sigma)
        unsure = unsure + now.sum_error * (jnp.abs(now.mu) + start.k * now.sigma) + beta_error
        unsure = unsure + (radius + radius_of_best) * start.doubt
        widest = functools.reduce(jnp.maximum, betas)
        unsure = unsure + widest * ((now.growth - 1) * jnp.float32(0.25) + start.doubt)
        unsure = jnp.where(now.sigma > 1e-5, unsure, jnp.float32(1e9))

        def overlap_of(z: Array, radius: Array) -> Array:
            """Returns by how much the interval of an arm overlaps with that of the nearer threshold."""
            distances = [jnp.abs(sign * (z - now.mu) - start.k * now.sigma) for sign in self.signs]
            overlaps = [radius + beta - distance for beta, distance in zip(betas, distances, strict=True)]
            return functools.reduce(jnp.maximum, overlaps)

        overlap = overlap_of(new.z, radius)
        overlap_of_best = jnp.where(pull.arm == start.best, overlap, overlap_of(best.z, radius_of_best))
        # Where nothing but 0, or nothing but 1, was drawn, sums of squares are exactly 0, and all arms are active.
        all_active = start.even & (sums.square == 0)
        full = pulls >= pull.due
        ends = full | ((overlap <= 0) & ~all_active)
        surely_active = all_active | (overlap > unsure) | (overlap_of_best > unsure)
        unclear = ~full & (jnp.abs(overlap) <= unsure) & ~all_active
        unclear = unclear | (ends & ~surely_active) | (start.doubt >= jnp.float32(1e8))
        code: Array = jnp.where(unclear, UNCLEAR, jnp.where(ends, ENDS, GOES_ON))
        return code

    def _now(self, start: Start, sums: Features, since: Array) -> _Now:
        """Returns the estimates ``since`` so many pulls of the batch, by the sums."""
        mu = sums.z * jnp.float32(1 / self.n)
        sigma = jnp.sqrt(jnp.maximum(sums.square * jnp.float32(1 / self.n) - mu * mu, 0))
        log_term = start.log_term + start.step * since
        sum_error = jnp.float32(2.0**-21) + since * jnp.float32(2.0**-24)
        return _Now(mu, sigma, log_term, log_term / start.log_term, sum_error)

    def _radii(self, now: _Now, pulls: Array, ones: Array, best: Features) -> tuple[Array, Array]:
        """Returns the radius of the arm that was pulled, with its new record, and that of the arm ``best``."""
        m, s = pulls.astype(jnp.float32), ones.astype(jnp.float32)
        if self.kind == "bounded":
            half = jnp.float32(0.5) * now.log_term
            return jnp.sqrt(half * (1 / m)), jnp.sqrt(half * best.q)
        return jnp.sqrt(_squared_radius(m, s, now.log_term)), jnp.sqrt(best.q)

    def _betas(self, start: Start, now: _Now, sums: Features) -> tuple[list[Array], Array]:
        """Returns the radius of each threshold, and a bound on the error of all of them."""
        if self.kind != "bounded":
            return self._bernoulli_betas(start, now, sums)
        half = jnp.float32(0.5) * now.log_term
        beta = jnp.sqrt(start.width * half * sums.q * jnp.float32(1 / self.n))
        return [beta] * len(self.signs), now.sum_error * beta

    def _bernoulli_betas(self, start: Start, now: _Now, sums: Features) -> tuple[list[Array], Array]:
        """Returns the same for Bernoulli intervals.

        The square of a radius is 1/n^2 times the sum of w_i^2 q_i (``Interval.estimates``), where the weight is w_i =
        ``height`` + sign ``slope`` z_i. Its terms of degree 0, 1 and 2 in z are sums over arms times constants.
        """
        assert sums.q_z is not None
        assert sums.q_square is not None
        as_printed = self.kind == "bernoulli"
        # As the log term grows, a squared radius grows by a factor between ``growth`` and its square: this is midway.
        factor = now.growth * (now.growth + 1) * jnp.float32(0.5)
        over_sigma = 1 / jnp.maximum(now.sigma, jnp.float32(1e-5))
        slope = start.k * (jnp.sqrt(over_sigma) if as_printed else over_sigma)
        betas: list[Array] = []
        error = jnp.zeros_like(now.mu)
        for sign in self.signs:
            height = 1 + sign * slope * (start.middle if as_printed else -now.mu)
            constant, linear = height * height * sums.q, 2 * height * slope * sums.q_z
            quadratic = slope * slope * sums.q_square
            whole = factor * jnp.maximum(constant + sign * linear + quadratic, 0)
            size = factor * (constant + jnp.abs(linear) + quadratic)
            beta = jnp.sqrt(whole) * jnp.float32(1 / self.n)
            betas.append(beta)
            least = jnp.maximum(beta, jnp.float32(1e-6))
            error = jnp.maximum(error, now.sum_error * size * jnp.float32(1 / self.n**2) / least)
        return betas, error


def _squared_radius(m: Array, s: Array, log_term: Array) -> Array:
    """Returns the square of a Bernoulli radius after ``m`` pulls with rewards ``s`` (see ``Interval.radii``)."""
    share, half = 1 / (m + log_term), log_term * jnp.float32(0.5)
    found: Array = log_term * (1 / m) * ((s + half) * share) * ((m - s + half) * share)
    return found
