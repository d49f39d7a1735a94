"""What the rest of a session of arms is expected to bring: the rule goes on in simulation, on arms as they may be.

The mean of an arm is drawn from what is known of it by then: a law of means, weighted by the likelihood of its rewards
(``live.posterior``). The law is that of the study's problem, until enough arms with rewards 0 and 1 tell another one.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.arms.problem import Instance, Outcome, Pull
from jaxbandit.arms.rewards import Bounded
from jaxbandit.engine import simulate
from jaxbandit.live.arms import ArmQuestions, OutlierQuestions, TopQuestions
from jaxbandit.live.play import Play
from jaxbandit.live.posterior import posterior, simulated
from jaxbandit.live.rest import Continued, Rest, interval
from jaxbandit.outliers.truth import source
from jaxbandit.pytree import pytree
from jaxbandit.random.stream import Stream
from jaxbandit.random.trials import UNITS
from jaxbandit.study.spec import Configuration

RUNS, FEWEST_RUNS = 400, 40
_MOST_DRAWS = 2e7


@pytree
@dataclass(frozen=True)
class Begun:
    """Holds the pull that the answers are in the middle of: ``arm`` and ``first`` as in ``Pull``; of each arm, how many
    of its rewards are there (``made``) and their sum (``total``)."""

    arm: Array
    first: Array
    made: Array
    total: Array


@pytree
@dataclass(frozen=True)
class TopRest(Rest):
    """Draws the rewards of the rest of a session of top-K. ``chosen``: the arms that the rule would choose now (bool,
    (arms,))."""

    begun: Begun
    chosen: Array

    def pull(self, key: Stream, instance: Instance, pull: Pull) -> Outcome:
        """Returns what was answered of a pull, and draws the rest of it."""
        first = jnp.broadcast_to(pull.first, pull.arm.shape)
        same = jnp.array_equal(pull.arm, self.begun.arm) & jnp.array_equal(first, self.begun.first)
        made, total = (jnp.where(same, part, jnp.zeros_like(part)) for part in (self.begun.made, self.begun.total))
        times = jnp.broadcast_to(pull.times, pull.arm.shape) - made
        drawn = self.problem.pull(key, instance, pull._replace(first=first + made, times=times))
        return Outcome(drawn.made + made, drawn.total + total)

    def score(self, instance: Instance, answer: dict[str, Array]) -> dict[str, Array]:
        """Returns the regret of the choice now, and at the end: float32, on the scale of means."""
        means = instance.means.astype(jnp.float32) / UNITS
        wanted = jnp.sum(answer["chosen"], dtype=jnp.int32)
        place = jnp.arange(means.shape[0])
        best = jnp.sum(jnp.where(place < wanted, jnp.sort(means)[::-1], 0))
        lost = {"end": answer["chosen"], "now": self.chosen}
        return {name: (best - jnp.sum(jnp.where(chosen, means, 0))) / wanted for name, chosen in lost.items()}


@pytree
@dataclass(frozen=True)
class OutlierRest(Rest):
    """Draws the rewards of the rest of a session of outlier arms. ``said``: the arms that the rule would call outliers
    now."""

    said: Array

    def score(self, instance: Any, answer: dict[str, Array]) -> dict[str, Array]:
        """Returns how many arms are judged wrongly now, and at the end: float32."""
        truth = instance.arms.levels > 0
        said = {"end": answer["outliers"], "now": self.said}
        return {name: jnp.sum(each != truth).astype(jnp.float32) for name, each in said.items()}


def forecast(asks: ArmQuestions, play: Play, chosen: Configuration, seed: int) -> dict[str, Any]:
    """Returns what the rest of the budget is expected to gain, if the session goes on as it is.

    Returns:
        JSON-ready: ``metric``, "regret" of the arms that are chosen (as a mean reward), or "wrong", the arms that are
        judged wrongly; it is expected to be ``now`` if the session ended here, and ``end`` at its end, so that ``gain``
        is won, with its 95 % interval ``ci_low`` to ``ci_high``; ``runs``; ``law``, that of the means. Or ``none``: a
        line that says why there is no forecast.
    """
    if play.over:
        return {"none": "nothing is asked any more"}
    if isinstance(asks, OutlierQuestions) and chosen.setting.definition.name == "groups":
        return {"none": "groups of outliers depend on all means at once, and a forecast draws each by itself"}
    problem: Any = chosen.problem
    outlying, rewards = isinstance(asks, OutlierQuestions), simulated(problem.rewards)
    means, law = posterior(play.answers, problem.source if outlying else problem.means, rewards)
    answer = play.answer()
    rest: Rest
    if isinstance(asks, TopQuestions):
        arms = replace(problem, means=means, rewards=rewards)
        rest = TopRest(arms, begun(asks, play, rewards.whole), jnp.asarray(answer["chosen"]))
    else:
        judged = source(means, chosen.setting.definition)  # type: ignore[arg-type]
        rest = OutlierRest(replace(problem, source=judged, rewards=rewards), jnp.asarray(answer["outliers"]))
    runs = RUNS
    if isinstance(rewards, Bounded):  # which are drawn one by one
        runs = int(np.clip(_MOST_DRAWS / max(int(problem.budget) - len(play.answers), 1), FEWEST_RUNS, RUNS))
    found = simulate(rest, Continued(chosen.policy, play.state), runs=runs, seed=seed, first_run=1, progress=False)
    width = 1.0 if outlying else float(rewards.scale.width)
    now, end = (found[name][0].astype(np.float64) * width for name in ("now", "end"))
    gain = now - end
    return {
        "metric": "wrong" if outlying else "regret", "now": now.mean(), "end": end.mean(), "gain": gain.mean(),
        "law": law,
    } | interval(gain)  # fmt: skip


def begun(asks: TopQuestions, play: Play, whole: bool) -> Begun:
    """Returns the present pull with its answers; ``whole``: whether rewards are 0 or 1."""
    arm, first, times = asks.asked(play.pull)
    made, total = np.zeros(arm.size, np.int32), np.zeros(arm.size, np.float64)
    for place, (a, f, t) in enumerate(zip(arm.tolist(), first.tolist(), times.tolist(), strict=True)):
        there = [value for j in range(t) if (value := play.answers.get((a, f + j))) is not None]
        made[place], total[place] = len(there), sum(there)
    return Begun(*map(jnp.asarray, (arm, first, made, total.astype(np.int32 if whole else np.float32))))
