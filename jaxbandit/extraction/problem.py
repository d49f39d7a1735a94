"""Budgeted entity extraction (Rekatsinas, Deshpande and Parameswaran 2019): queries, answers, and what a run may know.

A query q^v(k, E) asks a crowd for k distinct entities of node v of the poset, none of them in the exclude list E, and
costs what ``costs`` says. An algorithm knows the poset, the costs and its budget, but no entity before it is returned.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.contract import brief
from jaxbandit.devices import use_all_cores
from jaxbandit.errors import BadInput
from jaxbandit.extraction import gain
from jaxbandit.extraction.answers import Crowd, answer, crowd
from jaxbandit.extraction.costs import CONFIGURATIONS, Configurations, checked, table
from jaxbandit.extraction.poset import Domain, Poset
from jaxbandit.random.stream import Stream, substream

OUTCOME, CHOICE = range(1, 3)
"""What a word is for: the first half of its counter. OUTCOME's substream has one for each (node, number of query)."""

MOST_BUDGET = 1 << 30


class Pull(NamedTuple):
    """One query of the crowd.

    ``node``: int32; ``configuration``: int32, which pair (k, l); ``exclude``: int32, (l_max,), the entities of E, -1
    where there is none; ``number``: int32, the queries asked before; ``asked``: bool, False is the pull of count 0.
    """

    node: Array
    configuration: Array
    exclude: Array
    number: Array
    asked: Array


class Outcome(NamedTuple):
    """An answer. ``entity``: int32, (k_max,), -1 from where there are no more; ``leaf``: int32, likewise, the node at
    which each entity sits."""

    entity: Array
    leaf: Array


@dataclass(frozen=True)
class View:
    """What an algorithm knows in one run.

    ``budget``: int32, in units; ``poset``; ``cost``: int32, (configurations, s_max + 1), of a configuration at a
    specificity, in units; ``shorter``: int32, (configurations, l_max + 1, s_max + 1), likewise, where fewer than l
    entities are excluded and paid for; ``choices``: a stream for random choices of the algorithm's own. Static:
    ``configurations``: the pairs (k, l); ``units``: how many make a cost of 1; ``room``: see ``Room``.
    """

    budget: Array
    poset: Poset
    cost: Array
    shorter: Array
    choices: Stream
    configurations: Configurations
    units: int
    room: "Room"

    @property
    def k_max(self) -> int:
        """The largest k."""
        return max(k for k, _ in self.configurations)

    @property
    def l_max(self) -> int:
        """The largest l."""
        return max(length for _, length in self.configurations)

    @property
    def lengths(self) -> Array:
        """l of each configuration, int32 (configurations,)."""
        return jnp.array([length for _, length in self.configurations], jnp.int32)

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return int(np.shape(self.poset.specificity)[0])


@dataclass(frozen=True)
class InformedView(View):
    """What a policy knows that says that it is ``Informed``: the true expected gain of a query too.

    ``truth``: float32, (entities, A, sizes), see ``gain.inclusion``; ``leaf``: int32, (entities,), where each entity
    sits; ``start``: int32, (nodes + 1,), whose differences are the nodes' populations.
    """

    truth: Array
    leaf: Array
    start: Array

    def inclusion(self, entity: Array, node: Array) -> Array:
        """The probabilities that the first answers at a node hold an entity.

        float32, shape (sizes,), see ``gain.inclusion``; zeros where ``entity`` is -1 or not of the node.
        """
        above = jnp.asarray(self.poset.ancestors)[self.leaf[jnp.maximum(entity, 0)]]
        here = (above == node) & (entity >= 0)
        return jnp.where(jnp.any(here), self.truth[jnp.maximum(entity, 0), jnp.argmax(here)], 0)

    def expected_gain(self, node: Array, configuration: Array, exclude: Array, known: Array) -> Array:
        """The true expected number of new entities in a query's answer: float32, see ``gain``.

        Args:
            node, configuration: int32.
            exclude: int32, (l_max,), entities retrieved before, -1 where there is none.
            known: float32, (sizes,), the sum of ``inclusion`` at the node over all entities retrieved before.
        """
        wanted = gain.sizes(self.configurations)
        first = jnp.array([k for k, _ in self.configurations], jnp.int32)[configuration]
        at = jnp.array([wanted.index(k) for k, _ in self.configurations], jnp.int32)[configuration]
        excluded = jax.vmap(self.inclusion, (0, None))(exclude, node)
        return gain.expected_gain(known, excluded, self.start[node + 1] - self.start[node], first, at, self.l_max)


class Room(NamedTuple):
    """What the largest budget buys, each rounded up to one of few numbers, as each is compiled for: distinct
    ``entities``, and ``queries``."""

    entities: int
    queries: int


def rounded(most: int) -> int:
    """``most`` or more: 32, 48, 64, 96 ..."""
    size = 32
    while size < most:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Extraction:
    """A problem of extraction. A pytree; ``budget`` (int32, in units) may differ between configurations of a study.

    ``inclusion``: see ``gain``, None where no policy may know it. Static: ``room``, of the largest budget; ``on_tape``:
    each entity has a word of its own in each query, see ``answers.answer``.
    """

    budget: Array
    poset: Poset
    crowd: Crowd
    cost: Array
    shorter: Array
    inclusion: Array | None
    configurations: Configurations = field(metadata={"static": True})
    units: int = field(metadata={"static": True})
    room: Room = field(metadata={"static": True})
    on_tape: bool = field(default=False, metadata={"static": True})

    __repr__ = brief

    def draw(self, key: Stream) -> Stream:
        """The key of the answers: the domain is the same in each run."""
        return substream(key, OUTCOME)

    def view(self, key: Stream, instance: Stream) -> View:
        """What an algorithm may know of the run."""
        return View(
            self.budget, self.poset, self.cost, self.shorter, substream(key, CHOICE), self.configurations, self.units,
            self.room,
        )  # fmt: skip

    def informed_view(self, key: Stream, instance: Stream) -> InformedView:
        """What one may know that is ``Informed``.

        Raises:
            BadInput: for a problem without the tables of the true gain.
        """
        if self.inclusion is None:
            raise BadInput("problem", "without the true gain", "one built with informed=True")
        public = vars(self.view(key, instance))
        return InformedView(**public, truth=self.inclusion, leaf=self.crowd.leaf, start=self.crowd.start)

    def pull(self, key: Stream, instance: Stream, pull: Pull) -> Outcome:
        """The answer to a query: of one node's t-th query the same for all policies, as far as k and E allow."""
        sizes = jnp.array([k for k, _ in self.configurations], jnp.int32)
        k = jnp.where(pull.asked, sizes[pull.configuration], 0)
        own = substream(instance, pull.node, pull.number)
        most = max(k for k, _ in self.configurations)
        entity = answer(self.crowd, own, pull.node, k, pull.exclude, most, self.on_tape)
        return Outcome(entity, jnp.where(entity >= 0, self.crowd.leaf[entity], -1))


def _exact(budget: float | Fraction) -> Fraction:
    """A float stands for the decimal that prints it: 0.3 of a cost is 6 twentieths, not 5.99."""
    return budget if isinstance(budget, Fraction) else Fraction(repr(float(budget)))


def extraction(
    domain: Domain,
    budget: float | Fraction,
    *,
    answers: str = "proportional",
    cost: str = "linear",
    configurations: Sequence[Sequence[int]] = CONFIGURATIONS,
    largest_budget: float | Fraction | None = None,
    informed: bool = False,
    on_tape: bool = False,
) -> Extraction:
    """A problem of extraction, checked.

    Args:
        domain: the entities and their hierarchy.
        budget: what all queries together may cost; taken down to a whole number of units.
        answers: the answer model, "proportional" or "k-largest".
        cost: the cost model, "linear" or "step".
        configurations: the pairs (k, l) that may be asked.
        largest_budget: policies make room for this budget, where it is more, so that problems that differ in their
            budget share a compiled program.
        informed: whether policies may ask for the true expected gain, which takes tables: about a millisecond for
            each entity at each of its nodes, seconds for the people's domain and a quarter of an hour for the events'.
        on_tape: draw each entity by itself, for tests against single-step programs.

    Raises:
        BadInput: for models and configurations that do not exist, and a budget below the cheapest query.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import extraction
        >>> tree = extraction.Tree(parent=np.array([0, 0, 0]), names=("all", "art", "sport"))
        >>> people = extraction.domain((tree,), np.array([[1], [1], [2]]), popularity=[3.0, 1.0, 2.0])
        >>> int(extraction.extraction(people, 10).budget)
        40
    """
    use_all_cores()
    pairs = checked(configurations)
    units, shorter = table(cost, pairs, domain.values.shape[1])
    costs = np.array([shorter[c, length] for c, (_, length) in enumerate(pairs)])
    reachable = costs[:, np.unique(np.asarray(domain.poset.specificity))]
    cheapest, most = Fraction(int(reachable.min()), units), Fraction(MOST_BUDGET, units)
    number = isinstance(budget, int | float | Fraction | np.number) and math.isfinite(budget)
    if not number or not cheapest <= (exact := _exact(budget)) <= most:
        raise BadInput("budget", budget, f"at least {float(cheapest):g}, the cheapest query, to {float(most):g}")
    largest = max(k for k, _ in pairs) + max(length for _, length in pairs)
    units_spent = int(exact * units)
    roomy = max(units_spent, min(int(_exact(largest_budget or 0) * units), MOST_BUDGET))
    # A list that is shorter than l may be paid for as it is.
    rate = max(k / min(row) for (k, _), row in zip(pairs, shorter[:, 0], strict=True))
    room = Room(rounded(int(roomy * rate)), rounded(roomy // int(shorter[:, 0].min())))
    return Extraction(
        jnp.asarray(units_spent, jnp.int32),
        jax.tree.map(jnp.asarray, domain.poset),
        crowd(domain, answers, largest),
        jnp.asarray(costs),
        jnp.asarray(shorter),
        jnp.asarray(gain.inclusion(domain, answers, pairs)) if informed else None,
        pairs,
        units,
        room,
        on_tape,
    )
