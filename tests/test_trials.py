"""The successes in a number of trials have the binomial law, whichever way they are drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxbandit.random import stream
from jaxbandit.random.trials import MOST_TRIALS, UNITS, many_successes, successes

DRAWS = 20_000
COUNTS = (1, 2, 5, 6, 7, 16, 17, 40, 100, 1000)  # a word a trial up to 6, a word for 16, halves of more
SHARES = (0.0, 0.003, 0.31, 0.5, 0.9, 1.0)


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    """int32, (counts, shares, draws)."""
    count = jnp.array(COUNTS, jnp.int32)[:, None, None]
    units = jnp.array([round(p * UNITS) for p in SHARES], jnp.int32)[None, :, None]
    purpose = jnp.arange(len(COUNTS) * len(SHARES), dtype=jnp.int32).reshape(len(COUNTS), len(SHARES), 1)
    first = 1024 * jnp.arange(DRAWS, dtype=jnp.int32)
    return np.asarray(jax.jit(successes)(stream(5, 0), purpose, first, count, units))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("share", SHARES)
def test_law(drawn: np.ndarray, count: int, share: float) -> None:
    found = np.bincount(drawn[COUNTS.index(count), SHARES.index(share)], minlength=count + 1)
    law = stats.binom.pmf(np.arange(count + 1), count, share)
    assert found[law == 0].sum() == 0
    usual = law * DRAWS >= 5
    seen = np.append(found[usual], found[~usual].sum())
    expected = np.append(law[usual], max(law[~usual].sum(), 0)) * DRAWS
    seen, expected = seen[expected > 0], expected[expected > 0]
    if seen.size > 1:
        assert stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > 1e-5


def test_a_draw_does_not_depend_on_its_neighbours() -> None:
    """How many words are drawn depends on the batch; what is found does not."""
    counts = jnp.array([3, 9, 60, 0, 300, 1000], jnp.int32)
    units = jnp.full(6, UNITS // 3, jnp.int32)
    draw = jax.jit(lambda count, units: successes(stream(1, 2), jnp.arange(6), jnp.int32(7), count, units))
    together = draw(counts, units)
    alone = [draw(jnp.where(jnp.arange(6) == i, counts, 0), units)[i] for i in range(6)]
    np.testing.assert_array_equal(together, alone)


def test_many() -> None:
    count, units = jnp.int32(4 * MOST_TRIALS), jnp.int32(UNITS // 5)
    first = (1 << 13) * jnp.arange(4000, dtype=jnp.int32)
    found = np.asarray(jax.jit(many_successes)(stream(3, 0), 0, first, count, units))
    standard = (found - 4 * MOST_TRIALS / 5) / np.sqrt(4 * MOST_TRIALS * 0.16)
    assert abs(standard.mean()) < 4 / np.sqrt(4000)
    assert abs(standard.std() - 1) < 0.05
