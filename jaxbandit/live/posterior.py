"""The arms of a session as they may be: the means that its rewards leave, and how rewards are drawn from there on."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import betaln, erf

from jaxbandit.arms.problem import MEAN
from jaxbandit.arms.rewards import Bernoulli, Bounded, Gaussian, Replay, Rewards
from jaxbandit.live.agent_laws import LAWS, agent_of
from jaxbandit.live.questions import Answers
from jaxbandit.pytree import pytree
from jaxbandit.random import categorical, scale, thresholds, words
from jaxbandit.random.stream import Stream, stream
from jaxbandit.random.trials import UNITS

CELLS = 256
_DRAWS, _MOST_CELLS = 1 << 16, 1 << 24
_IMPOSSIBLE, _EDGE = 1e3, 2.0**-24


@pytree
@dataclass(frozen=True)
class Posterior:
    """Means drawn afresh in each run, of each arm from its own law: ``laws`` are thresholds of ``CELLS`` cells of the
    scale, uint32, (agents, arms, cells), by each agent that this one may be."""

    laws: Array
    arms: int = field(metadata={"static": True})

    def draw(self, key: Stream) -> tuple[Array, Array]:
        """Returns the means and the rows of a run's arms."""
        arms = jnp.arange(self.arms, dtype=jnp.int32)
        agent = scale(words(key, MEAN, jnp.int32(self.arms))[0], self.laws.shape[0])
        cell = categorical(words(key, MEAN, arms)[0], self.laws[agent])
        return (2 * cell + 1) * jnp.int32(UNITS // (2 * CELLS)), arms


def simulated(rewards: Rewards) -> Rewards:
    """Returns the law by which rewards are drawn. A record of the study's is not what this agent gives: its arms pay 0
    or 1 with their means, or normal rewards that spread as the records do."""
    if rewards.whole:
        return Bernoulli()
    if not isinstance(rewards, Replay):
        return rewards
    values, length = np.asarray(rewards.values, np.float64), np.asarray(rewards.length)
    own = np.repeat(np.arange(length.size), length)  # records stand one after the other
    means = np.bincount(own, values[: own.size], length.size) / np.maximum(length, 1)
    sd = float(np.sqrt(np.mean((values[: own.size] - means[own]) ** 2)))
    return Gaussian(jnp.float32(rewards.low), jnp.float32(rewards.width), jnp.float32(max(sd, 1e-6)))


def posterior(answers: Answers, means: Any, rewards: Rewards) -> tuple[Posterior, str]:
    """Returns the law of the means after some rewards, and the name of the law that they had before.

    ``means``: the study's; ``rewards``: as ``simulated`` gives them.
    """
    arms, given = means.arms, dict[int, list[float]]()
    for (arm, _), value in answers.items():
        given.setdefault(arm, []).append(value)
    count, total = (np.array([part(given.get(arm, [])) for arm in range(arms)], np.float64) for part in (len, sum))
    priors, told = [_prior(means)], "that of the study"
    middle, pulled = (np.arange(CELLS) + 0.5) / CELLS, count > 0
    if rewards.whole:
        agent = agent_of(total[pulled].astype(np.int64), count[pulled].astype(np.int64))
        if agent is not None:
            every = min(-(-LAWS * arms * CELLS // _MOST_CELLS), LAWS)  # of so many arms, fewer laws
            some = agent.likely[every // 2 :: every]
            priors, told = [law.cells(1 / CELLS) for law in some], agent.told
        log = total[:, None] * np.log(middle) + (count - total)[:, None] * np.log1p(-middle)
    else:
        log = np.zeros((arms, CELLS))
        for arm, own in given.items():
            log[arm] = _log_density(rewards, np.array(own)[:, None], middle).sum(axis=0)
    with np.errstate(divide="ignore"):
        log = np.log(priors)[:, None] + log
    weights = np.exp(log - log.max(axis=2, keepdims=True))
    return Posterior(jnp.asarray(thresholds(weights)), arms), told


def _log_density(rewards: Rewards, value: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Returns the log density of a reward that is not 0 or 1, at each place of the mean, up to a constant.

    A mean from which the law cannot give the reward is not ruled out, as a real agent need not keep to the law: it is
    the less likely the farther off.
    """
    if isinstance(rewards, Gaussian):
        level = float(rewards.scale.low) + mean * float(rewards.scale.width)
        return np.asarray(-((value - level) ** 2) / (2 * float(rewards.sd) ** 2))
    assert isinstance(rewards, Bounded)
    spread = float(rewards.spread)
    if rewards.shape == "beta":
        inside, (a, b) = np.clip(value, _EDGE, 1 - _EDGE), (spread * mean, spread * (1 - mean))
        # Of a reward at an edge, the probability to be so near to it: float32 knows none that are nearer to 1.
        low, high = (
            np.where(near, np.log(_EDGE / shape), 0) for near, shape in ((value < _EDGE, a), (value > 1 - _EDGE, b))
        )
        return np.asarray((a - 1) * np.log(inside) + (b - 1) * np.log1p(-inside) - betaln(a, b) + low + high)
    wide = np.minimum(mean, 1 - mean)
    far = np.abs(value - mean)
    if rewards.shape == "uniform":
        wide = np.minimum(wide, spread)
        return np.asarray(-np.log(wide) - _IMPOSSIBLE * np.maximum(far - wide, 0))
    bell = -((far / spread) ** 2) / 2 - np.log(np.asarray(erf(wide / (spread * 2**0.5))))
    return np.asarray(bell - _IMPOSSIBLE * np.maximum(far - wide, 0))


def _prior(means: Any) -> np.ndarray:
    """Returns the law of a mean by the study, as the probabilities of ``CELLS`` cells: from many draws."""
    runs = jnp.arange(-(-_DRAWS // means.arms))
    drawn = jax.vmap(lambda run: means.draw(stream(0, run))[0])(runs)
    cell = np.minimum((np.asarray(drawn).ravel() / UNITS * CELLS).astype(int), CELLS - 1)
    share: np.ndarray = np.bincount(cell, minlength=CELLS) / cell.size
    return share


__all__ = ["CELLS", "Posterior", "posterior", "simulated"]
