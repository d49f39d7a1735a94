"""``tune`` and ``run`` agree: what EE is expected to remove is what it removes, also where entities run out."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxbandit.cleaning import expectation, gamma
from jaxbandit.cleaning.ee import ee, needed
from jaxbandit.cleaning.family import FAMILY, Setting, tune
from jaxbandit.cleaning.problem import of_table
from jaxbandit.cleaning.renewal import expected_removed
from jaxbandit.engine import simulate
from jaxbandit.laws import Beta, Uniform
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


@pytest.mark.slow
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
    # The table in docs/cleaning.md.
    worth = {700: ((5, 4), 360.1), 1000: ((6, 4), 478.7), 2000: ((14, 3), 687.4), 4574: ((121, 3), 783.4)}
    for budget, (rule, removed) in worth.items():
        own = replace(setting, budget=budget)
        assert own.tuned("exact", 0.001, True)[:2] == rule
        assert own.expected(*rule) == pytest.approx(removed, abs=0.06)
        assert own.expected(3, 3) == pytest.approx(307.8, abs=0.06)


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
        assert at["mean"] == cost
        if tuning == "lemma3":
            assert cost < 700
            assert found["effectiveness", tuning]["mean"] == pytest.approx(gain / 1000, rel=1e-3)
    assert found["effectiveness", "exact"]["mean"] > 1.2 * found["effectiveness", "lemma3"]["mean"]


@pytest.mark.parametrize(("entities", "budget"), [(60, 40), (60, 150), (60, 400), (60, 5000), (5, 12)])
def test_the_tuned_rule_is_the_best_of_all_where_entities_run_out(entities: int, budget: int) -> None:
    law, cells = np.full(6, 1 / 6), np.full(100, 0.01)
    best = expectation.best_within(budget, cells, law, entities, 0.01, True)
    t, need, _ = gamma.rules(Fraction(1, 100), 16)
    removed = expected_removed(budget, t, need, cells, law, entities=entities).mean[:, -1]
    own = removed[(t == best.t) & (need == best.need)].item()
    assert own == pytest.approx(removed.max(), rel=1e-3)
    endless = gamma.tune(cells, law, 0.01)
    assert ((best.t, best.need) == (endless.t, endless.need)) is (budget == 40)


@pytest.mark.parametrize(
    ("budget", "entities", "false_values", "a", "b"), [(100, 30, 4, 0.05, 4), (20, 2, 20, 1, 1), (20, 10, 19, 0.3, 4)]
)
def test_no_rule_is_better_where_a_guess_says_little(
    budget: int, entities: int, false_values: int, a: float, b: float
) -> None:
    """As the budget cuts most visits, and rules are far from their order by Gamma."""
    cells, law = Beta(a, b).cells(0.01), np.eye(false_values + 1)[false_values]
    best = expectation.best_within(budget, cells, law, entities, 0.01, True)
    t, need, _ = gamma.rules(Fraction(1, 100), 24)
    removed = expected_removed(budget, t, need, cells, law, entities=entities).mean[:, -1]
    own = expectation.expected_within(budget, int(best.t), int(best.need), cells, law, entities, None, True)
    assert own >= removed.max() * (1 - 1e-9)


def test_wide_cells_move_what_is_expected_where_much_mass_is_in_one() -> None:
    """As the docstring of ``expected_removed`` says."""
    coarse, fine = (
        expected_removed(100, 5, 2, Beta(0.05, 4).cells(delta), np.eye(5)[4], entities=30).mean[-1]
        for delta in (1e-3, 1e-4)
    )
    assert fine / coarse == pytest.approx(1 - 0.017, abs=5e-4)


@pytest.mark.parametrize("budget", [200, 400, 1000])
def test_more_money_than_entities_ask_for_is_spent_on_more_tries(budget: int) -> None:
    """Of few entities, the best rule tries one far more often than Gamma's would, before it gives it up."""
    cells, law = Uniform().cells(0.001), np.array([11, 25, 4]) / 40

    def worth(t: int, need: int) -> float:
        return expectation.expected_within(budget, t, need, cells, law, 40, None, True)

    best = expectation.best_within(budget, cells, law, 40, 0.001, True)
    some = [worth(t, need) for t in (16, 32, 64, 128, 256) for need in (1, 2, 3)]
    assert best.t > 16
    assert worth(int(best.t), int(best.need)) > 0.995 * max(some)
    assert worth(int(best.t), int(best.need)) > 1.01 * max(*some[:3], worth(1, 0))


@pytest.mark.parametrize(("budget", "rule"), [(10, (1, 1)), (20, (2, 2)), (50, (3, 3)), (1000, (5, 5))])
def test_a_small_budget_is_worth_a_briefer_exploration(budget: int, rule: tuple[int, int]) -> None:
    """Also where entities are ample, as the budget cuts the last visit. Gamma's own rule is (5, 5)."""
    law, cells = np.eye(51)[50], Beta(0.3, 1).cells(0.01)
    best = expectation.best_within(budget, cells, law, 100_000, 0.01, True)
    assert (best.t, best.need) == rule
    if budget < 1000:
        t, need, _ = gamma.rules(Fraction(1, 100), 12)
        removed = expected_removed(budget, t, need, cells, law, entities=100_000).mean[:, -1]
        assert removed[(t == best.t) & (need == best.need)].item() == pytest.approx(removed.max(), rel=1e-9)


@pytest.mark.parametrize(("budget", "rule"), [(300, (1, 1)), (1000, (1, 1)), (7000, (10, 2))])
def test_a_budget_is_small_as_long_as_it_removes_few_values(budget: int, rule: tuple[int, int]) -> None:
    """Where success is rare, 1,000 operations remove 15 values. Gamma's own rule is (10, 2)."""
    law, cells = np.eye(4)[3], Beta(0.5, 40).cells(0.01)
    best = expectation.best_within(budget, cells, law, 100_000, 0.01, True)
    assert (best.t, best.need) == rule
    own, gammas = (expectation.expected_within(budget, t, need, cells, law, 100_000, None, True)
                   for t, need in (rule, (10, 2)))  # fmt: skip
    assert own > gammas if budget < 7000 else own == gammas


def test_many_false_values_make_few_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    """As each takes long. Without any, the guess is taken, which is Gamma's rule."""
    law, cells, compared = np.eye(301)[300], Uniform().cells(0.01), []
    monkeypatch.setattr(expectation, "expected_within", lambda _, t, need, *rest: compared.append((t, need)) or 1.0)
    for light, count in ((1 << 12, 48), (1 << 8, 21), (1 << 4, 0)):
        monkeypatch.setattr(expectation, "_LIGHT", light)
        best = expectation.best_within(100, cells, law, 100_000, 0.01, True)
        assert len(compared) == count
        compared.clear()
    endless = gamma.tune(cells, law, 0.01)
    assert (best.t, best.need) == (endless.t, endless.need)


def test_tuning_for_a_large_budget_needs_no_expectation(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it finds a rule as good."""
    law, cells = np.full(6, 1 / 6), np.full(100, 0.01)
    exact = expectation.best_within(2000, cells, law, 500, 0.01, True)
    monkeypatch.setattr(expectation, "_WORK", 1)
    guessed = expectation.best_within(2000, cells, law, 500, 0.01, True)
    monkeypatch.undo()
    found = [expectation.expected_within(2000, int(x.t), int(x.need), cells, law, 500, None, True)
             for x in (exact, guessed)]  # fmt: skip
    assert found[1] == pytest.approx(found[0], rel=0.01)


def test_the_default_tuning_removes_at_least_what_gammas_rule_does() -> None:
    """On a table whose entities run out at 300 operations by Gamma's rule. Runs meet the same entities, so differences
    are paired; 4.5 standard errors are missed in one of 147,000 comparisons."""
    rows = np.repeat([0, 1, 2, 3, 6], [8, 80, 60, 40, 20])
    table = type("Rows", (), {"false_values": rows})()
    listed = [
        Setting(budget, rows.size, np.bincount(rows) / 1.0, Beta(2, 3), table) for budget in (150, 300, 500, 1000)
    ]
    tuned = [FAMILY.policies["ee"].build(each, t=None, q=None, tuning="exact", delta=0.001, early_stopping=True)[0]
             for each in listed]  # fmt: skip
    best = gamma.tune(listed[0].sc_pdf.cells(0.001), listed[0].distribution, 0.001)
    endless = [ee(int(best.t), float(best.q))] * len(listed)
    problems = [of_table(budget=x.budget, false_values=rows, sc_pdf=x.sc_pdf) for x in listed]
    found = simulate(problems * 2, [*tuned, *endless], runs=500)["removed"].reshape(2, len(listed), 500)
    gained = (found[0] - found[1].astype(float)) / rows.sum()
    error = gained.std(axis=1, ddof=1) / np.sqrt(500)
    assert (gained.mean(axis=1) + 4.5 * error >= 0).all()
    assert (gained.mean(axis=1) - 4.5 * error)[2:].min() > 0.1
