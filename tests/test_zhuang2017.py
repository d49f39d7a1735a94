"""The figures of Zhuang et al. 2017: they build, and what they compute from rows is right."""

from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from jaxbandit.errors import BadInput
from jaxbandit.papers import FIGURES
from jaxbandit.papers.rows import average, computed, ratio, survival, where
from jaxbandit.papers.zhuang2017 import CASES, KS, RHOS, SAVED, SIZES, rates, sampled
from jaxbandit.study.figure import Plan, Request, _same_without, reproduce
from jaxbandit.study.summary import Row

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"


def table(folder: Path) -> Path:
    path = folder / "captions.csv"
    rng = np.random.default_rng(0)
    lines = [f"{i},{a},{b},{c}" for i, (a, b, c) in enumerate(rng.integers(1, 99, (60, 3)))]
    path.write_text("\n".join(["caption,unfunny,somewhat_funny,funny", *lines]))
    return path


def plan(name: str, runs: int = 4, data: Path | None = None) -> Plan:
    return FIGURES[f"zhuang2017/{name}"].make(Request(runs, data=data))


@pytest.mark.smoke
def test_every_plan_builds(tmp_path: Path) -> None:
    names = [name.partition("/")[2] for name in FIGURES if name.startswith("zhuang2017/")]
    assert {"fig1a", "fig1b", "fig1c", "fig2a", "fig2b", "fig3", "intervals"} <= set(names)
    for name in names:
        made = plan(name, data=table(tmp_path))
        assert made.studies
        assert made.axes is not None
    for name in ("fig2a", "fig2b"):
        with pytest.raises(BadInput, match="--data = missing: a table of captions"):
            plan(name)
        with pytest.raises(BadInput, match="a table of captions"):
            plan(name, data=Path(__file__))


def test_real_rates(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    found = {
        "unfunny,somewhat_funny,funny\n1,2,1\n4,0,0": [0.5, 0.0],
        "player,hits,at_bats\na,1,4\nb,1,2": [0.25, 0.5],
        "worker,correct,answered\na,1,4\nb,2,2": [0.75, 0.0],
    }
    for text, expected in found.items():
        path.write_text(text)
        assert rates(Request(1, data=path), 2).tolist() == expected
    for text, line in (("player,hits,at_bats\na,0,0", "hits, at_bats in line 2 = 0, 0"),
                       ("unfunny,somewhat_funny,funny\n1,2,1\n4,x,0", "somewhat_funny in line 3 = x")):  # fmt: skip
        path.write_text(text)
        with pytest.raises(BadInput, match=line):
            rates(Request(1, data=path), 1)
    values = np.arange(60) / 60
    first = sampled(values, 0)
    assert len(set(first)) == 47
    assert first == sampled(values, 0) != sampled(values, 1)
    if (DATA / "captions" / "559.csv").exists():
        assert rates(Request(1, data=DATA / "captions" / "559.csv"), 47).mean() == pytest.approx(0.1395, abs=1e-4)


def test_a_figure_has_as_many_arms_as_it_says(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("hits,at_bats\n" + "1,4\n" * 46)
    with pytest.raises(BadInput, match=r"^--data = .*: a table of at least 47 rows, not 46$"):
        plan("fig2a", data=path)


def test_data_that_a_figure_takes_none_of_is_refused(tmp_path: Path) -> None:
    """And what takes them has them in its studies."""
    asked, line = Request(1, data=table(tmp_path)), r"^--data = .*: left out, as zhuang2017/fig3 takes none$"
    with pytest.raises(BadInput, match=line):
        reproduce(FIGURES["zhuang2017/fig3"], asked, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not _same_without(FIGURES["zhuang2017/fig2a"], asked, plan("fig2a", 1, asked.data))


def row(policy: str, metric: str, mean: float, half: float = 0.1, runs: int = 10, **params: object) -> Row:
    return computed(policy, params, metric, mean, runs, half)


def test_rows_over_k_and_cases() -> None:
    made = plan("fig1b")
    assert made.rows is not None
    pulls = {"rr": 100.0, "wrr": 40.0}
    found = [
        row(policy, "pulls", mean * n * k, n=n, k=k) for policy, mean in pulls.items() for n in SIZES for k in KS
    ]  # fmt: skip
    more = made.rows(found)
    (mean,) = where(more, "pulls_over_k", "rr", n=50)
    assert mean["mean"] == pytest.approx(100 * 50 * 2.5)
    assert mean["runs"] == 30
    assert mean["ci_high"] is not None
    assert mean["ci_high"] - 100 * 50 * 2.5 == pytest.approx(0.1)  # runs are common to all k
    assert [r["mean"] for r in where(more, "pulls_ratio", "wrr")] == pytest.approx([0.4] * len(SIZES))


def test_what_wrr_saves() -> None:
    made = plan("fig1c")
    assert made.rows is not None
    found = [row("rr", "pulls", 100.0, n=20, k=2.0, case=case) for case in range(CASES)]
    found += [row("wrr", "pulls", 10.0 * case + 5, n=20, k=2.0, case=case) for case in range(CASES)]
    more = made.rows(found)
    (half,) = where(more, "cases", "wrr", saved=0.5)
    assert half["mean"] == 0.5  # cases 0 to 4
    (mean,) = where(more, "mean_saved", "wrr")
    assert mean["mean"] == pytest.approx(0.5)
    published = {(r["params"]["saved"], r["mean"]) for r in where(more, "published_cases")}
    assert published == set(SAVED["zhuang2017/fig1c"])


def test_average_ratio_survival() -> None:
    shares = [row("rr", "correct", mean, runs=50) for mean in (1.0, 0.9)]
    mean = average(shares, "correct", {})
    assert mean["mean"] == pytest.approx(0.95)
    assert mean["ci_low"] == pytest.approx(0.8882, abs=1e-4)  # Wilson's interval of 95 in 100
    assert mean["ci_high"] == pytest.approx(0.9785, abs=1e-4)
    common = average(shares, "correct", {}, common=True)  # of 47.5 in 50
    z, share, runs = scipy.stats.norm.ppf(0.975), 0.95, 50
    middle, half = share + z**2 / (2 * runs), z * ((share * (1 - share) + z**2 / (4 * runs)) / runs) ** 0.5
    assert common["ci_low"] == pytest.approx((middle - half) / (1 + z**2 / runs))
    assert common["ci_high"] == pytest.approx((middle + half) / (1 + z**2 / runs))
    pulls = [row("rr", "pulls", 10.0, 0.3), row("rr", "pulls", 20.0, 0.4)]
    for together, squared in ((True, 0.125), (False, 0.0625)):
        found = average(pulls, "pulls", {}, common=together)
        assert found["ci_high"] - 15 == pytest.approx(squared**0.5)
    value, half = ratio(row("a", "pulls", 10.0, 0.3), row("b", "pulls", 20.0, 0.8))
    assert value == 0.5
    assert half == pytest.approx(0.5 * (0.03**2 + 0.04**2) ** 0.5)
    assert survival([0.1, 0.5, 0.9], [0.0, 0.5]) == [(0.0, 1.0), (0.5, pytest.approx(1 / 3))]


def test_fig3(tmp_path: Path) -> None:
    rows = reproduce(FIGURES["zhuang2017/fig3"], Request(2), tmp_path)
    ratios = where(rows, "pulls_ratio", "wrr")
    assert len(ratios) == len(RHOS) + 1
    assert min(abs((r["mean"] or 0) - 1) for r in ratios) == 0  # rho* over itself
    assert (tmp_path / "figure.png").exists()
