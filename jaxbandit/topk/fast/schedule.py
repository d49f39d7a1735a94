"""The rounds of a rule whose numbers of active arms and of pulls are known before the run."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.arms.rewards import Rewards
from jaxbandit.pytree import pytree


@pytree
@dataclass(frozen=True)
class Schedule:
    """Holds the rounds of a run, int32 of shape (rounds,): how many arms are active (``size``), the pulls of each
    (``share``), and how many stay active (``keep``). ``gaps`` is 1 where the arms with the largest empirical gaps
    leave, accepted or rejected, and 0 where the arms with the smallest means leave, rejected.
    """

    size: Array
    share: Array
    keep: Array
    gaps: Array


def schedule(rounds: list[tuple[int, int, int, bool]], room: int) -> Schedule:
    """Makes a schedule of ``rounds`` (size, share, keep, gaps), with ``room`` for more, so that few lengths are
    compiled for."""
    table = np.zeros((max(room, len(rounds), 1), 4), np.int32)
    table[: len(rounds)] = np.reshape(rounds, (-1, 4))
    return Schedule(*map(jnp.asarray, table.T))


def pulls_of(rounds: list[tuple[int, int, int, bool]]) -> int:
    """Returns how many pulls a schedule has in all."""
    return sum(size * share for size, share, _, _ in rounds)


def are_few(rounds: list[tuple[int, int, int, bool]], rewards: Rewards) -> bool:
    """Returns whether no round has more pulls of an arm than ``Rewards.total`` draws: the program is smaller then."""
    return rewards.most is not None and max((share for _, share, _, _ in rounds), default=0) <= rewards.most
