"""What tuning shows of the papers' rules, how fast it is, and what halving saves.

    python -m benchmarks.tuning [--only a b c rate halving] [--data FOLDER] [--out FILE.json] [--quick]

a: EE by Lemma 3's (t, q) and by the exact Gamma's, against the best (t, q) of ``jaxbandit tune``, on four sc-pdfs and
three distributions of false values. b: epsilon-greedy at many epsilons, and EE, over budgets. c: beta of OptMAI over K
and Q, on three laws of means and on crowd workers. What is compared is chosen on one set of runs and measured on
others; runs of one number are paired, intervals are normal ones of 95 %.

rate: 1,000 configurations of EE x 1,000 runs at a budget of 10,000 in one call, beside ten of these configurations that
are simulated by themselves, in CPU time of one process; programs are compiled before. halving: runs that ``search =
"halving"`` spends with its verdict, on four problems, over those of the full grid: as many runs of each candidate as
the last one got before the verdict. Of the judge's grid, whose worse candidates are dropped early, they are said too.

``--data``: the folder with rte/workers.csv (correct, answered), flights/claims.csv and batting/career.csv (hits,
at_bats). Without it, what needs them is left out.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import jaxbandit
from benchmarks.common import Row, facts, parser, save, table
from jaxbandit.cleaning.stopping import DELTA
from jaxbandit.study.spec import Study

FRESH = 1 << 30
"""The number of the first run on which what was chosen is measured: tuning uses those from 0 and from 2^31 on."""
SC_PDFS: Mapping[str, Any] = {
    "uniform": "uniform", "Beta(2, 5)": {"beta": [2, 5]}, "Beta(5, 2)": {"beta": [5, 2]},
    "Beta(0.5, 0.5)": {"beta": [0.5, 0.5]},
}  # fmt: skip
FALSE_VALUES: Mapping[str, Any] = {
    "0 to 19": {"uniform": [0, 19]}, "always 5": {"constant": 5},
    "1/r to 19": {"weights": [0, *(1 / r for r in range(1, 20))]},
}  # fmt: skip
EPSILONS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8)
BETAS = (0.76, 0.78, 0.8, 0.82, 0.84, 0.86, 0.88, 0.9, 0.92, 0.94, 0.96, 0.98)
MEANS: Mapping[str, Any] = {
    "uniform": "uniform", "normal(0.5, 0.04)": {"normal": {"mean": 0.5, "variance": 0.04}},
    "Beta(2, 2)": {"beta": [2, 2]},
}  # fmt: skip


def values(study: Mapping[str, Any], metric: str, runs: int, first_run: int) -> dict[str, np.ndarray]:
    """The metric of each policy of a study by its label: float64 of shape (runs,)."""
    found = Study.of(study, counted=False).configurations()
    answers = jaxbandit.simulate(
        [each.problem for each in found], [each.policy for each in found], runs=runs, first_run=first_run,
        progress=False,
    )  # fmt: skip
    (own,) = [each for each in found[0].family.metrics if each.name == metric]
    return {
        each.label: own.of(each.setting, {name: rows[number] for name, rows in answers.items()})
        for number, each in enumerate(found)
    }


def interval(runs: np.ndarray) -> tuple[float, float]:
    """The mean of some runs and half of its 95 % interval."""
    return float(runs.mean()), float(1.96 * runs.std(ddof=1) / np.sqrt(runs.size))


def formulas(given: Any, quick: bool) -> Iterator[Row]:
    """Study a."""
    for law, sc_pdf in SC_PDFS.items():
        for name, weights in FALSE_VALUES.items():
            problem = {"kind": "cleaning/synthetic", "budget": 10_000, "sc_pdf": sc_pdf, "false_values": weights}
            grid = {"t": list(range(1, 5 if quick else 15)), "q": [number / 20 for number in range(1, 21)]}
            study = {"problem": problem, "policy": [{"kind": "ee", **grid}]}
            found = jaxbandit.tune(
                study, metric="effectiveness", within=0.002, candidates=4096, most_runs=40_000 if quick else 10**6,
                progress=False,
            )  # fmt: skip
            ((setting, _),) = Study.of(study, counted=False).settings()
            tuned = {each: setting.tuned(each, DELTA, True) for each in ("lemma3", "exact")}
            chosen = {each: {"t": t, "q": q} for each, (t, _, q, _) in tuned.items()}
            chosen["best"] = {name: found.verdict["chosen"]["params"][name] for name in "tq"}
            row: Row = {"sc_pdf": law, "false_values": name, "verdict": found.verdict["verdict"]}
            own = {
                each: next(iter(values({"problem": problem, "policy": [{"kind": "ee", **tq}]}, "effectiveness",
                                       500 if quick else 8_000, FRESH).values()))
                for each, tq in chosen.items()
            }  # fmt: skip
            for each, runs in own.items():
                row |= {f"{each}_{name}": value for name, value in chosen[each].items()}
                row[each], row[f"{each}_half"] = interval(runs)
                row[f"{each}_loss"], row[f"{each}_loss_half"] = interval(own["best"] - runs)
            yield row


def epsilons(given: Any, quick: bool) -> Iterator[Row]:
    """Study b."""
    for budget in (300, 1_000) if quick else (300, 1_000, 3_000, 10_000, 30_000):
        problem = {"kind": "cleaning/synthetic", "budget": budget}
        greedy = {"problem": problem, "policy": [{"kind": "epsilon-greedy", "epsilon": list(EPSILONS)}]}
        count = 200 if quick else max(100, 1_500_000 // budget)
        found = values(greedy, "effectiveness", count, 0)
        best = EPSILONS[int(np.argmax([own.mean() for own in found.values()]))]
        rules = [
            {"kind": "epsilon-greedy", "epsilon": sorted({best, 0.1, 0.3, 0.5})}, {"kind": "ee", "tuning": "lemma3"},
            {"kind": "ee", "tuning": "exact"},
        ]  # fmt: skip
        fresh = values({"problem": problem, "policy": rules}, "effectiveness", count, FRESH)
        of_best = fresh[f"epsilon-greedy epsilon={best}"]
        row: Row = {"budget": budget, "runs": count, "best": best}
        row["best_value"], row["best_half"] = interval(of_best)
        for name, label in (
            *((str(epsilon), f"epsilon-greedy epsilon={epsilon}") for epsilon in (0.1, 0.3, 0.5)),
            ("lemma3", "ee tuning=lemma3"), ("exact", "ee tuning=exact"),
        ):  # fmt: skip
            row[name], row[f"{name}_half"] = interval(fresh[label] - of_best)
        row["means"] = {str(epsilon): own.mean() for epsilon, own in zip(EPSILONS, found.values(), strict=True)}
        yield row


def betas(given: Any, quick: bool) -> Iterator[Row]:
    """Study c. ``gain``: how much less regret the best beta has than 0.8, the default."""
    laws = {law: {"n": 200, "means": means} for law, means in MEANS.items()}
    if given.data is not None:
        path = str(given.data / "rte" / "workers.csv")
        keys = {"path": path, "successes": "correct", "trials": "answered"}
        laws["crowd workers"] = {"means": {"table": keys}}
    runs = 200 if quick else 1_000
    for law, means in laws.items():
        arms = means.get("n", 164)
        for times in (10, 50):
            for wanted in (5, 20, 50, 100):
                problem = {"kind": "topk/bernoulli", **means, "K": wanted, "budget": times * arms}
                study = {"problem": problem, "policy": [{"kind": "optmai", "beta": list(BETAS)}]}
                found = list(values(study, "regret", runs, 0).values())
                best = int(np.argmin([own.mean() for own in found]))
                fresh = list(values(study, "regret", runs, FRESH).values())
                row: Row = {"means": law, "n": arms, "Q": times * arms, "K": wanted, "best": BETAS[best]}
                row["regret"], row["half"] = interval(fresh[best])
                for beta in (0.8, 0.9, 0.98):
                    row[str(beta)], row[f"{beta}_half"] = interval(fresh[BETAS.index(beta)] - fresh[best])
                yield row


def rate(given: Any, quick: bool) -> Iterator[Row]:
    """How fast many configurations are in one call."""
    from jaxbandit import cleaning

    problem = cleaning.synthetic(
        budget=10_000, entities=50_000, false_values=cleaning.uniform_false_values(0, 19), sc_pdf=cleaning.Uniform()
    )
    count = 100 if quick else 1_000
    rules = [cleaning.ee(1 + number % 10, (1 + number // 10) / 100) for number in range(count)]

    def seconds(chosen: Any, runs: int) -> float:
        began = time.process_time()
        jaxbandit.simulate(problem, chosen, runs=runs, progress=False)
        return time.process_time() - began

    some = rules[:: count // 10]
    first = seconds(rules, 10), seconds(some[0], count // 10 * count)  # compiled
    batch = seconds(rules, count)
    plain = sum(seconds(each, count // 10 * count) for each in some)
    yield {
        "configurations": count, "runs": count, "first_call": first[0], "batch": batch / count**2 * 1e6,
        "plain": plain / count**2 * 1e6, "share": plain / batch,
    }  # fmt: skip


def halving(given: Any, quick: bool) -> Iterator[Row]:
    """Runs of halving with its verdict over those of the full grid."""
    problems: dict[str, tuple[dict[str, Any], str, str, float]] = {
        "the paper's entities": ({"kind": "cleaning/synthetic", "budget": 2_000}, "ee", "effectiveness", 0.002)
    }
    if given.data is not None:
        flights = {
            "kind": "cleaning/table", "budget": 400, "path": str(given.data / "flights" / "claims.csv"),
            "entity": "flight", "value": ["sched_dep_time", "act_dep_time", "sched_arr_time", "act_arr_time"],
        }  # fmt: skip
        problems["flights"] = (flights, "ee", "share", 0.002)
        for name, path, successes, trials in (
            ("crowd workers", "rte/workers.csv", "correct", "answered"),
            ("batters", "batting/career.csv", "hits", "at_bats"),
        ):
            table = {"path": str(given.data / path), "successes": successes, "trials": trials}
            arms = {"kind": "topk/bernoulli", "means": {"table": table}, "K": 20}
            budget = 3_280 if name == "crowd workers" else 38_340
            problems[name] = ({**arms, "budget": budget}, "optmai", "regret", 0.02)
    for name, (problem, kind, metric, within) in problems.items():
        if given.problems and name not in given.problems:
            continue
        spent: dict[str, list[dict[str, Any]]] = {"grid": [], "halving": []}
        for search, repetitions in (("grid", 1 if quick else 2), ("halving", 2 if quick else 50)):
            for seed in range(repetitions):
                found = jaxbandit.tune(
                    {"problem": problem, "policy": [{"kind": kind}], "seed": seed}, metric=metric, within=within,
                    search=search, relative=True, candidates=32 if quick else 256,
                    most_runs=20_000 if quick else 1_000_000, progress=False,
                )  # fmt: skip
                spent[search].append({**found.verdict, "most": int(found.data.runs.max())})
                print(name, search, seed, found.verdict["verdict"], found.verdict["runs"], file=sys.stderr)
        row: Row = {"problem": name, "metric": metric, "within": within}
        for search, verdicts in spent.items():
            row[search] = float(np.mean([each["runs"] for each in verdicts]))
            row[f"{search}_mean"] = float(np.mean([each["mean"] for each in verdicts]))
            row[f"{search}_median"] = float(np.median([each["runs"] for each in verdicts]))
            row[f"{search}_repetitions"] = len(verdicts)
            row[f"{search}_undecided"] = sum(each["verdict"] == "undecided" for each in verdicts)
        row["full"] = float(np.mean([each["candidates"] * each["most"] for each in spent["grid"]]))
        yield {**row, "share": row["halving"] / row["full"]}


def _losses(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    return {key: (key, ".4f") for name in names for key in (name, f"{name}_half")}


PARTS: Mapping[str, tuple[Callable[[Any, bool], Iterator[Row]], dict[str, tuple[str, str]]]] = {
    "a": (formulas, {
        "sc_pdf": ("sc-pdf", ""), "false_values": ("r", ""), "verdict": ("verdict", ""),
        **{f"{name}_{each}": (f"{name} {each}", ".3g") for name in ("lemma3", "exact", "best") for each in "tq"},
        **_losses(["best", "lemma3_loss", "exact_loss"]),
    }),
    "b": (epsilons, {
        "budget": ("budget", ","), "runs": ("runs", ","), "best": ("best", ".2f"),
        "best_value": ("effectiveness", ".4f"), "best_half": ("half", ".4f"),
        **_losses(["0.1", "0.3", "0.5", "lemma3", "exact"]),
    }),
    "c": (betas, {
        "means": ("means", ""), "n": ("n", ""), "Q": ("Q", ","), "K": ("K", ""), "best": ("best", ".2f"),
        "regret": ("regret", ".4f"), "half": ("half", ".4f"), **_losses(["0.8", "0.9", "0.98"]),
    }),
    "rate": (rate, {
        "configurations": ("configurations", ","), "runs": ("runs", ","), "first_call": ("first call (CPU s)", ".0f"),
        "batch": ("us a run", ".1f"), "plain": ("us a run, alone", ".1f"), "share": ("share", ".2f"),
    }),
    "halving": (halving, {
        "problem": ("problem", ""), "metric": ("metric", ""), "within": ("within", ""),
        "full": ("runs of the full grid", ",.0f"),
        "grid": ("of the judge's", ",.0f"),
        "halving": ("of halving", ",.0f"), "halving_median": ("median", ",.0f"), "share": ("share", ".4f"),
        "grid_mean": ("mean", ".5f"),
        "halving_mean": ("of halving", ".5f"), "halving_repetitions": ("repetitions", ""),
        "halving_undecided": ("undecided", ""),
    }),
}  # fmt: skip


def kept(out: Path | None, parts: Sequence[str], problems: Sequence[str]) -> list[Row]:
    """The rows of the other parts, and of the other problems, from an earlier call."""
    if out is None or not out.exists():
        return []
    rows = json.loads(out.read_text())["rows"]
    return [row for row in rows if row["part"] not in parts or (problems and row["problem"] not in problems)]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    options.add_argument(
        "--data", type=Path, metavar="FOLDER", help="with rte/workers.csv, flights/claims.csv and batting/career.csv"
    )
    options.add_argument("--problems", nargs="+", metavar="NAME", help="of halving: these; others are kept")
    given = options.parse_args()
    if given.problems and given.only != ["halving"]:
        options.error("--problems goes with --only halving")
    given.data = given.data and given.data.resolve()
    head, rows = facts("tuning", given.quick), kept(given.out, given.only, given.problems or [])
    for name in given.only:
        measure, columns = PARTS[name]
        began, own = time.process_time(), []
        for row in measure(given, given.quick):
            own.append({"part": name, **row})
            print(".", end="", flush=True)
        spent = time.process_time() - began
        print(f"\n{name}, in {spent:.0f} CPU-seconds\n{table(own, columns)}\n", flush=True)
        rows += own
        save(given.out, head, rows)


if __name__ == "__main__":
    main()
