"""Whether a user's policy and problem are the same program when JAX traces them once more.

A generator that is none of ``jaxbandit.random``, as NumPy's, or a clock is asked while JAX traces, and what it says
becomes a constant of the program: the same for all runs, and another one in the next process.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from jaxbandit.contract import PAGE, Contract
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Policy, Problem
from jaxbandit.random.stream import Stream


def traced_alike(problem: Problem, policy: Policy, key: Stream) -> None:
    """Traces a step of a run twice.

    Raises:
        BadInput: where it has other constants the second time.
    """
    run = Contract(problem, policy)

    def step(key: Stream) -> Any:
        instance = run.draw(key)
        view = run.view(key, instance)
        state = run.init(view)
        if hasattr(policy, "ask"):
            pull = run.ask(view, state)
            state = run.tell(view, state, pull, run.pull(key, instance, pull))
        if hasattr(policy, "advance"):
            state = run.step(view, key, instance, state)
        return jax.tree.leaves((state, run.done(view, state), run.answer(view, instance, state)))

    if _constants_of(step, key) == _constants_of(step, key):
        return
    raise BadInput(
        f"policy {type(policy).__name__}, or problem {type(problem).__name__}",
        "other numbers each time that JAX traces it",
        "those of jaxbandit.random: generators of NumPy and Python are asked once, as JAX traces, and say the same in "
        f"all runs, but something else in the next process; {PAGE}",
    )  # fmt: skip


def _constants_of(function: Callable[..., Any], key: Stream) -> list[bytes]:
    """The values that a function's program has in it, in order; JAX would trace the same function only once."""
    return list(_constants(jax.make_jaxpr(lambda key: function(key))(key)))


def _constants(closed: ClosedJaxpr) -> Iterator[bytes]:
    yield from (np.asarray(value).tobytes() for value in closed.consts)
    yield from _literals(closed.jaxpr)


def _literals(jaxpr: Jaxpr) -> Iterator[bytes]:
    for equation in jaxpr.eqns:
        yield from (np.asarray(each.val).tobytes() for each in equation.invars if isinstance(each, Literal))
        inner = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: isinstance(x, Jaxpr | ClosedJaxpr))
        for each in inner:
            if isinstance(each, ClosedJaxpr):
                yield from _constants(each)
            elif isinstance(each, Jaxpr):
                yield from _literals(each)


__all__ = ["traced_alike"]
