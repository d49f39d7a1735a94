"""What a study is about, and which policy and budget its results speak for: sentences for the user to look at."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

from jaxbandit import cli
from jaxbandit.arms.records import read_counts
from jaxbandit.cleaning import Uniform, family
from jaxbandit.cleaning.claims import AmbiguityTable, ambiguity
from jaxbandit.cleaning.describe import describe, spellings
from jaxbandit.cleaning.family import Setting
from jaxbandit.cleaning.fast.exchangeable import LENGTHS
from jaxbandit.errors import BadInput
from jaxbandit.study import families
from jaxbandit.study.conclude import Cell, conclusions, sentences
from jaxbandit.study.describe import description, implementations, implementations_of
from jaxbandit.study.figure import Request, reproduce
from jaxbandit.study.report import report
from jaxbandit.study.results import open_results
from jaxbandit.study.run import run
from jaxbandit.study.spec import Study, load
from jaxbandit.study.summary import Row
from jaxbandit.study.table import render
from jaxbandit.wilson import share_interval
from tests import toy

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"
STUDY = """
runs = 20
[problem]
kind = "cleaning/table"
path = "claims.csv"
entity = "flight"
value = ["dep", "price"]
[[policy]]
kind = "known-sc"
[[policy]]
kind = "random"
[[policy]]
kind = "ee"
t = [1, 2]
q = 1.0
[sweep]
budget = [2, 9, 200]
"""


@pytest.fixture(autouse=True)
def _one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")  # so that main leaves this process as it is


@pytest.fixture
def study(tmp_path: Path) -> Path:
    claims = [("a", "7:10 a.m.", "12.50"), ("a", "7:10aDec 1", "12.5"), ("a", "19:45", ""), ("b", "8:00PM", "n/a")]
    claims += [("b", "20:00", "7"), ("b", "Not Available", "8"), ("c", "9:15", "9"), ("c", "", ""), ("d", "", "")]
    claims += [("e", f"{hour}:30", str(hour)) for hour in range(10, 14)]
    rows = ["flight,dep,price", *map(",".join, claims)]
    (tmp_path / "claims.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


def _table(*candidates: tuple[str, ...]) -> AmbiguityTable:
    """A table of one column, an entity for each tuple of values."""
    counts = np.array([max(len(some) - 1, 0) for some in candidates], np.int32)
    names = tuple(f"e{number}" for number in range(counts.size))
    return AmbiguityTable(names, counts, candidates, ("v",) * counts.size, sum(map(len, candidates)), 0)


@pytest.mark.parametrize(
    ("candidates", "alike", "left", "placeholders"),
    [
        ([("Oslo", " OSLO", "O-s-l-o", "Rome")], 2, 1, {}),
        ([("A1", "A2"), ("B", "C")], 0, 2, {}),
        ([("1,000", "1000.0", "1e3", "7"), ("none", "2", "3"), ("4", "5")], 2, 3, {"none": 1}),
        ([("6:55 p.m.", "18:55", "6:55PDec 2"), ("12:00noon", "12:00 PM", "0:00", "12:00 a.m.")], 4, 1, {}),
        ([("7:16 Apr 3", "7:16 a.m.", "7:16 AM"), ("8:00", "late")], 2, 0, {"late": 1}),
        ([("yes", "N/A", "-"), ("no", "yes")], 0, 1, {"N/A": 1, "-": 1}),
    ],
)  # fmt: skip
def test_spellings(candidates: list[tuple[str, ...]], alike: int, left: int, placeholders: dict[str, int]) -> None:
    found = spellings(_table(*candidates))
    assert (found.alike, found.left, found.placeholders) == (alike, left, placeholders)


def test_a_table_without_oddities() -> None:
    assert describe(_table(("x", "y"), ("z",), ())) == [
        "3 rows with 3 cells of values, 0 of them empty, which claim nothing",
        "3 entities, 1 of them ambiguous, with 1 false value: 2 have 0, 1 has 1",
        "entities without any value: 1, which are left as they are",
    ]
    assert describe(_table(("z",)))[0] == "1 row with 1 cell of values, 0 of them empty, which claim nothing"
    assert describe(_table(("N/A", "y")))[1:3] == [
        "1 entity, 1 of them ambiguous, with 1 false value: 1 has 1",
        'look: some values seem to claim nothing, and count as claims: "N/A" (at 1 entity)',
    ]
    many = _table(*(tuple(f"v{value}" for value in range(size + 1)) for size in range(20)))
    assert describe(many)[1].endswith("1 have none; the quartiles of the others are 5.5, 10 and 14.5, the most 19")


def test_flights() -> None:
    path = DATA / "flights" / "claims.csv"
    if not path.exists():
        pytest.skip("the flights data is not beside the project, in ../shared/data")
    table = ambiguity(path, "flight", ["sched_dep_time", "act_dep_time", "sched_arr_time", "act_arr_time"])
    found = spellings(table)
    assert (int(table.false_values.sum()), found.alike, found.left) == (796, 253, 477)
    assert list(found.placeholders)[:2] == ["Not Available", "Contact Airline"]
    lines = describe(table)
    assert lines[0] == "2,376 rows with 9,504 cells of values, 2,312 of them empty, which claim nothing"
    assert lines[1].startswith("400 entities, 355 of them ambiguous, with 796 false values: 45 have 0, 115 have 1, ")


def test_describe_a_study_and_a_table(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["describe", str(study)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "problem cleaning/table: path claims.csv; entity flight; value dep, price; swept: budget 2, 9, 200"
    )
    assert lines[1] == "13 rows with 26 cells of values, 5 of them empty, which claim nothing"
    assert lines[2].startswith("10 entities, 6 of them ambiguous, with 13 false values: ")
    assert '"7:10 a.m." and "7:10aDec 1" at a / dep' in lines[4]
    assert lines[-1] == "policies: known-sc, random, ee t=1 q=1.0, ee t=2 q=1.0; 20 runs of each configuration"

    claims = tmp_path / "claims.csv"
    assert cli.main(["describe", str(claims)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "claims.csv: 13 rows, 3 columns", '  flight: 5 different values, 0 empty cells, such as "a"',
    ]  # fmt: skip
    assert "--entity" in lines[-2]
    assert "topk/replay" in lines[-1]
    assert cli.main(["describe", str(claims), "--entity", "flight", "--value", "dep", "--value", "price"]) == 0
    again = capsys.readouterr().out
    assert cli.main(["describe", str(claims), "--entity", "flight", "--value", "dep", "price"]) == 0
    told = capsys.readouterr().out
    assert told == again
    assert told.splitlines()[4:] == description(load(study))[1:]
    with closing(sqlite3.connect(tmp_path / "claims.db")) as base, base:
        base.execute("CREATE TABLE one (k TEXT, v TEXT)")
        base.execute("CREATE TABLE two (k TEXT, v TEXT)")
        base.executemany("INSERT INTO two VALUES (?, ?)", [("a", "x"), ("a", "y"), ("b", None)])
    asked = ["describe", str(tmp_path / "claims.db"), "--table", "two", "--entity", "k", "--value", "v"]
    assert cli.main(asked) == 0
    assert "2 entities, 1 of them ambiguous, with 1 false value: 1 has 0, 1 has 1" in capsys.readouterr().out
    odd = tmp_path / "odd.csv"
    odd.write_text('a;b\n"x\ny;2"\n')
    assert cli.main(["describe", str(odd)]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "odd.csv: 1 row, 1 column",
        '  a;b: 1 different value, 0 empty cells, such as "x\N{REPLACEMENT CHARACTER}y;2"',
        "its cells seem to be separated by ';': write it with commas",
    ]
    assert cli.main(["fit", str(odd)]) == 2
    assert "no such column; there are a;b; its cells seem to be separated by ';': write" in capsys.readouterr().err


@pytest.mark.parametrize(("mean", "words"), [(46.92, "46.9 of 47"), (46.4, "46 of 47"), (47.0, "47 of 47")])
def test_not_all_are_finished_where_a_run_left_one(mean: float, words: str) -> None:
    table = _table(*[("a", "b")] * 47)
    setting = Setting(200, 47, np.bincount(table.false_values), Uniform(), table)
    assert family._finishes(setting, {"finished": mean}) == f"finishes {words} entities"


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["describe"], "FILE = missing: it must be given"),
        (["describe", "gone.csv"], "path = gone.csv: a file that can be read"),
        (["describe", "gone.toml"], "STUDY = gone.toml: a file that can be read"),
        (["describe", "FOLDER"], "path = "),
        (["describe", "CLAIMS", "--entity", "flight"], "--value = missing: to be given together with --entity"),
        (["describe", "CLAIMS", "--value", "dep"], "--entity = missing: to be given together with --value"),
        (["describe", "CLAIMS", "--entity", "flight", "--value", "Dep"], "value = Dep: no such column; there are"),
        (["describe", "CLAIMS", "--table", "t"], "table = t: only for an SQLite database"),
        (["describe", "CLAIMS", "--entity", "flight", "--value", "dep", "--normalise", "up"], "normalise = up: "),
        (["describe", "CLAIMS", "--normalise", "casefold"], "--normalise = casefold: with --entity and --value"),
        (["describe", "STUDY", "--value", "dep"], "--value = dep: for a table alone"),
        (["describe", "STUDY", "--normalise", "up"], "--normalise = up: for a table alone"),
        (["run", "STUDY", "--out", "OUT", "--target", "90"], "--target = 90.0: a share of all false values, above 0"),
        (["run", "STUDY", "--out", "OUT", "--target", "most"], "--target = most: a number"),
        (["run", "STUDY", "--out", "OUT", "--target", "0"], "--target = 0.0: a share of all false values, above 0"),
        (["run", "STUDY", "--out", "OUT", "--target", "nan"], "--target = nan: a share of all false values"),
        (["run", "DRAWN", "--out", "OUT", "--target", "0.9"], "--target = 0.9: none for cleaning/synthetic"),
    ],
)  # fmt: skip
def test_bad_input(argv: list[str], line: str, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "drawn.toml").write_text(
        'runs = 2\n[problem]\nkind = "cleaning/synthetic"\nbudget = 9\n[[policy]]\nkind = "random"\n'
    )
    names = {"STUDY": study, "CLAIMS": tmp_path / "claims.csv", "FOLDER": tmp_path, "OUT": tmp_path / "out",
             "DRAWN": tmp_path / "drawn.toml"}  # fmt: skip
    assert cli.main([str(names.get(word, word)) for word in argv]) == 2
    said, told = capsys.readouterr()
    assert said == ""
    assert told.startswith(f"jaxbandit: {line}")
    assert told.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_study_of_a_table(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sentences on stderr, the table alone on stdout; results that know the file by its content and name it."""
    out = tmp_path / "out"
    asked = ["run", str(study), "--out", str(out), "--target", "0.9"]
    assert cli.main(asked) == 0
    table, told = capsys.readouterr()
    rows = json.loads((out / "summary.json").read_text())
    assert table == render(rows)
    lines = told.splitlines()
    assert lines[0].startswith("jaxbandit: problem cleaning/table: path claims.csv; entity flight; value dep, price")
    done = next(number for number, line in enumerate(lines) if "runs done" in line)
    head = "jaxbandit: which policy, which budget? Of 13 false values at 6 ambiguous entities are removed"
    assert lines[done + 1].startswith("jaxbandit: fast implementations: random as RandomInRuns")
    assert lines[done + 2] == head
    assert "random with a budget of 200" in told
    assert "ee t=1 q=1.0 gives entities up for good" in told
    share = open_results(out)["share"]
    assert float(share.sel(policy="random", budget=200).mean()) > 0.9
    removed = open_results(out)["removed"]
    assert (share * 13 == removed).all()

    summary = (out / "summary.json").read_text()
    assert "claims" not in summary
    assert json.loads((out / "study.json").read_text())["named"]["problem"]["path"] == "claims.csv"
    shown = report(out)
    assert "path claims.csv; entity flight; value dep, price" in shown
    (tmp_path / "claims.csv").rename(tmp_path / "moved.csv")
    study.write_text(STUDY.replace("claims.csv", "moved.csv").replace("runs = 20", "runs = 30"))
    assert cli.main(asked) == 0
    told = capsys.readouterr().err
    assert "path moved.csv" in told
    assert "is gone" not in told
    assert json.loads((out / "study.json").read_text())["named"]["problem"]["path"] == "moved.csv"
    assert {row["runs"] for row in json.loads((out / "summary.json").read_text())} == {30}


def test_results_that_were_stored_before_a_metric_was_there(
    study: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are computed again, with one line, and then are what they would have been."""
    out, whole = tmp_path / "out", load(study)
    run(whole, out)
    before = (out / "summary.json").read_bytes()
    shutil.rmtree(out / "results.zarr" / "share")
    group = zarr.open_group(out / "results.zarr")
    group.attrs["metrics"] = str(group.attrs["metrics"]).removesuffix(" share")
    assert set(open_results(out).data_vars) == {"effectiveness", "removed", "cleans", "finished"}
    run(whole, out)
    assert (out / "summary.json").read_bytes() == before
    assert [record.message for record in caplog.records] == [
        f"jaxbandit: {out / 'results.zarr'} has no share yet; its runs are computed again"
    ]


def _cells(**shares: list[tuple[int, float, float | None, float | None]]) -> list[Cell]:
    """Of a table with 12 ambiguous entities: by policy (budget, mean, low, high)."""
    table = _table(*[("a", "b", "c")] * 6, *[("a", "b", "c", "d")] * 6)
    setting = Setting(200, 12, np.bincount(table.false_values), Uniform(), table)

    def rows(policy: str, params: dict[str, Any], spent: int, mean: float, *ends: float | None) -> dict[str, Row]:
        values = {"share": (mean, *ends), "finished": (10 * mean, None, None), "cleans": (spent, None, None)}
        return {
            name: Row(policy=policy, params=params, metric=name, mean=mean, ci_low=low, ci_high=high, runs=9)
            for name, (mean, low, high) in values.items()
        }

    return [
        Cell(setting, name.replace("_", "-"), name == "known_sc", budget,
             rows(name, {"budget": budget}, min(budget, 150 if name == "ee" else 190), *values), name == "random")
        for name, points in shares.items()
        for budget, *values in points
    ]  # fmt: skip


def _concluded(cells: list[Cell], target: float | None) -> list[str]:
    question = family.FAMILY.problems["table"].question
    assert question is not None
    count = sum(not cell.reference for cell in cells)
    return sentences(question, family.FAMILY.problems["table"].metrics[0], cells, target, count)


def test_implementations_by_what_tells_them_apart() -> None:
    """A param whose values do, or how many configurations there are of each; nothing for folders without the names."""
    fast = [["Fast", "Faster"], ["Fast", "Faster"], ["Rule", "Fast"], ["Rule", "Rule"]]
    data = xr.Dataset(
        coords={
            "policy": [f"a q={q}" for q in (1, 2)] + ["b", "c"],
            "kind": ("policy", ["a", "a", "b", "c"]),
            "budget": [100, 200],
            "q": (("policy", "budget"), [[1, 1], [2, 2], [np.nan] * 2, [np.nan] * 2]),
            "implemented_by": (("policy", "budget"), fast),
        },
        attrs={"rules": ["Rule"], "params": ["budget", "q"]},
    )
    each = "a as Fast at budget 100 and as Faster at budget 200; b as Fast at budget 200"
    assert implementations(data) == f"fast implementations: {each}"
    law = data.drop_vars("budget").rename(budget="law").assign_coords(law=["uniform", '{"beta": [2, 5]}'])
    law.attrs["params"] = ["law", "q"]
    assert "a as Fast at law uniform and as Faster at law beta(2, 5);" in implementations(law)
    assert implementations(data.sel(budget=100)) == "fast implementations: a as Fast"
    assert implementations(data.isel(policy=[3])) == ""
    assert implementations(data.drop_vars("implemented_by")) == ""
    data["implemented_by"][:2] = [["Fast", "Faster"], ["Faster", "Fast"]]
    assert "a as Fast in 2 configurations and as Faster in 2 configurations;" in implementations(data)
    data["implemented_by"][:2] = [["Fast", "Faster"], ["Faster", "Faster"]]
    assert "a as Fast in 1 configuration and as Faster in 3 configurations;" in implementations(data)


def test_a_study_says_of_its_implementations_what_its_results_do(tmp_path: Path) -> None:
    """Entities are counted up to a budget, and held beyond it."""
    problem = {"kind": "cleaning/synthetic", "entities": 100, "false_values": {"uniform": [0, 3]}, "paired": False}
    policies = [{"kind": "random"}, {"kind": "ee", "t": [2, 3], "q": 0.667}]
    study = Study.of({"runs": 2, "problem": problem, "policy": policies, "sweep": {"budget": [20, LENGTHS[-1] + 1]}})
    run(study, tmp_path / "out")
    said = "fast implementations: random as CountedRandom at budget 20 and as RandomInPasses at budget 65537"
    assert implementations_of(study) == implementations(open_results(tmp_path / "out")) == said
    assert implementations_of(replace(study, implementation="reference")) == ""


def test_a_hierarchy_of_one_leaf(tmp_path: Path) -> None:
    (tmp_path / "cafes.csv").write_text("name,place\nZo,P\nJo,P\n")
    problem = {"kind": "extraction/table", "path": str(tmp_path / "cafes.csv"), "attributes": ["place"], "budget": 5}
    study = Study.of({"runs": 1, "problem": {**problem, "entity": "name"}, "policy": [{"kind": "rand"}]})
    line = "2 entities at 1 leaf of a hierarchy of 2 nodes: 1 value of 1 attribute"
    assert description(study)[1] == line
    assert study.question is not None
    assert study.question.aim.format(1) == "to find 1 of the entities"


def test_conclusions() -> None:
    cells = _cells(
        known_sc=[(100, 0.95, 0.94, 0.96), (200, 1, 1, 1)],
        random=[(100, 0.5, 0.45, 0.55), (200, 0.92, 0.91, 0.93)],
        ee=[(100, 0.6, 0.55, 0.65), (200, 0.93, 0.91, 0.95)],
        greedy=[(100, 0.1, 0.05, 0.15), (200, 0.89, 0.88, 0.91)],
    )
    lines = _concluded(cells, 0.9)
    assert lines[0] == "which policy, which budget? Of 30 false values at 12 ambiguous entities are removed"
    assert lines[1] == (
        "  with a budget of 100: 60.0 % [55.0, 65.0] by ee (finishes 6 of 12 entities); 50.0 % [45.0, 55.0] by random "
        "(finishes 5 of 12 entities), which the runs cannot tell from the best; 10.0 % [5.0, 15.0] by greedy (finishes "
        "1 of 12 entities); 95.0 % [94.0, 96.0] by known-sc, which is out of reach"
    )
    assert "by ee (150 operations, finishes 9 of 12 entities)" in lines[2]
    assert lines[3].startswith("ee gives entities up for good: it has met all of them after 150 operations")
    assert len(lines) == 7  # none but ee does, whatever it spends, and not where it asks for no success
    for cell in cells:
        cell.rows["share"]["params"]["q"] = 0
    assert len(_concluded(cells, 0.9)) == 6
    # known-sc would do with 100, the mean of greedy is above 0.88 alone, and ee spends less of 200 than random.
    assert lines[-3:] == [
        "to remove 90 %, the cheapest that was run is ee with a budget of 200, of which it spends 150: 93.0 % [91.0, "
        "95.0]; it reaches the target with a confidence of 95 %, for all 6 policies and budgets that were run",
        "the least budgets of the others: random 200, greedy none",
        "ee with 100 comes to 60.0 % [55.0, 65.0]; budgets in between were not run",
    ]
    assert _concluded(cells, 0.95)[-1] == (
        "to remove 95 %, nothing that was run is enough with a confidence of 95 %; the best is 93.0 % [91.0, 95.0], by "
        "ee with a budget of 200"
    )
    # Policies that cost the same: the one that removes more.
    equal = _cells(random=[(100, 0.92, 0.91, 0.93)], index=[(100, 0.95, 0.94, 0.96)])
    assert _concluded(equal, 0.9)[-2].startswith("to remove 90 %, the cheapest that was run is index with")
    assert _concluded(cells, None)[-1].startswith(
        "add --target X for the cheapest policy and budget that reach X, a share"
    )
    assert "known-sc was run" in _concluded(_cells(known_sc=[(5, 0.5, 0.4, 0.6)]), 0.9)[-1]
    one = _concluded(_cells(random=[(5, 0.5, None, None)]), 0.1)
    assert "50.0 % by random" in one[1]
    assert one[-1].startswith("no interval, and so no confidence")
    many = _cells(**{f"ee{number}": [(9, 0.5 - number / 50, 0.1, 0.9)] for number in range(6)})
    many[5] = replace(many[5], close=True)
    assert _concluded(many, None)[1].endswith("; nor can they tell 1 more; worse by 2 more")


def test_a_target_is_held_against_all_that_was_run() -> None:
    """The more policies, budgets and settings there are, the surer each must be; of zeros and ones by Wilson's interval
    at that level."""
    question, share = family.FAMILY.problems["table"].question, family.FAMILY.problems["table"].metrics[0]
    assert question is not None
    cells = _cells(ee=[(200, 0.93, 0.91, 0.95)])
    assert "for all 4 policies" in sentences(question, share, cells, 0.9, 4)[-1]
    assert "nothing that was run is enough" in sentences(question, share, cells, 0.9, 400)[-1]
    cells = _cells(ee=[(200, 0.98, *share_interval(0.98, 100))])
    cells[0].rows["share"]["runs"] = 100
    assert "for all 40 policies" in sentences(question, share, cells, 0.9, 40)[-1]
    assert "nothing that was run is enough" in sentences(question, replace(share, binary=True), cells, 0.9, 40)[-1]


@pytest.mark.slow
def test_which_rule_and_how_many_pulls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of top-K by regret, where lower is better, and of outliers, where what is spent is the cost and not the cap."""
    arms = 'runs = 60\n[problem]\nkind = "KIND/bernoulli"\nmeans = { list = [0.9, 0.2, 0.3, 0.2, 0.25, 0.3] }\n'
    chosen = 'K = 1\n[[policy]]\nkind = "uniform"\n[[policy]]\nkind = "sar"\n[sweep]\nbudget = [6, 120]\n'
    (tmp_path / "topk.toml").write_text(arms.replace("KIND", "topk") + chosen)
    out = tmp_path / "out"
    assert cli.main(["run", str(tmp_path / "topk.toml"), "--out", str(out), "--target", "0.1"]) == 0
    said = capsys.readouterr().err
    assert "Regret (the mean of the best arm less that of the chosen one):\n" in said
    assert "jaxbandit: for a regret of at most 0.1, the cheapest that was run is " in said
    assert " with a budget of 120: " in said
    assert ", which the runs cannot tell from the best" in said
    rules = 'k = 1.5\n[[policy]]\nkind = "rr"\ndelta = [0.1, 0.2]\n'
    (tmp_path / "outliers.toml").write_text(arms.replace("KIND", "outliers") + rules)
    assert cli.main(["run", str(tmp_path / "outliers.toml"), "--out", str(tmp_path / "two"), "--target", "0.5"]) == 0
    said = capsys.readouterr().err
    assert (
        "to find exactly the outliers in 50 % of the runs, the cheapest that was run is rr delta=0.2 with a cap" in said
    )
    pulls = open_results(tmp_path / "two")["pulls"].mean("run").values
    assert f"of which it spends {pulls[1]:,.0f}" in said
    assert f"the least pulls of the others: rr delta=0.1 {pulls[0]:,.0f}" in said


def test_conclusions_under_each_setting(study: Path, tmp_path: Path) -> None:
    """What else is swept beside the budget has sentences of its own."""
    mapping: dict[str, Any] = {
        "runs": 5, "policy": [{"kind": "random"}],
        "problem": {"kind": "cleaning/table", "path": "claims.csv", "entity": "flight", "value": "dep"},
        "sweep": {"budget": [3, 50], "sc_pdf": ["uniform", {"beta": [9, 1]}]},
    }  # fmt: skip
    swept = Study.of(mapping, base=tmp_path)
    lines = conclusions(swept, run(swept, tmp_path / "out"), 0.5)
    assert [line for line in lines if line.startswith("with ")] == ["with sc_pdf uniform:", "with sc_pdf beta(9, 1):"]
    assert sum(line.startswith("which policy") for line in lines) == 2
    drawn = Study.of(
        {"runs": 5, "problem": {"kind": "cleaning/synthetic", "budget": 5}, "policy": [{"kind": "random"}]}
    )
    assert conclusions(drawn, []) == []


def test_one_run_tells_no_policy_from_another(study: Path, tmp_path: Path) -> None:
    mapping: dict[str, Any] = {
        "runs": 1, "policy": [{"kind": "ee", "t": [1, 2, 3, 4, 5], "q": 0.5}],
        "problem": {"kind": "cleaning/table", "path": "claims.csv", "entity": "flight", "value": "dep", "budget": 3},
    }  # fmt: skip
    one = Study.of(mapping, base=tmp_path)
    rows = run(one, tmp_path / "out")
    said = " ".join(conclusions(one, rows, data=open_results(tmp_path / "out")))
    assert "nor can they tell 2 more" in said
    assert "worse by" not in said


@pytest.mark.parametrize(
    ("problem", "lines"),
    [
        (
            {"kind": "topk/bernoulli", "K": 2, "budget": 50, "means": {"list": [0.9, 0.5, 0.6, 0.25]}},
            ["4 arms, of which the 2 best are wanted",
             "the best mean is 0.65 above the worst; no. 2 is 0.1 above no. 3"],
        ),
        (
            {"kind": "topk/bernoulli", "K": 2, "budget": 50, "means": {"list": [0.5, 0.5, 0.5]}},
            ["3 arms, of which the 2 best are wanted",
             "the best mean is 0 above the worst; 3 arms are equal at the cut"],
        ),
        (
            {"kind": "topk/gaussian", "K": 1, "n": 7, "budget": 50},
            ["7 arms, of which the best one is wanted; their means are drawn afresh in each run"],
        ),
        (
            {"kind": "outliers/bernoulli", "k": 1.5, "means": {"list": [0.5, 0.5, 0.5, 1.0]}},
            ["4 arms with means from 0.5 to 1 of their scale, mean 0.625, standard deviation 0.2165",
             "1 of them is an outlier, counted from 0: 3"],
        ),
        ({"kind": "outliers/synthetic", "n": 20}, ["20 arms, drawn afresh in each run and judged there"]),
        (
            {"kind": "extraction/people", "budget": 5},
            ["1,245 entities at 20 leaves of a hierarchy of 30 nodes: 4 x 5 values of 2 attributes",
             "the most popular tenth of the entities has 49% of the popularity"],
        ),
        (
            {"kind": "cleaning/synthetic", "budget": 5, "false_values": {"uniform": [0, 3]}, "entities": 1000},
            ["1,000 entities, drawn afresh in each run, with 1.5 false values each on average; 25.0% have none"],
        ),
        (
            {"kind": "cleaning/synthetic", "budget": 1, "false_values": {"uniform": [1, 1]}, "entities": 1},
            ["1 entity, drawn afresh in each run, with 1 false value each on average; 0.0% have none"],
        ),
    ],
)  # fmt: skip
def test_other_problems(problem: dict[str, Any], lines: list[str]) -> None:
    kinds = {"topk": "uniform", "outliers": "rr", "extraction": "rand", "cleaning": "random"}
    policy = {"kind": kinds[problem["kind"].partition("/")[0]]}
    assert description(Study.of({"runs": 1, "problem": problem, "policy": [policy]}))[1:] == lines


def test_tune_describes_the_table_too(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And names its file; what it promises is what entities that run out leave."""
    study.write_text(STUDY.replace("budget = [2, 9, 200]", "budget = [200]"))
    assert cli.main(["tune", str(study), "--out", str(tmp_path / "tuned")]) == 0
    table, told = capsys.readouterr()
    assert "jaxbandit: 10 entities, 6 of them ambiguous, with 13 false values" in told
    rows = json.loads((tmp_path / "tuned" / "summary.json").read_text())
    assert table == render(rows)
    found = {(row["metric"], row["params"].get("tuning")): row["mean"] for row in rows}
    assert found["runs_out_at", "exact"] < 200
    assert found["effectiveness", "exact"] <= 13 / 200
    assert json.loads((tmp_path / "tuned" / "study.json").read_text())["named"]["problem"]["path"] == "claims.csv"
    assert "path claims.csv; entity flight; value dep, price" in report(tmp_path / "tuned")


def test_a_figures_report_names_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(families.FAMILIES, "toy", toy.FAMILY)
    (tmp_path / "odds.txt").write_text("0.1 0.9")
    reproduce(toy.FIGURES["toy/fig1"], Request(2, data=tmp_path / "odds.txt"), tmp_path / "out")
    assert "Figure toy/fig1, data odds.txt" in report(tmp_path / "out")


def test_counts_may_be_written_as_pandas_sums_them_up(tmp_path: Path) -> None:
    table = tmp_path / "workers.csv"
    table.write_text("worker,correct,answered\nAnn,1.0,2\nBen,0.0,1.0\n")
    names, won, tried = read_counts(table, "correct", "answered", "worker")
    assert (names, won.tolist(), tried.tolist()) == (("Ann", "Ben"), [1, 0], [2, 1])
    for cell in ("1.5", ".0", "1.00", "-1.0"):
        table.write_text(f"correct,answered\n{cell},2\n")
        with pytest.raises(BadInput, match=f"correct in line 2 = {re.escape(cell)}: a whole number from 0"):
            read_counts(table, "correct", "answered")


def test_blanks_around_a_name_are_none_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "claims.csv").write_text("flight,source \nAA,one\nAA,two\n")
    assert cli.main(["describe", str(tmp_path / "claims.csv"), "--entity", "flight ", "--value", "source "]) == 0
    assert "1 entity" in capsys.readouterr().out


def test_a_table_without_outliers_is_said_to_have_none() -> None:
    arms = {"kind": "outliers/bernoulli", "k": 3, "means": {"list": [0.5, 0.5, 0.6, 0.5]}}
    study = Study.of({"runs": 1, "problem": arms, "policy": [{"kind": "rr"}]})
    assert description(study)[-1] == "none of them is an outlier"
    assert study.question is not None
    setting = study.configurations()[0].setting
    assert "find that there are no outliers, as none of these arms is one:" in study.question.opening(setting)


@pytest.mark.parametrize(
    ("more", "line", "run_too"),
    [
        ('[[policy]]\nkind = "uniform"\n', "policy = uniform, ", True),
        ('[[policy]]\nkind = "optmai"\nbeta = [0.8, 0.8]\n', "policy = optmai, ", True),
        ("[sweep]\nbudget = [3, 50]\n", "problem.budget = 3: at least 4 for uniform", True),
        ("[tune]\nmetrics = 1\n", "tune.metrics = 1: no such key; there are metric, within, ", True),
        ("[train]\nmetrics = 1\n", "train.metrics = 1: no such key; there are kind, hidden, ", True),
        ('[tune]\nmetric = "gain"\n', "tune.metric = gain: one of regret", False),
    ],
)
def test_describe_refuses_what_run_or_tune_does(
    more: str, line: str, run_too: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.toml"
    budget = "" if "budget" in more else "budget = 50\n"
    problem = f'runs = 1\n[problem]\nkind = "topk/bernoulli"\nn = 4\nK = 2\n{budget}'
    path.write_text(f'{problem}[[policy]]\nkind = "uniform"\n{more}')
    for argv in (["describe"], *([["run", "--out", str(tmp_path / "out")]] if run_too else [])):
        assert cli.main([argv[0], str(path), *argv[1:]]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.splitlines()[-1].startswith(f"jaxbandit: {line}")
    assert not (tmp_path / "out").exists()
