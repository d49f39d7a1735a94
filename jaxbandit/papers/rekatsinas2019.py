"""Rekatsinas, Deshpande and Parameswaran, "CRUX: Adaptive querying for efficient crowdsourced data extraction", CIKM
2019: distinct entities against the budget on both domains, gain estimators, exclude lists and the step cost.

The published numbers stand here as data. The domains are regenerated (``extraction/domains.py``). The text describes
answers proportional to popularity, without replacement; the published curves of RootChao are those of another sampler,
``k-largest``. So every study runs under both.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.extraction.answers import MODELS, Crowd, answer, crowd
from jaxbandit.extraction.domains import eventbrite_like, people_like
from jaxbandit.extraction.estimators import ESTIMATORS, Past, hwang_shen_k, logistic_fit, new_regr
from jaxbandit.random.stream import stream, substream, words
from jaxbandit.registry import without_kind
from jaxbandit.study.figure import Axes, Figure, Plan, Request
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import Moments, Row

Params = Mapping[str, Any]

BUDGETS = [10, 20, 50, 80, 100]

POLICIES: Mapping[str, Params] = {
    "Rand": {"kind": "rand"},
    "RandL": {"kind": "rand-leaf"},
    "BFS": {"kind": "bfs"},
    "RootChao": {"kind": "root-chao"},
    "GSChao": {"kind": "crux", "estimator": "chao92"},
    "GSHwang": {"kind": "crux", "estimator": "hwang-shen"},
    "GSNewR": {"kind": "crux", "estimator": "new-regr"},
    "GSExact": {"kind": "gs-exact"},
}
"""By their names in the paper."""

PEOPLE: Mapping[str, Mapping[int, float]] = {
    name: dict(zip(BUDGETS, values, strict=True))
    for name, values in {
        "Rand": (27, 36, 128, 179, 199),
        "RandL": (19, 39, 123, 169, 224),
        "BFS": (19, 33, 72, 92, 100),
        "RootChao": (41, 42, 49, 51, 52),
        "GSChao": (78, 128, 245, 297, 322),
        "GSHwang": (72, 142, 246, 283, 299),
        "GSNewR": (76, 117, 214, 268, 305),
        "GSExact": (120, 218, 426, 543, 592),
    }.items()
}
EVENTBRITE: Mapping[str, Mapping[int, float]] = {
    "Rand": {10: 0.1, 50: 2.7, 100: 1.4},
    "RandL": {10: 0, 50: 0, 100: 0.2},
    "BFS": {10: 53, 50: 153, 100: 301},
    "RootChao": {10: 180.5, 50: 643.6, 80: 824, 100: 913},
    "GSChao": {10: 183.8, 50: 664, 100: 1143},
    "GSHwang": {10: 179.2, 50: 675, 100: 1210},
    "GSNewR": {10: 183.5, 50: 684, 100: 1213},
    "GSExact": {10: 197, 50: 802, 100: 1575},
}
"""Distinct entities by the budget, under the linear cost: means of 10 runs."""


def title(row: Row) -> str:
    """Returns the name that the paper gives to a row's policy."""
    for name, policy in POLICIES.items():
        if row["policy"] == policy["kind"] and row["params"].get("estimator") == policy.get("estimator"):
            return name
    return row["policy"]


def _published(table: Mapping[str, Mapping[int, float]]) -> Callable[[list[Row]], list[Row]]:
    def rows(_: list[Row]) -> list[Row]:
        more = []
        for name, points in table.items():
            kind, own = POLICIES[name]["kind"], without_kind(POLICIES[name])
            for budget, value in points.items():
                params = {"budget": budget, "cost_model": "linear", **own}
                more.append(Row(policy=kind, params=params, metric="published_entities", mean=value, ci_low=value,
                                ci_high=value, runs=0))  # fmt: skip
        return more

    return rows


_ENTITIES, _BUDGET = "distinct entities", "budget (cost of all queries)"


_DEAR = ("GSHwang", "GSNewR", "GSExact")


def _studies(request: Request, problem: Params, names: Sequence[str], sweep: Params) -> list[Study]:
    """The policies on a domain at all budgets; those that are dear in a quarter of the runs, at least 6."""
    sweep = {"budget": BUDGETS, **sweep}
    studies = []
    for dear in (False, True):
        own = [name for name in names if (name in _DEAR) == dear]
        mapping = {
            "problem": {**problem, "largest_budget": max(BUDGETS), "informed": "GSExact" in own},
            "policy": [POLICIES[name] for name in own], "sweep": sweep,
        }  # fmt: skip
        studies.append(
            request.study(mapping | ({"runs": max(min(request.runs, 6), request.runs // 4)} if dear else {}))
        )
    return studies


def _extraction(
    domain: str, table: Mapping[str, Mapping[int, float]], names: Sequence[str], drawn: str, request: Request
) -> Plan:
    """All policies against the budget under both models; the picture is of the one that is ``drawn``."""
    problem = {"kind": f"extraction/{domain}", "cost_model": "linear"}

    def curve(row: Row) -> str | None:
        return title(row) if row["params"].get("answer_model") == drawn else None

    published = {name: list(points.items()) for name, points in table.items() if drawn == "k-largest"}
    axes = Axes("budget", "entities", f"{_BUDGET}; answers: {drawn}", _ENTITIES, curve, published=published)
    return Plan(_studies(request, problem, names, {"answer_model": list(MODELS)}), _published(table), axes=axes)


def _both(row: Row) -> str:
    return f"{title(row)}, {row['params']['answer_model']}"


_FEW = ("Rand", "RootChao", "GSChao", "GSExact")


def _step_cost(request: Request) -> Plan:
    problem = {"kind": "extraction/people", "cost_model": "step"}

    def curve(row: Row) -> str | None:
        return _both(row) if title(row) in _FEW else None

    axes = Axes("budget", "entities", _BUDGET, f"{_ENTITIES}, step cost", curve)
    return Plan(_studies(request, problem, tuple(POLICIES), {"answer_model": list(MODELS)}), axes=axes)


def _readings(request: Request) -> Plan:
    """GSChao, by what becomes of bad queries, what a node without answers is taken to bring, and the variance."""
    problem = {"kind": "extraction/people", "largest_budget": max(BUDGETS)}
    removal = {**POLICIES["GSChao"], "removal": ["lasting", "fresh", "none"]}
    policies = [{**removal, "unseen": ["k", "one"]}, {**removal, "bootstrap": 0}]
    sweep = {"budget": BUDGETS, "answer_model": list(MODELS)}

    def curve(row: Row) -> str | None:
        params = row["params"]
        if params["answer_model"] != "k-largest":
            return None
        if params.get("bootstrap") == 0:
            return f"removal {params['removal']}, floor"
        return f"removal {params['removal']}, unseen {params['unseen']}"

    published = {"GSChao": list(PEOPLE["GSChao"].items())}
    axes = Axes("budget", "entities", f"{_BUDGET}; answers: k-largest", f"{_ENTITIES} by GSChao", curve,
                published=published)  # fmt: skip
    return Plan([request.study({"problem": problem, "policy": policies, "sweep": sweep})], axes=axes)


_LISTS = {"with": [[5, 0], [10, 0], [20, 0], [5, 2], [10, 5], [20, 5], [20, 10]],
          "without": [[5, 0], [10, 0], [20, 0]]}  # fmt: skip


def _exclude_lists(request: Request) -> Plan:
    studies = []
    for lists, configurations in _LISTS.items():
        problem = {"kind": "extraction/people", "configurations": configurations, "largest_budget": max(BUDGETS)}
        sweep = {"budget": BUDGETS, "answer_model": list(MODELS)}
        policies = [POLICIES["GSChao"], POLICIES["RootChao"]]
        for cost in ("linear", "step"):
            mapping = {"problem": {**problem, "cost_model": cost}, "policy": policies, "sweep": sweep}
            studies.append(request.study(mapping, {"lists": lists}))

    def curve(row: Row) -> str | None:
        params = row["params"]
        if title(row) != "GSChao":
            return None
        return f"{params['answer_model']}, {params['cost_model']} cost, {params['lists']} lists"

    return Plan(studies, axes=Axes("budget", "entities", _BUDGET, f"{_ENTITIES} by GSChao", curve))


def _empty_answers(request: Request) -> Plan:
    """GSChao, by what an empty answer ends, under each removal of bad queries."""
    policy = {**POLICIES["GSChao"], "removal": ["lasting", "fresh", "none"], "empty": ["unless-covered", "always"]}
    sweep = {"budget": [50, 100, 200], "answer_model": list(MODELS)}
    studies = []
    for cost in ("linear", "step"):
        problem = {"kind": "extraction/people", "cost_model": cost, "largest_budget": 200}
        studies.append(request.study({"problem": problem, "policy": [policy], "sweep": sweep}))

    def curve(row: Row) -> str | None:
        params = row["params"]
        if (params["answer_model"], params["cost_model"]) != ("proportional", "step"):
            return None
        return f"removal {params['removal']}, empty {params['empty']}"

    label = f"{_BUDGET}; answers: proportional"
    return Plan(studies, axes=Axes("budget", "entities", label, f"{_ENTITIES} by GSChao, step cost", curve))


QUERIES, AT = 50, (2, 5, 10, 25, 50)
"""The history of a sample: queries of (20, 0) at the root; after so many of them the gain of one more is estimated."""

_AGAIN, _ASKED, _FURTHER, _LIST = 16, 1, 2, 3
_K, _L = 20, 10


@partial(jax.jit, static_argnames="most")
def _ask(people: Crowd, run: Array, seed: Array, number: Array, times: Array, past: Past, most: int) -> tuple[Any, ...]:
    """One query more in each run; ``times``: int32 (runs, entities), how often each was seen."""

    def one(run: Array, times: Array, past: Past) -> tuple[Array, Past]:
        own = substream(stream(seed, run), _ASKED, number)
        nobody = jnp.full(most, -1, jnp.int32)
        found = answer(people, own, jnp.int32(0), jnp.int32(_K), nobody, _K, False)
        times = times.at[jnp.where(found >= 0, found, times.shape[0])].add(1, mode="drop")
        f = _frequencies(times)
        curve = hwang_shen_k(f)
        n = jnp.sum(times).astype(jnp.float32)
        k = jnp.where(curve.known, jnp.exp(curve.log_k), 0)
        return times, Past(past.n.at[number].set(jnp.where(curve.known, n, 0)), past.k.at[number].set(k))

    return jax.vmap(one)(run, times, past)


def _frequencies(times: Array) -> Array:
    """f_1 to f_F, F the most that one entity can have been seen."""

    def count(i: Array, f: Array) -> Array:
        return f.at[i].set(jnp.sum(times == i + 1, dtype=jnp.int32))

    f: Array = lax.fori_loop(0, QUERIES, count, jnp.zeros(QUERIES, jnp.int32))
    return f


@partial(jax.jit, static_argnames="length")
def _gains(
    people: Crowd, run: Array, seed: Array, number: Array, times: Array, past: Past, length: int
) -> dict[str, Array]:
    """Of each run, what the estimators say of one more query (20, ``length``); "true": the mean of 16 answers to it.

    float32 (runs,) each.
    """

    def one(run: Array, times: Array, past: Past) -> dict[str, Array]:
        key = substream(stream(seed, run), _FURTHER, number)
        word = words(substream(key, _LIST), 0, jnp.arange(times.shape[0]))[0]
        order = jnp.where(times > 0, (word >> 8).astype(jnp.float32) + 1, 0)
        _, listed = lax.top_k(order, _L)
        exclude = jnp.where((jnp.arange(_L) < length) & (times[listed] > 0), listed, -1)
        rest = times.at[jnp.where(exclude >= 0, exclude, times.shape[0])].set(0, mode="drop")
        f = _frequencies(rest)
        gains = {name: estimator(f, _K, None) for name, estimator in ESTIMATORS.items()}
        gains["new-regr"] = new_regr(f, _K, None, logistic_fit(past))

        def again(number: Array) -> Array:
            found = answer(people, substream(key, _AGAIN, number), jnp.int32(0), jnp.int32(_K), exclude, _K, False)
            return jnp.sum((found >= 0) & (times[found] == 0), dtype=jnp.int32)

        true = jnp.sum(lax.map(again, jnp.arange(_AGAIN))).astype(jnp.float32) / _AGAIN
        return gains | {"true": true}

    return jax.vmap(one)(run, times, past)


_DOMAINS = {"people": people_like, "eventbrite": eventbrite_like}


def estimates(domain: str, model: str, runs: int, seed: int = 0) -> list[Row]:
    """Compares gain estimates at the root with true gains, by the number of answers seen.

    A sample is the answers to up to 50 queries (20, 0) of the root. The gain of one more query is estimated, without an
    exclude list and with one of 10 entities. Rows by estimator and "true": ``gain``, the mean; ``bias``, that of the
    estimate less the truth; ``error``, that of their distance.
    """
    population = _DOMAINS[domain]()
    people = crowd(population, model, _K + _L)
    moments: dict[tuple[str, int, int, str], Moments] = {}
    for first in range(0, runs, 64):
        run = jnp.arange(first, min(first + 64, runs))
        times = jnp.zeros((len(run), len(population.leaf)), jnp.int32)
        past = Past(*[jnp.zeros((len(run), QUERIES), jnp.float32)] * 2)
        for number in range(QUERIES):
            times, past = _ask(people, run, jnp.uint32(seed), jnp.int32(number), times, past, _L)
            if number + 1 not in AT:
                continue
            for length in (0, _L):
                gains = _gains(people, run, jnp.uint32(seed), jnp.int32(number), times, past, length)
                found = {name: np.asarray(values, np.float64) for name, values in gains.items()}
                for name, values in found.items():
                    off = values - found["true"]
                    for metric, each in {"gain": values, "bias": off, "error": np.abs(off)}.items():
                        if metric == "gain" or name != "true":
                            at = (name, length, (number + 1) * _K, metric)
                            moments.setdefault(at, Moments()).add(each)
    return [
        own.row(name, {"domain": domain, "answer_model": model, "l": length, "answers": answers}, metric)
        for (name, length, answers, metric), own in moments.items()
    ]


def _estimators(request: Request) -> Plan:
    def rows(_: list[Row]) -> list[Row]:
        return [row for domain in _DOMAINS for model in MODELS
                for row in estimates(domain, model, request.runs, request.seed)]  # fmt: skip

    def curve(row: Row) -> str | None:
        params = row["params"]
        return row["policy"] if (params["domain"], params["answer_model"], params["l"]) == _DRAWN else None

    xlabel = f"answers at the root of {', '.join(map(str, _DRAWN[:2]))}"
    axes = Axes("answers", "gain", xlabel, f"expected new entities of a query for {_K}", curve, xlog=True)
    return Plan(rows=rows, axes=axes)


_DRAWN = ("people", "proportional", 0)

_NO_EXACT = [name for name in POLICIES if name != "GSExact"]

_ALL: Sequence[tuple[str, str, int, Callable[[Request], Plan]]] = (
    ("extraction-people", "distinct people, linear cost", 200,
     partial(_extraction, "people", PEOPLE, tuple(POLICIES), "k-largest")),
    ("extraction-people-proportional", "distinct people, linear cost", 200,
     partial(_extraction, "people", PEOPLE, tuple(POLICIES), "proportional")),
    ("extraction-eventbrite", "distinct events, linear cost", 100,
     partial(_extraction, "eventbrite", EVENTBRITE, _NO_EXACT, "k-largest")),
    ("extraction-eventbrite-proportional", "distinct events, linear cost", 100,
     partial(_extraction, "eventbrite", EVENTBRITE, _NO_EXACT, "proportional")),
    ("estimators", "gain estimates against true gains", 400, _estimators),
    ("readings", "readings of the algorithms, linear cost", 100, _readings),
    ("exclude-lists", "what exclude lists change", 200, _exclude_lists),
    ("step-cost", "distinct people, step cost", 200, _step_cost),
    ("empty-answers", "what an empty answer ends", 100, _empty_answers),
)  # fmt: skip

FIGURES = {
    f"rekatsinas2019/{name}": Figure(f"rekatsinas2019/{name}", about, runs, make) for name, about, runs, make in _ALL
}
