"""A planning table: what each rule will cost, by simulation with a user's guess of the means."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from jaxbandit.engine import simulate
from jaxbandit.outliers.bounds import gold_bound, rr_bound, wrr_bound
from jaxbandit.outliers.truth import Labelled
from jaxbandit.random.trials import UNITS
from jaxbandit.registry import Metric, PolicyKind, parse
from jaxbandit.wilson import Z, quantile_places, share_interval


def table(
    setting: Any,
    policies: Iterable[tuple[PolicyKind, Mapping[str, Any]]],
    metrics: Iterable[Metric],
    runs: int,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Yields summary rows of policies, by simulation; the metric ``bound`` is a theorem's, where there is one.

    Args:
        setting: a setting of the family, whose means are the user's guess.
        policies: kinds of policies, each with the parameters that a study file gives it.
        metrics: the metrics of the family.
        runs: the runs of each policy.
        seed: 0 to 2^32 - 1.
    """
    for kind, given in policies:
        parsed = parse(f"policy.{kind.name}", kind.parameters, given)
        policy, told = kind.build(setting, **parsed)
        simulated = simulate(setting.problem(), policy, runs=runs, seed=seed, progress=False)
        answers = {name: values[0] for name, values in simulated.items()}
        params = {"n": setting.arms, "budget": setting.budget, **given, **told}
        values = {metric.name: metric.of(setting, answers) for metric in metrics}
        ordered = np.sort(values["pulls"])
        mean, half = float(ordered.mean()), Z * float(ordered.std(ddof=1)) / math.sqrt(runs)
        found = {"pulls": (mean, mean - half, mean + half), "pulls_of_19_in_20": _quantile(ordered, 0.95)}
        for name in ("correct", "capped"):
            share = float(values[name].mean())
            found[name] = (share, *share_interval(share, runs))
        bound = _bound(setting, kind.name, {**parsed, **told})
        if bound is not None:
            found["bound"] = (bound, bound, bound)
        for name, (mean, low, high) in found.items():
            yield {
                "policy": kind.name, "params": params, "metric": name, "mean": mean, "ci_low": low, "ci_high": high,
                "runs": 0 if name == "bound" else runs,
            }  # fmt: skip


def _quantile(ordered: np.ndarray, share: float) -> tuple[float, float | None, float | None]:
    """Returns a quantile with its 95 % interval, if there are enough runs for one."""
    value = float(ordered[math.ceil(ordered.size * share) - 1])
    places = quantile_places(share, ordered.size)
    return (value, float(ordered[places[0]]), float(ordered[places[1]])) if places else (value, None, None)


def _bound(setting: Any, rule: str, at: Mapping[str, Any]) -> float | None:
    judge = setting.definition
    if not isinstance(setting.source, Labelled) or at.get("interval") != "bounded":
        return None
    if rule != "gold" and (judge.two_sided or judge.name == "robust"):
        return None  # Theorems 2 and 3 are of one threshold, mu + k sigma
    means = np.asarray(jax.device_get(setting.source.given.means)) / UNITS
    if rule == "gold":
        bound = gold_bound(means.tolist(), at["eps"], at["delta"], form="proof")
    elif rule == "rr":
        bound = rr_bound(means.tolist(), at["k"], at["delta"])
    else:
        bound = wrr_bound(means.tolist(), at["k"], at["delta"], at["rho"])
    return bound if math.isfinite(bound) else None
