"""How OptMAI allots its budget (Zhou, Chen and Li 2014): in whole pulls, an equal share for each active arm.

On the host, with 50 digits.
"""

import functools
from decimal import Context, Decimal, localcontext

_DIGITS = Context(prec=50)


def printed_beta() -> Decimal:
    """Returns beta of Algorithm 1, line 2: 3/4 e^0.2 = 0.9160...

    Example:
        >>> from jaxbandit import topk
        >>> round(float(topk.printed_beta()), 4)
        0.9161
    """
    with localcontext(_DIGITS):
        return Decimal("0.75") * Decimal("0.2").exp()


def exact_beta(beta: float | Decimal | str | None) -> Decimal:
    """Returns beta as a decimal: a float as its shortest one, None (the word "printed" in ``given.Beta``) as
    printed."""
    return printed_beta() if beta is None else beta if isinstance(beta, Decimal) else Decimal(repr(beta))


def inflated(arms: int, budget: int, beta: Decimal) -> Decimal:
    """Returns Q' of section 6, which is Q / (1 - beta^(ln n / ln (4/3))), or Q for one arm."""
    if arms == 1:
        return Decimal(budget)
    with localcontext(_DIGITS):
        return Decimal(budget) / (1 - beta ** (Decimal(arms).ln() / (Decimal(4) / 3).ln()))


@functools.lru_cache(maxsize=4096)
def optmai_shares(
    arms: int, sought: int, budget: int, beta: Decimal, inflate: bool, shares: str, last: str
) -> tuple[int, ...]:
    """Returns how often each active arm is pulled in round 0, 1, ..., for all rounds until one arm is left (for one
    arm, one round of 0 pulls). A run may end earlier, when the choice is made.

    ``sought``: how many arms are looked for, K or n - K. ``shares`` says how Q/|S| becomes whole. "carry": a round gets
    all that was allotted so far and not spent, over |S|, rounded down; "floor": each round is rounded down by itself;
    "cumulative": an arm's pulls so far are the sum of its real shares, rounded down. See ``optmai`` for the rest.
    """
    found: list[int] = []
    size, spent, given, real = arms, 0, 0, Decimal(0)
    with localcontext(_DIGITS):
        allotted = inflated(arms, budget, beta) if inflate else Decimal(budget)
        while size > 1:
            number = len(found)
            uniform = size < 4 * sought and last == "uniform"
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
