"""SAR, successive accepts and rejects: Bubeck, Wang and Viswanathan, "Multiple identifications in multi-armed bandits",
ICML 2013.

Phase k of n - 1 pulls each active arm up to n_k = ceil((Q - n) / (logbar(n) (n + 1 - k))) times in all, then takes the
arm of the largest empirical gap away: into the choice if its rank is at most the number still wanted.

Most phases have n_k = n_(k-1) and pull nothing. Between two pulls the means stand still, and taking an arm away does
not move the boundary between the arms still wanted and the others: both sides lose members and the number wanted with
them. So b phases without a pull between them take away the b arms of the largest gaps, all at once, which is exact,
and the rounds are as many as there are distinct n_k.
"""

from decimal import Context, Decimal, localcontext

import jax.numpy as jnp

from jaxbandit.topk.rounds import Rounds, schedule

_DIGITS = 60


def phases(arms: int, budget: int) -> list[int]:
    """n_1 ... n_(n-1): an arm's pulls up to each phase, 0 where the budget is no more than one pull an arm."""
    if budget <= arms:
        return [0] * (arms - 1)
    with localcontext(Context(prec=_DIGITS)):
        logbar = Decimal(1) / 2 + sum((Decimal(1) / i for i in range(2, arms + 1)), Decimal(0))
        # What is whole in truth may come out a little above it, by less than 10^-40.
        tight = Decimal(10) ** -40
        return [
            int((Decimal(budget - arms) / (logbar * left) - tight).to_integral_value("ROUND_CEILING"))
            for left in range(arms, 1, -1)
        ]


def sar(arms: int, want: int, budget: int, *, ties: str = "lowest") -> Rounds:
    """SAR for ``want`` of ``arms`` arms with at most ``budget`` pulls. ``ties``: see ``Rounds``."""
    times = phases(arms, budget)
    starts = [k for k in range(len(times)) if k == 0 or times[k] > times[k - 1]]
    ends = [*starts[1:], arms - 1] if starts else []
    rounds = [
        (arms - k, times[k] - (times[k - 1] if k else 0), arms - after, True)
        for k, after in zip(starts, ends, strict=True)
    ]
    room = 1 << len(rounds).bit_length()
    return Rounds(schedule(rounds, room), jnp.int32(want), jnp.int32(1), jnp.bool_(True), ties=ties)
