"""Where a compiler may round a program's floats otherwise than another one does.

LLVM contracts a product and the sum that it meets into one rounding, from optimization level 1 on, where one kernel has
both, and reorders sums along an axis; and logarithms, exponentials and their like become polynomials of the compiler's
own, which it contracts too. A program without any such place has the same bits at each level.
"""

import functools
import math
import operator
from collections.abc import Iterable, Mapping
from enum import Flag, auto
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal

T = TypeVar("T")

ORDERED = {"reduce_sum", "cumsum"}
"""Sums in an order that the compiler chooses (``exact.ordered_sum``)."""
SUMS = {"add", "sub", "add_any", "scatter-add", "scatter_add"} | ORDERED
_PRODUCTS = {"square", "integer_pow"}
_SHAPES = {"broadcast_in_dim", "reshape", "squeeze", "transpose", "slice", "convert_element_type", "copy"}
"""What leaves powers of two such."""
_ALIKE = _SHAPES | {
    "select_n", "rev", "dynamic_slice", "dynamic_update_slice", "gather", "scatter", "concatenate", "pad", "sort",
    "reduce_max", "reduce_min", "cummax", "cummin", "max", "min", "clamp", "neg", "abs", "sign", "floor", "ceil",
    "round", "bitcast_convert_type", "iota", "split", "reduce_precision", "stop_gradient", "optimization_barrier",
    "stack", "unstack", "reshard", "xla_metadata_value",
}  # fmt: skip
"""What is rounded alike; a product that goes in may come out."""
_COMPARED = {"eq", "ne", "lt", "le", "gt", "ge", "is_finite", "argmax", "argmin"}
CALLS = {
    "jit", "pjit", "closed_call", "core_call", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call",
    "shard_map",
}  # fmt: skip
_MIXED = {
    "concatenate", "stack", "pad", "gather", "scatter", "dynamic_update_slice", "sort", "dot_general",
    "xor",
}  # fmt: skip
"""What is not computed number by number; and xor, by which ``exact.quotient`` mixes its operands."""
_CUT = {"slice", "dynamic_slice", "split", "unstack"}
"""What is broadcast is so in part as well."""
_EXPONENT = 23
"""The bit of a float32 at which its exponent begins."""


class Is(Flag):
    """What is known of a value."""

    NOTHING = 0
    PRODUCT = auto()
    """It may be a rounded product."""
    POWER = auto()
    """A power of two or 0, or the bits of such a float32: a product with it is exact."""
    PAST = auto()
    """An integer of at least 23: bits that are shifted by it leave the mantissa of a float32."""
    CONSTANT = auto()
    """XLA multiplies by its inverse in place of dividing by it."""
    ROOT = auto()
    """A square root. XLA does not divide by it either, but computes its inverse, in a way that each level has."""
    SPREAD = auto()
    """Broadcast from fewer numbers: XLA multiplies by the inverse of these."""


_DOUBTS = Is.PRODUCT | Is.ROOT
"""What holds of a value that may be one of two, if it holds of either."""


class _Found(Exception):
    """That is all that was asked."""


def contractible(program: Any) -> set[str]:
    """Names operations of a jaxpr whose rounding the compiler chooses, as ``add`` for a sum with a product in it."""
    search = Search()
    search.through(program, [Is.NOTHING] * len(program.in_avals))
    return search.found


def rounded_alike(program: Any) -> bool:
    """Whether a jaxpr has no such operation."""
    search = Search(first=True)
    try:
        search.through(program, [Is.NOTHING] * len(program.in_avals))
    except _Found:
        return False
    return True


def _either(one: Is, other: Is) -> Is:
    return (one & other) | ((one | other) & (_DOUBTS | Is.SPREAD))


def _any(values: Iterable[Is]) -> Is:
    return functools.reduce(operator.or_, values, Is.NOTHING)


def of_constant(value: Any) -> Is:
    """What is known of a constant."""
    array = np.asarray(value)
    if array.dtype == bool or jnp.issubdtype(array.dtype, np.floating):
        mantissas, _ = np.frexp(array.astype(np.float64))
        return Is.CONSTANT | (Is.POWER if np.isin(np.abs(mantissas), (0, 0.5)).all() else Is.NOTHING)
    return Is.CONSTANT | (Is.PAST if (array >= _EXPONENT).all() else Is.NOTHING)


def of_scan(params: Mapping[str, Any], given: list[T]) -> tuple[list[T], list[T], list[T]]:
    """What is ``given`` to ``lax.scan``: what stays, what is carried, and what has a row for each turn."""
    if "ft_in" in params:  # JAX since 0.12
        stays, carried, _ = map(len, params["ft_in"].unpack())
    else:
        stays, carried = params["num_consts"], params["num_carry"]
    return given[:stays], given[stays : stays + carried], given[stays + carried :]


class Search:
    """Goes through a program with what is known of each value; ``found`` is what it met, to the ``first`` or all."""

    def __init__(self, first: bool = False) -> None:
        self.found: set[str] = set()
        self._first = first
        self._results: dict[Any, tuple[Any, list[Is]]] = {}

    def through(self, program: Any, given: list[Is]) -> list[Is]:
        """What is known of the results."""
        key = id(program), tuple(given)
        if key not in self._results:
            jaxpr: Jaxpr = getattr(program, "jaxpr", program)
            known = dict(zip(jaxpr.constvars, map(of_constant, getattr(program, "consts", ())), strict=False))
            known.update(zip(jaxpr.invars, given, strict=True))

            def of(value: Any) -> Is:
                return of_constant(value.val) if isinstance(value, Literal) else known[value]

            for equation in jaxpr.eqns:
                known.update(zip(equation.outvars, self.after(equation, [of(x) for x in equation.invars]), strict=True))
            # Kept too, so that no other program gets its identity.
            self._results[key] = program, [of(value) for value in jaxpr.outvars]
        return self._results[key][1]

    def after(self, equation: JaxprEqn, given: list[Is]) -> list[Is]:
        """What is known of an operation's results."""
        name, params = equation.primitive.name, equation.params
        if name == "cond":
            ways = [self.through(branch, given[1:]) for branch in params["branches"]]
            return [functools.reduce(_either, way) for way in zip(*ways, strict=True)]
        if name == "while":
            at, of_body = params["cond_nconsts"], params["body_nconsts"]
            tested, constants, start = given[:at], given[at : at + of_body], given[at + of_body :]
            carried = self._settled(params["body_jaxpr"], constants, start, [])
            self.through(params["cond_jaxpr"], tested + carried)
            return carried
        if name == "scan":
            constants, start, each = of_scan(params, given)
            carried = self._settled(params["jaxpr"], constants, start, each)
            return carried + self.through(params["jaxpr"], constants + carried + each)[len(carried) :]
        if name == "reduce" and _chooses(params["jaxpr"].jaxpr):
            return [_any(given) & _DOUBTS] * len(equation.outvars)
        if name in CALLS:
            return self.through(next(params[key] for key in ("jaxpr", "call_jaxpr", "call") if key in params), given)
        return [self._of_one(name, equation, given) | _spread(name, equation, given)] * len(equation.outvars)

    def _settled(self, body: Any, constants: list[Is], start: list[Is], each: list[Is]) -> list[Is]:
        """What stays true of the values that a loop carries."""
        while True:
            after = self.through(body, constants + start + each)[: len(start)]
            joined = [_either(one, other) for one, other in zip(start, after, strict=True)]
            if joined == start:
                return start
            start = joined

    def _of_one(self, name: str, equation: JaxprEqn, given: list[Is]) -> Is:
        """What is known of the results of an operation that is no call and no loop."""
        constant = Is.CONSTANT & functools.reduce(operator.and_, given, Is.CONSTANT)
        kinds = [getattr(value.aval, "dtype", np.dtype(bool)) for value in (*equation.invars, *equation.outvars)]
        if not any(jnp.issubdtype(kind, np.inexact) for kind in kinds):
            power = name == "shift_left" and Is.PAST in given[1]
            return constant | (Is.POWER if power else _kept(name, kinds, given))
        doubts = _any(given) & _DOUBTS
        if name in SUMS and Is.PRODUCT not in doubts and not (name in ORDERED and _several(equation)):
            return constant
        if name == "dot_general" and any(Is.POWER in each for each in given):  # with 0 and 1: a sum of what is chosen
            return constant
        if name == "mul":
            exact = any(Is.POWER in each for each in given)
            return constant | (doubts & Is.PRODUCT if exact else Is.PRODUCT)
        if name == "div" and Is.ROOT not in given[1]:
            sizes = [math.prod(_shape(value)) for value in (equation.invars[1], equation.outvars[0])]
            spread = Is.SPREAD in given[1] or sizes[0] < sizes[1]
            inverted = Is.POWER not in given[1] if Is.CONSTANT in given[1] else spread
            return constant | (Is.PRODUCT if inverted else Is.NOTHING)
        if name in _PRODUCTS:
            return constant | Is.PRODUCT
        if name == "sqrt":
            return constant | Is.ROOT
        if name not in _ALIKE | _COMPARED or any(jnp.issubdtype(kind, np.complexfloating) for kind in kinds):
            self.found.add(name)
            if self._first:
                raise _Found
        return constant | doubts | _kept(name, kinds, given)


def _spread(name: str, equation: JaxprEqn, given: list[Is]) -> Is:
    """Whether results are broadcast from fewer numbers, or computed from such alone."""
    if name in _CUT:
        return given[0] & Is.SPREAD
    sizes = [math.prod(_shape(value)) for value in (*equation.invars, *equation.outvars)]
    if name in _MIXED or len(sizes) < 2 or max(sizes) != sizes[-1]:
        return Is.NOTHING
    facts = [fact | (Is.SPREAD if size < sizes[-1] else Is.NOTHING) for fact, size in zip(given, sizes, strict=False)]
    variable = [fact for fact in facts if Is.CONSTANT not in fact]
    return Is.SPREAD if variable and all(Is.SPREAD in fact for fact in variable) else Is.NOTHING


def _several(equation: JaxprEqn) -> bool:
    """Whether a sum along axes has more than one order."""
    params, shape = equation.params, _shape(equation.invars[0])
    axes = params["axes"] if "axes" in params else [params["axis"]]
    return bool(math.prod(shape[axis] for axis in axes) > 2)


def _shape(value: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = getattr(value.aval, "shape", ())
    return shape


def _chooses(jaxpr: Jaxpr) -> bool:
    """Whether each float that comes out is one that went in."""
    return all(
        equation.primitive.name in _ALIKE
        or not any(jnp.issubdtype(getattr(value.aval, "dtype", bool), np.inexact) for value in equation.outvars)
        or (equation.primitive.name in CALLS and _chooses(equation.params["jaxpr"].jaxpr))
        for equation in jaxpr.eqns
    )


def _kept(name: str, kinds: list[Any], given: list[Is]) -> Is:
    """What a result still is of what the operand is said to be exactly. Of bools, 0 and 1 are meant."""
    if not kinds:
        return Is.NOTHING
    if kinds[0] == np.dtype(bool) and name == "convert_element_type":
        return Is.POWER
    same = jnp.issubdtype(kinds[0], np.inexact) == jnp.issubdtype(kinds[-1], np.inexact)
    moved = name in _SHAPES and (same or name != "convert_element_type")
    if not (moved or name == "bitcast_convert_type"):
        return Is.NOTHING
    return given[0] & (Is.POWER | Is.PAST if moved else Is.POWER)
