"""What Algorithm 1 of CRUX takes from its oracles: the gain r(q) of each configuration (k, l), and its variance v_q.

A node's sample counts only through how many entities were seen how often. So a list of l entities is l draws without
replacement from the frequency counts, and resamples are frequency counts again. Lists and resamples are drawn by
(node, n), so that an estimate stays what it is until the node has another answer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.extraction.bootstrap import FEW, before, delta_variance, few_resampled, mean, resampled, spread
from jaxbandit.extraction.costs import Configurations
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
from jaxbandit.extraction.readings import Readings
from jaxbandit.extraction.retrieved import LIST, RELIST, RESAMPLE, Retrieved, ancestors, ranks_without_replacement
from jaxbandit.random.stream import Stream, substream, words
from jaxbandit.xla.fence import once_in_blocks as once
from jaxbandit.xla.fence import patiently
from jaxbandit.xla.formula import formula

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32

PAIRS = 64
"""Pairs (n, K) that a node's logistic curve is fitted to, at most: the last ones."""
_FITTED = ("hwang-shen", "new-regr", "new-regr-same")
"""Estimators whose samples cost much, and numbers of answers little."""
OFTEN = 4
"""In a resample of many answers an entity may come up this many times as often as there are columns."""
_COLUMNS = 8
"""Of frequency counts, that are gone through at a time."""


class Samples(NamedTuple):
    """The running samples of some nodes.

    ``f``: frequency counts, and ``sizes``: the size i that each column counts; ``node``: the node's number;
    ``outside``: how many entities that were retrieved at other nodes alone an exclude list may have; ``past``: what
    ``new-regr`` fits its curve to, and ``pairs``: how many pairs there were.
    """

    f: Int32[Array, "nodes V"]
    sizes: Int32[Array, "nodes V"]
    node: Int32[Array, " nodes"]
    outside: Int32[Array, " nodes"]
    past: Past
    pairs: Int32[Array, " nodes"]

    @classmethod
    def nothing(cls, nodes: int, columns: int, pairs: int) -> Samples:
        """Returns the samples of all nodes before the first answer, with columns for sizes from 1 to ``columns``."""
        sizes = jnp.broadcast_to(jnp.arange(1, columns + 1, dtype=jnp.int32), (nodes, columns))
        node, past = jnp.arange(nodes, dtype=jnp.int32), jnp.zeros((nodes, pairs), jnp.float32)
        return cls(0 * sizes, sizes, node, 0 * node, Past(past, past), 0 * node)

    @property
    def n(self) -> Array:
        """Counts the answers at each node: int32 (nodes,)."""
        return jnp.sum(self.f * self.sizes, axis=1, dtype=jnp.int32)

    @property
    def distinct(self) -> Array:
        """Counts the distinct entities at each node: int32 (nodes,)."""
        return jnp.sum(self.f, axis=1, dtype=jnp.int32)


class Spread(NamedTuple):
    """What resamples say: ``mean`` and ``variance`` of each gain, and ``fits``, whether there were columns enough."""

    mean: Float32[Array, "nodes configurations"]
    variance: Float32[Array, "nodes configurations"]
    fits: Bool[Array, " nodes"]


@dataclass(frozen=True)
class Method:
    """A way to the variance of a gain, for nodes of ``least`` to ``most`` answers; ``dear``: whether it takes long."""

    least: int
    most: int
    dear: bool
    spread: Callable[[Samples, Stream], Spread]


@dataclass(frozen=True)
class GainEstimates:
    """Estimates r and the gain's variance for configurations (k, l). Streams are ``View.choices``, one for all nodes or
    one each."""

    readings: Readings
    configurations: Configurations

    @property
    def of_totals(self) -> bool:
        """Says whether the totals of a sample are all that the estimator takes."""
        return self.readings.estimator in OF_TOTALS

    @property
    def pairs(self) -> int:
        """Returns how many pairs a node's ``Past`` has: none where the estimator needs none."""
        return PAIRS if self.readings.estimator == "new-regr" else 0

    def unseen(self) -> Array:
        """Returns the gain that each configuration has at a node without answers: float32 (C,)."""
        return jnp.array([k if self.readings.unseen == "k" else 1 for k, _ in self.configurations], jnp.float32)

    def outside(self, size: Array, known: Array) -> Array:
        """Returns how many entities a list may have beside those ``known`` at a node; ``size``: retrieved in all."""
        return size - known if self.readings.exclude_from == "all" else jnp.zeros_like(known)

    def counted(self, poset: Poset, samples: Samples, retrieved: Retrieved, answered: Array) -> Samples:
        """Counts the samples of all nodes anew, from what is retrieved; ``answered``: see ``recorded``."""
        nodes, above = samples.f.shape[0], ancestors(poset, retrieved.leaf)
        column = jnp.broadcast_to(retrieved.times[:, None] - 1, above.shape)
        f = jnp.zeros_like(samples.f).at[jnp.where(above >= 0, above, nodes), column].add(1, mode="drop")
        samples = samples._replace(f=f)
        samples = samples._replace(outside=self.outside(retrieved.size, samples.distinct))
        return self.recorded(samples, answered)

    def recorded(self, samples: Samples, where: Array) -> Samples:
        """Appends today's pair (n, K) to the past of the nodes ``where`` there is one, if the estimator needs it."""
        if not self.pairs:
            return samples
        curve = jax.vmap(hwang_shen_k)(samples.f, samples.sizes)
        one = curve.known & where
        here = (jnp.arange(self.pairs, dtype=jnp.int32) == (samples.pairs % self.pairs)[:, None]) & one[:, None]
        now = samples.n.astype(jnp.float32), jnp.exp(curve.log_k)
        past = Past(*(jnp.where(here, new[:, None], old) for new, old in zip(now, samples.past, strict=True)))
        return samples._replace(past=past, pairs=samples.pairs + one)

    def gains(self, samples: Samples, choices: Stream) -> Array:
        """Returns the gain of each configuration, the mean over exclude lists: float32 (nodes, C)."""
        pool = (samples.distinct + samples.outside)[None]
        ranks = self._lists(choices, LIST, samples, pool, self.readings.exclude_draws)
        gains = self._gains(samples.sizes, samples.f[None], ranks, pool, samples.past)
        return jnp.stack([mean(each) for each in gains], axis=1)

    def evaluated(self, samples: Samples, choices: Stream) -> tuple[Array, Array, Array]:
        """Returns r and the gain's variance, float32 (nodes, C); and whether all resamples had room (bool)."""
        r, fits = self.gains(samples, choices), jnp.bool_(True)
        variance = jnp.zeros_like(r)
        for method in self.methods():
            here = (samples.n >= method.least) & (samples.n <= method.most)
            spread = method.spread(samples, choices)
            variance = jnp.where(here[:, None], spread.variance, variance)
            if self.readings.gain == "bootstrap-mean":
                r = jnp.where(here[:, None], spread.mean, r)
            fits &= jnp.all(spread.fits | ~here)
        return r, variance, fits

    def methods(self) -> list[Method]:
        """Returns the ways to v_q: one for nodes with few answers, one for others; none where v_q is its floor."""
        if not self.readings.bootstrap:
            return []
        few = self._by_few if self.of_totals else functools.partial(self._by_resamples, FEW)
        smooth = self.of_totals and self.readings.variance == "delta" and self.readings.gain == "sample"
        many = self._by_delta if smooth else functools.partial(self._by_resamples, None)
        return [Method(1, FEW, not self.of_totals, few), Method(FEW + 1, 2**31 - 1, not smooth, many)]

    def _by_few(self, samples: Samples, choices: Stream) -> Spread:
        """By resamples of at most ``FEW`` answers, for estimators of totals."""
        copies = self.readings.bootstrap
        pair = self._list_words(choices, RELIST, samples, copies)
        key = _key(choices, RESAMPLE, samples)
        again = few_resampled(key, samples.f, samples.sizes, pair, samples.outside, copies)
        return self._spread(samples, self._of_totals(*again))

    def _by_resamples(self, columns: int | None, samples: Samples, choices: Stream) -> Spread:
        """By resamples with so many columns of frequency counts, ``OFTEN`` times the sample's where None."""
        copies, columns = self.readings.bootstrap, columns or OFTEN * samples.f.shape[1]
        key = _key(choices, RESAMPLE, samples)
        again, fits = resampled(key, samples.f, samples.sizes, copies, columns)
        again = jnp.moveaxis(again, 1, 0)
        pool = jnp.sum(again, axis=2, dtype=jnp.int32) + samples.outside
        ranks = self._lists(choices, RELIST, samples, pool, copies)
        dense = jnp.broadcast_to(jnp.arange(1, columns + 1, dtype=jnp.int32), (len(samples.f), columns))
        return self._spread(samples, self._gains(dense, again, ranks, pool, samples.past))._replace(fits=fits)

    def _by_delta(self, samples: Samples, _: Stream) -> Spread:
        """By the delta method, for estimators of totals; the mean is none."""
        k, length = np.array(self.configurations).T[:, :, None]
        estimate = OF_TOTALS[self.readings.estimator]
        variance = delta_variance(
            samples.f, samples.sizes, estimate, k, length, samples.outside, self.unseen()[:, None]
        ).T
        return Spread(jnp.zeros_like(variance), variance, jnp.ones(len(samples.f), bool))

    def _spread(self, samples: Samples, gains: list[Array]) -> Spread:
        centre, variance = spread(jnp.stack(gains, axis=2))
        return Spread(centre, variance, jnp.ones(len(samples.f), bool))

    def _list_words(self, choices: Stream, purpose: int, samples: Samples, copies: int) -> tuple[Array, Array]:
        """The words of draws 0, 2, 4 ... and 1, 3, 5 ... of lists: uint32 (l / 2, copies, nodes) each."""
        pairs = (max(length for _, length in self.configurations) + 1) // 2
        index = jnp.arange(pairs * copies, dtype=jnp.int32).reshape(pairs, copies, 1)
        return words(_key(choices, purpose, samples), samples.n, index)

    def _lists(self, choices: Stream, purpose: int, samples: Samples, pool: Array, copies: int) -> Array:
        """Exclude lists, as ranks among a pool: first a node's entities in the order of their columns, then others.

        Each list is drawn entity by entity without replacement, so that its first l are a list of l.

        Args:
            choices, purpose: of the words; their address is (node, n).
            samples: of the nodes.
            pool: int32 (1 or copies, nodes), how many there are.
            copies: lists of each node.

        Returns:
            int32 (l_max, copies, nodes).
        """
        most = max(length for _, length in self.configurations)
        pair = self._list_words(choices, purpose, samples, copies)
        ranks = ranks_without_replacement(pair, most, pool, once)
        return jnp.stack(ranks) if ranks else jnp.zeros((0, copies, len(samples.f)), jnp.int32)

    def _gains(self, sizes: Array, f: Array, ranks: Array, pool: Array, past: Past) -> list[Array]:
        """The gain of each configuration by samples and exclude lists.

        Args:
            sizes: int32 (nodes, V); f: int32 (1 or lists, nodes, V): one sample for all lists, or one for each.
            ranks, pool: see ``_lists``.
            past: of the nodes.

        Returns:
            C arrays, float32 (lists, nodes), or (1, nodes) where l = 0 and there is one sample.
        """
        distinct, v = jnp.sum(f, axis=2, dtype=jnp.int32), f.shape[2]
        # By column; what is used as often as it is below must not be computed each time.
        below = once(jnp.moveaxis(before(f), 2, 0))
        if self.of_totals:
            whole = Totals(*(x.astype(jnp.int32) for x in totals(f, sizes)))
            size = _sizes_at(ranks, below, sizes, f)
            if self.readings.exclude_from == "all":
                size = jnp.where(ranks < distinct, size, 0)
            return self._of_totals(whole, once(size), pool)
        curve = logistic_fit(past) if self.pairs else None
        under, left = jnp.moveaxis(below, 0, 2), {}
        for length in dict.fromkeys(length for _, length in self.configurations):
            rest = jnp.broadcast_to(f, (*(ranks if length else distinct).shape[-2:], v))
            for rank in ranks[:length, :, :, None]:
                rest = rest - ((rank >= under) & (rank < under + f)).astype(jnp.int32)
            left[length] = rest
        each: dict[tuple[int, int], Array] = {}
        for shape in dict.fromkeys(rest.shape for rest in left.values()):
            each |= self._estimated({n: rest for n, rest in left.items() if rest.shape == shape}, sizes, curve)
        gains = []
        for (k, length), unseen in zip(self.configurations, self.unseen(), strict=True):
            some = jnp.sum(left[length], axis=2) > 0
            gains.append(jnp.where((pool > length) & some, each[k, length], unseen))
        return gains

    def _of_totals(self, whole: Totals, size: Array, pool: Array) -> list[Array]:
        """``_gains`` by the totals of the ``whole`` samples and how often each entity of a list was seen (``size``)."""
        gains: dict[int, Array] = {}
        lengths = [length for _, length in self.configurations]
        for own in ([c for c, n in enumerate(lengths) if not n], [c for c, n in enumerate(lengths) if n]):
            if not own:
                continue
            rest = {length: _less(whole, size[:length]) if length else whole for length in {lengths[c] for c in own}}
            # Where there are no more than so many, all are excluded.
            stacked = (jnp.stack(some) for some in zip(*(rest[lengths[c]] for c in own), strict=True))
            left = Totals(*(once(jnp.maximum(x, 0)).astype(jnp.float32) for x in stacked))
            m, least, unseen = (
                x[np.array(own)][:, None, None]
                for x in (np.array([k for k, _ in self.configurations]), np.array(lengths), self.unseen())
            )
            each = formula(OF_TOTALS[self.readings.estimator])(left, m)
            each = jnp.where((pool > least) & (left.distinct > 0), each, unseen)
            # No gain is negative: its bits are those of a whole number.
            bits = once(lax.bitcast_convert_type(jnp.abs(each), jnp.int32))
            gains |= dict(zip(own, lax.bitcast_convert_type(bits, jnp.float32), strict=True))
        return [gains[c] for c in range(len(lengths))]

    def _estimated(self, left: dict[int, Array], sizes: Array, curve: Logistic | None) -> dict[tuple[int, int], Array]:
        """The gain of each configuration whose list has one of some lengths, by the samples that are left without it,
        (lists, nodes, V), all of one shape. The estimator is in the program once for all of them."""
        own = [(k, length) for k, length in self.configurations if length in left]
        ks, lengths = ([*dict.fromkeys(some)] for some in zip(*own, strict=True))
        if self.readings.estimator in _FITTED:  # a curve is fitted to each sample once, whatever k
            places: dict[Any, Any] = {(k, length): (ks.index(k), lengths.index(length)) for k, length in own}
            m = np.array(ks)[:, None, None]
        else:
            places = {one: number for number, one in enumerate(own)}
            m = np.array([[k] for k, _ in own])
            lengths = [length for _, length in own]

        def gain(f: Array, sizes: Array, curve: Logistic | None) -> Array:
            if self.readings.estimator == "new-regr":
                return new_regr(f, m, sizes, curve)
            return ESTIMATORS[self.readings.estimator](f, m, sizes)

        samples = jnp.stack([left[length] for length in lengths])
        gains: Array = jax.vmap(gain, in_axes=(2, 0, 0), out_axes=-1)(samples, sizes, curve)
        return {one: gains[place] for one, place in places.items()}


def _key(choices: Stream, purpose: int, samples: Samples) -> Stream:
    """The stream of each node, (nodes,), computed once for all its words."""
    key = substream(choices, purpose, samples.node)
    both = once(jnp.stack([key.high, key.low], axis=1))
    return Stream(both[:, 0], both[:, 1])


def _less(whole: Totals, gone: Array) -> Totals:
    """The totals without entities that were seen ``gone`` times each, int32 (any, ...)."""
    return Totals(
        whole.n - jnp.sum(gone, axis=0, dtype=jnp.int32),
        whole.distinct - jnp.sum(gone > 0, axis=0, dtype=jnp.int32),
        whole.f1 - jnp.sum(gone == 1, axis=0, dtype=jnp.int32),
        whole.f2 - jnp.sum(gone == 2, axis=0, dtype=jnp.int32),
        whole.pairs - jnp.sum(gone * (gone - 1), axis=0, dtype=jnp.int32),
    )


def _sizes_at(ranks: Array, below: Array, sizes: Array, f: Array) -> Array:
    """The size of the column that each rank is in; ``below``: the ranks at which columns begin."""
    v = f.shape[2]
    pad = [(0, -v % _COLUMNS), (0, 0), (0, 0)]
    more = jnp.pad(jnp.diff(sizes, axis=1, prepend=0).T[:, None], pad)
    below = jnp.pad(below, pad)
    used = jnp.max(jnp.where(f > 0, jnp.arange(v, dtype=jnp.int32), 0))

    def further(number: Array, size: Array) -> Array:
        first, step = (lax.dynamic_slice_in_dim(x, number * _COLUMNS, _COLUMNS) for x in (below, more))
        # Written out: a sum over so long an axis would be stored before it is summed.
        for i in range(_COLUMNS):
            size += jnp.where(ranks >= first[i], step[i], 0)
        return size

    most, none = below.shape[0] // _COLUMNS, jnp.zeros_like(ranks)
    # An accelerator goes through all: a turn takes it no longer than to ask.
    return patiently(most, lambda number, _: number * _COLUMNS <= used, further, none)
