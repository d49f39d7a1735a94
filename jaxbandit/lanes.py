"""Lanes: the loop on a device in which many runs of a policy on a problem advance together, whatever the family.

A lane is one run of one configuration. The batch loop steps all lanes at once, the step vmapped inside it; lanes that
are done stay as they are, until the next refill gives them another run. Nothing that a lane computes depends on its
place, so a study's results have the same bits however it is cut.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxbandit.contract import Contract
from jaxbandit.grammar import Execution, Tree, execution_of
from jaxbandit.many_steps import WAYS, with_fields
from jaxbandit.programs.store import traced_once
from jaxbandit.random.stream import Stream, stream
from jaxbandit.xla.contraction import rounded_alike
from jaxbandit.xla.fence import as_one_kernel, where_due
from jaxbandit.xla.options import Effort, options_for
from jaxbandit.xla.platforms import by_platform, traced_for
from jaxbandit.xla.prefix import added, places


class _Curve(NamedTuple):
    """A lane's way along the checkpoints: how many it has passed, the budget that it may spend until the next, and
    its answers there, each of shape (checkpoints, ...)."""

    passed: Array
    budget: Array
    answers: dict[str, Array]


class Lane(NamedTuple):
    """A run of one configuration: the number of its ``job``, the ``steps`` that it has made, the ``key`` of its random
    words, what its configuration alone has of problem and policy (``own``), what was drawn for it (``instance``), the
    policy's ``state``, and its ``curve``, None where there are no checkpoints."""

    job: Array
    steps: Array
    key: Stream
    own: list[Array]
    instance: Tree
    state: Tree
    curve: _Curve | None


class Queue(NamedTuple):
    """A device's share of the jobs. ``next``: the first job that is not begun; the others follow in steps of the number
    of devices, below ``_Chunk.jobs``. ``open``: lanes that had a job after the last refill. By slot, which is the job
    over the number of devices: the ``answers``, and whether the run made as many steps as it may (``endless``)."""

    next: Array
    open: Array
    answers: dict[str, Array]
    endless: Array


class Partition(NamedTuple):
    """Which leaves of (problem, policy) vary between configurations, and how to put the pair together again. ``code``:
    what else a program of them is made of (``programs.code``)."""

    treedef: Any
    varies: tuple[bool, ...]
    code: Any = ()

    def join(self, shared: Sequence[Array], own: Sequence[Array]) -> tuple[Any, Any]:
        """The problem and the policy of a configuration, from what all have in common and what is its own."""
        common, rest = iter(shared), iter(own)
        leaves = [next(rest) if varies else next(common) for varies in self.varies]
        pair: tuple[Any, Any] = jax.tree.unflatten(self.treedef, leaves)
        return pair


AXIS = "lanes"
_NOWHERE = 2**31 - 1
_NO_JOB, _NO_RUN = -1, -2
"""In place of a job's number: of a lane whose runs are over, and of one that never had a run."""


def _begin(
    partition: Partition,
    shared: Sequence[Array],
    varying: Sequence[Array],
    checkpoints: Array,
    configuration: Array,
    key: Stream,
) -> Lane:
    """A lane before its first pull; its job is not known here."""
    own = [leaf[configuration] for leaf in varying]
    problem, policy = partition.join(shared, own)
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
    return Lane(jnp.int32(_NO_RUN), jnp.int32(0), key, own, instance, state, curve)


@dataclass(frozen=True, eq=False)
class _Chunk:
    """Rounds of ``stride`` steps and a refill, on one device's lanes; a run may make ``most_steps``. ``varying``: the
    leaves that vary, each with the configurations as its first axis."""

    partition: Partition
    devices: int
    stride: int
    shared: list[Array]
    varying: list[Array]
    checkpoints: Array
    seed: Array
    first_run: Array
    runs: Array
    jobs: Array
    most_steps: Array

    def after(self, lanes: Lane, queue: Queue, rounds: Array) -> tuple[Lane, Queue]:
        """What there is after at most so many rounds."""

        def unfinished(carry: tuple[Array, Lane, Queue]) -> Array:
            number, _, queue = carry
            return (number < rounds) & ((queue.open > 0) | (queue.next < self.jobs))

        _, lanes, queue = lax.while_loop(unfinished, self._round, (jnp.int32(0), lanes, queue))
        return lanes, queue

    # One lane.

    @property
    def _execution(self) -> Execution:
        return execution_of(self.partition.join(self.shared, [leaf[0] for leaf in self.varying])[1])

    def _begin(self, job: Array) -> Lane:
        key = stream(self.seed, self.first_run + (job % self.runs).astype(jnp.uint32))
        lane = _begin(self.partition, self.shared, self.varying, self.checkpoints, job // self.runs, key)
        return lane._replace(job=job)

    def _pair(self, lane: Lane) -> Contract:
        problem, policy = self.partition.join(self.shared, lane.own)
        return Contract(replace(problem, budget=lane.curve.budget) if lane.curve else problem, policy)

    def _step(self, lane: Lane) -> Lane:
        run = self._pair(lane)
        view = run.view(lane.key, lane.instance)
        state = run.step(view, lane.key, lane.instance, lane.state)
        if not self._execution.masked:
            over = run.done(view, lane.state)
            state = jax.tree.map(lambda new, old: jnp.where(over, old, new), state, lane.state)
        return lane._replace(state=state)

    def _ended(self, lane: Lane) -> Array:
        """Whether its run is over."""
        run = self._pair(lane)
        return run.done(run.view(lane.key, lane.instance), lane.state) & (lane.job >= 0)

    def _answer(self, lane: Lane) -> dict[str, Array]:
        """What its run answers as it stands."""
        run = self._pair(lane)
        return run.answer(run.view(lane.key, lane.instance), lane.instance, lane.state)

    def _record(self, lane: Lane) -> _Curve:
        """Keeps the answers of a lane that has spent what it may until the next checkpoint, and lets it go on."""
        assert lane.curve is not None
        many = self.checkpoints.shape[0]
        passed, budget, kept = lane.curve
        problem, _ = self.partition.join(self.shared, lane.own)
        due, answers = self._ended(lane) & (passed < many), self._answer(lane)
        here = due & (jnp.arange(many, dtype=jnp.int32) == passed)
        kept = {name: jnp.where(_column(here, rows), answers[name][None], rows) for name, rows in kept.items()}
        upcoming = self.checkpoints[jnp.minimum(passed + 1, many - 1)]
        following = jnp.where(passed + 1 < many, upcoming, problem.budget)
        return _Curve(passed + due.astype(jnp.int32), jnp.where(due, following, budget), kept)

    # All lanes.

    def _round(self, carry: tuple[Array, Lane, Queue]) -> tuple[Array, Lane, Queue]:
        number, lanes, queue = carry
        # A run that is endless stays so until the refill, whatever it does meanwhile.
        late = lanes.steps > self.most_steps if self._execution.many_steps else self._is_endless(lanes)
        at_end = jax.vmap(self._ended)(lanes) & ~late
        if lanes.curve is not None:
            waiting = at_end & (lanes.curve.passed < self.checkpoints.shape[0])
            curve = lax.cond(jnp.any(waiting), jax.vmap(self._record), lambda same: same.curve, lanes)
            lanes = lanes._replace(curve=curve)
            at_end = at_end & ~waiting
        if not self._execution.many_steps:
            # The last round's steps, of runs that it did not end: one that ends as it reaches the limit is not endless.
            lanes = lanes._replace(steps=lanes.steps + self.stride * (~at_end & ~late).astype(jnp.int32))
        going = ~at_end & ~self._is_endless(lanes) & (lanes.job >= 0)
        running = added(going.astype(jnp.int32))
        ended = queue.open - running
        # A refill starts runs from nothing, which costs more than a step: wait until it serves many.
        due = (running == 0) | (ended >= (lanes.job.shape[0] + 7) // 8)
        # Before the steps: those of lanes that never had a run may cost more than any run's.
        lanes, queue = where_due(due, lambda both: self._refill(*both, at_end), (lanes, queue))
        if self._execution.many_steps:
            lanes = by_platform(lanes, cpu=self._many_steps, default=self._counted)
        else:
            lanes = self._abreast(lanes)
        return number + 1, lanes, queue

    def _going(self, lane: Lane) -> Array:
        """Whether a lane has a step to make."""
        return ~self._ended(lane) & ~self._is_endless(lane) & (lane.job >= 0)

    def _abreast(self, lanes: Lane) -> Lane:
        def loop(lanes: Lane, unroll: int = 1) -> Lane:
            step = jax.vmap(self._step)
            after: Lane = lax.fori_loop(0, self.stride, lambda _, some: step(some), lanes, unroll=unroll)
            return after

        unroll = min(self._execution.unroll, self.stride)
        if unroll == 1:
            return loop(lanes)
        found: Lane = by_platform(lanes, cpu=loop, default=functools.partial(loop, unroll=unroll))
        return found

    def _counted(self, lanes: Lane) -> Lane:
        """The same, with steps counted: ``_many_steps`` counts them itself. Those of a run that has reached the limit
        are counted once more, by which one that ends meanwhile is told from one that ended in time."""
        goes_on = ~jax.vmap(self._ended)(lanes) & (lanes.steps <= self.most_steps) & (lanes.job >= 0)
        made = self.stride * goes_on.astype(jnp.int32)
        return self._abreast(lanes._replace(steps=lanes.steps + made))

    def _many_steps(self, lanes: Lane) -> Lane:
        """Makes many steps of all lanes: see ``Execution.many_steps``."""
        way = WAYS[self._execution.many_steps]

        def step(lane: Lane) -> Lane:
            return self._step(lane)._replace(steps=lane.steps + self._going(lane).astype(jnp.int32))

        names = self._execution.scratch
        scratch = {name: getattr(lanes.state, name) for name in names}
        flat = {name: array.reshape(-1, *array.shape[2:]) for name, array in scratch.items()}
        numbers = jnp.arange(lanes.job.shape[0], dtype=jnp.int32)
        rest = with_fields(lanes, dict.fromkeys(names) | {"run": numbers})
        flat, rest = as_one_kernel(lambda: way(step, self._going, flat, rest), in_place=True)
        whole = {name: flat[name].reshape(array.shape) for name, array in scratch.items()}
        return with_fields(rest, whole | {"run": jnp.zeros_like(numbers)})

    def _is_endless(self, lanes: Lane) -> Array:
        return (lanes.steps >= self.most_steps) & (lanes.job >= 0)

    def _answers(self, lanes: Lane) -> dict[str, Array]:
        """What runs that are over answer; at the checkpoints before their end too."""
        answers = jax.vmap(self._answer)(lanes)
        if lanes.curve is None:
            return answers
        return {name: jnp.concatenate([lanes.curve.answers[name], answers[name][:, None]], 1) for name in answers}

    def _refill(self, lanes: Lane, queue: Queue, ended: Array) -> tuple[Lane, Queue]:
        """Takes down what has ``ended``, and gives those lanes the next jobs."""
        answers = self._answers(lanes)
        endless = self._is_endless(lanes) & ~ended
        # An endless run goes on until the refill, so its answers would depend on when that comes: they stay zeros.
        slot = jnp.where(ended, lanes.job // self.devices, _NOWHERE)
        kept = {name: queue.answers[name].at[slot].set(value, mode="drop") for name, value in answers.items()}
        slot = jnp.where(endless, lanes.job // self.devices, _NOWHERE)
        marked = queue.endless.at[slot].set(True, mode="drop")
        free = ended | endless | (lanes.job < 0)
        job = queue.next + places(free) * self.devices
        job = jnp.where(free & (job < self.jobs), job, _NO_JOB)
        fresh = jax.vmap(self._begin)(jnp.maximum(job, 0))
        fresh = fresh._replace(state=_but_scratch(self._execution.scratch, fresh.state, lanes.state))
        # Without a job a lane keeps its last run, whose steps cost nothing as it is over; if it had none, it gets one.
        begins = (job >= 0) | (lanes.job == _NO_RUN)
        lanes = jax.tree.map(lambda new, old: jnp.where(_column(begins, old), new, old), fresh, lanes)
        lanes = lanes._replace(job=jnp.where(free, job, lanes.job))
        taken, open_ = added((job >= 0).astype(jnp.int32)), added((lanes.job >= 0).astype(jnp.int32))
        return lanes, Queue(queue.next + taken * self.devices, open_, kept, marked)


def _but_scratch(names: tuple[str, ...], fresh: Any, old: Any) -> Any:
    """The state of runs that begin, but for ``Execution.scratch``: writing all of it would cost many steps."""
    return fresh._replace(**{name: getattr(old, name) for name in names}) if names else fresh


def _column(mask: Array, like: Array) -> Array:
    return mask.reshape(mask.shape + (1,) * (like.ndim - 1))


@functools.lru_cache(maxsize=256)
def _shapes(
    partition: Partition, shared: tuple[jax.ShapeDtypeStruct, ...], varying: tuple[jax.ShapeDtypeStruct, ...],
    checkpoints: jax.ShapeDtypeStruct, widest: np.dtype,
) -> Any:  # fmt: skip
    """The shapes of a lane and of its answers, from tracing a run's beginning and end."""

    def sample(shared: list[Array], varying: list[Array], checkpoints: Array) -> tuple[Lane, dict[str, Array]]:
        lane = _begin(partition, shared, varying, checkpoints, jnp.int32(0), stream(0, 0))
        run = Contract(*partition.join(shared, lane.own))
        answers = run.answer(run.view(lane.key, lane.instance), lane.instance, lane.state)
        if lane.curve is not None:
            answers = {name: jnp.stack([value] * (1 + checkpoints.shape[0])) for name, value in answers.items()}
        return lane, answers

    key = "shapes", partition, shared, varying, checkpoints
    return traced_once(key, lambda: jax.eval_shape(sample, list(shared), list(varying), checkpoints))


def shapes_of(
    partition: Partition, shared: list[Array], varying: list[Array], checkpoints: Array
) -> tuple[Lane, dict[str, Array]]:
    """The shapes and types of a lane, and of its answers."""
    structs = [
        tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves)
        for leaves in (shared, varying, [checkpoints])
    ]
    shapes: tuple[Lane, dict[str, Array]] = _shapes(partition, *structs[:2], structs[2][0], jnp.result_type(float))
    return shapes


def bytes_of(tree: Tree) -> int:
    """The memory of all arrays of a pytree, in bytes."""
    return sum(int(leaf.size) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def lane_maker(lane: Lane, answers: dict[str, Array], lanes: int, per_device: int, mesh: Mesh) -> Any:
    """Returns the function that makes lanes without a job, and room for the answers, on all devices: (Lane, Queue)."""
    leaves, structure = jax.tree.flatten((lane, answers))
    on_host = mesh.devices.flat[0].platform == "cpu"
    return _lane_maker(structure, tuple(leaves), lanes, per_device, mesh, on_host)


@functools.lru_cache(maxsize=64)
def _lane_maker(
    structure: Any, leaves: tuple[Any, ...], lanes: int, per_device: int, mesh: Mesh, on_host: bool
) -> Any:  # fmt: skip
    """On a CPU they are copied from NumPy's; elsewhere one program makes them, as they may be larger than the host's
    memory. Each array by itself were thirty programs, a tenth of a first call."""
    lane, answers = jax.tree.unflatten(structure, leaves)
    devices, split = mesh.size, NamedSharding(mesh, PartitionSpec(AXIS))

    def empty(xp: Any) -> tuple[Lane, Queue]:
        blank = jax.tree.map(lambda leaf: xp.zeros((devices * lanes, *leaf.shape), leaf.dtype), lane)
        blank = blank._replace(job=xp.full(devices * lanes, _NO_RUN, xp.int32))
        kept = {name: xp.zeros((devices * per_device, *leaf.shape), leaf.dtype) for name, leaf in answers.items()}
        start = xp.arange(devices, dtype=xp.int32)
        return blank, Queue(start, xp.zeros(devices, xp.int32), kept, xp.zeros(devices * per_device, bool))

    if on_host:
        return lambda: jax.device_put(empty(np), split)
    return jax.jit(functools.partial(empty, jnp), out_shardings=split)


@functools.lru_cache(maxsize=64)
def chunk_function(
    partition: Partition, mesh: Mesh, stride: int, effort: Effort = Effort.FULL, level: int = 2
) -> Any:  # fmt: skip
    """Returns the function that makes rounds of one structure: compiled once a shape, whatever the values.

    It takes the lanes and the queue, what ``_Chunk`` has from ``shared`` on, and the most rounds.
    """
    # Said of the results too: arrays without entries come back otherwise, and would have the program compiled anew.
    return jax.jit(
        _on_all_devices(partition, mesh, stride), donate_argnums=(0, 1),
        out_shardings=NamedSharding(mesh, PartitionSpec(AXIS)),
        compiler_options=options_for(mesh.devices.flat[0].platform, effort, level),
    )  # fmt: skip


@functools.lru_cache(maxsize=64)
def _on_all_devices(partition: Partition, mesh: Mesh, stride: int) -> Any:
    """One function for all ways to compile it, so that it is traced once."""
    devices = mesh.size
    split, whole = PartitionSpec(AXIS), PartitionSpec()

    def local(lanes: Lane, queue: Queue, *given: Any) -> tuple[Lane, Queue]:
        *rest, rounds = given
        alone = queue._replace(next=queue.next[0], open=queue.open[0])
        lanes, alone = _Chunk(partition, devices, stride, *rest).after(lanes, alone, rounds)
        return lanes, alone._replace(next=alone.next[None], open=alone.open[None])

    given = [whole] * (len(fields(_Chunk)) - 3 + 1)  # what _Chunk has from `shared` on, and the rounds
    return jax.shard_map(
        traced_for(mesh.devices.flat[0].platform, local), mesh=mesh, in_specs=(split, split, *given),
        out_specs=(split, split), check_vma=False,
    )  # fmt: skip


def alike(partition: Partition, mesh: Mesh, stride: int, *arguments: Any) -> bool:
    """Whether the chunk's function has the same bits at each of LLVM's levels, for ``arguments`` of such shapes."""
    return rounded_alike(chunk_function(partition, mesh, stride).trace(*arguments).jaxpr)
