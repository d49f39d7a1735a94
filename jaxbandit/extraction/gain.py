"""The true expected gain of a query, for policies that may know it: how many new entities its answer holds, on average.

An entity is among the first k clocks of its node (see ``answers``) with a probability that is tabulated on the host,
for each k that matters. With no exclude list the expected gain is k less their sum over the entities retrieved before.
An exclude list E takes entities out of the order of clocks. About j = sum over E of P(among the first k + j) of them
are ahead of the k-th clock that is left, so the answer is taken to be the first k + j clocks without E. On the
people's domain that is within 0.01 entities of the exact gain, and within 0.001 where E is empty.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxbandit.extraction.costs import Configurations
from jaxbandit.extraction.poset import Domain
from jaxbandit.xla.formula import formula

_POINTS, _FINE = 401, 2_000
"""Times at which the number of clocks that have rung is evaluated, and those at which its mean is, to choose them."""

_KINDS = 200
"""So many different popularities in a node are computed, closest together at the top; others lie between them."""

_CELLS = 1 << 23
"""Probabilities that a thread computes at a time: 64 MiB of them."""

_LATE = 0.02
"""Times may end where as many of a node's N clocks, in the mean, are still to ring. Whoever rings later is among the
first n only if N - n others are late too, so that no probability is off by more than ``_LATE``^2 / 4, which is 1e-4."""


def sizes(configurations: Configurations) -> list[int]:
    """Lists the numbers of first clocks that are tabulated: from k to k + l of each configuration, ascending."""
    return sorted({n for k, length in configurations for n in range(k, k + length + 1)})


def inclusion(domain: Domain, model: str, configurations: Configurations) -> NDArray[np.float32]:
    """Computes the probability that an entity is among the first n clocks of a node, to about 1e-4.

    Returns:
        float32, (entities, A, sizes): of each entity, at the nodes ``ancestors[leaf]``, for n in ``sizes``; 0 for
        those of popularity 0, and where there is no such node.
    """
    wanted = sizes(configurations)
    above = np.asarray(domain.poset.ancestors)[domain.leaf]
    table = np.zeros((*above.shape, len(wanted)), np.float32)
    entity, column = np.nonzero((above >= 0) & (domain.popularity > 0)[:, None])
    order = np.argsort(above[entity, column], kind="stable")
    entity, column = entity[order], column[order]
    node = above[entity, column]

    def of_node(members: NDArray[np.intp]) -> None:
        own, at = entity[members], column[members]
        table[own, at] = _among_first(domain.popularity[own], model, wanted)

    with ThreadPoolExecutor() as threads:
        for _ in threads.map(of_node, np.split(np.arange(len(node)), np.flatnonzero(np.diff(node)) + 1)):
            pass  # but to raise what was raised
    return table


def _among_first(weight: NDArray[np.float64], model: str, wanted: list[int]) -> NDArray[np.float64]:
    """The probabilities for the members of one node: (members, wanted)."""
    if len(weight) <= wanted[0]:
        return np.ones((len(weight), len(wanted)))
    kinds, kind, many = np.unique(weight / weight.max(), return_inverse=True, return_counts=True)

    def rung(time: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability that a clock has rung: (kinds, times)."""
        passed = kinds[:, None] * time if model == "proportional" else np.maximum(time + np.log(kinds)[:, None], 0)
        chance: NDArray[np.float64] = -np.expm1(-passed)
        return chance

    # Beyond a mean of `enough`, it has a chance below 1e-9 that at most the largest size have rung; up to it, that
    # more than `most` have.
    largest = min(wanted[-1], len(weight) - 1)
    enough = largest + 6 * np.sqrt(2 * largest + 10) + 10
    most = min(int(enough + 6 * np.sqrt(enough) + 10), len(weight))
    if model == "k-largest":
        fine = np.linspace(0, 40 - np.log(kinds[0]), _FINE)
    else:
        (early,) = many @ rung(np.array([1e3]))
        end = 3 if early >= min(enough, len(weight) - _LATE) else np.log10(25 / kinds[0])
        fine = np.concatenate([[0], np.logspace(-12, end, _FINE)])
    parts = np.array_split(fine, 1 + kinds.size * fine.size // _CELLS)
    mean = np.concatenate([many @ rung(part) for part in parts])
    top = min(enough, len(weight) * (1 - 1e-9))
    time = np.interp(np.linspace(0, 1, _POINTS) ** 1.5 * top, mean, fine)
    p = rung(time)

    count, step = np.zeros((most + 1, _POINTS)), np.empty((most, _POINTS))
    count[0] = 1
    for chance, times in zip(p, many, strict=True):
        for _ in range(times):
            np.subtract(count[:-1], count[1:], out=step)
            step *= chance
            count[1:] += step
            count[0] *= 1 - chance
    some = np.unique(np.rint((len(kinds) - 1) * (1 - np.linspace(0, 1, _KINDS) ** 2)).astype(np.int64))
    chance = p[some]
    found = np.ones((len(some), len(wanted)))
    for place, few in _fewer(count, chance, [n for n in wanted if n < len(weight)]):
        # Richardson's extrapolation of the trapezoidal sums over each time and over each second one.
        fine, coarse = (((few[:, s::s] + few[:, :-s:s]) / 2 * np.diff(chance[:, ::s])).sum(1) for s in (1, 2))
        found[:, place] = (4 * fine - coarse) / 3 + few[:, -1] * (1 - chance[:, -1])
    between = [np.interp(kinds, kinds[some], column)[kind] for column in found.T]
    chances: NDArray[np.float64] = np.clip(np.stack(between, axis=1), 0, 1)
    return chances


def _fewer(
    count: NDArray[np.float64], chance: NDArray[np.float64], wanted: list[int]
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yields each place of ``wanted``, with the probability that fewer clocks than it says have rung, but for one.

    ``count``: the law of how many have, (0 .. most, times); ``chance``: that the one that is taken out has, (clocks,
    times). Its law is divided by from the lower end where that is at most a half, else from the upper one, so that
    errors do not grow.
    """
    most = len(count) - 1
    shape = min(wanted[-1], most), *chance.shape
    low, high = np.zeros(shape), np.zeros(shape)
    little, much = np.minimum(chance, 0.5), np.maximum(chance, 0.5)
    last = np.zeros_like(chance)
    for n in range(len(low)):
        low[n] = last = (count[n] - little * last) / (1 - little)
    last = np.zeros_like(chance)
    for n in range(most, 0, -1):
        last = (count[n] - (1 - much) * last) / much
        if n <= len(high):
            high[n - 1] = last
    below = np.cumsum(np.where(chance <= 0.5, low, high), axis=0)
    yield from ((place, below[min(n, most) - 1]) for place, n in enumerate(wanted))


@formula
def expected_gain(known: Array, excluded: Array, population: Array, first: Array, at: Array, most: int) -> Array:
    """Computes the expected number of new entities in an answer: float32 scalar.

    Args:
        known: float32, (sizes,), the sum of ``inclusion`` at the node over all entities retrieved before.
        excluded: float32, (l_max, sizes), ``inclusion`` at the node of each entity of E, all of them retrieved before;
            zeros where there is none.
        population: int32, how many entities the node has that can be returned.
        first: int32, k; ``at``: int32, its place among the sizes; ``most``: the largest l (static).
    """
    steps = jnp.arange(most + 1, dtype=jnp.int32)
    place = jnp.minimum(at + steps, known.shape[0] - 1)
    ahead = jnp.sum(excluded, axis=0)[place]
    new = jnp.minimum(first + steps, population).astype(jnp.float32) - known[place]
    # The first step that is at least as long as what is ahead there, and how far it goes past the last one.
    gap = steps.astype(jnp.float32) - ahead
    step = jnp.argmax(gap >= 0)
    before = jnp.maximum(step - 1, 0)
    share = jnp.where(step > 0, -gap[before] / jnp.maximum(gap[step] - gap[before], 1e-6), 0)
    value = new[before] + share * (new[step] - new[before])
    # Two units in the last place of k are what float32 leaves of the sums where all that is near is known: no gain.
    return jnp.where(value > first.astype(jnp.float32) * 2.0**-22, value, 0)
