"""The race's law against the exact one, by dynamic programming over (successes, failures)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxbandit.random import LONGEST_RACE, UNLIMITED, race, race_on_tape, stream, words
from jaxbandit.random.race import concealed, trial_at, visit_at, visit_on_tape

DRAWS = 1 << 19


def to_the_end(p: np.uint32, successes: int, failures: int, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Races until a limit is met: one race may decide fewer trials than it is allowed."""

    @jax.jit
    def again(number: jax.Array, won: jax.Array, lost: jax.Array) -> tuple[jax.Array, jax.Array]:
        word = words(stream(seed, jnp.arange(DRAWS)), 1, number)[0]
        more = jax.vmap(race)(
            word, jnp.full(DRAWS, p), successes - won, failures - lost, jnp.minimum(trials - won - lost, trials)
        )
        return won + more[0], lost + more[1]

    won = lost = jnp.zeros(DRAWS, jnp.int32)
    for number in range(200):
        before = won + lost
        won, lost = again(jnp.int32(number), won, lost)
        if (before == won + lost).all():
            return np.asarray(won), np.asarray(lost)
    raise AssertionError("the races do not end")


def law(p: float, successes: int, failures: int, trials: int) -> dict[tuple[int, int], float]:
    open_, ended = {(0, 0): 1.0}, {}
    while open_:
        after: dict[tuple[int, int], float] = {}
        for (won, lost), mass in open_.items():
            if won == successes or lost == failures or won + lost == trials:
                ended[won, lost] = ended.get((won, lost), 0.0) + mass
                continue
            after[won + 1, lost] = after.get((won + 1, lost), 0.0) + mass * p
            after[won, lost + 1] = after.get((won, lost + 1), 0.0) + mass * (1 - p)
        open_ = after
    return ended


CASES = [
    (0.5, 1, 1, 16), (0.5, 3, 2, 16), (0.3, 19, 1, 3), (0.97, 5, 1, 3), (0.999, 19, 1, 3), (0.02, 2, 3, 16),
    (0.7, UNLIMITED, UNLIMITED, 16), (0.01, UNLIMITED, UNLIMITED, 16), (0.9, 40, UNLIMITED, 40),
    (0.6, 4, UNLIMITED, 60), (0.2, UNLIMITED, 4, 60), (0.05, 5, 4, 16), (0.64, 7, 7, 12), (0.4, 9, 3, 30),
    (1e-6, 1, 20, 25), (0.85, 12, 12, 17),
]  # fmt: skip


@pytest.mark.smoke
@pytest.mark.parametrize(("p", "successes", "failures", "trials"), CASES)
def test_law(p: float, successes: int, failures: int, trials: int) -> None:
    word = np.uint32(p * 2.0**32)
    exact = ((int(word) >> 8) + 0.5) / 2**24
    expected = law(exact, successes, failures, trials)
    won, lost = to_the_end(word, successes, failures, trials, seed=7)
    ends = sorted(expected)
    seen = dict(zip(*np.unique(won.astype(np.int64) * 4096 + lost, return_counts=True), strict=True))
    assert set(seen) <= {x * 4096 + y for x, y in ends}
    observed = np.array([seen.get(x * 4096 + y, 0) for x, y in ends])
    wanted = np.array([expected[end] for end in ends]) * DRAWS
    rare = wanted < 10
    observed = np.append(observed[~rare], observed[rare].sum())
    wanted = np.append(wanted[~rare], wanted[rare].sum() + 1e-6)
    if wanted[-1] < 10:
        assert observed[-1] < 60
        observed, wanted = observed[:-1], wanted[:-1]
    if len(wanted) > 1:
        assert stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 1e-5


@pytest.mark.parametrize("limits", [(0, 5, 5), (5, 0, 5), (5, 5, 0), (5, 5, -3)])
def test_a_limit_of_0_tries_nothing(limits: tuple[int, int, int]) -> None:
    one = [jnp.full(4, limit, jnp.int32) for limit in limits]
    word, p = jnp.arange(4, dtype=jnp.uint32) << 30, jnp.full(4, 1 << 31, jnp.uint32)
    assert np.asarray(jax.vmap(race)(word, p, *one)).max() == 0
    key = stream(0, jnp.zeros(4, jnp.uint32))
    zeros = jnp.zeros(4, jnp.int32)
    assert np.asarray(race_on_tape(key, zeros, zeros, concealed(words(key, 0, 0)[0], p), *one)).max() == 0


def test_the_tape_has_the_same_law() -> None:
    p, limits = np.uint32(0.6 * 2**32), (5, 3, 9)
    lanes = jnp.arange(1 << 16)
    full = [jnp.full(lanes.shape, limit, jnp.int32) for limit in limits]
    zeros = jnp.zeros(lanes.shape, jnp.int32)
    key = stream(3, lanes)
    won, lost = race_on_tape(key, zeros, zeros, concealed(words(key, 0, 0)[0], jnp.full(lanes.shape, p)), *full)
    expected = law(0.6, *limits)
    for (x, y), mass in expected.items():
        share = np.mean((np.asarray(won) == x) & (np.asarray(lost) == y))
        assert abs(share - mass) < 5 * np.sqrt(mass * (1 - mass) / lanes.size) + 1e-6


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_same_bits_in_any_batch(size: int) -> None:
    lanes = jnp.arange(4096)
    word, p = words(stream(11, lanes), 2, 0)
    limits = [(word % 20 + 1).astype(jnp.int32), (p % 7 + 1).astype(jnp.int32), (word % 30).astype(jnp.int32)]
    whole = np.stack(jax.jit(jax.vmap(race))(word, p, *limits))
    part = np.stack(jax.jit(jax.vmap(race))(word[:size], p[:size], *(limit[:size] for limit in limits)))
    assert np.array_equal(whole[:, :size], part)
    assert (whole.sum(0) <= LONGEST_RACE).all()


@pytest.mark.parametrize(("p", "successes", "trials"), [(0.6, 3, 9), (0.05, 2, 12), (0.9, 14, 16), (0.5, 5, 1)])
@pytest.mark.parametrize("proven", [0, 1])
def test_a_visit_ends_with_a_first_failure(p: float, successes: int, trials: int, proven: int) -> None:
    """Or goes on as a race without a limit of failures; the same law on tape."""
    after = law(p, successes - (1 - proven), 16, trials - (1 - proven)) if trials > 1 or proven else {(0, 0): 1.0}
    expected = after if proven else {(0, 1): 1 - p} | {(x + 1, y): p * mass for (x, y), mass in after.items()}
    lanes = jnp.arange(1 << 16)
    zeros, ones = jnp.zeros(lanes.shape, jnp.int32), jnp.ones(lanes.shape, jnp.int32)
    p_word = jnp.full(lanes.shape, np.uint32(p * 2**32))
    for draw in (visit_at, visit_on_tape):
        key = stream(7, lanes)
        limits = successes * ones, proven * ones, trials * ones
        drawn = draw(key, zeros, zeros, concealed(words(key, 0, 0)[0], p_word), *limits)
        won, lost = (np.asarray(x) for x in drawn)
        assert {(int(x), int(y)) for x, y in zip(won, lost, strict=True)} <= set(expected)
        for (x, y), mass in expected.items():
            share = np.mean((won == x) & (lost == y))
            assert abs(share - mass) < 5 * np.sqrt(mass * (1 - mass) / lanes.size) + 1e-5


@pytest.mark.parametrize("attempt", [0, 4])
def test_a_trial_at_an_address_is_the_tapes(attempt: int) -> None:
    lanes = jnp.arange(1 << 12)
    ones = jnp.ones(lanes.shape, jnp.int32)
    p, key = jnp.full(lanes.shape, np.uint32(0.3 * 2**32)), stream(5, lanes)
    address = key, 9 * ones, attempt * ones, concealed(words(key, 9, 0)[0], p)
    won, _ = race_on_tape(*address, ones, ones, ones)
    assert np.array_equal(won, trial_at(*address, ones))
    assert 0.25 < np.mean(np.asarray(won)) < 0.35
    assert not np.asarray(trial_at(*address, 0 * ones)).any()


def test_words_of_trials_and_races_are_all_different() -> None:
    """A trial's p, the trials and the races of an entity: none is drawn from a word of another."""
    key, attempts = stream(8, 9), jnp.arange(200)
    first, other = words(key, 3, 0)
    later, races = words(key, 3, attempts + 1)
    used = np.concatenate([np.stack([first, other]), later[1:], races])
    assert len(np.unique(used)) == used.size == 401
    half, one = jnp.full(200, np.uint32(1 << 31)), jnp.ones(200, jnp.int32)
    keys = stream(jnp.full(200, 8), jnp.full(200, 9))
    won, _ = race_on_tape(keys, 3 * one, attempts, concealed(jnp.full(200, first), half), one, one, one)
    assert np.array_equal(np.asarray(won), np.append(first, later[1:]) < (1 << 31) + 128)
