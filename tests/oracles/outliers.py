"""The outlier-arm rules of Zhuang et al. 2017 (RR, WRR, NRR, IB) and Ban and He 2020 (GOLD), one pull at a time.

Arms are numbered from 0. ``reward(arm, j)`` is the j-th reward of an arm (j from 0), so that a test can hand the same
rewards to another implementation. A rule looks at its stopping test after every pull, and ends at ``cap`` pulls.

Every run says how clear its decisions were. A decision is a comparison; its margin is |lhs - rhs| / max(|lhs|, |rhs|),
where the sides are written so that both stay away from 0: a distance against a sum of radii, a mean against the
threshold, a count against a counter. ``Run.margin`` is the smallest margin of the comparisons that settled which arm
was pulled and when the run stopped, ``Run.answer_margin`` that of the comparisons behind the returned set. A
comparison whose flip would have changed nothing does not count. Equal sides have no margin: they are decided exactly,
as the papers write them (strict or not), and counted in ``Run.ties`` where floating point could decide them
otherwise. Where the papers break ties arbitrarily, the lowest arm index is taken, and that is no tie.

Levels, shares and k given as floats are read as the decimal that they print as: 0.9 is 9/10.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist

Number = float | Fraction
Reward = Callable[[int, int], Number]
CAP = 10**7
"""The cap of Zhuang et al., section 5.2."""


def exact(x: Number) -> Fraction:
    """Return a number as a fraction; a float stands for the shortest decimal that prints it."""
    return Fraction(repr(float(x))) if isinstance(x, float) else Fraction(x)


def _as_exact(x: Number) -> int | Fraction:
    """Return a reward's very value, whole numbers as int."""
    if isinstance(x, Fraction):
        return x
    return int(x) if x == int(x) else Fraction(float(x))


def _relative(lhs: float, rhs: float) -> float:
    """Return (lhs - rhs) / max(|lhs|, |rhs|), 0 where both are 0."""
    scale = max(abs(lhs), abs(rhs))
    return (lhs - rhs) / scale if scale > 0 else 0.0


def _first_max(items: Iterable[int], key: Callable[[int], float]) -> int:
    """Return the lowest item among those with the largest key."""
    return min(items, key=lambda i: (-key(i), i))


# What a run returns.


@dataclass(frozen=True)
class Run:
    """What a run of a k-sigma rule did."""

    outliers: frozenset[int]
    """The returned set; at the cap, the set estimated by then."""
    pulls: list[int]
    """The arms in the order in which they were pulled; its length is the stopping time T."""
    capped: bool
    """Whether the cap ended the run, and not the rule's own test."""
    margin: float
    """Smallest relative margin of the decisions about pulls and stopping (inf if none was open)."""
    answer_margin: float
    """Smallest relative margin of the comparisons behind ``outliers``."""
    ties: int
    """Comparisons with equal sides that a floating-point program may decide otherwise."""

    def counts(self, n: int) -> list[int]:
        """Return the number of pulls of each arm."""
        return [self.pulls.count(i) for i in range(n)]


@dataclass(frozen=True)
class GoldRun(Run):
    """What a run of GOLD did: ``outliers`` are the arms that became terminal (the paper's Psi-hat)."""

    scores: list[int | None]
    """S: the time T at which an arm first was terminal; None where it never was."""
    lost: dict[tuple[int, int], int]
    """The time T at which each edge (i, j), i < j, was lost; n for a pair that is not in the first graph."""

    @property
    def ranking(self) -> list[int]:
        """All arms by ascending score; arms that were never terminal come last, equal scores by index."""
        last = len(self.pulls) + 1
        return sorted(range(len(self.scores)), key=lambda i: (last if self.scores[i] is None else self.scores[i], i))

    @property
    def places(self) -> list[int]:
        """The place of each arm, from 0: the number of arms with a smaller score. Equal scores share a place."""
        values = [math.inf if s is None else s for s in self.scores]
        return [sum(other < own for other in values) for own in values]


def ranked_first(scores: Sequence[int | None], group: Iterable[int]) -> bool:
    """Whether every arm of the group has a smaller score than every other arm (the problem definition, Eq. 1)."""
    members = set(group)
    values = [math.inf if s is None else s for s in scores]
    inside = [values[i] for i in members]
    outside = [v for i, v in enumerate(values) if i not in members]
    return not inside or not outside or max(inside) < min(outside)


# Playing the tape.


class _CapReached(Exception):
    """A rule wanted one pull more than the cap allows."""


class _Play:
    """The arms pulled so far and their rewards."""

    def __init__(self, reward: Reward, n: int, cap: int, binary: bool) -> None:
        if not 1 <= n <= cap:
            raise ValueError("there must be an arm, and the cap must leave a pull for each")
        self.n = n
        self.pulls: list[int] = []
        self.m = [0] * n
        self.sums: list[int | Fraction] = [0] * n
        self._reward = reward
        self._cap = cap
        self._binary = binary

    def pull(self, arm: int) -> None:
        """Pull an arm once: T <- T + 1, m <- m + 1, and the sum of its rewards grows."""
        if len(self.pulls) >= self._cap:
            raise _CapReached
        x = self._reward(arm, self.m[arm])
        if self._binary and x not in (0, 1):
            raise ValueError("a Bernoulli interval needs rewards 0 or 1")
        self.sums[arm] += _as_exact(x)
        self.m[arm] += 1
        self.pulls.append(arm)

    def pull_each(self, arms: Iterable[int]) -> None:
        for i in arms:
            self.pull(i)

    @property
    def time(self) -> int:
        """T, the number of pulls so far."""
        return len(self.pulls)

    def means(self) -> list[float]:
        """Return the empirical means, each the float next to the exact quotient."""
        return [float(s) / m if isinstance(s, int) else float(s / m) for s, m in zip(self.sums, self.m, strict=True)]


class _Margins:
    """The smallest margin so far and the number of ties."""

    def __init__(self) -> None:
        self.smallest = math.inf
        self.ties = 0

    def note(self, margin: float) -> None:
        self.smallest = min(self.smallest, abs(margin))

    def note_each(self, margins: Iterable[float | None]) -> None:
        """Note margins, None standing for a tie."""
        for margin in margins:
            if margin is None:
                self.ties += 1
            else:
                self.note(margin)

    def decide(self, signed: float) -> bool:
        """Note a signed margin and return whether it is at least 0.

        "All of these" has the smallest of the signed margins as its own, "one of these" the largest.
        """
        self.note(signed)
        return signed >= 0


# k-sigma: definitions and formulas of Zhuang et al.


def k_sigma_outliers(means: Sequence[Number], k: Number) -> frozenset[int]:
    """Section 3: the arms with a mean above mu + k sigma (population sigma), decided exactly.

    y > mu + k sigma holds iff y > mu and (y - mu)^2 > k^2 sigma^2, for k >= 0.
    """
    if k < 0:
        raise ValueError("k is at least 0 here")
    y = [exact(v) for v in means]
    n = len(y)
    mu = sum(y) / n
    variance = sum((v - mu) ** 2 for v in y) / n
    return frozenset(i for i, v in enumerate(y) if v > mu and (v - mu) ** 2 > exact(k) ** 2 * variance)


def threshold(means: Sequence[float], k: float) -> tuple[float, float, float]:
    """Return (mu, sigma, theta) of section 3; sigma is exactly 0 iff all means are equal."""
    n = len(means)
    if min(means) == max(means):
        return means[0], 0.0, means[0]
    mu = math.fsum(means) / n
    sigma = math.sqrt(math.fsum((y - mu) ** 2 for y in means) / n)
    return mu, sigma, mu + k * sigma


def _estimate(play: _Play, k: Number) -> tuple[frozenset[int], list[float | None]]:
    """Eq. 3, decided exactly: the set, and per arm the margin of y_i > theta (None where the two are equal).

    With equal means (sigma = 0) no arm is above the threshold, and no margin is small: that case is told from the
    means alone.
    """
    means = play.means()
    _, sigma, theta = threshold(means, float(k))
    if sigma == 0:
        return frozenset(), [math.inf] * play.n
    margins: list[float | None] = [abs(_relative(y, theta)) for y in means]
    above = {i for i in range(play.n) if means[i] > theta}
    unclear = [i for i in range(play.n) if abs(_relative(means[i], theta)) < 1e-9]
    if unclear:
        y = [Fraction(s) / m for s, m in zip(play.sums, play.m, strict=True)]
        mu = sum(y) / play.n
        square = exact(k) ** 2 * sum((v - mu) ** 2 for v in y) / play.n
        for i in unclear:
            above.discard(i)
            if y[i] >= mu and (y[i] - mu) ** 2 == square:
                margins[i] = None
            elif y[i] > mu and (y[i] - mu) ** 2 > square:
                above.add(i)
    return frozenset(above), margins


def delta_prime(n: int, delta: float, total: int) -> float:
    """Eq. 1: 6 delta / (pi^2 (n + 1) T^2)."""
    return 6 * delta / (math.pi**2 * (n + 1) * total**2)


def l_of_k(n: int, k: float, delta: float) -> float:
    """Theorem 2: l(k), the square of a sum of two square roots."""
    first = math.sqrt((1 + k * math.sqrt(n - 1)) ** 2 / n)
    second = math.sqrt(k**2 / (2 * math.log(math.pi**2 * n**3 / (6 * delta))))
    return (first + second) ** 2


def rho_star(n: int, k: float, delta: float) -> float:
    """Eq. 6, (n - 1)^(2/3) / l(k)^(1/3), but at least 1: it is an argmin over rho >= 1."""
    return max(1.0, math.cbrt((n - 1) ** 2 / l_of_k(n, k, delta)))


@dataclass(frozen=True)
class Bernoulli:
    """A reading of the Bernoulli intervals of section 4.3."""

    z: str
    """"erf": the inverse error function, as printed; "normal": the quantile of the normal law."""
    divisor: str
    """What p~ (1 - p~) is divided by: "m", as printed, or "m + z^2" (Agresti and Coull)."""
    weight: str
    """The weight of an arm in the threshold's radius: "printed", or the "gradient" of mu + k sigma."""


INTERVALS: dict[str, Bernoulli | None] = {
    "bounded": None,
    "bernoulli": Bernoulli("erf", "m", "printed"),
    "bernoulli-corrected": Bernoulli("normal", "m", "gradient"),
    "bernoulli-agresti-coull": Bernoulli("normal", "m + z^2", "gradient"),
}
"""The intervals by name; None is Hoeffding's for the arms and McDiarmid's for the threshold."""


def _interval(name: str) -> Bernoulli | None:
    if name not in INTERVALS:
        raise ValueError(f"interval {name!r} is none of {', '.join(INTERVALS)}")
    return INTERVALS[name]


def erfc_inverse(q: float) -> float:
    """Return erf^-1(1 - q) without forming 1 - q: the normal law's upper q/2 point, divided by sqrt(2)."""
    return -NormalDist().inv_cdf(q / 2) / math.sqrt(2)


def upper_point(q: float) -> float:
    """Return the z that a standard normal variable exceeds with probability q."""
    return -NormalDist().inv_cdf(q)


def z_value(form: Bernoulli, level: float, paper: str) -> float:
    """Return z at the level delta'.

    As printed it is erf^-1(1 - delta'/2) in Zhuang et al. and erf^-1(1 - delta') in Ban and He. What both mean is
    the z of subscript delta'/2, the point that a normal variable exceeds with probability delta'/2.
    """
    if form.z == "erf":
        return erfc_inverse(level / 2 if paper == "zhuang2017" else level)
    return upper_point(level / 2)


def arm_radius(
    interval: str, m: int, ones: int | Fraction, level: float, width: float = 1.0, paper: str = "zhuang2017"
) -> float:
    """Return beta_i(m_i, delta') of section 4.3 (Ban and He: Eq. 4 and the line below), ``width`` being R = b - a."""
    form = _interval(interval)
    if form is None:
        return width * math.sqrt(-math.log(level) / (2 * m))
    z = z_value(form, level, paper)
    p = (float(ones) + z**2 / 2) / (m + z**2)
    return z * math.sqrt(p * (1 - p) / (m if form.divisor == "m" else m + z**2))


def threshold_radius(
    interval: str,
    m: Sequence[int],
    means: Sequence[float],
    radii: Sequence[float],
    k: float,
    delta: float,
    level: float,
    width: float = 1.0,
) -> float:
    """Return beta_theta(m, delta') of section 4.3.

    "bounded": R sqrt(l(k) / (2 h(m)) log(1/delta')), h the harmonic mean of the pulls. Bernoulli: the root of the sum
    of (w_i beta_i)^2, w_i = k y_i / (n sqrt(sigma)) + 1/n as printed, or the derivative of mu + k sigma with respect
    to y_i, k (y_i - mu) / (n sigma) + 1/n. Where sigma is 0 neither is defined, and the radius is inf.
    """
    n = len(m)
    form = _interval(interval)
    if form is None:
        harmonic = n / math.fsum(1 / c for c in m)
        return width * math.sqrt(l_of_k(n, k, delta) / (2 * harmonic) * -math.log(level))
    mu, sigma, _ = threshold(means, k)
    if sigma == 0:
        return math.inf
    if form.weight == "printed":
        weights = [k * y / (n * math.sqrt(sigma)) + 1 / n for y in means]
    else:
        weights = [k * (y - mu) / (n * sigma) + 1 / n for y in means]
    return math.sqrt(math.fsum((w * b) ** 2 for w, b in zip(weights, radii, strict=True)))


def _inactive(play: _Play, k: float, delta: float, interval: str, width: float) -> list[float]:
    """Return per arm the signed margin of "not active", Eq. 2: |y_i - theta| >= beta_i + beta_theta.

    Both cases of Eq. 2 say that the two intervals overlap; where y_i = theta both give an active arm. With equal
    means (sigma = 0) every y_i is theta, and every arm is active whatever the radii.
    """
    means = play.means()
    _, sigma, theta = threshold(means, k)
    if sigma == 0:
        return [-1.0] * play.n
    level = delta_prime(play.n, delta, play.time)
    radii = [arm_radius(interval, m, s, level, width) for m, s in zip(play.m, play.sums, strict=True)]
    beta = threshold_radius(interval, play.m, means, radii, k, delta, level, width)
    return [_relative(abs(y - theta), b + beta) for y, b in zip(means, radii, strict=True)]


def _finish(play: _Play, k: Number, margins: _Margins, capped: bool) -> Run:
    outliers, comparisons = _estimate(play, k)
    answer = _Margins()
    answer.note_each(comparisons)
    return Run(outliers, play.pulls, capped, margins.smallest, answer.smallest, margins.ties + answer.ties)


# The rules of Zhuang et al.


def rr(
    reward: Reward,
    n: int,
    k: float,
    delta: float,
    interval: str = "bounded",
    *,
    cap: int = CAP,
    width: float = 1.0,
    start: int = 1,
) -> Run:
    """Algorithm 1, Round-Robin.

    ``start`` is the arm pulled first after each was pulled once. Lines 4 and 6 (i <- 1, then i <- i % n + 1 before the
    pull) make it the second one, index 1; the text, which goes back to the first arm after a sweep, would make it 0.
    """
    play = _Play(reward, n, cap, _interval(interval) is not None)
    margins = _Margins()
    capped = False
    try:
        play.pull_each(range(n))  # lines 1-3
        i = (start - 1) % n  # line 4
        while not margins.decide(min(_inactive(play, k, delta, interval, width))):  # line 5
            i = (i + 1) % n  # line 6
            play.pull(i)  # lines 7-9
    except _CapReached:
        capped = True
    return _finish(play, k, margins, capped)  # line 10


def wrr(
    reward: Reward,
    n: int,
    k: float,
    delta: float,
    rho: Number | None = None,
    interval: str = "bounded",
    *,
    cap: int = CAP,
    width: float = 1.0,
    start: int = 1,
) -> Run:
    """Algorithm 2, Weighted Round-Robin; ``rho`` None is rho* of Eq. 6. The counters c_i are exact.

    A counter that float32 holds exactly (rho a multiple of a small power of 1/2) has a clear margin; rho* as a float64
    has counters that come close to whole numbers, so that a comparison with float32 wants a rounded rho.
    """
    share = exact(rho_star(n, k, delta) if rho is None else rho)
    if share < 1:
        raise ValueError("rho is at least 1")
    play = _Play(reward, n, cap, _interval(interval) is not None)
    margins = _Margins()
    capped = False
    c = [Fraction(0)] * n  # line 4
    binary = share.denominator & (share.denominator - 1) == 0

    def full(i: int, active: bool) -> float:
        """Return the signed margin of m_i >= c_i: 1 or -1 where float32 holds the counter exactly."""
        signed = (play.m[i] - c[i]) / max(Fraction(play.m[i]), c[i])
        if binary and c[i].numerator < 2**24:
            return 1.0 if signed >= 0 else -1.0
        if signed == 0:
            margins.ties += active
            return 1.0
        return float(signed)

    try:
        play.pull_each(range(n))  # lines 1-3
        i = (start - 1) % n  # line 5
        state = _inactive(play, k, delta, interval, width)
        while not margins.decide(min(state)):  # line 6
            i = (i + 1) % n  # line 7
            c[i] += share  # line 8
            while True:  # line 9
                play.pull(i)  # lines 10-12
                state = _inactive(play, k, delta, interval, width)
                if margins.decide(max(state[i], full(i, state[i] < 0))):  # line 13
                    break
    except _CapReached:
        capped = True
    return _finish(play, k, margins, capped)  # line 14


def nrr(reward: Reward, n: int, k: float, delta: Number, *, cap: int = CAP, start: int = 1) -> Run:
    """Section 5.2, Naive Round-Robin: until the set of Eq. 3 was the same for the last 1/delta pulls.

    The set exists once each arm was pulled; a pull counts if the set after it is the set before it. 1/delta pulls
    are the smallest number of pulls that is at least 1/delta.
    """
    play = _Play(reward, n, cap, binary=False)
    margins = _Margins()
    capped = False
    needed = math.ceil(1 / exact(delta))
    try:
        play.pull_each(range(n))
        i = (start - 1) % n
        before, comparisons = _estimate(play, k)
        margins.note_each(comparisons)
        same = 0
        while same < needed:
            i = (i + 1) % n
            play.pull(i)
            outliers, comparisons = _estimate(play, k)
            margins.note_each(comparisons)
            same = same + 1 if outliers == before else 0
            before = outliers
    except _CapReached:
        capped = True
    return _finish(play, k, margins, capped)


@dataclass(frozen=True)
class _Move:
    """What CLUCB does next: pull an arm, or name the best one."""

    arm: int
    stop: bool


def _clucb(play: _Play, arms: list[int], delta: float, sigma: float, fresh: bool, margins: _Margins) -> int:
    """Chen et al. 2014, Algorithm 1 (CLUCB) for the best one of some arms.

    M is the arm with the best mean. Its mean is lowered by its radius, all others are raised by theirs; if no other
    arm then is above it, M is the answer. Otherwise M~ is the highest, and of M and M~ the one with the larger radius,
    that is with fewer pulls, is pulled.
    """
    m0 = list(play.m) if fresh else [0] * play.n
    s0 = list(play.sums) if fresh else [0] * play.n
    t0 = play.time if fresh else 0
    size = len(arms) if fresh else play.n
    play.pull_each(i for i in arms if play.m[i] == m0[i])
    while True:
        m = {i: play.m[i] - m0[i] for i in arms}
        means = {i: float(Fraction(play.sums[i] - s0[i]) / m[i]) for i in arms}
        log = math.log(4 * size * (play.time - t0) ** 3 / delta)
        radii = {i: sigma * math.sqrt(2 * log / m[i]) for i in arms}
        move = _clucb_move(arms, m, means, radii, margins)
        if move.stop:
            return move.arm
        play.pull(move.arm)


def _clucb_move(
    arms: list[int], m: dict[int, int], means: dict[int, float], radii: dict[int, float], margins: _Margins
) -> _Move:
    """Return CLUCB's next move, and note the margins of the comparisons that it rests on."""
    best = _first_max(arms, lambda i: means[i])
    others = [j for j in arms if j != best]
    if not others:
        return _Move(best, True)
    upper = {j: means[j] + radii[j] for j in arms}

    def rival_of(i: int) -> int:
        return _first_max((j for j in arms if j != i), lambda j: upper[j])

    def stops(i: int) -> float:
        j = rival_of(i)
        return _relative(means[i] - means[j], radii[i] + radii[j])

    def less_pulled(i: int, j: int) -> _Move:
        return _Move(min(i, j, key=lambda a: (m[a], a)), False)

    def move_of(i: int) -> _Move:
        return _Move(i, True) if stops(i) >= 0 else less_pulled(i, rival_of(i))

    move = move_of(best)
    margins.decide(stops(best))
    for j in others:  # another M, if its mean is almost as good
        gap = _relative(means[best], means[j])
        if 0 < gap < margins.smallest and move_of(j) != move:
            margins.note(gap)
    if not move.stop:
        rival = rival_of(best)
        for j in others:  # another M~, if its upper bound is almost as high
            gap = _relative(upper[rival], upper[j])
            same = means[rival] == means[j] and m[rival] == m[j]
            if j != rival and not same and gap < margins.smallest and less_pulled(best, j) != move:
                margins.note(gap)
    return move


def ib(
    reward: Reward,
    n: int,
    k: float,
    delta: float,
    *,
    sigma: float = 1.0,
    samples: str = "kept",
    cap: int = CAP,
) -> Run:
    """Section 5.2, Iterative Best Arm Identification, with CLUCB inside of radius
    sigma sqrt(2 ln(4 n t^3 / delta) / T_i).

    ``sigma`` is the R of Chen et al., the sub-Gaussian scale of a reward (1/2 is enough for rewards in [0, 1]). With
    ``samples`` "kept", each search goes on from all pulls made so far: n is the number of all arms and t counts all
    pulls, so that one confidence event carries all searches. With "fresh", each search starts anew on its own arms:
    n, t and T_i are its own. The threshold always uses all pulls.
    """
    if samples not in ("kept", "fresh"):
        raise ValueError('samples is "kept" or "fresh"')
    play = _Play(reward, n, cap, binary=False)
    margins = _Margins()
    capped = False
    left = list(range(n))
    try:
        while left:
            best = _clucb(play, left, delta, sigma, samples == "fresh", margins)
            outliers, comparisons = _estimate(play, k)
            margins.note_each([comparisons[best]])
            if best not in outliers:
                break
            left.remove(best)
    except _CapReached:
        capped = True
    return _finish(play, k, margins, capped)


# GOLD: Ban and He.


def gold_b(eps: float) -> float:
    """Eq. 3: b = (1 + e^(1/16) + eps) / (1 - e^(1/16) + eps)."""
    root = math.exp(1 / 16)
    if not eps > root - 1:
        raise ValueError("eps must exceed e^(1/16) - 1")
    return (1 + root + eps) / (1 - root + eps)


def gold_delta_prime(n: int, delta: float, total: int) -> float:
    """Eq. 3: 6 delta / (pi^2 n T^2)."""
    return 6 * delta / (math.pi**2 * n * total**2)


def size_limit(n: int, rho: Number) -> Fraction:
    """Return n (1 - rho) exactly."""
    if not 0 < rho < 1:
        raise ValueError("rho is between 0 and 1")
    return n * (1 - exact(rho))


def partition(scores: Sequence[Sequence[float]]) -> tuple[list[frozenset[int]], float]:
    """Return the connected components of the graph of the pairs with a score of at least 0, and their margin.

    The margin is the largest tau such that no change of scores by less than tau changes the components: the smallest
    score in a maximum spanning forest, or the smallest |score| between two components, whichever is less.
    """
    outside = set(range(len(scores)))
    components = []
    margin = math.inf
    while outside:
        seed = min(outside)
        outside.remove(seed)
        component = {seed}
        reach = {j: scores[seed][j] for j in outside}
        while reach:
            j = _first_max(reach, reach.__getitem__)
            margin = min(margin, abs(reach[j]))
            if reach[j] < 0:
                break
            component.add(j)
            outside.remove(j)
            del reach[j]
            for other in reach:
                reach[other] = max(reach[other], scores[j][other])
        components.append(frozenset(component))
    return components, margin


def gold(
    reward: Reward,
    n: int,
    eps: float,
    rho: Number,
    delta: float,
    interval: str = "bounded",
    *,
    terminal: str = "at-most",
    stop: str = "sweep",
    cap: int = CAP,
    width: float = 1.0,
) -> GoldRun:
    """Algorithm 1, GOLD.

    Lines are numbered as in its listing, where the text and the proofs count two less. ``terminal`` is
    the test of line 34 on a community's size: "below" is < n (1 - rho), as printed, "at-most" is <=.
    ``stop``: "sweep" looks at line 13 when a sweep is over, as the pseudocode does; "pull" after every pull.
    A score is set once, when its arm first is terminal; line 36 would set it anew at every later pull.
    """
    if terminal not in ("below", "at-most"):
        raise ValueError('terminal is "below" or "at-most"')
    if stop not in ("sweep", "pull"):
        raise ValueError('stop is "sweep" or "pull"')
    b = gold_b(eps)
    limit = size_limit(n, rho)
    play = _Play(reward, n, cap, _interval(interval) is not None)
    margins = _Margins()
    capped = False
    scores: list[int | None] = [None] * n  # lines 3-4
    done: set[int] = set()
    edges = [[1.0] * n for _ in range(n)]  # the smallest signed margin so far of Eq. 2; an edge while it is >= 0
    lost: dict[tuple[int, int], int] = {}

    def update_graph() -> None:
        means = play.means()
        level = gold_delta_prime(n, delta, play.time)
        radii = [arm_radius(interval, m, s, level, width, "ban2020") for m, s in zip(play.m, play.sums, strict=True)]
        for i in range(n):
            for j in range(i + 1, n):
                near = _relative(b * (radii[i] + radii[j]), abs(means[i] - means[j]))
                edges[i][j] = edges[j][i] = min(edges[i][j], near)
                if near < 0 and (i, j) not in lost:
                    lost[i, j] = play.time

    try:
        play.pull_each(range(n))  # lines 5-8
        update_graph()  # lines 9-12
        while len(done) < limit:  # line 13
            for i in [a for a in range(n) if a not in done]:  # lines 14-15
                play.pull(i)  # lines 16-18
                update_graph()  # line 19, lines 25-30
                communities, margin = partition(edges)  # line 20
                margins.note(margin)
                for community in communities:  # lines 21, 32-38
                    if len(community) < limit or (terminal == "at-most" and len(community) == limit):
                        for a in community - done:
                            scores[a] = play.time
                        done |= community
                if stop == "pull" and len(done) >= limit:
                    break
    except _CapReached:
        capped = True
    return GoldRun(
        frozenset(done), play.pulls, capped, margins.smallest, math.inf, margins.ties, scores=scores, lost=lost
    )


# Generic outlier arms: Ban and He, section 3.


def neighbourhood_distance(i: int, group: Iterable[int], means: Sequence[Fraction]) -> Fraction:
    """Return the larger of the distances from arm i to the next mean above and to the next below, in the group.

    A side without a neighbour counts 0, and means equal to that of i are on neither side.
    """
    above = [means[a] - means[i] for a in group if means[a] > means[i]]
    below = [means[i] - means[a] for a in group if means[a] < means[i]]
    return max(min(above, default=Fraction(0)), min(below, default=Fraction(0)))


def _separated(j: int, upper: Sequence[int], lower: Sequence[int], means: Sequence[Fraction], eps: Fraction) -> bool:
    """Constraint (1) for arm j; a side without arms is infinitely far and asks for nothing."""
    distances = [neighbourhood_distance(i, side, means) for side in (upper, lower) for i in side]
    nearest = [min(abs(means[j] - means[i]) for i in side) for side in (upper, lower) if side]
    return all(d > (1 + eps) * inner for d in nearest for inner in distances)


def _large(upper: Sequence[int], lower: Sequence[int], n: int, rho: Fraction, sizes: str) -> bool:
    """Constraint (2); with "at-least" the first line reads >= rho n."""
    if sizes not in ("above", "at-least"):
        raise ValueError('sizes is "above" or "at-least"')
    total = len(upper) + len(lower)
    enough = total > rho * n or (sizes == "at-least" and total == rho * n)
    return enough and all(not side or len(side) > (1 - rho) * n for side in (upper, lower))


def is_outlier_group(
    means: Sequence[Number], group: Iterable[int], eps: Number, rho: Number, sizes: str = "above"
) -> bool:
    """Definition 3.2: whether the arms of a group are an (eps, rho)-outlier arm group.

    The other arms must all be above or below the whole group. ``sizes`` "above" asks for more than rho n of them, as
    printed; "at-least" also takes exactly rho n.
    """
    y, e, share = [exact(v) for v in means], exact(eps), exact(rho)
    members = sorted(set(group))
    n = len(y)
    if not members or len(members) == n:
        return False
    upper = [i for i in range(n) if y[i] > max(y[j] for j in members)]
    lower = [i for i in range(n) if y[i] < min(y[j] for j in members)]
    if len(members) + len(upper) + len(lower) != n or not _large(upper, lower, n, share, sizes):
        return False
    return all(_separated(j, upper, lower, y, e) for j in members)


def outlier_groups(means: Sequence[Number], eps: Number, rho: Number, sizes: str = "above") -> list[frozenset[int]]:
    """Return all (eps, rho)-outlier arm groups: runs of the arms in the order of their means; smallest first."""
    order = sorted(range(len(means)), key=lambda i: (exact(means[i]), i))
    n = len(order)
    windows = [order[a : a + size] for size in range(1, n) for a in range(n - size + 1)]
    return [frozenset(w) for w in windows if is_outlier_group(means, w, eps, rho, sizes)]


def is_outlier_arm(means: Sequence[Number], j: int, eps: Number, rho: Number, sizes: str = "above") -> bool:
    """Definition 3.1: whether arm j is an (eps, rho)-outlier arm.

    It is enough to try runs of arms in the order of their means: filling the gaps of a set with all arms between its
    ends makes it larger, and no neighbourhood distance longer.
    """
    y, e, share = [exact(v) for v in means], exact(eps), exact(rho)
    n = len(y)

    def runs(arms: list[int]) -> list[list[int]]:
        arms.sort(key=lambda i: y[i])
        return [[], *(arms[a:c] for a in range(len(arms)) for c in range(a + 1, len(arms) + 1))]

    return any(
        _large(upper, lower, n, share, sizes) and _separated(j, upper, lower, y, e)
        for upper in runs([i for i in range(n) if y[i] > y[j]])
        for lower in runs([i for i in range(n) if y[i] < y[j]])
    )


def outlier_arms(means: Sequence[Number], eps: Number, rho: Number, sizes: str = "above") -> frozenset[int]:
    """Return all (eps, rho)-outlier arms."""
    return frozenset(j for j in range(len(means)) if is_outlier_arm(means, j, eps, rho, sizes))


# Upper bounds on the number of pulls.


def h1_h2(means: Sequence[float], k: float) -> tuple[float, float]:
    """Return H1 = n / min (y_i - theta)^2 and H2 = the sum of 1 / (y_i - theta)^2 (Theorems 2 and 3)."""
    _, _, theta = threshold([float(y) for y in means], k)
    squares = [(y - theta) ** 2 for y in means]
    if min(squares) == 0:
        return math.inf, math.inf
    return len(means) / min(squares), math.fsum(1 / s for s in squares)


def rr_bound(means: Sequence[float], k: float, delta: float, width: float = 1.0) -> float:
    """Theorem 2, Eq. 4: what T of RR with "bounded" intervals stays below with probability 1 - delta."""
    n = len(means)
    h = h1_h2(means, k)[0] * (1 + math.sqrt(l_of_k(n, k, delta))) ** 2
    return 8 * width**2 * h * (math.log(2 * width**2 * math.pi**2 * (n + 1) * h / (3 * delta)) + 1) + 4 * n


def wrr_bound(means: Sequence[float], k: float, delta: float, rho: float | None = None, width: float = 1.0) -> float:
    """Theorem 3, Eq. 5: the same for WRR."""
    n = len(means)
    share = rho_star(n, k, delta) if rho is None else rho
    h1, h2 = h1_h2(means, k)
    h = (h1 / share + (share - 1) * h2 / share) * (1 + math.sqrt(l_of_k(n, k, delta) * share)) ** 2
    logarithm = math.log(2 * width**2 * math.pi**2 * (n + 1) * h / (3 * delta))
    return 8 * width**2 * h * (logarithm + 1) + 2 * (share + 2) * n


def gold_bound(means: Sequence[float], eps: float, delta: float, width: float = 1.0, gap_power: int = 1) -> float:
    """Theorem 5.7: what T of GOLD with "bounded" intervals stays below with probability 1 - delta.

    D_3 is printed with the smallest distance of two means in its denominator; the proof has its square there. The
    first is ``gap_power`` 1, the second 2.
    """
    n = len(means)
    y = sorted(means)
    gap = min((c - a for a, c in pairwise(y)), default=0.0)
    if gap == 0:
        return math.inf
    d3 = 2 * (gold_b(eps) + 1) ** 2 * width**2 / gap**gap_power
    logarithm = math.log(2 * d3 * n) + math.log(math.sqrt(math.pi**2 * n / (6 * delta)))
    return 4 * d3 * n * logarithm + 2 * (n - 1)
