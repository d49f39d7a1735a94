"""What the estimator of the gain decides: CRUX with each of four, on the people's domain under both answer models.

`python -m benchmarks.papers.extraction_estimators [BATCHES]` prints the mean number of distinct entities at budgets of
50 and 100, linear cost, with its 95 % interval (Student's t), over BATCHES (6) times 8 runs, each batch with its seed.
"""

import sys

import numpy as np
from scipy import stats

from jaxbandit.engine import simulate
from jaxbandit.extraction.answers import MODELS
from jaxbandit.extraction.domains import people_like
from jaxbandit.extraction.options import crux
from jaxbandit.extraction.problem import extraction

BUDGETS = (50, 100)


def main() -> None:
    """Prints a line for each answer model and estimator."""
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    domain = people_like()
    for model in MODELS:
        for estimator in ("chao92", "hwang-shen", "new-regr", "good-turing"):
            problems = [extraction(domain, budget, answers=model, largest_budget=BUDGETS[-1]) for budget in BUDGETS]
            policy = crux(estimator)
            found = [simulate(problems, policy, runs=8, seed=seed)["entities"] for seed in range(batches)]
            entities = np.concatenate(found, axis=1)
            runs = entities.shape[1]
            half = stats.t.ppf(0.975, runs - 1) * entities.std(axis=1, ddof=1) / np.sqrt(runs)
            cells = (f"{b}: {m:.0f} ± {h:.1f}" for b, m, h in zip(BUDGETS, entities.mean(axis=1), half, strict=True))
            print(f"{model:12s} {estimator:12s}", "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
