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

Nor does a round look at all arms. A lane works on a *window* of up to 128 of them: those that are next to be pulled,
and those at the cut. The others are not pulled, so their means stand still, and their bounds move as the round's number
alone lets them. Of those others a lane keeps what they could do at most (``Fence``). As long as no other arm can come
before those of the window, rounds are decided within it, and are the same as if all arms were looked at. Where one can,
the lane waits for the next look at all arms, which makes a new window; lanes are looked at together.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.arms.prefix import added, best, highest, lowest, some_places
from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.errors import BadInput
from jaxbandit.random.counts import pinned
from jaxbandit.random.fence import computed_once, once, where_due
from jaxbandit.random.trials import UNITS, over_lanes, sum_over_lanes
from jaxbandit.topk.answer import answer, by_rank

_NONE = 2**31 - 1
"""A key above all others, and the number of no arm."""
_FAR = 0x7F000000
"""A key as far as can be: the bits of 2^127."""
_SLOT_BITS = 7
_PATIENCE = 4
"""All lanes are looked at as soon as one in so many waits for it."""
_HORIZON = 64
"""How many rounds a window may last."""
_CELL_BITS, _NEAREST = 10, (127 - 13) << 6
"""``_choose`` tells distances from 2^-13 to 2^3 apart, so finely."""


class Window(NamedTuple):
    """Arms that a lane works on, shape (slots,): ``arm``, its number (int32, of slots without an arm at least the
    number of arms); ``total``, ``made``: the sum of its rewards and its pulls; ``score``: of its mean (int32); ``top``:
    whether it is among the K largest (bool); ``weight``: what its number of pulls makes of the exploration rate
    (float32)."""

    arm: Array
    total: Array
    made: Array
    score: Array
    top: Array
    weight: Array


class Fence(NamedTuple):
    """The arms outside of the window, of one side of the cut. ``merit``, ``weight``, ``arm``: of the one that would be
    pulled first. The keys of the others, but for those that equal it and have greater numbers, are at least ``wall``
    less ``slope`` by how far the pace has grown. ``cut``, ``cut_arm``: the merit and the number of the one nearest to
    the cut. Scalars."""

    merit: Array
    weight: Array
    arm: Array
    wall: Array
    slope: Array
    cut: Array
    cut_arm: Array


class State(NamedTuple):
    """``total``: the sum of an arm's rewards; ``made``: its pulls, with a minus sign if it is not among the K largest
    means (int32), of shape (arms,); ``window``: of some arms, the same and newer; ``top_fence``, ``rest_fence``: of the
    other arms. ``since``: the pace when the fences were made, ``until``: the last round that they are good for.
    ``spent``: pulls asked for, ``round``: the round's number, from 1; ``weak``, ``strong``: the slots of the arms to
    pull next (int32); ``waits``: for a look at all arms, which is to tell what follows from the last pull (bool);
    ``stopped``: the bounds are close enough (bool); ``dry``: the last pulls gave nothing (bool); ``stuck``: both pulls
    of a round did (bool)."""

    total: Array
    made: Array
    window: Window
    top_fence: Fence
    rest_fence: Fence
    since: Array
    until: Array
    spent: Array
    round: Array
    weak: Array
    strong: Array
    waits: Array
    stopped: Array
    dry: Array
    stuck: Array


class _Cut(NamedTuple):
    """The two arms next to the cut: their merits, their tags, and whether they are to trade places."""

    least: Array
    out: Array
    most: Array
    into: Array
    trade: Array


def _ordered(x: Array) -> Array:
    """int32 in the order of finite float32 ``x``."""
    return _turned(lax.bitcast_convert_type(x + jnp.float32(0), jnp.int32))


def _float(ordered: Array) -> Array:
    """What was ``_ordered``."""
    return lax.bitcast_convert_type(_turned(ordered), jnp.float32)


def _turned(bits: Array) -> Array:
    return jnp.where(bits < 0, bits ^ jnp.int32(0x7FFFFFFF), bits)


def _first(key: Array, among: Array, tag: Array) -> tuple[Array, Array]:
    """The lowest key, and the lowest tag that has it; ``_NONE`` twice where there is none."""
    least = lowest(jnp.where(among, key, _NONE))
    return least, lowest(jnp.where(among & (key == least), tag, _NONE))


def _last(key: Array, among: Array, tag: Array) -> tuple[Array, Array]:
    """The lowest key, and the highest tag that has it; ``_NONE`` and -1 where there is none."""
    least = lowest(jnp.where(among, key, _NONE))
    return least, highest(jnp.where(among & (key == least), tag, -1))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lucb:
    """LUCB. ``want``: K (int32). Bounds are at confidence ``delta``, with t the round's number and u an arm's pulls:

    - ``divergence`` (static) "hoeffding": mean +- sqrt(ln(k1 n t^4 / delta) / (2 u)); not cut to [0, 1];
    - "kl": the q with u d(mean, q) <= x + ln x where x = ln(k1 n t^alpha / delta), d being the divergence of
      Bernoulli laws. Rewards must be in [0, 1].

    ``epsilon``: stop when the bounds overlap by less (by at most that much where ``closed``), from the first round on
    or, where ``late``, from the second; -inf to go on to the budget. ``odd`` (int32): who gets a last pull that has no
    pair: 0 the weak arm of the top, 1 the strong arm of the others, 2 nobody. Floats are float32. ``slots`` (static):
    how many arms a window has, even, 8 to 128; it changes nothing but the time that a run takes.

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
    slots: int = field(default=1 << _SLOT_BITS, metadata={"static": True})

    dense = True

    def init(self, view: View) -> State:
        """Nothing pulled; two arms a step come first, in the order of the arms."""
        zeros, zero, false = jnp.zeros((view.arms,), jnp.int32), jnp.int32(0), jnp.bool_(False)
        top = jnp.arange(view.arms, dtype=jnp.int32) < self.want
        arm = jnp.arange(min(self.slots, view.arms), dtype=jnp.int32)
        nothing = view.nothing((view.arms,))
        window = Window(arm, nothing[arm], zeros[arm], zeros[arm], top[arm], jnp.ones(arm.shape, jnp.float32))
        none = jnp.int32(_NONE)
        blank = jnp.float32(0)
        fence = Fence(none, blank, none, blank, blank, none, none)
        second = jnp.int32(min(1, view.arms - 1))
        return State(
            nothing,
            zeros,
            window,
            fence,
            fence,
            blank,
            zero,
            zero,
            zero,
            zero,
            second,
            false,
            false,
            false,
            false,
        )

    def _half(self, view: View, state: State) -> Array:
        """Whether one of a round's two arms was pulled, and the budget ended there."""
        return (state.round > 0) & ((state.spent - view.arms) % 2 == 1)

    def _width(self, view: View, state: State) -> Array:
        """How many arms the next step pulls."""
        left = view.budget - state.spent
        first = jnp.minimum(view.arms - state.spent, 2)
        pair = jnp.where(self._half(view, state), 1, jnp.where((left == 1) & (self.odd == 2), 0, 2))
        over = state.waits | self.done(view, state)
        return jnp.where(over, 0, jnp.minimum(left, jnp.where(first > 0, first, pair)))

    def _swapped(self, view: View, state: State) -> Array:
        """Whether the strong arm comes before the weak one."""
        alone = (view.budget - state.spent == 1) & (self.odd == 1) & (state.round > 0)
        return jnp.where(self._half(view, state), self.odd == 0, alone)

    def ask(self, view: View, state: State) -> Pull:
        """The weak and the strong arm, or the one of them that a single pull goes to."""
        weak, strong = state.weak, state.strong
        slot = jnp.where(self._swapped(view, state), jnp.stack([strong, weak]), jnp.stack([weak, strong]))
        window = state.window
        return Pull(window.arm[slot], window.made[slot], None, self._width(view, state))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Add it up; find the cut and the next two arms."""
        moved, spent = pull.used > 0, state.spent + pull.used
        nothing = (spent >= view.arms) & moved & (jnp.sum(outcome.made) == 0)
        state = state._replace(
            window=self._added(view, state, outcome),
            spent=spent,
            waits=state.waits | moved,
            dry=jnp.where(moved, nothing, state.dry),
            stuck=state.stuck | (moved & nothing & self._even(view, spent) & (state.dry | ~self._half(view, state))),
        )
        state = self._onward(view, state)
        waiting = sum_over_lanes(state.waits.astype(jnp.int32))
        going = sum_over_lanes((~self.done(view, state)).astype(jnp.int32))
        due = (waiting > 0) & (_PATIENCE * waiting >= going)
        return where_due(due, lambda state: self._look(view, state), state)

    def _even(self, view: View, spent: Array) -> Array:
        """Whether no round is cut in two there."""
        return (spent < view.arms) | ((spent - view.arms) % 2 == 0)

    def _added(self, view: View, state: State, outcome: Outcome) -> Window:
        """The window after a pull."""
        window, swapped = state.window, self._swapped(view, state)
        slots = jnp.arange(window.arm.shape[0], dtype=jnp.int32)
        for slot, place in ((state.strong, jnp.where(swapped, 0, 1)), (state.weak, jnp.where(swapped, 1, 0))):
            total = window.total[slot] + outcome.total[place]
            made = window.made[slot] + outcome.made[place]
            new = (total, made, view.score(total, made), self._weight(made))
            old = (window.total, window.made, window.score, window.weight)
            total, made, score, weight = (jnp.where(slots == slot, a, b) for a, b in zip(new, old, strict=True))
            window = Window(window.arm, total, made, score, window.top, weight)
        return window

    def _onward(self, view: View, state: State) -> State:
        """What follows from the last pull, if the window and the fences are enough to tell."""
        window, above, below = state.window, state.top_fence, state.rest_fence
        slots = jnp.arange(window.arm.shape[0], dtype=jnp.int32)
        there, tag = window.arm < view.arms, (window.arm << _SLOT_BITS) | slots
        top, rest = window.top & there, ~window.top & there
        cut = _cut(window.score, top, rest, tag)
        out, into = cut.out >> _SLOT_BITS, cut.into >> _SLOT_BITS
        # The cut among all arms: those next to it may be behind the fences.
        left_out = (above.cut < cut.least) | ((above.cut == cut.least) & (above.cut_arm > out))
        left_in = (below.cut < cut.most) | ((below.cut == cut.most) & (below.cut_arm < into))
        trade = _trade(
            jnp.where(left_out, above.cut, cut.least), jnp.where(left_out, above.cut_arm, out),
            jnp.where(left_in, below.cut, cut.most), jnp.where(left_in, below.cut_arm, into),
        )  # fmt: skip
        going = state.waits & (state.round > 0)
        known = going & ~(trade & (left_out | left_in))
        traded = (tag == cut.out) | (tag == cut.into)
        window = window._replace(top=window.top ^ (known & trade & traded))

        top, rest = window.top & there, ~window.top & there
        pace, round_ = self._pace(view, state.round + 1), state.round + 1
        key = _ordered(self._key(_merit(window.score, window.top), window.weight, pace))
        (weak_key, weak), (strong_key, strong) = _first(key, top, tag), _first(key, rest, tag)
        for fence, least, found in ((above, weak_key, weak), (below, strong_key, strong)):
            behind = _ordered(self._key(fence.merit, fence.weight, pace))
            before = (least < behind) | ((least == behind) & (found >> _SLOT_BITS < fence.arm))
            wall = _ordered(fence.wall - pinned(fence.slope * (pace - state.since)))
            clear = (before & (least < wall)) | (fence.arm == _NONE)
            known = known & (clear | ~self._even(view, state.spent))
        known = known & (round_ <= state.until)
        state = self._round(view, state._replace(window=window), known, weak_key, strong_key)
        mask = (1 << _SLOT_BITS) - 1
        kept = known & self._even(view, state.spent)
        # Before the first round, the arms are pulled in their order.
        early = state.waits & (state.spent < view.arms)
        at = state.spent - window.arm[0]
        early = early & (at < slots.shape[0])
        after = jnp.minimum(at + 1, slots.shape[0] - 1)
        return state._replace(
            weak=jnp.where(kept, weak & mask, jnp.where(early, at, state.weak)),
            strong=jnp.where(kept, strong & mask, jnp.where(early, after, state.strong)),
            waits=state.waits & ~known & ~early,
        )

    def _round(self, view: View, state: State, known: Array, weak_key: Array, strong_key: Array) -> State:
        """The next round, if the last one is over: its number, and whether the bounds are close enough."""
        overlap = 1 - _float(strong_key) - _float(weak_key)
        close = (overlap < self.epsilon) | (self.closed & (overlap <= self.epsilon))
        close = close & ~(self.late & (state.round == 0))
        begins = known & self._even(view, state.spent)
        return state._replace(
            round=state.round + (known & begins).astype(jnp.int32), stopped=state.stopped | (known & close)
        )

    def _look(self, view: View, state: State) -> State:
        """What follows from the last pull, where that is not known; and a new window."""
        arms = jnp.arange(view.arms, dtype=jnp.int32)
        total, signed = self._flushed(state)
        made, top = jnp.abs(signed), signed > 0
        score = computed_once(lambda score, _: score)(view.score(total, made), made)
        begun = state.spent >= view.arms
        known = state.waits & begun
        begins = known & (state.round == 0)

        def anew(top: Array) -> Array:
            return jnp.where(begins, best(score, self.want, jnp.ones(top.shape, bool))[0], top)

        top = lax.cond(over_lanes(begins.astype(jnp.int32)) > 0, anew, lambda top: top, top)
        cut = _cut(score, top, ~top, arms)
        next_to = (arms == cut.out) | (arms == cut.into)
        top = top ^ (known & cut.trade & next_to)
        top = once(top.astype(jnp.int32)) > 0
        merit, weight = _merit(score, top), computed_once(self._weight)(made)
        round_ = state.round + known.astype(jnp.int32)
        keys = computed_once(lambda merit, weight, pace, _: _ordered(self._key(merit, weight, pace)))
        pace = self._pace(view, round_)
        key = keys(merit, weight, jnp.full(arms.shape, pace), made)
        (weak_key, weak), (strong_key, strong) = _first(key, top, arms), _first(key, ~top, arms)
        fresh = known & self._even(view, state.spent)
        ours = state.window.arm
        weak, strong = jnp.where(fresh, weak, ours[state.weak]), jnp.where(fresh, strong, ours[state.strong])
        state = self._round(view, state, known, weak_key, strong_key)

        slots, until = ours.shape[0], round_ + _HORIZON
        above, below, arm = state.top_fence, state.rest_fence, arms
        if slots < view.arms:
            far = _float(key) - _float(jnp.where(top, weak_key, strong_key))
            inside = _choose(far, top, slots // 2 - 2) | next_to | (arms == weak) | (arms == strong)
            inside = once(inside.astype(jnp.int32)) > 0
            then = self._pace(view, until)
            late = keys(merit, weight, jnp.full(arms.shape, then), made)
            above = self._fence(~inside & top, merit, made, weight, (key, late), then - pace, _last)
            below = self._fence(~inside & ~top, merit, made, weight, (key, late), then - pace, _first)
            ahead = jnp.arange(slots, dtype=jnp.int32)
            arm = jnp.where(begun, some_places(inside, slots), state.spent + ahead)
            arm = jnp.where(arm < view.arms, arm, view.arms + ahead)
            weak, strong = jnp.where(begun, weak, state.spent), jnp.where(begun, strong, state.spent + 1)
        at = jnp.minimum(arm, view.arms - 1)
        signed = jnp.where(top, made, -made)
        own = jnp.abs(signed[at])
        window = Window(arm, total[at], own, view.score(total[at], own), signed[at] > 0, self._weight(own))
        slot = jnp.arange(slots, dtype=jnp.int32)
        return state._replace(
            total=total, made=signed, window=window, top_fence=above, rest_fence=below, since=pace, until=until,
            weak=lowest(jnp.where(arm == weak, slot, slots - 1)),
            strong=lowest(jnp.where(arm == strong, slot, slots - 1)), waits=jnp.bool_(False),
        )  # fmt: skip

    def _fence(
        self, outside: Array, merit: Array, made: Array, weight: Array, keys: tuple[Array, Array], growth: Array,
        nearest: Any,
    ) -> Fence:  # fmt: skip
        """Of the arms ``outside`` on one side; ``keys``: now, and when the pace will have grown by ``growth``."""
        arms = jnp.arange(outside.shape[0], dtype=jnp.int32)
        _, arm = _first(keys[0], outside, arms)
        at = jnp.minimum(arm, arms.shape[0] - 1)
        other = outside & ~((merit == merit[at]) & (made == made[at]))
        wall, late = (_float(lowest(jnp.where(other, key, _FAR))) for key in keys)
        # As the pace grows, Hoeffding's keys go along lines, and the lowest of lines is concave: never below its chord.
        if self.divergence != "hoeffding":
            wall = late
        cut, cut_arm = nearest(merit, outside, arms)
        return Fence(merit[at], weight[at], arm, wall - jnp.float32(1e-6), (wall - late) / growth, cut, cut_arm)

    def _flushed(self, state: State) -> tuple[Array, Array]:
        """``total`` and ``made`` of all arms, the window's too."""
        window = state.window
        ours = window.total, jnp.where(window.top, window.made, -window.made)
        first, second = (
            all_.at[window.arm].set(new, mode="drop", unique_indices=True)
            for all_, new in zip((state.total, state.made), ours, strict=True)
        )
        return first, second

    def _pace(self, view: View, round_: Array) -> Array:
        """What a round's number makes of the exploration rate."""
        x = jnp.log(self.k1 * view.arms / self.delta) + self.alpha * jnp.log(jnp.maximum(round_, 1).astype(jnp.float32))
        return jnp.sqrt(x * jnp.float32(0.5)) if self.divergence == "hoeffding" else x + jnp.log(x)

    def _weight(self, made: Array) -> Array:
        count = jnp.maximum(made, 1).astype(jnp.float32)
        weight: Array = 1 / (jnp.sqrt(count) if self.divergence == "hoeffding" else count)
        return weight

    def _key(self, merit: Array, weight: Array, pace: Array) -> Array:
        """The lower bound of a merit, float32. Falls as the rounds go by."""
        mean = merit.astype(jnp.float32) * jnp.float32(1 / UNITS)
        if self.divergence == "hoeffding":
            bound: Array = mean - pinned(pace * weight)
            return bound
        return _kl_lower(mean, pace * weight)

    def done(self, view: View, state: State) -> Array:
        """The budget is spent, the bounds are close enough, or nothing is left to tell apart."""
        left = view.budget - state.spent
        idle = (left <= 0) | ((left == 1) & (self.odd == 2) & (state.round > 0))
        return ~state.waits & (idle | state.stopped | state.stuck | (self.want >= view.arms))

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """The K largest means; see ``topk.answer``. ``stopped``: 1 where the stopping rule ended the run."""
        total, signed = self._flushed(state)
        made = jnp.abs(signed)
        chosen, _ = best(view.score(total, made), self.want, jnp.ones(view.arms, bool))
        return answer(view, chosen, added(made), by_rank(made), stopped=state.stopped.astype(jnp.int32))


def _merit(score: Array, top: Array) -> Array:
    return jnp.where(top, score, UNITS - score)


def _cut(score: Array, top: Array, rest: Array, tag: Array) -> _Cut:
    """Next to the cut: of the top the last arm of the least mean, of the others the first of the largest."""
    least, out = _last(score, top, tag)
    most, into = _first(UNITS - score, rest, tag)
    return _Cut(least, out, most, into, _trade(least, out, most, into))


def _trade(least: Array, out: Array, most: Array, into: Array) -> Array:
    """Whether the arm below the cut has the larger mean, or the same and a lower number."""
    return (least + most < UNITS) | ((least + most == UNITS) & (into < out))


def _choose(far: Array, top: Array, room: int) -> Array:
    """On either side, about ``room`` arms of the smallest ``far`` (float32, at least 0), no more: by bisection, until
    the number is near enough. Distances are told apart to one part in 64; of alike ones, those of lower arms come
    first.
    """
    n, tag_bits = far.shape[0], (far.shape[0] - 1).bit_length()
    bits = lax.bitcast_convert_type(far, jnp.int32)
    cell = jnp.clip((bits >> 17) - _NEAREST, 0, (1 << _CELL_BITS) - 1)
    size = (cell << tag_bits) | jnp.arange(n, dtype=jnp.int32)
    side = top.astype(jnp.int32)
    above = added(side)
    wanted = jnp.minimum(jnp.stack([n - above, above]), room)

    def narrow(state: tuple[Array, Array, Array, Any]) -> tuple[Array, Array, Array, Any]:
        low, high, bound, _ = state
        within = size <= jnp.where(top, bound[1], bound[0])
        if n < 1 << 15:
            both = added(jnp.where(within, 1 + 65535 * side, 0))
            count = jnp.stack([both & 65535, both >> 16])
        else:
            count = jnp.stack([added((within & own).astype(jnp.int32)) for own in (~top, top)])
        many, few = count > room, count < wanted - wanted // 4
        low, high = jnp.where(few, bound, low), jnp.where(many, bound, high)
        return low, high, jnp.where(many | few, low + ((high - low) >> 1), bound), jnp.any(many | few)

    low, high = jnp.full(2, -1, jnp.int32), jnp.full(2, 1 << (tag_bits + _CELL_BITS), jnp.int32)
    bound = lax.while_loop(lambda state: state[3], narrow, (low, high, (low + high) >> 1, jnp.bool_(True)))[2]
    return size <= jnp.where(top, bound[1], bound[0])


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
    )  # fmt: skip


def _kl_lower(mean: Array, level: Array) -> Array:
    """The least q with d(mean, q) <= level, by bisection on x in q = mean exp(-x): relatively precise next to 0."""
    p = jnp.maximum(mean, jnp.float32(1e-30))
    entropy = jnp.where(mean < 1, (1 - mean) * jnp.log1p(-jnp.minimum(mean, jnp.float32(1 - 2**-24))), 0)

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) * jnp.float32(0.5)
        q = p * jnp.exp(-middle)
        other = jnp.where(mean < 1, (1 - mean) * jnp.log1p(-jnp.minimum(q, jnp.float32(1 - 2**-24))), 0)
        inside = p * middle + (entropy - other) <= level
        return jnp.where(inside, middle, low), jnp.where(inside, high, middle)

    low, _ = lax.fori_loop(0, 30, halve, (jnp.zeros_like(p), (level - entropy) / p))
    return jnp.where(mean > 0, p * jnp.exp(-low), 0)
