"""The problem of outlier arms: kinds of pulls, the view of a rule, and the problem itself, which alone knows the
truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.arms.pulls import percentiles
from jaxbandit.arms.rewards import Bernoulli, Rewards
from jaxbandit.contract import Used
from jaxbandit.describe import brief
from jaxbandit.outliers.truth import OUTLYING, DrawnArms, Source
from jaxbandit.pytree import pytree
from jaxbandit.random import Stream, substream, uniform, words
from jaxbandit.random.trials import UNITS
from jaxbandit.xla.batch import over_lanes
from jaxbandit.xla.entries import gathered
from jaxbandit.xla.exact import quotient
from jaxbandit.xla.fence import computed_once, patiently
from jaxbandit.xla.platforms import by_platform
from jaxbandit.xla.prefix import highest, lowest

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32, UInt32

OUTCOME, COIN = 1, OUTLYING + 1
"""Purposes of random words: rewards, and the rounding of rewards."""

PARTS = 128
"""Rewards other than 0 and 1 are counted in units of 1 / PARTS of their scale, and rounded to whole units at random, so
that their means stay. Sums are int32, of at most ``MOST_PARTED`` rewards."""

MOST_PARTED = 2**31 // PARTS - 1

MOST = 32
"""The most pulls of an arm in a pull of many."""
_UNROLLED = 4

ZERO_ONE = Bernoulli()
"""Rewards of 0 and 1."""


class Pull(NamedTuple):
    """Asks for a pull of ``arm``, which was pulled ``attempt`` times before. The outcome is the reward in units
    (int32).

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import outliers
        >>> rule = outliers.RR(outliers.interval("bounded", delta=0.1, k=1.5))
        >>> view = outliers.View(budget=jnp.int32(100), arms=3)
        >>> rule.ask(view, rule.init(view))
        Pull(arm=Array(0, dtype=int32), attempt=Array(0, dtype=int32))
    """

    arm: Int32[Array, ""]
    attempt: Int32[Array, ""]


class Sums(NamedTuple):
    """Asks for many pulls, and for the sum of each arm's rewards (int32, shape (n,)). ``counts``: pulls of each arm,
    0 to ``MOST``; ``attempts``: pulls of each arm before."""

    counts: Int32[Array, " arms"]
    attempts: Int32[Array, " arms"]


class Once(NamedTuple):
    """Asks for the same as ``Sums`` where no arm is pulled twice: one word decides a reward, on tape or not."""

    counts: Int32[Array, " arms"]
    attempts: Int32[Array, " arms"]


class Singles(NamedTuple):
    """Asks for many pulls, and for each reward of 0 or 1 by itself, of which fewer may be used than were drawn. Reward
    j of the outcome is bit j of the arm's word (uint32, shape (n,)). ``counts``, ``attempts``: see ``Sums``."""

    counts: Int32[Array, " arms"]
    attempts: Int32[Array, " arms"]


class Chosen(NamedTuple):
    """Asks for pulls of a few arms, and for each reward by itself. ``arms``: their numbers, -1 for none; ``attempts``:
    pulls of each before; ``most``: the most pulls of each that may be used, 32 at most, a number of Python. The outcome
    has a uint32 for each arm, as that of ``Singles``."""

    arms: Int32[Array, " few"]
    attempts: Int32[Array, " few"]
    most: int


@dataclass(frozen=True)
class View:
    """Holds what a rule knows before the first pull.

    ``budget``: the pulls that it may make, at least one of each arm; ``arms``: how many arms there are; ``unit``: what
    one unit of a reward is worth. Rewards come as whole numbers of units: a unit is 1 where rewards are 0 or 1, else
    1 / ``PARTS`` of their scale. So mean rewards are sums of units / pulls * ``unit``.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import outliers
        >>> view = outliers.View(budget=jnp.int32(3), arms=3)
        >>> rule = outliers.RR(outliers.interval("bounded", delta=0.1, k=1.5))
        >>> state = rule.init(view)
        >>> for reward in (0, 1, 0):
        ...     state = rule.tell(view, state, rule.ask(view, state), jnp.int32(reward))
        ...
        >>> bool(rule.done(view, state)), state.seen.ones.tolist()  # the budget is spent
        (True, [0, 1, 0])
    """

    budget: Int32[Array, ""]
    arms: int
    unit: float = 1.0


class Instance(NamedTuple):
    """Holds what was drawn for one run: its arms, and the key of the rewards."""

    arms: DrawnArms
    outcomes: Stream


@computed_once
def few(
    word: UInt32[Array, "*arms"], p: Float32[Array, "*arms"], count: Int32[Array, "*arms"]
) -> Int32[Array, "*arms"]:
    """Draws the successes in ``count`` trials (0 to ``MOST``) that succeed with probability ``p``, by inversion.

    The probability of each number follows from the one before by sums and products, added as integers in units of
    2^-30; what rounding leaves over goes to the mode.
    """
    rare = jnp.minimum(p, 1 - p)
    trials = count.astype(jnp.float32)
    # (1 - rare)^count by its bits.
    power, start, bits = 1 - rare, jnp.float32(2**30), count
    for _ in range(MOST.bit_length()):
        start = jnp.where((bits & 1) == 1, start * power, start)
        power, bits = power * power, bits >> 1
    odds, term, rest = quotient(rare, 1 - rare), start, (word >> jnp.uint32(2)).astype(jnp.int32)
    found = jnp.zeros_like(count)
    for j in range(1, MOST + 2):
        rest = rest - term.astype(jnp.int32)
        found = found + (rest >= 0).astype(jnp.int32)
        term = term * (odds * jnp.float32(1 / j) * jnp.maximum(trials - (j - 1), 0))
    mode = ((trials + 1) * rare).astype(jnp.int32)
    found = jnp.where(found > count, mode, found)
    return jnp.where(p > 0.5, count - found, found)


@computed_once
def _once(high: Array, low: Array, mean: Array, arm: Array, attempt: Array) -> Array:
    return ZERO_ONE.one(Stream(high, low), arm, None, attempt, mean)


@pytree
@dataclass(frozen=True)
class OutlierArms:
    """Draws arms from a ``source`` and their rewards, and scores a rule's answer. ``budget``: the pulls it may make.

    ``on_tape`` (static): each reward has a random word of its own, so that the size of a pull changes nothing.
    ``show_arms`` (static): ``score`` also gives the rule's answer for each arm.

    Example:
        >>> import jaxbandit
        >>> from jaxbandit import random
        >>> problem = {"kind": "outliers/bernoulli", "means": {"list": [0.2, 0.3, 0.2, 0.9]}, "k": 1.2, "budget": 500}
        >>> (each,) = jaxbandit.Study.of({"runs": 1, "problem": problem, "policy": [{"kind": "rr"}]}).configurations()
        >>> instance = each.problem.draw(random.stream(0, 0))
        >>> instance.arms.rows.tolist(), instance.arms.levels.tolist()  # of the arms of this run
        ([3, 2, 1, 0], [1, 0, 0, 0])
    """

    budget: Int32[Array, ""]
    source: Source
    rewards: Rewards = ZERO_ONE
    on_tape: bool = field(metadata={"static": True}, default=False)
    show_arms: bool = field(metadata={"static": True}, default=False)

    __repr__ = brief

    def draw(self, key: Stream) -> Instance:
        """Draws the arms of a run, and the key of their rewards."""
        return Instance(self.source.draw(key), substream(key, OUTCOME))

    def view(self, key: Stream, instance: Instance) -> View:
        """Returns what a rule may know of the run."""
        n = self.source.arms
        return View(jnp.maximum(self.budget, n), n, 1.0 if self.rewards.whole else 1 / PARTS)

    def pull(self, key: Stream, instance: Instance, pull: Any) -> Any:
        """Returns rewards or their sums, as each kind of pull says."""
        if isinstance(pull, Chosen):
            arms, number = jnp.maximum(pull.arms, 0)[:, None], jnp.arange(pull.most, dtype=jnp.int32)
            hits = self.rewards.one(
                instance.outcomes, arms, None, pull.attempts[:, None] + number, instance.arms.means[arms]
            )
            return jnp.sum(hits.astype(jnp.uint32) << number.astype(jnp.uint32), 1, dtype=jnp.uint32)
        if isinstance(pull, Pull):
            if self.rewards.whole:
                return _once(*instance.outcomes, gathered(instance.arms.means, pull.arm), *pull)
            return self._reward(key, instance, *pull)
        arms = jnp.arange(self.source.arms, dtype=jnp.int32)
        if isinstance(pull, Singles):
            return self._bits(instance, pull.attempts, jnp.max(pull.counts))
        if isinstance(pull, Once):
            return self._reward(key, instance, arms, pull.attempts) * pull.counts
        if self.rewards.whole and not self.on_tape:
            p = instance.arms.means.astype(jnp.float32) * jnp.float32(1 / UNITS)
            return few(words(instance.outcomes, arms, pull.attempts)[0], p, pull.counts)

        def one(j: Array, total: Array) -> Array:
            reward = self._reward(key, instance, arms, pull.attempts + j)
            return total + jnp.where(j < pull.counts, reward, 0)

        most = over_lanes(jnp.max(pull.counts))
        total: Array = lax.fori_loop(0, most, one, jnp.zeros_like(pull.counts))
        return total

    def used(self, view: View, pull: Any, outcome: Any) -> Used | None:
        """Says which reward a pull of one arm took, for ``check``; None of other pulls."""
        if not isinstance(pull, Pull):
            return None
        return Used(pull.arm, pull.attempt, jnp.ones_like(pull.arm), jnp.int32(view.arms))

    def _reward(self, key: Stream, instance: Instance, arm: Array, attempt: Array) -> Array:
        """Returns a reward of each arm, in units: int32."""
        (means, _, rows), law = instance.arms, self.rewards
        if arm.ndim == 0:
            means, rows = means[arm], rows[arm]
        reward = law.one(instance.outcomes, arm, rows, attempt, means)
        return reward if law.whole else self.counted(key, arm, attempt, reward)

    def counted(self, key: Stream, arm: Array, attempt: Array, reward: Array) -> Array:
        """Returns a reward that is not 0 or 1 in units: int32, rounded at random by a word of its own."""
        parts = jnp.clip(self.rewards.scale.place(reward), 0, 1) * PARTS
        down = parts.astype(jnp.int32)
        up = uniform(words(substream(key, COIN), arm, attempt)[0]) < parts - down.astype(jnp.float32)
        return down + up.astype(jnp.int32)

    def _bits(self, instance: Instance, attempts: Array, many: Array) -> Array:
        """Returns at least ``many`` rewards of 0 and 1 of each arm, each as a bit."""
        means = instance.arms.means
        arm = jnp.arange(self.source.arms, dtype=jnp.int32)

        def some(group: Array, bits: Array) -> Array:
            for j in range(_UNROLLED):
                number = group * _UNROLLED + j
                hit = self.rewards.one(instance.outcomes, arm, None, attempts + number, means)
                bits = bits | (hit.astype(jnp.uint32) << number.astype(jnp.uint32))
            return bits

        most, blank = over_lanes(many), jnp.zeros(arm.shape, jnp.uint32)
        return patiently(MOST // _UNROLLED, lambda group, _: group * _UNROLLED < most, some, blank)

    def score(self, instance: Instance, answer: dict[str, Array]) -> dict[str, Array]:
        """Compares an answer with the truth. The answer has ``outliers`` (bool), ``arm_pulls`` and perhaps ``scores``
        (int32), each of shape (n,), and a result ``code`` (int32).

        Returns int32 scalars: ``code``; ``pulls``; how many outliers there are (``wanted``), how many the rule found
        (``found``), and how many of these are right (``hits``); whether the ranking by ``scores``, or else by
        ``outliers``, has outliers first, of higher levels before others (``ranked``, bool); and what
        ``arms.pulls.percentiles`` gives. With ``show_arms``, also the answer's arrays, by the user's row.
        """
        said, pulls, (_, levels, rows) = answer["outliers"], answer["arm_pulls"], instance.arms
        place = answer.get("scores", (~said).astype(jnp.int32))
        ordered, n = jnp.sort(pulls), levels.shape[0]
        each = {name: value for name, value in answer.items() if value.ndim} if self.show_arms else {}
        return {
            "code": answer["code"],
            "pulls": jnp.sum(pulls, dtype=jnp.int32),
            "wanted": jnp.sum(levels > 0, dtype=jnp.int32),
            "found": jnp.sum(said, dtype=jnp.int32),
            "hits": jnp.sum(said & (levels > 0), dtype=jnp.int32),
            "ranked": _ranked(levels, place),
            **percentiles(n, lambda rank: ordered[rank - 1]),
            **{name: jnp.zeros_like(x).at[rows].set(x, unique_indices=True) for name, x in each.items()},
        }


def _ranked(levels: Array, place: Array) -> Array:
    """Returns whether each arm has a lower ``place`` than all arms of lower levels: bool, of int32 of shape (n,)."""

    def level_by_level(levels: Array, place: Array) -> Array:
        def turn(level: Array, ranked: Array) -> Array:
            upper = levels >= level
            last, first = highest(jnp.where(upper, place, -(2**31))), lowest(jnp.where(upper, 2**31 - 1, place))
            return ranked & ((last < first) | jnp.all(upper))

        ranked: Array = lax.fori_loop(1, over_lanes(highest(levels)) + 1, turn, jnp.bool_(True))
        return ranked

    def pair_by_pair(levels: Array, place: Array) -> Array:
        return ~jnp.any((levels[:, None] > levels[None, :]) & (place[:, None] >= place[None, :]))

    # An accelerator would wait for its host at each level; a CPU would write all pairs to its memory.
    found: Array = by_platform(levels, place, cpu=level_by_level, default=pair_by_pair)
    return found
