"""What the rest of a budget is expected to bring: the policy goes on in simulation, from the state that it reached.

The sc-probability of an entity is drawn from what is known of it by then: the sc-pdf, weighted by its record of s
successes and f failures, p^s (1 - p)^f. The sc-pdf is the study's, until enough answers tell what this agent is like
(``live.agent_laws``); from then on each run has one of several laws that are as likely as one another.
What was answered is not drawn again, and costs nothing where the policy comes to it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.cleaning.problem import HIDDEN, PUBLIC, Cleaning, Instance
from jaxbandit.cleaning.pulls import Outcome, Pull
from jaxbandit.cleaning.view import View
from jaxbandit.engine import simulate
from jaxbandit.grammar import Tree
from jaxbandit.laws import Law
from jaxbandit.live.agent_laws import Agent, agent_of
from jaxbandit.live.cleaning import CleaningQuestions
from jaxbandit.live.play import Play
from jaxbandit.live.questions import Answers
from jaxbandit.live.rest import Paid, Rest, bought, room
from jaxbandit.pytree import pytree
from jaxbandit.random import categorical, scale, thresholds
from jaxbandit.random.race import UNLIMITED, concealed
from jaxbandit.random.stream import Stream, stream, substream, words
from jaxbandit.study.spec import Configuration

RUNS, FEWEST_RUNS, CELLS = 400, 40, 200
MOST_ENTITIES = 1 << 20
_MOST_WORK = 2e10
_AGENT = PUBLIC + 1
"""What a word of a run's stream is for: which of the laws is its agent's."""


class AnsweredEntities(NamedTuple):
    """Holds what was answered, in rows of one entity each; the first row stands for all entities without answers.

    ``row``: int32, by entity, entities beyond it having the first row; ``succeeded``: bool, (rows, the most answers);
    ``many``: int32, (rows,), how many there are; ``law``: int32, (rows,), which posterior is the entity's.
    """

    row: Array
    succeeded: Array
    many: Array
    law: Array

    def of(self, entity: Array) -> Array:
        """Returns the number of the row of an entity."""
        found: Array = self.row.at[entity].get(mode="fill", fill_value=0)
        return found

    def taken(self, pull: Pull) -> tuple[Array, Array]:
        """Returns how many of a pull's operations were answered, and how many of these succeeded (int32 both)."""
        row, place = self.of(pull.entity), jnp.arange(self.succeeded.shape[1], dtype=jnp.int32)
        there = (place >= pull.attempt) & (place < self.many[row])
        hit, miss = there & self.succeeded[row], there & ~self.succeeded[row]
        won, lost = (jnp.cumsum(each, dtype=jnp.int32) - each for each in (hit, miss))
        taken = there & (won < pull.successes) & (lost < pull.failures) & (won + lost < pull.cleans)
        return jnp.sum(taken, dtype=jnp.int32), jnp.sum(taken & hit, dtype=jnp.int32)


@pytree
@dataclass(frozen=True)
class CleaningRest(Rest):
    """Draws the outcomes of the rest of a session. ``posterior``: uint32, (agents, laws, ...), the laws of
    ``AnsweredEntities.law`` as thresholds of the ``CELLS`` cells of [0, 1], by each agent that this one may be."""

    session: Instance
    known: AnsweredEntities
    posterior: Array

    def draw(self, key: Stream) -> Instance:
        """Returns the session's instance, with outcomes that are drawn anew."""
        return self.session._replace(hidden=substream(key, HIDDEN))

    def pull(self, key: Stream, instance: Instance, pull: Pull) -> Outcome:
        """Returns what was answered of a pull, and draws the rest of it."""
        made, removed = self.known.taken(pull)
        failures = jnp.where(pull.failures == UNLIMITED, UNLIMITED, pull.failures - (made - removed))
        first, second = words(instance.hidden, pull.entity, 0)
        agent = scale(words(substream(key, _AGENT), 0, 0)[0], self.posterior.shape[0])
        cell = categorical(second, self.posterior[agent, self.known.law[self.known.of(pull.entity)]])
        probability = (cell.astype(jnp.uint32) * 2 + 1) * jnp.uint32(2**31 // CELLS)
        rest = Pull(pull.entity, pull.attempt + made, pull.successes - removed, failures, pull.cleans - made)
        drawn = self.problem.raced(instance, rest, concealed(first, probability))
        return Outcome(drawn.cleans + made, drawn.removed + removed)


class PaidState(NamedTuple):
    """Holds the policy's own state, and what was paid and removed since (int32)."""

    inner: Tree
    paid: Array
    gained: Array


@pytree
@dataclass(frozen=True)
class Paying(Paid):
    """Runs a policy on from a state until the money that is ``left`` (int32) is spent."""

    known: AnsweredEntities
    left: Array

    def init(self, view: View) -> PaidState:
        """Returns the state that the policy has reached, with nothing paid since."""
        return PaidState(self.state, jnp.int32(0), jnp.int32(0))

    def ask(self, view: View, state: PaidState) -> Pull:
        """Asks for the policy's next pull, cut to the operations that the money is enough for."""
        pull: Pull = self.policy.ask(view, state.inner)
        made, _ = self.known.taken(pull)
        return pull._replace(cleans=jnp.minimum(pull.cleans, made + self.left - state.paid))

    def tell(self, view: View, state: PaidState, pull: Pull, outcome: Outcome) -> PaidState:
        """Tells the policy the outcome, and counts what was not answered before as paid and removed."""
        made, removed = self.known.taken(pull)
        inner = self.policy.tell(view, state.inner, pull, outcome)
        return PaidState(inner, state.paid + outcome.cleans - made, state.gained + outcome.removed - removed)

    def done(self, view: View, state: PaidState) -> Array:
        """Returns whether the policy is done or the money is spent."""
        return self.policy.done(view, state.inner) | (state.paid >= self.left)  # type: ignore[no-any-return]

    def answer(self, view: View, state: PaidState) -> dict[str, Array]:
        """Returns the number of false values that were removed since the session's state."""
        return {"gained": state.gained}


def records_of(asks: CleaningQuestions, answers: Answers) -> dict[int, tuple[int, int]]:
    """Returns for each entity how many answers ruled out a value, and how many failed."""
    records: dict[int, tuple[int, int]] = {}
    for (entity, _), answer in answers.items():
        gained, failed = records.get(entity, (0, 0))
        success = answer != asks.unknown(entity)
        records[entity] = gained + success, failed + (not success)
    return records


def told_by(records: Mapping[int, tuple[int, int]]) -> Agent | None:
    """Returns what the records tell of the agent that answers, if they are enough."""
    gained, failed = np.array(list(records.values()), np.int64).reshape(-1, 2).T
    return agent_of(gained, gained + failed)


def known(asks: CleaningQuestions, answers: Answers) -> tuple[AnsweredEntities, list[tuple[int, int]]]:
    """Returns the answers as arrays, and the record that each posterior is of."""
    records = records_of(asks, answers)
    kinds: dict[tuple[int, int], int] = {(0, 0): 0}
    count = np.zeros(room(len(records) + 1, 256), np.int32)
    succeeded = np.zeros((count.size, room(max(map(sum, records.values()), default=1), 32)), bool)
    law, row = np.zeros_like(count), np.zeros(room(max(records, default=0) + 1, 1024), np.int32)
    for place, (entity, record) in enumerate(records.items(), 1):
        row[entity], count[place], law[place] = place, sum(record), kinds.setdefault(record, len(kinds))
    for (entity, attempt), answer in answers.items():
        succeeded[row[entity], attempt] = answer != asks.unknown(entity)
    return AnsweredEntities(*map(jnp.asarray, (row, succeeded, count, law))), list(kinds)


def rest(asks: CleaningQuestions, answers: Answers, problem: Cleaning, laws: Sequence[Law], seed: int) -> CleaningRest:
    """Returns the problem of the rest of a session, in which the sc-probability has one of ``laws`` in each run."""
    there, records = known(asks, answers)
    middle = (np.arange(CELLS) + 0.5) / CELLS
    gained, failed = np.array(records, np.float64).T[:, :, None]
    with np.errstate(divide="ignore"):
        prior = np.log([law.cells(1 / CELLS) for law in laws])[:, None]
    log = prior + gained * np.log(middle) + failed * np.log1p(-middle)
    weights = np.ones((len(laws), room(len(records), 64), CELLS))
    weights[:, : len(records)] = np.exp(log - log.max(axis=2, keepdims=True))
    return CleaningRest(problem, problem.draw(stream(seed, 0)), there, jnp.asarray(thresholds(weights)))


def runs_for(play: Play, left: int) -> int:
    """Returns how many runs are simulated soon enough: fewer where the policy remembers many entities."""
    size = sum(leaf.size for leaf in jax.tree.leaves(play.state))
    return int(np.clip(_MOST_WORK / (size * max(left, 1)), FEWEST_RUNS, RUNS))


def gains(problem: CleaningRest, play: Play, policy: Any, left: int, runs: int, seed: int) -> np.ndarray:
    """Returns what the policy removes from where it stands with so much money: float64, one number a run.

    Runs of one number meet the same sc-probabilities whatever the policy, so that policies can be compared in pairs.
    """
    if play.over or not left:
        return np.zeros(runs)
    continued = Paying(policy, play.state, problem.known, jnp.int32(left))
    found = simulate(problem, continued, runs=runs, seed=seed, first_run=1, progress=False)
    return np.asarray(found["gained"][0], np.float64)


def forecast(asks: CleaningQuestions, play: Play, chosen: Configuration, left: int, seed: int) -> dict[str, Any]:
    """Returns what the rest of the budget is expected to remove, if the session goes on as it is.

    Returns:
        JSON-ready: ``removed``, the mean over ``runs`` simulated runs with its 95 % interval ``ci_low`` to ``ci_high``,
        and ``p5`` and ``p95``, between which 90 % of the runs are; ``law``, the sc-pdf: that of the study, or once it
        can be told the one that fits the answers. Or ``none``: a line that says why there is no forecast.
    """
    records = records_of(asks, play.answers)
    if max(records, default=0) >= MOST_ENTITIES:
        return {"none": f"entities are numbered above {MOST_ENTITIES:,}"}
    agent = told_by(records)
    laws = agent.likely if agent else [asks.setting.sc_pdf]
    problem = rest(asks, play.answers, cast(Cleaning, chosen.problem), laws, seed)
    found = gains(problem, play, chosen.policy, left, runs_for(play, left), seed)
    return {**bought("removed", found), "law": agent.told if agent else "that of the study"}
