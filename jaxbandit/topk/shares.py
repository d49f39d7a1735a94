"""How OptMAI allots its budget (Zhou, Chen and Li 2014): in whole pulls, an equal share for each active arm.

On the host, with 50 digits.
"""

import functools
from decimal import Context, Decimal, localcontext

_DIGITS = Context(prec=50)


def printed_beta() -> Decimal:
    """beta of Algorithm 1, line 2: 3/4 e^0.2 = 0.9160...

    Example:
        >>> from jaxbandit import topk
        >>> round(float(topk.printed_beta()), 4)
        0.9161
    """
    with localcontext(_DIGITS):
        return Decimal("0.75") * Decimal("0.2").exp()


def inflated(arms: int, budget: int, beta: Decimal) -> Decimal:
    """Q' of section 6, Q / (1 - beta^(ln n / ln (4/3))); Q for one arm."""
    if arms == 1:
        return Decimal(budget)
    with localcontext(_DIGITS):
        return Decimal(budget) / (1 - beta ** (Decimal(arms).ln() / (Decimal(4) / 3).ln()))


@functools.lru_cache(maxsize=4096)
def optmai_shares(
    arms: int, want: int, budget: int, beta: Decimal, inflate: bool, shares: str, last: str
) -> tuple[int, ...]:
    """The pulls of an active arm in each round that there may be, as many as it takes to get from ``arms`` to one (one
    of no pulls for one arm). A run ends when the choice is made, which is not known before.

    ``shares`` says how Q/|S| becomes whole. "carry": all that the rounds up to this one were allotted and have not
    spent, over |S|, rounded down, so that what is left goes to the next round; "floor": each round is rounded down by
    itself and the rest is lost; "cumulative": an arm's pulls up to now are its real shares' sum, rounded down. The
    other arguments are those of ``optmai``.
    """
    found: list[int] = []
    size, spent, given, real = arms, 0, 0, Decimal(0)
    with localcontext(_DIGITS):
        allotted = inflated(arms, budget, beta) if inflate else Decimal(budget)
        while size > 1:
            number = len(found)
            uniform = size < 4 * want and last == "uniform"
            allotment = beta**number * (1 - beta) * allotted
            real += allotment / size
            if uniform:
                share = (budget - spent) // size
            elif shares == "floor":
                share = int(allotment / size)
            elif shares == "carry":
                share = int((allotted * (1 - beta ** (number + 1)) - spent) / size)
            else:
                share = int(real) - given
            share = max(0, min(share, (budget - spent) // size))
            given, spent = given + share, spent + share * size
            found.append(share)
            size -= -(-size // 4)
    return tuple(found) or (0,)
