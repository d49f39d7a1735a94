"""``tune`` and ``run`` agree: what EE is expected to remove is what it removes, also where entities run out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxbandit.cleaning import expectation, gamma
from jaxbandit.cleaning.ee import ee, needed
from jaxbandit.cleaning.family import Setting, tune
from jaxbandit.engine import simulate
from jaxbandit.laws import Uniform
from jaxbandit.study.spec import Study

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"
RULES = [(2, 0.501), (3, 0.667), (1, 1.0), (5, 0.0), (4, 0.25)]
RUNS = 1500


def setting_of(problem: dict[str, Any], base: Path | None = None) -> Setting:
    study = Study.of({"runs": 1, "problem": {"budget": 1, **problem}, "policy": [{"kind": "random"}]}, base=base)
    ((setting, _),) = study.settings()
    return setting


def check(setting: Setting, budgets: list[int]) -> None:
    """Each (t, q) at each budget; 4.5 standard errors are missed in one of 147,000 comparisons."""
    chosen = [(replace(setting, budget=budget), t, q) for budget in budgets for t, q in RULES]
    answers = simulate([each.problem() for each, *_ in chosen], [ee(t, q) for _, t, q in chosen], runs=RUNS)
    for (each, t, q), removed in zip(chosen, answers["removed"], strict=True):
        error = removed.std(ddof=1) / np.sqrt(RUNS)
        assert abs(removed.mean() - each.expected(t, needed(t, q))) < 4.5 * error + 1e-6 * removed.mean(), (each, t, q)


def test_a_table(tmp_path: Path) -> None:
    counts = np.repeat([0, 1, 2, 3, 6], [8, 20, 10, 6, 4])
    rows = [f"e{number},{value}" for number, r in enumerate(counts) for value in range(r + 1)]
    (tmp_path / "claims.csv").write_text("\n".join(["entity,value", *rows]))
    problem = {"kind": "cleaning/table", "path": "claims.csv", "entity": "entity", "value": "value"}
    setting = setting_of({**problem, "sc_pdf": {"beta": [2, 3]}}, tmp_path)
    assert setting.entities == 48
    check(setting, [10, 60, 120, 200, 600])


def test_flights() -> None:
    path = DATA / "flights" / "claims.csv"
    if not path.exists():
        pytest.skip("the flights data is not beside the project, in ../shared/data")
    times = ["sched_dep_time", "act_dep_time", "sched_arr_time", "act_arr_time"]
    problem = {"kind": "cleaning/table", "path": str(path.absolute()), "entity": "flight", "value": times}
    setting = setting_of(problem)
    check(setting, [100, 550, 1000, 4000])
    # The renewal formula alone, without an end of entities, gives 0.5639 at any budget.
    assert replace(setting, budget=100).expected(2, 2) / 100 == pytest.approx(0.5639, abs=2e-4)
    assert replace(setting, budget=1000).expected(2, 2) / 1000 == pytest.approx(0.3245, abs=2e-4)


def test_entities_that_are_drawn() -> None:
    problem = {"kind": "cleaning/synthetic", "entities": 60, "false_values": {"uniform": [0, 5]}}
    check(setting_of(problem), [20, 150, 400, 3000])


def test_a_large_table_and_a_large_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no longer exact is close by; every approximation meets the exact value at its border."""
    rows = np.repeat([1, 2, 4], [60, 30, 20])
    table = type("Rows", (), {"false_values": rows})()
    law = np.bincount(rows).astype(float)
    listed = [Setting(budget, rows.size, law, Uniform(), table) for budget in (50, 300, 5000)]
    exact = [each.expected(3, 2) for each in listed]
    monkeypatch.setattr(expectation, "MOST_LISTED", 0)
    assert [each.expected(3, 2) for each in listed] == pytest.approx(exact, rel=5e-3)
    monkeypatch.setattr(expectation, "MOST_EXPECTED", 1)
    gain, cost = listed[0].visits(3, 2)
    assert [each.expected(3, 2) for each in listed] == pytest.approx(
        [gain * min(1, each.budget / cost) for each in listed]
    )
    assert listed[-1].expected(3, 2) == pytest.approx(exact[-1], rel=1e-5)


def test_a_visit_is_gammas() -> None:
    cells, law = np.full(100, 0.01), np.array([0.5, 0.2, 0.0, 0.3])
    for t, need in [(1, 0), (1, 1), (3, 2), (5, 4)]:
        for early in (True, False):
            gain, cost = gamma.visit(t, need, cells, law, early_stopping=early)
            assert gain / cost == pytest.approx(gamma.gamma_exact(cells, law, 5, early_stopping=early)[t - 1, need])
    assert gamma.visit(1, 0, cells, law)[0] == pytest.approx(1.1)  # all of them, in the end


def test_rows() -> None:
    setting = setting_of({"kind": "cleaning/synthetic", "entities": 200, "false_values": {"uniform": [0, 4]}})
    found = {(row["metric"], row["params"].get("tuning")): row for row in tune(replace(setting, budget=1000))}
    for tuning in ("lemma3", "exact"):
        at = found["runs_out_at", tuning]
        t, q = at["params"]["t"], at["params"]["q"]
        assert found["effectiveness", tuning]["mean"] < found["gamma", tuning]["mean"]
        gain, cost = setting.visits(t, needed(t, q))
        assert at["mean"] == cost < 1000
        assert found["effectiveness", tuning]["mean"] == pytest.approx(gain / 1000, rel=1e-3)
