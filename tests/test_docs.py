"""What the pages show is what happens: Python runs, study files are right, commands exist, links lead somewhere."""

import importlib.util
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest

from jaxbandit import BadInput, cli
from jaxbandit.cli import live, program
from jaxbandit.papers import FIGURES
from jaxbandit.study import plugins
from jaxbandit.study.run import run
from jaxbandit.study.spec import Study, load
from jaxbandit.study.table import render
from jaxbandit.tuning.options import TuneOptions

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
WRITTEN = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name not in ("reference", "notebooks")]
ALONE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES = {path: path.read_text() for path in sorted([*ALONE, *WRITTEN])}
MADE = {f"{name}.md" for name in ("commands", "figures", "python", "study-files")}
"""Those pages of the Reference that others link to; they are made with the site."""


def blocks(language: str) -> dict[str, str]:
    """Those of all pages, each once, with its page."""
    pattern = re.compile(rf"^```{language}\n(.*?)^```", re.DOTALL | re.MULTILINE)
    return {block: path.name for path, page in reversed(PAGES.items()) for block in pattern.findall(page)}


def lines(language: str) -> list[list[str]]:
    """The commands of such blocks, in words."""
    return [shlex.split(line, comments=True) for block in blocks(language) for line in block.splitlines()]


def test_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """``test_examples.py`` looks after the code of the pages on own policies; a cluster and UCB are not here."""
    monkeypatch.chdir(tmp_path)
    for block, page in blocks("python").items():
        code = compile(block, page, "exec")
        if not page.startswith("own-") and page not in ("checks.md", "cluster.md"):
            exec(code, {})
    assert "ee tuning=lemma3 {'against': 'ee tuning=exact', 'budget': 1000} -0.0" in capsys.readouterr().out
    assert (tmp_path / "out" / "tunings" / "summary.json").exists()
    assert (tmp_path / "out" / "tunings" / "figure.png").exists()
    assert (tmp_path / "removed.pdf").read_bytes().startswith(b"%PDF")


def test_study_files(tmp_path: Path) -> None:
    times = "sched_dep_time,act_dep_time,sched_arr_time,act_arr_time"
    (tmp_path / "claims.csv").write_text(f"flight,departure,{times}\na,1,1,2,3,4\na,2,1,3,5,\n")
    workers = "".join(f"worker {n},{3 + n % 2},{4 + 5 * (n % 2)}\n" for n in range(40))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "workers.csv").write_text(f"worker,correct,answered\n{workers}")
    (tmp_path / "past.csv").write_text("successes,attempts\n1,3\n4,5\n0,2\n")
    found = blocks("toml")
    assert len(found) >= 4
    for block, page in found.items():
        if page == "own-index.md":  # whose rule comes from a plugin: see test_examples.py
            continue
        study = Study.of(tomllib.loads(block), base=tmp_path, counted=False)
        assert study.configurations()
        assert not study.tune or TuneOptions.of(study).policies


def test_commands() -> None:
    """Each is understood; what they do is tested elsewhere."""
    commands = lines("sh")
    verbs = [words[1:] for words in commands if words[:1] == ["jaxbandit"]]
    assert {words[0] for words in verbs} - {"live"} == set(program.VERBS)
    for words in verbs:
        verb = live.VERBS[words[1]] if words[0] == "live" else program.VERBS[words[0]]
        assert isinstance(program.parse(words), verb)  # type: ignore[arg-type]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    everything = "\n".join(PAGES.values())
    made = [words[1] for words in commands if words[:1] == ["make"]]
    assert {*re.findall(r"`make ([a-z-]+)`", everything), *made} <= {*targets}
    for module in {*re.findall(r"`python -m\s+([a-z]\S*?)[ `]", everything)}:
        assert importlib.util.find_spec(module), module


def test_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """A figure that a page names exists, and ``list`` has it."""
    cli.main(["list", "figures"])
    assert re.findall(r"^figure (\S+):", capsys.readouterr().out, re.MULTILINE) == list(FIGURES)
    for page in PAGES.values():
        for name in re.findall(r"jaxbandit\s+reproduce\s+([a-z]+\d+/[a-z0-9-]+)", page):
            assert name in FIGURES


def test_links() -> None:
    """To files, to pages that are made with the site, and to headings."""
    for path, page in PAGES.items():
        for link in re.findall(r"\]\((?!https:)([^)]+)\)", page):
            target, _, heading = link.partition("#")
            file = (path.parent / target).resolve() if target else path
            if file.is_relative_to(ROOT / "docs" / "reference"):
                assert file.name in MADE, (path.name, link)
            elif file.is_relative_to(ROOT / "docs" / "notebooks"):
                assert (ROOT / "notebooks" / file.name).exists(), (path.name, link)
            else:
                assert file.exists(), (path.name, link)
            if heading:
                titles = [
                    re.sub(r"[^\w -]", "", title) for title in re.findall(r"^#+ (.*)", file.read_text(), re.MULTILINE)
                ]
                assert heading in [title.lower().replace(" ", "-") for title in titles], (path.name, link)


def test_pages_are_short() -> None:
    """1,500 words outside of code and tables; the README takes two screens of 50 lines before More."""
    for path, page in PAGES.items():
        text = re.sub(r"^(```|:::).*?^\1", "", page, flags=re.DOTALL | re.MULTILINE)
        words = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE).split()
        assert len(words) <= 1500, (path.name, len(words))
        assert path != ROOT / "README.md" or len(words) > 200, "tables and code alone are left out"
    assert README.partition("## More")[0].count("\n") <= 100


def test_reference_has_all_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys at the top of a study file; those of families and commands are read from the package."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import reference_pages

    with pytest.raises(BadInput, match="no such key; there are") as caught:
        Study.of({"nothing": 0})
    assert caught.value.allowed == f"no such key; there are {', '.join(reference_pages.KEYS)}"
    pages = reference_pages.pages()
    assert set(pages) >= MADE
    assert all(
        f"## jaxbandit {verb}\n" in pages["commands.md"]
        for verb in [*program.VERBS, *(f"live {verb}" for verb in live.VERBS)]
    )
    assert "| `--out DIR` | required | Folder for the results;" in pages["commands.md"]
    assert "| `epsilon` | `0.5` | the share of random operations, 0 to 1" in pages["study-cleaning.md"]
    assert not re.search(r"\| +\|$", "\n".join(pages.values()), re.MULTILINE), "an argument or a key without a word"


def test_glossary() -> None:
    """A line for each of the words that the README cannot do without."""
    explained = re.findall(r"^\| ([^|]+) \| .{20,}", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    words = {word.strip("` ") for cell in explained for word in re.split(", | and ", cell)}
    assert words >= {
        "arm", "pull", "policy", "run", "budget", "regret", "paired", "common random numbers", "95 % interval",
        "entity", "false value", "sc-probability", "Gamma", "effectiveness", "CRUX", "k-sigma", "MAD",
        "lane", "checkpoint", "precision", "epsilon", "delta", "optmai", "sar", "lucb",
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


@pytest.mark.usefixtures("own_names")
def test_gallery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each picture is there, and the command before it is one; studies can be read."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import gallery

    known = gallery.entries()
    assert len(known) >= 20
    assert {path.stem for path in (ROOT / "docs" / "gallery").glob("*.png")} == set(known)
    assert PAGES[ROOT / "docs" / "gallery.md"].count("](gallery/") == len(known)
    named = {ROOT / word for commands in known.values() for words in commands for word in words if ".toml" in word}
    assert named >= set((ROOT / "examples" / "gallery").glob("*.toml"))
    plugins.load(str(ROOT / "examples" / "own_policy.py"))
    for path in named:
        study = load(path, counted=False)
        assert study.configurations() or study.tune
