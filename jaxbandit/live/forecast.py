"""What the rest of a budget is expected to bring: the policy goes on in simulation, from the state that it reached.

The sc-probability of an entity is drawn from what is known of it by then: the sc-pdf, weighted by its record of s
successes and f failures, p^s (1 - p)^f. The sc-pdf is the study's, until enough answers tell what this agent is like.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.cleaning.problem import HIDDEN, Cleaning, Instance, Outcome, Pull
from jaxbandit.cleaning.view import View
from jaxbandit.engine import simulate
from jaxbandit.grammar import Tree
from jaxbandit.laws import Beta, fit_beta
from jaxbandit.live.cleaning import CleaningQuestions
from jaxbandit.live.play import Play
from jaxbandit.live.questions import Address
from jaxbandit.random import categorical, thresholds
from jaxbandit.random.race import UNLIMITED, concealed
from jaxbandit.random.stream import Stream, stream, substream, words

RUNS, CELLS = 400, 200
ENOUGH = 20
_MOST_ENTITIES = 1 << 20


class Begun(NamedTuple):
    """The pull that the answers are in the middle of (int32): where it began, and what was answered of it."""

    entity: Array
    attempt: Array
    made: Array
    removed: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rest:
    """The problem of the rest of a session. ``records``: int32, by entity, which row of ``posterior`` is its law (the
    thresholds of the ``CELLS`` cells of [0, 1]); entities beyond it have the first row."""

    problem: Cleaning
    session: Instance
    begun: Begun
    records: Array
    posterior: Array

    @property
    def budget(self) -> Array:
        """Of the whole session."""
        return self.problem.budget

    def draw(self, key: Stream) -> Instance:
        """The session's, with outcomes of its own."""
        return self.session._replace(hidden=substream(key, HIDDEN))

    def view(self, key: Stream, instance: Instance) -> View:
        """The session's."""
        return self.problem.view(key, instance)

    def pull(self, key: Stream, instance: Instance, pull: Pull) -> Outcome:
        """What was answered of it, and the rest drawn."""
        known = (pull.entity == self.begun.entity) & (pull.attempt == self.begun.attempt)
        made, removed = (jnp.where(known, part, 0) for part in (self.begun.made, self.begun.removed))
        failures = jnp.where(pull.failures == UNLIMITED, UNLIMITED, pull.failures - (made - removed))
        first, second = words(instance.hidden, pull.entity, 0)
        record = self.records.at[pull.entity].get(mode="fill", fill_value=0)
        cell = categorical(second, self.posterior[record])
        probability = (cell.astype(jnp.uint32) * 2 + 1) * jnp.uint32(2**31 // CELLS)
        rest = Pull(pull.entity, pull.attempt + made, pull.successes - removed, failures, pull.cleans - made)
        drawn = self.problem.raced(instance, rest, concealed(first, probability))
        return Outcome(drawn.cleans + made, drawn.removed + removed)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Continued:
    """A policy from a state on."""

    policy: Any
    state: Tree

    def init(self, view: View) -> Tree:
        """The state reached."""
        return self.state

    def ask(self, view: View, state: Tree) -> Pull:
        """As the policy does."""
        return self.policy.ask(view, state)  # type: ignore[no-any-return]

    def tell(self, view: View, state: Tree, pull: Pull, outcome: Outcome) -> Tree:
        """As the policy does."""
        return self.policy.tell(view, state, pull, outcome)

    def done(self, view: View, state: Tree) -> Array:
        """As the policy does."""
        return self.policy.done(view, state)  # type: ignore[no-any-return]

    def answer(self, view: View, state: Tree) -> dict[str, Array]:
        """As the policy does."""
        return self.policy.answer(view, state)  # type: ignore[no-any-return]


def records_of(asks: CleaningQuestions, told: Mapping[Address, Any]) -> dict[int, tuple[int, int]]:
    """By entity, how many answers ruled out a value, and how many failed."""
    records: dict[int, tuple[int, int]] = {}
    for (entity, _), answer in told.items():
        gained, failed = records.get(entity, (0, 0))
        success = answer != asks.unknown(entity)
        records[entity] = gained + success, failed + (not success)
    return records


def fitted(records: Mapping[int, tuple[int, int]]) -> Beta | None:
    """The sc-pdf of the agent that answers: the beta law of greatest likelihood, once ``ENOUGH`` entities have records
    and these tell something."""
    gained, failed = np.array(list(records.values()), np.int64).reshape(-1, 2).T
    if len(records) < ENOUGH or not gained.any() or not failed.any():
        return None
    return fit_beta(gained, gained + failed)


def forecast(asks: CleaningQuestions, play: Play, problem: Any, policy: Any, seed: int) -> dict[str, Any] | None:
    """What the rest of the budget is expected to remove, if the session goes on as it is.

    Returns:
        JSON-ready: ``removed``, the mean over ``runs`` simulated runs with its 95 % interval ``ci_low`` to ``ci_high``,
        and ``p5`` and ``p95``, between which 90 % of the runs are; ``law``, the sc-pdf: that of the study, or once it
        can be told the one that fits the answers. None where too many entities are numbered.
    """
    records = records_of(asks, play.told)
    agent = fitted(records)
    law = agent or asks.setting.sc_pdf
    told = "that of the study" if agent is None else f"fitted: beta({agent.alpha:.3g}, {agent.beta:.3g})"
    if max(records, default=0) >= _MOST_ENTITIES:
        return None
    kinds = {(0, 0): 0}
    row = np.zeros(1 << max(10, max(records, default=0).bit_length()), np.int32)
    for entity, record in records.items():
        row[entity] = kinds.setdefault(record, len(kinds))
    middle = (np.arange(CELLS) + 0.5) / CELLS
    prior = law.cells(1 / CELLS)
    gained, failed = np.array(list(kinds), np.float64).T[:, :, None]
    log = gained * np.log(middle) + failed * np.log1p(-middle)
    weights = np.zeros((1 << (len(kinds) - 1).bit_length(), CELLS))
    weights[:] = prior
    weights[: len(kinds)] = prior * np.exp(log - log.max(axis=1, keepdims=True))
    key = stream(seed, 0)
    made, removed, _ = asks.made(play.pull, play.told) if not play.over else (0, 0, True)
    begun = Begun(*map(jnp.int32, (play.pull.entity, play.pull.attempt, made, removed)))
    rest = Rest(problem, problem.draw(key), begun, jnp.asarray(row), jnp.asarray(thresholds(weights)))
    before = int(play.answer()["removed"]) + removed
    found = simulate(rest, Continued(policy, play.state), runs=RUNS, seed=seed, first_run=1, progress=False)
    gain = found["removed"][0].astype(np.float64) - before
    half = 1.96 * gain.std(ddof=1) / RUNS**0.5
    return {
        "removed": gain.mean(), "ci_low": gain.mean() - half, "ci_high": gain.mean() + half,
        "p5": float(np.quantile(gain, 0.05)), "p95": float(np.quantile(gain, 0.95)), "runs": RUNS,
        "law": told,
    }  # fmt: skip
