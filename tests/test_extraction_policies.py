"""Extraction policies against their oracle on shared draws, and the laws that all of them obey."""

from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxbandit.extraction.bfs import bfs
from jaxbandit.extraction.crux import crux
from jaxbandit.extraction.gs_exact import gs_exact
from jaxbandit.extraction.poset import Tree, domain
from jaxbandit.extraction.problem import extraction
from jaxbandit.extraction.rand import rand
from jaxbandit.extraction.retrieved import LIST, exclude_lists
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


@jax.jit
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
def truth(problem, key, node, configuration, exclude, entities):
    view = problem.view(key, problem.draw(key))
    known = jnp.sum(jax.vmap(view.inclusion, (0, None))(entities, node), axis=0)
    return view.expected_gain(node, configuration, exclude, known)


@jax.jit
def issued(problem, key, got, node):
    return exclude_lists(problem.view(key, problem.draw(key)), got, node)


def padded(entities: Any, most: int) -> np.ndarray:
    return np.array([*entities, *[-1] * (most - len(entities))], np.int32)


@jax.jit
def listed(choices, node, n):
    """The words of a node's exclude lists, (l_max or one more, LISTS)."""
    pairs = (max(length for _, length in CONFIGURATIONS) + 1) // 2
    index = jnp.arange(pairs * LISTS).reshape(pairs, 1, LISTS)
    pair = words(substream(choices, LIST, node), n, index)
    return jnp.concatenate(pair, axis=1).reshape(2 * pairs, LISTS)


class Domain:
    """A small skewed domain, as the library has it and as the oracle has it."""

    def __init__(self, seed: int, cost: str = "linear") -> None:
        rng = np.random.default_rng(seed)
        self.places = np.stack([rng.choice(some, ENTITIES) for some in LEAVES], axis=1)
        self.weights = np.exp(rng.normal(0, 1.5, ENTITIES))
        self.weights[(self.places == [2, 3]).all(axis=1)] = 0  # a node whose answers are empty
        trees = tuple(Tree(np.array(p, np.int32), ("",) * len(p)) for p in PARENTS)
        self.domain = domain(trees, self.places, self.weights)
        self.poset = oracle.Poset(PARENTS, [tuple(map(int, row)) for row in self.places])
        assert [tuple(map(int, v)) for v in self.domain.values] == self.poset.nodes
        self.cost = cost

    def problem(self, budget: float) -> Any:
        return extraction(
            self.domain, budget, configurations=CONFIGURATIONS, cost=self.cost, informed=True, on_tape=True
        )

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
        self.problem = problem = small.problem(budget)
        small.units = problem.units
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
        self.issued: dict[int, Any] = {}
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
        if draw.purpose == "issue" and hasattr(self.states[0], "known"):  # gs-exact draws a list for each candidate
            state = self.states[draw.round - 1]
            number = draw.round - 1
            if number not in self.issued:
                self.issued[number] = np.asarray(issued(self.problem, self.key, state.got, state.node))
            slot = state.node.tolist().index(self.small.poset.place[draw.node])
            return self.issued[number][slot, :size].tolist()
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
        drawn = []
        for word in self.listed[node, draw.n][:size, draw.copy]:
            place = int(word) * len(left) >> 32
            drawn.append(left[place])
            left[place] = left[-1]
            left.pop()
        return drawn

    def pick(self, draw: oracle.Draw, items: list[Any]) -> Any:
        """A baseline's choice; past the last query, one that ends the run."""
        if draw.purpose == "pick-configuration":
            nodes = [int(p.node) for p in self.pulls]
            node = self.small.poset.place[draw.node]
            return self.candidate(nodes.index(node))[1:] if node in nodes else self.dearest(items)
        return self.candidate(draw.round - 1) if draw.round <= len(self.pulls) else self.dearest(items)

    def dearest(self, items: list[Any]) -> Any:
        return max(items, key=lambda q: self.small.told(1).cost(*q[-2:], 2))

    def chance(self) -> oracle.Chance:
        def never(*_):
            raise AssertionError("no such choice is due")

        return oracle.Chance(self.subset, never, self.pick)

    def truth(self, node: int, configuration: int, exclude: Any, known: Any) -> Any:
        """The library's expected gain."""
        return truth(self.problem, self.key, node, configuration, padded(exclude, 3), padded(known, ENTITIES))

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
    configurations = [CONFIGURATIONS[int(p.configuration)] for p in script.pulls]
    assert [(q.k, q.length) for q in trace.queries] == configurations
    last = script.states[-1].got
    assert last.queries == len(trace.queries)
    assert last.entity[: last.size].tolist() == trace.entities
    assert Fraction(int(last.spent), script.small.units) == trace.spent
    assert last.used.tolist() == [configurations.count(c) for c in CONFIGURATIONS]
    assert last.code == 0


def agree_on_actions(script: Script, trace: oracle.Trace) -> None:
    for number, (state, active) in enumerate(zip(script.states, trace.active, strict=True)):
        slots = zip(*np.nonzero(state.active), strict=True)
        mine = {(script.node(int(state.node[s])), *CONFIGURATIONS[c]) for s, c in slots}
        assert mine == set(active), number


CASES = [
    ("chao92", {}),
    ("good-turing", {"removal": "none", "unseen": "one", "never_asked": "plus-one", "affordable": "less"}),
    ("hwang-shen", {"removal": "fresh", "asked_by": "node", "short_list": "unavailable", "empty": "ignored"}),
    (
        "new-regr-same",
        {"reentry": False, "removal_at_start": False, "never_asked": "infinite", "empty": "always"},
    ),
]


@pytest.mark.parametrize(("estimator", "readings"), CASES)
def test_crux_equals_its_oracle(estimator, readings):
    """Query for query, and each round's candidates, gains and active queries."""
    small = Domain(0, "step" if readings else "linear")
    budget = 5 if readings else 14
    policy = crux(small.problem(budget), estimator, exclude_draws=LISTS, **readings)
    told = oracle.Readings(bootstrap=0, exclude_draws=LISTS, **readings)
    pulls, excluded, empty = 0, 0, 0
    for run in range(4):
        script = Script(small, policy, budget, run)
        trace = oracle.crux(
            small.told(budget), ORACLES[estimator], script.answer, script.chance(), told, select=script.select
        )
        agree(script, trace)
        agree_on_actions(script, trace)
        pulls += len(script.pulls)
        excluded += sum((p.exclude >= 0).any() for p in script.pulls)
        empty += sum(not len(a) for a in trace.answers)
    print(estimator, pulls, excluded, empty)
    assert pulls > 30


def test_root_chao_equals_its_oracle():
    small = Domain(0)
    policy = crux(small.problem(14), grow=False, exclude_draws=LISTS)
    script = Script(small, policy, 14, 0)
    told = oracle.Readings(bootstrap=0, exclude_draws=LISTS)
    trace = oracle.root_chao(small.told(14), script.answer, script.chance(), told, select=script.select)
    agree(script, trace)
    agree_on_actions(script, trace)
    assert {int(p.node) for p in script.pulls} == {0}


def test_gs_exact_equals_its_oracle():
    small = Domain(0, "step")
    policy = gs_exact(small.problem(5))
    for run in range(2):
        script = Script(small, policy, 5, run)

        def gain(query, known, script=script):
            node = small.poset.place[query.node]
            number = CONFIGURATIONS.index((query.k, query.length))
            return float(script.truth(node, number, query.exclude, known))

        def select(candidates, script=script):
            script.round += 1
            scored = {each.candidate: each for each in candidates}
            mine = scored[script.candidate(script.round - 1)]
            assert mine.score >= oracle.first_best(candidates).score * (1 - 1e-4) - 1e-6
            return mine

        trace = oracle.gs_exact(small.told(5), gain, script.answer, script.chance(), select=select)
        agree(script, trace)
        assert len(script.pulls) > 6


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("dear", ["avoid", "stop"])
def test_rand_equals_its_oracle(leaves, dear):
    small = Domain(0)
    script = Script(small, rand(small.problem(14), leaves=leaves, dear=dear), 14, 3)
    baseline = oracle.rand_leaf if leaves else oracle.rand
    trace = baseline(small.told(14), script.answer, script.chance(), dear=dear)
    agree(script, trace)
    assert len(trace.queries) > 3


@pytest.mark.parametrize("configuration", [None, (4, 0)])
@pytest.mark.parametrize("dear", ["stop", "skip"])
def test_bfs_equals_its_oracle(configuration, dear):
    small = Domain(0)
    policy = bfs(small.problem(14), configuration, dear=dear)
    for run in range(2):
        script = Script(small, policy, 14, run)
        trace = oracle.bfs(small.told(14), script.answer, script.chance(), configuration=configuration, dear=dear)
        agree(script, trace)
        assert len(trace.queries) > 5
