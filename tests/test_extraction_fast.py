"""Each extraction policy's faster implementation against its rule: the same queries on the same answers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxbandit.contract import Contract
from jaxbandit.engine import simulate
from jaxbandit.extraction import Domain, Tree, domain, extraction
from jaxbandit.extraction.bfs import bfs
from jaxbandit.extraction.fast import slots
from jaxbandit.extraction.fast.crux import SlottedCrux, slotted
from jaxbandit.extraction.gs_exact import gs_exact
from jaxbandit.extraction.options import crux, root_chao
from jaxbandit.extraction.rand import rand
from jaxbandit.grammar import accelerated
from jaxbandit.random import stream
from jaxbandit.xla.options import options_for

PARENTS = [[0, 0, 0, 0], [0, 0, 0, 1, 1]]
LEAVES = [[1, 2, 3], [2, 3, 4]]
LISTS = ((2, 0), (4, 0), (2, 1), (4, 3))
RUNS = 24


def small(entities: int = 40) -> Domain:
    """A skewed domain with a node whose answers are empty."""
    rng = np.random.default_rng(0)
    places = np.stack([rng.choice(some, entities) for some in LEAVES], axis=1)
    weights = np.exp(rng.normal(0, 1.5, entities))
    weights[(places == [2, 3]).all(axis=1)] = 0
    return domain(tuple(Tree(np.array(p, np.int32), ("",) * len(p)) for p in PARENTS), places, weights)


def asked(problem: Any, policy: Any, steps: int) -> Any:
    """All pulls of some runs, (RUNS, steps, ...)."""

    def run(number: Any) -> Any:
        pair, key = Contract(problem, policy), stream(7, number)
        instance = pair.draw(key)
        view = pair.view(key, instance)

        def step(state: Any, _: Any) -> tuple[Any, Any]:
            pull = pair.ask(view, state)
            after = pair.tell(view, state, pull, pair.pull(key, instance, pull))
            return jax.tree.map(lambda new, old: jnp.where(pull.asked, new, old), after, state), pull

        state, pulls = lax.scan(step, pair.init(view), length=steps)
        return pulls, pair.answer(view, instance, state)

    # As the engine compiles: else the order of a sum of floats would depend on the shapes.
    together = jax.jit(jax.vmap(run), compiler_options=options_for("cpu"))
    return jax.device_get(together(jnp.arange(RUNS, dtype=jnp.uint32)))


def same(problem: Any, rule: Any, fast: Any, steps: int = 64) -> np.ndarray:
    """Nodes asked, where the two ask the same queries to the end and answer alike."""
    (slow, told), (quick, found) = asked(problem, rule, steps), asked(problem, fast, steps)
    assert not slow.asked[:, -1].any(), "runs that are not over"
    for name in ("asked", "number", "exclude", "node", "configuration"):
        ours, theirs = getattr(quick, name), getattr(slow, name)
        over = ~slow.asked if ours.ndim == 2 else ~slow.asked[:, :, None]
        assert np.array_equal(np.where(over, 0, ours), np.where(over, 0, theirs)), name
    for name in told:
        assert np.array_equal(found[name], told[name]), name
    assert (told["code"] == 0).all()
    return slow.node[slow.asked]


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "chao92": ({}, {"exclude_draws": 3}),
    "chao92, resamples": (
        {"answers": "k-largest"},
        {"variance": "bootstrap", "removal": "fresh", "bootstrap": 3, "short_list": "unavailable"},
    ),
    "good-turing": (
        {"answers": "k-largest", "cost": "step"},
        {"estimator": "good-turing", "exclude_from": "all", "short_list": "actual", "removal": "none",
         "empty": "always", "never_asked": "plus-one", "affordable": "less", "unseen": "one"},
    ),
    "hwang-shen": (
        {"cost": "step"},
        {"estimator": "hwang-shen", "bootstrap": 3, "gain": "bootstrap-mean", "exclude_draws": 2, "removal": "none",
         "asked_by": "node", "empty": "ignored"},
    ),
    "new-regr": (
        {"answers": "k-largest", "budget": 3},
        {"estimator": "new-regr", "bootstrap": 2, "exclude_draws": 2, "removal": "fresh", "reentry": False,
         "removal_at_start": False, "exclude_from": "all"},
    ),
    "clocks": (
        {"configurations": ((2, 0), (4, 0))},
        {"estimator": "clocks", "bootstrap": 0, "never_asked": "infinite", "prior": 20.0, "removal": "fresh"},
    ),
}  # fmt: skip


MADE = {"chao92", "good-turing", "new-regr"}
SLOW = MADE | {"hwang-shen"}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.slow] if case in SLOW else []) for case in CASES],
)
def test_fast_crux_equals_the_rule(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some with slots for all nodes from the beginning; some as in large domains, where they are made, and scored in
    parts. Between them the cases have each estimator, answer model, cost, exclude list and way to a variance."""
    (given, options), made = CASES[case], case in MADE
    problem = extraction(small(), **({"budget": 5, "configurations": LISTS} | given))
    rule = crux(**options)
    fast = slotted(rule, problem, columns=problem.room.queries, wide=0 if made else 64)
    assert isinstance(fast, SlottedCrux)
    assert bool(fast.layout.all_nodes) is not made
    if made:
        monkeypatch.setattr(slots, "PART", 16)
    nodes = same(problem, rule, fast)
    assert len(np.unique(nodes)) > 3


def test_a_query_that_does_not_exist_yet_removes_no_other() -> None:
    """At first nothing can be excluded: (2, 1) would bring more than (1, 0), but is not there."""
    problem = extraction(small(), 5, configurations=((1, 0), (2, 1)))
    rule = crux(short_list="unavailable", bootstrap=0, exclude_draws=1)
    fast, plain = (simulate(problem, rule, runs=8, implementation=word) for word in ("fast", "reference"))
    for name, values in plain.items():
        assert np.array_equal(values, fast[name]), name
    assert (plain["configurations"] > 0).all()


def test_fast_root_chao_equals_the_rule() -> None:
    problem, rule = extraction(small(), 5, configurations=LISTS), root_chao()
    assert set(same(problem, rule, slotted(rule, problem, columns=problem.room.queries))) == {0}


@pytest.mark.parametrize(
    ("rule", "answers"),
    [
        (bfs(), "k-largest"),
        (bfs((2, 1), dear="skip"), "proportional"),
        (rand(), "proportional"),
        (rand(leaves=True, dear="stop"), "k-largest"),
        (gs_exact(), "k-largest"),
        (gs_exact(reach="all"), "proportional"),
    ],
    ids=["bfs", "bfs skips", "rand", "rand-leaf", "gs-exact", "gs-exact, all"],
)
def test_fast_baselines_equal_their_rules(rule: Any, answers: str) -> None:
    given = {"answers": answers, "configurations": LISTS, "cost": "step" if answers == "k-largest" else "linear"}
    problem = extraction(small(), 5, informed=getattr(rule, "informed", False), **given)
    fast = accelerated(rule, problem)
    assert type(fast) is not type(rule)
    assert len(np.unique(same(problem, rule, fast))) > 3


def test_the_engine_takes_the_rule_if_it_is_told_to() -> None:
    """And then runs it to the same end."""
    problem, rule = extraction(small(), 2, configurations=LISTS), rand()
    fast, slow = (simulate(problem, rule, runs=8, implementation=word) for word in ("fast", "reference"))
    for name, values in fast.items():
        assert np.array_equal(values, slow[name]), name


def test_a_hierarchy_of_one_node() -> None:
    alone = domain((Tree(np.array([0]), ("",)),), np.zeros((4, 1), np.int32), np.full(4, 0.25))
    problem = extraction(alone, configurations=((2, 0), (3, 1)), budget=5.0)
    for rule in (bfs(), rand()):
        fast, plain = (
            simulate(problem, rule, runs=4, implementation=way, progress=False) for way in ("fast", "reference")
        )
        for name, values in plain.items():
            np.testing.assert_array_equal(values, fast[name], name)
