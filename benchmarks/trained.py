"""Trained policies against the others, on problems that they were not trained on.

    python -m benchmarks.trained --out FILE.json [--quick] [--family cleaning topk]
    python -m benchmarks.trained --train [--family ...]

With --train the scores are trained first, on ``examples/train/*.toml``: each takes some minutes. They are kept beside
the results, and those that come with the package are two of them. Differences are paired, run by run.
"""

from pathlib import Path
from typing import Any

import numpy as np

import jaxbandit
from benchmarks.common import ROOT, Row, facts, parser, save, table
from jaxbandit.engine import Batch
from jaxbandit.registry import measured
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import Moments
from jaxbandit.study.table import render

SCORES = ROOT / "benchmarks" / "results" / "trained"
BLIND = ["rate", "doubt", "left", "last", "failures", "plenty"]
NETWORK = {"kind": "network", "hidden": 4, "generations": 40}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "cleaning": {"linear": {}, "network": NETWORK, "linear-blind": {"statistics": BLIND}},
    "topk": {"linear": {}, "network": NETWORK},
}  # fmt: skip
"""Scores by family, with what their training has other than the study file. Blind ones do not know the sc-pdf. Those
that were not trained are left out."""

BIMODAL = {"histogram": [4, 1, 0.5, 0.5, 1, 4]}
GEOMETRIC = {"weights": [0, *(0.8**r for r in range(19))]}
PROBLEMS: dict[str, list[dict[str, Any]]] = {
    "cleaning": [
        {"budget": budget, "entities": 3_000, "sc_pdf": sc_pdf, "false_values": false_values}
        for sc_pdf in ({"normal": {"mean": 0.5, "variance": 0.3}}, {"beta": [0.5, 1.5]}, BIMODAL)
        for false_values in ({"uniform": [0, 19]}, GEOMETRIC)
        for budget in (3_000, 10_000)
    ],
    "topk": [
        {"n": 100, "K": K, "budget": budget, "means": means}
        for means in ({"normal": {"mean": 0.5, "variance": 0.04}}, {"beta": [1, 8]}, BIMODAL)
        for K in (10, 40)
        for budget in (3_000, 10_000)
    ],
}
KINDS = {"cleaning": "cleaning/synthetic", "topk": "topk/bernoulli"}
OTHERS: dict[str, list[dict[str, Any]]] = {
    "cleaning": [
        {"kind": "index"}, {"kind": "ee"}, *[{"kind": "epsilon-greedy", "epsilon": e} for e in (0.1, 0.3, 0.5)],
        {"kind": "greedy"}, {"kind": "random"},
    ],
    "topk": [
        {"kind": "optmai", "beta": 0.8}, {"kind": "optmai", "beta": 0.9}, {"kind": "sar"}, {"kind": "lucb"},
        {"kind": "halving"}, {"kind": "uniform"},
    ],
}  # fmt: skip


def path(family: str, variant: str) -> Path:
    return SCORES / f"{family}-{variant}.json"


def train(family: str) -> None:
    """Trains all scores of a family."""
    SCORES.mkdir(parents=True, exist_ok=True)
    for variant, changes in VARIANTS[family].items():
        study = jaxbandit.load_study(ROOT / "examples" / "train" / f"{family}.toml")
        found = jaxbandit.train(study, path(family, variant), **changes)
        print(f"{family} {variant}: {found.history[-1]:.4f} of the beginning", flush=True)
        print(render(found.rows), flush=True)


def measure(family: str, problem: dict[str, Any], runs: int) -> list[Row]:
    """Each policy's mean on a problem, and its paired difference from that of the linear score."""
    variants = [variant for variant in VARIANTS[family] if path(family, variant).exists()]
    trained = [{"kind": "trained", "path": str(path(family, variant))} for variant in variants]
    study = Study.of(
        {"runs": runs, "problem": {"kind": KINDS[family], **problem}, "policy": [*trained, *OTHERS[family]]}
    )
    members, metric = study.configurations(), study.family.metrics[0]
    answers = Batch([(each.problem, each.policy) for each in members]).run(range(len(members)), runs=runs, seed=1)
    names = [f"trained {variant}" for variant in variants] + [each.label for each in members[len(trained) :]]
    values = {
        name: measured(metric, each.setting, {key: found[number] for key, found in answers.items()})
        for number, (name, each) in enumerate(zip(names, members, strict=True))
    }
    rows = []
    for name, own in values.items():
        row: Row = {"family": family, "problem": problem, "policy": name, "metric": metric.name, "runs": runs}
        row["mean"], row["half"] = mean_and_half(own)
        row["less_linear"], row["less_linear_half"] = mean_and_half(own - values["trained linear"])
        rows.append(row)
    return rows


def mean_and_half(values: np.ndarray) -> tuple[float, float]:
    """The mean, and half of its 95 % interval."""
    moments = Moments()
    moments.add(values)
    return moments.mean, moments.interval()[1] - moments.mean


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--train", action="store_true", help="train the scores first")
    options.add_argument("--family", nargs="+", choices=KINDS, default=list(KINDS))
    given = options.parse_args()
    head, rows = facts("trained", given.quick), []
    for family in given.family:
        if given.train:
            train(family)
        for problem in PROBLEMS[family][: 2 if given.quick else None]:
            found = measure(family, problem, 100 if given.quick else 500)
            rows += found
            print(problem)
            columns = {
                "policy": ("policy", ""), "mean": ("mean", ".5f"), "half": ("half", ".5f"),
                "less_linear": ("less linear", "+.5f"), "less_linear_half": ("half", ".5f"),
            }  # fmt: skip
            print(table(found, columns), flush=True)
            save(given.out, head, rows)


if __name__ == "__main__":
    main()
