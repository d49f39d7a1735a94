"""Selection of the K best arms (Zhou, Chen and Li 2014 and others), one rule a file."""

from jaxbandit.topk.bounds import (
    PROVEN,
    lower_bound,
    lower_bound_accuracy,
    lower_bound_confidence,
    regret_bound,
    sample_size,
)
from jaxbandit.topk.halving import sequential_halving
from jaxbandit.topk.lucb import Lucb, lucb
from jaxbandit.topk.optmai import optmai, printed_beta
from jaxbandit.topk.rounds import Rounds
from jaxbandit.topk.sar import sar
from jaxbandit.topk.uniform import Uniform, uniform

__all__ = [
    "PROVEN",
    "Lucb",
    "Rounds",
    "Uniform",
    "lower_bound",
    "lower_bound_accuracy",
    "lower_bound_confidence",
    "lucb",
    "optmai",
    "printed_beta",
    "regret_bound",
    "sample_size",
    "sar",
    "sequential_halving",
    "uniform",
]
