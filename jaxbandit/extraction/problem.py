"""Budgeted entity extraction (Rekatsinas, Deshpande and Parameswaran 2019): queries, answers, and what a run may know.

A query q^v(k, E) asks a crowd for k distinct entities of node v of the poset, none of them in the exclude list E, and
costs what ``costs`` says. An algorithm knows the poset, the costs and its budget, but no entity before it is returned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.contract import Used
from jaxbandit.describe import brief
from jaxbandit.devices import use_all_cores
from jaxbandit.errors import BadInput, quoted
from jaxbandit.extraction import gain
from jaxbandit.extraction.answers import Crowd, answer, crowd
from jaxbandit.extraction.costs import CONFIGURATIONS, Configurations, checked, table
from jaxbandit.extraction.poset import Domain, Poset
from jaxbandit.parsers import as_printed
from jaxbandit.pytree import pytree
from jaxbandit.random.stream import Stream, substream

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32

OUTCOME, CHOICE = range(1, 3)
"""What a word is for: the first half of its counter. OUTCOME's substream has one for each (node, number of query)."""

MOST_BUDGET = 1 << 30


class Pull(NamedTuple):
    """One query that a policy asks the crowd.

    ``configuration``: which pair (k, l); ``exclude``: the entities of E, -1 where there is none; ``number``: the
    queries asked before; ``asked``: False is the pull of count 0.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import extraction
        >>> tree = extraction.Tree(parent=np.array([0, 0, 0]), names=("", "art", "sport"))
        >>> people = extraction.domain((tree,), np.array([[1], [1], [2]]), popularity=1.0)
        >>> problem = extraction.extraction(people, 10, configurations=[(5, 0), (10, 2)])
        >>> pull = extraction.Pull(node=2, configuration=1, exclude=np.array([0, 1]), number=0, asked=True)
        >>> int(problem.cost[pull.configuration, people.poset.specificity[pull.node]]) / problem.units  # what it costs
        2.5
    """

    node: Int32[Array, ""]
    configuration: Int32[Array, ""]
    exclude: Int32[Array, " l_max"]
    number: Int32[Array, ""]
    asked: Bool[Array, ""]


class Outcome(NamedTuple):
    """The answer to a query. ``entity``: -1 from where there are no more; ``leaf``: likewise, where each entity sits.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import extraction
        >>> outcome = extraction.Outcome(entity=np.array([7, 4, -1]), leaf=np.array([2, 1, -1]))  # of k = 3, two
        >>> outcome.entity[outcome.entity >= 0].tolist()
        [7, 4]
    """

    entity: Int32[Array, " k_max"]
    leaf: Int32[Array, " k_max"]


@dataclass(frozen=True)
class View:
    """What an algorithm knows in one run.

    ``budget``: in units; ``poset``; ``cost``: of a configuration at a specificity, in units; ``shorter``: likewise,
    where fewer than l entities are excluded and paid for; ``choices``: a stream for random choices of the algorithm's
    own. Static: ``configurations``: the pairs (k, l); ``units``: how many make a cost of 1; ``room``: see ``Room``.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import extraction, random
        >>> tree = extraction.Tree(parent=np.array([0, 0, 0]), names=("", "art", "sport"))
        >>> people = extraction.domain((tree,), np.array([[1], [1], [2]]), popularity=1.0)
        >>> problem, key = extraction.extraction(people, 10, configurations=[(5, 0), (10, 2)]), random.stream(0, 0)
        >>> view = problem.view(key, problem.draw(key))
        >>> view.nodes, view.k_max, view.lengths.tolist(), view.room
        (3, 10, [0, 2], Room(entities=256, queries=48))
    """

    budget: Int32[Array, ""]
    poset: Poset
    cost: Int32[Array, "configurations specificities"]
    shorter: Int32[Array, "configurations lengths specificities"]
    choices: Stream
    configurations: Configurations
    units: int
    room: Room

    @property
    def k_max(self) -> int:
        """Returns the largest k that a query may have."""
        return max(k for k, _ in self.configurations)

    @property
    def l_max(self) -> int:
        """Returns the largest l that a query may have."""
        return max(length for _, length in self.configurations)

    @property
    def lengths(self) -> Int32[Array, " configurations"]:
        """Returns the l of each configuration: int32."""
        return jnp.array([length for _, length in self.configurations], jnp.int32)

    @property
    def nodes(self) -> int:
        """Returns how many nodes the poset has."""
        return int(np.shape(self.poset.specificity)[0])


@dataclass(frozen=True)
class InformedView(View):
    """What a policy knows that says that it is ``Informed``: the true expected gain of a query too.

    ``truth``: see ``gain.inclusion``; ``leaf``: where each entity sits; the differences of ``start`` are the nodes'
    populations.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> from jaxbandit import extraction, random
        >>> tree = extraction.Tree(parent=np.array([0, 0, 0]), names=("", "art", "sport"))
        >>> people = extraction.domain((tree,), np.array([[1], [1], [2]]), popularity=1.0)
        >>> problem = extraction.extraction(people, 10, configurations=[(1, 0)], informed=True)
        >>> key = random.stream(0, 0)
        >>> view = problem.informed_view(key, problem.draw(key))
        >>> [f"{view.inclusion(jnp.int32(0), jnp.int32(node))[0]:.2f}" for node in range(3)]  # entity 0, of one answer
        ['0.33', '0.50', '0.00']
    """

    truth: Float32[Array, "entities A sizes"]
    leaf: Int32[Array, " entities"]
    start: Int32[Array, " nodes+1"]

    def inclusion(self, entity: Int32[Array, ""], node: Int32[Array, ""]) -> Float32[Array, " sizes"]:
        """Returns the probabilities that the first answers at a node hold an entity.

        float32, shape (sizes,), see ``gain.inclusion``; zeros where ``entity`` is -1 or not of the node.
        """
        return included((jnp.asarray(self.poset.ancestors), self.leaf, self.truth), entity, node)

    def expected_gain(
        self,
        node: Int32[Array, ""],
        configuration: Int32[Array, ""],
        exclude: Int32[Array, " l_max"],
        known: Float32[Array, " sizes"],
    ) -> Float32[Array, ""]:
        """Returns the true expected number of new entities in a query's answer: see ``gain``.

        Args:
            node, configuration: int32.
            exclude: int32, (l_max,), entities retrieved before, -1 where there is none.
            known: float32, (sizes,), the sum of ``inclusion`` at the node over all entities retrieved before.
        """
        return self.gain_beside(node, configuration, jax.vmap(self.inclusion, (0, None))(exclude, node), known)

    def gain_beside(
        self,
        node: Int32[Array, ""],
        configuration: Int32[Array, ""],
        excluded: Float32[Array, "l_max sizes"],
        known: Float32[Array, " sizes"],
    ) -> Float32[Array, ""]:
        """Returns ``expected_gain`` by the ``inclusion`` at the node of each entity that is ``excluded``, zeros where
        there is none: for several configurations that exclude some of the same entities."""
        wanted = gain.sizes(self.configurations)
        first = jnp.array([k for k, _ in self.configurations], jnp.int32)[configuration]
        at = jnp.array([wanted.index(k) for k, _ in self.configurations], jnp.int32)[configuration]
        return gain.expected_gain(known, excluded, self.start[node + 1] - self.start[node], first, at, self.l_max)


def included(tables: tuple[Array, Array, Array], entity: Array, node: Array) -> Array:
    """Returns ``InformedView.inclusion`` by the ancestors of nodes, the leaf of each entity, and the true chances."""
    ancestors, leaf, truth = tables
    here = (ancestors[leaf[jnp.maximum(entity, 0)]] == node) & (entity >= 0)
    return jnp.where(jnp.any(here), truth[jnp.maximum(entity, 0), jnp.argmax(here)], 0)


class Room(NamedTuple):
    """What the largest budget buys, each rounded up to one of few numbers, as each is compiled for: distinct
    ``entities``, and ``queries``."""

    entities: int
    queries: int


def rounded(most: int) -> int:
    """Rounds up to one of few sizes, for which programs are compiled: 32, 48, 64, 96 ..."""
    size = 32
    while size < most:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size


@pytree
@dataclass(frozen=True)
class Extraction:
    """A problem of extraction, as a pytree; ``budget`` (in units) may differ between configurations of a study.

    ``inclusion``: see ``gain``, None where no policy may know it. Static: ``room``, of the largest budget; ``on_tape``:
    each entity has a word of its own in each query, see ``answers.answer``.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import extraction
        >>> tree = extraction.Tree(parent=np.array([0, 0, 0]), names=("", "art", "sport"))
        >>> people = extraction.domain((tree,), np.array([[1], [1], [2]]), popularity=1.0)
        >>> problem = extraction.extraction(people, 10, configurations=[(5, 0), (10, 2)])
        >>> int(problem.budget), problem.units, problem.cost.tolist()
        (40, 4, [[1, 5], [6, 10]])
    """

    budget: Int32[Array, ""]
    poset: Poset
    crowd: Crowd
    cost: Int32[Array, "configurations specificities"]
    shorter: Int32[Array, "configurations lengths specificities"]
    inclusion: Float32[Array, "entities A sizes"] | None
    configurations: Configurations = field(metadata={"static": True})
    units: int = field(metadata={"static": True})
    room: Room = field(metadata={"static": True})
    on_tape: bool = field(default=False, metadata={"static": True})

    __repr__ = brief

    def draw(self, key: Stream) -> Stream:
        """Returns the key of the run's answers; the domain is the same in each run."""
        return substream(key, OUTCOME)

    def view(self, key: Stream, instance: Stream) -> View:
        """Returns what an algorithm may know of the run."""
        return View(
            self.budget, self.poset, self.cost, self.shorter, substream(key, CHOICE), self.configurations, self.units,
            self.room,
        )  # fmt: skip

    def informed_view(self, key: Stream, instance: Stream) -> InformedView:
        """Returns what a policy may know that is ``Informed``.

        Raises:
            BadInput: for a problem without the tables of the true gain.
        """
        if self.inclusion is None:
            raise BadInput("problem", "without the true gain", "one built with informed=True")
        public = vars(self.view(key, instance))
        return InformedView(**public, truth=self.inclusion, leaf=self.crowd.leaf, start=self.crowd.start)

    def pull(self, key: Stream, instance: Stream, pull: Pull) -> Outcome:
        """Answers a query: a node's t-th the same way under all policies, as far as k and E allow."""
        sizes = jnp.array([k for k, _ in self.configurations], jnp.int32)
        k = jnp.where(pull.asked, sizes[pull.configuration], 0)
        own = substream(instance, pull.node, pull.number)
        most = max(k for k, _ in self.configurations)
        entity = answer(self.crowd, own, pull.node, k, pull.exclude, most, self.on_tape)
        return Outcome(entity, jnp.where(entity >= 0, self.crowd.leaf[entity], -1))

    def used(self, view: View, pull: Pull, outcome: Outcome) -> Used:
        """Says which query of which node was asked, for ``check``."""
        return Used(pull.node, pull.number, jnp.asarray(pull.asked, jnp.int32), jnp.int32(view.nodes))


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
    """Makes a problem of extraction, and checks what it is given.

    Args:
        domain: the entities and their hierarchy.
        budget: what all queries together may cost; taken down to a whole number of units.
        answers: the answer model, "proportional" or "k-largest".
        cost: the cost model, "linear" or "step".
        configurations: the pairs (k, l) that may be asked.
        largest_budget: policies make room for this budget, where it is more, so that problems that differ in their
            budget share a compiled program.
        informed: whether policies may ask for the true expected gain, which takes tables: a tenth of a
            millisecond for each entity at each of its nodes, so that the events' domain takes a minute or two.
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
    if not isinstance(domain, Domain):
        raise BadInput("domain", quoted(domain), "what extraction.domain returns")
    pairs = checked(configurations)
    units, shorter = table(cost, pairs, domain.values.shape[1])
    costs = np.array([shorter[c, length] for c, (_, length) in enumerate(pairs)])
    reachable = costs[:, np.unique(np.asarray(domain.poset.specificity))]
    cheapest, most = Fraction(int(reachable.min()), units), Fraction(MOST_BUDGET, units)
    number = isinstance(budget, int | float | Fraction | np.number) and math.isfinite(budget)
    if not number or not cheapest <= (exact := as_printed(budget)) <= most:
        raise BadInput("budget", budget, f"at least {float(cheapest):g}, the cheapest query, to {float(most):g}")
    largest = max(k for k, _ in pairs) + max(length for _, length in pairs)
    budget_units = int(exact * units)
    roomy = max(budget_units, min(int(as_printed(largest_budget or 0) * units), MOST_BUDGET))
    # A list that is shorter than l may be paid for as it is.
    rate = max(k / min(row) for (k, _), row in zip(pairs, shorter[:, 0], strict=True))
    room = Room(rounded(int(roomy * rate)), rounded(roomy // int(shorter[:, 0].min())))
    return Extraction(
        jnp.asarray(budget_units, jnp.int32),
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
