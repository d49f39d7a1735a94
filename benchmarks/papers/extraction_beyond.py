"""Which estimator finds most: CRUX with the gain of distinct answers against GSChao, on a skewed domain.

`python -m benchmarks.papers.extraction_beyond [RUNS] [POLICY ...]` prints, for each budget, the mean number of distinct
entities and its 95 % interval (Student's t), on the people's domain under the proportional answer model and the linear
cost. GSChao is shown under each reading of the removal of bad queries, and so is the estimator `clocks`, without
removal. The prior draws a node's gain towards the root's. Where sigma is 0 there is no variance and no floor of it.
"""

import sys

import numpy as np
from scipy import stats

from jaxbandit.engine import simulate
from jaxbandit.extraction.domains import people_like
from jaxbandit.extraction.options import crux
from jaxbandit.extraction.problem import extraction

BUDGETS = (20, 50, 100)
NO_SIGMA = {"bootstrap": 0, "variance_floor": 0}
CLOCKS = {"estimator": "clocks", "removal": "none", "exclude_draws": 1}
POLICIES = {
    "chao92, removal lasting": {"estimator": "chao92"},
    "chao92, removal fresh": {"estimator": "chao92", "removal": "fresh"},
    "chao92, removal none": {"estimator": "chao92", "removal": "none"},
    "chao92, removal none, sigma 0": {"estimator": "chao92", "removal": "none"} | NO_SIGMA,
    "clocks, removal none": CLOCKS,
    "clocks, prior 20, removal none": CLOCKS | {"prior": 20},
    "clocks, prior 20, removal none, sigma 0": CLOCKS | NO_SIGMA | {"prior": 20},
}


def main() -> None:
    """Prints the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    domain = people_like()
    for name in sys.argv[2:] or POLICIES:
        problems = [extraction(domain, budget, largest_budget=BUDGETS[-1]) for budget in BUDGETS]
        found = simulate(problems, crux(**POLICIES[name]), runs=runs)
        means, errors = found["entities"].mean(axis=1), found["entities"].std(axis=1, ddof=1) / np.sqrt(runs)
        wide = stats.t.ppf(0.975, runs - 1) * errors
        cells = [f"{b}: {m:.1f} [{m - w:.1f}, {m + w:.1f}]" for b, m, w in zip(BUDGETS, means, wide, strict=True)]
        print(f"{name:42s}", "  ".join(cells), "" if not found["code"].any() else "OVERFLOW", flush=True)


if __name__ == "__main__":
    main()
