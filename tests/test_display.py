"""What users look at: ``show``, ``plot`` and ``table``, and the pictures of studies of objects."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure

import jaxbandit
from jaxbandit import BadInput, cli, experiment, open_results, plot, run_study, table
from jaxbandit.cli.console import columns
from jaxbandit.study import canvas, families
from jaxbandit.study.figure import Axes
from jaxbandit.study.results import rows_of
from jaxbandit.study.run import run
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import Row
from jaxbandit.study.table import render
from tests import toy


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(families.FAMILIES, "toy", toy.FAMILY)
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")


MAPPING: dict[str, Any] = {
    "runs": 60,
    "problem": {"kind": "toy/coins"},
    "policy": [{"kind": "best"}, {"kind": "mixed", "share": [0.2, 0.6]}],
    "sweep": {"budget": [5, 30], "odds": [[0, 1], [0.5, 0.5]]},
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results with its picture."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(families.FAMILIES, "toy", toy.FAMILY)
        run_study(Study.of(MAPPING), folder)
    return folder


def summary(folder: Path) -> list[Row]:
    rows: list[Row] = json.loads((folder / "summary.json").read_text())
    return rows


def test_rows_of_a_dataset_are_those_of_the_summary(out: Path, tmp_path: Path) -> None:
    data = open_results(out)
    assert rows_of(data) == summary(out)
    assert rows_of(data.isel(run=slice(20)))[0]["runs"] == 20
    chosen = rows_of(data.sel(policy="mixed share=0.2", budget=30))
    assert [row["params"] for row in chosen[::3]] == [
        {"budget": 30, "odds": odds, "throws": 6, "share": 0.2} for odds in ([0, 1], [0.5, 0.5])
    ]
    assert all(row in summary(out) for row in chosen)
    stopped = {"sweep": {}, "problem": {"kind": "toy/coins", "budget": 9}, "checkpoints": [2, 5], "runs": 2000,
               "policy": [{"kind": "best"}]}  # fmt: skip
    rule = {"stop_when": {"metric": "heads", "half_width": 0.5}}
    assert run(Study.of(MAPPING | stopped | rule), tmp_path) == rows_of(open_results(tmp_path))


def test_results_of_fixed_objects_are_shown() -> None:
    """Which have no params at all."""
    policies = {"few": toy.Coin(np.float32(0.2)), "more": toy.Coin(np.float32(0.6))}
    heads = {"heads": lambda setting, answers: answers["heads"].astype(float)}
    results = run_study(
        experiment(toy.Coins(jnp.int32(9), jnp.float32(0), jnp.float32(1)), policies, heads, runs=20), progress=False
    )
    assert [line.split()[0] for line in table(results).splitlines()[4:]] == ["few", "more"]
    assert {each.get_text() for each in plot(results).axes[0].get_yticklabels()} == {"few", "more"}
    with pytest.raises(BadInput, match="format = html: one of text, markdown, latex, csv, json"):
        table(results, format="html")  # type: ignore[arg-type]


def lines(figure: Figure) -> dict[str, list[float]]:
    """The x of each curve, by its name."""
    return {
        str(line.get_label()): list(line.get_xdata()) for line in figure.axes[0].lines if line.get_label()[0] != "_"
    }


def test_plot(out: Path) -> None:
    figure = plot(open_results(out))
    [axes] = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("budget", "heads per throw")
    assert len(lines(figure)) == 6
    assert all(xs == [5, 30] for xs in lines(figure).values())
    assert axes.collections  # the bands
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert lines(plot(out)) == lines(plot(summary(out))) == lines(figure)
    assert plot(out, "thrown").axes[0].get_ylabel() == "throws"
    assert plot(out, "never").axes[0].get_xlabel() == "no value"  # nothing to draw
    assert plot(out, x="share").axes[0].get_xlabel() == "share"
    words = [text.get_text() for text in plot(out, x="odds").axes[0].get_xticklabels()]
    assert words == ["0, 1", "0.5, 0.5"]


def test_table(out: Path) -> None:
    assert table(out) == table(open_results(out)) == table(summary(out)) == render(summary(out))
    assert table(out, "never", "csv").count("never") == 12
    head = table(out, ["thrown", "heads"], "markdown").splitlines()[2]
    assert head == "| policy | budget | odds | share | throws | thrown | heads |"


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda out: plot(out, "tails"), "metric = tails: one of heads, never, thrown"),
        (lambda out: table(out, ["heads", "tails"]), "metric = tails: one of heads"),
        (lambda out: plot(out, x="sides"), "x = sides: a param that differs between rows: budget, odds, share, throws"),
        (lambda out: plot(out / "none"), "DIR = "),
        (lambda out: plot([]), "results = 0 items: rows as summary.json has them"),
        (lambda out: plot([{"policy": 1}]), "results = 1 item: rows as"),
        (lambda out: table(7), "results = 7: a Dataset"),
        (lambda out: plot(open_results(out).mean("run")), "results = Dataset: a Dataset of open_results"),
        (lambda out: plot(open_results(out).assign(done=False)), "DIR = a study with missing runs"),
    ],
)
def test_what_cannot_be_shown(call: Any, line: str, out: Path) -> None:
    with pytest.raises(BadInput) as caught:
        call(out)
    assert str(caught.value).startswith(line)


def test_show_draws_what_is_asked_for(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = (out / "figure.json").read_bytes()
    for kind, start in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
        assert cli.main(["show", str(out), "--metric", "never", "--x", "share", "--format", kind]) == 0
        shown, said = capsys.readouterr()
        assert said == f"jaxbandit: picture in {out / f'figure.{kind}'}\n"
        assert shown.splitlines()[2].split() == ["policy", "budget", "odds", "share", "throws", "never"]
        assert (out / f"figure.{kind}").read_bytes().startswith(start)
    assert (out / "figure.json").read_bytes() == own  # the study's own picture, which show draws again
    other = (out / "figure.png").read_bytes()
    assert cli.main(["show", str(out), "--format", "csv", "--metric", "thrown", "--metric", "heads"]) == 0
    assert capsys.readouterr().out.count("never") == 0
    assert cli.main(["show", str(out)]) == 0
    capsys.readouterr()
    assert (out / "figure.png").read_bytes() != other
    for wrong, line in (
        (["--metric", "tails"], "--metric = tails: one of heads, never, thrown"),
        (["--x", "sides"], "--x = sides: a param that differs between rows: budget, odds, share, throws"),
        (["--format", "gif"], "--format = gif: one of text, markdown, latex, csv, json, png, pdf, svg"),
    ):
        before = {path: path.read_bytes() for path in out.iterdir() if path.is_file()}
        assert cli.main(["show", str(out), *wrong]) == 2
        assert capsys.readouterr() == ("", f"jaxbandit: {line}\n")
        assert before == {path: path.read_bytes() for path in out.iterdir() if path.is_file()}


def test_tables_have_the_answer_first() -> None:
    def row(metric: str, mean: float, half: float) -> Row:
        return Row(
            policy="a", params={"n": 5}, metric=metric, mean=mean, ci_low=mean - half, ci_high=mean + half, runs=9
        )

    rows = [row("regret", 0.5, 0.1), row("pulls", 7, 0), row("pulls_0", 1, 0), row("pulls_100", 4, 0)]
    rows += [row("precision", 0.25, 0.01), row("expected_precision", 0.25, 0.01), row("stopped", 7, 0)]
    shown = render(rows).splitlines()
    head = next(line for line in shown if line.startswith("policy"))
    assert head.split() == ["policy", "regret", "pulls", "precision", "stopped"]  # 7 by chance, without an interval
    caption = " ".join(shown)
    assert "left out: expected_precision, the same as precision in all rows" in caption
    assert "left out: pulls_0 to pulls_100 (jaxbandit show --metric pulls_0)" in caption
    assert "pulls_100" in render(rows, "csv")
    assert table(rows, "pulls_100").splitlines()[-1].split() == ["a", "4"]


@pytest.mark.parametrize("width", [100, 80, 60, 42])
def test_a_table_keeps_to_its_width(width: int) -> None:
    """Metrics that do not fit go below, and what tells rows apart goes into one column where it takes too much."""
    rows = [
        Row(policy=f"epsilon-greedy epsilon=0.{one}", params={"against": "ee t=3 q=0.667", "budget": 10**budget},
            metric=metric, mean=mean, ci_low=mean - 0.1, ci_high=mean + 0.1, runs=9)
        for one in (1, 2) for budget in (3, 4)
            for metric, mean in (("effectiveness difference", 0.5), ("removed", 7))
    ]  # fmt: skip
    for row in rows[:2]:
        row["params"] = row["params"] | {"against": "random"}
    lines = render(rows, width=width).splitlines()
    assert max(map(len, lines)) <= width
    said = " ".join(" ".join(lines).split())
    assert ("epsilon-greedy epsilon=0.2 ee t=3 q=0.667 10000 0.50 ± 0.10" in said) == (width > 60)
    assert ("epsilon-greedy epsilon=0.2, 0.50 ± 0.10 against ee t=3 q=0.667, budget 10000" in said) == (width == 60)
    assert "7.00 ± 0.10" in said


def test_a_terminal_that_is_narrow_is_the_width_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal, given, found in ((True, "60", 60), (True, "200", 100), (False, "60", 100)):
        monkeypatch.setenv("COLUMNS", given)
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
        assert columns() == found


def coin(low: float, high: float = 0.8) -> toy.Coins:
    return toy.Coins(jnp.int32(30), jnp.float32(low), jnp.float32(high))


HEADS = {"heads": lambda problem, answers: answers["heads"] / float(problem.budget)}


def test_sweeps_of_objects_are_drawn_as_curves(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "problem": lambda low, high=0.8: coin(low, high),
        "policies": {
            "fixed": toy.Coin(np.float32(1)),
            "mixed": lambda problem, share: toy.Coin(np.float32(share)),
            "tuned": lambda problem, low: toy.Coin(jnp.float32(low)),
        },
        "metrics": HEADS,
        "runs": 50,
    }
    sweep = {"share": np.array([0.0, 0.5, 1.0]), "low": [0.2, 0.5]}
    study = experiment(**given, sweep=sweep)
    data = run_study(study, tmp_path / "out")
    assert dict(data.sizes) == {"policy": 5, "low": 2, "run": 50}
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"figure.png", "figure.json", "summary.json"}
    drawing = json.loads((tmp_path / "out" / "figure.json").read_text())
    assert drawing["xlabel"] == "share"
    assert sorted(drawing["series"]) == [
        f"{name}, low {low}" for name in ("fixed", "mixed", "tuned") for low in (0.2, 0.5)
    ]
    # All heads of the better coin, of the worse one, and both by halves.
    assert [point[1] for point in drawing["series"]["mixed, low 0.2"]] == pytest.approx([0.2, 0.5, 0.8], abs=0.05)
    assert float(data.heads.sel(policy="tuned", low=0.5).mean()) == pytest.approx(0.65, abs=0.05)
    run_study(experiment(**given, sweep=sweep | {"low": [0.2, 0.5, 0.7]}), tmp_path / "out")
    assert plot(tmp_path / "out", x="low").axes[0].get_xlabel() == "low"


def test_problems_that_a_function_makes_have_checkpoints() -> None:
    study = experiment(
        lambda low: coin(low), {"best": toy.Coin(np.float32(1))}, HEADS, runs=9, sweep={"low": [0.1, 0.2]},
        checkpoints=[10],
    )  # fmt: skip
    data = run_study(study)
    assert dict(data.sizes) == {"policy": 1, "low": 2, "run": 9, "checkpoint": 2}
    assert plot(data).axes[0].get_xlabel() == "budget"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"sweep": {"low": []}}, "sweep.low = []: a list of at least one value"),
        ({"sweep": {"low": 0.5}}, "sweep.low = 0.5: a list of at least one value"),
        ({"sweep": [0.5]}, "sweep = [0.5]: a dict of lists by name"),
        ({"sweep": {"low": [True]}}, "sweep.low = True: a number or a text"),
        ({"sweep": {"low": [0.1], "high": [0.2]}}, "sweep = high: a parameter of a function that makes"),
        ({"sweep": {"run": [1]}}, "sweep = run: names of parameters, none of policy, problem, run"),
        ({}, "sweep = none: a list for low, which problem takes"),
        ({"problem": coin(0.1), "sweep": {"low": [0.1]}}, "sweep = low: a parameter of a function"),
        (
            {"problem": coin(0.1), "policies": {"p": lambda problem, share: toy.Coin(share)}},
            "sweep = none: a list for share, which p takes",
        ),
        ({"problem": lambda low: low, "sweep": {"low": [0.1]}}, "problem float.draw = missing"),
    ],
)
def test_bad_sweeps_of_objects(changes: dict[str, Any], line: str) -> None:
    given: dict[str, Any] = {
        "problem": lambda low: coin(low), "policies": {"best": toy.Coin(np.float32(1))}, "metrics": HEADS, "runs": 9,
    }  # fmt: skip
    with pytest.raises(BadInput) as caught:
        experiment(**(given | changes))
    assert str(caught.value).startswith(line)


def test_names_at_the_top_are_those_of_the_module() -> None:
    assert jaxbandit.plot is plot
    assert {"plot", "table"} <= set(jaxbandit.__all__)


def test_no_module_hides_a_public_name() -> None:
    """An import of ``jaxbandit/NAME.py`` anywhere would put the module in the place of ``jaxbandit.NAME``."""
    folder = Path(jaxbandit.__file__).parent
    for name in jaxbandit.__all__:
        module = (folder / f"{name}.py").exists() or (folder / name).is_dir()
        assert module == isinstance(getattr(jaxbandit, name), ModuleType), name


def test_a_table_says_that_runs_are_not_paired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In what ``run`` and ``show`` print, and in ``table``; where they are paired, nothing."""
    lines = (
        'runs = 4\npolicy = [{ kind = "random" }]\n[problem]\nkind = "cleaning/synthetic"\nbudget = 9\nentities = 50\n'
    )
    for number, more in enumerate(("", "paired = true\n", "paired = false\n")):
        (tmp_path / "study.toml").write_text(lines + more)
        folder, head = tmp_path / str(number), "4 runs, not paired; mean" if "false" in more else "4 runs; mean"
        assert cli.main(["run", str(tmp_path / "study.toml"), "--out", str(folder)]) == 0
        printed = capsys.readouterr().out
        assert printed.startswith(head)
        assert cli.main(["show", str(folder)]) == 0
        assert capsys.readouterr().out == table(open_results(folder)) == table(folder) == printed


def test_a_picture_shows_means_intervals_and_published_points() -> None:
    points = {"a": [[1, 2.0, 1.5, 3.0], [2, 4.0, 3.5, 5.0]]}
    axes = canvas.draw(points, "x", "y", "t", published={"a": [(1, 2.5)]}).axes[0]
    drawn = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in axes.lines}
    assert (drawn["a"], drawn["a, published"]) == ([2, 4], [2.5])
    (band,) = (each for each in axes.collections if isinstance(each, PolyCollection))
    assert {tuple(each) for each in np.asarray(band.get_paths()[0].vertices)} == {(1, 1.5), (1, 3), (2, 3.5), (2, 5)}
    (bars,) = (each for each in axes.collections if isinstance(each, LineCollection))
    assert [np.asarray(each).tolist() for each in bars.get_segments()] == [[[1, 1.5], [1, 3]], [[2, 3.5], [2, 5]]]
    dots = canvas.draw({"a": [[None, 2.0, 1.5, 3.0]]}, "x", "y", "t").axes[0]
    (bar,) = (each for each in dots.collections if isinstance(each, LineCollection))
    assert np.asarray(bar.get_segments()[0]).tolist() == [[1.5, 0], [3, 0]]


def test_categories_are_neither_joined_nor_in_each_others_way() -> None:
    points = {name: [[x, 2.0, 1.5, 3.0] for x in ("easy", "rare")] for name in ("a", "b")}
    axes = canvas.draw(points, "x", "y", "t").axes[0]
    lines = [line for line in axes.lines if line.get_label() in points]
    assert [line.get_linestyle() for line in lines] == ["None", "None"]
    assert not set(lines[0].get_xdata()) & set(lines[1].get_xdata())
    assert not [each for each in axes.collections if isinstance(each, PolyCollection)]


def test_titles_are_folded_and_labels_keep_their_lines() -> None:
    axes = canvas.draw({"a": [[1, 2.0, 1.5, 3.0]]}, "budget\npublished: of the text", "y", "word " * 40).axes[0]
    assert axes.get_xlabel() == "budget\npublished: of the text"
    assert max(map(len, axes.get_title(loc="left").split("\n"))) <= 90


def test_what_a_figure_draws() -> None:
    rows = [
        Row(policy="a", params={"n": 1}, metric=metric, mean=mean, ci_low=mean - 1, ci_high=mean + 2, runs=9)
        for metric, mean in (("m", 5.0), ("other", 7.0))
    ]
    for curve in (None, lambda row: row["policy"]):
        assert Axes("n", "m", "x", "y", curve).draw(rows, "")["series"] == {"a": [[1, 5.0, 4.0, 7.0]]}
