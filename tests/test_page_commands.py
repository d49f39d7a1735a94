"""The commands that the pages show do something: each page's run one after the other, in a folder of its own.

Studies are cut to a few runs and searches to a few candidates; what they print is tested elsewhere.
"""

import io
import re
import shlex
import shutil
from pathlib import Path

import pytest

from jaxbandit import cli

ROOT = Path(__file__).parents[1]
EXEMPT = {
    r"(make|pip|git|dask|srun) |JAX_NUM_CPU_DEVICES|for |    CUDA|done$|export |#": "the user's own machines",
    r"jaxbandit .*--scheduler": "a cluster: test_cluster.py has one",
    r"jaxbandit live serve": "it waits for a browser: test_live_page.py has one",
    r"jaxbandit tune examples/outliers": "a planning table takes minutes: test_outlier_family.py has a small one",
    r"jaxbandit train": "the least training takes a minute: test_trained.py has one",
    r"python -c .*answers\.csv": "it needs the user's answers",
    r"jaxbandit doctor --check": "it measures for some seconds: test_devices.py",
    r"jaxbandit (run examples/|compare out/)(own.)?extraction": "its programs take a minute: test_examples.py",
    r"jaxbandit (run examples/|compare out/)own.(arms|index)": "test_examples.py runs their studies",
    r"python examples/own_": "test_examples.py runs these programs",
    r"python -m benchmarks": "it measures for minutes",
}
"""Beginnings of commands that are not run here, and why."""
SLOW = ("README.md", "choose.md", "command-line.md", "own-others.md", "studies.md", "tuning.md")
PICTURES = ("checkpoints", "epsilon", "exploring-q", "laws", "own", "promise", "rounds", "tune")
"""A third of the gallery; the studies of others are commands of pages too."""

CLAIMS = "".join(f"AA-{n // 3},{6 + n % 3}:{n % 60:02},{n % 3},site {n % 3}\n" for n in range(60))
TABLES = {
    "claims.csv": f"flight,departure,price,source\n{CLAIMS}",
    "past.csv": "successes,attempts\n" + "1,3\n4,5\n0,2\n2,2\n3,9\n7,8\n" * 10,
}
CLEANING = """
runs = 8
[problem]
kind = "cleaning/table"
path = "claims.csv"
entity = "flight"
value = "departure"
[[policy]]
kind = "ee"
[[policy]]
kind = "greedy"
[sweep]
budget = [10, 40]
[train]
[tune]
candidates = 3
most_runs = 2_000
"""
TOPK = """
[problem]
kind = "topk/bernoulli"
n = 60
K = 2
budget = 2_000
[[policy]]
kind = "uniform"
"""


def commands(page: Path) -> list[str]:
    """The lines of its blocks of commands."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def exempt(command: str) -> bool:
    return any(re.match(pattern, command) for pattern in EXEMPT)


GALLERY = ROOT / "docs" / "gallery.md"
PAGES = {
    path.name: path
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    if path != GALLERY and not all(map(exempt, commands(path)))
}


def small(study: str) -> str:
    """The same study with less to compute."""
    for key, value in {"runs": 4, "candidates": 4, "most_runs": 512}.items():
        study = re.sub(rf"^{key} = [\d_]+", f"{key} = {value}", study, flags=re.MULTILINE)
    return study.replace("[train]\n", "[train]\ngenerations = 1\npopulation = 4\nruns = 8\n")


def prepare(page: str) -> None:
    """What a reader has: the clone's examples, tables, and the files that the page shows."""
    shutil.copytree(ROOT / "examples", "examples")
    shutil.copy("examples/own_policy.py", "my_rules.py")
    files = {**TABLES, "STUDY.toml": CLEANING, "study.toml": CLEANING.replace("budget = [10, 40]\n", "")}
    files["study.toml"] = files["study.toml"].replace("[[policy]]", "budget = 40\n[[policy]]", 1)
    files |= dict(re.findall(r"^```toml\n# (\w+\.toml)\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    files |= dict(re.findall(r"^`(\w+\.\w+)` (?:[^\n]+\n)+\n```\w+\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    for name, text in files.items():
        Path(name).write_text(text)
    for path in Path().rglob("*.toml"):
        path.write_text(small(path.read_text()))


def execute(command: str) -> None:
    """As a shell would; a name in capitals stands for a folder of each command's own where one would not do."""
    words = shlex.split(command, comments=True)[1:]
    if words[0] == "tune" or "--plugin" in words:
        words = [f"DIR-{words[0]}" if word == "DIR" else word for word in words]
    if words[0] == "live":  # a session has one budget
        words = ["study.toml" if word == "STUDY.toml" else word for word in words]
    if "regret" in words:
        Path("study.toml").write_text(TOPK)
    if words[0] == "reproduce" and "--runs" in words:
        words[words.index("--runs") + 1] = "5"
    if words[0] == "plan":
        words += ["--most-runs", "20000"]
    assert cli.main(words) == 0, command


@pytest.fixture(autouse=True)
def _reader(own_names: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))


def cases(names: list[str]) -> list[object]:
    return [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in names]


def test_exemptions_are_needed() -> None:
    shown = [command for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")] for command in commands(path)]
    for pattern in EXEMPT:
        assert any(re.match(pattern, command) for command in shown), pattern


@pytest.mark.parametrize("name", cases([*PAGES]))
def test_pages(name: str) -> None:
    page = PAGES[name].read_text()
    prepare(page)
    for command in commands(PAGES[name]):
        if not exempt(command):
            execute(command)


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_gallery(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import gallery

    prepare("")
    for words in gallery.entries()[name]:
        execute(shlex.join(words))
    assert gallery.picture(gallery.entries()[name][-1]).exists()
