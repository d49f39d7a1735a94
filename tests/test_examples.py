"""The examples run as they stand, and the page on one's own policy shows the code that runs."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from jaxbandit.study import plugins
from jaxbandit.study.run import run
from jaxbandit.study.spec import Study
from jaxbandit.testing import conformance

ROOT = Path(__file__).parents[1]
OWN = ROOT / "examples" / "own_policy.py"
OWN_ARMS = ROOT / "examples" / "own_arms.py"
OWN_INDEX = ROOT / "examples" / "own_index.py"
OWN_ONE_ARM = ROOT / "examples" / "own_one_arm.py"
OWN_PROBLEM = ROOT / "examples" / "own_problem.py"


def program(*argv: object) -> str:
    """What a program prints."""
    done = subprocess.run([sys.executable, *map(str, argv)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("own_names")
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.name)
def test_study_files(path: Path, tmp_path: Path) -> None:
    """A program of the same name has the rules of its own that a file names; what follows runs these as they are."""
    own = path.with_suffix(".py")
    if own.exists():
        plugins.load(str(own))
    mapping = tomllib.loads(path.read_text())
    Study.of(mapping, base=path.parent).configurations()
    if own.exists():
        return
    mapping |= {"runs": 4, "sweep": {"budget": [200]}}
    rows = run(Study.of(mapping, base=path.parent), tmp_path / "out")
    assert {row["policy"] for row in rows} == {policy["kind"] for policy in mapping["policy"]}
    assert all(row["runs"] == 4 and row["mean"] is not None for row in rows)


def test_own_policy_prints_what_its_page_shows() -> None:
    page = (ROOT / "docs" / "own-policy.md").read_text()
    code = OWN.read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        assert block in code
    policy, _, registration = (len(block.splitlines()) for block in blocks)
    assert f"in {policy + registration} lines" in page
    assert policy + registration < 60
    assert f"```\n{program(OWN)}```" in page


@pytest.mark.slow
def test_own_arms_does_what_its_page_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "own-arms.md").read_text()
    block, one = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert OWN_ARMS.read_text().endswith(f"\n\n{block}")
    assert OWN_ONE_ARM.read_text().endswith(f"\n\n{one}")
    assert f"```\n{program(OWN_ONE_ARM)}```" in page
    study = tmp_path / "study.toml"
    file = OWN_ARMS.with_suffix(".toml").read_text()
    study.write_text(re.sub(r'\[\[policy\]\]\nkind = "(uniform|optmai)"\n\n', "", file))
    shown = program("-m", "jaxbandit", "run", study, "--out", tmp_path / "out", "--plugin", OWN_ARMS)
    rows = [line.split() for line in shown.splitlines() if line.startswith("two-stages")]
    assert len(rows) == 2
    for row in rows:
        assert " ".join([*row[:8], row[-1]]) in " ".join(page.split())  # without the share of exact runs


@pytest.mark.slow
def test_own_index_does_what_its_page_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "own-index.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    study = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert code
    assert OWN_INDEX.read_text().endswith(f"\n\n{code[1]}")
    assert study
    assert OWN_INDEX.with_suffix(".toml").read_text().endswith(f"\n{study[1]}")
    shown = program("-m", "jaxbandit", "run", OWN_INDEX.with_suffix(".toml"), "--out", tmp_path, "--plugin", OWN_INDEX)
    rows = [line.split() for line in shown.splitlines() if line.startswith(("uniform", "optmai", "ucb"))]
    assert len(rows) == 5
    for row in rows:
        exact = next(place for place, word in enumerate(row) if word.startswith("["))  # "0.0000 [0.0000, 0.0076]"
        assert " ".join(row[: exact - 1] + row[exact + 2 :]) in " ".join(page.split())
    differences = program("-m", "jaxbandit", "compare", tmp_path, "--baseline", "optmai")
    (least,) = re.findall(r"ucb width=0\.2 +(\S+ ± \S+)", differences)
    assert f"loses {least} more" in " ".join(page.split())


OTHERS = ("own_outliers", "own_extraction")


@pytest.mark.parametrize("name", OTHERS)
def test_own_others_are_what_their_page_shows(name: str) -> None:
    """The code, what it prints, and that the table is of the study file as it is."""
    page = (ROOT / "docs" / "own-others.md").read_text()
    file = ROOT / "examples" / f"{name}.py"
    block = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "__main__" in block
                 and block in file.read_text())  # fmt: skip
    assert file.read_text().endswith(f"\n\n{block}")
    assert f"```\n{program(file)}```" in page
    assert f"jaxbandit run examples/{name}.toml --out out/{name.replace('_', '-')} --plugin examples/{name}.py" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_own_others_beside_built_in_rules(name: str, tmp_path: Path) -> None:
    """All figures of the tables, of built-in rules too."""
    page = (ROOT / "docs" / "own-others.md").read_text()
    file = ROOT / "examples" / f"{name}.py"
    shown = program("-m", "jaxbandit", "run", file.with_suffix(".toml"), "--out", tmp_path / "out", "--plugin", file)
    table = shown.partition("\n\n")[2].partition("\n\n")[0]
    assert len(table.splitlines()) >= 10
    assert f"```\n{table}\n```" in page


@pytest.mark.slow
@pytest.mark.usefixtures("own_names")
@pytest.mark.parametrize("name", OTHERS)
def test_own_others_conform(name: str, tmp_path: Path) -> None:
    plugins.load(str(ROOT / "examples" / f"{name}.py"))

    def built(place: int, *given: dict[str, Any]) -> tuple[Any, list[Any]]:
        """A problem, whose truth depends on ``place`` alone, and policies for it."""
        problem: dict[str, Any] = {"kind": "outliers/bernoulli", "k": 1.5, "budget": 120}
        problem["means"] = {"list": [0.2, 0.3, 0.25, 0.3, 0.2 + 0.1 * place, 0.9 - 0.5 * place]}
        if name == "own_extraction":
            path = tmp_path / f"cafes {place}.csv"
            lines = [f"cafe {n},{'PS'[n % 2]}/{'abc'[n % 3]},{1 + n * (1 + place) % 7}" for n in range(30)]
            path.write_text("\n".join(["name,place,known", *lines]) + "\n")
            problem = {"kind": "extraction/table", "path": str(path), "attributes": "place", "entity": "name",
                       "popularity": "known", "budget": 6}  # fmt: skip
        found = Study.of({"runs": 1, "problem": problem, "policy": list(given)}).configurations()
        return found[0].problem, [each.policy for each in found]

    two = [{"kind": "in-doubt", "margin": 0.05}, {"kind": "in-doubt", "margin": 0.1}]
    if name == "own_extraction":
        two = [{"kind": "last-gain", "k": 10}, {"kind": "last-gain", "excluded": 5}]
    problem, policies = built(0, *two)
    other, _ = built(1, two[0])
    assert conformance(problem, policies, other) == []


@pytest.mark.slow
def test_own_problem_is_what_its_page_shows_and_is_stored(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "own-problem.md").read_text()
    block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[-1]
    assert block in OWN_PROBLEM.read_text()
    assert f"take {len(block.splitlines())} lines" in page
    assert len(block.splitlines()) < 60
    shown = program(OWN_PROBLEM, tmp_path / "out")
    assert program(OWN_PROBLEM) == shown
    assert [line.split()[-4:-3] for line in shown.splitlines()[2:]] == [["0.1"], ["0.3"]] * 2
    rows = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert max(row["ci_high"] - row["ci_low"] for row in rows) <= 1.0
    # Of the order of (2 ln 1000) / gap, the upper bound of such a policy.
    assert all(1 < row["mean"] < 40 for row in rows)


def test_a_crowd_over_http() -> None:
    """Each line is a query: what it cost and brought adds up to the last line."""
    *queries, last = program(ROOT / "examples" / "crowd_service.py", 4).splitlines()
    lines = [re.fullmatch(r"(.+?), (.+?) +(\d+) of +(\d+), (\d+) excluded: +(\d+) cafes known", q) for q in queries]
    cost, known = 0.0, 0
    for line in lines:
        assert line is not None
        found, k, excluded, total = map(int, line.groups()[2:])
        cost += k / 20 + 5 * excluded / 10 + sum(value != "*" for value in line.groups()[:2]) / 2
        assert 0 <= total - known <= found <= k
        known = total
    assert last == f"{known} cafes in {len(queries)} queries for {cost:g}"
    assert 3 < cost <= 4
    assert known >= 20


def test_own_policy_in_a_study_file(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        'runs = 400\n[problem]\nkind = "cleaning/synthetic"\nbudget = 2000\nfalse_values = { uniform = [1, 19] }\n'
        '[[policy]]\nkind = "streak"\npatience = [1, 2]\n'
    )
    assert "streak" in program("-m", "jaxbandit", "run", study, "--out", tmp_path / "out", "--plugin", OWN)
    rows = json.loads((tmp_path / "out" / "summary.json").read_text())
    first, second = (row for row in rows if row["metric"] == "effectiveness")
    assert (first["params"]["patience"], second["params"]["patience"]) == (1, 2)
    # To the first failure, under the uniform sc-pdf: sums of 1 / k, k to r + 1 without 1, over those to r.
    sums = [sum(1 / k for k in range(1, r + 1)) for r in range(1, 21)]
    exact = (sum(sums[1:]) - 19) / sum(sums[:-1])
    assert first["ci_low"] - 0.002 < exact < first["ci_high"] + 0.002
    assert second["ci_high"] < first["ci_low"]
