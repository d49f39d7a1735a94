"""Which source a class or a function of a user's has: results of another version are not continued."""

import hashlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any


def source_of(made: Any) -> str:
    """Returns the SHA-256 of the module that a class or a function stands in; "" for what is this package's, or has no
    module."""
    name = getattr(made, "__module__", None) or ""
    known = name.partition(".")[0] not in ("", "jaxbandit") and name in sys.modules
    return source(sys.modules[name]) if known else ""


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
