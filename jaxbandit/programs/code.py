"""Which code a program is made of, where the files of this package do not say it: the methods of a user's classes, and
what somebody has replaced in this package.

A program that was made of other code must not be taken for it: neither one of this process, nor one on disk.
"""

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter, is_
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

Said = frozenset[Any] | tuple[()]
"""Hashable, and equal as long as the code is the same. Where there is something, no name on disk can be made of it."""

_NO_PROGRAM = frozenset(("cli", "live", "study", "tuning", "papers", "programs", "progress", "jobs", "engine"))
"""Parts of the package of which no program is made."""
_LIBRARIES = frozenset((*sys.stdlib_module_names, "jaxbandit", "jax", "numpy", "scipy", "jaxtyping"))
_PLAIN = bool, int, float, complex, str, bytes
_OF_CLASSES = frozenset(("__dict__", "__weakref__", "__doc__", "__annotations__", "_abc_impl"))


class _Seen(NamedTuple):
    """The names of a module or of a class as they were first seen; and the functions among their values."""

    where: Mapping[str, Any]
    names: tuple[str, ...]
    values: tuple[Any, ...]
    functions: tuple[FunctionType, ...]
    codes: tuple[Any, ...]

    def replaced(self) -> list[tuple[str, Any]]:
        """The names that have other values by now, or functions of other code, and what they have."""
        same = all(map(is_, map(self.where.get, self.names), self.values))
        if same and all(map(is_, map(attrgetter("__code__"), self.functions), self.codes)):
            return []
        found = [(n, now) for n, was in zip(self.names, self.values, strict=True)
                 if (now := self.where.get(n)) is not was]  # fmt: skip
        changed = zip(self.functions, self.codes, strict=True)
        return found + [(each.__qualname__, each.__code__) for each, code in changed if each.__code__ is not code]


_seen: dict[str, list[_Seen]] = {}
_strange: list[tuple[str, Any]] = []
"""What is not of this package where it was first seen."""
_held: dict[int, Any] = {}
"""Replacements, so that no other object gets the number of one."""
_lock = threading.Lock()


def code_of(structure: Any, replaced: Iterable[Any]) -> Said:
    """What a program's code is, beside the package's files, for a pytree's structure.

    That is what ``replaced`` said; and of each class that is not of this package, its methods with the numbers and
    texts of their modules that they name.
    """
    kinds = dict.fromkeys(base for kind in _kinds(structure) for base in kind.__mro__ if _is_users(base))
    found = [*replaced, *((kind, *each) for kind in kinds for each in _methods(kind))]
    return frozenset(found) if found else ()


def replaced() -> tuple[tuple[str, int], ...]:
    """What has been replaced in the parts of this package that programs are made of; nothing, usually."""
    with _lock:
        for name in [each for each in sys.modules if each.startswith("jaxbandit.") and each not in _seen]:
            module = sys.modules[name]
            if name.split(".")[1] in _NO_PROGRAM:
                _seen[name] = []
            elif not getattr(module.__spec__, "_initializing", False):
                _seen[name] = list(_of_module(module))
        now = [*_strange, *(each for found in _seen.values() for one in found for each in one.replaced())]
        _held.update((id(value), value) for _, value in now)
        return tuple((name, id(value)) for name, value in now)


def _of_module(module: ModuleType) -> Iterator[_Seen]:
    here = module.__name__
    own = {
        name: value for name, value in vars(module).items()
        if not name.startswith("__") and not isinstance(value, ModuleType) and type(value).__module__ != "typing"
        and (not isinstance(value, type) or value.__module__ == here)
    }  # fmt: skip
    yield _first(vars(module), own)
    for value in own.values():
        if isinstance(value, type):
            yield _first(vars(value), {name: each for name, each in vars(value).items() if name not in _OF_CLASSES})


def _first(where: Mapping[str, Any], own: Mapping[str, Any]) -> _Seen:
    functions = tuple(found for value in own.values() if (found := _function(value)))
    for each in functions:
        home = str(each.__globals__.get("__name__")).partition(".")[0]
        if home not in _LIBRARIES and not home.startswith("namedtuple_"):
            _strange.append((each.__qualname__, each))
    return _Seen(where, tuple(own), tuple(own.values()), functions, tuple(each.__code__ for each in functions))


def _function(value: Any) -> FunctionType | None:
    inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    return inner if isinstance(inner, FunctionType) else None


def _kinds(structure: Any) -> Iterator[type]:
    node = structure.node_data()
    if node is not None:
        if isinstance(node[0], type):
            yield node[0]
        for child in structure.children():
            yield from _kinds(child)


def _is_users(kind: type) -> bool:
    return kind.__module__.partition(".")[0] not in _LIBRARIES


def _methods(kind: type) -> Iterator[tuple[Any, ...]]:
    for name, value in vars(kind).items():
        if method := _function(value):
            names, there = method.__code__.co_names, method.__globals__
            plain = tuple((each, repr(there[each])) for each in names if isinstance(there.get(each), _PLAIN))
            yield name, method.__code__, plain
