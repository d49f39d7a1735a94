"""How far policies are from the least that a run can cost on this machine: random words, and bytes of its records.

    python -m benchmarks.limits [--out FILE.json] [--quick]

The rule as written is run by hand on a few runs, and its pulls are counted: a pull is of one entity or arm, one
operation or a natural number of them. From the counts follow the words that a run draws at least: one for what comes of
a pull, one more where the rule chooses at random, two for an entity that is new (its sc-probability, and which it is or
its false values), one for the mean of an arm. And the bytes that it moves at least: the record of what is pulled, two
numbers of 32 bits read and written, and of an arm one more that is read to compare it.

The ceilings are measured here: CPU time a word of this package's generator, and a byte read or written in an array that
stays in a core's cache and in one that does not. ``least`` is the larger one of the words' time and the bytes' time (in
the cache), for a core does both side by side. It is no bound for another generator, or another algorithm of the same
law; below 1 a policy makes several pulls of the rule as written by one.

All times are of CPU, the sum over all cores, warm, the least of the repetitions.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from benchmarks import cleaning, topk
from benchmarks.common import Row, facts, own_programs, parser, save, table
from benchmarks.counting import counts
from jaxbandit import jobs, simulate
from jaxbandit.arms.problem import Drawn, arms
from jaxbandit.arms.rewards import Bernoulli
from jaxbandit.cleaning import Uniform, epsilon_greedy, synthetic
from jaxbandit.laws import Uniform as UniformMeans
from jaxbandit.random import stream, words
from jaxbandit.xla.options import Effort

REPEATS, COUNTED = 5, 4
RECORD, COMPARED = 16, 4
"""Bytes: a record of two numbers, read and written; a number that is read."""
AT_RANDOM = {"random", "epsilon-greedy"}
CACHED, BEYOND = 1 << 14, 1 << 25
"""Entries of the arrays that stay in a core's cache, and that do not."""
COLUMNS = {
    "policy": ("policy", ""), "setting": ("setting", ""), "pulls": ("pulls by the rule", ",.0f"),
    "new": ("of new ones", ",.0f"), "us": ("CPU us a run", ",.1f"), "words_us": ("its words", ",.1f"),
    "bytes_us": ("its bytes", ",.1f"), "times_least": ("times the least", ".1f"),
}  # fmt: skip


def least_of(work: Callable[[int], Any], repeats: int) -> float:
    """CPU-seconds of ``work``, which is given a seed, after a first call."""
    work(0)
    found = []
    for seed in range(1, repeats + 1):
        before = time.process_time()
        jax.block_until_ready(work(seed))
        found.append(time.process_time() - before)
    return min(found)


def ceilings(repeats: int) -> Row:
    """CPU-nanoseconds a random word, and a byte in the cache and beyond it."""
    turns = 2000

    @jax.jit
    def drawn(seed: Array) -> Array:
        def turn(at: Array, sums: Array) -> Array:
            first, second = words(stream(seed, jnp.arange(CACHED)), 1, at)
            return sums ^ first ^ second

        return lax.fori_loop(0, turns, turn, jnp.zeros(CACHED, jnp.uint32))

    def moved(size: int, turns: int) -> float:
        @jax.jit
        def added(start: Array) -> Array:
            return lax.fori_loop(0, turns, lambda at, some: some + at, start)

        start = jnp.zeros(size, jnp.int32)
        return least_of(lambda seed: added(start + seed), repeats) / (8.0 * size * turns)

    word = least_of(lambda seed: drawn(jnp.uint32(seed)), repeats) / (2 * CACHED * turns)
    return {"word_ns": 1e9 * word, "byte_ns": 1e9 * moved(CACHED, 20_000), "far_byte_ns": 1e9 * moved(BEYOND, 20)}


def measure(row: Row, problem: Any, policy: Any, runs: int, ceiling: Row, repeats: int) -> Row:
    """A policy's figures: what it takes, and the least. ``row``: its name and setting."""
    pulls, new = counts(problem, policy, COUNTED)
    at_arms = row["family"] == "topk"
    drawn = pulls * (1 + (row["policy"] in AT_RANDOM)) + new * (1 if at_arms else 2)
    moved = pulls * (RECORD + COMPARED * at_arms)
    taken = least_of(lambda seed: simulate(problem, policy, runs=runs, seed=seed), repeats) / runs
    row |= {"runs": runs, "pulls": pulls, "new": new, "us": 1e6 * taken}
    row |= {"words_us": 1e-3 * drawn * ceiling["word_ns"], "bytes_us": 1e-3 * moved * ceiling["byte_ns"]}
    return row | {"times_least": row["us"] / max(row["words_us"], row["bytes_us"])}


def cases(quick: bool) -> list[tuple[Row, Any, Any, int]]:
    """Names, problems, policies and runs."""
    found: list[tuple[Row, Any, Any, int]] = []
    for budget in (500,) if quick else (1000, 10_000, 50_000):
        for paired in (True, False):
            problem = synthetic(
                budget=budget, entities=5 * budget, false_values=cleaning.FALSE_VALUES, sc_pdf=Uniform(), paired=paired
            )
            policies = {
                f"{name} {at}" if at else name: epsilon_greedy(at) if at else policy
                for name, policy in cleaning._policies().items()
                for at in ((0.1, 0.5) if name == "epsilon-greedy" else (None,))
            }
            for title, policy in policies.items():
                name = title.partition(" ")[0]
                if paired or name in cleaning.UNPAIRED:
                    runs = (cleaning.RUNS if paired else cleaning.UNPAIRED)[name] * 10_000 // budget
                    row = {"family": "cleaning", "policy": name, "setting": f"budget {budget:,}"}
                    row["setting"] += f", epsilon {title.partition(' ')[2]}" * (" " in title)
                    row["setting"] += ", not paired" * (not paired)
                    found.append((row, problem, policy, min(runs, 65_536)))
    for n in (100,) if quick else (100, 1000, 10_000):
        for name, runs in topk.RUNS.items():
            if n * (name in ("sar", "lucb", "kl-lucb")) < 10_000:
                problem = arms(topk.TIMES * n, Drawn(UniformMeans().quantiles(), n), Bernoulli())
                row = {"family": "topk", "policy": name, "setting": f"n = {n:,}, K = n / 10, Q = {topk.TIMES}n"}
                found.append((row, problem, topk._policy(name, n, n // 10, topk.TIMES * n), runs * 1000 // n))
    return [(*case[:3], min(case[3], 256)) if quick else case for case in found]


def main() -> None:
    """Measure, print a table, write JSON if asked to."""
    given = parser(__doc__).parse_args()
    own_programs()
    # How far a rule is from its limit is not to depend on how many runs are made here.
    jobs.Jobs._effort = lambda self, execution, size: Effort.FULL
    head = facts("limits", given.quick)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    repeats = 2 if given.quick else REPEATS
    head |= ceilings(repeats)
    print(
        f"CPU ns a word {head['word_ns']:.2f}, a byte {head['byte_ns']:.3f}, beyond the cache {head['far_byte_ns']:.3f}"
    )
    rows: list[Row] = []
    for case in cases(given.quick):
        rows.append(measure(*case, head, repeats))
        text = table(rows, COLUMNS).splitlines()
        print("\n".join(text if len(rows) == 1 else text[-1:]), flush=True)
        save(given.out, head, rows)


if __name__ == "__main__":
    main()
