"""A cleaning policy of one's own, beside EE: see docs/own-policy.md.

python examples/own_policy.py                                            compares them
jaxbandit run STUDY.toml --out DIR --plugin examples/own_policy.py       runs study files that name it
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit import cleaning, register_policy, simulate
from jaxbandit.registry import whole


class State(NamedTuple):
    place: Array  # of the entity at hand in the run's random order
    tried: Array  # operations on it
    gained: Array  # how many of them succeeded
    streak: Array  # how many failed since the last success
    totals: cleaning.Totals


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Streak:
    """Meets each entity once, in random order, and leaves it after ``patience`` failures in a row (int32)."""

    patience: Array

    def init(self, view: cleaning.View) -> State:
        zero = jnp.int32(0)
        return State(zero, zero, zero, zero, cleaning.Totals.zero())

    def ask(self, view: cleaning.View, state: State) -> cleaning.Pull:
        entity = view.in_random_order(jnp.minimum(state.place, view.entities - 1))
        return cleaning.Pull(
            entity=entity,
            attempt=state.tried,
            successes=jnp.int32(1),  # up to the next success ...
            failures=self.patience - state.streak,  # ... or the last failure that is put up with
            cleans=view.budget - state.totals.spent,
        )

    def tell(self, view: cleaning.View, state: State, pull: cleaning.Pull, outcome: cleaning.Outcome) -> State:
        tried, gained = state.tried + outcome.cleans, state.gained + outcome.removed
        streak = jnp.where(outcome.removed > 0, 0, state.streak + outcome.cleans)
        clean = (outcome.cleans > 0) & (gained == view.false_values(pull.entity))
        leave = clean | (streak >= self.patience)
        tried, gained, streak = (jnp.where(leave, 0, count) for count in (tried, gained, streak))
        return State(state.place + leave, tried, gained, streak, state.totals.add(outcome, clean))

    def done(self, view: cleaning.View, state: State) -> Array:
        return (state.totals.spent >= view.budget) | (state.place >= view.entities)

    def answer(self, view: cleaning.View, state: State) -> dict[str, Array]:
        return state.totals.answer()


@register_policy("cleaning")
def streak(patience: Annotated[int, whole(1, 2**20), "failures in a row that it puts up with"] = 2) -> Streak:
    """Leaves an entity after some failures in a row."""
    return Streak(np.int32(patience))


def compare(runs: int = 1000, budget: int = 10_000) -> None:
    """Prints the effectiveness of each policy, and its difference from EE's on the same runs."""
    problem = cleaning.synthetic(
        budget=budget, entities=50_000, false_values=cleaning.uniform_false_values(0, 19), sc_pdf=cleaning.Uniform()
    )
    policies = {"ee": cleaning.ee(3, 0.667)} | {f"streak, patience {n}": Streak(np.int32(n)) for n in (1, 2, 3)}
    answers = simulate(problem, list(policies.values()), runs=runs, seed=0)
    effectiveness = answers["removed"] / budget  # shape (policies, runs)
    for name, own in zip(policies, effectiveness, strict=True):
        gain = own - effectiveness[0]
        half = [1.96 * values.std(ddof=1) / runs**0.5 for values in (own, gain)]
        print(f"{name:20} {own.mean():.4f} ± {half[0]:.4f}   against ee {gain.mean():+.4f} ± {half[1]:.4f}")


if __name__ == "__main__":
    compare()
