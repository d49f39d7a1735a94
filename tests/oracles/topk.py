"""Rules that choose the K best of n arms: Zhou, Chen and Li 2014, and the rules that they compare with.

Every rule takes the tape ``reward(arm, j)``, the j-th reward of an arm (j from 0, counted over the whole run), then n,
K, the budget Q (pulls), its parameters and its named options, and returns a ``Result``. Arms are numbered from 0.
Within a round the arms are pulled in ascending order unless a rule says otherwise.

Means are compared exactly where the rewards are integers or Fractions (by Fraction), as floats otherwise. An arm
without a pull counts as an arm of mean 0. Confidence bounds are float64.

Ties go to the lowest priority. ``ties`` is None (the arm's number is its priority), one priority an arm for the whole
run, or a function ``ties(step, what)`` that gives one priority an arm for one decision. ``step`` is the round (each
rule says from which number), ``what`` is the kind of decision:

- "select": ranking by mean; of equal arms the lower priority ranks as the better one;
- "gap": which of the arms with the largest empirical gap is removed first (AR, SAR);
- "weak", "strong": the arm of the lowest lower bound and of the highest upper bound (LUCB);
- "spread": who gets the pulls left over (uniform).

Equal priorities go to the lower arm number.

References: Bubeck, Wang and Viswanathan 2013 (SAR); Kalyanakrishnan, Tewari, Auer and Stone 2012 (LUCB1); Kaufmann and
Kalyanakrishnan 2013 (KL-LUCB); Karnin, Koren and Somekh 2013 (sequential halving). Only Zhou et al. are transcribed
line by line; these four are written from their well-known statements.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

Number = int | float | Fraction
Reward = Callable[[int, int], Any]
Ties = Sequence[float] | Callable[[int, str], Sequence[float]] | None

_DIGITS = decimal.Context(prec=50)


@dataclass(frozen=True)
class Result:
    """What a run did."""

    chosen: tuple[int, ...]
    """The K arms of the answer, ascending."""
    pulls: tuple[int, ...]
    """Pulls per arm."""
    sequence: tuple[tuple[int, int], ...]
    """(arm, count) in order, no count of 0."""
    history: tuple[tuple[tuple[int, ...], int], ...] = ()
    """The active arms (ascending) and the pulls of each, round by round; empty for LUCB. A share may be 0."""
    ended: str = "answer"
    """"answer", or "budget" (a stopping rule was cut off), or "stalled" (QE as printed removes nothing any more)."""
    rounds: int = 0
    """LUCB: how often bounds were compared; else the number of rounds of pulls."""
    margin: float = math.inf
    """LUCB: the smallest difference that a comparison of unequal bounds rested on. Below the resolution of another
    program's floats that program may go another way."""

    @property
    def spent(self) -> int:
        """Pulls in all."""
        return sum(self.pulls)


def _exact(x: Any) -> Any:
    """Return a reward as a Python number: an array's scalar as its item, a truth value as 0 or 1."""
    x = x.item() if hasattr(x, "item") else x
    return int(x) if isinstance(x, int) else x


class _Run:
    """The tape, what was pulled, and the estimates."""

    def __init__(self, reward: Reward, n: int, k: int, budget: int | None, ties: Ties) -> None:
        if not 1 <= k <= n:
            raise ValueError("1 <= K <= n")
        if budget is not None and budget < 0:
            raise ValueError("a negative budget")
        self.n = n
        self.budget = budget
        self.pulls = [0] * n
        self.sequence: list[tuple[int, int]] = []
        self.history: list[tuple[tuple[int, ...], int]] = []
        self.total: list[Any] = [0] * n
        self.count = [0] * n
        self._reward = reward
        self._ties = ties

    @property
    def spent(self) -> int:
        return sum(self.pulls)

    def pull(self, arm: int, count: int, fresh: bool = False) -> None:
        """Pull an arm; with ``fresh`` its estimate rests on these pulls alone. A count of 0 changes nothing."""
        if count < 0 or (self.budget is not None and self.spent + count > self.budget):
            raise ValueError("a pull beyond the budget")
        if count == 0:
            return
        if fresh:
            self.total[arm] = 0
            self.count[arm] = 0
        for _ in range(count):
            self.total[arm] += _exact(self._reward(arm, self.pulls[arm]))
            self.pulls[arm] += 1
            self.count[arm] += 1
        self.sequence.append((arm, count))

    def round(self, arms: Iterable[int], count: int, fresh: bool = False) -> None:
        """Pull each of the arms ``count`` times, in ascending order, and note the round."""
        arms = sorted(arms)
        for arm in arms:
            self.pull(arm, count, fresh)
        self.history.append((tuple(arms), count))

    def mean(self, arm: int) -> Number:
        if isinstance(self.total[arm], int | Fraction):
            return Fraction(self.total[arm], max(self.count[arm], 1))
        return float(self.total[arm]) / max(self.count[arm], 1)

    def priority(self, step: int, what: str) -> Callable[[int], tuple[float, int]]:
        """Return the key that breaks the ties of one decision."""
        if self._ties is None:
            return lambda arm: (arm, arm)
        priorities = self._ties(step, what) if callable(self._ties) else self._ties
        return lambda arm: (priorities[arm], arm)

    def ranked(self, arms: Iterable[int], step: int) -> list[int]:
        """Return the arms by descending mean, ties by the priority "select"."""
        key = self.priority(step, "select")
        return sorted(arms, key=lambda arm: (-self.mean(arm), key(arm)))

    def result(self, chosen: Iterable[int], **extra: Any) -> Result:
        extra.setdefault("rounds", len(self.history))
        return Result(tuple(sorted(chosen)), tuple(self.pulls), tuple(self.sequence), tuple(self.history), **extra)


# Uniform sampling.


def uniform(reward: Reward, n: int, k: int, budget: int, *, remainder: str = "drop", ties: Ties = None) -> Result:
    """Pull every arm Q / n times and choose the K largest means (section 6, Remark 4.2); step 0.

    ``remainder``: "drop" leaves Q mod n pulls unspent ("takes the same number of samples from each arm", Remark 4.2);
    "spread" gives one more pull to the arms that come first by the priority "spread".
    """
    run = _Run(reward, n, k, budget, ties)
    run.round(range(n), budget // n)
    if remainder == "spread":
        extra = sorted(range(n), key=run.priority(0, "spread"))[: budget % n]
        if extra:
            run.round(extra, 1)
    elif remainder != "drop":
        raise ValueError(remainder)
    return run.result(run.ranked(range(n), 0)[:k])


def index_policy(reward: Reward, n: int, k: int, budget: int, index: Callable[[Number, int], float]) -> Result:
    """Pull every arm once, then always the one of the largest ``index(mean, pulls)``, of equal ones the lowest arm;
    choose the K largest means."""
    run = _Run(reward, n, k, budget, None)
    while run.spent < budget:
        indices = [index(run.mean(arm), run.pulls[arm]) if run.pulls[arm] else math.inf for arm in range(n)]
        run.pull(indices.index(max(indices)), 1)
    return run.result(run.ranked(range(n), 0)[:k])


# OptMAI (Algorithms 1 to 3).


def beta_printed() -> Decimal:
    """Return beta of Algorithm 1, line 2: e^0.2 * 3/4 = 0.9160..."""
    return _DIGITS.multiply(_DIGITS.exp(Decimal("0.2")), Decimal("0.75"))


def inflated_budget(n: int, budget: int, beta: float | str | Decimal) -> Decimal:
    """Return Q' = Q / (1 - beta^(ln n / ln(4/3))) of section 6; n >= 2. A float is read as its shortest decimal."""
    b = _decimal(beta)
    with decimal.localcontext(_DIGITS):
        return Decimal(budget) / (1 - b ** (Decimal(n).ln() / (Decimal(4) / 3).ln()))


def _decimal(x: float | str | Decimal) -> Decimal:
    return Decimal(repr(x)) if isinstance(x, float) else Decimal(x)


class _Shares:
    """The integer share of an arm in each round of OptMAI, for the real share beta^r (1 - beta) Q' / |S|."""

    def __init__(self, rule: str, beta: Decimal, q: Decimal, cap: int) -> None:
        if rule not in ("floor", "carry", "cumulative"):
            raise ValueError(rule)
        self.rule = rule
        self.beta = beta
        self.q = q
        self.cap = cap
        self.real = Decimal(0)  # an arm's real shares up to now
        self.given = 0  # its integer shares up to now

    def take(self, r: int, size: int, spent: int) -> int:
        with decimal.localcontext(_DIGITS):
            allotment = self.beta**r * (1 - self.beta) * self.q
            self.real += allotment / size
            if self.rule == "floor":
                share = int(allotment / size)
            elif self.rule == "carry":
                share = int((self.q * (1 - self.beta ** (r + 1)) - spent) / size)
            else:
                share = int(self.real) - self.given
        share = max(0, min(share, (self.cap - spent) // size))
        self.given += share
        return share

    def dry(self, r: int, size: int, spent: int) -> bool:
        """Return whether no round after r, with as many arms as now, has a pull to give."""
        if (self.cap - spent) // size == 0:
            return True
        with decimal.localcontext(_DIGITS):
            later = self.beta ** (r + 1) * self.q  # the sum of all later allotments
            if self.rule == "floor":
                return later * (1 - self.beta) / size < 1
            if self.rule == "carry":
                return (self.q - spent) / size <= 1
            return self.real + later / size - self.given <= 1


def optmai(
    reward: Reward,
    n: int,
    k: int,
    budget: int,
    *,
    beta: float | str | Decimal | None = 0.8,
    inflate: bool = True,
    reuse: bool = True,
    shares: str = "carry",
    quarter: str = "up",
    qe: str = "quarter",
    qe_while: str = "at least",
    accept: str = "rank",
    gap_ties: str = "priority",
    fill: str = "at once",
    last: str = "ar",
    last_budget: str = "rest",
    reduce: bool = False,
    ties: Ties = None,
) -> Result:
    """OptMAI as section 6 runs it; ``optmai_printed`` has the settings of Algorithm 1. The step is r, from 0.

    Settings that the paper names:

    - ``beta``: in (0.75, 1); None is the printed e^0.2 * 3/4. Reals are computed with 50 digits, a float read as its
      shortest decimal.
    - ``inflate``: allot with Q' of section 6 in the place of Q. Whatever is set, no more than Q is spent.
    - ``reuse``: the mean of all the samples of an arm (section 6); else of those of the round (Algorithms 2 and 3).
      Where the round's share is 0 the last estimate stands.
    - ``last``: "ar", or "uniform", the simpler last stage of Remark 4.1: below 4K arms, one uniform sampling, then the
      K largest means. ``last_budget``: it spends "rest", all that is left of Q (Algorithm 1 allots as much to AR), or
      "round", the allotment of one round. The paper gives no figure here (its appendix has the details).
    - ``reduce``: where K >= n/2 look for the n - K worst arms on 1 - x and return the others (Theorem 4.5). The
      priorities then serve the reduced problem as they are: the lowest ranks first among the worst. K = n is free.

    Readings, the sound one first:

    - ``shares``: Q_0 = Q/|S| (line 2 of Algorithms 2 and 3) is "carry": what all rounds up to this one were allotted
      less what was spent, over |S|, floored, so that a round's remainder goes to the next; "floor": each round floored
      by itself, the remainder lost; "cumulative": an arm's total is the floor of its total real share.
    - ``quarter``: QE removes ceil(|S|/4) arms, "up" (as AR's loop does; R <= ln n / ln(4/3) needs it), or floor(|S|/4),
      "down".
    - ``qe``: "quarter" removes that many, the lowest ranks ("discard a quarter of arms"); "strict" those whose mean is
      below the quartile (Algorithm 2, line 4). With m arms to remove, the quartile is here the (m + 1)-th smallest
      mean, so that without ties both do the same. With ties "strict" removes fewer; when it removed none and there is
      nothing left to sample, the run is "stalled" and the answer is completed by rank.
    - ``qe_while``: QE at |S| "at least" 4K (Algorithm 1, line 4) or "more than" 4K ("until the number of remaining arms
      is at most 4K", section 3).
    - ``accept``: AR puts a removed arm into T if its "rank" is at most K'; "kth": if its mean is at least the K'-th;
      "printed": at least the (K'+1)-th (Algorithm 3, line 6), which takes any arm that ties there.
    - ``gap_ties``: of equal gaps the first to go is by "priority" ("gap"), or "accept": the upper side first, best rank
      first, then the lower side, worst rank first; or "reject": the lower side first, in the same orders.
    - ``fill``: where |S| = K', and the (K'+1)-th mean does not exist, "at once" accepts S without another pull;
      "rounds" takes that mean for minus infinity and goes on.
    """
    if reduce and 2 * k >= n:
        if k == n:
            return _Run(reward, n, k, budget, ties).result(range(n))
        worst = _optmai(
            lambda arm, j: 1 - _exact(reward(arm, j)), n, n - k, budget, beta, inflate, reuse, shares, quarter, qe,
            qe_while, accept, gap_ties, fill, last, last_budget, ties,
        )  # fmt: skip
        rest = tuple(arm for arm in range(n) if arm not in worst.chosen)
        return Result(rest, worst.pulls, worst.sequence, worst.history, worst.ended, worst.rounds)
    return _optmai(
        reward, n, k, budget, beta, inflate, reuse, shares, quarter, qe, qe_while, accept, gap_ties, fill, last,
        last_budget, ties,
    )  # fmt: skip


def optmai_printed(reward: Reward, n: int, k: int, budget: int, **options: Any) -> Result:
    """Algorithms 1 to 3: beta = e^0.2 * 3/4, Q itself, fresh means; the readings are those of ``optmai``.

    To the letter, ties included, it is with qe="strict" and accept="printed".
    """
    return optmai(reward, n, k, budget, **{"beta": None, "inflate": False, "reuse": False, **options})


def _optmai(
    reward: Reward,
    n: int,
    k: int,
    budget: int,
    beta: float | str | Decimal | None,
    inflate: bool,
    reuse: bool,
    shares: str,
    quarter: str,
    qe: str,
    qe_while: str,
    accept: str,
    gap_ties: str,
    fill: str,
    last: str,
    last_budget: str,
    ties: Ties,
) -> Result:
    for value, allowed in (
        (quarter, ("up", "down")),
        (qe, ("quarter", "strict")),
        (qe_while, ("at least", "more than")),
        (accept, ("rank", "kth", "printed")),
        (gap_ties, ("priority", "accept", "reject")),
        (fill, ("at once", "rounds")),
        (last, ("ar", "uniform")),
        (last_budget, ("rest", "round")),
    ):
        if value not in allowed:
            raise ValueError(f"{value} is none of {allowed}")
    run = _Run(reward, n, k, budget, ties)
    b = beta_printed() if beta is None else _decimal(beta)
    if not Decimal("0.75") < b < 1:
        raise ValueError("beta in (0.75, 1)")
    q = inflated_budget(n, budget, b) if inflate and n > 1 else Decimal(budget)
    schedule = _Shares(shares, b, q, budget)

    s = set(range(n))  # Algorithm 1, line 2
    t: set[int] = set()
    r = 0
    while len(t) < k and s:  # line 3
        if len(s) == k - len(t) and fill == "at once":
            t |= s
            break
        if len(s) > 4 * k or (len(s) == 4 * k and qe_while == "at least"):  # line 4
            share = schedule.take(r, len(s), run.spent)
            run.round(s, share, fresh=not reuse)
            kept = _quartile_elimination(run, s, quarter, qe, r)  # line 5
            if len(kept) == len(s) and schedule.dry(r, len(s), run.spent):
                return run.result(run.ranked(s, r)[:k], ended="stalled")
            s = kept
        elif last == "uniform":  # Remark 4.1
            share = (budget - run.spent) // len(s) if last_budget == "rest" else schedule.take(r, len(s), run.spent)
            run.round(s, share, fresh=not reuse)
            t = set(run.ranked(s, r)[:k])
        else:
            share = schedule.take(r, len(s), run.spent)
            run.round(s, share, fresh=not reuse)
            s, t = _accept_reject(run, s, t, k, accept, gap_ties, r)  # line 7
        r += 1  # line 10
    return run.result(t)  # line 12


def _quartile_elimination(run: _Run, s: set[int], quarter: str, qe: str, step: int) -> set[int]:
    """Algorithm 2, lines 3 and 4."""
    remove = math.ceil(len(s) / 4) if quarter == "up" else len(s) // 4
    order = run.ranked(s, step)
    if qe == "quarter":
        return set(order[: len(s) - remove])
    quartile = sorted(run.mean(i) for i in s)[remove]  # line 3
    return s - {i for i in s if run.mean(i) < quartile}  # line 4


def _gaps(run: _Run, order: list[int], need: int) -> tuple[dict[int, Number], Number, Number]:
    """Equation 2: the empirical gaps, the ``need``-th and the next largest mean; infinite where there is none."""
    kth: Number = run.mean(order[need - 1]) if need >= 1 else math.inf
    after: Number = run.mean(order[need]) if need < len(order) else -math.inf
    gaps = {i: max(run.mean(i) - after, kth - run.mean(i)) for i in order}
    return gaps, kth, after


def _removal_key(
    run: _Run, order: list[int], need: int, gap_ties: str, step: int
) -> Callable[[int], tuple[float, float]]:
    """Return the key of the order of removal among equal gaps."""
    if gap_ties == "priority":
        return run.priority(step, "gap")
    rank = {i: place + 1 for place, i in enumerate(order)}

    def key(i: int) -> tuple[float, float]:
        upper = rank[i] <= need
        first = upper == (gap_ties == "accept")
        return (0 if first else 1, rank[i] if upper else -rank[i])

    return key


def _accept_reject(
    run: _Run, s: set[int], t: set[int], k: int, accept: str, gap_ties: str, step: int
) -> tuple[set[int], set[int]]:
    """Algorithm 3, lines 3 to 10."""
    size = len(s)
    s = set(s)
    t = set(t)
    need = k - len(t)  # line 3
    order = run.ranked(s, step)
    gaps, kth, after = _gaps(run, order, need)
    key = _removal_key(run, order, need, gap_ties, step)
    while len(t) < k and 4 * len(s) > 3 * size:  # line 4
        largest = max(gaps[i] for i in s)  # line 5
        a = min((i for i in s if gaps[i] == largest), key=key)
        s.remove(a)
        above = {"rank": order.index(a) < need, "kth": run.mean(a) >= kth, "printed": run.mean(a) >= after}
        if above[accept]:  # line 6
            t.add(a)  # line 7
    return s, t


# SAR.


def sar_schedule(n: int, budget: int) -> list[int]:
    """Return n_0 = 0 and, for 0 < k < n, n_k = ceil((Q - n) / (logbar(n) (n + 1 - k))): exact, and never below 0."""
    logbar = Fraction(1, 2) + sum((Fraction(1, i) for i in range(2, n + 1)), Fraction(0))
    return [0] + [max(0, math.ceil((budget - n) / (logbar * (n + 1 - k)))) for k in range(1, n)]


def sar(
    reward: Reward,
    n: int,
    k: int,
    budget: int,
    *,
    accept: str = "rank",
    gap_ties: str = "priority",
    stop: str = "early",
    ties: Ties = None,
) -> Result:
    """Successive accepts and rejects (Bubeck et al. 2013), samples reused. The step is the phase, from 1.

    Each phase k of n - 1 pulls the active arms up to n_k in all and deactivates the arm of the largest empirical gap.
    With Q <= n there are no pulls (n_k = 0).

    - ``accept``: the arm is accepted if its "rank" is at most m(k), the number still wanted (sound), or "printed": if
      its mean is greater than the (m(k)+1)-th. The latter rejects tied arms; those left still complete the answer.
    - ``gap_ties``: as in ``optmai`` ("ties broken arbitrarily").
    - ``stop``: "early": end when K are accepted or the active arms are just those still wanted; "phases": do all n - 1
      phases (the missing mean is infinite), to the same answer.
    """
    if accept not in ("rank", "printed") or gap_ties not in ("priority", "accept", "reject"):
        raise ValueError("accept or gap_ties")
    if stop not in ("early", "phases"):
        raise ValueError(stop)
    run = _Run(reward, n, k, budget, ties)
    times = sar_schedule(n, budget)
    active = set(range(n))
    accepted: set[int] = set()
    for phase in range(1, n):
        need = k - len(accepted)
        if stop == "early" and need in (0, len(active)):
            break
        run.round(active, times[phase] - times[phase - 1])  # (1)
        order = run.ranked(active, phase)  # (2)
        gaps, _, after = _gaps(run, order, need)
        key = _removal_key(run, order, need, gap_ties, phase)
        largest = max(gaps.values())  # (3)
        i = min((arm for arm in active if gaps[arm] == largest), key=key)
        active.remove(i)
        inside = order.index(i) < need
        forced = need in (0, len(order))  # nothing to compare with
        if inside if accept == "rank" or forced else run.mean(i) > after:  # (4)
            accepted.add(i)
    if len(accepted) < k:
        accepted |= active
    return run.result(accepted)


# LUCB and KL-LUCB.


def lucb_radius(n: int, t: int, pulls: int, delta: float, k1: float = 1.25) -> float:
    """Return beta(u, t) = sqrt(ln(k1 n t^4 / delta) / (2 u)) (Kalyanakrishnan et al. 2012)."""
    return math.sqrt((math.log(k1 * n / delta) + 4 * math.log(t)) / (2 * pulls))


def kl_rate(n: int, t: int, delta: float, k1: float, alpha: float, rate: str) -> float:
    """Return beta(t, delta) of Kaufmann and Kalyanakrishnan 2013: x = ln(k1 n t^alpha / delta), or x + ln x."""
    x = math.log(k1 * n / delta) + alpha * math.log(t)
    if rate == "log":
        return x
    if rate == "log + log log":
        return x + math.log(x)
    raise ValueError(rate)


def kl_divergence(p: float, q: float) -> float:
    """Return d(p, q) between Bernoulli laws, inf where it is."""
    if (q <= 0 and p > 0) or (q >= 1 and p < 1):
        return math.inf
    first = p * math.log(p / q) if p > 0 else 0.0
    return first + ((1 - p) * (math.log1p(-p) - math.log1p(-q)) if p < 1 else 0.0)


def kl_lower(mean: Number, pulls: int, level: float) -> float:
    """Return min{q in [0, mean] : pulls d(mean, q) <= level}. The upper bound is 1 - kl_lower(1 - mean, ...).

    By bisection on x in q = mean exp(-x), so that a bound next to 0 keeps its relative precision.
    """
    if mean == 0 or level <= 0:
        return float(mean)
    if mean == 1:
        return math.exp(-level / pulls)
    p = float(mean)
    low = 0.0
    high = (level / pulls - (1 - p) * math.log1p(-p)) / p  # d(p, q) is at least p x + (1 - p) ln(1 - p)
    for _ in range(80):
        middle = (low + high) / 2
        if pulls * kl_divergence(p, p * math.exp(-middle)) <= level:
            low = middle
        else:
            high = middle
    return p * math.exp(-low)


def _lucb(
    run: _Run,
    k: int,
    bounds: Callable[[int, int], tuple[float, float]],
    epsilon: float | None,
    stop: str,
    first_check: bool,
    odd: str,
    clock: str,
) -> Result:
    """The loop of LUCB. ``bounds(arm, t)`` gives the lower bound, and the distance of the upper bound from 1."""
    if stop not in ("less", "at most") or odd not in ("weak", "strong", "skip") or clock not in ("round", "pulls"):
        raise ValueError("stop, odd or clock")
    n = run.n
    if k == n:
        return run.result(range(n))
    for arm in range(n):
        if run.budget is None or run.spent < run.budget:
            run.pull(arm, 1)
    margin = math.inf
    step = 1
    rounds = 0
    while min(run.pulls) > 0 and (epsilon is not None or run.spent != run.budget):
        t = step if clock == "round" else run.spent
        rounds = step
        order = run.ranked(range(n), step)
        low: dict[int, float] = {}
        short: dict[int, float] = {}  # 1 - the upper bound
        for arm in range(n):
            low[arm], short[arm] = bounds(arm, t)
        key = run.priority(step, "weak")
        weak = min(order[:k], key=lambda arm: (low[arm], key(arm)))
        key = run.priority(step, "strong")
        strong = min(order[k:], key=lambda arm: (short[arm], key(arm)))
        margin = min(
            margin,
            *(low[arm] - low[weak] for arm in order[:k] if low[arm] > low[weak]),
            *(short[arm] - short[strong] for arm in order[k:] if short[arm] > short[strong]),
            math.inf,
        )
        if epsilon is not None and (first_check or step > 1):
            gap = (1 - short[strong]) - low[weak]
            margin = min(margin, abs(gap - epsilon) or math.inf)
            if gap < epsilon or (stop == "at most" and gap == epsilon):
                return run.result(order[:k], rounds=rounds, margin=margin)
        left = 2 if run.budget is None else run.budget - run.spent
        if left == 0 or (left == 1 and odd == "skip"):
            break
        for arm in (weak, strong) if left > 1 else (weak,) if odd == "weak" else (strong,):
            run.pull(arm, 1)
        step += 1
    ended = "budget" if epsilon is not None else "answer"
    return run.result(run.ranked(range(n), step)[:k], ended=ended, rounds=rounds, margin=margin)


def _hoeffding(run: _Run, delta: float, k1: float) -> Callable[[int, int], tuple[float, float]]:
    def bounds(arm: int, t: int) -> tuple[float, float]:
        radius = lucb_radius(run.n, t, run.pulls[arm], delta, k1)
        mean = run.mean(arm)
        return float(mean) - radius, float(1 - mean) - radius

    return bounds


def lucb(
    reward: Reward,
    n: int,
    k: int,
    budget: int,
    *,
    delta: float = 0.1,
    k1: float = 1.25,
    odd: str = "weak",
    clock: str = "round",
    ties: Ties = None,
) -> Result:
    """LUCB1 run to the budget, without its stopping rule (section 6 of Zhou et al. gives neither delta nor a rule).

    First one pull an arm, in the order of the arms (those that Q allows). Then rounds t = 1, 2, ...: the arm of the
    lowest lower bound among the K largest means and the arm of the highest upper bound among the others are pulled, in
    this order. The answer is the K largest means at the end. Bounds are not cut to [0, 1]. The step is the round, from
    1; the answer's is one more than that of the last pull (1 if Q <= n). K = n costs nothing.

    - ``odd``: a last single pull goes to the "weak" arm of the top, to the "strong" arm of the others, or "skip".
    - ``clock``: t in the bounds is the "round", or the number of "pulls" up to now.
    """
    run = _Run(reward, n, k, budget, ties)
    return _lucb(run, k, _hoeffding(run, delta, k1), None, "less", True, odd, clock)


def lucb_confidence(
    reward: Reward,
    n: int,
    k: int,
    *,
    epsilon: float,
    delta: float,
    budget: int | None = None,
    k1: float = 1.25,
    stop: str = "less",
    first_check: bool = True,
    odd: str = "weak",
    clock: str = "round",
    ties: Ties = None,
) -> Result:
    """LUCB1 with its own stopping rule: stop when the two bounds overlap by less than epsilon.

    The answer is the K largest means then. ``budget`` cuts a run off: ended is "budget" if the rule does not hold when
    Q is spent.

    - ``stop``: "less" (2012) or "at most" epsilon (the loop of Kaufmann and Kalyanakrishnan 2013).
    - ``first_check``: test the rule after the first n pulls; else one pair is pulled first (2013: B(1) = infinity).
    """
    run = _Run(reward, n, k, budget, ties)
    return _lucb(run, k, _hoeffding(run, delta, k1), epsilon, stop, first_check, odd, clock)


def kl_lucb(
    reward: Reward,
    n: int,
    k: int,
    *,
    epsilon: float | None,
    delta: float,
    budget: int | None = None,
    rate: str = "log + log log",
    k1: float = 405.5,
    alpha: float = 1.1,
    stop: str = "at most",
    first_check: bool = False,
    odd: str = "weak",
    clock: str = "round",
    ties: Ties = None,
) -> Result:
    """KL-LUCB (Kaufmann and Kalyanakrishnan 2013, Algorithm 1); with epsilon None, run to the budget.

    U = max{q : u d(mean, q) <= beta(t, delta)} and L likewise. The default rate has the log log, and k1 is above
    2e + 1 + e/(alpha - 1) + (e + 1)/(alpha - 1)^2, as the guarantee asks; "log" is the shorter rate. The other
    options are those of ``lucb_confidence``.
    """
    if epsilon is None and budget is None:
        raise ValueError("epsilon or a budget")
    run = _Run(reward, n, k, budget, ties)

    def bounds(arm: int, t: int) -> tuple[float, float]:
        level = kl_rate(n, t, delta, k1, alpha, rate)
        mean = run.mean(arm)
        return kl_lower(mean, run.pulls[arm], level), kl_lower(1 - mean, run.pulls[arm], level)

    return _lucb(run, k, bounds, epsilon, stop, first_check, odd, clock)


# Sequential halving.


def sequential_halving(
    reward: Reward,
    n: int,
    k: int,
    budget: int,
    *,
    reuse: bool = False,
    shares: str = "floor",
    ties: Ties = None,
) -> Result:
    """Sequential halving (Karnin et al. 2013, for K = 1), kept from going below K arms. The step is the round, from 0.

    R = ceil(log2(n / K)) rounds, each with Q / R pulls: floor(Q / (R |S|)) an arm, then the max(K, ceil(|S| / 2))
    largest means stay. For K = 1 it is the published rule.

    - ``reuse``: means of all samples, else of the round's (published); where a share is 0 the last estimate stands.
    - ``shares``: "floor" (published), or "carry": what the rounds up to now were given less what was spent, over |S|.
    """
    if shares not in ("floor", "carry"):
        raise ValueError(shares)
    run = _Run(reward, n, k, budget, ties)
    total = 0
    while k << total < n:
        total += 1
    s = set(range(n))
    for r in range(total):
        if shares == "floor":
            share = budget // (len(s) * total)
        else:
            share = (budget * (r + 1) - run.spent * total) // (len(s) * total)
        run.round(s, share, fresh=not reuse)
        s = set(run.ranked(s, r)[: max(k, math.ceil(len(s) / 2))])
    return run.result(s)


# Measures.


def aggregate_regret(means: Sequence[Number], chosen: Iterable[int]) -> Number:
    """Equation 1: the mean of the K largest true means less that of the chosen arms; exact on Fractions."""
    arms = list(chosen)
    best = sorted(means, reverse=True)[: len(arms)]
    terms = [*best, *(-means[i] for i in arms)]
    if all(isinstance(x, int | Fraction) for x in terms):
        return Fraction(sum(terms)) / len(arms)
    return math.fsum(terms) / len(arms)


def precision(means: Sequence[Number], chosen: Iterable[int], ties: str = "any") -> Fraction:
    """Return |T intersect top-K| / K (section 6.2), where the top K are those by true means.

    Where true means tie at the K-th place, ``ties`` says which are the top K: "any": those that serve T best (an arm
    at the cut counts as right as long as there is room); "index": the lowest numbers; "expected": the mean over all.
    """
    t = set(chosen)
    k = len(t)
    order = sorted(range(len(means)), key=lambda i: (-means[i], i))
    if ties == "index":
        return Fraction(len(t & set(order[:k])), k)
    cut = means[order[k - 1]]
    above = {i for i in order if means[i] > cut}
    level = {i for i in order if means[i] == cut}
    room = k - len(above)
    if ties == "any":
        return Fraction(len(t & above) + min(len(t & level), room), k)
    if ties == "expected":
        return (len(t & above) + Fraction(len(t & level) * room, len(level))) / k
    raise ValueError(ties)


# Sample sizes and bounds. Where the paper has only O(.) or Omega(.), the function returns what stands inside.


def sample_size(n: int, k: int, epsilon: float, delta: float) -> float:
    """Corollary 4.4 for K < n/2, Theorem 4.5 from there on: the inside of O(.), the same hidden constant in both."""
    return corollary_4_4(n, k, epsilon, delta) if 2 * k < n else theorem_4_5(n, k, epsilon, delta)


def corollary_4_4(n: int, k: int, epsilon: float, delta: float) -> float:
    """Equation 3: n/eps^2 (1 + ln(1/delta)/K), inside O(.)."""
    return n / epsilon**2 * (1 + math.log(1 / delta) / k)


def theorem_4_5(n: int, k: int, epsilon: float, delta: float) -> float:
    """Equation 4, K >= n/2: ((n-K)/K n/eps^2) ((n-K)/K + ln(1/delta)/K), inside O(.); 0 at K = n."""
    part = (n - k) / k
    return part * n / epsilon**2 * (part + math.log(1 / delta) / k)


def theorem_4_3(n: int, k: int, budget: float, delta: float) -> float:
    """The regret of OptMAI: sqrt(n/Q (1 + ln(1/delta)/K)), inside O(.). An arm gets O(Q / n^0.3) samples."""
    return math.sqrt(n / budget * (1 + math.log(1 / delta) / k))


def lemma_4_1(size: int, k: int, budget: float, delta: float) -> float:
    """What a QE round of ``budget`` samples loses at most, with probability 1 - delta, K <= |S|/4. Stated constants."""
    return math.sqrt(size / budget * (10 + 4 * math.log(2 / delta) / k))


def lemma_4_2(size: int, k: int, budget: float, delta: float) -> float:
    """What an AR round of ``budget`` samples loses at most, with probability 1 - delta. Stated constants."""
    return math.sqrt(size / budget * (4 + math.log(2 / delta) / k))


def theorem_5_1(n: int, epsilon: float) -> float:
    """Lower bound n/eps^2, inside Omega(.), for 0 < eps <= 0.01, 10 <= K <= n/2, success probability 0.8."""
    return n / epsilon**2


def lemma_5_4(n: int, k: int, epsilon: float, delta: float) -> float:
    """Lower bound n ln(1/delta) / (20000 eps^2 K), constant as stated, on the expected samples on the worst instance.

    For deterministic rules, K <= n/2, eps and delta in (0, 0.01].
    """
    return n * math.log(1 / delta) / (20000 * epsilon**2 * k)


def theorem_5_5(n: int, k: int, epsilon: float, delta: float) -> float:
    """Lower bound n ln(1/delta) / (eps^2 K), inside Omega(.), for randomised rules; otherwise as in Lemma 5.4."""
    return n * math.log(1 / delta) / (epsilon**2 * k)


def lower_bound(n: int, k: int, epsilon: float, delta: float) -> float:
    """Return the inside of Omega(.) of section 5: Theorems 5.1 and 5.5 together for K < n/2, from there Theorem 5.6."""
    return sample_size(n, k, epsilon, delta)


def lemma_5_2(n: int, budget: float) -> float:
    """Return 200 Q / n: the samples at most that algorithm B takes of its arm."""
    return 200 * budget / n
