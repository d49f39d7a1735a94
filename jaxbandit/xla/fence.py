"""What XLA computes once, and what it computes for few lanes alone.

With ``plain.PLAIN`` all of it but ``rarely`` does nothing: what that one spares all lanes would take minutes.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental.xla_metadata import set_xla_metadata

from jaxbandit.xla.batch import whole
from jaxbandit.xla.plain import PLAIN
from jaxbandit.xla.platforms import by_platform
from jaxbandit.xla.prefix import ranks, words_of

T = TypeVar("T")

_LARGE = 1 << 12
"""Entries of an array from which on a copy of it costs."""

ENDLESS = 1 << 30
"""Turns of a loop that ends by itself."""
_BLOCKS = 16
"""Accelerators take the lanes in need of what is ``rarely`` needed in blocks of this share of all lanes."""


def computed_once(function: Callable[..., Array]) -> Callable[..., Array]:
    """``function`` of trees of arrays of one shape, to one array of that shape, computed once however often it is used.

    The computation becomes a branch, always taken, of a condition that XLA cannot decide; under ``vmap`` that of the
    batch. Else the CPU backend repeats it in each kernel that uses its result: it drops ``lax.optimization_barrier``
    before it fuses. The last argument must be of integers.
    """
    if PLAIN:
        return function
    function = jax.jit(function, inline=True)  # traced once for its shape and for its branch
    plain = jax.custom_batching.custom_vmap(lambda *operands: _in_a_branch(function, *operands))

    @plain.def_vmap
    def batch(size: int, batched: list[Any], *operands: Any) -> tuple[Array, bool]:
        return _in_a_branch(function, *whole(size, batched, list(operands))), True

    return plain


def _in_a_branch(function: Callable[..., Array], *operands: Any) -> Array:
    """``function(*operands)``, on CPUs in a branch that is always taken: no integer has more bits set than it has, but
    XLA does not know that. The last operand must be of integers. Elsewhere nothing: a branch waits for the host, and
    what it passes on is copied."""
    if not jnp.size(operands[-1]):
        return function(*operands)
    shape = jax.eval_shape(function, *operands)

    def on_cpu(*operands: Any) -> Array:
        some = lax.population_count(jnp.ravel(operands[-1])[0]) <= 64
        taken: Array = lax.cond(some, function, lambda *_: jnp.zeros(shape.shape, shape.dtype), *operands)
        return taken

    found: Array = by_platform(*operands, cpu=on_cpu, default=function)
    return found


def side_by_side(count: int) -> Callable[[Callable[..., Array]], Callable[..., tuple[Array, ...]]]:
    """``f(*operands)``: ``function(number, *operands)`` of numbers 0 to ``count`` - 1 (int32), each computed once.

    Under ``vmap`` they are rows of one array, made by one kernel: of many values in one kernel that are used together,
    XLA's CPU backend makes functions, calls them again and again, and uses no vectors. Nor does it where there are
    fewer than 16 rows, whose loop is unrolled. Operands are trees; the last one is as in ``computed_once``.
    """

    def decorate(function: Callable[..., Array]) -> Callable[..., tuple[Array, ...]]:
        numbers = np.arange(count, dtype=np.int32)  # no array of JAX, whose backend an import must not start
        if PLAIN:
            return lambda *operands: tuple(function(number, *operands) for number in numbers)

        @jax.custom_batching.custom_vmap
        def plain(*operands: Any) -> tuple[Array, ...]:
            return tuple(jax.vmap(function, (0, *[None] * len(operands)))(numbers, *operands))

        @plain.def_vmap
        def batch(size: int, batched: list[Any], *operands: Any) -> tuple[tuple[Array, ...], tuple[bool, ...]]:
            axes = jax.tree.map(lambda has: 0 if has else None, batched)
            lanes = jax.vmap(function, (None, *axes), axis_size=size)
            rows = jax.vmap(lanes, (0, *[None] * len(operands)))
            return tuple(_in_a_branch(rows, numbers, *operands)), (True,) * count

        return plain

    return decorate


@jax.custom_batching.custom_vmap
def once(x: Array) -> Array:
    """``x``, computed once however often it is used.

    On CPUs a function of its own returns it, which XLA fuses with nothing. For an array alone that is less than a
    branch, whose condition would be a kernel with all that computes the array in it once more.
    """
    return x if PLAIN or not x.size else by_platform(x, cpu=_called, default=_itself)


@once.def_vmap
def _(size: int, batched: list[bool], x: Array) -> tuple[Array, bool]:
    return once.fun(*whole(size, batched, [x])), True


def _itself(x: Array) -> Array:
    return x


def _called(x: Array) -> Array:
    found: Array = _own_function(jax.jit(_itself, inline=False)(x))
    return found


def _own_function(called: T) -> T:
    """What a call returned, of a function that XLA's CPU backend makes one kernel of and does not write out."""
    kept: T = set_xla_metadata(called, inlineable="false", xla_cpu_small_call="true")
    return kept


once_in_blocks = jax.vmap(once)
"""The same for what is not under ``vmap``, such as the functions of ``packed``: of arrays with a first axis."""


def as_one_kernel(function: Callable[[], T], in_place: bool = False) -> T:
    """``function()``, which XLA's CPU backend makes one kernel of, loops and all.

    Else it has a kernel for each array that a loop changes, spreads them over threads, and takes longer to start them
    than most of them run. For loops of few operations on small arrays: it uses no threads in them, and they may have
    neither ``lax.sort`` nor scatters nor products of matrices, nor use large arrays that are constants of the program.
    ``in_place``: no copies are made of large arrays that the function changes. It has to use all large ones, or XLA
    fails.
    """
    if PLAIN:
        return function()
    closed, shape = jax.make_jaxpr(function, return_shape=True)()

    def mark_of(operands: tuple[Array, ...]) -> Array:
        return _mark([x for x in operands if not in_place or jnp.size(x) <= _LARGE])

    def anywhere(*operands: Array) -> list[Array]:
        found: list[Array] = jax.core.eval_jaxpr(closed.jaxpr, operands)
        return found

    def marked(*operands: Array) -> tuple[list[Array], Array]:
        return anywhere(*operands), mark_of(operands)

    def on_cpu(*operands: Array) -> list[Array]:
        found, mark = _own_function(jax.jit(marked, inline=False)(*operands))
        # The backend fails on operands that nothing uses. The mark uses all of them, and XLA does not know that no
        # number has more bits. Large results are left as they are, if there is a small one: else they would be copied.
        used, least = lax.population_count(mark) <= 64, min(x.size for x in found)
        return [jnp.where(used, x, jnp.zeros_like(x)) if x.size <= max(least, _LARGE) else x for x in found]

    found = by_platform(*closed.consts, cpu=on_cpu, default=anywhere)
    after: T = jax.tree.unflatten(jax.tree.structure(shape), found)
    return after


def patiently(
    most: int, going: Callable[[Array, T], Array], turn: Callable[[Array, T], T], state: T, turns: int | None = None
) -> T:
    """``state`` after turns (``state = turn(number, state)``) while ``going(number, state)``, at most so many.

    An accelerator waits for its host at each question whether to go on. So there it asks once in so many ``turns``, or
    never where none are named, and makes all. So a turn has to change nothing of account where it is not ``going``,
    which is one for all lanes (``batch.any_lane``).
    """

    def asked(several: int) -> T:
        def more(carry: tuple[Array, T]) -> Array:
            on: Array = (carry[0] < most) & going(*carry)
            return on

        def some(carry: tuple[Array, T]) -> tuple[Array, T]:
            number, state = carry
            if several == 1:
                return number + 1, turn(number, state)
            return number + several, lax.fori_loop(0, several, lambda j, state: turn(number + j, state), state)

        found: tuple[Array, T] = lax.while_loop(more, some, (jnp.int32(0), state))
        return found[1]

    def never() -> T:
        made: T = lax.fori_loop(0, most, turn, state)
        return made

    found: T = by_platform(cpu=lambda: asked(1), default=lambda: asked(turns) if turns else never())
    return found


def walk(step: Callable[[T, Array], T], going: Callable[[T], Array], state: T, most: int, abreast: int) -> T:
    """Returns the state after one ``step`` after the other while it is ``going`` (bool), at most ``most`` of them.

    Under ``vmap``, on CPUs, one lane after the other in one kernel: for long walks of scalars and short rows of larger
    arrays, where lanes side by side would all wait for all that any of them does. Elsewhere all lanes make ``abreast``
    steps, so that none is asked whether it is over; with a second argument that is false, ``step`` has to return the
    state as it is.
    """

    def further(state: T, goes: Array) -> tuple[T, Array]:
        state = step(state, goes)
        return state, going(state)

    def loop(further: Callable[[T, Array], tuple[T, Array]], carry: tuple[T, Array]) -> tuple[T, Array]:
        found: tuple[Array, tuple[T, Array]] = lax.while_loop(
            lambda counted: (counted[0] < most) & counted[1][1],
            lambda counted: (counted[0] + 1, further(*counted[1])),
            (jnp.int32(0), carry),
        )
        return found[1]

    start = state, going(state)
    if PLAIN:
        return loop(further, start)[0]
    # What the functions have from around them becomes an operand too: it may differ from lane to lane.
    closed, shape = jax.make_jaxpr(further, return_shape=True)(*start)

    def explicit(around: list[Any], state: T, goes: Array) -> tuple[T, Array]:
        leaves = jax.core.eval_jaxpr(closed.jaxpr, around, *jax.tree.leaves((state, goes)))
        after: tuple[T, Array] = jax.tree.unflatten(jax.tree.structure(shape), leaves)
        return after

    def alone(around: list[Any], carry: tuple[T, Array]) -> tuple[T, Array]:
        return loop(functools.partial(explicit, around), carry)

    walked: tuple[T, Array] = _in_turn(alone, explicit, abreast)(closed.consts, start)
    return walked[0]


def _in_turn(alone: Callable[..., T], step: Callable[..., T], abreast: int) -> Callable[..., T]:
    """``alone`` of what is around and of a state, lane after lane on CPUs; elsewhere ``abreast`` times ``step``."""
    plain = jax.custom_batching.custom_vmap(alone)

    @plain.def_vmap
    def batch(size: int, batched: list[Any], around: Any, state: T) -> tuple[T, Any]:
        def in_turn(around: Any, state: T) -> T:
            def one(lane: Array, states: T) -> T:
                own = jax.tree.map(lambda x, has: x[lane] if has else x, around, batched[0])
                after = alone(own, jax.tree.map(lambda x: x[lane], states))
                found: T = jax.tree.map(lambda all_, x: all_.at[lane].set(x), states, after)
                return found

            walked: T = as_one_kernel(lambda: lax.fori_loop(0, size, one, state))
            return walked

        def side_by_side(around: Any, state: T) -> T:
            axes = jax.tree.map(lambda has: 0 if has else None, batched[0])

            def own_step(around: Any, carry: Any) -> T:
                return step(around, *carry)

            steps = jax.vmap(own_step, (axes, 0), axis_size=size)
            found: T = lax.fori_loop(0, abreast, lambda _, carry: steps(around, carry), state)
            return found

        state = whole(size, batched[1], state)
        found = by_platform(around, state, cpu=in_turn, default=side_by_side)
        return found, jax.tree.map(lambda _: True, found)

    found: Callable[..., T] = plain
    return found


def each(function: Callable[..., T], *operands: Sequence[Any]) -> list[T]:
    """``[function(*own) for own in zip(*operands)]``: on CPUs one after the other, elsewhere side by side."""

    def in_turn(*operands: Sequence[Any]) -> list[T]:
        return [function(*own) for own in zip(*operands, strict=True)]

    def abreast(*operands: Sequence[Any]) -> list[T]:
        rows = [jax.tree.map(lambda *x: jnp.stack(x), *own) for own in operands]
        found = jax.vmap(function)(*rows)
        return [jax.tree.map(operator.itemgetter(number), found) for number in range(len(operands[0]))]

    if PLAIN:
        return in_turn(*operands)
    found: list[T] = by_platform(*operands, cpu=in_turn, default=abreast)
    return found


def repeated(function: Callable[[Array], Array], times: int, x: Array) -> Array:
    """``function(function(... x))``, so many times: on CPUs a loop, which is less to compile, elsewhere one kernel in
    place of two for each time."""

    def written_out(x: Array) -> Array:
        for _ in range(times):
            x = function(x)
        return x

    def loop(x: Array) -> Array:
        found: Array = lax.fori_loop(0, times, lambda _, x: function(x), x)
        return found

    found: Array = loop(x) if PLAIN else by_platform(x, cpu=loop, default=written_out)
    return found


def _mark(operands: Sequence[Array]) -> Array:
    """Something of each of some arrays that are not empty: int32."""
    mark: Array = jnp.int32(0)
    for operand in filter(jnp.size, operands):
        one = jnp.asarray(operand).reshape(-1)[0]
        bits = lax.bitcast_convert_type(one, jnp.int32) if one.dtype == jnp.float32 else one.astype(jnp.int32)
        mark = mark ^ bits
    return mark


def where_due(due: Array, function: Callable[[T], T], state: T) -> T:
    """``function(state)`` where it is due (bool scalar, one for all lanes), else ``state``: as a loop of one turn or
    none, since XLA changes a loop's arrays in place, but copies those that pass through a branch, taken or not."""
    if PLAIN:
        chosen: T = lax.cond(due, function, lambda same: same, state)
        return chosen
    found: tuple[Array, T] = lax.while_loop(
        lambda carry: carry[0], lambda carry: (jnp.bool_(False), function(carry[1])), (due, state)
    )
    return found[1]


def rarely(function: Callable[..., Any], light: bool = False) -> Callable[..., Any]:
    """``f(needed, otherwise, *operands)``: ``function(*operands)`` where needed, else ``otherwise``.

    Under ``vmap``, over the lanes in need alone: one after the other on CPUs, elsewhere a block of them side by side,
    or all lanes where the function is so ``light`` that an accelerator would take longer to find those in need. Made
    for what costs much and is seldom needed, where ``lax.cond`` would compute it for all.
    """

    @jax.custom_batching.custom_vmap
    def plain(needed: Array, otherwise: Any, *operands: Any) -> Any:
        return lax.cond(needed, lambda: function(*operands), lambda: otherwise)

    @plain.def_vmap
    def batch(size: int, batched: Any, needed: Array, otherwise: Any, *operands: Any) -> tuple[Any, Any]:
        has_needed, has_otherwise, *has = batched

        def of(lane: Array, operands: Any) -> Any:
            return function(*jax.tree.map(lambda x, b: x[lane] if b else x, operands, tuple(has)))

        def all_at_once(needed: Array, otherwise: Any, *operands: Any) -> Any:
            found = jax.vmap(function, jax.tree.map(lambda b: 0 if b else None, tuple(has)), axis_size=size)(*operands)
            return jax.vmap(lambda *own: jax.tree.map(functools.partial(jnp.where, own[0]), *own[1:]))(
                needed, found, otherwise
            )

        found = by_platform(
            whole(size, has_needed, needed), whole(size, has_otherwise, otherwise), *operands,
            cpu=functools.partial(_one_by_one, of),
            default=all_at_once if light else functools.partial(_block_by_block, of),
        )  # fmt: skip
        return found, jax.tree.map(lambda _: True, found)

    return plain


def _one_by_one(of: Callable[[Array, Any], Any], needed: Array, otherwise: Any, *operands: Any) -> Any:
    """``otherwise``, with the values of ``of`` in the lanes in need."""

    def one(carry: tuple[Array, Any]) -> tuple[Array, Any]:
        left, found = carry
        lane = jnp.argmax(left)
        value = of(lane, operands)
        return left.at[lane].set(False), jax.tree.map(lambda all_, v: all_.at[lane].set(v), found, value)

    return lax.while_loop(lambda carry: jnp.any(carry[0]), one, (needed, otherwise))[1]


def _block_by_block(of: Callable[[Array, Any], Any], needed: Array, otherwise: Any, *operands: Any) -> Any:
    """The same, so many lanes at a time that one turn is mostly enough: an accelerator waits for its host at each."""
    lanes, word = needed.shape[0], words_of(needed)
    block, in_word = -(-lanes // _BLOCKS), lax.population_count(word).astype(jnp.int32)

    def some(carry: tuple[Array, Any]) -> tuple[Array, Any]:
        # Up to the end of each word, how many lanes in need had no turn yet.
        upto, found = carry
        left, slot, rank = upto[-1], jnp.arange(block, dtype=jnp.int32), ranks(word, upto - in_word)[:lanes]
        to = jnp.where(needed & (rank >= 0), rank, block)
        listed = jnp.full(block, -1, jnp.int32).at[to].set(jnp.arange(lanes, dtype=jnp.int32), mode="drop")
        # A block that is not full has its last lane several times, and writes it once.
        lane = listed[jnp.minimum(slot, left - 1)]
        value = jax.vmap(lambda lane: of(lane, operands))(lane)
        to = jnp.where(slot < left, lane, lanes)
        return upto - block, jax.tree.map(lambda all_, v: all_.at[to].set(v, mode="drop"), found, value)

    # The sums that ``prefix.marked`` makes for CPUs would be twice as many kernels here.
    upto = jnp.cumsum(in_word, dtype=jnp.int32)
    return lax.while_loop(lambda carry: carry[0][-1] > 0, some, (upto, otherwise))[1]
