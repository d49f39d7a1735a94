"""The ambiguity model and the cleaning agent (Cheng et al. 2010, section 3.2).

An entity holds r false values beside the right one. A cleaning operation on it removes one of them with the entity's
sc-probability p, and costs 1. An algorithm knows every r and the distribution of the p (the sc-pdf), but no p.

Entities that begin without a false value are none of the model's: the paper assumes r > 0.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.cleaning import crowd
from jaxbandit.cleaning.alike import Meet, Met, Tables, meet, tables_for
from jaxbandit.cleaning.mixed import Mix, Mixed, mix
from jaxbandit.contract import Used, brief
from jaxbandit.devices import use_all_cores
from jaxbandit.errors import BadInput
from jaxbandit.laws import Law, Quantiles, Uniform
from jaxbandit.random import binomial, categorical, exponential, position, thresholds
from jaxbandit.random.race import chase_at, chase_on_tape, race_at, race_on_tape, trial, trial_at
from jaxbandit.random.stream import Stream, substream, words
from jaxbandit.xla.fence import once, side_by_side

# What a word is for: the first half of its counter.
ENTITY, COUNT, ORDER, OUTCOME, CHOICE, RANK = range(1, 7)


LONGEST_RUN = 16
"""The most entities of a ``Walk``'s run."""


class Pull(NamedTuple):
    """Clean one entity until some of its false values are gone, or too many operations failed, or enough were made.

    All int32. ``attempt``: operations on this entity before; ``successes``, ``failures``, ``cleans``: the three walls
    (``UNLIMITED`` where there is none; a wall of 0 makes the pull one of count 0).
    """

    entity: Array
    attempt: Array
    successes: Array
    failures: Array
    cleans: Array


class InformedPull(NamedTuple):
    """A pull by an algorithm that knows the sc-probabilities: it names the ``probability`` too (uint32, 2^-32)."""

    entity: Array
    attempt: Array
    successes: Array
    failures: Array
    cleans: Array
    probability: Array


class Chase(NamedTuple):
    """One operation on an entity, and if it succeeds, more until its false values are gone or enough were made.

    As ``Pull``. ``proven``: 1 if an operation on it has succeeded before, so that it is cleaned on in any case; else 0.
    """

    entity: Array
    attempt: Array
    successes: Array
    cleans: Array
    proven: Array


class Tries(NamedTuple):
    """One operation on each of several entities, all different: arrays of one shape.

    int32 ``entity`` and ``attempt``, as in ``Pull``; ``successes``: the false values that the entity has left;
    ``cleans``: 1 where the operation is made, else 0.
    """

    entity: Array
    attempt: Array
    successes: Array
    cleans: Array


class Walk(NamedTuple):
    """One operation on an entity, then on each of a run of entities not met before, until one has no false value left.

    int32 all. ``entity``, ``attempt`` and ``successes`` as in ``Tries``; ``cleans``: 1, or 0 to begin with the run;
    ``place``: of the first of the run, whose entities follow each other in the random order; ``length``: how many they
    are, at most ``LONGEST_RUN``.
    """

    entity: Array
    attempt: Array
    successes: Array
    cleans: Array
    place: Array
    length: Array


class Stroll(NamedTuple):
    """The outcome of a ``Walk``. ``cleans``: operations made; ``gained``: a bit for each that succeeded, the lowest for
    the entity before the run, whether it is there or not (int32 both); ``first_clean`` and ``last_clean``: whether that
    entity or the last one of the run has no false value left (bool)."""

    cleans: Array
    gained: Array
    first_clean: Array
    last_clean: Array


class Outcome(NamedTuple):
    """``cleans``: operations made, at most ``LONGEST_RACE`` an entity; ``removed``: how many succeeded.

    int32 both, of the shape of the pull's fields.
    """

    cleans: Array
    removed: Array


AnyPull = Pull | InformedPull | Chase | Tries | Walk | Meet | crowd.Ticks | Mix
AnyOutcome = Outcome | Stroll | Met | crowd.Ticked | Mixed


class Totals(NamedTuple):
    """What every cleaning policy counts (int32): operations, false values removed, entities cleaned to the end."""

    spent: Array
    removed: Array
    finished: Array

    @classmethod
    def zero(cls) -> "Totals":
        """Before the first pull."""
        return cls(jnp.int32(0), jnp.int32(0), jnp.int32(0))

    def add(self, outcome: Outcome, clean: Array) -> "Totals":
        """After an outcome; ``clean``: whether it removed the entity's last false value."""
        return Totals(
            self.spent + outcome.cleans, self.removed + outcome.removed, self.finished + clean.astype(jnp.int32)
        )

    def answer(self) -> dict[str, Array]:
        """The totals under the names of the answers."""
        return {"cleans": self.spent, "removed": self.removed, "finished": self.finished}


class Instance(NamedTuple):
    """One run's own draws. ``entities`` (int32): how many have a false value; ``outcomes``: the key of the tape."""

    entities: Array
    outcomes: Stream


@dataclass(frozen=True)
class View:
    """What an algorithm knows in one run.

    ``budget``: the units of cost it may spend; ``entities``: how many have a false value (both int32); ``choices``:
    a stream for the algorithm's own random choices.
    """

    budget: Array
    entities: Array
    choices: Stream
    _model: "Cleaning"
    _key: Stream

    def false_values(self, entity: Array) -> Array:
        """How many false values an entity begins with: int32, at least 1."""
        return self._model.false_values(self._key, entity)

    def in_random_order(self, place: Array) -> Array:
        """The entity at a place, 0 to entities - 1, of a uniformly random order (int32): a walk without memory."""
        return self._model.in_random_order(self._key, place)

    def best(self, rank: Array, height: Array) -> tuple[Array, Array, Array]:
        """For ``known-sc`` alone, which may see the truth: the entity of a rank by sc-probability.

        Ranks are asked for in order from 0, each with the ``height`` (float32) that the last one gave, at first 0.
        Returns the entity, its sc-probability (uint32, units of 2^-32) and the next height.
        """
        return self._model.best(self._key, self.entities, rank, height)


@dataclass(frozen=True)
class Cleaning:
    """What all cleaning problems share. A pytree; ``budget`` (int32) and ``sc`` may differ between configurations.

    ``on_tape`` (static): each operation has a random word of its own, so that the size of a pull changes nothing.
    """

    budget: Array
    sc: Quantiles
    on_tape: bool = field(metadata={"static": True})

    def draw(self, key: Stream) -> Instance:
        """The number of entities and the key of the outcomes in this run."""
        return Instance(self.count(key), substream(key, OUTCOME))

    def view(self, key: Stream, instance: Instance) -> View:
        """What an algorithm may know of the run."""
        return View(self.budget, instance.entities, substream(key, CHOICE), self, key)

    def pull(self, key: Stream, instance: Instance, pull: AnyPull) -> AnyOutcome:
        """Cleans an entity; the outcome is drawn in one go from the law of the trials, or from the tape."""
        if isinstance(pull, Meet | crowd.Ticks | Mix):
            raise TypeError("what entities alike do can be asked of a synthetic problem with paired = False alone")
        if isinstance(pull, Walk):
            return self.walk(key, instance, pull)
        probability = pull.probability if isinstance(pull, InformedPull) else self.sc_probability(key, pull.entity)
        address = instance.outcomes, pull.entity, pull.attempt
        if isinstance(pull, Tries):
            return Outcome(pull.cleans, trial_at(*address, probability, pull.cleans))
        if isinstance(pull, Chase):
            drawn = chase_on_tape if self.on_tape else chase_at
            removed, failed = drawn(*address, probability, pull.successes, pull.proven, pull.cleans)
        else:
            walls = pull.successes, pull.failures, pull.cleans
            if self.on_tape:
                removed, failed = race_on_tape(instance.outcomes, pull.attempt, probability, pull.entity, *walls)
            else:
                removed, failed = race_at(*address, probability, *walls)
        return Outcome(removed + failed, removed)

    def used(self, view: View, pull: AnyPull, outcome: AnyOutcome) -> Used | None:
        """Which operations a pull of one entity made, for ``check``; None of other pulls."""
        if not isinstance(pull, Pull) or not isinstance(outcome, Outcome):
            return None
        return Used(pull.entity, pull.attempt, outcome.cleans, view.entities)

    def walk(self, key: Stream, instance: Instance, pull: Walk) -> Stroll:
        """The outcome of a ``Walk``: a word an operation, on tape and in production alike."""
        first = trial_at(
            instance.outcomes, pull.entity, pull.attempt, self.sc_probability(key, pull.entity), pull.cleans
        )
        run = _first_operations(self, key, instance, pull.place)
        cleans, gained = pull.cleans, first
        first_clean, last_clean = (first == 1) & (pull.successes == 1), jnp.bool_(False)
        for number, drawn in enumerate(run):
            made = (number < pull.length) & ~first_clean & ~last_clean
            gained = gained | jnp.where(made, (drawn & 1) << (number + 1), 0)
            last_clean = last_clean | (made & (drawn == 3))
            cleans = cleans + made.astype(jnp.int32)
        count = (LONGEST_RUN + 1).bit_length()
        packed = once(
            (((gained << count) | cleans) << 2) | (first_clean.astype(jnp.int32) << 1) | last_clean.astype(jnp.int32)
        )
        return Stroll((packed >> 2) & ((1 << count) - 1), packed >> (count + 2), packed & 2 > 0, packed & 1 > 0)

    def best(self, key: Stream, entities: Array, rank: Array, height: Array) -> tuple[Array, Array, Array]:
        """See ``View.best``. The greatest of many independent draws come in order by Renyi's representation.

        So no p is sorted or stored: they have the law of a sorted sample, but are not the p that other policies meet
        in the same run.
        """
        gap = exponential(words(key, RANK, rank)[0])
        height = height + gap / jnp.maximum(entities - rank, 1).astype(jnp.float32)
        entity = self.in_random_order(key, rank)
        return entity, self.sc.draw_upper(-jnp.expm1(-height)), height

    def count(self, key: Stream) -> Array:
        """How many entities have a false value in this run (int32)."""
        raise NotImplementedError

    def false_values(self, key: Stream, entity: Array) -> Array:
        """See ``View.false_values``."""
        raise NotImplementedError

    def has_one(self, key: Stream, entity: Array) -> Array:
        """Whether an entity begins with a single false value (bool)."""
        return self.false_values(key, entity) == 1

    def in_random_order(self, key: Stream, place: Array) -> Array:
        """See ``View.in_random_order``."""
        raise NotImplementedError

    def sc_probability(self, key: Stream, entity: Array) -> Array:
        """The hidden sc-probability of an entity (uint32, units of 2^-32)."""
        return self.sc.draw(words(key, ENTITY, entity)[1])


@side_by_side(LONGEST_RUN)
def _first_operations(number: Array, model: Cleaning, key: Stream, instance: Instance, place: Array) -> Array:
    """The first operation on the entity at ``place`` + ``number``: 1 if it succeeds, 3 if the entity is clean then."""
    entity = model.in_random_order(key, jnp.clip(place + number, 0, jnp.maximum(instance.entities - 1, 0)))
    won = trial(words(instance.outcomes, entity, 0)[0], model.sc_probability(key, entity))
    return jnp.where(won, jnp.where(model.has_one(key, entity), 3, 1), 0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Synthetic(Cleaning):
    """Entities drawn afresh in each run (section 6): see ``synthetic``. Its memory does not grow with their number.

    ``size``: entities before those without a false value are left out (int32); ``ambiguous``: the share of entities
    that have one (float32); ``thresholds``: the distribution of r among those (uint32, shape (largest r - 1,)).
    """

    size: Array
    ambiguous: Array
    thresholds: Array

    __repr__ = brief

    def count(self, key: Stream) -> Array:
        """Binomial: each entity has a false value or not."""
        return binomial(key, COUNT, 0, self.size, self.ambiguous)

    def false_values(self, key: Stream, entity: Array) -> Array:
        """Drawn from the distribution given r > 0."""
        return 1 + categorical(words(key, ENTITY, entity)[0], self.thresholds)

    def has_one(self, key: Stream, entity: Array) -> Array:
        """The same, by the first of the thresholds alone."""
        return categorical(words(key, ENTITY, entity)[0], self.thresholds[:1]) == 0

    def in_random_order(self, key: Stream, place: Array) -> Array:
        """The entities are independent and alike: any order is a uniformly random one."""
        return place


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Alike(Synthetic):
    """Which can be asked what entities that look alike do, without their names: see ``alike.py``.

    ``tables``: the laws of that. What is asked of named entities is answered as ever.
    """

    tables: Tables

    __repr__ = brief

    def pull(self, key: Stream, instance: Instance, pull: AnyPull) -> AnyOutcome:
        """See ``Cleaning.pull``."""
        if isinstance(pull, Meet):
            return meet(self.tables, instance.outcomes, pull)
        if isinstance(pull, crowd.Ticks):
            return crowd.make(self.tables.records, instance.outcomes, pull)
        if isinstance(pull, Mix):
            return mix(self.tables.chances, instance.outcomes, pull)
        return super().pull(key, instance, pull)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Table(Cleaning):
    """Entities of a user's table: see ``of_table``.

    ``counts``: the false values of each ambiguous entity (int32, shape (entities,)).
    """

    counts: Array

    __repr__ = brief

    def count(self, key: Stream) -> Array:
        """The rows of the table."""
        return jnp.asarray(self.counts.shape[0], jnp.int32)

    def false_values(self, key: Stream, entity: Array) -> Array:
        """As the table has them."""
        return self.counts[jnp.clip(entity, 0, self.counts.shape[0] - 1)]

    def in_random_order(self, key: Stream, place: Array) -> Array:
        """A keyed permutation of the rows, walked without being stored."""
        return position(key, ORDER, place, self.counts.shape[0])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KnownTable(Table):
    """A table whose sc-probabilities are fixed: see ``of_table``.

    ``probabilities``: uint32 in units of 2^-32; ``ranking``: int32, the entities from the highest down, ties by
    number. Both have the shape of ``counts``.
    """

    probabilities: Array
    ranking: Array

    __repr__ = brief

    def sc_probability(self, key: Stream, entity: Array) -> Array:
        """As given."""
        return self.probabilities[jnp.clip(entity, 0, self.counts.shape[0] - 1)]

    def best(self, key: Stream, entities: Array, rank: Array, height: Array) -> tuple[Array, Array, Array]:
        """See ``View.best``; the ranking is known."""
        entity = self.ranking[jnp.clip(rank, 0, self.counts.shape[0] - 1)]
        return entity, self.sc_probability(key, entity), height


def _budget(budget: int) -> Array:
    if isinstance(budget, bool) or not isinstance(budget, int | np.integer) or not 1 <= budget <= 2**31 - 1:
        raise BadInput("budget", budget, "a whole number from 1 to 2147483647")
    return jnp.asarray(budget, jnp.int32)


def synthetic(
    *, budget: int, entities: int, false_values: np.ndarray, sc_pdf: Law, on_tape: bool = False, paired: bool = True
) -> Synthetic:
    """A synthetic ambiguity model (section 6), drawn afresh in each run.

    Args:
        budget: units of cost, 1 to 2^31 - 1.
        entities: 1 to 2^31 - 1, those without a false value counted in.
        false_values: the distribution of r: weights of r = 0, 1, 2 ..., shape (largest r + 1,), at most 4096 of them.
        sc_pdf: the distribution of the sc-probabilities.
        on_tape: draw each cleaning operation by itself, for tests against single-step programs.
        paired: that runs of the same number meet the same entities whatever the policy. Where that is not asked for,
            the problem (an ``Alike``) can also be given to the policies that count entities, which are faster.

    Raises:
        BadInput: for a count out of range or weights that are no distribution over some r > 0. Where runs are not
            paired: for a tape, for a budget above 65,536 and for more than 64 false values an entity.
    """
    use_all_cores()
    if isinstance(entities, bool) or not isinstance(entities, int | np.integer) or not 1 <= entities <= 2**31 - 1:
        raise BadInput("entities", entities, "a whole number from 1 to 2147483647")
    weights = np.asarray(false_values, np.float64)
    if weights.ndim != 1 or not 2 <= weights.size <= 4096:
        raise BadInput("false_values", f"{weights.size} weights", "2 to 4096 weights, of r = 0, 1, 2 ...")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights[1:].sum() > 0:
        raise BadInput("false_values", weights.tolist(), "weights of at least 0, not all of r > 0 being 0")
    positive = weights[1:] / weights[1:].sum()
    fields = (
        _budget(budget), sc_pdf.quantiles(), on_tape, jnp.int32(entities),
        jnp.float32(weights[1:].sum() / weights.sum()), jnp.asarray(thresholds(positive)),
    )  # fmt: skip
    if paired:
        return Synthetic(*fields)
    if on_tape:
        raise BadInput("on_tape", on_tape, "false where runs are not paired")
    return Alike(*fields, tables_for(budget, weights, sc_pdf))


def uniform_false_values(low: int, high: int) -> np.ndarray:
    """The weights of a number of false values uniform on low ... high, both included: float64, shape (high + 1,)."""
    if not (isinstance(low, int) and isinstance(high, int) and 0 <= low <= high and 1 <= high <= 4095):
        raise BadInput("false_values", [low, high], "0 <= low <= high, 1 <= high <= 4095")
    return np.where(np.arange(high + 1) >= low, 1.0, 0.0)


def of_table(
    *, budget: int, false_values: np.ndarray, sc_pdf: Law | None = None,
    sc_probabilities: np.ndarray | None = None, on_tape: bool = False,
) -> Table:  # fmt: skip
    """The ambiguity model of a table: its entities with at least one false value, in their order.

    Args:
        budget: units of cost, 1 to 2^31 - 1.
        false_values: whole numbers, shape (rows,); rows with 0 are left out.
        sc_pdf: each run draws the sc-probabilities from it; or else
        sc_probabilities: they are fixed, shape (rows,), each in [0, 1].
        on_tape: see ``synthetic``.

    Raises:
        BadInput: for anything out of range, and where no row has a false value.
    """
    use_all_cores()
    counts = np.asarray(false_values)
    if counts.ndim != 1 or not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
        raise BadInput("false_values", f"{counts.dtype} of shape {counts.shape}", "a list of whole numbers, at least 0")
    kept = counts > 0
    if not kept.any():
        raise BadInput("false_values", "none above 0", "at least one entity with a false value")
    rows = jnp.asarray(counts[kept].astype(np.int32))
    if sc_probabilities is None:
        if sc_pdf is None:
            raise BadInput("sc_pdf", None, "an sc-pdf, or fixed sc_probabilities")
        return Table(_budget(budget), sc_pdf.quantiles(), on_tape, rows)
    p = np.asarray(sc_probabilities, np.float64)
    if p.shape != counts.shape or not ((p >= 0) & (p <= 1)).all():
        raise BadInput("sc_probabilities", p.tolist(), f"{counts.size} numbers from 0 to 1")
    fixed = jnp.asarray(np.minimum(np.floor(p[kept] * 2.0**32), 2.0**32 - 1).astype(np.uint32))
    ranking = jnp.asarray(np.argsort(-p[kept], kind="stable").astype(np.int32))
    return KnownTable(_budget(budget), Uniform().quantiles(), on_tape, rows, fixed, ranking)
