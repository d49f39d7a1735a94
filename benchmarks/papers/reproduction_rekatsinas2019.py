"""The published numbers of Rekatsinas et al. 2019 beside the measured ones, and who leads where, as Markdown tables.

for figure in extraction-people extraction-eventbrite estimators readings exclude-lists step-cost empty-answers; do
    jaxbandit reproduce rekatsinas2019/$figure --out out/$figure
done
python -m benchmarks.papers.reproduction_rekatsinas2019 out
"""

import argparse
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxbandit.extraction.answers import MODELS
from jaxbandit.papers.rekatsinas2019 import POLICIES, title
from jaxbandit.study.summary import Row

SHOWN = MODELS[::-1]
"""``k-largest`` first: it stands beside the published numbers."""
COSTS, REMOVALS = ("linear", "step"), ("lasting", "fresh", "none")


def _find(rows: list[Row], metric: str, name: str, **params: Any) -> Row | None:
    found = [
        row for row in rows
        if row["metric"] == metric and title(row) == name
        and all(row["params"].get(key) == value for key, value in params.items())
    ]  # fmt: skip
    return found[0] if found else None


def _half(row: Row) -> float:
    assert row["mean"] is not None
    return math.inf if row["ci_high"] is None else row["ci_high"] - row["mean"]


def _cell(row: Row | None, digits: int = 0) -> str:
    if row is None or row["mean"] is None:
        return ""
    return f"{row['mean']:.{digits}f} ± {_half(row):.{max(digits, 1)}f}"


def _values(rows: list[Row], param: str) -> list[Any]:
    return sorted({row["params"][param] for row in rows if param in row["params"]})


def _where(rows: list[Row], one: str, other: str, **params: Any) -> str:
    """At which budgets one policy is above the other, by the interval of the difference of two independent means."""
    found: dict[str, list[str]] = {"above": [], "below": [], "open": []}
    for budget in _values(rows, "budget"):
        pair = [_find(rows, "entities", name, budget=budget, **params) for name in (one, other)]
        if pair[0] is None or pair[1] is None or pair[0]["mean"] is None or pair[1]["mean"] is None:
            continue
        off = pair[0]["mean"] - pair[1]["mean"]
        sure = abs(off) > math.hypot(_half(pair[0]), _half(pair[1]))
        found["open" if not sure else "above" if off > 0 else "below"].append(f"{budget:g}")
    said = [f"{word} {', '.join(budgets)}" for word, budgets in found.items() if budgets]
    return said[0].split()[0] + " at every budget" if len(said) == 1 else "; ".join(said)


def _table(head: Sequence[str], lines: Iterator[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines]) + "\n"


def _entities(rows: list[Row]) -> Iterator[str]:
    """Distinct entities, and the orders that the paper reports."""

    def lines() -> Iterator[Sequence[str]]:
        for name in POLICIES:
            for budget in _values(rows, "budget"):
                published = _find(rows, "published_entities", name, budget=budget)
                ours = [_cell(_find(rows, "entities", name, budget=budget, answer_model=model)) for model in SHOWN]
                if any(ours):
                    yield [name, f"{budget:g}", f"{published['mean']:g}" if published else "", *ours]

    yield _table(["policy", "budget", "published", *SHOWN], lines())
    pairs = [("GSChao", "RootChao"), ("GSChao", "Rand"), ("GSChao", "BFS"), ("GSHwang", "GSChao"),
             ("GSNewR", "GSChao"), ("GSExact", "GSChao"), ("GSExact", "RootChao")]  # fmt: skip
    orders = ([f"{one} against {other}", *(_where(rows, one, other, answer_model=model) for model in SHOWN)]
              for one, other in pairs)  # fmt: skip
    yield _table(["entities of", *SHOWN], (line for line in orders if any(line[1:])))
    yield _runs(rows)


def _runs(rows: list[Row]) -> str:
    over = max((row["mean"] or 0 for row in rows if row["metric"] == "overflow"), default=0)
    counts = sorted({row["runs"] for row in rows if row["metric"] == "entities"})
    return f"Runs: {', '.join(map(str, counts))}. Largest share of runs with an overflow: {over:g}.\n"


def _readings(rows: list[Row]) -> Iterator[str]:
    """What GSChao finds; "floor alone" is v_q, and there a node never seen brings k."""
    budgets = _values(rows, "budget")
    readings = {"k": {"unseen": "k"}, "one": {"unseen": "one"}, "k, floor alone": {"bootstrap": 0}}

    def lines() -> Iterator[Sequence[str]]:
        for model, removal, (name, reading) in itertools.product(SHOWN, REMOVALS, readings.items()):
            at = {"answer_model": model, "removal": removal, **reading}
            yield [model, removal, name, *(_cell(_find(rows, "entities", "GSChao", budget=b, **at)) for b in budgets)]

    yield _table(["answers", "removal", "unseen", *(f"budget {budget:g}" for budget in budgets)], lines())
    yield _runs(rows)


def _empty_answers(rows: list[Row]) -> Iterator[str]:
    """What GSChao finds, by what an empty answer ends."""
    budgets = _values(rows, "budget")

    def lines() -> Iterator[Sequence[str]]:
        for cost, model, removal, empty in itertools.product(COSTS, SHOWN, REMOVALS, ("unless-covered", "always")):
            at = {"cost_model": cost, "answer_model": model, "removal": removal, "empty": empty}
            own = [_cell(_find(rows, "entities", "GSChao", budget=b, **at)) for b in budgets]
            yield [cost, model, removal, empty, *own]

    yield _table(["cost", "answers", "removal", "empty", *(f"budget {budget:g}" for budget in budgets)], lines())
    yield _runs(rows)


def _lists(rows: list[Row]) -> Iterator[str]:
    """What GSChao and RootChao find with exclude lists and without, and the mean length of those that they ask with."""
    names = ("GSChao", "RootChao")

    def lines() -> Iterator[Sequence[str]]:
        for name, cost, model, budget in itertools.product(names, COSTS, SHOWN, _values(rows, "budget")):
            at = {"budget": budget, "answer_model": model, "cost_model": cost}
            both = [_find(rows, "entities", name, lists=lists, **at) for lists in ("with", "without")]
            used = _find(rows, "mean_l", name, lists="with", **at)
            yield [name, cost, model, f"{budget:g}", *map(_cell, both), _cell(used, 2)]

    yield _table(["policy", "cost", "answers", "budget", "with lists", "without", "mean l"], lines())
    yield _runs(rows)


def _estimates(rows: list[Row]) -> Iterator[str]:
    answers = _values(rows, "answers")
    names = list(dict.fromkeys(row["policy"] for row in rows))

    def lines() -> Iterator[Sequence[str]]:
        for domain, model, length in itertools.product(_values(rows, "domain"), SHOWN, _values(rows, "l")):
            for name in names:
                at = {"domain": domain, "answer_model": model, "l": length}
                metric, shown = ("gain", "true gain") if name == "true" else ("bias", f"bias of {name}")
                own = [_cell(_find(rows, metric, name, answers=n, **at), 2) for n in answers]
                yield [domain, model, str(length), shown, *own]

    yield _table(["domain", "answers", "l", "", *(f"{n} answers" for n in answers)], lines())


SECTIONS = {
    "extraction-people": _entities,
    "extraction-eventbrite": _entities,
    "step-cost": _entities,
    "readings": _readings,
    "exclude-lists": _lists,
    "empty-answers": _empty_answers,
    "estimators": _estimates,
}


def main() -> None:
    """Print the tables of those figures that the folder has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder with a folder of results for each figure")
    folder = parser.parse_args().folder
    for name, section in SECTIONS.items():
        path = folder / name / "summary.json"
        if path.exists():
            print(f"rekatsinas2019/{name}\n")
            print("\n".join(section(json.loads(path.read_text()))))


if __name__ == "__main__":
    main()
