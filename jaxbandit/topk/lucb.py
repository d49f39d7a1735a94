"""LUCB: Kalyanakrishnan, Tewari, Auer and Stone, "PAC subset selection in stochastic multi-armed bandits", ICML 2012;
KL-LUCB: Kaufmann and Kalyanakrishnan, "Information complexity in bandit subset selection", COLT 2013.

First every arm is pulled once. Then a round pulls two arms: of the K largest means the one with the lowest lower bound,
and of the others the one with the highest upper bound. It ends at the budget (section 6 of Zhou, Chen and Li 2014), or
where these two bounds overlap by less than epsilon. The answer is the K largest means. Nothing is planned for the
budget: if it cuts a round in two and is raised later (``simulate``'s checkpoints), the round's second pull comes first.
So without a stopping rule, a run with checkpoints has the bits of runs with these budgets.

A round changes two means, one on either side of the cut. Before, all means above the cut were at least those below; so
what changes is at most that the least above and the greatest below trade places, and no round ranks the arms anew.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.arms.prefix import added, best, highest, lowest
from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.errors import BadInput
from jaxbandit.random.trials import UNITS, over_lanes
from jaxbandit.topk.answer import answer, by_rank

_LOW, _HIGH = -(2**31), 2**31 - 1


class State(NamedTuple):
    """``total``, ``made``: the sum of an arm's rewards and its pulls; ``score``: of its mean (int32); ``top``: whether
    it is among the K largest (bool), all of shape (arms,). ``spent``: pulls asked for, ``round``: the round's number,
    from 1; ``weak``, ``strong``: the arms to pull next (int32); ``stopped``: the bounds are close enough (bool);
    ``dry``: the last pulls gave nothing (bool); ``stuck``: both pulls of a round did (bool)."""

    total: Array
    made: Array
    score: Array
    top: Array
    spent: Array
    round: Array
    weak: Array
    strong: Array
    stopped: Array
    dry: Array
    stuck: Array


def _ordered(x: Array) -> Array:
    """int32 in the order of finite float32 ``x``."""
    bits = lax.bitcast_convert_type(x + jnp.float32(0), jnp.int32)
    return jnp.where(bits < 0, bits ^ jnp.int32(0x7FFFFFFF), bits)


def _lowest(key: Array, among: Array) -> tuple[Array, Array]:
    """The first arm of the lowest key, and that key."""
    arms = jnp.arange(key.shape[0], dtype=jnp.int32)
    least = lowest(jnp.where(among, key, _HIGH))
    return lowest(jnp.where(among & (key == least), arms, key.shape[0] - 1)), least


def _least(score: Array, among: Array) -> tuple[Array, Array]:
    """The last arm of the least score, and that score: the lowest rank."""
    arms = jnp.arange(score.shape[0], dtype=jnp.int32)
    least = lowest(jnp.where(among, score, _HIGH))
    return highest(jnp.where(among & (score == least), arms, 0)), least


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lucb:
    """LUCB. ``want``: K (int32). Bounds are at confidence ``delta``, with t the round's number and u an arm's pulls:

    - ``divergence`` (static) "hoeffding": mean +- sqrt(ln(k1 n t^4 / delta) / (2 u)); not cut to [0, 1];
    - "kl": the q with u d(mean, q) <= x + ln x where x = ln(k1 n t^alpha / delta), d being the divergence of
      Bernoulli laws. Rewards must be in [0, 1].

    ``epsilon``: stop when the bounds overlap by less (by at most that much where ``closed``), from the first round on
    or, where ``late``, from the second; -inf to go on to the budget. ``odd`` (int32): who gets a last pull that has no
    pair: 0 the weak arm of the top, 1 the strong arm of the others, 2 nobody. Floats are float32.
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

    dense = True

    def init(self, view: View) -> State:
        """Nothing pulled; two arms a step come first, in the order of the arms."""
        zeros, zero, false = jnp.zeros((view.arms,), jnp.int32), jnp.int32(0), jnp.bool_(False)
        top = jnp.arange(view.arms, dtype=jnp.int32) < self.want
        second = jnp.int32(min(1, view.arms - 1))
        return State(view.nothing((view.arms,)), zeros, zeros, top, zero, zero, zero, second, false, false, false)

    def _half(self, view: View, state: State) -> Array:
        """Whether one of a round's two arms was pulled, and the budget ended there."""
        return (state.round > 0) & ((state.spent - view.arms) % 2 == 1)

    def _width(self, view: View, state: State) -> Array:
        """How many arms the next step pulls."""
        left = view.budget - state.spent
        first = jnp.minimum(view.arms - state.spent, 2)
        pair = jnp.where(self._half(view, state), 1, jnp.where((left == 1) & (self.odd == 2), 0, 2))
        return jnp.where(self.done(view, state), 0, jnp.minimum(left, jnp.where(first > 0, first, pair)))

    def ask(self, view: View, state: State) -> Pull:
        """The weak and the strong arm, or the one of them that a single pull goes to."""
        weak, strong = state.weak, state.strong
        alone = (view.budget - state.spent == 1) & (self.odd == 1) & (state.round > 0)
        turned = jnp.where(self._half(view, state), self.odd == 0, alone)
        arm = jnp.where(turned, jnp.stack([strong, weak]), jnp.stack([weak, strong]))
        return Pull(arm, state.made[arm], jnp.int32(1), self._width(view, state))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Add it up; find the cut and the next two arms."""
        moved = pull.used > 0
        total = state.total.at[pull.arm].add(outcome.total)
        made = state.made.at[pull.arm].add(outcome.made)
        score = state.score.at[pull.arm].set(view.score(total[pull.arm], made[pull.arm]))
        spent = state.spent + pull.used
        first = spent >= view.arms
        begins = moved & first & (state.round == 0)

        def anew(top: Array) -> Array:
            return jnp.where(begins, best(score, self.want, jnp.ones(top.shape, bool))[0], top)

        top = lax.cond(over_lanes(begins.astype(jnp.int32)) > 0, anew, lambda top: top, state.top)
        out, least = _least(score, top)
        into, most = _lowest(~score, ~top)
        most = ~most
        trade = first & moved & ((most > least) | ((most == least) & (into < out)))
        arms = jnp.arange(view.arms, dtype=jnp.int32)
        top = jnp.where(trade & ((arms == out) | (arms == into)), ~top, top)

        round_ = state.round + (moved & first).astype(jnp.int32)
        low, high = self._bounds(view, score, made, round_)
        weak, _ = _lowest(_ordered(low), top)
        strong, _ = _lowest(~_ordered(high), ~top)
        overlap = high[strong] - low[weak]
        close = (overlap < self.epsilon) | (self.closed & (overlap <= self.epsilon))
        close = close & moved & first & ~(self.late & (round_ <= 1))
        weak = jnp.where(first, weak, jnp.minimum(spent, view.arms - 1))
        strong = jnp.where(first, strong, jnp.minimum(spent + 1, view.arms - 1))
        whole = moved & ~(first & (state.round > 0) & ((spent - view.arms) % 2 == 1))
        nothing = first & moved & (jnp.sum(outcome.made) == 0)
        return State(
            total, made, score, top, spent, jnp.where(whole, round_, state.round),
            jnp.where(whole, weak, state.weak), jnp.where(whole, strong, state.strong),
            state.stopped | close, jnp.where(moved, nothing, state.dry),
            state.stuck | (whole & nothing & (state.dry | ~self._half(view, state))),
        )  # fmt: skip

    def _bounds(self, view: View, score: Array, made: Array, round_: Array) -> tuple[Array, Array]:
        mean = score.astype(jnp.float32) * jnp.float32(1 / UNITS)
        count = jnp.maximum(made, 1).astype(jnp.float32)
        x = jnp.log(self.k1 * view.arms / self.delta) + self.alpha * jnp.log(jnp.maximum(round_, 1).astype(jnp.float32))
        if self.divergence == "hoeffding":
            radius = jnp.sqrt(x * jnp.float32(0.5)) * lax.rsqrt(count)
            return mean - radius, mean + radius
        level = (x + jnp.log(x)) / count
        return _kl_lower(mean, level), 1 - _kl_lower(1 - mean, level)

    def done(self, view: View, state: State) -> Array:
        """The budget is spent, the bounds are close enough, or nothing is left to tell apart."""
        left = view.budget - state.spent
        idle = (left <= 0) | ((left == 1) & (self.odd == 2) & (state.round > 0))
        return idle | state.stopped | state.stuck | (self.want >= view.arms)

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """The K largest means; see ``topk.answer``. ``stopped``: 1 where the stopping rule ended the run."""
        chosen, _ = best(state.score, self.want, jnp.ones(view.arms, bool))
        stopped = state.stopped.astype(jnp.int32)
        return answer(view, chosen, added(state.made), by_rank(state.made), stopped=stopped)


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
