"""CRUX: Rekatsinas, Deshpande and Parameswaran, "CRUX: Adaptive querying for efficient crowdsourced data extraction",
CIKM 2019, section "Discovering Querying Policies", Algorithms 1 and 2.

A query configuration q = (k, l, v) asks node v for k entities with an exclude list of l. Each round asks the active q
of the highest (r(q) + sigma(q, t)) / c(q) that the budget allows: r is the estimated gain, and sigma(q, t) =
sqrt(v_q log(t) / n_q) with n_q the times q was asked and v_q the gain's variance or a floor. Then the children of its
node come in, and q leaves whose r + sigma is below the largest r - sigma.

An estimate changes only when the node's sample does: its exclude lists and resamples are drawn by (node, n). So a lane
keeps r and v of each active q, and an answer renews those of the nodes above its entities. A sample counts only
through how many entities were seen how often, and so a list of l entities is l draws without replacement from the
frequency counts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.arms.prefix import places
from jaxbandit.errors import BadInput
from jaxbandit.extraction import retrieved
from jaxbandit.extraction.bootstrap import before, resampled, spread
from jaxbandit.extraction.estimators import (
    ESTIMATORS,
    OF_TOTALS,
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
    ancestors,
    exclude_list,
    fresh,
    is_above,
    named,
    ranks_without_replacement,
)
from jaxbandit.random.fence import once, rarely
from jaxbandit.random.stream import substream, words
from jaxbandit.random.trials import over_lanes

READINGS = {
    "removal": ("lasting", "fresh", "none"),
    "unseen": ("k", "one"),
    "gain": ("sample", "bootstrap-mean"),
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
_BLOCK = 16
_FEW = 64
"""Nodes with more answers than this are resampled one at a time, others in blocks."""
_OFTEN = 4
"""In a resample an entity may come up this many times as often as there are columns."""
_PAIRS = 64
"""Pairs (n, K) that a node's logistic curve is fitted to, at most: the last ones."""


class State(NamedTuple):
    """Of S slots for nodes, C configurations, and V columns of frequency counts.

    ``got``; ``sizes``: int32 (V,), the i of each column f_i; ``node``, ``specificity``: int32 (S,), of each slot, the
    first ``filled`` of which are in use (a small domain has slots for all nodes from the beginning, so that none has to
    be made: ``entered`` are those that are in); ``parents``: int32 (S, P), the nodes right above; ``entered``,
    ``grown``: bool (S,), whether the node is active, and
    whether its children are in; ``f``: int32 (S, V); ``asked``: int32 (S, C), n_q; ``gain``, ``variance``: float32
    (S, C); ``active``: bool (S, C); ``barren``: bool (S,), whether the node gave an empty answer that counts;
    ``void``: bool (S,), whether it or a node above it did; ``past``: float32 (S, pairs), of ``new-regr``; ``pairs``:
    int32 (S,), how many there were.
    """

    got: Retrieved
    sizes: Array
    node: Array
    specificity: Array
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
    past: Past
    pairs: Array


class Frontier(NamedTuple):
    """What a lane knows of its slots that their children need; see ``State``."""

    node: Array
    specificity: Array
    parents: Array
    filled: Array
    f: Array
    void: Array


@rarely
def _with_children(
    known: Frontier, poset: Poset, parents: Array, node: Array, got: Retrieved, sizes: Array, barren: Array
) -> Frontier:
    """With the children of ``node`` that have no slot yet. ``filled`` may end above the slots there are.

    ``barren``: int32 (S,), the slots' nodes that gave an empty answer that counts, else ``FREE``.
    """
    start, child = jnp.asarray(poset.child_start), jnp.asarray(poset.child)
    begin = start[node]
    count = start[node + 1] - begin
    column = (got.times[:, None] == sizes).astype(jnp.float32)
    leaf = ancestors(poset, got.leaf)

    def more(carry: tuple[Array, Frontier]) -> tuple[Array, Frontier]:
        done, known = carry
        place = done + jnp.arange(_BLOCK, dtype=jnp.int32)
        node = jnp.where(place < count, child[jnp.minimum(begin + place, child.shape[0] - 1)], -1)
        _, new, slot = fresh(node, known.node, known.filled)
        held = is_above(jnp.where(new, node, FREE), leaf)
        f = (held.T.astype(jnp.float32) @ column).astype(jnp.int32)
        void = jnp.any(is_above(barren, ancestors(poset, node)), axis=1)
        own = jnp.maximum(node, 0)
        return done + _BLOCK, Frontier(
            known.node.at[slot].set(node, mode="drop"),
            known.specificity.at[slot].set(jnp.asarray(poset.specificity)[own], mode="drop"),
            known.parents.at[slot].set(parents[own], mode="drop"),
            known.filled + jnp.sum(new, dtype=jnp.int32),
            known.f.at[slot].set(f, mode="drop"),
            known.void.at[slot].set(void, mode="drop"),
        )

    return lax.while_loop(lambda carry: carry[0] < count, more, (jnp.int32(0), known))[1]


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
    grow: bool = field(metadata={"static": True})
    removal: str = field(metadata={"static": True})
    removal_at_start: bool = field(metadata={"static": True})
    reentry: bool = field(metadata={"static": True})
    unseen: str = field(metadata={"static": True})
    never_asked: str = field(metadata={"static": True})
    asked_by: str = field(metadata={"static": True})
    bootstrap: int = field(metadata={"static": True})
    gain: str = field(metadata={"static": True})
    exclude_draws: int = field(metadata={"static": True})
    exclude_from: str = field(metadata={"static": True})
    affordable: str = field(metadata={"static": True})
    short_list: str = field(metadata={"static": True})
    empty: str = field(metadata={"static": True})

    stride = 8

    @property
    def dense(self) -> bool:
        """Where an answer renews all estimates, a step goes over all of a lane's state."""
        return self.nodes <= _WIDE

    def init(self, view: View) -> State:
        """The root's queries, with nothing known."""
        s, c, v = self.nodes, len(view.configurations), self.columns
        place = jnp.arange(s, dtype=jnp.int32)
        first = place == 0
        node = jnp.where(place < self.whole, place, jnp.where(first, 0, FREE))
        own = jnp.maximum(node, 0)
        none = jnp.zeros(s, bool)
        state = State(
            got=Retrieved.nothing(view, self.rows),
            sizes=jnp.arange(1, v + 1, dtype=jnp.int32),
            node=node,
            specificity=jnp.asarray(view.poset.specificity, jnp.int32)[own],
            parents=jnp.where(node[:, None] >= 0, self.parents[own], FREE),
            filled=jnp.int32(max(self.whole, 1)),
            entered=first,
            grown=none,
            f=jnp.zeros((s, v), jnp.int32),
            asked=jnp.zeros((s, c), jnp.int32),
            gain=jnp.broadcast_to(self._unseen(view), (s, c)),
            variance=jnp.zeros((s, c), jnp.float32),
            active=jnp.broadcast_to(first[:, None], (s, c)),
            barren=none,
            void=none,
            past=Past(*[jnp.zeros((s, self.pairs), jnp.float32)] * 2),
            pairs=jnp.zeros(s, jnp.int32),
        )
        return self._without_bad(state, state.active, jnp.int32(1)) if self.removal_at_start else state

    def _sigma(self, state: State, t: Array) -> Array:
        """sigma(q, t), (S, C)."""
        times = state.asked
        if self.asked_by == "node":
            times = jnp.broadcast_to(jnp.sum(times, axis=1, keepdims=True), times.shape)
        often = times + 1 if self.never_asked == "plus-one" else jnp.maximum(times, 1)
        log_t = jnp.log(t.astype(jnp.float32))
        sigma = jnp.sqrt(jnp.maximum(state.variance, self.variance_floor) * log_t / often.astype(jnp.float32))
        return jnp.where(times == 0, jnp.inf, sigma) if self.never_asked == "infinite" else sigma

    def _without_bad(self, state: State, among: Array, t: Array) -> State:
        """Those of the queries ``among`` active that are not bad at round t (Algorithm 2, lines 14 to 16)."""
        if self.removal == "none":
            return state._replace(active=among)
        sigma, r = self._sigma(state, t), self._r(state)
        least = jnp.max(jnp.where(among, r - sigma, -jnp.inf))
        return state._replace(active=among & ~(r + sigma < least))

    def _r(self, state: State) -> Array:
        """r of each query, (S, C): its node's estimate, and the root's as if it stood on ``prior`` answers."""
        n = jnp.sum(state.f * state.sizes, axis=1).astype(jnp.float32)[:, None]
        pooled = (n * state.gain + self.prior * state.gain[0]) / jnp.maximum(n + self.prior, jnp.float32(1e-30))
        return jnp.where((self.prior > 0) & ~state.void[:, None], pooled, state.gain)

    def _costs(self, view: View, state: State) -> Array:
        """int32 (S, C)."""
        if self.short_list == "actual":
            lengths = jnp.minimum(_lengths(view), self._listable(state)[:, None])
            return view.shorter[jnp.arange(lengths.shape[1]), lengths, state.specificity[:, None]]
        cost = jnp.zeros(state.active.shape, jnp.int32)
        for s in range(view.cost.shape[1]):
            cost = jnp.where(state.specificity[:, None] == s, view.cost[None, :, s], cost)
        return cost

    def _listable(self, state: State) -> Array:
        """How many entities a list of each node could have, int32 (S,)."""
        known = jnp.sum(state.f, axis=1)
        return jnp.broadcast_to(state.got.size, known.shape) if self.exclude_from == "all" else known

    def _askable(self, view: View, state: State, cost: Array) -> Array:
        left = view.budget - state.got.spent
        allowed = cost <= left if self.affordable == "at most" else cost < left
        if self.short_list == "unavailable":
            allowed &= _lengths(view) <= self._listable(state)[:, None]
        return state.active & allowed & (left > 0)

    def ask(self, view: View, state: State) -> Pull:
        """The best query that the budget allows; of equal ones the first node's, and its first configuration."""
        cost = self._costs(view, state)
        askable = self._askable(view, state, cost)
        score = (self._r(state) + self._sigma(state, state.got.queries + 1)) / cost.astype(jnp.float32)
        best = jnp.max(jnp.where(askable, score, -jnp.inf))
        c = len(view.configurations)
        place = state.node[:, None] * c + jnp.arange(c, dtype=jnp.int32)
        place = jnp.min(jnp.where(askable & (score == best), place, 2**31 - 1))
        asked = jnp.any(askable)
        place = jnp.where(asked, place, 0)
        node, configuration = place // c, place % c
        length = jnp.where(asked, _lengths(view)[configuration], 0)
        exclude = exclude_list(view, state.got, node, length, self.exclude_from == "all")
        return Pull(node, configuration, exclude, state.got.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Count the answer at all active nodes, let the children in, renew the estimates, drop bad queries."""
        before = state
        here = (state.node == pull.node) & pull.asked
        t = state.got.queries + 1
        price = None
        if self.short_list == "actual":
            length = jnp.sum(pull.exclude >= 0, dtype=jnp.int32)
            price = view.shorter[pull.configuration, length, jnp.asarray(view.poset.specificity)[pull.node]]
        got, news = add(view, state.got, pull, outcome, price)
        sizes, moves, fits = self._moves(state, news)
        member = is_above(state.node, ancestors(view.poset, jnp.where(news.there, news.leaf, -1)))
        mine = here[:, None] & (jnp.arange(state.asked.shape[1]) == pull.configuration)
        got = got._replace(code=jnp.where(fits, got.code, OVERFLOW))
        state = state._replace(got=got, sizes=sizes, asked=state.asked + mine)
        stale = jnp.any(member, axis=0)
        if self.empty != "ignored":
            state, ended = self._emptied(view, before, state, pull, outcome)
            stale |= ended
        if self.grow:
            below = jnp.any(state.parents == pull.node, axis=1) & pull.asked
            if self.whole:
                new = below & ~state.entered
            else:
                state, new = self._grown(view, state, pull)
            state = state._replace(grown=state.grown | here, entered=state.entered | new)
            stale |= new
            entering = new | below if self.reentry else new
        if self.exclude_from == "all":
            stale |= state.entered
        # A slot that is new has counted this answer already.
        state = self._renewed(view, state, stale, jnp.where(before.node >= 0, member, False), moves)
        if self.bootstrap:
            state = self._resampled(view, state, stale)
        if self.removal == "fresh":
            among = jnp.broadcast_to(state.entered[:, None], state.active.shape)
        else:
            among = (state.active | entering[:, None]) if self.grow else state.active
        state = self._without_bad(state, among, t)
        return state._replace(active=jnp.where(pull.asked, state.active, before.active))

    def _grown(self, view: View, state: State, pull: Pull) -> tuple[State, Array]:
        """With slots for the children of the pull's node; which of them are new (bool, (S,))."""
        grows = pull.asked & ~jnp.any((state.node == pull.node) & state.grown)
        known = Frontier(state.node, state.specificity, state.parents, state.filled, state.f, state.void)
        barren = jnp.where(state.barren, state.node, FREE)
        poset = jax.tree.map(jnp.asarray, view.poset)
        after = _with_children(grows, known, known, poset, self.parents, pull.node, state.got, state.sizes, barren)
        overflow = jnp.where(after.filled > self.nodes, OVERFLOW, state.got.code)
        new = (after.node >= 0) & (state.node < 0)
        state = state._replace(
            got=state.got._replace(code=overflow), node=after.node, specificity=after.specificity,
            parents=after.parents, filled=jnp.minimum(after.filled, self.nodes), f=after.f, void=after.void,
        )  # fmt: skip
        return state, new

    def _renewed(self, view: View, state: State, stale: Array, member: Array, moves: Array) -> State:
        """With the answer counted and the gains renewed in the slots that are stale.

        ``member``: bool (k_max, S), which slots count which entity of the answer; ``moves``: see ``_moves``.
        """

        def renewed(
            member: Array, entered: Array, node: Array, f: Array, void: Array, past: Past, pairs: Array
        ) -> tuple[Array, Array, Past, Array]:
            f = f + (member.T.astype(jnp.float32) @ moves.astype(jnp.float32)).astype(jnp.int32)
            if self.pairs:
                curve = hwang_shen_k(f, state.sizes)
                one = curve.known & jnp.any(member, axis=0) & entered
                here = (jnp.arange(self.pairs) == (pairs % self.pairs)[:, None]) & one[:, None]
                n = jnp.sum(f * state.sizes, axis=1).astype(jnp.float32)
                past = Past(jnp.where(here, n[:, None], past.n), jnp.where(here, jnp.exp(curve.log_k)[:, None], past.k))
                pairs = pairs + one
            return f, self._estimates(view, state, node, f, void, past), past, pairs

        if self.nodes <= _WIDE:
            f, gain, past, pairs = renewed(
                member, state.entered, state.node, state.f, state.void, state.past, state.pairs
            )
            return state._replace(f=f, gain=jnp.where(stale[:, None], gain, state.gain), past=past, pairs=pairs)

        def some(slot: Array, whole: Any) -> Any:
            f, _, past, pairs = jax.tree.map(lambda x: x[slot], whole)
            return renewed(member[:, slot], state.entered[slot], state.node[slot], f, state.void[slot], past, pairs)

        f, gain, past, pairs = _by_blocks(some, stale, (state.f, state.gain, state.past, state.pairs), _BLOCK)
        return state._replace(f=f, gain=gain, past=past, pairs=pairs)

    def _resampled(self, view: View, state: State, stale: Array) -> State:
        """With the variances of the slots that are stale, and their gains if these are means over resamples."""
        answers = jnp.sum(state.f * state.sizes, axis=1)
        stale &= (answers > 0) & ~state.void
        whole = state.gain, jnp.where(state.void[:, None], 0, state.variance), state.got.code
        for many in (False, True):
            columns = _OFTEN * self.columns if many else _FEW

            def some(slot: Array, whole: Any, columns: int = columns) -> Any:
                gain, variance, fits = self._bootstrapped(view, state, slot, columns)
                if self.gain == "sample":
                    gain = state.gain[slot]
                return gain, variance, jnp.where(fits, whole[2], OVERFLOW)

            here = stale & ((answers > _FEW) == many)
            whole = _by_blocks(some, here, whole, 1 if many else _BLOCK)
        gain, variance, code = whole
        return state._replace(gain=gain, variance=variance, got=state.got._replace(code=code))

    def _bootstrapped(self, view: View, state: State, slot: Array, columns: int) -> tuple[Array, Array, Array]:
        """Over the resamples of some slots: the mean gains and their variances, float32 (slots, C) both; and whether
        an entity never came up more than ``columns`` times in one."""
        f, node = state.f[slot], state.node[slot]
        again, fits = resampled(substream(view.choices, RESAMPLE, node), f, state.sizes, self.bootstrap, columns)
        again = jnp.moveaxis(again, 1, 0)
        n, distinct = jnp.sum(f * state.sizes, axis=1), jnp.sum(again, axis=2)
        pool = distinct + self._elsewhere(state, f)
        ranks = self._lists(view, RELIST, node, n, pool, self.bootstrap)
        sizes = jnp.arange(1, columns + 1, dtype=jnp.int32)
        past = jax.tree.map(lambda x: x[slot], state.past)
        gains = self._gains(view, sizes, again, ranks, pool, past)
        mean, variance = zip(*map(spread, gains), strict=True)
        return jnp.stack(mean, axis=1), jnp.stack(variance, axis=1), fits

    def _moves(self, state: State, news: retrieved.News) -> tuple[Array, Array, Array]:
        """The columns' sizes, and what an entity of the answer adds to them (int32, (k_max, V)): its former column
        loses one and the next gains one. A size that has no column takes an empty one, from the end; whether there
        was one each time (bool)."""
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
        gains = (sizes == now[:, None]) & there
        loses = (sizes == news.before[:, None]) & there & (news.before > 0)[:, None]
        moves = gains.astype(jnp.int32) - loses.astype(jnp.int32)
        return sizes, moves, jnp.all(jnp.any(gains, axis=1) | ~news.there)

    def _emptied(
        self, view: View, before: State, state: State, pull: Pull, outcome: Outcome
    ) -> tuple[State, Array]:  # fmt: skip
        """After an empty answer nothing is expected at the node and below; which slots that ends (bool, (S,))."""
        here = (state.node == pull.node) & pull.asked & ~jnp.any(outcome.entity >= 0)

        def below(_: None) -> tuple[Array, Array]:
            counts = here
            if self.empty == "unless-covered":
                known = jnp.sum(jnp.where(here[:, None], before.f, 0))
                held = before.got.under(view, pull.node) & jnp.any(before.got.entity[:, None] == pull.exclude, axis=1)
                counts &= (known == 0) | (jnp.sum(held) < known)
            return counts, jnp.any(counts) & jnp.any(ancestors(view.poset, state.node) == pull.node, axis=1)

        nothing = jnp.zeros_like(here)
        empty = over_lanes(jnp.any(here).astype(jnp.int32)) > 0
        counts, ended = lax.cond(empty, below, lambda _: (nothing, nothing), None)
        return state._replace(barren=state.barren | counts, void=state.void | ended), ended

    def _estimates(self, view: View, state: State, node: Array, f: Array, void: Array, past: Past) -> Array:
        """The gains of some nodes' queries by their samples ``f`` (nodes, V): float32 (nodes, C)."""
        n, distinct = jnp.sum(f * state.sizes, axis=1), jnp.sum(f, axis=1)
        pool = (distinct + self._elsewhere(state, f))[None]
        ranks = self._lists(view, LIST, node, n, pool, self.exclude_draws)
        gains = self._gains(view, state.sizes, f[None], ranks, pool, past)
        mean = jnp.stack([jnp.sum(each, axis=0) / each.shape[0] for each in gains], axis=1)
        return jnp.where(void[:, None], 0, mean)

    def _elsewhere(self, state: State, f: Array) -> Array:
        """How many entities a list may have that were not retrieved at a node: int32, of ``f``'s leading axes."""
        known = jnp.sum(f, axis=-1)
        return state.got.size - known if self.exclude_from == "all" else jnp.zeros_like(known)

    def _unseen(self, view: View) -> Array:
        """The gain of a node without answers, (C,)."""
        return jnp.array([k if self.unseen == "k" else 1 for k, _ in view.configurations], jnp.float32)

    def _lists(self, view: View, purpose: int, node: Array, n: Array, pool: Array, copies: int) -> Array:
        """Exclude lists, as ranks among a pool: first a node's entities in the order of their columns, then others.

        Each list is drawn entity by entity without replacement, so that its first l are a list of l.

        Args:
            purpose: of the words; node, n: int32 (nodes,), their address.
            pool: int32 (1 or copies, nodes), how many there are.
            copies: lists of each node.

        Returns:
            int32 (l_max, copies, nodes).
        """
        pairs = (view.l_max + 1) // 2
        index = jnp.arange(pairs * copies).reshape(pairs, copies, 1)
        word = jnp.stack(words(substream(view.choices, purpose, node), n, index), axis=1)
        word = word.reshape(2 * pairs, copies, node.shape[0])[: view.l_max]
        return ranks_without_replacement(word, pool)

    def _gains(self, view: View, sizes: Array, f: Array, ranks: Array, pool: Array, past: Past) -> list[Array]:
        """The gain of each configuration by samples and exclude lists.

        Args:
            sizes: int32 (V,); f: int32 (1 or lists, nodes, V): one sample for all lists, or one for each.
            ranks, pool: see ``_lists``.
            past: of the nodes.

        Returns:
            C arrays, float32 (lists, nodes), or (1, nodes) where l = 0 and there is one sample.
        """
        distinct = jnp.sum(f, axis=2)
        v = f.shape[2]
        # By column; what is used as often as it is below must not be computed each time.
        below = once(jnp.moveaxis(before(f), 2, 0))
        if self.estimator in OF_TOTALS:
            whole = Totals(*(x.astype(jnp.int32) for x in totals(f, sizes)))
            size = jnp.zeros_like(ranks)
            # A loop that is written out: a sum over so long an axis would be stored before it is summed.
            for i in range(v):
                size += jnp.where(ranks >= below[i], sizes[i] - (sizes[i - 1] if i else 0), 0)
            if self.exclude_from == "all":
                size = jnp.where(ranks < distinct, size, 0)
            size = once(size)
        estimate = ESTIMATORS.get(self.estimator, partial(new_regr, curve=logistic_fit(past) if self.pairs else None))
        by_length: dict[int, Array] = {}
        gains = []
        for (k, length), unseen in zip(view.configurations, self._unseen(view), strict=True):
            if self.estimator in OF_TOTALS:
                gone = size[:length]
                rest = Totals(
                    whole.n - jnp.sum(gone, axis=0),
                    whole.distinct - jnp.sum(gone > 0, axis=0),
                    whole.f1 - jnp.sum(gone == 1, axis=0),
                    whole.f2 - jnp.sum(gone == 2, axis=0),
                    whole.pairs - jnp.sum(gone * (gone - 1), axis=0),
                )
                # Where there are no more than so many, all are excluded.
                rest = Totals(*(jnp.maximum(x, 0).astype(jnp.float32) for x in rest))
                some = rest.distinct > 0
                each = OF_TOTALS[self.estimator](rest, k)
            else:
                if length not in by_length:
                    left = jnp.broadcast_to(f, (*(ranks if length else distinct).shape[-2:], v))
                    under = jnp.moveaxis(below, 0, 2)
                    for rank in ranks[:length, :, :, None]:
                        left = left - ((rank >= under) & (rank < under + f)).astype(jnp.int32)
                    by_length[length] = left
                some = jnp.sum(by_length[length], axis=2) > 0
                each = estimate(by_length[length], k, sizes)
            gains.append(jnp.where((pool > length) & some, each, unseen))
        return gains

    def done(self, view: View, state: State) -> Array:
        """No active query is within what is left of the budget."""
        return ~jnp.any(self._askable(view, state, self._costs(view, state)))

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Retrieved.answer``; ``nodes``: how many were active (int32)."""
        return state.got.answer() | {"nodes": jnp.sum(state.entered, dtype=jnp.int32)}


def _lengths(view: View) -> Array:
    """l of each configuration, int32 (C,)."""
    return jnp.array([length for _, length in view.configurations], jnp.int32)


def _by_blocks(function: Callable[[Array, Any], Any], mask: Array, whole: Any, block: int) -> Any:
    """``whole``, with the rows of the set slots replaced by what ``function`` makes of them, some slots at a time.

    Args:
        function: takes some slots (int32 (block,), slot 0 where there are no more) and ``whole``, and returns their
            rows; a scalar of ``whole`` as it is then.
        mask: bool (S,).
        whole: a tree of arrays of S rows, and of scalars.
        block: static.
    """
    rank = jnp.where(mask, places(mask), -1)
    slots = jnp.arange(mask.shape[0], dtype=jnp.int32)
    many = over_lanes(jnp.sum(mask, dtype=jnp.int32))

    def more(carry: tuple[Array, Any]) -> tuple[Array, Any]:
        done, whole = carry
        here = rank[None, :] == (done + jnp.arange(block, dtype=jnp.int32))[:, None]
        slot = jnp.sum(jnp.where(here, slots, 0), axis=1)
        there = jnp.any(here, axis=1)
        own = function(slot, whole)
        slot = jnp.where(there, slot, mask.shape[0])

        def merged(x: Array, new: Array) -> Array:
            return x.at[slot].set(new, mode="drop") if x.ndim else jnp.where(jnp.any(there), new, x)

        return done + block, jax.tree.map(merged, whole, own)

    return lax.while_loop(lambda carry: carry[0] < many, more, (jnp.int32(0), whole))[1]


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
    bootstrap: int = 0,
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
        bootstrap: over how many resamples the variance v_q of a gain is taken, each with an exclude list of its own;
            0: v_q is the floor.
        exclude_draws: over how many exclude lists a gain with l > 0 is averaged, at least 1.
        exclude_from: a list is drawn from what was retrieved at the query's "node", or from "all" that was retrieved.
        affordable: a query may cost "at most" what is left, or must cost "less".
        short_list: with fewer than l to exclude, all are, at the price of l ("configured") or of what is there
            ("actual"); or the query cannot be asked yet ("unavailable").
        empty: an empty answer sets the gain at the node and below to 0 "unless-covered", that is unless E held all that
            was retrieved there; "always"; or it is "ignored".
        nodes: slots for active nodes, rounded up to a multiple of 16; a run that needs more leaves
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
        "affordable": affordable, "exclude_from": exclude_from, "short_list": short_list, "empty": empty,
    }  # fmt: skip
    for name, value in given.items():
        named(name, value, READINGS[name])
    if gain == "bootstrap-mean" and not bootstrap:
        raise BadInput("bootstrap", bootstrap, "at least 1 for gain = bootstrap-mean")
    parents = _parents(problem.poset)
    slots = min(nodes, len(parents)) if grow else 1
    whole = slots if slots == len(parents) <= _WIDE else 0
    slots += -slots % 16 if grow else 0
    return Crux(
        jnp.float32(variance_floor), jnp.float32(prior), jnp.asarray(parents), estimator,
        retrieved.capacity(problem, short_list == "actual"), slots, columns, _PAIRS if estimator == "new-regr" else 0,
        whole, grow, removal_at_start=removal_at_start, reentry=reentry, bootstrap=bootstrap,
        exclude_draws=exclude_draws, **given,
    )  # fmt: skip
