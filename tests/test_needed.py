"""``jaxbandit plan``: how much of a parameter a policy needs for a metric to reach a value."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jaxbandit import cli
from jaxbandit.errors import BadInput
from jaxbandit.registry import Metric
from jaxbandit.study import families
from jaxbandit.study.spec import Study, load
from jaxbandit.study.summary import Always
from jaxbandit.tuning import needed
from tests import toy


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    lots = Metric("lots", "more than 20 heads", lambda setting, answers: (answers["heads"] > 20) * 1.0, binary=True)
    few = Metric("few", "20 heads or fewer", lambda setting, answers: (answers["heads"] <= 20) * 1.0, True, True)
    short = Metric("short", "20 heads or fewer", few.of, binary=True)
    family = toy.FAMILY
    monkeypatch.setitem(families.FAMILIES, "toy", family.__class__(**{**vars(family), "metrics": (lots, few, short)}))


def study(*budgets: int, **policy: object) -> Study:
    mapping = {
        "runs": 1,
        "problem": {"kind": "toy/coins"},
        "policy": [{"kind": "best"}],
        "sweep": {"budget": [*budgets]},
    }
    return Study.of(mapping)


@pytest.mark.parametrize("metric", ["lots", "few"])
def test_the_budget_that_is_needed(metric: str) -> None:
    from scipy.stats import binom

    share = 0.9 if metric == "lots" else 0.1
    given = study(10, 200)
    (found,) = needed.needed(given, needed.goal(given, metric, share), within=0.01, most_runs=400_000, progress=False)
    exact = next(budget for budget in range(10, 200) if binom.sf(20, budget, 0.8) >= 0.9)
    assert found.low is not None
    assert found.high is not None
    assert found.low < exact <= found.high
    assert found.high - found.low <= 3
    assert found.runs <= 400_000


def test_what_can_be_afforded() -> None:
    from scipy.stats import binom

    given = study(10, 200)
    (found,) = needed.needed(given, needed.goal(given, "short", 0.9), within=0.01, most_runs=400_000, progress=False)
    exact = max(budget for budget in range(10, 200) if binom.cdf(20, budget, 0.8) >= 0.9)
    assert found.low is not None
    assert found.high is not None
    assert found.high <= exact < found.low
    assert "no longer at" in needed.sentence(found, needed.goal(given, "short", 0.9), "budget")


def test_ranges_that_end_first() -> None:
    given = study(10, 15)
    (found,) = needed.needed(given, needed.goal(given, "lots", 0.9), progress=False)
    assert (found.low, found.high) == (15, None)
    given = study(100, 200)
    (found,) = needed.needed(given, needed.goal(given, "lots", 0.9), progress=False)
    assert (found.low, found.high) == (None, 100)


def test_checkpoints_are_budgets_of_the_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So they tell the range, and play no part where another parameter is searched."""
    file, best = tmp_path / "study.toml", '[[policy]]\nkind = "best"\n'
    file.write_text(f'runs = 1\ncheckpoints = [10, 15]\n[problem]\nkind = "toy/coins"\nbudget = 20\n{best}')
    wanted = ["plan", str(file), "--metric", "lots", "--reach", "0.9", "--most-runs", "1000"]
    assert cli.main(wanted) == 0
    assert "best: lots >= 0.9 is not surely reached up to budget 20 (" in capsys.readouterr().err
    assert needed._range(load(file), "budget", None, None) == (10, 20)
    entities = 'kind = "cleaning/synthetic"\nentities = 10\nbudget = 2_000\n[[policy]]\nkind = "random"\n'
    file.write_text(f"checkpoints = [100]\n[problem]\n{entities}")
    wanted = ["plan", str(file), "--reach", "1", "--parameter", "entities", "--to", "11", "--most-runs", "512"]
    assert cli.main(wanted) == 0
    line = "jaxbandit: checkpoints are left out: values of entities are tried with the whole budget, 2,000\n"
    assert line in capsys.readouterr().err


def test_a_regret_of_0_in_the_first_runs_is_not_taken_for_the_mean() -> None:
    """Of two arms of means 0.9 and 0.1, the worse is chosen once in thousands of runs: by enumeration."""
    from scipy.stats import binom

    def regret(budget: int) -> float:
        n, ones = budget // 2, range(budget // 2 + 1)
        less = sum(binom.pmf(j, n, 0.9) * (binom.sf(j, n, 0.1) + binom.pmf(j, n, 0.1) / 2) for j in ones)
        return 0.8 * float(less)

    arms = {"kind": "topk/bernoulli", "means": {"list": [0.9, 0.1]}, "K": 1, "budget": 2}
    given = Study.of({"runs": 1, "problem": arms, "policy": [{"kind": "uniform"}]})
    wanted = needed.goal(given, "regret", 0.001)
    (found,) = needed.needed(given, wanted, low=2, high=64, within=0.3, progress=False)
    assert found.low is not None
    assert found.high is not None
    assert regret(found.low) > 0.001 >= regret(found.high)
    (at,) = given.settings()
    with pytest.raises(BadInput, match="--reach = 2: a number from 0 to 1, as regret is one"):
        needed.needed(given, needed.goal(given, "regret", 2), low=2, high=64, progress=False)
    rows = [wanted.metric.bounded(at[0]), families.FAMILIES["topk"].metrics[4].bounded(at[0])]
    assert rows == [True, False]  # a regret is from 0 to 1 here, pulls are not


def test_an_end_that_is_the_goal_leaves_what_is_known_of_the_other() -> None:
    """Of two coins of 0.6 and 0.4, thrown once each, the better one is found with a probability of 0.6 exactly."""
    arms = {"kind": "topk/bernoulli", "means": {"list": [0.6, 0.4]}, "K": 1, "budget": 2}
    given = Study.of({"runs": 1, "problem": arms, "policy": [{"kind": "uniform"}]})
    wanted = needed.goal(given, "exact", 0.6)
    (found,) = needed.needed(given, wanted, low=2, high=100, most_runs=20_000, progress=False)
    assert (found.low, found.told) == (None, False)
    assert found.high is not None
    assert 2 < found.high <= 100
    said = needed.sentence(found, wanted, "budget")
    assert f"at a budget of {found.high:,} ({found.mean:.4g}); the runs do not tell how far" in said


@pytest.mark.parametrize(
    ("low", "high", "told", "value", "reached"),
    [
        (9, 10, True, 10.0, "from here on"),
        (10, 9, True, 9.0, "up to here"),
        (None, 10, True, None, "everywhere"),
        (10, None, True, None, "nowhere"),
        (None, 10, False, None, "not told"),
    ],
)
def test_an_end_of_the_range_is_no_answer(
    low: int | None, high: int | None, told: bool, value: float | None, reached: str
) -> None:
    found = needed.Needed("ee", "ee", {"t": 3}, low, high, 0.5, 100, told)
    (row,) = needed.rows_of([found], needed.goal(study(10, 200), "lots", 0.9), "budget")
    assert (row["mean"], row["params"]) == (value, {"t": 3, "reached": reached})
    assert (row["ci_low"], row["ci_high"]) == ((9, 10) if low and high else (low, high))


def test_runs_that_fail_have_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    family = families.FAMILIES["toy"]
    monkeypatch.setitem(families.FAMILIES, "toy", replace(family, failed=lambda answers: answers["heads"] > 90))
    given = study(10, 200)
    with pytest.raises(BadInput, match="--metric = lots: one that has a value in each run of best"):
        needed.needed(given, needed.goal(given, "lots", 0.9), progress=False)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "study.toml"
    file.write_text('runs = 1\n[problem]\nkind = "toy/coins"\nbudget = 30\n[[policy]]\nkind = "best"\n')
    assert cli.main(["plan", str(file), "--metric", "lots", "--reach", "0.9", "--from", "10", "--to", "100"]) == 0
    told = capsys.readouterr()
    assert "budget for lots >= 0.9" in told.out
    assert "best: lots >= 0.9 takes a budget above" in told.err


def test_what_was_found_is_said_before_the_next_policy_is_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, search = tmp_path / "study.toml", needed._Search.between
    file.write_text(
        'runs = 1\n[problem]\nkind = "toy/coins"\nbudget = 30\n[[policy]]\nkind = "mixed"\nshare = [1, 0]\n'
    )

    def once(self: needed._Search, first: int, last: int, within: float) -> needed.Needed:
        if self.place:
            raise KeyboardInterrupt
        return search(self, first, last, within)

    monkeypatch.setattr(needed._Search, "between", once)
    with pytest.raises(KeyboardInterrupt):
        cli.main(["plan", str(file), "--metric", "lots", "--reach", "0.9", "--from", "10", "--to", "100"])
    assert "mixed share=1: lots >= 0.9 takes a budget above" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metric": "speed"}, "--metric = speed: one of lots, few, short"),
        ({"value": float("nan")}, "--reach = nan"),
        ({"value": 1.5}, "--reach = 1.5: a number from 0 to 1, as lots is one"),
        ({"value": -1.0}, "--reach = -1.0: a number from 0 to 1, as lots is one"),
        ({"parameter": "odd"}, "--parameter = odd: a parameter of the problem"),
        ({"low": 50, "high": 20}, "--from = 50"),
        ({"low": 50, "high": 2**40}, "--to = 1099511627776: at most 2147483647"),
        ({"within": 0}, "--within = 0"),
        ({"most_runs": 100}, "--most-runs = 100: at least 512, with which the ends of the range are tried"),
    ],
)
def test_bad_input(given: dict[str, object], message: str) -> None:
    each = study(10, 200)
    rest = {key: value for key, value in given.items() if key not in ("metric", "value")}

    def ask() -> None:
        wanted = needed.goal(each, given.get("metric", "lots"), given.get("value", 0.9))  # type: ignore[arg-type]
        needed.needed(each, wanted, progress=False, **rest)  # type: ignore[arg-type]

    with pytest.raises(BadInput) as error:
        ask()
    assert message in str(error.value)


def test_all_budgets_of_a_bisection_share_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    means = {"list": [0.3 + 0.008 * arm for arm in range(50)]}
    arms = {"kind": "topk/bernoulli", "means": means, "K": 5}
    cases = [
        (arms, ("optmai", "sar", "uniform", "lucb"), [50, 700, 5_000]),
        ({"kind": "extraction/people"}, ("crux", "bfs"), [2, 20, 40]),
    ]
    programs: dict[str, set[object]] = {}
    for problem, kinds, budgets in cases:
        given = {"problem": problem, "policy": [{"kind": kind} for kind in kinds], "sweep": {"budget": budgets}}
        planned = needed._roomy(Study.of(given, counted=False), "budget", budgets[-1])
        for value in budgets:
            for each in needed._at(planned, "budget", value):
                (program,) = needed._batch(each, planned).programs([0], runs=256, room=needed._ROOM)
                programs.setdefault(each.name, set()).add(program.key)
    assert {name: len(keys) for name, keys in programs.items()} == dict.fromkeys(programs, 1)


def test_a_policy_that_is_tuned_is_shown_as_it_is_where_the_goal_is_reached() -> None:
    entities = {"kind": "cleaning/synthetic", "entities": 10, "budget": 60}
    given = Study.of({"runs": 1, "problem": entities, "policy": [{"kind": "ee"}]})
    wanted = needed.goal(given, "removed", 38)
    (found,) = needed.needed(given, wanted, "entities", 10, 400, within=0.5, most_runs=20_000, progress=False)
    (first,), (there,) = needed._at(given, "entities", 10), needed._at(given, "entities", found.high or 0)
    assert (first.params["t"], first.params["q"]) != (there.params["t"], there.params["q"])
    assert (found.params["t"], found.params["q"]) == (there.params["t"], there.params["q"])


def test_a_least_value_that_is_too_small_is_the_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody wrote a budget of 1: it is a 64th of the study's."""
    path = tmp_path / "study.toml"
    problem = '[problem]\nkind = "topk/bernoulli"\nn = 12\nK = 2\nbudget = 100\n'
    path.write_text(f'{problem}[[policy]]\nkind = "uniform"\n')
    plan = ["plan", str(path), "--metric", "regret", "--reach", "0.01"]
    assert cli.main(plan) == 2
    least = "at least 12 for uniform, a pull for each arm"
    assert capsys.readouterr().err.endswith(f"--from = 1: {least}; left out, it comes from the study's values\n")
    assert cli.main([*plan, "--from", "2"]) == 2
    assert capsys.readouterr().err.endswith(f"--from = 2: {least}\n")
    assert cli.main([*plan, "--parameter", "K", "--from", "1", "--to", "13"]) == 2
    assert "--to = 13: a whole number from 1 to 12" in capsys.readouterr().err


_LOTS = Metric("lots", "lots", lambda setting, answers: (answers["heads"] > 20) * 1.0, binary=True)
_FEW = Metric("few", "few", lambda setting, answers: (answers["heads"] <= 20) * 1.0, binary=True)


def test_plan_does_as_its_options_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(families.FAMILIES, "toy", replace(toy.FAMILY, metrics=(_LOTS, _FEW)))
    file = tmp_path / "study.toml"
    file.write_text('runs = 1\n[problem]\nkind = "toy/coins"\nbudget = 30\n[[policy]]\nkind = "best"\n')

    def planned(*words: str) -> dict[str, Any]:
        assert cli.main(["plan", str(file), "--reach", "0.9", "--format", "json", *words]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert isinstance(row, dict)
        return row

    wide = planned("--metric", "few", "--from", "10", "--to", "100", "--within", "1")
    assert wide["metric"] == "budget for few >= 0.9"
    assert wide["ci_high"] - wide["ci_low"] > 3
    assert planned("--metric", "lots", "--from", "10", "--to", "15")["ci_high"] is None
    assert planned("--metric", "lots", "--from", "10", "--to", "100", "--most-runs", "1100")["runs"] <= 1100


def test_all_values_that_are_tried_share_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(families.FAMILIES, "toy", replace(toy.FAMILY, metrics=(_LOTS,)))
    levels: list[float] = []

    def always(runs: int, level: float = 0.05) -> Always:
        levels.append(level)
        return Always(runs, level)

    monkeypatch.setattr(needed, "Always", always)
    swept = {"runs": 1, "problem": {"kind": "toy/coins"}, "policy": [{"kind": "best"}], "sweep": {"budget": [10, 200]}}
    given = Study.of(swept)
    needed.needed(given, needed.goal(given, "lots", 0.9), progress=False)
    assert len(levels) > 3
    assert sum(levels) <= 0.05
