"""Breaches of the contract of problems and policies: each gets one message, from every door that takes objects."""

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import jaxbandit
from jaxbandit import BadInput, Execution, check, cleaning, conformance, experiment, run_study, simulate
from jaxbandit.arms.problem import Outcome, Pull, arms, given
from jaxbandit.arms.rewards import Bernoulli
from jaxbandit.contract import place
from jaxbandit.grammar import accelerated
from jaxbandit.pytree import pytree
from jaxbandit.tracing import devices_for
from tests.toy import Coin, Coins, State, View

PROBLEM = Coins(np.int32(20), np.float32(0.2), np.float32(0.8))
HEADS = {"heads": lambda problem, answers: answers["heads"].astype(float)}


def own(kind: Any) -> Any:
    return jax.tree_util.register_dataclass(dataclass(frozen=True)(kind))


@own
class Branching(Coin):
    def ask(self, view: View, state: State) -> Any:
        if state.thrown > 3:
            return jnp.int32(0), state.thrown, jnp.int32(1)
        return super().ask(view, state)


@own
class Counting(Coin):
    def ask(self, view: View, state: State) -> Any:
        for _ in range(state.thrown):
            pass
        return super().ask(view, state)


@own
class Converting(Coin):
    def ask(self, view: View, state: State) -> Any:
        return np.asarray(state.thrown), state.thrown, jnp.int32(1)


@own
class Failing(Coin):
    def tell(self, view: View, state: State, pull: Any, outcome: Array) -> State:
        return state.lost


@own
class Bare(Coin):
    def answer(self, view: View, state: State) -> Any:
        return state.heads


@own
class Named(Coin):
    def answer(self, view: View, state: State) -> Any:
        return {"heads": state.heads, "name": "coin"}


@own
class Widening(Coin):
    def tell(self, view: View, state: State, pull: Any, outcome: Array) -> State:
        return super().tell(view, state, pull, outcome)._replace(heads=state.heads + 0.5)


@own
class Growing(Coin):
    def tell(self, view: View, state: State, pull: Any, outcome: Array) -> State:
        return super().tell(view, state, pull, outcome)._replace(heads=jnp.zeros(2, jnp.int32))


@own
class Reshaping(Coin):
    def tell(self, view: View, state: State, pull: Any, outcome: Array) -> Any:
        return tuple(state)


@own
class Counted(Coin):
    def done(self, view: View, state: State) -> Array:
        return view.budget - state.thrown


@own
class Worded(Coin):
    def init(self, view: View) -> Any:
        return {"name": "coin"}


@own
class Old(Coin):
    stride = 4


@own
class Misspelled(Coin):
    executions = Execution(stride=4)


@own
class Still(Coin):
    execution = Execution(stride=0)


@own
class Beside(Coin):
    execution = Execution(many_steps="beside")


@own
class Scratching(Coin):
    execution = Execution(scratch=("rows",))


@dataclass(frozen=True)
class Unregistered(Coin):
    pass


@own
class WithText(Coin):
    name: str = "coin"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WithStatic(Coin):
    weights: Any = field(default=None, metadata={"static": True})


class NoMethods:
    def init(self, view: View) -> State:
        return State(jnp.int32(0), jnp.int32(0))


@own
class NoPull:
    def draw(self, key: Any) -> None: ...

    def view(self, key: Any, instance: Any) -> None: ...


HALF = np.float32(0.5)


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        (Branching(HALF), "policy Branching.ask = line N of test_contract.py, `if state.thrown > 3:`: no if"),
        (Counting(HALF), "policy Counting.ask = line N of test_contract.py, `for _ in range(state.thrown):`: no"),
        (Converting(HALF), "policy Converting.ask = line N of test_contract.py, "),
        (Failing(HALF), "policy Failing.tell = line N of test_contract.py, `return state.lost`: it raised AttributeE"),
        (Bare(HALF), "policy Bare.answer = int32[]: a dict of arrays by name"),
        (Named(HALF), "policy Named.answer['name'] = a str: an array"),
        (Widening(HALF), "policy Widening.tell, state.heads = float32[]: int32[], as in the state that it was giv"),
        (Growing(HALF), "policy Growing.tell, state.heads = int32[2]: int32[], as in the state that it was given; "),
        (Reshaping(HALF), "policy Reshaping.tell = tuple(0 int32[], 1 int32[]): a state as it was given, State(thro"),
        (Counted(HALF), "policy Counted.done = int32[]: bool[], whether the run is over"),
        (Worded(HALF), "policy Worded.init, state['name'] = coin: an array, as everything that a run keeps, not a str"),
        (Old(HALF), "policy Old.stride = 4: a part of execution = jaxbandit.Execution(stride=...)"),
        (Misspelled(HALF), "policy Misspelled.executions = no name of the grammar: execution, or one less like it"),
        (Still(HALF), "policy Still.execution.stride = 0: a whole number from 1"),
        (Beside(HALF), "policy Beside.execution.many_steps = beside: 'in turn', 'abreast', or ''"),
        (Scratching(HALF), "policy Scratching.execution.scratch = rows: fields of the state, a NamedTuple: State("),
        (Unregistered(HALF), "policy Unregistered = no pytree: a class under @jax.tree_util.register_dataclass"),
        (WithText(HALF), "policy WithText.name = coin: an array or a number; for another value, that is the same"),
        (WithStatic(HALF, np.ones(2)), "policy WithStatic.weights = array([1., 1.]): no array in a static field"),
        (Coin(2**40), "policy Coin.share = 1099511627776: a number of 32 bits, -2147483648 to 2147483647"),
        (Coin, "policy = the class Coin: an instance, Coin(...)"),
        (NoMethods(), "policy NoMethods.ask = missing: a method; a policy has init, ask, tell, done and answer"),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__) if not isinstance(value, str) else "",
)  # fmt: skip
def test_a_breach_that_types_show(policy: Any, line: str) -> None:
    doors: list[Callable[[], Any]] = [
        lambda: simulate(PROBLEM, policy, runs=2),
        lambda: check(PROBLEM, policy),
        lambda: experiment(PROBLEM, {"it": policy}, HEADS, runs=2),
        lambda: run_study(experiment(PROBLEM, {"it": policy}, HEADS, runs=2, check=False), check=False),
    ]
    said = set()
    for door in doors:
        with pytest.raises(BadInput) as error:
            door()
        found = re.sub(r"line \d+ of", "line N of", str(error.value))
        assert found.startswith(line)
        assert "\n" not in found
        assert len(error.traceback) < 12
        said.add(str(error.value))
    assert len(said) == 1
    assert said.pop().endswith(("; see docs/own-policy.md, for arms docs/own-arms.md", "to 2147483647"))


def test_what_a_method_raised_is_kept() -> None:
    with pytest.raises(BadInput) as error:
        simulate(PROBLEM, Branching(HALF), runs=2)
    assert isinstance(error.value.__cause__, jax.errors.TracerBoolConversionError)


def test_problems_and_pulls_of_another_family() -> None:
    with pytest.raises(BadInput, match=r"^problem NoPull.pull = missing: a method; a problem has draw, view and pull"):
        simulate(NoPull(), Coin(HALF), runs=2)
    with pytest.raises(BadInput, match=r"^problem = the class Coins: an instance"):
        experiment(Coins, {"it": Coin(HALF)}, HEADS, runs=2)
    given = cleaning.synthetic(
        budget=9, entities=5, false_values=cleaning.uniform_false_values(1, 2), sc_pdf=cleaning.Uniform()
    )
    with pytest.raises(
        BadInput, match=r"^policy Coin.ask = tuple\(0 int32\[\].*: a pull that problem Synthetic.pull tak"
    ):
        simulate(given, Coin(HALF), runs=2)


# What values alone show.


@own
class Masked(Coin):
    """Says that it leaves its state alone, and does not: the engine believes it."""

    execution = Execution(masked=True)

    def tell(self, view: View, state: State, pull: Any, outcome: Array) -> State:
        return State(state.thrown + 1, state.heads + outcome)


@own
class Repeating(Coin):
    def ask(self, view: View, state: State) -> Any:
        coin, number, count = super().ask(view, state)
        return coin, number // 2, count


@own
class Unanswered(Coin):
    def answer(self, view: View, state: State) -> Any:
        return super().answer(view, state) | {"ratio": 0.0 * state.heads / 0}


@own
class Endless(Coin):
    def ask(self, view: View, state: State) -> Any:
        return jnp.int32(1), state.thrown, jnp.int32(1)

    def done(self, view: View, state: State) -> Array:
        return state.thrown < 0


@own
class Leftover(Coin):
    execution = Execution(scratch=("heads",))


@own
class Several(Coins):
    """Coins in a table."""

    def pull(self, key: Any, instance: Any, pull: Any) -> Array:
        coin, number, count = pull
        odds = jnp.stack([self.low, self.high])[coin]
        return super().pull(key, instance, (jnp.where(odds > 0.5, 1, 0), number, count))


@own
class Third(Coin):
    def ask(self, view: View, state: State) -> Any:
        return jnp.int32(2), state.thrown, super().ask(view, state)[2]


@own
class Undefined(Coins):
    def pull(self, key: Any, instance: Any, pull: Any) -> Any:
        return jnp.where(pull[1] == 3, jnp.nan, 1.0)


@own
class Rounding(Coin):
    def tell(self, view: View, state: State, pull: Any, outcome: Array) -> State:
        return State(state.thrown + pull[2], state.heads + (outcome > 0))


@own
class Undecided(Coin):
    def init(self, view: View) -> State:
        return super().init(view)._replace(heads=jnp.float32(0))

    def tell(self, view: View, state: State, pull: Any, outcome: Array) -> State:
        after = super().tell(view, state, pull, outcome)
        return after._replace(heads=jnp.where(after.thrown == 3, jnp.nan, after.heads))


SEVERAL = Several(np.int32(20), np.float32(0.2), np.float32(0.8))


@pytest.mark.parametrize(
    ("problem", "policy", "line"),
    [
        (PROBLEM, Masked(HALF), "policy Masked.tell, state.thrown = changed by a step after the end: the same bits"),
        (PROBLEM, Repeating(HALF), "policy Repeating.ask = (1, 0, 1) in steps 1 and 2 of a run: each pull once: "),
        (PROBLEM, Unanswered(HALF), "policy Unanswered.answer['ratio'] = NaN at the end of a run: a number"),
        (PROBLEM, Undecided(HALF), "policy Undecided.tell, state.heads = NaN after one of the first 3 steps: a number"),
        (PROBLEM, Leftover(HALF), "policy Leftover.answer['heads'] = other values where runs share lanes otherwise: "),
        (SEVERAL, Third(HALF), "problem Several.pull = (2, 0, 1): indices in range, where JAX would take the nearest "),
        (Undefined(np.int32(20), HALF, HALF), Rounding(HALF), "problem Undefined.pull, outcome = NaN in one of the "),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)  # fmt: skip
def test_a_breach_that_values_show(problem: Any, policy: Any, line: str) -> None:
    """Each of these runs without a word, and gives wrong numbers."""
    simulate(problem, policy, runs=40)
    with pytest.raises(BadInput) as error:
        check(problem, policy)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        (Unanswered(HALF), "policy Unanswered, answer 'ratio': not a number in 40 of 40 runs, where a number is"),
        (Endless(HALF), "policy Endless: 40 of 40 runs made as many steps as they may (max_steps) and did not end"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_only_results_show_is_said(policy: Any, line: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each runs to the end, with a line for the policy that names it; the policy beside it is well and has none."""
    simulate(PROBLEM, [policy, Coin(HALF)], runs=40, max_steps=200)
    assert [record.getMessage()[: len("jaxbandit: ") + len(line)] for record in caplog.records] == [
        f"jaxbandit: {line}"
    ]


@own
class Endowed(Coins):
    """Pays without end at the fourth throw."""

    def pull(self, key: Any, instance: Any, pull: Any) -> Any:
        return jnp.where(pull[1] == 3, jnp.inf, 1.0)


@own
class Rich(Coin):
    def answer(self, view: View, state: State) -> Any:
        return super().answer(view, state) | {"wealth": jnp.where(state.heads > 0, jnp.inf, 0.0)}


def test_infinities_are_remarked() -> None:
    endowed = Endowed(np.int32(20), HALF, HALF)
    assert check(endowed, Rounding(HALF), thorough=False) == [
        "problem Endowed.pull, outcome: infinite in one of 21 steps"
    ]
    assert check(PROBLEM, Rich(HALF), thorough=False) == [
        "policy Rich.answer['wealth']: infinite at the end of a run, so it has no mean"
    ]


@own
class Walking(Coin):
    """Two throws at once."""

    def advance(self, view: View, state: State, sample: Any) -> State:
        for _ in range(2):
            pull = super().ask(view, state)
            state = super().tell(view, state, pull, sample(pull))
        return state


@own
class Alone:
    """Has nothing but ``advance``."""

    by: Array
    execution = Execution(masked=True)

    def init(self, view: View) -> State:
        return State(jnp.int32(0), jnp.int32(0))

    def advance(self, view: View, state: State, sample: Any) -> State:
        heads = sample((jnp.int32(1), state.thrown, jnp.minimum(1, view.budget - state.thrown)))
        return State(jnp.minimum(state.thrown + 1, view.budget), state.heads + heads * self.by)

    def done(self, view: View, state: State) -> Array:
        return state.thrown >= view.budget

    def answer(self, view: View, state: State) -> Any:
        return {"heads": state.heads, "thrown": state.thrown}


@own
class Overrunning(Walking):
    execution = Execution(masked=True)

    def advance(self, view: View, state: State, sample: Any) -> State:
        return super().advance(view, state, sample)._replace(thrown=state.thrown + 2)


@own
class Halting(Walking):
    def advance(self, view: View, state: State, sample: Any) -> Any:
        return State(state.thrown + 1, state.heads * 0.5)


def test_advance_is_stepped_too() -> None:
    assert check(PROBLEM, Walking(HALF)) == []
    assert check(PROBLEM, Alone(np.int32(1))) == []
    with pytest.raises(BadInput, match=r"^policy Overrunning.advance, state.thrown = changed by a step after the end"):
        check(PROBLEM, Overrunning(HALF))
    with pytest.raises(BadInput, match=r"^policy Halting.advance, state.heads = float32\[\]: int32\[\], as in the"):
        check(PROBLEM, Halting(HALF))


@own
class Rolling(Coin):
    """Asks NumPy for a number, which it does once for all runs."""

    def ask(self, view: View, state: State) -> Any:
        coin, number, count = super().ask(view, state)
        other = jnp.int32(np.random.default_rng().integers(2**20))
        return jnp.where(number == other, 1 - coin, coin), number, count


@own
class RollingAlone(Alone):
    def advance(self, view: View, state: State, sample: Any) -> State:
        after = super().advance(view, state, sample)
        return after._replace(heads=after.heads + jnp.int32(np.random.default_rng().integers(2**20)))


@own
class Rarely(Coin):
    """Asks for one of two numbers, so that the next one is often the same."""

    def ask(self, view: View, state: State) -> Any:
        coin, number, count = super().ask(view, state)
        return jnp.where(number == jnp.int32(next(_ASKED) // 2 % 2), 1 - coin, coin), number, count


_ASKED = itertools.count()


@own
class Solving(Coin):
    """Calls LAPACK in each step, if it is told to."""

    solves: bool = field(default=True, metadata={"static": True})

    def ask(self, view: View, state: State) -> Any:
        coin, number, count = super().ask(view, state)
        if not self.solves:
            return coin, number, count
        other = jnp.linalg.solve(jnp.eye(3) * (1 + number), jnp.ones(3))
        return jnp.where(other[0] > 2, 1 - coin, coin), number, count


@own
class Listing(Coin):
    """Looks a number up that is not known as JAX traces."""

    numbers: Any

    def ask(self, view: View, state: State) -> Any:
        coin, number, count = super().ask(view, state)
        return jnp.where(self.numbers[number % 3] > 0, coin, 1 - coin), number, count


def test_steps_that_factorize_run_on_one_core(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On several, JAX's routines may wait for each other's threads forever. It is said once."""
    local = jax.local_devices()[:1] * 2
    monkeypatch.setattr(jax, "local_devices", lambda: local)
    assert devices_for([(PROBLEM, Coin(HALF)), (PROBLEM, Solving(HALF, False))]) == local
    for policies in ([Coin(HALF), Solving(HALF)], [Solving(HALF), Solving(HALF, False)]):
        assert devices_for([(PROBLEM, policy) for policy in policies]) == local[:1]
    assert [tuple(record.message.split(":")[:2]) for record in caplog.records] == [
        ("jaxbandit", " policy Solving, or its problem, factorizes matrices"),
    ]


def test_fields_may_be_arrays_of_numpy() -> None:
    """As in simulations, where they are JAX's."""
    policy = Listing(HALF, np.array([0, 1, 1], np.int32))
    assert simulate(PROBLEM, policy, runs=2)["heads"].shape == (1, 2)
    assert check(PROBLEM, policy) == []


def test_numbers_of_other_generators_are_found() -> None:
    line = r"^policy R\w+, or problem \w+ = other numbers each time that JAX traces it: those of jaxbandit.random: "
    for policy in (Rolling(HALF), Rarely(HALF), RollingAlone(np.int32(1))):
        with pytest.raises(BadInput, match=line):
            check(PROBLEM, policy)


def test_fast_implementations_are_checked_too() -> None:
    @accelerated.register
    def _fast(policy: Rich, problem: Any) -> Any:
        return Overrunning(policy.share)

    with pytest.raises(BadInput, match=r"^policy Overrunning.advance, state.thrown = changed by a step after the end"):
        check(PROBLEM, Rich(HALF))
    accelerated.register(Rich, lambda policy, problem: policy)


def test_what_keeps_the_contract_passes() -> None:
    assert check(PROBLEM, Coin(HALF)) == []
    assert check(SEVERAL, Coin(HALF)) == []
    [remark] = check(PROBLEM, Endless(HALF))
    assert remark.startswith("policy Endless.done: 4 runs did not all end in ")
    [remark] = check(PROBLEM, WithStatic(HALF, 3), thorough=False)
    assert remark == "policy WithStatic.weights: a static field, so a program is compiled for each value of it"


@own
class Pairs:
    """Pulls each arm twice at a time, ``shift`` arms too far, and says that it was pulled ``share`` of the times."""

    shift: Array
    share: Array

    def init(self, view: Any) -> Any:
        return jnp.zeros(view.arms, jnp.int32)

    def ask(self, view: Any, state: Any) -> Pull:
        arm = jnp.sum(state) // 2 % view.arms
        first = (state[arm] * self.share).astype(jnp.int32)
        return Pull((arm + self.shift)[None], first[None], jnp.int32(2), jnp.int32(1), few=True)

    def tell(self, view: Any, state: Any, pull: Pull, outcome: Outcome) -> Any:
        return state.at[(pull.arm[0] - self.shift) % view.arms].add(outcome.made[0])

    def done(self, view: Any, state: Any) -> Array:
        return jnp.sum(state) >= view.budget

    def answer(self, view: Any, state: Any) -> Any:
        return {"pulls": jnp.sum(state)}


def test_draws_and_arms_of_the_problems_here() -> None:
    problem = arms(60, given([0.2, 0.5, 0.7]), Bernoulli())
    assert check(problem, Pairs(np.int32(0), np.float32(1)), thorough=False) == []
    with pytest.raises(BadInput, match=r"^policy Pairs.ask = a pull of number 3: 0 to 2"):
        check(problem, Pairs(np.int32(1), np.float32(1)))
    with pytest.raises(BadInput, match=r"^policy Pairs.ask = draws 1 to 2 of number 0, in step 4: draws that no step"):
        check(problem, Pairs(np.int32(0), np.float32(0.5)))


@pytree
@dataclass(frozen=True)
class Beyond:
    """A rule of this package that asks for ``number`` in place of its third arm or node."""

    rule: Any
    asked: str = field(metadata={"static": True})
    number: int = field(metadata={"static": True})

    def init(self, view: Any) -> Any:
        return self.rule.init(view)

    def ask(self, view: Any, state: Any) -> Any:
        pull = self.rule.ask(view, state)
        third = (state.seen.total if self.asked == "arm" else pull.number) == 2
        return pull._replace(**{self.asked: jnp.where(third, self.number, getattr(pull, self.asked))})

    def tell(self, view: Any, state: Any, pull: Any, outcome: Any) -> Any:
        return self.rule.tell(view, state, pull, outcome)

    def done(self, view: Any, state: Any) -> Any:
        return self.rule.done(view, state)

    def answer(self, view: Any, state: Any) -> Any:
        return self.rule.answer(view, state)


@pytest.mark.parametrize(
    ("kind", "rule", "asked", "number", "last"),
    [
        ({"kind": "outliers/synthetic", "n": 5, "budget": 20}, "rr", "arm", 5, 4),
        ({"kind": "extraction/people", "budget": 20}, "rand", "node", -1, 29),
    ],
)
def test_arms_and_nodes_that_do_not_exist(kind: dict[str, Any], rule: str, asked: str, number: int, last: int) -> None:
    (each,) = jaxbandit.Study.of({"runs": 2, "problem": kind, "policy": [{"kind": rule}]}).configurations()
    with pytest.raises(BadInput, match=rf"^policy Beyond.ask = a pull of number {number}: 0 to {last}"):
        check(each.problem, Beyond(each.policy, asked, number), thorough=False)


def test_studies_check_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checked = []
    original = conformance.check
    monkeypatch.setattr(conformance, "check", lambda *pair, **more: checked.append(pair) or original(*pair, **more))
    monkeypatch.setattr(conformance, "_passed", set())
    policies = {f"coin {share}": Coin(np.float32(share)) for share in (0.2, 0.7)}
    study = experiment(PROBLEM, policies, HEADS, runs=5)
    assert len(checked) == 1  # one structure
    run_study(study)
    experiment(PROBLEM, policies, HEADS, runs=9)
    assert len(checked) == 1
    experiment(PROBLEM, {"again": Repeating(HALF)}, HEADS, runs=5, check=False)
    with pytest.raises(BadInput, match="each pull once"):
        experiment(PROBLEM, {"again": lambda problem: Repeating(HALF)}, HEADS, runs=5)
    assert len(checked) == 2
    # One of this package's own is left alone.
    given = {"kind": "cleaning/synthetic", "budget": 20, "entities": 50}
    run_study(jaxbandit.Study.of({"runs": 2, "problem": given, "policy": [{"kind": "ee", "t": 1, "q": 0.5}]}))
    assert len(checked) == 2


@pytest.mark.parametrize(("folder", "found"), [("jax_mine", "line 1 of rule.py"), ("jax/mine", "its arguments")])
def test_a_folder_whose_name_begins_like_a_librarys_is_a_users(folder: str, found: str) -> None:
    path = Path(jax.__file__).parents[1] / folder / "rule.py"
    with pytest.raises(ZeroDivisionError) as error:
        exec(compile("1 / 0", str(path), "exec"))
    error.value.__traceback__ = error.value.__traceback__.tb_next  # type: ignore[union-attr]
    assert place(error.value) == found


def test_functions_that_raise() -> None:
    """In one line, with the place in the user's code; what they raised is kept."""
    missing = {"lost": lambda problem, answers: answers["lost"]}
    with pytest.raises(BadInput) as error:
        run_study(experiment(PROBLEM, {"it": Coin(HALF)}, missing, runs=2))
    assert re.match(r"metric lost = line \d+ of test_contract.py, `missing", str(error.value))
    assert str(error.value).endswith("of the answers heads, thrown; it raised KeyError: 'lost'")
    assert isinstance(error.value.__cause__, KeyError)
    with pytest.raises(
        BadInput, match=r"^policies\['it'\] = line .*makes the policy; it raised AttributeError: 'Coins'"
    ):
        experiment(PROBLEM, {"it": lambda problem: Coin(problem.arms)}, HEADS, runs=2)
    nothing = r"^policies\['it'\] = a function that returns nothing: one that returns the policy; see docs"
    with pytest.raises(BadInput, match=nothing):
        experiment(PROBLEM, {"it": lambda problem: None}, HEADS, runs=2)
    with pytest.raises(BadInput, match=r"^problem = a function that returns nothing: one that returns the problem"):
        experiment(lambda gap: None, {"it": Coin(HALF)}, HEADS, runs=2, sweep={"gap": [1, 2]})
    with pytest.raises(BadInput, match=r"^policy = None: an instance of a class with init, ask, tell, done and ans"):
        simulate(PROBLEM, None, runs=2)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"^seed = a: a whole number"):
        check(PROBLEM, Coin(HALF), seed="a")  # type: ignore[arg-type]


def test_runs_without_a_value_are_said(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    def some(problem: Any, answers: Any) -> Any:
        return np.where(np.arange(len(answers["heads"])) % 4 == 1, np.nan, answers["heads"])

    policies = {"a": Coin(HALF), "b": Coin(np.float32(0.1))}
    study = experiment(PROBLEM, policies, {"some": some, **HEADS}, runs=40)
    run_study(study, tmp_path / "out")
    line = "jaxbandit: some is not a number in 10 of 40 runs of a, and of 1 more configuration: no mean there"
    assert [record.getMessage() for record in caplog.records] == [line]
    for difference in ({}, {"difference": ["a", "b"]}):
        rule = {"metric": "some", "half_width": 0.1} | difference
        waiting = experiment(PROBLEM, policies, {"some": some, **HEADS}, runs=10**6, stop_when=rule)
        with pytest.raises(
            BadInput, match=r"^stop_when.metric = some: one with a value in each run; none in 256 of 1,024 runs"
        ):
            run_study(waiting)


class Marked(NamedTuple):
    """A pull of which a part is the same in all runs."""

    coin: Array
    number: Array
    count: Array
    side: str
    fair: bool


@own
class MarkedCoins(Coins):
    def pull(self, key: Any, instance: Any, pull: Any) -> Any:
        assert pull.side == "up"
        return super().pull(key, instance, pull[:3]) if not pull.fair else None, "landed"


@own
class MarkedCoin(Coin):
    step: int = 1

    def ask(self, view: View, state: State) -> Marked:
        coin, number, count = super().ask(view, state)
        return Marked(coin, number // self.step, count, "up", False)

    def tell(self, view: View, state: State, pull: Marked, outcome: Any) -> State:
        return State(state.thrown + pull.count, state.heads + outcome[0])


def test_a_pull_may_have_parts_that_are_no_arrays() -> None:
    problem = MarkedCoins(np.int32(20), np.float32(0.2), np.float32(0.8))
    assert check(problem, MarkedCoin(HALF, 1)) == []
    with pytest.raises(
        BadInput, match=r"^policy MarkedCoin.ask = Marked\(coin=1, number=0, count=1, side=up, fair=Fal"
    ):
        check(problem, MarkedCoin(HALF, 2))
