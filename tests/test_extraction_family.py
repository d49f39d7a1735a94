"""Extraction from a study file: a user's table to rows, and one line for each mistake."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers import reproduction_rekatsinas2019 as reproduction
from jaxbandit import cli
from jaxbandit.extraction.options import crux
from jaxbandit.papers import FIGURES
from jaxbandit.parameters import parameters
from jaxbandit.study.figure import Request
from jaxbandit.study.run import run
from jaxbandit.study.summary import Row

TABLE = """cafe,place,kind,visits
Ada,US/Oregon/Salem,coffee,5
Bo,US/Oregon/Bend,coffee,1
Cy,US/Texas/Waco,tea,2
Di,Peru/Lima/Lima,tea,0
"""
PROBLEM = """kind = "extraction/table"
path = "cafes.csv"
attributes = ["place", "kind"]
entity = "cafe"
popularity = "visits"
configurations = [[1, 0], [2, 1]]
"""


@pytest.fixture(autouse=True)
def _one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")  # so that main leaves this process as it is


def study(folder: Path, problem: str, policy: str = 'kind = "rand"', table: str = TABLE) -> list[str]:
    (folder / "cafes.csv").write_text(table)
    (folder / "places.csv").write_text("child,parent\nSalem,Bend\nBend,Salem\n")
    (folder / "study.toml").write_text(f"runs = 20\n[problem]\n{problem}\n[[policy]]\n{policy}\n")
    return ["run", str(folder / "study.toml"), "--out", str(folder / "out")]


def test_a_table_to_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A budget of 40 buys all that is ever returned: Di has no popularity."""
    policies = 'kind = "rand"\n[[policy]]\nkind = "crux"\nestimator = "good-turing"'
    assert cli.main(study(tmp_path, PROBLEM + "budget = 40\n", policies)) == 0
    rows = json.loads((tmp_path / "out" / "summary.json").read_text())
    for name in ("rand", "crux"):
        own = {row["metric"]: row for row in rows if row["policy"] == name}
        assert own["entities"]["mean"] == 3
        assert own["overflow"]["mean"] == 0
        assert 1 <= own["mean_k"]["mean"] <= 2
        assert own["cost"]["mean"] <= 40
        assert own["entities"]["params"]["answer_model"] == "proportional"
    assert "entities" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("problem", "policy", "table", "line"),
    [
        (PROBLEM + "budget = 0.01\n", "", TABLE, "problem.budget = 0.01: at least 0.05, the cheapest query"),
        (PROBLEM + "budget = 3\n", 'kind = "bfs"\nconfiguration = [20, 5]', TABLE,
         "policy.bfs.configuration = (20, 5): one of (1, 0), (2, 1)"),
        (PROBLEM.replace("[2, 1]", "[2, 50]") + "budget = 3\n", "", TABLE,
         "problem.configurations = (2, 50): k from 1 to 20 and l from 0 to 10"),
        (PROBLEM.replace("[2, 1]", "2") + "budget = 3\n", "", TABLE, "problem.configurations = [[1, 0], 2]: "),
        (PROBLEM + "budget = 3\n", "", TABLE + "Ada,Peru/Lima/Lima,tea,1\n",
         "problem.cafe in line 6 = Ada: an entity once, on one leaf"),
        (PROBLEM + "budget = 3\n", "", TABLE.replace("Waco,tea,2", "Waco,tea,-2"),
         "problem.visits in line 4 = -2: a finite number, at least 0"),
        (PROBLEM + "budget = 3\n", "", TABLE + "Ed,US/Oregon,tea,1\n",
         "problem.place in line 6 = US/Oregon: a leaf; there is more below US/Oregon"),
        (PROBLEM + 'budget = 3\ntrees = { place = { path = "places.csv" } }\n', "", TABLE,
         "problem.trees.place = Salem: a tree; this value is below itself"),
        (PROBLEM + 'budget = 3\ntrees = { kind = "no.csv" }\n', "", TABLE, "problem.trees = {'kind': 'no.csv'}: "),
        (PROBLEM + "budget = 3\n", 'kind = "gs-exact"', TABLE, "problem.informed = False: true for gs-exact"),
        (PROBLEM + "budget = 3\n", 'kind = "crux"\ngain = "bootstrap-mean"\nbootstrap = 0', TABLE,
         "policy.crux.bootstrap = 0: at least 1 for gain = bootstrap-mean"),
        (PROBLEM + "budget = 3\n", 'kind = "crux"\nestimator = "chao"', TABLE,
         "policy.crux.estimator = chao: one of good-turing"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], problem: str, policy: str, table: str, line: str
) -> None:
    assert cli.main(study(tmp_path, problem, policy or 'kind = "rand"', table)) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert said.count("\n") == 1
    assert said.startswith(f"jaxbandit: {line}"), said
    assert not (tmp_path / "out").exists()


def row(mean: float, metric: str = "entities", policy: str = "crux", **params: Any) -> Row:
    params = {"answer_model": "proportional", "budget": 100.0, **params}
    params |= {"estimator": "chao92"} if policy == "crux" else {}
    return Row(policy=policy, params=params, metric=metric, mean=mean, ci_low=mean - 1, ci_high=mean + 1, runs=9)


def test_the_tables_of_the_page_are_printed() -> None:
    """Of the readings also those by the floor alone, and of exclude lists also what RootChao finds."""
    rows = [row(20, removal="fresh", unseen="one"), row(30, removal="fresh", bootstrap=0)]
    table, runs = reproduction._readings(rows)
    assert "| proportional | fresh | one | 20 ± 1.0 |" in table
    assert "| proportional | fresh | k, floor alone | 30 ± 1.0 |" in table
    assert runs.startswith("Runs: 9.")
    rows = [row(n, policy=policy, cost_model="step", lists=lists) for n, (policy, lists) in enumerate(
        (policy, lists) for policy in ("crux", "root-chao") for lists in ("with", "without")
    )]  # fmt: skip
    rows.append(row(0.25, "mean_l", "root-chao", cost_model="step", lists="with"))
    table, _ = reproduction._lists(rows)
    assert "| GSChao | step | proportional | 100 | 0 ± 1.0 | 1 ± 1.0 |  |" in table
    assert "| RootChao | step | proportional | 100 | 2 ± 1.0 | 3 ± 1.0 | 0.25 ± 1.00 |" in table


def test_the_option_says_when_crux_stays_at_a_node() -> None:
    (empty,) = (each for each in parameters(crux) if each.name == "empty")
    assert empty.default == "unless-covered"
    assert "a node of at most l may be asked to the end of the budget" in empty.help
    assert "always (better with removal = fresh or none)" in empty.help


@pytest.mark.slow
def test_what_an_empty_answer_ends_is_as_the_page_says(tmp_path: Path) -> None:
    """GSChao under the step cost, where bad queries leave for a round: by default it stays at a leaf that it knows."""
    page = (Path(__file__).parents[1] / "docs" / "papers" / "rekatsinas2019-variants.md").read_text()
    *_, step = FIGURES["rekatsinas2019/empty-answers"].make(Request(100)).studies
    policies = [{**policy, "removal": "fresh"} for policy in step.policies]
    rows = run(replace(step, policies=policies, sweep={"budget": [100], "answer_model": ["proportional"]}), tmp_path)
    found = {each["params"]["empty"]: reproduction._cell(each) for each in rows if each["metric"] == "entities"}
    assert set(found) == {"unless-covered", "always"}
    for empty, cell in found.items():
        (line,) = (line for line in page.splitlines() if line.startswith(f"| for a round | `{empty}` |"))
        assert line.split(" | ")[4] == cell
