"""What a run costs with other numbers of lanes a device than a policy has on a CPU: the reason of
``Execution.most_lanes`` and ``Execution.cache_mib``.

    python -m benchmarks.lanes [--out FILE.json] [--quick] [--only topk/sar ...]

``own``: the lanes of a device. The other columns: CPU time of a call by its runs, in microseconds, with a quarter of
these lanes, a half, as many, twice as many, four times; the least of three calls, all compiled in full. Runs are enough
for four waves of the own lanes on each core.
"""

import time

from benchmarks.common import Row, facts, parser, save, table
from benchmarks.compile import SIZES, built, names

SHARES = {"quarter": 0.25, "half": 0.5, "same": 1.0, "twice": 2.0, "four_times": 4.0}
LEAST = 400
"""Runs of a call, at least; 100 where one takes long."""
LONG = ("gs-exact", "kl-lucb", "ib", "crux")
COLUMNS = {
    "policy": ("policy", ""), "arms": ("n", ",d"), "runs": ("runs", ",d"), "own": ("own lanes", ",d"),
    "quarter": ("a quarter", ",.1f"), "half": ("half", ",.1f"), "same": ("own", ",.1f"), "twice": ("twice", ",.1f"),
    "four_times": ("four times", ",.1f"),
}  # fmt: skip


def one(name: str, arms: int | None, repeats: int) -> Row:
    """A policy's times."""
    from jaxbandit import simulate
    from jaxbandit.devices import cores
    from jaxbandit.engine import Batch

    problem, policy = built(name, arms)
    batch = Batch([(problem, policy)])
    own = batch.lanes([0], runs=1 << 17)
    few = 100 if any(part in name for part in LONG) or (arms or 0) >= 400 else LEAST
    runs = max(few, min(4 * own * cores(), 16_000))
    own = batch.lanes([0], runs=runs)
    row: Row = {"policy": name, "arms": arms, "runs": runs, "own": own}
    widths = {share: max(2, int(own * times)) for share, times in SHARES.items()}
    for lanes in widths.values():
        simulate(problem, policy, runs=runs, lanes=lanes, progress=False)
    for share, lanes in widths.items():
        best = float("inf")
        for seed in range(repeats):
            start = time.process_time()
            simulate(problem, policy, runs=runs, seed=1 + seed, lanes=lanes, progress=False)
            best = min(best, time.process_time() - start)
        row[share] = best / runs * 1e6
    return row


def main() -> None:
    """Measures one policy after the other, and writes after each."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", metavar="POLICY", help="these alone")
    args = options.parse_args()
    from jaxbandit import jobs
    from jaxbandit.devices import use_all_cores

    use_all_cores()
    jobs.WORTH_COMPILING = -1.0
    found = facts("lanes", args.quick)
    rows: list[Row] = []
    for name in args.only or names():
        for arms in SIZES.get(name.partition("/")[0], (None,)):
            rows.append(one(name, arms, 1 if args.quick else 3))
            print(table(rows[-1:], COLUMNS), flush=True)
            save(args.out, found, rows)
    print(table(rows, COLUMNS))


if __name__ == "__main__":
    main()
