"""Outlier arms as their user describes them."""

from dataclasses import dataclass

import jax.numpy as jnp

from jaxbandit.arms.rewards import Rewards
from jaxbandit.contract import brief
from jaxbandit.errors import BadInput
from jaxbandit.outliers.problem import ZERO_ONE, OutlierArms
from jaxbandit.outliers.truth import Definition, Source


@dataclass(frozen=True)
class Setting:
    """Outlier arms as their user describes them. ``budget``: the cap, after which a rule says what it has."""

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
        """How many arms there are."""
        return self.source.arms

    def problem(self, on_tape: bool = False) -> OutlierArms:
        """What lanes are run against."""
        return OutlierArms(jnp.int32(self.budget), self.source, self.rewards, on_tape)
