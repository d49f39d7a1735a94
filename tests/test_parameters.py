"""Parameters are declared once: Python's functions refuse what a study file may not have, and both read one place."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
import pytest

from jaxbandit import BadInput, cleaning, extraction, outliers, topk
from jaxbandit.parameters import Key, checked, parameters
from jaxbandit.registry import Required, flag, one_of, whole
from jaxbandit.space import Choice
from jaxbandit.study.families import FAMILIES

OF = outliers.interval("bounded", delta=0.1, k=2.5)


@checked
def rule(
    of: Any,
    t: Annotated[int, Key(whole(1, 9))],
    *,
    word: Annotated[str | None, Key(one_of("a", "b"), on_request=True, when={"fast": Choice((True,))})] = None,
    fast: Annotated[bool, Key(flag)] = False,
) -> tuple[Any, ...]:
    """A rule.

    Args:
        of: is not declared.
        t: operations, one
            after the other; at least one.
        word, fast: a word. And more.
    """
    return of, t, word, fast


def test_what_is_declared() -> None:
    t, word, fast = parameters(rule)
    assert (t.name, t.default, t.help, t.required) == ("t", Required, "operations, one after the other", True)
    assert (word.default, word.on_request, word.help) == (None, True, "a word")
    assert (fast.default, fast.help) == (False, "a word")
    assert word.matters({"fast": True})
    assert not word.matters({"fast": False})
    assert [each.name for each in parameters(rule, leave_out=("t", "fast"))] == ["word"]
    assert parameters(rule, t=4)[0].default == 4


def test_a_signature_has_plain_types() -> None:
    found = inspect.signature(topk.optmai).parameters
    assert (found["arms"].annotation, found["inflate"].annotation, found["beta"].default) == (int, bool, 0.8)
    assert inspect.signature(topk.optmai).return_annotation is topk.OptMAI


def test_what_is_checked() -> None:
    assert rule("x", 3) == ("x", 3, None, False)
    assert rule(t=np.int64(3), of=None, word="b", fast=np.bool_(True)) == (None, 3, "b", True)
    given = rule(0, np.int32(3))[1]
    assert type(given) is int
    array = jnp.int32(99)
    assert rule(0, array)[1] is array  # may differ from run to run
    for wrong, line in (
        ({"t": 0}, "t = 0: a whole number from 1 to 9"),
        ({"t": True}, "t = True: a whole number from 1 to 9"),
        ({"t": 1, "word": "c"}, "word = c: one of a, b"),
        ({"t": 1, "fast": 1}, "fast = 1: true or false"),
    ):
        with pytest.raises(BadInput) as caught:
            rule(0, **wrong)
        assert str(caught.value) == line
    with pytest.raises(TypeError, match="missing a required argument: 't'"):
        rule(0)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: cleaning.ee(0, 0.5), "t"),
        (lambda: cleaning.ee(3, 1.5), "q"),
        (lambda: cleaning.ee(3, 0.5, early_stopping="no"), "early_stopping"),  # type: ignore[arg-type]
        (lambda: cleaning.epsilon_greedy(-0.1), "epsilon"),
        (lambda: topk.optmai(10, 20, 100), "want"),
        (lambda: topk.optmai(0, 1, 100), "arms"),
        (lambda: topk.optmai(10, 2, -1), "budget"),
        (lambda: topk.optmai(10, 2, 100, beta=0.7), "beta"),
        (lambda: topk.optmai(10, 2, 100, accept="best"), "accept"),
        (lambda: topk.optmai(10, 2, 100, last="none"), "last"),
        (lambda: topk.optmai(10, 2, 100, shares="none"), "shares"),
        (lambda: topk.sar(10, 2, 100, ties="none"), "ties"),
        (lambda: topk.sar(10, 11, 100), "want"),
        (lambda: topk.sequential_halving(10, 11, 100), "want"),
        (lambda: topk.uniform(0), "want"),
        (lambda: topk.uniform(1, remainder="keep"), "remainder"),
        (lambda: topk.lucb(1, delta=0), "delta"),
        (lambda: topk.lucb(1, epsilon=2), "epsilon"),
        (lambda: topk.lucb(1, odd="both"), "odd"),
        (lambda: topk.lucb(1, divergence="l2"), "divergence"),
        (lambda: outliers.interval("sharp", 0.1), "name"),
        (lambda: outliers.interval("bounded", 5), "delta"),
        (lambda: outliers.interval("bounded", 0.1, -1), "k"),
        (lambda: outliers.interval("bounded", 0.1, sides="below"), "sides"),
        (lambda: outliers.interval("bounded", 0.1, rule="mean"), "rule"),
        (lambda: outliers.wrr(OF, rho=0.5), "rho"),
        (lambda: outliers.nrr(OF, delta=1), "delta"),
        (lambda: outliers.ib(OF, scale=0), "scale"),
        (lambda: outliers.gold(OF, 50, eps=0.01), "eps"),
        (lambda: outliers.gold(OF, 50, rho=0.4), "rho"),
        (lambda: outliers.gold(OF, 5, rho=0.9), "rho"),
        (lambda: outliers.gold(OF, 50, size="all"), "size"),
        (lambda: extraction.crux(variance_floor=-1), "variance_floor"),
        (lambda: extraction.crux(removal="some"), "removal"),
        (lambda: extraction.bfs((1,)), "configuration"),  # type: ignore[arg-type]
        (lambda: extraction.bfs(dear="avoid"), "dear"),
        (lambda: extraction.rand(dear="skip"), "dear"),
        (lambda: extraction.gs_exact(reach="none"), "reach"),
    ],
)
def test_bad_arguments(call: Callable[[], Any], field: str) -> None:
    with pytest.raises(BadInput) as caught:
        call()
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_every_parameter_says_what_it_is() -> None:
    for family in FAMILIES.values():
        for kind in family.policies.values():
            for parameter in kind.parameters:
                assert parameter.help, (kind.name, parameter.name)
                # Cut at the first full stop, it must not end within a parenthesis.
                assert parameter.help.count("(") == parameter.help.count(")"), (kind.name, parameter.help)
                assert len(parameter.help) < 200, (kind.name, parameter.name)
                assert "``" not in parameter.help
