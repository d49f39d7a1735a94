"""Pulls of arms as questions: what did this arm give? For top-K and for outlier arms."""

from collections.abc import Container, Mapping
from typing import Any

import jax
import numpy as np

from jaxbandit.arms.problem import Arms, Outcome, Pull
from jaxbandit.arms.rewards import Gaussian, Replay, Rewards
from jaxbandit.errors import BadInput
from jaxbandit.live import inputs
from jaxbandit.live.questions import Address, Answers, questions
from jaxbandit.outliers.family import Setting as OutlierSetting
from jaxbandit.outliers.problem import OutlierArms
from jaxbandit.outliers.problem import Pull as OutlierPull
from jaxbandit.random.stream import Stream
from jaxbandit.topk.family import Setting as TopSetting
from jaxbandit.words import counted

_MOST = 1e15
"""The most that an arm without bounds gives: policies add up squares of rewards in float32."""


class ArmQuestions:
    """Asks for rewards. An address is (arm, its pulls before), with arms in the numbers of the run; agents see the
    user's, from 0. The answer is the reward; ``whole``: whether it is always 0 or 1. ``verdict`` names what the policy
    says of some arms."""

    verdict: str
    units = 1

    def __init__(self, rewards: Rewards, rows: np.ndarray) -> None:
        self.whole, self.rows = rewards.whole, rows
        scale = rewards.scale
        self._low, self._high = float(scale.low), float(scale.low + scale.width)
        if isinstance(rewards, Replay):  # whose highest reward the sum may be a little off
            self._high = max(self._high, float(np.max(rewards.values)))
        self._bounded = not isinstance(rewards, Gaussian)

    def shown(self, address: Address, answers: Answers) -> dict[str, Any]:
        """Returns what an agent is shown: the arm, and the rewards that it has given so far."""
        arm, number = address
        before = [value for j in range(number) if (value := answers.get((arm, j))) is not None]
        mean = f", {sum(before) / len(before):.3g} on average" if before else ""
        if self.whole:
            allowed, how = ["0", "1"], "the reward, 0 or 1"
        else:
            span = f" from {self._low:g} to {self._high:g}" if self._bounded else ""
            allowed, how = ["NUMBER"], f"the reward, a number{span}"
        return {
            "arm": int(self.rows[arm]), "allowed": allowed, "how": how,
            "why": f"pull {number + 1} of this arm; it has given "
            f"{counted(len(before), 'reward', 'rewards')}{mean}",
        }  # fmt: skip

    def parse(self, address: Address, answer: str, answers: Answers) -> float | int:
        """Reads a reward from an agent's text and checks that the arms can give it."""
        value = inputs.number(answer)
        if self.whole:
            if value not in (0, 1):
                raise BadInput("ANSWER", answer, "0 or 1")
            return int(value)
        low, high = (self._low, self._high) if self._bounded else (-_MOST, _MOST)
        # In float32, as bounds and policies have rewards: its 0.1 is above the 0.1 that is read.
        if not (abs(value) <= _MOST and low <= np.float32(value) <= high):
            raise BadInput("ANSWER", answer, f"a number from {low:g} to {high:g}")
        return value

    def reward(self, address: Address, answer: float) -> Any:
        """Returns a reward as the policy is told it."""
        return answer

    def text(self, answer: float) -> str:
        """Returns a reward as an agent would write it."""
        return f"{answer:.15g}"

    def guess(self, address: Address, answers: Answers) -> float:
        """Returns the lowest reward, as which an open question counts meanwhile."""
        return 0 if self.whole else self._low

    def same_to_policy(self, address: Address, one: Any, other: Any) -> bool:
        """Returns whether two rewards are equal, as a policy sees each difference."""
        return bool(one == other)

    def cost(self, address: Address) -> int:
        """Returns the cost of a pull, which is always 1."""
        return 1

    def ready(self, address: Address, answers: Answers) -> bool:
        """Returns true, as a pull depends on no other answer."""
        return True

    def rewards_by_row(self, answers: Answers) -> dict[int, list[float]]:
        """Returns the rewards of each arm that has some, by the user's row."""
        rows: dict[int, list[float]] = {}
        for (arm, _), value in answers.items():
            rows.setdefault(int(self.rows[arm]), []).append(value)
        return dict(sorted(rows.items()))

    def table(self, answers: Answers, special: Container[int]) -> list[dict[str, Any]]:
        """Returns a row for each arm, by the user's numbers: ``arm``; ``asked``, how many rewards it gave; their sum,
        ``correct`` where they are 0 or 1 and else ``total``; their ``mean``, None where there are none; and, under the
        name of ``verdict``, whether it is one of ``special``."""
        rewards, total = self.rewards_by_row(answers), "correct" if self.whole else "total"
        found = []
        for row in range(len(self.rows)):
            own = rewards.get(row, [])
            mean = sum(own) / len(own) if own else None
            found.append({"arm": row, "asked": len(own), total: sum(own), "mean": mean, self.verdict: row in special})
        return found

    def _by_row(self, answers: Answers) -> dict[str, Any]:
        rows = self.rewards_by_row(answers)
        return {str(row): {"pulls": len(own), "mean": sum(own) / len(own)} for row, own in rows.items()}


class TopQuestions(ArmQuestions):
    """Asks for the rewards of top-K: a pull may be of many arms many times, all of which can be asked at once."""

    family, verdict = "topk", "chosen"

    def due(self, pull: Pull, answers: Answers) -> list[Address]:
        """Returns the address of each single pull, arm after arm in rounds."""
        arm, first, times = self.asked(pull)
        most = int(times.max(initial=0))
        return [(int(a), int(f) + j) for j in range(most) for a, f, t in zip(arm, first, times, strict=True) if j < t]

    def outcome(self, pull: Pull, answers: Answers) -> Outcome:
        """Returns the sum of the rewards of each entry of a pull."""
        arm, first, times = self.asked(pull)
        kind = np.int32 if self.whole else np.float32
        total = np.zeros(arm.shape, kind)
        for place, (a, f, t) in enumerate(zip(arm.tolist(), first.tolist(), times.tolist(), strict=True)):
            for j in range(t):  # one after the other in float32, as on a tape
                total[place] += kind(answers[a, f + j])
        return Outcome(times, total)  # type: ignore[arg-type]

    def asked(self, pull: Pull) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns for each entry of a pull the arm, its pulls before, and how often it is pulled."""
        arm = np.asarray(pull.arm)
        there = (np.arange(arm.size) < pull.used) & (arm >= 0)
        times = np.where(there, np.broadcast_to(pull.times, arm.shape), 0).astype(np.int32)
        return arm, np.broadcast_to(pull.first, arm.shape), times

    def found(self, answers: Answers, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what each arm gave, and the arms that would be chosen after the pulls that the policy was told."""
        chosen = sorted(self.rows[np.flatnonzero(answer["chosen"])].tolist())
        return {"pulls": len(answers), "chosen": chosen, "arms": self._by_row(answers)}


class OutlierQuestions(ArmQuestions):
    """Asks for the rewards of outlier arms, one pull at a time. Rewards other than 0 and 1 are counted in units, see
    ``OutlierArms``."""

    family, verdict = "outliers", "outlier"

    def __init__(self, problem: OutlierArms, rows: np.ndarray, key: Stream) -> None:
        super().__init__(problem.rewards, rows)
        self._units = jax.jit(lambda arm, number, reward: problem.counted(key, arm, number, reward))

    def due(self, pull: OutlierPull, answers: Answers) -> list[Address]:
        """Returns the address of the pull, which is of one arm."""
        return [(int(pull.arm), int(pull.attempt))]

    def outcome(self, pull: OutlierPull, answers: Answers) -> Any:
        """Returns the reward of the pull, counted in units."""
        address = int(pull.arm), int(pull.attempt)
        return self.reward(address, answers[address])

    def reward(self, address: Address, answer: float) -> Any:
        """Returns a reward in units."""
        if self.whole:
            return np.int32(answer)
        return np.asarray(self._units(*map(np.int32, address), np.float32(answer)))

    def found(self, answers: Answers, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what each arm gave, and the arms that would be called outliers now."""
        outliers = sorted(self.rows[np.flatnonzero(answer["outliers"])].tolist())
        return {"pulls": len(answers), "outliers": outliers, "arms": self._by_row(answers)}


@questions.register
def _(setting: TopSetting, problem: Arms, policy: Any, key: Stream) -> TopQuestions:
    return TopQuestions(problem.rewards, np.asarray(jax.jit(problem.means.draw)(key)[1]))


@questions.register
def _(setting: OutlierSetting, problem: OutlierArms, policy: Any, key: Stream) -> OutlierQuestions:
    return OutlierQuestions(problem, np.asarray(jax.jit(problem.source.draw)(key).rows), key)


__all__ = ["OutlierQuestions", "TopQuestions"]
