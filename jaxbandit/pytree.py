"""Dataclasses as pytrees whose structure tells their class."""

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import jax

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def pytree(cls: type[T]) -> type[T]:
    """Registers a dataclass as a pytree, as ``jax.tree_util.register_dataclass`` does.

    Fields with the metadata ``static`` are part of the structure. So is the class: JAX (0.10 to 0.12) takes two of the
    classes that it registers for equal if their static fields are. In rare processes, where their hashes meet in its
    cache, a jitted function that is given one policy then runs the program of another.
    """
    static = tuple(field.name for field in fields(cls) if field.metadata.get("static"))
    names = tuple(field.name for field in fields(cls) if field.name not in static)
    keys = tuple(map(jax.tree_util.GetAttrKey, names))

    def flatten(tree: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(tree, name) for name in names), tuple(getattr(tree, name) for name in static)

    def with_keys(tree: T) -> tuple[tuple[tuple[Any, Any], ...], tuple[Any, ...]]:
        leaves, rest = flatten(tree)
        return tuple(zip(keys, leaves, strict=True)), rest

    def unflatten(rest: tuple[Any, ...], leaves: Iterable[Any]) -> T:
        tree = object.__new__(cls)
        for name, value in (*zip(names, leaves, strict=True), *zip(static, rest, strict=True)):
            object.__setattr__(tree, name, value)
        return tree

    jax.tree_util.register_pytree_with_keys(cls, with_keys, unflatten, flatten)
    return cls
