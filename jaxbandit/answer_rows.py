"""The answers of many runs in a few tables: those of one type stand side by side, in a row for each run.

So a device writes a run's answers at once. Written one by one, fifteen numbers of a top-K rule are fifteen loops, which
took an eighth of the time to compile its program.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array


def row_of(answers: Mapping[str, Any]) -> dict[str, Array]:
    """The rows of one run, each of shape (numbers,), by the name of their type, from its answers of any shapes."""
    together: dict[str, list[Array]] = {}
    for name in sorted(answers):
        value = jnp.asarray(answers[name])
        together.setdefault(str(value.dtype), []).append(value.reshape(-1))
    return {kind: jnp.concatenate(values) for kind, values in together.items()}


def answers_in(rows: Mapping[str, np.ndarray], shapes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The answers by name, each of shape (..., *its own shape), from rows of shape (..., numbers) by the name of their
    type. ``shapes``: what ``row_of`` was given, or anything that has its shapes and dtypes."""
    answers, start = {}, dict.fromkeys(rows, 0)
    for name in sorted(shapes):
        shape, kind = shapes[name].shape, str(shapes[name].dtype)
        table, first = rows[kind], start[kind]
        start[kind] = end = first + int(np.prod(shape, dtype=np.int64))
        answers[name] = table[..., first:end].reshape(*table.shape[:-1], *shape)
    return answers
