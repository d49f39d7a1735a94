"""Comparisons of stored runs, the report, and studies of objects."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import xarray as xr
from jax import Array

import jaxbandit
from jaxbandit import BadInput, cli, experiment, open_results, paired_differences, quantiles, ranks, run_study
from jaxbandit.progress import Status
from jaxbandit.registry import Metric
from jaxbandit.study import canvas, families, folder, picture
from jaxbandit.study.compare import besides, leaders, worth_of_pairs
from jaxbandit.study.differences import half_width
from jaxbandit.study.report import report
from jaxbandit.study.run import run
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import Row
from jaxbandit.study.table import render
from jaxbandit.wilson import share_interval
from tests import toy


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(families.FAMILIES, "toy", toy.FAMILY)
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")


def dataset(values: dict[str, np.ndarray], lower: bool = False, stop: Any = None) -> xr.Dataset:
    """As ``open_results`` gives it: values of shape (settings, runs) by policy."""
    array = np.stack(list(values.values()))
    return xr.Dataset(
        {"m": (("policy", "n", "run"), array)},
        {"policy": list(values), "n": np.arange(array.shape[1]) + 10},
        {
            "metrics": "m",
            "lower_is_better": "m" if lower else "",
            "study": json.dumps({"stop_when": stop}),
            "planned": 400 if stop else 0,
        },
    )


def test_runs_that_all_agree_tell_how_rarely_others_do_not() -> None:
    """Shares differ by 1 at most, others as values do; where these never varied either, there is no interval."""
    assert half_width(np.zeros(4_000), 0.05, None, 0.0) is None
    assert half_width(np.full(100, 2.0), 0.05, None, 3.0) == pytest.approx((3 + 2) * 0.037, abs=3e-3)
    assert half_width(np.zeros(100), 0.05, None, 1.0) == pytest.approx(0.037, abs=1e-3)


@pytest.mark.parametrize(("share", "runs"), [(0.02, 100), (0.005, 400), (0.08, 50)])
def test_differences_of_few_runs_have_intervals_that_hold(share: float, runs: int) -> None:
    """One policy is always right, the other one nearly: of 45 differences at a time, too."""
    rng = np.random.default_rng(0)
    for level, most in ((0.05, 75), (0.05 / 45, 6)):
        wrong = 0
        for _ in range(1000):
            values = -(rng.random(runs) < share).astype(float)
            half = half_width(values, level, None, 1.0)
            assert half is not None
            wrong += abs(values.mean() + share) > half
        assert wrong <= most


def test_differences_are_paired_and_hold_together() -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(2, 400))
    values = {"a": shared, "b": shared + 0.1 + 0.05 * rng.normal(size=(2, 400)), "c": rng.normal(size=(2, 400))}
    rows = paired_differences(dataset(values))
    assert [(row["policy"], row["params"]) for row in rows] == [
        (one, {"against": other, "n": n}) for n in (10, 11) for one, other in (("a", "b"), ("a", "c"), ("b", "c"))
    ]
    theirs = scipy.stats.ttest_rel(values["a"][0], values["b"][0]).confidence_interval(1 - 0.05 / 6)
    assert (rows[0]["ci_low"], rows[0]["ci_high"]) == pytest.approx((theirs.low, theirs.high), rel=1e-9)
    assert rows[0]["ci_high"] < 0 < rows[1]["ci_high"]
    against = paired_differences(dataset(values), "m", "b")
    assert [(row["policy"], row["params"]["against"]) for row in against[:2]] == [("a", "b"), ("c", "b")]
    assert against[0]["ci_high"] < rows[0]["ci_high"]  # fewer comparisons
    wide = paired_differences(dataset(values, stop={"metric": "m"}))
    assert wide[0]["ci_low"] < rows[0]["ci_low"]


def test_differences_whose_squares_are_no_floats_have_no_interval() -> None:
    (row,) = paired_differences(dataset({"a": np.array([[1e200, 3e200, 2e200]]), "b": np.ones((1, 3))}))
    assert (row["mean"], row["ci_low"], row["ci_high"]) == (pytest.approx(2e200), None, None)


def test_what_pairs_are_worth() -> None:
    rng = np.random.default_rng(0)
    shared, noise = rng.normal(size=(2, 1, 20_000))
    close = dataset({"a": shared, "b": shared + 0.5 * noise, "c": shared + 1.0})
    # Of a and b: 0.25 of 1 + 1.25. Of a and c: nothing of 2. Of b and c: as a and b.
    assert "is 0.00 to 0.11 times that of runs that share nothing" in str(worth_of_pairs(close))
    apart = worth_of_pairs(dataset({"a": shared, "b": noise}))
    assert "is 1.00 times" in str(apart)
    assert worth_of_pairs(dataset({"a": np.ones((1, 9)), "b": np.zeros((1, 9))})) is None
    assert worth_of_pairs(dataset({"a": shared, "b": np.full((1, 20_000), np.nan)})) is None


@pytest.mark.parametrize("runs", [20, 30, 99, 128, 200, 256])
def test_values_that_never_varied_have_no_variance_whatever_their_mean_is_rounded_to(runs: int) -> None:
    """The mean of 200 times 2/3 is another number than 2/3."""
    assert worth_of_pairs(dataset({"a": np.ones((1, runs)), "b": np.full((1, runs), 1 / 3)})) is None
    rare = share_interval(0.0, runs)[1]
    assert half_width(np.full(runs, 2 / 3), 0.05, None, 1.0) == pytest.approx((1 + 2 / 3) * rare, rel=1e-6)


@pytest.mark.parametrize("stops_first", [True, False])
def test_runs_are_judged_by_what_decided_how_many_there_are(
    stops_first: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of an earlier study by that one's rule, as long as another one that extends it is not finished."""
    policies = [{"kind": "mixed", "share": share} for share in (0.2, 0.8)]
    base = {"problem": {"kind": "toy/coins", "budget": 20}, "policy": policies}
    fixed, stops = {"runs": 40}, {"runs": 100_000, "stop_when": {"metric": "heads", "half_width": 0.5}}
    first, second = (stops, {"runs": 90_000}) if stops_first else (fixed, stops | {"runs": 90_000})
    run(Study.of(base | first), tmp_path / "out")
    before = paired_differences(tmp_path / "out")

    def interrupt(status: Status) -> None:
        if status.doing.startswith("running"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Study.of(base | second), tmp_path / "out", progress=interrupt)
    assert paired_differences(tmp_path / "out") == before
    capsys.readouterr()
    assert cli.main(["compare", str(tmp_path / "out")]) == 0
    assert "goes on, or was interrupted: this is what it had before" in capsys.readouterr().err
    if stops_first:  # finished, its runs are a number that was chosen beforehand
        run(Study.of(base | {"runs": before[0]["runs"] + 1}), tmp_path / "out")
        student, held = paired_differences(tmp_path / "out")[0], before[0]
        assert student["ci_high"] - student["ci_low"] < 0.9 * (held["ci_high"] - held["ci_low"])


def test_intervals_of_differences_miss_together_in_one_study_of_twenty() -> None:
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(400):
        rows = paired_differences(dataset({name: rng.normal(size=(2, 60)) for name in "abcd"}))
        missed += any(row["ci_low"] > 0 or row["ci_high"] < 0 for row in rows)
    assert missed <= 0.05 * 400 + 4 * np.sqrt(0.05 * 0.95 * 400)


def test_ranks() -> None:
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(3, 1, 200))
    values = {"low": noise[0], "middle": noise[1] + 2, "also": noise[2] + 2.05, "high": noise[0] + 5}

    def found(data: xr.Dataset) -> dict[str, list[float | None]]:
        by_policy: dict[str, list[float | None]] = {}
        for row in ranks(data):
            by_policy.setdefault(row["policy"], []).append(row["mean"])
        return by_policy

    higher = found(dataset(values))
    assert higher["high"] == [1, 1, 1]
    assert higher["low"] == [4, 4, 4]
    assert [higher[name][1:] for name in ("middle", "also")] == [[2, 3], [2, 3]]
    assert found(dataset(values, lower=True))["low"] == [1, 1, 1]


def test_few_runs_that_are_alike_decide_nothing() -> None:
    values = {"a": np.zeros((1, 2)), "b": np.ones((1, 2)), "c": np.full((1, 2), np.nan)}
    [row, *_] = paired_differences(dataset(values))
    assert (row["mean"], row["ci_low"], row["ci_high"]) == (-1, None, None)
    found = {(row["policy"], row["metric"]): row["mean"] for row in ranks(dataset(values))}
    assert (found["a", "best rank"], found["a", "worst rank"], found["c", "rank"]) == (1, 2, None)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("missing", [np.nan, np.inf])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("gap", range(4))
def test_a_policy_without_a_mean_has_no_rank_and_takes_none(gap: int, lower: bool, missing: float) -> None:
    """Wherever it stands among the others; ``sorted`` leaves anything about a NaN as it was."""
    noise = np.random.default_rng(3).normal(size=(3, 1, 200)) / 9
    values = {"second": noise[0] + 2, "third": noise[1] + (3 if lower else 1), "first": noise[2] + (1 if lower else 3)}
    gone = noise[0] + 9
    gone[0, 5] = missing
    named = list(values.items())
    rows = ranks(dataset(dict([*named[:gap], ("none", gone), *named[gap:]]), lower))
    found: dict[str, list[float | None]] = {}
    for row in rows:
        found.setdefault(row["policy"], []).append(row["mean"])
    assert found == {"first": [1] * 3, "second": [2] * 3, "third": [3] * 3, "none": [None] * 3}


def test_settings_that_look_alike_are_told_apart(tmp_path: Path) -> None:
    odds = [[0.1, 0.2000001], [0.1, 0.2000002]]
    mapping = {"runs": 9, "problem": {"kind": "toy/coins", "budget": 4}, "sweep": {"odds": odds}}
    run(Study.of({**mapping, "policy": [{"kind": "best"}, {"kind": "mixed"}]}), tmp_path)
    assert [row["params"]["odds"] for row in paired_differences(open_results(tmp_path))] == odds


def test_quantiles() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(300):
        [row] = quantiles(dataset({"a": rng.exponential(size=(1, 500))}), [0.9])
        covered += row["ci_low"] <= -np.log(0.1) <= row["ci_high"]
    assert covered >= 0.95 * 300 - 4 * np.sqrt(0.05 * 0.95 * 300)
    [row] = quantiles(dataset({"a": np.arange(9.0)[None]}), [0.01])
    assert (row["ci_low"], row["ci_high"]) == (None, None)
    [row] = quantiles(dataset({"a": np.where(np.arange(200) == 7, np.nan, 1.0)[None]}), [0.5])
    assert (row["mean"], row["ci_low"], row["ci_high"]) == (None, None, None)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda data: paired_differences(data, "k"), "metric = k: one of m"),
        (lambda data: paired_differences(data, "m", "z"), "baseline = z: one of a, b"),
        (lambda data: paired_differences(data.isel(policy=[0])), "policy = a: at least two"),
        (lambda data: ranks(data.isel(run=[0])), "runs = 1: at least 2"),
        (lambda data: quantiles(data.isel(run=[]), [0.5]), "runs = 0: at least 1"),
        (lambda data: jaxbandit.table(data.isel(run=[])), "runs = 0: at least 1"),
        (lambda data: quantiles(data, [1.0]), "quantiles = 1.0: a list of numbers between 0 and 1"),
        (lambda data: quantiles(data, 0.5), "quantiles = 0.5: a list of numbers between 0 and 1"),
        (lambda data: quantiles(data, ["a"]), "quantiles = a: a list of numbers between 0 and 1"),
        (lambda data: paired_differences(data.isel(policy=0)), "results = Dataset: a Dataset of open_results"),
        (lambda data: quantiles(data.isel(run=0), [0.5]), "results = Dataset: a Dataset of open_results"),
        (lambda data: ranks([1]), "results = list: a Dataset of open_results"),
        (lambda data: ranks("none"), "path = none: a folder with results.zarr"),
        (lambda data: Study.of([1]), "study = [1]: a table with the keys of a study file"),
        (lambda data: run_study("big.toml"), "study = big.toml: a table with the keys of a study file"),
        (lambda data: run_study(coins(), progress="x"), "progress = x: True, False, or what is called"),
        (lambda data: ranks(data.assign(done=False)), "DIR = a study with missing runs"),
    ],
)
def test_bad_comparisons(call: Any, line: str) -> None:
    with pytest.raises(BadInput) as caught:
        call(dataset({"a": np.zeros((1, 5)), "b": np.ones((1, 5))}))
    assert str(caught.value).startswith(line)


class Parsed(HTMLParser):
    """Tags that were opened and not closed, and all the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert not [value for name, value in attrs if name in ("src", "href") and not value.startswith("data:")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_stands_alone(tmp_path: Path) -> None:
    mapping = {"runs": 80, "problem": {"kind": "toy/coins", "odds": [0.1, 0.8]}, "sweep": {"budget": [5, 30]}}
    study = Study.of({**mapping, "policy": [{"kind": "best"}, {"kind": "mixed", "share": 0.2}]})
    rows = run(study, tmp_path / "out")
    picture.save(tmp_path / "out", picture.of_rows(rows, study.swept, "<coins> & more", {}))
    page = Parsed(report(tmp_path / "out"))
    assert not page.open
    for words in ("<coins> & more", "toy/coins", "seed 0", "Ranks", "Paired differences", "80 runs", "mixed share=0.2"):
        assert words in page.text
    assert str(tmp_path) not in page.text
    alone = Study.of({**mapping, "policy": [{"kind": "best"}]})
    run(alone, tmp_path / "alone")
    assert "Ranks" not in Parsed(report(tmp_path / "alone")).text


def test_the_report_reads_on_a_phone_and_in_the_dark(tmp_path: Path) -> None:
    """What can be checked without a browser."""
    mapping = {"runs": 80, "problem": {"kind": "toy/coins", "odds": [0.1, 0.8]}, "sweep": {"budget": [5, 30]}}
    study = Study.of({**mapping, "policy": [{"kind": "best"}, {"kind": "mixed", "share": [0.2, 0.4]}]})
    rows = run(study, tmp_path)
    picture.save(tmp_path, picture.of_rows(rows, study.swept, "coins", {"budget": "budget (throws)"}))
    text = report(tmp_path)
    assert text == report(tmp_path)
    drawn = re.findall(r"<svg .*?</svg>", text, re.DOTALL)
    assert [re.findall(r'class="(\w+)"', each)[0] for each in drawn] == ["screen", "phone"] * 2
    names = [name for each in drawn for name in re.findall(r'(?<=id=")(?:m|p)[0-9a-f]{8,}', each)]
    assert len(names) == len(set(names))  # of marks and clipping: a hidden picture's must not be taken for another's
    for each in drawn:
        assert "#000000" not in each  # black is the page's own colour of text
        assert float(re.findall(r'viewBox="0 0 (\S+) ', each)[0]) < (310 if 'class="phone"' in each else 600)
    assert "budget (throws)" in drawn[0]
    dashes = re.findall(r"stroke-dasharray: ([\d. ,]+)[^\"]*; stroke-width: 1.6", drawn[2])
    assert len(set(dashes)) == 2  # and one curve is solid
    outside = re.sub(r'<div class="wide"><table>.*?</table></div>', "", text, flags=re.DOTALL)
    assert "<table" not in outside
    assert re.search(r"div.wide {[^}]*overflow-x: auto", text)
    assert "<figcaption>Marks are means over runs; the bands and bars around them are 95 % intervals.<" in text
    assert re.search(r"<td class=\"number\">0\.\d+ \[0\.\d+, 0\.\d+\]</td>", text)
    schemes = [dict(re.findall(r"--(\w+): (#\w+);", part)) for part in re.findall(r":root {[^}]*}", text)]
    for scheme in (schemes[0], schemes[0] | schemes[1]):
        for ink in ("ink", "soft"):
            assert contrast(scheme[ink], scheme["ground"]) >= 4.5  # as WCAG asks of text


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2.1 defines it."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = np.array([int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)])
        return float(
            np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
        )

    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("count", [2, 12, 40])
def test_a_legend_covers_no_data(count: int, narrow: bool) -> None:
    series = {
        f"policy {number}, with a name " * 2: [[1, number, number - 1, number + 1], [2, 0, -1, 1]]
        for number in range(count)
    }
    figure = canvas.draw(series, "x", "a long label of an axis, " * 4, "", narrow=narrow)
    figure.draw_without_rendering()
    [axes], [legend] = figure.axes, figure.legends
    assert len(legend.get_texts()) == count
    inner, keys, page = axes.get_window_extent(), legend.get_window_extent(), figure.bbox
    assert inner.intersection(inner, keys) is None
    assert page.x0 <= keys.x0
    assert page.y0 <= keys.y0
    assert keys.x1 <= page.x1 + 1
    assert inner.height > 0.2 * page.height


def test_the_command_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        'runs = 50\n[problem]\nkind = "toy/coins"\nbudget = 20\n[[policy]]\nkind = "best"\n[[policy]]\nkind = "mixed"\n'
    )
    out = str(tmp_path / "out")
    assert cli.main(["run", str(study), "--out", out]) == 0
    capsys.readouterr()
    assert cli.main(["compare", out]) == 0
    shown, said = capsys.readouterr()
    assert "policies are compared in pairs of runs that share a number" in said
    assert "worst rank" in shown
    assert "heads difference" in shown
    assert cli.main(["compare", out, "--quantiles", "0.1", "0.9", "--metric", "thrown", "--format", "markdown"]) == 0
    assert "| best | 20 | 20 |" in capsys.readouterr().out
    assert cli.main(["compare", out, "--quantiles", "0.5", "--metric", "heads"]) == 0
    assert "; quantile [95 % interval]" in capsys.readouterr().out
    assert cli.main(["compare", out, "--metric", "tails"]) == 2
    assert capsys.readouterr().err == "jaxbandit: --metric = tails: one of heads, never, thrown\n"
    assert cli.main(["compare", str(tmp_path)]) == 2
    assert cli.main(["show", out]) == 0
    assert (tmp_path / "out" / "report.html").exists()


def sweep(tmp_path: Path, policies: int) -> Path:
    shares = [round(0.5 * number / policies, 3) for number in range(policies)]
    mapping = {
        "runs": 60,
        "problem": {"kind": "toy/coins", "budget": 20},
        "policy": [{"kind": "mixed", "share": shares}],
    }
    run(Study.of(mapping), tmp_path / str(policies))
    return tmp_path / str(policies)


def test_many_configurations_are_compared_with_the_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = sweep(tmp_path, 40)
    assert cli.main(["compare", str(many)]) == 0
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) < 90
    ranked, close = (part.split("\n\n")[1].splitlines()[2:] for part in re.split(r"\n(?=60 runs)", shown))
    assert [int(line.split()[2]) for line in ranked] == list(range(1, 41))
    surely_worse = [line for line in ranked if int(line.split()[3]) > 1]
    assert 1 <= len(close) < 40
    assert ranked[0].split()[:2] == close[0].split()[:2]
    assert close[0].split()[-1] == "0"
    # Whatever can be told from the best is surely not the first.
    apart = {line.split()[1] for line in ranked} - {line.split()[1] for line in close}
    assert apart <= {line.split()[1] for line in surely_worse}
    assert cli.main(["compare", str(many), "--differences"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 40 * 39 // 2
    assert cli.main(["compare", str(many), "--baseline", "mixed share=0.0"]) == 0
    assert "against" in capsys.readouterr().out
    assert cli.main(["compare", str(sweep(tmp_path, 20))]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 20 * 19 // 2
    assert "Of 40 policies these are the 12 with the best means" in report(many)


def test_leaders() -> None:
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(2, 300))
    values = {
        "low": noise - 3,
        "close": noise + rng.normal(size=(2, 300)),
        "high": noise + 0.02,
        "none": noise * np.nan,
    }
    found = leaders(dataset(values))
    by_setting = [[row["policy"] for row in found[::2] if row["params"] == {"n": n}] for n in (10, 11)]
    assert all(set(names) == {"close", "high"} for names in by_setting)
    best, other = found[1], found[3]
    assert (best["metric"], best["mean"], best["ci_low"]) == ("difference from the best", 0, None)
    assert other["ci_low"] <= 0 <= other["ci_high"]
    assert [row["policy"] for row in leaders(dataset(values, lower=True))[::2]] == ["low", "low"]
    informed = dataset(values)
    informed.attrs["references"] = ["high", "gone"]
    assert [row["policy"] for row in leaders(informed)[::2]] == ["close", "close"]
    assert besides(informed) == ", besides the reference high,"
    informed.attrs["references"] = list(values)
    assert leaders(informed) == found


def test_a_policy_that_knows_the_truth_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in the table of the best, nor in the report; the ranks have it."""
    mapping = {
        "runs": 60, "problem": {"kind": "toy/coins", "budget": 20},
        "policy": [{"kind": "best"}, {"kind": "mixed", "share": [number / 50 for number in range(30)]}],
    }  # fmt: skip
    kinds = {"best": replace(toy.FAMILY.policies["best"], reference=True), "mixed": toy.FAMILY.policies["mixed"]}
    run(Study.of(mapping, family=replace(toy.FAMILY, policies=kinds)), tmp_path)
    assert cli.main(["compare", str(tmp_path)]) == 0
    shown, said = capsys.readouterr()
    assert "under each setting, besides the reference best, and those that the runs cannot tell from it" in said
    ranked, close = (part.split("\n\n")[1].splitlines()[2:] for part in re.split(r"\n(?=60 runs)", shown))
    assert ranked[0].startswith("best")
    assert close[0].startswith("mixed share=0.5")
    assert not any(line.startswith("best") for line in close)
    assert "<h2>The best, besides the reference best, and what the runs cannot tell from it</h2>" in report(tmp_path)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_metric_without_values_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a line, and by no warning of NumPy's; its picture is empty."""
    mapping = {
        "runs": 9,
        "problem": {"kind": "toy/coins", "budget": 4},
        "policy": [{"kind": "best"}, {"kind": "mixed"}],
    }
    run(Study.of(mapping), tmp_path)
    for asked in (["compare"], ["compare", "--quantiles", "0.5"], ["show"]):
        assert cli.main([*asked[:1], str(tmp_path), "--metric", "never", *asked[1:]]) == 0
        shown, said = capsys.readouterr()
        assert "–" in shown
        line = "jaxbandit: never is not a number in runs of best, mixed, which are not compared there\n"
        assert (line in said) == (asked[0] == "compare")
    data = open_results(tmp_path)
    data["never"] = data["never"].copy(data=np.full(data["never"].shape, np.nan))
    assert leaders(data, "never") == []
    assert [row["mean"] for row in [*ranks(data, "never"), *quantiles(data, [0.5], "never")]] == [None] * 8


def test_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's word for it, from a file system of 256 KiB where one can be made, else put in its place."""
    study = tmp_path / "study.toml"
    study.write_text('runs = 60000\n[problem]\nkind = "toy/coins"\nbudget = 200\n[[policy]]\nkind = "mixed"\n')
    small = tmp_path / "small"
    small.mkdir()
    mounted = sys.platform == "linux" and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], capture_output=True, check=False
    ).returncode  # fmt: skip
    if not mounted:
        monkeypatch.setattr(folder, "write", full)
    try:
        assert cli.main(["run", str(study), "--out", str(small / "out")]) == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.startswith(f"jaxbandit: --out = {small / 'out'}: a folder on a disk with space left (")
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
            assert cli.main(["run", str(study), "--out", str(small / "out")]) == 0
            assert cli.main(["run", str(study), "--out", str(tmp_path / "whole")]) == 0
            assert (small / "out" / "summary.json").read_bytes() == (tmp_path / "whole" / "summary.json").read_bytes()
    finally:
        if mounted:
            subprocess.run(["umount", str(small)], check=True)


def test_show_where_nothing_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(Study.of({"runs": 9, "problem": {"kind": "toy/coins", "budget": 4}, "policy": [{"kind": "best"}]}), tmp_path)
    monkeypatch.setattr(folder, "write", full)
    assert cli.main(["show", str(tmp_path)]) == 0
    shown, said = capsys.readouterr()
    assert "best" in shown
    assert said == f"jaxbandit: {tmp_path} cannot be written (No space left on device): no new picture and no report\n"
    assert cli.main(["show", str(tmp_path), "--format", "pdf"]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"jaxbandit: DIR = {tmp_path}: a folder that can be written, for figure.pdf\n")
    assert "picture in" not in said
    (tmp_path / "finished.json").unlink()
    assert cli.main(["show", str(tmp_path)]) == 0
    assert "goes on, or was interrupted" in capsys.readouterr().err
    (tmp_path / "summary.json").unlink()
    assert cli.main(["show", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"jaxbandit: DIR = {tmp_path}: a finished study; the command that began")


def full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_latex_tables() -> None:
    row = Row(policy="ee_1", params={"n": 5}, metric="50 %", mean=-0.5, ci_low=-0.51, ci_high=-0.49, runs=9)
    lines = render([row], "latex").splitlines()
    assert lines[0] == "% 9 runs; mean ± half of the 95 % interval; n = 5"
    assert lines[1:-1] == [
        r"\begin{tabular}{lr}", r"\hline", r"policy & 50 \% \\", r"\hline", r"ee\_1 & $-0.500 \pm 0.010$ \\", r"\hline",
    ]  # fmt: skip


def coin_pair(low: float, high: float) -> toy.Coins:
    return toy.Coins(jnp.int32(30), jnp.float32(low), jnp.float32(high))


def coins(**changes: Any) -> Study:
    given: dict[str, Any] = {
        "problem": {"fair": coin_pair(0.5, 0.5), "odd": coin_pair(0.2, 0.8)},
        "policies": {"best": toy.Coin(np.float32(1)), "tuned": lambda problem: toy.Coin(problem.low)},
        "metrics": {"heads": lambda problem, answers: answers["heads"] / float(problem.budget)},
        "runs": 50,
    }
    given = {key: value for key, value in (given | changes).items() if value is not None}
    return experiment(**given)


def test_names_that_begin_like_lists() -> None:
    problems = {"[fair]": coin_pair(0.5, 0.5), "{odd": coin_pair(0.2, 0.8)}
    data = run_study(coins(problem=problems))
    assert {row["params"]["problem"] for row in ranks(data)} == set(problems)


def test_a_parameter_has_no_metrics_name(tmp_path: Path) -> None:
    swept = coins(policies={"tuned": lambda problem, heads: toy.Coin(np.float32(heads))}, sweep={"heads": [0.1, 0.9]})
    with pytest.raises(BadInput, match="parameter = heads: a name that is not that of a metric"):
        run_study(swept, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_studies_of_objects(tmp_path: Path) -> None:
    data = run_study(coins(), tmp_path / "out")
    assert dict(data.sizes) == {"policy": 2, "problem": 2, "run": 50}
    assert data.load().equals(run_study(coins()))
    assert ranks(tmp_path / "out") == ranks(data)
    assert paired_differences(str(tmp_path / "out")) == paired_differences(data)
    assert quantiles(tmp_path / "out", (0.5,)) == quantiles(data, np.array([0.5]))
    assert float(data.heads.sel(policy="best", problem="odd").mean()) == pytest.approx(0.8, abs=0.05)
    assert float(data.heads.sel(policy="tuned", problem="odd").mean()) == pytest.approx(0.32, abs=0.05)
    assert run_study(coins(runs=70), tmp_path / "out").sizes["run"] == 70
    others = {"policies": {"best": toy.Coin(np.float32(0.5))}}
    with pytest.raises(BadInput, match="family differs"):
        run_study(coins(**others), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())[0]["params"] == {"problem": "fair"}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Endless:
    """Coins without a budget."""

    low: Array
    high: Array
    draw, view, pull = toy.Coins.draw, toy.Coins.view, toy.Coins.pull


def test_objects_with_checkpoints_and_a_stop(tmp_path: Path) -> None:
    one = coin_pair(0.2, 0.8)
    best = {"best": toy.Coin(np.float32(1))}
    rule = {"metric": "heads", "half_width": 0.02}
    data = run_study(coins(problem=one, policies=best, checkpoints=[10, 20], runs=10**6, stop_when=rule))
    assert dict(data.heads.sizes) == {"policy": 1, "run": data.sizes["run"], "checkpoint": 3}
    assert 1024 <= data.sizes["run"] < 10_000
    assert data.heads.mean("run").values[0] == pytest.approx([0.8] * 3, abs=0.03)
    brief = toy.Coins(np.int32(1), np.float32(0.2), np.float32(0.8))
    assert coins(problem=brief, policies=best, checkpoints=[0.5]).problem["budget"] == 1.0
    for several in ({"one": brief, "two": one}, _Endless(one.low, one.high)):
        with pytest.raises(BadInput, match=r"^checkpoints = \[0.5\]: none, where problems have no budget or diff"):
            coins(problem=several, policies=best, checkpoints=[0.5])
    metric = Metric("tails", "tails", lambda problem, answers: 30.0 - answers["heads"], lower_is_better=True)
    data = run_study(coins(metrics=[metric]))
    assert [row["mean"] for row in ranks(data) if row["metric"] == "rank"][2:] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"policies": {}}, "policies = none: a dict of "),
        ({"problem": {}}, "problem = none: a dict of "),
        ({"metrics": {}}, "metrics = none: a dict of "),
        ({"runs": 0}, "runs = 0: a whole number"),
        ({"seed": -1}, "seed = -1: a whole number"),
        ({"checkpoints": [40]}, "checkpoints = [40]: ascending budgets below 30"),
        ({"stop_when": {"metric": "tails", "relative": 1}}, "stop_when.metric = tails: one of heads"),
        ({"stop_when": "heads"}, "stop_when = heads: { metric"),
        ({"policies": ["ucb"]}, "policies = ['ucb']: a dict of policies by name"),
        ({"policies": {"a": "ucb"}}, "policies = 'a': 'ucb': a dict of policies by name"),
        ({"problem": {0.1: coin_pair(0, 1)}}, "problem = 0.1: "),
        ({"metrics": "wins"}, "metrics = wins: a dict of functions by name, or a list of Metric"),
        ({"metrics": {"done": len}}, "metrics = done: names of letters"),
        ({"metrics": {"regret at end": len}}, "metrics = regret at end: names of letters"),
        ({"metrics": [Metric("m", "m", len)] * 2}, "metrics = m: names of letters"),
        ({"metrics": {"heads": lambda problem, answers: 1.0}}, "metric heads = an array of shape (): a value a run"),
        ({"checkpoints": 5}, "checkpoints = 5: a list of budgets"),
        (
            {"checkpoints": [5.5], "problem": coin_pair(0, 1)},
            "checkpoints = [5.5]: budgets of the problem's type, int32",
        ),
    ],
)
def test_bad_objects(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(BadInput) as caught:
        run_study(coins(**changes))
    assert str(caught.value).startswith(line)


def test_names_at_the_top() -> None:
    for name in jaxbandit.__all__:
        assert getattr(jaxbandit, name) is not None
    with pytest.raises(AttributeError, match="has no attribute"):
        _ = jaxbandit.play
    assert re.fullmatch(r"\d+\.\d+\.\d+", jaxbandit.__version__)


def test_differences_at_a_stop_share_the_error() -> None:
    values = np.random.default_rng(0).normal(size=400)
    one, of_45 = (half_width(values, level, 400, 0.0) for level in (0.05, 0.05 / 45))
    assert of_45 > 1.2 * one


def test_compare_says_what_is_best_by_which_metric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "study.toml", str(tmp_path / "out")
    file.write_text(
        'runs = 50\n[problem]\nkind = "toy/coins"\nbudget = 20\n[[policy]]\nkind = "best"\n'
        '[[policy]]\nkind = "mixed"\nshare = [0.5, 0.6]\n'
    )
    assert cli.main(["run", str(file), "--out", out]) == 0
    capsys.readouterr()
    assert cli.main(["compare", out, "--metric", "thrown", "--baseline", "best", "--format", "csv"]) == 0
    shown, said = capsys.readouterr()
    assert "rank 1 has the highest mean thrown" in said
    assert shown.count(",thrown difference,") == 2  # against the baseline alone, of three policies
