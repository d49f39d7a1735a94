"""Pulls of several operations, as faster implementations ask for them, and how a problem draws their outcomes."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.cleaning.fast.exchangeable import Operated, Operations, Tables, operate
from jaxbandit.cleaning.fast.one_by_one import Sequence, SequenceOutcome, make_sequence
from jaxbandit.cleaning.fast.ticks import Ticked, Ticks, make_ticks
from jaxbandit.cleaning.problem import Cleaning, Instance, Synthetic, outcome_of
from jaxbandit.cleaning.pulls import Outcome
from jaxbandit.random.race import trial_at, visit_at, visit_on_tape
from jaxbandit.xla.fence import once, side_by_side

LONGEST_RUN = 16
"""The most entities of a ``FirstTrials``'s run."""


class Visit(NamedTuple):
    """A pull: one operation on an entity, and if it succeeds, more until its false values are gone or enough were made.

    As ``Pull``. ``proven``: 1 if an operation on it has succeeded before, so that it is cleaned on in any case; else 0.
    """

    entity: Array
    attempt: Array
    successes: Array
    cleans: Array
    proven: Array


class Trials(NamedTuple):
    """A pull: one operation on each of several entities, all different, in arrays of one shape.

    int32 ``entity`` and ``attempt``, as in ``Pull``; ``successes``: the false values that the entity has left;
    ``cleans``: 1 where the operation is made, else 0.
    """

    entity: Array
    attempt: Array
    successes: Array
    cleans: Array


class FirstTrials(NamedTuple):
    """A pull: one operation on an entity, then on each of a run of entities not met before, until one has no false
    value left.

    int32 all. ``entity``, ``attempt`` and ``successes`` as in ``Trials``; ``cleans``: 1, or 0 to begin with the run;
    ``place``: of the first of the run, whose entities follow each other in the random order; ``length``: how many they
    are, at most ``LONGEST_RUN``.
    """

    entity: Array
    attempt: Array
    successes: Array
    cleans: Array
    place: Array
    length: Array


class FirstOutcomes(NamedTuple):
    """The outcome of a ``FirstTrials``. ``cleans``: operations made; ``gained``: a bit for each that succeeded, the
    lowest for the entity before the run, whether it is there or not (int32 both); ``first_clean`` and ``last_clean``:
    whether that entity or the last one of the run has no false value left (bool)."""

    cleans: Array
    gained: Array
    first_clean: Array
    last_clean: Array


@outcome_of.register
def _(pull: Visit, problem: Cleaning, instance: Instance) -> Outcome:
    drawn = visit_on_tape if problem.on_tape else visit_at
    address = instance.hidden, pull.entity, pull.attempt, problem.concealed(instance, pull.entity)
    removed, failed = drawn(*address, pull.successes, pull.proven, pull.cleans)
    return Outcome(removed + failed, removed)


@outcome_of.register
def _(pull: Trials, problem: Cleaning, instance: Instance) -> Outcome:
    hidden = problem.concealed(instance, pull.entity)
    return Outcome(pull.cleans, trial_at(instance.hidden, pull.entity, pull.attempt, hidden, pull.cleans))


@outcome_of.register
def _(pull: FirstTrials, problem: Cleaning, instance: Instance) -> FirstOutcomes:
    """Draws each operation by a word of its own, whether on tape or not."""
    gained = outcome_of(Trials(pull.entity, pull.attempt, pull.successes, pull.cleans), problem, instance).removed
    run = _first_operations(problem, instance, pull.place)
    cleans, first_clean, last_clean = pull.cleans, (gained == 1) & (pull.successes == 1), jnp.bool_(False)
    for number, drawn in enumerate(run):
        made = (number < pull.length) & ~first_clean & ~last_clean
        gained = gained | jnp.where(made, (drawn & 1) << (number + 1), 0)
        last_clean = last_clean | (made & (drawn == 3))
        cleans = cleans + made.astype(jnp.int32)
    count = (LONGEST_RUN + 1).bit_length()
    packed = once(
        (((gained << count) | cleans) << 2) | (first_clean.astype(jnp.int32) << 1) | last_clean.astype(jnp.int32)
    )
    return FirstOutcomes((packed >> 2) & ((1 << count) - 1), packed >> (count + 2), packed & 2 > 0, packed & 1 > 0)


@side_by_side(LONGEST_RUN)
def _first_operations(number: Array, problem: Cleaning, instance: Instance, place: Array) -> Array:
    """Makes the first operation on the entity at ``place`` + ``number``: 1 if it succeeds, 3 if the entity is clean
    then."""
    public = problem.public(instance)
    entity = public.in_random_order(jnp.clip(place + number, 0, jnp.maximum(instance.entities - 1, 0)))
    won = problem.concealed(instance, entity) & 1
    return jnp.where(won > 0, jnp.where(public.begins_with(entity, 1), jnp.int32(3), jnp.int32(1)), 0)


def _tables(problem: Cleaning) -> Tables:
    if not isinstance(problem, Synthetic) or problem.tables is None:
        raise TypeError("what exchangeable entities do can be asked of a synthetic problem with paired = False alone")
    return problem.tables


@outcome_of.register
def _(pull: Operations, problem: Cleaning, instance: Instance) -> Operated:
    return operate(_tables(problem), instance.hidden, pull)


@outcome_of.register
def _(pull: Ticks, problem: Cleaning, instance: Instance) -> Ticked:
    return make_ticks(_tables(problem).chances, instance.hidden, pull)


@outcome_of.register
def _(pull: Sequence, problem: Cleaning, instance: Instance) -> SequenceOutcome:
    return make_sequence(_tables(problem).chances, instance.hidden, pull)
