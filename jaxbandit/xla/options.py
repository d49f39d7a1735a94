"""Options of XLA's compiler that the engine sets on CPUs."""

from typing import Any

CPU_OPTIONS: dict[str, Any] = {
    # A step's kernels are too short to be worth dividing among threads; the devices are what runs in parallel.
    "xla_cpu_multi_thread_eigen": False,
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner",
    # XLA uses half of a wide vector unit unless told; a processor without one splits the vectors again.
    "xla_cpu_prefer_vector_width": 512,
}


def options_for(platform: str) -> dict[str, Any] | None:
    """For ``compiler_options`` of ``jax.jit``; None where XLA's own are left."""
    return CPU_OPTIONS if platform == "cpu" else None
