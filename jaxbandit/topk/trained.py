"""trained: rounds of equal budget, each shared among all arms in proportion to exp(score). A score is computed from
what is known of an arm, with weights that were found by simulation.

No arm is eliminated, but a score that is low enough gives an arm no pulls. After the last round the K largest means are
chosen. The file is long because it also says what a score may use, and reads those that were trained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.arms.problem import Arms, Outcome, Pull, View
from jaxbandit.describe import brief
from jaxbandit.devices import use_all_cores
from jaxbandit.grammar import Execution, accelerated
from jaxbandit.parameters import checked
from jaxbandit.pytree import pytree
from jaxbandit.random.trials import UNITS
from jaxbandit.scores import Score, read, stacked, value
from jaxbandit.topk import given
from jaxbandit.topk.empirical import largest
from jaxbandit.xla.fence import once
from jaxbandit.xla.formula import formula

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32, Num

STATISTICS: Mapping[str, float] = {
    "gap": -1.0, "doubt": 2.0, "spread": 0.0, "share": 0.0, "late_gap": 0.0, "late_doubt": 0.0, "side": 0.0,
}  # fmt: skip
"""What a score may use of an arm, with the weight that training begins with. The distance is that of its mean from the
cut between the K-th mean and the next one. ``gap``: log(distance + 1 / sqrt(pulls + 1)); ``doubt``, exp(-2 pulls
distance^2); ``spread``, the standard deviation of rewards 0 and 1 with its mean; ``share``, the logarithm of its pulls
over those of a mean arm; ``late_gap`` and ``late_doubt``, two of these times the share of the rounds that are over;
``side``, 1 above the cut and -1 below. Means are on [0, 1], or on the scale of the rewards."""

USUAL = tuple(STATISTICS)
ROUNDS = 24
_GOLDEN = 633
"""1024 times the golden ratio's inverse, whose multiples spread evenly over [0, 1)."""
_FINEST = 1023
"""One less than the largest weight, where the smallest is 1: so many times as much may an arm get as another."""


class State(NamedTuple):
    """Holds the sum of each arm's rewards (``total``), how often it was pulled (``pulls``), and how many rounds are
    over (``round``)."""

    total: Num[Array, " arms"]
    pulls: Int32[Array, " arms"]
    round: Int32[Array, ""]


@pytree
@dataclass(frozen=True)
class Trained:
    """Selects arms by a score that was found by simulation and is not from a paper; ``trained`` makes it.

    ``want``: K. ``weights``: those of one or several scores, of which this rule's is number ``which``. Static:
    ``statistics`` and ``hidden``, as in ``Score``.

    Example:
        >>> from jaxbandit import topk
        >>> rule = topk.trained(10, topk.shipped_score())
        >>> weights = dict(zip(rule.statistics, rule.weights[rule.which].tolist()))
        >>> weights["gap"] < 0 < weights["doubt"]  # fewer pulls far from the cut, more where that is in doubt
        True
    """

    want: Int32[Array, ""]
    weights: Float32[Array, "scores weights"]
    which: np.int32
    statistics: tuple[str, ...] = field(metadata={"static": True})
    hidden: int = field(metadata={"static": True})

    execution = Execution(stride=ROUNDS, cache_mib=1, temporaries=16, most_lanes=64, gain_ns=110)

    __repr__ = brief

    def init(self, view: View) -> State:
        """Begins with no pulls and no rewards."""
        return State(view.nothing((view.arms,)), jnp.zeros(view.arms, jnp.int32), jnp.int32(0))

    def _score(self, view: View, state: State) -> Array:
        """Returns the score of each arm, float32."""
        units = view.mean(state.total, state.pulls)
        order = jnp.sort(units)
        inside, outside = (order[jnp.clip(view.arms - self.want - k, 0, view.arms - 1)] for k in (0, 1))
        distance = jnp.maximum(units - outside, inside - units).astype(jnp.float32) / UNITS
        mean, pulls = units.astype(jnp.float32) / UNITS, state.pulls.astype(jnp.float32)
        late = state.round.astype(jnp.float32) / ROUNDS
        gap = jnp.log(distance + 1 / jnp.sqrt(pulls + 1))
        doubt = jnp.exp(-2 * pulls * distance**2)
        found: dict[str, Callable[[], Array]] = {
            "gap": lambda: gap,
            "doubt": lambda: doubt,
            "spread": lambda: jnp.sqrt(jnp.clip(mean * (1 - mean), 0, 1)),
            "share": lambda: jnp.log((pulls + 1) / (jnp.sum(state.pulls).astype(jnp.float32) / view.arms + 1)),
            "late_gap": lambda: late * gap,
            "late_doubt": lambda: late * doubt,
            "side": lambda: jnp.where(units > outside, 1.0, -1.0),
        }
        used = [found[name]() for name in self.statistics]
        score: Array = value(self.weights[self.which], self.hidden, used, jnp.tanh)
        return score

    @formula
    def ask(self, view: View, state: State) -> Pull:
        """Shares the round's pulls among all arms, in proportion to exp(score)."""
        score = self._score(view, state)
        weight = once(1 + (_FINEST * jnp.exp(score - jnp.max(score))).astype(jnp.int32))
        ahead = jnp.cumsum(weight)  # whole numbers, at most 2^29
        pulls = _up_to(view.budget, state.round + 1) - _up_to(view.budget, state.round)
        share = ahead.astype(jnp.float32) / ahead[-1].astype(jnp.float32)
        # Shares are added up over arms and then rounded, and an arm gets the difference, so that all pulls add up to
        # the round's. The offset differs from round to round: otherwise rounding would favour the same arms each time.
        offset = (state.round * _GOLDEN % 1024).astype(jnp.float32) / 1024
        edge = jnp.minimum((pulls.astype(jnp.float32) * share + offset).astype(jnp.int32), pulls)
        times = jnp.diff(jnp.where(ahead == ahead[-1], pulls, edge), prepend=jnp.int32(0))
        arm = jnp.arange(view.arms, dtype=jnp.int32)
        return Pull(arm, first=state.pulls, times=times, used=jnp.int32(view.arms))

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Adds the rewards and counts the round."""
        return State(state.total + outcome.total, state.pulls + outcome.made, state.round + 1)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Ends the run when all rounds are over."""
        return state.round >= ROUNDS

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Chooses the K largest means; of equal means, the lower arm's comes first."""
        return {"chosen": largest(view.mean(state.total, state.pulls), self.want), "arm_pulls": state.pulls}


def _up_to(budget: Array, rounds: Array) -> Array:
    """Returns the pulls of so many rounds, by products that stay below 2^31."""
    return budget // ROUNDS * rounds + budget % ROUNDS * rounds // ROUNDS


def shipped() -> Score:
    """Returns the score that comes with the package (see ``docs/trained.md``).

    Example:
        >>> from jaxbandit import topk
        >>> topk.shipped_score().family
        'topk'
    """
    return load(Path(__file__).with_name("trained.json"))


def load(path: Path | str, field: str = "path") -> Score:
    """Reads the score in the file at ``path``, which ``jaxbandit train`` wrote; errors call that file ``field``.

    Raises:
        BadInput: see ``scores.read``.

    Example:
        >>> import tempfile
        >>> from jaxbandit import topk
        >>> file = tempfile.mkdtemp() + "/score.json"
        >>> topk.shipped_score().save(file)
        >>> topk.load_score(file).family
        'topk'
    """
    return read(field, path, "topk", STATISTICS)


@checked
def trained(want: given.Want, score: Score) -> Trained:
    """Makes the rule of a score that chooses ``want`` arms.

    Raises:
        BadInput: for an argument out of range, and for a score of another family.

    Example:
        >>> from jaxbandit import topk
        >>> int(topk.trained(10, topk.shipped_score()).want)
        10
    """
    return policies(want, [score])[0]


def policies(want: int, scores: Sequence[Score]) -> list[Trained]:
    """Makes the rules of several scores of one shape, which share an array of weights and so a compiled program."""
    rows = stacked(scores, "topk")
    first = scores[0]
    use_all_cores()
    weights = jnp.asarray(rows, jnp.float32)
    return [
        Trained(jnp.int32(want), weights, np.int32(number), first.statistics, first.hidden)
        for number in range(len(scores))
    ]


@accelerated.register
def _(rule: Trained, problem: Any) -> Trained:
    """The rule itself: nothing is faster, but it may not suit the problem."""
    if isinstance(problem, Arms):
        given.suiting(rule, int(rule.want), 0, problem)
    return rule


__all__ = ["ROUNDS", "STATISTICS", "USUAL", "State", "Trained", "load", "policies", "shipped", "trained"]
