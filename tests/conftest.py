"""For all tests."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    """What one file compiled is of no use to the next, and adds up to gigabytes."""
    yield
    jax.clear_caches()
