"""A rule for the K best arms that is one formula: UCB, registered for study files."""

from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit import register_policy, topk
from jaxbandit.registry import real


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class UCB(topk.IndexPolicy):
    """Always pulls the arm with the largest mean + sqrt(width ln t / pulls), where t counts all pulls so far."""

    width: Array

    def index(self, view: topk.View, mean: Array, pulls: Array) -> Array:
        t = jnp.sum(pulls)
        return mean + jnp.sqrt(self.width * jnp.log(t) / pulls)


@register_policy("topk")
def ucb(setting: Any, width: Annotated[float, real(0, 100), "of the bonus"] = 2.0) -> UCB:
    """Pulls the arm with the largest mean plus bonus."""
    return UCB(want=np.int32(setting.want), width=np.float32(width))
