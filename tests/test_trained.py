"""Trained policies: scores and their files, the policies made of them, and training."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jaxbandit
from jaxbandit import BadInput, cleaning, cli, simulate, topk
from jaxbandit.cleaning.family import FAMILY as CLEANING
from jaxbandit.cleaning.family import Setting
from jaxbandit.cleaning.trained import _statistics as statistics
from jaxbandit.engine import Batch, count_programs
from jaxbandit.laws import Beta, Law, Uniform
from jaxbandit.scores import Score, size, value
from jaxbandit.study.folder import checksum
from jaxbandit.study.spec import Study
from jaxbandit.topk.family import FAMILY as TOPK

ARMS = {"kind": "topk/bernoulli", "n": 8, "K": 2, "budget": 200}
TABLE = {"statistics": ["late_doubt"], "generations": 4, "population": 8, "runs": 64}
STUDY = {"problem": ARMS, "policy": [{"kind": "uniform"}]}
CLEAN: dict[str, Any] = {"budget": 400, "entities": 60, "false_values": cleaning.uniform_false_values(0, 5)}


def drawn(family: Any, seed: int, hidden: int = 3) -> Score:
    names = tuple(family.trainable.statistics)
    weights = 0.3 * np.random.default_rng(seed).normal(size=size(len(names), hidden))
    weights[: len(names)] += [3 * weight for weight in family.trainable.statistics.values()]
    return Score(family.name, names, hidden, weights)


def rule(score: Score, law: Law) -> Any:
    return cleaning.trained(score, **CLEAN, sc_pdf=law)


def test_a_network_is_what_it_says() -> None:
    inner, outer, straight, x = np.random.default_rng(1).normal(size=(4, 3, 3))
    inner, bias, outer, straight = inner[:2], outer[0, :2], outer[1, :2], straight[0]
    weights = np.concatenate([straight, *[[*row, b, o] for row, b, o in zip(inner, bias, outer, strict=True)]])
    expected = x.T @ straight + np.tanh(x.T @ inner.T + bias) @ outer
    assert value(weights, 2, list(x), np.tanh) == pytest.approx(expected)


def test_cleaning_statistics() -> None:
    """Under a uniform sc-pdf the posterior is Beta(s + 1, f + 1), whose mean is the rate."""
    names = "mean", "deviation", "rate", "doubt", "left", "last", "failures", "plenty"
    cells = Uniform().cells(0.001).tobytes()
    found = dict(zip(names, statistics(names, cells, 5, 3.0), strict=True))
    assert set(names) == set(CLEANING.trainable.statistics)  # type: ignore[union-attr]
    s, f = np.arange(5)[:, None], np.arange(65)
    assert found["mean"] == pytest.approx((s + 1) / (s + f + 2), abs=1e-4)
    assert found["mean"] == pytest.approx(np.broadcast_to(found["rate"], (5, 65)), abs=1e-4)
    variance = (s + 1) * (f + 1) / ((s + f + 2) ** 2 * (s + f + 3))
    assert found["deviation"] == pytest.approx(np.sqrt(variance), abs=1e-4)
    assert found["last"][4, 2, 0] == 1 / 2
    assert found["left"][4, 2, 0] == pytest.approx(np.log(3) / 4)
    assert found["plenty"] == pytest.approx(np.log(3) / 4)


@pytest.mark.parametrize("seed", range(4))
def test_tables_are_what_the_rule_needs(seed: int) -> None:
    """Failures allowed do not fall with successes, with false values, or from level to level."""
    allowed = np.asarray(rule(drawn(CLEANING, seed), Beta(2, 3)).allowed)
    assert allowed.shape == (18, 6, 5)
    r, s = np.arange(6)[:, None], np.arange(5)
    assert (allowed[:, s >= r] == 0).all()
    assert (np.diff(allowed, axis=0) >= 0).all()
    assert (np.diff(allowed, axis=1) >= 0).all()
    assert all((np.diff(allowed[:, began, :began], axis=1) >= 0).all() for began in range(1, 6))
    assert (allowed[8, 1:, 0] >= 1).all()  # from the ninth level on, each fresh entity is worth a try
    assert len(np.unique(allowed[:, 5, 0])) > 3


@pytest.mark.slow
def test_cleaning_by_lists_equals_the_rule_and_shares_a_program() -> None:
    """Bit for bit, for several scores in one array and for each alone."""
    law = Beta(2, 3)
    problem = cleaning.synthetic(**CLEAN, sc_pdf=law)
    scores = [drawn(CLEANING, seed) for seed in (1, 2)]
    described = Setting(400, 60, CLEAN["false_values"], law)
    together = CLEANING.trainable.policies(described, scores)  # type: ignore[union-attr]
    assert count_programs([(problem, each) for each in together]) == 1
    quick = simulate(problem, list(together), runs=40, seed=3, progress=False)
    plain = simulate(problem, list(together), runs=40, seed=3, implementation="reference", progress=False)
    alone = simulate(problem, rule(scores[1], law), runs=40, seed=3, progress=False)
    for answer in quick:
        assert np.array_equal(quick[answer], plain[answer])
        assert np.array_equal(quick[answer][1], alone[answer][0])
    assert (quick["removed"][0] != quick["removed"][1]).any()


def test_topk_shares_follow_the_score_and_spend_the_budget() -> None:
    """With a score of nothing all arms get the same; with one of what is in doubt, arms far from the cut get less."""
    budgets = [5, 201, 2_400]
    problems = [setting(budget).problem() for budget in budgets]
    scores = [Score("topk", ("doubt",), 0, np.array([weight])) for weight in (0.0, 4.0)]
    flat, keen = TOPK.trainable.policies(setting(200), scores)  # type: ignore[union-attr]
    for rule in (flat, keen):
        answers = simulate(problems, rule, runs=20, progress=False)
        assert (answers["pulls"] == np.array(budgets)[:, None]).all()
        assert (answers["wanted"] == 2).all()
        few, many = answers["pulls_10"][:, :].min(axis=1), answers["pulls_90"].max(axis=1)
        if rule is flat:
            assert (few >= [0, 23, 297]).all()
            assert (many <= [2, 28, 303]).all()
        else:
            assert few[2] < 150


def setting(budget: int) -> Any:
    study = Study.of({"runs": 1, "problem": {**ARMS, "budget": budget}, "policy": [{"kind": "trained"}]})
    return study.configurations()[0].setting


@pytest.mark.parametrize("family", ["cleaning", "topk"])
def test_files_keep_scores(family: str, tmp_path: Path) -> None:
    module, found = getattr(jaxbandit, family), {"cleaning": CLEANING, "topk": TOPK}[family]
    score, path = drawn(found, 4), tmp_path / "score.json"
    score.save(path)
    again = module.load_score(path)
    assert np.array_equal(again.weights, score.weights)
    assert again.sha256 == score.sha256
    assert module.shipped_score().origin["generations"] > 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "path = nowhere.json: a file that can be read"),
        ("{", "it is no JSON"),
        ("[]", "a file that `jaxbandit train` wrote"),
        ({"version": 2}, "path.version = 2: 1, which this jaxbandit reads"),
        ({"family": "topk"}, "path.family = topk: a score of cleaning"),
        ({"statistics": ["luck"]}, "path.statistics = ['luck']: some of mean, deviation"),
        ({"statistics": [["mean"]]}, "path.statistics = [['mean']]: some of mean, deviation"),
        ({"origin": None}, "path.origin = None: a table of what it was trained on"),
        ({"kind": "network"}, "the file was changed"),
        ({"luck": 1}, "the file was changed"),
        ({"hidden": -1}, "path.hidden = -1: a whole number from 0 to 64"),
        ({"hidden": 2}, "path.weights = 2 of them: 10 numbers, for 2 statistics and hidden = 2"),
        ({"weights": [1.0, float("nan")]}, "path.weights = not finite: finite numbers"),
        ({"weights": [1.0, 3.0]}, "the file was changed"),
    ],
)
def test_bad_files(change: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("nowhere.json" if change is None else "score.json")
    if isinstance(change, str):
        path.write_text(change)
    elif change is not None:
        Score("cleaning", ("mean", "left"), 0, np.array([1.0, 2.0])).save(path)
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(BadInput) as error:
        cleaning.load_score(path)
    assert message in str(error.value)


def test_studies_know_scores_by_content(tmp_path: Path) -> None:
    def study() -> Study:
        table = {"kind": "trained", "path": "score.json"}
        return Study.of({"runs": 5, "problem": ARMS, "policy": [table]}, base=tmp_path)

    with pytest.raises(BadInput, match=r"policy\.path = score\.json: a file that exists"):
        study()
    drawn(TOPK, 1).save(tmp_path / "score.json")
    (one,), label = study().configurations(), study().policy_labels
    assert label == [f"trained path=score.json:{checksum('path', tmp_path / 'score.json')[:8]}"]
    assert one.params["score"] == drawn(TOPK, 1).sha256[:8]
    drawn(TOPK, 2).save(tmp_path / "score.json")
    assert study().policy_labels != label
    assert str(tmp_path) not in json.dumps(study().canonical())
    drawn(CLEANING, 1).save(tmp_path / "score.json")
    with pytest.raises(BadInput, match="a score of topk"):
        study()


@pytest.mark.slow
def test_training_improves_and_repeats() -> None:
    """From equal pulls for all arms, to more for those in doubt."""
    found = jaxbandit.train(STUDY, progress=False, **TABLE)
    assert found.score.weights[0] > 0.5
    assert not found.notes
    rows = {row["policy"]: row for row in found.rows}
    ours, equal = rows["trained"], rows["uniform"]
    assert ours["ci_high"] is not None
    assert equal["ci_low"] is not None
    assert ours["ci_high"] < equal["ci_low"]
    again = jaxbandit.train(STUDY, progress=False, **TABLE)
    assert again.score.sha256 == found.score.sha256
    assert again.rows == found.rows


def test_a_study_says_which_implementation_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    training, seen = importlib.import_module("jaxbandit.tuning.train"), []

    def batch(*given: Any, implementation: str) -> Any:
        seen.append(implementation)
        return Batch(*given, implementation=implementation)  # type: ignore[arg-type]

    monkeypatch.setattr(training, "Batch", batch)
    table = {"statistics": ["late_doubt"], "generations": 1, "population": 4, "runs": 2}
    jaxbandit.train({**STUDY, "implementation": "reference"}, progress=False, **table)
    assert set(seen) == {"reference"}


def test_divergence_goes_back_to_the_best_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    training = importlib.import_module("jaxbandit.tuning.train")

    class Failing(training._Objective):  # type: ignore[misc,name-defined]
        calls = 0

        def values(self, points: np.ndarray, times: int = 1) -> np.ndarray:
            self.calls += 1
            found = super().values(points, times)
            return np.full(len(points), np.nan) if self.calls == 2 else found

    monkeypatch.setattr(training, "_Objective", Failing)
    found = jaxbandit.train(STUDY, progress=False, **TABLE)
    assert found.notes == ["it diverged in generation 2: no candidate has a value; the best points before it go on"]
    assert len(found.history) == 1
    assert np.isfinite(found.score.weights).all()


def test_a_small_population_still_compares_the_last_mean_and_the_best_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    training = importlib.import_module("jaxbandit.tuning.train")
    climbed, values, kept = training._climbed, training._Objective.values, []

    def climbing(*given: Any) -> Any:
        found = climbed(*given)
        kept.append((found[1][-1], found[2][0][1]))
        return found

    def valued(self: Any, points: np.ndarray, times: int = 1) -> Any:
        if times > 1:
            kept.append(tuple(points))
        return values(self, points, times)

    monkeypatch.setattr(training, "_climbed", climbing)
    monkeypatch.setattr(training._Objective, "values", valued)
    jaxbandit.train(STUDY, progress=False, statistics=["late_doubt"], generations=4, population=4, runs=2)
    (last, best), finalists = kept
    assert len(finalists) == 4
    assert all(any(np.array_equal(each, one) for one in finalists) for each in (last, best))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"speed": 1}, "train.speed = 1: no such key; there are kind, hidden, metric"),
        ({"kind": "deep"}, "train.kind = deep: one of linear, network"),
        ({"hidden": 4}, 'train.hidden = 4: left out where kind = "linear"'),
        ({"kind": "network", "hidden": 0}, "train.hidden = 0: a whole number from 1 to 64"),
        ({"metric": "luck"}, "train.metric = luck: one of regret, precision"),
        ({"statistics": ["gap", "gap"]}, "train.statistics = ['gap', 'gap']: some of gap, doubt"),
        ({"statistics": [["gap"]]}, "train.statistics = [['gap']]: some of gap, doubt"),
        ({"population": 3}, "train.population = 3: a whole number from 4 to 4096"),
        ({"generations": 0}, "train.generations = 0: a whole number from 1 to 100000"),
        ({"runs": True}, "train.runs = True: a whole number from 2 to 65536"),
        ({"runs": 65_536, "generations": 20_000}, "train.generations = 20000: at most 16,360 with 65,536 runs"),
    ],
)
def test_bad_tables(table: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as error:
        jaxbandit.train(STUDY, progress=False, **table)
    assert message in str(error.value)


def test_families_that_are_not_trained() -> None:
    study = {"problem": {"kind": "outliers/synthetic", "n": 12, "budget": 120}, "policy": [{"kind": "rr"}]}
    with pytest.raises(BadInput, match=r"problem\.kind = outliers/synthetic: a problem of cleaning, topk"):
        jaxbandit.train(study, progress=False)


def test_command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAXBANDIT_CACHE", "off")
    study, out = tmp_path / "study.toml", tmp_path / "score.json"
    problem = "problem = { kind = 'topk/bernoulli', n = 8, K = 2, budget = 200 }\npolicy = [{ kind = 'uniform' }]\n"
    study.write_text(f"{problem}[train]\nstatistics = ['late_doubt']\ngenerations = 1\npopulation = 8\nruns = 64\n")
    assert cli.main(["train", str(study), "--out", str(study)]) == 2
    assert "a new file, or one that `jaxbandit train` wrote" in capfd.readouterr().err
    assert cli.main(["train", str(study), "--out", str(tmp_path / "no" / "score.json")]) == 2
    assert "a file in a folder that is there" in capfd.readouterr().err
    for _ in range(2):  # a score may be trained again
        assert cli.main(["train", str(study), "--out", str(out)]) == 0
        said = capfd.readouterr()
        assert "trained" in said.out
        assert f"{out}: a linear score, {topk.load_score(out).sha256[:8]}" in said.err
    assert {path.name for path in tmp_path.iterdir()} == {"study.toml", "score.json"}
