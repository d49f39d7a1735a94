"""How close the regenerated Eventbrite domain comes to the published one, and how long domains take to build.

    python -m benchmarks.papers.domains PATH/node_populations.csv [--out FILE.json] [--quick]

PATH: how many nodes hold each number of events, a table (population, nodes). A row is a range of populations.
"""

import time
from pathlib import Path

import numpy as np

from benchmarks.common import Row, facts, parser, save, table
from jaxbandit.extraction.domains import eventbrite_like, people_like

FROM = (1, 2, 3, 4, 5, 6, 11, 21, 51, 101, 201, 501, 1001, 5001)


def main() -> None:
    """Build, compare, print a table, write JSON if asked to."""
    options = parser(__doc__)
    options.add_argument("published", type=Path, help="the table of published node populations")
    options.add_argument("--seeds", type=int, help="domains built (5)")
    given = options.parse_args()
    head = facts("domains", given.quick)
    population, nodes = np.loadtxt(given.published, delimiter=",", skiprows=1, dtype=np.int64).T
    seeds = given.seeds or (1 if given.quick else 5)
    counts, seconds = [], []
    for seed in range(seeds):
        start = time.perf_counter()
        built = eventbrite_like(seed)
        seconds.append(time.perf_counter() - start)
        counts.append(np.diff(built.members()[0]))
    start = time.perf_counter()
    people_like()
    head |= {"eventbrite_seconds": float(np.median(seconds)), "people_seconds": time.perf_counter() - start}
    head |= {"memberships": int(population @ nodes), "memberships_built": [int(own.sum()) for own in counts]}
    rows: list[Row] = []
    for low, high in zip(FROM, (*FROM[1:], 1 << 30), strict=True):
        of = nodes[(population >= low) & (population < high)].sum()
        mine = [int(((own >= low) & (own < high)).sum()) for own in counts]
        rows.append({"from": low, "published": int(of), "least": min(mine), "most": max(mine)})
    sizes = [own.size for own in counts]
    rows.append({"from": None, "published": int(nodes.sum()), "least": min(sizes), "most": max(sizes)})
    columns = {"from": ("population from", "d"), "published": ("published", "d")}
    print(table(rows, columns | {"least": (f"ours, {seeds} seeds: from", "d"), "most": ("to", "d")}))
    print(f"memberships {head['memberships']}, ours {head['memberships_built'][0]}")
    print(f"built in {head['eventbrite_seconds']:.2f} s")
    save(given.out, head, rows)


if __name__ == "__main__":
    main()
