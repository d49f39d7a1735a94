"""Where a compiler may choose how floats are rounded: what is found of it, and functions that leave it no choice."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from jaxbandit.xla import elementary, exact
from jaxbandit.xla.contraction import contractible
from jaxbandit.xla.options import options_for

pytestmark = pytest.mark.smoke  # a newer JAX may have other operations

X, Y, Z = (jnp.float32(value) for value in (1.1, 2.3, 0.7))
HALVES = np.array([0.5, 2.0, 0.0], np.float32)


def found(function: Any, *values: Any) -> set[str]:
    return contractible(jax.make_jaxpr(function)(*(values or (X, Y, Z))))


def power(k: Array) -> Array:
    return lax.bitcast_convert_type(k.astype(jnp.int32) << 23, jnp.float32)


def summed(x: Array, y: Array, z: Array) -> Array:
    """The product is in the carry of a loop, and the sum in a branch."""
    product = lax.fori_loop(0, 3, lambda i, p: p * y, x)
    return lax.cond(z > 0, lambda p: p + z, lambda p: p, product)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x, y, z: x * y + z, {"add"}),
        (lambda x, y, z: jnp.where(z > 0, x * y, z) - z, {"sub"}),
        (lambda x, y, z: jnp.sum(jnp.stack([x, y]) * z), {"reduce_sum"}),
        (lambda x, y, z: jnp.zeros(2).at[0].add(x * y), {"scatter-add"}),
        (lambda x, y, z: x**2 + z, {"add"}),
        (lambda x, y, z: x / 3 + z, {"add"}),  # times the inverse
        (lambda x, y, z: x / jnp.sqrt(y), {"div"}),
        (lambda x, y, z: jnp.stack([x, y, x]) / z + y, {"add"}),  # times the inverse
        (lambda x, y, z: jnp.stack([x, y, x]) / (z * z) - jnp.stack([y, z, x]), {"sub"}),
        (lambda x, y, z: jnp.stack([x, y]) / jnp.full(3, z)[1:] + y, {"add"}),  # of what is cut out, too
        (lambda x, y, z: jnp.stack([x, y]) / jnp.split(jnp.full(4, z), 2)[1] + y, {"add"}),
        (lambda x, y, z: jnp.sum(jnp.stack([x, y, z])), {"reduce_sum"}),  # in any order
        (lambda x, y, z: jnp.cumsum(jnp.stack([x, y, z])), {"cumsum"}),
        (lambda x, y, z: x * lax.convert_element_type(np.int32(24), np.float32) + z, {"add"}),
        (lambda x, y, z: jax.jit(lambda p: p + z)(x * y), {"add"}),
        (lambda x, y, z: jax.vmap(lambda p: p * y)(jnp.stack([x, z]))[0] + z, {"add"}),
        (summed, {"add"}),
        (lambda x, y, z: jnp.exp(x), {"exp"}),
        (lambda x, y, z: jnp.dot(jnp.stack([x, y]), jnp.stack([y, z])), {"dot_general"}),
        (lambda x, y, z: lax.reduce(jnp.stack([x, y]), z, lambda a, b: a * b + b, (0,)), {"reduce"}),
    ],
)  # fmt: skip
def test_a_product_that_meets_a_sum_is_found(function: Any, names: set[str]) -> None:
    assert found(function) == names


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, z: (x + y) * z,
        lambda x, y, z: elementary.pinned(x * y) + z,
        lambda x, y, z: x * 0.5 + z,  # exact
        lambda x, y, z: jnp.full(3, x) * HALVES + z,
        lambda x, y, z: x * power(y) + z,
        lambda x, y, z: x * (y > 0) + z,
        lambda x, y, z: x / 4 + z,
        lambda x, y, z: x / y + z,
        lambda x, y, z: jnp.stack([x, y]) / jnp.stack([y, z]) + x,
        lambda x, y, z: exact.quotient(jnp.stack([x, y]), z) + x,
        lambda x, y, z: exact.ordered_sum(jnp.stack([x, y, z])) + jnp.sum(jnp.stack([x, y])),
        lambda x, y, z: lax.reduce(jnp.stack([x, y]), z, lambda a, b: jnp.where(a > b, a, -b), (0,)) + z,
        lambda x, y, z: (x * y).astype(jnp.int32) + z.astype(jnp.int32),
        lambda x, y, z: jnp.where(x * y > z, x + z, y),
        lambda x, y, z: lax.scan(lambda s, v: (s + v, s), x, jnp.stack([y, z]))[0],
        lambda x, y, z: elementary.log(x) + elementary.exp(y) + elementary.log1p(z) + elementary.expm1(z),
    ],
)
def test_what_is_rounded_alike_is_not(function: Any) -> None:
    assert not found(function)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients_are_rounded_once(dtype: Any) -> None:
    """Also by what is broadcast, and those of quotients: XLA computes with one inverse, or one quotient, otherwise."""
    above, below = np.random.default_rng(2).uniform(0.1, 1, (2, 1_000, 20)).astype(dtype)

    def function(above: Any, below: Any) -> list[Any]:
        first = exact.quotient(above, below[:, :1])
        return [first, exact.quotient(first, below), exact.quotient(dtype(3), first)]

    with jax.enable_x64(True):
        first, second, third = jax.jit(function)(above, below)
        assert first.dtype == second.dtype == third.dtype == dtype
    np.testing.assert_array_equal(first, above / below[:, :1])
    np.testing.assert_array_equal(second, np.asarray(first) / below)
    np.testing.assert_array_equal(third, dtype(3) / np.asarray(first))


@pytest.mark.parametrize("n", [0, 1, 2, 7, 15, 16, 17, 48, 131, 1000])
def test_sums_have_an_order_of_their_own(n: int) -> None:
    """The same bits at each level of the compiler, along each axis; and each number is in the sum once."""
    x = np.random.default_rng(n).uniform(0.1, 1, (30, n)).astype(np.float32)

    def function(x: Any, axis: int) -> Any:
        return exact.ordered_sum(x + np.float32(1), axis)

    found = [
        np.asarray(jax.jit(function, static_argnums=1, compiler_options=options_for("cpu", level=level))(each, axis))
        for level in (0, 2, 3)
        for axis, each in ((1, x), (0, x.T))
    ]
    np.testing.assert_allclose(found[0], np.sum(x + np.float32(1), axis=1, dtype=np.float64), rtol=1e-6)
    assert all(some.tobytes() == found[0].tobytes() for some in found)
    powers = np.eye(max(n, 1), dtype=np.float32)[:, :n]
    np.testing.assert_array_equal(exact.ordered_sum(jnp.asarray(powers), 0), np.ones(n))


TURNS = (np.random.default_rng(1).integers(0, 2**24, 20_000) / 2**24).astype(np.float32)
SIZES = np.exp(np.random.default_rng(0).uniform(-25, 0, 20_000)).astype(np.float32)


@pytest.mark.parametrize(
    ("function", "true", "values"),
    [
        (elementary.log, np.log, np.concatenate([SIZES, 1 / SIZES, 1 - SIZES / 2])),
        (elementary.log1p, np.log1p, np.concatenate([SIZES, -SIZES[SIZES < 0.99], 9 * SIZES])),
        (elementary.exp, np.exp, np.concatenate([-87 * SIZES, 88 * SIZES])),
        (elementary.expm1, np.expm1, np.concatenate([-20 * SIZES, 20 * SIZES])),
        (elementary.tanh, np.tanh, np.concatenate([-20 * SIZES, 20 * SIZES])),
        (elementary.cos_of_turn, lambda x: np.sin(2 * np.pi * (np.abs(x - 0.5) - 0.25)), TURNS),
    ],
)  # fmt: skip
def test_elementary_functions_are_within_a_relative_3e_7(function: Any, true: Any, values: np.ndarray) -> None:
    found = np.asarray(jax.jit(function)(values), np.float64)
    np.testing.assert_allclose(found, true(values.astype(np.float64)), rtol=3e-7, atol=0)


def test_ends_of_elementary_functions() -> None:
    """What samplers meet there: a probability of 0 or 1, and exponents beyond float32."""
    assert elementary.log1p(jnp.float32(0)) == 0
    assert -89 < elementary.log1p(jnp.float32(-1)) < -87
    assert -89 < elementary.log(jnp.float32(0)) < -87
    assert 0 < elementary.exp(jnp.float32(-1000)) < 2e-38
