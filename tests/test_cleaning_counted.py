"""Policies that count exchangeable entities have the laws of those that hold them, on problems that are not paired."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from scipy import special, stats

from jaxbandit import cleaning
from jaxbandit import jobs as jobs_module
from jaxbandit.cleaning.family import POLICIES, PROBLEMS, Setting
from jaxbandit.cleaning.fast import ticks as ticked
from jaxbandit.cleaning.fast.epsilon_greedy import EpsilonGreedyByParts
from jaxbandit.cleaning.fast.epsilon_greedy_counted import CountedEpsilonGreedy
from jaxbandit.cleaning.fast.exchangeable import (
    LENGTHS,
    UNKNOWN,
    VISITS,
    Alias,
    alias,
    moments,
    tables_for,
    unpack,
    width,
)
from jaxbandit.cleaning.fast.greedy_counted import CountedGreedy
from jaxbandit.cleaning.fast.one_by_one import NOTHING
from jaxbandit.cleaning.fast.random_counted import CountedRandom
from jaxbandit.cleaning.fast.ticks import Ticked
from jaxbandit.cleaning.problem import Synthetic, of_table, synthetic, uniform_false_values
from jaxbandit.engine import simulate
from jaxbandit.errors import BadInput
from jaxbandit.grammar import accelerated
from jaxbandit.laws import Beta, Histogram, Law, Normal, Uniform
from jaxbandit.random import stream
from jaxbandit.registry import parse
from tests.test_cleaning_policies import agrees, built, chances
from tests.test_engine import same

COUNTING = ["greedy", "random", "epsilon-greedy"]
RUNS = 50_000
UNIFORM = Beta(1, 1)
"""Which is compiled for once with other laws that are tabulated."""

pytestmark = pytest.mark.usefixtures("level_1")


@pytest.fixture
def many_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Even few ticks are drawn many at once."""
    monkeypatch.setattr(ticked, "_LEAST", 1)
    jobs_module.chunk_function.cache_clear()
    yield
    jobs_module.chunk_function.cache_clear()


def unpaired(**changes: Any) -> Setting:
    given = {"budget": 300, "entities": 200, "weights": uniform_false_values(0, 5), "sc_pdf": UNIFORM} | changes
    return Setting(**given, paired=False)


def counting(kind: Any, setting: Setting, epsilon: float = 0.5) -> Any:
    """The implementation that counts, for a problem of any size; ``accelerated`` takes it where that is fast."""
    problem = setting.problem()
    assert isinstance(problem, Synthetic)
    if kind.name == "random":
        return CountedRandom()
    if kind.name == "greedy":
        return CountedGreedy(problem.capacity)
    most = int(np.flatnonzero(setting.weights).max())
    return CountedEpsilonGreedy(jnp.float32(epsilon), problem.capacity, width(most))


def quick(kind: Any, setting: Setting) -> Any:
    """What runs on the problem."""
    return accelerated(built(kind, setting), setting.problem())


EPSILON = next(kind for kind in POLICIES if kind.name == "epsilon-greedy")


@pytest.fixture(params=COUNTING)
def kind(request: pytest.FixtureRequest) -> Any:
    return next(kind for kind in POLICIES if kind.name == request.param)


def law(
    name: str, entities: int, weights: list[float], pdf: Beta, budget: int, epsilon: float = 0.5
) -> dict[tuple[int, int, int], float]:
    """The distribution of (cleans, removed, finished), by all ways a run can take; p and r are integrated out."""
    states = {((0, 0, 1),) * entities: 1.0}
    ended: dict[tuple[int, int, int], float] = {}
    for step in range(budget + 1):
        following: dict[Any, float] = {}
        for records, mass in states.items():
            if step == budget or not any(left for _, _, left in records):
                tried, gained, left = map(sum, zip(*records, strict=True))
                key = (tried, gained, entities - left)
                ended[key] = ended.get(key, 0) + mass
                continue
            for entity, chance in enumerate(chances(name, list(records), epsilon)):
                tried, gained, left = records[entity]
                if not chance:
                    continue
                success = (pdf.alpha + gained) / (pdf.alpha + pdf.beta + tried)
                last = weights[gained + 1] / sum(weights[gained + 1 :])
                for record, part in (
                    ((tried + 1, gained, 1), 1 - success),
                    ((tried + 1, gained + 1, 1), success * (1 - last)),
                    ((tried + 1, gained + 1, 0), success * last),
                ):
                    if part > 0:
                        after = tuple(sorted((*records[:entity], record, *records[entity + 1 :])))
                        following[after] = following.get(after, 0) + mass * chance * part
        states = following
    return ended


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entities", "weights", "pdf", "budget"),
    [
        (4, [0, 1, 2, 0, 0, 1], UNIFORM, 6),
        (3, [0, 2, 0, 3, 0, 1], Beta(2, 5), 8),
        (2, [0, 5, 2, 1, 0, 1], Beta(3, 1), 14),  # all is clean in most runs
    ],
)
@pytest.mark.usefixtures("many_at_once", "fast_programs")
def test_small_runs_have_the_exact_law(kind: Any, entities: int, weights: list[float], pdf: Beta, budget: int) -> None:
    setting = unpaired(budget=budget, entities=entities, weights=np.array(weights, float), sc_pdf=pdf)
    # Up to 15 operations may be made on a counts of any size.
    answers = simulate(setting.problem(), counting(kind, setting), runs=RUNS, seed=21)
    agrees(answers, law(kind.name, entities, weights, pdf, budget))


@pytest.mark.parametrize("epsilon", [0, 0.1, 0.9, 1])
def test_small_runs_have_the_exact_law_at_any_epsilon(epsilon: float) -> None:
    """Ties between entities that failed once and those that failed more often among it."""
    weights, pdf = [0.0, 2, 0, 3, 0, 1], Beta(2, 5)
    for entities, budget in ((3, 8), (2, 14)):
        setting = unpaired(budget=budget, entities=entities, weights=np.array(weights), sc_pdf=pdf)
        policy = counting(EPSILON, setting, epsilon)
        answers = simulate(setting.problem(), policy, runs=RUNS, seed=22)
        agrees(answers, law("epsilon-greedy", entities, weights, pdf, budget, epsilon))


@pytest.mark.usefixtures("fast_programs")
@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0, 0.1, 1])
def test_the_law_at_any_epsilon_is_that_of_the_policy_that_holds_entities(epsilon: float) -> None:
    setting = unpaired()
    counted = simulate(setting.problem(), counting(EPSILON, setting, epsilon), runs=8000, seed=31)
    held = replace(setting, paired=True).problem()
    one_by_one = simulate(held, cleaning.epsilon_greedy(epsilon), runs=4000, seed=32)
    close(counted, one_by_one)


def close(counted: dict[str, np.ndarray], one_by_one: dict[str, np.ndarray]) -> None:
    """Means within 4 standard errors of their difference."""
    for answer in ("removed", "finished", "cleans"):
        a, b = (answers[answer][0].astype(float) for answers in (counted, one_by_one))
        assert abs(a.mean() - b.mean()) <= 4 * np.sqrt(a.var() / a.size + b.var() / b.size), answer
        assert answer != "removed" or abs(np.log(a.std() / b.std())) < 0.1


@pytest.mark.usefixtures("fast_programs")
@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"entities": 4000, "budget": 1000},
        {"sc_pdf": Normal(variance=0.3)},
        {"sc_pdf": Beta(1, 6)},
        {"entities": 30, "budget": 800, "weights": uniform_false_values(5, 5), "sc_pdf": Histogram((3, 0, 1))},
    ],
)
def test_the_law_is_that_of_policies_that_hold_entities(kind: Any, changes: dict[str, Any]) -> None:
    setting = unpaired(**changes)
    if kind.name == "random":
        setting = replace(setting, entities=4 * setting.budget)
    held = replace(setting, paired=True)
    assert type(quick(kind, held)) is not type(counting(kind, setting))
    counted = simulate(setting.problem(), counting(kind, setting), runs=RUNS, seed=31)
    one_by_one = simulate(held.problem(), built(kind, held), runs=4000, seed=32)
    close(counted, one_by_one)


@pytest.mark.slow
def test_lanes_and_cuts_change_nothing(kind: Any) -> None:
    setting = unpaired(budget=290, entities=700)
    problem, policy = setting.problem(), counting(kind, setting)
    whole = simulate(problem, policy, runs=60, seed=5)
    assert len(np.unique(whole["removed"])) > 5
    parts = [simulate(problem, policy, runs=20, seed=5, first_run=first, lanes=7) for first in (0, 20, 40)]
    assert same(whole, {name: np.concatenate([part[name] for part in parts], axis=1) for name in whole})
    assert not same(whole, simulate(problem, policy, runs=60, seed=6))


_SCRIPT = """
import sys, jax, numpy as np
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_enable_x64", True)
from jaxbandit import simulate
from tests.test_cleaning_counted import COUNTING, POLICIES, counting, unpaired
setting = unpaired(budget=290, entities=700)
for kind in (kind for kind in POLICIES if kind.name in COUNTING):
    np.savez(f"{sys.argv[1]}/{kind.name}.npz", **simulate(setting.problem(), counting(kind, setting), runs=60, seed=5))
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The answers on two devices under x64."""
    folder = tmp_path_factory.mktemp("elsewhere")
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", _SCRIPT, str(folder)], env=environment, check=True, timeout=600)
    return folder


@pytest.mark.slow
def test_devices_and_x64_change_nothing(kind: Any, elsewhere: Path) -> None:
    setting = unpaired(budget=290, entities=700)
    here = simulate(setting.problem(), counting(kind, setting), runs=60, seed=5)
    assert same(here, dict(np.load(elsewhere / f"{kind.name}.npz")))


@pytest.mark.smoke
def test_a_pull_of_count_0_changes_nothing(kind: Any) -> None:
    """Neither where the run is over nor where the problem says to ask again."""
    setting = unpaired(budget=290, entities=700)
    problem, policy, key = setting.problem(), counting(kind, setting), stream(3, 5)
    instance = problem.draw(key)
    view, zero = problem.view(key, instance), jnp.int32(0)

    def step(state: Any, _: None) -> tuple[Any, Array]:
        pull = policy.ask(view, state)
        outcome = problem.pull(key, instance, pull)
        none = outcome._replace(cleans=zero)
        if kind.name == "greedy":
            none = none._replace(visits=(zero,) * VISITS)
        elif kind.name == "random":
            none = Ticked(state.counts, *[zero] * 3)
        else:
            none = none._replace(counts=state.counts, removed=zero, new=zero, following=jnp.int32(NOTHING))
        same = jax.tree.map(lambda a, b: jnp.array_equal(a, b), policy.tell(view, state, pull, none), state)
        return policy.tell(view, state, pull, outcome), jnp.all(jnp.stack(jax.tree.leaves(same)))

    def run(start: Array) -> tuple[Any, Array]:
        return jax.lax.scan(step, policy.init(view), None, length=60)

    state, fine = jax.jit(jax.vmap(run))(jnp.zeros(1))
    assert bool(jnp.all(fine))
    assert int(state.totals.spent[0]) == 290


@pytest.mark.usefixtures("fast_programs")
@pytest.mark.slow
def test_checkpoints_do_not_bend_the_law(kind: Any) -> None:
    setting = unpaired(entities=600 if kind.name == "random" else 100, weights=uniform_false_values(1, 5))
    at = [7, 40, *range(60, 300, 20)]
    problem, policy = setting.problem(), counting(kind, setting)
    curve = simulate(problem, policy, runs=6000, seed=2, checkpoints=at)
    for budget in (40, 140, 300):
        smaller = replace(setting, budget=budget)
        alone = simulate(smaller.problem(), policy, runs=RUNS, seed=3)
        for answer in ("removed", "finished"):
            a, b = curve[answer][0, :, [*at, 300].index(budget)].astype(float), alone[answer][0].astype(float)
            assert abs(a.mean() - b.mean()) <= 4 * np.sqrt(a.var() / a.size + b.var() / b.size), (budget, answer)
    assert (np.diff(curve["removed"][0], axis=1) >= 0).all()
    assert (curve["cleans"][0] == [*at, 300]).all()


@pytest.mark.slow
def test_a_sweep_compiles_once(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over sc-pdfs, distributions of r, entities and budgets, up to the size of the tables."""
    original, chunks = jobs_module.chunk_function, {}

    def noted(*key: Any) -> Any:
        chunks[key] = original(*key)
        return chunks[key]

    monkeypatch.setattr(jobs_module, "chunk_function", noted)

    def compilations() -> int:
        return sum(chunk._cache_size() for chunk in chunks.values())

    def run(sc_pdf: Law, budget: int, entities: int, low: int) -> None:
        setting = unpaired(sc_pdf=sc_pdf, budget=budget, entities=entities, weights=uniform_false_values(low, 5))
        simulate(setting.problem(), counting(kind, setting), runs=10)

    # The longest first: a chunk's second call is another entry of the cache, though nothing is compiled for it.
    run(Beta(1, 1), 320, 900, 0)
    before = compilations()
    run(Beta(2, 5), 280, 950, 1)
    run(Normal(variance=0.3), 300, 840, 2)
    assert compilations() == before


# Parts.


@pytest.mark.parametrize(("unmet", "ticks"), [(3, 6), (7, 5), (40, 3)])
def test_ticks_fall_uniformly(unmet: int, ticks: int) -> None:
    """How many entities have one tick at least, two, ...: against all ways that ticks can fall."""
    key = stream(7, np.arange(RUNS, dtype=np.uint32))
    drawn = jax.jit(jax.vmap(lambda key: ticked._levels(key, *map(jnp.int32, (0, ticks, unmet)))))(key)
    ways: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(ticks):
        following: dict[tuple[int, ...], float] = {}
        for has, mass in ways.items():
            for entity in range(len(has)):
                after = tuple(sorted((*has[:entity], has[entity] + 1, *has[entity + 1 :])))
                following[after] = following.get(after, 0) + mass / unmet
            if len(has) < unmet:
                after = (1, *has)
                following[after] = following.get(after, 0) + mass * (unmet - len(has)) / unmet
        ways = following
    expected = {tuple(sum(n > k for n in has) for k in range(ticked.SIDE)): mass for has, mass in ways.items()}
    kinds, counts = np.unique(np.asarray(drawn), axis=0, return_counts=True)
    observed = {tuple(map(int, kind)): int(count) for kind, count in zip(kinds, counts, strict=True)}
    assert set(observed) <= set(expected)
    large = [has for has, mass in expected.items() if mass * RUNS >= 10]
    found, sought = np.array([(observed.get(has, 0), expected[has] * RUNS) for has in large]).T
    assert stats.chisquare(found, sought * found.sum() / sought.sum()).pvalue > 1e-4


# The tables.


@pytest.mark.parametrize(("pdf", "at"), [(Beta(1, 1), 64), (Beta(2, 5), 64), (Beta(0.1, 0.3), 64), (Beta(50, 2), 19)])
def test_moments(pdf: Beta, at: int) -> None:
    found, s, f = moments(pdf, at, 1025), np.arange(at + 1)[:, None], np.arange(1026)
    exact = np.exp(special.betaln(pdf.alpha + s, pdf.beta + f) - special.betaln(pdf.alpha, pdf.beta))
    ways = special.binom(s + f, s)
    assert (ways * np.abs(found - exact)).max() < 1e-8
    some = ways * exact > 1e-20
    assert np.abs(found[some] / exact[some] - 1).max() < 5e-6


def probabilities(table: Alias) -> dict[int, float]:
    """The law that an alias table draws from."""
    share, own, other = (np.asarray(leaf) for leaf in table)
    low = np.where(own == other, 1.0, share / 2.0**32) / share.size
    found: dict[int, float] = {}
    for numbers, parts in ((own, low), (other, 1 / share.size - low)):
        for number in np.unique(numbers):
            found[int(number)] = found.get(int(number), 0) + parts[numbers == number].sum()
    return found


@pytest.mark.parametrize("seed", range(5))
def test_alias_tables(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.random(1 + 40 * seed) ** (1 + 5 * seed) * (rng.random(1 + 40 * seed) > 0.3)
    weights[0] += 0.1
    found = probabilities(alias(weights, np.arange(weights.size)))
    for number, weight in enumerate(weights):
        assert abs(found.get(number, 0) - weight / weights.sum()) < 1e-9
    assert all(weights[number] > 0 for number, part in found.items() if part > 1e-9)


def test_entities_with_one_false_value_each() -> None:
    """All of a visit's law is in the slots then: one operation, which succeeds with E[p] = 1/2."""
    tables = tables_for(100, np.array([1.0, 1.0]), Uniform())
    slots = np.asarray(tables.visits)
    assert not (slots == UNKNOWN).any()
    assert (slots == 1).mean() == (slots == (1 << 20 | 1)).mean() == 0.5
    kept = simulate(
        Setting(20, 50, np.array([0.0, 1.0]), Uniform(), paired=False).problem(),
        cleaning.greedy(),
        runs=400,
        progress=False,
    )
    assert abs(kept["removed"].mean() - 10) < 0.6


def test_tables_of_visits_and_residual_trials() -> None:
    """r is 1 or 2, p uniform: E[p] = 1/2, E[p^2 (1-p)^k] = 2 / ((k+1)(k+2)(k+3)), E[p(1-p)^k] = 1 / ((k+1)(k+2))."""
    tables = tables_for(1000, np.array([0.0, 0.25, 0.75]), Uniform())
    slots = np.asarray(tables.visits)
    rest = (slots == UNKNOWN).mean()
    ends = probabilities(tables.others)
    for gained, cost, exact in [(0, 1, 1 / 2), (1, 1, 1 / 8), (2, 2, 3 / 4 / 3), (2, 7, 3 / 4 * 2 / (6 * 7 * 8))]:
        number = gained << 20 | cost
        assert abs((slots == number).mean() + rest * ends.get(number, 0) - exact) < 1e-8
    residuals = probabilities(tables.failed)
    for good, bad, exact in [(0, 0, 1 / 4 / 6), (0, 3, 1 / 4 / 30), (1, 2, 3 / 4 * 3 * 2 / (4 * 5 * 6))]:
        assert abs(residuals[good << 20 | bad] - 2 * exact) < 1e-8  # given that the first failed
    good, bad = unpack(np.array(list(residuals)))
    told = (good + bad == LENGTHS[0]) | (good + bad <= LENGTHS[0]) & (good < 2)
    assert told.all()


def test_tables_of_records() -> None:
    """p is uniform, so s successes and f failures have the chance (s + 1) / (s + f + 2) of another success."""
    found = tables_for(1000, np.array([0.0, 1, 0, 3]), Uniform()).chances
    side = width(3)
    success = np.asarray(found.success).reshape(-1, side)[:, :3] / 2.0**31
    f, s = np.arange(len(success))[:, None], np.arange(3)
    assert np.abs(success - (s + 1) / (s + f + 2)).max() < 1e-8
    assert np.array_equal(found.of(f, s)[0][:, 1], np.asarray(found.success).reshape(-1, side)[:, 1])
    last = np.array([1 / 4, 0, 1])
    assert np.abs(np.asarray(found.last)[:3] / 2.0**31 - last).max() < 1e-9
    assert np.abs(np.asarray(found.clean).reshape(2, side)[:, :3] / 2.0**31 - success[:2] * last).max() < 1e-8


@pytest.mark.slow
def test_most_false_values_and_constant_tables() -> None:
    """Tables that a program has as constants are no larger than XLA's backend for CPUs takes."""
    weights = uniform_false_values(1, 64)
    setting = unpaired(budget=30, entities=20, weights=weights)
    problem, policy, key = setting.problem(), counting(EPSILON, setting), stream(3, 5)
    instance = problem.draw(key)
    view = problem.view(key, instance)

    def step(state: Any, _: None) -> tuple[Any, None]:
        pull = policy.ask(view, state)
        return policy.tell(view, state, pull, problem.pull(key, instance, pull)), None

    def run(start: Array) -> Any:
        return jax.lax.scan(step, policy.init(view), None, length=30)[0].totals

    alone, of_two = jax.jit(run)(jnp.zeros(())), jax.jit(jax.vmap(run, axis_size=2))(jnp.zeros(2))
    assert int(alone.spent) == 30
    assert all(int(a) == int(b[0]) == int(b[1]) for a, b in zip(alone, of_two, strict=True))


# What users may ask for.


def test_what_is_refused() -> None:
    given = {"budget": 10, "entities": 5, "false_values": uniform_false_values(0, 3), "sc_pdf": Uniform()}
    for changes, field in (
        ({"budget": 65_537}, "budget"),
        ({"false_values": uniform_false_values(0, 65)}, "false_values"),
        ({"on_tape": True}, "on_tape"),
    ):
        with pytest.raises(BadInput) as error:
            synthetic(**(given | changes), paired=False)
        assert error.value.field == field
    paired, policy = synthetic(**given), counting(POLICIES[2], unpaired())
    with pytest.raises(TypeError, match="paired = False"):
        simulate(paired, policy, runs=1)
    with pytest.raises(TypeError, match="paired = False"):
        simulate(of_table(budget=3, false_values=np.array([1, 2]), sc_pdf=Uniform()), policy, runs=1)


def test_keys_of_study_files(kind: Any) -> None:
    made, table = PROBLEMS
    setting = made.build(**parse("problem", made.parameters, {"budget": 10}))
    assert setting.paired
    assert setting.problem().tables is None
    setting = made.build(**parse("problem", made.parameters, {"budget": 10, "paired": False}))
    assert setting.problem().tables is not None
    # Where no table fits, entities are held: the law is the same.
    rich = {"budget": 65_537, "entities": 10**6, "paired": False}
    setting = made.build(**parse("problem", made.parameters, rich))
    assert setting.problem().tables is None
    assert type(quick(kind, setting)) is type(quick(kind, replace(setting, paired=True)))
    with pytest.raises(BadInput, match=r"problem\.paired = 0: true or false"):
        parse("problem", made.parameters, {"budget": 10, "paired": 0})
    columns = {"budget": 10, "path": "a.csv", "entity": "a", "value": "b"}
    with pytest.raises(BadInput, match=r"problem\.paired = False: true for a table, whose entities are not alike"):
        parse("problem", table.parameters, columns | {"paired": False})


def test_counting_is_for_where_it_is_fast() -> None:
    """Where entities are few or epsilon is low, most operations fall on entities with a record of their own."""
    many = unpaired(entities=20 * 300, weights=uniform_false_values(0, 19))
    for setting, epsilon, expected in (
        (many, 0.5, CountedEpsilonGreedy),
        (many, 0.1, EpsilonGreedyByParts),
        (replace(many, sc_pdf=Beta(2, 5)), 0.5, EpsilonGreedyByParts),
        (replace(many, sc_pdf=Beta(2, 5)), 0.7, CountedEpsilonGreedy),
        (replace(many, sc_pdf=Beta(5, 2)), 0.3, CountedEpsilonGreedy),
        (unpaired(entities=20 * 300), 0.5, EpsilonGreedyByParts),
        (unpaired(), 0.5, EpsilonGreedyByParts),
        (replace(many, paired=True), 0.5, EpsilonGreedyByParts),
    ):
        assert type(accelerated(cleaning.epsilon_greedy(epsilon), setting.problem())) is expected
    # E[p^j] = 1 / (j + 1), and r > j in (19 - j) of 19 cases.
    streak = sum((19 - j) / 19 / (j + 1) for j in range(1, 19))
    tables = many.problem().tables
    assert tables is not None
    assert float(tables.streak) == pytest.approx(streak, rel=1e-6)
