"""What the README shows is what happens: its Python runs, its study files are right, its table is the first study's."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from jaxbandit import cli
from jaxbandit.cli import program
from jaxbandit.study.run import run
from jaxbandit.study.spec import Study
from jaxbandit.study.table import render
from jaxbandit.tuning.plan import Plan

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
STUDIES = (ROOT / "docs" / "studies.md").read_text()
TUNING = (ROOT / "docs" / "tuning.md").read_text()


def blocks(language: str, *pages: str) -> list[str]:
    """Those of the README and of other pages."""
    found = [re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE) for page in (README, *pages)]
    assert all(found)
    return [block for some in found for block in some]


def test_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks("python", STUDIES, TUNING):
        exec(compile(block, "README.md", "exec"), {})
    assert "ee tuning=lemma3 {'against': 'ee tuning=exact', 'budget': 1000} -0.0" in capsys.readouterr().out
    assert (tmp_path / "out" / "tunings" / "summary.json").exists()
    assert (tmp_path / "out" / "tunings" / "figure.png").exists()
    assert (tmp_path / "removed.pdf").read_bytes().startswith(b"%PDF")


def test_study_files(tmp_path: Path) -> None:
    times = "sched_dep_time,act_dep_time,sched_arr_time,act_arr_time"
    (tmp_path / "claims.csv").write_text(f"flight,{times}\na,1,2,3,4\na,1,3,5,\n")
    (tmp_path / "past.csv").write_text("successes,attempts\n1,3\n4,5\n0,2\n")
    for block in blocks("toml", STUDIES, TUNING):
        study = Study.of(tomllib.loads(block), base=tmp_path)
        assert study.configurations()
        assert not study.tune or Plan.of(study).policies


def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is understood; what they do is tested elsewhere."""
    commands = [shlex.split(line, comments=True) for block in blocks("sh", TUNING) for line in block.splitlines()]
    verbs = [words[1:] for words in commands if words[0] == "jaxbandit"]
    assert {words[0] for words in verbs} == set(program.VERBS)
    for words in verbs:
        assert isinstance(program.parse(words), program.VERBS[words[0]])  # type: ignore[arg-type]
    cli.main(["list"])
    figures = {words[1] for words in verbs if words[0] == "reproduce"}
    assert all(f"figure {figure}: " in capsys.readouterr().out for figure in figures)


def test_links() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("studies", "glossary", "tuning"))):
        for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / link.partition("#")[0]).exists(), link


def test_glossary() -> None:
    """A line for each of the words that the README cannot do without."""
    explained = re.findall(r"^\| ([^|]+) \| .{20,}", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    words = {word.strip("` ") for cell in explained for word in re.split(", | and ", cell)}
    assert words >= {
        "arm", "pull", "policy", "run", "budget", "regret", "paired", "common random numbers", "95 % interval",
        "entity", "false value", "sc-probability", "Gamma", "effectiveness", "CRUX", "k-sigma", "MAD",
        "lane", "checkpoint",
    }  # fmt: skip


def test_the_first_studys_table(tmp_path: Path) -> None:
    """A part of it: the quick policies. More runs of the rest would take a minute."""
    mapping = tomllib.loads((ROOT / "examples" / "cleaning.toml").read_text())
    mapping |= {
        "policy": [{"kind": "known-sc"}, {"kind": "ee", "tuning": "lemma3"}],
        "sweep": {"budget": [1_000, 10_000]},
    }
    table = render(run(Study.of(mapping), tmp_path / "out"), "markdown")
    shown = [" ".join(line.split()) for line in README.splitlines()]
    rows = [line.strip("| ").split("|") for line in table.splitlines() if line.startswith(("| known-sc", "| ee"))]
    assert len(rows) == 4
    for row in rows:
        assert " ".join(" ".join(row[:-1]).split()) in shown  # without the entities finished
