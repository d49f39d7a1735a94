"""Tuning with a verdict: the judge, the searches, what is stored, and what bad input gets."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

import jaxbandit
from benchmarks import verdicts
from jaxbandit import cli
from jaxbandit.errors import BadInput
from jaxbandit.registry import Family, Metric, PolicyKind, measured
from jaxbandit.space import Choice, Range, domain
from jaxbandit.study import families
from jaxbandit.study.spec import Study
from jaxbandit.study.store import Store
from jaxbandit.study.summary import unmistakably
from jaxbandit.tuning.candidates import finalists
from jaxbandit.tuning.judge import LEAST, Judge
from jaxbandit.tuning.options import TuneOptions, leaves_open
from jaxbandit.tuning.picture import draw
from jaxbandit.tuning.run import tuned
from tests import toy

SPACE = {"share": {"from": 0.0, "to": 1.0}}


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(families.FAMILIES, "toy", toy.FAMILY)


def study(**table: Any) -> dict[str, Any]:
    problem = {"kind": "toy/coins", "budget": 20}
    return {"problem": problem, "policy": [{"kind": "mixed"}], "tune": {"candidates": 9, "space": SPACE, **table}}


def judged(means: Mapping[int, float], spread: float, seed: int, most: int = 10**6, **given: Any) -> tuple[str, Judge]:
    """A judge's verdict on normal values of known means."""
    rng, judge = np.random.default_rng(seed), Judge(len(means), **given)
    values = np.zeros((len(means), 0))
    verdict = "undecided"
    while verdict == "undecided" and (target := judge.following()) < most:
        if values.shape[1] < target:
            noise = rng.standard_normal((len(means), 2 * target))
            values = np.concatenate([values, np.array(list(means.values()))[:, None] + spread * noise], axis=1)
        missing = judge.missing(target)
        verdict = judge.decide(target, {one: values[one, first:target] for one, first in missing.items()})
    return verdict, judge


def test_the_best_is_found_and_the_others_are_out() -> None:
    verdict, judge = judged({0: 0.0, 1: 3.0, 2: 1.0}, 1.0, 1, within=0.01)
    assert (verdict, judge.chosen, judge.survivors) == ("best", 1, [1])
    assert set(judge.eliminated) == {0, 2}


def test_equal_candidates_end_within() -> None:
    verdict, judge = judged({0: 1.0, 1: 1.0, 2: 1.0}, 1.0, 2, within=0.1)
    assert verdict == "within"
    assert len(judge.survivors) == 3
    assert 0 < judge.behind(judge.chosen) <= 0.1  # the verdict says 0.1, and the bound by how much less


def test_what_the_chosen_one_is_at_most_behind_is_true_as_often_as_it_says() -> None:
    means, wrong = {0: 0.0, 1: 0.3, 2: 0.2, 3: 0.25}, 0
    for seed in range(200):
        verdict, judge = judged(means, 2.0, seed, most=300, within=0.01, confidence=0.8)
        chosen = judge.chosen if verdict != "undecided" else judge.best_mean
        wrong += means[1] - means[chosen] > judge.behind(chosen)
    assert wrong <= 0.2 * 200


def test_verdicts_are_right_as_often_as_they_say() -> None:
    wrong = 0
    for seed in range(200):
        verdict, judge = judged({0: 0.0, 1: 1.3, 2: 0.0, 3: 0.0}, 4.0, seed, within=1.0, confidence=0.8)
        assert verdict in ("best", "within")
        wrong += judge.chosen != 1
    assert 0 < wrong <= 0.2 * 200  # with a confidence of 0.8 some are wrong, or the bounds are far too wide


def test_many_close_candidates_are_decided() -> None:
    """One that covers most others early on does not lead for ever while another one covers it."""
    means = {one: 0.3 * one for one in range(10)}
    for seed in range(20):
        verdict, judge = judged(means, 10.0, seed, most=40_000, within=1.0)
        assert verdict == "within"
        assert means[judge.chosen] > 1.7


def test_leaders_in_turn_wait_for_more_runs() -> None:
    """Each covers what the other one does not. In one of 400 such cases, the judge went from one to the other for
    ever."""
    source = verdicts.Source(np.zeros(10), verdicts.SETTINGS["equal"][1], [196, 10])
    verdict, _, runs = verdicts.judged(source, 10, None)
    assert verdict == "within"
    assert runs < 100_000


def test_a_cap_leaves_it_undecided() -> None:
    verdict, judge = judged({0: 1.0, 1: 1.0}, 1.0, 3, most=2_000, within=0.001)
    assert verdict == "undecided"
    assert judge.survivors == [0, 1]
    assert 0.001 < judge.behind(0) < 0.2


def test_relative_to_a_cost() -> None:
    means = {0: -100.0, 1: -103.0, 2: -150.0}  # costs, negated: 1 is 3 % above 0
    verdict, judge = judged(means, 5.0, 4, within=0.05, relative=True)
    assert verdict == "within"
    assert judge.chosen in (0, 1)
    assert judge.behind(judge.chosen) <= 0.05 * 110
    verdict, judge = judged(means, 5.0, 4, within=0.01, relative=True)
    assert judge.chosen == 0


@pytest.mark.parametrize("dear", [15.0, 1000.0])
def test_how_dear_the_worst_is_does_not_matter(dear: float) -> None:
    """What a relative ``within`` comes to is that of the best: it is out after a few runs."""
    verdict, judge = judged({0: -10.0, 1: -10.0, 2: -dear}, 1.0, 0, within=0.005, relative=True)
    assert (verdict, judge.survivors) == ("within", [0, 1])
    assert judge.runs < 20_000


def test_a_cost_that_is_rare_is_told_whatever_the_first_runs_were() -> None:
    """Of the first 64, one is dear; so the mean seems to be 15 times as high as it is."""
    rng = np.random.default_rng(8)
    dear = rng.random(50_000) < 0.001
    dear[:64] = np.arange(64) == 3
    values = -100.0 * dear + 0.1 * rng.standard_normal((2, 50_000))
    judge, verdict, runs = Judge(2, within=0.1, relative=True), "undecided", LEAST
    while verdict == "undecided" and runs < 50_000:
        verdict = judge.decide(runs, {one: values[one, first:runs] for one, first in judge.missing(runs).items()})
        runs = int(1.1 * runs)
    assert verdict == "within"


def test_verdicts_relative_to_a_cost_are_right_as_often_as_they_say() -> None:
    wrong = 0
    for seed in range(200):
        costs = {0: -10.0, 1: -8.7, 2: -10.0, 3: -30.0}
        verdict, judge = judged(costs, 4.0, seed, within=0.1, relative=True, confidence=0.8)
        assert verdict in ("best", "within")
        wrong += judge.chosen != 1
    assert 0 < wrong <= 0.2 * 200


def test_candidates_in_close_pairs_are_told_apart_without_a_within() -> None:
    """As the variance is that of their differences, which is 1e-6 of their own."""
    rng = np.random.default_rng(3)
    common = 100 * rng.standard_normal(LEAST * 4)
    judge = Judge(2, within=0.0, cap=500_000)
    values = common, common + 0.05 + 0.1 * rng.standard_normal(common.size)
    assert judge.decide(common.size, dict(enumerate(values))) == "best"
    assert judge.chosen == 1


def test_values_that_never_varied_are_not_taken_for_certain() -> None:
    judge = Judge(2, within=0.01, binary=True, bounded=True)
    assert judge.decide(64, {0: np.ones(64), 1: np.ones(64)}) == "undecided"
    # A difference in one of 100 runs would not have been seen in fewer than some hundreds.
    assert judge.decide(250, {0: np.ones(186), 1: np.ones(186)}) == "undecided"
    assert judge.decide(2_000, {0: np.ones(1_750), 1: np.ones(1_750)}) == "within"


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999, 1 - 1e-6, 1 - 1e-9])
@pytest.mark.parametrize(("within", "relative"), [(0.05, False), (0.002, False), (0.01, True)])
def test_a_rare_failure_would_have_been_seen(confidence: float, within: float, relative: bool) -> None:
    """The worse of two candidates fails in a little more than ``within`` of its runs. The chance that it shows none of
    it until the judge takes both for equal is exact; and the judge does not wait much longer than that takes."""
    judge, verdict = Judge(2, within, relative, confidence, 10**9, binary=True, bounded=True), "undecided"
    while verdict == "undecided":
        target = judge.following()
        verdict = judge.decide(target, {one: np.ones(target - first) for one, first in judge.missing(target).items()})
    error = (1 - confidence) / (2 if relative else 1)
    assert verdict == "within"
    assert (1 - within) ** judge.runs <= error
    assert judge.runs <= max(LEAST, 1.2 * math.log(1 / error) / within + 30)


def test_zeros_of_a_metric_without_bounds_are_not_taken_for_certain() -> None:
    """As a regret, which is 0 in most runs: what is 1 in one of 300 runs was not seen in 64."""
    judge = Judge(2, within=0.003)
    assert judge.decide(64, {0: np.zeros(64), 1: np.zeros(64)}) == "undecided"
    assert judge.decide(5_000, {0: np.zeros(4_936), 1: np.zeros(4_936)}) == "within"


def test_what_only_a_failed_candidate_was_better_than_is_in_question_again() -> None:
    rng = np.random.default_rng(0)

    def draw(one: int, first: int, runs: int) -> np.ndarray:
        own = {0: 2.0, 1: 1.0, 2: 1.9}[one] + {0: 0.1, 1: 0.1, 2: 20.0}[one] * rng.standard_normal(runs - first)
        return np.where((one != 1) & (np.arange(first, runs) >= 100), np.nan, own)

    judge, target, verdict = Judge(3, within=0.01, cap=10**6), 64, "undecided"
    while verdict == "undecided" and judge.survivors and target < 10_000:
        verdict = judge.decide(target, {one: draw(one, first, target) for one, first in judge.missing(target).items()})
        target = target if judge.missing(target) else 2 * target
        if target == 128 and not judge.failed:
            assert judge.eliminated[1][0] == 0
    assert (verdict, judge.chosen, judge.survivors) == ("best", 1, [1])
    assert set(judge.failed) == {0, 2}
    assert not judge.eliminated


def test_a_candidate_without_a_value_is_out() -> None:
    values = np.random.default_rng(0).standard_normal((2, 64))
    judge = Judge(3, within=0.5)
    judge.decide(64, {0: values[0], 1: np.where(np.arange(64) < 3, np.nan, 9.0), 2: values[1]})
    assert judge.failed == {1: 3}
    assert judge.chosen in (0, 2)


def test_all_in_question_without_a_value_leave_those_that_the_leader_covered() -> None:
    """In the same batch of runs: a candidate that was within of the leader had fewer runs, and gets the others."""
    rng = np.random.default_rng(0)

    def draw(one: int, first: int, runs: int) -> np.ndarray:
        own = {0: 1.0, 1: 1.0, 2: 0.9}[one] + {0: 0.01, 1: 20.0, 2: 0.01}[one] * rng.standard_normal(runs - first)
        return np.where((one < 2) & (np.arange(first, runs) >= 100), np.nan, own)

    judge, target, verdict = Judge(3, within=0.5, cap=10**6), 64, "undecided"
    while verdict == "undecided" and target < 10_000:
        verdict = judge.decide(target, {one: draw(one, first, target) for one, first in judge.missing(target).items()})
        target = target if judge.missing(target) else 2 * target
    assert (verdict, judge.chosen, judge.survivors) == ("best", 2, [2])
    assert set(judge.failed) == {0, 1}


def test_what_is_0_at_first_is_told_apart_later() -> None:
    """``within`` is a share of means that are all 0 in the first runs; verdicts stay right as often as they say."""
    verdicts, wrong = [], 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        judge, target, verdict = Judge(2, 0.05, True, 0.8, 40_000, True, True), 64, "undecided"
        while verdict == "undecided" and target <= 40_000:
            missing = judge.missing(target)
            drawn = {one: rng.random(target - first) < (0.01, 0.002)[one] for one, first in missing.items()}
            verdict = judge.decide(target, {one: own.astype(float) for one, own in drawn.items()})
            target = int(1.1 * target)
        verdicts.append(verdict)
        wrong += verdict != "undecided" and judge.chosen != 0
    assert "undecided" not in verdicts
    assert wrong <= 0.2 * 60


@pytest.mark.parametrize("seed", range(6))
def test_what_another_leader_does_not_cover_catches_up_step_by_step(seed: int) -> None:
    """Many good candidates, so that the lead changes. To give those that the first one covered all runs of the new one
    at once took more than there were in a third of such cases."""
    means, most, spent, verdict = np.linspace(0.2, 0.8, 50), 20_000, 0, "undecided"
    judge, rng = Judge(50, 0.05, cap=most // 50), np.random.default_rng(seed)
    while verdict == "undecided":
        missing = judge.missing(target := judge.following())
        spent += sum(target - first for first in missing.values())
        drawn = {one: (rng.random(target - first) < means[one]).astype(float) for one, first in missing.items()}
        verdict = judge.decide(target, drawn)
    assert (verdict, spent <= most) == ("within", True)
    assert means[judge.chosen] >= 0.8 - 0.05
    assert [runs for runs, *_ in judge.history] == sorted(runs for runs, *_ in judge.history)


def test_what_the_leader_covers_is_run_on_when_another_leads() -> None:
    judge = Judge(3, within=1.0)
    rng = np.random.default_rng(1)
    for target in (64, 128, 256, 512, 1024):
        while missing := judge.missing(target):
            judge.decide(target, {one: rng.standard_normal(target - first) for one, first in missing.items()})
    assert {judge.values(one).size for one in range(3)} != {0}
    assert all(judge.values(one).size <= 1024 for one in range(3))


def test_domains() -> None:
    assert Range(1, 100, log=True).spread(3) == pytest.approx([1, 10, 100])
    assert Range(1, 4, whole=True).spread(10) == [1, 2, 3, 4]
    assert {Range(1, 12, log=True, whole=True).at(share) for share in np.linspace(0, 1, 100)} == set(range(1, 13))
    assert Range(0.01, 0.9, log=True).at(1 / 3) == 0.04481
    assert Range(0.9999, 0.99999).spread(4) == pytest.approx([0.9999, 0.99993, 0.99996, 0.99999])
    assert {Range(12340, 12349, whole=True).at(share) for share in np.linspace(0, 1, 200)} == set(range(12340, 12350))
    assert Choice(("a", "b")).at(1.0) == "b"
    assert 2 in Range(1, 4)
    assert 5 not in Range(1, 4)
    assert None in Choice((None,))
    assert 1 not in Choice((True,))
    wrong = [{"from": 1}, {"from": 2, "to": 1}, {"from": 0, "to": 1, "log": True}, "words", [], {"to": 1, "from": "x"}]
    for given in wrong:
        with pytest.raises(BadInput):
            domain("tune.space.x", given)
    for whole in (False, True):
        with pytest.raises(BadInput, match=r"^tune.space.x.to = 1000"):
            domain("tune.space.x", {"from": 1, "to": 10**400}, whole)


@pytest.mark.slow
@pytest.mark.parametrize("search", ["grid", "sobol", "halving", "optuna", "gradient"])
def test_searches_find_the_better_coin(search: str, tmp_path: Path) -> None:
    candidates = 64 if search == "optuna" else 24
    found = jaxbandit.tune(study(search=search, within=0.02, candidates=candidates), tmp_path, progress=False)
    assert found.verdict["verdict"] in ("best", "within")
    assert found.verdict["chosen"]["params"]["share"] > 0.9
    assert found.verdict["runs"] <= 1_000_000
    assert (found.verdict["search_runs"] > 0) == (search not in ("grid", "sobol"))
    assert json.loads((tmp_path / "verdict.json").read_text()) == found.verdict


def test_verdicts_are_those_of_the_runs_that_run_makes() -> None:
    found = jaxbandit.tune(study(within=0.05), progress=False)
    runs = found.data.runs.values[found.data.status.values == "chosen"].item()
    share = found.verdict["chosen"]["params"]["share"]
    problem = toy.Setting(20, 0.2, 0.8).problem()
    answers = jaxbandit.simulate(problem, toy.Coin(np.float32(share)), runs=runs, progress=False)
    assert found.verdict["mean"] == pytest.approx((answers["heads"] / 20).mean(), rel=1e-12)


def test_a_killed_tuning_ends_with_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = study(search="halving", within=0.01, candidates=64)
    jaxbandit.tune(given, tmp_path / "whole", progress=False)
    written, write = 0, Store.write

    def failing(self: Store, *args: Any) -> None:
        nonlocal written
        written += 1
        if written % 3 == 0:
            raise KeyboardInterrupt
        write(self, *args)

    monkeypatch.setattr(Store, "write", failing)
    for _ in range(100):
        try:
            jaxbandit.tune(given, tmp_path / "cut", progress=False)
            break
        except KeyboardInterrupt:
            continue
    assert written > 3
    for name in ("verdict.json", "verdict.txt", "candidates.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_interrupted_tuning_has_no_verdict_of_other_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    jaxbandit.tune(study(within=0.05), tmp_path, progress=False)
    assert (tmp_path / "verdict.txt").exists()
    monkeypatch.setattr("jaxbandit.tuning.run._judged", interrupted)
    with pytest.raises(KeyboardInterrupt):
        jaxbandit.tune(study(within=0.01), tmp_path, progress=False)
    assert not any((tmp_path / name).exists() for name in ("verdict.json", "verdict.txt", "candidates.json"))


def test_a_metric_that_is_within_1_on_the_setting_is_judged_so(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = []

    def seen(*args: Any) -> Judge:
        bounds.append(args[6])
        return Judge(*args)

    def kept(setting: Any, answers: Any) -> Any:
        return answers["heads"] / answers["thrown"]

    metrics = Metric("kept", "kept", kept, within_1=lambda setting: True), Metric("free", "free", kept)
    monkeypatch.setitem(families.FAMILIES, "toy", replace(toy.FAMILY, metrics=(*toy.FAMILY.metrics, *metrics)))
    monkeypatch.setattr("jaxbandit.tuning.run.Judge", seen)
    for metric in ("kept", "free"):
        jaxbandit.tune(study(metric=metric, within=0.05), progress=False)
    assert bounds == [True, False]


def test_more_candidates_and_runs_use_what_was_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"share": [0.0, 0.5, 0.9]}
    jaxbandit.tune(study(space=few), tmp_path / "held", progress=False)
    from jaxbandit.tuning.values import Values

    simulated: list[int] = []
    simulate = Values._simulate

    def counting(self: Values, store: Any, places: Any, some: Any, start: int, end: int) -> None:
        simulated.append(len(some) * (end - start))
        simulate(self, store, places, some, start, end)

    monkeypatch.setattr(Values, "_simulate", counting)
    more = jaxbandit.tune(study(space={"share": [0.0, 0.5, 0.9, 1.0]}), tmp_path / "held", progress=False)
    held = sum(simulated)
    simulated.clear()
    fresh = jaxbandit.tune(study(space={"share": [0.0, 0.5, 0.9, 1.0]}), tmp_path / "fresh", progress=False)
    assert more.verdict == fresh.verdict
    assert held < sum(simulated)


def test_several_problems_and_policies(tmp_path: Path) -> None:
    given = study(within=0.05)
    given["policy"].append({"kind": "best"})
    del given["problem"]["budget"]
    found = jaxbandit.tune({**given, "sweep": {"budget": [10, 20]}}, tmp_path, progress=False)
    assert [each["problem"] for each in found.verdict["problems"]] == [{"budget": 10}, {"budget": 20}]
    for each in found.verdict["problems"]:
        assert each["chosen"]["policy"] == "best" or each["chosen"]["params"]["share"] > 0.9


def test_the_same_policy_is_one_candidate() -> None:
    found = jaxbandit.tune(study(space={"share": [0.5, 0.25, 1.0]}), progress=False)  # 0.5 is the default
    assert sorted(found.data["share"].values.tolist()) == [0.25, 0.5, 1.0]


def test_candidates_without_parameters_are_in_the_picture(tmp_path: Path) -> None:
    given = study(within=0.05)
    given["policy"].append({"kind": "best"})
    (found,) = tuned(Study.of(given, counted=False), tmp_path, lambda status: None)
    place = next(axes for axes in draw(found).axes if axes.get_xlabel() == "policies without a search")
    assert [label.get_text() for label in place.get_xticklabels()] == ["best"]
    assert len(place.lines) == 2  # the mean and its interval


def test_a_candidate_whose_runs_run_out_of_room_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    full = replace(toy.FAMILY, failed=lambda answers: answers["heads"] > 17)
    monkeypatch.setitem(families.FAMILIES, "toy", full)
    found = jaxbandit.tune(study(space={"share": [0.0, 0.1, 1.0]}, within=0.05), progress=False)
    assert [each["params"]["share"] for each in found.verdict["failed"]] == [1.0]
    assert found.verdict["chosen"]["params"].get("share", 0.5) < 1


def test_a_gradient_that_diverges_is_said_and_leaves_what_was_seen(caplog: pytest.LogCaptureFixture) -> None:
    options = TuneOptions.of(Study.of(study(search="gradient"), counted=False))
    asked: list[int] = []

    def means(points: list[Any], runs: int) -> np.ndarray:
        asked.append(len(points))
        values = np.array([each.given["share"] for each in points])
        return values if len(asked) < 3 else values * np.nan

    found = finalists(options, means, seed=0)
    assert "the gradient over share of mixed diverged" in caplog.text
    assert len(asked) == 3
    assert 1 < len(found) <= 6
    assert max(each.given.get("share", 0) for each in found) > 0.5


@pytest.mark.parametrize("search", ["halving", "optuna", "gradient"])
def test_finalists_differ(search: str) -> None:
    """However often a search proposed the best of them: here points are one candidate that throw equally often."""
    space = {"share": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]} if search != "gradient" else SPACE
    options = TuneOptions.of(Study.of(study(search=search, candidates=128, space=space), counted=False))

    def alike(points: Sequence[Any]) -> list[int]:
        return [round(20 * each.given.get("share", 0.5)) for each in points]

    def means(points: Sequence[Any], runs: int) -> np.ndarray:
        return np.array(alike(points), float)

    found = finalists(options, means, 0, alike)[1:]
    assert len(set(alike(found))) >= 4
    assert len(set(alike(found))) == 8 or search == "gradient"


def test_one_candidate_is_the_best_of_one(tmp_path: Path) -> None:
    policy = [{"kind": "mixed", "share": 0.5}]
    study = Study.of({"problem": {"kind": "toy/coins", "budget": 5}, "policy": policy}, counted=False)
    (found,) = tuned(study, tmp_path / "out", lambda status: None)
    assert " is the best of 1 candidate, at 95 %: " in found.sentences()[0]


def test_what_looked_best_is_known_under_other_parameters(tmp_path: Path) -> None:
    """As ``ee`` is the same policy with q = 0.51 and q = 0.52, of which a search saw one and hands over the other."""
    (found,) = tuned(Study.of(study(within=0.1), counted=False), tmp_path, lambda status: None)
    other = replace(found.candidates[found.chosen], label="another name")
    seen = replace(found, promising=(other, 0.9)).record()["best_seen"]
    assert seen == {**found.record()["chosen"], "mean": 0.9, "not_chosen": None}


def test_a_lower_metric_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    tails = Metric("tails", "tails", lambda setting, answers: 1 - answers["heads"] / answers["thrown"], False, True)
    monkeypatch.setitem(families.FAMILIES, "toy", replace(toy.FAMILY, metrics=(*toy.FAMILY.metrics, tails)))
    found = jaxbandit.tune(study(metric="tails", within=0.02), progress=False)
    assert found.verdict["chosen"]["params"]["share"] > 0.9


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        '[problem]\nkind = "toy/coins"\nbudget = 20\n[[policy]]\nkind = "mixed"\n'
        "[tune]\nwithin = 0.05\ncandidates = 5\n[tune.space]\nshare = { from = 0, to = 1 }\n"
    )
    assert cli.main(["tune", str(file), "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr()
    assert "mixed" in told.out
    assert "at 95 %" in told.err
    verdict = json.loads((tmp_path / "out" / "verdict.json").read_text())
    assert {"verdict", "chosen", "survivors", "within", "confidence", "runs"} <= set(verdict)
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") == 2  # for a screen and for a phone
    assert "is within 0.05 of the best" in page or "is the best of" in page
    assert "share of mixed" in page
    assert (tmp_path / "out" / "tuning.png").read_bytes().startswith(b"\x89PNG")
    assert cli.main(["show", str(tmp_path / "out"), "--format", "csv"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1 + verdict["candidates"]
    assert shown.err == told.err[told.err.index("jaxbandit: mixed") :]
    assert (tmp_path / "out" / "report.html").read_text() == page
    assert cli.main(["show", str(tmp_path / "out"), "--metric", "heads"]) == 2
    assert "a folder of jaxbandit run" in capsys.readouterr().err
    file.write_text(file.read_text() + "speed = [1]\n")
    assert cli.main(["tune", str(file), "--out", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists()
    capsys.readouterr()
    assert cli.main(["run", str(file), "--out", str(tmp_path / "run")]) == 2
    assert "runs = missing" in capsys.readouterr().err


def test_the_first_runs_of_many_candidates_are_written_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = []

    def write(self: Store, places: Any, first: int, values: Any) -> None:
        written.extend((place, first, len(own["heads"])) for place, own in zip(places, values, strict=True))
        kept(self, places, first, values)

    kept = Store.write
    monkeypatch.setattr(Store, "write", write)
    monkeypatch.setattr("jaxbandit.tuning.values._ROOM", 4 * LEAST)
    jaxbandit.tune(study(within=0.2), tmp_path, progress=False)
    begun = [(place, runs) for place, first, runs in written if first == 0]
    assert sorted(begun) == [((place,), LEAST) for place in range(9)]


def test_too_many_candidates_are_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy as it is when nothing is said is one more."""
    monkeypatch.setattr("jaxbandit.tuning.run.MOST_CANDIDATES", 4)
    with pytest.raises(BadInput, match=r"^tune\.candidates = 9 candidates: at most 4"):
        jaxbandit.tune(study(), progress=False)


def test_an_empty_table_asks_for_a_verdict_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All its keys have defaults. Without the table, ``ee`` is tuned by formula."""
    file = tmp_path / "study.toml"
    problem = '[problem]\nkind = "cleaning/synthetic"\nbudget = 50\nentities = 200\n'
    file.write_text(f'{problem}[[policy]]\nkind = "ee"\nt = [2, 8]\nq = 0.6\n[tune]\n')
    assert cli.main(["tune", str(file), "--out", str(tmp_path / "out")]) == 0
    assert "of 2 candidates, at 95 %" in capsys.readouterr().err
    file.write_text(file.read_text().replace("200", "300"))
    assert cli.main(["tune", str(file), "--out", str(tmp_path / "out")]) == 2
    assert "a part of it; problem.entities differs in the study it holds" in capsys.readouterr().err


def test_a_share_of_nothing_decides_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the metric is 0 in all runs: whoever asks is told how to ask."""
    file = tmp_path / "study.toml"
    file.write_text('[problem]\nkind = "toy/coins"\nbudget = 20\nodds = [0, 0]\n[[policy]]\nkind = "mixed"\n'
                    "[tune]\nmost_runs = 2000\n[tune.space]\nshare = [0.2, 0.8]\n")  # fmt: skip
    assert cli.main(["tune", str(file)]) == 0
    said = capsys.readouterr().err
    assert "undecided" in said
    assert said.endswith("nothing is within 0.5 % of 0: say `within` as a difference, with relative = false\n")


@pytest.mark.parametrize(("kinds", "allowed"), [({"binary": True}, "0 or 1 in each"), ({"share": True}, "from 0 to 1")])
def test_values_that_a_metric_says_it_does_not_have(
    kinds: dict[str, bool], allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = Metric("odd", "odd", lambda setting, answers: 5.0 * answers["heads"], **kinds)
    monkeypatch.setitem(families.FAMILIES, "toy", replace(toy.FAMILY, metrics=(odd,)))
    with pytest.raises(BadInput, match=f"metric odd = [0-9]+: {allowed}"):
        jaxbandit.tune(study(metric="odd", within=0.1), progress=False)


def test_a_share_that_rounding_puts_beyond_1_is_1() -> None:
    over = Metric("over", "over", lambda setting, answers: answers["heads"] * (1 + 1e-15), share=True)
    found = measured(over, None, {"heads": np.array([1.0, 0.0, np.nan])})
    np.testing.assert_array_equal(found, [1.0, 0.0, np.nan])


def test_a_text_is_another_candidate_than_the_number_that_it_looks_like() -> None:
    values = ["lowest", "3b.csv:1f", "1", 1, "true", True, "a b=1", "nan", float("nan"), "1e3", "x: y", 'say "1"']
    assert len({unmistakably(value) for value in values}) == len(values)
    assert [unmistakably(value) for value in values[:4]] == ["lowest", "3b.csv:1f", '"1"', "1"]


def test_numpy_values_are_taken() -> None:
    table = study(space={"share": np.array([0.1, 0.9])}, most_runs=np.int64(2_000), within=np.float64(0.2))
    assert jaxbandit.tune(table, progress=False).verdict["candidates"] == 3  # and what it is when nothing is said
    plain = {key: value for key, value in table.items() if key != "tune"}
    assert (
        jaxbandit.tune(plain, **table["tune"], progress=False).verdict["candidates"] == 3
    )  # and what it is when nothing is said


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"metric": "speed"}, "tune.metric = speed: one of heads, never, thrown"),
        ({"within": -1}, "tune.within = -1"),
        ({"within": 0}, "tune.within = 0: a number above 0, or most_runs too"),
        ({"confidence": 1.5}, "tune.confidence = 1.5"),
        ({"confidence": 1 - 1e-12}, "a number from 0.5 to 0.999999999"),
        ({"search": "luck"}, "tune.search = luck: one of grid, sobol"),
        ({"candidates": 10**6}, "tune.candidates = 1000000"),
        ({"most_runs": 200}, "tune.most_runs = 200: at least"),
        ({"space": {}}, "tune.space"),
        ({"space": "some"}, 'tune.space = some: a table of domains by parameter, or "all"'),
        ({"space": {"mixed": 3}}, "tune.space.mixed = 3: a table of domains of mixed's parameters: share"),
        ({"space": {"speed": [1]}}, "tune.space.speed = [1]: a parameter of a policy"),
        ({"space": {"share": {"from": 0.5, "to": 0.1}}}, "a table in which from is below to"),
        ({"space": {"share": {"from": 0, "to": 1, "log": True}}}, "tune.space.share.from = 0"),
        ({"space": {"share": {"from": 0, "to": 3}}}, "tune.space.share.to = 3"),
        ({"space": {"mixed": {"speed": [1]}, "share": [0.5]}}, "tune.space.mixed.speed"),
        ({"luck": 1}, "tune.luck = 1: no such key"),
        ({"metric": "never"}, "tune.metric = never: one that has a value"),
    ],
)
def test_bad_input(table: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as error:
        jaxbandit.tune(study(**table), tmp_path / "out", progress=False)
    assert message in str(error.value)
    assert message.startswith("tune.metric = never") or not (tmp_path / "out").exists()


def test_a_study_without_a_table_is_searched_over_the_domains_that_policies_declare() -> None:
    means = [0.9, 0.8, 0.5, 0.4, 0.2]
    problem = {"kind": "topk/bernoulli", "means": {"list": means}, "K": 2, "budget": 100}
    options = TuneOptions.of(Study.of({"runs": 1, "problem": problem, "policy": [{"kind": "optmai"}, {"kind": "sar"}]}))
    assert [set(each.axes) for each in options.policies] == [{"beta", "inflate", "reuse"}, set()]


KINDS = [
    (family, kind) for family in families.FAMILIES.values() for kind in family.policies.values() if not kind.reference
]


@pytest.mark.parametrize(("family", "kind"), KINDS, ids=[f"{family.name}/{kind.name}" for family, kind in KINDS])
def test_every_parameter_declares_a_domain_of_values_that_it_takes(family: Family, kind: PolicyKind) -> None:
    names = {each.name for each in kind.parameters}
    for each in kind.parameters:
        if each.name == "path":  # a file, which no search can propose
            continue
        assert each.domain is not None, each.name
        for value in [*each.domain.spread(5), each.domain.at(0), each.domain.at(1)]:
            each.parse(each.name, value)
        assert set(each.when) <= names
        assert str(each.domain) in each.searched


def crux(**table: Any) -> TuneOptions:
    problem = {"kind": "extraction/people", "budget": 5}
    return TuneOptions.of(Study.of({"problem": problem, "policy": [{"kind": "crux"}], "tune": table}))


def test_what_depends_on_another_is_proposed_where_it_matters() -> None:
    space = {"variance": "all", "estimator": ["chao92", "hwang-shen"], "bootstrap": [0, 10], "gain": "all"}
    wanted = {("chao92", 10, "delta"), ("chao92", 10, "bootstrap"), ("chao92", 0, None), ("hwang-shen", 10, None)}
    for search in ("grid", "sobol", "optuna"):
        options = crux(space=space, search=search, candidates=64)
        points = finalists(options, lambda points, runs: np.arange(len(points), dtype=float), seed=1)
        assert len({str(point) for point in points}) == len(points)
        for _, given in points[1:]:
            matters = given["estimator"] == "chao92" and given["bootstrap"] > 0 and given["gain"] == "sample"
            assert ("variance" in given) == matters
            assert ("gain" in given) == (given["bootstrap"] > 0)
        found = {(given["estimator"], given["bootstrap"], given.get("variance")) for _, given in points[1:]}
        assert wanted <= found or search == "optuna"
    assert list(options.policies[0].axes).index("gain") > list(options.policies[0].axes).index("bootstrap")


def test_all_is_the_domain_that_a_parameter_declares() -> None:
    assert set(crux().policies[0].axes) == {"estimator", "variance_floor", "prior"}
    every = crux(space="all").policies[0]
    assert set(every.axes) == set(every.parameters)
    assert set(crux(search="gradient").policies[0].axes) == {"variance_floor", "prior"}
    problem = {"kind": "cleaning/synthetic", "entities": 40, "budget": 50}
    options = TuneOptions.of(
        Study.of({"problem": problem, "policy": [{"kind": "ee"}], "tune": {"space": {"tuning": "all"}}})
    )
    assert options.policies[0].axes == {"tuning": Choice(("lemma3", "exact"))}


def test_a_parameter_that_cannot_matter_is_no_axis() -> None:
    problem = {"kind": "cleaning/synthetic", "entities": 40, "budget": 50}
    given = {"problem": problem, "policy": [{"kind": "ee", "t": 2, "q": 0.5}]}
    with pytest.raises(BadInput, match=r"tune.space.tuning = searched: .* tuning does where t is left out"):
        TuneOptions.of(Study.of({**given, "tune": {"space": {"tuning": "all"}}}))
    assert not leaves_open(Study.of(given, counted=False))
    assert leaves_open(Study.of({**given, "policy": [{"kind": "ee"}]}, counted=False))


def test_what_is_given_together_has_no_default_where_one_of_both_is_searched() -> None:
    problem = {"kind": "cleaning/synthetic", "entities": 40, "budget": 50}
    both = {"kind": "ee", "t": [2, 3], "q": 0.8}
    assert not TuneOptions.of(Study.of({"runs": 1, "problem": problem, "policy": [both]})).policies[0].complete
    assert TuneOptions.of(Study.of({"runs": 1, "problem": problem, "policy": [{"kind": "ee"}]})).policies[0].complete


def test_one_of_what_is_given_together_may_stand_in_the_space() -> None:
    problem = {"kind": "cleaning/synthetic", "entities": 40, "budget": 50}
    given = {"problem": problem, "policy": [{"kind": "ee", "q": 0.8}], "tune": {"space": {"t": [2, 3]}}}
    options = TuneOptions.of(Study.of(given))
    assert set(options.policies[0].axes) == {"t"}
    assert not options.policies[0].complete


def test_what_is_there_of_one_metric_says_nothing_of_another(tmp_path: Path) -> None:
    """As where a folder is tuned by one metric, then by another, and then by the first again."""
    for metric, runs in (("x", 8), ("y", 16), ("x", 16)):
        store = Store(tmp_path / "results.zarr", {"policy": ["a"]}, [metric], [], runs)
        place = store.place({"policy": "a"})
        assert store.missing(place, runs) == [(0, runs)]
        store.write([place], 0, [{metric: np.arange(float(runs))}])


def test_the_folder_of_a_tuning_is_no_folder_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = {
        "problem": {"kind": "cleaning/synthetic", "entities": 100, "budget": 10},
        "policy": [{"kind": "ee", "t": 2, "q": [0.5, 0.6]}],
    }
    jaxbandit.tune(study, tmp_path, metric="removed", within=5, relative=False, most_runs=500, progress=False)
    assert cli.main(["compare", str(tmp_path)]) == 2
    said = "a folder that `jaxbandit run` wrote; this one is of a tuning, which `jaxbandit show` opens"
    assert capsys.readouterr().err == f"jaxbandit: path = {tmp_path}: {said}\n"
    assert cli.main(["show", str(tmp_path)]) == 0


def _bound(count: int = 2, within: float = 0.5, **given: Any) -> float:
    """How far the first of ``count`` candidates may be behind the second, as the judge has it after 100 runs."""
    values = np.random.default_rng(0).standard_normal((5, 100)) + 10
    judge = Judge(count, within=within, **given)
    judge.decide(100, dict(enumerate(values[:count])))
    return float(-judge._bounds[0, 1])


def test_bounds_are_for_the_confidence_that_is_asked() -> None:
    assert _bound(confidence=0.99) > _bound(confidence=0.95) > _bound(confidence=0.8)


def test_candidates_share_the_error() -> None:
    """As four pairs with the best one can mislead of five candidates; and a relative bound has two sides."""
    assert _bound(5, confidence=0.8) == pytest.approx(_bound(confidence=0.95), rel=1e-5)
    means = (np.random.default_rng(0).standard_normal((5, 100)) + 10).mean(1)
    absolute = _bound(within=0.05 * float(means[:2].max()), confidence=0.95)
    assert _bound(within=0.05, relative=True, confidence=0.9) == pytest.approx(absolute, rel=1e-5)


def test_a_bound_is_the_sharpest_of_the_lines() -> None:
    """Each line has its part of the error, a slope for differences of one size, and Student's quantile."""
    values = np.random.default_rng(0).standard_normal((5, 100))[:2] + 10
    variance, n = float(np.var(values[0] - values[1], ddof=1)), 100

    def line(error: float, slope: float) -> float:
        quantile = scipy.stats.t.isf(scipy.stats.norm.sf(math.sqrt(2 * math.log(1 / error))), n - 1)
        return float(variance * quantile**2 / 2 / (2 * slope * n) + slope)

    lines = [line(0.05 * 0.95, 0.4), *(line(0.05 * 0.01, 0.4 * 4**k) for k in range(1, 6))]
    half = _bound(confidence=0.95) + float(values[0].mean() - values[1].mean())
    assert half == pytest.approx(min(lines), rel=1e-3)


def test_what_tune_tells_is_what_the_judge_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a metric that is to be low, which the judge sees with the other sign."""
    tails = Metric("tails", "tails", lambda setting, answers: 1 - answers["heads"] / 20, lower_is_better=True)
    monkeypatch.setitem(families.FAMILIES, "toy", replace(toy.FAMILY, metrics=(*toy.FAMILY.metrics, tails)))
    judges: list[Judge] = []

    def seen(*args: Any) -> Judge:
        judges.append(Judge(*args))
        return judges[-1]

    monkeypatch.setattr("jaxbandit.tuning.run.Judge", seen)
    found = jaxbandit.tune(study(metric="tails", within=0.01, confidence=0.8, search="halving"), progress=False)
    (judge,) = judges
    assert judge.confidence == found.verdict["confidence"] == 0.8
    assert found.verdict["at_most_behind"] == judge.behind(judge.chosen)
    assert len(found.verdict["survivors"]) == len(judge.survivors) < judge.count
    means = dict(zip(found.data.status.values.tolist(), found.data["mean"].values.tolist(), strict=True))
    assert means["chosen"] == found.verdict["mean"] == -judge.mean(judge.chosen) > 0
    assert found.data["mean"].min() == means["chosen"]


def test_the_judge_sees_other_runs_than_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a candidate would be judged by the luck that it was found by."""
    from jaxbandit.engine import Batch

    taken: list[range] = []
    each = Batch.each

    def noted(self: Batch, which: Sequence[int], *, runs: int, first_run: int = 0, **more: Any) -> Any:
        taken.append(range(first_run, first_run + runs))
        return each(self, which, runs=runs, first_run=first_run, **more)

    monkeypatch.setattr(Batch, "each", noted)
    found = jaxbandit.tune(study(within=0.02, search="halving"), progress=False)
    assert found.verdict["search_runs"] > 0
    judged_ones, searched = ([each for each in taken if (each.start < 2**30) == low] for low in (True, False))
    assert judged_ones
    assert searched
    assert min(each.start for each in judged_ones) == 0
