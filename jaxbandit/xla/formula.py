"""Formulas that are written as a paper prints them, and rounded alike by every compiler, on every device.

A compiler rounds a product and a sum once or twice, has logarithms of its own, and on a GPU approximate quotients
(``contraction.py``). ``formula`` traces a function and computes the same by operations that leave no such choice.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import Jaxpr, JaxprEqn, Literal

from jaxbandit.xla import elementary
from jaxbandit.xla.contraction import CALLS, ORDERED, SUMS, Is, Search, of_constant, of_scan
from jaxbandit.xla.exact import ordered_sum, quotient, root

F = TypeVar("F", bound=Callable[..., Any])

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_MOST_ADDED = 16
"""Products that a contraction of two arrays adds, at most: all of them are in the program."""


def formula(function: F) -> F:
    """``function`` of arrays and of other values, in operations that are rounded alike.

    What is not an array, given or returned, stays what it is. Its logarithms and exponentials are those of
    ``elementary`` (of float64 numbers, logarithms alone), so that its logarithms are of normal numbers above 0. It may
    have loops and branches. Derivatives are taken within it, not of it.
    """

    @functools.wraps(function)
    def rounded(*given: Any, **named: Any) -> Any:
        leaves, structure = jax.tree.flatten((given, named))
        arrays, others = _apart(leaves)
        made: list[Any] = []

        def plain(*arrays: Array) -> list[Array]:
            given, named = jax.tree.unflatten(structure, _together(arrays, others))
            leaves, form = jax.tree.flatten(function(*given, **named))
            traced, beside = _apart(leaves)
            made[:] = beside, form
            return traced

        # A result that is a constant is an array as well: in a jaxpr it may be NumPy's.
        results = map(jnp.asarray, _Rounded().settled(jax.make_jaxpr(plain)(*arrays), arrays))
        return jax.tree.unflatten(made[1], _together(results, made[0]))

    return cast(F, rounded)


_ARRAY = object()


def _apart(leaves: list[Any]) -> tuple[list[Array], list[Any]]:
    """The arrays among ``leaves``, and ``leaves`` with a mark in the place of each."""
    marked = [_ARRAY if isinstance(leaf, Array) else leaf for leaf in leaves]
    return [leaf for leaf in leaves if isinstance(leaf, Array)], marked


def _together(arrays: Iterable[Array], marked: list[Any]) -> list[Any]:
    """What ``_apart`` took apart."""
    each = iter(arrays)
    return [next(each) if leaf is _ARRAY else leaf for leaf in marked]


class _Rounded(Search):
    """Computes a program's values, with what is known of each."""

    def settled(self, program: Any, values: list[Any]) -> list[Any]:
        """The results of a jaxpr for ``values``, with those pinned that are products and may meet a sum."""
        return _pinned(*self._results_of(program, values, [Is.NOTHING] * len(values)))

    def _results_of(self, program: Any, values: list[Any], known: list[Is]) -> tuple[list[Any], list[Is]]:
        jaxpr: Jaxpr = getattr(program, "jaxpr", program)
        constants = getattr(program, "consts", ())
        have: dict[Any, tuple[Any, Is]] = {
            **dict(zip(jaxpr.constvars, ((value, _known(value)) for value in constants), strict=True)),
            **dict(zip(jaxpr.invars, zip(values, known, strict=True), strict=True)),
        }

        def of(some: Sequence[Any]) -> tuple[list[Any], list[Is]]:
            pairs = [(each.val, of_constant(each.val)) if isinstance(each, Literal) else have[each] for each in some]
            return [value for value, _ in pairs], [fact for _, fact in pairs]

        for equation in jaxpr.eqns:
            have.update(
                zip(equation.outvars, zip(*self._of_equation(equation, *of(equation.invars)), strict=True), strict=True)
            )
        return of(jaxpr.outvars)

    def _of_equation(self, equation: JaxprEqn, values: list[Any], known: list[Is]) -> tuple[list[Any], list[Is]]:
        # A formula of float32 numbers may have a part in float64 as well: such as a quotient, for a GPU.
        wide = any(getattr(value.aval, "dtype", None) == np.float64 for value in equation.outvars)
        with jax.enable_x64(True) if wide else contextlib.nullcontext():
            return self._rounded_alike(equation, values, known)

    def _rounded_alike(self, equation: JaxprEqn, values: list[Any], known: list[Is]) -> tuple[list[Any], list[Is]]:
        name, params = equation.primitive.name, equation.params
        if name in self._PARTS:
            results = self._PARTS[name](self, params, _pinned(values, known))
            return results, [Is.NOTHING] * len(results)
        if name in CALLS and name != "custom_vmap_call":  # that one says how it is batched, and stays as it is
            inner = next(params[key] for key in ("jaxpr", "call_jaxpr") if key in params)
            return self._results_of(inner, values, known)
        if any(getattr(value.aval, "dtype", None) not in _FLOATS for value in equation.outvars):
            return _alone(equation, values), self.after(equation, known)
        if name == "reduce_sum":
            (added,) = _pinned(values, known)
            return [functools.reduce(ordered_sum, sorted(params["axes"], reverse=True), added)], [Is.NOTHING]
        if name in SUMS and name not in ORDERED:
            return _alone(equation, _pinned(values, known)), [Is.NOTHING]
        if name == "dot_general":
            return [_contracted(values[0], values[1], params["dimension_numbers"])], [Is.NOTHING]
        if name == "polynomial":  # of JAX since 0.12
            x, *coefficients = values
            value = functools.reduce(lambda total, a: a + elementary.pinned(total * x), coefficients[::-1])
            return [value], [Is.NOTHING]
        if name == "integer_pow":
            power = functools.reduce(jnp.multiply, values * abs(params["y"]))
            return [power if params["y"] > 0 else quotient(1, power)], [Is.PRODUCT]
        if name == "div":
            above, below = values
            # By a constant one may multiply by its inverse, which is faster, and the same for a power of two.
            if Is.CONSTANT in known[1] and Is.POWER not in known[1]:
                return [above * quotient(1, jnp.asarray(below, above.dtype))], [Is.PRODUCT]
            return [quotient(above, below)], [Is.NOTHING]
        if name == "sqrt":
            return [root(values[0])], [Is.ROOT]
        if name in _OWN:
            if values[0].dtype == np.float64 and name != "log":
                raise NotImplementedError(f"a formula has {name} of float64, which has no fixed rounding here")
            return [_OWN[name](*_pinned(values, known))], [Is.NOTHING]
        facts = self.after(equation, known)
        if name in self.found:
            raise NotImplementedError(f"a formula has {name}, which each compiler rounds in its own way")
        return _alone(equation, values), facts

    def _loop(self, params: Any, values: list[Any]) -> list[Any]:
        at, end = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        tested, constants, start = values[:at], values[at:end], values[end:]
        found: list[Any] = lax.while_loop(
            lambda carry: self.settled(params["cond_jaxpr"], tested + carry)[0],
            lambda carry: self.settled(params["body_jaxpr"], constants + carry),
            start,
        )
        return found

    def _scan(self, params: Any, values: list[Any]) -> list[Any]:
        constants, start, each = of_scan(params, values)

        def step(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
            found = self.settled(params["jaxpr"], constants + carry + row)
            return found[: len(start)], found[len(start) :]

        last, rows = lax.scan(step, start, each, params["length"], params["reverse"], params["unroll"])
        return [*last, *rows]

    def _branch(self, params: Any, values: list[Any]) -> list[Any]:
        ways = [lambda *given, way=way: self.settled(way, list(given)) for way in params["branches"]]
        found: list[Any] = lax.switch(values[0], ways, *values[1:])
        return found

    _PARTS: ClassVar[Mapping[str, Callable[..., list[Any]]]] = {"while": _loop, "scan": _scan, "cond": _branch}


def _known(value: Any) -> Is:
    return Is.NOTHING if isinstance(value, jax.core.Tracer) else of_constant(value)


def _pinned(values: list[Any], known: list[Is]) -> list[Any]:
    """``values``, those pinned that are products, so that a sum may take them."""
    return [
        elementary.pinned(value) if Is.PRODUCT in fact and value.dtype in _FLOATS else value
        for value, fact in zip(values, known, strict=True)
    ]


def _alone(equation: JaxprEqn, values: list[Any]) -> list[Any]:
    """The results of an operation as it is."""
    bound = equation.primitive.get_bind_params(equation.params)
    functions, params = bound if isinstance(bound, tuple) else ((), bound)  # a tuple in older versions of JAX
    found = equation.primitive.bind(*functions, *values, **params)
    return list(found) if equation.primitive.multiple_results else [found]


def _contracted(a: Array, b: Array, dimensions: Any) -> Array:
    """``lax.dot_general`` of two arrays as a sum of products, one after another."""
    batched, (along_a, along_b) = tuple(zip(*dimensions[1], strict=True)), dimensions[0]
    count = int(np.prod([a.shape[axis] for axis in along_a]))
    if count > _MOST_ADDED:
        raise NotImplementedError(f"a formula has a contraction over {count} products, whose order is the compiler's")

    def terms(x: Array, along: Sequence[int], batch: Sequence[int], before: int, after: int) -> Array:
        """``x`` with the products first, then what is batched, room for the other's axes, and its own."""
        free = [axis for axis in range(x.ndim) if axis not in (*along, *batch)]
        sizes = [x.shape[axis] for axis in batch], [x.shape[axis] for axis in free]
        return jnp.transpose(x, (*along, *batch, *free)).reshape(
            count, *sizes[0], *[1] * before, *sizes[1], *[1] * after
        )

    own = [x.ndim - len(along_a) - len(batched) for x in (a, b)]
    of_a, of_b = zip(*batched, strict=True) if batched else ((), ())
    products = elementary.pinned(terms(a, along_a, of_a, 0, own[1]) * terms(b, along_b, of_b, own[0], 0))
    added: Array = functools.reduce(jnp.add, list(products))
    return added


_OWN: dict[str, Callable[..., Array]] = {
    name: getattr(elementary, name) for name in ("log", "log1p", "exp", "expm1", "tanh")
}
