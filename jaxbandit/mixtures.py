"""Laws of an agent's success probability, from its records: beta laws and mixtures of them, of greatest likelihood.

Each entity has a probability of its own from the law, and its number of successes is binomial; thus beta-binomial, or a
mixture of those ("previous cleaning performance", Cheng et al. 2010, section 3.2).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import gammaln
from numpy.typing import ArrayLike, NDArray

from jaxbandit.devices import float64
from jaxbandit.errors import BadInput
from jaxbandit.laws import Beta, Mixture
from jaxbandit.parsers import whole

MAX_CONCENTRATION = 1e4
"""Fits keep alpha + beta of each beta law within 0.01 and this."""
MOST_COMPONENTS = 6
_LOW, _HIGH = math.log(0.01), math.log(MAX_CONCENTRATION)
_BINS, _COPIES, _STEP = 10, 999, 1e-4
_MOST_CHECKED = 1 << 14
"""Attempts of a record that the check looks at: it has a table of as many numbers for each number of attempts."""
_FIRST_STEPS, _PROMISING, _MOST_STEPS = 12, 2, 200
"""Steps of the descent from each start; how many starts are followed, and so far."""


class _Records(NamedTuple):
    """Different pairs of ``successes`` and ``attempts`` (float64, padded with zeros to a power of two, so that few
    sizes are compiled), and the ``share`` of the records that are such."""

    successes: Any
    attempts: Any
    share: Any


@dataclass(frozen=True)
class Fit:
    """A law fitted to an agent's records, as ``fit`` returns it.

    Attributes:
        law: of greatest likelihood.
        errors: standard errors of each component's (weight, alpha, beta), from the curvature of the likelihood; NaN
            where the records do not determine them, as at a bound.
        log_likelihood: of the records (natural logarithm; the binomial coefficients are left out).
        bic: the Bayesian information criterion, parameters * log(records) - 2 log_likelihood: lower is better.
        check: how often records drawn from the law itself are further from it than these are: of 999 copies, by the
            chi-square distance of ten bins of the probability integral transform. Below 0.05, the law is a poor
            description. It is conservative, as the copies are not fitted anew. Of a record of more than 16,384 attempts
            so many are drawn and looked at.
        records: how many, those without an attempt left out.

    Example:
        >>> from jaxbandit import cleaning
        >>> law = cleaning.Mixture((1, 3), (cleaning.Beta(2, 5), cleaning.Beta(8, 2)))
        >>> errors = (0.1, 0.5, 1.2), (0.1, 1.9, 0.6)
        >>> found = cleaning.Fit(law, errors, log_likelihood=-512.3, bic=1051.1, check=0.4, records=200)
        >>> for (weight, alpha, beta), (_, a, b) in zip(found.components, found.errors):
        ...     print(f"{weight:.2f} of them beta({alpha} +- {a}, {beta} +- {b})")
        ...
        0.25 of them beta(2.0 +- 0.5, 5.0 +- 1.2)
        0.75 of them beta(8.0 +- 1.9, 2.0 +- 0.6)
    """

    law: Beta | Mixture
    errors: tuple[tuple[float, float, float], ...]
    log_likelihood: float
    bic: float
    check: float
    records: int

    @property
    def components(self) -> tuple[tuple[float, float, float], ...]:
        """Lists (weight, alpha, beta) of each component of the law."""
        return _components(self.law)


def fit_beta(successes: ArrayLike, attempts: ArrayLike) -> Beta:
    """Fits the beta law of greatest likelihood to an agent's records.

    Fitted by L-BFGS on (logit of the mean, bounded log of alpha + beta), from the pooled mean and the best of 65
    concentrations.

    Where the records scatter no more than one common p would have them do, the likelihood rises without end as the law
    narrows; alpha + beta then comes out at its bound, ``MAX_CONCENTRATION``. So it does at 0.01 where every entity
    succeeds always or never. With one attempt an entity, only the mean can be learnt.

    Args:
        successes: the operations on each entity that succeeded, whole numbers, shape (entities,).
        attempts: all operations on each entity, whole numbers up to 2^31 - 1, shape (entities,). Entities without an
            attempt are left out.

    Raises:
        BadInput: for records that are not such numbers or have more successes than attempts, and where there is not at
            least one success and one failure among them: no law is then best.

    Example:
        >>> from jaxbandit import cleaning
        >>> law = cleaning.fit_beta([1, 4, 2, 5, 0, 3], [3, 5, 6, 6, 4, 5])
        >>> round(law.mean(), 2)
        0.5
    """
    law = fit_law(successes, attempts, 1)
    assert isinstance(law, Beta)
    return law


def fit(successes: ArrayLike, attempts: ArrayLike, components: int | None = None) -> Fit:
    """Fits the mixture of beta laws of greatest likelihood to an agent's records, with standard errors and a check.

    Agents that are good at some entities and poor at others have an sc-pdf with several peaks, which no single beta law
    has. The likelihood of a mixture has several maxima: the best of some starts is taken.

    Args:
        successes: of each entity, as for ``fit_beta``.
        attempts: of each entity, as for ``fit_beta``.
        components: how many beta laws, 1 to 6. By default the number of the lowest BIC, as long as one more lowers it
            and its law has fewer parameters than there are records.

    Raises:
        BadInput: see ``fit_beta``; and for another number of components.

    Example:
        >>> from jaxbandit import cleaning
        >>> found = cleaning.fit([1, 9, 0, 10, 1, 8, 0, 9] * 25, [10] * 200)
        >>> len(found.components), round(found.law.mean(), 2)
        (2, 0.48)
    """
    _checked_size(1 if components is None else components)
    records, many = _records(successes, attempts)
    found = _found(records, many, components or 1)
    while components is None and len(found.at) < MOST_COMPONENTS and 3 * len(found.at) + 2 < many:
        wider = _found(records, many, len(found.at) + 1)
        if wider.bic >= found.bic:
            break
        found = wider
    with float64():
        errors = _errors(found.at, records, many)
    each = np.repeat(np.stack(records[:2]), np.rint(records.share * many).astype(int), axis=1)
    check = _check(_components(found.law), each.astype(np.int64))
    return Fit(found.law, errors, found.log_likelihood, found.bic, check, many)


def fit_law(successes: ArrayLike, attempts: ArrayLike, components: int) -> Beta | Mixture:
    """Fits the law that ``fit`` does, for a given number of components, without errors and check."""
    _checked_size(components)
    return _found(*_records(successes, attempts), components).law


def _checked_size(components: int) -> None:
    whole(1, MOST_COMPONENTS)("components", components)


def _records(successes: ArrayLike, attempts: ArrayLike) -> tuple[_Records, int]:
    """Checks the records, and returns the different ones and how many there are in all."""
    s, n = _whole("successes", successes), _whole("attempts", attempts)
    if s.ndim != 1 or s.shape != n.shape:
        raise BadInput("successes", f"shape {s.shape}", f"a list as long as attempts, which has shape {n.shape}")
    for i in np.flatnonzero(s > n)[:1]:
        raise BadInput(f"successes[{i}]", int(s[i]), f"at most the {n[i]} attempts")
    if not n.any():
        raise BadInput("attempts", "none above 0", "at least one record with an attempt")
    if not 0 < s.sum() < n.sum():
        raise BadInput("successes", f"{s.sum()} of {n.sum()}", "at least one success and one failure among the records")
    pairs, counts = np.unique(np.stack([s, n])[:, n > 0], axis=1, return_counts=True)
    padded = np.zeros((3, max(1024, 1 << (counts.size - 1).bit_length())))
    padded[:, : counts.size] = *pairs, counts / counts.sum()
    return _Records(*padded), int(counts.sum())


class _Found(NamedTuple):
    """A fitted law, its place in the space of ``_laws``, and what ``Fit`` has of it."""

    law: Beta | Mixture
    at: np.ndarray
    log_likelihood: float
    bic: float


def _found(records: _Records, many: int, size: int) -> _Found:
    """Fits a law of ``size`` components, from all starts."""
    with float64():
        at, loss, slope = map(np.asarray, _descended(_starts(records, size), records))
        weights, alpha, beta = (np.asarray(part, np.float64).tolist() for part in _laws(at))
    # Of a mixture with a component too many, the likelihood has no single maximum.
    if size == 1 and not slope < 1e-6:
        raise RuntimeError(f"the fit did not converge: slope {slope:.1e}")
    laws = [Beta(a, b) for a, b in zip(alpha, beta, strict=True)]
    likelihood = -many * float(loss)
    bic = (3 * size - 1) * math.log(many) - 2 * likelihood
    return _Found(laws[0] if size == 1 else Mixture(tuple(weights), tuple(laws)), at, likelihood, bic)


def _laws(x: Any) -> tuple[Array, Array, Array]:
    """Returns weights, alpha and beta, by increasing mean, of shape (size,), from logits of the weights and of the
    means, and from numbers that bound alpha + beta: shape (size, 3)."""
    x = jnp.asarray(x)[jnp.argsort(x[:, 1])]
    size = jnp.exp(_LOW + (_HIGH - _LOW) * jax.nn.sigmoid(x[:, 2]))
    return jax.nn.softmax(x[:, 0]), size * jax.nn.sigmoid(x[:, 1]), size * jax.nn.sigmoid(-x[:, 1])


def _loss(x: Array, records: _Records) -> Array:
    """Computes the negative mean log-likelihood of the records."""
    s, n, share = records
    weights, alpha, beta = _laws(x)

    def one(a: Array, b: Array) -> Array:
        # In one call, since a gammaln takes long to compile: log B(s + a, n - s + b) - log B(a, b).
        logs = gammaln(jnp.stack(jnp.broadcast_arrays(s + a, n - s + b, a + b, n + a + b, a, b)))
        return jnp.array([1.0, 1, 1, -1, -1, -1]) @ logs

    each = lax.map(lambda of: one(*of), (alpha, beta))
    return -jnp.sum(share * jax.nn.logsumexp(each + jnp.log(weights)[:, None], axis=0))


def _starts(records: _Records, size: int) -> np.ndarray:
    """Returns where to begin: shape (starts, size, 3). The means are those of parts of the records, by their share of
    successes; of two or more components, some parts are larger than others."""
    s, n, share = (part[records.share > 0] for part in records)
    if size == 1:
        pooled = math.log(share @ s) - math.log(share @ (n - s))
        return np.stack([np.zeros(65), np.full(65, pooled), np.linspace(-8.0, 8.0, 65)], axis=-1)[:, None]
    order = np.argsort((s + 0.5) / (n + 1), kind="stable")
    s, n, share = s[order], n[order], share[order]
    reached, rng, starts = share.cumsum() - share / 2, np.random.default_rng(0), []
    for number in range(12):
        cuts = np.arange(1, size) / size if number < 3 else np.sort(rng.uniform(size=size - 1))
        part = np.searchsorted(cuts, reached)
        held = np.bincount(part, share, size) + 1e-3
        mean = (np.bincount(part, share * s, size) + 1e-3) / (np.bincount(part, share * n, size) + 2e-3)
        concentration = np.full(size, (-2.0, 0.0, 2.0)[number % 3])
        starts.append(np.stack([np.log(held), np.log(mean) - np.log1p(-mean), concentration], axis=-1))
    return np.stack(starts)


@jax.jit
def _descended(starts: Array, records: _Records) -> tuple[Array, Array, Array]:
    """Finds the lowest minimum below the most promising starts, after some steps from each; also returns the loss and
    the gradient's norm there."""
    import optax  # not all who import this fit

    def loss(x: Array) -> Array:
        return _loss(x, records)

    solver = optax.lbfgs(memory_size=4)
    value_and_grad = optax.value_and_grad_from_state(loss)

    def slope(state: Any) -> Array:
        norm: Array = jnp.linalg.norm(optax.tree_utils.tree_get(state, "grad"))
        return norm

    def step(carry: Any) -> Any:
        x, state, i = carry
        value, grad = value_and_grad(x, state=state)
        change, state = solver.update(grad, state, x, value=value, grad=grad, value_fn=loss)
        return x + change, state, i + 1

    def below(start: Array, steps: Array) -> tuple[Array, Array, Array]:
        def going(carry: Any) -> Any:
            _, state, i = carry
            return (i == 0) | (i < steps) & (slope(state) > 1e-9)

        x, state, _ = lax.while_loop(going, step, (start, solver.init(start), 0))
        return loss(x), x, slope(state)

    if starts.shape[1] == 1:
        chosen = starts[jnp.argmin(lax.map(loss, starts))][None]
    else:
        losses, found, _ = lax.map(lambda start: below(start, jnp.int32(_FIRST_STEPS)), starts)
        chosen = found[jnp.argsort(losses)[:_PROMISING]]
    losses, found, slopes = lax.map(lambda start: below(start, jnp.int32(_MOST_STEPS)), chosen)
    best = jnp.argmin(losses)
    return found[best], losses[best], slopes[best]


def _errors(at: np.ndarray, records: _Records, many: int) -> tuple[tuple[float, float, float], ...]:
    """Computes standard errors by the delta method, from the inverse of the information on the free parameters.
    Derivatives of derivatives are central differences, as their program takes seconds to compile."""
    size = at.shape[0]
    free = np.array([row > 0 or column > 0 for row in range(size) for column in range(3)])  # weights have a sum

    def differences(of: Callable[[np.ndarray], Any]) -> np.ndarray:
        steps = _STEP * np.eye(at.size)[free].reshape(-1, *at.shape)
        return np.stack([np.ravel(of(at + step)) - np.ravel(of(at - step)) for step in steps]) / (2 * _STEP)

    slopes = differences(lambda x: np.asarray(_slopes(x, records)).ravel()[free])
    information = many * (slopes + slopes.T) / 2
    moves = differences(lambda x: np.stack(_laws(x))).T
    values, vectors = np.linalg.eigh(information)
    if not values.min() > 1e-6 * max(values.max(), 1.0):
        return tuple([(math.nan, math.nan, math.nan)] * size)
    spread: np.ndarray = np.sqrt(np.square(moves @ vectors) @ (1 / values))
    rows: list[list[float]] = spread.reshape(3, size).T.tolist()
    errors: tuple[tuple[float, float, float], ...] = tuple((row[0], row[1], row[2]) for row in rows)
    return errors


_slopes = jax.jit(jax.grad(_loss))


def _components(law: Beta | Mixture) -> tuple[tuple[float, float, float], ...]:
    if isinstance(law, Beta):
        return ((1.0, law.alpha, law.beta),)
    return tuple((weight, part.alpha, part.beta) for weight, part in zip(law.weights, law.laws, strict=True))


def _check(components: tuple[tuple[float, float, float], ...], records: np.ndarray) -> float:
    """Computes ``Fit.check``, by copies of the records that are drawn from the law."""
    s, n = _thinned(*records)
    kinds, which = np.unique(n, return_inverse=True)
    tables = [_cumulative(components, int(kind)) for kind in kinds]
    start = np.concatenate([[0], np.cumsum([table.size for table in tables])])[which]
    whole, rng = np.concatenate(tables), np.random.default_rng(0)

    def distance(successes: np.ndarray) -> float:
        # Half a bin of an outcome's probability on either side: Czado, Gneiting and Held 2009, section 2.
        low, high = whole[start + successes], whole[start + successes + 1]
        edges = np.arange(_BINS + 1)[:, None] / _BINS
        within = np.clip((edges - low) / np.maximum(high - low, 1e-300), 0, 1).mean(axis=1)
        return float(np.square(np.diff(within) - 1 / _BINS).sum())

    weights, alpha, beta = np.array(components).T
    own, further = distance(s), 0
    for _ in range(_COPIES):
        of = rng.choice(weights.size, s.size, p=weights / weights.sum())
        further += distance(rng.binomial(n, rng.beta(alpha[of], beta[of]))) >= own
    return (1 + further) / (1 + _COPIES)


def _thinned(s: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws ``_MOST_CHECKED`` of the attempts of each record that has more: if its successes are beta-binomial, those
    among fewer are so too."""
    s, n, long = s.copy(), n.copy(), n > _MOST_CHECKED
    # NumPy draws from fewer than 10^9 of a kind. Of so many, every fourth is as good.
    part = np.where(n[long] < 10**9, 1, 4)
    won, lost = s[long] // part, (n[long] - s[long]) // part
    s[long] = np.random.default_rng(1).hypergeometric(won, lost, _MOST_CHECKED)
    n[long] = _MOST_CHECKED
    return s, n


def _cumulative(components: tuple[tuple[float, float, float], ...], n: int) -> np.ndarray:
    """P(successes < k) for k from 0 to n + 1: float64."""
    k, total = np.arange(n + 1), np.zeros(n + 1)
    for weight, a, b in components:
        # The recursion of the beta-binomial law, in logarithms.
        up = np.log(k[:-1] + a) + np.log(n - k[:-1]) - np.log(k[1:]) - np.log(n - k[:-1] - 1 + b)
        first = math.lgamma(n + b) + math.lgamma(a + b) - math.lgamma(n + a + b) - math.lgamma(b)
        total += weight * np.exp(first + np.concatenate([[0.0], np.cumsum(up)]))
    return np.concatenate([[0.0], np.minimum(np.cumsum(total), 1)])


def _whole(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype == bool or not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise BadInput(name, f"{array.dtype} of shape {array.shape}", "a list of whole numbers")
    for place in np.argwhere(~((array >= 0) & (array < 2**31) & (array == np.floor(array))))[:1]:
        bad = array[tuple(place)]
        raise BadInput(f"{name}[{', '.join(map(str, place))}]", bad.item(), "a whole number from 0 to 2147483647")
    return array.astype(np.int64)
