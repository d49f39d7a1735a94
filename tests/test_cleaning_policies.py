"""Every cleaning policy against its oracle on shared tapes, and the laws that all of them obey."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxbandit.cleaning.ee import ee, needed
from jaxbandit.cleaning.epsilon_greedy import epsilon_greedy
from jaxbandit.cleaning.family import POLICIES, Setting
from jaxbandit.cleaning.greedy import Greedy
from jaxbandit.cleaning.known_sc import KnownSc
from jaxbandit.cleaning.problem import Outcome, of_table, uniform_false_values
from jaxbandit.cleaning.random import PICK, Random
from jaxbandit.cleaning.sc_pdf import Uniform
from jaxbandit.engine import simulate
from jaxbandit.random import stream, uniform, words
from jaxbandit.random.draws import wide_product
from tests.oracles import cleaning as oracles

ENTITIES, STEPS, MEMORY = 7, 160, 64


@partial(jax.jit, static_argnames="steps")
def record(problem: Any, policy: Any, seed: Any, run: Any, steps: int = STEPS) -> tuple[Any, Any, Any, dict[str, Any]]:
    """A run pull by pull: the pulls, the outcomes, whether it is over, and the answer."""
    key = stream(seed, run)
    instance = problem.draw(key)
    view = problem.view(key, instance)

    def step(state: Any, _: None) -> tuple[Any, tuple[Any, Any]]:
        pull = policy.ask(view, state)
        outcome = problem.pull(key, instance, pull)
        return policy.tell(view, state, pull, outcome), (pull, outcome)

    state, (pulls, outcomes) = jax.lax.scan(step, policy.init(view), None, length=steps)
    return pulls, outcomes, policy.done(view, state), policy.answer(view, state)


class Tape:
    """The run's randomness as an oracle asks for it, from the same addresses that the library uses."""

    def __init__(self, problem: Any, run: int) -> None:
        key = stream(0, np.uint32(run))
        self.view = problem.view(key, problem.draw(key))
        entities = jnp.arange(ENTITIES)
        self.order = [int(e) for e in jax.vmap(self.view.in_random_order)(entities)]
        p = np.asarray(problem.sc_probability(key, entities))
        self.thresholds = (p >> 8 << 8) + np.uint64(128)
        attempts = jnp.arange(4 * STEPS)
        self.words = np.asarray(words(problem.draw(key).outcomes, entities[:, None], attempts[None, :])[0])
        spent = jnp.arange(STEPS)
        self.picks = self._pairs(PICK, spent)
        self.ties = self._pairs(3, spent)
        self.uniforms = np.asarray(uniform(words(self.view.choices, 2, spent)[0]))

    def _pairs(self, purpose: int, index: Any) -> list[int]:
        high, low = (np.asarray(w).astype(object) for w in words(self.view.choices, purpose, index))
        return list(high * 2**32 + low)

    def clean(self, entity: int, attempt: int) -> bool:
        return bool(self.words[entity, attempt] < self.thresholds[entity])


class Walk:
    """EE's choice: the next entity of the random order."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def choose(self, candidates: list[int]) -> int:
        return next(entity for entity in self.tape.order if entity in candidates)


class Bag:
    """The choice among met and unmet entities: a list whose holes the last entry fills, as in ``pool.py``."""

    def __init__(self, tape: Tape, clean: Callable[[int, int], bool]) -> None:
        self.tape, self.spent, self._clean = tape, 0, clean
        self.bag: list[int] = []
        self.met: list[int] = []

    def clean(self, entity: int, attempt: int) -> bool:
        self.spent += 1
        return self._clean(entity, attempt)

    def choose(self, candidates: list[int]) -> int:
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


def expand(pulls: Any, outcomes: Any, clean: Callable[[int, int], bool]) -> list[tuple[int, bool]]:
    made = []
    columns = zip(*(np.asarray(x).tolist() for x in (pulls.entity, pulls.attempt, *outcomes)), strict=True)
    for entity, attempt, cleans, removed in columns:
        tried = [clean(entity, attempt + j) for j in range(cleans)]
        assert sum(tried) == removed
        made += [(entity, success) for success in tried]
    return made


def check(problem: Any, policy: Any, run: int, trace: oracles.Trace, clean: Callable[[int, int], bool]) -> None:
    pulls, outcomes, over, answer = record(problem, policy, 0, np.uint32(run))
    assert bool(over)
    assert expand(pulls, outcomes, clean) == trace.pulls
    assert {name: int(value) for name, value in answer.items()} == {
        "cleans": trace.spent, "removed": trace.removed, "finished": trace.finished
    }  # fmt: skip


false_values = st.lists(st.integers(1, 6), min_size=ENTITIES, max_size=ENTITIES)
budgets = st.integers(1, 120)
runs = st.integers(0, 2**31)


def table(r: list[int], budget: int) -> Any:
    return of_table(budget=budget, false_values=np.array(r), sc_pdf=Uniform(), on_tape=True)


@settings(max_examples=80, deadline=None)
@given(false_values, budgets, runs, st.integers(1, 6), st.integers(0, 1000), st.booleans())
def test_ee_is_its_oracle(r: list[int], budget: int, run: int, t: int, thousandths: int, early: bool) -> None:
    problem = table(r, budget)
    tape = Tape(problem, run)
    q = Fraction(thousandths, 1000)
    trace = oracles.ee(r, budget, t, q, early, Walk(tape).choose, tape.clean)
    check(problem, ee(t, float(q), early), run, trace, tape.clean)


@settings(max_examples=40, deadline=None)
@given(false_values, budgets, runs, st.lists(st.floats(0.05, 1), min_size=ENTITIES, max_size=ENTITIES))
def test_known_sc_is_its_oracle(r: list[int], budget: int, run: int, p: list[float]) -> None:
    problem = of_table(budget=budget, false_values=np.array(r), sc_probabilities=np.array(p), on_tape=True)
    tape = Tape(problem, run)
    check(problem, KnownSc(), run, oracles.known_sc(r, p, budget, tape.clean), tape.clean)


@settings(max_examples=40, deadline=None)
@given(false_values, budgets, runs)
def test_random_is_its_oracle(r: list[int], budget: int, run: int) -> None:
    problem = table(r, budget)
    tape = Tape(problem, run)
    bag = Bag(tape, tape.clean)
    check(problem, Random(MEMORY), run, oracles.random(r, budget, bag.choose, bag.clean), tape.clean)


class GreedyBag(Bag):
    """As ``Bag``, where the one entity with an estimate above 0 is chosen without a draw."""

    def __init__(self, tape: Tape, clean: Callable[[int, int], bool]) -> None:
        super().__init__(tape, clean)
        self.gained: dict[int, int] = {}

    def clean(self, entity: int, attempt: int) -> bool:
        success = super().clean(entity, attempt)
        self.gained[entity] = self.gained.get(entity, 0) + success
        return success

    def choose(self, candidates: list[int]) -> int:
        if len(candidates) == 1 and self.gained.get(candidates[0]):
            return candidates[0]
        return super().choose(candidates)


@settings(max_examples=40, deadline=None)
@given(false_values, budgets, runs)
def test_greedy_is_its_oracle(r: list[int], budget: int, run: int) -> None:
    problem = table(r, budget)
    tape = Tape(problem, run)
    bag = GreedyBag(tape, tape.clean)
    check(problem, Greedy(MEMORY), run, oracles.greedy(r, budget, bag.choose, bag.clean), tape.clean)


class EpsilonBag(GreedyBag):
    """Ties among estimates above 0 are drawn by their order in the bag; all else as in ``Bag``."""

    def __init__(self, tape: Tape, clean: Callable[[int, int], bool], epsilon: float) -> None:
        super().__init__(tape, clean)
        self.epsilon = np.float32(epsilon)
        self.alive: list[int] = []

    def uniform(self) -> float:
        return 0.0 if self.tape.uniforms[self.spent] < self.epsilon else 1.0

    def choose(self, candidates: list[int]) -> int:
        greedy = self.uniform() > 0 and any(self.gained.get(entity) for entity in candidates)
        for gone in [entity for entity in self.bag if self.left[entity] == 0]:
            slot = self.bag.index(gone)
            self.bag[slot] = self.bag[-1]
            self.bag.pop()
        self.bag += [entity for entity in self.met if self.left[entity] and entity not in self.bag]
        if greedy:
            ties = [entity for entity in self.bag if entity in candidates]
            return ties[self.tape.ties[self.spent] * len(ties) >> 64]
        unmet = [entity for entity in self.tape.order if entity not in self.met]
        rank = self.tape.picks[self.spent] * (len(self.bag) + len(unmet)) >> 64
        if rank < len(self.bag):
            return self.bag[rank]
        self.met.append(unmet[0])
        return unmet[0]

    def begin(self, r: list[int]) -> None:
        self.left = dict(enumerate(r))

    def clean(self, entity: int, attempt: int) -> bool:
        success = super().clean(entity, attempt)
        self.left[entity] -= success
        return success


@settings(max_examples=60, deadline=None)
@given(false_values, budgets, runs, st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]))
def test_epsilon_greedy_is_its_oracle(r: list[int], budget: int, run: int, epsilon: float) -> None:
    problem = table(r, budget)
    tape = Tape(problem, run)
    bag = EpsilonBag(tape, tape.clean, epsilon)
    bag.begin(r)
    trace = oracles.epsilon_greedy(r, budget, Fraction(1, 2), bag.uniform, bag.choose, bag.clean)
    check(problem, epsilon_greedy(epsilon, MEMORY), run, trace, tape.clean)


def small(**changes: Any) -> Setting:
    given = {"budget": 400, "entities": 60, "weights": uniform_false_values(0, 5), "sc_pdf": Uniform()} | changes
    return Setting(**given)


@pytest.fixture(params=[kind.name for kind in POLICIES])
def kind(request: pytest.FixtureRequest) -> Any:
    return next(kind for kind in POLICIES if kind.name == request.param)


def built(kind: Any, setting: Setting) -> Any:
    defaults = {parameter.name: parameter.default for parameter in kind.parameters}
    return kind.build(setting, **defaults)[0]


@pytest.mark.smoke
def test_a_pull_of_count_0_changes_nothing(kind: Any) -> None:
    setting = small()
    problem, policy = setting.problem(), built(kind, setting)
    key = stream(3, 5)
    instance = problem.draw(key)
    view = problem.view(key, instance)
    state = policy.init(view)
    step = jax.jit(
        lambda state: (
            pull := policy.ask(view, state),
            policy.tell(view, state, pull, problem.pull(key, instance, pull)),
        )
    )
    nothing = jax.jit(lambda state, pull: policy.tell(view, state, pull, Outcome(jnp.int32(0), jnp.int32(0))))
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
    answers = simulate(rich.problem(), built(kind, rich), runs=8)
    assert (answers["cleans"] < rich.budget).all() or kind.name == "ee"
    if kind.name != "ee":
        assert len(np.unique(answers["removed"] / answers["finished"])) > 1
        assert (answers["finished"] > 25).all()


def test_a_run_that_is_over_asks_for_nothing(kind: Any) -> None:
    setting = small(budget=7)
    pulls, outcomes, over, _ = record(setting.problem(), built(kind, setting), 1, 2, steps=40)
    assert bool(over)
    assert np.asarray(outcomes.cleans).sum() == 7
    assert np.asarray(pulls.cleans)[-10:].max() == 0


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
