"""The devices that simulations run on: all cores of a CPU, the platform that was asked for, and how large they are.

On a CPU, JAX is given one device a core, unless the user has set that or JAX has already started.
"""

import contextlib
import functools
import logging
import os
import re
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from jaxbandit.errors import BadInput

_log = logging.getLogger("jaxbandit")
_NO_MESH = jax.sharding.Mesh(np.empty((), object), ())


def cores() -> int:
    """Returns how many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_processes: dict[str, int] = {}


def use_all_cores(say: bool = False) -> None:
    """Has JAX start with one CPU device a core; accelerators are not concerned.

    What makes the first arrays calls this: problems, policies, tuning, studies, ``simulate``. It does nothing where the
    user has said how many devices there are (``jax_num_cpu_devices`` as an environment variable or by ``jax.config``,
    or ``XLA_FLAGS``).

    Args:
        say: whether to say once that JAX had started before, with one device.

    Raises:
        BadInput: where the user has said that there is none; and in a fork of a process that has called this, where JAX
            would hang.
    """
    if _processes.setdefault("first", os.getpid()) != os.getpid():
        allowed = "one that is spawned, by multiprocessing.get_context('spawn'): JAX hangs in a fork"
        raise BadInput("process", "a fork of one that has used jaxbandit", allowed)
    asked = jax.config.values["jax_num_cpu_devices"]
    if asked < -1 or asked == 0:
        raise BadInput("JAX_NUM_CPU_DEVICES", asked, "a whole number from 1, or -1 for as many as JAX likes")
    forced = re.search(r"xla_force_host_platform_device_count=(\S*)", os.environ.get("XLA_FLAGS", ""))
    if forced and not re.fullmatch("0*[1-9][0-9]*", forced[1]):
        raise BadInput("XLA_FLAGS", forced[0], "a whole number of devices from 1")
    if asked != -1 or forced:
        return
    try:
        jax.config.update("jax_num_cpu_devices", cores())
    except RuntimeError:  # JAX has started
        if say and jax.default_backend() == "cpu" and jax.local_device_count() == 1 < cores():
            _say_once()


@contextlib.contextmanager
def lenient() -> Iterator[None]:
    """Has JAX work within as it does by default, where settings that are meant for the user's own code forbid that.

    A decorator too, of what a user calls. These are strict promotion of types and ranks, guards of transfers, a mesh
    for arrays (``jax.set_mesh``), and ``jax.disable_jit``.
    """
    with contextlib.ExitStack() as held:
        for setting in (
            jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"), jax.transfer_guard("allow"),
            jax.disable_jit(False),
        ):  # fmt: skip
            held.enter_context(setting)
        if not jax.sharding.get_abstract_mesh().empty:
            with contextlib.suppress(ValueError):  # where a user's function is traced
                held.enter_context(jax.set_mesh(_NO_MESH))
        yield


@contextlib.contextmanager
def float64() -> Iterator[None]:
    """Has JAX compute in float64 within. It may be the first that JAX does, so all cores are used from then on."""
    use_all_cores()
    with jax.enable_x64(True), lenient():
        yield


@functools.cache
def _say_once() -> None:
    _log.warning(
        "jaxbandit: one core of %d is used, as JAX had started before: set JAX_NUM_CPU_DEVICES=%d, or make no array "
        "before the first problem or study", cores(), cores(),
    )  # fmt: skip


PACKAGES = {
    "cuda": "for an NVIDIA GPU: pip install 'jaxbandit[lab,cuda]'",
    "rocm": "for an AMD GPU: the plugin of its ROCm, jax-rocm7-plugin",
    "tpu": "for a TPU: pip install 'jax[tpu]'",
}
_SAME = {"cuda": "gpu", "rocm": "gpu"}
"""What a device of JAX calls its platform, where the platform has another name as well."""


def use_platform(platform: str | None) -> None:
    """Has JAX run on a platform and on no other.

    Args:
        platform: cpu, cuda, rocm or tpu; None for what ``JAX_PLATFORMS`` says, or else what JAX prefers.

    Raises:
        BadInput: where JAX does not find it, or has started on another one. JAX by itself may take the CPU then.
    """
    if platform is not None:
        jax.config.update("jax_platforms", platform)
    try:
        found = jax.local_devices()[0].platform
    except (RuntimeError, AssertionError) as error:
        asked = platform or str(jax.config.values["jax_platforms"])
        raise not_found("JAX_PLATFORMS" if platform is None else "--platform", asked, error) from None
    if platform is not None and found != _SAME.get(platform, platform):
        raise BadInput("--platform", platform, f"{found}, as JAX has started on it in this process")


def not_found(field: str, asked: str, error: BaseException) -> BadInput:
    """Returns the error for a platform that JAX does not find."""
    install = next((f"; {how}" for name, how in PACKAGES.items() if name in asked.lower().replace("gpu", "cuda")), "")
    why = textwrap.shorten(str(error).partition("\n")[0], 200, placeholder=" ...")
    return BadInput(field, asked, f"a platform that JAX finds here{f' ({why})' if why else ''}{install}")


class Accelerator(NamedTuple):
    """Describes a device: its memory in bytes and its cores (multiprocessors of a GPU)."""

    memory: int
    cores: int


_GIB = 1 << 30
KNOWN = {
    "B200": Accelerator(180 * _GIB, 148), "H200": Accelerator(140 * _GIB, 132), "H100": Accelerator(79 * _GIB, 132),
    "A100-SXM4-40": Accelerator(39 * _GIB, 108), "A100": Accelerator(79 * _GIB, 108), "A10": Accelerator(22 * _GIB, 72),
    "L40": Accelerator(44 * _GIB, 142), "L4": Accelerator(22 * _GIB, 58), "V100": Accelerator(15 * _GIB, 80),
    "T4": Accelerator(14 * _GIB, 40), "RTX 4090": Accelerator(23 * _GIB, 128), "RTX 3090": Accelerator(23 * _GIB, 82),
    "TPU v6 lite": Accelerator(32 * _GIB, 1), "TPU v5 lite": Accelerator(16 * _GIB, 1),
    "TPU v5": Accelerator(95 * _GIB, 1), "TPU v4": Accelerator(32 * _GIB, 1),
    "TPU v3": Accelerator(16 * _GIB, 1), "TPU v2": Accelerator(8 * _GIB, 1),
}  # fmt: skip
"""Accelerators by a part of what JAX calls them (``device_kind``), from their data sheets; the first that fits."""
_UNKNOWN = Accelerator(8 * _GIB, 16)


def accelerator(device: jax.Device) -> Accelerator:
    """Returns the memory and the cores of a device: its own word, else the table's, else those of a small one."""
    table = next((known for part, known in KNOWN.items() if part in device.device_kind), _UNKNOWN)
    cores = getattr(device, "core_count", None) if device.platform == "gpu" else None
    return Accelerator(memory(device) or table.memory, int(cores or table.cores))


def memory(device: jax.Device) -> int | None:
    """Returns the bytes of an accelerator's own memory that JAX may take, if the device says so."""
    try:
        found = (device.memory_stats() or {}).get("bytes_limit")
    except Exception:  # one that is only compiled for has none
        return None
    return int(found) if found else None
