"""A problem and policies of one's own, in a stored study: see docs/own-policy.md."""

import sys
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

import jaxbandit
from jaxbandit.random import Stream, bernoulli, words
from jaxbandit.registry import Metric


class State(NamedTuple):
    pulls: Array  # by arm
    wins: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bandit:
    """Arms that pay 1 with the probabilities ``means`` (float32, shape (arms,)), pulled ``budget`` times (int32)."""

    means: Array
    budget: Array

    def draw(self, key: Stream) -> None: ...  # nothing is drawn once a run

    def view(self, key: Stream, instance: None) -> tuple[Array, int]:
        return self.budget, self.means.shape[0]  # what a policy may know

    def pull(self, key: Stream, instance: None, pull: tuple[Array, Array]) -> Array:
        arm, number = pull  # the arm, and how often it was pulled before
        return bernoulli(words(key, arm + 1, number)[0], self.means[arm])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class UCB:
    """Pulls the arm with the highest mean + sqrt(width ln t / pulls)."""

    width: Array

    def init(self, view: tuple[Array, int]) -> State:
        return State(jnp.zeros(view[1], jnp.int32), jnp.zeros(view[1], jnp.int32))

    def ask(self, view: tuple[Array, int], state: State) -> tuple[Array, Array]:
        bonus = jnp.sqrt(self.width * jnp.log(jnp.sum(state.pulls) + 1.0) / jnp.maximum(state.pulls, 1))
        arm = jnp.argmax(jnp.where(state.pulls == 0, jnp.inf, state.wins / jnp.maximum(state.pulls, 1) + bonus))
        return arm, state.pulls[arm]

    def tell(self, view: tuple[Array, int], state: State, pull: tuple[Array, Array], outcome: Array) -> State:
        arm, _ = pull
        return State(state.pulls.at[arm].add(1), state.wins.at[arm].add(outcome))

    def done(self, view: tuple[Array, int], state: State) -> Array:
        return jnp.sum(state.pulls) >= view[0]

    def answer(self, view: tuple[Array, int], state: State) -> dict[str, Array]:
        return {"wins": jnp.sum(state.wins), "pulls": state.pulls}


regret = Metric("regret", "regret", lambda p, a: float(p.budget * p.means.max()) - a["wins"], lower_is_better=True)
study = jaxbandit.experiment(
    problem=lambda gap: Bandit(jnp.array([0.5, 0.5 + gap]), jnp.int32(1000)),
    policies={"ucb": lambda problem, width: UCB(jnp.float32(width))},
    sweep={"gap": [0.1, 0.3], "width": [0.5, 2.0]},
    metrics=[regret],
    runs=20_000,
    checkpoints=[100, 300],
    stop_when={"metric": "regret", "half_width": 0.5},
)

if __name__ == "__main__":
    results = jaxbandit.run_study(study, *sys.argv[1:])  # an xarray.Dataset; with a folder, it is stored and continued
    print(results.regret.mean("run").to_series().unstack("checkpoint").round(2))
