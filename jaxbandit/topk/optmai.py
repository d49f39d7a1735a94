"""OptMAI: Zhou, Chen and Li, "Optimal PAC multiple arm identification with applications to crowdsourcing", ICML 2014.

Round r = 0, 1 ... has beta^r (1 - beta) Q pulls, shared equally by the active arms. While there are at least 4K of
them it drops the quarter with the smallest means (QE, Algorithm 2); after that, the quarter with the largest empirical
gaps, each accepted or rejected (AR, Algorithm 3). The sizes are known before the run, and with them all shares.
"""

import functools
from decimal import Context, Decimal, localcontext

import jax.numpy as jnp

from jaxbandit.errors import BadInput
from jaxbandit.topk.rounds import Rounds, schedule

_DIGITS = Context(prec=50)


def printed_beta() -> Decimal:
    """beta of Algorithm 1, line 2: 3/4 e^0.2 = 0.9160..."""
    with localcontext(_DIGITS):
        return Decimal("0.75") * Decimal("0.2").exp()


def inflated(arms: int, budget: int, beta: Decimal) -> Decimal:
    """Q' of section 6, Q / (1 - beta^(ln n / ln (4/3))); Q for one arm."""
    if arms == 1:
        return Decimal(budget)
    with localcontext(_DIGITS):
        return Decimal(budget) / (1 - beta ** (Decimal(arms).ln() / (Decimal(4) / 3).ln()))


def optmai(
    arms: int,
    want: int,
    budget: int,
    *,
    beta: float | Decimal = 0.8,
    inflate: bool = True,
    reuse: bool = True,
    shares: str = "carry",
    accept: str = "rank",
    last: str = "ar",
    reduce: bool = False,
    ties: str = "lowest",
) -> Rounds:
    """OptMAI for ``want`` of ``arms`` arms with at most ``budget`` pulls, as section 6 runs it.

    Args:
        arms, want, budget: n, 1 to n, and at least 0.
        beta: above 0.75 and below 1; a float is read as its shortest decimal.
        inflate: allot with Q' in the place of Q (section 6). No more than ``budget`` is ever spent.
        reuse: judge by all rewards of an arm (section 6), else by those of the round (Algorithms 2 and 3).
        shares: how Q/|S| becomes whole. "carry": all that the rounds up to this one were allotted and have not spent,
            over |S|, rounded down, so that what is left goes to the next round; "floor": each round is rounded down by
            itself and the rest is lost; "cumulative": an arm's pulls up to now are its real shares' sum, rounded down.
        accept: see ``Rounds``; "printed" is Algorithm 3, line 6, and takes any arm that ties there.
        last: "ar", or "uniform" for the simpler last stage of Remark 4.1: below 4K arms, all pulls left, shared
            equally, and the K largest means.
        reduce: where K >= n/2, find the n - K worst arms and choose the others (Theorem 4.5).
        ties: see ``Rounds``.

    Raises:
        BadInput: for a beta out of range.
    """
    exact = beta if isinstance(beta, Decimal) else Decimal(repr(float(beta)))
    if not Decimal("0.75") < exact < 1:
        raise BadInput("beta", beta, "a number above 0.75 and below 1")
    turned = reduce and 2 * want >= arms
    sought = arms - want if turned else want
    rounds = _rounds(arms, sought, budget, exact, inflate, shares, last)
    # A quarter, rounded up, goes each time: from n to 1 in at most log(n) / log(4/3) + 1 rounds.
    room, size = 1, arms
    while size > 1:
        room, size = room + 1, size - -(-size // 4)
    return Rounds(
        schedule(list(rounds), room),
        jnp.int32(sought),
        jnp.int32(-1 if turned else 1),
        jnp.bool_(reuse),
        accept if last == "ar" else "rank",
        ties,
    )


@functools.lru_cache(maxsize=4096)
def _rounds(
    arms: int, want: int, budget: int, beta: Decimal, inflate: bool, shares: str, last: str
) -> tuple[tuple[int, int, int, bool], ...]:
    """(size, share, keep, by gap) of each round."""
    rounds: list[tuple[int, int, int, bool]] = []
    size, spent, given, real = arms, 0, 0, Decimal(0)
    with localcontext(_DIGITS):
        allotted = inflated(arms, budget, beta) if inflate else Decimal(budget)
        # As long as the choice may be open: how many arms are accepted on the way is not known before the run.
        while size > 1 and 0 < want < arms:
            number = len(rounds)
            elimination = size >= 4 * want
            allotment = beta**number * (1 - beta) * allotted
            real += allotment / size
            if not elimination and last == "uniform":
                share = (budget - spent) // size
            elif shares == "floor":
                share = int(allotment / size)
            elif shares == "carry":
                share = int((allotted * (1 - beta ** (number + 1)) - spent) / size)
            else:
                share = int(real) - given
            share = max(0, min(share, (budget - spent) // size))
            given, spent = given + share, spent + share * size
            ends = not elimination and last == "uniform"
            keep = 0 if ends else size - -(-size // 4)
            rounds.append((size, share, keep, not elimination))
            size = keep
    return tuple(rounds)
