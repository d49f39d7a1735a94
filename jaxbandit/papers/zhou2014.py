"""Zhou, Chen and Li, "Optimal PAC multiple arm identification with applications to crowdsourcing", ICML 2014: the
figures of section 6 and the two laws of its appendix.

The paper's curves are pictures without numbers. What its text states stands here as data: how many tasks one worker
gets in figures 2(e) and 2(f). All else that it states is an order of the rules;
``benchmarks/papers/reproduction_zhou2014.py`` holds each such claim against what was measured.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from jaxbandit.arms.records import read_counts
from jaxbandit.errors import BadInput
from jaxbandit.study.figure import Axes, Figure, Plan, Request
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import Row

Params = Mapping[str, Any]

ARMS = 1_000
"""n of section 6.1."""

OPTMAI = {"kind": "optmai", "beta": [0.8, 0.9], "ties": "random"}
SAR = {"kind": "sar", "ties": "random"}
LUCB, UNIFORM = {"kind": "lucb"}, {"kind": "uniform"}
_ALL_RULES: list[Params] = [OPTMAI, SAR, LUCB, UNIFORM]
"""The rules that section 6 compares. It says neither how ties are broken nor what LUCB's delta is (here 0.1)."""

TASKS: Mapping[str, list[tuple[int, int]]] = {"sar": [(100, 143)], "optmai": [(100, 48)], "lucb": [(0, 6), (100, 17)]}
"""The tasks of a worker at Q = 10n and K = 20, by the percentile of workers (section 6.2, figures 2(e) and 2(f))."""

# The paper's laws in its appendix are named in the text without parameters: these are ours.
NORMAL, BETA = {"normal": {"mean": 0.5, "variance": 0.04}}, {"beta": [2, 2]}

_REGRET = "regret (mean of the best K less that of the chosen)"


def _against_wanted(metric: str, ylabel: str, **more: Any) -> Axes:
    return Axes("K", metric, "K (arms chosen)", ylabel, **more)


def _fig1(means: Any, times: int, request: Request) -> Plan:
    problem = {"kind": "topk/bernoulli", "n": ARMS, "budget": times * ARMS, "means": means}
    wanted = [10, 20, 50, 100, 200, 300, 400, 500]
    study = request.study({"problem": problem, "policy": _ALL_RULES, "sweep": {"K": wanted}})
    return Plan([study], axes=_against_wanted("regret", _REGRET))


TWO = {"two": [0.6, 0.5]}  # of them K have the first


def _workers(request: Request) -> Path:
    """The table of workers at ``--data``: the file itself, or ``workers.csv`` in the folder."""
    what = "a table of workers (columns correct and answered), or a folder with workers.csv"
    if request.data is None:
        raise BadInput("--data", "missing", what)
    path = request.data / "workers.csv" if request.data.is_dir() else request.data
    if not path.is_file():
        raise BadInput("--data", str(request.data), what)
    return path.absolute()


def _counts(request: Request) -> tuple[np.ndarray, np.ndarray]:
    """Each worker's right labels, and all of them: int64 of shape (workers,)."""
    _, right, tried = read_counts(_workers(request), "correct", "answered")
    return right, tried


def _rte(request: Request, times: int, policies: Sequence[Params], wanted: Sequence[int]) -> Study:
    """Workers whose answers are right with the probability that their past ones were; Q is ``times`` n."""
    table = {"path": str(_workers(request)), "successes": "correct", "trials": "answered"}
    workers = len(_counts(request)[0])
    problem = {"kind": "topk/bernoulli", "means": {"table": table}, "n": workers, "budget": times * workers}
    return request.study({"problem": problem, "policy": policies, "sweep": {"K": wanted}})


_WANTED = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]


def _fig2a(request: Request) -> Plan:
    right, tried = _counts(request)

    def rows(_: list[Row]) -> list[Row]:
        """How many workers there are by accuracy, to the nearest twentieth: most answered 20 tasks."""
        twentieths = (40 * right + tried) // (2 * tried)
        counts = np.bincount(twentieths, minlength=21)
        some = range(int(twentieths.min()), 21)
        return [_computed("rte", {"accuracy": at / 20}, "workers", float(counts[at])) for at in some]

    xlabel = "accuracy (share of right labels, to the nearest twentieth)"
    return Plan(rows=rows, axes=Axes("accuracy", "workers", xlabel, "workers", bars=True))


def _computed(policy: str, params: Params, metric: str, value: float) -> Row:
    """A row of what was not sampled."""
    return Row(policy=policy, params=dict(params), metric=metric, mean=value, ci_low=value, ci_high=value, runs=0)


def _fig2_regret(times: int, request: Request) -> Plan:
    return Plan([_rte(request, times, _ALL_RULES, _WANTED)], axes=_against_wanted("regret", _REGRET))


def _fig2_precision(times: int, request: Request) -> Plan:
    axes = _against_wanted("expected_precision", "precision (share of the chosen that are of the top K)")
    return Plan([_rte(request, times, _ALL_RULES, _WANTED)], axes=axes)


def _fig2_tasks(policies: Sequence[Params], request: Request) -> Plan:
    published = {name: TASKS[name] for name in dict.fromkeys(policy["kind"] for policy in policies)}

    def rows(found: list[Row]) -> list[Row]:
        """The percentiles of a worker's tasks, and what the paper states of them."""
        more: list[Row] = []
        for row in found:
            _, name, share = row["metric"].rpartition("pulls_")
            if name:
                more.append({**row, "params": {**row["params"], "percentile": int(share)}, "metric": "tasks"})
        for policy, points in published.items():
            more += [_computed(policy, {"percentile": at}, "published_tasks", tasks) for at, tasks in points]
        return more

    def curve(row: Row) -> str:
        beta = row["params"].get("beta")
        return f"{row['policy']}, beta {beta}" if beta else row["policy"]

    # The text's "our method" says no beta.
    drawn = {"optmai, beta 0.8" if name == "optmai" else name: points for name, points in published.items()}
    axes = Axes("percentile", "tasks", "workers (percentile, by their tasks)", "tasks of a worker", curve,
                published=drawn)  # fmt: skip
    return Plan([_rte(request, 10, policies, [20])], rows, axes=axes)


_ALL: Sequence[tuple[str, str, int, Callable[[Request], Plan]]] = (
    ("fig1a", "means uniform on [0, 1], Q = 20n", 400, partial(_fig1, "uniform", 20)),
    ("fig1b", "means uniform on [0, 1], Q = 50n", 400, partial(_fig1, "uniform", 50)),
    ("fig1c", "means uniform on [0, 1], Q = 100n", 400, partial(_fig1, "uniform", 100)),
    ("fig1d", "K means of 0.6, the others 0.5, Q = 20n", 400, partial(_fig1, TWO, 20)),
    ("fig1e", "K means of 0.6, the others 0.5, Q = 50n", 400, partial(_fig1, TWO, 50)),
    ("fig1f", "K means of 0.6, the others 0.5, Q = 100n", 400, partial(_fig1, TWO, 100)),
    ("fig2a", "accuracies of the RTE workers", 1, _fig2a),
    ("fig2b", "regret on the RTE workers, Q = 10n", 1000, partial(_fig2_regret, 10)),
    ("fig2c", "regret on the RTE workers, Q = 20n", 1000, partial(_fig2_regret, 20)),
    ("fig2d", "regret on the RTE workers, Q = 50n", 1000, partial(_fig2_regret, 50)),
    ("fig2e", "tasks of a worker by SAR, Q = 10n", 1000, partial(_fig2_tasks, [SAR])),
    ("fig2f", "tasks of a worker by OptMAI and LUCB", 1000, partial(_fig2_tasks, [OPTMAI, LUCB])),
    ("fig2g", "precision on the RTE workers, Q = 10n", 1000, partial(_fig2_precision, 10)),
    ("fig2h", "precision on the RTE workers, Q = 20n", 1000, partial(_fig2_precision, 20)),
    ("appendix-truncated-normal", "normal(0.5, 0.2^2), Q = 50n", 400, partial(_fig1, NORMAL, 50)),
    ("appendix-beta", "Beta(2, 2), Q = 50n", 400, partial(_fig1, BETA, 50)),
)  # fmt: skip

FIGURES = {f"zhou2014/{name}": Figure(f"zhou2014/{name}", title, runs, make) for name, title, runs, make in _ALL}
