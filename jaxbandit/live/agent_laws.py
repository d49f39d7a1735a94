"""What agent the answers of a session tell of: the beta laws that its success rates may come from.

A fitted law is not the agent's law. So a forecast draws one of several laws in each run, each as likely as the others
by the answers so far; beforehand all means m = alpha / (alpha + beta) and all correlations
rho = 1 / (1 + alpha + beta) between two answers on one entity are equally likely.
"""

import numpy as np
from jax import Array
from jax.scipy.special import gammaln

from jaxbandit.devices import float64
from jaxbandit.laws import Beta
from jaxbandit.mixtures import MAX_CONCENTRATION, fit_beta

ENOUGH = 20
"""Entities or arms with answers from which on a law is told from these."""
LAWS = 32
_SIDE, _LOOKS = 48, 4
_UNLIKELY = 14.0
"""Below the greatest log density by so much, a place is left out of a closer look."""


class Agent:
    """The law of an agent's success rates, as far as its answers tell.

    Attributes:
        best: the beta law of greatest likelihood.
        likely: ``LAWS`` laws, each as likely as the others.
    """

    def __init__(self, succeeded: np.ndarray, made: np.ndarray) -> None:
        """Takes int64, shape (entities,) both: answers that succeeded, of those that were given, at least 1."""
        self.best = fit_beta(succeeded, made)
        self.likely = _likely(succeeded, made)

    @property
    def told(self) -> str:
        """Returns a line on it."""
        return f"fitted: beta({self.best.alpha:.3g}, {self.best.beta:.3g})"


def agent_of(succeeded: np.ndarray, made: np.ndarray) -> Agent | None:
    """Returns the agent that answered, once ``ENOUGH`` entities have records and these tell something.

    Takes int64, shape (entities,) both: answers that succeeded, and all.
    """
    if len(made) < ENOUGH or not succeeded.any() or not (succeeded < made).any():
        return None
    return Agent(succeeded, made)


def _likely(succeeded: np.ndarray, made: np.ndarray) -> list[Beta]:
    """Returns laws by the posterior of (m, rho), on a grid that is laid ever closer around what is likely."""
    pairs, count = np.unique(np.stack([succeeded, made]), axis=1, return_counts=True)
    low, high = np.array([0.0, 1 / (1 + MAX_CONCENTRATION)]), np.array([1.0, 1.0])
    for _ in range(_LOOKS):
        places = (np.arange(_SIDE) + 0.5) / _SIDE * (high - low)[:, None] + low[:, None]
        mean, rho = (each.ravel() for each in np.meshgrid(*places, indexing="ij"))
        log = _log_likelihood(mean * (1 / rho - 1), (1 - mean) * (1 / rho - 1), pairs, count)
        here = (log > log.max() - _UNLIKELY).reshape(_SIDE, _SIDE)
        step = (high - low) / _SIDE
        ends = [np.flatnonzero(here.any(axis=1 - axis))[[0, -1]] for axis in (0, 1)]
        low, high = low + step * [begin for begin, _ in ends], low + step * [end + 1 for _, end in ends]
    weight = np.exp(log - log.max()).cumsum()
    chosen = np.searchsorted(weight, (np.arange(LAWS) + 0.5) / LAWS * weight[-1])
    laws = zip(mean[chosen].tolist(), (1 / rho[chosen] - 1).tolist(), strict=True)
    return [Beta(m * size, (1 - m) * size) for m, size in laws]


def _log_likelihood(alpha: np.ndarray, beta: np.ndarray, pairs: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Returns the log-likelihood of beta laws, (laws,), by different records (successes, answers), (2, records)."""
    won, lost = pairs[0], pairs[1] - pairs[0]

    def logs(x: np.ndarray) -> np.ndarray:
        with float64():
            found: Array = gammaln(x)
        return np.asarray(found)

    found = np.zeros(alpha.size)
    whole = logs(np.stack([alpha + beta, alpha, beta]))
    for s, f, times in zip(won.tolist(), lost.tolist(), count.tolist(), strict=True):
        up = logs(np.stack([alpha + s, beta + f, alpha + beta + s + f]))
        found += times * (up[0] + up[1] - up[2] + whole[0] - whole[1] - whole[2])
    return found
