"""Which code a program is made of, where the files of this package do not say it: the methods of a user's classes, and
what somebody has replaced in this package.

A program that was made of other code must not be taken for it: neither one of this process, nor one on disk.
"""

import dis
import functools
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter, is_
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

Said = frozenset[Any] | tuple[()]
"""Hashable, and equal as long as the code is the same. Where there is something, no name on disk can be made of it."""

_NO_PROGRAM = frozenset(("cli", "live", "study", "tuning", "papers", "programs", "progress", "jobs", "engine"))
"""Parts of the package of which no program is made."""
_LIBRARIES = frozenset((*sys.stdlib_module_names, "jaxbandit", "jax", "numpy", "scipy", "jaxtyping"))
_PLAIN = bool, int, float, complex, str, bytes
_OF_CLASSES = frozenset(("__dict__", "__weakref__", "__doc__", "__annotations__", "__module__", "_abc_impl"))
_SMALL = 1 << 16
"""Bytes up to which an array is told by its content."""


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

    That is what ``replaced`` said; and of each class that is not of this package, its methods and attributes, with what
    they read of their modules (``_told``).
    """
    kinds = dict.fromkeys(base for kind in _kinds(structure) for base in kind.__mro__ if _is_users(base))
    found = [*replaced, *((kind, *each) for kind in kinds for each in _methods(kind))]
    return frozenset(found) if found else ()


def replaced() -> tuple[tuple[str, int], ...]:
    """What has been replaced in the parts of this package that programs are made of; nothing, usually."""
    with _lock:
        for name in [each for each in list(sys.modules) if each.startswith("jaxbandit.") and each not in _seen]:
            module = sys.modules.get(name)
            if module is None:
                continue
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
        name: value for name, value in list(vars(module).items())
        if not name.startswith("__") and not isinstance(value, ModuleType) and type(value).__module__ != "typing"
        and (not isinstance(value, type) or value.__module__ == here)
    }  # fmt: skip
    yield _first(vars(module), own)
    for value in own.values():
        if isinstance(value, type):
            yield _first(vars(value), {name: each for name, each in vars(value).items() if name not in _OF_CLASSES})


def _first(where: Mapping[str, Any], own: Mapping[str, Any]) -> _Seen:
    functions = tuple(found for value in own.values() if (found := function_of(value)))
    for name, value in own.items():
        function = function_of(value)
        home = _home(str(function.__globals__.get("__name__")) if function else type(value).__module__)
        if home not in _LIBRARIES and not home.startswith("namedtuple_"):
            _strange.append((name, value))
    return _Seen(where, tuple(own), tuple(own.values()), functions, tuple(each.__code__ for each in functions))


def _home(module: str) -> str:
    return module.partition(".")[0]


def function_of(value: Any) -> FunctionType | None:
    """The function that a method is, however it is wrapped."""
    for _ in range(9):
        if isinstance(value, FunctionType):
            return value
        if isinstance(value, property):
            value = value.fget
        elif isinstance(value, functools.partial | functools.partialmethod):
            value = value.func
        else:
            value = getattr(value, "__func__", None) or getattr(value, "__wrapped__", None)
    return None


def _kinds(structure: Any) -> Iterator[type]:
    node = structure.node_data()
    if node is not None:
        if isinstance(node[0], type):
            yield node[0]
        for child in structure.children():
            yield from _kinds(child)


def _is_users(kind: type) -> bool:
    return _home(kind.__module__) not in _LIBRARIES


def _methods(kind: type) -> Iterator[tuple[Any, ...]]:
    seen: set[int] = set()
    for name, value in list(vars(kind).items()):
        if name not in _OF_CLASSES and not name.startswith("__dataclass"):
            yield name, _told(value, seen)


def _told(value: Any, seen: set[int]) -> Any:
    """Hashable, and equal as long as a value does the same: by what it holds, or else as one object.

    A function is told by its code, its defaults, what it encloses, and the names of its module that it reads, those of
    functions that it calls too. What may change while a program is traced, as a list, is one object.
    """
    if value is None or isinstance(value, _PLAIN):
        return type(value), repr(value)
    if isinstance(value, np.generic | np.ndarray) and value.dtype != object and value.nbytes <= _SMALL:
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, tuple):
        return type(value), *(_told(each, seen) for each in value)
    if isinstance(value, functools.partial | functools.partialmethod):
        return type(value), *(_told(each, seen) for each in (value.func, value.args, tuple(value.keywords.items())))
    function = function_of(value)
    if function is None or _home(str(function.__module__)) in _LIBRARIES or id(function) in seen:
        _held[id(value)] = value
        return "object", id(value)
    seen.add(id(function))
    there, inner = function.__globals__, [_within(cell) for cell in function.__closure__ or ()]
    named = [each for name in sorted(_read_by(function.__code__)) if name in there for each in (name, there[name])]
    parts = function.__defaults__, tuple((function.__kwdefaults__ or {}).items()), *inner, *named
    return type(value), function.__code__, *(_told(each, seen) for each in parts)


def _within(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


@functools.lru_cache(maxsize=4096)
def _read_by(code: CodeType) -> frozenset[str]:
    """The names of a module that some code reads, and does not set."""
    found: dict[str, set[str]] = {"LOAD_GLOBAL": set(), "STORE_GLOBAL": set()}
    for each in dis.get_instructions(code):
        found.get(each.opname, set()).add(each.argval)
    nested = (_read_by(each) for each in code.co_consts if isinstance(each, CodeType))
    return frozenset(found["LOAD_GLOBAL"].union(*nested) - found["STORE_GLOBAL"])
