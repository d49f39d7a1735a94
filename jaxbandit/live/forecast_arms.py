"""What the rest of a session of arms is expected to bring: the rule goes on in simulation, on arms as they may be.

The mean of an arm is drawn from what is known of it by then: a law of means, weighted by the likelihood of its rewards
(``live.posterior``). The law is that of the study's problem, until enough arms with rewards 0 and 1 tell another one.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.arms.problem import Instance, Outcome, Pull
from jaxbandit.arms.rewards import Bounded
from jaxbandit.engine import simulate
from jaxbandit.live.arms import OutlierQuestions, TopQuestions
from jaxbandit.live.play import Play
from jaxbandit.live.posterior import posterior, simulated
from jaxbandit.live.rest import Afforded, Rest, interval, room
from jaxbandit.outliers.problem import Pull as OutlierPull
from jaxbandit.outliers.truth import source
from jaxbandit.pytree import pytree
from jaxbandit.random.stream import Stream
from jaxbandit.random.trials import UNITS
from jaxbandit.study.spec import Configuration

RUNS, FEWEST_RUNS = 400, 40
_MOST_DRAWS = 2e7


class KnownRewards(NamedTuple):
    """Holds the rewards that were answered, arm after arm. ``start``: int32, (arms + 1,), where each arm's part begins;
    its place j stands before the arm's pull j, and has how ``many`` of the pulls before were answered (int32), and the
    ``total`` of these rewards."""

    start: Array
    many: Array
    total: Array

    def of(self, arm: Array, first: Array, times: Array) -> tuple[Array, Array]:
        """Returns how many of some pulls of arms were answered, and the sum of these rewards."""
        begin, end = self.start[arm], self.start[arm + 1] - 1
        before, after = jnp.minimum(begin + first, end), jnp.minimum(begin + first + times, end)
        return self.many[after] - self.many[before], self.total[after] - self.total[before]

    def cost(self, pull: Pull | OutlierPull) -> Array:
        """Returns how many of a pull's rewards were not answered: int32."""
        arm, first, times = _single_pulls(pull)
        return jnp.sum(times - self.of(arm, first, times)[0], dtype=jnp.int32)


def _single_pulls(pull: Pull | OutlierPull) -> tuple[Array, Array, Array]:
    """Returns for each entry of a pull the arm, its pulls before, and how often it is pulled."""
    if isinstance(pull, OutlierPull):
        return pull.arm, pull.attempt, jnp.int32(1)
    there = (jnp.arange(pull.arm.shape[0]) < pull.used) & (pull.arm >= 0)
    return jnp.maximum(pull.arm, 0), jnp.broadcast_to(pull.first, there.shape), jnp.where(there, pull.times, 0)


@pytree
@dataclass(frozen=True)
class TopRest(Rest):
    """Draws the rewards of the rest of a session of top-K. ``chosen``: the arms that the rule would choose now (bool,
    (arms,))."""

    known: KnownRewards
    chosen: Array

    def pull(self, key: Stream, instance: Instance, pull: Pull) -> Outcome:
        """Returns what was answered of a pull, and draws the rest of it."""
        arm, first, times = _single_pulls(pull)
        made, total = self.known.of(arm, first, times)
        drawn = self.problem.pull(key, instance, pull._replace(first=first + made, times=times - made))
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

    known: KnownRewards
    said: Array

    def pull(self, key: Stream, instance: Any, pull: OutlierPull) -> Array:
        """Returns the reward that was answered, or draws one."""
        made, total = self.known.of(*_single_pulls(pull))
        return jnp.where(made > 0, total, self.problem.pull(key, instance, pull))

    def score(self, instance: Any, answer: dict[str, Array]) -> dict[str, Array]:
        """Returns how many arms are judged wrongly now, and at the end: float32."""
        truth = instance.arms.levels > 0
        said = {"end": answer["outliers"], "now": self.said}
        return {name: jnp.sum(each != truth).astype(jnp.float32) for name, each in said.items()}


def forecast(
    asks: TopQuestions | OutlierQuestions, play: Play, chosen: Configuration, left: int, seed: int
) -> dict[str, Any]:
    """Returns what the money that is ``left`` is expected to gain, if the session goes on as it is.

    Returns:
        JSON-ready: ``metric``, "regret" of the arms that are chosen (as a mean reward), or "wrong", the arms that are
        judged wrongly; it is expected to be ``now`` if the session ended here (with ``chosen_now``), and ``end`` at its
        end, so that ``gain`` is won, with its 95 % interval ``ci_low`` to ``ci_high``; ``runs``; ``law``, that of the
        means. Or ``none``: a line that says why there is no forecast.
    """
    if play.over:
        return {"none": "nothing is asked any more"}
    if isinstance(asks, OutlierQuestions) and chosen.setting.definition.name == "groups":
        return {"none": "groups of outliers depend on all means at once, and a forecast draws each by itself"}
    problem: Any = chosen.problem
    outlying, rewards = isinstance(asks, OutlierQuestions), simulated(problem.rewards)
    means, law = posterior(play.answers, problem.source if outlying else problem.means, rewards)
    answer, there = play.answer(), known(asks, play)
    rest: Rest
    if isinstance(asks, TopQuestions):
        arms = replace(problem, means=means, rewards=rewards)
        rest = TopRest(arms, there, jnp.asarray(chosen_now(play, answer["chosen"], chosen.setting.want)))
    else:
        judged = source(means, chosen.setting.definition)  # type: ignore[arg-type]
        rest = OutlierRest(replace(problem, source=judged, rewards=rewards), there, jnp.asarray(answer["outliers"]))
    runs = RUNS
    if isinstance(rewards, Bounded):  # which are drawn one by one
        runs = int(np.clip(_MOST_DRAWS / max(int(problem.budget) - len(play.answers), 1), FEWEST_RUNS, RUNS))
    policy = Afforded(chosen.policy, play.state, there, jnp.int32(left))
    found = simulate(rest, policy, runs=runs, seed=seed, first_run=1, progress=False)
    width = 1.0 if outlying else float(rewards.scale.width)
    now, end = (found[name][0].astype(np.float64) * width for name in ("now", "end"))
    gain = now - end
    return {
        "metric": "wrong" if outlying else "regret", "now": now.mean(), "end": end.mean(), "gain": gain.mean(),
        "law": law,
    } | interval(gain)  # fmt: skip


def chosen_now(play: Play, chosen: np.ndarray, want: int) -> np.ndarray:
    """Returns the arms that one would choose if the session ended here, bool (arms,): those that the rule has
    ``chosen``, and as many as it has not yet, of the other arms' largest mean rewards (none counts least)."""
    rewards: dict[int, list[float]] = {}
    for (arm, _), value in play.answers.items():
        rewards.setdefault(arm, []).append(value)
    means = np.array([np.mean(rewards.get(arm, -np.inf)) for arm in range(chosen.size)])
    others = np.argsort(np.where(chosen, np.inf, -means), kind="stable")
    held = np.array(chosen)
    held[others[: max(want - int(held.sum()), 0)]] = True
    return held


def known(asks: TopQuestions | OutlierQuestions, play: Play) -> KnownRewards:
    """Returns the answers of the present pull, and those that the policy has not asked for yet."""
    due, longest = set(asks.due(play.pull, {})), np.zeros(asks.rows.size, np.int64)
    answers = {each: value for each, value in play.answers.items() if each in due or each not in play.told}
    for arm, number in answers:
        longest[arm] = max(longest[arm], number + 1)
    start = np.concatenate([[0], np.cumsum(longest + 1)])
    size = room(int(start[-1]), 1024)
    there, total = np.zeros(size, np.int32), np.zeros(size)
    for (arm, number), value in answers.items():
        place = start[arm] + number + 1
        there[place], total[place] = 1, asks.reward((arm, number), value)
    total = np.cumsum(total)
    total[: start[-1]] -= np.repeat(total[start[:-1]], longest + 1)  # float32 is not exact enough for sums over arms
    kind = jnp.float32 if isinstance(asks, TopQuestions) and not asks.whole else jnp.int32
    return KnownRewards(
        jnp.asarray(start, jnp.int32), jnp.asarray(np.cumsum(there), jnp.int32), jnp.asarray(total, kind)
    )
