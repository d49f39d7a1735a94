"""Every cleaning policy against its oracle on shared tapes, and the laws that all of them obey."""

from fractions import Fraction
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxbandit import cleaning
from jaxbandit.cleaning.ee import ee, needed
from jaxbandit.cleaning.epsilon_greedy import EXPLORE
from jaxbandit.cleaning.family import POLICIES, Setting
from jaxbandit.cleaning.fast.epsilon_greedy import BETWEEN, CERTAIN, NOWHERE, ZERO
from jaxbandit.cleaning.fast.pulls import LONGEST_RUN, FirstOutcomes
from jaxbandit.cleaning.fast.random import RUN, RandomInRuns, run_length
from jaxbandit.cleaning.fast.random_in_passes import RandomInPasses
from jaxbandit.cleaning.index import Index
from jaxbandit.cleaning.problem import of_table, uniform_false_values
from jaxbandit.cleaning.pulls import Outcome, Told
from jaxbandit.cleaning.records import PICK
from jaxbandit.cleaning.stopping import allowed_failures, ladder
from jaxbandit.engine import simulate
from jaxbandit.errors import BadInput
from jaxbandit.grammar import accelerated
from jaxbandit.laws import Beta, Uniform
from jaxbandit.random import stream, uniform, words
from jaxbandit.random.draws import wide_product
from tests.oracles import cleaning as oracles

ENTITIES, STEPS = 7, 160


@partial(jax.jit, static_argnames="steps")
def record(problem: Any, policy: Any, seed: Any, run: Any, steps: int = STEPS) -> tuple[Any, Any, Any, dict[str, Any]]:
    """A run pull by pull: the pulls, the outcomes, whether it is over, and the answer."""

    def one(run: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        key = stream(seed, run)
        instance = problem.draw(key)
        view = problem.view(key, instance)

        def step(state: Any, _: None) -> tuple[Any, tuple[Any, Any]]:
            pull, over = policy.ask(view, state), policy.done(view, state)
            outcome = problem.pull(key, instance, pull)
            after = policy.tell(view, state, pull, outcome)
            # As the engine does: what comes behind the end has no effect.
            after = jax.tree.map(lambda new, old: jnp.where(over, old, new), after, state)
            return after, (pull, jax.tree.map(lambda x: jnp.where(over, jnp.zeros_like(x), x), outcome))

        state, (pulls, outcomes) = jax.lax.scan(step, policy.init(view), None, length=steps)
        return pulls, outcomes, policy.done(view, state), policy.answer(view, state)

    # As a lane of one: what the engine runs. A lone lane takes XLA a minute to compile.
    found = jax.vmap(one)(jnp.asarray(run)[None])
    return jax.tree.map(lambda leaf: leaf[0], found)


@jax.jit
def drawn(problem: Any, run: Any) -> dict[str, Any]:
    """What a run draws, from the addresses that the library uses."""
    key = stream(0, run)
    instance = problem.draw(key)
    view = problem.view(key, instance)
    entities, spent = jnp.arange(ENTITIES), jnp.arange(STEPS)
    explored = words(view.choices, EXPLORE, spent)
    return {
        "order": jax.vmap(view.in_random_order)(entities),
        "hidden": problem.concealed(instance, entities),
        "words": words(instance.hidden, entities[:, None], jnp.arange(4 * STEPS)[None, :] + 1)[0],
        "picks": words(view.choices, PICK, spent),
        "choices": explored[1],
        "runs": words(view.choices, RUN, spent)[0],
        "uniforms": uniform(explored[0]),
    }


length_of_run = jax.jit(run_length)


class Tape:
    """The run's randomness as an oracle asks for it."""

    def __init__(self, problem: Any, run: int) -> None:
        found = jax.device_get(drawn(problem, np.uint32(run)))
        self.order = found["order"].tolist()
        hidden = found["hidden"]
        self.thresholds, self.first = (hidden >> 8 << 8) + np.uint64(128), hidden & 1
        self.words = found["words"]
        high, low = (word.astype(object) for word in found["picks"])
        self.picks = list(high * 2**32 + low)
        self.choices = found["choices"].tolist()
        self.runs = found["runs"]
        self.uniforms = found["uniforms"]

    def clean(self, entity: int, attempt: int) -> bool:
        if attempt == 0:
            return bool(self.first[entity])
        return bool(self.words[entity, attempt] < self.thresholds[entity])


class RandomOrder:
    """EE's choice: the next entity of the random order."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def choose(self, candidates: list[int]) -> int:
        return next(entity for entity in self.tape.order if entity in candidates)


class Bag:
    """Greedy's choice among met and unmet entities: a list whose holes the last entry fills. The one entity with an
    estimate above 0 is chosen without a draw."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.spent = tape, 0
        self.bag: list[int] = []
        self.met: list[int] = []
        self.gained: dict[int, int] = {}

    def clean(self, entity: int, attempt: int) -> bool:
        self.spent += 1
        success = self.tape.clean(entity, attempt)
        self.gained[entity] = self.gained.get(entity, 0) + success
        return success

    def choose(self, candidates: list[int]) -> int:
        if len(candidates) == 1 and self.gained.get(candidates[0]):
            return candidates[0]
        for gone in [entity for entity in self.bag if entity not in candidates]:
            slot = self.bag.index(gone)
            self.bag[slot] = self.bag[-1]
            self.bag.pop()
        unmet = [entity for entity in self.tape.order if entity not in self.met]
        # What was met, is a candidate and is not in the bag came in since the last choice.
        self.bag += [entity for entity in self.met if entity in candidates and entity not in self.bag]
        rank = self.tape.picks[self.spent] * (len(self.bag) + len(unmet)) >> 64
        if rank < len(self.bag):
            return self.bag[rank]
        self.met.append(unmet[0])
        return unmet[0]


class Stroller:
    """Random's choice: at most one entity met before, then a run of unmet ones, as ``random.py`` says."""

    def __init__(self, tape: Tape, r: list[int]) -> None:
        self.tape, self.left, self.spent = tape, list(r), 0
        self.unmet, self.bag = list(tape.order), list[int]()
        self.plan: list[int] = []
        self.slot = self.run = 0

    def choose(self, candidates: list[int]) -> int:
        if not self.plan:
            again = self.slot < len(self.bag)
            alive = len(self.bag) + len(self.unmet)
            sizes = np.int32(len(self.unmet)), np.int32(alive)
            self.run = int(length_of_run(self.tape.runs[self.spent], *sizes, np.bool_(not again)))
            self.plan = self.bag[self.slot : self.slot + 1] + self.unmet[: self.run]
            self.made = 0
        return self.plan.pop(0)

    def clean(self, entity: int, attempt: int) -> bool:
        success = self.tape.clean(entity, attempt)
        self.spent += 1
        self.left[entity] -= success
        if entity in self.unmet:
            self.unmet.remove(entity)
            self.bag.append(entity)
            self.made += 1
        if finished := self.left[entity] == 0:
            self.bag[self.bag.index(entity)] = self.bag[-1]
            self.bag.pop()
            self.plan = []
        if not self.plan:
            ended = self.made < LONGEST_RUN and not finished
            among = len(self.bag) + (0 if ended else len(self.unmet))
            self.slot = min(self.tape.picks[self.spent] * max(among, 1) >> 64, len(self.bag))
        return success


class Parts:
    """epsilon-Greedy's choice: entities met stand in three parts, by estimates of 1, above 0, and 0. The last one of a
    part fills the place of one that leaves it."""

    def __init__(self, tape: Tape, r: list[int], epsilon: float) -> None:
        self.tape, self.left, self.epsilon, self.spent = tape, list(r), np.float32(epsilon), 0
        self.unmet = list(tape.order)
        self.parts: dict[int, list[int]] = {CERTAIN: [], BETWEEN: [], ZERO: [], NOWHERE: []}
        self.record = dict.fromkeys(tape.order, (0, 0))

    def uniform(self) -> float:
        return 0.0 if self.tape.uniforms[self.spent] < self.epsilon else 1.0

    def choose(self, candidates: list[int]) -> int:
        certain, between, zero = (self.parts[part] for part in (CERTAIN, BETWEEN, ZERO))
        among = certain + between + zero + self.unmet
        if self.uniform() > 0 and (certain or between):
            estimates = [Fraction(*self.record[entity]) for entity in certain + between]
            among = [among[i] for i, estimate in enumerate(estimates) if estimate == max(estimates)]
            assert sorted(among) == candidates
        chosen = among[self.tape.choices[self.spent] * len(among) >> 32]
        return self.unmet[0] if chosen in self.unmet else chosen

    def clean(self, entity: int, attempt: int) -> bool:
        success = self.tape.clean(entity, attempt)
        self.spent += 1
        self.left[entity] -= success
        gained, tried = self.record[entity]
        self.record[entity] = gained, tried = gained + success, tried + 1
        old = next((part for part, members in self.parts.items() if entity in members), NOWHERE)
        part = NOWHERE if not self.left[entity] else CERTAIN if gained == tried else BETWEEN if gained else ZERO
        if attempt == 0:
            self.unmet.remove(entity)
        if old != part:
            members = self.parts[old]
            if entity in members:
                members[members.index(entity)] = members[-1]
                members.pop()
            self.parts[part].append(entity)
        return success


class Entries:
    """The choices of the rules as written: entities that were met stand in a list, whose last one takes the place of
    one that is clean."""

    def __init__(self, tape: Tape, r: list[int], epsilon: float = 0) -> None:
        self.tape, self.left, self.epsilon, self.spent = tape, list(r), np.float32(epsilon), 0
        self.unmet, self.met = list(tape.order), list[int]()

    def uniform(self) -> float:
        return 0.0 if self.tape.uniforms[self.spent] < self.epsilon else 1.0

    def choose(self, candidates: list[int]) -> int:
        among = [entity for entity in self.met + self.unmet if entity in candidates]
        chosen = among[self.tape.picks[self.spent] * len(among) >> 64]
        return self.unmet[0] if chosen in self.unmet else chosen

    def clean(self, entity: int, attempt: int) -> bool:
        success = self.tape.clean(entity, attempt)
        self.spent += 1
        self.left[entity] -= success
        if attempt == 0:
            self.unmet.remove(entity)
            self.met.append(entity)
        if self.left[entity] == 0:
            self.met[self.met.index(entity)] = self.met[-1]
            self.met.pop()
        return success


def expand(pulls: Any, outcomes: Any, tape: Tape) -> list[tuple[int, bool]]:
    made: list[tuple[int, bool]] = []
    if isinstance(outcomes, FirstOutcomes):
        columns = (pulls.entity, pulls.attempt, pulls.cleans, pulls.place, outcomes.cleans, outcomes.gained)
        for entity, attempt, again, place, cleans, gained in zip(
            *(np.asarray(x).tolist() for x in columns), strict=True
        ):
            if cleans:
                run = [(tape.order[place + i], 0) for i in range(cleans - again)]
                tried = [tape.clean(*address) for address in [(entity, attempt)] * again + run]
                assert [bool(gained >> 1 - again + i & 1) for i in range(cleans)] == tried
                made += zip([entity] * again + [entity for entity, _ in run], tried, strict=True)
        return made
    return spelt(pulls.entity, pulls.attempt, outcomes, tape)


def spelt(entities: Any, attempts: Any, outcomes: Any, tape: Tape) -> list[tuple[int, bool]]:
    """Operations one by one."""
    made: list[tuple[int, bool]] = []
    columns = (entities, attempts, outcomes.cleans, outcomes.removed)
    for entity, attempt, cleans, removed in zip(*(np.asarray(x).tolist() for x in columns), strict=True):
        tried = [tape.clean(entity, attempt + j) for j in range(cleans)]
        assert sum(tried) == removed
        made += [(entity, success) for success in tried]
    return made


def check(problem: Any, policy: Any, run: int, trace: oracles.Trace, tape: Tape) -> None:
    pulls, outcomes, over, answer = record(problem, policy, 0, np.uint32(run))
    assert bool(over)
    if not isinstance(outcomes, Told):
        assert expand(pulls, outcomes, tape) == trace.pulls
    assert {name: int(value) for name, value in answer.items()} == {
        "cleans": trace.spent, "removed": trace.removed, "finished": trace.finished
    }  # fmt: skip


def implemented(policy: Any, problem: Any, implementation: str) -> Any:
    """The policy as it is written, or what stands in for it."""
    return policy if implementation == "reference" else accelerated(policy, problem)


both = pytest.mark.parametrize("implementation", ["fast", "reference"])


false_values = st.lists(st.integers(1, 6), min_size=ENTITIES, max_size=ENTITIES)
budgets = st.integers(1, 120)
runs = st.integers(0, 2**31)


def table(r: list[int], budget: int) -> Any:
    return of_table(budget=budget, false_values=np.array(r), sc_pdf=Uniform(), on_tape=True)


def test_counts_that_32_bits_do_not_hold_are_refused() -> None:
    assert int(table([1, 2**31 - 1], 5).counts.max()) == 2**31 - 1
    with pytest.raises(BadInput, match=r"^false_values = 2147483648: whole numbers of at most 2147483647"):
        table([1, 2**31], 5)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(false_values, budgets, runs, st.integers(1, 6), st.integers(0, 1000), st.booleans())
def test_ee_is_its_oracle(r: list[int], budget: int, run: int, t: int, thousandths: int, early: bool) -> None:
    problem = table(r, budget)
    tape = Tape(problem, run)
    q = Fraction(thousandths, 1000)
    trace = oracles.ee(r, budget, t, q, early, RandomOrder(tape).choose, tape.clean)
    check(problem, ee(t, float(q), early), run, trace, tape)


@settings(max_examples=40, deadline=None)
@given(false_values, budgets, runs, st.lists(st.floats(0.05, 1), min_size=ENTITIES, max_size=ENTITIES))
def test_known_sc_is_its_oracle(r: list[int], budget: int, run: int, p: list[float]) -> None:
    problem = of_table(budget=budget, false_values=np.array(r), sc_probabilities=np.array(p), on_tape=True)
    tape = Tape(problem, run)
    trace = oracles.known_sc(r, p, budget, tape.clean)
    check(problem, cleaning.known_sc(), run, trace, tape)
    pulls, outcomes, _, _ = record(problem, cleaning.known_sc(), 0, np.uint32(run))
    ranking = np.asarray(problem.ranking)[np.clip(pulls.rank, 0, ENTITIES - 1)]
    assert spelt(ranking, pulls.attempt, outcomes, tape) == trace.pulls


@pytest.mark.slow
@both
@settings(max_examples=40, deadline=None)
@given(r=false_values, budget=budgets, run=runs)
def test_random_is_its_oracle(implementation: str, r: list[int], budget: int, run: int) -> None:
    problem = table(r, budget)
    tape = Tape(problem, run)
    own = Stroller(tape, r) if implementation == "fast" else Entries(tape, r)
    policy = RandomInRuns(512) if implementation == "fast" else cleaning.random()
    check(problem, policy, run, oracles.random(r, budget, own.choose, own.clean), tape)


@pytest.mark.slow
@both
@settings(max_examples=40, deadline=None)
@given(r=false_values, budget=budgets, run=runs)
def test_greedy_is_its_oracle(implementation: str, r: list[int], budget: int, run: int) -> None:
    problem = table(r, budget)
    tape = Tape(problem, run)
    own = Bag(tape) if implementation == "fast" else Entries(tape, r)
    policy = implemented(cleaning.greedy(), problem, implementation)
    check(problem, policy, run, oracles.greedy(r, budget, own.choose, own.clean), tape)


@pytest.mark.slow
@both
@settings(max_examples=60, deadline=None)
@given(r=false_values, budget=budgets, run=runs, epsilon=st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]))
def test_epsilon_greedy_is_its_oracle(implementation: str, r: list[int], budget: int, run: int, epsilon: float) -> None:
    problem = table(r, budget)
    tape = Tape(problem, run)
    own = Parts(tape, r, epsilon) if implementation == "fast" else Entries(tape, r, epsilon)
    trace = oracles.epsilon_greedy(r, budget, Fraction(1, 2), own.uniform, own.choose, own.clean)
    check(problem, implemented(cleaning.epsilon_greedy(epsilon), problem, implementation), run, trace, tape)


def by_levels(r: list[int], budget: int, allowed: np.ndarray, tape: Tape) -> list[tuple[int, bool]]:
    """The operations of ``index``, level by level: who was given up first, then the unmet by false values."""
    made: list[tuple[int, bool]] = []
    record = dict.fromkeys(tape.order, (0, 0))
    waiting: list[list[int]] = [[] for _ in allowed]
    unmet = sorted(tape.order, key=lambda entity: -r[entity])  # stable: those of one number in the random order
    last = len(allowed) - 1

    def worth(level: int, entity: int) -> bool:
        gained, failed = record[entity]
        return level == last or failed < allowed[level, r[entity], gained]

    for level in range(len(allowed)):
        while waiting[level] or (unmet and worth(level, unmet[0])):
            entity = waiting[level].pop() if waiting[level] else unmet.pop(0)
            while record[entity][0] < r[entity] and worth(level, entity):
                if len(made) == budget:
                    return made
                gained, failed = record[entity]
                success = tape.clean(entity, gained + failed)
                record[entity] = gained + success, failed + (not success)
                made.append((entity, success))
            if record[entity][0] < r[entity]:
                waiting[next(later for later in range(level + 1, last + 1) if worth(later, entity))].append(entity)
    return made


@cache
def allowed_at_levels() -> np.ndarray:
    return allowed_failures(Uniform().cells(0.001), ladder(0.5), 6)


@pytest.mark.slow
@both
@settings(max_examples=40, deadline=None)
@given(r=false_values, budget=budgets, run=runs)
def test_index_goes_down_its_levels(implementation: str, r: list[int], budget: int, run: int) -> None:
    problem, allowed = table(r, budget), allowed_at_levels()
    tape = Tape(problem, run)
    policy = implemented(Index(jnp.asarray(allowed)), problem, implementation)
    pulls, outcomes, over, _ = record(problem, policy, 0, np.uint32(run), steps=2 * STEPS)
    assert bool(over)
    assert expand(pulls, outcomes, tape) == by_levels(r, budget, allowed, tape)


def small(**changes: Any) -> Setting:
    given = {"budget": 400, "entities": 60, "weights": uniform_false_values(0, 5), "sc_pdf": Uniform()} | changes
    return Setting(**given)


@pytest.fixture(params=[kind.name for kind in POLICIES])
def kind(request: pytest.FixtureRequest) -> Any:
    return next(kind for kind in POLICIES if kind.name == request.param)


def built(kind: Any, setting: Setting) -> Any:
    defaults = {parameter.name: parameter.default for parameter in kind.parameters}
    return kind.build(setting, **defaults)[0]


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param({"weights": uniform_false_values(0, 5)}, id="drawn"),
        pytest.param({"weights": uniform_false_values(3, 3)}, id="all alike"),
        pytest.param({"weights": np.array([1.0, 0.0, 2.0, 0.0])}, id="some never"),
    ],
)
def test_an_entity_begins_with_its_false_values(setting: dict[str, Any]) -> None:
    problem, key = small(**setting).problem(), stream(0, 4)
    entities = jnp.arange(300, dtype=jnp.int32)
    for each in (problem, table([2, 1, 4, 2, 2], 9)):
        view = each.view(key, each.draw(key))
        begun = view.false_values(entities)
        for count in range(8):
            assert (view.begins_with(entities, count) == (begun == count)).all()
            assert (view.begins_with(entities, jnp.int32(count)) == (begun == count)).all()


@pytest.mark.slow
def test_greedy_in_visits_equals_the_rule() -> None:
    """Bit for bit on the tape."""
    equal(small().problem(on_tape=True), cleaning.greedy())


@pytest.mark.slow
@pytest.mark.parametrize("false_values", [(0, 5), (1, 1)])
def test_index_by_lists_equals_the_rule(false_values: tuple[int, int]) -> None:
    """Bit for bit, off the tape too: its pulls are the same. With one false value, no success leaves any to an
    entity."""
    setting = small(budget=200, weights=uniform_false_values(*false_values))
    equal(setting.problem(), built(next(kind for kind in POLICIES if kind.name == "index"), setting))


def equal(problem: Any, rule: Any) -> None:
    assert type(accelerated(rule, problem)) is not type(rule)
    quick, plain = (simulate(problem, rule, runs=40, seed=3, implementation=of) for of in ("fast", "reference"))
    assert all(np.array_equal(quick[answer], plain[answer]) for answer in quick)
    assert len(np.unique(quick["removed"])) > 5


@pytest.mark.smoke
def test_a_pull_of_count_0_changes_nothing(kind: Any) -> None:
    setting = small(entities=400)
    problem = setting.problem()
    policy, key = accelerated(built(kind, setting), problem), stream(3, 5)
    instance = problem.draw(key)
    view = problem.view(key, instance)
    state = policy.init(view)
    step = jax.jit(
        lambda state: (
            pull := policy.ask(view, state),
            policy.tell(view, state, pull, problem.pull(key, instance, pull)),
        )
    )
    zero, no = jnp.int32(0), jnp.bool_(False)
    none: Any = FirstOutcomes(zero, zero, no, no) if isinstance(policy, RandomInRuns) else Outcome(zero, zero)
    none = Told(zero, zero, no, jnp.float32(0)) if kind.name == "known-sc" else none
    nothing = jax.jit(lambda state, pull: policy.tell(view, state, pull, none))
    for _ in range(60):
        pull, after = step(state)
        same = nothing(state, pull)
        for before, now in zip(jax.tree.leaves(state), jax.tree.leaves(same), strict=True):
            assert np.array_equal(before, now)
        state = after


@pytest.mark.smoke
def test_the_budget_is_kept_and_used(kind: Any) -> None:
    setting = small()
    answers = simulate(setting.problem(), built(kind, setting), runs=64)
    assert (answers["cleans"] <= setting.budget).all()
    assert (answers["removed"] <= answers["cleans"]).all()
    assert (answers["finished"] <= answers["removed"]).all()
    # A budget for everything: all policies but EE, which gives entities up for good, clean everything.
    rich = small(budget=2**20, entities=40)
    policy = ee(1, 0) if kind.name == "ee" else built(kind, rich)  # what its search finds, in half a minute of tests
    answers = simulate(rich.problem(), policy, runs=8)
    assert (answers["cleans"] < rich.budget).all() or kind.name == "ee"
    if kind.name != "ee":
        assert len(np.unique(answers["removed"] / answers["finished"])) > 1
        assert (answers["finished"] > 25).all()


@pytest.mark.slow
def test_a_run_that_is_over_asks_for_nothing(kind: Any) -> None:
    setting = small(budget=7)
    problem = setting.problem()
    pulls, outcomes, over, _ = record(problem, accelerated(built(kind, setting), problem), 1, 2, steps=40)
    assert bool(over)
    assert np.asarray(outcomes.cleans).sum() == 7
    assert np.asarray(pulls.cleans)[-10:].max() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        # E[p] = 1/2 whatever is chosen at random, as long as few entities are exhausted.
        ("random", {"entities": 2000, "weights": uniform_false_values(50, 50)}, 0.5),
        # Renewal-reward: a try costs 1; after a first success (density 2p) the entity is cleaned to the end.
        # Per success: 2 tries bring 1, then 9 more at E[1/p | success] = 2 each: 10 / (2 + 18).
        ("greedy", {"entities": 100_000, "budget": 20_000, "weights": uniform_false_values(10, 10)}, 0.5),
    ],
)
def test_closed_forms(name: str, changes: dict[str, Any], expected: float) -> None:
    setting = small(**changes)
    kind = next(kind for kind in POLICIES if kind.name == name)
    share = simulate(setting.problem(), built(kind, setting), runs=400, seed=9)["removed"][0] / setting.budget
    error = share.std() / np.sqrt(share.size)
    assert abs(share.mean() - expected) < 4 * error + 2e-3


def test_needed_is_the_papers_ceiling() -> None:
    assert [needed(3, 0.667), needed(3, 2 / 3), needed(3, 1.0), needed(3, 0.0)] == [3, 2, 3, 0]
    assert needed(10, 0.1) == 1


def test_wide_product() -> None:
    a, b = np.uint32(0xFFFFFFFF), np.uint32(0xFFFFFFFE)
    high, low = wide_product(jnp.uint32(a), jnp.uint32(b))
    assert int(high) * 2**32 + int(low) == int(a) * int(b)


def chances(name: str, records: list[tuple[int, int, int]], epsilon: float = 0.5) -> np.ndarray:
    """The chance of each entity to be next by Algorithms 3 to 5; a record is (tried, gained, left)."""
    dirty = np.array([left > 0 for _, _, left in records], float)
    estimates = [Fraction(gained, max(tried, 1)) if left else Fraction(-1) for tried, gained, left in records]
    best = np.array([estimate == max(estimates) for estimate in estimates], float)
    share = {"random": 1.0, "greedy": 0.0, "epsilon-greedy": epsilon}[name]
    return share * dirty / dirty.sum() + (1 - share) * best / best.sum()


def law(
    name: str, r: list[int], p: list[float], budget: int, epsilon: float = 0.5
) -> dict[tuple[int, int, int], float]:
    """The distribution of (cleans, removed, finished), by all ways that a run can take."""
    states = {tuple((0, 0, left) for left in r): 1.0}
    ended: dict[tuple[int, int, int], float] = {}

    def end(records: Any, mass: float) -> None:
        tried, gained, _ = map(sum, zip(*records, strict=True))
        key = (tried, gained, sum(left == 0 for _, _, left in records))
        ended[key] = ended.get(key, 0) + mass

    for _ in range(budget):
        following: dict[Any, float] = {}
        for records, mass in states.items():
            if not any(left for _, _, left in records):
                end(records, mass)
                continue
            for entity, chance in enumerate(chances(name, list(records), epsilon)):
                tried, gained, left = records[entity]
                for success, part in ((1, p[entity]), (0, 1 - p[entity])):
                    if chance * part > 0:
                        record = (tried + 1, gained + success, left - success)
                        after = (*records[:entity], record, *records[entity + 1 :])
                        following[after] = following.get(after, 0) + mass * chance * part
        states = following
    for records, mass in states.items():
        end(records, mass)
    return ended


def agrees(answers: dict[str, np.ndarray], expected: dict[tuple[int, int, int], float]) -> None:
    made = np.stack([answers[name][0] for name in ("cleans", "removed", "finished")], axis=1)
    kinds, counts = np.unique(made, axis=0, return_counts=True)
    observed = {tuple(int(x) for x in kind): int(count) for kind, count in zip(kinds, counts, strict=True)}
    assert set(observed) <= set(expected)
    assert abs(sum(expected.values()) - 1) < 1e-9
    wanted = {key: mass * len(made) for key, mass in expected.items()}
    large = [key for key, count in wanted.items() if count >= 10]
    rest = len(made) - sum(observed.get(key, 0) for key in large), len(made) - sum(wanted[key] for key in large)
    pairs = [(observed.get(key, 0), wanted[key]) for key in large] + ([rest] if rest[1] >= 5 else [])
    found, sought = np.array(pairs, float).T
    assert stats.chisquare(found, sought * found.sum() / sought.sum()).pvalue > 1e-4


@pytest.mark.usefixtures("fast_programs")
@pytest.mark.slow
@both
@pytest.mark.usefixtures("short_rounds")
@pytest.mark.parametrize("name", ["random", "greedy", "epsilon-greedy"])
def test_small_runs_have_the_exact_law(name: str, implementation: Any) -> None:
    """Tables of one size, which share a program. With the third one, all is clean in most runs. With the fourth, most
    estimates are between 0 and 1, and some are tied there, at any epsilon."""
    ways: dict[str, list[Any]] = {"random": [cleaning.random()], "greedy": [cleaning.greedy()]}
    if implementation == "fast":
        ways["random"] = [RandomInPasses(512), RandomInRuns(512)]
    cases: list[tuple[list[int], list[float], int, float]] = [
        ([2, 1, 3], [0.3, 0.8, 0.6], 7, 0.5),
        ([1, 2, 2], [0.7, 0.4, 0.9], 5, 0.5),
        ([3, 1, 2], [0.25, 0.9, 0.5], 15, 0.5),
    ]
    if name == "epsilon-greedy":
        cases += [([3, 2, 2], [0.25, 0.5, 0.4], 9, epsilon) for epsilon in (0, 0.1, 0.9)]
    runs = 100_000 if implementation == "fast" else 10_000
    for r, p, budget, epsilon in cases:
        problem = of_table(budget=budget, false_values=np.array(r), sc_probabilities=np.array(p))
        for rule in ways.get(name, [cleaning.epsilon_greedy(epsilon)]):
            answers = simulate(problem, rule, runs=runs, seed=21, implementation=implementation)
            agrees(answers, law(name, r, p, budget, epsilon))


@pytest.mark.usefixtures("short_rounds")
def test_long_runs_of_random_have_the_exact_law() -> None:
    """Of 20 exchangeable entities with 2 false values each, only the numbers with 2 and with 1 left matter."""
    entities, p, budget = 20, 0.4, 24
    states = {(entities, 0): 1.0}
    for _ in range(budget):
        following: dict[tuple[int, int], float] = {}
        for (two, one), mass in states.items():
            of_two = two / (two + one)
            for key, part in (
                ((two - 1, one + 1), of_two * p), ((two, one - 1), (1 - of_two) * p), ((two, one), 1 - p),
            ):  # fmt: skip
                if part > 0:
                    following[key] = following.get(key, 0) + mass * part
        states = following
    expected = {
        (budget, 2 * (entities - two - one) + one, entities - two - one): mass for (two, one), mass in states.items()
    }
    problem = of_table(
        budget=budget, false_values=np.full(entities, 2), sc_probabilities=np.full(entities, p)
    )  # fmt: skip
    agrees(simulate(problem, cleaning.random(), runs=100_000, seed=22), expected)


@pytest.mark.parametrize(
    ("unmet", "met", "first"), [(30, 12, False), (5, 3, False), (9, 0, False), (6, 4, True), (0, 3, False)]
)
def test_a_run_is_as_long_as_single_draws_make_it(unmet: int, met: int, first: bool) -> None:
    word = words(stream(4, 5), 1, jnp.arange(1 << 17))[0]
    length = jax.vmap(lambda w: run_length(w, jnp.int32(unmet), jnp.int32(unmet + met), jnp.bool_(first)))(word)
    alive, expected = 1.0, []
    for done in range(LONGEST_RUN):
        chance = 1.0 if first and done == 0 else max(unmet - done, 0) / (unmet + met)
        expected.append(alive * (1 - chance))
        alive *= chance
    observed = np.bincount(np.asarray(length), minlength=LONGEST_RUN + 1)
    wanted = np.array([*expected, alive]) * word.size
    assert observed[wanted == 0].sum() == 0
    some = wanted > 0
    if some.sum() > 1:
        assert stats.chisquare(observed[some], wanted[some] * word.size / wanted.sum()).pvalue > 1e-4


@pytest.mark.usefixtures("fast_programs")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "greedy", "epsilon-greedy"])
@pytest.mark.parametrize("sc_pdf", [Uniform(), Beta(1, 6)])
def test_production_has_the_law_of_the_tape_and_of_the_rule(name: str, sc_pdf: Any) -> None:
    """A low sc-probability leaves epsilon-Greedy often without an estimate of 1, and it searches."""
    kind = next(kind for kind in POLICIES if kind.name == name)
    for setting in (small(sc_pdf=sc_pdf), small(sc_pdf=sc_pdf, budget=90, entities=200)):
        rule, problem = built(kind, setting), setting.problem()
        quick = simulate(problem, rule, runs=4000, seed=32)
        tape = simulate(setting.problem(on_tape=True), rule, runs=4000, seed=31)
        plain = simulate(problem, rule, runs=1000, seed=33, implementation="reference")
        for other in (tape, plain):
            for answer in ("removed", "finished"):
                pair = [answers[answer].astype(float) for answers in (other, quick)]
                error = np.sqrt(sum(values.var() / values.size for values in pair))
                assert abs(pair[0].mean() - pair[1].mean()) < 4 * error
                assert abs(np.log(pair[0].std() / pair[1].std())) < (0.08 if other is tape else 0.12)


@pytest.mark.parametrize("name", ["random", "epsilon-greedy"])
def test_single_operations_are_the_tapes(name: str) -> None:
    kind = next(kind for kind in POLICIES if kind.name == name)
    setting = small(entities=400)
    tape, quick = (simulate(setting.problem(on_tape), built(kind, setting), runs=40) for on_tape in (True, False))
    assert all(np.array_equal(tape[answer], quick[answer]) for answer in tape)
    assert len(np.unique(tape["removed"])) > 5
