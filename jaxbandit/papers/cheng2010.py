"""Cheng, Lo, Yang, Luk, Li and Xie, "Explore or Exploit? Effective Strategies for Disambiguating Large Databases",
PVLDB 3(1), 2010: the figures of section 6, its parameter search, and what lies beyond.

The paper's curves are pictures without numbers. What its text states stands here as data: by how much EE leads the
heuristics at three settings, the gain of early stopping, (t, q), and two times. Points drawn as published are what
those leads imply if Random's effectiveness is E[p] = 0.5, as it is while few entities are finished.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, cast

from jaxbandit.cleaning import gamma
from jaxbandit.cleaning.rules import needed
from jaxbandit.cleaning.setting import Setting
from jaxbandit.cleaning.stopping import level_for_budget
from jaxbandit.engine import simulate
from jaxbandit.errors import BadInput
from jaxbandit.papers.rows import by_policy, lead, row_of, where
from jaxbandit.papers.times import seconds_of
from jaxbandit.study.figure import Axes, Figure, Plan, Request
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import Row, identity

Params = Mapping[str, Any]

_DELTA = 0.001  # the precision of section 5.4

BUDGET = 10_000
EE, KNOWN = {"kind": "ee", "tuning": "lemma3"}, {"kind": "known-sc"}
HEURISTICS: list[Params] = [{"kind": "epsilon-greedy", "epsilon": 0.5}, {"kind": "greedy"}, {"kind": "random"}]

SYNTHETIC = {"kind": "cleaning/synthetic", "entities": 50_000, "false_values": {"uniform": [0, 19]}}
"""Section 6's synthetic data; the sc-pdf is uniform by default."""

MOVIES = {"kind": "cleaning/synthetic", "entities": 4_999, "false_values": {"uniform": [0, 2]}}
"""In place of the movie database, which is not to be had: its number of entities and its mean of one false value,
spread evenly from 0 to twice the mean as in the synthetic data."""

FLIGHTS = {
    "kind": "cleaning/table", "entity": "flight",
    "value": ["sched_dep_time", "act_dep_time", "sched_arr_time", "act_arr_time"],
}  # fmt: skip
"""A really ambiguous database: what 38 web sources claim of four times of each of 100 flights."""

SIGMA = {"normal": {"mean": 0.5, "variance": 0.3}}

LEADS: Mapping[str, tuple[Params, Mapping[str, float]]] = {
    "cheng2010/fig4a": ({"budget": BUDGET}, {"epsilon-greedy": 12.9, "greedy": 35.8, "random": 36.4}),
    "cheng2010/fig4d": ({"entities": 100_000}, {"epsilon-greedy": 11.3, "greedy": 35.9, "random": 35.6}),
    "cheng2010/fig4f": ({"sc_pdf": SIGMA}, {"epsilon-greedy": 10.7, "greedy": 32.1, "random": 33.1}),
}
"""By how many percent EE's effectiveness is above a heuristic's: the published numbers, and where they hold."""

EARLY_STOPPING = 22.08
"""By how many percent early stopping raises EE's effectiveness, on average over the budgets of figure 4(h)."""

TUNED, SEARCH_SECONDS, MOST_MILLISECONDS = (3, 0.667), 5.99, 10.0
"""(t_max, q_max); the mean time of finding them; the time below which every algorithm stays (figures 4(i) and 4(l))."""


def _at(row: Row) -> dict[str, Any]:
    """The params of a row that describe its problem."""
    return {k: v for k, v in row["params"].items() if k in ("budget", "entities", "false_values", "sc_pdf", "data")}


def _leads(figure: str) -> Callable[[list[Row]], list[Row]]:
    """EE's lead over each heuristic, at each setting, as ``lead_percent``; and the paper's own."""

    def rows(found: list[Row]) -> list[Row]:
        more = []
        place, published = LEADS.get(figure, ({}, {}))
        for ee in where(found, "effectiveness", "ee"):
            here = _at(ee)
            for heuristic in ("epsilon-greedy", "greedy", "random"):
                params = {**here, "over": heuristic}
                for other in where(found, "effectiveness", heuristic, **here):
                    mean, interval = lead(ee, other)
                    more.append(row_of("ee", params, "lead_percent", mean, min(ee["runs"], other["runs"]), interval))
                if heuristic in published and all(identity(here.get(k)) == identity(v) for k, v in place.items()):
                    more.append(row_of("ee", params, "published_lead_percent", published[heuristic]))
        return more

    return rows


def _implied(figure: str, x: Any) -> dict[str, list[tuple[Any, float]]]:
    """The paper's effectiveness at ``x``, if Random's is 0.5."""
    percent = LEADS[figure][1]
    ee = 0.5 * (1 + percent["random"] / 100)
    points = {"ee": ee} | {name: ee / (1 + value / 100) for name, value in percent.items()}
    return {name: [(x, value)] for name, value in points.items()}


def _data(row: Row) -> str:
    return f"{row['policy']}, {row['params']['data']}"


_EFFECTIVENESS = "effectiveness (false values removed / budget)"
_BUDGET = "budget (cleaning operations)"
_NOTE = "\npublished: implied by the leads in the text, with Random at 0.5"
_BUDGETS = [1_000, 2_000, 5_000, 10_000, 20_000, 50_000]


def _fig4a(request: Request) -> Plan:
    name = "cheng2010/fig4a"
    study = request.study(
        {"problem": SYNTHETIC, "policy": [KNOWN, EE, *HEURISTICS], "sweep": {"budget": _BUDGETS}}
    )  # fmt: skip
    axes = Axes("budget", "effectiveness", _BUDGET + _NOTE, _EFFECTIVENESS, by_policy, xlog=True,
                published=_implied(name, BUDGET))  # fmt: skip
    return Plan([study], _leads(name), axes=axes)


def _fig4b(request: Request) -> Plan:
    plan = _fig4a(request)
    return Plan(plan.studies, axes=Axes("budget", "removed", _BUDGET, "false values removed", by_policy))


def _fig4c(request: Request) -> Plan:
    epsilons = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    policies = [EE, {"kind": "epsilon-greedy", "epsilon": epsilons}]
    study = request.study({"problem": SYNTHETIC, "policy": policies, "sweep": {"budget": [2_000, 10_000, 50_000]}})

    def curve(row: Row) -> str | None:
        budget = row["params"]["budget"]
        # EE's levels lie on top of each other.
        return f"{row['policy']}, budget {budget:,}" if row["policy"] != "ee" or budget == BUDGET else None

    return Plan([study], axes=Axes("epsilon", "effectiveness", "epsilon", _EFFECTIVENESS, curve))


def _fig4d(request: Request) -> Plan:
    name = "cheng2010/fig4d"
    problem = {k: v for k, v in SYNTHETIC.items() if k != "entities"} | {"budget": BUDGET}
    sizes = [10_000, 20_000, 50_000, 100_000]
    study = request.study({"problem": problem, "policy": [EE, *HEURISTICS], "sweep": {"entities": sizes}})
    axes = Axes("entities", "effectiveness", "entities" + _NOTE, _EFFECTIVENESS, by_policy, xlog=True,
                published=_implied(name, 100_000))  # fmt: skip
    return Plan([study], _leads(name), axes=axes)


def _by_false_values(request: Request) -> Study:
    problem = {k: v for k, v in SYNTHETIC.items() if k != "false_values"} | {"budget": BUDGET}
    laws = [{"uniform": [0, most]} for most in (5, 10, 19, 40)]
    return request.study({"problem": problem, "policy": [EE, *HEURISTICS], "sweep": {"false_values": laws}})


def _mean_false_values(row: Row) -> Any:
    law = row["params"].get("false_values")
    return sum(law["uniform"]) / 2 if law else None


_MEAN = "false values of an entity, mean (uniform on 0 to twice the mean)"


def _fig4e(request: Request) -> Plan:
    axes = Axes(_mean_false_values, "effectiveness", _MEAN, _EFFECTIVENESS, by_policy)
    return Plan([_by_false_values(request)], _leads("cheng2010/fig4e"), axes=axes)


def _fig4f(request: Request) -> Plan:
    name = "cheng2010/fig4f"
    laws = [*({"normal": {"mean": 0.5, "variance": variance}} for variance in (0.1, 0.2, 0.3)), "uniform"]
    study = request.study({
        "problem": {**SYNTHETIC, "budget": BUDGET}, "policy": [EE, *HEURISTICS], "sweep": {"sc_pdf": laws},
    })  # fmt: skip

    def law(row: Row) -> str:
        found = row["params"]["sc_pdf"]
        return found if isinstance(found, str) else f"normal({found['normal']['variance']})"

    xlabel = "sc-pdf (normal: mean 0.5, variance in brackets, cut to [0, 1])" + _NOTE
    axes = Axes(law, "effectiveness", xlabel, _EFFECTIVENESS, by_policy, published=_implied(name, "normal(0.3)"))
    return Plan([study], _leads(name), axes=axes)


def _fig4g(request: Request) -> Plan:
    # q acts through ceil(t q) alone; these name all rules of t <= 5.
    grid = {
        "kind": "ee",
        "t": [1, 2, 3, 4, 5, 10],
        "q": [0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.667, 0.75, 0.8, 0.9, 1.0],
    }
    study = request.study({"problem": {**SYNTHETIC, "budget": BUDGET}, "policy": [grid, EE]})

    def curve(row: Row) -> str:
        params = row["params"]
        return f"t = {params['t']}" if "tuning" not in params else f"({params['t']}, {params['q']}), section 5.4"

    return Plan([study], axes=Axes("q", "effectiveness", "exploitation threshold q", _EFFECTIVENESS, curve))


def _setting(request: Request, budget: int) -> Setting:
    study = request.study({"problem": {**SYNTHETIC, "budget": budget}, "policy": [EE]})
    (setting,) = (setting for setting, _ in study.settings())
    return cast(Setting, setting)


def _fig4h(request: Request) -> Plan:
    policies = [{**EE, "early_stopping": [True, False]}]
    study = request.study({"problem": SYNTHETIC, "policy": policies, "sweep": {"budget": _BUDGETS}})

    def rows(found: list[Row]) -> list[Row]:
        """The gain at each budget, and the mean over them."""
        more, ratios, squares = [], [], []
        for row in where(found, "effectiveness", "ee", early_stopping=True):
            (other,) = where(found, "effectiveness", "ee", **{**row["params"], "early_stopping": False})
            mean, (low, high) = lead(row, other)
            more.append(row_of("ee", _at(row), "gain_percent", mean, row["runs"], (low, high)))
            if mean is not None and high is not None:
                ratios.append(mean)
                squares.append((high - mean) ** 2)
        if ratios:
            # Runs of the same number share their randomness across budgets, so no gain from averaging is claimed.
            mean, half = sum(ratios) / len(ratios), math.sqrt(sum(squares) / len(squares))
            more.append(row_of("ee", {}, "mean_gain_percent", mean, request.runs, (mean - half, mean + half)))
        # What the gain would be by other rules, without sampling and for large budgets.
        setting, most = _setting(request, BUDGET), 6
        with_, without = (
            gamma.gamma_exact(setting.sc_pdf.cells(_DELTA), setting.distribution, most, early_stopping=early)
            for early in (True, False)
        )
        for t in range(2, most + 1):
            ratio = float(with_[t - 1, t] / without[t - 1, t])
            more.append(row_of("ee", {"t": t, "q": 1.0}, "exact_gain_percent", 100 * (ratio - 1)))
        return [*more, row_of("ee", {}, "published_mean_gain_percent", EARLY_STOPPING)]

    def curve(row: Row) -> str:
        return "with early stopping" if row["params"]["early_stopping"] else "without"

    return Plan([study], rows, axes=Axes("budget", "effectiveness", _BUDGET, _EFFECTIVENESS, curve, xlog=True))


def _times(study: Study) -> list[Row]:
    """Wall time a run, all of a study's runs advancing together on all devices: the median of warm repeats, and the
    least and the greatest as its interval. Then each policy's time over EE's."""
    configurations = study.configurations()
    seconds = seconds_of([
        partial(simulate, each.problem, each.policy, runs=study.runs, seed=study.seed, progress=False)
        for each in configurations
    ])  # fmt: skip
    rows, ratios = [], []
    for taken, each in zip(seconds, configurations, strict=True):
        milliseconds = [1000 * one / study.runs for one in taken]
        interval = min(milliseconds), max(milliseconds)
        rows.append(row_of(each.name, each.params, "ms_per_run", median(milliseconds), study.runs, interval))
    for row in rows:
        here = _at(row)
        (ee,) = where(rows, "ms_per_run", "ee", **here)
        if row is not ee:
            ratio = cast(float, row["mean"]) / cast(float, ee["mean"])
            ratios.append(row_of(row["policy"], {**here, "over": "ee"}, "time_ratio", ratio, study.runs, (None, None)))
    # Of every policy: the paper's slowest is epsilon-Greedy.
    bound = row_of("epsilon-greedy", {"published": "all below"}, "ms_per_run", MOST_MILLISECONDS, 0, (None, None))
    return [*rows, *ratios, bound]


def _timed(study: Study, x: Any, xlabel: str, xlog: bool) -> Plan:
    def curve(row: Row) -> str:
        return "paper: all below 10 ms" if "published" in row["params"] else row["policy"]

    axes = Axes(x, "ms_per_run", xlabel, "time a run (ms)", curve, xlog=xlog, ylog=True)
    return Plan([study], timings=partial(_times, study), axes=axes)


def _fig4i(request: Request) -> Plan:
    return _timed(_fig4d(request).studies[0], "entities", "entities", True)


def _fig4j(request: Request) -> Plan:
    return _timed(_by_false_values(request), _mean_false_values, _MEAN, False)


def _movies(request: Request, policies: Sequence[Params], labels: Params | None = None) -> Study:
    budgets = [1_000, 2_000, 3_500, 5_000]
    return request.study({"problem": MOVIES, "policy": policies, "sweep": {"budget": budgets}}, labels=labels)


def _claims(data: Path) -> Path:
    """The table of claims at ``--data``: the file itself, or ``claims.csv`` in the folder."""
    path = data / "claims.csv" if data.is_dir() else data
    if not path.is_file():
        raise BadInput("--data", str(data), "a table of flights' claims, or a folder with claims.csv")
    return path.absolute()


def _fig4k(request: Request) -> Plan:
    policies = [KNOWN, EE, *HEURISTICS]
    studies = [_movies(request, policies, {"data": "movies"})]
    if request.data is not None:
        problem = {**FLIGHTS, "path": str(_claims(request.data))}
        budgets = [100, 200, 400, 700]
        sweep = {"problem": problem, "policy": policies, "sweep": {"budget": budgets}}
        studies.append(request.study(sweep, labels={"data": "flights"}))
    axes = Axes("budget", "effectiveness", _BUDGET, _EFFECTIVENESS, _data, xlog=len(studies) > 1)
    return Plan(studies, _leads("cheng2010/fig4k"), axes=axes)


def _fig4l(request: Request) -> Plan:
    return _timed(_movies(request, [EE, *HEURISTICS]), "budget", _BUDGET, False)


_OBJECTIVES: tuple[gamma.Objective, ...] = ("lemma3", "exact")


def _parameters(request: Request) -> Plan:
    def search(setting: Setting, objective: gamma.Objective) -> tuple[int, int, float, float]:
        return setting.tuned(objective, _DELTA, True)

    def rows(_: list[Row]) -> list[Row]:
        setting = _setting(request, BUDGET)
        more = []
        t_hat = math.floor(round(float(setting.distribution @ range(setting.weights.size)) / setting.sc_pdf.mean(), 9))
        for objective in _OBJECTIVES:
            t, need, q, value = search(setting, objective)
            params = {"tuning": objective, "delta": _DELTA}
            # All q up to need / t ask for the same number of successes.
            found = {"t": t, "q": q, "last_q": need / t, "t_hat": t_hat, "gamma": value,
                     "effectiveness": setting.expected(t, need) / setting.budget}  # fmt: skip
            more += [row_of("ee", params, metric, number) for metric, number in found.items()]
        published = {"tuning": "published", "delta": _DELTA}
        return [*more, row_of("ee", published, "t", TUNED[0]), row_of("ee", published, "q", TUNED[1])]

    def timings() -> list[Row]:
        setting = _setting(request, BUDGET)
        more = []
        for objective in _OBJECTIVES:
            (seconds,) = seconds_of([partial(search, setting, objective)])
            warm, params = median(seconds), {"tuning": objective, "delta": _DELTA}
            more.append(row_of("ee", params, "search_s", warm, 0, (min(seconds), max(seconds))))
            more.append(row_of("ee", params, "published_over_search", SEARCH_SECONDS / warm, 0, (None, None)))
        return [*more, row_of("ee", {"tuning": "published"}, "search_s", SEARCH_SECONDS, 0, (None, None))]

    return Plan(rows=rows, timings=timings)


def _beyond(request: Request) -> Plan:
    policies = [*({"kind": "ee", "tuning": objective} for objective in _OBJECTIVES), {"kind": "index"}, KNOWN]
    study = request.study({"problem": {**SYNTHETIC, "budget": BUDGET}, "policy": policies})

    def rows(found: list[Row]) -> list[Row]:
        """Beside what was sampled, what is known without sampling; and the leads over EE as the paper tunes it."""
        setting = _setting(request, BUDGET)
        more = []
        for row in where(found, "effectiveness", "ee"):
            t, q = row["params"]["t"], row["params"]["q"]
            value = setting.expected(t, needed(t, q)) / setting.budget
            more.append(row_of("ee", row["params"], "expected_effectiveness", value))
        cells, law = setting.sc_pdf.cells(_DELTA), setting.distribution
        bound = float(level_for_budget(cells, law, setting.entities, setting.budget).effectiveness)
        more.append(row_of("index", {"budget": BUDGET}, "effectiveness_bound", bound))
        first, *others = (row for row in found if row["metric"] == "effectiveness")
        for row in others:
            mean, interval = lead(row, first)
            params = {**row["params"], "over": "ee, lemma3"}
            more.append(row_of(row["policy"], params, "lead_percent", mean, row["runs"], interval))
        return more

    def curve(row: Row) -> str:
        params = row["params"]
        how = {"lemma3": "Lemma 3", "exact": "the exact Gamma"}
        return f"ee by {how[params['tuning']]}: ({params['t']}, {params['q']})" if "t" in params else row["policy"]

    axes = Axes(lambda row: None, "effectiveness", "", _EFFECTIVENESS, curve)
    return Plan([study], rows, axes=axes)


_ALL: Sequence[tuple[str, str, int, Callable[[Request], Plan]]] = (
    ("fig4a", "effectiveness against budget", 1000, _fig4a),
    ("fig4b", "false values removed against budget", 1000, _fig4b),
    ("fig4c", "epsilon-greedy against epsilon", 50, _fig4c),
    ("fig4d", "effectiveness against the number of entities", 1000, _fig4d),
    ("fig4e", "effectiveness against false values", 400, _fig4e),
    ("fig4f", "effectiveness against the sc-pdf", 1000, _fig4f),
    ("fig4g", "effectiveness of EE against (t, q)", 1000, _fig4g),
    ("fig4h", "EE with and without early stopping", 4000, _fig4h),
    ("fig4i", "time against the number of entities", 64, _fig4i),
    ("fig4j", "time against false values", 64, _fig4j),
    ("fig4k", "effectiveness against budget, data of section 6.2", 400, _fig4k),
    ("fig4l", "time against budget, data of section 6.2", 64, _fig4l),
    ("parameters", "EE's (t, q) by section 5.4", 1, _parameters),
    ("beyond", "better than EE at a budget of 10,000", 10_000, _beyond),
)

FIGURES = {f"cheng2010/{name}": Figure(f"cheng2010/{name}", title, runs, make) for name, title, runs, make in _ALL}
