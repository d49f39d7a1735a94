"""Sequential halving: Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed bandits", ICML 2013, for
K = 1; kept here from going below K arms.

R = ceil(log2(n / K)) rounds of Q / R pulls, shared equally among the active arms; each keeps the better half, and at
least K.
"""

import jax.numpy as jnp

from jaxbandit.topk.rounds import Rounds, schedule


def sequential_halving(arms: int, want: int, budget: int, *, reuse: bool = False, carry: bool = False) -> Rounds:
    """Sequential halving for ``want`` of ``arms`` arms with at most ``budget`` pulls.

    ``reuse``: judge by all rewards, else by the round's (as published); ``carry``: what a round leaves of its pulls
    goes to the next, else it is lost (as published).
    """
    total = 0
    while want << total < arms:
        total += 1
    rounds, size, spent = [], arms, 0
    for number in range(total):
        share = (budget * (number + 1) - spent * total) // (size * total) if carry else budget // (size * total)
        keep = max(want, -(-size // 2))
        rounds.append((size, share, keep, False))
        spent += share * size
        size = keep
    return Rounds(schedule(rounds, room=arms.bit_length()), jnp.int32(want), jnp.int32(1), jnp.bool_(reuse))
