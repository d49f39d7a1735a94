"""trained: entities in the order of a score over what is known of them, whose weights were found by simulation.

The score of an entity depends on small numbers alone: the false values that it began with, those removed, and the
failures. So it is a table, and the policy is ``Index`` with that table in the place of the optimal one: at each level
of the score, entities are worked on while they score at least that much. No step compares all entities.

For this the score is made monotone: it does not fall with false values at the beginning or with successes, and does not
rise with failures.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from jaxbandit.cleaning.given import law_of, weights_of
from jaxbandit.cleaning.index import Index
from jaxbandit.cleaning.stopping import DELTA, MOST_INDEXED, NEVER
from jaxbandit.devices import use_all_cores
from jaxbandit.errors import BadInput
from jaxbandit.laws import Law
from jaxbandit.scores import Score, read, stacked, value

STATISTICS: Mapping[str, float] = {
    "mean": 1.0, "deviation": 0.0, "rate": 1.0, "doubt": 0.0, "left": 0.0, "last": 0.0, "failures": 0.0, "plenty": 0.0,
}  # fmt: skip
"""What a score may use of an entity, with the weight that training begins with. ``mean`` and ``deviation`` of its
sc-probability by the sc-pdf and its record; ``rate``, (successes + 1) / (operations + 2), and ``doubt``,
1 / sqrt(operations + 2), which do not need the sc-pdf; ``left``, the logarithm of 1 + its false values, and ``last``, 1
over their number; ``failures``, the logarithm of 1 + their number; ``plenty``, the logarithm of the budget over the
false values of all entities, in expectation. Logarithms are divided by 4."""

USUAL = ("mean", "deviation", "doubt", "left", "last", "failures", "plenty")
_FAILURES, _DIGITS = 64, 9
_FRESH_LEVELS, _AFTER = 9, (1, 2, 3, 5, 8, 13, 21, 34)
"""As many levels as ``index`` has: one program serves both."""


def shipped() -> Score:
    """Loads the score that comes with the package: see ``docs/trained.md``.

    Example:
        >>> from jaxbandit import cleaning
        >>> cleaning.shipped_score().family
        'cleaning'
    """
    return load(Path(__file__).with_name("trained.json"))


def load(path: Path | str, field: str = "path") -> Score:
    """Loads the score in the file at ``path``, which ``jaxbandit train`` wrote; ``field``: what errors call that file.

    Raises:
        BadInput: see ``scores.read``.

    Example:
        >>> import tempfile
        >>> from jaxbandit import cleaning
        >>> file = tempfile.mkdtemp() + "/score.json"
        >>> cleaning.shipped_score().save(file)
        >>> cleaning.load_score(file).family
        'cleaning'
    """
    return read(field, path, "cleaning", STATISTICS)


def trained(score: Score, *, budget: int, entities: int, false_values: np.ndarray, sc_pdf: Law) -> Index:
    """Makes the policy of a score on a problem, which is given as for ``index``.

    Raises:
        BadInput: for more than ``MOST_INDEXED`` false values, and for a score of another family.

    Example:
        >>> from jaxbandit import cleaning
        >>> weights = cleaning.uniform_false_values(0, 3)
        >>> score = cleaning.shipped_score()
        >>> rule = cleaning.trained(score, budget=100, entities=1_000, false_values=weights, sc_pdf=cleaning.Uniform())
        >>> rule.allowed.shape
        (18, 4, 3)
    """
    return policies([score], budget=budget, entities=entities, false_values=false_values, sc_pdf=sc_pdf)[0]


def policies(
    scores: Sequence[Score], *, budget: int, entities: int, false_values: np.ndarray, sc_pdf: Law
) -> list[Index]:
    """Makes the policies of scores of one shape. Their tables are one array, so that they are one program."""
    weights, sc_pdf = weights_of(false_values), law_of(sc_pdf)
    counts = [int(count) for count in np.flatnonzero(weights) if count]
    if max(counts) > MOST_INDEXED:
        raise BadInput("false_values", f"up to {max(counts)}", f"at most {MOST_INDEXED} an entity")
    rows = stacked(scores, "cleaning")
    expected = entities * float(weights @ np.arange(weights.size)) / float(weights.sum())
    known = _statistics(scores[0].statistics, sc_pdf.cells(DELTA).tobytes(), max(counts), budget / expected)
    shape = max(counts) + 1, max(counts), _FAILURES + 1
    use_all_cores()
    values = (value(row, scores[0].hidden, known, np.tanh) for row in rows)
    shared = jnp.asarray(np.concatenate([_allowed(np.broadcast_to(each, shape), counts) for each in values], axis=1))
    return [Index(shared, np.int32(number * (max(counts) + 1))) for number in range(len(scores))]


@lru_cache(maxsize=64)
def _statistics(names: Sequence[str], cells: bytes, most: int, plenty: float) -> tuple[np.ndarray, ...]:
    """Computes statistics by name, arrays that broadcast to [r, s, f]: false values at first, successes, failures."""
    r, s, f = (np.arange(count, dtype=np.float64) for count in (most + 1, most, _FAILURES + 1))
    r, s = r[:, None, None], s[:, None]
    left, tried = np.maximum(r - s, 1), s + f
    found: dict[str, Callable[[], np.ndarray]] = {
        "mean": lambda: _posterior(cells, most)[0], "deviation": lambda: _posterior(cells, most)[1],
        "rate": lambda: (s + 1) / (tried + 2), "doubt": lambda: 1 / np.sqrt(tried + 2),
        "left": lambda: np.log1p(left) / 4, "last": lambda: 1 / left,
        "failures": lambda: np.log1p(f) / 4, "plenty": lambda: np.array(np.log(plenty) / 4),
    }  # fmt: skip
    return tuple(found[name]() for name in names)


@lru_cache(maxsize=64)
def _posterior(cells: bytes, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Computes mean and standard deviation of p by record: [s, f]."""
    prior = np.frombuffer(cells)
    p = (np.arange(prior.size) + 0.5) / prior.size
    p, start, f = p[prior > 0], np.log(prior[prior > 0]), np.arange(_FAILURES + 1)[:, None]
    mean, square = np.zeros((2, most, _FAILURES + 1))
    for s in range(most):
        log = start + s * np.log(p) + f * np.log1p(-p)
        chance = np.exp(log - log.max(1, keepdims=True))
        chance /= chance.sum(1, keepdims=True)
        mean[s], square[s] = chance @ p, chance @ p**2
    return mean, np.sqrt(np.maximum(square - mean**2, 0))


def _allowed(score: np.ndarray, begun: Sequence[int]) -> np.ndarray:
    """Makes the table of ``Index`` from scores by [r, s, f]; ``begun``: the r that there are, ascending."""
    most = score.shape[1]
    r, s = np.arange(most + 1)[:, None], np.arange(most)
    score = np.where((s < r)[:, :, None], np.round(score, _DIGITS), -np.inf)
    score = np.maximum.accumulate(np.maximum.accumulate(score, axis=0), axis=1)
    score = np.minimum.accumulate(score, axis=2)
    fresh = np.unique(score[list(begun), 0, 0])[::-1]
    chosen = fresh[np.ceil(np.linspace(0, fresh.size - 1, _FRESH_LEVELS)).astype(int)]
    # The last level is for all that is left: the rule has no limit there.
    levels = np.array([*chosen, *score[begun[0], 0, list(_AFTER)], -np.inf])
    count = (score >= levels[:, None, None, None]).sum(-1, dtype=np.int32)
    return np.asarray(np.where(s < r, np.where(count > _FAILURES, NEVER, count), 0))


__all__ = ["STATISTICS", "USUAL", "load", "policies", "shipped", "trained"]
