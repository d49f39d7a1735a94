"""The command line: tables on stdout, one line and status 2 for bad input, a study that survives being stopped."""

import contextlib
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import jaxbandit
from jaxbandit import cli, papers
from jaxbandit.cli import program
from jaxbandit.laws import parse as parse_law
from jaxbandit.study import families
from jaxbandit.study import run as running
from jaxbandit.study.results import open_results
from tests import interruptions, toy

STUDY = """
seed = 3
runs = {runs}
[problem]
kind = "toy/coins"
[[policy]]
kind = "mixed"
share = [0.2, 0.6]
[sweep]
budget = [5, {budget}]
"""


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(families.FAMILIES, "toy", toy.FAMILY)
    families.register(toy.FAMILY)  # with its source, as in a process of its own
    monkeypatch.setattr(papers, "FIGURES", toy.FIGURES)
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")  # so that main leaves this process as it is


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(runs=40, budget=10))
    return path


def start(*argv: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, toy.__file__, *map(str, argv)], text=True, env=os.environ | environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_records_are_fitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines for study files are such as study files can have."""
    (tmp_path / "past.csv").write_text(
        "right,asked\n" + "1,30\n0,30\n9,30\n4,30\n2,30\n26,30\n30,30\n29,30\n20,30\n28,30\n" * 16
    )
    command = ["fit", str(tmp_path / "past.csv"), "--successes", "right", "--attempts", "asked"]
    assert cli.main([*command, "--components", "2"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^component 2: weight 0\.\d+ \+- 0\.0\d+, alpha [\d.]+ \+- ", said, re.M)
    entities, _, *arms = said.splitlines()[-4:]
    law = tomllib.loads(entities.removeprefix("in a study file: "))["sc_pdf"]
    assert parse_law("sc_pdf", law).mean() == pytest.approx(149 / 300, abs=0.01)
    assert tomllib.loads("\n".join(arms)) == {"n": 160, "means": law}
    assert cli.main([*command, "--components", "2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["records"], len(facts["components"])) == (160, 2)
    assert cli.main([*command, "--components", "7"]) == 2
    assert "components = 7: a whole number from 1 to 6" in capsys.readouterr().err


def test_run_show_and_reproduce(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert cli.main(["run", str(study), "--out", str(out)]) == 0
    table, said = capsys.readouterr()
    assert table.splitlines()[2].split() == ["policy", "budget", "share", "throws", "heads", "never", "thrown"]
    assert said.splitlines()[-1].startswith("jaxbandit: 160 runs done after ")
    assert {path.name for path in out.iterdir()} == {
        "study.json", "results.zarr", "finished.json", "summary.json", "figure.json", "figure.png",
    }  # fmt: skip
    (out / "figure.png").unlink()
    for format in ("text", "markdown", "csv", "json"):
        assert cli.main(["show", str(out), "--format", format]) == 0
        shown = capsys.readouterr().out
        assert format != "text" or shown == table
        assert format != "json" or json.loads(shown) == json.loads((out / "summary.json").read_text())
    assert (out / "figure.png").exists()

    changed = f"jaxbandit: {out / 'summary.json'} was changed after the study"
    (out / "summary.json").write_text(json.dumps(json.loads((out / "summary.json").read_text())))
    for command, says in (["show", str(out)], True), (["run", str(study), "--out", str(out)], False):
        assert cli.main(command) == 0
        assert (changed in capsys.readouterr().err) == says
    assert cli.main(["show", str(out)]) == 0
    assert changed not in capsys.readouterr().err

    for runs in (10, 40):  # the first of the 40, and then the others
        assert cli.main(["run", str(study), "--out", str(tmp_path / "few"), "--runs", str(runs)]) == 0
        few = capsys.readouterr().out
        assert all(row["runs"] == runs for row in json.loads((tmp_path / "few" / "summary.json").read_text()))
    assert few == table
    for runs in (10, 10, 40):  # also where nothing is left to be done
        assert cli.main(["run", str(study), "--out", str(tmp_path / "few"), "--runs", str(runs)]) == 0
        line = f"jaxbandit: {tmp_path / 'few'} has 40 runs of a configuration, of which this shows the first 10"
        assert (f"\n{line}\n" in capsys.readouterr().err) == (runs == 10)

    assert cli.main(["reproduce", "toy/fig1", "--runs", "9", "--out", str(tmp_path / "figure")]) == 0
    table = capsys.readouterr().out
    assert "exact" in table
    assert "ratio" in table
    assert cli.main(["show", str(tmp_path / "figure")]) == 0
    assert capsys.readouterr().out == table

    assert cli.main(["tune", str(study), "--out", str(tmp_path / "tuned")]) == 0
    table = capsys.readouterr().out
    assert json.loads((tmp_path / "tuned" / "summary.json").read_text())[1]["params"] == {"budget": 10}
    assert cli.main(["show", str(tmp_path / "tuned")]) == 0
    assert capsys.readouterr().out == table

    assert cli.main(["list"]) == 0
    listed = capsys.readouterr().out
    for line in ("problem toy/coins: two coins", "policy mixed: both coins", "figure toy/fig1: Heads against budget"):
        assert line in listed
    assert "    share (default 0.5): of the better coin" in listed


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert cli.main(["list", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_list_takes_words(capsys: pytest.CaptureFixture[str]) -> None:
    heads = {line.partition(" ")[0] for line in listed(capsys, "policies") if not line.startswith(" ")}
    assert heads == {"policy"}
    assert listed(capsys, "toy", "policies") == [
        "policy best: the better coin alone", "policy mixed: both coins", "    share (default 0.5): of the better coin",
        "        tune: 0 to 1",
    ]  # fmt: skip
    assert listed(capsys, "toy", "figures") == ["figure toy/fig1: Heads against budget (50 runs)"]
    assert listed(capsys, "--search", "BOTH coins") == listed(capsys, "toy", "policies")[1:]
    both = listed(capsys, "cleaning", "topk", "problems")
    assert {line.split("/")[0] for line in both if line.startswith("problem")} == {"problem cleaning", "problem topk"}


def test_lists_are_as_wide_as_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    narrow = listed(capsys, "topk")
    assert max(map(len, narrow)) <= 80
    laws = [line for line in narrow if line.startswith("    means (optional")]
    assert laws[0].startswith("    means (optional): the arms' means:")
    assert set(laws[1:]) == {"    means (optional): as for problem topk/bernoulli, above"}
    monkeypatch.setenv("COLUMNS", "120")
    wide = listed(capsys, "topk")
    assert 80 < max(map(len, wide)) <= 120
    assert " ".join(" ".join(wide).split()) == " ".join(" ".join(narrow).split())


def test_help_lists_all_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    listed = re.findall(r"• (\w+)", capsys.readouterr().out)
    assert listed == [*program.VERBS, "live"]


def test_version_and_completion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"jaxbandit {jaxbandit.__version__}\n"
    assert cli.main(["--tyro-print-completion", "bash"]) == 0
    assert "complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ([], "verb = missing: one of run, show, compare, reproduce, tune, train, plan, fit, describe, list, doctor"),
        (["play"], "verb = play: one of run, show, compare, reproduce, tune, train, plan, fit, describe, list, doctor"),
        (["--out"], "verb = --out: one of run"),
        (["run"], "STUDY.toml = missing: it must be given"),
        (["run", "STUDY"], "--out = missing: it must be given"),
        (["run", "STUDY", "--out"], "--out = missing: a value"),
        (["run", "STUDY", "--out", "OUT", "--fast"], "argument = --fast: no such argument"),
        (["run", "STUDY", "--out", "OUT", "--runs", "0"], "--runs = 0: a whole number from 1 to 2147483647"),
        (["run", "STUDY", "--out", "OUT", "--runs", "None"], "--runs = None: a whole number"),
        (["run", "STUDY", "--out", "OUT", "--platform", "None"], "--platform = None: one of cpu, cuda, rocm, tpu"),
        (["run", "STUDY", "--out", "OUT", "--platform", "gpu"], "--platform = gpu: one of cpu, cuda, rocm, tpu"),
        (["compare", "OTHER", "--quantiles", "x"], "--quantiles = x: numbers"),
        (["compare", "OTHER", "--quantiles", "0.5", "y"], "--quantiles = 0.5, y: numbers"),
        (["run", "STOPS", "--out", "OUT", "--runs", "1"], "--runs = 1: at least 2 where stop_when is given"),
        (["run", "STUDY", "-o", "OUT"], "argument = -o: no such argument"),
        (["run", "STUDY", "MORE", "--out", "OUT"], "argument = MORE: no such argument"),
        (["run", "none.toml", "--out", "OUT"], "STUDY = none.toml: a file that can be read"),
        (["run", "STUDY", "--out", "STUDY"], "--out = "),
        (["run", "BAD", "--out", "OUT"], "STUDY = "),
        (["run", "WRONG", "--out", "OUT"], "sweep.budget = 0: a whole number from 1 to 2147483647"),
        (["tune", "WRONG", "--out", "OUT"], "sweep.budget = 0: a whole number from 1 to 2147483647"),
        (["show", "OUT"], "DIR = "),
        (["show", "OTHER"], "DIR = "),
        (["show", "OTHER", "--format", "xml"], "--format = xml: one of text, markdown, latex, csv, json"),
        (["list", "foo"], "WHAT = foo: some of problems, policies, metrics, figures, cleaning, topk,"),
        (["list", "--search", "zzz"], "--search = zzz: a word or a name that some entry has"),
        (["list", "topk", "figures"], "WHAT = topk figures: a word or a name that some entry has"),
        (["list", "--plugin", "none.py"], "--plugin = none.py: a Python file that exists"),
        (["tune", "STUDY", "--plugin", "none.py"], "--plugin = none.py: a Python file that exists"),
        (["reproduce", "--out", "OUT"], "PAPER/FIGURE = missing"),
        (
            ["reproduce", "toy/fig2", "--out", "OUT"],
            "PAPER/FIGURE = toy/fig2: a figure that `jaxbandit list` names, such",
        ),
        (["compare", "OTHER", "--baseline", "x", "--differences"], "--differences = together with --baseline: one"),
        (["compare", "OTHER", "--quantiles"], "--quantiles = missing: some numbers between 0 and 1"),
        (["compare", "OTHER", "--baseline", "x", "--quantiles", "0.5"], "--quantiles = together with --baseline: one"),
        (["reproduce", "toy/fig1", "--out", "OUT", "--runs", "1e3"], "--runs = 1e3: a whole number"),
        (["reproduce", "toy/fig1", "--out", "OUT", "--runs", "0"], "--runs = 0: a whole number from 1 to 2147483647"),
        (["reproduce", "toy/fig1", "--out", "OUT", "--seed", "-1"], "--seed = -1: a whole number from 0 to 4294967295"),
        (["reproduce", "toy/fig1", "--out", "OUT", "--data", "gone"], "--data = gone: a file that can be read"),
        (["reproduce", "toy/fig1", "--out", "OTHER"], "--out = "),
    ],
)
def test_bad_input_gets_one_line(
    argv: list[str], line: str, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.toml").write_text("runs = = 1")
    (tmp_path / "wrong.toml").write_text(STUDY.format(runs=40, budget=0))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "summary.json").write_text('[{"policy": 1}]')
    stops = '[stop_when]\nmetric = "heads"\nhalf_width = 0.1\n[problem]'
    (tmp_path / "stops.toml").write_text(study.read_text().replace("[problem]", stops, 1))
    names = {"STUDY": study, "OUT": tmp_path / "out", "OTHER": tmp_path / "other", "BAD": tmp_path / "bad.toml",
             "WRONG": tmp_path / "wrong.toml", "STOPS": tmp_path / "stops.toml"}  # fmt: skip
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert cli.main([str(names.get(word, word)) for word in argv]) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert said.count("\n") == 1
    assert said.startswith(f"jaxbandit: {line}")
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_stdout_that_is_closed_or_full(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        assert cli.main(["list"]) == 0
    if not Path("/dev/full").exists():
        return
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert cli.main(["list"]) == 2
    assert capsys.readouterr().err == (
        "jaxbandit: stdout = full: a place that can be written to (No space left on device)\n"
    )


def test_stdout_that_cannot_encode_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the locale's encoding is ASCII, or on Windows, where a pipe has the code page's."""
    bytes_ = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(bytes_, "ascii"))
    assert cli.main(["--version"]) == 0
    print("0.5 ± 0.1", flush=True)
    assert bytes_.getvalue().endswith(b"0.5 \\xb1 0.1\n")


def test_help_and_errors_do_not_wait_for_jax() -> None:
    code = "import sys; from jaxbandit import cli; {}; sys.exit('jax' in sys.modules or 'matplotlib' in sys.modules)"
    for call in ("cli.main(['--help'])", "cli.main(['run'])"):
        done = subprocess.run([sys.executable, "-c", code.format(call)], capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert "Traceback" not in done.stderr
    for argv in (["--help"], ["run", "--help"]):
        assert cli.main(argv) == 0


def test_damage_is_one_line_to_the_end_of_the_process(tmp_path: Path) -> None:
    """Other chunks are read beside the damaged one, and Zarr leaves these reads alone."""
    given = {
        "runs": 2_000, "sweep": {"budget": list(range(2, 26))},
        "problem": {"kind": "cleaning/synthetic", "entities": 50}, "policy": [{"kind": "random"}, {"kind": "greedy"}],
    }  # fmt: skip
    jaxbandit.run_study(jaxbandit.Study.of(given), tmp_path / "out", progress=False)
    chunk = next(path for path in (tmp_path / "out/results.zarr/removed/c").rglob("0") if path.is_file())
    chunk.write_bytes(chunk.read_bytes()[:10])
    command = [sys.executable, "-m", "jaxbandit", "compare", str(tmp_path / "out"), "--metric", "removed"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


@pytest.mark.slow
def test_a_stopped_study_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Interrupted once, then killed twenty times, each at a random moment of its work."""
    path, out = tmp_path / "study.toml", tmp_path / "out"
    path.write_text(STUDY.format(runs=30_000, budget=10))
    command = ["run", str(path), "--out", str(out)]
    moments = random.Random(0)

    def changed() -> list[int]:
        return sorted(file.stat().st_mtime_ns for file in out.glob("results.zarr/done/c/*/*/*") if file.suffix == "")

    def stop(how: signal.Signals) -> tuple[int, str, str]:
        before = changed()
        process = start(*command, TOY_CHUNK="64")
        deadline = time.monotonic() + 60
        while changed() == before and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.2))
        process.send_signal(how)
        return (process.wait(60), *process.communicate())

    status, table, said = stop(signal.SIGINT)
    assert (status, table) == (130, "")
    line = f"jaxbandit: interrupted; `jaxbandit {' '.join(command)}` continues where it stopped"
    assert said.splitlines()[-1] == line
    for _ in range(20):
        status, _, _ = stop(signal.SIGKILL)
        assert status == -signal.SIGKILL
    assert not (out / "summary.json").exists()
    assert cli.main(["show", str(out)]) == 2
    there = int(open_results(out).done.sum())
    assert 21 * 64 <= there < 120_000
    capsys.readouterr()
    assert cli.main(command) == 0
    assert "damaged" not in capsys.readouterr().err
    assert cli.main([*command[:-1], str(tmp_path / "whole")]) == 0
    for name in ("summary.json", "figure.json"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert open_results(out).identical(open_results(tmp_path / "whole"))
    capsys.readouterr()
    path.write_text(STUDY.format(runs=30_000, budget=10).replace("seed = 3", "seed = 4"))
    assert cli.main(command) == 2
    assert "seed differs in the study it holds" in capsys.readouterr().err


@pytest.mark.slow
def test_an_interruption_is_one_line(tmp_path: Path) -> None:
    """Each verb, in each way, while it imports, compiles or writes: see ``interruptions.py`` for more of them."""
    moments = random.Random(1)
    for verb, command in interruptions.prepare(tmp_path).items():
        for how in interruptions.HOW:
            after = moments.uniform(0, interruptions.LATEST[verb] / 2)
            ended = interruptions.interrupt(command, how, after, between=moments.uniform(0, 0.02))
            if ended[0] != 0:
                assert not interruptions.complaint(command, how, *ended), (verb, how, after, ended)


def test_tune_keeps_the_settings_that_it_tuned(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["tune", str(study), "--out", str(tmp_path / "out")]

    tuned = []

    def tune(setting: toy.Setting) -> list[Any]:
        tuned.append(setting.budget)
        if setting.budget == 10 and len(tuned) < 3:
            raise KeyboardInterrupt
        return toy.FAMILY.tune(setting)

    whole = cli.main(["tune", str(study)])
    table = capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setitem(families.FAMILIES, "toy", replace(toy.FAMILY, tune=tune))
        with pytest.raises(KeyboardInterrupt):
            cli.main(command)
        assert "budget" not in capsys.readouterr().out
        assert not (tmp_path / "out" / "summary.json").exists()
        assert cli.main(command) == whole == 0
    again = capsys.readouterr()
    assert again.out == table
    assert again.err == f"jaxbandit: results in {tmp_path / 'out'}\n"
    assert tuned[1:] == [10, 10]  # the first one was kept


def test_reproduce_takes_the_seed_and_run_the_scheduler_and_the_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "figure"
    assert cli.main(["reproduce", "toy/fig1", "--runs", "3", "--seed", "5", "--out", str(out)]) == 0
    assert json.loads((out / "study.json").read_text())["identity"]["seed"] == 5
    seen: list[Any] = []

    @contextlib.contextmanager
    def workers(address: str | None) -> Iterator[tuple[None, None]]:
        seen.append(address)
        yield None, None

    original = running.run

    def run(*given: Any, **named: Any) -> Any:
        seen.append(named["lanes"])
        return original(*given, **named)

    monkeypatch.setattr("jaxbandit.cli.run.workers", workers)
    monkeypatch.setattr(running, "run", run)
    file = tmp_path / "study.toml"
    file.write_text('runs = 3\n[problem]\nkind = "toy/coins"\nbudget = 30\n[[policy]]\nkind = "best"\n')
    assert cli.main(["run", str(file), "--out", str(tmp_path / "o"), "--scheduler", "tcp://a:1", "--lanes", "2"]) == 0
    assert seen == ["tcp://a:1", 2]
