"""Pytrees of the package: a structure tells its class, so that no cache of JAX's mistakes one policy for another."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import jaxbandit
from jaxbandit.pytree import pytree


@pytree
@dataclass(frozen=True)
class One:
    size: int = field(metadata={"static": True})
    weight: Any = None


@pytree
@dataclass(frozen=True)
class Other:
    size: int = field(metadata={"static": True})
    weight: Any = None


def test_structures_tell_classes_and_static_fields_apart() -> None:
    structures = [jax.tree.structure(cls(size, 1.0)) for cls in (One, Other) for size in (1, 2)]
    assert not any(a == b for a, b in itertools.combinations(structures, 2))
    assert jax.tree.structure(One(1, 2.0)) == structures[0]


def test_leaves_have_the_names_of_fields_and_come_back() -> None:
    tree = One(3, {"a": jnp.arange(2)})
    ((path, leaf),) = jax.tree_util.tree_leaves_with_path(tree)
    assert jax.tree_util.keystr(path) == ".weight['a']"
    again = jax.jit(lambda tree: jax.tree.map(lambda x: x + 1, tree))(tree)
    assert type(again) is One
    assert again.size == 3
    assert again.weight["a"].tolist() == [1, 2]
    assert leaf.tolist() == [0, 1]


def test_every_dataclass_of_the_package_is_registered_so() -> None:
    sources = sorted(Path(jaxbandit.__file__).parent.rglob("*.py"))
    assert len(sources) > 100
    jaxs_own = [path.name for path in sources if "\n@jax.tree_util.register_dataclass" in path.read_text()]
    assert not jaxs_own
