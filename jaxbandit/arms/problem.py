"""The problem of stochastic arms, with its pulls and its view: what rules for arms are run against.

A pull of an arm gives a reward, drawn from a law of the arm's own with an unknown mean. A run numbers its arms from 0,
in a random order of the user's rows (drawn means have no order). So a rule that gives ties to the lowest number gives
them to a random arm, and a table that is sorted is no help.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.arms.pulls import counted
from jaxbandit.arms.rewards import Rewards, Scale
from jaxbandit.contract import Used
from jaxbandit.describe import brief
from jaxbandit.devices import use_all_cores
from jaxbandit.errors import BadInput
from jaxbandit.parsers import whole
from jaxbandit.pytree import pytree
from jaxbandit.random import permuted, words
from jaxbandit.random.quantiles import Quantiles
from jaxbandit.random.stream import Stream, substream
from jaxbandit.random.trials import UNITS
from jaxbandit.xla.batch import over_lanes
from jaxbandit.xla.entries import gathered
from jaxbandit.xla.prefix import added, best, highest, in_blocks

if TYPE_CHECKING:
    from jaxtyping import Int32, Num

MEAN, ORDER, OUTCOME, CHOICE = range(1, 5)
"""Purposes of random words, each the first half of a word's counter."""

MOST_ARMS, MOST_PULLS, MOST_SUMMED = 1 << 19, 1 << 29, 1 << 24


class Pull(NamedTuple):
    """Asks for a number of pulls of each of some arms.

    ``arm``: the arms, each once; a negative number is no arm. ``first``: how often each was pulled before; ``times``:
    how often it is pulled now; ``used``: entries from this one on are ignored, so that 0 asks for nothing. ``few``
    (static): no arm is pulled more than ``MOST_TRIALS`` times, so that the sampler of larger counts is not compiled.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import topk
        >>> pull = topk.Pull(arm=jnp.array([4, 7]), first=jnp.array([0, 3]), times=jnp.int32(5), used=jnp.int32(2))
        >>> pull.few  # five more pulls each of arm 4, which is new, and of arm 7
        False
    """

    arm: Int32[Array, " m"]
    first: Int32[Array, " m"] | Int32[Array, ""]
    times: Int32[Array, " m"] | Int32[Array, ""]
    used: Int32[Array, ""]
    few: bool = False


class Outcome(NamedTuple):
    """Holds the pulls that were ``made`` of each arm, fewer than asked for where a record ends, and the sum of their
    rewards (``total``, int32 where rewards are 0 or 1, else float32). Both have the shape of ``Pull.arm``.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import topk
        >>> outcome = topk.Outcome(made=jnp.array([5, 5]), total=jnp.array([4, 2]))
        >>> (outcome.total / outcome.made).tolist()
        [0.800000011920929, 0.4000000059604645]
    """

    made: Int32[Array, "*pulled"]
    total: Num[Array, "*pulled"]


class Single(NamedTuple):
    """Asks for one pull of each of some arms, which were pulled ``attempt`` times before."""

    arm: Int32[Array, "*pulled"]
    attempt: Int32[Array, "*pulled"]


class Instance(NamedTuple):
    """Holds what was drawn for one run: the ``means`` on the scale of ``Arms``; the user's row of each arm (``rows``),
    where rewards depend on it or the choice is shown; and the key of the rewards (``outcomes``)."""

    means: Int32[Array, " arms"]
    rows: Int32[Array, " arms"] | None
    outcomes: Stream


@dataclass(frozen=True)
class View:
    """Holds what an algorithm knows in one run.

    ``budget``: the pulls that it may make; ``arms``: how many arms there are (static); ``even``: whether every pull is
    made as asked (static), which only a record that ends prevents; ``scale``: the scale of the rewards; ``choices``: a
    stream for random choices of the algorithm's own.

    Example:
        >>> import jaxbandit
        >>> from jaxbandit import random
        >>> problem = {"kind": "topk/bernoulli", "n": 3, "K": 1, "budget": 60}
        >>> study = jaxbandit.Study.of({"runs": 1, "problem": problem, "policy": [{"kind": "uniform"}]})
        >>> (each,) = study.configurations()
        >>> key = random.stream(0, 0)
        >>> view = each.problem.view(key, each.problem.draw(key))
        >>> int(view.budget), view.arms, view.nothing((3,)).tolist()
        (60, 3, [0, 0, 0])
    """

    budget: Int32[Array, ""]
    arms: int
    even: bool
    scale: Scale
    choices: Stream

    def nothing(self, shape: tuple[int, ...]) -> Num[Array, " ..."]:
        """Returns totals of no rewards, of the dtype that outcomes have."""
        return jnp.zeros(shape, jnp.int32 if self.scale.whole else jnp.float32)

    def mean(
        self, total: Num[Array, "*some"], count: Int32[Array, "*some"], equal_counts: bool = False
    ) -> Int32[Array, "*some"]:
        """Returns empirical means ``total / count`` as numbers that can be compared and subtracted exactly: linear in
        the mean, within 2^29 of 0.

        ``equal_counts``: all counts are one number, so that totals of rewards 0 and 1 can be compared as they are. Else
        means are in units of 2^-24 of the scale. The mean of no rewards is 0, the low end of the scale.
        """
        return self.scale.units(total, count, equal_counts)


@pytree
@dataclass(frozen=True)
class Given:
    """Holds means that are the same in each run, in units of 2^-24 of the scale.

    ``shuffled`` (static): whether a run numbers its arms in a random order, else as they are.
    """

    means: Int32[Array, " arms"]
    shuffled: bool = field(default=True, metadata={"static": True})

    @property
    def arms(self) -> int:
        """Returns how many arms have a mean here."""
        return int(self.means.shape[0])

    def draw(self, key: Stream) -> tuple[Int32[Array, " arms"], Int32[Array, " arms"]]:
        """Returns the means of the run with this key, and the user's row of each of its arms."""
        rows = permuted(key, ORDER, self.arms) if self.shuffled else jnp.arange(self.arms, dtype=jnp.int32)
        return self.means[rows], rows


@pytree
@dataclass(frozen=True)
class Drawn:
    """Draws means afresh in each run, independently, from the law ``quantiles`` on [0, 1]; ``arms``: static."""

    quantiles: Quantiles
    arms: int = field(metadata={"static": True})

    def draw(self, key: Stream) -> tuple[Int32[Array, " arms"], Int32[Array, " arms"]]:
        """Draws the means of the run with this key; each arm is a row of its own."""
        arms = jnp.arange(self.arms, dtype=jnp.int32)
        fine = self.quantiles.draw(words(key, MEAN, arms)[0])
        return (fine >> jnp.uint32(8)).astype(jnp.int32), arms


@pytree
@dataclass(frozen=True)
class Arms:
    """Draws arms and their rewards, and scores a choice of arms. A pytree, whose ``budget`` may differ between
    configurations.

    Means are on a scale that is cut into 2^24 units: [0, 1] where rewards are bounded, else as ``rewards`` says.
    ``on_tape`` (static): each reward has a random word of its own, so that the size of a pull changes nothing.
    ``show_chosen`` (static): a run tells which arms it chose (``score``), a byte an arm and run.
    """

    budget: Int32[Array, ""]
    means: Given | Drawn
    rewards: Rewards
    on_tape: bool = field(default=False, metadata={"static": True})
    show_chosen: bool = field(default=False, metadata={"static": True})

    __repr__ = brief

    def draw(self, key: Stream) -> Instance:
        """Draws the means of a run's arms, and the key of their rewards."""
        means, rows = self.means.draw(key)
        return Instance(means, rows if self.rewards.by_row or self.show_chosen else None, substream(key, OUTCOME))

    def view(self, key: Stream, instance: Instance) -> View:
        """Returns what an algorithm may know of the run."""
        return View(self.budget, self.means.arms, self.rewards.even, self.rewards.scale, substream(key, CHOICE))

    def score(self, instance: Instance, answer: dict[str, Array]) -> dict[str, Array]:
        """Compares a choice of arms with the true means, and counts how often arms were pulled.

        Args:
            instance: what was drawn for the run.
            answer: ``chosen``, bool of shape (arms,); ``arm_pulls``, int32 of that shape, or in its place what
                ``pulls.counted`` makes of it. All else is passed on, as is an answer that chooses no arms.

        Returns:
            What ``pulls.counted`` gives, and int32 scalars. ``wanted``: how many arms are chosen; ``regret_high``,
            ``regret_low``: the sum of the means of as many best arms less that of the chosen, as high * 2^12 + low in
            units of 2^-24 of the scale; ``right``: chosen arms above the last of the best; ``level``: chosen arms equal
            to it; ``ties``: all arms equal to it; ``room``: how many of these belong to the best. With ``show_chosen``
            also ``chosen``: the choice by the user's row (bool, shape (arms,)).
        """
        if "chosen" not in answer:
            return answer
        means, chosen = instance.means, answer["chosen"]
        found = {name: value for name, value in answer.items() if name not in ("chosen", "arm_pulls")}
        if "arm_pulls" in answer:
            found |= counted(answer["arm_pulls"])
        if self.show_chosen:
            blank = jnp.zeros(chosen.shape, bool)
            found["chosen"] = blank.at[instance.rows].set(chosen, unique_indices=True)
        one = chosen.astype(jnp.int32)
        wanted = added(one)
        top, least = best(means, wanted, jnp.ones(means.shape, bool))
        above, level = means > least, (means == least).astype(jnp.int32)
        ahead = top.astype(jnp.int32) - one
        return found | {
            "wanted": wanted,
            "regret_high": added(ahead * (means >> 12)),
            "regret_low": added(ahead * (means & 4095)),
            "right": added(jnp.where(above, one, 0)),
            "level": added(level * one),
            "ties": added(level),
            "room": wanted - added(above.astype(jnp.int32)),
        }

    def _single(self, instance: Instance, pull: Single) -> Outcome:
        row = None if instance.rows is None else gathered(instance.rows, pull.arm)
        mean = gathered(instance.means, pull.arm)
        made = self.rewards.made(row, pull.attempt, jnp.ones_like(pull.arm))
        reward = self.rewards.one(instance.outcomes, pull.arm, row, pull.attempt, mean)
        return Outcome(made, jnp.where(made > 0, reward, 0))

    def pull(self, key: Stream, instance: Instance, pull: Pull | Single) -> Outcome:
        """Pulls the arms: draws the sum of each arm's rewards in one go from its law, or reward by reward."""
        if isinstance(pull, Single):
            return self._single(instance, pull)
        rewards = self.rewards
        # A count that is one number for all arms stays one number.
        counts = pull.first, jnp.where(pull.used > 0, pull.times, 0)
        spread = [field.ndim > 0 for field in counts]
        read = [pull.arm, *(field for field, own in zip(counts, spread, strict=True) if own)]

        def by(draw: Any) -> Callable[[Array, list[Array]], list[Array]]:
            def part(place: Array, cut: list[Array]) -> list[Array]:
                total, *made = cut[: len(blank)]
                arm, *own = cut[len(blank) :]
                first, count = (own.pop(0) if has else field for field, has in zip(counts, spread, strict=True))
                there, arm = (place < pull.used) & (arm >= 0), jnp.maximum(arm, 0)
                row = None if instance.rows is None else instance.rows[arm]
                if made:
                    count = jnp.where(there, rewards.made(row, first, jnp.broadcast_to(count, arm.shape)), 0)
                mean = gathered(instance.means, arm)
                drawn = draw(total, instance.outcomes, arm, row, first, count, mean)
                return [jnp.where(there, drawn, 0), *([count] if made else [])]

            return part

        def few(_: Array, *pulled: Any) -> Array:
            total: Array = rewards.tape(*pulled) if self.on_tape else rewards.total(*pulled)
            return total

        def many(total: Array, *pulled: Any) -> Array:
            return jnp.where(pulled[4] > rewards.most, rewards.many(*pulled), total)

        # Where a record may end, the pulls that were made are found for each arm.
        blank = [jnp.zeros(pull.arm.shape, jnp.int32 if rewards.whole else jnp.float32)]
        blank += [] if rewards.even else [jnp.zeros(pull.arm.shape, jnp.int32)]
        found = in_blocks(by(few), pull.used, blank, read)
        if rewards.most is not None and not self.on_tape and not pull.few:
            largest = highest(counts[1]) if spread[1] else counts[1]
            found = lax.cond(
                over_lanes(largest) > rewards.most,
                lambda: in_blocks(by(many), pull.used, found, read),
                lambda: found,
            )
        place = jnp.arange(pull.arm.shape[0], dtype=jnp.int32)
        asked = jnp.where((place < pull.used) & (pull.arm >= 0), counts[1], 0)
        return Outcome(asked if rewards.even else found[1], found[0])

    def used(self, view: View, pull: Pull | Single, outcome: Outcome) -> Used | None:
        """Says which rewards a pull took, for ``check``; None of single ones, which only ``advance`` asks for."""
        if isinstance(pull, Single):
            return None
        return Used(pull.arm, jnp.broadcast_to(pull.first, pull.arm.shape), outcome.made, jnp.int32(view.arms))


def arms(
    budget: int, means: Given | Drawn, rewards: Rewards, *, on_tape: bool = False, show_chosen: bool = False
) -> Arms:
    """Makes a problem of arms from arguments that are checked.

    Args:
        budget: how many pulls a run has, 0 to 2^29; to 2^24 of rewards that are not 0 or 1, whose sums are float32.
        means: see ``given`` and ``Drawn``.
        rewards: see ``jaxbandit.arms.rewards``.
        on_tape: draw each reward by itself, for tests against single-step programs.
        show_chosen: have ``simulate`` give which arms each run chose, as ``chosen`` (bool, by the row of ``means``).

    Raises:
        BadInput: for a budget or a number of arms out of range.
    """
    use_all_cores()
    budget = whole(0, MOST_PULLS)("budget", budget)
    if not rewards.whole and budget > MOST_SUMMED:
        raise BadInput(
            "budget", budget, f"at most {MOST_SUMMED} where rewards are not 0 or 1: 32-bit floats add them up"
        )
    if not 1 <= means.arms <= MOST_ARMS:
        raise BadInput("arms", means.arms, f"1 to {MOST_ARMS} arms")
    return Arms(jnp.asarray(budget, jnp.int32), means, rewards, on_tape, show_chosen)


def made_for(rule: Any, arms: int) -> None:
    """Refuses a problem of ``arms`` arms for a rule that says that it was made for others (its ``arms``).

    Raises:
        BadInput: naming both numbers.
    """
    if (made := getattr(rule, "arms", 0)) and made != arms:
        allowed = f"one that is made for the problem's {arms:,} arms"
        raise BadInput(f"policy {type(rule).__name__}", f"a rule for {made:,} arms", allowed)


def given(means: Any, low: float = 0.0, width: float = 1.0, *, shuffled: bool = True) -> Given:
    """Makes means that are the same in each run, rounded to 2^-24 of the scale [low, low + width].

    Args:
        means: numbers on the scale, shape (arms,).
        low, width: the scale; [0, 1] for rewards that lie there.
        shuffled: number the arms of a run in a random order.

    Raises:
        BadInput: for means outside the scale.
    """
    values = np.asarray(means, np.float64)
    if values.ndim != 1 or not 1 <= values.size <= MOST_ARMS:
        raise BadInput("means", f"shape {values.shape}", f"a list of 1 to {MOST_ARMS} numbers")
    # Of a width that is a difference of two numbers, the sum may be rounded to below the higher one.
    inside = (values >= low) & ((values <= low + width) | (values - low <= width))
    for place in np.flatnonzero(~inside)[:1]:
        raise BadInput(f"means[{place}]", float(values[place]), f"a mean from {low:g} to {low + width:g}")
    use_all_cores()
    units = np.rint((values - low) / width * UNITS).astype(np.int32)
    return Given(jnp.asarray(np.clip(units, 0, UNITS)), shuffled)
