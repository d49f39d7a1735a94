"""Nothing that a policy is given holds the truth: what it sees, is told and keeps, down to closures and bound methods.

Nor does anything that it has before its first outcome depend on the truth. The one door to rewards, ``sample``, is left
out: the engine grants it, and a policy can only call it.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, make_dataclass
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax.extend.core import Literal

from jaxbandit import cleaning, extraction
from jaxbandit.arms.models import Model
from jaxbandit.arms.problem import given
from jaxbandit.arms.rewards import Bernoulli
from jaxbandit.cleaning import family as cleaning_family
from jaxbandit.cleaning.problem import View
from jaxbandit.engine import simulate
from jaxbandit.errors import BadInput
from jaxbandit.extraction import family as extraction_family
from jaxbandit.grammar import accelerated
from jaxbandit.laws import Beta
from jaxbandit.outliers import family as outliers_family
from jaxbandit.outliers.truth import Definition, source
from jaxbandit.random import Stream, stream
from jaxbandit.registry import parse
from jaxbandit.topk import family as topk_family


class Case(NamedTuple):
    """A policy on a problem. ``hidden``: what is the truth of (problem, run's key, instance), as parts of paths;
    ``sealed``: what is not shown as it is, but something public is derived from it."""

    problem: Any
    policy: Any
    hidden: tuple[str, ...]
    sealed: tuple[str, ...] = ()


def of_cleaning(kind: str, policy: str) -> Case:
    weights = cleaning.uniform_false_values(1, 5)
    setting = cleaning_family.Setting(30, 40, weights, Beta(2, 5), paired=kind == "paired")
    problem: Any = setting.problem()
    if kind == "known table":
        rng = np.random.default_rng(3)
        problem = cleaning.of_table(
            budget=30, false_values=rng.integers(1, 6, 40), sc_probabilities=rng.uniform(0.2, 0.9, 40)
        )
    hidden = "key", "hidden", "sc", "probabilities", "ranking"
    return Case(problem, built(cleaning_family.FAMILY, setting, policy), hidden)


def of_topk(_: str, policy: str) -> Case:
    means = given([0.3, 0.5, 0.5, 0.5, 0.8, 0.8, 0.9, 1.0])
    setting = topk_family.Setting(30, 3, Model(means, Bernoulli()))
    return Case(setting.problem(), built(topk_family.FAMILY, setting, policy), ("means", "rows", "outcomes"))


def of_outliers(_: str, policy: str) -> Case:
    definition = Definition("k-sigma", 1.5, False, 2.5, 0.9, "at-least")
    setting = outliers_family.Setting(200, source(given(np.linspace(0.1, 0.9, 12)), definition), definition)
    hidden = "source", "arms", "outcomes"
    return Case(setting.problem(), built(outliers_family.FAMILY, setting, policy), hidden)


@functools.cache
def people() -> Any:
    """Few entities in two trees, with the tables of the true gain."""
    rng = np.random.default_rng(5)
    parents = [0, 0, 0, 0], [0, 0, 0, 1, 1]
    trees = tuple(extraction.Tree(np.array(parent, np.int32), ("",) * len(parent)) for parent in parents)
    places = np.stack([rng.choice([1, 2, 3], 40), rng.choice([2, 3, 4], 40)], axis=1)
    domain = extraction.domain(trees, places, rng.uniform(1, 10, 40))
    return extraction_family.Setting(domain, 3.0, "proportional", "linear", ((2, 0), (3, 2)), True, None)


def of_extraction(_: str, policy: str) -> Case:
    hidden = "crowd", "inclusion", "instance"
    return Case(people().problem(), built(extraction_family.FAMILY, people(), policy), hidden, sealed=("key",))


def built(family: Any, setting: Any, policy: str) -> Any:
    kind = family.policies[policy]
    return kind.build(setting, **parse("policy", kind.parameters, {}))[0]


FAMILIES: dict[str, tuple[Any, Callable[[str, str], Case], tuple[str, ...]]] = {
    "cleaning": (cleaning_family.FAMILY, of_cleaning, ("paired", "not paired", "known table")),
    "topk": (topk_family.FAMILY, of_topk, ("",)),
    "outliers": (outliers_family.FAMILY, of_outliers, ("",)),
    "extraction": (extraction_family.FAMILY, of_extraction, ("",)),
}
CASES = [
    pytest.param(make, kind, policy, id=f"{name} {kind} {policy}")
    for name, (family, make, kinds) in FAMILIES.items()
    for kind in kinds
    for policy in family.policies
]


def parts_of(thing: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """The thing and all that can be reached from it."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, type):
        return
    seen.add(id(thing))
    yield thing
    held: list[Any] = []
    if isinstance(thing, dict):
        held = [*thing.keys(), *thing.values()]
    elif isinstance(thing, tuple | list | set | frozenset):
        held = [*thing]
    elif isinstance(thing, MethodType):
        held = [thing.__self__, thing.__func__]
    elif isinstance(thing, functools.partial):
        held = [thing.func, thing.args, thing.keywords]
    elif isinstance(thing, FunctionType):
        held = [cell.cell_contents for cell in thing.__closure__ or ()]
        held += [thing.__defaults__, thing.__kwdefaults__, thing.__dict__]
    elif not isinstance(thing, jax.Array | np.ndarray):
        held = [vars(thing)] if hasattr(thing, "__dict__") else []
        held += [getattr(thing, each.name) for each in fields(thing)] if is_dataclass(thing) else []
    for each in held:
        yield from parts_of(each, seen)


def leaks(case: Case, policy: Any) -> list[str]:
    """What of the truth a policy meets, by tracing a step of it: nothing is computed."""
    problem = case.problem
    key = stream(np.uint32(7), np.uint32(5))
    run = {"problem": problem, "key": key, "instance": jax.eval_shape(problem.draw, key)}
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(run)[0]]
    hidden, sealed = ([any(f".{n}" in path or f"['{n}']" in path for n in names) for path in paths]
                      for names in (case.hidden, case.sealed))  # fmt: skip
    concealed = [one or other for one, other in zip(hidden, sealed, strict=True)]
    found: list[str] = []

    def step(run: dict[str, Any]) -> list[Any]:
        truth = {id(leaf): path for path, leaf, own in zip(paths, jax.tree.leaves(run), concealed, strict=True) if own}
        problem, key, instance = run["problem"], run["key"], run["instance"]
        view = problem.view(key, instance)
        state = policy.init(view)
        before = [view, state, policy.done(view, state), policy.answer(view, state)]
        after = []
        if not hasattr(policy, "advance"):
            before.append(policy.ask(view, state))
            outcome = problem.pull(key, instance, before[-1])
            after = [outcome, policy.tell(view, state, before[-1], outcome)]
        for part in parts_of([policy, *before, *after]):
            if isinstance(part, type(problem) | type(instance)) and not isinstance(part, Stream):
                found.append(f"a {type(part).__name__}")
            if id(part) in truth:
                found.append(truth[id(part)])
        return [part for part in parts_of(before) if isinstance(part, jax.Array)]

    for part in parts_of(policy):
        if isinstance(part, type(problem)):
            found.append("the problem")
        leaves = zip(hidden, paths, jax.tree.leaves(run), strict=True)
        if isinstance(part, jax.Array | np.ndarray) and part.ndim:
            found += [path for own, path, leaf in leaves if own and leaf.shape and _same(part, leaf)]
    jaxpr = jax.make_jaxpr(step)(run).jaxpr
    tainted = {var for var, own in zip(jaxpr.invars, hidden, strict=True) if own}
    for equation in jaxpr.eqns:
        if any(not isinstance(var, Literal) and var in tainted for var in equation.invars):
            tainted.update(equation.outvars)
    if any(not isinstance(var, Literal) and var in tainted for var in jaxpr.outvars):
        found.append("something that depends on the truth")
    return found


def _same(part: Any, leaf: Any) -> bool:
    return not isinstance(leaf, jax.ShapeDtypeStruct) and np.array_equal(np.asarray(part), np.asarray(leaf))


@pytest.mark.slow
@pytest.mark.parametrize(("make", "kind", "name"), CASES)
def test_no_policy_meets_the_truth(make: Callable[[str, str], Case], kind: str, name: str) -> None:
    case = make(kind, name)
    if getattr(case.policy, "informed", False):
        assert name in ("known-sc", "gs-exact")
        pytest.skip("may see the truth, and says so")
    for policy in (case.policy, accelerated(case.policy, case.problem)):
        assert leaks(case, policy) == []


@pytest.mark.parametrize("held", ["model", "key", "instance", "stream", "method", "closure", "partial", "default", "p"])
def test_what_is_found(held: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard of the guard: truth in a field, a closure, a bound method, a default, a partial application; and what
    is computed of it."""
    case = of_cleaning("paired", "ee")
    original = type(case.problem).view

    def view(self: Any, key: Any, instance: Any) -> View:
        shown = original(self, key, instance)
        extra = {
            "model": self, "key": key, "instance": instance, "stream": instance.hidden, "method": self.draw,
            "closure": lambda: instance, "partial": functools.partial(self.concealed, instance),
            "default": lambda key=key: key, "p": self.concealed(instance, np.arange(3)),
        }  # fmt: skip
        object.__setattr__(shown, "extra", extra[held])
        return shown

    monkeypatch.setattr(type(case.problem), "view", view)
    assert leaks(case, case.policy) != []


@pytest.mark.parametrize("held", ["crowd", "key", "answers", "popularity"])
def test_what_is_found_of_extraction(held: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The crowd, the run's key, the key of the answers, and something that is computed from popularities."""
    case = of_extraction("", "rand")
    original = type(case.problem).view

    def view(self: Any, key: Any, instance: Any) -> Any:
        shown = original(self, key, instance)
        extra = {"crowd": self.crowd, "key": key, "answers": instance, "popularity": self.crowd.clock.sum()}
        object.__setattr__(shown, "extra", extra[held])
        return shown

    monkeypatch.setattr(type(case.problem), "view", view)
    assert leaks(case, case.policy) != []


def test_a_pull_by_rank_is_for_the_informed() -> None:
    """The same rule without ``informed`` is refused by one line, before anything runs."""
    problem = of_cleaning("paired", "ee").problem
    assert (simulate(problem, cleaning.known_sc(), runs=2)["removed"] > 0).all()
    secret = make_dataclass("Secret", [], bases=(cleaning.KnownSc,), namespace={"informed": False}, frozen=True)
    policy = jax.tree_util.register_dataclass(secret)()
    with pytest.raises(BadInput, match=r"policy Secret\.ask = a RankedPull: a pull of one who does not know the truth"):
        simulate(problem, policy, runs=2)


def test_what_is_public_does_not_tell_what_is_hidden() -> None:
    """From the public stream follow the false values, and from the hidden one p: neither is the other's."""
    problem = of_cleaning("paired", "ee").problem

    def three(first: Any, other: Any) -> Any:
        one, two = problem.draw(first), problem.draw(other)
        mixed = one._replace(hidden=two.hidden)
        entities = np.arange(40)
        return [
            (problem.view(first, instance).false_values(entities), problem.concealed(instance, entities))
            for instance in (one, two, mixed)
        ]

    one, two, mixed = jax.jit(three)(stream(np.uint32(7), np.uint32(5)), stream(np.uint32(7), np.uint32(6)))
    assert np.array_equal(mixed[0], one[0])
    assert not np.array_equal(two[0], one[0])
    assert np.array_equal(mixed[1], two[1])
    assert not np.array_equal(mixed[1], one[1])
