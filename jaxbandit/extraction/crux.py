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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.extraction import retrieved
from jaxbandit.extraction.estimators import ESTIMATORS
from jaxbandit.extraction.problem import Extraction, Outcome, Pull, View
from jaxbandit.extraction.retrieved import (
    FREE,
    LIST,
    OVERFLOW,
    Retrieved,
    add,
    ancestors,
    exclude_list,
    fresh,
    is_above,
    named,
)
from jaxbandit.random.draws import scale
from jaxbandit.random.fence import once
from jaxbandit.random.stream import substream, words
from jaxbandit.random.trials import over_lanes

READINGS = {
    "removal": ("lasting", "fresh", "none"),
    "unseen": ("k", "one"),
    "never_asked": ("one", "plus-one", "infinite"),
    "asked_by": ("configuration", "node"),
    "affordable": ("at most", "less"),
    "short_list": ("configured", "unavailable"),
    "empty": ("unless-covered", "always", "ignored"),
}
"""The readings of the text that are one of a few words; see ``Crux``."""


class State(NamedTuple):
    """Of S slots for nodes, C configurations, and V columns of frequency counts.

    ``got``; ``sizes``: int32 (V,), the i of each column f_i; ``node``, ``specificity``: int32 (S,), of each slot, the
    first ``filled`` of which are in use; ``f``: int32 (S, V); ``asked``: int32 (S, C), n_q; ``gain``, ``variance``:
    float32 (S, C); ``active``: bool (S, C); ``barren``: bool (S,), whether the node gave an empty answer that counts;
    ``void``: bool (S,), whether it or a node above it did.
    """

    got: Retrieved
    sizes: Array
    node: Array
    specificity: Array
    filled: Array
    f: Array
    asked: Array
    gain: Array
    variance: Array
    active: Array
    barren: Array
    void: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Crux:
    """Algorithm 1. ``variance_floor``: float32. All else is static; the readings are named as in ``crux``."""

    variance_floor: Array
    estimator: str = field(metadata={"static": True})
    rows: int = field(metadata={"static": True})
    nodes: int = field(metadata={"static": True})
    columns: int = field(metadata={"static": True})
    grow: bool = field(metadata={"static": True})
    removal: str = field(metadata={"static": True})
    removal_at_start: bool = field(metadata={"static": True})
    reentry: bool = field(metadata={"static": True})
    unseen: str = field(metadata={"static": True})
    never_asked: str = field(metadata={"static": True})
    asked_by: str = field(metadata={"static": True})
    exclude_draws: int = field(metadata={"static": True})
    affordable: str = field(metadata={"static": True})
    short_list: str = field(metadata={"static": True})
    empty: str = field(metadata={"static": True})

    def init(self, view: View) -> State:
        """The root's queries, with nothing known."""
        s, c, v = self.nodes, len(view.configurations), self.columns
        first = jnp.arange(s) == 0
        node = jnp.where(first, 0, FREE)
        none = jnp.zeros(s, bool)
        state = State(
            got=Retrieved.nothing(view, self.rows),
            sizes=jnp.arange(1, v + 1, dtype=jnp.int32),
            node=node,
            specificity=jnp.zeros(s, jnp.int32),
            filled=jnp.int32(1),
            f=jnp.zeros((s, v), jnp.int32),
            asked=jnp.zeros((s, c), jnp.int32),
            gain=jnp.broadcast_to(self._unseen(view), (s, c)),
            variance=jnp.zeros((s, c), jnp.float32),
            active=jnp.broadcast_to(first[:, None], (s, c)),
            barren=none,
            void=none,
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
        sigma = self._sigma(state, t)
        least = jnp.max(jnp.where(among, state.gain - sigma, -jnp.inf))
        return state._replace(active=among & ~(state.gain + sigma < least))

    def _costs(self, view: View, state: State) -> Array:
        """int32 (S, C)."""
        cost = jnp.zeros(state.active.shape, jnp.int32)
        for s in range(view.cost.shape[1]):
            cost = jnp.where(state.specificity[:, None] == s, view.cost[None, :, s], cost)
        return cost

    def _askable(self, view: View, state: State, cost: Array) -> Array:
        left = view.budget - state.got.spent
        allowed = cost <= left if self.affordable == "at most" else cost < left
        if self.short_list == "unavailable":
            lengths = jnp.array([length for _, length in view.configurations], jnp.int32)
            allowed &= lengths <= jnp.sum(state.f, axis=1)[:, None]
        return state.active & allowed & (left > 0)

    def ask(self, view: View, state: State) -> Pull:
        """The best query that the budget allows; of equal ones the first node's, and its first configuration."""
        cost = self._costs(view, state)
        askable = self._askable(view, state, cost)
        score = (state.gain + self._sigma(state, state.got.queries + 1)) / cost.astype(jnp.float32)
        best = jnp.max(jnp.where(askable, score, -jnp.inf))
        c = len(view.configurations)
        place = state.node[:, None] * c + jnp.arange(c, dtype=jnp.int32)
        place = jnp.min(jnp.where(askable & (score == best), place, 2**31 - 1))
        asked = jnp.any(askable)
        place = jnp.where(asked, place, 0)
        node, configuration = place // c, place % c
        lengths = jnp.array([length for _, length in view.configurations], jnp.int32)
        exclude = exclude_list(view, state.got, node, jnp.where(asked, lengths[configuration], 0))
        return Pull(node, configuration, exclude, state.got.queries, asked)

    def tell(self, view: View, state: State, pull: Pull, outcome: Outcome) -> State:
        """Count the answer at all active nodes, let the children in, renew the estimates, drop bad queries."""
        before = state
        here = state.node == pull.node
        t = state.got.queries + 1
        got, news = add(view, state.got, pull, outcome)
        sizes, moves, fits = self._moves(state, news)
        member = is_above(state.node, ancestors(view, jnp.where(news.there, news.leaf, -1)))
        f = state.f + jnp.sum(member[:, :, None] * moves[:, None, :], axis=0)
        mine = here[:, None] & (jnp.arange(state.asked.shape[1]) == pull.configuration) & pull.asked
        state = state._replace(
            got=got._replace(code=jnp.where(fits, got.code, OVERFLOW)), sizes=sizes, f=f, asked=state.asked + mine
        )
        stale = jnp.any(member, axis=0)
        if self.empty != "ignored":
            state, ended = self._emptied(view, before, state, pull, outcome)
            stale |= ended
        among = jnp.ones_like(state.active) if self.removal == "fresh" else state.active
        among &= state.node[:, None] >= 0
        if self.grow:
            state, among, new = self._grown(view, state, among, pull)
            stale |= new
        gain, variance = self._estimates(view, state.sizes, state.node, state.f, state.void)
        state = state._replace(
            gain=jnp.where(stale[:, None], gain, state.gain),
            variance=jnp.where(stale[:, None], variance, state.variance),
        )
        state = self._without_bad(state, among, t)
        return state._replace(active=jnp.where(pull.asked, state.active, before.active))

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
        if self.empty == "unless-covered":
            known = jnp.sum(jnp.where(here[:, None], before.f, 0))
            held = before.got.under(view, pull.node) & jnp.any(before.got.entity[:, None] == pull.exclude, axis=1)
            here &= (known == 0) | (jnp.sum(held) < known)

        def below(_: None) -> Array:
            return jnp.any(here) & jnp.any(ancestors(view, state.node) == pull.node, axis=1)

        ended = lax.cond(over_lanes(jnp.any(here).astype(jnp.int32)) > 0, below, lambda _: jnp.zeros_like(here), None)
        return state._replace(barren=state.barren | here, void=state.void | ended), ended

    def _grown(self, view: View, state: State, among: Array, pull: Pull) -> tuple[State, Array, Array]:
        """The children of the node asked come in; also which slots may be chosen, and which are new."""
        start = jnp.asarray(view.poset.child_start)
        begin, end = start[pull.node], start[pull.node + 1]
        count = jnp.where(pull.asked, end - begin, 0)
        child = jnp.asarray(view.poset.child)
        width, slots = self._block(view), jnp.arange(self.nodes)

        def more(carry: tuple[Array, State, Array, Array]) -> tuple[Array, State, Array, Array]:
            done, state, among, new = carry
            place = done + jnp.arange(width, dtype=jnp.int32)
            node = jnp.where(place < count, child[jnp.minimum(begin + place, child.shape[0] - 1)], -1)
            same, new_node, slot = fresh(node, state.node, state.filled)
            enters = slots[None, :] == slot[:, None]
            held = is_above(node, ancestors(view, state.got.leaf))
            column = state.got.times[:, None] == state.sizes[None, :]
            f = (held.T.astype(jnp.float32) @ column.astype(jnp.float32)).astype(jnp.int32)
            barren = jnp.where(state.barren, state.node, FREE)
            void = jnp.any(is_above(barren, ancestors(view, node)), axis=1)
            entered = jnp.any(enters, axis=0)
            old = jnp.any(same, axis=0) & self.reentry
            overflow = jnp.any(new_node & (slot >= self.nodes))
            specificity = jnp.asarray(view.poset.specificity)[jnp.maximum(node, 0)]
            state = state._replace(
                got=state.got._replace(code=jnp.where(overflow, OVERFLOW, state.got.code)),
                node=state.node.at[slot].set(node, mode="drop"),
                specificity=state.specificity.at[slot].set(specificity, mode="drop"),
                filled=jnp.minimum(state.filled + jnp.sum(new_node, dtype=jnp.int32), self.nodes),
                f=state.f.at[slot].set(f, mode="drop"),
                void=state.void.at[slot].set(void, mode="drop"),
            )
            return done + width, state, among | (entered | old)[:, None], new | entered

        longest = over_lanes(count)
        carry = (jnp.int32(0), state, among, jnp.zeros(self.nodes, bool))
        _, state, among, new = lax.while_loop(lambda carry: carry[0] < longest, more, carry)
        return state, among, new

    def _block(self, view: View) -> int:
        return 16

    def _estimates(self, view: View, sizes: Array, node: Array, f: Array, void: Array) -> tuple[Array, Array]:
        """r and the variance of some nodes' queries: float32 (nodes, C) both.

        Args:
            node: (nodes,); f: (nodes, V); void: (nodes,).
        """
        gain = self._gains(view, sizes, f, lambda: self._lists(view, node, jnp.sum(f * sizes, axis=1), jnp.sum(f, 1)))
        gain = jnp.where(void[:, None], 0, gain)
        return gain, jnp.zeros_like(gain)

    def _unseen(self, view: View) -> Array:
        """The gain of a node without answers, (C,)."""
        return jnp.array([k if self.unseen == "k" else 1 for k, _ in view.configurations], jnp.float32)

    def _lists(self, view: View, node: Array, n: Array, distinct: Array) -> Array:
        """The draws of exclude lists: int32 (nodes, exclude_draws, l_max), draw j below ``distinct`` - j."""
        pairs = (view.l_max + 1) // 2
        own = substream(view.choices, LIST, node)
        index = jnp.arange(self.exclude_draws * pairs).reshape(self.exclude_draws, pairs)
        key = jax.tree.map(lambda x: x[:, None, None], own)
        word = jnp.stack(words(key, n[:, None, None], index), axis=-1).reshape(*n.shape, self.exclude_draws, 2 * pairs)
        j = jnp.arange(view.l_max, dtype=jnp.int32)
        return once(scale(word[..., : view.l_max], jnp.maximum(distinct[:, None, None] - j, 0)))

    def _gains(self, view: View, sizes: Array, f: Array, lists: Callable[[], Array]) -> Array:
        """r of samples: float32 (samples, C)."""
        estimate = ESTIMATORS[self.estimator]
        after = {0: f[:, None, :]}
        if view.l_max:
            drawn = lists()
            # A list takes entities one by one; up to column i there are upto[i] of them left.
            v = jnp.arange(f.shape[1])
            upto = jnp.sum(jnp.where(v[None, :] <= v[:, None], f[:, None, :], 0), axis=-1)[:, None, :]
            for j in range(view.l_max):
                upto = upto - (upto > drawn[:, :, j, None]).astype(jnp.int32)
                after[j + 1] = jnp.diff(upto, prepend=0)
        gains = []
        for (k, length), unseen in zip(view.configurations, self._unseen(view), strict=True):
            rest = after[length]
            each = jnp.where(jnp.sum(rest, axis=-1) > 0, estimate(rest, k, sizes), unseen)
            gains.append(jnp.sum(each, axis=1) / each.shape[1])
        return jnp.stack(gains, axis=1)

    def done(self, view: View, state: State) -> Array:
        """No active query is within what is left of the budget."""
        return ~jnp.any(self._askable(view, state, self._costs(view, state)))

    def answer(self, view: View, state: State) -> dict[str, Array]:
        """See ``Retrieved.answer``; ``nodes``: how many were active (int32)."""
        return state.got.answer() | {"nodes": state.filled}


def crux(
    problem: Extraction,
    estimator: str = "chao92",
    *,
    grow: bool = True,
    removal: str = "lasting",
    removal_at_start: bool = True,
    reentry: bool = True,
    unseen: str = "k",
    never_asked: str = "one",
    asked_by: str = "configuration",
    variance_floor: float = 0.01,
    exclude_draws: int = 10,
    affordable: str = "at most",
    short_list: str = "configured",
    empty: str = "unless-covered",
    nodes: int = 1024,
    columns: int = 48,
) -> Crux:
    """Algorithm 1 for a problem (or for others of the same domain and at most its budget)."""
    given = {
        "removal": removal, "unseen": unseen, "never_asked": never_asked, "asked_by": asked_by,
        "affordable": affordable, "short_list": short_list, "empty": empty,
    }  # fmt: skip
    for name, value in given.items():
        named(name, value, READINGS[name])
    return Crux(
        jnp.float32(variance_floor), estimator, retrieved.capacity(problem),
        min(nodes, len(np.asarray(problem.poset.specificity))) if grow else 1, columns, grow,
        removal_at_start=removal_at_start,
        reentry=reentry, exclude_draws=exclude_draws, **given,
    )  # fmt: skip
