"""Query configurations (k, l, v) of CRUX: what they cost, whether they can be asked, and their upper confidence.

Arrays are (C, S), of C configurations at S nodes, or (S,), of the nodes.
"""

import jax.numpy as jnp
from jax import Array

from jaxbandit.extraction.problem import Outcome, Pull, View
from jaxbandit.extraction.readings import Readings
from jaxbandit.extraction.retrieved import Retrieved
from jaxbandit.xla.formula import formula


def listable(readings: Readings, retrieved: Retrieved, distinct: Array) -> Array:
    """Returns how many entities a list of each node could have, int32 (S,); ``distinct``: those retrieved there."""
    return jnp.broadcast_to(retrieved.size, distinct.shape) if readings.exclude_from == "all" else distinct


def costs(readings: Readings, view: View, retrieved: Retrieved, distinct: Array, specificity: Array) -> Array:
    """Returns the cost c(q) of each query at nodes of the given specificity: int32 (C, S)."""
    if readings.short_list == "actual":
        lengths = jnp.minimum(view.lengths[:, None], listable(readings, retrieved, distinct))
        return view.shorter[jnp.arange(lengths.shape[0], dtype=jnp.int32)[:, None], lengths, specificity]
    cost = jnp.zeros((view.cost.shape[0], specificity.shape[0]), jnp.int32)
    for s in range(view.cost.shape[1]):
        cost = jnp.where(specificity == s, view.cost[:, s, None], cost)
    return cost


def exist(readings: Readings, retrieved: Retrieved, distinct: Array, lengths: Array) -> Array:
    """Says which queries there are, bool (C, S): all, or those whose exclude list can have its l entities."""
    if readings.short_list != "unavailable":
        return jnp.ones((lengths.shape[0], distinct.shape[0]), bool)
    return lengths[:, None] <= listable(readings, retrieved, distinct)


def affordable(readings: Readings, view: View, retrieved: Retrieved, distinct: Array, cost: Array) -> Array:
    """Says which queries the rest of the budget allows, if they are active: bool (C, S)."""
    left = view.budget - retrieved.spent
    allowed = cost <= left if readings.affordable == "at most" else cost < left
    return allowed & exist(readings, retrieved, distinct, view.lengths) & (left > 0)


def price(readings: Readings, view: View, pull: Pull) -> Array:
    """Returns what a query that was asked costs: int32."""
    specificity = jnp.asarray(view.poset.specificity)[pull.node]
    if readings.short_list != "actual":
        return view.cost[pull.configuration, specificity]
    return view.shorter[pull.configuration, jnp.sum(pull.exclude >= 0, dtype=jnp.int32), specificity]


def ends_node(readings: Readings, view: View, retrieved: Retrieved, pull: Pull, outcome: Outcome) -> Array:
    """Says whether the answer is empty, so that nothing more is expected at the node and below: bool."""
    if readings.empty == "unless-covered":
        return retrieved.ends_node(view, pull, outcome)
    return pull.asked & ~jnp.any(outcome.entity >= 0) & (readings.empty == "always")


@formula
def sigma(readings: Readings, floor: Array, variance: Array, times_asked: Array, t: Array) -> Array:
    """Returns sigma(q, t) = sqrt(v_q log(t) / n_q), float32 (C, S); ``times_asked``: n_q, int32 (C, S)."""
    if readings.asked_by == "node":
        times_asked = jnp.broadcast_to(jnp.sum(times_asked, axis=0, dtype=jnp.int32), times_asked.shape)
    often = times_asked + 1 if readings.never_asked == "plus-one" else jnp.maximum(times_asked, 1)
    v = jnp.maximum(variance, floor) if readings.bootstrap else floor
    found = jnp.sqrt(v * jnp.log(t.astype(jnp.float32)) / often.astype(jnp.float32))
    return jnp.where(times_asked == 0, jnp.inf, found) if readings.never_asked == "infinite" else found


@formula
def score(r: Array, sigma: Array, cost: Array) -> Array:
    """Returns (r(q) + sigma(q, t)) / c(q), by which a query is chosen: float32."""
    return (r + sigma) / cost.astype(jnp.float32)


@formula
def pooled(prior: Array, r: Array, root: Array, n: Array) -> Array:
    """Returns the mean of r at nodes of n answers and r at the root, which counts as ``prior`` answers."""
    answers = n.astype(jnp.float32)
    # Where the two are equal, so is the mean, however it is rounded.
    return root + answers / (answers + prior) * (r - root)
