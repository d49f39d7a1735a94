"""Random words that have addresses, and samplers on them that are exact and elementwise."""

from jaxbandit.random.counts import binomial, negative_binomial
from jaxbandit.random.draws import (
    bernoulli,
    categorical,
    exponential,
    geometric,
    integers,
    scale,
    thresholds,
    uniform,
)
from jaxbandit.random.permutation import permuted, position
from jaxbandit.random.race import LONGEST_RACE, UNLIMITED, race, race_on_tape
from jaxbandit.random.stream import Stream, block, stream, substream, words

__all__ = [
    "LONGEST_RACE",
    "UNLIMITED",
    "Stream",
    "bernoulli",
    "binomial",
    "block",
    "categorical",
    "exponential",
    "geometric",
    "integers",
    "negative_binomial",
    "permuted",
    "position",
    "race",
    "race_on_tape",
    "scale",
    "stream",
    "substream",
    "thresholds",
    "uniform",
    "words",
]
