"""CRUX: Rekatsinas, Deshpande and Parameswaran, "CRUX: Adaptive querying for efficient crowdsourced data extraction",
CIKM 2019, section "Discovering Querying Policies", Algorithms 1 and 2.

A query configuration q = (k, l, v) asks node v for k entities with an exclude list of l. Each round asks the active q
of the highest (r(q) + sigma(q, t)) / c(q) that the budget allows: r is the estimated gain, and sigma(q, t) =
sqrt(v_q log(t) / n_q) with n_q the times q was asked and v_q the gain's variance or a floor (Algorithm 1). Then the
queries of its node's children become active, and those are removed whose r + sigma is below the largest r - sigma
(Algorithm 2). A query never asked counts as asked once in sigma. Here r, v_q and sigma are computed anew in each
round, at all nodes: see ``estimates.py``, and ``queries.py`` for sigma and the cost c. Where the text leaves something
open, each way to read it is an option (``readings.py``). The file is long because both algorithms work on one state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxbandit.contract import brief
from jaxbandit.extraction import queries
from jaxbandit.extraction.estimates import Estimates, Samples
from jaxbandit.extraction.problem import Outcome, Pull, View
from jaxbandit.extraction.readings import Readings
from jaxbandit.extraction.retrieved import OVERFLOW, Retrieved, add, ancestors, exclude_list
from jaxbandit.parameters import Key, checked
from jaxbandit.parsers import real, whole
from jaxbandit.space import Range

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32


class State(NamedTuple):
    """``got``: what was retrieved; ``active``: the set Q; ``entered``: the root and the children of nodes asked;
    ``times_asked``: n_q; ``barren``: the nodes that an empty answer has ended; ``samples``: of all nodes; ``r``,
    ``variance``: r(q) and v_q."""

    got: Retrieved
    active: Bool[Array, "configurations nodes"]
    entered: Bool[Array, " nodes"]
    times_asked: Int32[Array, "configurations nodes"]
    barren: Bool[Array, " nodes"]
    samples: Samples
    r: Float32[Array, "configurations nodes"]
    variance: Float32[Array, "configurations nodes"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Crux:
    """CRUX (Rekatsinas, Deshpande and Parameswaran 2019, Algorithms 1 and 2); see ``crux``.

    ``pools``: whether ``prior`` is above 0. Static all but ``variance_floor`` and ``prior``.

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
    nodes: int = field(metadata={"static": True})

    __repr__ = brief

    def init(self, view: View) -> State:
        """Algorithm 1, lines 3 to 6: the root's queries, with nothing known."""
        estimates = Estimates(self.readings, view.configurations)
        samples = Samples.nothing(view.nodes, view.room.queries, estimates.pairs)
        shape = len(view.configurations), view.nodes
        root, r = samples.node == 0, jnp.broadcast_to(estimates.unseen()[:, None], shape)
        got, active = Retrieved.nothing(view), jnp.broadcast_to(root, shape)
        state = State(
            got, active, root, jnp.zeros(shape, jnp.int32), jnp.zeros_like(root), samples, r, jnp.zeros(shape)
        )
        return self._without_bad(state, jnp.int32(1)) if self.readings.removal_at_start else state

    def ask(self, view: View, state: State) -> Pull:
        """Algorithm 1, line 8; of equally good queries the first node's, and its first configuration."""
        known = state.got, state.samples.distinct
        cost = queries.costs(self.readings, view, *known, jnp.asarray(view.poset.specificity))
        askable = state.active & queries.affordable(self.readings, view, *known, cost)
        t = state.got.queries + 1
        sigma = queries.sigma(self.readings, self.variance_floor, state.variance, state.times_asked, t)
        score = jnp.where(askable, (state.r + sigma) / cost.astype(jnp.float32), -jnp.inf)
        asked = jnp.any(askable)
        best = jnp.where(asked, jnp.argmax(score.T), 0).astype(jnp.int32)
        node, configuration = best // score.shape[0], best % score.shape[0]
        length = jnp.where(asked, view.lengths[configuration], 0)
        exclude = exclude_list(view, state.got, node, length, self.readings.exclude_from == "all")
        return Pull(node, configuration, exclude, state.got.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Algorithm 1, lines 11 to 17. Algorithm 2, lines 7 to 11, lets the queries of the children in; the removal of
        bad ones follows."""
        price = queries.price(self.readings, view, pull)
        ends = queries.ends_node(self.readings, view, state.got, pull, outcome)
        children = view.poset.is_child(pull.node) & pull.asked & self.grow
        entering = children if self.readings.reentry else children & ~state.entered
        entered = state.entered | children
        if self.readings.removal == "fresh":
            entering = entered
        after = self._estimated(view, pull, outcome, state._replace(
            got=add(view, state.got, pull, outcome, price)[0],
            active=state.active | entering,
            entered=entered,
            times_asked=state.times_asked.at[pull.configuration, pull.node].add(pull.asked.astype(jnp.int32)),
            barren=state.barren.at[pull.node].max(ends),
        ))  # fmt: skip
        return self._without_bad(after, state.got.queries + 1)

    def _estimated(self, view: View, pull: Pull, outcome: Outcome, state: State) -> State:
        """With r and v_q by what is retrieved now. A query at or below a barren node gains nothing."""
        estimates = Estimates(self.readings, view.configurations)
        answered = view.poset.is_above(jnp.where(pull.asked, outcome.leaf, -1)) & state.entered
        samples = state.samples.counted(ancestors(view.poset, state.got.leaf), state.got.times)
        samples = samples._replace(elsewhere=estimates.elsewhere(state.got.size, samples.distinct))
        samples = estimates.recorded(samples, answered)
        r, variance, code = estimates.gains(samples, view.choices), jnp.zeros_like(state.r).T, state.got.code
        for method in estimates.methods():
            here = (samples.n >= method.least) & (samples.n <= method.most)
            spread = method.spread(samples, view.choices)
            variance = jnp.where(here[:, None], spread.variance, variance)
            if self.readings.gain == "bootstrap-mean":
                r = jnp.where(here[:, None], spread.mean, r)
            code = jnp.where(jnp.any(here & ~spread.fits), OVERFLOW, code)
        if self.pools:
            r = queries.pooled(self.prior, r, r[:1], samples.n[:, None])
        r, variance = (jnp.where(view.poset.is_below(state.barren), 0, x.T) for x in (r, variance))
        return state._replace(got=state.got._replace(code=code), samples=samples, r=r, variance=variance)

    def _without_bad(self, state: State, t: Array) -> State:
        """Algorithm 2, lines 14 to 16, at round t."""
        sigma = queries.sigma(self.readings, self.variance_floor, state.variance, state.times_asked, t)
        bound = jnp.max(jnp.where(state.active, state.r - sigma, -jnp.inf))
        bad = (state.r + sigma < bound) & (self.readings.removal != "none")
        return state._replace(active=state.active & ~bad)

    def done(self, view: View, state: State) -> Bool[Array, ""]:
        """No active query is within what is left of the budget."""
        # The list that `ask` draws is not used here, and so not computed.
        return ~self.ask(view, state).asked

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Retrieved.answer``; ``nodes``: how many were entered (int32)."""
        return state.got.answer() | {"nodes": jnp.sum(state.entered, dtype=jnp.int32)}


@checked
def crux(
    estimator: str = "chao92",
    *,
    variance_floor: Annotated[float, Key(real(0, 1e6), search=Range(0.001, 10, log=True))] = 0.01,
    prior: Annotated[float, Key(real(0, 1e6), search=Range(0, 50))] = 0.0,
    grow: bool = True,
    nodes: Annotated[int, Key(whole(1, 1 << 16), swept=False, on_request=True)] = 3072,
    **readings: Any,
) -> Crux:
    """Algorithm 1.

    Args:
        estimator: of the gain, one of ``ESTIMATORS``; or ``new-regr``, which takes the number of entities from a
            logistic curve through the last 64 pairs (n, K) of the node since it entered.
        variance_floor: the least variance of a gain, v_q.
        prior: answers that the root's gain counts as at each node; r is the mean of the node's gain, weighted by its
            own number of answers, and of the root's for the same (k, l), weighted by this. 0 is the paper's.
        grow: whether the children of a node asked come in; else the root alone is asked.
        nodes: room for nodes that entered, in the faster implementation; a run that needs more leaves nodes out, with
            the code ``OVERFLOW``.
        readings: the options of ``Readings``, by name.

    Raises:
        BadInput: for an option that does not exist, and a value out of range.

    Example:
        >>> from jaxbandit import extraction
        >>> extraction.crux("good-turing", removal="none").readings.removal
        'none'
    """
    options = Readings.of(estimator=estimator, **readings)
    return Crux(jnp.float32(variance_floor), jnp.float32(prior), prior > 0, options, grow, nodes)


def root_chao() -> Crux:
    """RootChao, a baseline of the paper: the root's queries alone, by Chao92 and Shen.

    Example:
        >>> from jaxbandit import extraction
        >>> extraction.root_chao().grow
        False
    """
    return crux("chao92", grow=False)
