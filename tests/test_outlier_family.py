"""The outlier family from study file to rows: labels, generators and metrics against brute force, and each policy."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import pytest

from jaxbandit.arms.problem import Drawn, Given
from jaxbandit.laws import Uniform
from jaxbandit.outliers.definitions import outlier_groups
from jaxbandit.outliers.family import METRICS
from jaxbandit.outliers.truth import Arms, Definition, Judged, Labelled, Mixture, injected, source
from jaxbandit.random import stream
from jaxbandit.random.trials import UNITS

DEFINITION = Definition("k-sigma", 1.5, False, 2.5, 0.9, "at-least")


def draws(arms: Any, many: int) -> Arms:
    runs = np.arange(many, dtype=np.uint32)
    drawn: Arms = jax.jit(jax.vmap(lambda run: arms.draw(stream(3, run))))(runs)
    return Arms(*map(np.asarray, drawn))  # type: ignore[arg-type]


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("name", ["k-sigma", "robust"])
def test_drawn_arms_are_judged_as_the_definition_says(name: str, two_sided: bool) -> None:
    definition = Definition(name, 1.5, two_sided, 2.5, 0.9, "at-least")
    for n in (7, 8):
        judged = source(Drawn(Uniform().quantiles(), n), definition)
        assert isinstance(judged, Judged)
        drawn = draws(judged, 40)
        levels = [definition.levels(means.tolist()) for means in drawn.means]
        assert np.array_equal(drawn.levels, levels)
        assert 0 < drawn.levels.mean() < 0.5


def test_labels_go_with_their_arms() -> None:
    means = np.array([1, 2, 3, 4, 60, 5]) * (UNITS // 100)
    labelled = source(Given(jax.numpy.asarray(means, "int32")), DEFINITION)
    assert isinstance(labelled, Labelled)
    drawn = draws(labelled, 20)
    assert np.array_equal(drawn.levels == 1, drawn.means == means[4])
    assert len({tuple(row) for row in drawn.rows.tolist()}) > 10


def test_mixture() -> None:
    drawn = draws(source(Mixture.of(40, 3), DEFINITION), 200)
    high = drawn.means > 0.79 * UNITS
    assert (high.sum(axis=1) == 3).all()
    assert np.array_equal(drawn.levels == 1, high)
    low = drawn.means[~high] / UNITS
    assert low.mean() == pytest.approx(0.3, abs=0.004)
    assert low.std() == pytest.approx(0.075, abs=0.003)
    assert drawn.means[high].mean() / UNITS == pytest.approx(0.9, abs=0.01)
    shares = high.mean(axis=0)  # no arm's number tells: 3 in 40, with a standard deviation of 0.019
    assert 0.01 < shares.min() < shares.max() < 0.16


@pytest.mark.parametrize("side", ["upper", "intermediate", "lower"])
@pytest.mark.parametrize("eps", [0.1, 5.0])
def test_injected_groups_are_what_the_definition_finds(side: str, eps: float) -> None:
    n, outlying = 20, 2
    arms = injected(n, eps, outlying, side)
    drawn = draws(arms, 30)
    for means, levels in zip(drawn.means, drawn.levels, strict=True):
        (group,) = outlier_groups([float(mean) for mean in means], eps, 0.9, "at-least")
        assert group == frozenset(np.flatnonzero(levels))
        below = (means < means[levels == 1].min()).sum()
        assert below == {"upper": 18, "intermediate": 9, "lower": 0}[side]
        assert means.max() > UNITS - 4
    same = arms.case(5)
    assert np.array_equal(same.given.means, arms.case(5).given.means)
    assert not np.array_equal(same.given.means, arms.case(6).given.means)


def test_metrics_against_brute_force() -> None:
    """Hand-made answers, through ``Measured``."""
    import jax.numpy as jnp

    from jaxbandit.outliers.measured import SHARES, Measured, View

    rng = np.random.default_rng(0)

    class Told:
        def __init__(self, said: Any, pulls: Any, scores: Any) -> None:
            self.told = {"outliers": said, "arm_pulls": pulls, "pulls": jnp.sum(pulls), "code": jnp.int32(1)}
            if scores is not None:
                self.told["scores"] = scores

        def answer(self, view: Any, state: Any) -> Mapping[str, Any]:
            return self.told

    of = {metric.name: metric.of for metric in METRICS}
    for number in range(60):
        n = int(rng.integers(3, 9))
        levels = rng.integers(0, 3, n) * (rng.random(n) < 0.4)
        said = rng.random(n) < 0.4 if number % 3 else levels > 0
        pulls = rng.integers(1, 50, n)
        scores = rng.integers(0, 4, n) if number % 2 else None
        measured = Measured(Told(jnp.asarray(said), jnp.asarray(pulls, jnp.int32), scores))
        answers = measured.answer(View(jnp.int32(n), jnp.asarray(levels, jnp.int32)), None)
        value = {
            name: float(f(None, {k: np.asarray(v)[None] for k, v in answers.items()})[0]) for name, f in of.items()
        }
        truth, found = set(np.flatnonzero(levels)), set(np.flatnonzero(said))
        assert value["correct"] == (truth == found)
        assert value["precision"] == (len(truth & found) / len(found) if found else 1)
        assert value["recall"] == (len(truth & found) / len(truth) if truth else 1)
        assert value["f1"] == pytest.approx(2 * len(truth & found) / (len(truth) + len(found)) if truth or found else 1)
        place = scores if scores is not None else [i not in found for i in range(n)]
        ahead = all(place[i] < place[j] for i in range(n) for j in range(n) if levels[i] > levels[j])
        assert value["ranking"] == ahead
        assert value["outliers"] == len(truth)
        assert value["pulls"] == pulls.sum()
        for share in SHARES:
            enough = [x for x in sorted(pulls) if (pulls <= x).mean() >= share / 100]
            assert value[f"pulls_{share}"] == enough[0]
