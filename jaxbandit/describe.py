"""Pytrees and dataclasses in words, for messages and for ``__repr__``."""

from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def is_array(leaf: Any) -> bool:
    """Whether a leaf of a pytree is a number, or an array of numbers."""
    if isinstance(leaf, bool | int | float | complex):
        return True
    dtype = getattr(leaf, "dtype", None)
    return isinstance(dtype, np.dtype) and (jnp.issubdtype(dtype, np.bool_) or jnp.issubdtype(dtype, np.number))


def type_of(leaf: Any) -> str:
    """As ``int32[2]``, or the name of a class."""
    if not is_array(leaf):
        return f"a {type(leaf).__name__}"
    return f"{jnp.result_type(leaf)}[{','.join(map(str, jnp.shape(leaf)))}]"


def described(tree: Any) -> str:
    """A pytree by its fields and their types, as ``State(pulls int32[2], wins int32[2])``."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    if len(leaves) == 1 and not leaves[0][0]:
        return type_of(leaves[0][1])
    inner = (f"{jax.tree_util.keystr(path, simple=True, separator='.')} {type_of(leaf)}" for path, leaf in leaves)
    return f"{type(tree).__name__}({', '.join(inner)})"


def brief(instance: Any) -> str:
    """A dataclass by its fields: numbers and words as they are, arrays by their type, the rest by its class.

    It stands for ``__repr__``, as in ``Synthetic(budget=500, sc=Quantiles(...), ...)``.
    """
    shown = (f"{field.name}={_brief(getattr(instance, field.name))}" for field in fields(instance) if field.repr)
    return f"{type(instance).__name__}({', '.join(shown)})"


def _brief(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, list | tuple | dict) and not hasattr(value, "_fields"):
        return f"{len(value)} of them"
    if not is_array(value):
        return f"{type(value).__name__}(...)"
    if jnp.ndim(value) or isinstance(value, jax.core.Tracer):
        return type_of(value)
    return f"{np.asarray(value).item():.6g}" if jnp.issubdtype(value.dtype, np.floating) else str(value)
