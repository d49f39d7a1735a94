"""Budgeted entity extraction over a hierarchy (CRUX; Rekatsinas, Deshpande, Parameswaran 2019), one step at a time.

Entities are numbered from 0. A node of the poset is a tuple with one tree node per attribute, 0 being the wildcard
root of each tree. A configuration is (k, l); a candidate is (node, k, l), the "query configuration" of the text.

All that is random comes from the caller, with an address (``Draw``), so that a test can hand the same draws to
another implementation:

- ``answer(query)``: the entities that a query returns, a function of the query (which carries its round);
- ``chance.subset(draw, items, size)``: ``size`` of the items, uniformly without replacement (the exclude lists);
  called only when there are more items than that;
- ``chance.resample(draw, counts)``: a bootstrap sample of the same size, as counts again;
- ``chance.pick(draw, items)``: one of the items, uniformly (the random baselines).

Items come in ascending order. Where scores tie, the first candidate wins: by the node's place in ``Poset.nodes``, then
by the place of (k, l) among the configurations. Money is exact (``Fraction``). What the text leaves open is a field of
``Readings`` or an argument; its default comes with the reason.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np

Node = tuple[int, ...]
Candidate = tuple[Node, int, int]
"""A query configuration: the node, k, l."""
Frequencies = Mapping[int, float]
"""f: how many entities were seen i times, for each i >= 1 with f_i > 0."""
History = Sequence[tuple[int, float]]
"""Past pairs (n, K) of a node, n ascending."""
Estimator = Callable[[Frequencies, int, History], float]
"""(f, m, history) -> expected number of new entities among m further answers; n > 0."""

# Estimators. n = sum i f_i answers, D = sum f_i distinct entities.


def frequencies(counts: Iterable[int]) -> dict[int, int]:
    """Return f from how often each entity was seen; entities never seen do not count."""
    return dict(sorted(Counter(c for c in counts if c > 0).items()))


def sample_size(f: Frequencies) -> float:
    """Return n."""
    return sum(i * fi for i, fi in f.items())


def distinct(f: Frequencies) -> float:
    """Return D."""
    return sum(f.values())


def good_turing(f: Frequencies, m: int, history: History = ()) -> float:
    """Return m f1 / n."""
    return m * f.get(1, 0) / sample_size(f)


def chao92(f: Frequencies) -> float:
    """Return N, the estimated number of entities (Chao and Lee 1992, with gamma from D / C); infinite if f1 = n."""
    n, d = sample_size(f), distinct(f)
    coverage = 1 - f.get(1, 0) / n
    if coverage <= 0:
        return math.inf
    pairs = sum(i * (i - 1) * fi for i, fi in f.items())
    gamma2 = max(d / coverage * pairs / (n * (n - 1)) - 1, 0)
    return d / coverage + n * (1 - coverage) / coverage * gamma2


def shen(f0: float, unseen_mass: float, m: int) -> float:
    """Return the new entities among m further answers, f0 (1 - (1 - (1 - C) / f0)^m) (Shen, Chao, Lin 2003).

    ``unseen_mass`` is 1 - C = f1 / n. An infinite f0 gives the limit m f1 / n. If 1 - C exceeds f0 the power's base is
    negative; it is taken as 0, so that the gain is f0, the whole of what is unseen.
    """
    if unseen_mass <= 0 or f0 <= 0:
        return 0.0
    if math.isinf(f0):
        return m * unseen_mass
    return f0 * (1 - max(1 - unseen_mass / f0, 0.0) ** m)


def chao92_shen(f: Frequencies, m: int, history: History = ()) -> float:
    """Return Shen's formula with f0 = N - D of Chao92; m f1 / n = m where f1 = n."""
    return shen(chao92(f) - distinct(f), f.get(1, 0) / sample_size(f), m)


HWANG_B2 = tuple(2.0 ** (j / 8) for j in range(-8, 9))
"""The exponents b2 that are tried: 1/2 to 2. The text bounds b2 by 0 alone, and then K has no finite estimate."""


def hwang_shen_points(f: Frequencies) -> list[tuple[int, float]]:
    """Return the pairs (i, y_i), y_i = (n - i) f_i / ((i + 1) f_(i+1)), for each i with f_i > 0 and f_(i+1) > 0."""
    n = sample_size(f)
    return [(i, (n - i) * f[i] / ((i + 1) * f[i + 1])) for i in sorted(f) if f[i] > 0 and f.get(i + 1, 0) > 0]


def hwang_shen_k(
    f: Frequencies, exponents: Sequence[float] = HWANG_B2, weights: Literal["log", "value"] = "log"
) -> float | None:
    """Return K = n f0 / f1 = b0 of y_i = b0 exp(b1 i^b2), or None where f1 = n, f1 = 0 or f2 = 0.

    For each exponent b2 the fit is a line of log y_i against i^b2, and the exponent with the smallest sum of squares
    is taken, the first one of ties. A line that does not fall (b1 >= 0) is replaced by its limit b1 = 0. Fewer than
    three points do not determine b2: then b2 = 1; a single point gives b1 = 0, hence K = y_1.

    ``weights``: "log" gives each residual of log y_i the same weight, because the ratios y_i scatter in proportion to
    their size; "value" multiplies it by y_i, which to first order is least squares on y_i.
    """
    if f.get(1, 0) <= 0 or f.get(2, 0) <= 0 or f[1] >= sample_size(f):
        return None
    points = hwang_shen_points(f)
    logs = [math.log(y) for _, y in points]
    w = [1.0 if weights == "log" else y * y for _, y in points]
    total = sum(w)
    mean_log = sum(wi * z for wi, z in zip(w, logs, strict=True)) / total
    best: tuple[float, float] | None = None
    for b2 in exponents if len(points) >= 3 else [1.0]:
        x = [i**b2 for i, _ in points]
        mean_x = sum(wi * xi for wi, xi in zip(w, x, strict=True)) / total
        sxx = sum(wi * (xi - mean_x) ** 2 for wi, xi in zip(w, x, strict=True))
        sxy = sum(wi * (xi - mean_x) * (z - mean_log) for wi, xi, z in zip(w, x, logs, strict=True))
        b1 = min(sxy / sxx, 0.0) if sxx > 0 else 0.0
        log_b0 = mean_log - b1 * mean_x
        error = sum(wi * (z - log_b0 - b1 * xi) ** 2 for wi, xi, z in zip(w, x, logs, strict=True))
        if best is None or error < best[0]:
            best = (error, log_b0)
    assert best is not None
    return math.exp(best[1])


def hwang_shen(f: Frequencies, m: int, history: History = ()) -> float:
    """Return Shen's formula with f0 = K f1 / n (Hwang and Shen 2010); m f1 / n where K is undefined."""
    unseen_mass = f.get(1, 0) / sample_size(f)
    k = hwang_shen_k(f)
    return shen(math.inf if k is None else k * unseen_mass, unseen_mass, m)


def logistic(x: float, a: float, g: float, d: float) -> float:
    """Return A / (1 + exp(-g (x - d)))."""
    z = g * (x - d)
    return a / (1 + math.exp(-z)) if z > -700 else 0.0


LOGISTIC_RATES = tuple(float(j) for j in range(-2, 6))
"""First values tried for log2 of g times the span of n."""
LOGISTIC_MIDPOINTS = tuple(j / 4 for j in range(-4, 9))
"""First values tried for d, in spans of n from the smallest n."""
LOGISTIC_REFINEMENTS = 4


def logistic_fit(history: History) -> tuple[float, float, float] | None:
    """Return A > 0, g > 0, d of the logistic with the least squares on the pairs, or None below three distinct n.

    The text does not say how to fit, so this is a search that always ends the same: for each (g, d) of a grid A is the
    exact least-squares factor; then the grid's best point is moved among its eight neighbours at half the step, a
    quarter, and so on, within the grid's bounds. Ties go to the first one found: rates outside, midpoints inside,
    both ascending, the present point before its neighbours.
    """
    xs = np.array([n for n, _ in history], dtype=float)
    ys = np.array([k for _, k in history], dtype=float)
    if len(set(xs.tolist())) < 3:
        return None
    start, span = xs.min(), xs.max() - xs.min()

    def evaluate(rate: float, midpoint: float) -> tuple[float, float]:
        h = 1 / (1 + np.exp(-(2.0**rate) * ((xs - start) / span - midpoint)))
        a = float(ys @ h / (h @ h))
        return float(((ys - a * h) ** 2).sum()), a

    best: tuple[float, float, float, float] | None = None
    for rate, midpoint in itertools.product(LOGISTIC_RATES, LOGISTIC_MIDPOINTS):
        error, a = evaluate(rate, midpoint)
        if best is None or error < best[0]:
            best = (error, a, rate, midpoint)
    assert best is not None
    for level in range(1, LOGISTIC_REFINEMENTS + 1):
        _, _, rate0, midpoint0 = best
        for up, right in itertools.product((-1, 0, 1), (-1, 0, 1)):
            rate = min(max(rate0 + up * 0.5**level, LOGISTIC_RATES[0]), LOGISTIC_RATES[-1])
            midpoint = min(max(midpoint0 + right * 0.25 * 0.5**level, LOGISTIC_MIDPOINTS[0]), LOGISTIC_MIDPOINTS[-1])
            error, a = evaluate(rate, midpoint)
            if error < best[0]:
                best = (error, a, rate, midpoint)
    _, a, rate, midpoint = best
    return a, 2.0**rate / float(span), float(start + midpoint * span)


def new_regr_formula(f: Frequencies, m: int, k: float, k_next: float) -> float:
    """Return [K f1/n - K' f1 (1 - p1)^m / (n + m)] / (1 + K'/(n + m)), p1 = 2 f2/(n f1), clamped to [0, m]."""
    n, f1, f2 = sample_size(f), f[1], f.get(2, 0)
    p1 = 2 * f2 / (n * f1)
    gain = (k * f1 / n - k_next * f1 * (1 - p1) ** m / (n + m)) / (1 + k_next / (n + m))
    return min(max(gain, 0.0), float(m))


def new_regr(
    f: Frequencies,
    m: int,
    history: History = (),
    k_next: Literal["logistic", "ratio", "same"] = "logistic",
) -> float:
    """Return the paper's own estimator; m f1 / n where K is undefined (f1 = n, f2 = 0), and 0 where f1 = 0.

    K' is the K of n + m answers: "logistic" reads it off the curve fitted to the past pairs, as the text says;
    "ratio" multiplies K by the curve's growth from n to n + m, so that the curve's misfit at n does not count; "same"
    takes K' = K. Without three past pairs there is no curve, and K' = K.
    """
    k = hwang_shen_k(f)
    if k is None:
        return good_turing(f, m)
    curve = logistic_fit(history) if k_next != "same" else None
    if curve is None:
        return new_regr_formula(f, m, k, k)
    n = sample_size(f)
    ahead = logistic(n + m, *curve)
    if k_next == "ratio":
        here = logistic(n, *curve)
        ahead = k * ahead / here if here > 0 else k
    return new_regr_formula(f, m, k, ahead)


def new_regr_same(f: Frequencies, m: int, history: History = ()) -> float:
    """Return ``new_regr`` with K' = K."""
    return new_regr(f, m, history, "same")


ESTIMATORS: dict[str, Estimator] = {
    "good-turing": good_turing,
    "chao": chao92_shen,
    "hwang": hwang_shen,
    "newr": new_regr,
    "newr-same": new_regr_same,
}

# The poset.


class Poset:
    """The product of the attributes' trees, with the entities that sit at its leaves.

    ``parents[a][i]`` is the parent of node i in the tree of attribute a; node 0 is the root, and its entry is not
    read. ``leaves[e]`` is the node of entity e, a leaf in every attribute. With ``empty_nodes`` the nodes without
    entities exist too; else only those that hold one.

    ``nodes`` is in breadth-first order: by depth (the sum over the attributes), then as tuples.
    """

    def __init__(self, parents: Sequence[Sequence[int]], leaves: Sequence[Node], empty_nodes: bool = False) -> None:
        self.parents = [list(tree) for tree in parents]
        self.leaves = [tuple(leaf) for leaf in leaves]
        self.root: Node = tuple(0 for _ in parents)
        self._tree_children = [
            [[j for j in range(1, len(tree)) if tree[j] == i] for i in range(len(tree))] for tree in self.parents
        ]
        for leaf in self.leaves:
            if len(leaf) != len(self.parents) or any(self._tree_children[a][i] for a, i in enumerate(leaf)):
                raise ValueError(f"an entity's node {leaf} is not a leaf in every attribute")
        self._population: dict[Node, list[int]] = {}
        if empty_nodes:
            self._population = {v: [] for v in itertools.product(*(range(len(tree)) for tree in self.parents))}
        for entity, leaf in enumerate(self.leaves):
            for v in self._above(leaf):
                self._population.setdefault(v, []).append(entity)
        self.nodes = sorted(self._population, key=lambda v: (self.depth(v), v))
        self.place = {v: j for j, v in enumerate(self.nodes)}
        self.leaf_nodes = [v for v in self.nodes if all(not self._tree_children[a][i] for a, i in enumerate(v))]

    def _path(self, attribute: int, i: int) -> list[int]:
        path = [i]
        while path[-1] != 0:
            path.append(self.parents[attribute][path[-1]])
        return path

    def _above(self, node: Node) -> list[Node]:
        return list(itertools.product(*(self._path(a, i) for a, i in enumerate(node))))

    def depth(self, node: Node) -> int:
        """Return the sum of the depths in the trees."""
        return sum(len(self._path(a, i)) - 1 for a, i in enumerate(node))

    def specificity(self, node: Node) -> int:
        """Return s, the number of attributes that are not the wildcard."""
        return sum(1 for i in node if i != 0)

    def ancestors(self, node: Node) -> list[Node]:
        """Return the nodes above ``node``, itself among them, in the order of ``nodes``."""
        return sorted(self._above(node), key=self.place.__getitem__)

    def children(self, node: Node) -> list[Node]:
        """Return the direct descendants: one attribute goes one step down. By attribute, then by tree node."""
        below = [(*node[:a], j, *node[a + 1 :]) for a in range(len(node)) for j in self._tree_children[a][node[a]]]
        return [v for v in below if v in self._population]

    def is_below(self, node: Node, other: Node) -> bool:
        """Return whether ``node`` is ``other`` or a descendant of it."""
        return all(j in self._path(a, i) for a, (i, j) in enumerate(zip(node, other, strict=True)))

    def population(self, node: Node) -> list[int]:
        """Return the entities of a node, ascending."""
        return list(self._population[node])


# Queries and answers.


class Query(NamedTuple):
    """q^v(k, E) as it was asked."""

    round: int
    """t, from 1: the address of the answer's draws."""
    node: Node
    k: int
    length: int
    """The size of E that the configuration asks for; E may be shorter (``Readings.short_list``)."""
    exclude: tuple[int, ...]
    """E, ascending."""


Answer = Callable[[Query], Sequence[int]]


def proportional_by_clocks(
    weights: Sequence[float], uniforms: Sequence[float], candidates: Sequence[int], k: int
) -> list[int]:
    """Return k of the candidates, proportionally to weight and without replacement: the first of their clocks to ring.

    ``weights`` and ``uniforms`` (in (0, 1)) are indexed by entity; the clock of entity e rings at
    -log(uniforms[e]) / weights[e]. Fewer than k candidates are all returned.
    """
    return sorted(candidates, key=lambda e: (-math.log(uniforms[e]) / weights[e], e))[:k]


def proportional_in_sequence(
    weights: Sequence[float | Fraction], uniforms: Sequence[float | Fraction], candidates: Sequence[int], k: int
) -> list[int]:
    """Return the same law as ``proportional_by_clocks``, drawn one after another: ``uniforms[j]`` decides draw j.

    Draw j takes the first of the candidates left, in their order, whose cumulated weight exceeds uniforms[j] times
    the weight left.
    """
    left = list(candidates)
    drawn: list[int] = []
    for u in uniforms[:k]:
        if not left:
            break
        sums = list(itertools.accumulate(weights[e] for e in left))
        place = next((j for j, s in enumerate(sums) if s > u * sums[-1]), len(left) - 1)
        drawn.append(left.pop(place))
    return drawn


def k_largest(weights: Sequence[float], uniforms: Sequence[float], candidates: Sequence[int], k: int) -> list[int]:
    """Return the k candidates with the largest uniform x weight, which almost never returns unpopular entities."""
    return sorted(candidates, key=lambda e: (-uniforms[e] * weights[e], e))[:k]


MODELS = {"proportional": proportional_by_clocks, "k-largest": k_largest}


def answers(poset: Poset, weights: Sequence[float], model: str, uniforms: Callable[[Query], Sequence[float]]) -> Answer:
    """Make ``answer`` from an answer model by name and the query's uniforms, one per entity."""

    def answer(query: Query) -> list[int]:
        candidates = [e for e in poset.population(query.node) if e not in query.exclude]
        return MODELS[model](weights, uniforms(query), candidates, query.k)

    return answer


def inclusion_proportional(weights: Sequence[Any], k: int) -> list[Any]:
    """Return the exact probability that each is among k drawn proportionally without replacement; 2^n subsets."""
    n = len(weights)
    reached: dict[int, Any] = {0: Fraction(1)}
    for _ in range(min(k, n)):
        after: dict[int, Any] = {}
        for taken, p in reached.items():
            left = [j for j in range(n) if not taken >> j & 1]
            total = sum(weights[j] for j in left)
            for j in left:
                after[taken | 1 << j] = after.get(taken | 1 << j, 0) + p * weights[j] / total
        reached = after
    return [sum((p for taken, p in reached.items() if taken >> j & 1), Fraction(0)) for j in range(n)]


def inclusion_k_largest(weights: Sequence[float], k: int) -> list[float]:
    """Return the probability that each is among the k largest of uniform x weight, up to rounding.

    Given that entity i reaches x, the others exceed x independently; the integral over x is of a polynomial between
    neighbouring weights, which Gauss's rule integrates exactly.
    """
    n = len(weights)
    if k >= n:
        return [1.0] * n
    nodes, rule = np.polynomial.legendre.leggauss(n // 2 + 1)
    result = []
    for i, wi in enumerate(weights):
        cuts = sorted({0.0, float(wi), *(float(w) for w in weights if w < wi)})
        total = 0.0
        for low, high in itertools.pairwise(cuts):
            for z, g in zip(nodes, rule, strict=True):
                x = low + (high - low) * (z + 1) / 2
                above = [1.0] + [0.0] * (k - 1)  # above[c]: probability that c of the others exceed x, c < k
                for j, w in enumerate(weights):
                    if j != i and w > x:
                        p = 1 - x / w
                        above = [above[c] * (1 - p) + (above[c - 1] * p if c else 0.0) for c in range(k)]
                total += g * (high - low) / 2 * sum(above)
        result.append(total / float(wi))
    return result


def expected_gain(poset: Poset, weights: Sequence[Any], model: str, query: Query, retrieved: Iterable[int]) -> float:
    """Return the exact estimator: the expected number of entities in the answer that were not retrieved before."""
    candidates = [e for e in poset.population(query.node) if e not in query.exclude]
    law = {"proportional": inclusion_proportional, "k-largest": inclusion_k_largest}[model]
    known = set(retrieved)
    inclusion = law([weights[e] for e in candidates], query.k)
    return float(sum(p for e, p in zip(candidates, inclusion, strict=True) if e not in known))


# Costs.


def linear_cost(k: int, length: int, s: int, *, s_max: int, k_max: int = 20, l_max: int = 10) -> Fraction:
    """Return k/k_max + 5 l/l_max + s/s_max."""
    return Fraction(k, k_max) + 5 * Fraction(length, l_max) + Fraction(s, s_max)


STEP_K = {5: Fraction(20, 100), 10: Fraction(60, 100), 20: Fraction(80, 100)}
STEP_L = {0: Fraction(0), 2: Fraction(10, 100), 5: Fraction(50, 100), 10: Fraction(70, 100)}


def step_cost(k: int, length: int, s: int) -> Fraction:
    """Return the step cost, which does not depend on s. A size between two steps costs as the next one up."""
    return STEP_K[min(j for j in STEP_K if j >= k)] + STEP_L[min(j for j in STEP_L if j >= length)]


# Policies.


@dataclass(frozen=True)
class Readings:
    """What the text leaves open, by name. The reason for each default comes with it."""

    unseen: Literal["k", "one"] = "k"
    """The gain at a node without answers (or whose answers are all excluded): k, the limit m f1/n of f1 = n."""
    gain: Literal["point", "bootstrap-mean"] = "point"
    """r: the estimate from the sample itself; a bootstrap sample repeats entities, so its mean gain is biased down."""
    removal: Literal["lasting", "fresh", "none"] = "lasting"
    """Bad queries leave for good, as Algorithm 2 has it; or are set aside for the next round alone; or stay."""
    removal_at_start: bool = True
    """Algorithm 1 line 6 calls Algorithm 2, whose removal is unconditional."""
    reentry: bool = True
    """A node queried again brings its children's queries in again, also removed ones: Algorithm 2 takes a union."""
    never_asked: Literal["one", "plus-one", "infinite"] = "one"
    """n_q of a query never asked: 1 (sigma stays finite, and 0 in round 1); n_q + 1 for all; or an infinite sigma."""
    asked_by: Literal["configuration", "node"] = "configuration"
    """n_q counts "the number of times we have chosen query q", and q is the configuration (k, l, v)."""
    variance_floor: float = 0.01
    """The constant of the text."""
    bootstrap: int = 10
    """Bootstrap samples per estimate of the variance; the variance is their mean squared deviation. 0: the floor."""
    exclude_draws: int = 10
    """Exclude lists over which the gain of a configuration with l > 0 is averaged."""
    exclude_from: Literal["node", "all"] = "node"
    """E is drawn from the retrieved entities of the query's node: others could not be returned anyway."""
    short_list: Literal["configured", "actual", "unavailable"] = "configured"
    """Fewer than l to exclude: all of them, at the cost of l, as c is the configuration's; or at the cost of what is
    there; or the configuration is no candidate yet."""
    affordable: Literal["at most", "less"] = "at most"
    """A query may cost "less or equal to the remaining budget", says the text; line 8 asks for strictly less."""
    empty: Literal["unless-covered", "always", "ignored"] = "unless-covered"
    """An empty answer sets the gain at the node and below it to 0, unless E held all that was retrieved there."""


class Draw(NamedTuple):
    """The address of a random choice."""

    purpose: Literal["issue", "estimate", "bootstrap", "bootstrap-exclude", "pick", "pick-configuration"]
    """The list of a query that is asked; a list of the average; a resample; its list; a baseline's choice."""
    round: int
    node: Node
    k: int
    length: int
    n: int
    """Answers at the node: a caller may key its draws by (node, n) and so keep them until the sample changes."""
    copy: int
    """Which of the exclude lists or bootstrap samples, from 0."""


@dataclass(frozen=True)
class Chance:
    """The random choices. Each must be a function of its arguments."""

    subset: Callable[[Draw, list[int], int], Sequence[int]]
    resample: Callable[[Draw, list[int]], Sequence[int]]
    pick: Callable[[Draw, list[Any]], Any]


@dataclass(frozen=True)
class Problem:
    """What a policy knows: the poset (not the populations), the configurations (k, l), the cost c(k, l, s), tau."""

    poset: Poset
    configurations: Sequence[tuple[int, int]]
    cost: Callable[[int, int, int], Fraction]
    budget: Fraction


class Scored(NamedTuple):
    """A candidate in a round."""

    candidate: Candidate
    score: float
    r: float
    sigma: float
    cost: Fraction


@dataclass(frozen=True)
class Trace:
    """What a run did."""

    queries: list[Query]
    answers: list[list[int]]
    entities: list[int]
    """Distinct entities, in the order of their retrieval; within an answer in its order."""
    spent: Fraction
    candidates: list[list[Scored]] = field(default_factory=list)
    """Per round, those that Algorithm 1 chose from; the last list may belong to no query."""
    active: list[list[Candidate]] = field(default_factory=list)
    """Per call of Algorithm 2, what it returned, the call before the first round included."""


class Agent:
    """What a policy has spent and seen: counts at every node above each answer's entities."""

    def __init__(self, problem: Problem, answer: Answer, chance: Chance, readings: Readings) -> None:
        self.problem = problem
        self.poset = problem.poset
        self.readings = readings
        self.chance = chance
        self.left = Fraction(problem.budget)
        self.t = 1
        self.counts: dict[Node, Counter[int]] = {}
        self.history: dict[Node, list[tuple[int, float]]] = {}
        self.asked: Counter[Any] = Counter()
        self.queries: list[Query] = []
        self.answers: list[list[int]] = []
        self.entities: dict[int, None] = {}
        self._empty: set[Node] = set()
        self._answer = answer

    def answered(self, node: Node) -> int:
        """Return n of a node."""
        return sum(self.counts.get(node, {}).values())

    def seen(self, node: Node) -> list[int]:
        """Return the entities that an exclude list at the node may hold, ascending."""
        return sorted(self.entities if self.readings.exclude_from == "all" else self.counts.get(node, {}))

    def is_empty(self, node: Node) -> bool:
        """Return whether the node, or one above it, gave an empty answer that counts."""
        return any(self.poset.is_below(node, v) for v in self._empty)

    def cost(self, candidate: Candidate) -> Fraction:
        """Return c(q)."""
        node, k, length = candidate
        size = min(length, len(self.seen(node))) if self.readings.short_list == "actual" else length
        return self.problem.cost(k, size, self.poset.specificity(node))

    def can_ask(self, candidate: Candidate) -> bool:
        """Return whether there is such a query, and the budget allows it."""
        cost = self.cost(candidate)
        allowed = cost < self.left or (cost == self.left and self.readings.affordable == "at most")
        return allowed and self.exists(candidate)

    def exists(self, candidate: Candidate) -> bool:
        """Return whether the exclude list exists, if it must."""
        node, _, length = candidate
        return self.readings.short_list != "unavailable" or length <= len(self.seen(node))

    def order(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Return candidates by the rule for ties: node, then configuration."""
        place = {c: j for j, c in reversed(list(enumerate(self.problem.configurations)))}
        return sorted(candidates, key=lambda q: (self.poset.place[q[0]], place[q[1], q[2]]))

    def draw(self, purpose: Any, candidate: Candidate, copy: int = 0) -> Draw:
        """Return the address of a choice about a candidate in this round."""
        return Draw(purpose, self.t, *candidate, self.answered(candidate[0]), copy)

    def exclude_list(self, draw: Draw, items: list[int], size: int) -> list[int]:
        """Return E: ``size`` of the items at random, or all of them if there are no more."""
        if size == 0 or size >= len(items):
            return items if size else []
        chosen = sorted(self.chance.subset(draw, items, size))
        if len(set(chosen)) != size or not set(chosen) <= set(items):
            raise ValueError(f"{chosen} is no choice of {size} among {items}")
        return chosen

    def issue(self, candidate: Candidate, exclude: Sequence[int] | None = None) -> list[int]:
        """Ask a query, pay for it, count the answer at all nodes above each entity; the round ends with ``t += 1``."""
        if not self.can_ask(candidate):
            raise ValueError(f"{candidate} cannot be asked with {self.left} left")
        node, k, length = candidate
        known = set(self.counts.get(node, {}))
        if exclude is None:
            exclude = self.exclude_list(self.draw("issue", candidate), self.seen(node), length)
        query = Query(self.t, node, k, length, tuple(exclude))
        self.left -= self.cost(candidate)
        answer = list(self._answer(query))
        allowed = set(self.poset.population(node)) - set(exclude)
        if len(answer) > k or len(set(answer)) != len(answer) or not set(answer) <= allowed:
            raise ValueError(f"{answer} is no answer to {query}")
        self.queries.append(query)
        self.answers.append(answer)
        self.asked[candidate if self.readings.asked_by == "configuration" else node] += 1
        touched: set[Node] = set()
        for entity in answer:
            self.entities.setdefault(entity)
            for v in self.poset.ancestors(self.poset.leaves[entity]):
                self.counts.setdefault(v, Counter())[entity] += 1
                touched.add(v)
        for v in touched:
            k_now = hwang_shen_k(frequencies(self.counts[v].values()))
            if k_now is not None:
                self.history.setdefault(v, []).append((self.answered(v), k_now))
        covered = bool(known) and known <= set(exclude)
        rule = self.readings.empty
        if not answer and (rule == "always" or (rule == "unless-covered" and not covered)):
            self._empty.add(node)
        return answer

    def estimate(self, estimator: Estimator, candidate: Candidate) -> tuple[float, float]:
        """Return r(q) and the empirical variance of the gain, before its floor.

        An exclude list takes its entities out of the sample, and n and f_i are those of what is left. The past pairs
        (n, K) of ``new_regr`` are the whole sample's, with and without a list.
        """
        node, k, length = candidate
        readings = self.readings
        unseen = float(k) if readings.unseen == "k" else 1.0
        if self.is_empty(node):
            return 0.0, 0.0
        sample = self.counts.get(node, Counter())
        if not sample:
            return unseen, 0.0
        here = sorted(sample)
        elsewhere = [e for e in self.seen(node) if e not in sample]
        past = self.history.get(node, [])

        def gain(counts: Mapping[int, int], draw: Draw) -> float:
            pool = sorted([e for e in counts if counts[e] > 0] + elsewhere)
            exclude = set(self.exclude_list(draw, pool, length))
            f = frequencies(c for e, c in counts.items() if e not in exclude)
            return float(estimator(f, k, past)) if f else unseen

        lists = range(readings.exclude_draws if length > 0 else 1)
        point = sum(gain(sample, self.draw("estimate", candidate, j)) for j in lists) / len(lists)
        if readings.bootstrap == 0:
            return point, 0.0
        gains = []
        for b in range(readings.bootstrap):
            counts = list(self.chance.resample(self.draw("bootstrap", candidate, b), [sample[e] for e in here]))
            if len(counts) != len(here) or sum(counts) != sum(sample.values()) or min(counts) < 0:
                raise ValueError(f"{counts} is no resample")
            drawn = dict(zip(here, counts, strict=True))
            gains.append(gain(drawn, self.draw("bootstrap-exclude", candidate, b)))
        mean = sum(gains) / len(gains)
        variance = sum((g - mean) ** 2 for g in gains) / len(gains)
        return (point if readings.gain == "point" else mean), variance

    def sigma(self, candidate: Candidate, variance: float) -> float:
        """Return sigma(q, t) = sqrt(max(floor, variance) log(t) / n_q), natural logarithm."""
        rule = self.readings.never_asked
        times = self.asked[candidate if self.readings.asked_by == "configuration" else candidate[0]]
        if times == 0 and rule == "infinite":
            return math.inf
        times = times + 1 if rule == "plus-one" else max(times, 1)
        return math.sqrt(max(self.readings.variance_floor, variance) * math.log(self.t) / times)

    def trace(self, candidates: list[list[Scored]] | None = None, active: list[list[Candidate]] | None = None) -> Trace:
        """Return what was done up to now."""
        spent = Fraction(self.problem.budget) - self.left
        return Trace(self.queries, self.answers, list(self.entities), spent, candidates or [], active or [])


Select = Callable[[list[Scored]], Scored]


def first_best(candidates: list[Scored]) -> Scored:
    """Return the candidate with the highest score, the first one of ties."""
    return max(candidates, key=lambda scored: scored.score)


def crux(
    problem: Problem,
    estimator: Estimator,
    answer: Answer,
    chance: Chance,
    readings: Readings = Readings(),
    grow: bool = True,
    select: Select = first_best,
) -> Trace:
    """Algorithm 1 with Algorithm 2 (``ActiveQuerySet``), for a gain estimator: GSChao, GSHwang, GSNewR.

    Lines are those of the listings, END lines included, which the text leaves out. Without ``grow`` the root's queries
    are the only ones. ``select`` is line 8's argmax, so that a caller may break
    ties otherwise, or follow another implementation and check that its choice scores as high as the best.
    """
    agent = Agent(problem, answer, chance, readings)
    entered: set[Node] = set()

    def value(q: Candidate) -> tuple[float, float]:
        r, variance = agent.estimate(estimator, q)
        return r, agent.sigma(q, variance)

    def queries_at(node: Node) -> list[Candidate]:
        entered.add(node)
        return [(node, k, length) for k, length in problem.configurations]

    def active_query_set(known: set[Candidate], node: Node | None) -> tuple[set[Candidate], set[Candidate]]:
        """Algorithm 2; returns the running set, and those of it that the next round may choose."""
        new = set(known)
        if node is None:  # lines 4-6: only in the first call is there no node
            new |= set(queries_at(problem.poset.root))
        elif grow:
            for d in problem.poset.children(node):  # lines 8-11; "queries at u" is read as queries at d
                if readings.reentry or d not in entered:
                    new |= set(queries_at(d))
        if readings.removal == "none" or (node is None and not readings.removal_at_start):
            return new, new
        bounds = {q: value(q) for q in agent.order(new)}
        threshold = max(
            (r - sigma for q, (r, sigma) in bounds.items() if agent.exists(q)), default=-math.inf
        )  # line 14
        good = {q for q, (r, sigma) in bounds.items() if not r + sigma < threshold}  # lines 15-16
        return (good if readings.removal == "lasting" else new), good

    scored: list[list[Scored]] = []
    known, active = active_query_set(set(), None)  # lines 3-6
    actives = [agent.order(active)]
    while agent.left > 0 and active:  # line 7
        candidates = []
        for q in agent.order(active):  # line 8
            if agent.can_ask(q):
                r, sigma = value(q)
                candidates.append(Scored(q, (r + sigma) / float(agent.cost(q)), r, sigma, agent.cost(q)))
        scored.append(candidates)
        if not candidates:  # lines 9-11
            break
        q = select(candidates).candidate
        agent.issue(q)  # lines 12-16
        known, active = active_query_set(known, q[0])  # line 17, still with this round's t
        actives.append(agent.order(active))
        agent.t += 1  # line 18
    return agent.trace(scored, actives)


def root_chao(
    problem: Problem,
    answer: Answer,
    chance: Chance,
    readings: Readings = Readings(),
    select: Select = first_best,
) -> Trace:
    """RootChao: Algorithm 1 on the root's queries alone, with Chao92 and Shen."""
    return crux(problem, chao92_shen, answer, chance, readings, grow=False, select=select)


def gs_exact(
    problem: Problem,
    gain: Callable[[Query, frozenset[int]], float],
    answer: Answer,
    chance: Chance,
    readings: Readings = Readings(),
    reach: Literal["frontier", "all"] = "frontier",
    select: Select = first_best,
) -> Trace:
    """GSExact: Algorithm 1 with the true gain as r and sigma = 0.

    ``gain(query, retrieved)`` is the expected number of new entities (``expected_gain``), or, for the reading that
    takes the best realised answer, the number of new entities in ``answer(query)``. The exclude list of each
    candidate is drawn before the choice, and asked with if chosen. Bad queries are not removed: with sigma = 0 the
    rule would drop all but the largest gains, whatever they cost. ``reach``: the frontier, as in Algorithm 1; or all
    nodes of the poset.
    """
    agent = Agent(problem, answer, chance, readings)
    nodes = {problem.poset.root} if reach == "frontier" else set(problem.poset.nodes)
    scored: list[list[Scored]] = []
    while agent.left > 0:
        lists: dict[Candidate, list[int]] = {}
        candidates = []
        for q in agent.order((v, k, length) for v in nodes for k, length in dict.fromkeys(problem.configurations)):
            if not agent.can_ask(q):
                continue
            node, k, length = q
            lists[q] = agent.exclude_list(agent.draw("issue", q), agent.seen(node), length)
            query = Query(agent.t, node, k, length, tuple(lists[q]))
            r = 0.0 if agent.is_empty(node) else float(gain(query, frozenset(agent.entities)))
            candidates.append(Scored(q, r / float(agent.cost(q)), r, 0.0, agent.cost(q)))
        scored.append(candidates)
        if not candidates:
            break
        q = select(candidates).candidate
        agent.issue(q, lists[q])
        if reach == "frontier":
            nodes |= set(problem.poset.children(q[0]))
        agent.t += 1
    return agent.trace(scored)


def rand(
    problem: Problem,
    answer: Answer,
    chance: Chance,
    readings: Readings = Readings(),
    nodes: Sequence[Node] | None = None,
    dear: Literal["avoid", "stop"] = "avoid",
) -> Trace:
    """Rand: a node and a configuration at random, all pairs alike.

    ``dear``: "avoid" draws among the pairs that the budget still allows, as line 8 of Algorithm 1 does; "stop" draws
    among all pairs and ends with the first one that is too dear. ``nodes`` limits the nodes.
    """
    agent = Agent(problem, answer, chance, readings)
    places = problem.poset.nodes if nodes is None else nodes
    while agent.left > 0:
        pairs = agent.order((v, k, length) for v in places for k, length in problem.configurations)
        if dear == "avoid":
            pairs = [q for q in pairs if agent.can_ask(q)]
        if not pairs:
            break
        q = chance.pick(Draw("pick", agent.t, problem.poset.root, 0, 0, 0, 0), pairs)
        if not agent.can_ask(q):
            break
        agent.issue(q)
        agent.t += 1
    return agent.trace()


def rand_leaf(
    problem: Problem,
    answer: Answer,
    chance: Chance,
    readings: Readings = Readings(),
    dear: Literal["avoid", "stop"] = "avoid",
) -> Trace:
    """RandL: as ``rand``, on the leaves alone."""
    return rand(problem, answer, chance, readings, problem.poset.leaf_nodes, dear)


def bfs(
    problem: Problem,
    answer: Answer,
    chance: Chance,
    readings: Readings = Readings(),
    configuration: tuple[int, int] | None = None,
    dear: Literal["stop", "skip"] = "stop",
) -> Trace:
    """BFS: one query a node from the root down; the children of a node follow if its answer was not empty.

    Children join the queue in the order of ``Poset.children``, once each; a node below one that is known to be empty
    is passed over. ``configuration`` is asked everywhere; None draws one at each node, for the text names none.
    ``dear``: the run ends with the first query that is too dear, or that node is passed over and its children with it.
    """
    agent = Agent(problem, answer, chance, readings)
    queue = [problem.poset.root]
    queued = set(queue)
    while queue and agent.left > 0:
        node = queue.pop(0)
        if agent.is_empty(node):
            continue
        k, length = configuration or chance.pick(
            Draw("pick-configuration", agent.t, node, 0, 0, agent.answered(node), 0), list(problem.configurations)
        )
        if not agent.can_ask((node, k, length)):
            if dear == "stop":
                break
            continue
        found = agent.issue((node, k, length))
        agent.t += 1
        for d in problem.poset.children(node) if found else []:
            if d not in queued:
                queued.add(d)
                queue.append(d)
    return agent.trace()
