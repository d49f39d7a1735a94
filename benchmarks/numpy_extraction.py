"""CRUX with Chao92 and Shen's estimator (GSChao) in NumPy, one extraction at a time: what jaxbandit is timed against.

Written as a good engineer would: all active nodes, configurations, exclude lists and bootstrap samples of a round are
computed in a few array operations, and only the nodes that an answer touched and that have an active query. A variance
is over ``bootstrap`` resamples, each with a list, and by the delta method where a node has many answers. Runs are
spread over processes, one a core. Readings are as in ``numba_extraction``.
"""

import itertools
import multiprocessing
import os
from multiprocessing.pool import Pool, ThreadPool
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtr

if TYPE_CHECKING:
    from jaxbandit.extraction import Domain, Extraction

REMOVALS = ("none", "lasting", "fresh")
FLOOR, LISTS = 0.01, 10
FEW = 31
"""Variances are by resamples up to so many answers, and by the delta method above."""


class Arrays(NamedTuple):
    """A problem as arrays: members of node v by descending popularity, and the sum of popularities up to each."""

    start: np.ndarray
    member: np.ndarray
    until: np.ndarray
    weight: np.ndarray
    leaf: np.ndarray
    ancestors: np.ndarray
    specificity: np.ndarray
    child_start: np.ndarray
    child: np.ndarray
    cost: np.ndarray
    k: np.ndarray
    length: np.ndarray


def arrays(domain: "Domain", problem: "Extraction") -> Arrays:
    """The arrays of one of our problems."""
    start, member = (np.asarray(x) for x in (problem.crowd.start, problem.crowd.member))
    weight = np.asarray(domain.popularity)
    until = np.concatenate([np.cumsum(weight[member[a:b]]) for a, b in itertools.pairwise(start)])
    poset = domain.poset
    k, length = (np.array(x, np.int64) for x in zip(*problem.configurations, strict=True))
    found = (start, member, until, weight, domain.leaf, poset.ancestors, poset.specificity, poset.child_start)
    return Arrays(*map(np.asarray, (*found, poset.child, problem.cost, k, length)))


def capacity(of: Arrays, budget: int) -> int:
    """How many answers a budget can pay for."""
    return int(max(budget * k / cost.min() for k, cost in zip(of.k, of.cost, strict=True))) + 1


def _proportional(of: Arrays, rng: np.random.Generator, node: int, k: int, exclude: np.ndarray) -> np.ndarray:
    begin, end = of.start[node], of.start[node + 1]
    member, until = of.member[begin:end], of.until[begin:end]
    if member.size <= k + exclude.size:
        member = member[~np.isin(member, exclude)]
        if member.size <= k:
            return member
        return member[np.argpartition(rng.exponential(size=member.size) / of.weight[member], k)[:k]]
    drawn = np.empty(0, np.int64)
    for _ in range(8):
        more = member[np.searchsorted(until, rng.random(2 * k + exclude.size) * until[-1], side="right")]
        drawn = np.concatenate([drawn, more[~np.isin(more, exclude)]])
        _, first = np.unique(drawn, return_index=True)
        drawn = drawn[np.sort(first)]
        if drawn.size >= k:
            return drawn[:k]
    left = member[~np.isin(member, np.concatenate([exclude, drawn]))]
    rings = rng.exponential(size=left.size) / of.weight[left]
    return np.concatenate([drawn, left[np.argsort(rings)[: k - drawn.size]]])


def _k_largest(of: Arrays, rng: np.random.Generator, node: int, k: int, exclude: np.ndarray) -> np.ndarray:
    member = of.member[of.start[node] : of.start[node + 1]]
    done, entity, key = 0, np.empty(0, np.int64), np.empty(0)
    width = 8 * k
    while done < member.size and (entity.size < k or of.weight[member[done]] > key.min()):
        more = member[done : done + width]
        done, width = done + width, 2 * width
        more = more[~np.isin(more, exclude)]
        entity, key = np.concatenate([entity, more]), np.concatenate([key, rng.random(more.size) * of.weight[more]])
        if entity.size > k:
            best = np.argpartition(-key, k)[:k]
            entity, key = entity[best], key[best]
    return entity


def _subsets(rng: np.random.Generator, size: np.ndarray, count: int) -> np.ndarray:
    """For each of the sizes, all at least ``count``, as many of 0 ... size - 1 at random: (..., count) (Floyd)."""
    chosen = np.empty((*size.shape, count), np.int64)
    drawn = rng.random(chosen.shape)
    for j in range(count):
        top = size - count + j
        one = (drawn[..., j] * (top + 1)).astype(np.int64)
        again = (chosen[..., :j] == one[..., None]).any(axis=-1)
        chosen[..., j] = np.where(again, top, one)
    return chosen


def moments(i: np.ndarray) -> np.ndarray:
    """What ``delta`` sums over entities, of those that came ``i`` times: (12, ...)."""
    none = np.exp(-i)
    once = i * none
    return np.stack([i, 1 - none, once, i**2, i**3, i**4, none - none**2, none * once, once - once**2, i * once,
                     i**2 * once, none])  # fmt: skip


TABLE = moments(np.arange(4096.0))
"""``moments`` by how often an entity came."""


def delta(sums, m, length):  # type: ignore[no-untyped-def]
    """The variance of a gain over bootstrap samples of many answers, by the delta method, from ``sums`` of ``moments``.

    In a resample counts are Poisson variables, given that they sum to n. Works on arrays, and on numbers in numba.

    Returns:
        The variance where entities are left, how many standard deviations the number of entities has to fall for none
        to be left, and the gain.
    """
    n, distinct, ones, i2, i3, i4, var_d, d_ones, var_ones, i_once, i2_once, _none = sums
    pool = np.maximum(distinct, length + 1)
    kept = 1 - length / pool
    # The gain and its derivatives by n, D, f1 and the sum of i (i - 1) f_i, at the means of what a list leaves.
    n_, d_, ones_, pairs_ = n * kept, distinct * kept, ones * kept, i2 * kept
    seen = n_ - ones_
    ratio = d_ * pairs_ / (seen * (n_ - 1))
    above, most = n_ * ratio * (ratio > 1), d_ + n_ * np.maximum(ratio - 1, 0)
    f0, unseen = np.maximum(most * ones_ / seen, 1e-30), ones_ / n_
    base = np.minimum(unseen / f0, 1)
    hit, slope = 1 - (1 - base) ** m, m * (1 - base) ** (m - 1)
    gain, by_f0, share = f0 * hit, hit - base * slope, ones_ / seen
    g_n = by_f0 * (share * ((most - d_) / n_ - above / seen - above / (n_ - 1)) - f0 / seen) - slope * unseen / n_
    g_d, g_pairs = by_f0 * share * (1 + above / d_), by_f0 * share * above / np.maximum(pairs_, 1e-30)
    g_ones = by_f0 * (f0 / seen + most / seen + share * above / seen) + slope / n_
    with_d, with_ones, with_pairs = ones, ones - i_once, 2 * i2
    radial = g_n * n + g_d * distinct + g_ones * ones + g_pairs * i2
    square = (
        g_n * g_n * (i2 + n) + g_d * g_d * distinct + g_ones * g_ones * ones
        + g_pairs * g_pairs * (i4 + 4 * i3 + 2 * i2) + 2 * g_d * g_pairs * i2
        + 2 * (g_n * g_d * n + g_n * g_ones * ones + g_n * g_pairs * (i3 + 2 * i2) + g_d * g_ones * ones)
    )  # fmt: skip
    listed = length * kept * pool / (pool - 1) * np.maximum(square / pool - (radial / pool) ** 2, 0)
    g_d, g_ones, g_pairs = kept * g_d + radial * length / pool**2, kept * g_ones, kept * g_pairs
    along = g_d * with_d + g_ones * with_ones + g_pairs * with_pairs
    drawn = (
        g_d * g_d * var_d + g_ones * g_ones * var_ones + g_pairs * g_pairs * (4 * i3 + 2 * i2)
        + 2 * (g_d * g_ones * d_ones + g_d * g_pairs * i_once - g_ones * g_pairs * i2_once) - along * along / n
    )  # fmt: skip
    fall = (length + 0.5 - distinct) / np.sqrt(np.maximum(var_d - with_d**2 / n, 1e-6))
    return np.maximum(drawn, 0) + listed, fall, gain


def _gain(n: np.ndarray, distinct: np.ndarray, ones: np.ndarray, pairs: np.ndarray, m: int) -> np.ndarray:
    """Chao92 and Shen, from n > 0, D, f1 and the sum of i (i - 1) f_i."""
    unseen = ones / n
    cover = np.maximum(1 - unseen, 1e-12)
    gamma = np.maximum(distinct / cover * pairs / np.maximum(n * (n - 1), 1) - 1, 0)
    f0 = np.maximum(distinct / cover + n * unseen / cover * gamma - distinct, 1e-12)
    gain = f0 * (1 - np.maximum(1 - unseen / f0, 0) ** m)
    return np.where(ones == n, m * unseen, np.where(ones == 0, 0.0, gain))


class Runs:
    """Runs of one problem, one after the other; the memory is made once."""

    def __init__(self, of: Arrays, largest: bool, budget: int, removal: str, bootstrap: int, slots: int) -> None:
        self.of, self.largest, self.budget = of, largest, budget
        self.removal, self.bootstrap, self.slots = removal, bootstrap, slots
        most, configurations = capacity(of, budget), of.k.size
        self.slot_of = np.full(of.specificity.size, -1, np.int64)
        self.row_of = np.full(of.leaf.size, -1, np.int64)
        self.entity, self.times = np.empty(most, np.int64), np.empty(most, np.int64)
        self.rows = np.empty((slots, most), np.int32)
        self.node = np.empty(slots, np.int64)
        self.totals = np.empty((4, slots), np.int64)  # n, D, f1 and the sum of i (i - 1) f_i
        self.cost, self.asked = (np.empty((slots, configurations), np.int64) for _ in range(2))
        self.gain, self.variance = (np.empty((slots, configurations)) for _ in range(2))
        self.active = np.empty((slots, configurations), bool)
        self.void, self.barren, self.due = (np.empty(slots, bool) for _ in range(3))

    def _enter(self, nodes: np.ndarray, size: int) -> None:
        """Gives slots to nodes, with what was retrieved below them."""
        of, first = self.of, self.filled
        if first + nodes.size > self.slots:
            raise MemoryError("more active nodes than slots")
        here = slice(first, first + nodes.size)
        self.filled += nodes.size
        self.slot_of[nodes] = np.arange(first, self.filled)
        self.node[here], self.totals[:, here], self.asked[here] = nodes, 0, 0
        self.cost[here] = of.cost[:, of.specificity[nodes]].T
        self.gain[here], self.variance[here], self.active[here] = of.k, 0, True
        above = of.ancestors[nodes]
        above = np.where(above >= 0, self.slot_of[above], -1)
        self.barren[here], self.due[here] = False, True
        self.void[here] = ((above >= 0) & self.barren[above]).any(axis=1)
        above = of.ancestors[of.leaf[self.entity[:size]]]
        slot = np.where(above >= 0, self.slot_of[above], -1)
        row, column = np.nonzero(slot >= first)
        self._append(slot[row, column], row, self.times[row])

    def _append(self, slot: np.ndarray, row: np.ndarray, times: np.ndarray) -> None:
        """Adds rows that are new to nodes, having come ``times`` times each."""
        order = np.argsort(slot, kind="stable")
        slot, row, times = slot[order], row[order], times[order]
        place = np.arange(slot.size) - np.searchsorted(slot, slot)
        self.rows[slot, self.totals[1, slot] + place] = row
        for total, more in zip(self.totals, (times, 1, times == 1, times * (times - 1)), strict=True):
            np.add.at(total, slot, more)

    def _estimate(self, rng: np.random.Generator, slots: np.ndarray) -> None:
        """Renews the gains and variances of some slots."""
        of = self.of
        self.gain[slots] = np.where(self.void[slots, None], 0, of.k)
        self.variance[slots] = 0
        slots = slots[~self.void[slots] & (self.totals[0, slots] > 0)]
        if not slots.size:
            return
        n, distinct, ones, pairs = self.totals[:, slots]
        for c, (k, length) in enumerate(zip(of.k, of.length, strict=True)):
            if length == 0:
                self.gain[slots, c] = _gain(n, distinct, ones, pairs, k)
            else:
                some = distinct > length
                chosen = _subsets(rng, np.broadcast_to(distinct[some, None], (some.sum(), LISTS)), length)
                gone = self.times[self.rows[slots[some, None, None], chosen]]
                totals = [total[some, None] for total in (n, distinct, ones, pairs)]
                self.gain[slots[some], c] = _without(totals, gone, k).mean(axis=1)
        if self.bootstrap:
            few = n <= FEW
            if few.any():
                self._resample(rng, slots[few], n[few], distinct[few])
            if not few.all():
                self._by_delta(slots[~few], distinct[~few])

    def _by_delta(self, slots: np.ndarray, distinct: np.ndarray) -> None:
        of, first = self.of, np.cumsum(distinct) - distinct
        held = self.rows[np.repeat(slots, distinct), np.arange(distinct.sum()) - np.repeat(first, distinct)]
        sums = np.add.reduceat(TABLE[:, self.times[held]], first, axis=1)
        for c, (k, length) in enumerate(zip(of.k, of.length, strict=True)):
            variance, fall, gain = delta(sums, k, length)
            short = ndtr(fall) if length else 0
            self.variance[slots, c] = (1 - short) * (variance + short * (k - gain) ** 2)

    def _resample(self, rng: np.random.Generator, slots: np.ndarray, n: np.ndarray, distinct: np.ndarray) -> None:
        of, first = self.of, np.cumsum(distinct) - distinct
        held = self.rows[np.repeat(slots, distinct), np.arange(distinct.sum()) - np.repeat(first, distinct)]
        answers = np.repeat(np.arange(held.size), self.times[held])
        drawn = rng.random((self.bootstrap, answers.size)) * np.repeat(n, n)
        drawn = answers[np.repeat(np.cumsum(n) - n, n) + drawn.astype(np.int64)]
        drawn += held.size * np.arange(self.bootstrap)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=self.bootstrap * held.size).reshape(self.bootstrap, -1)
        there, ones, pairs = (
            np.add.reduceat(x, first, axis=1) for x in ((counts > 0) * 1, (counts == 1) * 1, counts * (counts - 1))
        )
        totals = [np.broadcast_to(n, there.shape), there, ones, pairs]
        present = counts[counts > 0]
        begin = (np.cumsum(there) - there.ravel()).reshape(there.shape)
        for c, (k, length) in enumerate(zip(of.k, of.length, strict=True)):
            if length == 0:
                gains = _gain(*totals, k)
            else:
                gains = np.full(there.shape, float(k))
                some = there > length
                gone = present[begin[some][:, None] + _subsets(rng, there[some], length)]
                gains[some] = _without([total[some] for total in totals], gone, k)
            self.variance[slots, c] = gains.var(axis=0)

    def _sigma(self, t: int) -> np.ndarray:
        here = slice(self.filled)
        return np.sqrt(np.maximum(self.variance[here], FLOOR) * np.log(t) / np.maximum(self.asked[here], 1))

    def _keep_good(self, among: np.ndarray, t: int) -> None:
        """Algorithm 2, lines 14 to 16."""
        if self.removal != "none":
            gain, sigma = self.gain[: self.filled], self._sigma(t)
            among = among & (gain + sigma >= (gain - sigma)[among].max())
        self.active[: self.filled] = among

    def run(self, seed: int) -> tuple[int, int, int]:
        """The distinct entities, the queries and the nodes of one run."""
        of, rng = self.of, np.random.default_rng(seed)
        answer = _k_largest if self.largest else _proportional
        self.filled, size, left, t = 0, 0, self.budget, 1
        self._enter(np.zeros(1, np.int64), 0)
        self._keep_good(self.active[:1].copy(), t)
        while left > 0:
            here = slice(self.filled)
            allowed = self.active[here] & (self.cost[here] <= left)
            if not allowed.any():
                break
            score = np.where(allowed, (self.gain[here] + self._sigma(t)) / self.cost[here], -np.inf)
            slot, c = np.nonzero(score == score.max())
            first = np.argmin(self.node[slot] * of.k.size + c)
            s, c = slot[first], c[first]
            distinct = self.totals[1, s]
            count = min(of.length[c], distinct)
            rows = self.rows[s, _subsets(rng, distinct, count)] if count else np.empty(0, np.int64)
            found = answer(of, rng, self.node[s], of.k[c], self.entity[rows])
            left -= self.cost[s, c]
            self.asked[s, c] += 1
            if not found.size and not 0 < distinct == count:
                self.barren[s] = True
                below = (of.ancestors[self.node[here]] == self.node[s]).any(axis=1)
                self.void[here] |= below
                self.due[here] |= below
            new = self.row_of[found] < 0
            fresh = found[new]
            rows = np.where(new, size + np.cumsum(new) - 1, self.row_of[found])
            self.row_of[fresh] = rows[new]
            self.entity[rows[new]], self.times[rows[new]] = fresh, 0
            size += fresh.size
            above = of.ancestors[of.leaf[found]]
            slot = np.where(above >= 0, self.slot_of[above], -1)
            at, column = np.nonzero(slot >= 0)
            slot, before = slot[at, column], self.times[rows[at]]
            old = ~new[at]
            for total, more in zip(
                self.totals, (1, 0, -(before[old] == 1).astype(np.int64), 2 * before[old]), strict=True
            ):
                np.add.at(total, slot[old], more)
            self.times[rows] += 1
            self._append(slot[~old], rows[at[~old]], self.times[rows[at[~old]]])
            self.due[slot] = True
            among = np.ones_like(self.active[here]) if self.removal == "fresh" else self.active[here].copy()
            children = of.child[of.child_start[self.node[s]] : of.child_start[self.node[s] + 1]]
            known = self.slot_of[children]
            among[known[known >= 0]] = True
            self._enter(children[known < 0], size)
            entered = self.filled - among.shape[0]
            among = np.concatenate([among, np.ones((entered, of.k.size), bool)])
            renewed = np.flatnonzero(self.due[: self.filled] & among.any(axis=1))
            self._estimate(rng, renewed)
            self.due[renewed] = False
            self._keep_good(among, t)
            t += 1
        self.slot_of[self.node[: self.filled]] = -1
        self.row_of[self.entity[:size]] = -1
        return size, t - 1, self.filled


def _without(totals: list[np.ndarray], gone: np.ndarray, k: int) -> np.ndarray:
    """The gains when entities that came ``gone`` times each, (..., l), are taken out; some are left."""
    n, distinct, ones, pairs = totals
    less = (gone.sum(-1), gone.shape[-1], (gone == 1).sum(-1), (gone * (gone - 1)).sum(-1))
    return _gain(*(total - some for total, some in zip((n, distinct, ones, pairs), less, strict=True)), k)


_RUNS: Runs


def _begin(*problem: object) -> None:
    global _RUNS
    _RUNS = Runs(*problem)  # type: ignore[arg-type]


def _one(seed: int) -> tuple[int, int, int]:
    return _RUNS.run(seed)


def pool(
    domain: "Domain", problem: "Extraction", *, removal: str = "lasting", bootstrap: int = 10,
    processes: int | None = None, slots: int = 16384,
) -> Pool:  # fmt: skip
    """Processes that are ready to run one of our problems; with 0 of them a thread of this one."""
    of = arrays(domain, problem)
    slots = min(slots, of.specificity.size)
    largest = problem.crowd.model == "k-largest"
    given = (of, largest, int(problem.budget), removal, bootstrap, slots)
    if processes == 0:
        return ThreadPool(1, _begin, given)
    return multiprocessing.get_context("spawn").Pool(processes or os.cpu_count(), _begin, given)


def simulate(ready: Pool, runs: int, seed: int) -> np.ndarray:
    """Distinct entities, queries and nodes of each run: int64, (runs, 3)."""
    seeds = range(seed * 1_000_000, seed * 1_000_000 + runs)
    return np.array(ready.map(_one, seeds, chunksize=1))
