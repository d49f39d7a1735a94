"""Every top-K rule against its oracle on shared tapes, and the laws that all of them obey."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxbandit import BadInput, check, simulate
from jaxbandit.arms.models import Model
from jaxbandit.arms.problem import Arms, Instance, Pull, arms, given
from jaxbandit.arms.records import replay
from jaxbandit.arms.rewards import Bernoulli, Bounded, Rewards, Scale
from jaxbandit.grammar import Implementation, accelerated
from jaxbandit.parameters import parameters
from jaxbandit.random import stream, substream, words
from jaxbandit.registry import parse
from jaxbandit.study.spec import Study
from jaxbandit.topk.family import FAMILY, Setting
from jaxbandit.topk.fast import blocks
from jaxbandit.topk.fast.lucb import LucbByTurns
from jaxbandit.topk.halving import sequential_halving
from jaxbandit.topk.index_policy import IndexPolicy
from jaxbandit.topk.lucb import ODD, Lucb, lucb
from jaxbandit.topk.optmai import optmai
from jaxbandit.topk.sar import phases, sar
from jaxbandit.topk.shares import printed_beta
from jaxbandit.topk.uniform import Uniform, uniform
from tests.oracles import topk as oracles

LONGEST = 512  # rewards of an arm that a tape holds


@partial(jax.jit, static_argnames="steps")
def record(problem: Any, policy: Any, run: Any, steps: int) -> dict[str, Any]:
    """A run to its end: the answers, the arms chosen, the pulls of each arm, and the sequence of single pulls."""
    key = stream(0, run)
    instance = problem.draw(key)
    view = problem.view(key, instance)

    def step(carry: Any) -> Any:
        number, state, pulls, sequence = carry
        pull = policy.ask(view, state)
        outcome = problem.pull(key, instance, pull)
        pair = jnp.where(jnp.arange(2) < pull.used, pull.arm[jnp.minimum(jnp.arange(2), pull.arm.shape[0] - 1)], -1)
        sequence = sequence.at[number].set(pair)
        return number + 1, policy.tell(view, state, pull, outcome), pulls.at[pull.arm].add(outcome.made), sequence

    start = (jnp.int32(0), policy.init(view), jnp.zeros(view.arms, jnp.int32), jnp.full((steps, 2), -1, jnp.int32))
    number, state, pulls, sequence = lax.while_loop(
        lambda carry: ~policy.done(view, carry[1]) & (carry[0] < steps), step, start
    )
    answer = policy.answer(view, state)
    told = {**problem.score(instance, answer), "chosen": answer["chosen"]}
    return told | {"counted": pulls, "steps": number, "sequence": sequence}


@partial(jax.jit, static_argnames="steps")
def record_turns(problem: Any, policy: Any, run: Any, steps: int) -> dict[str, Any]:
    """The same of LUCB, whose pulls follow one from another: of ``policy.turns`` 1, turn by turn."""
    key = stream(0, run)
    instance = problem.draw(key)
    view = problem.view(key, instance)

    def step(carry: Any) -> Any:
        number, state, sequence = carry
        then = policy.advance(view, state, lambda pull: problem.pull(key, instance, pull))
        two = jnp.stack([state.weak, state.strong])
        slots = state.slots.all()
        more = then.slots.all().made[two] > slots.made[two]
        pair = jnp.where(more & (state.round > 0) & (state.turn == 0), slots.arm[two], -1)
        return number + 1, then, sequence.at[number].set(pair)

    start = jnp.int32(0), policy.init(view), jnp.full((steps, 2), -1, jnp.int32)
    number, state, sequence = lax.while_loop(
        lambda carry: ~policy.done(view, carry[1]) & (carry[0] < steps), step, start
    )
    answer = policy.answer(view, state)
    told = {**problem.score(instance, answer), "chosen": answer["chosen"]}
    return told | {"counted": answer["arm_pulls"], "steps": number, "sequence": sequence}


class Tape:
    """The rewards of a run, from the addresses that the library uses."""

    def __init__(self, means: Any, run: int) -> None:
        problem = arms(1, given(means, shuffled=False), Bernoulli())
        instance = problem.draw(stream(0, np.uint32(run)))
        attempts = jnp.arange(LONGEST)[None, :]
        word = words(instance.outcomes, jnp.arange(len(means))[:, None], attempts)[0]
        self.rewards = (np.asarray(word >> 8).astype(int) < np.asarray(instance.means)[:, None]).astype(int)
        choices = problem.view(stream(0, np.uint32(run)), instance).choices
        arm, rounds = jnp.arange(len(means)), jnp.arange(16)
        self.chance = np.asarray(words(choices, 1, arm)[0] >> 2).astype(int)
        of_round = jax.vmap(lambda number: words(substream(choices, 2, number), 0, arm)[0])(rounds)
        self.chance_of_round = np.asarray(of_round >> 2).astype(int)

    def __call__(self, arm: int, attempt: int) -> int:
        return int(self.rewards[arm, attempt])


def play(
    means: Any, budget: int, policy: Any, run: int, steps: int, way: Callable[..., dict[str, Any]] = record,
    implementation: str = "fast",
) -> dict[str, Any]:  # fmt: skip
    problem = arms(budget, given(means, shuffled=False), Bernoulli(), on_tape=True)
    policy = accelerated(policy, problem) if implementation == "fast" else policy
    return {name: np.asarray(value) for name, value in way(problem, policy, np.uint32(run), steps).items()}


def agree(found: dict[str, Any], expected: oracles.Result, budget: int) -> None:
    assert found["counted"].tolist() == list(expected.pulls)
    assert found["pulls"] == expected.spent <= budget
    assert found["pulls_100"] == max(expected.pulls)
    assert found["pulls_0"] == min(expected.pulls)
    assert np.flatnonzero(found["chosen"]).tolist() == list(expected.chosen)


SIZES = (1, 2, 8)


def instances(count: int, most: int) -> list[tuple[int, int, int, int, int]]:
    """(number, n, K, budget, run), the same ones each time; small budgets and ties are frequent."""
    rng = np.random.default_rng(7)
    found = []
    for number in range(count):
        n = int(rng.choice(SIZES))
        k = int(rng.integers(1, n + 1))
        if rng.random() < 0.5:
            k = int(rng.integers(1, max(1, n // 5) + 1))
        found.append((number, n, k, int(rng.integers(n, most * n + 1)), int(rng.integers(2**31))))
    return found


def means_of(number: int, n: int) -> np.ndarray:
    rng = np.random.default_rng(number)
    return rng.choice([0.0, 0.25, 0.5, 0.9, 1.0], n) if number % 3 == 0 else rng.random(n)


def compare(oracle: Callable[..., oracles.Result], policy: Callable[..., Any], implementation: str, count: int = 25,
            most: int = 20) -> None:  # fmt: skip
    """The two rules, each a function of (n, K, budget) and for the oracle of a tape before these."""
    for number, n, k, budget, run in instances(count, most):
        means = means_of(number, n)
        expected = oracle(Tape(means, run), n, k, budget)
        found = play(means, budget, policy(n, k, budget), run, 64, implementation=implementation)
        agree(found, expected, budget)


both = pytest.mark.parametrize("implementation", get_args(Implementation))


@pytest.mark.slow
@both
def test_uniform_is_its_oracle(implementation: str) -> None:
    compare(oracles.uniform, lambda n, k, budget: uniform(k), implementation)
    spread = partial(oracles.uniform, remainder="spread")
    compare(spread, lambda n, k, budget: uniform(k, remainder="spread"), implementation)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Optimistic(IndexPolicy):
    """Has an index whose bits are the same wherever it is computed: quotients and a sum."""

    width: Any

    def index(self, view: Any, mean: Any, pulls: Any) -> Any:
        return mean + self.width / pulls.astype(jnp.float32)


def test_an_index_policy_is_its_oracle() -> None:
    for number, n, k, budget, run in instances(12, 20):
        means, width = means_of(number, n), np.float32(number % 4)
        expected = oracles.index_policy(
            Tape(means, run),
            n,
            k,
            budget,
            lambda mean, pulls, width=width: np.float32(mean) + width / np.float32(pulls),
        )
        found = play(means, budget, Optimistic(jnp.int32(k), width), run, 160)
        agree(found, expected, budget)
        pulled = found["sequence"][:, 0]
        assert pulled[pulled >= 0].tolist() == [arm for arm, _ in expected.sequence]


@pytest.mark.parametrize(
    ("index", "line"),
    [
        (lambda mean, pulls: mean + jnp.sqrt(3.0 - pulls), "index, state.indices = NaN after one of the first "),
        (lambda mean, pulls: jnp.sum(mean), "index = an array of shape (): shape (4,), an index of each arm; "),
        (lambda mean, pulls: mean[1:], "index = an array of shape (3,): shape (4,), an index of each arm; "),
        (lambda mean, pulls: None, "index = a NoneType: shape (4,), an index of each arm; "),
        (lambda mean, pulls: [*mean], "index = a list: shape (4,), an index of each arm; "),
        (lambda mean, pulls: mean if mean[0] > 0 else pulls, "index = line "),
        (lambda mean, pulls: mean.nothing, "index = line "),
    ],
)
def test_an_index_is_a_number_for_each_arm(index: Any, line: str) -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Slip(IndexPolicy):
        def index(self, view: Any, mean: Any, pulls: Any) -> Any:
            return index(mean, pulls)

    with pytest.raises(BadInput) as error:
        check(arms(40, *replay([np.arange(9) % 2] * 4, again=True)), Slip(jnp.int32(2)))
    assert str(error.value).startswith(f"policy Slip.{line}")


def test_an_index_policy_ends_with_its_records() -> None:
    """Each reward is taken once, then the run is over; a budget below that is spent."""
    records = [np.arange(3 + 2 * arm) % 2 for arm in range(4)]
    problems = [arms(budget, *replay(records, again=False)) for budget in (9, 1_000)]
    answers = simulate(problems, Optimistic(jnp.int32(2), jnp.float32(1)), runs=8)
    assert answers["pulls"].tolist() == [[9] * 8, [sum(map(len, records))] * 8]
    assert not answers["endless"].any()


READINGS: list[dict[str, Any]] = [
    {}, {"shares": "floor", "beta": 0.9}, {"shares": "cumulative", "beta": 0.9}, {"reuse": False}, {"inflate": False},
    {"reduce": True}, {"accept": "kth"}, {"accept": "printed", "reuse": False}, {"last": "uniform"},
    {"last": "uniform", "reduce": True},
]  # fmt: skip


@pytest.mark.slow
@both
def test_optmai_is_its_oracle(implementation: str) -> None:
    """In all its readings."""
    for options in READINGS:
        oracle, ours = partial(oracles.optmai, **options), partial(optmai, ties="lowest", **options)
        compare(oracle, ours, implementation, 15)


@pytest.mark.slow
@both
@pytest.mark.parametrize(("rule", "ours"), [(oracles.optmai, optmai), (oracles.sar, sar)], ids=["optmai", "sar"])
def test_equal_gaps_in_random_order(
    rule: Callable[..., oracles.Result], ours: Callable[..., Any], implementation: str
) -> None:
    def oracle(tape: Tape, n: int, k: int, budget: int) -> oracles.Result:
        return rule(tape, n, k, budget, ties=lambda _, what: (-tape.chance if what == "gap" else np.arange(n)).tolist())

    compare(oracle, partial(ours, ties="random"), implementation)


@both
def test_printed_optmai_is_its_oracle(implementation: str) -> None:
    ours = partial(optmai, beta=printed_beta(), inflate=False, reuse=False, ties="lowest")
    compare(oracles.optmai_printed, ours, implementation)
    assert printed_beta() == oracles.beta_printed()


@pytest.mark.slow
@both
def test_sar_is_its_oracle(implementation: str) -> None:
    compare(oracles.sar, partial(sar, ties="lowest"), implementation, count=40, most=30)


@pytest.mark.parametrize(("arms", "budget"), [(2, 3), (3, 900), (20, 20), (97, 5_000), (164, 1_640), (1_000, 20_001)])
def test_phases_of_sar(arms: int, budget: int) -> None:
    assert phases(arms, budget) == oracles.sar_schedule(arms, budget)[1:]


@both
def test_sequential_halving_is_its_oracle(implementation: str) -> None:
    for reuse, carry in ((False, False), (True, False), (False, True)):
        oracle = partial(oracles.sequential_halving, reuse=reuse, shares="carry" if carry else "floor")
        compare(oracle, partial(sequential_halving, reuse=reuse, carry=carry, ties="lowest"), implementation, 15)


@both
def test_equal_means_in_an_order_of_the_round(implementation: str) -> None:
    def oracle(tape: Tape, n: int, k: int, budget: int) -> oracles.Result:
        ties = {"ties": lambda step, _: (-tape.chance_of_round[step]).tolist()}
        return oracles.sequential_halving(tape, n, k, budget, **ties)

    compare(oracle, sequential_halving, implementation, 15)


def test_what_came_through_a_tie_by_luck_is_no_better_in_the_next_one() -> None:
    """Rare successes leave most means level: a new order in each round keeps the good arms more often than one order,
    by how much a loop in NumPy says (40,000 runs: 0.290 and 0.369, to 0.005)."""
    means = given([0.02] * 2 + [0.001] * 62)
    exact = {}
    for ties in ("lowest", "random"):
        rule = sequential_halving(64, 1, 3_000, ties=ties)
        found = simulate(arms(3_000, means, Bernoulli(), show_chosen=True), rule, runs=20_000)
        exact[ties] = float((found["chosen"][0, :, :2].sum(axis=1) == 1).mean())
    assert exact["lowest"] == pytest.approx(0.290, abs=0.015)
    assert exact["random"] == pytest.approx(0.369, abs=0.015)


MEANS = given([0.3, 0.5, 0.5, 0.5, 0.8, 0.8, 0.9, 1.0])
LAWS: dict[str, tuple[Any, Any]] = {
    "drawn": (MEANS, Bernoulli()),
    "real": (MEANS, Bounded(jnp.float32(0.3), "uniform")),
    "records": replay([np.arange(3 + 2 * arm) % (2 + arm % 3) == 0 for arm in range(8)], again=False),
}
CASES = [(1, 60), (2, 33), (3, 60), (5, 17), (8, 40)]
"""K and the budget, of 8 arms."""


def same_bits(policies: list[tuple[int, Any]], rewards: str) -> None:
    """Both implementations of policies, each with its budget: where each reward has an address, they have one
    result."""
    problems = [arms(budget, *LAWS[rewards], on_tape=True, show_chosen=True) for budget, _ in policies]
    rules = [rule for _, rule in policies]
    found, expected = (simulate(problems, rules, runs=24, implementation=each) for each in get_args(Implementation))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "rewards", "options"),
    [
        (sequential_halving, "records", [{}, {"reuse": True, "carry": True}, {"ties": "lowest"}]),
        (sar, "drawn", [{}]),
        (sar, "records", [{"ties": "lowest"}]),
        (optmai, "drawn", [{}, {"reduce": True, "reuse": False, "shares": "floor"}]),
        (optmai, "real", [{}, {"reduce": True, "shares": "cumulative"}]),
        (optmai, "records", [{"accept": "kth", "ties": "lowest"}]),
        (optmai, "drawn", [{"accept": "printed"}]),
        (optmai, "drawn", [{"last": "uniform", "inflate": False}]),
    ],
)
def test_fast_rounds_equal_the_rules(rule: Any, rewards: str, options: list[dict[str, Any]]) -> None:
    for k, budget in CASES:
        for each in options:  # one by one, or those that happen to share arrays would run together, in another program
            same_bits([(budget, rule(8, k, budget, **each))], rewards)


@pytest.mark.slow
@pytest.mark.parametrize("rewards", ["drawn", "records"])
def test_fast_uniform_equals_the_rule(rewards: str) -> None:
    same_bits([(budget, uniform(k, remainder=how)) for how in ("drop", "spread") for k, budget in CASES], rewards)


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "rewards"), [("optmai", "drawn"), ("sar", "records")])
def test_arrays_that_shrink_change_nothing(rule: str, rewards: str) -> None:
    """``simulate`` makes the steps of ``Rounds.advance``; ``record`` asks and tells, and keeps all arms."""
    n, budget = 110, 2_000
    paying = [np.arange(9 + arm) % (2 + arm % 3) == 0 for arm in range(n)]
    model: tuple[Any, Any] = (given(means_of(1, n)), Bernoulli())
    if rewards == "records":
        model = replay(paying, again=False)
    problem = arms(budget, *model, on_tape=True, show_chosen=True)
    policy: Any = accelerated((optmai if rule == "optmai" else sar)(n, 20, budget), problem)
    found = simulate(problem, policy, runs=5, lanes=3)
    for run in range(5):
        alone = record(problem, policy, np.uint32(run), 64)
        rows = np.asarray(problem.draw(stream(0, np.uint32(run))).rows)
        assert sorted(rows[np.asarray(alone["chosen"])]) == np.flatnonzero(found["chosen"][0, run]).tolist()
        for name in ("pulls", "pulls_0", "pulls_50", "pulls_90", "pulls_100"):
            assert alone[name] == found[name][0, run]


RESOLUTION = 2e-5
"""Bounds that differ by less may compare otherwise in float32."""


def agrees(expected: oracles.Result, means: Any, budget: int, rule: Lucb, run: int, implementation: str) -> Any:
    """What was found of a rule that could be compared at all; of turns of small blocks, it is so pull by pull."""
    if expected.margin < RESOLUTION:
        return None
    if implementation == "reference":
        found = play(means, budget, rule, run, 512, implementation="reference")
        agree(found, expected, budget)
        return found
    found = play(means, budget, LucbByTurns(rule, block=4, turns=1), run, 2048, record_turns)
    agree(found, expected, budget)
    opening = list(range(len(means))) if len(expected.sequence) else []
    pulled = opening + [arm for pair in found["sequence"].tolist() for arm in pair if arm >= 0]
    assert pulled == [arm for arm, count in expected.sequence for _ in range(count)]
    return found


@pytest.mark.slow
@both
def test_lucb_is_its_oracle(implementation: str) -> None:
    compared = 0
    for number, n, k, budget, run in instances(36, 12):
        means, odd = means_of(number, n), ODD[number % 3]
        expected = oracles.lucb(Tape(means, run), n, k, budget, odd=odd)
        compared += agrees(expected, means, budget, lucb(k, odd=odd), run, implementation) is not None
    assert compared > 24


@pytest.mark.slow
@both
@pytest.mark.parametrize("divergence", ["hoeffding", "kl"])
def test_lucb_with_its_own_stopping_is_its_oracle(divergence: str, implementation: str) -> None:
    oracle: Any = oracles.kl_lucb if divergence == "kl" else oracles.lucb_confidence
    compared = stopped = 0
    for number, n, k, _, run in instances(30, 12):
        means, budget = np.random.default_rng(number).permutation(np.linspace(0, 1, n)), 400
        options: dict[str, Any] = {"epsilon": 0.4, "delta": 0.2}
        expected = oracle(Tape(means, run), n, k, budget=budget, **options)
        found = agrees(expected, means, budget, lucb(k, divergence=divergence, **options), run, implementation)
        compared += found is not None
        if found is not None and k < n:
            assert found["stopped"] == (expected.ended == "answer")
            stopped += int(found["stopped"])
    assert compared > 12
    assert stopped > 2


@pytest.mark.slow
@pytest.mark.parametrize("rewards", ["drawn", "records"])
def test_fast_lucb_equals_the_rule(rewards: str) -> None:
    """Where a last pull has no pair, where records end, and where the rule stops by itself."""
    settings = [("weak", None), ("strong", None), ("skip", None), ("weak", 0.9)]
    rules = [(budget, lucb(k, odd=odd, epsilon=epsilon)) for odd, epsilon in settings for k, budget in CASES]
    same_bits(rules, rewards)


@pytest.mark.slow
def test_fast_kl_lucb_equals_the_rule() -> None:
    rules = [(budget, lucb(k, epsilon=epsilon, divergence="kl")) for epsilon in (None, 0.9) for k, budget in CASES]
    same_bits(rules, "drawn")


@pytest.mark.slow
@pytest.mark.usefixtures("fast_programs")
def test_long_runs_of_kl_lucb_end() -> None:
    """Of a thousand arms, where near ties come up that short runs do not meet: a step makes 2,048 turns, and few pulls
    need more than two."""
    problem = arms(50_000, given(np.random.default_rng(0).random(1000)), Bernoulli())
    found = simulate(problem, lucb(100, divergence="kl"), runs=4, max_steps=50)
    assert not found["endless"].any()
    assert (found["pulls"] == 50_000).all()


def test_kl_lucb_ends_where_its_blocks_are_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Floors far below the bounds leave a doubt on both sides of the cut in nearly all rounds, as near ties do in long
    runs of many arms. A block that is sure has to stay so while the other side's is evaluated."""
    monkeypatch.setitem(blocks._SLACK, "kl", 0.1)
    means, rule = np.linspace(0.1, 0.9, 24), lucb(6, divergence="kl")
    expected = play(means, 200, rule, 1, 512, implementation="reference")
    found = play(means, 200, LucbByTurns(rule, block=4, turns=1), 1, 1024, record_turns)
    assert found["counted"].sum() == 200
    assert found["counted"].tolist() == expected["counted"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("divergence", ["hoeffding", "kl"])
def test_lucb_does_not_explore_before_its_rate_is_above_0(divergence: str) -> None:
    """With a k1 that is too small for a proof the rate would be NaN in the first rounds."""
    problem = arms(60, given(np.array([0.9, 0.5, 0.4])), Bernoulli())
    rule = lucb(1, k1=0.001, alpha=1.1, delta=0.5, epsilon=0.0, divergence=divergence)
    fast, written = (
        simulate(problem, rule, runs=40, seed=1, implementation=how) for how in ("fast", "reference")
    )  # fmt: skip
    for name, values in written.items():
        np.testing.assert_array_equal(fast[name], values, name)


@pytest.mark.slow
@pytest.mark.parametrize("rewards", ["drawn", "records"])
def test_lucb_with_checkpoints_gives_the_bits_of_smaller_budgets(rewards: str) -> None:
    """Where a checkpoint cuts a round in two, too; records that end make runs that are stuck."""
    checkpoints, most = (5, 9, 40, 41, 77), 120
    means, law = given(np.linspace(0.2, 0.8, 9)), Bernoulli()
    if rewards == "records":
        means, law = replay([np.arange(8 + arm) % 2 for arm in range(9)], again=False)  # type: ignore[assignment]
    policies = [lucb(3, odd=odd) for odd in ("weak", "strong", "skip")]
    curve = simulate(arms(most, means, law), policies, runs=40, checkpoints=checkpoints)
    for place, budget in enumerate((*checkpoints, most)):
        alone = simulate(arms(budget, means, law), policies, runs=40)
        for name in alone.keys() - {"endless"}:
            np.testing.assert_array_equal(curve[name][:, :, place], alone[name], f"{name} at {budget}")
    assert curve["pulls"][:, :, -1].max() > 77


@pytest.mark.parametrize("implementation", ["fast", "reference"])
def test_uniform_with_checkpoints_has_the_law_of_smaller_budgets(implementation: Any) -> None:
    """Its pulls within each budget exactly; below one pull of each arm, too."""
    checkpoints, most = (5, 9, 41), 77
    rules = [uniform(3), uniform(3, remainder="spread")]

    def measured(budget: int, seed: int, checkpoints: tuple[int, ...] = ()) -> dict[str, np.ndarray]:
        problem = arms(budget, given(np.linspace(0.2, 0.8, 9)), Bernoulli())
        found = simulate(
            problem, rules, runs=2000, seed=seed, checkpoints=checkpoints, implementation=implementation,
            progress=False,
        )  # fmt: skip
        return {name: found[name].astype(float) for name in ("pulls", "right", "regret_high")}

    curve = measured(most, 1, checkpoints)
    for place, budget in enumerate((*checkpoints, most)):
        alone = measured(budget, 2)
        at = {name: values[:, :, place] for name, values in curve.items()}
        np.testing.assert_array_equal(at["pulls"], alone["pulls"])
        assert at["pulls"][:, 0].tolist() == [budget // 9 * 9, budget]
        for name in ("right", "regret_high"):
            error = np.sqrt((at[name].var(1) + alone[name].var(1)) / 2000)
            assert (np.abs(at[name].mean(1) - alone[name].mean(1)) <= 4 * error).all(), f"{name} at {budget}"


@pytest.mark.slow
@pytest.mark.parametrize(("divergence", "budget"), [("hoeffding", 3000), ("kl", 1500)])
def test_lucb_does_not_depend_on_blocks_nor_lanes(divergence: str, budget: int) -> None:
    """Nor on how many turns a step makes: no bit may tell when an arm was evaluated, or beside which lanes."""
    problem, rule = arms(budget, given(np.linspace(0.1, 0.9, 200)), Bernoulli()), lucb(20, divergence=divergence)
    expected = simulate(problem, rule, runs=24)
    for name, values in simulate(problem, LucbByTurns(rule, block=8, turns=100), runs=24, lanes=5).items():
        np.testing.assert_array_equal(values, expected[name], name)


def test_a_run_shows_what_it_chose() -> None:
    """By the user's rows, though runs number them in a random order."""
    means = np.linspace(0.2, 0.8, 9)
    answers = simulate(arms(90, given(means), Bernoulli(), show_chosen=True), uniform(3), runs=30, seed=3)
    chosen = answers["chosen"][0]
    assert chosen.shape == (30, 9)
    assert (chosen.sum(1) == 3).all()
    regret = np.sort(means)[-3:].sum() - chosen @ means
    units = answers["regret_high"][0] * 4096.0 + answers["regret_low"][0]
    np.testing.assert_allclose(regret, units / 2**24, atol=1e-6)
    assert chosen[:, -1].mean() > 0.5 > chosen[:, 0].mean()


def parts_of(thing: Any) -> Iterator[Any]:
    """The thing and all that it holds."""
    yield thing
    held: Any = ()
    if is_dataclass(thing):
        held = [getattr(thing, each.name) for each in fields(thing)]
    elif isinstance(thing, dict):
        held = thing.values()
    elif isinstance(thing, tuple | list):
        held = thing
    for each in held:
        yield from parts_of(each)


def test_an_arm_without_pulls_is_at_the_low_end_of_any_scale() -> None:
    for low in (-1000.0, -3.0, 0.0, 3.0):
        units = Scale(low, 2.0).units(jnp.array([0.0, 5 * low], jnp.float32), jnp.array([0, 5]), False)
        assert units.tolist() == [0, 0]


def lowest_first(**problem: Any) -> list[int]:
    table = FAMILY.problems[problem.pop("kind")]
    return np.sort(table.build(**parse("problem", table.parameters, problem)).problem().means.means).tolist()


@pytest.mark.parametrize("means", [{"list": [-3.0, 0.3]}, {"two": {"means": [0.3, -3.0], "count": 1}}])
def test_a_highest_mean_to_which_no_sum_is_rounded(means: dict[str, Any]) -> None:
    assert -3.0 + (0.3 - -3.0) < 0.3
    assert lowest_first(kind="gaussian", K=1, budget=9, n=2, means=means) == [0, 2**24]
    with pytest.raises(BadInput, match=r"^means\[1\] = 0.3001: a mean from -3 to 0.3"):
        given([-3.0, 0.3001], -3.0, 3.3)


@pytest.mark.parametrize("kind", ["lucb-stop", "kl-lucb"])
def test_a_rule_that_stops_by_bounds_refuses_normal_rewards(kind: str) -> None:
    """A normal reward has no largest value, which the bounds ask for; ``lucb`` only pulls by them."""

    def built(rewards: str, rule: str) -> Any:
        problem = {"kind": f"topk/{rewards}", "n": 5, "K": 1, "budget": 50}
        return Study.of({"runs": 1, "problem": problem, "policy": [{"kind": rule}]}).configurations()

    with pytest.raises(BadInput, match=f"^policy.kind = {kind}: a rule that does not stop by bounds, .*: lucb, optmai"):
        built("gaussian", kind)
    assert len(built("bounded", kind)) == len(built("gaussian", "lucb")) == 1


def test_options_that_a_last_stage_of_uniform_sampling_has_no_use_for() -> None:
    for each in parameters(optmai):
        if each.name in ("accept", "ties"):
            assert each.matters({"last": "ar"})
            assert not each.matters({"last": "uniform"})


def test_a_table_that_is_another_one_is_read_again(tmp_path: Path) -> None:
    """Its size, its place on the disk and the last digit of its time tell."""
    table, other = tmp_path / "arms.csv", tmp_path / "other.csv"
    second = 10**9 * 1_700_000_000

    def written(path: Path, won: int, tried: int, time: int) -> None:
        path.write_text(f"successes,trials\n{won},{tried}\n")
        os.utime(path, ns=(time, time))

    def mean() -> float:
        return lowest_first(kind="replay", path=str(table), K=1, budget=9)[0] / 2**24

    written(table, 1, 4, second)
    assert mean() == 0.25
    written(table, 1, 16, second)
    assert mean() == 1 / 16
    written(table, 4, 16, second + 1)
    assert mean() == 0.25
    written(other, 8, 16, second + 1)
    other.replace(table)
    assert mean() == 0.5


def test_too_many_rewards_are_not_laid_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "arms.csv").write_text("successes,trials\n1,2\n1,2000000000\n")
    monkeypatch.setattr(np, "repeat", None)
    with pytest.raises(BadInput, match=r"^problem.records = 2000000002 rewards: at most 16777216$"):
        lowest_first(kind="replay", path=str(tmp_path / "arms.csv"), K=1, budget=9)


class Choosing(Uniform):
    """Chooses all arms but one, or says that it pulled twice as often."""

    def answer(self, view: Any, state: Any) -> Any:
        found = super().answer(view, state)
        more = jnp.arange(view.arms) > 0
        return {"chosen": more | found["chosen"] & self.spread, "arm_pulls": state.pulls * (1 + self.spread)}


def test_a_class_that_inherits_from_a_rule_is_run_as_it_is() -> None:
    """Its metrics are of K arms and of the budget's pulls."""
    kind = jax.tree_util.register_dataclass(dataclass(frozen=True)(Choosing))
    setting = Setting(300, 3, Model(MEANS, Bernoulli()))
    answers = simulate(setting.problem(), kind(jnp.int32(3), jnp.bool_(False)), runs=3, progress=False)
    answers = {name: values[0] for name, values in answers.items()}
    assert answers["wanted"].tolist() == [len(MEANS.means) - 1] * 3
    for metric in FAMILY.metrics[:5]:
        with pytest.raises(BadInput, match=r"^policy.answer\['chosen'\] = \d+ arms in a run: K = 3"):
            metric.of(setting, answers)
    right = answers | {"wanted": np.full(3, 3), "pulls": np.array([300, 299, 301])}
    with pytest.raises(BadInput, match=r"^policy.answer\['arm_pulls'\] = 301 in a run: a budget of 300 at most"):
        FAMILY.metrics[0].of(setting, right)
    with pytest.raises(BadInput, match=r"^policy.answer = no arm_pulls: chosen and arm_pulls"):
        FAMILY.metrics[0].of(setting, {name: value for name, value in right.items() if name != "pulls"})


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILY.policies)
def test_no_policy_meets_the_truth(name: str) -> None:
    """Neither the means nor the key of the rewards is in what it sees, is told or keeps."""
    setting = Setting(30, 3, Model(MEANS, Bernoulli()))
    problem, kind = setting.problem(), FAMILY.policies[name]
    rule, _ = kind.build(setting, **parse("policy", kind.parameters, {}))
    instance = problem.draw(stream(0, 5))
    view = problem.view(stream(0, 5), instance)
    state = rule.init(view)
    pull = rule.ask(view, state)
    outcome = problem.pull(stream(0, 5), instance, pull)
    met = view, pull, outcome, rule.tell(view, state, pull, outcome), accelerated(rule, problem).init(view)
    for part in parts_of(met):
        assert not isinstance(part, Arms | Instance | Rewards)
        for truth in (instance.means, *instance.outcomes):
            assert not (isinstance(part, jax.Array) and np.array_equal(part, truth))


def test_pulls_are_of_arms_that_exist() -> None:
    """A guard of the tests themselves: the sequence of a first step."""
    problem, policy = arms(9, given(np.linspace(0, 1, 5)), Bernoulli()), uniform(2)
    key = stream(0, 0)
    view = problem.view(key, problem.draw(key))
    pull = policy.ask(view, policy.init(view))
    assert isinstance(pull, Pull)
    assert pull.arm.tolist() == [0, 1, 2, 3, 4]
