"""CRUX with estimates that are kept: an answer renews those of the nodes above its entities, and of no others.

An estimate changes only when the node's sample does: its exclude lists and resamples are drawn by (node, n). So a lane
keeps r and v of each query, in slots of nodes that entered (``slots.py``). The rows of all lanes that are to be renewed
stand side by side (``xla/packed.py``). Estimates that no active query needs wait until one does.

``test_fast_crux_equals_the_rule`` (tests/test_extraction_fast.py) ties it to ``extraction/crux.py``.
"""

import functools
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.extraction import queries
from jaxbandit.extraction.crux import Crux
from jaxbandit.extraction.estimates import GainEstimates, Method, Samples
from jaxbandit.extraction.estimators import OF_TOTALS, Past
from jaxbandit.extraction.fast.slots import PART, Layout, State, moves, parents_of, with_children, with_pruned
from jaxbandit.extraction.fast.tables import rows_for, slots_for
from jaxbandit.extraction.problem import Extraction, Outcome, Pull, View
from jaxbandit.extraction.readings import Readings
from jaxbandit.extraction.retrieved import OVERFLOW, add, exclude_list
from jaxbandit.grammar import Execution, accelerated
from jaxbandit.pytree import pytree
from jaxbandit.xla.batch import any_lane
from jaxbandit.xla.fence import once, once_in_blocks
from jaxbandit.xla.packed import packed
from jaxbandit.xla.prefix import highest, lowest

_WIDE = 64
"""A domain of so many nodes, at most, has slots for all of them from the beginning."""
_BLOCK, _LONG, _DEAR = 128, 16, 4
"""Slots of all lanes whose estimates are renewed at a time: as a rule, where each has long rows, and where each takes
long."""
_GAINS = {"new-regr": 15_000}
"""Of estimators that take other than ``OF_TOTALS``: see ``Execution.gain_ns``."""
_LARGE = 3_500, 55_000
"""Gain and loss where slots are made as nodes enter: of Eventbrite's 174,551 nodes, by budgets of 20 and 200."""
_COLUMNS, _ROOT_COLUMNS = 48, 128
"""Columns of frequency counts. The root alone is asked so often that more different frequencies come up."""


@pytree
@dataclass(frozen=True)
class SlottedCrux:
    """Runs a ``rule`` of CRUX by slots. ``parents``: int32 (N, P), the nodes right above each node, ``FREE`` where
    there are no more; ``layout``: static."""

    rule: Crux
    parents: Array
    layout: Layout = field(metadata={"static": True})

    @property
    def execution(self) -> Execution:
        """Says that full effort gains most where resamples are not estimated by their totals alone."""
        gain = 500 if self.readings.estimator in OF_TOTALS else _GAINS.get(self.readings.estimator, 2_000)
        loss = 8_000 if self.rule.grow else 25_000
        if self.layout.grow and not self.layout.all_nodes:
            gain, loss = max(gain, _LARGE[0]), _LARGE[1]
        return Execution(stride=8, most_lanes=64, masked=True, gain_ns=gain, loss_ns=loss)

    @property
    def readings(self) -> Readings:
        """Returns the options of the rule that this implements."""
        return self.rule.readings

    def init(self, view: View) -> State:
        """Gives the root a slot and makes its queries active (Algorithm 1, lines 3 to 6)."""
        of = GainEstimates(self.readings, view.configurations)
        state = self.layout.begin(view, self.parents, of.pairs, of.unseen(), self.readings.bootstrap > 0)
        if self.readings.removal_at_start:
            none = jnp.zeros_like(state.entered)
            state = state._replace(active=self._without_bad(view, state, none, jnp.int32(1), jnp.bool_(True)))
        return state

    def _r(self, state: State, root: Array) -> Array:
        """Returns r of each query, float32 (C, S); ``root``: the root's gains, (C, 1)."""
        if not self.rule.pools:
            return state.gain
        return jnp.where(state.pruned, state.gain, queries.pooled(self.rule.prior, state.gain, root, state.n))

    def _sigma(self, state: State, t: Array) -> Array:
        """Returns sigma of each query at round ``t``, float32 (C, S)."""
        # Once, or the passes over slots would take the roots one by one.
        found: Array = once(
            queries.sigma(self.readings, self.rule.variance_floor, state.variance, state.times_asked, t)
        )
        return found

    def _without_bad(self, view: View, state: State, entering: Array, t: Array, asked: Array) -> Array:
        """Returns which queries are active next, bool (C, S): of those that are active and those of slots that are
        ``entering``, the ones that are not bad at round t (Algorithm 2, lines 12 to 14), or all if nothing was
        ``asked``."""
        fresh = self.readings.removal == "fresh"

        def among(part: State, begin: Array) -> Array:
            new = lax.dynamic_slice_in_dim(entering, begin, part.node.shape[0])
            return jnp.where(asked, part.entered, part.active) if fresh else part.active | new

        if self.readings.removal == "none":
            return state.active | entering
        root = state.gain[:, :1]

        def least(most: Array, part: State, begin: Array) -> Array:
            """Returns the highest r - sigma so far, of active queries."""
            there = among(part, begin) & queries.exist(self.readings, part.retrieved, part.distinct, view.lengths)
            return jnp.maximum(most, jnp.where(there, self._r(part, root) - self._sigma(part, t), -jnp.inf))

        nothing = jnp.full((root.shape[0], self.layout.width), -jnp.inf, jnp.float32)
        bound = highest(self.layout.over_slots(state, least, nothing).reshape(-1))

        def good(kept: Array, part: State, begin: Array) -> Array:
            """Returns the queries that are kept, without those of a part whose r + sigma is below the bound."""
            bad = (self._r(part, root) + self._sigma(part, t) < bound) & asked
            return lax.dynamic_update_slice_in_dim(kept, among(part, begin) & ~bad, begin, 1)

        kept: Array = self.layout.over_slots(state, good, state.active)
        return kept

    def _askable(self, view: View, state: State) -> tuple[Array, Array]:
        """Returns the cost of each query, int32 (C, S), and whether it can be asked (bool)."""
        known = state.retrieved, state.distinct
        cost = queries.costs(self.readings, view, *known, state.specificity)
        return cost, state.active & queries.affordable(self.readings, view, *known, cost)

    def ask(self, view: View, state: State) -> Pull:
        """Picks the query that ``Crux.ask`` picks, by the estimates that are kept (Algorithm 1, line 8)."""
        c, nowhere = len(view.configurations), jnp.int32(2**31 - 1)
        root, t = state.gain[:, :1], state.retrieved.queries + 1

        def better(best: tuple[Array, Array], part: State, _: Array) -> tuple[Array, Array]:
            cost, askable = self._askable(view, part)
            score = queries.score(self._r(part, root), self._sigma(part, t), cost)
            most, place = best
            own = part.node * c + jnp.arange(c, dtype=jnp.int32)[:, None]
            take = ((score > most) | ((score == most) & (own < place))) & askable
            return jnp.where(take, score, most), jnp.where(take, own, place)

        shape = (c, self.layout.width)
        nothing = (jnp.full(shape, -jnp.inf, jnp.float32), jnp.broadcast_to(nowhere, shape))
        most, place = (x.reshape(-1) for x in self.layout.over_slots(state, better, nothing))
        place = lowest(jnp.where(most == highest(most), place, nowhere))
        asked = place < nowhere
        place = jnp.where(asked, place, 0)
        node, configuration = place // c, place % c
        length = jnp.where(asked, view.lengths[configuration], 0)
        exclude = exclude_list(view, state.retrieved, node, length, self.readings.exclude_from == "all")
        return Pull(node, configuration, exclude, state.retrieved.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Counts the answer, renews the estimates that it changes, and updates the active queries, as ``Crux.tell``."""
        pruned_before, t = state.pruned, state.retrieved.queries + 1
        here = (state.node == pull.node) & pull.asked
        empty = pull.asked & ~jnp.any(outcome.entity >= 0)
        ends = lax.cond(
            any_lane(empty),
            lambda retrieved: queries.ends_node(self.readings, view, retrieved, pull, outcome),
            lambda _: jnp.bool_(False),
            state.retrieved,
        )
        state, own, touched = self._answered(view, state, pull, outcome)
        stale, entering = touched, jnp.zeros_like(touched)
        if self.layout.grow:
            if not self.layout.all_nodes:
                state, stale = with_children(self.layout, view, self.parents, state, pull, own, stale)
            below = functools.reduce(jnp.logical_or, list(state.parents == pull.node)) & pull.asked
            new = below & ~state.entered
            state = state._replace(grown=state.grown | here, entered=state.entered | new)
            entering = below if self.readings.reentry else new
        if self.readings.empty != "ignored":
            state = with_pruned(view, state, here, ends)
            stale |= state.pruned & ~pruned_before
        if self.readings.exclude_from == "all":
            stale |= state.entered
        due = state.due | stale
        # Estimates that no query is chosen by can wait; but new-regr keeps the K of each answer.
        if self.readings.removal == "fresh":
            needed = jnp.where(pull.asked, state.entered, jnp.any(state.active, axis=0))
        else:
            needed = jnp.any(state.active, axis=0) | entering
        stale = due if state.past.n.shape[1] else due & needed
        if self.rule.pools:
            stale = stale.at[0].set(due[0])
        state = self._renewed(view, state._replace(due=due & ~stale), stale, touched)
        for method in GainEstimates(self.readings, view.configurations).methods():
            state = self._resampled(view, state, stale, method)
        return state._replace(active=self._without_bad(view, state, entering, t, pull.asked))

    def _answered(self, view: View, state: State, pull: Pull, outcome: Outcome) -> tuple[State, Array, Array]:
        """Counts the answer at all nodes that have a slot. Returns the state, the slot of the pull's node (int32), and
        the slots where something was counted (bool (S,))."""
        retrieved, news = add(view, state.retrieved, pull, outcome, queries.price(self.readings, view, pull))
        sizes, gains, loses = moves(state, news)
        fits = jnp.all((gains < self.layout.columns) | ~news.there)
        retrieved = retrieved._replace(code=jnp.where(fits, retrieved.code, OVERFLOW))
        above = jnp.where(news.there[:, None], jnp.asarray(view.poset.ancestors)[news.leaf], -1)
        # One gather for all reads of the table (docs/xla-cpu.md).
        nodes = jnp.append(above.reshape(-1), jnp.where(pull.asked, pull.node, -1))
        slots = self.layout.slots_of(state, nodes)
        slot, own = slots[:-1].reshape(above.shape), slots[-1]
        columns = jnp.broadcast_to(jnp.stack([gains, loses])[:, :, None], (2, *slot.shape))
        f = state.f.at[slot, columns].add(jnp.array([1, -1], jnp.int32)[:, None, None], mode="drop")
        new = jnp.broadcast_to((news.before == 0)[:, None].astype(jnp.int32), slot.shape)
        distinct, n = state.distinct.at[slot].add(new, mode="drop"), state.n.at[slot].add(1, mode="drop")
        times_asked = state.times_asked.at[pull.configuration, own].add(1, mode="drop")
        touched = jnp.zeros(self.layout.slots, bool).at[slot].set(True, mode="drop")
        state = state._replace(retrieved=retrieved, sizes=sizes, times_asked=times_asked, f=f, distinct=distinct, n=n)
        return state, own, touched

    def _renewed(self, view: View, state: State, stale: Array, touched: Array) -> State:
        """Renews the gains in the slots that are ``stale`` (bool (S,)); ``touched``: where the answer was counted. What
        is pruned gains nothing, for sure."""
        of = GainEstimates(self.readings, view.configurations)

        def renewed(rows: list[Array], read: tuple[Array, ...], lane: tuple[Any, ...]) -> list[Array]:
            gain, past_n, past_k, pairs, *variance = rows
            node, entered, touched, pruned, f = read
            sizes, size, choices = lane
            f = once_in_blocks(f)
            outside = of.outside(size, jnp.sum(f, axis=1, dtype=jnp.int32))
            samples = Samples(f, sizes, node, outside, Past(past_n, past_k), pairs)
            samples = of.recorded(samples, touched & entered)
            gain, *variance = (jnp.where(pruned[:, None], 0, x) for x in (of.gains(samples, choices), *variance))
            return [gain, *samples.past, samples.pairs, *variance]

        # Without a bootstrap there are no variances.
        kept = [state.variance] if state.variance.size else []
        written = [state.gain, state.past.n, state.past.k, state.pairs, *kept]
        read = (state.node, state.entered, touched, state.pruned, state.f)
        lane = (state.sizes, state.retrieved.size, view.choices)
        block = _BLOCK if of.of_totals else _LONG
        axes = (1, 0, 0, 0, 1)[: len(written)]
        gain, past_n, past_k, pairs, *kept = packed(renewed, block, stale, written, axes, read, lane)
        variance = kept[0] if kept else state.variance
        return state._replace(gain=gain, past=Past(past_n, past_k), pairs=pairs, variance=variance)

    def _resampled(self, view: View, state: State, stale: Array, method: Method) -> State:
        """Renews the variances by a bootstrap ``method``, in the slots that are ``stale`` and have as many answers
        as the method is for. It renews their gains too, if these are means over resamples."""
        of = GainEstimates(self.readings, view.configurations)

        def spread(rows: list[Array], read: tuple[Any, ...], lane: tuple[Any, ...]) -> list[Array]:
            (node, f, past, pairs), (sizes, size, choices) = read, lane
            outside = of.outside(size, jnp.sum(f, axis=1, dtype=jnp.int32))
            found = method.spread(Samples(f, sizes, node, outside, past, pairs), choices)
            return [rows[0] if self.readings.gain == "sample" else found.mean, found.variance, found.fits]

        here = stale & ~state.pruned & (state.n >= method.least) & (state.n <= method.most)
        written = [state.gain, state.variance, jnp.ones_like(stale)]
        read = (state.node, state.f, state.past, state.pairs)
        lane = (state.sizes, state.retrieved.size, view.choices)
        block = _BLOCK if not method.dear else _DEAR if method.least > 1 else _LONG
        gain, variance, fits = packed(spread, block, here, written, (1, 1, 0), read, lane)
        code = jnp.where(jnp.all(fits), state.retrieved.code, OVERFLOW)
        return state._replace(gain=gain, variance=variance, retrieved=state.retrieved._replace(code=code))

    def done(self, view: View, state: State) -> Array:
        """Says that a run is over once no active query is within what is left of the budget."""
        return ~jnp.any(self._askable(view, state)[1])

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """Reports what ``Retrieved.answer`` has, and ``nodes``: how many entered (int32)."""
        return state.retrieved.answer() | {"nodes": jnp.sum(state.entered, dtype=jnp.int32)}


@accelerated.register
def slotted(rule: Crux, problem: Any, columns: int = 0, slots: int = 0, wide: int = _WIDE) -> SlottedCrux | Crux:
    """Returns the rule by slots, on a problem of extraction.

    ``columns``: of frequency counts, at least 3; ``slots``: for nodes; 0 of either is what the problem asks for;
    ``wide``: a domain of at most so many nodes has slots for all.
    """
    if not isinstance(problem, Extraction):
        return rule
    parents = parents_of(problem.poset)
    slots = (slots or slots_for(problem)) if rule.grow else 1
    whole = slots if slots == len(parents) <= wide else 0
    if slots > _WIDE:
        slots += -slots % PART
    elif rule.grow:
        slots += -slots % 16
    columns = columns or (_COLUMNS if rule.grow else _ROOT_COLUMNS)
    widest = int(np.diff(np.asarray(problem.poset.child_start)).max())
    layout = Layout(rows_for(problem), slots, columns, whole, widest, rule.grow)
    return SlottedCrux(rule, jnp.asarray(parents), layout)
