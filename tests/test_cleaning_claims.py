"""The ambiguity extractor on CSV and SQLite tables: the same claims, the same model; and what it refuses."""

import csv
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from jaxbandit.cleaning.claims import ambiguity, read_records
from jaxbandit.errors import BadInput
from jaxbandit.mixtures import fit_beta

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"
HEADER = ["who", "on", "time", 'the "gate"']
ROWS = [
    ["a", "mon", "9:00", "1"],
    ["b", "mon", " 9:00 ", "2"],
    ["a", "mon", "9:10", "1"],
    ["a", "tue", "", "X"],
    [" a", "mon", "9:00", "x"],
    ["b", "mon", "9:00", "  "],
    ["b", "tue", "8:00", ""],
    ["b", "tue", "7:00", "3"],
    ["b", "tue", "6:00", "3"],
]


def _csv(path: Path, rows: Sequence[Sequence[str]], encoding: str = "utf-8", delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


@pytest.fixture(params=["csv", "csv with a mark", "sqlite"])
def claims(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "claims 100%?#.csv"  # the content decides, not the name
    if request.param != "sqlite":
        return _csv(path, [HEADER, *ROWS], "utf-8-sig" if "mark" in request.param else "utf-8")
    with closing(sqlite3.connect(path)) as base, base:
        base.execute('CREATE TABLE "odd ""name""; --" ("who" TEXT, "on" TEXT, "time" TEXT, "the ""gate""" ANY)')
        rows = [[int(x) if x.isdigit() else x or None for x in row] for row in ROWS]
        base.executemany('INSERT INTO "odd ""name""; --" VALUES (?, ?, ?, ?)', rows)
    return path


def test_one_entity_column(claims: Path) -> None:
    table = ambiguity(claims, "who", "time")
    assert table.names == ("a", "b")
    assert table.candidates == (("9:00", "9:10"), ("9:00", "8:00", "7:00", "6:00"))
    assert table.false_values.dtype == np.int32
    assert table.false_values.tolist() == [1, 3]


def test_names_of_columns_are_the_same_in_both_forms_of_unicode(tmp_path: Path) -> None:
    one, two = "caf\u00e9", "cafe\u0301"  # they look the same
    for written, asked in ((one, two), (two, one)):
        table = ambiguity(
            _csv(tmp_path / "claims.csv", [[written, "time"], ["a", "9:00"], ["a", "9:10"]]), asked, "time"
        )
        assert table.names == ("a",)
    with pytest.raises(BadInput, match="each column once in the header"):
        ambiguity(_csv(tmp_path / "claims.csv", [[one, two], ["a", "9:00"]]), one, two)


def test_cells_are_the_same_in_both_forms_of_unicode(tmp_path: Path) -> None:
    one, two = "caf\u00e9", "cafe\u0301"
    rows = [["who", "time"], [one, "9:00"], [two, "9:10"], ["b", one], ["b", two]]
    table = ambiguity(_csv(tmp_path / "claims.csv", rows), "who", "time")
    assert dict(zip(table.names, table.candidates, strict=True)) == {one: ("9:00", "9:10"), "b": (one,)}


def test_composite_key_and_an_entity_for_each_attribute(claims: Path) -> None:
    table = ambiguity(claims, ["who", "on"], ["time", 'the "gate"'])
    assert dict(zip(table.names, table.candidates, strict=True)) == {
        "a / mon / time": ("9:00", "9:10"), 'a / mon / the "gate"': ("1", "x"),
        "b / mon / time": ("9:00",), 'b / mon / the "gate"': ("2",),
        "a / tue / time": (), 'a / tue / the "gate"': ("X",),
        "b / tue / time": ("8:00", "7:00", "6:00"), 'b / tue / the "gate"': ("3",),
    }  # fmt: skip
    assert table.false_values.tolist() == [1, 1, 0, 0, 0, 0, 2, 0]


def test_casefold(claims: Path) -> None:
    assert ambiguity(claims, "who", 'the "gate"').candidates[0] == ("1", "X", "x")
    assert ambiguity(claims, "who", 'the "gate"', normalise="casefold").candidates[0] == ("1", "X")
    with pytest.raises(BadInput, match=r'^normalise = lower: "none" or "casefold"$'):
        ambiguity(claims, "who", "time", normalise="lower")


def test_missing_columns_are_named(claims: Path) -> None:
    with pytest.raises(BadInput, match=r'^entity = flight: no such column; there are who, on, time, the "gate"$'):
        ambiguity(claims, ["who", "flight"], "time")
    with pytest.raises(BadInput, match=r"^value = Time: no such column"):
        ambiguity(claims, "who", "Time")
    for columns in [[], ["who", "who"]]:
        with pytest.raises(BadInput, match=r"^entity = .*each once$"):
            ambiguity(claims, columns, "time")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "path = .*: a table with at least one row"),
        (b"k,v\n\n", "path = .*: a table with at least one row"),
        (b"k,v, v\na,1,2\n", 'path = .*each column once in the header, but "v" is there more often'),
        (b"k,v\na,1\n\na,1,2\n", "path = .*: line 4 has 3 cells, the header 2"),
        (b"k,v\na\n", "path = .*: line 2 has 1 cell, the header 2"),
        (b"k,v\na,1\na,\xff\n", "path = .*: a CSV file in UTF-8, or an SQLite database"),
        ("k,v\na,1\n".encode("utf-16"), "path = .*: a CSV file in UTF-8, or an SQLite database"),
        (b'k,v\na,1\nb,"2\n', "path = .*: a CSV file; line 3: unexpected end of data"),
        (b"k,v\na,1\n ,2\n", "entity = empty in line 3: a value of k in each row"),
        (b"k,v\na,1\nb,1\nb,1\n", "value = v: at least one entity with two different values"),
        (b"k,v\na,\nb,\n", "value = v: at least one entity with two different values"),
        (b"SQLite format 3\0" + bytes(range(256)) * 4, "path = .*: an SQLite database that can be read"),
    ],
)
def test_refused_content(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=f"^{message}") as error:
        ambiguity(path, "k", "v")
    assert "\n" not in str(error.value)


def test_refused_files_and_options(tmp_path: Path) -> None:
    path = _csv(tmp_path / "t.csv", [["k", "v"], ["a", "1"], ["a", "2"]], delimiter=";")
    assert ambiguity(str(path), "k", "v", delimiter=";").false_values.tolist() == [1]
    for bad, message in [(tmp_path / "none", "No such file"), (tmp_path, "Is a directory")]:
        with pytest.raises(BadInput, match=f"^path = .*{message}"):
            ambiguity(bad, "k", "v")
    with pytest.raises(BadInput, match=r"^table = t: only for an SQLite database"):
        ambiguity(path, "k", "v", "t", delimiter=";")
    for delimiter in ["", ";;", "\n"]:
        with pytest.raises(BadInput, match=r"^delimiter = "):
            ambiguity(path, "k", "v", delimiter=delimiter)


def test_sqlite_tables_are_chosen_by_name_and_left_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("CREATE TABLE one (k INTEGER PRIMARY KEY AUTOINCREMENT, v REAL)")
        base.executemany("INSERT INTO one (v) VALUES (?)", [(1.5,), (2,)])
        base.execute("CREATE VIEW two AS SELECT 7 AS k, v FROM one")
    before = path.read_bytes()
    assert ambiguity(path, "k", "v", "two").candidates == (("1.5", "2.0"),)
    for table in [None, "three", 'one"; DROP TABLE one; --']:
        named = "missing" if table is None else table
        with pytest.raises(BadInput, match=f"^table = {re.escape(named)}: one of those .*: one, two$"):
            ambiguity(path, "k", "v", table)
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [path]


def test_records(tmp_path: Path) -> None:
    path = _csv(tmp_path / "r.csv", [["id", "ok", "n"], ["x", "3", " 5"], ["y", "0", "0"]])
    successes, attempts = read_records(path, "ok", "n")
    assert (successes.tolist(), attempts.tolist()) == ([3, 0], [5, 0])
    assert successes.dtype == attempts.dtype == np.int64
    for bad in ["", "-1", "2.5", "nan", "1_0", "2147483648", "9" * 5000]:
        with pytest.raises(BadInput, match=r"^n in line 2 = .*: a whole number from 0 to 2147483647$"):
            read_records(_csv(path, [["ok", "n"], ["1", bad]]), "ok", "n")
    with pytest.raises(BadInput, match=r"^attempts = attempts: no such column; there are ok, n$"):
        read_records(path, "ok")


def test_flights() -> None:
    path = DATA / "flights" / "claims.csv"
    if not path.exists():
        pytest.skip("the flights data is not beside the project, in ../shared/data")
    attributes = ["sched_dep_time", "act_dep_time", "sched_arr_time", "act_arr_time"]
    table = ambiguity(path, "flight", attributes)
    assert len(table.names) == len(set(table.names)) == 400
    assert [int(f(table.false_values)) for f in (min, max)] == [0, 8]
    assert [len(values) - 1 for values in table.candidates] == table.false_values.tolist()
    assert table.names[0] == "AA-3859-IAH-ORD / sched_dep_time"


def test_a_law_from_real_records() -> None:
    path = DATA / "rte" / "workers.csv"
    if not path.exists():
        pytest.skip("the RTE data is not beside the project, in ../shared/data")
    law = fit_beta(*read_records(path, "correct", "answered"))
    assert 0.8 < law.mean() < 0.88
