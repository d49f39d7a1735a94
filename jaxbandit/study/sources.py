"""Which source a class or a function of a user's has: results of another version are not continued."""

import hashlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from jaxbandit.programs.code import function_of


def source_of(made: Any) -> str:
    """Returns the SHA-256 of the module that a class or a function stands in; "" for what is this package's, or has no
    module.

    Where the file has changed since it was imported, so that its text is not what runs, the code that runs counts too.
    """
    name = getattr(made, "__module__", None) or ""
    if name.partition(".")[0] in ("", "jaxbandit") or name not in sys.modules:
        return ""
    module = sys.modules[name]
    written, loaded, there = source(module), list(_loaded(made)), set(_of_file(module))
    if not there or there.issuperset(loaded):
        return written
    return hashlib.sha256(repr([written, *map(_told, loaded)]).encode()).hexdigest()


def _loaded(made: Any) -> Iterator[CodeType]:
    """The code of a function, or of the functions of a class."""
    for each in vars(made).values() if inspect.isclass(made) else (made,):
        function = function_of(each)
        if function is None or function.__module__ != made.__module__:
            continue
        if not function.__code__.co_filename.startswith("<"):  # made, as those of a dataclass
            yield function.__code__


def _of_file(module: ModuleType) -> Iterator[CodeType]:
    """All code of a module's file as it is now; nothing where there is no such file."""
    with suppress(AttributeError, OSError, TypeError, SyntaxError, ValueError):
        todo = [compile(Path(str(module.__file__)).read_bytes(), str(module.__file__), "exec", dont_inherit=True)]
        while todo:
            code = todo.pop()
            yield code
            todo += [each for each in code.co_consts if isinstance(each, CodeType)]


def _told(code: CodeType) -> Any:
    consts = [
        _told(each) if isinstance(each, CodeType) else sorted(map(repr, each)) if isinstance(each, frozenset)
        else repr(each)
        for each in code.co_consts
    ]  # fmt: skip
    return [code.co_qualname, code.co_code.hex(), consts, code.co_names]


def source(module: ModuleType) -> str:
    """Returns the SHA-256 of the module's file, of all Python files of a package, or of what a notebook defines."""
    folders = [Path(each) for each in getattr(module, "__path__", ())]
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    if not files and getattr(module, "__file__", None):
        files = [Path(str(module.__file__))]
    parts = [file.read_bytes() for file in files] or [text.encode() for text in _cells(module)]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _cells(module: ModuleType) -> Iterator[str]:
    """The source of each class and function of a module without a file."""
    for _, each in sorted(vars(module).items()):
        if (inspect.isclass(each) or inspect.isfunction(each)) and each.__module__ == module.__name__:
            with suppress(OSError, TypeError):
                yield inspect.getsource(each)


__all__ = ["source", "source_of"]
