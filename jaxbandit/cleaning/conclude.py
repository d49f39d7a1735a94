"""Which policy, and which budget: what simulated runs on a table say, in sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxbandit.registry import Curves

REFERENCE = "known-sc"
"""It knows what nobody does, so it is no answer."""

_SHOWN = 3
"""The policies that are named at each budget."""

Point = Sequence[Any]


def conclude(false_values: int, entities: int, curves: Curves, target: float | None) -> list[str]:
    """Sentences on the share of all false values that policies remove, on average over runs.

    Args:
        false_values: how many there are, at ``entities`` ambiguous entities.
        curves: of the metrics ``share``, ``finished`` and ``cleans``.
        target: the share that is wanted, above 0 and at most 1. It is reached where the lower end of the 95 % interval
            is not below it.
    """
    shares = curves["share"]
    lines = [
        f"which policy, which budget? Of {false_values:,} false values at {entities:,} ambiguous entities are removed"
    ]
    for budget in sorted({point[0] for points in shares.values() for point in points}):
        lines.append(f"  with a budget of {budget:,}: {_at(budget, curves, entities)}")
    for policy, points in shares.items():
        last = max(points, key=_budget)
        spent = _mean(curves["cleans"], policy, last[0])
        if spent < 0.99 * last[0] and last[1] < 0.99:
            lines.append(
                f"{policy} gives entities up for good: it has met all of them after {spent:,.0f} operations, and "
                "leaves the rest of a larger budget unspent"
            )
    return [*lines, *_aimed(curves, target)]


def _at(budget: int, curves: Curves, entities: int) -> str:
    """What each policy removes with a budget, the best first."""
    found = {policy: point for policy, points in curves["share"].items() for point in points if point[0] == budget}
    order = sorted((policy for policy in found if not _reference(policy)), key=lambda policy: -found[policy][1])
    parts = []
    for place, policy in enumerate(order[:_SHOWN]):
        finished = _mean(curves["finished"], policy, budget)
        more = f" (which finishes {finished:,.0f} of {entities:,} entities)" if place == 0 else ""
        parts.append(f"{_share(found[policy])} by {policy}{more}")
    if len(order) > _SHOWN:
        others = order[_SHOWN:]
        parts.append(f"less by {others[0] if len(others) == 1 else f'{len(others)} more'}")
    parts += [f"{_share(found[policy])} by {policy}, which is out of reach" for policy in found if _reference(policy)]
    return "; ".join(parts)


def _aimed(curves: Curves, target: float | None) -> list[str]:
    """The cheapest policy and budget that reach the target."""
    shares = {
        policy: sorted(points, key=_budget) for policy, points in curves["share"].items() if not _reference(policy)
    }
    if not shares:
        return [f"only {REFERENCE} was run, which knows what nobody does"]
    if target is None:
        return ["for the cheapest policy and budget that remove a share that you want, add --target 0.9"]
    most, best = max(((points[-1], policy) for policy, points in shares.items()), key=lambda each: each[0][1])
    if most[2] is None:
        return ["one run has no interval, and so no confidence: whether a target is reached needs runs = 2 at least"]
    enough = {
        policy: next(point for point in points if point[2] >= target)
        for policy, points in shares.items()
        if any(point[2] >= target for point in points)
    }
    if not enough:
        return [
            f"no policy and budget that were run remove {100 * target:g} % with a confidence of 95 %; the most is "
            f"{_share(most)}, by {best} with a budget of {most[0]:,}"
        ]
    policy = min(enough, key=lambda each: (*_cost(curves, each, enough[each][0]), -enough[each][1]))
    point = enough[policy]
    spent = _mean(curves["cleans"], policy, point[0])
    of_it = f", of which it spends {spent:,.0f}" if spent < 0.99 * point[0] else ""
    lines = [
        f"to remove {100 * target:g} %, the cheapest that was run is {policy} with a budget of {point[0]:,}{of_it}: it "
        f"removes {_share(point)} on average, and the lower end of this 95 % interval is above the target"
    ]
    others = [
        f"{other} {enough[other][0]:,}" if other in enough else f"{other} none" for other in shares if other != policy
    ]
    if others:
        lines.append(f"the least budgets of the others: {', '.join(others)}")
    below = [each for each in shares[policy] if each[0] < point[0]]
    if below:
        lines.append(f"{policy} with {below[-1][0]:,} removes {_share(below[-1])}; budgets in between were not run")
    return lines


def _cost(curves: Curves, policy: str, budget: int) -> tuple[int, float]:
    """A budget, and what a policy spends of it on average."""
    return budget, _mean(curves["cleans"], policy, budget)


def _budget(point: Point) -> float:
    return float(point[0])


def _mean(curves: Mapping[str, Sequence[Point]], policy: str, budget: int) -> float:
    return next(float(mean) for at, mean, *_ in curves[policy] if at == budget)


def _reference(policy: str) -> bool:
    return policy.partition(" ")[0] == REFERENCE


def _share(point: Point) -> str:
    """A share with its interval, in percent, to as many digits as tell its ends apart."""
    _, mean, low, high = point
    if low is None:
        return f"{100 * mean:.1f} %"
    low, high = max(0.0, low), min(1.0, high)
    places = next((places for places in range(1, 4) if f"{low:.{places}%}" != f"{high:.{places}%}"), 1)
    return f"{100 * mean:.{places}f} % [{100 * low:.{places}f}, {100 * high:.{places}f}]"
