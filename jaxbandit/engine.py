"""Lanes: many runs of a policy on a problem advance together, whatever the family.

A lane is one run of one configuration. The batch loop steps all lanes at once, the step vmapped inside it; lanes that
are done stay as they are, until the next refill gives them another run. Nothing that a lane computes depends on its
place, so a study's results have the same bits however it is cut.
"""

import functools
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxbandit.contract import Contract, briefly, inspect
from jaxbandit.devices import use_all_cores
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Implementation, Policy, Problem, Tree, accelerated, execution_of
from jaxbandit.progress import Progress, Status, shown
from jaxbandit.random.stream import Stream, stream
from jaxbandit.xla.fence import as_one_kernel, where_due
from jaxbandit.xla.options import CPU_OPTIONS

_log = logging.getLogger("jaxbandit")


class _Curve(NamedTuple):
    """A lane's way along the checkpoints: how many it has passed, the budget that it may spend until the next, and
    its answers there, each of shape (checkpoints, ...)."""

    passed: Array
    budget: Array
    answers: dict[str, Array]


class _Lane(NamedTuple):
    """``rounds`` is how many rounds of steps the run has made; ``curve`` is None where there are no checkpoints."""

    job: Array
    rounds: Array
    key: Stream
    knobs: list[Array]
    instance: Tree
    state: Tree
    curve: _Curve | None


class _Queue(NamedTuple):
    """A device's share of the jobs: numbers ``next``, ``next + step`` ... below ``end``; by slot the answers, and which
    runs made as many steps as they may (``endless``)."""

    next: Array
    open: Array
    answers: dict[str, Array]
    endless: Array


class _Cut(NamedTuple):
    """Which leaves of (problem, policy) differ between configurations, and how to put the pair together again."""

    treedef: Any
    stacked: tuple[bool, ...]

    def join(self, shared: Sequence[Array], knobs: Sequence[Array]) -> tuple[Any, Any]:
        common, own = iter(shared), iter(knobs)
        pair: tuple[Any, Any] = jax.tree.unflatten(
            self.treedef, [next(own) if s else next(common) for s in self.stacked]
        )
        return pair


_AXIS = "lanes"
_NOWHERE = 2**31 - 1


def _begin(
    cut: _Cut, shared: Sequence[Array], stacked: Sequence[Array], checkpoints: Array, configuration: Array, key: Stream
) -> _Lane:
    """A lane before its first pull; its job is not known here."""
    knobs = [leaf[configuration] for leaf in stacked]
    problem, policy = cut.join(shared, knobs)
    many = checkpoints.shape[0]
    if many:
        problem = replace(problem, budget=checkpoints[0])
    run = Contract(problem, policy)
    instance = run.draw(key)
    view = run.view(key, instance)
    state = run.init(view)
    curve = None
    if many:
        blank = {
            name: jnp.zeros((many, *jnp.shape(value)), jnp.result_type(value))
            for name, value in run.answer(view, instance, state).items()
        }
        curve = _Curve(jnp.int32(0), checkpoints[0], blank)
    return _Lane(jnp.int32(-1), jnp.int32(0), key, knobs, instance, state, curve)


def _chunk(
    cut: _Cut, devices: int, stride: int, on_cpu: bool, lanes: _Lane, queue: _Queue, shared: list[Array],
    stacked: list[Array], checkpoints: Array, seed: Array, first_run: Array, runs: Array, jobs: Array,
    most_rounds: Array, rounds: Array,
) -> tuple[_Lane, _Queue]:  # fmt: skip
    """At most ``rounds`` rounds of ``stride`` steps and a refill, on one device's lanes; a run may take
    ``most_rounds`` of them."""
    many = checkpoints.shape[0]

    execution = execution_of(cut.join(shared, [leaf[0] for leaf in stacked])[1])

    def begin(job: Array) -> _Lane:
        key = stream(seed, first_run + (job % runs).astype(jnp.uint32))
        return _begin(cut, shared, stacked, checkpoints, job // runs, key)._replace(job=job)

    def pair(lane: _Lane) -> Contract:
        problem, policy = cut.join(shared, lane.knobs)
        return Contract(replace(problem, budget=lane.curve.budget) if lane.curve else problem, policy)

    def step(lane: _Lane) -> _Lane:
        run = pair(lane)
        view = run.view(lane.key, lane.instance)
        state = run.step(view, lane.key, lane.instance, lane.state)
        if not execution.masked:
            over = run.done(view, lane.state)
            state = jax.tree.map(lambda new, old: jnp.where(over, old, new), state, lane.state)
        return lane._replace(state=state)

    def finish(lane: _Lane) -> tuple[Array, dict[str, Array]]:
        run = pair(lane)
        view = run.view(lane.key, lane.instance)
        return run.done(view, lane.state) & (lane.job >= 0), run.answer(view, lane.instance, lane.state)

    def record(lane: _Lane) -> _Curve:
        """Keeps the answers of a lane that has spent what it may until the next checkpoint, and lets it go on."""
        assert lane.curve is not None
        passed, budget, kept = lane.curve
        problem, _ = cut.join(shared, lane.knobs)
        over, answers = finish(lane)
        due = over & (passed < many)
        here = due & (jnp.arange(many, dtype=jnp.int32) == passed)
        kept = {name: jnp.where(_column(here, rows), answers[name][None], rows) for name, rows in kept.items()}
        following = jnp.where(passed + 1 < many, checkpoints[jnp.minimum(passed + 1, many - 1)], problem.budget)
        return _Curve(passed + due.astype(jnp.int32), jnp.where(due, following, budget), kept)

    def over(lanes: _Lane) -> tuple[Array, dict[str, Array]]:
        """Which lanes are at the end of their run, and their answers there; at the checkpoints before it too."""
        ends, answers = jax.vmap(finish)(lanes)
        if lanes.curve is None:
            return ends, answers
        rows = {name: jnp.concatenate([lanes.curve.answers[name], answers[name][:, None]], 1) for name in answers}
        return ends & (lanes.curve.passed == many), rows

    def is_endless(lanes: _Lane) -> Array:
        return (lanes.rounds >= most_rounds) & (lanes.job >= 0)

    def refill(lanes: _Lane, queue: _Queue) -> tuple[_Lane, _Queue]:
        ended, answers = over(lanes)
        endless = is_endless(lanes)
        # An endless run goes on until the refill, so its answers would depend on when that comes: they stay zeros.
        slot = jnp.where(ended & ~endless, lanes.job // devices, _NOWHERE)
        kept = {name: queue.answers[name].at[slot].set(value, mode="drop") for name, value in answers.items()}
        slot = jnp.where(endless, lanes.job // devices, _NOWHERE)
        marked = queue.endless.at[slot].set(True, mode="drop")
        ended |= endless
        free = ended | (lanes.job < 0)
        job = queue.next + (jnp.cumsum(free, dtype=jnp.int32) - 1) * devices
        job = jnp.where(free & (job < jobs), job, -1)
        fresh = jax.vmap(begin)(jnp.maximum(job, 0))._replace(job=job)
        fresh = fresh._replace(state=_but_scratch(execution.scratch, fresh.state, lanes.state))
        lanes = jax.tree.map(lambda new, old: jnp.where(_column(free, old), new, old), fresh, lanes)
        taken = jnp.sum(job >= 0, dtype=jnp.int32)
        return lanes, _Queue(queue.next + taken * devices, jnp.sum(lanes.job >= 0, dtype=jnp.int32), kept, marked)

    def round_(carry: tuple[Array, _Lane, _Queue]) -> tuple[Array, _Lane, _Queue]:
        number, lanes, queue = carry
        if on_cpu and execution.in_turn:
            lanes = _in_turn(step, lambda lane: ~finish(lane)[0] & (lane.job >= 0), execution.scratch, lanes)
        else:
            lanes = lax.fori_loop(0, stride, lambda _, some: jax.vmap(step)(some), lanes)
        at_end = jax.vmap(finish)(lanes)[0]
        if lanes.curve is not None:
            waiting = at_end & (lanes.curve.passed < many)
            curve = lax.cond(jnp.any(waiting), jax.vmap(record), lambda same: same.curve, lanes)
            lanes = lanes._replace(curve=curve)
            at_end = at_end & ~waiting
        # It counts rounds behind which the run was not over, so the run's own end comes before the limit's, or never.
        lanes = lanes._replace(rounds=lanes.rounds + (~at_end).astype(jnp.int32))
        at_end = at_end | is_endless(lanes)
        running = jnp.sum(~at_end & (lanes.job >= 0), dtype=jnp.int32)
        # A refill starts runs from nothing, which costs more than a step: wait until it serves many.
        due = (running <= queue.open - (lanes.job.shape[0] + 7) // 8) | (running == 0)
        lanes, queue = where_due(due, lambda both: refill(*both), (lanes, queue))
        return number + 1, lanes, queue

    def unfinished(carry: tuple[Array, _Lane, _Queue]) -> Array:
        number, _, queue = carry
        return (number < rounds) & ((queue.open > 0) | (queue.next < jobs))

    _, lanes, queue = lax.while_loop(unfinished, round_, (jnp.int32(0), lanes, queue))
    return lanes, queue


def _in_turn(
    step: Callable[[_Lane], _Lane], going: Callable[[_Lane], Array], names: Sequence[str], lanes: _Lane
) -> _Lane:
    """All lanes after many steps, or the end of their runs, one lane after the other in a kernel: see ``Execution``."""
    scratch = {name: getattr(lanes.state, name) for name in names}
    # As many steps as the kernel's arrays have entries, at least: it is given a copy of them.
    steps = max(1 << 12, *(array.shape[1] for array in scratch.values()))

    def without(lane: _Lane) -> _Lane:
        return lane._replace(state=lane.state._replace(**dict.fromkeys(names)))

    def one(number: Array, carry: tuple[Tree, _Lane]) -> tuple[Tree, _Lane]:
        whole, rest = carry
        own = jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, number, keepdims=False), rest)
        lane = own._replace(state=own.state._replace(run=number, **whole))
        _, lane = lax.while_loop(
            lambda state: (state[0] < steps) & going(state[1]),
            lambda state: (state[0] + 1, step(state[1])),
            (jnp.int32(0), lane),
        )
        whole = {name: getattr(lane.state, name) for name in names}
        lane = without(lane._replace(state=lane.state._replace(run=jnp.int32(0))))
        return whole, jax.tree.map(lambda all_, x: lax.dynamic_update_index_in_dim(all_, x, number, 0), rest, lane)

    flat = {name: array.reshape(-1, *array.shape[2:]) for name, array in scratch.items()}
    ends = jnp.int32(0), jnp.int32(lanes.job.shape[0])
    flat, rest = as_one_kernel(lambda: lax.fori_loop(*ends, one, (flat, without(lanes))))
    state = rest.state._replace(**{name: flat[name].reshape(array.shape) for name, array in scratch.items()})
    after: _Lane = rest._replace(state=state)
    return after


def _but_scratch(names: tuple[str, ...], fresh: Any, old: Any) -> Any:
    """The state of runs that begin, but for ``Execution.scratch``: writing all of it would cost many steps."""
    return fresh._replace(**{name: getattr(old, name) for name in names}) if names else fresh


def _column(mask: Array, like: Array) -> Array:
    return mask.reshape(mask.shape + (1,) * (like.ndim - 1))


@functools.lru_cache(maxsize=256)
def _shapes(
    cut: _Cut, shared: tuple[jax.ShapeDtypeStruct, ...], stacked: tuple[jax.ShapeDtypeStruct, ...],
    checkpoints: jax.ShapeDtypeStruct,
) -> Any:  # fmt: skip
    """The shapes of a lane and of its answers, from tracing a run's beginning and end."""

    def sample(shared: list[Array], stacked: list[Array], checkpoints: Array) -> tuple[_Lane, dict[str, Array]]:
        lane = _begin(cut, shared, stacked, checkpoints, jnp.int32(0), stream(0, 0))
        run = Contract(*cut.join(shared, lane.knobs))
        answers = run.answer(run.view(lane.key, lane.instance), lane.instance, lane.state)
        if lane.curve is not None:
            answers = {name: jnp.stack([value] * (1 + checkpoints.shape[0])) for name, value in answers.items()}
        return lane, answers

    return jax.eval_shape(sample, list(shared), list(stacked), checkpoints)


def _shapes_of(
    cut: _Cut, shared: list[Array], stacked: list[Array], checkpoints: Array
) -> tuple[_Lane, dict[str, Array]]:
    structs = [
        tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves)
        for leaves in (shared, stacked, [checkpoints])
    ]
    shapes: tuple[_Lane, dict[str, Array]] = _shapes(cut, structs[0], structs[1], structs[2][0])
    return shapes


def _bytes(tree: Tree) -> int:
    return sum(int(leaf.size) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _empty_lanes(
    lane: _Lane, answers: dict[str, Array], lanes: int, per_device: int, devices: int
) -> tuple[_Lane, _Queue]:
    """Lanes without a job, and room for the answers, on all devices."""
    blank = jax.tree.map(lambda leaf: jnp.zeros((devices * lanes, *leaf.shape), leaf.dtype), lane)
    blank = blank._replace(job=jnp.full(devices * lanes, -1, jnp.int32))
    kept = {name: jnp.zeros((devices * per_device, *leaf.shape), leaf.dtype) for name, leaf in answers.items()}
    start = jnp.arange(devices, dtype=jnp.int32)
    return blank, _Queue(start, jnp.zeros(devices, jnp.int32), kept, jnp.zeros(devices * per_device, bool))


@functools.lru_cache(maxsize=64)
def _compiled(cut: _Cut, mesh: Mesh, stride: int) -> Any:
    """The chunk function for one structure: compiled once a shape, whatever the values."""
    devices, on_cpu = mesh.size, mesh.devices.flat[0].platform == "cpu"
    split, whole = PartitionSpec(_AXIS), PartitionSpec()

    def local(lanes: _Lane, queue: _Queue, *rest: Any) -> tuple[_Lane, _Queue]:
        alone = queue._replace(next=queue.next[0], open=queue.open[0])
        lanes, alone = _chunk(cut, devices, stride, on_cpu, lanes, alone, *rest)
        return lanes, alone._replace(next=alone.next[None], open=alone.open[None])

    mapped = jax.shard_map(
        local, mesh=mesh, in_specs=(split, split, *[whole] * 9), out_specs=(split, split), check_vma=False
    )
    options = CPU_OPTIONS if on_cpu else None
    return jax.jit(mapped, donate_argnums=(0, 1), compiler_options=options)


P = TypeVar("P")


def _as_list(value: P | Sequence[P]) -> list[P]:
    return list(value) if isinstance(value, list | tuple) else [value]  # type: ignore[list-item]


def _groups(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[_Cut, list[Array], list[Array], list[int]]]:
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
        groups.append((_Cut(treedef, stacked), shared, knobs, members))
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
    """
    problems, policies = _as_list(problem), _as_list(policy)
    count = max(len(problems), len(policies))
    if {len(problems), len(policies)} - {1, count}:
        raise BadInput("policy", f"{len(policies)} of them", f"1, or as many as problems ({len(problems)})")
    for name, value, low, high in (
        ("runs", runs, 1, 2**31 - 1), ("seed", seed, 0, 2**32 - 1), ("first_run", first_run, 0, 2**32 - runs),
        ("max_steps", 1 if max_steps is None else max_steps, 1, 2**62),
    ):  # fmt: skip
        if not isinstance(value, int | np.integer) or not low <= value <= high:
            raise BadInput(name, value, f"a whole number from {low} to {high}")
    if lanes is not None and lanes < 1:
        raise BadInput("lanes", lanes, "at least 1")
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
    problems = [problem for problem, _ in pairs]
    if implementation == "fast":
        pairs = [(problem, accelerated(policy, problem)) for problem, policy in pairs]
    mesh = Mesh(np.array(devices or jax.local_devices()), (_AXIS,), axis_types=(AxisType.Auto,))
    budgets = _checkpoints(checkpoints, problems)
    most = _enough_steps(problems) if max_steps is None else max_steps
    results: dict[str, np.ndarray] = {}
    finished, total = 0, runs * len(pairs)
    with shown(progress, "compiling") as tell:
        for cut, shared, knobs, members in _groups(pairs):

            def report(done: int, doing: str, idle: int = 0, base: int = finished) -> None:
                tell(Status(base + done, total, doing, idle))

            with briefly():
                answers = _run_group(
                    cut, shared, knobs, budgets, len(members), mesh, runs, seed, first_run, most, lanes, report
                )
            for name, values in answers.items():
                results.setdefault(name, np.zeros((len(pairs), *values.shape[1:]), values.dtype))[members] = values
            finished += runs * len(members)
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
    cut: _Cut, shared: list[Array], knobs: list[Array], checkpoints: Array, configurations: int, mesh: Mesh,
    runs: int, seed: int, first_run: int, max_steps: int, lanes: int | None, report: _Report,
) -> dict[str, np.ndarray]:  # fmt: skip
    size = _bytes(_shapes_of(cut, shared, knobs, checkpoints)[1])
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
                    lanes, onward,
                )  # fmt: skip
                break
            except jax.errors.JaxRuntimeError as error:
                lane, _ = _shapes_of(cut, shared, knobs, checkpoints)
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
    cut: _Cut, shared: list[Array], knobs: list[Array], checkpoints: Array, configurations: int, mesh: Mesh,
    runs: int, seed: int, first_run: int, max_steps: int, lanes: int | None, report: _Report,
) -> dict[str, np.ndarray]:  # fmt: skip
    report(0, "compiling")
    jobs, devices = configurations * runs, mesh.size
    # Room for a power of two of answers, so that few numbers of runs are compiled for.
    per_device = 1 << (-(-jobs // devices) - 1).bit_length()
    lane, answers = _shapes_of(cut, shared, knobs, checkpoints)
    if "endless" in answers:
        raise BadInput("answer", "endless", "another name; this is what `simulate` calls runs that do not end")
    _, policy = cut.join(shared, knobs)
    width = min(lanes or _even(_width(lane, policy, mesh), -(-jobs // devices), per_device), per_device)
    carry = jax.device_put(
        _empty_lanes(lane, answers, width, per_device, devices), NamedSharding(mesh, PartitionSpec(_AXIS))
    )
    stride = execution_of(policy).stride
    chunk = _compiled(cut, mesh, stride)
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


def _width(lane: _Lane, policy: Policy, mesh: Mesh) -> int:
    platform, execution = mesh.devices.flat[0].platform, execution_of(policy)
    room = _STATE_BYTES.get(platform, 1 << 33)
    if execution.in_cache:
        room = _CACHE_BYTES.get(platform, room) * execution.in_cache
    most = execution.most_lanes if platform == "cpu" else 1 << 16
    return max(1, min(most, room // max(_bytes(lane), execution.step_bytes)))


def _even(most: int, jobs: int, room: int) -> int:
    """At most ``most`` lanes: where they serve few times, as many as leave few idle the last time; whole vectors.

    It depends on ``jobs`` through how often they serve alone, as each width is compiled.
    """
    times = -(-jobs // most)
    width = most if times > 4 else min(most, -(-room // times))
    return width // _VECTOR * _VECTOR or width
