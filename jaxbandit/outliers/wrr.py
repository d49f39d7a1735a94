"""Weighted Round-Robin (WRR): Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017,
Algorithm 2.

All arms in turn, an active one again and again until it has rho pulls for each visit so far, or is active no more.

A leap walks through some rounds at once. Single rewards are drawn, and it is guessed how often each visit pulls. What
the threshold and its radius are at any pull then follows from prefix sums over the visits, so all pulls are looked at
together, which says how often each visit does pull: rightly up to the first visit that was guessed wrongly, and for
that one. With what was found the rounds are walked through again. A leap also ends at a pull after which it is not
clear in float32 whether its arm, or any arm, is active: the look at the end of a leap decides that. Medians are no
sums: with the robust rule, pulls are made one by one.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.outliers.intervals import Interval, width_of_threshold
from jaxbandit.outliers.leap import (
    RUNNING,
    Seen,
    active,
    answer,
    clear,
    code_of,
    look,
    low_bits,
    prefix_sums,
    select,
)  # fmt: skip
from jaxbandit.outliers.problem import MOST, Singles, View
from jaxbandit.outliers.twofold import Twofold
from jaxbandit.random.fence import computed_once


def rho_star(n: int, k: float, delta: float) -> float:
    """Eq. 6: (n - 1)^(2/3) / l(k)^(1/3), at least 1."""
    return max(1.0, math.cbrt((n - 1) ** 2 / width_of_threshold(n, k, delta)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Share:
    """rho = ``units`` + ``part`` / ``parts``, an exact ratio (int32 each, ``parts`` below 2^24)."""

    units: Array
    part: Array
    parts: Array

    @classmethod
    def of(cls, rho: float) -> "Share":
        """A float stands for the decimal that prints it, to the nearest ratio of whole numbers below 2^24."""
        ratio = Fraction(repr(float(rho))).limit_denominator(2**24 - 1)
        units = ratio.numerator // ratio.denominator
        return cls(*map(jnp.int32, (units, ratio.numerator - units * ratio.denominator, ratio.denominator)))


class Counter(NamedTuple):
    """v rho for a number of visits v: the whole part and what is left, in units of 1 / parts (int32)."""

    units: Array
    part: Array

    def after(self, visits: int | Array, share: Share) -> "Counter":
        """Some visits later."""
        part = self.part + visits * share.part
        over = part // share.parts
        return Counter(self.units + visits * share.units + over, part - over * share.parts)

    def ceiling(self) -> Array:
        """The fewest pulls that are at least v rho."""
        return self.units + (self.part > 0).astype(jnp.int32)


class State(NamedTuple):
    """``cursor``: the turn (0 to n - 1, in the order of a round) of the arm that is visited next, or is ``visiting``
    (bool); ``counter``: of the arms not yet visited in this round; ``on``: which arms were active at the last look, as
    far as float32 tells, in arms' order, and ``best``, the turn of the arm that was most so: guesses that decide
    nothing; ``code``."""

    seen: Seen
    cursor: Array
    visiting: Array
    counter: Counter
    on: Array
    best: Array
    code: Array


class _Base(NamedTuple):
    """What a walk starts from. In the order of turns, (n,): ``pulls``, ``ones``, ``words`` of rewards; ``middle``: the
    arms' mean; ``room``: rewards an arm has; ``left``: pulls that may be made; ``due``: pulls that a visit goes up to,
    (rounds, 1)."""

    pulls: Array
    ones: Array
    words: Array
    middle: Array
    total: Array
    room: Array
    left: Array
    due: Array


class _Walked(NamedTuple):
    """``made``: pulls of each visit; ``fault``: its pull that is not clear, or ``_NONE``; int32, (rounds, n)."""

    made: Array
    fault: Array


_NONE, _OPEN = 1 << 20, 1 << 21
_TOGETHER = 8


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WRR:
    """``share``: rho; all else as in ``RR``."""

    k: Twofold
    of: Interval
    share: Share
    cap: Array
    start: Array
    leaping: Array
    n: int = field(metadata={"static": True})

    stride: ClassVar[int] = 8

    @property
    def rounds(self) -> int:
        """The most rounds in a leap."""
        return min(max(1, 256 // self.n), 8)

    @property
    def dense(self) -> int:
        """About how many bytes of a lane a step works on: a few numbers of each pull in a leap."""
        return 64 * 8 * self.n

    def init(self, view: View) -> State:
        """Each arm once."""
        zero = jnp.int32(0)
        return State(
            Seen.nothing(self.n),
            zero,
            jnp.bool_(False),
            Counter(zero, zero),
            jnp.ones(self.n, bool),
            zero,
            jnp.int32(RUNNING),
        )

    def ask(self, view: View, state: State) -> Singles:
        """Rewards one by one, as many as an active arm may need."""
        many = jnp.minimum((self.share.units + 2) * self.rounds, MOST)
        return Singles(jnp.full(self.n, jnp.where(state.code == RUNNING, many, 0)), state.seen.pulls)

    def tell(self, view: View, state: State, pull: Singles, outcome: Array) -> State:
        """Walks as far as is clear, looks at the arm pulled last, and decides about it."""
        n = self.n
        turns = jnp.arange(n, dtype=jnp.int32)
        arms = self.start + turns
        arms = jnp.where(arms >= n, arms - n, arms)
        first = state.seen.total == 0
        made = self._walk(state, pull.counts, arms, outcome)
        # Each arm once, at first.
        opening = jnp.zeros_like(made).at[0].set(1)
        made = jnp.where(state.code == RUNNING, jnp.where(first, opening, made), 0)
        place = jnp.arange(made.size, dtype=jnp.int32).reshape(made.shape)
        final = jnp.max(jnp.where(made > 0, place, 0))
        passed, turn = final // n, final % n
        of_arm = turns - self.start
        counts = jnp.sum(made, axis=0, dtype=jnp.int32)[jnp.where(of_arm < 0, of_arm + n, of_arm)]
        seen = state.seen.add(counts, lax.population_count(outcome & low_bits(counts)).astype(jnp.int32))
        at = look(self.of, self.k.hi, self.k, seen)
        best = jnp.max(at.slack)
        here = turns == jnp.sum(jnp.where(turns == turn, arms, 0), dtype=jnp.int32)
        own = jnp.sum(jnp.where(here, at.slack, 0))
        close = (jnp.abs(best) <= at.unsure) | (jnp.abs(own) <= at.unsure)
        # A lane that is over would be looked at closely in each step, where it ended close to the threshold.
        on = active(self.of, self.k, seen, at, close & (state.code == RUNNING))
        counter = state.counter.after(passed, self.share)
        due = counter.after(1, self.share).ceiling()
        visiting = jnp.any(here & on & (seen.pulls < due)) & ~first
        ended = ~visiting & (turn == n - 1) & ~first
        counter = select(ended, counter.after(1, self.share), counter)
        counter = select(first, state.counter, counter)
        cursor = jnp.where(visiting, turn, jnp.where(turn == n - 1, 0, turn + 1))
        cursor = jnp.where(first, 0, cursor)
        strongest = jnp.argmax(at.slack[arms]).astype(jnp.int32)
        code = code_of(jnp.any(on), self.cap > seen.total, at)
        after = State(seen, cursor, visiting, counter, on, strongest, code)
        return select(state.code == RUNNING, after, state)

    def _walk(self, state: State, counts: Array, arms: Array, outcome: Array) -> Array:
        """How often each visit of the next rounds pulls, as far as that is clear: int32, (rounds, n), by turns."""
        later = jnp.arange(self.rounds, dtype=jnp.int32)[:, None]
        due = jax.vmap(lambda r: state.counter.after(1 + r, self.share).ceiling())(later[:, 0])[:, None]
        # Radii are read at the ends of a leap, which is not to double T.
        leaping = self.leaping & (self.of.rule == "k-sigma")
        left = jnp.where(leaping, jnp.minimum(self.cap - state.seen.total, state.seen.total), 1)
        pulls, ones = jnp.maximum(state.seen.pulls, 1)[arms], state.seen.ones[arms]
        y = ones.astype(jnp.float32) / pulls.astype(jnp.float32)
        middle = jnp.sum(y) / self.n
        base = _Base(pulls, ones, outcome[arms], middle, state.seen.total, counts, left, due)
        turns = jnp.arange(self.n, dtype=jnp.int32)
        exists = (later > 0) | (turns >= state.cursor)
        on = state.on[arms] | (state.visiting & (turns == state.cursor))
        guess = jnp.where(on, jnp.maximum(jnp.diff(due, axis=0, prepend=due[:1] - due[:1]), 1), 1)
        guess = guess.at[0].set(jnp.where(on, jnp.maximum(due[0] - pulls, 1), 1))
        guess = jnp.where(exists, jnp.minimum(guess, MOST), 0)
        guess = jnp.where(prefix_sums(guess.astype(jnp.float32)) < left, guess, 0)
        once = self._visits(base, state.best, exists, guess).made
        found = self._visits(base, state.best, exists, once)
        # Up to the first visit that was not as assumed, and that one.
        place = jnp.arange(found.made.size, dtype=jnp.int32).reshape(found.made.shape)
        wrong = (found.made != once) | (found.fault <= found.made)
        end = jnp.min(jnp.where(wrong, place, _NONE))
        return jnp.where(place < end, once, jnp.where(place == end, jnp.minimum(found.made, found.fault), 0))

    def _visits(self, base: _Base, best: Array, exists: Array, assumed: Array) -> _Walked:
        """How often each visit pulls if those before it pull as often as assumed."""
        n, k = self.n, self.k.hi
        kind = self.of.name
        before = jnp.cumsum(assumed, axis=0) - assumed
        total = base.total + jnp.sum(assumed, dtype=jnp.int32)
        reach = tuple(self.of.reach_at(jnp.maximum(t, 1)) for t in (base.total, total))

        def features(count: Array) -> tuple[Array, ...]:
            """Of arms pulled so often in the walk: mean less ``middle``, its square, radius squared at both ends."""
            m = (base.pulls + count).astype(jnp.float32)
            s = (base.ones + lax.population_count(base.words & low_bits(count)).astype(jnp.int32)).astype(jnp.float32)
            z = s / m - base.middle
            if kind == "bounded":
                return z, z * z, 1 / m
            squares = [_bernoulli(m, s, 1 / m, r) for r in reach]
            return z, z * z, *(part for q in squares for part in (q, q * z, q * z * z))

        old, new = features(before), features(before + assumed)
        gains = jnp.stack([(b - a) for a, b in zip(old, new, strict=True)] + [assumed.astype(jnp.float32)])
        sums = prefix_sums(gains)
        start = [jnp.sum(x[0]) for x in old]
        # All other arms, when an arm is visited.
        others = [total + x - own for total, x, own in zip(start, sums[:-1], old, strict=True)]
        made_before = sums[-1]
        span = jnp.maximum(total - base.total, 1).astype(jnp.float32)
        left = jnp.minimum(base.room - before, base.left - made_before.astype(jnp.int32))
        most = jnp.maximum(base.due - base.pulls - before, 1)
        stretch = (reach[1] - reach[0]) / reach[0]
        bend = jnp.square(stretch) / 2 + jnp.square(span / jnp.maximum(base.total, 1)) / (8 * reach[0])
        turns = jnp.arange(n, dtype=jnp.int32)

        def of_best(x: tuple[Array, ...], i: int) -> Array:
            return jnp.sum(jnp.where(turns == best, x[i], 0), axis=-1, keepdims=True)

        witness = [jnp.where(turns > best, of_best(new, i), of_best(old, i)) for i in (0, 2)]
        if kind == "bounded":
            witness[1] = self.of.width.hi * self.of.width.hi * reach[0] / 2 * witness[1]
        # Its radius grows with T, so it is at least what it was when the leap began.
        witness[1] = jnp.sqrt(witness[1])
        # Nothing but 0, or nothing but 1, so far: while that lasts, sums of squares are exactly 0, and all are active.
        even = jnp.all(base.ones == 0) | jnp.all(base.ones == base.pulls)
        of_lane = (k, self.of.scale.hi, self.of.width.hi, base.middle, *reach, 1 / span, bend, even.astype(jnp.float32))
        of_visit = (*others, *witness, made_before, base.pulls, base.ones, base.words, before, most, left, turns - best)
        spread = [jnp.broadcast_to(x, assumed.shape) for x in (*of_lane, *of_visit)]

        def some(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            done, ends = carry
            return done + _TOGETHER, _checked(kind, self.of.sides, n)(*spread, ends, jnp.broadcast_to(done, ends.shape))

        def more(carry: tuple[Array, Array]) -> Array:
            done, ends = carry
            return jnp.any(exists & (left > 0) & (ends == _OPEN)) & (done < MOST)

        _, ends = lax.while_loop(more, some, (jnp.int32(0), jnp.full(assumed.shape, _OPEN)))
        fault = jnp.where(left > 0, jnp.where(ends & 1 == 1, ends >> 1, _NONE), 0)
        return _Walked(jnp.where(exists, jnp.minimum(ends >> 1, fault), 0), jnp.where(exists, fault, _NONE))

    def done(self, view: View, state: State) -> Array:
        """No arm is active, or the cap is reached."""
        return state.code != RUNNING

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``leap.answer``."""
        return answer(self.of, self.k, state.seen, state.code)


@functools.lru_cache
def _checked(kind: str, sides: str, n: int) -> Callable[..., Array]:
    """The check of the next pulls of a visit, by the interval's name and sides and ``n``: a function of arrays of one
    shape, as ``WRR._visits`` gives them. The last but one: twice the pull at which the visit ends, and 1 more where the
    pull is not clear, or ``_OPEN``; the last: pulls that were looked at. Fenced, so that XLA makes one kernel of it."""
    sums = 3 if kind == "bounded" else 8
    signs = (1.0,) if sides == "above" else (1.0, -1.0)

    def check(*of: Array) -> Array:
        k, scale, wide, middle, first, final, per_pull, bend, even = of[:9]
        others, (z_of_best, radius_of_best) = of[9 : 9 + sums], of[9 + sums : 11 + sums]
        made_before, pulls, ones, words, before, most, left, from_best, ends, done = of[11 + sums :]
        for further in range(1, _TOGETHER + 1):
            number = done + further
            m = (pulls + before + number).astype(jnp.float32)
            bits = lax.population_count(words & low_bits(before + number)).astype(jnp.int32)
            s = (ones + bits).astype(jnp.float32)
            share = (made_before + number.astype(jnp.float32)) * per_pull
            each = 1 / m
            z = s * each - middle
            mu = (others[0] + z) * jnp.float32(1 / n)
            square = others[1] + z * z
            sigma = jnp.sqrt(jnp.maximum(square * jnp.float32(1 / n) - mu * mu, 0))
            turn = 1 / jnp.maximum(sigma, jnp.float32(1e-5))
            if kind == "bounded":
                level = wide * wide * jnp.float32(0.5) * (first + share * (final - first))
                across = [jnp.sqrt(scale * level * (others[2] + each) * jnp.float32(1 / n))] * len(signs)
                radius = jnp.sqrt(level * each)
            else:
                at_ends = [_bernoulli(m, s, each, r) for r in (first, final)]
                radius = jnp.sqrt(at_ends[0] + share * (at_ends[1] - at_ends[0]))
                moments = []
                for i in range(3):
                    start, end = (x + q for x, q in zip((others[2 + i], others[5 + i]), at_ends, strict=True))
                    moments.append(start + share * (end - start))
                    at_ends = [q * z for q in at_ends]
                slope = k * (jnp.sqrt(turn) if kind == "bernoulli" else turn)
                across = []
                for sign in signs:
                    level = 1 + sign * slope * (middle if kind == "bernoulli" else -mu)
                    square_of = level * level * moments[0] + sign * 2 * level * slope * moments[1]
                    square_of = square_of + slope * slope * moments[2]
                    across.append(jnp.sqrt(jnp.maximum(square_of, 0)) * jnp.float32(1 / n))
            widest = functools.reduce(jnp.maximum, across)
            unsure = jnp.float32(2.0**-19) + clear(n, k, sigma) + widest * jnp.float32(2.0**-21) * turn
            unsure = unsure + (radius + radius_of_best + widest) * bend
            unsure = jnp.where(sigma > 1e-5, unsure, jnp.float32(1e9))
            slack, of_best = (
                functools.reduce(
                    jnp.maximum,
                    [
                        mine + beta - jnp.abs(sign * (place - mu) - k * sigma)
                        for sign, beta in zip(signs, across, strict=True)
                    ],
                )
                for mine, place in ((radius, z), (radius_of_best, z_of_best))
            )
            of_best = jnp.where(from_best == 0, slack, of_best)
            still = (even > 0) & (square == 0)
            full = number >= most
            over = full | ((slack <= 0) & ~still)
            lives = still | (slack > unsure) | (of_best > unsure)
            unclear = (~full & (jnp.abs(slack) <= unsure) & ~still) | (over & ~lives)
            # There is no reward, or no pull, left for the next one.
            unclear = unclear | (~full & (number >= left))
            coded: Array = 2 * number + unclear.astype(jnp.int32)
            ends = jnp.where((ends == _OPEN) & (over | unclear), coded, ends)
        return ends

    fenced: Callable[..., Array] = computed_once(check)
    return fenced


def _bernoulli(m: Array, s: Array, each: Array, reach: Array) -> Array:
    """A radius, squared, ``each`` being 1 / m: see ``intervals.arm_radii``."""
    share, half = 1 / (m + reach), reach * jnp.float32(0.5)
    found: Array = reach * each * ((s + half) * share) * ((m - s + half) * share)
    return found
