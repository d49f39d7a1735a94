"""Runs of configurations that go together: the lanes that they get, their program, and the loop that drives it."""

import functools
import logging
import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxbandit.devices import accelerator
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Execution, execution_of
from jaxbandit.lanes import AXIS, Lane, Partition, alike, bytes_of, chunk_function, lane_maker, shapes_of
from jaxbandit.many_steps import MANY
from jaxbandit.programs.ahead import Ahead, Program
from jaxbandit.programs.past import Past, past_of
from jaxbandit.programs.store import Like, is_here, named
from jaxbandit.xla.options import Effort, saves_effort

_log = logging.getLogger("jaxbandit")

_JOBS_AT_ONCE, _ANSWER_BYTES = 1 << 24, 1 << 30
_CPU_MIB = 128
"""Of a CPU's device, for the states of all lanes."""
_LEAST_LANES, _MOST_LANES = 1 << 16, 1 << 20
"""Of an accelerator, as far as its memory allows."""
_LANES_A_CORE = 1 << 13
"""Of an accelerator: four times the threads that a GPU's core holds."""
_STATES_SHARE = 8
"""The states of all lanes take at most one part in so many of an accelerator's memory, as a refill makes them anew."""
_TEMPORARIES_SHARE = 2
"""``Execution.temporaries`` of all lanes take at most one part in so many of it."""
_SCRATCH_SHARE = 4
"""On a GPU, ``Execution.scratch`` counts as one part in so many of its bytes, as a refill leaves it in its place."""
_VECTOR = 64
WORTH_COMPILING = 5e8
"""Nanoseconds that a program's runs must gain to be compiled with more effort, for each second of that effort. It is
made once: later processes load the program, and lose again what it does not gain."""
_AGAIN = 5
"""So many times as much work is worth that a program is compiled again, with more effort: that takes two to three times
what the effort adds, and is due once as much has been lost, not half."""
_alike: dict[Any, bool] = {}
"""By what is compiled, and the widest float: whether all efforts surely have the same bits."""


class _DoesNotRun(Exception):
    """A program that was loaded cannot be run here."""


class Report(Protocol):
    """Told between chunks: jobs that are done, what goes on, and steps since one of them ended."""

    def __call__(self, done: int, doing: str, idle: int = 0) -> None:
        """Takes how far it is."""


class _Size(NamedTuple):
    """What a program is made for: lanes of a device, and the jobs for whose answers it has room."""

    lanes: int
    answers: int


class _Made(NamedTuple):
    """A program of some ``Jobs``: how its chunk is made (its stride, the effort that its work is worth, and LLVM's
    level at full effort), and for which size."""

    way: tuple[int, Effort, int]
    size: _Size


@dataclass(frozen=True)
class Jobs:
    """Runs of configurations that go together: one structure, equal arrays; their differing scalars are stacked.

    ``room``: jobs that programs are made for, where there are fewer; ``lanes``: of a device, where that is said;
    ``hurry``: whether little work may be compiled in a hurry.
    """

    partition: Partition
    shared: list[Array]
    varying: list[Array]
    checkpoints: Array
    mesh: Mesh
    configurations: int
    seed: int
    first_run: int
    runs: int
    max_steps: int
    lanes: int | None
    room: int
    hurry: bool = True

    def program(self) -> Program:
        """The one that ``run`` takes, if memory suffices."""
        return self._program(self._chosen())

    def width(self) -> int:
        """Lanes of a device in that program."""
        return self._chosen().size.lanes

    def run(self, ahead: Ahead, report: Report) -> dict[str, np.ndarray]:
        """The answers by name, of shape (configurations, runs, ...)."""
        made = self._chosen()
        parts: list[dict[str, np.ndarray]] = []
        start, seconds = 0, 0.0
        while start < self.runs:
            some = min(self.runs - start, self._at_once(), self._fitting(made.size))

            def onward(done: int, doing: str, idle: int = 0, base: int = start * self.configurations) -> None:
                report(base + done, doing, idle)

            program = self._program(made)
            try:
                asked = time.monotonic()
                chunk = ahead.need(program, functools.partial(onward, 0))
                begun = time.monotonic()
                self._past.waited = max(self._past.waited, begun - asked)
                part = self._run_on(chunk, made.size, made.way, self.first_run + start, some, onward)
                seconds += time.monotonic() - begun
            except _DoesNotRun:
                ahead.anew(program)
                continue
            except jax.errors.JaxRuntimeError as error:
                if not _is_full(error):
                    raise
                made = self._made(self._size(_fewer(error, made.size.lanes, self._least())))
                continue
            parts.append(part)
            start += some
        self._note(made, seconds)
        return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}

    def _chosen(self) -> _Made:
        """The program made for so many runs; or one for another number, if it is there and soon done with these."""
        size = self._size(self.lanes)
        return self._lent(size) or self._made(size)

    def _made(self, size: _Size) -> _Made:
        return _Made(self._way(size), size)

    def _lent(self, size: _Size) -> _Made | None:
        """What this process has compiled for another size, where it costs less time than one of this size would."""
        past, scale = self._past, self._scale()
        if self.lanes or any(made.size == size for made in past.pace):
            return None
        there = {
            made: pace * scale * self._waves(made.size)
            for made, pace in past.pace.items()
            if self._fitting(made.size) and is_here(self._program(made).key)
        }
        return past.lent(size, there)

    def _note(self, made: _Made, seconds: float) -> None:
        """Keeps how much a program has done in this process, and how long it took."""
        past, size = self._past, self._size(self.lanes)
        if size != made.size:
            past.lost[size] += seconds
        past.worked[made.size] += self.configurations * self.runs * self._work()
        past.pace[made] = seconds / (self._waves(made.size) * self._scale())

    @property
    def _past(self) -> Past:
        return past_of(self._matter())

    def _fitting(self, size: _Size) -> int:
        """Runs of each configuration for whose answers a program has room."""
        return size.answers * self.mesh.size // self.configurations

    def _waves(self, size: _Size) -> int:
        """How often all lanes get a run."""
        calls, rest = divmod(self.runs, self._fitting(size))
        whole, last = (
            math.ceil(self.configurations * runs / (size.lanes * self.mesh.size))
            for runs in (self._fitting(size), rest)
        )
        return calls * whole + last

    def _scale(self) -> float:
        """What the time of a wave is proportional to."""
        work = self._work()
        return max(work, 1.0) if np.isfinite(work) else 1.0

    @property
    def _execution(self) -> Execution:
        return execution_of(self.partition.join(self.shared, self.varying)[1])

    def _shapes(self) -> tuple[Lane, dict[str, Array]]:
        lane, answers = shapes_of(self.partition, self.shared, self.varying, self.checkpoints)
        if "endless" in answers:
            raise BadInput("answer", "endless", "another name; this is what `simulate` calls runs that do not end")
        return lane, answers

    def _at_once(self) -> int:
        """Runs of each configuration whose answers fit."""
        return max(1, min(_JOBS_AT_ONCE, _ANSWER_BYTES // bytes_of(self._shapes()[1])) // self.configurations)

    def _size(self, lanes: int | None) -> _Size:
        """What its program is made for, if memory suffices; ``lanes``: of a device, where that is said."""
        lane, answers = self._shapes()
        runs = min(self.runs, self._at_once())
        # Room for a power of two of answers, so that few numbers of runs are compiled for.
        jobs = max(self.configurations * runs, min(self.room, _ANSWER_BYTES // bytes_of(answers)))
        of_device = -(-jobs // self.mesh.size)
        least = self._least()
        room = max(1 << (of_device - 1).bit_length(), least)
        width = lanes or _balanced(_most_lanes(lane, self._execution, self.mesh), of_device, room)
        return _Size(max(min(width, room), least), room)

    def _least(self) -> int:
        """The fewest lanes: many steps of a single one fail to compile, so that a second one is idle."""
        return 2 if self._execution.many_steps else 1

    def _lane_maker(self, size: _Size) -> Any:
        lane, answers = self._shapes()
        return lane_maker(lane, answers, size.lanes, size.answers, self.mesh)

    def _way(self, size: _Size) -> tuple[int, Effort, int]:
        """How the chunk is made: its stride, the effort that its work is worth, and LLVM's level at full effort."""
        execution = self._execution
        effort = self._effort(execution, size)
        # Of the package's own classes it is tested that a hurry has the same bits.
        if effort is not Effort.FULL and not named(self.partition) and not self._alike(size):
            effort = Effort.FULL
        return execution.stride, effort, execution.level

    def _matter(self, size: _Size | None = None) -> Any:
        """What is compiled, in whichever way, and for any size where it is None."""
        leaves = jax.tree.leaves((self.shared, self.varying, self.checkpoints))
        return self.partition, self.mesh, size, tuple((leaf.shape, leaf.dtype, leaf.weak_type) for leaf in leaves)

    def _work(self) -> float:
        """What the time of a run is proportional to: the mean of all configurations."""
        budget = getattr(self.partition.join(self.shared, self.varying)[0], "budget", np.inf)
        return float(np.mean(np.asarray(budget, float) ** self._execution.growth))

    def _effort(self, execution: Execution, size: _Size) -> Effort:
        """What the work of this call is worth, or with that of earlier ones, where it pays for another compilation."""
        of_problem = getattr(self.partition.join(self.shared, self.varying)[0], "gain_ns", 0)
        jobs, work = self.configurations * self.runs, self._work()
        most = max(max(jobs, self.room) * work, (jobs * work + self._past.worked[size]) / _AGAIN)
        if not self.hurry or most * (execution.gain_ns + of_problem) >= WORTH_COMPILING:
            return Effort.FULL
        effort = Effort.LITTLE if most * (execution.loss_ns + of_problem) >= WORTH_COMPILING else Effort.LEAST
        return effort if saves_effort(self.mesh.devices.flat[0].platform, effort) else Effort.FULL

    def _alike(self, size: _Size) -> bool:
        """Whether each effort has the same bits, as no rounding is left to the compiler."""
        key = self._matter(size), jax.dtypes.result_type(float)
        if key not in _alike:
            _alike[key] = alike(self.partition, self.mesh, self._execution.stride, *self._arguments(size))
        return _alike[key]

    def _chunk(self, way: tuple[int, Effort, int], size: _Size) -> Any:
        """The chunk's function: made with the least effort only where each effort has the same bits."""
        stride, effort, level = way
        if effort is Effort.LEAST and not self._alike(size):
            effort = Effort.LITTLE
        return chunk_function(self.partition, self.mesh, stride, effort, level)

    def _steps_of_a_round(self) -> int:
        """The most steps that a lane makes in a round."""
        many = self._execution.many_steps and self.mesh.devices.flat[0].platform == "cpu"
        return MANY if many else self._execution.stride

    def _program(self, made: _Made) -> Program:
        way, size = made

        def lower() -> Any:
            return self._chunk(way, size).lower(*self._arguments(size))

        def like() -> Like:
            arguments = self._arguments(size)
            return Like(arguments, arguments[:2], tuple(self.mesh.devices.flat))

        return Program((way, *self._matter(size)), lower, like)

    def _arguments(self, size: _Size) -> tuple[Any, ...]:
        """Some of the shapes of those that the chunk takes."""
        split = NamedSharding(self.mesh, PartitionSpec(AXIS))
        carry = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=split),
            jax.eval_shape(self._lane_maker(size)),
        )
        numbers = (np.uint32(0), np.uint32(0), *[np.int32(0)] * 4)
        return (*carry, self.shared, self.varying, self.checkpoints, *numbers)

    def _run_on(
        self, loaded: Any | None, size: _Size, way: tuple[int, Effort, int], first_run: int, runs: int, report: Report
    ) -> dict[str, np.ndarray]:
        jobs, devices = self.configurations * runs, self.mesh.size
        carry = self._lane_maker(size)()
        stride = way[0]
        # Whole rounds, far enough below 2^31 to count one more.
        most_steps = np.int32(min(-(-self.max_steps // stride), (2**31 - 1) // stride - 1) * stride)
        numbers = (np.uint32(self.seed), np.uint32(first_run), np.int32(runs), np.int32(jobs), most_steps)
        rounds, done, idle = 8, 0, 0
        given = self.shared, self.varying, self.checkpoints, *numbers
        chunk = loaded or self._chunk(way, size)
        steps = self._steps_of_a_round()
        report(done, "running", idle)
        while True:
            try:
                carry = chunk(*carry, *given, np.int32(rounds))
                queue = carry[1]
                upcoming, running = np.asarray(queue.next), np.asarray(queue.open)
            except Exception as error:
                if loaded is None or _is_full(error):
                    raise
                raise _DoesNotRun from error
            begun = ((upcoming - np.arange(devices)) // devices).sum()
            before, done = done, int(begun - running.sum())
            idle = idle + rounds * steps if done == before else 0
            report(done, "running", idle)
            if not running.any() and (upcoming >= jobs).all():
                break
            rounds = min(2 * rounds, 256)
        # Job d + devices * s stands at device d in slot s.
        return {
            name: np.asarray(values)
            .reshape(devices, size.answers, *values.shape[1:])
            .swapaxes(0, 1)
            .reshape(-1, *values.shape[1:])[:jobs]
            .reshape(self.configurations, runs, *values.shape[1:])
            for name, values in (queue.answers | {"endless": queue.endless}).items()
        }


def _is_full(error: Exception) -> bool:
    """Whether it says that memory ran out."""
    return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)


def _fewer(error: Exception, lanes: int, least: int) -> int:
    """Half of ``lanes``, as memory ran out, but not fewer than ``least``."""
    if lanes == least:
        allowed = "a device with memory for one run; a smaller problem needs less, and --platform cpu has the host's"
        raise BadInput("lanes", lanes, allowed) from error
    _log.warning("jaxbandit: out of memory with %s lanes a device; going on with %s", f"{lanes:,}", f"{lanes // 2:,}")
    return lanes // 2


def _most_lanes(lane: Lane, execution: Execution, mesh: Mesh) -> int:
    """Lanes of a device: as many as keep it busy, and as its memory holds.

    On a CPU, states and what a step works on stay small, so that the caches help. An accelerator needs many threads,
    and memory for states several times over: a refill makes all of them anew, but not ``Execution.scratch``.
    """
    device = mesh.devices.flat[0]
    each = max(_tiled(lane) if device.platform == "tpu" else bytes_of(lane), execution.step_bytes)
    if device.platform == "gpu":
        scratch = bytes_of([getattr(lane.state, name) for name in execution.scratch])
        each -= scratch - scratch // _SCRATCH_SHARE
    if device.platform == "cpu":
        room = (execution.cache_mib or _CPU_MIB) << 20
        # A program of one lane uses no vectors: with 400 arms, GOLD then takes eight times as long as in two.
        return min(execution.most_lanes, max(2, room // each))
    kind = accelerator(device)
    busy = min(_MOST_LANES, max(_LEAST_LANES, kind.cores * _LANES_A_CORE))
    taken = max(_STATES_SHARE, _TEMPORARIES_SHARE * execution.temporaries) * each
    return 1 << (max(1, min(busy, kind.memory // taken)).bit_length() - 1)


def _tiled(lane: Lane) -> int:
    """Bytes of a lane in a TPU's memory, where the last two axes of an array are whole tiles of 8 times 128 words."""

    def padded(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-2], -(-shape[-2] // 8) * 8, -(-shape[-1] // 128) * 128) if len(shape) > 1 else shape

    leaves = jax.tree.leaves(lane)
    return sum(math.prod(padded(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves)


def _balanced(most: int, jobs: int, room: int) -> int:
    """At most ``most`` lanes, a multiple of 64. Jobs are served in waves: where these are few, there are as many lanes
    as leave few of them without a job in the last one.

    It depends on ``jobs`` through the number of waves alone, as each width is compiled.
    """
    waves = -(-jobs // most)
    width = most if waves > 4 else min(most, -(-room // waves))
    return width // _VECTOR * _VECTOR or width
