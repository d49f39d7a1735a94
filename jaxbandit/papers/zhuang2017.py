"""Zhuang, Wang and Wang, "Identifying Outlier Arms in Multi-Armed Bandit", NIPS 2017: the figures of section 5, and
which interval keeps its promise.

The paper's curves are pictures without numbers; what its text states stands here as data. It does not say how the
means of its synthetic arms are drawn: ours are those of ``outliers/synthetic``. Its tweets are not to be had: figure 2
takes rates of other real arms, from a table that the user gives.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxbandit.arms.problem import ORDER
from jaxbandit.errors import BadInput
from jaxbandit.outliers.intervals import NAMES
from jaxbandit.outliers.truth import SyntheticMeans
from jaxbandit.papers.rows import average, by_policy, computed, ratio, survival, where
from jaxbandit.random import position, stream
from jaxbandit.random.trials import UNITS
from jaxbandit.study.figure import Axes, Figure, Plan, Request
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import Row
from jaxbandit.user_tables import columns, header, whole_cells
from jaxbandit.xla.options import ShortRun

Params = Mapping[str, Any]

CAP, DELTA = 10_000_000, 0.1
"""Section 5.2."""

SIZES, KS, CASES = [20, 50, 100, 200], [2.0, 2.5, 3.0], 10
"""Section 5.1: arms, k, and test cases of each pair."""

NRR, IB = {"kind": "nrr"}, {"kind": "ib"}
RR, WRR = ({"kind": kind, "interval": "bernoulli"} for kind in ("rr", "wrr"))
"""As the paper runs them: with the printed interval for Bernoulli rewards."""

SAVED: Mapping[str, Sequence[tuple[float, float]]] = {
    "zhuang2017/fig1c": [(0.4, 0.8), (0.6, 0.5)],
    "zhuang2017/fig2b": [(0.5, 0.8), (0.75, 0.4)],
}
"""WRR saves more than a share x of the pulls of RR (of IB in figure 2(b)) in a share y of the test cases: section 5.3,
"80 %", "about half", "almost 80 %" and "about 40 %"."""

SYNTHETIC = {"kind": "outliers/synthetic", "budget": CAP}


IB_CAP = CAP // 10
"""IB makes one pull a step, and would take ten times as long up to the paper's cap."""


def _fig1(request: Request, policies: Sequence[Params]) -> list[Study]:
    """All twelve configurations; each run draws its arms, as a test case of its own. IB has a cap of its own."""
    sweep = {"n": SIZES, "k": KS}
    return [
        request.study({"problem": SYNTHETIC, "policy": policies, "sweep": sweep}),
        request.study({"problem": {**SYNTHETIC, "budget": IB_CAP}, "policy": [IB], "sweep": sweep}),
    ]


def _over_k(metric: str, found: list[Row]) -> list[Row]:
    """The mean over k, by policy and n: runs of the same number have their arms and rewards in common."""
    policies = list(dict.fromkeys(row["policy"] for row in found))
    return [
        average(where(found, metric, policy, n=n), f"{metric}_over_k", {"n": n}, common=True)
        for policy in policies
        for n in SIZES
    ]


_N = "arms"


def _fig1a(request: Request) -> Plan:
    def rows(found: list[Row]) -> list[Row]:
        return [*_over_k("correct", found), computed("1 - delta", {}, "correct_over_k", 1 - DELTA)]

    axes = Axes("n", "correct_over_k", _N, "share of runs with exactly the outliers", by_policy, xlog=True)
    return Plan(_fig1(request, [NRR, RR, WRR]), rows, axes=axes)


def _fig1b(request: Request) -> Plan:
    def rows(found: list[Row]) -> list[Row]:
        more = _over_k("pulls", found)
        for n in SIZES:
            rr, wrr = (where(more, "pulls_over_k", policy, n=n)[0] for policy in ("rr", "wrr"))
            value, half = ratio(wrr, rr)
            more.append(computed("wrr", {"n": n, "over": "rr"}, "pulls_ratio", value, wrr["runs"], half))
        caps = computed("cap", {}, "pulls_over_k", CAP), computed("cap of ib", {}, "pulls_over_k", IB_CAP)
        return [*more, *caps]

    axes = Axes("n", "pulls_over_k", _N, "pulls", by_policy, xlog=True, ylog=True)
    return Plan(_fig1(request, [RR, WRR]), rows, axes=axes)


_GRID = [x / 20 for x in range(20)]


def _saved(figure: str, rows: list[Row], over: str, keys: Sequence[str]) -> list[Row]:
    """In which share of the test cases a rule saves more than a share of another's pulls; and what
    it saves on average."""
    more = []
    for policy in ("wrr", "rr"):
        pairs = [
            (row["mean"], other["mean"])
            for row in where(rows, "pulls", policy)
            for other in where(rows, "pulls", over, **{key: row["params"][key] for key in keys})
        ]
        saved = [1 - a / b for a, b in pairs if a and b]
        if policy == over or not saved:
            continue
        params = {"over": over}
        for share, cases in survival(saved, _GRID):
            more.append(computed(policy, {**params, "saved": share}, "cases", cases))
        for name, value in (
            ("least_saved", min(saved)),
            ("mean_saved", sum(saved) / len(saved)),
            ("most_saved", max(saved)),
        ):
            more.append(computed(policy, params, name, value))
    for share, cases in SAVED[figure]:
        more.append(computed("wrr", {"over": over, "saved": share}, "published_cases", cases))
    return more


def _saving(figure: str, over: str) -> Axes:
    return Axes(
        "saved", "cases", f"share of the pulls of {over} that is saved", "share of test cases that save more",
        by_policy, published={"wrr": SAVED[figure]},
    )  # fmt: skip


def _fig1c(request: Request) -> Plan:
    name = "zhuang2017/fig1c"
    study = request.study({
        "problem": SYNTHETIC, "policy": [RR, WRR], "sweep": {"n": SIZES, "k": KS, "case": list(range(CASES))},
    })  # fmt: skip
    return Plan([study], lambda found: _saved(name, found, "rr", ("n", "k", "case")), axes=_saving(name, "rr"))


def rates(request: Request, least: int) -> np.ndarray:
    """Reads real rates at ``--data``, ``least`` or more: of a table of captions (the mean score over 2), of batters
    (hits), or of workers (errors); float64, shape (rows,). Which it is, is told by its columns."""
    found = _rates(request)
    if found.size < least:
        raise BadInput("--data", str(request.data), f"a table of at least {least} rows, not {found.size}")
    return found


def _rates(request: Request) -> np.ndarray:
    what = "a table of captions, of batting careers or of crowd workers: see docs/papers/zhuang2017.md"
    if request.data is None or not request.data.is_file():
        raise BadInput("--data", str(request.data or "missing"), what)
    there = header(request.data)
    for names in (("unfunny", "somewhat_funny", "funny"), ("hits", "at_bats"), ("correct", "answered")):
        if not set(names) <= set(there):
            continue
        lines = columns(request.data, {"--data": names})
        counts = np.array([_counts(names, cells, line) for line, cells in lines], np.float64)
        if names[0] == "unfunny":
            return np.asarray((counts[:, 1] + 2 * counts[:, 2]) / (2 * counts.sum(axis=1)))
        share = counts[:, 0] / counts[:, 1]
        return np.asarray(1 - share if names[0] == "correct" else share)
    raise BadInput("--data", str(request.data), what)


def _counts(names: Sequence[str], cells: Sequence[str], line: int) -> tuple[int, ...]:
    """Returns the counts of a row, of which there is a rate."""
    counts = whole_cells(names, cells, line)
    *_, of = counts if len(names) == 2 else (sum(counts),)
    if not of:
        raise BadInput(f"{', '.join(names)} in line {line}", ", ".join(cells), "counts of something")
    return counts


KEYWORDS, REGIONS = 20, 47
"""Section 5.1: test cases, and arms of each."""


_places = ShortRun(position)


def sampled(values: np.ndarray, case: int, arms: int = REGIONS) -> list[float]:
    """Draws so many of the values, in random order, the same ones for the same case."""
    places = _places(stream(case, 0), ORDER, np.arange(arms, dtype=np.int32), np.int32(values.size))
    return [float(v) for v in values[np.asarray(places)]]


def _real(request: Request, policies: Sequence[Params], k: float = 2.5) -> list[Study]:
    """A study a test case; and one more for IB, with its own cap."""
    found = rates(request, REGIONS)
    return [
        request.study(
            {
                "problem": {
                    "kind": "outliers/bernoulli", "k": k, "budget": cap, "means": {"list": sampled(found, case)},
                },
                "policy": some,
            },
            labels={"case": case},
        )
        for some, cap in ((policies, CAP), ([IB], IB_CAP))
        for case in range(KEYWORDS)
    ]  # fmt: skip


def _fig2a(request: Request) -> Plan:
    measures = ("correct", "precision", "recall", "f1")

    def rows(found: list[Row]) -> list[Row]:
        policies = list(dict.fromkeys(row["policy"] for row in found))
        return [
            average(where(found, measure, policy), "performance", {"measure": measure})
            for policy in policies
            for measure in measures
        ]

    axes = Axes("measure", "performance", "", "mean over test cases", by_policy)
    return Plan(_real(request, [NRR, RR, WRR]), rows, axes=axes)


def _fig2b(request: Request) -> Plan:
    name = "zhuang2017/fig2b"
    return Plan(_real(request, [RR, WRR]), lambda found: _saved(name, found, "ib", ("case",)), axes=_saving(name, "ib"))


HARDNESS = {"least": 3.0, "most": 14.0}
"""H1 / H2 of the paper's test cases of figure 3 (section 5.3)."""


def _hardness_ratio(case: int) -> float:
    means = np.asarray(SyntheticMeans.of(15, 1).case(case).means) / UNITS
    squares = (means - (means.mean() + 2.5 * means.std())) ** 2
    return float(means.size / squares.min() / (1 / squares).sum())


RHOS = [1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0]


def _fig3(request: Request) -> Plan:
    study = request.study({
        "problem": {**SYNTHETIC, "n": 15, "k": 2.5}, "policy": [WRR, {**WRR, "rho": RHOS}],
        "sweep": {"case": list(range(CASES))},
    })  # fmt: skip

    def rows(found: list[Row]) -> list[Row]:
        pulls = where(found, "pulls", "wrr")
        shares = list(dict.fromkeys(row["params"]["rho"] for row in pulls))
        means = {rho: average(where(pulls, "pulls", rho=rho), "pulls_over_cases", {"rho": rho}) for rho in shares}
        (best,) = (rho for rho in shares if rho not in RHOS)
        more = list(means.values())
        hardness = sorted(map(_hardness_ratio, range(CASES)))
        for name, value in (("least", hardness[0]), ("most", hardness[-1])):
            more.append(computed("wrr", {}, f"{name}_h1_over_h2", value))
            more.append(computed("wrr", {}, f"published_{name}_h1_over_h2", HARDNESS[name]))
        for rho in sorted(shares):
            value, half = ratio(means[rho], means[best])
            params = {"rho": rho, "over": "rho*"}
            more.append(computed("wrr", params, "pulls_ratio", value, means[rho]["runs"], half if rho != best else 0.0))
        return more

    axes = Axes("rho", "pulls_ratio", "rho", "pulls / pulls at rho* of Eq. 6", by_policy)
    return Plan([study], rows, axes=axes)


EASY = [*(0.2 + 0.01 * i for i in range(18)), 0.85, 0.95]
RARE = [*(0.02 + 0.001 * i for i in range(18)), 0.075, 0.15]
"""Two outliers far out; and rare rewards, with an outlier that makes the threshold uncertain and an arm close below."""

_KINDS: Sequence[Params] = [{"kind": "rr"}, {"kind": "wrr"}, {"kind": "wrr", "rho": 100.0}]


def _intervals(request: Request) -> Plan:
    policies: list[Params] = [{**kind, "interval": name} for kind in _KINDS for name in NAMES]
    studies = [
        request.study({
            "problem": {"kind": "outliers/bernoulli", "k": 2.0, "budget": CAP // 10, "means": {"list": means}},
            "policy": policies,
        }, labels={"arms": arms})
        for arms, means in (("easy", EASY), ("rare", RARE))
    ]  # fmt: skip

    def rows(found: list[Row]) -> list[Row]:
        """What an interval costs, in pulls with the proved one."""
        more = []
        for row in where(found, "pulls"):
            params = {name: row["params"][name] for name in ["arms", "rho"] if name in row["params"]}
            (proved,) = where(found, "pulls", row["policy"], interval="bounded", **params)
            (capped,) = where(found, "capped", row["policy"], interval="bounded", **params)
            if row is not proved and not capped["mean"]:  # else nobody knows what the proved one costs
                value, half = ratio(row, proved)
                params |= {"interval": row["params"]["interval"], "over": "bounded"}
                more.append(computed(row["policy"], params, "pulls_ratio", value, row["runs"], half))
        return [*more, computed("1 - delta", {}, "correct", 1 - DELTA)]

    def curve(row: Row) -> str:
        params = row["params"]
        rho = f", rho {params['rho']:.3g}" if "rho" in params else ""
        return f"{row['policy']}{rho}, {params['interval']}" if params else row["policy"]

    # The table has the shares of right answers: where all are 1, there is nothing to draw.
    axes = Axes(lambda row: row["params"].get("arms"), "pulls", "", "pulls (the cap is 1,000,000)", curve, ylog=True)
    return Plan(studies, rows, axes=axes)


_ALL = (
    ("fig1a", "share of right answers against the number of arms", 100, _fig1a),
    ("fig1b", "pulls against the number of arms", 100, _fig1b),
    ("fig1c", "what WRR saves of RR's pulls", 10, _fig1c),
    ("fig2a", "right answers on real rates", 10, _fig2a),
    ("fig2b", "what WRR and RR save of IB's pulls on real rates", 5, _fig2b),
    ("fig3", "pulls of WRR against rho", 100, _fig3),
    ("intervals", "pulls with each interval", 1000, _intervals),
)

FIGURES = {f"zhuang2017/{name}": Figure(f"zhuang2017/{name}", title, runs, make) for name, title, runs, make in _ALL}
