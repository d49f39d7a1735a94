"""Comparisons of stored runs: paired differences, ranks, quantiles. Each gives rows, as a summary has them.

Runs of one number share their randomness, so policies are compared run by run: differences vary less than values.
``worth_of_pairs`` says how much less.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxbandit.errors import BadInput
from jaxbandit.study.differences import half_width, largest, variance
from jaxbandit.study.results import finished, open_results, planned, value_of, values_of
from jaxbandit.study.summary import Row, identity
from jaxbandit.wilson import quantile_places

if TYPE_CHECKING:
    import xarray as xr

    Stored = xr.Dataset | Path | str
LEVEL = 0.05
MOST_IN_PAIRS = 20
"""Configurations (a policy under a setting) of which all differences are shown without being asked for."""


def paired_differences(data: "Stored", metric: str | None = None, baseline: str | None = None) -> list[Row]:
    """Returns the mean of the differences between policies, run by run, under each setting.

    The intervals hold together: with a probability of 95 % all of them do (Bonferroni's inequality over all that are
    given). They are Student's, or those that hold at any stop where the study has ``stop_when`` (``summary.Always``);
    at least as wide as Wilson's for the share of runs in which one of both is ahead (``differences.half_width``).

    Args:
        data: of ``open_results``, all of its runs there, or the folder that it is in.
        metric: the first one where None.
        baseline: the label of the policy that all others are compared with; every pair where None.

    Returns:
        A row for each difference, ``policy`` minus the param ``against``.

    Raises:
        BadInput: for a metric or a policy that is not in the data, a single policy, a single run, missing runs.

    Example:
        >>> import jaxbandit
        >>> study = jaxbandit.Study.of(
        ...     {
        ...         "runs": 50,
        ...         "problem": {"kind": "cleaning/synthetic", "entities": 1_000, "budget": 100},
        ...         "policy": [{"kind": "ee", "t": [2, 3], "q": 0.667}],
        ...     }
        ... )
        >>> results = jaxbandit.run_study(study, progress=False)
        >>> (row,) = jaxbandit.paired_differences(results, "removed")
        >>> row["policy"], row["params"]["against"], row["ci_low"] < row["mean"] < row["ci_high"]
        ('ee t=2 q=0.667', 'ee t=3 q=0.667', True)
    """
    data, metric = _opened(data, metric)
    labels = [str(label) for label in data["policy"].values]
    if len(labels) < 2:
        raise BadInput("policy", labels[0], "at least two policies to compare")
    if data.sizes["run"] < 2:
        raise BadInput("runs", data.sizes["run"], "at least 2 to compare")
    if baseline is not None and baseline not in labels:
        raise BadInput("baseline", baseline, f"one of {', '.join(labels)}")
    pairs = list(itertools.combinations(range(len(labels)), 2))
    if baseline is not None:
        pairs = [(number, labels.index(baseline)) for number, label in enumerate(labels) if label != baseline]
    points = list(_points(data, metric))
    wanted, share = planned(data), _is_share(data, metric)
    level = LEVEL / (len(pairs) * len(points))
    rows = []
    for params, values in points:
        for one, other in pairs:
            with np.errstate(invalid="ignore"):  # of runs that have no value
                difference = values[one] - values[other]
                most = largest(values[[one, other]], share)
            mean, half = float(difference.mean()), half_width(difference, level, wanted, most)
            found = _finite(mean)
            low, high = (None, None) if found is None or half is None else (mean - half, mean + half)
            rows.append(
                Row(
                    policy=labels[one],
                    params={"against": labels[other], **params},
                    metric=f"{metric} difference",
                    mean=found,
                    ci_low=low,
                    ci_high=high,
                    runs=difference.size,
                )
            )
    return rows


def worth_of_pairs(data: "xr.Dataset", metric: str | None = None) -> str | None:
    """Returns what it is worth that runs of one number share their randomness, in words; None where no values vary.

    The variance of a difference of two policies, run by run, is held against the sum of their variances, which it
    would be of runs that share nothing.
    """
    shares = []
    for _, values in _points(data, _checked(data, metric)):
        whole = [own for own in values if np.isfinite(own).all()]
        for one, other in itertools.combinations(whole, 2):
            if apart := variance(one) + variance(other):
                shares.append(variance(one - other) / apart)
    if not shares:
        return None
    low, high = (f"{share:.2f}" for share in (min(shares), max(shares)))
    return (
        f"policies are compared in pairs of runs that share a number: the variance of a difference is "
        f"{low if low == high else f'{low} to {high}'} times that of runs that share nothing "
        "(the smaller, the fewer runs tell two policies apart; near 1, pairs are worth nothing)"
    )


def in_pairs(data: "xr.Dataset") -> bool:
    """Returns whether there are so few configurations that all their differences can be read."""
    return math.prod(size for name, size in data.sizes.items() if name != "run") <= MOST_IN_PAIRS


def ranks(data: "Stored", metric: str | None = None) -> list[Row]:
    """Returns the rank of each policy under each setting, 1 the best, with the range that the runs leave open.

    A policy is surely better than another where the interval of their difference (``paired_differences``) leaves out 0.
    ``best rank`` is 1 more than the policies that are surely better, ``worst rank`` the number of all less those that
    are surely worse. With a probability of 95 % all true ranks are within their ranges. A policy without a mean has no
    rank under that setting, and takes none from the others. ``data`` and ``metric`` are those of
    ``paired_differences``.

    Raises:
        BadInput: see ``paired_differences``.

    Example:
        >>> import jaxbandit
        >>> study = jaxbandit.Study.of(
        ...     {
        ...         "runs": 50,
        ...         "problem": {"kind": "cleaning/synthetic", "entities": 1_000, "budget": 100},
        ...         "policy": [{"kind": "ee", "t": [2, 3], "q": 0.667}],
        ...     }
        ... )
        >>> results = jaxbandit.run_study(study, progress=False)
        >>> sorted(row["mean"] for row in jaxbandit.ranks(results, "removed"))
        [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    """
    data, metric = _opened(data, metric)
    sign = sign_of(data, metric)
    labels = [str(label) for label in data["policy"].values]
    differences = iter(paired_differences(data, metric))
    rows = []
    for params, values in _points(data, metric):
        better = dict.fromkeys(labels, 0)
        worse = dict.fromkeys(labels, 0)
        for row in itertools.islice(differences, len(labels) * (len(labels) - 1) // 2):
            low, high = row["ci_low"], row["ci_high"]
            if low is None or high is None or low <= 0 <= high:
                continue
            first, second = row["policy"], row["params"]["against"]
            winner, loser = (first, second) if sign * low > 0 else (second, first)
            better[loser] += 1
            worse[winner] += 1
        place = {number: rank for rank, (number, _) in enumerate(_best_first(values, sign), 1)}
        for number, label in enumerate(labels):
            for name, rank in (
                ("rank", place.get(number, 0)),
                ("best rank", 1 + better[label]),
                ("worst rank", len(place) - worse[label]),
            ):
                rows.append(
                    Row(
                        policy=label,
                        params=params,
                        metric=name,
                        mean=float(rank) if number in place else None,
                        ci_low=None,
                        ci_high=None,
                        runs=values.shape[1],
                    )
                )
    return rows


def _best_first(values: np.ndarray, sign: float) -> list[tuple[int, float]]:
    """Returns the numbers of the policies that have a mean, each with it, the best first: values (policies, runs)."""
    with np.errstate(invalid="ignore", over="ignore"):
        means = enumerate(values.mean(axis=1).tolist())
    return sorted(((number, mean) for number, mean in means if math.isfinite(mean)), key=lambda each: -sign * each[1])


def by_rank(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows of ``ranks``, under each setting the best policy first."""
    settings = list(dict.fromkeys(identity(row["params"]) for row in rows))
    rank = {(identity(row["params"]), row["policy"]): row["mean"] for row in rows if row["metric"] == "rank"}

    def key(row: Row) -> tuple[int, float]:
        setting = identity(row["params"])
        own = rank[setting, row["policy"]]
        return settings.index(setting), math.inf if own is None else own

    return sorted(rows, key=key)


class Contender(NamedTuple):
    """Holds a policy that is the best, or that the runs cannot tell from it: its mean, and how far that is from the
    best one's, plus and minus ``half`` (None of the best itself, and where there is no interval)."""

    label: str
    mean: float
    away: float
    half: float | None


def references(data: "xr.Dataset") -> list[str]:
    """Returns the labels of the policies that know the truth: they are to compare with, and not to be taken."""
    known = data.attrs.get("references", [])
    return [str(label) for label in data["policy"].values if str(label) in known]


def besides(data: "xr.Dataset") -> str:
    """Returns the policies that ``leading`` leaves out, as ``, besides the reference known-sc,``, or an empty text."""
    known = references(data)
    return f", besides the reference{'s' * (len(known) > 1)} {' and '.join(known)}," if known else ""


def leading(data: "xr.Dataset", metric: str | None = None) -> Iterator[tuple[dict[str, Any], list[Contender]]]:
    """Returns under each setting the policy with the best mean, and those that the runs cannot tell from it.

    These are the policies whose difference from the best one has an interval with 0 in it, one of those intervals by
    which ``ranks`` goes. Policies that know the truth are left out, unless there are no others.

    Raises:
        BadInput: for a metric that is not in the data, and missing runs.
    """
    metric = _checked(data, metric)
    sign, out = sign_of(data, metric), references(data)
    labels = [str(label) for label in data["policy"].values]
    real = [number for number, label in enumerate(labels) if label not in out] or list(range(len(labels)))
    points = list(_points(data, metric))
    level = LEVEL / max(1, math.comb(len(labels), 2) * len(points))
    wanted, share = planned(data), _is_share(data, metric)
    for params, values in points:
        order = [(number, mean) for number, mean in _best_first(values, sign) if number in real]
        contenders = []
        for number, mean in order:
            difference = values[number] - values[order[0][0]]
            most = largest(values[[number, order[0][0]]], share)
            half = half_width(difference, level, wanted, most) if number != order[0][0] else None
            away = float(difference.mean())
            if half is None or abs(away) <= half:
                contenders.append(Contender(labels[number], mean, away, half))
        yield params, contenders


def leaders(data: "xr.Dataset", metric: str | None = None) -> list[Row]:
    """Returns what ``leading`` finds, in rows: two for each of these policies, the best one first.

    Returns:
        Each policy's mean, and its difference from that of the best.

    Raises:
        BadInput: see ``leading``.
    """
    metric = _checked(data, metric)
    rows, runs = [], data.sizes["run"]
    for params, contenders in leading(data, metric):
        for label, mean, away, half in contenders:
            ends = (None, None) if half is None else (away - half, away + half)
            for name, value, low, high in ((metric, mean, None, None), ("difference from the best", away, *ends)):
                rows.append(
                    Row(policy=label, params=params, metric=name, mean=value, ci_low=low, ci_high=high, runs=runs)
                )
    return rows


def quantiles(data: "Stored", probabilities: Sequence[float], metric: str | None = None) -> list[Row]:
    """Returns quantiles of a metric over runs, each with a 95 % interval between two order statistics (normal
    approximation of the binomial count below the quantile), None where there are too few runs for one.

    Args:
        data: what ``run_study`` or ``open_results`` gives, or the folder that it is in.
        probabilities: of the quantiles, each above 0 and below 1.
        metric: the family's first where None.

    Raises:
        BadInput: for a probability outside (0, 1), and as ``paired_differences``.

    Example:
        >>> import jaxbandit
        >>> study = jaxbandit.Study.of(
        ...     {
        ...         "runs": 50,
        ...         "problem": {"kind": "cleaning/synthetic", "entities": 1_000, "budget": 100},
        ...         "policy": [{"kind": "ee", "t": [2, 3], "q": 0.667}],
        ...     }
        ... )
        >>> results = jaxbandit.run_study(study, progress=False)
        >>> rows = jaxbandit.quantiles(results, [0.1, 0.9], "removed")
        >>> rows[0]["metric"]
        'removed, 0.1 quantile'
    """
    data, metric = _opened(data, metric)
    listed = isinstance(probabilities, list | tuple | np.ndarray)
    for each in probabilities if listed else [probabilities]:
        if not listed or not isinstance(each, int | float | np.number) or not 0 < each < 1:
            raise BadInput("quantiles", each, "a list of numbers between 0 and 1")
    rows = []
    for params, values in _points(data, metric):
        for label, own in zip(data["policy"].values, np.sort(values, axis=1), strict=True):
            runs = own.size
            for probability in probabilities:
                places = quantile_places(probability, runs) if not np.isnan(own).any() else None
                low, high = (_finite(float(own[place])) for place in places) if places else (None, None)
                rows.append(
                    Row(
                        policy=str(label),
                        params=params,
                        metric=f"{metric}, {probability:g} quantile",
                        mean=_quantile(own, probability),
                        ci_low=low,
                        ci_high=high,
                        runs=runs,
                    )
                )
    return rows


def _quantile(ordered: np.ndarray, probability: float) -> float | None:
    return float(np.quantile(ordered, probability)) if np.isfinite(ordered).all() else None


def lacking(data: "xr.Dataset", metric: str | None = None) -> list[str]:
    """Returns the policies with runs in which the metric is not a number: they have no mean, and so no rank and no
    difference.

    Raises:
        BadInput: for a metric that is not in the data, and missing runs.
    """
    found = (values for _, values in _points(data, _checked(data, metric)))
    without = [~np.isfinite(values).all(axis=1) for values in found]
    return [str(label) for label, gone in zip(data["policy"].values, np.any(without, axis=0), strict=True) if gone]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _opened(data: "Stored", metric: str | None) -> tuple["xr.Dataset", str]:
    data = open_results(data) if isinstance(data, str | Path) else data
    return data, _checked(data, metric)


def _checked(data: "xr.Dataset", metric: str | None) -> str:
    if not {"policy", "run"} <= set(getattr(data, "sizes", ())) or "metrics" not in data.attrs:
        raise BadInput("results", type(data).__name__, "a Dataset of open_results or run_study, with policies and runs")
    metrics = data.attrs["metrics"].split()
    metric = metrics[0] if metric is None else metric
    if metric not in metrics:
        raise BadInput("metric", metric, f"one of {', '.join(metrics)}")
    finished(data)
    return metric


def sign_of(data: "xr.Dataset", metric: str) -> float:
    """Returns 1 where more of a metric is better, else -1."""
    return -1.0 if metric in data.attrs.get("lower_is_better", "").split() else 1.0


def _is_share(data: "xr.Dataset", metric: str) -> bool:
    """Returns whether each value of a metric is from 0 to 1."""
    return metric in f"{data.attrs.get('binary', '')} {data.attrs.get('share', '')}".split()


def _points(data: "xr.Dataset", metric: str) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Yields each setting (and checkpoint): its params and the values, float64 of shape (policies, runs)."""
    array = data[metric]
    swept = [str(name) for name in array.dims if name not in ("policy", "run")]
    for place in np.ndindex(*(array.sizes[name] for name in swept)):
        at = dict(zip(swept, place, strict=True))
        params = {}
        for name, index in at.items():
            params["budget" if name == "checkpoint" else name] = value_of(data[name].values[index])
        yield params, values_of(data, array.isel(at).transpose("policy", "run"))
