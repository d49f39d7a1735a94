"""Many steps of all lanes, without a look at what is over in between: see ``Execution.many_steps``.

Of the arguments that both ways have, ``step`` makes a step of a lane and ``going`` tells whether its run goes on. The
arrays in ``scratch`` are those of all lanes, one after the other; ``lanes`` have all else, and the number of a lane as
``run`` of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import Array, lax

if TYPE_CHECKING:
    from jaxbandit.lanes import Lane

Tree = Any

MANY = 1 << 12
"""Steps of a lane between two looks at which lanes are over, at most."""


def with_fields(lane: Lane, fields: dict[str, Any]) -> Lane:
    """The lane with other values in some fields of its state."""
    return lane._replace(state=lane.state._replace(**fields))


def _parted(names: Iterable[str], lane: Lane) -> tuple[Tree, Lane]:
    """The scratch arrays of a lane by name, and the lane without them."""
    return {name: getattr(lane.state, name) for name in names}, with_fields(lane, dict.fromkeys(names))


def in_turn(
    step: Callable[[Lane], Lane], going: Callable[[Lane], Array], scratch: Tree, lanes: Lane
) -> tuple[Tree, Lane]:  # fmt: skip
    """Makes many steps of each lane, or all until the end of its run, one lane after the other."""

    def one(number: Array, carry: tuple[Tree, Lane]) -> tuple[Tree, Lane]:
        whole, rest = carry
        own = jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, number, keepdims=False), rest)
        _, lane = lax.while_loop(
            lambda state: (state[0] < MANY) & going(state[1]),
            lambda state: (state[0] + 1, step(state[1])),
            (jnp.int32(0), with_fields(own, whole)),
        )
        whole, lane = _parted(whole, lane)
        return whole, jax.tree.map(lambda all_, x: lax.dynamic_update_index_in_dim(all_, x, number, 0), rest, lane)

    after: tuple[Tree, Lane] = lax.fori_loop(jnp.int32(0), jnp.int32(lanes.job.shape[0]), one, (scratch, lanes))
    return after


def abreast(
    step: Callable[[Lane], Lane], going: Callable[[Lane], Array], scratch: Tree, lanes: Lane
) -> tuple[Tree, Lane]:  # fmt: skip
    """Makes many steps of all lanes at once, or all until a quarter of their runs are at the end."""

    def many(lanes: Lane) -> Array:
        return jnp.sum(jax.vmap(going)(lanes), dtype=jnp.int32)

    begun = many(lanes)

    def more(carry: tuple[Array, Tree, Lane]) -> Array:
        enough: Array = (carry[0] < MANY) & (4 * many(carry[2]) > 3 * begun)
        return enough

    def one(carry: tuple[Array, Tree, Lane]) -> tuple[Array, Tree, Lane]:
        number, whole, rest = carry
        # Scratch has no axis of lanes: each lane writes its own part of it (``entries.in_shared``).
        moved: Callable[[Lane], tuple[Tree, Lane]] = jax.vmap(
            lambda lane: _parted(whole, step(with_fields(lane, whole))), out_axes=(None, 0)
        )
        return number + 1, *moved(rest)

    _, whole, rest = lax.while_loop(more, one, (jnp.int32(0), scratch, lanes))
    return whole, rest


WAYS = {"in turn": in_turn, "abreast": abreast}
"""By the name in ``Execution.many_steps``."""
