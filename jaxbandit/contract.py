"""What the engine expects of a problem and a policy, and the one message that a breach of it gets.

Types and shapes are compared while JAX traces a program, which it does anyway, so this costs no time. Breaches that
show in values alone (a reused pull number, a NaN) are found by ``conformance.check``.
"""

import difflib
import functools
import linecache
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax import Array

from jaxbandit.describe import described, is_array, type_of
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Execution, execution_of
from jaxbandit.many_steps import WAYS

PAGE = "see docs/own-policy.md, for arms docs/own-arms.md"
_METHODS = {"problem": ("draw", "view", "pull"), "policy": ("init", "ask", "tell", "done", "answer")}
_OPTIONAL = {"problem": ("score", "used", "informed_view"), "policy": ("execution", "advance", "informed")}
_TRACED: dict[Any, str] = {
    jax.errors.TracerBoolConversionError: "no if, while, and, or, not on an array's value: thousands of runs take the "
    "same step, so write jnp.where(condition, a, b), and &, |, ~",
    jax.errors.TracerArrayConversionError: "functions of jax.numpy in place of NumPy's, which need values",
    (jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError): "no Python number of an array's "
    "value, as int(), float(), range(), shapes and slices need: keep it an array",
    jax.errors.NonConcreteBooleanIndexError: "no array[mask], whose shape depends on values: jnp.where(mask, a, b)",
}


@contextmanager
def briefly() -> Iterator[None]:
    """Raises a ``BadInput`` again without the frames that it came through, which are JAX's; its cause keeps its own."""
    try:
        yield
    except BadInput as error:
        raise BadInput(error.field, error.value, error.allowed) from error.__cause__


def outside(call: str) -> None:
    """Checks that no function is being traced.

    Raises:
        BadInput: naming ``call``.
    """
    if isinstance(jnp.zeros(()), jax.core.Tracer):
        raise BadInput(call, "within jax.jit, jax.vmap or the like", "called outside of it, as it compiles by itself")


def made(field: str, what: str, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What a user's function makes: a policy or a problem.

    Raises:
        BadInput: naming ``field``, where the function raises something or returns nothing.
    """
    try:
        found = function(*given, **named)
    except BadInput:
        raise
    except Exception as error:
        allowed = f"a function that makes the {what}; it raised {raised_in(error)}"
        raise BadInput(field, place(error), allowed) from error
    if found is None:
        raise BadInput(field, "a function that returns nothing", f"one that returns the {what}; {PAGE}")
    return found


def is_users(instance: Any) -> bool:
    """Whether the class is a user's. The tests of this package cover its own classes."""
    return type(instance).__module__.partition(".")[0] != "jaxbandit"


def inspect(role: str, instance: Any) -> None:
    """Checks what can be seen of a problem or a policy before anything is traced.

    Args:
        role: "problem" or "policy".
        instance: what a user gave as that.

    Raises:
        BadInput: naming the class and the attribute: a class in place of an instance, a method that is missing, a
            class that is no pytree, a field that is no array, an attribute that belongs into ``execution``, or one
            that is nearly called as what the grammar has.
    """
    if instance is None:
        raise BadInput(role, "None", f"an instance of a class with {_listed(_METHODS[role])}; {PAGE}")
    if isinstance(instance, type):
        raise BadInput(role, f"the class {instance.__name__}", f"an instance, {instance.__name__}(...); {PAGE}")
    name = f"{role} {type(instance).__name__}"
    kind: Any = type(instance)
    _inspect_class(role, kind)
    leaves = jax.tree_util.tree_flatten_with_path(instance)[0]
    if any(leaf is instance for _, leaf in leaves):
        raise BadInput(name, "no pytree", f"a class under @jax.tree_util.register_dataclass, the first line; {PAGE}")
    for path, leaf in leaves:
        if not is_array(leaf):
            raise BadInput(
                f"{name}{jax.tree_util.keystr(path)}", leaf,
                "an array or a number; for another value, that is the same in all runs, declare the field as static: "
                f"dataclasses.field(metadata=dict(static=True)); {PAGE}",
            )  # fmt: skip
        strong(leaf, f"{name}{jax.tree_util.keystr(path)}")
    budget = getattr(instance, "budget", None)
    if role == "problem" and budget is not None and (not is_array(budget) or np.ndim(budget)):
        raise BadInput(f"{name}.budget", budget, f"a number, what all pulls of a run may cost; {PAGE}")
    if role == "policy":
        _inspect_execution(name, execution_of(instance))
    for field in fields(instance) if is_dataclass(instance) else ():
        value = getattr(instance, field.name)
        if field.metadata.get("static") and isinstance(value, np.ndarray | jax.Array):
            raise BadInput(f"{name}.{field.name}", value, f"no array in a static field: leave metadata away; {PAGE}")


_OF_PYTHON: dict[Any, Any] = {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex64}


def strong(leaf: Any, field: str = "problem or policy") -> Any:
    """Returns a leaf with the one type that it has in all programs: of Python's numbers one of 32 bits.

    Else what JAX makes of it, and of what it meets, would depend on whether it differs between configurations.

    Raises:
        BadInput: naming ``field``, for an integer that JAX would not keep.
    """
    if isinstance(leaf, jax.Array):
        return np.asarray(leaf) if leaf.weak_type and not isinstance(leaf, jax.core.Tracer) else leaf
    kind: Any = _OF_PYTHON.get(type(leaf)) or jax.dtypes.canonicalize_dtype(np.asarray(leaf).dtype)
    if np.issubdtype(kind, np.integer) and (values := np.asarray(leaf)).size:
        least, most = np.iinfo(kind).min, np.iinfo(kind).max
        if not least <= values.min() <= values.max() <= most:
            given = leaf if np.ndim(leaf) == 0 else f"{values.min()} to {values.max()}"
            raise BadInput(field, given, f"a number of 32 bits, {least} to {most}")
    return leaf if type(leaf) not in _OF_PYTHON else kind(leaf)


def inspect_pair(problem: Any, policy: Any) -> None:
    """Checks that a policy is for such problems, as far as both are of this package.

    Raises:
        BadInput: for a policy of another family.
    """
    if is_users(problem) or is_users(policy):
        return
    shown, seen = (kind.__globals__.get("View") for kind in (type(problem).view, type(policy).init))
    if shown and seen and shown is not seen:
        families = [type(each).__module__.split(".")[1] for each in (problem, policy)]
        allowed = f"one for problems of {families[0]}, as {type(problem).__name__} is"
        raise BadInput("policy", f"{type(policy).__name__}, a policy of {families[1]}", allowed)


@functools.cache
def _inspect_class(role: str, kind: Any) -> None:
    name = f"{role} {kind.__name__}"
    advances = callable(getattr(kind, "advance", None))  # then nothing else asks and tells
    for method in _METHODS[role]:
        if advances and method in ("ask", "tell"):
            continue
        if not callable(getattr(kind, method, None)):
            raise BadInput(f"{name}.{method}", "missing", f"a method; a {role} has {_listed(_METHODS[role])}; {PAGE}")
    if kind.__module__.partition(".")[0] == "jaxbandit":
        return
    declared = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    hints = {field.name for field in fields(Execution)} if role == "policy" else set()
    for attribute in {*dir(kind)} - {*_METHODS[role], *_OPTIONAL[role], *declared}:
        if attribute in hints:
            allowed = f"a part of execution = jaxbandit.Execution({attribute}=...); {PAGE}"
            raise BadInput(f"{name}.{attribute}", getattr(kind, attribute), allowed)
        near = [] if attribute.startswith("_") else difflib.get_close_matches(attribute, _OPTIONAL[role], 1, 0.8)
        if near:
            raise BadInput(f"{name}.{attribute}", "no name of the grammar", f"{near[0]}, or one less like it; {PAGE}")


_LEAST_HINTS = {"stride": 1, "most_lanes": 1, "unroll": 1, "step_bytes": 0, "temporaries": 0, "cache_mib": 0}


def _inspect_execution(name: str, execution: Execution) -> None:
    for hint, least in _LEAST_HINTS.items():
        value = getattr(execution, hint)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadInput(f"{name}.execution.{hint}", value, f"a whole number from {least}; {PAGE}")
    for hint in ("gain_ns", "loss_ns", "growth"):
        value = getattr(execution, hint)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise BadInput(f"{name}.execution.{hint}", value, f"a number from 0; {PAGE}")
    if execution.level not in (2, 3):
        raise BadInput(f"{name}.execution.level", execution.level, f"2 or 3; {PAGE}")
    if execution.many_steps not in ("", *WAYS):
        allowed = f"{', '.join(map(repr, WAYS))}, or '' for one step at a time; {PAGE}"
        raise BadInput(f"{name}.execution.many_steps", execution.many_steps, allowed)
    scratch = execution.scratch
    if not isinstance(scratch, tuple) or not all(isinstance(each, str) for each in scratch):
        raise BadInput(f"{name}.execution.scratch", scratch, f"a tuple of names of fields of the state; {PAGE}")


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


class Used(NamedTuple):
    """The draws that a pull took: of each ``item`` (an arm, an entity), ``times`` of them from number ``first`` on.

    int32 all; the first three of one shape. ``items``: how many there are, so that an item is from 0 to ``items`` - 1.
    """

    item: Array
    first: Array
    times: Array
    items: Array


@dataclass(frozen=True)
class Contract:
    """A problem and a policy, whose methods are called through it: what one of them raises or returns is checked.

    Raises:
        BadInput: from each method, naming the class, the method, what was found and what is expected. What was raised
            in the method is its ``__cause__``.
    """

    problem: Any
    policy: Any

    def draw(self, key: Any) -> Any:
        """``problem.draw``: a pytree of arrays."""
        return self._arrays("problem", "draw", "instance", self._call("problem", "draw", key))

    def view(self, key: Any, instance: Any) -> Any:
        """``problem.view``, or ``problem.informed_view`` for a policy that is ``Informed``: whatever it is."""
        if not getattr(self.policy, "informed", False):
            return self._call("problem", "view", key, instance)
        if not hasattr(self.problem, "informed_view"):
            allowed = f"a method, for {type(self.policy).__name__}, which is informed; {PAGE}"
            raise BadInput(self._name("problem", "informed_view"), "missing", allowed)
        return self._call("problem", "informed_view", key, instance)

    def pull(self, key: Any, instance: Any, pull: Any) -> Any:
        """``problem.pull``: whatever it is. A pull that is ``informed`` is for policies that are so too."""
        if getattr(pull, "informed", False) and not getattr(self.policy, "informed", False):
            allowed = f"a pull of one who does not know the truth; a reference that may says informed = True; {PAGE}"
            raise BadInput(self._name("policy", "ask"), f"a {type(pull).__name__}", allowed)
        return self._call("problem", "pull", key, instance, pull)

    def used(self, view: Any, pull: Any, outcome: Any) -> Used | None:
        """``problem.used``, where there is one: which draws a pull took."""
        return self._call("problem", "used", view, pull, outcome) if hasattr(self.problem, "used") else None

    def init(self, view: Any) -> Any:
        """``policy.init``: a pytree of arrays."""
        state = self._arrays("policy", "init", "state", self._call("policy", "init", view))
        for name in execution_of(self.policy).scratch:
            if name not in getattr(state, "_fields", ()):
                allowed = f"fields of the state, a NamedTuple: {described(state)}; {PAGE}"
                raise BadInput(self._name("policy", "execution.scratch"), name, allowed)
        return state

    def ask(self, view: Any, state: Any) -> Any:
        """``policy.ask``: whatever it is."""
        return self._call("policy", "ask", view, state)

    def tell(self, view: Any, state: Any, pull: Any, outcome: Any) -> Any:
        """``policy.tell``: a state of the structure, the shapes and the dtypes of ``state``."""
        return self._same("tell", state, self._call("policy", "tell", view, state, pull, outcome))

    def step(self, view: Any, key: Any, instance: Any, state: Any) -> Any:
        """A state like ``state``, after a pull; after some, where the policy has ``advance``."""
        if hasattr(self.policy, "advance"):
            after = self._call("policy", "advance", view, state, lambda pull: self.pull(key, instance, pull))
            return self._same("advance", state, after)
        pull = self.ask(view, state)
        return self.tell(view, state, pull, self.pull(key, instance, pull))

    def done(self, view: Any, state: Any) -> Array:
        """``policy.done``: a bool scalar."""
        done = self._call("policy", "done", view, state)
        if not is_array(done) or type_of(done) != "bool[]":
            raise BadInput(self._name("policy", "done"), described(done), f"bool[], whether the run is over; {PAGE}")
        return jnp.asarray(done)

    def answer(self, view: Any, instance: Any, state: Any) -> dict[str, Array]:
        """``policy.answer``, held against the truth where the problem has ``score``: arrays by name."""
        answers = self._call("policy", "answer", view, state)
        if hasattr(self.problem, "score"):
            return self._by_name("problem", "score", self._call("problem", "score", instance, answers))
        return self._by_name("policy", "answer", answers)

    def _by_name(self, role: str, method: str, answers: Any) -> dict[str, Array]:
        name = self._name(role, method)
        if not isinstance(answers, dict) or not answers or not all(isinstance(each, str) for each in answers):
            raise BadInput(name, described(answers), f"a dict of arrays by name, as {{'wins': ...}}; {PAGE}")
        for each, value in answers.items():
            if not is_array(value):
                raise BadInput(f"{name}[{each!r}]", described(value), f"an array; {PAGE}")
        return answers

    def _name(self, role: str, method: str) -> str:
        return f"{role} {type(getattr(self, role)).__name__}.{method}"

    def _call(self, role: str, method: str, *given: Any) -> Any:
        try:
            return getattr(getattr(self, role), method)(*given)
        except BadInput:
            raise
        except Exception as error:
            if not (is_users(self.problem) or is_users(self.policy)):
                raise
            raise self._translated(role, method, error, given) from error

    def _translated(self, role: str, method: str, error: Exception, given: tuple[Any, ...]) -> BadInput:
        raised = raised_in(error)
        if method == "pull" and not is_users(self.problem):
            allowed = f"a pull that {self._name('problem', 'pull')} takes, which raised {raised}; {PAGE}"
            return BadInput(self._name("policy", "ask"), described(given[-1]), allowed)
        return breach(self._name(role, method), error)

    def _arrays(self, role: str, method: str, what: str, tree: Any) -> Any:
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
            if not is_array(leaf):
                field = f"{self._name(role, method)}, {what}{jax.tree_util.keystr(path)}"
                raise BadInput(field, leaf, f"an array, as everything that a run keeps, not {type_of(leaf)}; {PAGE}")
        return tree

    def _same(self, method: str, before: Any, after: Any) -> Any:
        name = self._name("policy", method)
        kept: Any = jax.tree.structure(before)
        if kept != jax.tree.structure(after):
            raise BadInput(name, described(after), f"a state as it was given, {described(before)}; {PAGE}")
        leaves = jax.tree_util.tree_flatten_with_path(after)[0]
        for old, (path, new) in zip(jax.tree.leaves(before), leaves, strict=True):
            if type_of(old) != type_of(new):
                field = f"{name}, state{jax.tree_util.keystr(path)}"
                cast = f", as by .astype(jnp.{jnp.result_type(old)})" if jnp.shape(old) == jnp.shape(new) else ""
                raise BadInput(field, type_of(new), f"{type_of(old)}, as in the state that it was given{cast}; {PAGE}")
        return after


def breach(name: str, error: Exception) -> BadInput:
    """What is said of a user's method that raised ``error``; ``name`` is the method's, with its class."""
    own = next((allowed for kind, allowed in _TRACED.items() if isinstance(error, kind)), None)
    return BadInput(name, place(error), f"{own or f'it raised {raised_in(error)}'}; {PAGE}")


def raised_in(error: Exception) -> str:
    """An exception's type and the first line of its message."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def place(error: Exception) -> str:
    """The last line of a user's code that an exception passed through."""
    files = jax.__file__, jaxlib.__file__, np.__file__, __file__
    libraries = tuple(str(Path(path).parent) + os.sep for path in files if path)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(libraries)]
    if not frames:
        return "its arguments"
    last = frames[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    return f"line {last.lineno} of {Path(last.filename).name}" + (f", `{line}`" if line else "")
