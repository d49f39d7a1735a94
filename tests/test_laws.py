"""Laws of sc-probabilities against SciPy; the draws' law by evaluating the map of words, not by sampling alone."""

import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, special, stats

from jaxbandit import mixtures
from jaxbandit.errors import BadInput
from jaxbandit.laws import Beta, Histogram, Law, Mixture, Normal, Uniform, parse
from jaxbandit.mixtures import MAX_CONCENTRATION, fit, fit_beta
from jaxbandit.random.quantiles import Quantiles
from jaxbandit.random.stream import stream, words

Words = NDArray[np.uint32]
UNIT = 2.0**32
EDGE = np.geomspace(2.0**-32, 0.5, 400)
X = np.concatenate([[0.0], EDGE, 1 - EDGE[::-1], [1.0]])


def _normal(mean: float, variance: float) -> Any:
    sd = math.sqrt(variance)
    return stats.truncnorm(-mean / sd, (1 - mean) / sd, mean, sd)


def _histogram(*bars: float) -> Any:
    return stats.rv_histogram((np.array(bars), np.linspace(0, 1, len(bars) + 1)), density=True)


MIXED = Mixture((1, 3), (Beta(2, 9), Beta(20, 5)))
TWO = [stats.make_distribution(stats.beta)(a=law.alpha, b=law.beta) for law in MIXED.laws]


class _Two:
    """Scipy's mixture under the names of its other laws."""

    _law = stats.Mixture(TWO, weights=[0.25, 0.75])
    cdf, mean = staticmethod(_law.cdf), staticmethod(_law.mean)
    sf = staticmethod(_law.ccdf)


GAPS = 0.0, 1.0, 0.0, 0.0, 3.0, 0.0
LAWS: list[tuple[Law, Any]] = [
    (Uniform(), stats.uniform()),
    (Normal(variance=0.3), _normal(0.5, 0.3)),
    (Normal(0.9, variance=1e-3), _normal(0.9, 1e-3)),
    (Normal(-2, variance=0.05), _normal(-2, 0.05)),
    (Normal(variance=1e5), _normal(0.5, 1e5)),
    (Beta(2, 5), stats.beta(2, 5)),
    (Beta(0.1, 0.1), stats.beta(0.1, 0.1)),
    (Beta(10, 0.2), stats.beta(10, 0.2)),
    (Beta(1e4, 3e3), stats.beta(1e4, 3e3)),
    (MIXED, _Two()),
    (Histogram((1, 4, 2, 3)), _histogram(1, 4, 2, 3)),
    (Histogram(GAPS), _histogram(*GAPS)),
]
law_and_peer = pytest.mark.parametrize(("law", "peer"), LAWS, ids=[law.describe() for law, _ in LAWS])


@law_and_peer
def test_exact_law(law: Law, peer: Any) -> None:
    assert law.cdf(X) == pytest.approx(peer.cdf(X), rel=1e-9, abs=2e-12)
    assert law.survival(X) == pytest.approx(peer.sf(X), rel=1e-9, abs=2e-12)
    assert law.mean() == pytest.approx(peer.mean(), rel=1e-9)
    assert (law.cdf([0, 1]).tolist(), law.survival([0, 1]).tolist()) == ([0, 1], [1, 0])
    assert law.complement().complement().cdf(0.3) == pytest.approx(law.cdf(0.3), rel=1e-9)


def test_tails_keep_their_digits() -> None:
    for law in (Beta(3, 2), Beta(0.5, 7), Beta(20, 30)):
        peer = stats.beta(law.alpha, law.beta)
        assert law.cdf(EDGE) == pytest.approx(peer.cdf(EDGE), rel=1e-11, abs=0)
        assert law.survival(1 - EDGE) == pytest.approx(peer.sf(1 - EDGE), rel=1e-11, abs=0)
        tiny = law.complement().cdf(1e-100)  # 1 - 1e-100 is no float
        assert tiny == pytest.approx(stats.beta(law.beta, law.alpha).cdf(1e-100), rel=1e-11, abs=0)
    far = Normal(0.9, variance=1e-3).cdf(0.1)
    assert far == pytest.approx(stats.norm.cdf(0.1, 0.9, math.sqrt(1e-3)) / stats.norm.cdf(math.sqrt(10)), rel=1e-6)


@law_and_peer
@pytest.mark.parametrize("delta", [0.001, 0.03, 1 / 49, 0.4, 1.0])
def test_cells(law: Law, peer: Any, delta: float) -> None:
    cells = law.cells(delta)
    assert cells.shape == ({0.001: 1000, 0.03: 34, 1 / 49: 49, 0.4: 3, 1.0: 1}[delta],)
    assert cells.sum() == pytest.approx(1, abs=1e-14)
    assert cells == pytest.approx(np.diff(peer.cdf(np.linspace(0, 1, cells.size + 1))), abs=1e-11)


def test_cells_refuses() -> None:
    for delta in (0.0, 1.1, math.nan, 1e-9):
        with pytest.raises(BadInput, match=r"^delta = "):
            Uniform().cells(delta)


def _test_words() -> Words:
    rng = np.random.default_rng(0)
    near = [np.arange(2**10), rng.integers(0, 2**31, 2**16), 2 ** rng.uniform(0, 31, 2**15), 2**31 - 1 - np.arange(99)]
    lower = np.unique(np.concatenate([x.astype(np.int64) for x in near]))
    return np.concatenate([lower, 2**32 - 1 - lower[::-1]]).astype(np.uint32)


def _off(law: Law, word: Words, cdf: NDArray[Any]) -> float:
    """The largest distance from ``cdf`` to the law's CDF within 2^-32 of the cell of p that ``word`` stands for."""
    p = word.astype(np.float64)
    low, high = law.cdf(np.maximum(p - 1, 0) / UNIT), law.cdf(np.minimum(p + 2, UNIT) / UNIT)
    return float(np.maximum(low - cdf, cdf - high).max())


EXTREME = [Normal(variance=1e-20), Histogram((1e-6, 1, 1e-7)), Beta(1e5, 1e5), Beta(0.01, 0.02)]
DRAWN = [law for law, _ in LAWS] + EXTREME


@pytest.mark.parametrize("law", DRAWN, ids=lambda law: law.describe())
def test_law_of_the_draws(law: Law) -> None:
    word = _test_words()
    drawn = np.asarray(jax.jit(law.quantiles(table=True).draw)(word))
    assert drawn.dtype == np.uint32
    assert (drawn[1:] >= drawn[:-1]).all()
    assert _off(law, drawn, (word + 0.5) / UNIT) < (1e-5 if law == Beta(0.01, 0.02) else 6e-7)


@pytest.mark.parametrize(("bars", "most"), [(100, 1e-5), (1000, 1e-4)])
def test_law_of_a_ragged_histogram(bars: int, most: float) -> None:
    law = Histogram(tuple(np.random.default_rng(bars).random(bars)))
    word = _test_words()
    assert _off(law, np.asarray(law.quantiles().draw(jnp.asarray(word))), (word + 0.5) / UNIT) < most


@pytest.mark.parametrize("law", DRAWN, ids=lambda law: law.describe())
def test_upper_tail(law: Law) -> None:
    v = np.concatenate([np.geomspace(2.0**-33, 0.5, 3000), 1 - np.geomspace(2.0**-24, 0.5, 3000)[::-1]])
    v = v.astype(np.float32)
    drawn = np.asarray(law.quantiles().draw_upper(jnp.asarray(v)))
    assert (drawn[1:] <= drawn[:-1]).all()
    assert _off(law, drawn, 1 - v.astype(np.float64)) < (1e-5 if law == Beta(0.01, 0.02) else 6e-7)
    # Relative to v: from the other end, so that no digit of a small tail is lost.
    assert _off(law.complement(), ~drawn[:3000], v[:3000].astype(np.float64)) < 6e-7
    small = v[:3000] < 1e-3
    gap = (~drawn[:3000][small]).astype(np.float64)
    other, tail = law.complement(), v[:3000][small].astype(np.float64)
    assert (other.cdf(np.maximum(gap - 1, 0) / UNIT) <= tail * 1.002).all()
    assert (other.cdf(np.minimum(gap + 2, UNIT) / UNIT) >= tail * 0.998).all()


def test_uniform_words_are_themselves() -> None:
    word = jnp.asarray(_test_words())
    plain, table = Uniform().quantiles(), Uniform().quantiles(table=True)
    assert plain.identity
    assert np.size(plain.knots) == np.size(plain.guide) == 0
    assert (plain.draw(word) == word).all()
    near = np.minimum(np.asarray(word), ~np.asarray(word)).astype(np.float64)
    assert (np.abs(np.asarray(table.draw(word)) - np.asarray(word).astype(np.float64)) <= near * 2.0**-22 + 1).all()


def test_no_draw_falls_into_a_gap() -> None:
    p = np.asarray(Histogram(GAPS).quantiles().draw(jnp.asarray(_test_words()))) / UNIT
    inside = ((p >= 1 / 6) & (p < 2 / 6)) | ((p >= 4 / 6) & (p < 5 / 6))
    assert (~inside).mean() < 1e-4


def test_tables_stack_and_vmap() -> None:
    laws = [Uniform().quantiles(table=True), Beta(2, 5).quantiles(), Histogram(GAPS).quantiles()]
    stacked: Quantiles = jax.tree.map(lambda *leaves: np.stack(leaves), *laws)
    word = jnp.asarray(_test_words()[::50])
    got = jax.jit(jax.vmap(lambda law, w: jax.vmap(law.draw)(w), in_axes=(0, None)))(stacked, word)
    for law, row in zip(laws, got, strict=True):
        assert (law.draw(word) == row).all()


@law_and_peer
def test_samples_against_scipy(law: Law, peer: Any) -> None:
    n, bins = 100_000, 50
    drawn = np.asarray(law.quantiles().draw(words(stream(7, 0), 1, jnp.arange(n))[0])) / UNIT
    edges = np.linspace(0, 1, 201)
    expected = np.diff(peer.cdf(edges)) * n
    # Neighbouring cells together, until each group expects enough for the test.
    group = np.minimum((expected.cumsum() / n * bins).astype(int), bins - 1)
    want = np.bincount(group, expected, bins)
    have = np.bincount(group, np.histogram(drawn, edges)[0], bins)
    some = want > 0
    assert have[~some].sum() == 0
    assert stats.chisquare(have[some], want[some] * n / want[some].sum()).pvalue > 1e-3


@pytest.mark.parametrize(
    ("spec", "law", "name"),
    [
        ("uniform", Uniform(), "uniform"),
        ({"normal": {"mean": 0.5, "variance": 0.3}}, Normal(0.5, variance=0.3), "normal(0.5, 0.3)"),
        ({"normal": {"variance": 1}}, Normal(variance=1.0), "normal(0.5, 1)"),
        ({"beta": [2, 5]}, Beta(2, 5), "beta(2, 5)"),
        ({"beta": {"alpha": 0.5, "beta": 5.25}}, Beta(0.5, 5.25), "beta(0.5, 5.25)"),
        (
            {"mixture": [{"weight": 2, "beta": [2, 9]}, {"weight": 6, "beta": {"alpha": 20, "beta": 5}}]},
            MIXED,
            "0.25 beta(2, 9) + 0.75 beta(20, 5)",
        ),
        ({"histogram": [1, 0, 2.5, 0]}, Histogram((1, 0, 2.5, 0)), "histogram(4 bars)"),
    ],
)
def test_parse(spec: Any, law: Law, name: str) -> None:
    assert parse("sc_pdf", spec) == law
    assert hash(parse("sc_pdf", spec)) == hash(law)
    assert law.describe() == name


def test_a_mixture_of_lists() -> None:
    law = Mixture([1, 3], [Beta(2, 9), Beta(20, 5)])  # type: ignore[arg-type]
    assert law == MIXED
    assert law.quantiles() is MIXED.quantiles()


def test_the_range_of_a_mean_is_said_and_is_right() -> None:
    for variance in (1e-6, 0.1, 1e6):
        for mean in (1e300, -1e300, math.inf, -math.inf):
            with pytest.raises(BadInput, match=r"normal.mean = .*: a number from about .* to about ") as error:
                Normal(mean, variance=variance)
            low, high = map(float, re.findall(r"about (\S+?),? ", error.value.allowed))
            assert Normal(0.5 + 0.99 * (low - 0.5), variance=variance).mean() < 0.5
            assert Normal(0.5 + 0.99 * (high - 0.5), variance=variance).mean() > 0.5
        with pytest.raises(BadInput, match="to about"):
            Normal(0.5 + 1.02 * (high - 0.5), variance=variance)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"normal": {"variance": 0}}, "normal.variance"),
        ({"normal": {"variance": math.nan}}, "normal.variance"),
        ({"normal": {"mean": math.inf, "variance": 1}}, "normal.mean"),
        ({"normal": {"mean": -9, "variance": 0.01}}, "normal.mean"),
        ({"normal": {"mean": 10**400, "variance": 0.01}}, "normal.mean"),
        ({"beta": [0, 1]}, "beta.alpha"),
        ({"beta": [1, -1]}, "beta.beta"),
        ({"beta": [1, math.nan]}, "beta.beta"),
        ({"beta": [True, 1]}, "beta.alpha"),
        ({"beta": ["2", 1]}, "beta.alpha"),
        ({"histogram": [1, 1, -1]}, "histogram bar 3"),
        ({"histogram": [1, math.nan]}, "histogram bar 2"),
        ({"histogram": [10**400]}, "histogram bar 1"),
        ({"histogram": []}, "histogram"),
        ({"histogram": [0, 0.0]}, "histogram"),
        ({"histogram": 3}, "sc_pdf"),
        ({"mixture": []}, "mixture"),
        ({"mixture": [{"beta": [1, 2]}]}, "mixture[0]"),
        ({"mixture": [{"weight": 0, "beta": [1, 2]}]}, "mixture weight 1"),
        ({"mixture": [{"weight": 1, "beta": [1, 2, 3]}]}, "mixture[0].beta"),
        ({"mixture": [{"weight": 1, "beta": [1, -2]}]}, "mixture[0].beta.beta"),
        ({"beta": [1, 2, 3]}, "sc_pdf"),
        ({"beta": [1, 2], "normal": {"variance": 1}}, "sc_pdf"),
        ({"beta": {"alpha": 1, "beta": 2, "gamma": 3}}, "sc_pdf"),
        ({"normal": {"variance": 1, "sd": 1}}, "sc_pdf"),
        ({"normal": {"mean": 1}}, "sc_pdf"),
        ("Uniform", "sc_pdf"),
        (None, "sc_pdf"),
        ([], "sc_pdf"),
    ],
)
def test_parse_refuses(spec: Any, field: str) -> None:
    with pytest.raises(BadInput) as error:
        parse("sc_pdf", spec)
    assert error.value.field == (field if field == "sc_pdf" else f"sc_pdf.{field}")
    assert "\n" not in str(error.value)
    if field == "histogram":
        assert "does not integrate" in str(error.value)


def _likelihood(law: Beta, s: NDArray[np.int64], n: NDArray[np.int64]) -> float:
    return float((special.betaln(s + law.alpha, n - s + law.beta) - special.betaln(law.alpha, law.beta)).sum())


@pytest.mark.parametrize(("alpha", "beta", "size"), [(2.0, 5.0, 4000), (0.3, 0.2, 3000), (60.0, 20.0, 4000)])
def test_fit_recovers_the_law(alpha: float, beta: float, size: int) -> None:
    rng = np.random.default_rng(5)
    n = rng.integers(0, 60, size)
    s = rng.binomial(n, rng.beta(alpha, beta, size))
    law = fit_beta(s, n)
    assert (law.alpha, law.beta) == pytest.approx((alpha, beta), rel=0.15)
    digamma, total = special.digamma, law.alpha + law.beta
    common = digamma(total) - digamma(n + total)
    slopes = [
        law.alpha * (digamma(s + law.alpha) - digamma(law.alpha) + common).mean(),
        law.beta * (digamma(n - s + law.beta) - digamma(law.beta) + common).mean(),
    ]
    assert slopes == pytest.approx([0, 0], abs=1e-7)
    best = optimize.minimize(lambda x: -_likelihood(Beta(*np.exp(x)), s, n), [0.0, 0.0], method="Nelder-Mead")
    assert _likelihood(law, s, n) >= -best.fun - 1e-6


def test_fit_at_its_bounds() -> None:
    even = fit_beta([30] * 50, [100] * 50)  # no scatter at all
    assert even.alpha + even.beta == pytest.approx(MAX_CONCENTRATION, rel=0.01)
    assert even.mean() == pytest.approx(0.3, rel=1e-3)
    all_or_none = fit_beta([9, 0, 9, 0], [9, 9, 9, 9])
    assert all_or_none.alpha + all_or_none.beta == pytest.approx(0.01, rel=0.01)
    assert fit_beta([1, 0, 0, 0], [1, 1, 1, 1]).mean() == pytest.approx(0.25, rel=1e-6)
    assert fit_beta([1, 2.0, 0], [3, 4, 0]) == fit_beta([1, 2], [3, 4])  # no attempts, no record


def _mixed(rng: np.random.Generator, law: Mixture, n: NDArray[np.int64]) -> NDArray[np.int64]:
    of = rng.choice(len(law.laws), n.size, p=law.weights)
    alpha, beta = (np.array([getattr(part, name) for part in law.laws])[of] for name in ("alpha", "beta"))
    return np.asarray(rng.binomial(n, rng.beta(alpha, beta)))


@pytest.mark.slow
def test_a_mixture_is_fitted_with_errors_that_hold() -> None:
    """Two kinds of entities: as many components are found, none below the likelihood of another optimizer, and the
    parameters are as far from the true ones as their standard errors have it."""
    rng, truth = np.random.default_rng(3), np.array([[0.25, 2, 9], [0.75, 20, 5]])
    away = []
    for _ in range(12):
        n = rng.integers(5, 40, 1_500)
        s = _mixed(rng, MIXED, n)
        found = fit(s, n, 2)
        away.append((np.array(found.components) - truth) / np.array(found.errors))
    away_ = np.array(away)
    # 12 x 5 free parameters: a standard deviation of 1, within a fifth or so.
    assert 0.75 < float(np.sqrt(np.square(away_).mean())) < 1.3
    assert np.abs(away_).max() < 4

    def loss(x: NDArray[np.float64]) -> float:
        w = special.expit(x[0])
        parts = [special.betaln(s + a, n - s + b) - special.betaln(a, b) for a, b in np.exp(x[1:]).reshape(2, 2)]
        return -float(np.logaddexp(np.log(w) + parts[0], np.log1p(-w) + parts[1]).sum())

    other = optimize.minimize(loss, [-1.0, 0.5, 2.0, 3.0, 1.5], method="Nelder-Mead", options={"maxiter": 4_000})
    assert found.log_likelihood >= -other.fun - 1e-4
    assert found.log_likelihood == pytest.approx(-other.fun, abs=0.05)
    assert found.check > 0.02
    own = fit(s, n)
    assert len(own.components) == 2
    assert own.bic == pytest.approx(5 * math.log(n.size) - 2 * own.log_likelihood)
    poor = fit(s, n, 1)
    assert poor.bic > own.bic + 100
    assert poor.check == 0.001


def test_the_check_is_right_as_often_as_it_says() -> None:
    """Records of the law itself are seldom called poor."""
    rng, checks = np.random.default_rng(8), []
    for _ in range(30):
        n = rng.integers(1, 12, 300)
        checks.append(fit(rng.binomial(n, rng.beta(2, 5, n.size)), n, 1).check)
    assert sum(check < 0.05 for check in checks) <= 4
    assert sum(check > 0.3 for check in checks) >= 10


def test_the_check_has_no_table_as_long_as_the_longest_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at some of the attempts, which have the same law: right laws pass, wrong ones do not."""
    longest, original = [], mixtures._cumulative
    monkeypatch.setattr(mixtures, "_cumulative", lambda *given: longest.append(given[1]) or original(*given))
    rng = np.random.default_rng(9)
    for most in (mixtures._MOST_CHECKED + 1, 2_000_000, 2**31 - 1):
        n = np.where(rng.uniform(size=300) < 0.1, 5, most)
        p = rng.beta(2, 5, n.size)
        assert fit(rng.binomial(n, p), n, 1).check > 0.02
        assert fit(rng.binomial(n, np.where(p < 0.3, 0.1, 0.9)), n, 1).check == 0.001
    assert max(longest) == mixtures._MOST_CHECKED


def test_components_that_nothing_tells_apart() -> None:
    """No error is given where the likelihood is flat, and one law is enough."""
    rng = np.random.default_rng(1)
    n = np.full(400, 10)
    s = rng.binomial(n, rng.beta(2, 5, n.size))
    assert isinstance(fit(s, n).law, Beta)
    two = fit(s, n, 2)
    assert two.log_likelihood >= fit(s, n, 1).log_likelihood - 1e-6
    for components in (0, 7, True, 1.5, 2.0):
        with pytest.raises(BadInput, match=r"^components = .*: a whole number from 1 to 6$"):
            fit(s, n, components)  # type: ignore[arg-type]


def test_no_more_components_than_records_can_determine() -> None:
    assert len(fit([8], [25]).components) == 1
    assert len(fit([0, 9, 0, 9], [9, 9, 9, 9]).components) == 1  # two have five parameters


@pytest.mark.parametrize(
    ("successes", "attempts", "message"),
    [
        ([1, 5], [2, 4], r"successes\[1\] = 5: at most the 4 attempts"),
        ([1, -1], [2, 4], r"successes\[1\] = -1: a whole number"),
        ([1, math.nan], [2, 4], r"successes\[1\] = nan: a whole number"),
        ([1, 1], [2, 2.5], r"attempts\[1\] = 2.5: a whole number"),
        (["1"], [2], "successes = .*: a list of whole numbers"),
        ([1], [2, 3], r"successes = shape \(1,\)"),
        ([], [], "attempts = none above 0"),
        ([0, 0], [0, 0], "attempts = none above 0"),
        ([0, 0], [5, 3], "successes = 0 of 8: at least one success and one failure"),
        ([5, 3], [5, 3], "successes = 8 of 8: at least one success and one failure"),
    ],
)
def test_fit_refuses(successes: Any, attempts: Any, message: str) -> None:
    with pytest.raises(BadInput, match=f"^{message}") as error:
        fit_beta(successes, attempts)
    assert "\n" not in str(error.value)
