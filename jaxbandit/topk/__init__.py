"""Selection of the K best arms (Zhou, Chen and Li 2014 and others), one rule a file."""

from jaxbandit.arms.problem import Outcome, Pull, View
from jaxbandit.topk import fast
from jaxbandit.topk.bounds import (
    PROVEN,
    lower_bound,
    lower_bound_accuracy,
    lower_bound_confidence,
    regret_bound,
    sample_size,
)
from jaxbandit.topk.halving import SequentialHalving, sequential_halving
from jaxbandit.topk.index_policy import IndexPolicy
from jaxbandit.topk.lucb import Lucb, lucb
from jaxbandit.topk.optmai import OptMAI, optmai
from jaxbandit.topk.sar import Sar, sar
from jaxbandit.topk.shares import printed_beta
from jaxbandit.topk.trained import Trained, trained
from jaxbandit.topk.trained import load as load_score
from jaxbandit.topk.trained import shipped as shipped_score
from jaxbandit.topk.uniform import Uniform, uniform

__all__ = [
    "PROVEN",
    "IndexPolicy",
    "Lucb",
    "OptMAI",
    "Outcome",
    "Pull",
    "Sar",
    "SequentialHalving",
    "Trained",
    "Uniform",
    "View",
    "fast",
    "load_score",
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
    "shipped_score",
    "trained",
    "uniform",
]
