"""How ties are broken decides the regret on the RTE workers (Zhou, Chen and Li 2014, figure 2(b)), as a Markdown table.

OptMAI, at beta = 0.8, and SAR are the simulator's. LUCB is a plain NumPy program that shares no code with it: the
simulator gives ties to the lowest arm, a program of one's own may draw a fresh order at each round.

python -m benchmarks.papers.topk_ties --data ../shared/data/rte
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jaxbandit import simulate
from jaxbandit.study.spec import Study

WANTED, TIMES, DELTA = [10, 20, 50, 100], 10, 0.1
METRICS = ("regret", "pulls_0", "pulls_100", "pulls")


def _simulated(accuracies: np.ndarray, runs: int) -> Iterator[tuple[str, str, int, np.ndarray]]:
    """OptMAI and SAR; of a list that is sorted from the best on, the lowest of equal arms is the best."""
    problem = {"kind": "topk/bernoulli", "budget": TIMES * accuracies.size}
    best_first = {"means": {"list": np.sort(accuracies)[::-1].tolist()}}
    for ties, shuffled in (("lowest", True), ("random", True), ("lowest", False)):
        policies = [{"kind": kind, "ties": ties} for kind in ("optmai", "sar")]
        table = {**problem, **best_first, "shuffled": shuffled}
        study = Study.of({"runs": runs, "problem": table, "policy": policies, "sweep": {"K": WANTED}})
        metrics = {metric.name: metric for metric in study.family.metrics}
        for each in study.configurations():
            answers = simulate(each.problem, each.policy, runs=runs, seed=0)
            found = np.stack([metrics[name].of(each.setting, answers).ravel() for name in METRICS])
            yield each.name, ties if shuffled else "lowest, best arms first", each.params["K"], found


def _lucb(accuracies: np.ndarray, want: int, fresh: bool, rng: np.random.Generator) -> tuple[float, ...]:
    """A run: regret, the least and the most pulls of an arm, and all pulls."""
    means, arms = rng.permutation(accuracies), accuracies.size
    total, made = (rng.random(arms) < means).astype(float), np.ones(arms)
    order, number, spent, budget = np.arange(arms) / arms, 1, arms, TIMES * arms
    while spent < budget:
        order = rng.random(arms) if fresh else order
        ranked = np.lexsort((order, -total / made))
        radius = np.sqrt(np.log(1.25 * arms * number**4 / DELTA) / (2 * made))
        top, rest = ranked[:want], ranked[want:]
        weak = top[np.lexsort((order[top], (total / made - radius)[top]))[0]]
        strong = rest[np.lexsort((order[rest], -(total / made + radius)[rest]))[0]]
        for arm in (weak, strong)[: budget - spent]:
            total[arm] += rng.random() < means[arm]
            made[arm] += 1
            spent += 1
        number += 1
    chosen = np.lexsort((rng.random(arms) if fresh else order, -total / made))[:want]
    regret = (np.sort(means)[-want:].sum() - means[chosen].sum()) / want
    return float(regret), made.min(), made.max(), float(spent)


def _plain(accuracies: np.ndarray, runs: int) -> Iterator[tuple[str, str, int, np.ndarray]]:
    for want in WANTED:
        for fresh in (False, True):
            rng = np.random.default_rng(0)
            found = np.array([_lucb(accuracies, want, fresh, rng) for _ in range(runs)]).T
            yield "lucb", "random, fresh at each round" if fresh else "lowest", want, found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with workers.csv")
    parser.add_argument("--runs", type=int, default=200, help="runs of each line (200)")
    given = parser.parse_args()
    path = given.data / "workers.csv"
    with path.open(newline="") as file:
        accuracies = np.array([int(row["correct"]) / int(row["answered"]) for row in csv.DictReader(file)])
    print("| rule | equal arms | K | regret (95 %) | tasks of a worker, least and most | tasks in all |")
    print("|---|---|---|---|---|---|")
    for found in (_simulated(accuracies, given.runs), _plain(accuracies, given.runs)):
        for name, ties, want, values in found:
            mean = values.mean(axis=1)
            half = 1.96 * values[0].std(ddof=1) / np.sqrt(given.runs)
            regret = f"{mean[0]:.4f} ({mean[0] - half:.4f} to {mean[0] + half:.4f})"
            print(f"| {name} | {ties} | {want} | {regret} | {mean[1]:.1f} and {mean[2]:.1f} | {mean[3]:.0f} |")


if __name__ == "__main__":
    main()
