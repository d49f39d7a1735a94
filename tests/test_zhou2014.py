"""The figures of Zhou, Chen and Li 2014: they build, and their numbers come out in the paper's order."""

from dataclasses import replace
from pathlib import Path

import pytest

from jaxbandit.errors import BadInput
from jaxbandit.papers import FIGURES
from jaxbandit.study.figure import Plan, Request, reproduce
from jaxbandit.study.run import run
from jaxbandit.study.summary import Row

RTE = Path(__file__).parents[1] / ".." / "shared" / "data" / "rte"
SIMULATED = [*(f"fig1{letter}" for letter in "abcdef"), "appendix-truncated-normal", "appendix-beta"]
REAL = [f"fig2{letter}" for letter in "abcdefgh"]


def plan(name: str, runs: int = 4, data: Path | None = None) -> Plan:
    return FIGURES[f"zhou2014/{name}"].make(Request(runs, data=data))


def find(rows: list[Row], policy: str, metric: str, **params: object) -> Row:
    (row,) = (
        row for row in rows
        if (row["policy"], row["metric"]) == (policy, metric)
        and all(row["params"].get(name) == value for name, value in params.items())
    )  # fmt: skip
    return row


@pytest.fixture
def workers(tmp_path: Path) -> Path:
    """Forty workers, a quarter of whom are right 19 times of 20, and the others 10 to 12 times."""
    path = tmp_path / "workers.csv"
    right = [19] * 10 + [10, 11, 12] * 10
    path.write_text("worker,correct,answered\n" + "".join(f"{i},{count},20\n" for i, count in enumerate(right)))
    return path


@pytest.mark.smoke
def test_every_plan_builds(workers: Path) -> None:
    assert {name for name in FIGURES if name.startswith("zhou2014/")} == {
        f"zhou2014/{name}" for name in [*SIMULATED, *REAL]
    }
    for name in SIMULATED:
        (study,) = plan(name, runs=2000).studies
        assert {each.name for each in study.configurations()} == {"optmai", "sar", "lucb", "uniform"}
        ours = [each.params for each in study.configurations() if each.name == "optmai"]
        assert {(params["n"], params["beta"]) for params in ours} == {(1000, 0.8), (1000, 0.9)}
        assert study.runs == 2000
    for name, times in zip("abcdef", [20, 50, 100] * 2, strict=True):
        (budget,) = {each.params["budget"] for each in plan(f"fig1{name}").studies[0].configurations()}
        assert budget == times * 1000
    for name in ("fig2e", "fig2f"):
        (study,) = plan(name, data=workers).studies
        assert {(each.params["K"], each.params["budget"]) for each in study.configurations()} == {(20, 400)}


@pytest.mark.parametrize("name", REAL)
def test_data_are_asked_for(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"--data = missing: a table of workers"):
        plan(name)
    with pytest.raises(BadInput, match=r"--data = .*: a table of workers"):
        plan(name, data=tmp_path)


def test_histogram(workers: Path, tmp_path: Path) -> None:
    rows = reproduce(FIGURES["zhou2014/fig2a"], Request(1, data=workers), tmp_path / "out")
    counts = {row["params"]["accuracy"]: row["mean"] for row in rows if row["mean"]}
    assert counts == {0.5: 10, 0.55: 10, 0.6: 10, 0.95: 10}
    assert (tmp_path / "out" / "figure.png").stat().st_size > 10_000


def test_order_of_the_rules(workers: Path, tmp_path: Path) -> None:
    # LUCB has no regret in any run: of 300 such runs the mean may still be 0.013.
    study = replace(plan("fig2b", runs=1000, data=workers).studies[0], sweep={"K": [5]})
    tied = [{"kind": "sar", "ties": "lowest"}]
    rows = run(replace(study, policies=[*study.policies, *tied]), tmp_path / "out")
    regrets = {name: find(rows, name, "regret", **params) for name, params in RULES.items()}
    assert regrets["uniform"]["ci_low"] is not None
    for name in ("optmai", "sar", "lucb"):
        assert regrets[name]["ci_high"] is not None
        assert regrets[name]["ci_high"] < regrets["uniform"]["ci_low"]
    # Ten workers are alike. The lowest of them are taken as soon as they tie, and those that are worse with them.
    careless, careful = (find(rows, "sar", "regret", ties=ties)["mean"] for ties in ("lowest", "random"))
    assert careless is not None
    assert careful is not None
    assert careful < careless / 2


RULES = {"optmai": {"beta": 0.8}, "sar": {"ties": "random"}, "lucb": {}, "uniform": {}}


def test_tasks_beside_the_published(workers: Path) -> None:
    made = plan("fig2f", data=workers)
    assert made.rows is not None
    assert made.axes is not None
    params = {"K": 20, "budget": 400}
    values = {"pulls": 400.0, "pulls_0": 4.0, "pulls_100": 17.5, "regret": 0.1}
    rows = [Row(policy="lucb", params=params, metric=name, mean=mean, ci_low=mean, ci_high=mean, runs=9)
            for name, mean in values.items()]  # fmt: skip
    more = made.rows(rows)
    tasks = {row["params"]["percentile"]: row["mean"] for row in more if row["metric"] == "tasks"}
    assert tasks == {0: 4.0, 100: 17.5}
    published = [(row["policy"], row["params"], row["mean"]) for row in more if row["metric"] == "published_tasks"]
    assert published == [
        ("optmai", {"percentile": 100}, 48), ("lucb", {"percentile": 0}, 6), ("lucb", {"percentile": 100}, 17),
    ]  # fmt: skip
    assert set(made.axes.draw(more, "")["series"]) == {"lucb"}


def test_what_the_figures_draw_and_at_which_budget(tmp_path: Path) -> None:
    workers = tmp_path / "workers.csv"
    workers.write_text("worker,correct,answered\n" + "".join(f"{i},{10 + i % 9},20\n" for i in range(120)))
    drawn = {"fig1a": "regret", "fig2b": "regret", "fig2g": "expected_precision"}
    for name, metric in drawn.items():
        made = FIGURES[f"zhou2014/{name}"].make(Request(4, data=workers if name != "fig1a" else None))
        assert made.axes is not None
        assert made.axes.metric == metric
    for letter, times in zip("bcdgh", (10, 20, 50, 10, 20), strict=True):
        (study,) = FIGURES[f"zhou2014/fig2{letter}"].make(Request(4, data=workers)).studies
        assert study.problem["budget"] == times * 120
