"""Options of XLA's compiler that the engine sets, on CPUs and on GPUs."""

import functools
import os
from collections.abc import Callable
from enum import Enum
from typing import Any

import jax
from jaxlib.version import __version_info__

from jaxbandit.xla.platforms import traced_for

CPU_OPTIONS: dict[str, Any] = {
    # A step's kernels are too short to be worth dividing among threads; the devices are what runs in parallel.
    "xla_cpu_multi_thread_eigen": False,
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner",
    # XLA uses half of a wide vector unit unless told; a processor without one splits the vectors again.
    "xla_cpu_prefer_vector_width": 512,
}
# XLA's library for sums adds floats in an order that follows from the shape: the bits of a run would depend on how many
# are run beside it.
BITS: dict[str, Any] = {"xla_cpu_experimental_ynn_fusion_type": ""} if __version_info__[:2] >= (0, 9) else {}

GPU_OPTIONS: dict[str, Any] = {
    # Sums over arms that XLA hands to Triton: RR took half again as long with them on an H100, and WRR twice as long to
    # compile; their divisions are approximate (docs/accelerators.md).
    "xla_disable_hlo_passes": "triton-softmax-rewriter,fusion-block-level-rewriter",
}

LEVEL = "xla_backend_optimization_level"


class Effort(Enum):
    """How much of XLA's work on a program makes it fast: each has the same bits (``options_for``)."""

    LEAST = "least"
    LITTLE = "little"
    FULL = "full"


# A third of the time that XLA takes for a program makes it faster, and no other; at LLVM's level 0, half of the rest.
# There, to divide a program into parts for threads takes longer than they save. The bits of level 1 with the older
# emitters are tested with jaxlib 0.10 alone; XLA of 0.11 and later has no others, and level 1 alone saves nothing.
_EMITTERS: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False} if __version_info__[:2] == (0, 10) else {}
HURRIED: dict[Effort, dict[str, Any]] = {
    Effort.LEAST: {LEVEL: 0, "xla_cpu_parallel_codegen_split_count": 1, **_EMITTERS},
    Effort.LITTLE: _EMITTERS and {LEVEL: 1, **_EMITTERS},
    Effort.FULL: {},
}


def options_for(platform: str, effort: Effort = Effort.FULL, level: int = 2) -> dict[str, Any] | None:
    """For ``compiler_options`` of ``jax.jit``; None where XLA's own are left.

    ``effort``: ``LITTLE`` takes about two thirds of the time of ``FULL``, for a program of the same bits that may be
    slower. ``LEAST`` takes half of that, for one that is ten times slower, and has the same bits where
    ``contraction.contractible`` finds nothing. ``level``: see ``Execution.level``. What the user's ``XLA_FLAGS`` name
    is left to them, but for ``BITS``.
    """
    given = os.environ.get("XLA_FLAGS", "")
    if platform == "cpu":
        wanted = CPU_OPTIONS | {LEVEL: level} | HURRIED[effort]
        return {name: value for name, value in wanted.items() if name not in given} | BITS
    own = {name: value for name, value in GPU_OPTIONS.items() if platform == "gpu" and name not in given}
    return own or None


def saves_effort(platform: str, effort: Effort) -> bool:
    """Whether so little effort makes another program there: else the same one would be compiled once for each."""
    return options_for(platform, effort) != options_for(platform)


class ShortRun:
    """What ``jax.jit`` makes of ``function``, compiled in a hurry: for what takes less time to run than to compile.

    ``effort``: the least where no rounding matters; ``keywords``: those of ``jax.jit``, but ``compiler_options``.
    """

    def __init__(self, function: Callable[..., Any], effort: Effort = Effort.LITTLE, **keywords: Any) -> None:
        self._function, self._effort, self._keywords = function, effort, keywords

    @functools.cached_property
    def compiled(self) -> Any:
        """``jax.jit``'s function. Not before the first call: to ask for the platform makes JAX look for its devices."""
        platform = jax.default_backend()
        options = options_for(platform, self._effort)
        return jax.jit(traced_for(platform, self._function), compiler_options=options, **self._keywords)

    def __call__(self, *values: Any, **named: Any) -> Any:
        """What the function returns."""
        return self.compiled(*values, **named)
