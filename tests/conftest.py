"""For all tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

# Compilation is nearly all that the tests take: what one file, command or notebook compiled, the others load.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "1")  # tests run side by side; those of devices say how many

import jax


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    """What one file compiled is of little use to the next, and adds up to gigabytes."""
    yield
    jax.clear_caches()
