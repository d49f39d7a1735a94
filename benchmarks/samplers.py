"""Nanoseconds a draw of the samplers in jaxbandit.random, against jax.random's.

    python -m benchmarks.samplers [--out FILE.json] [--quick]

Both run inside one jitted while_loop over 2,048 lanes, warm; the median of 5 runs. Ours: an address a lane and step.
jax.random: one key a step for all the lanes (fold_in), its cheapest use; a key for every lane costs more.
"""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from benchmarks.common import facts, parser, save
from jaxbandit import random
from jaxbandit.random import stream, words

LANES, RUNS = 2048, 5
WEIGHTS = np.arange(1.0, 9.0)
TABLE, LOGITS = jnp.asarray(random.thresholds(WEIGHTS)), jnp.log(jnp.asarray(WEIGHTS))
S = (LANES,)


def _word(key: random.Stream, step: Array) -> Array:
    return words(key, 1, step)[0]


def _binomials(n: int, p: float) -> tuple[Callable[..., Array], Callable[..., Array]]:
    # Parameters differ by lane, so that no part of the work can be hoisted out of the loop over lanes.
    ps = jnp.linspace(0.99, 1.0, LANES, dtype=jnp.float32) * p
    return (
        lambda key, step: random.binomial(key, 1, step, n, ps),
        lambda key: jax.random.binomial(key, jnp.float32(n), ps, S).astype(jnp.int32),
    )


def _negative_binomials(r: int, p: float) -> tuple[Callable[..., Array], Callable[..., Array]]:
    def mixed(key: Array) -> Array:
        one, two = jax.random.split(key)
        return jax.random.poisson(two, jax.random.gamma(one, jnp.float32(r), S) * ((1 - p) / p), S)

    return lambda key, step: random.negative_binomial(key, 1, step, r, p), mixed


PAIRS: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
    "word": (_word, lambda key: jax.random.bits(key, S)),
    "uniform": (lambda key, step: random.uniform(_word(key, step)), lambda key: jax.random.uniform(key, S)),
    "bernoulli(0.3)": (
        lambda key, step: random.bernoulli(_word(key, step), 0.3),
        lambda key: jax.random.bernoulli(key, 0.3, S),
    ),
    "scale(1000)": (
        lambda key, step: random.scale(_word(key, step), 1000),
        lambda key: jax.random.randint(key, S, 0, 1000),
    ),
    "integers(1000)": (
        lambda key, step: random.integers(key, 1, step, 1000),
        lambda key: jax.random.randint(key, S, 0, 1000),
    ),
    "exponential": (lambda key, step: random.exponential(_word(key, step)), lambda key: jax.random.exponential(key, S)),
    "geometric(0.01)": (
        lambda key, step: random.geometric(_word(key, step), 0.01),
        lambda key: jax.random.geometric(key, 0.01, S),
    ),
    "categorical, 8": (
        lambda key, step: random.categorical(_word(key, step), TABLE),
        lambda key: jax.random.categorical(key, LOGITS, shape=S),
    ),
    "binomial(16, 0.3)": _binomials(16, 0.3),
    "binomial(1000, 0.3)": _binomials(1000, 0.3),
    "binomial(10^6, 0.3)": _binomials(10**6, 0.3),
    "negative_binomial(1, 0.3)": _negative_binomials(1, 0.3),
    "negative_binomial(100, 0.1)": _negative_binomials(100, 0.1),
    "position, 50,000": (
        lambda key, step: random.position(key, 1, step, 50_000),
        lambda key: jax.random.permutation(key, 50_000)[:LANES],
    ),
}


def _nanoseconds(draw: Callable[[Array], Array], draws: int, quick: bool) -> float:
    """The median time of a draw in a loop that sums them (so that none is left out)."""

    @jax.jit
    def loop(steps: Array) -> Array:
        def body(state: tuple[Array, Array]) -> tuple[Array, Array]:
            return state[0] + 1, state[1] + draw(state[0]).astype(jnp.float32)

        start = (jnp.uint32(0), jnp.zeros(LANES, jnp.float32))
        return jax.lax.while_loop(lambda state: state[0] < steps, body, start)[1]

    def seconds(steps: int) -> float:
        begin = time.perf_counter()
        loop(jnp.uint32(steps)).block_until_ready()
        return time.perf_counter() - begin

    seconds(3)
    steps = int(np.clip((0.01 if quick else 0.15) / (seconds(10) / 10), 10, 5000))
    return median(seconds(steps) for _ in range(1 if quick else RUNS)) / steps / draws * 1e9


def _ours(draw: Callable[..., Array], step: Array) -> Array:
    return draw(stream(1, jnp.arange(LANES)), step)


def _theirs(draw: Callable[..., Array], step: Array) -> Array:
    return draw(jax.random.fold_in(jax.random.key(1), step))


def main() -> None:
    given = parser(__doc__).parse_args()
    head = facts("samplers", given.quick) | {"device": str(jax.devices()[0]), "lanes": LANES}
    rows: list[dict[str, Any]] = []
    print(f"{'sampler':28} {'jaxbandit':>10} {'jax.random':>11} {'ratio':>7}   ns a draw, {LANES} lanes")
    for name, (ours, theirs) in PAIRS.items():
        # A walk along a permutation draws an entry a step; jax.random makes all of them at once.
        entries = 50_000 if name.startswith("position") else LANES
        a = _nanoseconds(partial(_ours, ours), LANES, given.quick)
        b = _nanoseconds(partial(_theirs, theirs), entries, given.quick)
        rows.append({"sampler": name, "jaxbandit_ns": a, "jax_random_ns": b, "ratio": b / a})
        print(f"{name:28} {a:10.1f} {b:11.1f} {b / a:7.1f}", flush=True)
    save(given.out, head, rows)


if __name__ == "__main__":
    main()
