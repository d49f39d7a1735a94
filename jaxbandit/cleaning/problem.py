"""The ambiguity model and the cleaning agent (Cheng et al. 2010, section 3.2).

An entity holds r false values beside the right one. A cleaning operation on it removes one of them with the entity's
sc-probability p, and costs 1. An algorithm knows every r and the distribution of the p (the sc-pdf), but no p.

Entities that begin without a false value are none of the model's: the paper assumes r > 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatch
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.cleaning.given import law_of, numbers, weights_of
from jaxbandit.cleaning.pulls import Outcome, Pull, RankedPull, Told
from jaxbandit.cleaning.view import DrawnEntities, Listed, View
from jaxbandit.contract import Used
from jaxbandit.describe import brief
from jaxbandit.devices import use_all_cores
from jaxbandit.errors import BadInput
from jaxbandit.laws import Law, Uniform
from jaxbandit.parsers import whole
from jaxbandit.pytree import pytree
from jaxbandit.random import binomial, exponential, thresholds
from jaxbandit.random.quantiles import Quantiles
from jaxbandit.random.race import UNLIMITED, concealed, race_at, race_on_tape
from jaxbandit.random.stream import Stream, substream, words
from jaxbandit.xla.elementary import expm1
from jaxbandit.xla.exact import quotient

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32, UInt32

    from jaxbandit.cleaning.fast.exchangeable import Tables

COUNT, HIDDEN, CHOICE, RANK, PUBLIC = range(1, 6)
"""What a word is for: the first half of its counter, under the run's key."""

SIZES = (1 << 9, 1 << 11, 1 << 14, *(1 << bits for bits in range(16, 33, 2)))
"""Numbers of entities that a run may remember: each is compiled for."""


class Instance(NamedTuple):
    """The draws of one run. ``entities``: how many have a false value. The streams of what is ``hidden`` (the
    sc-probabilities and the outcomes), of what is ``public`` (the false values and the random order), and of the
    policy's own ``choices``."""

    entities: Int32[Array, ""]
    hidden: Stream
    public: Stream
    choices: Stream


@singledispatch
def outcome_of(pull: Any, problem: Cleaning, instance: Instance) -> Any:
    """Draws the outcome of a pull of a registered kind: faster implementations of policies register their own."""
    raise TypeError(f"a cleaning problem takes a Pull, not a {type(pull).__name__}")


@dataclass(frozen=True)
class Cleaning:
    """The base of all cleaning problems. It is a pytree; ``budget`` and ``sc`` may differ between configurations.

    ``on_tape`` (static): each operation has a random word of its own, so that the size of a pull changes nothing;
    ``capacity`` (static): see ``View``.

    Example:
        >>> from dataclasses import replace
        >>> import numpy as np
        >>> from jaxbandit import cleaning, random
        >>> small = cleaning.of_table(budget=5, false_values=np.array([0, 2, 3]), sc_pdf=cleaning.Uniform())
        >>> large = replace(small, budget=np.int32(20))  # one program serves both
        >>> int(large.budget), large.capacity, int(large.draw(random.stream(0, 0)).entities)
        (20, 512, 2)
    """

    budget: Int32[Array, ""]
    sc: Quantiles
    on_tape: bool = field(metadata={"static": True})
    capacity: int = field(metadata={"static": True})

    def draw(self, key: Stream) -> Instance:
        """Draws the number of entities in this run, and names the streams of all else."""
        return Instance(self.count(key), *(substream(key, purpose) for purpose in (HIDDEN, PUBLIC, CHOICE)))

    def view(self, key: Stream, instance: Instance) -> View:
        """Returns what an algorithm may know of the run."""
        return View(self.budget, instance.entities, instance.choices, self.capacity, self.public(instance))

    def informed_view(self, key: Stream, instance: Instance) -> View:
        """Returns the view of a policy that is ``informed``. It sees no more, but may ask for a ``RankedPull``."""
        return self.view(key, instance)

    def pull(self, key: Stream, instance: Instance, pull: Any) -> Any:
        """Cleans an entity; the outcome is drawn in one go from the law of the trials, or from the tape."""
        if isinstance(pull, Pull):
            return self.raced(instance, pull, self.concealed(instance, pull.entity))
        if isinstance(pull, RankedPull):
            return self._ranked(key, instance, pull)
        return outcome_of(pull, self, instance)

    def concealed(self, instance: Instance, entity: Int32[Array, ""]) -> UInt32[Array, ""]:
        """Returns what no algorithm may know of an entity: its sc-probability, and the outcome of its first operation
        (see ``race.concealed``)."""
        first, second = words(instance.hidden, entity, 0)
        return concealed(first, self.sc_probability(entity, second))

    def raced(self, instance: Instance, pull: Pull, hidden: UInt32[Array, ""]) -> Outcome:
        """Draws the outcome of operations that end at the first of three limits."""
        drawn = race_on_tape if self.on_tape else race_at
        address, limits = (pull.entity, pull.attempt), (pull.successes, pull.failures, pull.cleans)
        removed, failed = drawn(instance.hidden, *address, hidden, *limits)
        return Outcome(removed + failed, removed)

    def _ranked(self, key: Stream, instance: Instance, pull: RankedPull) -> Told:
        entity, probability, height = self.best(key, instance, pull.rank, pull.height)
        hidden = concealed(words(instance.hidden, entity, 0)[0], probability)
        left = self.public(instance).false_values(entity) - pull.gained
        race = Pull(entity, pull.attempt, left, jnp.full_like(left, UNLIMITED), pull.cleans)
        cleans, removed = self.raced(instance, race, hidden)
        return Told(cleans, removed, (cleans > 0) & (removed == left), height)

    def used(self, view: View, pull: Any, outcome: Any) -> Used | None:
        """Says which operations a pull of one entity made, for ``check``; None of other pulls."""
        if not isinstance(pull, Pull):
            return None
        return Used(pull.entity, pull.attempt, outcome.cleans, view.entities)

    def best(
        self, key: Stream, instance: Instance, rank: Int32[Array, ""], height: Float32[Array, ""]
    ) -> tuple[Int32[Array, ""], UInt32[Array, ""], Float32[Array, ""]]:
        """Returns the entity of a rank by sc-probability, that sc-probability (units of 2^-32) and the next height.

        The greatest of many independent draws come in order by Renyi's representation. So no p is sorted or stored:
        they have the law of a sorted sample, but are not the p that other policies meet in the same run.
        """
        gap = exponential(words(key, RANK, rank)[0])
        height = height + quotient(gap, jnp.maximum(instance.entities - rank, 1).astype(jnp.float32))
        entity = self.public(instance).in_random_order(rank)
        return entity, self.sc.draw_upper(-expm1(-height)), height

    def count(self, key: Stream) -> Int32[Array, ""]:
        """Draws how many entities have a false value in this run."""
        raise NotImplementedError

    def public(self, instance: Instance) -> DrawnEntities | Listed:
        """Returns what an algorithm may know of the entities."""
        raise NotImplementedError

    def sc_probability(self, entity: Int32[Array, ""], word: UInt32[Array, ""]) -> UInt32[Array, ""]:
        """Returns the sc-probability of an entity (units of 2^-32) by its random word."""
        return self.sc.draw(word)


@pytree
@dataclass(frozen=True)
class Synthetic(Cleaning):
    """A problem whose entities are drawn afresh in each run (section 6): see ``synthetic``. Its memory does not grow
    with their number.

    ``size``: entities before those without a false value are left out; ``ambiguous``: the share of entities that have
    one; ``thresholds``: the distribution of r among those; ``tables``: where runs are not paired, what happens to
    entities that are counted and not held, else None.
    """

    size: Int32[Array, ""]
    ambiguous: Float32[Array, ""]
    thresholds: UInt32[Array, " kinds"]
    tables: Tables | None

    __repr__ = brief

    def count(self, key: Stream) -> Int32[Array, ""]:
        """Draws a binomial number, as each entity has a false value or not."""
        return binomial(key, COUNT, 0, self.size, self.ambiguous)

    def public(self, instance: Instance) -> DrawnEntities:
        """Returns entities whose false values are drawn independently."""
        return DrawnEntities(instance.public, self.thresholds)


@pytree
@dataclass(frozen=True)
class Table(Cleaning):
    """A problem whose entities are those of a user's table: see ``of_table``.

    ``counts``: the false values of each ambiguous entity. ``gain_ns``: see ``Execution``; a permutation of the rows
    takes most of a hurried program's time (``benchmarks/scaling.py --axis rows``, by ``--pulls``).
    """

    counts: Int32[Array, " entities"]
    gain_ns: ClassVar[float] = 200

    __repr__ = brief

    def count(self, key: Stream) -> Int32[Array, ""]:
        """Returns the number of rows, the same in each run."""
        return jnp.asarray(self.counts.shape[0], jnp.int32)

    def public(self, instance: Instance) -> Listed:
        """Returns entities whose false values are those of the rows."""
        return Listed(instance.public, self.counts)


@pytree
@dataclass(frozen=True)
class KnownTable(Table):
    """A problem of a table whose sc-probabilities are fixed: see ``of_table``.

    ``probabilities``: in units of 2^-32; ``ranking``: the entities from the highest down, ties by number.
    """

    probabilities: UInt32[Array, " entities"]
    ranking: Int32[Array, " entities"]

    __repr__ = brief

    def sc_probability(self, entity: Int32[Array, ""], word: UInt32[Array, ""]) -> UInt32[Array, ""]:
        """Returns the sc-probability that was given for the entity."""
        return self.probabilities[jnp.clip(entity, 0, self.counts.shape[0] - 1)]

    def best(
        self, key: Stream, instance: Instance, rank: Int32[Array, ""], height: Float32[Array, ""]
    ) -> tuple[Int32[Array, ""], UInt32[Array, ""], Float32[Array, ""]]:
        """Returns the entity of a rank and its sc-probability from the known ranking; the height stays as it is."""
        entity = self.ranking[jnp.clip(rank, 0, self.counts.shape[0] - 1)]
        return entity, self.sc_probability(entity, rank), height


def capacity_for(entities: int, budget: int) -> int:
    """Returns the size of arrays with room for the entities that a run can meet."""
    most = min(entities, budget)
    return next(size for size in SIZES if size >= most)


def _budget(budget: int) -> Array:
    return jnp.asarray(whole(1, 2**31 - 1)("budget", budget), jnp.int32)


def _padded(thresholds: np.ndarray) -> np.ndarray:
    """Returns them with others that are never reached, so that programs are compiled for few numbers of them."""
    room = -(-thresholds.size // 8) * 8 if thresholds.size <= 64 else 1 << (thresholds.size - 1).bit_length()
    return np.pad(thresholds, (0, room - thresholds.size), constant_values=2**32 - 1)


def synthetic(
    *, budget: int, entities: int, false_values: np.ndarray, sc_pdf: Law, on_tape: bool = False, paired: bool = True
) -> Synthetic:
    """Makes a problem of the synthetic ambiguity model (section 6), whose entities are drawn afresh in each run.

    Args:
        budget: units of cost, 1 to 2^31 - 1.
        entities: 1 to 2^31 - 1, those without a false value counted in.
        false_values: the distribution of r: weights of r = 0, 1, 2 ..., shape (largest r + 1,), at most 4096 of them.
        sc_pdf: the distribution of the sc-probabilities.
        on_tape: draw each cleaning operation by itself, for tests against single-step programs.
        paired: that runs of the same number meet the same entities whatever the policy. Where that is not asked for,
            ``simulate`` may take implementations that count exchangeable entities, which are faster.

    Raises:
        BadInput: for a count out of range or weights that are no distribution over some r > 0. Where runs are not
            paired: for a tape, for a budget above 65,536 and for more than 64 false values an entity.

    Example:
        >>> from jaxbandit import cleaning
        >>> problem = cleaning.synthetic(
        ...     budget=100, entities=1_000, false_values=cleaning.uniform_false_values(0, 9), sc_pdf=cleaning.Uniform()
        ... )
        >>> int(problem.budget)
        100
    """
    use_all_cores()
    entities = whole(1, 2**31 - 1)("entities", entities)
    weights, sc_pdf = weights_of(false_values), law_of(sc_pdf)
    positive = weights[1:] / weights[1:].sum()
    tables = None
    if not paired:
        if on_tape:
            raise BadInput("on_tape", on_tape, "false where runs are not paired")
        from jaxbandit.cleaning.fast.exchangeable import tables_for  # which stands on this module

        tables = tables_for(budget, weights, sc_pdf)
    return Synthetic(
        _budget(budget), sc_pdf.quantiles(), on_tape, capacity_for(entities, budget), jnp.int32(entities),
        jnp.float32(weights[1:].sum() / weights.sum()), jnp.asarray(_padded(thresholds(positive))), tables,
    )  # fmt: skip


def uniform_false_values(low: int, high: int) -> np.ndarray:
    """Returns the weights of a number of false values uniform on low ... high, both included: float64, shape (high +
    1,).

    Example:
        >>> from jaxbandit import cleaning
        >>> cleaning.uniform_false_values(1, 3).tolist()
        [0.0, 1.0, 1.0, 1.0]
    """
    whole = isinstance(low, int | np.integer) and isinstance(high, int | np.integer)
    if not (whole and 0 <= low <= high and 1 <= high <= 4095):
        raise BadInput("false_values", [low, high], "0 <= low <= high, 1 <= high <= 4095, both whole")
    return np.where(np.arange(high + 1) >= low, 1.0, 0.0)


def of_table(
    *, budget: int, false_values: np.ndarray, sc_pdf: Law | None = None,
    sc_probabilities: np.ndarray | None = None, on_tape: bool = False,
) -> Table:  # fmt: skip
    """Makes a problem of a table's ambiguity model: its entities with at least one false value, in their order.

    Args:
        budget: units of cost, 1 to 2^31 - 1.
        false_values: whole numbers, at most 2^31 - 1, shape (rows,); rows with 0 are left out.
        sc_pdf: each run draws the sc-probabilities from it; or else
        sc_probabilities: they are fixed, shape (rows,), each in [0, 1].
        on_tape: see ``synthetic``.

    Raises:
        BadInput: for anything out of range, and where no row has a false value.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import cleaning
        >>> problem = cleaning.of_table(budget=10, false_values=np.array([0, 2, 3]), sc_pdf=cleaning.Uniform())
        >>> int(problem.budget)
        10
    """
    use_all_cores()
    counts = np.asarray(false_values)
    if counts.ndim != 1 or not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
        raise BadInput("false_values", f"{counts.dtype} of shape {counts.shape}", "a list of whole numbers, at least 0")
    if counts.max(initial=0) > 2**31 - 1:
        raise BadInput("false_values", int(counts.max()), f"whole numbers of at most {2**31 - 1}")
    kept = counts > 0
    if not kept.any():
        raise BadInput("false_values", "none above 0", "at least one entity with a false value")
    units, rows = _budget(budget), jnp.asarray(counts[kept].astype(np.int32))
    capacity = capacity_for(rows.size, budget)
    if sc_probabilities is None:
        if sc_pdf is None:
            raise BadInput("sc_pdf", None, "an sc-pdf, or fixed sc_probabilities")
        return Table(units, law_of(sc_pdf).quantiles(), on_tape, capacity, rows)
    p = numbers("sc_probabilities", sc_probabilities, f"{counts.size} numbers from 0 to 1")
    if p.shape != counts.shape or not ((p >= 0) & (p <= 1)).all():
        raise BadInput("sc_probabilities", p.tolist(), f"{counts.size} numbers from 0 to 1")
    fixed = jnp.asarray(np.minimum(np.floor(p[kept] * 2.0**32), 2.0**32 - 1).astype(np.uint32))
    ranking = jnp.asarray(np.argsort(-p[kept], kind="stable").astype(np.int32))
    return KnownTable(units, Uniform().quantiles(), on_tape, capacity, rows, fixed, ranking)
