"""Whether a problem and a policy keep the contract: what types cannot show, found by running a few lanes.

``contract`` compares types while a program is traced. A step counter that goes on after the end, a pull number that is
used twice, a NaN or an arm that does not exist pass there: each gives wrong numbers without a word. ``check`` runs a
few lanes and looks at every step of them.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxbandit.contract import PAGE, briefly, inspect, inspect_pair, is_users, strong
from jaxbandit.engine import simulate
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Policy, Problem, Tree, execution_of, faster
from jaxbandit.parsers import whole
from jaxbandit.random.stream import stream
from jaxbandit.stepping import INFINITE, NAN, stepping_programs
from jaxbandit.tracing import traced_alike

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

    What is looked for: shapes and dtypes that change, a state that changes once the run is over, NaN in a state, an
    outcome or an answer, an index out of range in a problem of one's own, draws that are used twice. So are
    numbers of other generators than ``jaxbandit.random``. The policy is run by ``ask`` and ``tell``, by ``advance``
    where it has it, and so is its fast implementation; what ``advance`` pulls is not seen.

    Args:
        problem: one problem, as for ``simulate``.
        policy: one policy, as for ``simulate``.
        seed: of the runs, 0 to 2^32 - 1.
        thorough: whether to compare the engine's results of one lane with those of many as well, which compiles the
            policy twice more. ``run_study`` does without.

    Returns:
        Remarks, one line each, on what is no error, as that no run ended, or that a number is infinite or compiled in.

    Raises:
        BadInput: naming the class, the method, what was found and what to do.

    Example:
        >>> from jaxbandit import cleaning, check
        >>> problem = cleaning.synthetic(
        ...     budget=100, entities=1_000, false_values=cleaning.uniform_false_values(0, 9), sc_pdf=cleaning.Uniform()
        ... )
        >>> check(problem, cleaning.ee(3, 0.667))
        []
    """
    seed = whole(0, 2**32 - 1)("seed", seed)
    inspect("problem", problem)
    inspect("policy", policy)
    inspect_pair(problem, policy)
    problem, policy = jax.tree.map(strong, (problem, policy))
    if is_users(problem) or is_users(policy):
        with briefly():
            traced_alike(problem, policy, stream(seed, 0))
    remarks, endless = [], False
    for each, advancing in _ways(problem, policy):
        with briefly():
            trial = _Trial(problem, each, seed, advancing)
            trial.watch()
            ended = trial.finish()
        remarks += trial.remarks + ([] if ended else [_no_end(each, trial.steps)])
        endless |= not ended
    remarks = list(dict.fromkeys(remarks))
    remarks += _static_numbers("problem", problem) + _static_numbers("policy", policy)
    if thorough and not endless:  # which the engine would end after 10^8 steps
        _compare_widths(problem, policy, seed)
    return remarks


def check_once(pairs: Iterable[tuple[Problem, Policy]]) -> None:
    """``check`` for those pairs with a class of a user's own: one of each structure, once in a process.

    Remarks are logged.

    Raises:
        BadInput: see ``check``.
    """
    for pair in pairs:
        if not any(map(is_users, pair)):
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


def _ways(problem: Any, policy: Any) -> Iterator[tuple[Any, bool]]:
    """The policy and its fast implementation, each by ``ask`` and ``tell`` and by ``advance`` (true)."""
    fast = faster(policy, problem)
    for each in [policy] if fast is policy else [policy, fast]:
        advances = hasattr(each, "advance")
        if not advances or (hasattr(each, "ask") and hasattr(each, "tell")):
            yield each, False
        if advances:
            yield each, True


@dataclass
class _Trial:
    """A few runs of a policy, and what was seen of them."""

    problem: Any
    policy: Any
    seed: int
    advancing: bool = False
    steps: int = 0

    def __post_init__(self) -> None:
        self.remarks: list[str] = []
        self._policy = f"policy {type(self.policy).__name__}"
        self._problem = f"problem {type(self.problem).__name__}"
        keys = stream(self.seed, np.arange(LANES, dtype=np.uint32))
        self._leaves = jax.tree.leaves((self.problem, self.policy))
        self._programs = stepping_programs((self.problem, self.policy), keys, self.advancing)
        instance, state = self._programs.begin(self._leaves, keys)
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), self._programs.shapes)
        self._lanes = blank._replace(key=keys, instance=instance, state=state)
        self._seen: list[dict[bytes, int]] = [{} for _ in range(LANES)]
        self._draws: list[dict[int, list[tuple[int, int]]]] = [{} for _ in range(LANES)]

    def watch(self) -> None:
        """Makes the first steps one by one, and looks at each pull."""
        while self.steps < WATCHED and not bool(jnp.all(self._lanes.over)):
            self._go(1)
            if not self.advancing:
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
            if ended and np.isinf(np.asarray(values, np.float64)).any():
                self.remarks.append(f"{self._policy}.answer[{name!r}]: infinite at the end of a run, so it has no mean")
        for path, odd in zip(self._lanes.outcome, self._lanes.odd, strict=True):
            if (np.asarray(odd) == INFINITE).any():
                self.remarks.append(f"{self._problem}.pull, outcome{path}: infinite in one of {self.steps:,} steps")
        return ended

    def _go(self, steps: int, idle: bool = False) -> None:
        self._lanes, made = self._programs.advance(self._leaves, self._lanes, np.int32(steps), np.bool_(idle))
        self.steps += int(made)
        self._check_end()
        self._check_nan()

    def _check_end(self) -> None:
        for where, changed in zip(self._state(), self._lanes.changed, strict=True):
            if np.asarray(changed).any():
                raise BadInput(
                    where, "changed by a step after the end",
                    "the same bits, as execution.masked says: a run that is over is asked and told on, until others "
                    f"are over too. Leave masked away, and the engine keeps the state; {PAGE}",
                )  # fmt: skip

    def _state(self) -> list[str]:
        """What each leaf of the state is called, after the method that it comes from."""
        method = "advance" if self.advancing else "tell"
        methods = getattr(self.policy, "state_from", {})
        leaves = jax.tree_util.tree_flatten_with_path(self._lanes.state)[0]
        paths = [jax.tree_util.keystr(path) for path, _ in leaves]
        return [f"{self._policy}.{methods.get(path, method)}, state{path}" for path in paths]

    def _check_nan(self) -> None:
        for where, nan in zip(self._state(), self._lanes.nan, strict=True):
            if np.asarray(nan).any():
                raise BadInput(
                    where, f"NaN after one of the first {self.steps} steps",
                    f"a number: comparisons with NaN are false. An infinity can say that there is none yet; {PAGE}",
                )  # fmt: skip
        for path, odd in zip(self._lanes.outcome, self._lanes.odd, strict=True):
            if (np.asarray(odd) == NAN).any():
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
            if before == self.steps and is_users(self.problem):
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
    if not is_users(instance) or not is_dataclass(instance):
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
    some = {name: values[:, 5:] for name, values in many.items()}
    same_bits(policy, some, alone, "other values where runs share lanes otherwise")


_SAME = (
    "the same bits: init writes all of the state that is read later (but for its scratch), and what decides is "
    "compared as integers, as a compiler may round products that are summed in two ways"
)


def same_bits(
    policy: Policy, one: dict[str, np.ndarray], two: dict[str, np.ndarray], found: str, allowed: str = _SAME
) -> None:
    """Raises:
    BadInput: where answers that ought to be the same are not: ``found``, with what is ``allowed``.
    """
    for name, values in one.items():
        if values.tobytes() != two[name].tobytes():
            raise BadInput(f"policy {type(policy).__name__}.answer[{name!r}]", found, f"{allowed}; {PAGE}")


__all__ = ["check", "check_once", "same_bits"]
