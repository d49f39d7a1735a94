"""Extraction policies against their oracle on shared draws, and the laws that all of them obey."""

from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxbandit.extraction.crux import crux
from jaxbandit.extraction.poset import Tree, domain
from jaxbandit.extraction.problem import extraction
from jaxbandit.extraction.retrieved import LIST
from jaxbandit.random import stream, substream, words
from tests.oracles import extraction as oracle

PARENTS = [[0, 0, 0, 0], [0, 0, 0, 1, 1]]
LEAVES = [[1, 2, 3], [2, 3, 4]]
ENTITIES = 40
CONFIGURATIONS = ((2, 0), (4, 0), (2, 1), (4, 3))
LISTS = 3
ORACLES = {
    "good-turing": oracle.good_turing,
    "chao92": oracle.chao92_shen,
    "hwang-shen": oracle.hwang_shen,
    "new-regr-same": oracle.new_regr_same,
}


@partial(jax.jit, static_argnums=())
def step(problem, policy, key, state):
    """One round, with all that a test wants to see of it."""
    instance = problem.draw(key)
    view = problem.view(key, instance)
    pull = policy.ask(view, state)
    outcome = problem.pull(key, instance, pull)
    return pull, outcome, policy.tell(view, state, pull, outcome), policy.done(view, state)


@jax.jit
def begin(problem, policy, key):
    return policy.init(problem.view(key, problem.draw(key)))


@jax.jit
def listed(choices, node, n):
    """The words of a node's exclude lists, (LISTS, l_max + 1)."""
    pairs = (max(length for _, length in CONFIGURATIONS) + 1) // 2
    pair = words(substream(choices, LIST, node), n, jnp.arange(LISTS * pairs).reshape(LISTS, pairs))
    return jnp.stack(pair, axis=-1).reshape(LISTS, 2 * pairs)


class Domain:
    """A small skewed domain, as the library has it and as the oracle has it."""

    def __init__(self, seed: int, cost: str = "linear") -> None:
        rng = np.random.default_rng(seed)
        self.places = np.stack([rng.choice(some, ENTITIES) for some in LEAVES], axis=1)
        self.weights = np.exp(rng.normal(0, 1.5, ENTITIES))
        trees = tuple(Tree(np.array(p, np.int32), ("",) * len(p)) for p in PARENTS)
        self.domain = domain(trees, self.places, self.weights)
        self.poset = oracle.Poset(PARENTS, [tuple(map(int, row)) for row in self.places])
        assert [tuple(map(int, v)) for v in self.domain.values] == self.poset.nodes
        self.cost = cost

    def problem(self, budget: float) -> Any:
        return extraction(self.domain, budget, configurations=CONFIGURATIONS, cost=self.cost, on_tape=True)

    def told(self, budget: float) -> oracle.Problem:
        def cost(k, length, s):
            return (
                oracle.linear_cost(k, length, s, s_max=2) if self.cost == "linear" else oracle.step_cost(k, length, s)
            )

        return oracle.Problem(self.poset, CONFIGURATIONS, cost, Fraction(budget))


class Script:
    """A run of the library's policy, round by round, and the same draws for the oracle."""

    def __init__(self, small: Domain, policy: Any, budget: float, run: int) -> None:
        self.small, self.key = small, stream(5, np.uint32(run))
        problem = small.problem(budget)
        state = begin(problem, policy, self.key)
        self.pulls, self.outcomes, self.states = [], [], [jax.device_get(state)]
        while True:
            pull, outcome, state, done = jax.device_get(step(problem, policy, self.key, state))
            assert done == ~pull.asked
            if done:
                break
            self.pulls.append(pull)
            self.outcomes.append(outcome)
            self.states.append(state)
        self.choices = problem.view(self.key, problem.draw(self.key)).choices
        self.listed: dict[tuple[int, int], Any] = {}
        self.since: dict[tuple[int, int], int] = {}
        for number, each in enumerate(self.states):
            if hasattr(each, "f"):
                for node, n in zip(each.node, each.f @ each.sizes, strict=True):
                    self.since.setdefault((int(node), int(n)), number)

    def node(self, number: int) -> oracle.Node:
        return self.small.poset.nodes[number]

    def candidate(self, number: int) -> oracle.Candidate:
        pull = self.pulls[number]
        return (self.node(int(pull.node)), *CONFIGURATIONS[int(pull.configuration)])

    def answer(self, query: oracle.Query) -> list[int]:
        return [int(e) for e in self.outcomes[query.round - 1].entity if e >= 0]

    def subset(self, draw: oracle.Draw, items: list[int], size: int) -> list[int]:
        if draw.purpose == "issue":
            return [int(e) for e in self.pulls[draw.round - 1].exclude if e >= 0]
        assert draw.purpose == "estimate"
        node = self.small.poset.place[draw.node]
        state = self.states[self.since[node, draw.n]]
        count = dict(zip(state.got.entity.tolist(), state.got.times.tolist(), strict=True))
        column = {int(i): v for v, i in enumerate(state.sizes)}
        left = sorted(items, key=lambda e: (column[count[e]], e))
        if (node, draw.n) not in self.listed:
            self.listed[node, draw.n] = np.asarray(listed(self.choices, np.uint32(node), np.uint32(draw.n)))
        word = self.listed[node, draw.n][draw.copy]
        return [left.pop(int(word[j]) * len(left) >> 32) for j in range(size)]

    def chance(self) -> oracle.Chance:
        def never(*_):
            raise AssertionError("no such choice is due")

        return oracle.Chance(self.subset, never, never)

    def select(self, candidates: list[oracle.Scored]) -> oracle.Scored:
        """The library's choice, which must be as good as the best; its candidates must be the oracle's."""
        number = self.round
        state = self.states[number]
        slot = {int(node): s for s, node in enumerate(state.node)}
        for scored in candidates:
            node, k, length = scored.candidate
            place, c = slot[self.small.poset.place[node]], CONFIGURATIONS.index((k, length))
            assert state.active[place, c], (number, scored)
            assert state.gain[place, c] == pytest.approx(scored.r, rel=1e-4, abs=1e-4), (number, scored)
            assert state.variance[place, c] >= 0
        known = {scored.candidate: scored for scored in candidates}
        mine = known[self.candidate(number)]
        best = oracle.first_best(candidates)
        assert mine.score >= best.score * (1 - 1e-5) - 1e-6
        if best.score * (1 - 1e-4) > max((s.score for s in candidates if s is not best), default=0):
            assert mine is best
        self.round += 1
        return mine

    round = 0


def agree(script: Script, trace: oracle.Trace) -> None:
    assert [q.node for q in trace.queries] == [script.node(int(p.node)) for p in script.pulls]
    last = script.states[-1]
    assert last.got.queries == len(trace.queries)
    assert last.got.size == len(trace.entities)
    assert last.got.entity[: last.got.size].tolist() == trace.entities
    assert Fraction(int(last.got.spent), script.small.problem(9).units) == trace.spent
    assert last.got.code == 0
    for number, (state, active) in enumerate(zip(script.states, trace.active, strict=True)):
        mine = {
            (script.node(int(state.node[s])), *CONFIGURATIONS[c])
            for s, c in zip(*np.nonzero(state.active), strict=True)
        }
        assert mine == set(active), number


def follow(small: Domain, estimator: str, budget: float, run: int, **readings: Any) -> Script:
    policy = crux(small.problem(budget), estimator, exclude_draws=LISTS, **readings)
    script = Script(small, policy, budget, run)
    told = oracle.Readings(bootstrap=0, exclude_draws=LISTS, **readings)
    trace = oracle.crux(
        small.told(budget), ORACLES[estimator], script.answer, script.chance(), told, select=script.select
    )
    agree(script, trace)
    return script


@pytest.mark.parametrize("estimator", ORACLES)
@pytest.mark.parametrize("removal", ["lasting", "none"])
def test_crux_equals_its_oracle(estimator, removal):
    for run in range(3):
        script = follow(Domain(run), estimator, 12, run, removal=removal)
        assert len(script.pulls) > 8
