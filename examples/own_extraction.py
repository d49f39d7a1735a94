"""A rule of one's own for buying entities, beside the built-in ones: see docs/own-others.md.

python examples/own_extraction.py
jaxbandit run examples/own_extraction.toml --out DIR --plugin examples/own_extraction.py
"""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit import BadInput, Study, extraction, register_policy, run_study, table
from jaxbandit.registry import whole


class State(NamedTuple):
    retrieved: extraction.Retrieved  # what was bought
    hope: Array  # of each node: new entities that its next query may bring; -1 where no node above was asked


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LastGain:
    """Asks the node whose last answer brought most for its price. A node that is new is as good as the one above.

    ``configuration`` (int32): which pair (k, l) it asks.
    """

    configuration: Array

    def init(self, view: extraction.View) -> State:
        root = jnp.arange(view.nodes) == 0
        return State(extraction.Retrieved.nothing(view), jnp.where(root, view.k_max, -1))

    def ask(self, view: extraction.View, state: State) -> extraction.Pull:
        price = view.cost[self.configuration, jnp.asarray(view.poset.specificity)]  # in units, by node
        affordable = price <= view.budget - state.retrieved.spent
        node = jnp.argmax(jnp.where(affordable, 1000 * state.hope // price, -1000)).astype(jnp.int32)
        return state.retrieved.query(view, node, self.configuration)

    def tell(self, view: extraction.View, state: State, pull: extraction.Pull, outcome: extraction.Outcome) -> State:
        retrieved = state.retrieved.after(view, pull, outcome)
        gain = retrieved.size - state.retrieved.size
        start, child = jnp.asarray(view.poset.child_start), jnp.asarray(view.poset.child)
        place = jnp.arange(child.shape[0])
        below = (place >= start[pull.node]) & (place < start[pull.node + 1]) & (state.hope[child] < 0)
        hope = state.hope.at[pull.node].set(gain).at[child].max(jnp.where(below, gain, -1))
        return State(retrieved, jnp.where(pull.asked, hope, state.hope))

    def done(self, view: extraction.View, state: State) -> Array:
        return ~self.ask(view, state).asked

    def answer(self, view: extraction.View, state: State) -> dict[str, Array]:
        return state.retrieved.answer()


@register_policy("extraction")
def last_gain(
    setting: Any,
    k: Annotated[int, whole(1, 20), "entities that a query asks for"] = 20,
    excluded: Annotated[int, whole(0, 10), "entities that it excludes"] = 0,
) -> LastGain:
    """Asks the node whose last answer brought most for its price."""
    if (k, excluded) not in setting.configurations:
        raise BadInput("policy.last-gain", (k, excluded), f"one of {setting.configurations}")
    return LastGain(np.int32(setting.configurations.index((k, excluded))))


if __name__ == "__main__":
    problem = {"kind": "extraction/people", "answer_model": "k-largest", "budget": 20}
    study = Study.of({"runs": 200, "problem": problem, "policy": [{"kind": "rand"}, {"kind": "last-gain"}]})
    print(table(run_study(study, progress=False), "entities"), end="")
