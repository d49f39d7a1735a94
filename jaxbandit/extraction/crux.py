"""CRUX: Rekatsinas, Deshpande and Parameswaran, "CRUX: Adaptive querying for efficient crowdsourced data extraction",
CIKM 2019, section "Discovering Querying Policies", Algorithms 1 and 2.

A query configuration q = (k, l, v) asks node v for k entities with an exclude list of l. Each round asks the active q
of the highest (r(q) + sigma(q, t)) / c(q) that the budget allows: r is the estimated gain, and sigma(q, t) =
sqrt(v_q log(t) / n_q) with n_q the times q was asked and v_q the gain's variance or a floor. Then the children of its
node come in, and q leaves whose r + sigma is below the largest r - sigma.

An estimate changes only when the node's sample does: its exclude lists and resamples are drawn by (node, n). So a lane
keeps r and v of each active q, and an answer renews those of the nodes above its entities that have an active query. A
sample counts only through how many entities were seen how often, and so a list of l entities is l draws without
replacement from the frequency counts.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.contract import brief
from jaxbandit.errors import BadInput
from jaxbandit.extraction import retrieved
from jaxbandit.extraction.bootstrap import FEW, before, delta_variance, few_resampled, resampled, spread
from jaxbandit.extraction.estimators import (
    ESTIMATORS,
    OF_TOTALS,
    Logistic,
    Past,
    Totals,
    hwang_shen_k,
    logistic_fit,
    new_regr,
    totals,
)
from jaxbandit.extraction.poset import Poset
from jaxbandit.extraction.problem import Extraction, Outcome, Pull, View
from jaxbandit.extraction.retrieved import (
    FREE,
    LIST,
    OVERFLOW,
    RELIST,
    RESAMPLE,
    Retrieved,
    add,
    contains,
    exclude_list,
    named,
    ranks_without_replacement,
)
from jaxbandit.grammar import Execution
from jaxbandit.random.stream import Stream, substream, words
from jaxbandit.xla.batch import over_lanes
from jaxbandit.xla.fence import once_in_blocks as fenced
from jaxbandit.xla.fence import where_due
from jaxbandit.xla.packed import in_turn, packed
from jaxbandit.xla.prefix import highest, lowest, marked, nth, places

READINGS = {
    "removal": ("lasting", "fresh", "none"),
    "unseen": ("k", "one"),
    "gain": ("sample", "bootstrap-mean"),
    "variance": ("delta", "bootstrap"),
    "never_asked": ("one", "plus-one", "infinite"),
    "asked_by": ("configuration", "node"),
    "affordable": ("at most", "less"),
    "exclude_from": ("node", "all"),
    "short_list": ("configured", "actual", "unavailable"),
    "empty": ("unless-covered", "always", "ignored"),
}
"""The readings of the text that are one of a few words; see ``Crux``."""

_WIDE = 64
"""Up to so many slots, an answer renews all estimates; else those that it changes, in blocks."""
_BLOCK = 128
"""Slots of all lanes whose estimates are renewed at a time."""
_CHILDREN, _HELD, _PART = 64, 64, 256
"""At a time: children of all lanes' nodes that are looked up, their entities, and slots of a lane that are scored."""
_COLUMNS = 8
"""At a time: columns of frequency counts that are looked through."""
_MANY_BLOCK = 4
"""Nodes with more than ``FEW`` answers that are resampled at a time."""
_OFTEN = 4
"""In a resample an entity may come up this many times as often as there are columns."""
_PAIRS = 64
"""Pairs (n, K) that a node's logistic curve is fitted to, at most: the last ones."""


class State(NamedTuple):
    """Of S slots for nodes, C configurations, V columns of frequency counts, and a domain of N nodes.

    ``got``; ``sizes``: int32 (V,), the i of each column f_i; ``node``, ``specificity``: int32 (S,), of each slot, the
    first ``filled`` of which are in use (a small domain has slots for all nodes from the beginning, so that none has to
    be made); ``slot_of``: integers (N,), the slot of each node, if ``node`` says that it is there; None where slots are
    nodes; ``parents``: int32 (P, S), the nodes right above; ``entered``, ``grown``: bool (S,), whether
    the node is active, and whether its children are; ``f``: int32 (S, V); ``asked``: int32 (C, S), n_q; ``gain``:
    float32 (C, S); ``variance``: likewise, (C, 0) without a bootstrap; ``active``: bool (C, S); ``barren``: bool
    (S,), whether the node gave an empty answer that counts; ``void``: bool (S,), whether it or a node above it did;
    ``due``: bool (S,), whether its sample changed since its estimates were made, as none of its queries is active;
    ``past``: float32 (S, pairs), of ``new-regr``; ``pairs``: int32 (S,), how many there were.
    """

    got: Retrieved
    sizes: Array
    node: Array
    specificity: Array
    slot_of: Array | None
    parents: Array
    filled: Array
    entered: Array
    grown: Array
    f: Array
    asked: Array
    gain: Array
    variance: Array
    active: Array
    barren: Array
    void: Array
    due: Array
    past: Past
    pairs: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Crux:
    """Algorithm 1. ``variance_floor``, ``prior``: float32; ``parents``: int32 (N, P), the nodes right above each node,
    ``FREE`` where there are no more. All else is static; the readings are named as in ``crux``."""

    variance_floor: Array
    prior: Array
    parents: Array
    estimator: str = field(metadata={"static": True})
    rows: int = field(metadata={"static": True})
    nodes: int = field(metadata={"static": True})
    columns: int = field(metadata={"static": True})
    pairs: int = field(metadata={"static": True})
    whole: int = field(metadata={"static": True})
    widest: int = field(metadata={"static": True})
    pools: bool = field(metadata={"static": True})
    grow: bool = field(metadata={"static": True})
    removal: str = field(metadata={"static": True})
    removal_at_start: bool = field(metadata={"static": True})
    reentry: bool = field(metadata={"static": True})
    unseen: str = field(metadata={"static": True})
    never_asked: str = field(metadata={"static": True})
    asked_by: str = field(metadata={"static": True})
    bootstrap: int = field(metadata={"static": True})
    variance: str = field(metadata={"static": True})
    gain: str = field(metadata={"static": True})
    exclude_draws: int = field(metadata={"static": True})
    exclude_from: str = field(metadata={"static": True})
    affordable: str = field(metadata={"static": True})
    short_list: str = field(metadata={"static": True})
    empty: str = field(metadata={"static": True})

    execution = Execution(stride=8, most_lanes=32, masked=True)

    __repr__ = brief

    def init(self, view: View) -> State:
        """The root's queries, with nothing known."""
        s, c, v = self.nodes, len(view.configurations), self.columns
        place = jnp.arange(s, dtype=jnp.int32)
        first = place == 0
        node = jnp.where(place < self.whole, place, jnp.where(first, 0, FREE))
        own = jnp.maximum(node, 0)
        there, none = node >= 0, jnp.zeros(s, bool)
        state = State(
            got=Retrieved.nothing(view, self.rows),
            sizes=jnp.arange(1, v + 1, dtype=jnp.int32),
            node=node,
            specificity=jnp.asarray(view.poset.specificity, jnp.int32)[own],
            slot_of=None if self.whole or not self.grow else jnp.zeros(self.parents.shape[0], self._slot_type()),
            parents=jnp.where(there, self.parents[own].T, FREE),
            filled=jnp.sum(there, dtype=jnp.int32),
            entered=first,
            grown=none,
            f=jnp.zeros((s, v), jnp.int32),
            asked=jnp.zeros((c, s), jnp.int32),
            gain=jnp.broadcast_to(self._unseen(view)[:, None], (c, s)),
            variance=jnp.zeros((c, s if self.bootstrap else 0), jnp.float32),
            active=jnp.broadcast_to(first, (c, s)),
            barren=none,
            void=none,
            due=none,
            past=Past(*[jnp.zeros((s, self.pairs), jnp.float32)] * 2),
            pairs=jnp.zeros(s, jnp.int32),
        )
        if self.removal_at_start:
            state = state._replace(active=self._without_bad(state, state.active, jnp.int32(1), jnp.bool_(True)))
        return state

    def _over_slots(self, state: State, function: Callable[[Any, State, Array], Any], start: Any) -> Any:
        """``start`` after ``function`` (what was made so far, the state of some slots, the first one's number) of all
        slots in use."""
        width = min(self.nodes, _PART)
        if width == self.nodes:
            return function(start, state, jnp.int32(0))
        ends = ["node", "specificity", "asked", "gain", "active", "void"]
        if self.bootstrap:
            ends.append("variance")

        def more(carry: tuple[Array, Any]) -> tuple[Array, Any]:
            begin, made = carry
            part: dict[str, Any] = {
                name: lax.dynamic_slice_in_dim(getattr(state, name), begin, width, -1) for name in ends
            }
            f = lax.dynamic_slice_in_dim(state.f, begin, width)
            return begin + width, function(made, state._replace(**part, f=f), begin)

        used = over_lanes(state.filled)
        return lax.while_loop(lambda carry: carry[0] < used, more, (jnp.int32(0), start))[1]

    def _sigma(self, state: State, t: Array) -> Array:
        """sigma(q, t), (C, S)."""
        times = state.asked
        if self.asked_by == "node":
            times = jnp.broadcast_to(jnp.sum(times, axis=0), times.shape)
        often = times + 1 if self.never_asked == "plus-one" else jnp.maximum(times, 1)
        v = jnp.maximum(state.variance, self.variance_floor) if self.bootstrap else self.variance_floor
        sigma = jnp.sqrt(v * jnp.log(t.astype(jnp.float32)) / often.astype(jnp.float32))
        return jnp.where(times == 0, jnp.inf, sigma) if self.never_asked == "infinite" else sigma

    def _without_bad(self, state: State, among: Array, t: Array, asked: Array) -> Array:
        """Those of the queries ``among`` active that are not bad at round t (Algorithm 2, lines 14 to 16); all of them
        if nothing was ``asked``."""
        if self.removal == "none":
            return among
        state = state._replace(active=among)
        root = state.gain[:, :1]

        def least(most: Array, part: State, _: Array) -> Array:
            return jnp.maximum(most, jnp.where(part.active, self._r(part, root) - self._sigma(part, t), -jnp.inf))

        nothing = jnp.full((among.shape[0], min(self.nodes, _PART)), -jnp.inf)
        bound = highest(self._over_slots(state, least, nothing).reshape(-1))

        def good(kept: Array, part: State, begin: Array) -> Array:
            bad = (self._r(part, root) + self._sigma(part, t) < bound) & asked
            some = lax.dynamic_slice_in_dim(kept, begin, bad.shape[1], 1)
            return lax.dynamic_update_slice_in_dim(kept, some & ~bad, begin, 1)

        kept: Array = self._over_slots(state, good, among)
        return kept

    def _r(self, state: State, root: Array) -> Array:
        """r of each query, (C, S): its node's estimate, and the root's (C, 1) as if it stood on ``prior`` answers."""
        if not self.pools:
            return state.gain
        n = jnp.sum(state.f * state.sizes, axis=1).astype(jnp.float32)
        pooled = (n * state.gain + self.prior * root) / (n + self.prior)
        return jnp.where(state.void, state.gain, pooled)

    def _costs(self, view: View, state: State) -> Array:
        """int32 (C, S)."""
        if self.short_list == "actual":
            lengths = jnp.minimum(_lengths(view)[:, None], self._listable(state))
            return view.shorter[jnp.arange(lengths.shape[0])[:, None], lengths, state.specificity]
        cost = jnp.zeros(state.active.shape, jnp.int32)
        for s in range(view.cost.shape[1]):
            cost = jnp.where(state.specificity == s, view.cost[:, s, None], cost)
        return cost

    def _listable(self, state: State) -> Array:
        """How many entities a list of each node could have, int32 (S,)."""
        known = jnp.sum(state.f, axis=1)
        return jnp.broadcast_to(state.got.size, known.shape) if self.exclude_from == "all" else known

    def _askable(self, view: View, state: State, cost: Array) -> Array:
        left = view.budget - state.got.spent
        allowed = cost <= left if self.affordable == "at most" else cost < left
        if self.short_list == "unavailable":
            allowed &= _lengths(view)[:, None] <= self._listable(state)
        return state.active & allowed & (left > 0)

    def ask(self, view: View, state: State) -> Pull:
        """The best query that the budget allows; of equal ones the first node's, and its first configuration."""
        c, nowhere = len(view.configurations), jnp.int32(2**31 - 1)
        root, t = state.gain[:, :1], state.got.queries + 1

        def better(best: tuple[Array, Array], part: State, _: Array) -> tuple[Array, Array]:
            cost = self._costs(view, part)
            askable = self._askable(view, part, cost)
            score = (self._r(part, root) + self._sigma(part, t)) / cost.astype(jnp.float32)
            most, place = best
            own = part.node * c + jnp.arange(c, dtype=jnp.int32)[:, None]
            take = ((score > most) | ((score == most) & (own < place))) & askable
            return jnp.where(take, score, most), jnp.where(take, own, place)

        shape = (c, min(self.nodes, _PART))
        nothing = (jnp.full(shape, -jnp.inf, jnp.float32), jnp.broadcast_to(nowhere, shape))
        most, place = (x.reshape(-1) for x in self._over_slots(state, better, nothing))
        place = lowest(jnp.where(most == highest(most), place, nowhere))
        asked = place < nowhere
        place = jnp.where(asked, place, 0)
        node, configuration = place // c, place % c
        length = jnp.where(asked, _lengths(view)[configuration], 0)
        exclude = exclude_list(view, state.got, node, length, self.exclude_from == "all")
        return Pull(node, configuration, exclude, state.got.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Count the answer at all active nodes, let the children in, renew the estimates, drop bad queries."""
        void_before = state.void
        here = (state.node == pull.node) & pull.asked
        t = state.got.queries + 1
        price = None
        if self.short_list == "actual":
            length = jnp.sum(pull.exclude >= 0, dtype=jnp.int32)
            price = view.shorter[pull.configuration, length, jnp.asarray(view.poset.specificity)[pull.node]]
        got, news = add(view, state.got, pull, outcome, price)
        sizes, gains, loses = self._moves(state, news)
        fits = jnp.all((gains < self.columns) | ~news.there)
        got = got._replace(code=jnp.where(fits, got.code, OVERFLOW))
        above = jnp.where(news.there[:, None], jnp.asarray(view.poset.ancestors)[news.leaf], -1)
        slots = self._slots(state, jnp.append(above.reshape(-1), jnp.where(pull.asked, pull.node, -1)))
        slot, own = slots[:-1].reshape(above.shape), slots[-1]
        columns = jnp.broadcast_to(jnp.stack([gains, loses])[:, :, None], (2, *slot.shape))
        f = state.f.at[slot, columns].add(jnp.array([1, -1], jnp.int32)[:, None, None], mode="drop")
        asked = state.asked.at[pull.configuration, own].add(1, mode="drop")
        touched = jnp.zeros_like(here).at[slot].set(True, mode="drop")
        state = state._replace(got=got, sizes=sizes, asked=asked, f=f)
        stale = touched
        if self.grow:
            if not self.whole:
                state, stale = self._grown(view, state, pull, own, stale)
            below = functools.reduce(jnp.logical_or, list(state.parents == pull.node)) & pull.asked
            new = below & ~state.entered
            state = state._replace(grown=state.grown | here, entered=state.entered | new)
            entering = below if self.reentry else new
        if self.empty != "ignored":
            state = self._emptied(view, state, pull, outcome, here)
            stale |= state.void & ~void_before
        if self.exclude_from == "all":
            stale |= state.entered
        if self.removal == "fresh":
            among = jnp.where(pull.asked, state.entered, state.active)
        else:
            among = (state.active | entering) if self.grow else state.active
        due = state.due | stale
        # What no query is chosen by can wait; but new-regr keeps the K of each answer.
        stale = due if self.pairs else due & jnp.any(among, axis=0)
        if self.pools:
            stale = stale.at[0].set(due[0])
        state = self._renewed(view, state._replace(due=due & ~stale), stale, touched)
        if self.bootstrap:
            state = self._resampled(view, state, stale)
        return state._replace(active=self._without_bad(state, among, t, pull.asked))

    def _slot_type(self) -> Any:
        return jnp.int16 if self.nodes < 2**15 else jnp.int32

    def _slots(self, state: State, node: Array) -> Array:
        """The slot of each node, beyond all where it has none or there is no node (-1): int32, as ``node``."""
        if state.slot_of is None:
            return jnp.where((node >= 0) & (node < max(self.whole, 1)), node, self.nodes)
        slot = state.slot_of[jnp.maximum(node, 0)].astype(jnp.int32)
        return jnp.where((node >= 0) & (state.node[slot] == node), slot, self.nodes)

    def _grown(self, view: View, state: State, pull: Pull, own: Array, stale: Array) -> tuple[State, Array]:
        """With slots for the children of the pull's node, whose slot is its ``own``, and with those of them that hold
        something retrieved among the stale ones."""
        assert state.slot_of is not None
        # By a slot that was read from the table: what writes the table comes after, and it is not copied.
        grows = pull.asked & ~state.grown[own]
        poset = jax.tree.map(jnp.asarray, view.poset)
        begin, end = poset.child_start[pull.node], poset.child_start[pull.node + 1]
        slots, nodes = self.nodes, self.parents.shape[0]

        def made(
            arrays: list[Array], lane: Array, rank: Array, there: Array, begin: Array, shared: tuple[Poset, Array]
        ) -> list[Array]:
            slot_of, known, specificity, parents, filled = arrays
            poset, above = shared
            node = jnp.asarray(poset.child)[begin[lane] + rank]
            new = there & (known[lane, slot_of[lane, node].astype(jnp.int32)] != node)
            # Of the lane's entries in this block, the first one.
            first = jnp.maximum(jnp.arange(new.shape[0], dtype=jnp.int32) - rank, 0)
            earlier = places(new)
            slot = jnp.where(new, filled[lane] + earlier - earlier[first], slots)
            return [
                slot_of.at[lane, jnp.where(slot < slots, node, nodes)].set(slot.astype(slot_of.dtype), mode="drop"),
                known.at[lane, slot].set(node, mode="drop"),
                specificity.at[lane, slot].set(jnp.asarray(poset.specificity)[node], mode="drop"),
                parents.at[lane, :, slot].set(above[node], mode="drop"),
                filled.at[lane].add(new.astype(jnp.int32)),
            ]

        rank = jnp.arange(self.widest, dtype=jnp.int32)
        slot_of, node, specificity, parents, filled = in_turn(
            made, _CHILDREN, grows & (rank < end - begin),
            [state.slot_of, state.node, state.specificity, state.parents, state.filled],
            begin, (poset, self.parents),
        )  # fmt: skip
        code = jnp.where(filled > slots, OVERFLOW, state.got.code)
        earlier = state.filled
        state = state._replace(
            got=state.got._replace(code=code), node=node, slot_of=slot_of, specificity=specificity, parents=parents,
            filled=jnp.minimum(filled, slots),
        )  # fmt: skip

        def counted(
            arrays: list[Array], lane: Array, row: Array, there: Array, read: tuple[Any, ...], ancestors: Array
        ) -> list[Array]:
            f, stale = arrays
            slot_of, known, earlier, sizes, leaf, times = read
            node = ancestors[leaf[lane, row]]
            lane = jnp.broadcast_to(lane[:, None], node.shape)
            slot = slot_of[lane, jnp.maximum(node, 0)].astype(jnp.int32)
            new = there[:, None] & (node >= 0) & (slot >= earlier[lane]) & (known[lane, slot] == node)
            slot = jnp.where(new, slot, slots)
            same = sizes[lane[:, 0]] == times[lane[:, 0], row][:, None]
            column = jnp.where(jnp.any(same, axis=1), jnp.argmax(same, axis=1), sizes.shape[1])
            return [
                f.at[lane, slot, jnp.broadcast_to(column[:, None], node.shape)].add(1, mode="drop"),
                stale.at[lane, slot].set(True, mode="drop"),
            ]

        held = grows & state.got.under(view, pull.node)
        read = (slot_of, node, earlier, state.sizes, state.got.leaf, state.got.times)
        f, stale = in_turn(counted, _HELD, held, [state.f, stale], read, poset.ancestors)
        return state._replace(f=f), stale

    def _renewed(self, view: View, state: State, stale: Array, touched: Array) -> State:
        """With the gains renewed in the slots that are stale; ``touched``: bool (S,), where the answer was counted."""

        def renewed(rows: list[Array], read: tuple[Array, ...], lane: tuple[Any, ...], _: Any) -> list[Array]:
            _gain, past_n, past_k, pairs = rows
            node, entered, touched, void, f = read
            sizes, size, choices = lane
            f = fenced(f)
            if self.pairs:
                curve = jax.vmap(hwang_shen_k)(f, sizes)
                one = curve.known & touched & entered
                here = (jnp.arange(self.pairs) == (pairs % self.pairs)[:, None]) & one[:, None]
                n = jnp.sum(f * sizes, axis=1).astype(jnp.float32)
                past_n = jnp.where(here, n[:, None], past_n)
                past_k = jnp.where(here, jnp.exp(curve.log_k)[:, None], past_k)
                pairs = pairs + one
            n, known = jnp.sum(f * sizes, axis=1), jnp.sum(f, axis=1)
            pool = (known + self._elsewhere(size, known))[None]
            ranks = self._lists(view, choices, LIST, node, n, pool, self.exclude_draws)
            gains = self._gains(view, sizes, f[None], ranks, pool, Past(past_n, past_k))
            mean = jnp.stack([jnp.sum(each, axis=0) / each.shape[0] for each in gains], axis=1)
            return [jnp.where(void[:, None], 0, mean), past_n, past_k, pairs]

        written = [state.gain, state.past.n, state.past.k, state.pairs]
        read = (state.node, state.entered, touched, state.void, state.f)
        lane = (state.sizes, state.got.size, view.choices)
        gain, past_n, past_k, pairs = packed(renewed, self._block(_BLOCK), stale, written, (1, 0, 0, 0), read, lane)
        return state._replace(gain=gain, past=Past(past_n, past_k), pairs=pairs)

    def _block(self, most: int) -> int:
        """How many slots of all lanes to look at together: few where each has long rows."""
        return most if self.estimator in OF_TOTALS else 16

    def _resampled(self, view: View, state: State, stale: Array) -> State:
        """With the variances of the slots that are stale, and their gains if these are means over resamples."""
        answers = jnp.sum(state.f * state.sizes, axis=1)
        stale &= (answers > 0) & ~state.void
        few, many = stale & (answers <= FEW), stale & (answers > FEW)
        exact = functools.partial(self._by_resamples, _OFTEN * self.columns)
        passes: list[tuple[Array, int, Callable[..., list[Array]]]]
        if self.estimator in OF_TOTALS:
            by_delta = self.variance == "delta" and self.gain == "sample"
            passes = [(few, _BLOCK, self._by_few)]
            passes += [(many, _BLOCK, self._by_delta) if by_delta else (many, _MANY_BLOCK, exact)]
        else:
            by_few = functools.partial(self._by_resamples, FEW)
            passes = [(few, self._block(_BLOCK), by_few), (many, _MANY_BLOCK, exact)]
        written = [state.gain, jnp.where(state.void, 0, state.variance), jnp.ones_like(stale)]
        lane = (state.sizes, state.got.size, view.choices)
        for here, block, function in passes:
            read = (state.node, state.f, state.past)
            written = packed(functools.partial(function, view), block, here, written, (1, 1, 0), read, lane)
        gain, variance, fits = written
        code = jnp.where(jnp.all(fits), state.got.code, OVERFLOW)
        return state._replace(gain=gain, variance=variance, got=state.got._replace(code=code))

    def _spread(self, rows: list[Array], gains: list[Array], fits: Array) -> list[Array]:
        """Rows of gains, variances and whether all had room, from gains of resamples."""
        mean, variance = (jnp.stack(some, axis=1) for some in zip(*map(spread, gains), strict=True))
        return [rows[0] if self.gain == "sample" else mean, variance, fits]

    def _by_few(self, view: View, rows: list[Array], read: Any, lane: Any, _: Any) -> list[Array]:
        """By resamples of at most ``FEW`` answers, for estimators of totals."""
        (node, f, _past), (sizes, size, choices) = read, lane
        n = jnp.sum(f * sizes, axis=1)
        pair = _list_words(choices, RELIST, node, n, view.l_max, self.bootstrap)
        elsewhere = self._elsewhere(size, jnp.sum(f, axis=1))
        key = substream(choices, RESAMPLE, node)
        gains = self._of_totals(view, *few_resampled(key, f, sizes, pair, elsewhere, self.bootstrap))
        return self._spread(rows, gains, rows[2])

    def _by_resamples(self, columns: int, view: View, rows: list[Array], read: Any, lane: Any, _: Any) -> list[Array]:
        """By resamples with so many columns of frequency counts."""
        (node, f, past), (sizes, size, choices) = read, lane
        again, fits = resampled(substream(choices, RESAMPLE, node), f, sizes, self.bootstrap, columns)
        again = jnp.moveaxis(again, 1, 0)
        n, distinct = jnp.sum(f * sizes, axis=1), jnp.sum(again, axis=2)
        pool = distinct + self._elsewhere(size, jnp.sum(f, axis=1))
        ranks = self._lists(view, choices, RELIST, node, n, pool, self.bootstrap)
        dense = jnp.broadcast_to(jnp.arange(1, columns + 1, dtype=jnp.int32), (len(node), columns))
        return self._spread(rows, self._gains(view, dense, again, ranks, pool, past), fits)

    def _by_delta(self, view: View, rows: list[Array], read: Any, lane: Any, _: Any) -> list[Array]:
        """By the delta method, for estimators of totals."""
        (_node, f, _past), (sizes, size, _choices) = read, lane
        k, length = np.array(view.configurations).T[:, :, None]
        elsewhere = self._elsewhere(size, jnp.sum(f, axis=1))
        variance = delta_variance(
            f, sizes, OF_TOTALS[self.estimator], k, length, elsewhere, self._unseen(view)[:, None]
        )
        return [rows[0], variance.T, rows[2]]

    def _moves(self, state: State, news: retrieved.News) -> tuple[Array, Array, Array]:
        """The columns' sizes, and for each entity of the answer the column that gains one by it and the one that loses
        one (int32, (k_max,), beyond all where there is none). A size that has no column takes an empty one, from the
        end."""
        now = news.before + 1
        there = news.there[:, None]
        has = (state.sizes == now[:, None]) & there
        free = (state.f[0] == 0) & ~jnp.any(has, axis=0) & (state.sizes > 2)
        missing = news.there & ~jnp.any(has, axis=1)
        earlier = jnp.arange(now.shape[0])[None, :] < jnp.arange(now.shape[0])[:, None]
        first = missing & ~jnp.any(earlier & missing[None, :] & (now[None, :] == now[:, None]), axis=1)
        rank = jnp.sum(earlier & first[None, :], axis=1)
        v = jnp.arange(free.shape[0])
        after = jnp.sum(free[None, :] & (v[None, :] > v[:, None]), axis=1)
        takes = free & (after == rank[:, None]) & first[:, None]
        sizes = jnp.where(jnp.any(takes, axis=0), jnp.sum(jnp.where(takes, now[:, None], 0), axis=0), state.sizes)

        def column(size: Array, some: Array) -> Array:
            return jnp.min(jnp.where((sizes == size[:, None]) & some[:, None], v, v.shape[0]), axis=1)

        return sizes, column(now, news.there), column(news.before, news.there & (news.before > 0))

    def _emptied(self, view: View, state: State, pull: Pull, outcome: Outcome, here: Array) -> State:
        """After an empty answer nothing is expected at the node and below."""
        spans = jnp.asarray(view.poset.spans)
        empty = pull.asked & ~jnp.any(outcome.entity >= 0)

        def barren(_: None) -> Array:
            counts = here & empty
            if self.empty == "unless-covered":
                known = state.got.under(view, pull.node)
                held = known & jnp.any(state.got.entity[:, None] == pull.exclude, axis=1)
                counts &= ~jnp.any(known) | jnp.any(known & ~held)
            return state.barren | counts

        def void(barren: Array) -> Array:
            known = marked(barren)
            position = jnp.where(state.node >= 0, spans[jnp.maximum(state.node, 0), :, 0].T, -1)

            def below(carry: tuple[Array, Array]) -> tuple[Array, Array]:
                number, void = carry
                node = state.node[jnp.minimum(nth(known, number), barren.shape[0] - 1)]
                span = spans[jnp.maximum(node, 0)][:, :, None]
                return number + 1, void | ((number < known.total) & contains(span, position))

            many = over_lanes(known.total)
            return lax.while_loop(lambda carry: carry[0] < many, below, (jnp.int32(0), state.void))[1]

        some = lax.cond(over_lanes(empty.astype(jnp.int32)) > 0, barren, lambda _: state.barren, None)
        any_ = over_lanes(jnp.any(some).astype(jnp.int32)) > 0
        return state._replace(barren=some, void=lax.cond(any_, void, lambda _: state.void, some))

    def _elsewhere(self, size: Array, known: Array) -> Array:
        """How many entities a list may have beside those ``known`` at a node; ``size``: retrieved in all."""
        return size - known if self.exclude_from == "all" else jnp.zeros_like(known)

    def _unseen(self, view: View) -> Array:
        """The gain of a node without answers, (C,)."""
        return jnp.array([k if self.unseen == "k" else 1 for k, _ in view.configurations], jnp.float32)

    def _lists(
        self, view: View, choices: Stream, purpose: int, node: Array, n: Array, pool: Array, copies: int
    ) -> Array:
        """Exclude lists, as ranks among a pool: first a node's entities in the order of their columns, then others.

        Each list is drawn entity by entity without replacement, so that its first l are a list of l.

        Args:
            choices, purpose: of the words, the stream of each node's lane; node, n: int32 (nodes,), their address.
            pool: int32 (1 or copies, nodes), how many there are.
            copies: lists of each node.

        Returns:
            int32 (l_max, copies, nodes).
        """
        pair = _list_words(choices, purpose, node, n, view.l_max, copies)
        ranks = ranks_without_replacement(pair, view.l_max, pool, fenced)
        return jnp.stack(ranks) if ranks else jnp.zeros((0, copies, node.shape[0]), jnp.int32)

    def _gains(self, view: View, sizes: Array, f: Array, ranks: Array, pool: Array, past: Past) -> list[Array]:
        """The gain of each configuration by samples and exclude lists.

        Args:
            sizes: int32 (nodes, V); f: int32 (1 or lists, nodes, V): one sample for all lists, or one for each.
            ranks, pool: see ``_lists``.
            past: of the nodes.

        Returns:
            C arrays, float32 (lists, nodes), or (1, nodes) where l = 0 and there is one sample.
        """
        distinct = jnp.sum(f, axis=2)
        v = f.shape[2]
        # By column; what is used as often as it is below must not be computed each time.
        below = fenced(jnp.moveaxis(before(f), 2, 0))
        if self.estimator in OF_TOTALS:
            whole = Totals(*(x.astype(jnp.int32) for x in totals(f, sizes)))
            size = self._sizes_at(ranks, below, sizes, f)
            if self.exclude_from == "all":
                size = jnp.where(ranks < distinct, size, 0)
            size = fenced(size)
        curve = logistic_fit(past) if self.pairs else None
        if self.estimator in OF_TOTALS:
            return self._of_totals(view, whole, size, pool)
        by_length: dict[int, Array] = {}
        gains = []
        for (k, length), unseen in zip(view.configurations, self._unseen(view), strict=True):
            if length not in by_length:
                left = jnp.broadcast_to(f, (*(ranks if length else distinct).shape[-2:], v))
                under = jnp.moveaxis(below, 0, 2)
                for rank in ranks[:length, :, :, None]:
                    left = left - ((rank >= under) & (rank < under + f)).astype(jnp.int32)
                by_length[length] = left
            some = jnp.sum(by_length[length], axis=2) > 0
            each = self._estimated(by_length[length], k, sizes, curve)
            gains.append(jnp.where((pool > length) & some, each, unseen))
        return gains

    def _of_totals(self, view: View, whole: Totals, size: Array, pool: Array) -> list[Array]:
        """``_gains`` by the totals of the ``whole`` samples and how often each entity of a list was seen (``size``)."""
        gains: dict[int, Array] = {}
        lengths = [length for _, length in view.configurations]
        for own in ([c for c, n in enumerate(lengths) if not n], [c for c, n in enumerate(lengths) if n]):
            if not own:
                continue
            rest = {}
            for length in {lengths[c] for c in own}:
                gone = size[:length]
                rest[length] = (
                    Totals(
                        whole.n - jnp.sum(gone, axis=0),
                        whole.distinct - jnp.sum(gone > 0, axis=0),
                        whole.f1 - jnp.sum(gone == 1, axis=0),
                        whole.f2 - jnp.sum(gone == 2, axis=0),
                        whole.pairs - jnp.sum(gone * (gone - 1), axis=0),
                    )
                    if length
                    else whole
                )
            # Where there are no more than so many, all are excluded.
            stacked = (jnp.stack(some) for some in zip(*(rest[lengths[c]] for c in own), strict=True))
            left = Totals(*(fenced(jnp.maximum(x, 0)).astype(jnp.float32) for x in stacked))
            m, least, unseen = (
                x[np.array(own)][:, None, None]
                for x in (np.array([k for k, _ in view.configurations]), np.array(lengths), self._unseen(view))
            )
            each = OF_TOTALS[self.estimator](left, m)
            each = jnp.where((pool > least) & (left.distinct > 0), each, unseen)
            # No gain is negative: its bits are those of a whole number.
            bits = fenced(lax.bitcast_convert_type(jnp.abs(each), jnp.int32))
            gains |= dict(zip(own, lax.bitcast_convert_type(bits, jnp.float32), strict=True))
        return [gains[c] for c in range(len(lengths))]

    def _sizes_at(self, ranks: Array, below: Array, sizes: Array, f: Array) -> Array:
        """The size of the column that each rank is in; see ``_gains``. ``below``: the ranks at which columns begin."""
        v = f.shape[2]
        more = jnp.diff(sizes, axis=1, prepend=0)
        used = jnp.max(jnp.where(f > 0, jnp.arange(v), 0))
        size = jnp.zeros_like(ranks)
        for start in range(0, v, _COLUMNS):

            def further(size: Array, start: int = start) -> Array:
                # Written out: a sum over so long an axis would be stored before it is summed.
                for i in range(start, min(start + _COLUMNS, v)):
                    size += jnp.where(ranks >= below[i], more[:, i], 0)
                return size

            size = where_due(used >= start, further, size)
        return size

    def _estimated(self, f: Array, k: int, sizes: Array, curve: Logistic | None) -> Array:
        """The gain of k answers by the estimator, of samples (lists, nodes, V)."""

        def one(f: Array, sizes: Array, curve: Logistic | None) -> Array:
            if self.estimator == "new-regr":
                return new_regr(f, k, sizes, curve)
            return ESTIMATORS[self.estimator](f, k, sizes)

        gains: Array = jax.vmap(one, in_axes=(1, 0, 0), out_axes=1)(f, sizes, curve)
        return gains

    def done(self, view: View, state: State) -> Array:
        """No active query is within what is left of the budget."""
        return ~jnp.any(self._askable(view, state, self._costs(view, state)))

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Retrieved.answer``; ``nodes``: how many were active (int32)."""
        return state.got.answer() | {"nodes": jnp.sum(state.entered, dtype=jnp.int32)}


def _list_words(choices: Stream, purpose: int, node: Array, n: Array, length: int, copies: int) -> tuple[Array, Array]:
    """The words of draws 0, 2, 4 ... and 1, 3, 5 ... of exclude lists: uint32 (length / 2, copies, nodes) each."""
    pairs = (length + 1) // 2
    index = jnp.arange(pairs * copies).reshape(pairs, copies, 1)
    return words(substream(choices, purpose, node), n, index)


def _lengths(view: View) -> Array:
    """l of each configuration, int32 (C,)."""
    return jnp.array([length for _, length in view.configurations], jnp.int32)


def _parents(poset: Poset) -> np.ndarray:
    """The nodes right above each node, (N, P), ``FREE`` where there are no more."""
    start, child = np.asarray(poset.child_start), np.asarray(poset.child)
    parent = np.repeat(np.arange(len(start) - 1), np.diff(start))
    order = np.argsort(child, kind="stable")
    child, parent = child[order], parent[order]
    rank = np.arange(len(child)) - np.searchsorted(child, child)
    found = np.full((len(start) - 1, int(rank.max(initial=0)) + 1), FREE, np.int32)
    found[child, rank] = parent
    return found


def crux(
    problem: Extraction,
    estimator: str = "chao92",
    *,
    grow: bool = True,
    removal: str = "lasting",
    removal_at_start: bool = True,
    reentry: bool = True,
    unseen: str = "k",
    gain: str = "sample",
    never_asked: str = "one",
    asked_by: str = "configuration",
    variance_floor: float = 0.01,
    prior: float = 0.0,
    bootstrap: int = 10,
    variance: str = "delta",
    exclude_draws: int = 10,
    exclude_from: str = "node",
    affordable: str = "at most",
    short_list: str = "configured",
    empty: str = "unless-covered",
    nodes: int = 3072,
    columns: int = 48,
) -> Crux:
    """Algorithm 1 for a problem (or for others of the same domain and at most its budget).

    Args:
        problem: what it will run on.
        estimator: of the gain, one of ``ESTIMATORS``; or ``new-regr``, with K' of a logistic curve through the last 64
            pairs (n, K) of the node since it is active.
        grow: whether the children of a node asked come in; else the root alone is asked (RootChao).
        removal: bad queries leave for good ("lasting", Algorithm 2 as printed), for the next round ("fresh"), or stay
            ("none").
        removal_at_start: whether they leave before the first round too (Algorithm 1, line 6). Ln 1 = 0 makes sigma 0
            there, so that only the largest k stay.
        reentry: whether a node asked again brings its children's removed queries in again (a union in Algorithm 2).
        unseen: the gain at a node without answers, or all of whose answers are excluded: "k", or "one".
        never_asked: n_q of a query that was not asked yet: "one"; "plus-one": n_q + 1 for all; "infinite": sigma is.
        asked_by: n_q counts the queries of a "configuration", or of its "node".
        gain: r is the estimate by the node's "sample"; or the "bootstrap-mean", the mean over its resamples. These
            repeat entities, and so their gains are lower.
        variance_floor: the least v_q, at least 0.
        prior: at least 0; r is averaged with that of the root's query of the same (k, l), as if that stood on so many
            answers and the node's on its own n. 0 is the paper's. What a node may bring is not known better than its
            root's gain until it has answers.
        bootstrap: over how many resamples of a node's answers the variance v_q of its gain is taken, each with an
            exclude list of its own; v_q is the larger of that and the floor. 0: v_q is the floor alone, and then all
            but the largest k leave for good, whatever the estimator says.
        variance: of a gain by good-turing or chao92 at a node with more than 31 answers: "delta", the limit of many
            resamples by the delta method, whose square root is within about a tenth of theirs; or "bootstrap", by
            resamples as elsewhere, at many times the price. ``gain`` = "bootstrap-mean" takes resamples everywhere.
        exclude_draws: over how many exclude lists a gain with l > 0 is averaged, at least 1.
        exclude_from: a list is drawn from what was retrieved at the query's "node", or from "all" that was retrieved.
        affordable: a query may cost "at most" what is left, or must cost "less".
        short_list: with fewer than l to exclude, all are, at the price of l ("configured") or of what is there
            ("actual"); or the query cannot be asked yet ("unavailable").
        empty: an empty answer sets the gain at the node and below to 0 "unless-covered", that is unless E held all that
            was retrieved there; "always"; or it is "ignored".
        nodes: slots for active nodes, rounded up to a multiple of 16 (of 256 above 64); a run that needs more leaves
            nodes out, with the code ``OVERFLOW``.
        columns: how many different counts entities may have at a time, at least 3, and a quarter of how often one may
            come up in a resample; likewise.

    Raises:
        BadInput: for a name that does not exist and a number out of range.
    """
    named("estimator", estimator, (*ESTIMATORS, "new-regr"))
    for name, number, least in (("variance_floor", variance_floor, 0), ("prior", prior, 0), ("nodes", nodes, 1),
                                ("exclude_draws", exclude_draws, 1), ("columns", columns, 3),
                                ("bootstrap", bootstrap, 0)):  # fmt: skip
        if not least <= number < 2**31:
            raise BadInput(name, number, f"at least {least}")
    given = {
        "removal": removal, "unseen": unseen, "gain": gain, "never_asked": never_asked, "asked_by": asked_by,
        "variance": variance, "affordable": affordable, "exclude_from": exclude_from, "short_list": short_list,
        "empty": empty,
    }  # fmt: skip
    for name, value in given.items():
        named(name, value, READINGS[name])
    if gain == "bootstrap-mean" and not bootstrap:
        raise BadInput("bootstrap", bootstrap, "at least 1 for gain = bootstrap-mean")
    parents = _parents(problem.poset)
    slots = min(nodes, len(parents)) if grow else 1
    whole = slots if slots == len(parents) <= _WIDE else 0
    if slots > _WIDE:
        slots += -slots % _PART
    elif grow:
        slots += -slots % 16
    widest = int(np.diff(np.asarray(problem.poset.child_start)).max())
    return Crux(
        jnp.float32(variance_floor), jnp.float32(prior), jnp.asarray(parents), estimator,
        retrieved.capacity(problem, short_list == "actual"), slots, columns, _PAIRS if estimator == "new-regr" else 0,
        whole, widest, prior > 0, grow, removal_at_start=removal_at_start, reentry=reentry, bootstrap=bootstrap,
        exclude_draws=exclude_draws, **given,
    )  # fmt: skip
