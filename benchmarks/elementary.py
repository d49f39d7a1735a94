"""The polynomials of ``jaxbandit.xla.elementary``: how they are fitted, and the largest errors of its functions.

    python -m benchmarks.elementary [--out FILE.json] [--quick]

``fitted`` is the largest relative error of the best polynomial of that degree, in exact arithmetic; ``kept`` that of
the module's coefficients, which are the best ones rounded to float32. ``error`` is the largest relative error of the
function itself in float32, over random numbers of its whole range, and ``jax`` that of ``jax.numpy``'s.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.common import Row, facts, parser, save, table
from jaxbandit.xla import elementary

_POINTS, _ROUNDS = 4_001, 400
_NEAR_ZERO = 1e-2
"""Where series stand in for quotients that cancel."""
COLUMNS = {
    "function": ("function", ""), "degree": ("degree", "d"), "fitted": ("fitted", ".1e"), "kept": ("kept", ".1e"),
    "error": ("error", ".1e"), "jax": ("jax", ".1e"),
}  # fmt: skip


def best(function: Callable[[Any], Any], weight: Callable[[Any], Any], low: float, high: float, degree: int) -> Any:
    """The coefficients with the least largest error, times ``weight``: Lawson's iterated least squares."""
    x = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(_POINTS) + 0.5) / _POINTS)
    powers, values, weights = np.vander(x, degree + 1, increasing=True), function(x), weight(x)
    shares = np.ones(_POINTS)
    for _ in range(_ROUNDS):
        scale = np.sqrt(shares) * weights
        found, *_ = np.linalg.lstsq(powers * scale[:, None], values * scale, rcond=None)
        shares = shares * np.abs((powers @ found - values) * weights)
        shares /= shares.sum()
    return found


def _series(x: Any, terms: Callable[[int], float], exact: Callable[[Any], Any]) -> Any:
    near = np.abs(x) < _NEAR_ZERO
    return np.where(near, sum(terms(k) * x**k for k in range(12)), exact(np.where(near, 1, x)))


def log_rest(f: Any) -> Any:
    """(log(1 + f) - f + f^2 / 2) / f^3."""
    return _series(f, lambda k: (-1) ** k / (k + 3), lambda f: (np.log1p(f) - f + f * f / 2) / f**3)


def exp_rest(r: Any) -> Any:
    """(exp(r) - 1 - r) / r^2."""
    return _series(r, lambda k: 1 / np.prod(np.arange(1.0, k + 3)), lambda r: (np.expm1(r) - r) / r**2)


def sine_rest(square: Any) -> Any:
    """sin(2 pi y) / y, of y^2."""
    y = np.sqrt(np.maximum(square, 1e-16))
    return np.sin(2 * np.pi * y) / y


FITS: dict[str, tuple[Any, ...]] = {
    "log": (log_rest, lambda f: np.abs(f**3 / np.log1p(f)), 2**-0.5 - 1, 2**0.5 - 1, elementary._LOG),
    "exp": (exp_rest, lambda r: np.abs(r**2 / np.expm1(r)), -0.347, 0.347, elementary._EXP),
    "cos_of_turn": (sine_rest, lambda z: 1 / sine_rest(z), 0, 1 / 16, elementary._SIN),
}


def fit(name: str) -> Row:
    """How good the polynomial of a function is."""
    function, weight, low, high, kept = FITS[name]
    x = np.linspace(low, high, 100_000)

    def error(coefficients: Any) -> float:
        value = np.polynomial.polynomial.polyval(x, coefficients)
        return float(np.abs((value - function(x)) * weight(x)).max())

    degree = len(kept) - 1
    return {
        "degree": degree, "fitted": error(best(function, weight, low, high, degree)),
        "kept": error([float(np.float32(each)) for each in kept]),
    }  # fmt: skip


def errors(many: int) -> list[Row]:
    """The largest error of each function."""
    random = np.random.default_rng(0)
    small = np.exp(random.uniform(-30, 0, many))
    ranges: dict[str, tuple[Any, Any, Any]] = {
        "log": (np.concatenate([np.exp(random.uniform(-80, 80, many)), random.uniform(0.5, 2, many)]), np.log, jnp.log),
        "log1p": (np.concatenate([small, -small[small < 0.999], random.uniform(0, 9, many)]), np.log1p, jnp.log1p),
        "exp": (random.uniform(-87, 88, many), np.exp, jnp.exp),
        "expm1": (np.concatenate([-20 * small, 20 * small]), np.expm1, jnp.expm1),
        "tanh": (np.concatenate([-20 * small, 20 * small]), np.tanh, jnp.tanh),
        "cos_of_turn": (
            random.integers(0, 2**24, many) / 2**24, lambda x: np.sin(2 * np.pi * (0.25 - np.abs(x - 0.5))) * -1,
            lambda x: jnp.cos(jnp.float32(2 * np.pi) * x),
        ),
    }  # fmt: skip
    rows = []
    for name, (values, exact, of_jax) in ranges.items():
        x = values.astype(np.float32)
        true = exact(x.astype(np.float64))
        own, others = (
            float(np.abs(np.asarray(jax.jit(each)(x), np.float64) / np.where(true == 0, 1, true) - 1)[true != 0].max())
            for each in (getattr(elementary, name), of_jax)
        )
        rows.append({"function": name, "error": own, "jax": others} | (fit(name) if name in FITS else {}))
    return rows


def main() -> None:
    """Measure, print a table, write JSON if asked to."""
    given = parser(__doc__).parse_args()
    head, rows = facts("elementary", given.quick), errors(10**4 if given.quick else 3 * 10**6)
    print(table(rows, COLUMNS))
    save(given.out, head, rows)


if __name__ == "__main__":
    main()
