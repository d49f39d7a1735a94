"""The words, the laws of the samplers, and that the bits of a draw depend on its address alone."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import stats

from jaxbandit import random
from jaxbandit.errors import BadInput
from jaxbandit.random import Stream, stream, words

N = 150_000
LEAST_P = 1e-6  # of a chi-square test: seeds are fixed, so a test that passes once always does
KEY = stream(20, 26)
INT_MAX = 2**31 - 1


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        yield


def test_block_is_the_threefry_of_jax() -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        key, counter = rng.integers(0, 2**32, 2, np.uint32), rng.integers(0, 2**32, (2, 500), np.uint32)
        expected = np.asarray(threefry_2x32(key, counter.ravel())).reshape(2, -1)
        assert (np.stack(random.block(Stream(*jnp.asarray(key)), *counter)) == expected).all()


def test_words_of_a_substream_are_those_of_its_key_alone() -> None:
    high, low = random.block(KEY, np.uint32(3 + 2**31), 4)
    assert random.substream(KEY, 3, 4) == (high, low)
    assert words(Stream(high, low), 1, 2) == random.block(Stream(high, low), 1, 2)


@pytest.mark.parametrize("number", [2**32, -1, 1.9, 1.0, True, np.int64(-1), np.float32(2), 10**30, "7"])
def test_a_stream_has_numbers_of_32_bits(number: Any) -> None:
    for name, given in (("seed", (number, 0)), ("run", (0, number))):
        with pytest.raises(BadInput, match=rf"^{name} = .*: a whole number from 0 to 4294967295$"):
            stream(*given)


def test_streams_of_arrays_and_tracers_are_as_they_are() -> None:
    largest = stream(2**32 - 1, np.uint64(2**32 - 1))
    assert largest == stream(np.array(-1), jnp.int32(-1)) == jax.jit(stream)(jnp.int32(-1), jnp.uint32(2**32 - 1))


def first_words(n: int = N) -> jax.Array:
    return words(KEY, 1, jnp.arange(n))[0]


def assert_law(sample: jax.Array, law: Any) -> None:
    """Chi-square over about 100 intervals of equal probability; intervals to expect less than 20 in are joined."""
    x = np.asarray(sample).ravel()
    cuts = np.unique(law.ppf(np.linspace(0, 1, 101)[1:-1]))
    probability = np.diff(np.concatenate([[0], law.cdf(cuts), [1]]))
    seen = np.bincount(np.searchsorted(cuts, x), minlength=len(probability))
    groups = np.minimum((probability.cumsum() * len(x) // 20).astype(int), int(len(x) // 20) - 1)
    _, groups = np.unique(groups, return_inverse=True)
    expected, seen = np.bincount(groups, probability) * len(x), np.bincount(groups, seen)
    assert abs(x.mean() - law.mean()) < 6 * law.std() / np.sqrt(len(x)) + 1e-30 or not np.isfinite(law.std())
    if len(seen) > 1:
        assert stats.chisquare(seen, expected * (seen.sum() / expected.sum())).pvalue > LEAST_P


def test_uniform_is_inside_the_unit_interval_on_its_grid() -> None:
    ends = np.asarray(random.uniform(jnp.array([0, 511, 512, 2**32 - 1], jnp.uint32)), np.float64) * 2**23
    assert (ends == [0.5, 0.5, 1.5, 2**23 - 0.5]).all()
    assert_law(random.uniform(first_words()), stats.uniform())


def test_bernoulli_compares_exactly() -> None:
    word = jnp.array([0, 2**31 - 1, 2**31, 2**32 - 1], jnp.uint32)
    for p, expected in ((0.0, 0), (-1.0, 0), (0.5, 2), (2.0**-32, 1), (1 - 2.0**-24, 3), (1.0, 4), (7.0, 4)):
        assert random.bernoulli(word, p).sum() == expected
    assert random.bernoulli(word, jnp.uint32(2**31)).sum() == 2
    assert random.bernoulli(word, jnp.uint32(0)).sum() == 0


def test_wide_product_is_the_64_bit_product() -> None:
    rng = np.random.default_rng(1)
    a, b = (np.append(rng.integers(0, 2**32, 999, np.uint32), np.uint32(2**32 - 1)) for _ in range(2))
    high, low = random.draws.wide_product(jnp.asarray(a), jnp.asarray(b))
    product = a.astype(np.uint64) * b
    assert (np.asarray(high) == product >> np.uint64(32)).all()
    assert (np.asarray(low) == product.astype(np.uint32)).all()


@pytest.mark.parametrize("bound", [1, 2, 3, 1000, 2**30 + 1, 2**31 - 1, 3 * 2**30, 2**32 - 1])
def test_integers_are_uniform(bound: int) -> None:
    limit = jnp.uint32(bound) if bound > INT_MAX else jnp.int32(bound)
    x = np.asarray(jax.jit(random.integers)(KEY, 2, jnp.arange(N), limit))
    assert x.dtype == limit.dtype
    assert x.max() < bound
    parts = min(bound, 999)
    part = x.astype(np.int64) * parts // bound
    sizes = np.diff(-(-np.arange(parts + 1) * bound // parts))
    assert parts == 1 or stats.chisquare(np.bincount(part, minlength=parts), N * sizes / bound).pvalue > LEAST_P


def test_integers_reject_what_makes_the_bias() -> None:
    """With a bound of 3 x 2^30 a plain multiplication gives a third of the values twice the others' probability."""
    bound = jnp.uint32(3 * 2**30)
    plain, exact = random.scale(first_words(), bound), random.integers(KEY, 1, jnp.arange(N), bound)
    by_residue = [np.bincount(np.asarray(x) % 3, minlength=3) for x in (plain, exact)]
    assert stats.chisquare(by_residue[0]).pvalue < 1e-30
    assert stats.chisquare(by_residue[1]).pvalue > LEAST_P
    changed = np.asarray(plain != exact).mean()
    assert abs(changed - 0.25) < 0.01


def test_exponential_is_precise_in_both_tails() -> None:
    word = np.concatenate([np.arange(40), np.geomspace(1, 2**32 - 1, 5000), 2**32 - 1 - np.geomspace(1, 2**31, 5000)])
    word = np.append(word, 2.0**32 - 1).astype(np.uint32)
    x = np.asarray(random.exponential(jnp.asarray(word)), np.float64)
    v = (word + 0.5) / 2**32
    expected = np.where(v < 0.5, -np.log1p(-v), -np.log((~word + 0.5) / 2**32))
    assert np.abs(x / expected - 1).max() < 2.5e-7
    assert_law(random.exponential(first_words()), stats.expon())


@pytest.mark.parametrize("p", [1e-6, 0.01, 0.3, 0.9, 0.9999])
def test_geometric_law(p: float) -> None:
    assert_law(random.geometric(first_words(), p), stats.geom(float(np.float32(p)), loc=-1))


def test_geometric_at_the_ends() -> None:
    assert (random.geometric(first_words(9), 0.0) == INT_MAX).all()
    assert (random.geometric(first_words(9), 1.0) == 0).all()
    assert random.geometric(jnp.uint32(2**32 - 1), 1e-9) == INT_MAX


BINOMIALS = [
    *itertools.product([1, 2, 16, 20, 1000, 10**6, 10**9, INT_MAX], [0.01, 0.3, 0.5, 0.99]),
    *[(1000, 1e-3), (10**6, 1e-5), (10**6, 1.3e-5), (10**9, 1e-9), (10**9, 2e-8), (INT_MAX, 1e-6), (INT_MAX, 0.9999)],
]


@jax.jit
def draw_binomial(n: Any, p: Any) -> jax.Array:
    return random.binomial(KEY, 3, jnp.arange(N), n, p)


@pytest.mark.parametrize(("n", "p"), BINOMIALS)
def test_binomial_law(n: int, p: float) -> None:
    x = draw_binomial(np.full(N, n, np.int32), np.full(N, p, np.float32))
    assert (x >= 0).all()
    assert (x <= n).all()
    assert_law(x, stats.binom(n, float(np.float32(p))))


def test_binomial_at_the_ends() -> None:
    n = np.resize(np.array([-3, 0, 1, 16, 1000, 10**9, INT_MAX], np.int32), N)
    p = np.resize(np.array([0.0, 1e-30, 1.0, -1.0, 7.0], np.float32), N)
    x = draw_binomial(n, p)
    assert x.dtype == jnp.int32
    assert (x == np.where(p >= 1, np.maximum(n, 0), 0)).all()


def test_binomial_of_any_small_mean_and_of_the_next_has_no_outlier() -> None:
    """The two methods meet at a mean of 10; what rounding leaves over must not land in a tail."""
    p = jnp.linspace(1e-4, 14e-3, N, dtype=jnp.float32)
    x = np.asarray(draw_binomial(np.full(N, 1000, np.int32), p))
    quantile = stats.binom(1000, np.asarray(p, np.float64)).cdf(x - 1)
    assert quantile.max() < 1 - 1e-8
    z = (x - 1000 * np.asarray(p, np.float64)) / np.sqrt(1000 * np.asarray(p) * (1 - np.asarray(p)))
    assert np.abs(z.reshape(20, -1).mean(1)).max() < 5 / np.sqrt(N / 20)


def test_acceptance_weight_is_the_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out to 5 standard deviations, up to the constant: this finds errors that no sample of a test can."""

    @jax.jit
    def weigh(n: Any, p: Any, offset: jax.Array) -> jax.Array:
        caught: list[Any] = []

        def spy(key: Stream, todo: jax.Array, *others: Any) -> jax.Array:
            caught.append(others[-1])
            return jnp.zeros(todo.shape, jnp.int32)

        monkeypatch.setattr(random.counts, "_rejected", spy)
        random.binomial(KEY, 0, 0, n, p)
        weight: jax.Array = caught[0](offset)
        return weight

    for n, nominal in ((40, 0.5), (10**6, 1.2e-5), (10**6, 0.3), (10**9, 0.5), (INT_MAX, 2e-6)):
        p = float(np.float32(nominal))
        whole = int((n + 1) * int(p * 2**60)) >> 60
        offset = np.clip(np.rint(np.linspace(-5, 5, 2001) * np.sqrt(n * p * (1 - p))), -whole, n - whole)
        ratio = np.asarray(weigh(n, p, offset.astype(np.int32))) / np.exp(stats.binom(n, p).logpmf(whole + offset))
        assert np.abs(ratio / np.median(ratio) - 1).max() < 2e-5


@jax.jit
def draw_negative_binomial(successes: Any, p: Any) -> jax.Array:
    return random.negative_binomial(KEY, 5, jnp.arange(N), successes, p)


@pytest.mark.parametrize("successes", [1, 2, 30, 1000])
@pytest.mark.parametrize("p", [1e-4, 0.3, 0.9])
def test_negative_binomial_law(successes: int, p: float) -> None:
    x = draw_negative_binomial(successes, p)
    assert_law(x, stats.nbinom(successes, float(np.float32(p))))


def test_negative_binomial_at_the_ends() -> None:
    for r in (-1, 0, 1, 50, INT_MAX):
        assert (draw_negative_binomial(r, 1.0) == 0).all()
        assert (draw_negative_binomial(r, 0.0) == (INT_MAX if r > 0 else 0)).all()
    assert (draw_negative_binomial(INT_MAX, 1e-3) == INT_MAX).all()


def test_categorical_law() -> None:
    weights = np.array([0, 3, 0, 1, 2, 1e-3, 0])
    table = random.thresholds(weights)
    seen = np.bincount(random.categorical(first_words(), table), minlength=7)
    assert (seen[weights == 0] == 0).all()
    positive = weights > 0
    assert stats.chisquare(seen[positive], N * weights[positive] / weights.sum()).pvalue > LEAST_P


@pytest.mark.parametrize("categories", [33, 34, 65, 1_000])
def test_one_of_many_categories(categories: int) -> None:
    """It is found by bisection: with weights of 0, equal thresholds and words at the thresholds."""
    rng = np.random.default_rng(categories)
    table = random.thresholds(rng.random(categories) * (rng.random(categories) < 0.7))
    near = table.astype(np.int64)[:, None] + [-1, 0, 1]
    edges = jnp.asarray(np.clip(near, 0, 2**32 - 1).ravel(), jnp.uint32)
    word = jnp.concatenate([edges, jnp.array([0, 2**32 - 1], jnp.uint32), first_words(4_000)])
    expected = np.searchsorted(table, np.minimum(word, 2**32 - 2), side="right")
    assert np.array_equal(random.categorical(word, table), expected)
    assert int(random.categorical(word[7], table)) == expected[7]
    assert np.array_equal(random.categorical(word, table[None]), expected)


def test_thresholds_round_and_keep_zeros_out() -> None:
    rng = np.random.default_rng(2)
    weights = rng.random((200, 6)) * (rng.random((200, 6)) < 0.6)
    weights[:, 3] += 1e-12
    weights[0] = [1, 0, 1e-13, 0, 0, 1e-13]
    table = random.thresholds(weights)
    assert table.dtype == np.uint32
    assert table.shape == (200, 5)
    # What ``categorical`` gives a category: the words up to its threshold, where the last two words are one.
    tops = np.where(table == 2**32 - 1, 2**32, table.astype(np.int64))
    share = np.diff(tops, prepend=0, append=2**32, axis=1)
    assert np.abs(share / 2**32 - weights / weights.sum(1, keepdims=True)).max() <= 1.5 * 2**-32
    assert (share[weights == 0] == 0).all()
    ends = jnp.broadcast_to(jnp.array([0, 2**32 - 1], jnp.uint32), (200, 2)).T
    drawn = np.asarray(jax.vmap(random.categorical, (0, None))(ends, table))
    assert (np.take_along_axis(share, drawn.T, 1) > 0).all()
    assert (random.categorical(first_words(9), random.thresholds(np.array([5.0]))) == 0).all()


def test_thresholds_of_weights_whose_sum_is_no_float() -> None:
    third = 2**32 / 3
    rows = np.array([[1e308, 1e308, 1e308], [0.0, 1.7e308, 1.7e308], [0.1, 0.2, 0.3], [1e308, 0.0, 5e-324]])
    table = random.thresholds(rows)
    assert table[:2].tolist() == [[round(third), round(2 * third)], [0, 2**31]]
    assert (table[2:] == random.thresholds(rows[2:])).all()


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [1.0, -1.0], [np.nan, 1.0], [[1.0, 2.0], [0.0, 0.0]]])
def test_thresholds_refuse(weights: list[Any]) -> None:
    with pytest.raises(BadInput, match="weights"):
        random.thresholds(np.array(weights))


@jax.jit
def places(size: Any) -> jax.Array:
    return random.position(KEY, 6, jnp.arange(5000, dtype=jnp.uint32), size)


@pytest.mark.parametrize("size", [*range(1, 35), 63, 64, 65, 1000, 1023, 1024, 1025, 4095, 4096, 4097])
def test_position_is_a_bijection(size: int) -> None:
    assert (np.sort(places(size)[:size]) == np.arange(size)).all()


@pytest.mark.parametrize("size", [1, 2, 7, 33, 1000])
def test_permuted_is_every_position(size: int) -> None:
    assert (random.permuted(KEY, 6, size) == random.position(KEY, 6, jnp.arange(size), size)).all()


def test_position_of_the_largest_size() -> None:
    index = jnp.concatenate([jnp.arange(50_000), INT_MAX - 1 - jnp.arange(50_000)])
    x = np.asarray(jax.jit(random.position)(KEY, 6, index, INT_MAX))
    assert len(np.unique(x)) == 100_000
    assert x.min() >= 0
    assert stats.kstest(x / INT_MAX, "uniform").pvalue > LEAST_P


@jax.jit
def keyed(entries: jax.Array, size: Any) -> jax.Array:
    """(keys, entries): the same entries of the permutations of many keys."""
    return random.position(stream(7, jnp.arange(N)[:, None]), 8, entries[None, :], size)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_every_permutation_is_as_likely(size: int) -> None:
    base, entries = size ** np.arange(size), np.minimum(np.arange(5), size - 1)
    codes = np.sort(np.array(list(itertools.permutations(range(size)))) @ base)
    seen = np.bincount(np.searchsorted(codes, np.asarray(keyed(entries, size))[:, :size] @ base), minlength=len(codes))
    assert stats.chisquare(seen).pvalue > LEAST_P


@pytest.mark.parametrize("size", [7, 8, 12, 32, 100, 1000])
def test_places_and_pairs_of_places_are_uniform(size: int) -> None:
    x = np.asarray(keyed(np.array([0, 1, size // 2, size - 1, 0]), size))[:, :4].astype(np.int64)
    for column in x.T:
        assert stats.chisquare(np.bincount(column, minlength=size)).pvalue > LEAST_P
    for i, j in itertools.combinations(range(4), 2):
        assert stats.chisquare(np.bincount((x[:, i] - x[:, j]) % size, minlength=size)[1:]).pvalue > LEAST_P
        if size <= 100:
            pair = np.bincount(x[:, i] * size + x[:, j], minlength=size**2).reshape(size, size)
            assert stats.chisquare(pair[~np.eye(size, dtype=bool)]).pvalue > LEAST_P


SAMPLERS: dict[str, Callable[[Stream, Any, Any, Any], jax.Array]] = {
    "uniform": lambda key, i, n, p: random.uniform(words(key, 1, i)[0]),
    "bernoulli": lambda key, i, n, p: random.bernoulli(words(key, 1, i)[0], p),
    "integers": lambda key, i, n, p: random.integers(key, 1, i, n + 1),
    "exponential": lambda key, i, n, p: random.exponential(words(key, 1, i)[0]),
    "geometric": lambda key, i, n, p: random.geometric(words(key, 1, i)[0], p),
    "binomial": lambda key, i, n, p: random.binomial(key, 1, i, n, p),
    "negative_binomial": lambda key, i, n, p: random.negative_binomial(key, 1, i, n % 1000, p),
    "position": lambda key, i, n, p: random.position(key, 1, i, i + 1 + n // 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_bits_depend_on_the_address_alone(name: str) -> None:
    """Not on the batch, nor on a loop, a vmap, constants or products around the call."""
    draw, lanes = SAMPLERS[name], 4096
    rng = np.random.default_rng(3)
    n = jnp.asarray(np.where(rng.random(lanes) < 0.5, rng.integers(0, 60, lanes), rng.integers(0, 2**31 - 2, lanes)))
    n, index = n.astype(jnp.int32), jnp.arange(lanes)
    root = jnp.asarray(rng.random(lanes), jnp.float32)
    key, p = stream(9, index), root * root
    reference = np.asarray(jax.jit(draw)(key, index, n, p))

    part = [jax.tree.map(lambda a: a[-1000:], a) for a in (key, index, n, p)]
    assert (np.asarray(jax.jit(draw)(*part)) == reference[-1000:]).all()

    @jax.jit
    def looped(first: Any) -> jax.Array:
        """Lanes by sevens, each lane with scalars of its own, and p a product."""

        def body(state: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
            turn, drawn = state
            lane = first + 7 * turn + jnp.arange(7)
            x = jax.vmap(lambda j: draw(stream(9, j), j, n[j], root[j] * root[j]))(lane)
            return turn + 1, drawn.at[turn].set(x)

        start = (jnp.int32(0), jnp.zeros((300, 7), reference.dtype))
        return jax.lax.while_loop(lambda state: state[0] < 300, body, start)[1].ravel()

    assert (np.asarray(looped(1000)) == reference[1000:3100]).all()

    number, chance = int(n[-1]), float(p[-1])
    assert jax.jit(lambda: draw(stream(9, lanes - 1), lanes - 1, number, chance))() == reference[-1]


def test_bits_do_not_depend_on_x64() -> None:
    def draw(index: jax.Array) -> list[jax.Array]:
        table = random.thresholds(np.arange(5))
        drawn = [SAMPLERS[name](stream(1, 2), index, 10**6, 0.25) for name in ("integers", "position")]
        word = words(KEY, 1, index)[0]
        return [*drawn, random.categorical(word, table), random.scale(word, 77), random.bernoulli(word, 0.3)]

    index = np.arange(300, dtype=np.int32)
    n, p = np.resize(np.array([9, 10**3, 10**9], np.int32), N), np.resize(np.array([0.1, 0.4], np.float32), N)
    off = [*jax.jit(draw)(index), draw_binomial(n, p)]
    with jax.enable_x64(True):
        on = [*jax.jit(draw)(index), draw_binomial(n, p)]
    for a, b in zip(off, on, strict=True):
        assert a.dtype == b.dtype
        assert (np.asarray(a) == np.asarray(b)).all()
