"""Extraction policies against their oracle on shared draws, and the laws that all of them obey."""

import itertools
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxbandit.contract import Contract
from jaxbandit.engine import simulate
from jaxbandit.errors import BadInput
from jaxbandit.extraction import queries
from jaxbandit.extraction.bfs import bfs
from jaxbandit.extraction.bootstrap import FEW, drawn, resampled
from jaxbandit.extraction.domains import people_like
from jaxbandit.extraction.estimators import OF_TOTALS
from jaxbandit.extraction.fast.crux import slotted
from jaxbandit.extraction.gs_exact import gs_exact
from jaxbandit.extraction.options import crux
from jaxbandit.extraction.poset import Tree, domain
from jaxbandit.extraction.problem import extraction
from jaxbandit.extraction.rand import rand
from jaxbandit.extraction.retrieved import LIST, RELIST, RESAMPLE, exclude_lists
from jaxbandit.parameters import parameters
from jaxbandit.random import stream, substream, words
from tests.oracles import extraction as oracle

PARENTS = [[0, 0, 0, 0], [0, 0, 0, 1, 1]]
LEAVES = [[1, 2, 3], [2, 3, 4]]
ENTITIES = 40
CONFIGURATIONS = ((2, 0), (4, 0), (2, 1), (4, 3))
LISTS = 3
COPIES = 3
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
    view = Contract(problem, policy).view(key, instance)
    pull = policy.ask(view, state)
    outcome = problem.pull(key, instance, pull)
    return pull, outcome, policy.tell(view, state, pull, outcome), policy.done(view, state)


@jax.jit
def begin(problem, policy, key):
    return policy.init(Contract(problem, policy).view(key, problem.draw(key)))


@jax.jit
def truth(problem, key, node, configuration, exclude, entities):
    view = problem.informed_view(key, problem.draw(key))
    known = jnp.sum(jax.vmap(view.inclusion, (0, None))(entities, node), axis=0)
    return view.expected_gain(node, configuration, exclude, known)


@jax.jit
def issued(problem, key, got, node):
    return exclude_lists(problem.view(key, problem.draw(key)), got, node)


def padded(entities: Any, most: int) -> np.ndarray:
    return np.array([*entities, *[-1] * (most - len(entities))], np.int32)


@jax.jit
def listed(choices, purpose, node, n):
    """The words of a node's exclude lists, (l_max or one more, LISTS)."""
    pairs = (max(length for _, length in CONFIGURATIONS) + 1) // 2
    index = jnp.arange(pairs * LISTS).reshape(pairs, 1, LISTS)
    pair = words(substream(choices, purpose, node), n, index)
    return jnp.concatenate(pair, axis=1).reshape(2 * pairs, LISTS)


@jax.jit
def again(choices, node, f, sizes):
    """The resamples of a node, (COPIES, 64)."""
    found, fits = resampled(substream(choices, RESAMPLE, node[None]), f[None], sizes, COPIES, 64)
    return jnp.where(fits[0], found[0], -1)


@jax.jit
def draws(choices, node, f, sizes):
    """The entities, by rank, that the resamples of a node of few answers draw, (FEW, COPIES)."""
    return drawn(substream(choices, RESAMPLE, node[None]), f[None], sizes[None], COPIES)[:, :, 0]


def answers(state: Any) -> np.ndarray:
    """n of each node."""
    return (state.samples.f * state.samples.sizes).sum(axis=1)


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
        self.small, self.policy, self.key = small, policy, stream(5, np.uint32(run))
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
        self.listed: dict[tuple[int, int, int], Any] = {}
        self.again: dict[tuple[int, int], Any] = {}
        self.issued: dict[int, Any] = {}
        self.since: dict[tuple[int, int], int] = {}
        for number, each in enumerate(self.states):
            if hasattr(each, "samples"):
                for node, n in enumerate(answers(each)):
                    self.since.setdefault((node, int(n)), number)

    def node(self, number: int) -> oracle.Node:
        return self.small.poset.nodes[number]

    def candidate(self, number: int) -> oracle.Candidate:
        pull = self.pulls[number]
        return (self.node(int(pull.node)), *CONFIGURATIONS[int(pull.configuration)])

    def answer(self, query: oracle.Query) -> list[int]:
        return [int(e) for e in self.outcomes[query.round - 1].entity if e >= 0]

    def subset(self, draw: oracle.Draw, items: list[int], size: int) -> list[int]:
        if draw.purpose == "issue" and hasattr(self.policy, "reach"):  # gs-exact draws a list for each candidate
            state = self.states[draw.round - 1]
            number = draw.round - 1
            if number not in self.issued:
                nodes = np.arange(len(self.small.poset.nodes), dtype=np.int32)
                self.issued[number] = np.asarray(issued(self.problem, self.key, state.retrieved, nodes))
            return self.issued[number][self.small.poset.place[draw.node], :size].tolist()
        if draw.purpose == "issue":
            return [int(e) for e in self.pulls[draw.round - 1].exclude if e >= 0]
        node = self.small.poset.place[draw.node]
        here = self.held(draw)
        if draw.purpose == "estimate":
            state = self.states[self.since[node, draw.n]]
            count = dict(zip(state.retrieved.entity.tolist(), state.retrieved.times.tolist(), strict=True))
            order = {e: count[e] for e in here}
        else:
            assert draw.purpose == "bootstrap-exclude"
            order = dict.fromkeys(here, 0) if self.in_bits(draw) else dict(zip(here, self.counts(draw), strict=True))
        # Those that are not of the node come last.
        left = sorted(items, key=lambda e: (order.get(e, 1000), e))
        purpose = LIST if draw.purpose == "estimate" else RELIST
        if (purpose, node, draw.n) not in self.listed:
            found = listed(self.choices, np.uint32(purpose), np.uint32(node), np.uint32(draw.n))
            self.listed[purpose, node, draw.n] = np.asarray(found)
        drawn = []
        for word in self.listed[purpose, node, draw.n][:size, draw.copy]:
            place = int(word) * len(left) >> 32
            drawn.append(left[place])
            if purpose == RELIST and self.in_bits(draw):
                left.pop(place)
            else:
                left[place] = left[-1]
                left.pop()
        return drawn

    def in_bits(self, draw: oracle.Draw) -> bool:
        """Whether a resample keeps its entities apart."""
        return draw.n <= FEW and self.policy.readings.estimator in OF_TOTALS

    def held(self, draw: oracle.Draw) -> list[int]:
        """The entities retrieved at a node when it had draw.n answers, ascending."""
        got = self.states[self.since[self.small.poset.place[draw.node], draw.n]].retrieved
        return sorted(set(got.entity.tolist()) & set(self.small.poset.population(draw.node)))

    def counts(self, draw: oracle.Draw) -> list[int]:
        """The counts of a resample. Whose they are does not matter: the first entities have the largest."""
        node = self.small.poset.place[draw.node]
        if (node, draw.n) not in self.again:
            state = self.states[self.since[node, draw.n]]
            make, samples = draws if self.in_bits(draw) else again, state.samples
            self.again[node, draw.n] = np.asarray(
                make(self.choices, np.int32(node), samples.f[node], samples.sizes[node])
            )
        if self.in_bits(draw):
            entity = self.again[node, draw.n][: draw.n, draw.copy]
            return np.bincount(entity, minlength=len(self.held(draw))).tolist()
        f = self.again[node, draw.n][draw.copy]
        drawn = [i for i in range(len(f), 0, -1) for _ in range(f[i - 1])]
        return drawn + [0] * (len(self.held(draw)) - len(drawn))

    def resample(self, draw: oracle.Draw, counts: list[int]) -> list[int]:
        assert sum(self.counts(draw)) == sum(counts) == draw.n
        return self.counts(draw)

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
        return oracle.Chance(self.subset, self.resample, self.pick)

    def truth(self, node: int, configuration: int, exclude: Any, known: Any) -> Any:
        """The library's expected gain."""
        return truth(self.problem, self.key, node, configuration, padded(exclude, 3), padded(known, ENTITIES))

    def select(self, candidates: list[oracle.Scored]) -> oracle.Scored:
        """The library's choice, which must be as good as the best; its candidates must be the oracle's."""
        number = self.round
        state = self.states[number]
        rule, t = self.policy, jnp.int32(number + 1)
        sigma = np.asarray(queries.sigma(rule.readings, rule.variance_floor, state.variance, state.times_asked, t))
        for scored in candidates:
            node, k, length = scored.candidate
            place, c = self.small.poset.place[node], CONFIGURATIONS.index((k, length))
            assert state.active[c, place], (number, scored)
            assert state.r[c, place] == pytest.approx(scored.r, rel=1e-4, abs=max(self.within, 1e-4)), (
                number,
                scored,
            )
            assert sigma[c, place] == pytest.approx(scored.sigma, rel=2e-3, abs=max(self.within, 1e-4))
        known = {scored.candidate: scored for scored in candidates}
        mine = known[self.candidate(number)]
        best = oracle.first_best(candidates)
        assert mine.score >= best.score * (1 - max(self.within, 1e-5)) - 1e-6
        if not self.within and best.score * (1 - 1e-4) > max((s.score for s in candidates if s is not best), default=0):
            assert mine is best
        self.round += 1
        return mine

    round = 0
    within = 0.0
    """How far gains may be apart: more where a fit by search may end at another of equally good points."""


def agree(script: Script, trace: oracle.Trace) -> None:
    assert [q.node for q in trace.queries] == [script.node(int(p.node)) for p in script.pulls]
    configurations = [CONFIGURATIONS[int(p.configuration)] for p in script.pulls]
    assert [(q.k, q.length) for q in trace.queries] == configurations
    last = script.states[-1].retrieved
    assert last.queries == len(trace.queries)
    assert last.entity[: last.size].tolist() == trace.entities
    assert Fraction(int(last.spent), script.small.units) == trace.spent
    assert last.used.tolist() == [configurations.count(c) for c in CONFIGURATIONS]
    assert last.code == 0


def agree_on_actions(script: Script, trace: oracle.Trace) -> None:
    for number, (state, active) in enumerate(zip(script.states, trace.active, strict=True)):
        slots = zip(*np.nonzero(state.active), strict=True)
        mine = {(script.node(int(s)), *CONFIGURATIONS[c]) for c, s in slots}
        assert mine == set(active), number


CASES = [
    ("chao92", COPIES, {}),
    (
        "good-turing",
        0,
        {
            "removal": "none", "unseen": "one", "never_asked": "plus-one", "affordable": "less", "exclude_from": "all",
            "short_list": "actual",
        },
    ),
    (
        "hwang-shen",
        COPIES,
        {
            "removal": "fresh", "asked_by": "node", "short_list": "unavailable", "empty": "ignored",
            "gain": "bootstrap-mean", "exclude_from": "all",
        },
    ),
    (
        "new-regr-same",
        0,
        {"reentry": False, "removal_at_start": False, "never_asked": "infinite", "empty": "always"},
    ),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "copies", "readings"), CASES)
def test_crux_equals_its_oracle(estimator, copies, readings):
    """Query for query, and each round's candidates, gains, deviations and active queries."""
    small = Domain(0, "step" if readings else "linear")
    budget = 5 if readings else 14
    policy = crux(estimator, bootstrap=copies, variance="bootstrap", exclude_draws=LISTS, **readings)
    told = oracle.Readings(
        bootstrap=copies, exclude_draws=LISTS,
        **readings,
    )  # fmt: skip
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
    assert pulls > 30
    # The longer runs meet exclude lists and empty answers.
    assert not readings or excluded > 0 or empty > 0
    assert not copies or max(state.variance.max() for state in script.states) > float(policy.variance_floor)


@pytest.mark.slow
def test_new_regr_with_a_past_equals_its_oracle(monkeypatch):
    """The library's past begins when a node becomes active, the oracle's with the first answer: cut to be the same."""
    small = Domain(0)
    policy = crux("new-regr", bootstrap=0, exclude_draws=LISTS, removal="none")
    script = Script(small, policy, 14, 0)
    active: dict[int, int] = {}
    for state in script.states:
        for node, n in enumerate(answers(state)):
            if state.entered[node]:
                active.setdefault(node, int(n))

    class Young(oracle.Agent):
        def estimate(self, estimator, candidate):
            node = candidate[0]
            since = active[small.poset.place[node]]
            self.history[node] = [pair for pair in self.history.get(node, []) if pair[0] > since]
            return super().estimate(estimator, candidate)

    monkeypatch.setattr(oracle, "Agent", Young)
    told = oracle.Readings(bootstrap=0, exclude_draws=LISTS, removal="none")
    script.within = 0.02
    trace = oracle.crux(small.told(14), oracle.new_regr, script.answer, script.chance(), told, select=script.select)
    agree(script, trace)
    assert (script.states[-1].samples.pairs >= 3).any()


@pytest.mark.slow
def test_root_chao_equals_its_oracle():
    small = Domain(0)
    policy = crux(grow=False, bootstrap=COPIES, variance="bootstrap", exclude_draws=LISTS)
    script = Script(small, policy, 14, 0)
    told = oracle.Readings(bootstrap=COPIES, exclude_draws=LISTS)
    trace = oracle.root_chao(small.told(14), script.answer, script.chance(), told, select=script.select)
    agree(script, trace)
    agree_on_actions(script, trace)
    assert {int(p.node) for p in script.pulls} == {0}


@pytest.mark.parametrize("reach", ["frontier", "all"])
def test_gs_exact_equals_its_oracle(reach):
    small = Domain(0, "step")
    policy = gs_exact(reach=reach)
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

        trace = oracle.gs_exact(small.told(5), gain, script.answer, script.chance(), reach=reach, select=select)
        agree(script, trace)
        assert len(script.pulls) > 6


@pytest.mark.slow
@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("dear", ["avoid", "stop"])
def test_rand_equals_its_oracle(leaves, dear):
    small = Domain(0)
    script = Script(small, rand(leaves=leaves, dear=dear), 14, 3)
    baseline = oracle.rand_leaf if leaves else oracle.rand
    trace = baseline(small.told(14), script.answer, script.chance(), dear=dear)
    agree(script, trace)
    assert len(trace.queries) > 3


@pytest.mark.slow
@pytest.mark.parametrize("configuration", [None, (4, 0)])
@pytest.mark.parametrize("dear", ["stop", "skip"])
def test_bfs_equals_its_oracle(configuration, dear):
    small = Domain(0)
    policy = bfs(configuration, dear=dear)
    for run in range(2):
        script = Script(small, policy, 14, run)
        trace = oracle.bfs(small.told(14), script.answer, script.chance(), configuration=configuration, dear=dear)
        agree(script, trace)
        assert len(trace.queries) > 5


@pytest.mark.slow
def test_capacities_are_a_result_code_and_the_budget_holds():
    """Too few slots or columns leave something out and say so; enough of them do not; no run overspends."""
    problem = extraction(Domain(0).domain, 30, configurations=CONFIGURATIONS)
    for code, room in ((1, {"slots": 1, "columns": 3}), (0, {})):
        rule = crux(removal="none", bootstrap=0, exclude_draws=1)
        found = simulate(problem, slotted(rule, problem, **room), runs=8, seed=1)
        assert found["code"].max() == code
        assert found["nodes"].max() <= 16 or not room
        assert (found["spent"] <= int(problem.budget)).all()
        assert (found["queries"] == found["configurations"].sum(axis=-1)).all()
        assert (found["entities"] > 0).all()


@pytest.mark.slow
def test_queries_without_exclude_lists():
    """With no l above 0 nothing is excluded, and gains are those of the sample alone: exclude_draws changes nothing."""
    problem = extraction(Domain(0).domain, 14, configurations=[(1, 0), (3, 0)])
    once, often = (simulate(problem, crux(bootstrap=2, exclude_draws=draws), runs=8, seed=1) for draws in (1, 3))
    for name, values in once.items():
        assert np.array_equal(values, often[name]), name
    assert (once["queries"] == once["configurations"].sum(axis=-1)).all()
    assert (once["entities"] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("answers", ["proportional", "k-largest"])
def test_the_estimator_decides_what_is_asked(answers):
    """On the people's domain no two estimators ask the same queries in all runs. With v_q on its floor all four do."""
    problems = [extraction(people_like(), budget, answers=answers, largest_budget=100) for budget in (50, 100)]
    names = ("chao92", "hwang-shen", "new-regr", "good-turing")
    found = {name: simulate(problems, crux(name), runs=8, seed=0) for name in names}
    for one, other in itertools.combinations(names, 2):
        for number in range(len(problems)):
            asked = [found[name]["configurations"][number] for name in (one, other)]
            assert not np.array_equal(*asked), (one, other, number)


def test_runs_do_not_depend_on_their_neighbours():
    """However many lanes there are, some of which get empty answers when others do not."""
    problem = extraction(Domain(0).domain, 14, configurations=CONFIGURATIONS)
    policy = crux(exclude_draws=1)
    few, many = (simulate(problem, policy, runs=24, seed=1, lanes=lanes) for lanes in (3, 24))
    for name, values in few.items():
        assert np.array_equal(values, many[name]), name


def test_what_a_user_may_get_wrong():
    for wrong in (
        {"estimator": "chao"},
        {"removal": "some"},
        {"prior": -1},
        {"unseen": "two"},
        {"variance": "floor"},
        {"bootstrap": -1},
    ):
        with pytest.raises(BadInput, match=rf"^{next(iter(wrong))} = "):
            crux(**wrong)
    with pytest.raises(BadInput, match=r"^bootstrap = "):
        crux(gain="bootstrap-mean", bootstrap=0)
    (variance,) = (each for each in parameters(crux) if each.name == "variance")
    for gain in ("sample", "bootstrap-mean"):  # the mean over resamples has their variance
        assert variance.matters({"estimator": "chao92", "bootstrap": 10, "gain": gain}) is (gain == "sample")
    with pytest.raises(BadInput, match=r"^dear = "):
        rand(dear="buy")
    problem = extraction(Domain(0).domain, 9, configurations=CONFIGURATIONS)
    with pytest.raises(BadInput, match=r"^configuration = "):
        simulate(problem, bfs((5, 9)), runs=1)
    with pytest.raises(BadInput, match=r"^problem = "):
        simulate(problem, gs_exact(), runs=1)
