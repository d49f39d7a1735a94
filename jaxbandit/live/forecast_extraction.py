"""What the rest of a session of extraction is expected to bring: the rule goes on in simulation, on the study's domain.

That takes a domain whose entities are known by name, and answers that named no others. The rule knows an entity by the
place at which it came first, so that the others are numbered after those that are known.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.engine import simulate
from jaxbandit.extraction.problem import Outcome, Pull
from jaxbandit.live.extraction import ExtractionQuestions
from jaxbandit.live.play import Play
from jaxbandit.live.rest import Continued, Rest, bought
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


def forecast(asks: ExtractionQuestions, play: Play, chosen: Configuration, seed: int) -> dict[str, Any]:
    """Returns how many entities the rest of the budget is expected to buy, if the session goes on as it is.

    Returns:
        JSON-ready: ``entities`` more, the mean over ``runs`` simulated runs with its 95 % interval ``ci_low`` to
        ``ci_high``, and ``p5`` and ``p95``, between which 90 % of the runs are; ``law``, "that of the study". Or
        ``none``: a line that says why there is no forecast.
    """
    place = {name: row for row, name in enumerate(chosen.setting.domain.names)}
    if not place:
        return {"none": "the entities of the study's problem have no names"}
    told = list(asks.numbers(play.told))
    for name in told:
        if name not in place:
            return {"none": f"the study's problem does not know {name}: nobody can tell how many others there are"}
    if play.over:
        return {"none": "nothing is asked any more"}
    known = np.array([place[name] for name in told], np.int32)
    row = np.concatenate([known, np.setdiff1d(np.arange(len(place), dtype=np.int32), known)])
    problem: Any = chosen.problem
    rest = ExtractionRest(problem, jnp.asarray(row), jnp.asarray(np.argsort(row).astype(np.int32)))
    found = simulate(rest, Continued(chosen.policy, play.state), runs=RUNS, seed=seed, first_run=1, progress=False)
    gain = found["entities"][0].astype(np.float64) - len(told)
    return bought("entities", gain) | {"law": "that of the study"}
