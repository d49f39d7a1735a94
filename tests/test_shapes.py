"""Arrays have the types and shapes that annotations say; axes of one name have one size in all that a step has."""

import collections
import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from jax import Array
from jaxtyping import Bool, Int32

from jaxbandit import cleaning, random
from jaxbandit.extraction.domains import people_like
from jaxbandit.random.stream import stream
from jaxbandit.registry import parse
from jaxbandit.study.families import FAMILIES

NAMES = {
    **vars(jaxtyping), "Tables": Any, "ArrayLike": jax.typing.ArrayLike,
    "NDArray": collections.defaultdict(lambda: np.ndarray), "Floats": np.ndarray, "Ints": np.ndarray,
}  # fmt: skip
"""What annotations name and modules do not import at run time, and aliases of NumPy 2.5 as the class they stand for."""


def arrays(hint: Any) -> list[Any]:
    """The annotations of arrays in a hint."""
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return [hint]
    return [each for inner in get_args(hint) for each in arrays(inner)]


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is one of the arrays of a hint; so is None where it may be."""
    return any(isinstance(value, each) for each in arrays(hint)) or (value is None and type(None) in get_args(hint))


def wrong(thing: Any, name: str) -> Iterator[str]:
    """What is not as it is annotated, in an object and the objects in it; a context of jaxtyping holds the axes."""
    names = getattr(thing, "_fields", None) or (is_dataclass(thing) and [each.name for each in fields(thing)]) or ()
    hints = get_type_hints(type(thing), localns=NAMES) if names else {}
    for each in names:
        value, hint = getattr(thing, each), hints[each]
        if hint is Array:
            yield f"{name}.{each} does not say its type and shape"
        elif arrays(hint) and not fits(value, hint):
            yield f"{name}.{each}, {jax.typeof(value)}, is not {hint}"
        yield from wrong(value, f"{name}.{each}")


def check(*things: Any) -> None:
    with jaxtyping.jaxtyped("context"):
        assert not [each for thing in things for each in wrong(thing, type(thing).__qualname__)]


class Pair(NamedTuple):
    mean: Int32[Array, " arms"]
    chosen: Bool[Array, " arms"]


class Bare(NamedTuple):
    mean: Array


def test_what_differs_is_found() -> None:
    check(Pair(jnp.arange(3), jnp.ones(3, bool)))
    mean, chosen = jnp.arange(3), jnp.ones(4, bool)
    for thing in (Pair(mean, chosen), Pair(chosen, chosen), Pair(mean, jnp.ones((3, 1), bool)), Bare(mean)):
        with pytest.raises(AssertionError, match=r"Pair\.(mean|chosen), .* is not|does not say"):
            check(thing)


PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "cleaning": ("synthetic", {"budget": 40, "entities": 30, "false_values": {"uniform": [0, 4]}}),
    "topk": ("bernoulli", {"n": 12, "K": 3, "budget": 240}),
    "outliers": ("synthetic", {"n": 12, "budget": 120}),
    "extraction": ("table", {"path": "cafes.csv", "entity": "name", "attributes": ["place", "kind"], "budget": 12.0}),
}


@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for family, found in FAMILIES.items() for name in found.policies]
)
def test_a_step_of_each_policy(family: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"cafe {n},{'PS'[n % 2]}/{'abc'[n % 3]},{'xy'[n % 5 > 2]}" for n in range(40)]
    (tmp_path / "cafes.csv").write_text("name,place,kind\n" + "\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    kind, given = PROBLEMS[family]
    given = given | ({"informed": True} if name == "gs-exact" else {})
    problem_kind, policy_kind = FAMILIES[family].problems[kind], FAMILIES[family].policies[name]
    setting = problem_kind.build(**parse("problem", problem_kind.parameters, given))
    policy = policy_kind.build(setting, **parse("policy", policy_kind.parameters, {}))[0]
    problem, policy = jax.tree.map(jnp.asarray, (setting.problem(), policy))
    show = problem.informed_view if getattr(policy, "informed", False) else problem.view

    def step() -> None:
        key = stream(0, 0)
        instance = problem.draw(key)
        view = show(key, instance)
        state = policy.init(view)
        pull = policy.ask(view, state)
        outcome = problem.pull(key, instance, pull)
        after = policy.tell(view, state, pull, outcome)
        check(problem, policy, instance, view, state, pull, outcome, after, policy.ask(view, after))
        told = get_type_hints(policy.tell, localns=NAMES)["outcome"]
        assert isinstance(outcome, told)
        assert fits(policy.done(view, after), get_type_hints(policy.done, localns=NAMES)["return"])

    jax.eval_shape(step)


def test_tables_of_the_host(tmp_path: Path) -> None:
    laws = np.stack([cleaning.Uniform().cells(0.1), cleaning.Beta(5, 2).cells(0.1)])
    weights, budgets = cleaning.uniform_false_values(0, 3) / 4, np.array([5, 10])
    check(cleaning.tune(laws, weights, 0.1))
    check(cleaning.level_for_budget(laws, weights, 20, budgets))
    check(cleaning.expected_removed(10, 3, np.array([1, 2]), laws, weights))
    (tmp_path / "claims.csv").write_text("flight,time\na,7:10\na,7:15\nb,8:00\n")
    check(cleaning.ambiguity(tmp_path / "claims.csv", "flight", "time"))
    check(people_like())
    for tree in people_like().trees:
        with jaxtyping.jaxtyped("context"):
            assert not list(wrong(tree, "tree"))
            assert fits(tree.above(), get_type_hints(tree.above, localns=NAMES)["return"])
            assert fits(tree.spans(), get_type_hints(tree.spans, localns=NAMES)["return"])
    for function, given in {
        cleaning.gamma_printed: (laws, weights, 5),
        cleaning.gamma_exact: (laws, weights, 5),
        cleaning.stopping_index: (laws, 3, 8),
        cleaning.allowed_failures: (laws, 0.5, 3, 8),
        cleaning.Uniform().cells: (0.1,),
    }.items():
        with jaxtyping.jaxtyped("context"):
            assert fits(function(*given), get_type_hints(function, localns=NAMES)["return"]), function.__name__


KEY, WORD = random.stream(0, 7), jnp.arange(6, dtype=jnp.uint32).reshape(2, 3)
ONE = jnp.ones((2, 3), jnp.int32)
DRAWS: dict[str, tuple[Any, ...]] = {
    "bernoulli": (WORD, 0.5), "binomial": (KEY, 1, ONE, 5, 0.5), "block": (KEY, 0, ONE), "categorical": (WORD, WORD[0]),
    "exponential": (WORD,), "geometric": (WORD, 0.5), "integers": (KEY, 1, ONE, 5), "permuted": (KEY, 1, 4),
    "negative_binomial": (KEY, 1, ONE, 2, 0.5), "position": (KEY, 1, ONE, 9), "race": (WORD, WORD, ONE, ONE, ONE),
    "race_on_tape": (KEY, ONE, ONE, WORD, ONE, ONE, ONE), "scale": (WORD, 5), "stream": (0, ONE),
    "substream": (KEY, 1, ONE), "thresholds": (np.ones((2, 4)),), "uniform": (WORD,), "words": (KEY, 1, ONE),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in random.__all__ if inspect.isfunction(getattr(random, name))])
def test_draws(name: str) -> None:
    draw = inspect.unwrap(getattr(random, name))
    hints = get_type_hints(draw, localns=NAMES)
    given = dict(zip(inspect.signature(draw).parameters, DRAWS[name], strict=True))
    found = draw(**given)
    with jaxtyping.jaxtyped("context"):
        for parameter, value in given.items():
            assert not arrays(hints[parameter]) or fits(value, hints[parameter]), parameter
        if isinstance(found, random.Stream):
            check(found)
        else:
            several = isinstance(found, tuple)
            assert all(fits(each, hints["return"]) for each in (found if several else (found,)))
