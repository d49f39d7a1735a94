"""The engine on the host: which configurations run together, on how many lanes, and what becomes of their answers."""

import itertools
import logging
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Protocol, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxbandit.contract import briefly, inspect
from jaxbandit.devices import use_all_cores
from jaxbandit.errors import BadInput, quoted
from jaxbandit.grammar import Implementation, Policy, Problem, accelerated, execution_of, lean
from jaxbandit.lanes import AXIS, Cut, Lane, bytes_of, compiled, empty_lanes, shapes_of
from jaxbandit.progress import Progress, Status, shown

_log = logging.getLogger("jaxbandit")

P = TypeVar("P")


def _as_list(value: P | Sequence[P]) -> list[P]:
    return list(value) if isinstance(value, list | tuple) else [value]  # type: ignore[list-item]


def _fast(problem: Any, policy: Any) -> tuple[Any, Any]:
    """The faster implementation of a policy on a problem, and what it uses of the problem."""
    policy = accelerated(policy, problem)
    return lean(problem, policy), policy


def count_programs(pairs: Sequence[tuple[Problem, Policy]]) -> int:
    """About how many programs ``simulate_pairs`` compiles for these configurations, at one size."""
    shapes = set()
    for problem, policy in pairs:
        leaves, treedef = jax.tree.flatten(_fast(problem, policy))
        shapes.add((treedef, *(np.shape(leaf) for leaf in leaves)))
    return len(shapes)


def _groups(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Cut, list[Array], list[Array], list[int]]]:
    """Configurations that run together: one structure, equal arrays; their differing scalars are stacked."""
    found: dict[Any, list[int]] = {}
    flat = [jax.tree.flatten(pair) for pair in pairs]
    for number, (leaves, treedef) in enumerate(flat):
        arrays = tuple(_fingerprint(leaf) for leaf in leaves if np.ndim(leaf))
        found.setdefault((treedef, arrays), []).append(number)
    groups = []
    for (treedef, _), members in found.items():
        columns = list(zip(*(flat[m][0] for m in members), strict=True))
        stacked = tuple(np.ndim(column[0]) == 0 and any(value != column[0] for value in column) for column in columns)
        shared = [jnp.asarray(column[0]) for column, own in zip(columns, stacked, strict=True) if not own]
        knobs = [
            jnp.stack([jnp.asarray(v) for v in column]) for column, own in zip(columns, stacked, strict=True) if own
        ]
        groups.append((Cut(treedef, stacked), shared, knobs, members))
    return groups


def _fingerprint(leaf: Any) -> Any:
    values = np.asarray(leaf)
    return values.shape, str(values.dtype), hash(values.tobytes())


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
        problem, policy: one of each, or lists; the configurations are the pairs, a single one being repeated.
        runs: runs of each configuration, 1 to 2^31 - 1. Runs of the same number share their randomness.
        seed: 0 to 2^32 - 1.
        first_run: the number of the first run; results do not depend on how runs are divided among calls.
        devices: all local devices where None. On a CPU these are one a core, unless JAX had started before (a warning
            says so once), or ``JAX_NUM_CPU_DEVICES`` or ``XLA_FLAGS`` say how many.
        lanes: lanes advanced together on a device; chosen from the size of a lane's state where None. Halved as often
            as the device runs out of memory, with a warning.
        checkpoints: budgets, ascending and below that of each problem (its field ``budget``), at which a run is
            recorded too. Until a checkpoint, the problem shows the policy that budget and not its own: so it is for
            policies that do not plan for their budget, and the record is that of a run with the smaller budget.
        implementation: "fast", or "reference" for each policy as it is written, without the faster implementation
            that it may have. Both have one law; where a pull's outcome is drawn reward by reward, they have one result.
        max_steps: steps after which a run is ended, rounded up to whole rounds (``Execution.stride``); 10^8 where None,
            or ten times the largest budget where that is more.
        progress: called with a ``Status`` between chunks of work. Where True, what takes longer than a second is shown
            on stderr, as a bar if that is a terminal or a notebook's; where False, nothing is.

    Returns:
        The answers by name, each an array of shape (configurations, runs, ...) of the dtype and shape that the policy
        gave it. With checkpoints it is (configurations, runs, checkpoints + 1, ...), the end of the run last. Beside
        them ``endless`` (bool, (configurations, runs)): the run made ``max_steps`` steps and did not end. A warning
        says so too, and the other answers of such a run are zeros.

    Raises:
        BadInput: for a count or a seed out of range, for checkpoints out of order, for another implementation, and for
            a problem or a policy that breaks its contract in a way that types show (``check`` finds more).

    Example:
        >>> from jaxbandit import cleaning, simulate
        >>> problem = cleaning.synthetic(
        ...     budget=100, entities=1_000, false_values=cleaning.uniform_false_values(0, 9), sc_pdf=cleaning.Uniform()
        ... )
        >>> answers = simulate(problem, [cleaning.ee(t, 0.667) for t in (2, 3)], runs=50, seed=0)
        >>> answers["removed"].shape, answers["removed"].dtype
        ((2, 50), dtype('int32'))
    """
    problems, policies = _as_list(problem), _as_list(policy)
    count = max(len(problems), len(policies))
    if {len(problems), len(policies)} - {1, count}:
        raise BadInput("policy", f"{len(policies)} of them", f"1, or as many as problems ({len(problems)})")
    for name, value, low, high in (
        ("runs", runs, 1, 2**31 - 1), ("seed", seed, 0, 2**32 - 1), ("first_run", first_run, 0, 2**32 - 1),
        ("max_steps", 1 if max_steps is None else max_steps, 1, 2**62),
        ("lanes", 1 if lanes is None else lanes, 1, 2**31 - 1),
    ):  # fmt: skip
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
            raise BadInput(name, quoted(value), f"a whole number from {low} to {high}")
    if first_run + runs > 2**32:
        raise BadInput("first_run", first_run, f"a whole number from 0 to {2**32 - runs}")
    budgets = np.asarray(checkpoints)
    if budgets.ndim != 1 or (budgets.size and not np.issubdtype(budgets.dtype, np.number)):
        raise BadInput("checkpoints", checkpoints, "a list of budgets")
    for role, given in (("problem", problems), ("policy", policies)):
        for each in given:
            inspect(role, each)
    if implementation not in get_args(Implementation):
        raise BadInput("implementation", implementation, f"one of {', '.join(get_args(Implementation))}")
    if devices is None:
        use_all_cores(say=True)
    answers = simulate_pairs(
        list(zip(problems * (count // len(problems)), policies * (count // len(policies)), strict=True)),
        runs=runs, seed=seed, first_run=first_run, devices=devices, lanes=lanes, checkpoints=checkpoints,
        implementation=implementation, max_steps=max_steps, progress=progress,
    )  # fmt: skip
    if endless := int(answers["endless"].sum()):
        _log.warning("jaxbandit: %s", endless_runs(endless, runs * count))
    return answers


def simulate_pairs(
    pairs: Sequence[tuple[Problem, Policy]], *, runs: int, seed: int, first_run: int, checkpoints: Sequence[float],
    max_steps: int | None, progress: Progress | bool, devices: Sequence[jax.Device] | None = None,
    lanes: int | None = None, implementation: Implementation = "fast",
) -> dict[str, np.ndarray]:  # fmt: skip
    """What ``simulate`` does once its arguments are checked. It says nothing of runs that do not end."""
    batch = Batch(pairs, checkpoints, max_steps, devices, implementation)
    return batch.run(range(len(pairs)), runs=runs, seed=seed, first_run=first_run, lanes=lanes, progress=progress)


class Batch:
    """Configurations that are simulated again and again, some of them at a time, by the same compiled programs."""

    def __init__(
        self, pairs: Sequence[tuple[Problem, Policy]], checkpoints: Sequence[float] = (), max_steps: int | None = None,
        devices: Sequence[jax.Device] | None = None, implementation: Implementation = "fast",
    ) -> None:  # fmt: skip
        problems = [problem for problem, _ in pairs]
        if implementation == "fast":
            pairs = [_fast(problem, policy) for problem, policy in pairs]
        self._mesh = Mesh(np.array(devices or jax.local_devices()), (AXIS,), axis_types=(AxisType.Auto,))
        self._budgets = _checkpoints(checkpoints, problems)
        self._most = _enough_steps(problems) if max_steps is None else max_steps
        self._groups = _groups(pairs)

    def run(
        self, which: Sequence[int], *, runs: int, seed: int, first_run: int = 0, lanes: int | None = None,
        room: int = 0, progress: Progress | bool = False,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        """Answers of the configurations ``which``, in that order, as ``simulate`` has them.

        ``room``: runs of all configurations together that programs are made for, where there are fewer: calls with no
        more than that share a program.
        """
        results: dict[str, np.ndarray] = {}
        finished, total = 0, runs * len(which)
        place = {number: at for at, number in enumerate(which)}
        with shown(progress, "compiling") as tell:
            for cut, shared, knobs, members in self._groups:
                rows = [row for row, member in enumerate(members) if member in place]
                if not rows:
                    continue
                here = [leaf[jnp.asarray((rows + rows[:1] * len(members))[: len(leaf)])] for leaf in knobs]

                def report(done: int, doing: str, idle: int = 0, base: int = finished) -> None:
                    tell(Status(base + done, total, doing, idle))

                with briefly():
                    answers = _run_group(
                        cut, shared, here, self._budgets, len(rows), self._mesh, runs, seed, first_run, self._most,
                        lanes, room, report,
                    )  # fmt: skip
                at = [place[members[row]] for row in rows]
                for name, values in answers.items():
                    results.setdefault(name, np.zeros((len(which), *values.shape[1:]), values.dtype))[at] = values
                finished += runs * len(rows)
        return results


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
    budgets = [getattr(problem, "budget", None) for problem in problems]
    if not all(is_dataclass(problem) and "budget" in {field.name for field in fields(problem)} for problem in problems):
        raise BadInput("checkpoints", list(given), "none for a problem that is no dataclass with a field budget")
    least = min(float(budget) for budget in budgets if budget is not None)
    steps = [0.0, *map(float, given), least]
    if not all(a < b for a, b in itertools.pairwise(steps)):
        raise BadInput("checkpoints", list(given), f"ascending budgets above 0 and below {least:g}")
    exact = np.asarray(given).astype(jnp.result_type(budgets[0]))
    if not np.array_equal(exact, np.asarray(given)):
        raise BadInput("checkpoints", list(given), f"budgets of the problem's type, {exact.dtype}")
    return jnp.asarray(exact)


_JOBS_AT_ONCE, _ANSWER_BYTES = 1 << 24, 1 << 30
_STATE_BYTES = {"cpu": 1 << 27}
_CACHE_BYTES = {"cpu": 1 << 20}
_VECTOR = 64


class _Report(Protocol):
    """Told between chunks: jobs that are done, what goes on, and steps since one of them ended."""

    def __call__(self, done: int, doing: str, idle: int = 0) -> None: ...


def _run_group(
    cut: Cut, shared: list[Array], knobs: list[Array], checkpoints: Array, configurations: int, mesh: Mesh,
    runs: int, seed: int, first_run: int, max_steps: int, lanes: int | None, room: int, report: _Report,
) -> dict[str, np.ndarray]:  # fmt: skip
    size = bytes_of(shapes_of(cut, shared, knobs, checkpoints)[1])
    at_once = max(1, min(_JOBS_AT_ONCE, _ANSWER_BYTES // size) // configurations)
    parts = []
    for start in range(0, runs, at_once):
        some = min(at_once, runs - start)
        base = start * configurations

        def onward(done: int, doing: str, idle: int = 0, base: int = base) -> None:
            report(base + done, doing, idle)

        while True:
            try:
                part = _run_jobs(
                    cut, shared, knobs, checkpoints, configurations, mesh, some, seed, first_run + start, max_steps,
                    lanes, room, onward,
                )  # fmt: skip
                break
            except jax.errors.JaxRuntimeError as error:
                lane, _ = shapes_of(cut, shared, knobs, checkpoints)
                lanes = _fewer(error, lanes or _width(lane, cut.join(shared, knobs)[1], mesh))
        parts.append(part)
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}


def _fewer(error: Exception, lanes: int) -> int:
    """Half of ``lanes``, where the error says that memory ran out."""
    if "RESOURCE_EXHAUSTED" not in str(error) or lanes == 1:
        raise error
    _log.warning("jaxbandit: out of memory with %s lanes a device; going on with %s", f"{lanes:,}", f"{lanes // 2:,}")
    return lanes // 2


def _run_jobs(
    cut: Cut, shared: list[Array], knobs: list[Array], checkpoints: Array, configurations: int, mesh: Mesh,
    runs: int, seed: int, first_run: int, max_steps: int, lanes: int | None, room: int, report: _Report,
) -> dict[str, np.ndarray]:  # fmt: skip
    report(0, "compiling")
    jobs, devices = configurations * runs, mesh.size
    # Room for a power of two of answers, so that few numbers of runs are compiled for.
    likely = max(jobs, room)
    per_device = 1 << (-(-likely // devices) - 1).bit_length()
    lane, answers = shapes_of(cut, shared, knobs, checkpoints)
    if "endless" in answers:
        raise BadInput("answer", "endless", "another name; this is what `simulate` calls runs that do not end")
    _, policy = cut.join(shared, knobs)
    width = min(lanes or _even(_width(lane, policy, mesh), -(-likely // devices), per_device), per_device)
    carry = jax.device_put(
        empty_lanes(lane, answers, width, per_device, devices), NamedSharding(mesh, PartitionSpec(AXIS))
    )
    stride = execution_of(policy).stride
    chunk = compiled(cut, mesh, stride)
    most_rounds = np.int32(min(-(-max_steps // stride), 2**31 - 1))
    numbers = (np.uint32(seed), np.uint32(first_run), np.int32(runs), np.int32(jobs), most_rounds)
    rounds, done, idle = 8, 0, 0
    while True:
        carry = chunk(*carry, shared, knobs, checkpoints, *numbers, np.int32(rounds))
        report(done, "running", idle)
        queue = carry[1]
        upcoming, waiting = np.asarray(queue.next), np.asarray(queue.open)
        issued = np.minimum(-(-(upcoming - np.arange(devices)) // devices), per_device).sum()
        before, done = done, int(max(0, min(jobs, issued) - waiting.sum()))
        idle = idle + rounds * stride if done == before else 0
        report(done, "running", idle)
        if not waiting.any() and (upcoming >= jobs).all():
            break
        rounds = min(2 * rounds, 256)
    return {
        name: np.asarray(values)
        .reshape(devices, per_device, *values.shape[1:])
        .swapaxes(0, 1)
        .reshape(-1, *values.shape[1:])[:jobs]
        .reshape(configurations, runs, *values.shape[1:])
        for name, values in (queue.answers | {"endless": queue.endless}).items()
    }


def _width(lane: Lane, policy: Policy, mesh: Mesh) -> int:
    platform, execution = mesh.devices.flat[0].platform, execution_of(policy)
    room = _STATE_BYTES.get(platform, 1 << 33)
    if execution.in_cache:
        room = _CACHE_BYTES.get(platform, room) * execution.in_cache
    most = execution.most_lanes if platform == "cpu" else 1 << 16
    return max(1, min(most, room // max(bytes_of(lane), execution.step_bytes)))


def _even(most: int, jobs: int, room: int) -> int:
    """At most ``most`` lanes: where they serve few times, as many as leave few idle the last time; whole vectors.

    It depends on ``jobs`` through how often they serve alone, as each width is compiled.
    """
    times = -(-jobs // most)
    width = most if times > 4 else min(most, -(-room // times))
    return width // _VECTOR * _VECTOR or width
