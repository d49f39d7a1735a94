"""Which estimator finds most: CRUX with the gain of distinct answers against GSChao, on a skewed domain.

`python benchmarks/extraction_beyond.py [RUNS]` prints, for each budget, the mean number of distinct entities and its
95 % interval (Student's t), on the people's domain under the proportional answer model and the linear cost. GSChao is
shown under each reading of the removal of bad queries; `clocks` is Algorithm 1 with the estimator of that name, the
prior of the root's gain, no removal and sigma = 0; the two in between change one of them at a time.
"""

import sys

import numpy as np
from scipy import stats

from jaxbandit.engine import simulate
from jaxbandit.extraction.crux import crux
from jaxbandit.extraction.domains import people_like
from jaxbandit.extraction.problem import extraction

BUDGETS = (20, 50, 100)
POLICIES = {
    "chao92, removal lasting": {"estimator": "chao92"},
    "chao92, removal fresh": {"estimator": "chao92", "removal": "fresh"},
    "chao92, removal none": {"estimator": "chao92", "removal": "none"},
    "chao92, removal none, sigma 0": {"estimator": "chao92", "removal": "none", "variance_floor": 0},
    "clocks, removal none": {"estimator": "clocks", "removal": "none", "exclude_draws": 1},
    "clocks, prior 20, removal none, sigma 0": {
        "estimator": "clocks", "removal": "none", "exclude_draws": 1, "variance_floor": 0, "prior": 20,
    },
}  # fmt: skip


def main() -> None:
    """Prints the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    domain = people_like()
    for name, options in POLICIES.items():
        problems = [extraction(domain, budget, largest_budget=BUDGETS[-1]) for budget in BUDGETS]
        found = simulate(problems, crux(**options), runs=runs)
        means, errors = found["entities"].mean(axis=1), found["entities"].std(axis=1, ddof=1) / np.sqrt(runs)
        wide = stats.t.ppf(0.975, runs - 1) * errors
        cells = [f"{b}: {m:.1f} [{m - w:.1f}, {m + w:.1f}]" for b, m, w in zip(BUDGETS, means, wide, strict=True)]
        print(f"{name:42s}", "  ".join(cells), "" if not found["code"].any() else "OVERFLOW", flush=True)


if __name__ == "__main__":
    main()
