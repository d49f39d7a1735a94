"""LUCB: Kalyanakrishnan, Tewari, Auer and Stone, "PAC subset selection in stochastic multi-armed bandits", ICML 2012;
KL-LUCB: Kaufmann and Kalyanakrishnan, "Information complexity in bandit subset selection", COLT 2013.

First every arm is pulled once. Then a round pulls two arms: of the K largest means the one with the lowest lower bound,
and of the others the one with the highest upper bound. It ends at the budget (section 6 of Zhou, Chen and Li 2014), or
where these two bounds overlap by less than epsilon. The answer is the K largest means. Nothing is planned for the
budget: if it cuts a round in two and is raised later (``simulate``'s checkpoints), the round's second pull comes first.
So without a stopping rule, a run with checkpoints has the bits of runs with these budgets.

Ties go to the lower arm, at the cut as among bounds. Arms are numbered at random in each run (``Given.shuffled``), so
that is a random order, drawn once a run. There is no order afresh in each round: it would move the cut among arms of
equal means all the time, which costs regret (0.059 and not 0.014 on crowd workers at Q = 10 n, docs/reproduction.md).

A round changes two means, one on either side of the cut. Before, all means above the cut were at least those below; so
what changes is at most that the least above and the greatest below trade places, and no round ranks the arms anew.

Nor does a round look at all arms. They stand in *blocks*, each on one side of the cut. What a look at a block finds is
kept: its arm that would be pulled first, and how low the bounds of its other arms can get as time goes by. Of blocks
that were looked at before, the first arms are compared as they are now. If one of them is first for sure, as it mostly
is, it is pulled, and its block looked at again; else the block that is not sure is looked at. A run is a walk of such
turns, whose rewards are drawn on the way.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.arms.prefix import best, lowest, places
from jaxbandit.arms.problem import Outcome, Single, View
from jaxbandit.contract import brief
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Execution
from jaxbandit.random.counts import pinned
from jaxbandit.random.fence import lane_by_lane, where_due
from jaxbandit.random.trials import UNITS, over_lanes

_NONE = 2**31 - 1
"""A key above all others, and the number of no arm and no block."""
_EMPTY = 2**30 - 1
"""The merit of a slot without an arm."""
_FAR = 0x7F000000
"""A key as far as can be: the bits of 2^127."""
_ROW = {"hoeffding": 64, "kl": 16}
"""There is room for whole rows of blocks: XLA makes no vectors of loops that are shorter, unless they compute much."""
_PULL, _LOOK, _TRADE = range(3)


_Pair = tuple[list[Array], list[Array], Array]
"""Number, total and pulls of the weak and the strong arm, and how many pulls were made."""


class Slots(NamedTuple):
    """Arms by their slots, shape (slots,): first those of the K largest means, then, from the next whole block on, the
    others. ``arm``: the number (int32, that of all arms where there is none); ``total``, ``made``: the sum of its
    rewards and its pulls; ``merit`` (int32); ``weight``: what its number of pulls makes of the exploration rate
    (float32)."""

    arm: Array
    total: Array
    made: Array
    merit: Array
    weight: Array


class Blocks(NamedTuple):
    """What the last look at each block found, shape (blocks,). ``arm``, ``merit``, ``weight``: of its first arm; the
    keys of the others, but for those that equal it and have greater numbers, are at least ``wall`` less ``slope`` times
    the pace (float32), as ``Lucb._straight`` has it; ``since``: the round of the look; ``cut``: the least merit in the
    block, and ``next_to``: of the arms that have it, the one that trades first, with a minus sign above the cut."""

    arm: Array
    merit: Array
    weight: Array
    wall: Array
    slope: Array
    since: Array
    cut: Array
    next_to: Array


class State(NamedTuple):
    """``place``: the slot of each arm (int32, shape (arms + 1,)). ``turn``: what is next, to pull the arms in the slots
    ``weak`` and ``strong``, to look at their blocks, or to have them trade places. ``round``: its number, from 1, 0
    before; ``pace``: what it makes of the exploration rate, and ``after``: what the next one will. ``spent``: pulls
    asked for. ``stopped``: the bounds are close enough (bool); ``dry``: the last pulls gave nothing (bool); ``stuck``:
    both pulls of a round did (bool)."""

    slots: Slots
    place: Array
    blocks: Blocks
    turn: Array
    weak: Array
    strong: Array
    round: Array
    pace: Array
    after: Array
    spent: Array
    stopped: Array
    dry: Array
    stuck: Array


def _ordered(x: Array) -> Array:
    """int32 in the order of finite float32 ``x``."""
    return _turned(lax.bitcast_convert_type(x + jnp.float32(0), jnp.int32))


def _float(ordered: Array) -> Array:
    """What was ``_ordered``."""
    return lax.bitcast_convert_type(_turned(ordered), jnp.float32)


def _turned(bits: Array) -> Array:
    return jnp.where(bits < 0, bits ^ jnp.int32(0x7FFFFFFF), bits)


def _at(x: Array, place: Array) -> Array:
    """``x[place]``, of a place that there is."""
    found: Array = lax.dynamic_index_in_dim(x, place, keepdims=False, allow_negative_indices=False)
    return found


def _put(x: Array, value: Array, place: Array) -> Array:
    """``x`` with another value in a place that there is."""
    return lax.dynamic_update_slice(x, value[None], (place,), allow_negative_indices=False)


def _least(x: Array) -> Array:
    """The least of int32 of shape (n,), n a power of two or whole rows; of few, as vectors of 16 side by side first."""
    if x.shape[0] > 256:
        return lowest(x)
    return jnp.min(functools.reduce(jnp.minimum, [x[i : i + 16] for i in range(0, x.shape[0], 16)]))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lucb:
    """LUCB. ``want``: K (int32). Bounds are at confidence ``delta``, with t the round's number and u an arm's pulls:

    - ``divergence`` (static) "hoeffding": mean +- sqrt(ln(k1 n t^4 / delta) / (2 u)); not cut to [0, 1];
    - "kl": the q with u d(mean, q) <= x + ln x where x = ln(k1 n t^alpha / delta), d being the divergence of
      Bernoulli laws. Rewards must be in [0, 1].

    ``epsilon``: stop when the bounds overlap by less (by at most that much where ``closed``), from the first round on
    or, where ``late``, from the second; -inf to go on to the budget. ``odd`` (int32): who gets a last pull that has no
    pair: 0 the weak arm of the top, 1 the strong arm of the others, 2 nobody. Floats are float32. ``block`` (static):
    arms in a block, a power of two; ``turns`` (static): the most that a step makes. Neither changes anything but the
    time that a run takes.

    What an arm is worth on its side of the cut is its *merit*: its score if it is of the top, else 1 less its score.
    Its *key* is the lower bound of that, so that on both sides the arm of the lowest key is pulled, and the cut is
    between the arms of the lowest merits.
    """

    want: Array
    delta: Array
    k1: Array
    alpha: Array
    epsilon: Array
    closed: Array
    late: Array
    odd: Array
    divergence: str = field(default="hoeffding", metadata={"static": True})
    block: int = field(default=128, metadata={"static": True})
    turns: int = field(default=2048, metadata={"static": True})

    execution = Execution(stride=4, in_cache=True, masked=True)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Nothing pulled. Before the first round, arms stand in slots of their numbers."""
        many = -(-view.arms // self.block) + 1
        slot = jnp.arange(many * self.block, dtype=jnp.int32)
        row = _ROW[self.divergence]
        block = jnp.arange(-(-many // row) * row, dtype=jnp.int32)
        blank, zero, false = jnp.zeros_like(slot), jnp.int32(0), jnp.bool_(False)
        none, empty = jnp.zeros_like(block), jnp.full_like(block, _EMPTY)
        low = jnp.zeros(block.shape, jnp.float32)
        unseen = block * self.block < self._rest() + (view.arms - self.want)  # those that will have arms
        return State(
            Slots(jnp.minimum(slot, view.arms), view.nothing(slot.shape), blank, blank, jnp.zeros(slot.shape)),
            jnp.arange(view.arms + 1, dtype=jnp.int32),
            Blocks(none, empty, low, jnp.where(unseen, jnp.float32(-1e9), jnp.float32(1e9)), low, none, empty, none),
            jnp.int32(_PULL), zero, zero, zero, jnp.float32(0), jnp.float32(0), zero, false, false, false,
        )  # fmt: skip

    def advance(self, view: View, state: State, sample: Callable[[Single], Outcome]) -> State:
        """Each arm once; then turns, as many as a step makes."""
        opening = (state.round == 0) & ~self.done(view, state)

        def opened(state: State) -> State:
            own = self._opened(view, state, sample)
            found: State = jax.tree.map(lambda new, old: jnp.where(opening, new, old), own, state)
            return found

        state = where_due(over_lanes(opening.astype(jnp.int32)) > 0, opened, state)

        def walk(state: State) -> State:
            def more(carry: tuple[Array, State]) -> Array:
                number, state = carry
                return (number < self.turns) & (state.round > 0) & ~self.done(view, state)

            def one(carry: tuple[Array, State]) -> tuple[Array, State]:
                return carry[0] + 1, self._turn(view, carry[1], sample)

            found: State = lax.while_loop(more, one, (jnp.int32(0), state))[1]
            return found

        walked: State = lane_by_lane(walk)(state)
        return walked

    def _rest(self) -> Array:
        """The first slot of those that are not of the top."""
        blocks = (self.want + (self.block - 1)) // self.block
        return blocks * self.block

    def _opened(self, view: View, state: State, sample: Callable[[Single], Outcome]) -> State:
        """The first pulls; when all arms have theirs, the K largest means are the top."""
        arms, upto = jnp.arange(view.arms, dtype=jnp.int32), jnp.minimum(view.budget, view.arms)
        outcome = sample(Single(arms, jnp.zeros_like(arms)))
        fresh = (arms >= state.spent) & (arms < upto)
        total = state.slots.total[: view.arms] + jnp.where(fresh, outcome.total, 0)
        made = state.slots.made[: view.arms] + jnp.where(fresh, outcome.made, 0)
        begun = upto == view.arms
        score = view.mean(total, made)
        top = best(score, self.want, jnp.ones(view.arms, bool))[0]
        before = places(top)
        place = jnp.where(begun, jnp.where(top, before, self._rest() + arms - before), arms)
        merit, weight = jnp.where(top, score, UNITS - score), self._weight(made)

        def placed(x: Array, values: Array, blank: int) -> Array:
            return jnp.full_like(x, blank).at[place].set(values, mode="promise_in_bounds", unique_indices=True)

        values, blanks = Slots(arms, total, made, merit, weight), (view.arms, 0, 0, _EMPTY, 0)
        slots = Slots(*map(placed, state.slots, values, blanks))
        first = jnp.int32(1)
        return state._replace(
            slots=slots, place=jnp.append(place, 0), turn=jnp.where(begun, _LOOK, _PULL), strong=self._rest(),
            round=begun.astype(jnp.int32), pace=self._pace(view.arms, first), after=self._pace(view.arms, first + 1),
            spent=upto,
        )  # fmt: skip

    def _turn(self, view: View, state: State, sample: Callable[[Single], Outcome]) -> State:
        """A pull of two arms, or a look at two blocks, or a trade of two arms, and what is next."""
        arms, here, none = state.place.shape[0] - 1, (state.weak, state.strong), jnp.int32(0)
        slots, place, blocks = state.slots, state.place, state.blocks
        left, half = view.budget - state.spent, (state.spent - arms) & 1 == 1
        takes = (
            jnp.where(half, self.odd == 1, (left > 1) | (self.odd == 0)),
            jnp.where(half, self.odd == 0, (left > 1) | (self.odd == 1)),
        )

        def same() -> _Pair:
            weak, strong = ([_at(x, slot) for x in (slots.arm, slots.total, slots.made)] for slot in here)
            return weak, strong, none

        def traded() -> _Pair:
            weak, strong, _ = same()
            return strong, weak, none

        def pulled() -> _Pair:
            weak, strong, all_made = same()
            for take, arm in zip(takes, (weak, strong), strict=True):
                outcome = sample(Single(arm[0], arm[2]))
                made = jnp.where(take, outcome.made, 0)
                arm[1], arm[2], all_made = arm[1] + jnp.where(take, outcome.total, 0), arm[2] + made, all_made + made
            return weak, strong, all_made

        # What is written hangs together with all that was read before it: else XLA copies arrays.
        weak, strong, gave = lax.switch(state.turn, [pulled, same, traded])
        pulls = state.turn == _PULL
        spent = state.spent + jnp.where(pulls, jnp.where(half, 1, jnp.minimum(left, 2)), 0)
        over = pulls & ((spent - arms) & 1 == 0)
        nothing = pulls & (gave == 0)
        round_ = state.round + over.astype(jnp.int32)
        pace = jnp.where(over, state.after, state.pace)
        state = state._replace(
            spent=spent, round=round_, pace=pace, after=self._pace(arms, round_ + 1),
            dry=jnp.where(pulls, nothing, state.dry), stuck=state.stuck | (over & nothing & (state.dry | ~half)),
        )  # fmt: skip

        for slot, (arm, total, made), top in ((state.weak, weak, True), (state.strong, strong, False)):
            score = view.mean(total, made)
            new = Slots(arm, total, made, score if top else UNITS - score, self._weight(made))
            slots = Slots(*(_put(x, value, slot) for x, value in zip(slots, new, strict=True)))
            place = _put(place, slot, arm)
        for slot, sign in zip(here, (-1, 1), strict=True):
            block = slot >> (self.block.bit_length() - 1)
            found = self._look(slots, place, block, sign, pace, round_)
            blocks = Blocks(*(_put(x, value, block) for x, value in zip(blocks, found, strict=True)))
        state = state._replace(slots=slots, place=place, blocks=blocks)
        return self._chosen(state, pulls & ~over)

    def _look(self, slots: Slots, place: Array, block: Array, sign: int, pace: Array, round_: Array) -> Blocks:
        """What is to be known of a block; ``sign``: -1 for one of the top."""
        arm, merit, weight = (
            lax.dynamic_slice_in_dim(x, block * self.block, self.block, allow_negative_indices=False)
            for x in (slots.arm, slots.merit, slots.weight)
        )
        bound = self._key(merit, weight, pace)
        key = _ordered(bound)
        least = _least(key)
        first = _least(jnp.where(key == least, arm, _NONE))
        at = _at(place, first)
        own = _at(slots.merit, at), _at(slots.weight, at)
        others = jnp.where((merit == own[0]) & (weight == own[1]), _FAR, key)
        wall = self._straight(_float(_least(others)))
        # Floats that are not negative are ordered as their bits are.
        falls = lax.bitcast_convert_type(self._fall(merit, weight, bound), jnp.int32)
        slope = lax.bitcast_convert_type(-_least(-falls), jnp.float32)
        wall = wall + slope * pace - self._slack * (2 + jnp.abs(wall) + slope * pace)
        cut = _least(merit)
        next_to = _least(jnp.where(merit == cut, sign * arm, _NONE))
        return Blocks(first, *own, wall, slope, round_, cut, next_to)

    def _chosen(self, state: State, kept: Array) -> State:
        """What is next, unless it is ``kept``: the second pull of a round."""
        place, blocks = state.place, state.blocks
        rest, number = self._rest(), jnp.arange(blocks.arm.shape[0], dtype=jnp.int32)
        top = number * self.block < rest
        sides = top, ~top

        def first(key: Array, tag: Array) -> tuple[list[Array], list[Array]]:
            """Of each side, the lowest key, and the lowest tag that has it."""
            least = [_least(jnp.where(side, key, _NONE)) for side in sides]
            tags = [_least(jnp.where(side & (key == own), tag, _NONE)) for side, own in zip(sides, least, strict=True)]
            return least, tags

        least, ahead = first(_ordered(self._key(blocks.merit, blocks.weight, state.pace)), blocks.arm)
        weak, strong = (_at(place, arm) for arm in ahead)
        above, below = (self._straight(_float(own)) for own in least)
        bound = jnp.where(top, above, below)
        doubt = (blocks.wall - blocks.slope * state.pace <= bound) & (blocks.since != state.round)
        unsure = _least(jnp.where(doubt, number, _NONE))
        # Next to the cut: of the top the last arm of the least mean, of the others the first of the largest.
        (out, into), (last, early) = first(blocks.cut, blocks.next_to)
        trade = (out + into < UNITS) | ((out + into == UNITS) & (early < -last))
        last, early = _at(place, -last), _at(place, early)

        look, at = ~trade & (unsure != _NONE), unsure * self.block
        weak_next = jnp.where(trade, last, jnp.where(look & (at < rest), at, weak))
        strong_next = jnp.where(trade, early, jnp.where(look & (at >= rest), at, strong))
        turn = jnp.where(kept, _PULL, jnp.where(trade, _TRADE, jnp.where(look, _LOOK, _PULL)))
        overlap = 1 - _float(least[1]) - _float(least[0])
        close = (overlap < self.epsilon) | (self.closed & (overlap <= self.epsilon))
        close = close & ~(self.late & (state.round == 1)) & (turn == _PULL) & ~kept
        return state._replace(
            turn=turn, weak=jnp.where(kept, state.weak, weak_next), strong=jnp.where(kept, state.strong, strong_next),
            stopped=state.stopped | close,
        )  # fmt: skip

    def _pace(self, arms: int, round_: Array) -> Array:
        """What a round's number makes of the exploration rate."""
        x = jnp.log(self.k1 * arms / self.delta) + self.alpha * jnp.log(jnp.maximum(round_, 1).astype(jnp.float32))
        return jnp.sqrt(x * jnp.float32(0.5)) if self.divergence == "hoeffding" else x + jnp.log(x)

    def _weight(self, made: Array) -> Array:
        count = jnp.maximum(made, 1).astype(jnp.float32)
        weight: Array = 1 / (jnp.sqrt(count) if self.divergence == "hoeffding" else count)
        return weight

    def _key(self, merit: Array, weight: Array, pace: Array) -> Array:
        """The lower bound of a merit, float32. Falls as the rounds go by."""
        mean = _mean(merit)
        if self.divergence == "hoeffding":
            bound: Array = mean - pinned(pace * weight)
            return bound
        return _kl_lower(mean, pace * weight)

    def _straight(self, key: Array) -> Array:
        """Of keys, what falls along a line as the pace grows, or ever slower."""
        return key if self.divergence == "hoeffding" else jnp.log(jnp.maximum(key, jnp.float32(1e-38)))

    def _fall(self, merit: Array, weight: Array, key: Array) -> Array:
        """How fast that falls with the pace: now, and no faster later."""
        if self.divergence == "hoeffding":
            return weight
        # The derivative of d(mean, q) with respect to log q is (q - mean) / (1 - q).
        mean = _mean(merit)
        return jnp.where(mean > 0, weight * jnp.maximum(1 - key, 0) / jnp.maximum(mean - key, jnp.float32(1e-6)), 0)

    @property
    def _slack(self) -> float:
        """More than rounding makes of such lines, relatively."""
        return 1e-6 if self.divergence == "hoeffding" else 1e-5

    def done(self, view: View, state: State) -> Array:
        """The budget is spent, the bounds are close enough, or nothing is left to tell apart."""
        left = view.budget - state.spent
        idle = (left <= 0) | ((left == 1) & (self.odd == 2) & (state.round > 0))
        over = idle | state.stopped | state.stuck | (self.want >= view.arms)
        return (state.turn == _PULL) & over

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """The K largest means. ``stopped``: 1 where the stopping rule ended the run."""
        place = state.place[: view.arms]
        total, made = state.slots.total[place], state.slots.made[place]
        chosen, _ = best(view.mean(total, made), self.want, jnp.ones(view.arms, bool))
        return {"chosen": chosen, "arm_pulls": made, "stopped": state.stopped.astype(jnp.int32)}


def _mean(merit: Array) -> Array:
    mean: Array = merit.astype(jnp.float32) * jnp.float32(1 / UNITS)
    return mean


ODD = ("weak", "strong", "skip")


def lucb(
    want: int,
    *,
    delta: float = 0.1,
    epsilon: float | None = None,
    divergence: str = "hoeffding",
    k1: float | None = None,
    alpha: float | None = None,
    closed: bool | None = None,
    late: bool | None = None,
    odd: str = "weak",
) -> Lucb:
    """LUCB or KL-LUCB with given parameters; see ``Lucb``.

    Args:
        want: K, at least 1.
        delta: the confidence, above 0 and below 1. With ``epsilon`` None it is a parameter of the index alone; 0.1
            where nothing else is said, as Zhou et al. do not give theirs.
        epsilon: stop when the bounds overlap by less than this, at least 0; None to go on to the budget.
        divergence: "hoeffding" or "kl".
        k1, alpha: of the exploration rate: 1.25 and 4 for "hoeffding" (2012); 405.5 and 1.1 for "kl", where the
            guarantee asks for k1 above 2e + 1 + e/(alpha - 1) + (e + 1)/(alpha - 1)^2 (2013).
        closed, late: see ``Lucb``; false for "hoeffding" and true for "kl", as published.
        odd: who gets a last pull that has no pair: "weak", "strong" or "skip".

    Raises:
        BadInput: for parameters out of range.
    """
    kl = divergence == "kl"
    if divergence not in ("hoeffding", "kl"):
        raise BadInput("divergence", divergence, "hoeffding or kl")
    if odd not in ODD:
        raise BadInput("odd", odd, f"one of {', '.join(ODD)}")
    if not 0 < delta < 1:
        raise BadInput("delta", delta, "a number above 0 and below 1")
    if epsilon is not None and not 0 <= epsilon <= 1:
        raise BadInput("epsilon", epsilon, "a number from 0 to 1")
    return Lucb(
        jnp.int32(want), jnp.float32(delta), jnp.float32((405.5 if kl else 1.25) if k1 is None else k1),
        jnp.float32((1.1 if kl else 4.0) if alpha is None else alpha),
        jnp.float32(-jnp.inf if epsilon is None else epsilon), jnp.bool_(kl if closed is None else closed),
        jnp.bool_(kl if late is None else late), jnp.int32(ODD.index(odd)), divergence,
        16 if kl else 128,
    )  # fmt: skip


def _kl_lower(mean: Array, level: Array) -> Array:
    """The least q with d(mean, q) <= level, by Newton's method on x in q = mean exp(-x): relatively precise next to 0.

    d is convex in x, so that steps from beyond the root stay there. The start is the lesser of two bounds: d is at
    least x mean + (1 - mean) log(1 - mean), and at least (mean - q)^2 / (2 mean). From there, five steps are enough for
    all that float32 resolves.
    """
    p = jnp.maximum(mean, jnp.float32(1e-30))

    def rest(q: Array) -> Array:
        return jnp.where(mean < 1, (1 - mean) * jnp.log1p(-jnp.minimum(q, jnp.float32(1 - 2**-24))), 0)

    goal, root = level - rest(mean), jnp.sqrt(2 * level / p)
    # -log(1 - x) is at most x + x^2 up to there.
    start = jnp.where(root < 0.6, jnp.minimum(goal / p, root + root * root), goal / p)

    def closer(_: int, x: Array) -> Array:
        share = jnp.exp(-x)
        q = p * share
        slope = p * (1 - share) / (1 - q)
        return jnp.maximum(x - (p * x - rest(q) - goal) / jnp.maximum(slope, jnp.float32(1e-30)), 0)

    x = lax.fori_loop(0, 6, closer, start)
    return jnp.where(mean > 0, p * jnp.exp(-x), 0)
