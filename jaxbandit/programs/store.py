"""Whole programs on disk, by what they are made of: a later process loads one, and need not even trace it.

JAX's own cache finds a program by its text, for which it has to be traced first; that takes as long as many a study
runs. Here a program is found by the classes of its problem and policy with their static fields, the shapes of all
arrays, the devices, JAX's settings, and the source of this package. Of a user's own class the source is not known, so
its programs are traced, and JAX's cache is left to find them.
"""

import functools
import hashlib
import os
import pickle
import zlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import jax
import numpy as np
from jax.experimental import serialize_executable
from jax.sharding import Mesh

from jaxbandit.programs.cache import HITS, programs
from jaxbandit.programs.imported import FLAGS, WHEN

_PACKAGE = Path(__file__).parents[1]
_LOADED: dict[str, Any] = {}
_MADE_HERE: set[str] = set()
COMPILED: set[Any] = set()
"""What this process has compiled (``here``): a plain call finds it, or makes it anew where JAX has dropped it."""
_MOST_LOADED = 64


class _Untold(Exception):
    """Something that another process could not be told of by a text."""


T = TypeVar("T")


class Kept(NamedTuple):
    """A program on disk."""

    name: str
    stored: bytes


class Like(NamedTuple):
    """How a program is called: pytrees of the structure of its arguments and of its result; and where it runs."""

    arguments: tuple[Any, ...]
    result: Any
    devices: tuple[jax.Device, ...]


def name_of(key: Any) -> str | None:
    """The name of a program whose key is equal in all processes with one name; None where nothing is to be kept."""
    source = _source() if programs() else None
    return None if source is None else _name(source, _surroundings(), key)


def _surroundings() -> tuple[Any, ...]:
    """What a program depends on beside its key: JAX's settings, and variables of the environment."""
    values = jax.config.values
    settings = sorted((name, repr(getattr(jax.config, name, values[name]))) for name in values if "_cache_" not in name)
    prefixes = ("JAX", "XLA", "LIBTPU", "NVIDIA", "CUDA")
    variables = sorted(pair for pair in os.environ.items() if pair[0].startswith(prefixes) and "CACHE" not in pair[0])
    return _only(tuple(settings), tuple(variables))


@functools.lru_cache(maxsize=16)
def _only(*parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """One object for equal ones: each program that is known here holds it."""
    return parts


def loaded(name: str) -> Any | None:
    """The program of that name that this process has loaded already."""
    return _LOADED.get(name)


def here(key: Any) -> Any:
    """The program of a key as this process makes it now: by JAX's settings, and with or without a folder to keep it."""
    return key, _surroundings(), programs() is not None


def is_here(key: Any) -> bool:
    """Whether this process has the program of a key."""
    return here(key) in COMPILED or name_of(key) in _LOADED


def find(name: str) -> Kept | None:
    """The program of that name on disk, but for one that this process has traced itself, as JAX has that in memory."""
    folder = programs()
    stored = folder.get(name) if folder and name not in _MADE_HERE else None
    return None if stored is None else Kept(name, stored)


def load(found: Kept, like: Like) -> Any | None:
    """The program, to be called as the function that it was compiled from; None where it cannot be loaded."""
    trees = jax.tree.structure((like.arguments, {})), jax.tree.structure(like.result)
    try:
        program = serialize_executable.deserialize_and_load(
            zlib.decompress(found.stored), *trees, execution_devices=like.devices
        )
    except Exception:  # what a backend says of a program that it cannot load
        forget(found.name)
        return None
    while len(_LOADED) >= _MOST_LOADED:
        _LOADED.pop(next(iter(_LOADED)), None)  # another thread may have taken it
    _LOADED[found.name] = program
    return program


def forget(name: str | None) -> None:
    """Has this process trace the program of that name from now on, and another process too."""
    if name is None:
        return
    _MADE_HERE.add(name)
    _LOADED.pop(name, None)
    if folder := programs():
        folder.remove(name)


def compiled(lowered: Any, name: str | None, which: Any) -> None:
    """Compiles a program, for a later plain call, and stores it."""
    first = name is not None and name not in _MADE_HERE
    HITS.any = False
    program = lowered.compile()
    COMPILED.add(which)
    if name is None or not first:
        return
    _MADE_HERE.add(name)
    if HITS.any:  # a program that was loaded cannot be written again
        return
    try:
        stored, _, _ = serialize_executable.serialize(program)
    except Exception:  # a backend without it
        return
    _put(name, stored)


def traced_once(key: Any, trace: Callable[[], T]) -> T:
    """What tracing tells, such as shapes: from disk, where an earlier process has found it out."""
    name = name_of(key)
    if found := find(name) if name else None:
        try:
            return cast(T, pickle.loads(zlib.decompress(found.stored)))
        except Exception:  # classes that cannot be loaded are those of a user
            pass
    made = trace()
    if name:
        _put(name, pickle.dumps(made))
    return made


def _put(name: str, stored: bytes) -> None:
    if folder := programs():
        folder.put(name, zlib.compress(stored, 1))


@functools.lru_cache(maxsize=256)
def named(value: Any) -> bool:
    """Whether another process could be told of ``value``: all classes in it are of this package."""
    try:
        _spelled(value)
    except _Untold:
        return False
    return True


@functools.lru_cache(maxsize=256)
def _name(source: str, around: tuple[Any, ...], key: Any) -> str | None:
    try:
        text = _spelled((source, (np.__version__, version("scipy")), *around, key))
    except _Untold:
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def _source() -> str | None:
    """A digest of the package's files; None where they, or the compiler's flags, changed after its import, as what runs
    is not known then. A file that was copied with its old date has a new one of its status."""
    if edited() or os.environ.get("XLA_FLAGS") != FLAGS:
        return None
    try:
        return digest()
    except OSError:
        return None


def edited() -> bool:
    """Whether a file of the package changed after its import, or none can be looked at."""
    try:
        stamps = [max(found.st_mtime, found.st_ctime) for found in map(os.stat, _files())]
    except OSError:
        return True
    return not stamps or max(stamps) >= WHEN


@functools.cache
def _files() -> list[str]:
    return sorted(map(str, _PACKAGE.rglob("*.py")))


@functools.cache
def digest() -> str:
    """Of the package's files."""
    files = map(Path, _files())
    parts = [part for file in files for part in (str(file.relative_to(_PACKAGE)).encode(), file.read_bytes())]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _spelled(value: Any) -> str:
    """A text that only equal values have, in whichever process."""
    kind = type(value)
    if value is None or kind in (bool, int, str, bytes, float, complex):
        return f"{kind.__name__}:{value!r}"
    if kind in (tuple, list):
        return f"{kind.__name__}({','.join(map(_spelled, value))})"
    if isinstance(value, jax.tree_util.PyTreeDef):
        node = value.node_data()
        inner = "*" if node is None else ",".join(map(_spelled, [*node, *value.children()]))
        return f"tree({inner})"
    if isinstance(value, jax.ShapeDtypeStruct):
        return f"array({_spelled((value.shape, np.dtype(value.dtype), value.weak_type))})"
    if isinstance(value, np.dtype):
        return f"dtype:{value.str}"
    if isinstance(value, Mesh):
        devices = [(each.platform, each.device_kind, each.id) for each in value.devices.flat]
        return f"mesh({_spelled([value.axis_names, value.devices.shape, devices])})"
    if isinstance(value, type):
        if value.__module__.partition(".")[0] not in ("jaxbandit", "builtins") or "<" in value.__qualname__:
            raise _Untold
        return f"class:{value.__module__}.{value.__qualname__}"
    if isinstance(value, Enum):
        return f"{_spelled(kind)}.{value.name}"
    if isinstance(value, tuple):  # a named one
        return f"{_spelled(kind)}{_spelled(tuple(value))}"
    if is_dataclass(value):
        return f"{_spelled(kind)}{_spelled([getattr(value, field.name) for field in fields(value)])}"
    raise _Untold
