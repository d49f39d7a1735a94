"""Pulls that a rule makes as it is written, by hand, one question after another."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.contract import Contract
from jaxbandit.random import stream


def counts(problem: Any, policy: Any, runs: int) -> tuple[float, float]:
    """Means a run of the pulls that the rule as written makes, and of those of a new entity or arm."""
    run = Contract(problem, policy)

    def one(number: Array) -> tuple[Array, Array]:
        key = stream(0, number)
        instance = run.draw(key)
        view = run.view(key, instance)

        def step(carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
            state, pulls, new = carry
            pull = run.ask(view, state)
            outcome = run.pull(key, instance, pull)
            used = run.used(view, pull, outcome)
            first, times = (pull.attempt, outcome.cleans) if used is None else (used.first, used.times)
            made = jnp.atleast_1d(times) > 0  # known-sc asks for ranks, of which a problem does not say what they use
            return run.tell(view, state, pull, outcome), pulls + made.sum(), new + (made & (first == 0)).sum()

        start = jax.tree.map(jnp.asarray, run.init(view)), jnp.int32(0), jnp.int32(0)
        return lax.while_loop(lambda carry: ~run.done(view, carry[0]), step, start)[1:]

    pulls, new = jax.jit(jax.vmap(one))(jnp.arange(runs, dtype=jnp.uint32))
    return float(np.mean(pulls)), float(np.mean(new))
