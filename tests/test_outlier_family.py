"""The outlier family from study file to rows: labels, generators and metrics against brute force, and each policy."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxbandit import cli
from jaxbandit.arms.problem import Drawn, Given, given
from jaxbandit.arms.rewards import Bounded
from jaxbandit.errors import BadInput
from jaxbandit.laws import Uniform
from jaxbandit.outliers import family
from jaxbandit.outliers.definitions import outlier_groups
from jaxbandit.outliers.family import FAMILY, METRICS, _fits, _rules, plan
from jaxbandit.outliers.gold import NEVER
from jaxbandit.outliers.problem import PARTS, Instance, OutlierArms, Pull, Sums
from jaxbandit.outliers.truth import Definition, DrawnArms, Judged, Labelled, SyntheticMeans, injected, source
from jaxbandit.random import stream
from jaxbandit.random.trials import UNITS
from jaxbandit.study.results import open_results, rows_of
from jaxbandit.study.run import run
from jaxbandit.study.spec import Study
from jaxbandit.study.summary import identity
from jaxbandit.xla.platforms import traced_for

DEFINITION = Definition("k-sigma", 1.5, False, 2.5, 0.9, "at-least")


RUNS = 40


@jax.jit
def _draws(arms: Any, runs: Any) -> DrawnArms:
    drawn: DrawnArms = jax.vmap(lambda run: arms.draw(stream(3, run)))(runs)
    return drawn


def draws(arms: Any) -> DrawnArms:
    return DrawnArms(*map(np.asarray, _draws(arms, np.arange(RUNS, dtype=np.uint32))))  # type: ignore[arg-type]


def test_a_curve_over_caps_is_one_study(tmp_path: Path) -> None:
    """Records on the way are of the runs of a study with that cap: here of WRR, which makes the same pulls."""
    table = {"kind": "outliers/synthetic", "n": 20, "k": 1.5, "budget": 3_000}
    given = {"runs": 200, "problem": table, "policy": [{"kind": "wrr"}]}
    curve = run(Study.of(given | {"checkpoints": [100, 1_000]}), tmp_path / "curve")
    for cap in (100, 1_000, 3_000):
        alone = run(Study.of(given | {"problem": table | {"budget": cap}}), tmp_path / str(cap))
        mine = {row["metric"]: row["mean"] for row in curve if row["params"]["budget"] == cap}
        assert mine == {row["metric"]: row["mean"] for row in alone}
    with pytest.raises(BadInput, match=r"checkpoints = \[10, 100\]: budgets, at least 20, a pull of each arm"):
        Study.of(given | {"checkpoints": [10, 100]}).configurations()


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("name", ["k-sigma", "robust"])
def test_drawn_arms_are_judged_as_the_definition_says(name: str, two_sided: bool) -> None:
    definition = Definition(name, 1.5, two_sided, 2.5, 0.9, "at-least")
    for n in (7, 8):
        judged = source(Drawn(Uniform().quantiles(), n), definition)
        assert isinstance(judged, Judged)
        drawn = draws(judged)
        levels = [definition.levels(means.tolist()) for means in drawn.means]
        assert np.array_equal(drawn.levels, levels)
        assert 0 < drawn.levels.mean() < 0.5


def test_labels_go_with_their_arms() -> None:
    means = np.array([1, 2, 3, 4, 60, 5]) * (UNITS // 100)
    labelled = source(Given(jax.numpy.asarray(means, "int32")), DEFINITION)
    assert isinstance(labelled, Labelled)
    drawn = draws(labelled)
    assert np.array_equal(drawn.levels == 1, drawn.means == means[4])
    assert len({tuple(row) for row in drawn.rows.tolist()}) > 10


def test_synthetic_means() -> None:
    drawn = draws(source(SyntheticMeans.of(40, 3), DEFINITION))
    high = drawn.means > 0.79 * UNITS
    assert (high.sum(axis=1) == 3).all()
    assert np.array_equal(drawn.levels == 1, high)
    low = drawn.means[~high] / UNITS
    assert low.mean() == pytest.approx(0.3, abs=0.01)
    assert low.std() == pytest.approx(0.075, abs=0.006)
    assert drawn.means[high].mean() / UNITS == pytest.approx(0.9, abs=0.025)
    assert high.sum(axis=0).max() < 12  # no arm's number tells: 3 of 40 runs, with a standard deviation of 1.7


@pytest.mark.parametrize("side", ["upper", "intermediate", "lower"])
@pytest.mark.parametrize("eps", [0.1, 5.0])
def test_injected_groups_are_what_the_definition_finds(side: str, eps: float) -> None:
    n, outlying = 20, 2
    arms = injected(n, eps, outlying, side)
    drawn = draws(arms)
    for means, levels in zip(drawn.means, drawn.levels, strict=True):
        (group,) = outlier_groups([float(mean) for mean in means], eps, 0.9, "at-least")
        assert group == frozenset(np.flatnonzero(levels))
        below = (means < means[levels == 1].min()).sum()
        assert below == {"upper": 18, "intermediate": 9, "lower": 0}[side]
        assert means.max() > UNITS - 4
    same = arms.case(5)
    assert np.array_equal(same.given.means, arms.case(5).given.means)
    assert not np.array_equal(same.given.means, arms.case(6).given.means)


def test_metrics_against_brute_force() -> None:
    """Hand-made answers, as the problem scores them."""
    rng = np.random.default_rng(0)
    of = {metric.name: metric.of for metric in METRICS}
    for number in range(60):
        n = int(rng.integers(3, 9))
        levels = rng.integers(0, 3, n) * (rng.random(n) < 0.4)
        said = rng.random(n) < 0.4 if number % 3 else levels > 0
        pulls = rng.integers(1, 50, n).astype(np.int32)
        scores = np.where(rng.random(n) < 0.2, NEVER, rng.integers(0, 4, n))
        answer = {"outliers": said, "arm_pulls": pulls, "code": 1, **({"scores": scores} if number % 2 else {})}
        drawn = DrawnArms(jnp.zeros(n, jnp.int32), jnp.asarray(levels, jnp.int32), jnp.arange(n, dtype=jnp.int32))
        problem = OutlierArms(jnp.int32(9), source(given([0.5] * n), DEFINITION))
        case = Instance(drawn, stream(0, 0)), {k: jnp.asarray(v) for k, v in answer.items()}
        answers = problem.score(*case)
        assert answers["ranked"] == traced_for("gpu", problem.score)(*case)["ranked"]
        value = {
            name: float(f(None, {k: np.asarray(v)[None] for k, v in answers.items()})[0]) for name, f in of.items()
        }
        truth, found = set(np.flatnonzero(levels)), set(np.flatnonzero(said))
        assert value["correct"] == (truth == found)
        assert value["precision"] == (len(truth & found) / len(found) if found else 1)
        assert value["recall"] == (len(truth & found) / len(truth) if truth else 1)
        assert value["f1"] == pytest.approx(2 * len(truth & found) / (len(truth) + len(found)) if truth or found else 1)
        place = scores if number % 2 else [i not in found for i in range(n)]
        ahead = all(place[i] < place[j] for i in range(n) for j in range(n) if levels[i] > levels[j])
        assert value["ranking"] == ahead
        assert value["outliers"] == len(truth)
        assert value["pulls"] == pulls.sum()
        for share in (0, 10, 25, 50, 75, 90, 100):
            enough = [x for x in sorted(pulls) if (pulls <= x).mean() >= share / 100]
            assert value[f"pulls_{share}"] == enough[0]


POLICIES: list[dict[str, Any]] = [{"kind": name} for name in FAMILY.policies]
OUTLIER = [0.1, 0.15, 0.1, 0.9, 0.2, 0.15, 0.1, 0.15, 0.2, 0.1]
ARMS = {"one outlier": OUTLIER, "equal": [0.3] * 10, "all 0": [0.0] * 10, "all 1": [1.0] * 10}


@pytest.mark.slow
def test_each_policy_from_a_study_to_rows(tmp_path: Path) -> None:
    """Arms without differences end with a code, and every metric is a number."""
    study = Study.of({
        "runs": 20, "problem": {"kind": "outliers/bernoulli", "k": 2.0, "budget": 5000}, "policy": POLICIES,
        "sweep": {"means": [{"list": means} for means in ARMS.values()]},
    })  # fmt: skip
    rows = run(study, tmp_path)
    assert all(row["mean"] is not None for row in rows)
    found = {
        (row["policy"], identity(row["params"]["means"]), row["metric"]): row["mean"] or 0.0 for row in rows
    }  # fmt: skip
    for name in FAMILY.policies:
        value = {
            (kind, metric.name): found[name, identity({"list": means}), metric.name]
            for kind, means in ARMS.items()
            for metric in METRICS
        }
        if name != "nrr":
            assert value["one outlier", "correct"] >= 0.8
            assert name == "ib" or 10 < value["one outlier", "pulls"] < 5000  # the radii of IB are wider
        for kind in ("equal", "all 0", "all 1"):
            assert value[kind, "outliers"] == 0
            assert value[kind, "pulls"] <= 5000
            if name != "nrr":
                assert value[kind, "capped"] == 1
        assert (
            value["one outlier", "pulls_0"] <= value["one outlier", "pulls"] / 10 <= value["one outlier", "pulls_100"]
        )


def test_rewards_between_0_and_1_keep_their_means() -> None:
    means = np.array([0.05, 0.5, 0.9])
    law = Bounded(jnp.float32(2), "beta")
    arms = source(given(means, shuffled=False), DEFINITION)
    problem = OutlierArms(jnp.int32(100), arms, law)
    pull = Sums(jnp.full(3, 32, jnp.int32), jnp.zeros(3, jnp.int32))

    def total(run: Any) -> Any:
        key = stream(5, run)
        instance = problem.draw(key)
        second = jax.vmap(lambda j: problem.pull(key, instance, Pull(jnp.int32(1), j)))(jnp.arange(32))
        return problem.pull(key, instance, pull), jnp.sum(second)

    totals, again = jax.jit(jax.vmap(total))(np.arange(400, dtype=np.uint32))
    assert np.array_equal(totals[:, 1], again)  # one by one they are the same
    totals = np.asarray(totals) / PARTS / 32
    half = 4 * np.sqrt(means * (1 - means) / 3 / 32 / 400)  # Beta(2 m, 2 - 2 m) has the variance m (1 - m) / 3
    assert (np.abs(totals.mean(axis=0) - means) < half).all()
    assert totals.std(axis=0) == pytest.approx(np.sqrt(means * (1 - means) / 3 / 32), rel=0.15)


def test_replayed_rewards_from_a_study_to_rows(tmp_path: Path) -> None:
    table = tmp_path / "rewards.csv"
    records = {arm: [2] * many + [0] * (10 - many) for arm, many in enumerate([1] * 9 + [9])}
    lines = [f"{arm},{reward}" for arm, rewards in records.items() for reward in rewards]
    table.write_text("\n".join(["arm,reward", *lines]))
    problem = {"kind": "outliers/replay", "path": str(table), "reward": "reward", "budget": 100_000, "k": 1.5}
    rows = run(Study.of({"runs": 8, "problem": problem, "policy": [{"kind": "rr"}]}), tmp_path / "out")
    value = {row["metric"]: row["mean"] for row in rows}
    assert value["correct"] == 1
    assert value["outliers"] == 1
    assert value["capped"] == 0
    assert {row["params"]["interval"] for row in rows} == {"bounded"}


def test_a_policys_own_k_stands_beside_that_of_the_problem(tmp_path: Path) -> None:
    """Where a study sweeps the problem's: neither hides the other, in rows that are made or stored."""
    given = {
        "runs": 2, "problem": {"kind": "outliers/synthetic", "n": 12, "budget": 1000}, "sweep": {"k": [2.0, 2.5]},
        "policy": [{"kind": "nrr", "k": [1.5, 2.0]}, {"kind": "nrr"}],
    }  # fmt: skip
    study = Study.of(given)
    rows = run(study, tmp_path)
    found = [(row["params"]["k"], row["params"].get("policy.k")) for row in rows if row["metric"] == "correct"]
    assert found == [(problem, own) for problem in (2.0, 2.5) for own in (1.5, 2.0, None)]
    assert study.swept == ["k", "policy.k"]
    stored = [(row["params"]["k"], row["params"].get("policy.k")) for row in rows_of(open_results(tmp_path))
              if row["metric"] == "correct"]  # fmt: skip
    assert sorted(stored, key=str) == sorted(found, key=str)


def test_the_rho_of_a_rule_is_not_that_of_the_problem() -> None:
    """WRR's, which is made of the other parameters, has its own place where the definition's is swept."""
    given = {
        "runs": 2,
        "problem": {"kind": "outliers/injected", "n": 20},
        "sweep": {"rho": [0.8, 0.9]},
        "policy": [{"kind": "wrr"}],
    }
    params = [each.params for each in Study.of(given).configurations()]
    assert [each["rho"] for each in params] == [0.8, 0.9]
    assert all(each["policy.rho"] not in (0.8, 0.9) for each in params)


def test_a_mean_of_equal_rewards_is_no_reward_off_the_scale(tmp_path: Path) -> None:
    table = tmp_path / "rewards.csv"
    table.write_text("arm,reward\n" + "low,0.1\n" * 6 + "high,0.7\n" * 13 + "between,0.3\n")
    assert np.mean([0.1] * 6) < 0.1  # rounded, as is the sum
    problem = {"kind": "outliers/replay", "path": str(table), "reward": "reward", "budget": 100}
    (each,) = Study.of({"runs": 2, "problem": problem, "policy": [{"kind": "rr"}]}).configurations()
    assert np.sort(each.problem.source.given.means).tolist() == [0, 5592405, 2**24]


def refusal(problem: Mapping[str, Any], policy: Mapping[str, Any]) -> str:
    with pytest.raises(BadInput) as caught:
        Study.of({"runs": 2, "problem": problem, "policy": [policy]}).configurations()
    assert "\n" not in str(caught.value)
    return str(caught.value)


SYNTHETIC = {"kind": "outliers/synthetic", "n": 20}
LIST = {"kind": "outliers/bernoulli", "means": {"list": OUTLIER}}
INJECTED = {"kind": "outliers/injected", "n": 20}
WORDS = {"kind": "outliers/bounded", "means": {"list": OUTLIER}, "budget": 1000}


@pytest.mark.parametrize(
    ("problem", "policy", "line"),
    [
        ({**SYNTHETIC, "n": 2}, {}, "problem.n = 2: a whole number from 3 to 4096"),
        ({"kind": "outliers/bernoulli", "n": 2}, {}, "problem.n = 2: 3 to 4096 arms"),
        ({**LIST, "means": {"list": [0.1, 0.9]}}, {}, "problem.n = 2: 3 to 4096 arms"),
        ({**LIST, "means": {"list": [0.1, 0.9, 1.5]}}, {}, "problem.means[2] = 1.5: a mean from 0 to 1"),
        ({**SYNTHETIC, "k": 0}, {}, "problem.k = 0: a number above 0, below 1000"),
        ({**SYNTHETIC, "outlying": 20}, {}, "problem.outlying = 20: fewer than 20, the number of arms"),
        ({**SYNTHETIC, "budget": -1}, {}, "problem.budget = -1: a whole number from 0"),
        ({**SYNTHETIC, "budget": 19}, {}, "problem.budget = 19: at least 20, a pull of each arm"),
        ({**INJECTED, "eps": 0.06}, {}, "problem.eps = 0.06: a number above 0.0644945, below 50"),
        ({**INJECTED, "rho": 0.5}, {}, "problem.rho = 0.5: a number above 0.5, below 1"),
        ({**INJECTED, "rho": 1}, {}, "problem.rho = 1: a number above 0.5, below 1"),
        ({**INJECTED, "rho": 0.99}, {}, "problem.rho = 0.99: such that at least one of 20 arms is an outlier"),
        ({**INJECTED, "n": 10, "rho": 0.6, "side": "intermediate"}, {}, "problem.n = 10: enough for more than"),
        ({**LIST, "definition": "odd"}, {}, "problem.definition = odd: one of k-sigma, robust, groups"),
        (
            {"kind": "outliers/bernoulli", "n": 9, "definition": "groups"},
            {},
            "problem.definition = groups: k-sigma or robust where a law draws the means",
        ),
        ({**WORDS, "budget": 10**8}, {}, "problem.budget = 100000000: at most 16777215 where rewards are not 0 or 1"),
        (SYNTHETIC, {"delta": 0}, "policy.rr.delta = 0: a number at least 1e-30, below 1"),
        (SYNTHETIC, {"delta": 1}, "policy.rr.delta = 1: a number at least 1e-30, below 1"),
        (SYNTHETIC, {"k": -1}, "policy.rr.k = -1: a number above 0, below 1000"),
        (SYNTHETIC, {"interval": "wald"}, "policy.rr.interval = wald: one of bounded, bernoulli, bernoulli-corrected"),
        (WORDS, {"interval": "bernoulli"}, "policy.rr.interval = bernoulli: bounded, as not all rewards are 0 or 1"),
        (SYNTHETIC, {"kind": "wrr", "rho": 0.9}, "policy.wrr.rho = 0.9: a number at least 1, below 1e+06"),
        (SYNTHETIC, {"kind": "gold", "eps": 0.06}, "policy.gold.eps = 0.06: a number above 0.0644945, below 50"),
        (SYNTHETIC, {"kind": "gold", "rho": 0.4}, "policy.gold.rho = 0.4: a number above 0.5, below 1"),
        (
            SYNTHETIC,
            {"kind": "gold", "rho": 0.96},
            "policy.gold.rho = 0.96: such that (1 - rho) n is at least 1, for 20",
        ),
        (
            {**SYNTHETIC, "n": 10},
            {"kind": "gold", "size": "below", "rho": 0.9},
            'policy.gold.rho = 0.9: such that (1 - rho) n is above 1 where size = "below", for 10 arms',
        ),
        (WORDS, {"kind": "gold"}, "policy.kind = gold: a rule for rewards other than 0 and 1: rr or nrr"),
        (WORDS, {"kind": "wrr"}, "policy.kind = wrr: a rule for rewards other than 0 and 1: rr or nrr"),
        (SYNTHETIC, {"kind": "nrr", "interval": "bounded"}, "policy.nrr.interval = bounded: no such key"),
        (
            {**LIST, "two_sided": True},
            {"kind": "ib"},
            "policy.kind = ib: a rule that looks for outliers below, too: rr, wrr or nrr",
        ),
    ],
)
def test_bad_input(problem: Mapping[str, Any], policy: Mapping[str, Any], line: str) -> None:
    assert refusal(problem, {"kind": "rr", **policy}).startswith(line)


def test_bad_input_at_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "study.toml"
    study.write_text('runs = 2\n[problem]\nkind = "outliers/synthetic"\nn = 2\n[[policy]]\nkind = "rr"\n')
    assert cli.main(["run", str(study), "--out", str(tmp_path / "out")]) == 2
    out, said = capsys.readouterr()
    assert (out, said.count("\n")) == ("", 1)
    assert not (tmp_path / "out").exists()


def test_a_planning_table() -> None:
    problem = {"kind": "outliers/bernoulli", "means": {"list": OUTLIER}, "k": 2.0, "budget": 5000}
    rules = [{"kind": "rr", "interval": "bernoulli-corrected"}]
    few = {row["metric"]: row for row in plan(problem, runs=20, rules=rules)}["pulls_of_19_in_20"]
    assert (few["ci_low"], few["ci_high"]) == (None, None)  # 20 runs do not reach beyond it
    found = {row["metric"]: row for row in plan(problem, runs=200, rules=rules)}
    pulls, late = found["pulls"], found["pulls_of_19_in_20"]
    assert pulls["ci_low"] < pulls["mean"] < pulls["ci_high"]
    assert pulls["mean"] <= late["mean"] <= late["ci_high"] <= 5000
    assert found["correct"]["mean"] >= 0.8
    assert found["correct"]["ci_low"] > 0.5
    assert "bound" not in found  # there is a theorem for the bounded interval alone
    proved = [{"kind": "rr", "interval": "bounded"}]
    for change, theorem in (({}, True), ({"two_sided": True}, False), ({"definition": "robust"}, False)):
        rows = plan(problem | {"budget": 50} | change, runs=2, rules=proved)
        assert ("bound" in {row["metric"] for row in rows}) == theorem
    with pytest.raises(BadInput, match=r"rules\.kind = best: one of rr, wrr"):
        plan(problem, rules=[{"kind": "best"}])
    with pytest.raises(BadInput, match="runs = 1: a whole number from 2"):
        plan(problem, runs=1)
    with pytest.raises(BadInput, match=r"problem\.kind = outliers/odd: one of outliers/synthetic"):
        plan({"kind": "outliers/odd"})


def test_tune_says_what_took_long_when_it_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line a policy, and none where the table comes soon anyway."""
    monkeypatch.setattr("jaxbandit.cli.tune._LONG", 0.0)
    (kind,) = (kind for kind in family.POLICIES if kind.name == "nrr")
    monkeypatch.setattr(family, "_rules", lambda: iter([(kind, {}), (kind, {"delta": 0.01})]))
    study = tmp_path / "study.toml"
    study.write_text(
        'runs = 1\n[problem]\nkind = "outliers/synthetic"\nn = 6\nbudget = 1000\n[[policy]]\nkind = "nrr"\n'
    )
    assert cli.main(["tune", str(study), "--out", str(tmp_path / "plan")]) == 0
    table, said = capsys.readouterr()
    rows = json.loads((tmp_path / "plan" / "summary.json").read_text())
    assert [row["metric"] for row in rows] == ["pulls", "pulls_of_19_in_20", "correct", "capped"] * 2
    assert rows[0]["mean"] < rows[4]["mean"]  # a hundred pulls without a change, and not ten
    *lines, last = [line for line in said.splitlines() if "problems;" not in line]
    for line, number, delta in zip(lines, (0, 4), ("", "delta 0.01, "), strict=True):
        shown = f"nrr (n 6, budget 1000, {delta}k 2.5): pulls {rows[number]['mean']:.6g}, after "
        assert line.startswith(f"jaxbandit: {shown}")
    assert last == f"jaxbandit: results in {tmp_path / 'plan'}"
    monkeypatch.setattr("jaxbandit.cli.tune._LONG", 60.0)
    assert cli.main(["tune", str(study)]) == 0
    again = capsys.readouterr()
    assert again.out == table
    assert "nrr (" not in again.err
    assert "pulls_of_19_in_20" in table


def test_rules_that_are_planned() -> None:
    arms = {"n": 12, "budget": 100}
    words = {**WORDS, "budget": 100}
    for problem, fitting in (({"kind": "outliers/synthetic", **arms}, True), (words, False)):
        (setting,) = (
            setting for setting, _ in Study.of({"runs": 1, "problem": problem, "policy": POLICIES[:1]}).settings()
        )
        chosen = [(kind.name, given.get("interval")) for kind, given in _rules() if _fits(setting, kind, given)]
        assert ("rr", "bounded") in chosen
        assert (("rr", "bernoulli-corrected") in chosen) == fitting
        assert (("gold", "bounded") in chosen) == fitting


@pytest.mark.parametrize(("definition", "two_sided"), [("k-sigma", False), ("k-sigma", True), ("robust", True)])
def test_rules_look_for_what_the_definition_asks(definition: str, two_sided: bool) -> None:
    problem = {**SYNTHETIC, "definition": definition, "two_sided": two_sided}
    rules = [{"kind": name} for name in ("rr", "wrr", "nrr", "ib") if name != "ib" or not two_sided]
    for configuration in Study.of({"runs": 1, "problem": problem, "policy": rules}).configurations():
        of = configuration.policy.interval  # type: ignore[attr-defined]
        assert of.sides == ("both" if two_sided else "above")
        assert of.rule == definition
