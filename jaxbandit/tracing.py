"""What is seen of a user's policy and problem when JAX traces a step: whether it is the same program once more, and
whether it factorizes matrices.

A generator that is none of ``jaxbandit.random``, as NumPy's, or a clock is asked while JAX traces, and what it says
becomes a constant of the program: the same for all runs, and another one in the next process.
"""

import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from jaxbandit.contract import PAGE, Contract, is_users
from jaxbandit.devices import lenient
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Policy, Problem
from jaxbandit.random.stream import Stream, stream

_LAPACK = {
    "cholesky", "eig", "eigh", "ffi_call", "geqrf", "hessenberg", "householder_product", "lu", "qr", "schur", "svd",
    "triangular_solve", "tridiagonal", "tridiagonal_solve",
}  # fmt: skip
_TIMES = 4
_log = logging.getLogger("jaxbandit")


def traced_alike(problem: Problem, policy: Policy, key: Stream) -> None:
    """Traces a step of a run several times: of a generator that knows two numbers, the next one may be the same.

    Raises:
        BadInput: where it does not have the same constants each time.
    """
    step = _step(problem, policy)
    constants = _constants_of(step, key)
    if all(_constants_of(step, key) == constants for _ in range(_TIMES - 1)):
        return
    raise BadInput(
        f"policy {type(policy).__name__}, or problem {type(problem).__name__}",
        "other numbers each time that JAX traces it",
        "those of jaxbandit.random: generators of NumPy and Python are asked once, as JAX traces, and say the same in "
        f"all runs, but something else in the next process; {PAGE}",
    )  # fmt: skip


def devices_for(pairs: Iterable[tuple[Problem, Policy]]) -> list[jax.Device]:
    """Returns all local devices; but one of a CPU's, and says so, where a step of a user's own factorizes matrices.

    LAPACK's routines divide a batch among the threads that all devices of a CPU share, and wait for them. Those of two
    devices may wait for each other forever (jaxlib 0.10).
    """
    local: list[jax.Device] = jax.local_devices()
    if len(local) > 1 and local[0].platform == "cpu":
        for problem, policy in pairs:
            if (is_users(problem) or is_users(policy)) and _factorizes(problem, policy):
                _said(type(policy).__name__)
                return local[:1]
    return local


@functools.cache
def _said(name: str) -> None:
    _log.warning(
        "jaxbandit: policy %s, or its problem, factorizes matrices: it runs on one core, as JAX's routines for that "
        "may wait for each other on several", name,
    )  # fmt: skip


def _factorizes(problem: Problem, policy: Policy) -> bool:
    """Whether a step calls LAPACK, or native code of the user's; False for what cannot be traced, which is refused
    elsewhere. A step is traced once for pairs that are alike but for their numbers."""
    leaves, structure = jax.tree.flatten((problem, policy))
    key = structure, tuple((np.shape(leaf), str(jnp.result_type(leaf))) for leaf in leaves)
    if key not in _known:
        try:
            with lenient():
                program = jax.make_jaxpr(_step(problem, policy))(stream(0, 0))
        except Exception:
            return False
        _known[key] = any(equation.primitive.name in _LAPACK for equation in _equations(program.jaxpr))
    return _known[key]


_known: dict[Any, bool] = {}


def _step(problem: Problem, policy: Policy) -> Callable[[Stream], Any]:
    """Returns a function that begins a run and makes a step."""
    # As a run has them: NumPy's arrays take no traced index.
    made = jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, (problem, policy))
    run = Contract(*made)

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

    return step


def _constants_of(function: Callable[..., Any], key: Stream) -> list[bytes]:
    """The values that a function's program has in it, in order; JAX would trace the same function only once."""
    return list(_constants(jax.make_jaxpr(lambda key: function(key))(key)))


def _constants(closed: ClosedJaxpr) -> Iterator[bytes]:
    yield from (np.asarray(value).tobytes() for value in closed.consts)
    yield from _literals(closed.jaxpr)


def _literals(jaxpr: Jaxpr) -> Iterator[bytes]:
    for equation in jaxpr.eqns:
        yield from (np.asarray(each.val).tobytes() for each in equation.invars if isinstance(each, Literal))
        for each in _within(equation):
            yield from _constants(each) if isinstance(each, ClosedJaxpr) else _literals(each)


def _within(equation: JaxprEqn) -> Iterator[Jaxpr | ClosedJaxpr]:
    """The programs that an equation has: of a loop, a branch, a function."""
    inner = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: isinstance(x, Jaxpr | ClosedJaxpr))
    return (each for each in inner if isinstance(each, Jaxpr | ClosedJaxpr))


def _equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for equation in jaxpr.eqns:
        yield equation
        for each in _within(equation):
            yield from _equations(each.jaxpr if isinstance(each, ClosedJaxpr) else each)


__all__ = ["devices_for", "traced_alike"]
