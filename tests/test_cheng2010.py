"""The figures of Cheng et al. 2010: they build, and their numbers come out in the paper's order."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from jaxbandit.errors import BadInput
from jaxbandit.papers import FIGURES
from jaxbandit.papers.cheng2010 import EARLY_STOPPING, LEADS, lead
from jaxbandit.study.figure import Plan, Request, reproduce
from jaxbandit.study.run import run
from jaxbandit.study.summary import Row

FLIGHTS = Path(__file__).parents[1] / ".." / "shared" / "data" / "flights"
NAMES = [f"fig4{letter}" for letter in "abcdefghijkl"] + ["parameters", "beyond"]


def plan(name: str, runs: int = 4, data: Path | None = None) -> Plan:
    return FIGURES[f"cheng2010/{name}"].make(Request(runs, data=data))


def find(rows: list[Row], policy: str, metric: str, **params: object) -> Row:
    (row,) = (
        row for row in rows
        if (row["policy"], row["metric"]) == (policy, metric)
        and all(row["params"].get(name) == value for name, value in params.items())
    )  # fmt: skip
    return row


def value(row: Row) -> float:
    assert row["mean"] is not None
    return row["mean"]


def row(mean: float, half: float | None) -> Row:
    low, high = (None, None) if half is None else (mean - half, mean + half)
    return Row(policy="", params={}, metric="", mean=mean, ci_low=low, ci_high=high, runs=9)


@pytest.mark.smoke
def test_every_plan_builds() -> None:
    assert set(FIGURES) >= {f"cheng2010/{name}" for name in NAMES}
    for name in NAMES:
        made = plan(name)
        assert made.studies or made.rows
        assert (made.axes is None) == (name == "parameters")
        assert (made.timings is not None) == (name in ("fig4i", "fig4j", "fig4l", "parameters"))


def test_order_of_figure_4a(tmp_path: Path) -> None:
    made = plan("fig4a", runs=24)
    assert made.rows is not None
    study = replace(made.studies[0], sweep={"budget": [10_000]})
    rows = run(study, tmp_path)
    found = [find(rows, name, "effectiveness") for name in ("known-sc", "ee", "epsilon-greedy")]
    for better, worse in itertools.pairwise(found):
        assert better["ci_low"] is not None
        assert worse["ci_high"] is not None
        assert better["ci_low"] > worse["ci_high"]
    greedy, blind = find(rows, "greedy", "effectiveness"), find(rows, "random", "effectiveness")
    assert greedy["ci_low"] is not None
    assert greedy["ci_high"] is not None
    assert greedy["ci_low"] - 0.01 < value(blind) < greedy["ci_high"] + 0.01
    assert value(found[2]) > value(greedy) + 0.05
    more = made.rows(rows)
    for heuristic, percent in LEADS["cheng2010/fig4a"][1].items():
        assert value(find(more, "ee", "published_lead_percent", over=heuristic)) == percent
        measured = find(more, "ee", "lead_percent", over=heuristic)
        assert measured["ci_low"] is not None
        assert measured["ci_high"] is not None
        # Ties drawn at random: see docs/papers.md.
        expected = 8.5 if heuristic == "epsilon-greedy" else percent
        assert measured["ci_low"] - 1 < expected < measured["ci_high"] + 1


def test_parameters(tmp_path: Path) -> None:
    rows = reproduce(FIGURES["cheng2010/parameters"], Request(1), tmp_path)
    for tuning in ("lemma3", "published"):
        assert value(find(rows, "ee", "t", tuning=tuning)) == 3
        assert value(find(rows, "ee", "q", tuning=tuning)) == pytest.approx(0.667)
    assert value(find(rows, "ee", "t_hat", tuning="lemma3")) == 19
    assert value(find(rows, "ee", "last_q", tuning="lemma3")) == 1
    assert value(find(rows, "ee", "effectiveness", tuning="exact")) > 0.69
    assert (tmp_path / "timings.json").exists()


def test_beyond(tmp_path: Path) -> None:
    rows = reproduce(FIGURES["cheng2010/beyond"], Request(48), tmp_path)
    first, second = (find(rows, "ee", "effectiveness", tuning=tuning) for tuning in ("lemma3", "exact"))
    index, known = (find(rows, name, "effectiveness") for name in ("index", "known-sc"))
    assert value(first) < value(second) < value(index) < value(known)
    for sampled in (first, second):
        assert sampled["ci_low"] is not None
        assert sampled["ci_high"] is not None
        expected = find(rows, "ee", "expected_effectiveness", tuning=sampled["params"]["tuning"])
        assert expected["runs"] == 0
        slack = sampled["ci_high"] - sampled["ci_low"]  # twice the interval, so that chance is no failure
        assert abs(value(expected) - value(sampled)) < slack
    assert value(index) < value(find(rows, "index", "effectiveness_bound")) + 0.005


def test_early_stopping(tmp_path: Path) -> None:
    made = plan("fig4h", runs=200)
    assert made.rows is not None
    more = made.rows(run(replace(made.studies[0], sweep={"budget": [2_000, 5_000]}), tmp_path))
    assert value(find(more, "ee", "mean_gain_percent")) == pytest.approx(11.6, abs=1)
    assert value(find(more, "ee", "published_mean_gain_percent")) == EARLY_STOPPING


def test_lead() -> None:
    mean, (low, high) = lead(row(0.6, 0.003), row(0.5, 0.0))
    assert mean == pytest.approx(20)
    assert low == pytest.approx(20 - 0.6, abs=0.01)
    assert high == pytest.approx(20 + 0.6, abs=0.01)
    assert lead(row(0.6, None), row(0.5, 0.1))[1] == (None, None)
    assert lead(row(0.6, 0.1), row(0.0, 0.1)) == (None, (None, None))


def test_no_flights(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="claims"):
        plan("fig4k", data=tmp_path)


@pytest.mark.skipif(not FLIGHTS.is_dir(), reason="no ../shared/data/flights: the flights' claims are not part of this")
def test_flights(tmp_path: Path) -> None:
    movies, flights = plan("fig4k", runs=8, data=FLIGHTS).studies
    assert movies.labels == {"data": "movies"}
    assert flights.labels == {"data": "flights"}
    ee_alone = replace(flights, policies=[{"kind": "ee"}], sweep={"budget": [200]})
    rows = run(ee_alone, tmp_path)
    assert 0.4 < value(find(rows, "ee", "effectiveness", data="flights")) < 0.8


def test_what_the_figures_draw() -> None:
    drawn = {"cheng2010/fig4a": "effectiveness", "cheng2010/fig4b": "removed", "ban2020/fig2": "best_ranking",
             "ban2020/fig6": "pulls"}  # fmt: skip
    for name, metric in drawn.items():
        axes = FIGURES[name].make(Request(4)).axes
        assert axes is not None
        assert axes.metric == metric
