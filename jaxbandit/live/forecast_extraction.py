"""What the rest of a session of extraction is expected to bring: the rule goes on in simulation, on the study's domain.

That takes a domain whose entities are known by name, and answers that named no others. The rule knows an entity by the
place at which it came first, so that the others are numbered after those that are known. Answers that the rule has not
asked for are not looked up: it pays for such a query again, but buys nothing by it that is known.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.engine import simulate
from jaxbandit.extraction.problem import Outcome, Pull, View
from jaxbandit.grammar import Tree
from jaxbandit.live.extraction import ExtractionQuestions
from jaxbandit.live.play import Play
from jaxbandit.live.rest import Afforded, Rest, bought
from jaxbandit.pytree import pytree
from jaxbandit.random.stream import Stream
from jaxbandit.study.spec import Configuration

RUNS = 100


@pytree
@dataclass(frozen=True)
class ExtractionRest(Rest):
    """Answers the queries of the rest of a session. ``row``: int32, (entities,), which of the domain's entities has a
    number of the session; ``number``: the inverse."""

    row: Array
    number: Array

    def pull(self, key: Stream, instance: Stream, pull: Pull) -> Outcome:
        """Draws an answer as the problem does, in the numbers that entities have in the session."""
        excluded = jnp.where(pull.exclude >= 0, self.row[pull.exclude], -1)
        found = self.problem.pull(key, instance, pull._replace(exclude=excluded))
        return Outcome(jnp.where(found.entity >= 0, self.number[found.entity], -1), found.leaf)


class Prices(NamedTuple):
    """Holds what queries cost, by configuration, entities excluded and specificity; ``specificity``: of each node."""

    costs: Array
    specificity: Array

    def cost(self, pull: Pull) -> Array:
        """Returns what a query costs, in units: int32."""
        excluded = jnp.sum(pull.exclude >= 0, dtype=jnp.int32)
        return jnp.where(pull.asked, self.costs[pull.configuration, excluded, self.specificity[pull.node]], 0)


class BoughtState(NamedTuple):
    """Holds what ``SpentState`` does, and which entities are ``known`` (bool, (entities,))."""

    inner: Tree
    paid: Array
    known: Array


@pytree
@dataclass(frozen=True)
class Buying(Afforded):
    """Counts the entities that are new to the session; ``known``: those that are not (bool, (entities,))."""

    known: Array

    def init(self, view: View) -> BoughtState:
        """Returns the state that the policy has reached, with nothing paid and nothing bought since."""
        return BoughtState(self.state, jnp.int32(0), self.known)

    def tell(self, view: View, state: BoughtState, pull: Pull, outcome: Outcome) -> BoughtState:
        """Tells the policy the answer, and notes its entities where the money is enough for it."""
        inner, paid = super().tell(view, state, pull, outcome)
        there = (outcome.entity >= 0) & (paid <= self.left)
        place = jnp.where(there, outcome.entity, state.known.shape[0])
        return BoughtState(inner, paid, state.known.at[place].set(True, mode="drop"))

    def answer(self, view: View, state: BoughtState) -> dict[str, Array]:
        """Returns how many entities were bought since the session's state."""
        return {"gained": jnp.sum(state.known & ~self.known, dtype=jnp.int32)}


def forecast(asks: ExtractionQuestions, play: Play, chosen: Configuration, left: int, seed: int) -> dict[str, Any]:
    """Returns how many entities the money that is ``left`` is expected to buy, if the session goes on as it is.

    Returns:
        JSON-ready: ``entities`` more, the mean over ``runs`` simulated runs with its 95 % interval ``ci_low`` to
        ``ci_high``, and ``p5`` and ``p95``, between which 90 % of the runs are; ``law``, "that of the study". Or
        ``none``: a line that says why there is no forecast.
    """
    place = {name: row for row, name in enumerate(chosen.setting.domain.names)}
    if not place:
        return {"none": "the entities of the study's problem have no names"}
    named = list(asks.numbers(play.told) | asks.numbers(play.answers))  # in the numbers that the policy has, and others
    for name in named:
        if name not in place:
            return {"none": f"the study's problem does not know {name}: nobody can tell how many others there are"}
    if play.over:
        return {"none": "nothing is asked any more"}
    first = np.array([place[name] for name in named], np.int32)
    row = np.concatenate([first, np.setdiff1d(np.arange(len(place), dtype=np.int32), first)])
    problem: Any = chosen.problem
    rest = ExtractionRest(problem, jnp.asarray(row), jnp.asarray(np.argsort(row).astype(np.int32)))
    prices = Prices(jnp.asarray(asks.costs), jnp.asarray(problem.poset.specificity))
    known = jnp.arange(row.size) < len(named)
    policy = Buying(chosen.policy, play.state, prices, jnp.int32(left), known)
    found = simulate(rest, policy, runs=RUNS, seed=seed, first_run=1, progress=False)
    return bought("entities", found["gained"][0].astype(np.float64)) | {"law": "that of the study"}
