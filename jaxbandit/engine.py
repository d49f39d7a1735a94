"""The engine on the host: which configurations run together, and what becomes of their answers."""

import itertools
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from operator import mul
from typing import Any, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import AxisType, Mesh

from jaxbandit.contract import briefly, inspect, inspect_pair, is_users, outside, strong
from jaxbandit.devices import lenient, use_all_cores
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Implementation, Policy, Problem, derived, faster, lean
from jaxbandit.jobs import Jobs
from jaxbandit.lanes import AXIS, Partition, shapes_of
from jaxbandit.parsers import whole
from jaxbandit.programs.ahead import Ahead, Program
from jaxbandit.programs.code import code_of, replaced
from jaxbandit.progress import Progress, Status, shown
from jaxbandit.tracing import devices_for

_log = logging.getLogger("jaxbandit")

_SMALL = 1 << 10
"""Bytes of a policy's array up to which a lane has its own, so that configurations run together that differ in it."""

P = TypeVar("P")


def _as_list(value: P | Sequence[P]) -> list[P]:
    several = isinstance(value, list | tuple) and not hasattr(value, "_fields")
    return list(value) if several else [value]  # type: ignore[list-item,arg-type]


def _fast(problem: Any, policy: Any) -> tuple[Any, Any]:
    """The faster implementation of a policy on a problem, and what it uses of the problem."""
    policy = faster(policy, problem)
    return problem if derived(problem) else lean(problem, policy), policy


def count_programs(pairs: Sequence[tuple[Problem, Policy]]) -> int:
    """About how many programs ``simulate_pairs`` compiles for these configurations, at one size."""
    flat = _strong([jax.tree.flatten(_fast(problem, policy)) for problem, policy in pairs])
    return len({(treedef, *((np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)) for leaves, treedef in flat})


def _groups(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Partition, list[Array], list[Array], list[int]]]:
    """Configurations that run together: one structure, equal arrays, but for what may vary between them.

    That is scalars, and the policy's small arrays, such as a schedule of rounds. What does vary is stacked.
    """
    found: dict[Any, list[int]] = {}
    contents: dict[int, tuple[Any, int]] = {}

    def content(leaf: Any) -> int:
        """A hash of an array's bytes, made once, as many configurations have one problem. The array is kept beside it,
        so that no other one gets its id."""
        if id(leaf) not in contents:
            contents[id(leaf)] = leaf, hash(np.asarray(leaf).tobytes())
        return contents[id(leaf)][1]

    flat = _strong([jax.tree.flatten(pair) for pair in pairs])
    for number, (leaves, treedef) in enumerate(flat):
        policy_from = len(jax.tree.leaves(pairs[number][0]))
        may_vary = tuple(
            np.ndim(leaf) == 0 or (at >= policy_from and leaf.nbytes <= _SMALL) for at, leaf in enumerate(leaves)
        )
        arrays = tuple(
            (np.shape(leaf), str(jnp.result_type(leaf)), None if may else content(leaf))
            for leaf, may in zip(leaves, may_vary, strict=True)
        )
        found.setdefault((treedef, may_vary, arrays), []).append(number)
    groups, others = [], replaced()
    for (treedef, may_vary, _), members in found.items():
        columns = list(zip(*(flat[member][0] for member in members), strict=True))
        varies = tuple(
            may and any(not np.array_equal(value, column[0]) for value in column[1:])
            for may, column in zip(may_vary, columns, strict=True)
        )
        shared = [jnp.asarray(column[0]) for column, does in zip(columns, varies, strict=True) if not does]
        # Up to a power of eight, so that few numbers of rows are compiled for.
        rows = [*range(len(members)), *[0] * (_row_room(len(members)) - len(members))]
        varying = [
            jnp.asarray(np.stack([np.asarray(column[row]) for row in rows]))
            for column, does in zip(columns, varies, strict=True)
            if does
        ]
        groups.append((Partition(treedef, varies, code_of(treedef, others)), shared, varying, members))
    return groups


def _strong(flat: Sequence[tuple[list[Any], Any]]) -> list[tuple[list[Any], Any]]:
    """The leaves of all pairs, each of one type (``contract.strong``): where Python's numbers differ between pairs of
    one structure, 0 beside 0.5 is a float as well."""
    floats = {(treedef, at) for leaves, treedef in flat for at, leaf in enumerate(leaves) if type(leaf) is float}
    made: dict[int, tuple[Any, Any]] = {}

    def one(leaf: Any, place: tuple[Any, int]) -> Any:
        if type(leaf) is int and place in floats:
            return strong(float(leaf))
        if id(leaf) not in made:  # many configurations have one problem
            made[id(leaf)] = leaf, strong(leaf)
        return made[id(leaf)][1]

    return [([one(leaf, (treedef, at)) for at, leaf in enumerate(leaves)], treedef) for leaves, treedef in flat]


def _row_room(members: int) -> int:
    """How many configurations a program has room for, if it is made for so many."""
    return next(room for room in itertools.accumulate(itertools.repeat(8), mul, initial=1) if room >= members)


@lenient()
def simulate(
    problem: Problem | Sequence[Problem],
    policy: Policy | Sequence[Policy],
    *,
    runs: int,
    seed: int = 0,
    first_run: int = 0,
    devices: Sequence[jax.Device] | None = None,
    lanes: int | None = None,
    checkpoints: Sequence[float] = (),
    implementation: Implementation = "fast",
    max_steps: int | None = None,
    progress: Progress | bool = True,
) -> dict[str, np.ndarray]:
    """Simulates ``runs`` independent runs of each configuration.

    Args:
        problem: one, or a list. The configurations are the pairs of problems and policies, a single one being repeated.
        policy: one, or a list as long as that of problems.
        runs: runs of each configuration, 1 to 2^31 - 1. Runs of the same number share their randomness.
        seed: 0 to 2^32 - 1.
        first_run: the number of the first run; results do not depend on how runs are divided among calls.
        devices: all local devices where None. On a CPU these are one a core, unless JAX had started before (a warning
            says so once), or ``JAX_NUM_CPU_DEVICES`` or ``XLA_FLAGS`` say how many.
        lanes: lanes advanced together on a device; chosen from the size of a lane's state where None. Halved as often
            as the device runs out of memory, with a warning.
        checkpoints: budgets, ascending and below that of each problem (its field ``budget``), at which a run is
            recorded too. Until a checkpoint, the problem shows the policy that budget and not its own: so it is for
            policies that do not plan for their budget. A record has the law of a run with the smaller budget, and its
            bits up to the first pull that a checkpoint cuts; so has the end of the run.
        implementation: "fast", or "reference" for each policy as it is written, without the faster implementation
            that it may have. Both have one law; where a pull's outcome is drawn reward by reward, they have one result
            (``kl-lucb`` but for ties).
        max_steps: steps after which a run is ended, rounded up to whole rounds (``Execution.stride``); 10^8 where None,
            or ten times the largest budget where that is more.
        progress: called with a ``Status`` between chunks of work. Where True, what takes longer than a second is shown
            on stderr, as a bar if that is a terminal or a notebook's; where False, nothing is.

    Returns:
        The answers by name, each an array of shape (configurations, runs, ...) of the dtype and shape that the policy
        gave it; NaN for a policy that has no such answer, where another one has. With checkpoints it is
        (configurations, runs, checkpoints + 1, ...), the end of the run last. Beside them ``endless`` (bool,
        (configurations, runs)): the run made ``max_steps`` steps and did not end. A warning says so too, and the other
        answers of such a run are zeros.

    Raises:
        BadInput: for a count or a seed out of range, for checkpoints out of order, for another implementation, and for
            a problem or a policy that breaks its contract in a way that types show (``check`` finds more), as answers
            of one name do that have different shapes under different policies.

    Example:
        >>> from jaxbandit import cleaning, simulate
        >>> problem = cleaning.synthetic(
        ...     budget=100, entities=1_000, false_values=cleaning.uniform_false_values(0, 9), sc_pdf=cleaning.Uniform()
        ... )
        >>> answers = simulate(problem, [cleaning.ee(t, 0.667) for t in (2, 3)], runs=50, seed=0)
        >>> answers["removed"].shape, answers["removed"].dtype
        ((2, 50), dtype('int32'))
    """
    if devices is None:
        use_all_cores(say=True)  # before anything here starts JAX
    outside("simulate")
    problems, policies = _as_list(problem), _as_list(policy)
    count = max(len(problems), len(policies))
    if not count:
        raise BadInput("problem", "none", "one, or a list of them")
    if {len(problems), len(policies)} - {1, count}:
        raise BadInput("policy", f"{len(policies)} of them", f"1, or as many as problems ({len(problems)})")
    for name, value, low, high in (
        ("runs", runs, 1, 2**31 - 1),
        ("seed", seed, 0, 2**32 - 1),
        ("first_run", first_run, 0, 2**32 - 1),
    ):
        whole(low, high)(name, value)
    runs, seed, first_run = map(int, (runs, seed, first_run))
    if first_run + runs > 2**32:
        raise BadInput("first_run", first_run, f"a whole number from 0 to {2**32 - runs}")
    budgets = np.asarray(checkpoints)
    if budgets.ndim != 1 or (budgets.size and budgets.dtype.kind not in "iuf"):
        raise BadInput("checkpoints", checkpoints, "a list of budgets")
    for role, given in (("problem", problems), ("policy", policies)):
        for each in given:
            inspect(role, each)
    if implementation not in get_args(Implementation):
        raise BadInput("implementation", implementation, f"one of {', '.join(get_args(Implementation))}")
    if devices is not None and not _are_devices(devices):
        raise BadInput("devices", devices, "None, or a list of devices as jax.devices() gives them, each once")
    pairs = list(zip(problems * (count // len(problems)), policies * (count // len(policies)), strict=True))
    for pair in pairs:
        inspect_pair(*pair)
    batch = Batch(pairs, checkpoints, max_steps, devices, implementation)
    used = Counter(batch.classes).items()
    _log.info("jaxbandit: configurations by the class that runs them: %s", ", ".join(f"{name} {n}" for name, n in used))
    batch.check_answers()
    own = batch.each(range(count), runs=runs, seed=seed, first_run=first_run, lanes=lanes, progress=progress)
    for line in _doubts(pairs, own):
        _log.warning("jaxbandit: %s", line)
    return _together(own)


def _are_devices(given: Any) -> bool:
    listed = isinstance(given, list | tuple) and given and all(isinstance(each, jax.Device) for each in given)
    return bool(listed) and len(set(given)) == len(given)


def _doubts(pairs: Sequence[tuple[Problem, Policy]], each: Sequence[dict[str, np.ndarray]]) -> Iterator[str]:
    """Yields a line for each policy whose runs did not end, and for each answer of a user's own that is no number."""
    names = [type(policy).__name__ for _, policy in pairs]
    for name in dict.fromkeys(names):
        rows = [row for row, other in enumerate(names) if other == name]
        endless = np.stack([each[row]["endless"] for row in rows])
        if endless.any():
            yield f"policy {name}: {endless_runs(int(endless.sum()), endless.size)}"
        theirs = [each[row] for row in rows if any(map(is_users, pairs[row]))]
        for answer in dict.fromkeys(key for own in theirs for key in own):
            values = [own[answer] for own in theirs if answer in own]
            if not np.issubdtype(values[0].dtype, np.floating):
                continue
            lacking = np.concatenate([np.isnan(own).reshape(len(own), -1).any(1) for own in values])
            if lacking.any():
                yield (
                    f"policy {name}, answer {answer!r}: not a number in {int(lacking.sum()):,} of {lacking.size:,} "
                    "runs, where a number is expected. jaxbandit.check(problem, policy) names the method that gave it "
                    "first"
                )


class Batch:
    """Configurations that are simulated again and again, some of them at a time, by the same compiled programs.

    ``hurry``: whether a program that has little to run may be compiled in a hurry. Not where problems of other budgets
    are to share it. ``classes``: by configuration, the name of the class that runs it, a faster implementation or not.
    """

    def __init__(
        self, pairs: Sequence[tuple[Problem, Policy]], checkpoints: Sequence[float] = (), max_steps: int | None = None,
        devices: Sequence[jax.Device] | None = None, implementation: Implementation = "fast", hurry: bool = True,
    ) -> None:  # fmt: skip
        problems = [problem for problem, _ in pairs]
        fast = [_fast(*pair) for pair in pairs]  # refuses a policy that was made for another problem
        pairs = fast if implementation == "fast" else pairs
        self._mesh = Mesh(np.array(devices or devices_for(pairs)), (AXIS,), axis_types=(AxisType.Auto,))
        self._budgets = _checkpoints(checkpoints, problems)
        self._most = _enough_steps(problems) if max_steps is None else whole(1, 2**62)("max_steps", max_steps)
        self._groups, self._hurry = _groups(pairs), hurry
        self.classes = [type(policy).__name__ for _, policy in pairs]

    def programs(self, which: Sequence[int], *, runs: int, lanes: int | None = None, room: int = 0) -> list[Program]:
        """The programs that ``run`` takes, in their order."""
        with lenient(), briefly():
            return [jobs.program() for jobs, _ in self._jobs(which, runs, 0, 0, lanes, room)]

    def lanes(self, which: Sequence[int], *, runs: int, lanes: int | None = None, room: int = 0) -> int:
        """Lanes of a device in these programs, the most of one."""
        with lenient(), briefly():
            return max(jobs.width() for jobs, _ in self._jobs(which, runs, 0, 0, lanes, room))

    def run(
        self, which: Sequence[int], *, runs: int, seed: int, first_run: int = 0, lanes: int | None = None,
        room: int = 0, progress: Progress | bool = False, ahead: Ahead | None = None,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        """Answers of the configurations ``which``, in that order, as ``simulate`` has them.

        ``room``: runs of all configurations together that programs are made for, where there are fewer: calls with no
        more than that share a program. ``ahead``: what compiles these programs, and others behind them.
        """
        self.check_answers()
        each = self.each(
            which, runs=runs, seed=seed, first_run=first_run, lanes=lanes, room=room, progress=progress, ahead=ahead
        )
        return _together(each)

    def check_answers(self) -> None:
        """Checks that answers of one name have one shape under all policies: else there is no array of them.

        Raises:
            BadInput: naming the answer and the shapes.
        """
        found: dict[str, set[tuple[int, ...]]] = {}
        with lenient(), briefly():
            for partition, shared, varying, _ in self._groups if len(self._groups) > 1 else ():
                for name, answer in shapes_of(partition, shared, varying, self._budgets)[1].items():
                    found.setdefault(name, set()).add(answer.shape)
        for name, shapes in found.items():
            if len(shapes) > 1:
                allowed = "of one shape by all policies of a call; one call for each has its own"
                raise BadInput(f"policy.answer[{name!r}]", " and ".join(map(str, sorted(shapes))), allowed)

    def each(
        self, which: Sequence[int], *, runs: int, seed: int, first_run: int = 0, lanes: int | None = None,
        room: int = 0, progress: Progress | bool = False, ahead: Ahead | None = None,
    ) -> list[dict[str, np.ndarray]]:  # fmt: skip
        """Does what ``run`` does; returns each configuration's own answers, of shape (runs, ...)."""
        results: list[dict[str, np.ndarray]] = [{} for _ in which]
        finished, total = 0, runs * len(which)
        place = {number: at for at, number in enumerate(which)}
        with shown(progress, "compiling") as tell, ExitStack() as held:
            if ahead is None:
                ahead = held.enter_context(Ahead(self.programs(which, runs=runs, lanes=lanes, room=room)))
            for jobs, members in self._jobs(which, runs, seed, first_run, lanes, room):

                def report(done: int, doing: str, idle: int = 0, base: int = finished) -> None:
                    tell(Status(base + done, total, doing, idle))

                with lenient(), briefly():
                    answers = jobs.run(ahead, report)
                for row, member in enumerate(members):
                    results[place[member]] = {name: values[row] for name, values in answers.items()}
                finished += runs * len(members)
        return results

    def _jobs(
        self, which: Sequence[int], runs: int, seed: int, first_run: int, lanes: int | None, room: int
    ) -> Iterator[tuple[Jobs, list[int]]]:
        """What runs together, and which configurations those are."""
        lanes = None if lanes is None else whole(1, 2**31 - 1)("lanes", lanes)
        wanted = set(which)
        for partition, shared, varying, members in self._groups:
            rows = [row for row, member in enumerate(members) if member in wanted]
            if rows:
                # As many rows as the group has, so that all choices from it share a program. Taken by NumPy, as JAX
                # would compile that for each shape.
                here = [jnp.asarray(np.asarray(leaf)[(rows + rows[:1] * len(leaf))[: len(leaf)]]) for leaf in varying]
                yield Jobs(
                    partition, shared, here, self._budgets, self._mesh, len(rows), seed, first_run, runs, self._most,
                    lanes, room, self._hurry,
                ), [members[row] for row in rows]  # fmt: skip


def _together(each: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Returns the answers of all configurations by name; NaN of one that has no such answer."""
    found = {}
    for name in dict.fromkeys(name for own in each for name in own):
        there = [own[name] for own in each if name in own]
        if len(there) < len(each):
            nothing = np.full(there[0].shape, np.nan, np.float32)
            there = [own.get(name, nothing) for own in each]
        found[name] = np.stack(there)
    return found


def _enough_steps(problems: Sequence[Any]) -> int:
    """More steps than a run needs that ends: also one that spends a unit of its budget a step."""
    budgets = [float(getattr(problem, "budget", None) or 0) for problem in problems]
    return max([10**8, *(int(10 * budget) for budget in budgets if np.isfinite(budget))])


def endless_runs(count: int, of: int) -> str:
    """What there is to say of runs that did not end."""
    return (
        f"{count:,} of {of:,} runs made as many steps as they may (max_steps) and did not end: the policy's `done` did "
        "not come true"
    )


def _checkpoints(given: Sequence[float], problems: Sequence[Any]) -> Array:
    """``given``, checked, with the dtype of the problems' budget."""
    if not len(given):
        return jnp.zeros(0, jnp.int32)
    budgets: list[Any] = [getattr(problem, "budget", None) for problem in problems]
    if not all(is_dataclass(problem) and "budget" in {field.name for field in fields(problem)} for problem in problems):
        raise BadInput("checkpoints", list(given), "none for a problem that is no dataclass with a field budget")
    if any(budget is None for budget in budgets):
        raise BadInput("checkpoints", list(given), "none for a problem whose budget is None")
    least = min(float(budget) for budget in budgets)
    steps = [0.0, *map(float, given), least]
    if not all(a < b for a, b in itertools.pairwise(steps)):
        raise BadInput("checkpoints", list(given), f"ascending budgets above 0 and below {least:g}")
    exact = np.asarray(given).astype(jnp.result_type(strong(budgets[0])))
    if exact.dtype.kind in "iu" and not np.array_equal(exact, np.asarray(given)):
        raise BadInput("checkpoints", list(given), f"budgets of the problem's type, {exact.dtype}")
    return jnp.asarray(exact)
