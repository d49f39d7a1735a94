"""Whether a problem and a policy keep the contract: what types cannot show, found by running a few lanes.

``contract`` compares types while a program is traced. A step counter that goes on after the end, a pull number that is
used twice, a NaN or an arm that does not exist pass there: each gives wrong numbers without a word. ``check`` runs a
few lanes and looks at every step of them.
"""

import functools
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import checkify

from jaxbandit.contract import PAGE, Contract, Used, briefly, inspect, is_array, is_own
from jaxbandit.engine import simulate
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Policy, Problem, Tree, execution_of
from jaxbandit.random.stream import Stream, stream

_log = logging.getLogger("jaxbandit")

LANES, WATCHED, MOST_STEPS = 4, 256, 1 << 16
"""Lanes that are run; steps of which each pull is looked at; steps until an end is no longer waited for."""
_SECONDS, _MOST_ITEMS = 3.0, 1 << 16
_AGAIN = (
    "a draw depends on its run and on the pull alone, so the second outcome is the first one again. Count the pulls of "
    "each arm, and let the pull say the next number"
)


def check(problem: Problem, policy: Policy, *, seed: int = 0, thorough: bool = True) -> list[str]:
    """Runs a few lanes, and raises an error at the first breach of the contract that they show.

    What is looked for: shapes and dtypes that change, a state that changes once the run is over, NaN in an outcome or
    an answer, an index out of range in a problem of one's own, draws that are used twice.

    Args:
        problem, policy: as for ``simulate``.
        seed: of the runs, 0 to 2^32 - 1.
        thorough: whether to compare the engine's results of one lane with those of many as well, which compiles the
            policy twice more. ``run_study`` does without.

    Returns:
        Remarks, one line each, on what is no error: that no run ended, or a number that is compiled in.

    Raises:
        BadInput: naming the class, the method, what was found and what to do.
    """
    inspect("problem", problem)
    inspect("policy", policy)
    with briefly():
        trial = _Trial(problem, policy, seed)
        trial.watch()
        ended = trial.finish()
    remarks = [] if ended else [_no_end(policy, trial.steps)]
    remarks += _static_numbers("problem", problem) + _static_numbers("policy", policy)
    if thorough:
        _compare_widths(problem, policy, seed)
    return remarks


def check_once(pairs: Iterable[tuple[Problem, Policy]]) -> None:
    """``check`` for those pairs with a class of a user's own: one of each structure, once in a process.

    Remarks are logged.

    Raises:
        BadInput: see ``check``.
    """
    for pair in pairs:
        if not any(map(is_own, pair)):
            continue
        for role, each in zip(("problem", "policy"), pair, strict=True):
            inspect(role, each)
        leaves, treedef = jax.tree.flatten(pair)
        key = treedef, tuple((np.shape(leaf), str(jnp.result_type(leaf))) for leaf in leaves)
        if key not in _passed:
            for remark in check(*pair, thorough=False):
                _log.warning("jaxbandit: %s", remark)
            _passed.add(key)


_passed: set[Any] = set()


class _Lanes(NamedTuple):
    """Some runs between two steps; all arrays have the lanes as their first axis.

    ``over``: whether the run was over before the last step; ``pull``: the arrays of what it asked there, ``outcome``:
    those of what it got, by their path.
    ``used``: what the problem's method of that name says of them, else None. ``changed``: by leaf of the state, whether
    a step after the end changed it; ``nan``: by leaf of the outcome, whether one held NaN before the end.
    """

    key: Stream
    instance: Tree
    state: Tree
    over: Array
    pull: list[Array]
    outcome: dict[str, Array]
    used: Used | None
    changed: list[Array]
    nan: list[Array]


def _differs(old: Array, new: Array) -> Array:
    nans = jnp.isnan(old) & jnp.isnan(new) if jnp.issubdtype(old.dtype, jnp.inexact) else jnp.zeros(old.shape, bool)
    return jnp.any((old != new) & ~nans)


def _step(run: Contract, key: Stream, instance: Tree, state: Tree) -> _Lanes:
    """One step of one lane, made plainly: without the policy's ``advance``."""
    view = run.view(key, instance)
    over = run.done(view, state)
    pull = run.ask(view, state)
    outcome = run.pull(key, instance, pull)
    after = run.tell(view, state, pull, outcome)
    if not execution_of(run.policy).masked:  # as the engine does
        after = jax.tree.map(lambda new, old: jnp.where(over, old, new), after, state)
    changed = [over & _differs(*pair) for pair in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True)]
    got = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(outcome)[0]}
    got = {path: jnp.asarray(leaf) for path, leaf in got.items() if is_array(leaf)}
    nan = [
        ~over & jnp.any(jnp.isnan(leaf)) if jnp.issubdtype(leaf.dtype, jnp.inexact) else jnp.bool_(False)
        for leaf in got.values()
    ]
    asked = [leaf for leaf in jax.tree.leaves(pull) if _varies(leaf)]
    return _Lanes(key, instance, after, over, asked, got, run.used(view, pull, outcome), changed, nan)


def _varies(leaf: Any) -> bool:
    """Whether a leaf of a pull is an array; one that is Python's is the same in all runs, and may be branched on."""
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def _init(run: Contract, key: Stream) -> tuple[Tree, Tree]:
    instance = jax.tree.map(jnp.asarray, run.draw(key))
    return instance, jax.tree.map(jnp.asarray, run.init(run.view(key, instance)))


class _Programs:
    """What is compiled for one structure of (problem, policy), whose leaves are the first argument of all.

    The structure is kept here and no argument: JAX takes two classes of the same fields for one structure.
    """

    def __init__(self, pair: tuple[Problem, Policy], key: Stream) -> None:
        leaves, self._treedef = jax.tree.flatten(pair)
        pulls: list[Tree] = []

        def sample(leaves: list[Any], key: Stream) -> _Lanes:
            run = self._join(leaves)
            instance, state = _init(run, key)
            pulls.append(run.ask(run.view(key, instance), state))
            return _step(run, key, instance, state)

        self.shapes = jax.eval_shape(jax.vmap(sample, (None, 0)), leaves, key)
        pulled, self._pull = jax.tree.flatten(pulls[0])
        self._fixed = [None if _varies(leaf) else (leaf,) for leaf in pulled]
        self.begin = jax.jit(jax.vmap(lambda leaves, key: _init(self._join(leaves), key), (None, 0)))
        self.advance = jax.jit(self._advance)
        self.answers = jax.jit(self._answers)
        self.again = jax.jit(self._again, static_argnames="indices")

    def pull(self, arrays: Sequence[Any]) -> Tree:
        """A pull, of its arrays."""
        rest = iter(arrays)
        return jax.tree.unflatten(self._pull, [next(rest) if own is None else own[0] for own in self._fixed])

    def _join(self, leaves: list[Any]) -> Contract:
        return Contract(*jax.tree.unflatten(self._treedef, leaves))

    def _advance(self, leaves: list[Any], lanes: _Lanes, most: Array, idle: Array) -> tuple[_Lanes, Array]:
        """Lanes after ``most`` steps, or fewer where all runs are over unless ``idle``; and how many these were."""

        def step(carry: tuple[_Lanes, Array]) -> tuple[_Lanes, Array]:
            lanes, made = carry
            run = self._join(leaves)
            new = jax.vmap(functools.partial(_step, run))(lanes.key, lanes.instance, lanes.state)
            changed, nan = jax.tree.map(jnp.logical_or, (lanes.changed, lanes.nan), (new.changed, new.nan))
            return new._replace(changed=changed, nan=nan), made + 1

        def on(carry: tuple[_Lanes, Array]) -> Array:
            return (carry[1] < most) & (idle | ~jnp.all(carry[0].over))

        return lax.while_loop(on, step, (lanes, jnp.int32(0)))

    def _answers(self, leaves: list[Any], lanes: _Lanes) -> dict[str, Array]:
        def one(key: Stream, instance: Tree, state: Tree) -> dict[str, Array]:
            run = self._join(leaves)
            return run.answer(run.view(key, instance), instance, state)

        return jax.vmap(one)(lanes.key, lanes.instance, lanes.state)

    def _again(self, leaves: list[Any], keys: Stream, arrays: list[Any], indices: bool = False) -> Any:
        """Outcomes of a pull in other runs; ``indices``: after an error of ``checkify`` on an index out of range."""

        def one(key: Stream) -> list[Array]:
            run = self._join(leaves)
            outcome = run.pull(key, run.draw(key), self.pull(arrays))
            return [jnp.asarray(leaf) for leaf in jax.tree.leaves(outcome) if is_array(leaf)]

        return jax.vmap(checkify.checkify(one, errors=checkify.index_checks) if indices else one)(keys)


@dataclass
class _Trial:
    """A few runs of a policy, and what was seen of them."""

    problem: Any
    policy: Any
    seed: int
    steps: int = 0

    def __post_init__(self) -> None:
        self._policy = f"policy {type(self.policy).__name__}"
        self._problem = f"problem {type(self.problem).__name__}"
        keys = stream(self.seed, np.arange(LANES, dtype=np.uint32))
        self._leaves = jax.tree.leaves((self.problem, self.policy))
        self._programs = _Programs((self.problem, self.policy), keys)
        instance, state = self._programs.begin(self._leaves, keys)
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), self._programs.shapes)
        self._lanes = blank._replace(key=keys, instance=instance, state=state)
        self._seen: list[dict[bytes, int]] = [{} for _ in range(LANES)]
        self._draws: list[dict[int, list[tuple[int, int]]]] = [{} for _ in range(LANES)]

    def watch(self) -> None:
        """Makes the first steps one by one, and looks at each pull."""
        while self.steps < WATCHED and not bool(jnp.all(self._lanes.over)):
            self._go(1)
            self._look()

    def finish(self) -> bool:
        """Goes on until all runs are over, looks at their answers, and tells them pulls that come after the end.

        Returns:
            Whether the runs did end.
        """
        start = time.monotonic()
        while not (ended := bool(jnp.all(self._lanes.over))) and self.steps < MOST_STEPS:
            if time.monotonic() - start > _SECONDS:
                break
            self._go(1024)
        if ended and execution_of(self.policy).masked:
            self._go(3, idle=True)
        for name, values in self._programs.answers(self._leaves, self._lanes).items():
            if ended and np.isnan(np.asarray(values, np.float64)).any():
                raise BadInput(f"{self._policy}.answer[{name!r}]", "NaN at the end of a run", f"a number; {PAGE}")
        return ended

    def _go(self, steps: int, idle: bool = False) -> None:
        self._lanes, made = self._programs.advance(self._leaves, self._lanes, np.int32(steps), np.bool_(idle))
        self.steps += int(made)
        self._check_end()
        self._check_nan()

    def _check_end(self) -> None:
        state = jax.tree_util.tree_flatten_with_path(self._lanes.state)[0]
        for (path, _), changed in zip(state, self._lanes.changed, strict=True):
            if np.asarray(changed).any():
                raise BadInput(
                    f"{self._policy}.tell, state{jax.tree_util.keystr(path)}", "changed by a step after the end",
                    "the same bits, as execution.masked says: a run that is over is asked and told on, until others "
                    f"are over too. Leave masked away, and the engine keeps the state; {PAGE}",
                )  # fmt: skip

    def _check_nan(self) -> None:
        for path, nan in zip(self._lanes.outcome, self._lanes.nan, strict=True):
            if np.asarray(nan).any():
                where = f"{self._problem}.pull, outcome{path}"
                raise BadInput(where, f"NaN in one of the first {self.steps} steps", f"a number; {PAGE}")

    def _look(self) -> None:
        """Looks whether runs that are not over asked for what they asked for before."""
        over, pulls = np.asarray(self._lanes.over), [np.asarray(leaf) for leaf in self._lanes.pull]
        for lane in np.flatnonzero(~over):
            pull = [leaf[lane] for leaf in pulls]
            key = b"".join(leaf.tobytes() for leaf in pull)
            before = self._seen[lane].setdefault(key, self.steps)
            if before < self.steps and self._random(pull):
                shown = _shown(self._programs.pull(pull))
                raise BadInput(
                    f"{self._policy}.ask", f"{shown} in steps {before} and {self.steps} of a run",
                    f"each pull once: {_AGAIN}; {PAGE}",
                )  # fmt: skip
            if before == self.steps and is_own(self.problem):
                self._check_indices(pull)
            if self._lanes.used is not None:
                self._check_used(int(lane), *(np.asarray(each)[lane] for each in self._lanes.used))

    def _check_used(self, lane: int, item: Any, first: Any, count: Any, items: Any) -> None:
        """Looks whether the items are there, and none of the draws was used before."""
        if item.size * self.steps > _MOST_ITEMS:
            return
        for one, low, many in zip(item.ravel().tolist(), first.ravel().tolist(), count.ravel().tolist(), strict=True):
            if many == 0:
                continue
            if not 0 <= one < items:
                raise BadInput(f"{self._policy}.ask", f"a pull of number {one}", f"0 to {items - 1}; {PAGE}")
            before = self._draws[lane].setdefault(one, [])
            if any(low < stop and begin < low + many for begin, stop in before):
                raise BadInput(
                    f"{self._policy}.ask", f"draws {low} to {low + many - 1} of number {one}, in step {self.steps}",
                    f"draws that no step before took: {_AGAIN}; {PAGE}",
                )  # fmt: skip
            before.append((low, low + many))

    def _random(self, pull: list[Any]) -> bool:
        """Whether the outcome of a pull is drawn: another one in other runs."""
        keys = stream(self.seed, np.arange(64, dtype=np.uint32))
        leaves = map(np.asarray, jax.tree.leaves(self._programs.again(self._leaves, keys, pull)))
        return any((leaf != leaf[:1]).any() for leaf in leaves)

    def _check_indices(self, pull: list[Any]) -> None:
        try:
            keys = stream(self.seed, np.zeros(1, np.uint32))
            error, _ = self._programs.again(self._leaves, keys, pull, indices=True)
        except IndexError:  # checkify does not know scatters in a vmap of the user's
            return
        message = error.get()
        if message:
            why = message.partition(": ")[2].partition("\n")[0].rstrip(". ")
            raise BadInput(
                f"{self._problem}.pull", _shown(self._programs.pull(pull)),
                f"indices in range, where JAX would take the nearest one without a word ({why}); {PAGE}",
            )  # fmt: skip


def _shown(pull: Tree) -> str:
    """As ``Pull(arm=1, number=7)``."""
    leaves = jax.tree_util.tree_flatten_with_path(pull)[0]
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    plain = all(name.isdigit() or not name for name in names)
    inner = ", ".join(str(leaf) if plain else f"{name}={leaf}" for name, (_, leaf) in zip(names, leaves, strict=True))
    return f"({inner})" if plain else f"{type(pull).__name__}({inner})"


def _no_end(policy: Any, steps: int) -> str:
    name = f"policy {type(policy).__name__}.done"
    return f"{name}: {LANES} runs did not all end in {steps:,} steps, so what happens after the end was not checked"


def _static_numbers(role: str, instance: Any) -> list[str]:
    """Numbers in static fields, which make a sweep compile for each value."""
    if not is_own(instance) or not is_dataclass(instance):
        return []
    return [
        f"{role} {type(instance).__name__}.{field.name}: a static field, so a program is compiled for each value of it"
        for field in fields(instance)
        if field.metadata.get("static")
        and isinstance(value := getattr(instance, field.name), int | float)
        and not isinstance(value, bool)
    ]


def _compare_widths(problem: Problem, policy: Policy, seed: int) -> None:
    """The engine's answers of runs side by side, against those of runs one after another in one lane."""
    device = jax.local_devices()[:1]
    many = simulate(problem, policy, runs=8, seed=seed, devices=device, progress=False)
    alone = simulate(problem, policy, runs=3, first_run=5, seed=seed, lanes=1, devices=device, progress=False)
    for name, values in many.items():
        if values[:, 5:].tobytes() != alone[name].tobytes():
            raise BadInput(
                f"policy {type(policy).__name__}.answer[{name!r}]", "other values where runs share lanes otherwise",
                "the same bits: init writes all of the state that is read later (but for its scratch), and what "
                f"decides is compared as integers; {PAGE}",
            )  # fmt: skip


__all__ = ["check", "check_once"]
