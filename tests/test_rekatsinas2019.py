"""The figures of Rekatsinas et al. 2019: they build, and their numbers come out in the published order."""

from dataclasses import replace
from pathlib import Path

import pytest

from jaxbandit.extraction.estimators import ESTIMATORS
from jaxbandit.papers import FIGURES
from jaxbandit.papers.rekatsinas2019 import AT, EVENTBRITE, PEOPLE, POLICIES, estimates, title
from jaxbandit.study.figure import Plan, Request
from jaxbandit.study.run import run
from jaxbandit.study.summary import Row

NAMES = [
    "extraction-people",
    "extraction-eventbrite",
    "estimators",
    "readings",
    "exclude-lists",
    "step-cost",
    "empty-answers",
]


def plan(name: str, runs: int = 4) -> Plan:
    return FIGURES[f"rekatsinas2019/{name}"].make(Request(runs))


def entities(rows: list[Row], name: str, model: str, budget: int) -> Row:
    (row,) = (
        row for row in rows
        if (title(row), row["metric"]) == (name, "entities")
        and (row["params"]["answer_model"], row["params"]["budget"]) == (model, budget)
    )  # fmt: skip
    return row


def above(row: Row, other: Row) -> bool:
    """Whether the intervals of two rows say so."""
    return row["ci_low"] is not None and other["ci_high"] is not None and row["ci_low"] > other["ci_high"]


@pytest.mark.smoke
def test_every_plan_builds() -> None:
    for name in NAMES:
        made = plan(name)
        assert made.axes is not None
        assert made.studies or made.rows
        for study in made.studies:
            assert study.problem["kind"].startswith("extraction/")


def test_published_numbers_stand_beside_the_rows() -> None:
    for figure, table in (("extraction-people", PEOPLE), ("extraction-eventbrite", EVENTBRITE)):
        made = plan(figure)
        assert made.rows is not None
        found = {(title(row), row["params"]["budget"]): row["mean"] for row in made.rows([])}
        assert found == {(name, budget): value for name, points in table.items() for budget, value in points.items()}
        assert made.axes is not None
        assert set(made.axes.published) == set(table)


@pytest.mark.slow
def test_skewed_answers_need_the_hierarchy(tmp_path: Path) -> None:
    """Budget 20, people: as published, GSChao is far above asking the root alone, which is at its end. Not so where
    answers are proportional to popularity."""
    first = plan("extraction-people", runs=12).studies[0]
    policies = [POLICIES["RootChao"], POLICIES["GSChao"]]
    sweep = {**first.sweep, "budget": [20]}
    rows = run(replace(first, policies=policies, sweep=sweep), tmp_path)
    chao, root = ([entities(rows, name, model, 20) for model in ("k-largest", "proportional")]
                  for name in ("GSChao", "RootChao"))  # fmt: skip
    assert above(chao[0], root[0])
    assert not above(chao[1], root[1])
    assert root[0]["mean"] == pytest.approx(PEOPLE["RootChao"][20], abs=10)
    assert all(row["mean"] == 0 for row in rows if row["metric"] == "overflow")


def test_estimates() -> None:
    """Under a skewed law, with many answers, Good-Turing is unbiased and K' = K says too much."""
    rows = estimates("people", "proportional", 8)

    def mean(name: str, metric: str, answers: int, length: int = 0) -> float:
        (value,) = (
            row["mean"] for row in rows
            if (row["policy"], row["metric"], row["params"]["answers"], row["params"]["l"])
            == (name, metric, answers, length)
        )  # fmt: skip
        assert value is not None
        return value

    last = 20 * AT[-1]
    assert {row["policy"] for row in rows} == {*ESTIMATORS, "new-regr", "true"}
    # Of 1,000 answers some 450 people are new: a query brings fewer and fewer.
    assert mean("true", "gain", 40) > 15 > 9 > mean("true", "gain", last) > 4
    assert abs(mean("good-turing", "bias", last)) < 1
    assert mean("new-regr-same", "bias", last) > 1
    # An exclude list makes room for others.
    assert mean("true", "gain", 100, 10) > mean("true", "gain", 100)
