"""Outlier arms as families of studies run them: a problem that knows the truth, and rules held against it."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxbandit.arms.pulls import percentiles
from jaxbandit.arms.rewards import Rewards
from jaxbandit.contract import brief
from jaxbandit.grammar import Execution, execution_of
from jaxbandit.outliers.problem import OUTCOME, Bernoulli
from jaxbandit.outliers.truth import OUTLYING, Arms, Source
from jaxbandit.random import uniform
from jaxbandit.random.stream import Stream, substream, words
from jaxbandit.random.trials import UNITS, over_lanes

COIN = OUTLYING + 1
"""What the words are for that round rewards."""


class Instance(NamedTuple):
    """One run's own draws: its arms, and the key of the rewards."""

    arms: Arms
    outcomes: Stream


class View(NamedTuple):
    """``n``: what a rule may know, how many arms there are; ``levels``: of each arm, for ``Measured`` alone."""

    n: Array
    levels: Array


PARTS = 128
"""Rewards other than 0 and 1 are counted in units of 1 / PARTS of their scale, and rounded at random to whole ones, so
that their means stay. Sums are int32, of at most ``MOST_PARTED`` rewards."""

MOST_PARTED = 2**31 // PARTS - 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OutlierArms:
    """Arms from a ``source``, pulled in bulk as ``problem`` says.

    ``rewards``: None for those of 0 and 1, whose sums are drawn in one go; all others are drawn one by one.
    ``on_tape``: see ``problem``.
    """

    source: Source
    rewards: Rewards | None = None
    on_tape: bool = field(metadata={"static": True}, default=False)

    __repr__ = brief

    def draw(self, key: Stream) -> Instance:
        """The arms, and the key of the tape."""
        return Instance(self.source.draw(key), substream(key, OUTCOME))

    def view(self, key: Stream, instance: Instance) -> View:
        """The number of arms, and their levels."""
        return View(jnp.int32(self.source.arms), instance.arms.levels)

    def pull(self, key: Stream, instance: Instance, pull: Any) -> Any:
        """The sum of each arm's rewards, in units where they are not 0 and 1."""
        means, _, rows = instance.arms
        if self.rewards is None:
            p = means.astype(jnp.float32) * jnp.float32(1 / UNITS)
            return Bernoulli(p, self.on_tape).pull(key, instance.outcomes, pull)
        rewards, arm, coins = self.rewards, jnp.arange(self.source.arms, dtype=jnp.int32), substream(key, COIN)

        def one(j: Array, total: Array) -> Array:
            attempt = pull.attempts + j
            reward = rewards.place(rewards.one(instance.outcomes, arm, rows, attempt, means))
            parts = jnp.clip(reward, 0, 1) * PARTS
            down = parts.astype(jnp.int32)
            up = uniform(words(coins, arm, attempt)[0]) < parts - down.astype(jnp.float32)
            return total + jnp.where(j < pull.counts, down + up.astype(jnp.int32), 0)

        most = over_lanes(jnp.max(pull.counts))
        total: Array = lax.fori_loop(0, most, one, jnp.zeros_like(pull.counts))
        return total


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Measured:
    """A rule whose answer is held against the truth, as a few numbers a run."""

    rule: Any

    __repr__ = brief

    @property
    def execution(self) -> Execution:
        """That of the rule."""
        return execution_of(self.rule)

    def init(self, view: View) -> Any:
        """The rule's."""
        return self.rule.init(view)

    def ask(self, view: View, state: Any) -> Any:
        """The rule's."""
        return self.rule.ask(view, state)

    def tell(self, view: View, state: Any, pull: Any, outcome: Any) -> Any:
        """The rule's."""
        return self.rule.tell(view, state, pull, outcome)

    def done(self, view: View, state: Any) -> Array:
        """The rule's."""
        over: Array = self.rule.done(view, state)
        return over

    def answer(self, view: View, state: Any) -> dict[str, Array]:
        """int32 scalars: ``code``, ``pulls``; ``wanted`` outliers there are, ``found`` are said to be, of which
        ``hits`` are; ``ranked`` (bool): outliers come first, those of higher levels before the others, where the rule
        ranks arms by its ``scores``, or else by whether it says so; ``arms.pulls.percentiles``.
        """
        told, levels = self.rule.answer(view, state), view.levels
        said = told["outliers"]
        place = told.get("scores", (~said).astype(jnp.int32))
        wrong = (levels[:, None] > levels[None, :]) & (place[:, None] >= place[None, :])
        ordered, n = jnp.sort(told["arm_pulls"]), levels.shape[0]
        return {
            "code": told["code"],
            "pulls": told["pulls"],
            "wanted": jnp.sum(levels > 0, dtype=jnp.int32),
            "found": jnp.sum(said, dtype=jnp.int32),
            "hits": jnp.sum(said & (levels > 0), dtype=jnp.int32),
            "ranked": ~jnp.any(wrong),
            **percentiles(n, lambda rank: ordered[rank - 1]),
        }
