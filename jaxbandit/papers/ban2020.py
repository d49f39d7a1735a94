"""Ban and He, "Generic Outlier Detection in Multi-Armed Bandit", KDD 2020: the figures of section 6, and which interval
keeps its promise.

The paper's curves are pictures without numbers; what its text states stands here as data. Its tweets and clicks are not
to be had: figures 4 and 5 take rates of other real arms, from a table that the user gives.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxbandit.errors import BadInput
from jaxbandit.outliers.definitions import outlier_groups
from jaxbandit.papers.rows import average, by_policy, computed, ratio, where
from jaxbandit.papers.zhuang2017 import rates, sampled
from jaxbandit.study.figure import Axes, Figure, Plan, Request
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import Row

Params = Mapping[str, Any]

RHO, EPS, SIDES = 0.9, [2.5, 5.0], ["upper", "intermediate"]
"""Section 6, and 6.1: the share of normal arms, and the synthetic data."""

SIZES = [20, 50, 100]
"""Of the paper's 20, 50, 100, 200 and 400 arms those that take minutes."""

CAP, GOLD_CAP = 500_000, 2_000_000
"""The paper states none. On some of these arms rules for k-sigma outliers would not end; GOLD does, and is quick."""

SAVED = {"ban2020/fig3": 0.82, "ban2020/fig4": 0.89, "ban2020/fig5": 0.78}
"""The share of WRR's pulls that GOLD saves on average (section 6.2)."""

KS = [2.0, 2.5, 3.0]
GOLD = {"kind": "gold", "interval": "bernoulli"}
NRR, RR, WRR = {"kind": "nrr", "k": KS}, *({"kind": kind, "interval": "bernoulli", "k": KS} for kind in ("rr", "wrr"))
"""As the paper runs them: with the printed interval for Bernoulli rewards; the k-sigma rules at the best of three k."""

_PLACE = ("n", "side", "eps", "case")
_TRIED = 2_000
"""Samples of a table among which those of figures 4 and 5 are looked for."""


def _of(row: Row) -> dict[str, Any]:
    """The params of a row that describe its problem."""
    return {name: row["params"][name] for name in _PLACE if name in row["params"]}


def best(rows: Sequence[Row]) -> Iterator[dict[str, Row]]:
    """Picks for each policy on each problem its rows by metric, at the k that is right most often, or, where several
    are, that takes the fewest pulls."""
    problems = list({repr(_of(row)): _of(row) for row in rows}.values())
    for policy in dict.fromkeys(row["policy"] for row in rows):
        for here in problems:
            found: dict[Any, dict[str, Row]] = {}
            for row in rows:
                if row["policy"] == policy and _of(row) == here:
                    found.setdefault(row["params"].get("k"), {})[row["metric"]] = row
            if found:
                yield min(found.values(), key=lambda of: (-(of["ranking"]["mean"] or 0), of["pulls"]["mean"] or 0))


def _at_best(metrics: Sequence[str], found: Sequence[Row]) -> list[Row]:
    """``best_...`` rows; k is among their params where the rule has one. No pulls of a rule that is never right: it may
    end at once."""
    more = []
    for of in best(found):
        for metric in metrics:
            if metric == "pulls" and not of["ranking"]["mean"]:
                continue
            row = of[metric]
            k = {"k": row["params"]["k"]} if "k" in row["params"] else {}
            more.append(Row(**{**row, "params": {**_of(row), **k}, "metric": f"best_{metric}"}))
    return more


def _savings(figure: str, rows: Sequence[Row]) -> list[Row]:
    """What GOLD saves of the pulls of others, each at its best k: on each problem where that is right at times, and on
    average over these."""
    more = []
    for over in dict.fromkeys(row["policy"] for row in rows if row["policy"] != "gold"):
        saved = []
        for gold in where(rows, "best_pulls", "gold"):
            for other in where(rows, "best_pulls", over, **_of(gold)):
                value, half = ratio(gold, other)
                saved.append(1 - value)
                more.append(computed("gold", {**_of(gold), "over": over}, "saved", 1 - value, gold["runs"], half))
        if saved:
            more.append(computed("gold", {"over": over}, "mean_saved", sum(saved) / len(saved)))
    return [*more, computed("gold", {"over": "wrr"}, "published_mean_saved", SAVED[figure])]


def _capped(policies: Sequence[Params]) -> list[tuple[int, Sequence[Params]]]:
    """GOLD and the others, with their caps."""
    return [(GOLD_CAP, [GOLD]), (CAP, policies)]


def _synthetic(request: Request, policies: Sequence[Params]) -> list[Study]:
    return [
        request.study({
            "problem": {"kind": "outliers/injected", "budget": cap, "rho": RHO, "side": side}, "policy": some,
            "sweep": {"n": SIZES, "eps": EPS},
        }, labels={"side": side})
        for side in SIDES
        for cap, some in _capped(policies)
    ]  # fmt: skip


def _panel(row: Row) -> str | None:
    """Curves of the panels with eps = 2.5; the rows have those of eps = 5 too."""
    params = row["params"]
    return f"{row['policy']}, {params['side']}" if params.get("eps") == EPS[0] else None


def _fig2(request: Request) -> Plan:
    axes = Axes(
        "n", "best_ranking", "arms (eps = 2.5)", "share of runs that rank the outliers first", _panel, xlog=True
    )
    return Plan(_synthetic(request, [NRR, RR, WRR]), lambda found: _at_best(["ranking"], found), axes=axes)


def _fig3(request: Request) -> Plan:
    def rows(found: list[Row]) -> list[Row]:
        more = _at_best(["ranking", "pulls", "capped"], found)
        return more + _savings("ban2020/fig3", more)

    axes = Axes("n", "best_pulls", "arms (eps = 2.5)", "pulls", _panel, xlog=True, ylog=True)
    return Plan(_synthetic(request, [RR, WRR]), rows, axes=axes)


def _cases(request: Request, arms: int, many: int) -> Iterator[tuple[int, list[float]]]:
    """The first samples of a table's rates, by number, in which the definition finds a group of outliers."""
    found, values = 0, rates(request, arms)
    for case in range(_TRIED):
        means = sampled(values, case, arms)
        if outlier_groups(means, EPS[0], RHO, "at-least"):
            yield case, means
            found += 1
            if found == many:
                return
    wanted = f"a table of which {many} samples of {arms} rows have groups of outliers, not {found} of {_TRIED:,}"
    raise BadInput("--data", str(request.data), wanted)


def _real(figure: str, arms: int, many: int, request: Request) -> Plan:
    studies = [
        request.study({
            "problem": {
                "kind": "outliers/bernoulli", "definition": "groups", "eps": EPS[0], "rho": RHO, "budget": cap,
                "means": {"list": means},
            },
            "policy": some,
        }, labels={"case": case, "eps": EPS[0]})
        for case, means in _cases(request, arms, many)
        for cap, some in _capped([NRR, RR, WRR])
    ]  # fmt: skip
    measures = ("ranking", "correct", "precision", "recall", "f1")

    def rows(found: list[Row]) -> list[Row]:
        each = _at_best([*measures, "pulls", "capped"], found)
        more = []
        for policy in dict.fromkeys(row["policy"] for row in found):
            for measure in measures:
                more.append(average(where(each, f"best_{measure}", policy), "performance", {"measure": measure}))
            if taken := where(each, "best_pulls", policy):
                more.append(average(taken, "pulls_over_cases", {}))
        return [*each, *more, *_savings(figure, each)]

    axes = Axes("measure", "performance", "", "mean over test cases", by_policy)
    return Plan(studies, rows, axes=axes)


def _fig4(request: Request) -> Plan:
    return _real("ban2020/fig4", 47, 5, request)


def _fig5(request: Request) -> Plan:
    return _real("ban2020/fig5", 30, 5, request)


def _fig6(request: Request) -> Plan:
    study = request.study({
        "problem": {
            "kind": "outliers/injected", "n": 100, "side": "upper", "eps": EPS[1], "rho": RHO, "budget": GOLD_CAP,
        },
        "policy": [{**GOLD, "eps": [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0]}],
    })  # fmt: skip
    axes = Axes(lambda row: row["params"]["eps"], "pulls", "eps of GOLD", "pulls", by_policy)
    return Plan([study], axes=axes)


_ALL = (
    ("fig2", "share of right rankings against the number of arms", 40, _fig2),
    ("fig3", "pulls against the number of arms", 40, _fig3),
    ("fig4", "right answers and pulls on real rates, 47 arms", 10, _fig4),
    ("fig5", "right answers and pulls on real rates, 30 arms", 10, _fig5),
    ("fig6", "pulls of GOLD against eps", 40, _fig6),
)

FIGURES = {f"ban2020/{name}": Figure(f"ban2020/{name}", title, runs, make) for name, title, runs, make in _ALL}
