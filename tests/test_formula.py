"""Formulas that are written plainly and rounded alike: what they compute, and what they refuse."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from jaxbandit.xla.contraction import contractible
from jaxbandit.xla.formula import formula
from jaxbandit.xla.options import options_for
from jaxbandit.xla.platforms import traced_for

pytestmark = pytest.mark.smoke  # a newer JAX may have other operations

MANY = 4_000
X, Y, Z = np.exp(np.random.default_rng(0).normal(size=(3, MANY))).astype(np.float32)


def newton(x: Array, y: Array, z: Array) -> Array:
    """A loop whose carry is a product that the next turn adds."""

    def turn(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        root, product = carry
        return (root + product) / 2, x / root * y

    return lax.fori_loop(0, 3, turn, (z, x * z))[0]


def chosen(x: Array, y: Array, z: Array) -> Array:
    return lax.cond(z[0] > 0, lambda p: p + z, lambda p: p - z, x * y)


def summed(x: Array, y: Array, z: Array) -> Array:
    total, each = lax.scan(lambda s, v: (s * v[0] + v[1], s * v[1]), x[0], (x[1:9] / 8, y[1:9]))
    return total + jnp.sum(each) - z


def quadratic(x: Array, y: Array, z: Array) -> Array:
    return jnp.einsum("ia,ja,ij->a", jnp.stack([x, y]), jnp.stack([y, z]), jnp.ones((2, 2)) / 3)


def slope(x: Array, y: Array, z: Array) -> Array:
    """A derivative within a formula."""
    return jax.vmap(jax.grad(lambda a, b, c: a**3 * b + jnp.log(a) * c))(x, y, z)


FORMULAS: list[Any] = [
    lambda x, y, z: x * y + z,
    lambda x, y, z: x / 3 + z,
    lambda x, y, z: x / 2 + z * y + x**-2,
    lambda x, y, z: x / jnp.sqrt(y) + x**3 - z**2,
    lambda x, y, z: jnp.exp(-x * y) - jnp.log(z * x) + jnp.log1p(y) * jnp.expm1(-z) + jnp.tanh(x - y),
    lambda x, y, z: sum([*jnp.stack([x * y, z, x])]),
    lambda x, y, z: jax.jit(lambda p: jnp.where(p > 1, p, 1) + z)(x * y),
    newton,
    chosen,
    summed,
    quadratic,
    slope,
]


@pytest.mark.parametrize("plain", FORMULAS)
def test_no_rounding_is_left_to_the_compiler(plain: Any) -> None:
    assert contractible(jax.make_jaxpr(plain)(X, Y, Z))
    assert not contractible(jax.make_jaxpr(formula(plain))(*map(jnp.asarray, (X, Y, Z))))


@pytest.mark.parametrize("plain", FORMULAS)
def test_a_formula_has_its_values_at_each_level_of_the_compiler(plain: Any) -> None:
    arrays = [jnp.asarray(each) for each in (X, Y, Z)]
    with jax.enable_x64(True):
        exact = np.asarray(plain(*(np.asarray(each, np.float64) for each in arrays)))
    found = [
        np.asarray(jax.jit(formula(plain), compiler_options=options_for("cpu", level=level))(*arrays))
        for level in (0, 2, 3)
    ]
    size = np.max(np.abs(exact))
    np.testing.assert_allclose(found[0], exact, rtol=2e-6, atol=2e-6 * min(size, 10))
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


def test_a_formula_is_the_same_under_vmap_and_for_one() -> None:
    @formula
    def both(x: Array, power: int, y: np.ndarray) -> dict[str, Array]:
        return {"value": x**power * y + x, "count": (x > 1).astype(jnp.int32)}

    together = jax.vmap(lambda x: both(x, 3, np.float32(0.7)))(X)
    alone = [both(jnp.asarray(each), 3, np.float32(0.7)) for each in X[:20]]
    assert together["count"].dtype == np.int32
    np.testing.assert_array_equal(together["value"][:20], np.array([each["value"] for each in alone]))
    np.testing.assert_array_equal(together["count"], X > 1)


def test_a_formula_keeps_nothing_of_a_trace() -> None:
    with jax.checking_leaks():
        jax.jit(formula(lambda x: {"value": x * x + x, "power": 2}["value"])).lower(X)


def test_a_product_that_a_formula_returns_may_meet_a_sum() -> None:
    product = formula(lambda x, y: x * y)
    assert not contractible(jax.make_jaxpr(lambda x, y: product(x, y) + x)(X, Y))


def test_exact_products_stay_as_they_are() -> None:
    found = formula(lambda x: 2 * x + (x > 1).astype(jnp.float32) * x)(jnp.asarray(X))
    np.testing.assert_array_equal(found, 2 * X + np.where(X > 1, X, 0))


@pytest.mark.parametrize(
    ("plain", "named"),
    [(lambda x: lax.erf(x), "erf"), (lambda x: x @ x, "4000 products"), (functools.partial(jnp.power, 2.5), "pow")],
)
def test_what_has_no_fixed_rounding_is_refused(plain: Any, named: str) -> None:
    with pytest.raises(NotImplementedError, match=named):
        formula(plain)(jnp.asarray(X))


def logarithms(x: Array, y: Array, z: Array) -> Array:
    return x / jnp.sqrt(y) + jnp.log(z * x) * jnp.log(1e-300 * y) - z**-2


@pytest.mark.parametrize("plain", [*FORMULAS[:4], newton, chosen, summed, quadratic, logarithms])
def test_formulas_of_float64_are_rounded_alike_too(plain: Any) -> None:
    with jax.enable_x64(True):
        arrays = [jnp.asarray(each, np.float64) for each in (X, Y, Z)]
        rounded = traced_for("cpu", formula(plain))
        assert contractible(jax.make_jaxpr(plain)(*arrays))
        assert not contractible(jax.make_jaxpr(rounded)(*arrays))
        expected = np.asarray(plain(*arrays))
        found = [
            np.asarray(jax.jit(rounded, compiler_options=options_for("cpu", level=level))(*arrays)) for level in (0, 2)
        ]
    assert found[0].dtype == np.float64
    np.testing.assert_allclose(found[0], expected, rtol=3e-15, atol=3e-15 * np.max(np.abs(expected)))
    assert found[0].tobytes() == found[1].tobytes()


def test_a_formula_of_float32_may_have_a_part_in_float64() -> None:
    """As one has that is within another, where the platform is not known: its quotients are float64 on a GPU."""
    inner = formula(lambda x, y: x / y * y + x)
    known = traced_for("cpu", inner)(jnp.asarray(X), jnp.asarray(Y))
    np.testing.assert_array_equal(jax.jit(formula(inner))(jnp.asarray(X), jnp.asarray(Y)), known)


def test_exponentials_of_float64_are_refused() -> None:
    with jax.enable_x64(True), pytest.raises(NotImplementedError, match="exp of float64"):
        formula(jnp.exp)(jnp.asarray(X, np.float64))


def test_whole_numbers_stay_as_they_are() -> None:
    found = formula(lambda x: x * x + x)(jnp.arange(5))
    np.testing.assert_array_equal(found, [0, 2, 6, 12, 20])


def test_results_are_of_the_kind_that_the_function_returns() -> None:
    @formula
    def some(x: Array) -> dict[str, Any]:
        return {"sum": x * x + x, "constant": jnp.int32(3), "flag": False, "number": 2.5, "none": None}

    def within(x: Array) -> Array:
        found = some(x)
        assert isinstance(found["sum"], Array)
        assert isinstance(found["constant"], Array)
        assert found["flag"] is False
        assert found["number"] == 2.5
        assert found["none"] is None
        return found["sum"] + found["constant"]

    for run in (within, jax.jit(within), jax.vmap(within)):
        np.testing.assert_array_equal(run(jnp.arange(3.0)), [3, 5, 9])
