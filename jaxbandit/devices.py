"""All cores: on a CPU, JAX is given one device a core, unless the user has set that or JAX has already started."""

import functools
import logging
import os

import jax

_log = logging.getLogger("jaxbandit")


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_all_cores(say: bool = False) -> None:
    """Has JAX start with one CPU device a core; accelerators are not concerned.

    What makes the first arrays calls this: problems, studies, ``simulate``. It does nothing where the user has said how
    many devices there are (``jax_num_cpu_devices`` as an environment variable or by ``jax.config``, or ``XLA_FLAGS``).

    Args:
        say: whether to say once that JAX had started before, with one device.
    """
    set_before = jax.config.values["jax_num_cpu_devices"] != -1
    if set_before or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    try:
        jax.config.update("jax_num_cpu_devices", cores())
    except RuntimeError:  # JAX has started
        if say and jax.default_backend() == "cpu" and jax.local_device_count() == 1 < cores():
            _say_once()


@functools.cache
def _say_once() -> None:
    _log.warning(
        "jaxbandit: one core of %d is used, as JAX had started before: set JAX_NUM_CPU_DEVICES=%d, or make no array "
        "before the first problem or study", cores(), cores(),
    )  # fmt: skip
