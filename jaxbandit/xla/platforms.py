"""The way of a platform, where two platforms need other operations for the same result.

``lax.platform_dependent`` traces the ways of all platforms and takes one as it lowers. Who knows earlier for which
platform a program is says so (``traced_for``), and no other way is traced: up to half of what tracing takes.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax import lax

T = TypeVar("T")

_platform = jax.make_user_context(None)


def traced_for(platform: str, function: Callable[..., T]) -> Callable[..., T]:
    """``function``, which is traced for one platform alone: cpu, gpu or tpu."""

    @functools.wraps(function)
    def traced(*values: Any, **named: Any) -> T:
        with _platform(platform):
            return function(*values, **named)

    return traced


def known() -> str | None:
    """The platform that is traced for, where it was said."""
    found: str | None = _platform.value
    return found


def by_platform(*operands: Any, cpu: Callable[..., T], default: Callable[..., T]) -> T:
    """``cpu(*operands)`` on CPUs and ``default(*operands)`` elsewhere."""
    if known() is None:
        found: T = lax.platform_dependent(*operands, cpu=cpu, default=default)
        return found
    return (cpu if known() == "cpu" else default)(*operands)
