"""Outlier arms as their user describes them."""

from dataclasses import dataclass

import jax.numpy as jnp

from jaxbandit.arms.rewards import Rewards
from jaxbandit.describe import brief
from jaxbandit.errors import BadInput
from jaxbandit.outliers.problem import ZERO_ONE, OutlierArms
from jaxbandit.outliers.truth import Definition, Source


@dataclass(frozen=True)
class Setting:
    """Describes outlier arms as their user does. ``budget``: the cap, after which a rule answers with what it has."""

    budget: int
    source: Source
    definition: Definition
    rewards: Rewards = ZERO_ONE

    __repr__ = brief

    def __post_init__(self) -> None:
        if self.budget < self.arms:
            raise BadInput("problem.budget", self.budget, f"at least {self.arms}, a pull of each arm")

    @property
    def arms(self) -> int:
        """Returns the number n of arms that the source draws."""
        return self.source.arms

    def problem(self, on_tape: bool = False) -> OutlierArms:
        """Returns the problem that runs are simulated against; ``on_tape``: see ``OutlierArms``."""
        return OutlierArms(jnp.int32(self.budget), self.source, self.rewards, on_tape)
