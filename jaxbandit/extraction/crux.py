"""CRUX: Rekatsinas, Deshpande and Parameswaran, "CRUX: Adaptive querying for efficient crowdsourced data extraction",
CIKM 2019, section "Discovering Querying Policies", Algorithms 1 and 2.

A query configuration q = (k, l, v) asks node v for k entities with an exclude list of l. Each round asks the active q
of the highest (r(q) + sigma(q, t)) / c(q) that the budget allows: r is the estimated gain, and sigma(q, t) =
sqrt(v_q log(t) / n_q) with n_q the times q was asked and v_q the larger of the gain's variance and a floor (Algorithm
1). Then the queries of its node's children become active, and those are removed whose r + sigma is below the largest
r - sigma (Algorithm 2). Here r, v_q and sigma are computed anew in each round, at all nodes: see ``estimates.py``, and
``queries.py`` for sigma and the cost c. Where the text leaves something open, each way to read it is an option
(``options.py``); the file is long because it has the branches of some. Lines are counted as the text does, without END
lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.describe import brief
from jaxbandit.extraction import queries
from jaxbandit.extraction.estimates import GainEstimates, Samples
from jaxbandit.extraction.problem import Outcome, Pull, View
from jaxbandit.extraction.readings import Readings
from jaxbandit.extraction.retrieved import OVERFLOW, Retrieved, add, exclude_list
from jaxbandit.pytree import pytree

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32


class State(NamedTuple):
    """What the algorithm keeps from round to round.

    ``retrieved``: the entities U, and what was spent; ``active``: the set Q; ``entered``: the root and the children of
    nodes asked; ``times_asked``: n_q; ``ended``: the nodes whose empty answer counts as a sign that nothing is
    left (no line of the listings has that); ``samples``: the running sample of each node; ``r``, ``variance``: r(q),
    and the variance of the gain before the floor. The round t is the number of queries so far plus one.
    """

    retrieved: Retrieved
    active: Bool[Array, "configurations nodes"]
    entered: Bool[Array, " nodes"]
    times_asked: Int32[Array, "configurations nodes"]
    ended: Bool[Array, " nodes"]
    samples: Samples
    r: Float32[Array, "configurations nodes"]
    variance: Float32[Array, "configurations nodes"]


@pytree
@dataclass(frozen=True)
class Crux:
    """CRUX (Rekatsinas, Deshpande and Parameswaran 2019, Algorithms 1 and 2); see ``crux``.

    ``prior``: how many answers the root's estimate counts for at each node, which no paper has; ``pools``: whether that
    is above 0; ``grow``: whether children become active. All but ``variance_floor`` and ``prior`` is static.

    Example:
        >>> from jaxbandit import extraction
        >>> rule = extraction.crux("good-turing", prior=5.0, removal="fresh")
        >>> rule.pools, rule.readings.estimator, rule.readings.removal, rule.readings.bootstrap
        (True, 'good-turing', 'fresh', 10)
    """

    variance_floor: Float32[Array, ""]
    prior: Float32[Array, ""]
    pools: bool = field(metadata={"static": True})
    readings: Readings = field(metadata={"static": True})
    grow: bool = field(metadata={"static": True})

    __repr__ = brief

    def init(self, view: View) -> State:
        """Makes the root's queries active, with nothing retrieved (Algorithm 1, lines 3 to 6; Algorithm 2, lines 4 to 5
        and 10 to 14)."""
        estimates = GainEstimates(self.readings, view.configurations)
        shape = len(view.configurations), view.nodes
        root = jnp.arange(view.nodes, dtype=jnp.int32) == 0
        state = State(
            retrieved=Retrieved.nothing(view),
            active=jnp.broadcast_to(root, shape),
            entered=root,
            times_asked=jnp.zeros(shape, jnp.int32),
            ended=jnp.zeros_like(root),
            samples=Samples.nothing(view.nodes, view.room.queries, estimates.pairs),
            r=jnp.broadcast_to(estimates.unseen()[:, None], shape),
            variance=jnp.zeros(shape, jnp.float32),
        )
        return self._without_bad(view, state, jnp.int32(1)) if self.readings.removal_at_start else state

    def ask(self, view: View, state: State) -> Pull:
        """Picks the query of the highest (r + sigma) / c that the budget allows (Algorithm 1, line 8)."""
        cost, askable = self._askable(view, state)
        sigma = self._sigma(state, state.retrieved.queries + 1)
        score = jnp.where(askable, queries.score(state.r, sigma, cost), -jnp.inf)
        # Node by node, so that of equally good queries it is the first node's, and of these the first configuration.
        best = jnp.argmax(score.T).astype(jnp.int32)
        node, configuration = best // score.shape[0], best % score.shape[0]
        asked = jnp.any(askable)
        length = jnp.where(asked, view.lengths[configuration], 0)
        exclude = exclude_list(view, state.retrieved, node, length, self.readings.exclude_from == "all")
        return Pull(node, configuration, exclude, state.retrieved.queries, asked)

    def _askable(self, view: View, state: State) -> tuple[Array, Array]:
        """Returns the cost of each query (int32), and whether it is active and within what is left of the budget
        (bool): (configurations, nodes)."""
        known = state.retrieved, state.samples.distinct
        cost = queries.costs(self.readings, view, *known, jnp.asarray(view.poset.specificity))
        return cost, state.active & queries.affordable(self.readings, view, *known, cost)

    def _sigma(self, state: State, t: Array) -> Array:
        return queries.sigma(self.readings, self.variance_floor, state.variance, state.times_asked, t)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Counts the answer (Algorithm 1, lines 11 to 15) and updates the set of active queries (line 16)."""
        t, price = state.retrieved.queries + 1, queries.price(self.readings, view, pull)
        ends = queries.ends_node(self.readings, view, state.retrieved, pull, outcome)
        state = state._replace(
            retrieved=add(view, state.retrieved, pull, outcome, price)[0],
            times_asked=state.times_asked.at[pull.configuration, pull.node].add(pull.asked.astype(jnp.int32)),
            ended=state.ended.at[pull.node].max(ends),
        )
        state = self._estimated(view, pull, outcome, self._extended(view, pull, state))
        return self._without_bad(view, state, t)

    def _extended(self, view: View, pull: Pull, state: State) -> State:
        """Makes the queries of the children of the node asked active (Algorithm 2, lines 6 to 9; "queries at u" is
        read as queries at d, the child)."""
        children = view.poset.is_child(pull.node) & pull.asked & self.grow
        entering = children if self.readings.reentry else children & ~state.entered
        entered = state.entered | children
        return state._replace(
            active=state.active | (entered if self.readings.removal == "fresh" else entering), entered=entered
        )

    def _estimated(self, view: View, pull: Pull, outcome: Outcome, state: State) -> State:
        """Computes r and the gain's variance from what is retrieved now. A query at or below a node that has ended
        gains nothing."""
        estimates = GainEstimates(self.readings, view.configurations)
        answered = view.poset.is_above(jnp.where(pull.asked, outcome.leaf, -1)) & state.entered
        samples = estimates.counted(view.poset, state.samples, state.retrieved, answered)
        r, variance, fits = estimates.evaluated(samples, view.choices)
        if self.pools:
            r = queries.pooled(self.prior, r, r[:1], samples.n[:, None])
        r, variance = (jnp.where(view.poset.is_below(state.ended), 0, x.T) for x in (r, variance))
        code = jnp.where(fits, state.retrieved.code, OVERFLOW)
        retrieved = state.retrieved._replace(code=code)
        return state._replace(retrieved=retrieved, samples=samples, r=r, variance=variance)

    def _without_bad(self, view: View, state: State, t: Array) -> State:
        """Removes bad queries at round t (Algorithm 2, lines 12 to 14), by the best of those that exist."""
        sigma = self._sigma(state, t)
        there = state.active & queries.exist(self.readings, state.retrieved, state.samples.distinct, view.lengths)
        bound = jnp.max(jnp.where(there, state.r - sigma, -jnp.inf))
        bad = (state.r + sigma < bound) & (self.readings.removal != "none")
        return state._replace(active=state.active & ~bad)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """Says that a run is over once no active query is within what is left of the budget (Algorithm 1, lines 7 to
        10)."""
        return ~jnp.any(self._askable(view, state)[1])

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Reports what ``Retrieved.answer`` has (Algorithm 1, line 18), and ``nodes``: how many entered (int32)."""
        return state.retrieved.answer() | {"nodes": jnp.sum(state.entered, dtype=jnp.int32)}
