"""Docstrings of public names: each parameter is in words, and each function and class has an example that runs."""

import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "docs"))
from reference_pages import MODULES, described, public

sys.path.pop()
NAMES = {
    f"{module}.{name}": value
    for module in MODULES
    for name in public(importlib.import_module(module))
    if callable(value := getattr(importlib.import_module(module), name))
}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def _as_before(own_names: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What an example registers or writes is gone afterwards."""
    monkeypatch.chdir(tmp_path)


def example(value: Any) -> bool:
    """Whether there is one."""
    return ">>>" in (value.__doc__ or "")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_examples(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    (found,) = doctest.DocTestFinder(recurse=False).find(NAMES[name], name, module=False, globs={})
    said: list[str] = []
    runner.run(found, out=said.append)
    assert not runner.failures, "".join(said)


def test_every_constant_is_described() -> None:
    """By the string below it, which the reference shows."""
    for home in MODULES:
        module = importlib.import_module(home)
        for name in public(module):
            if f"{home}.{name}" not in NAMES:
                assert len(described(module, name).split()) >= 5, f"{home}.{name}"


def test_every_name_is_described() -> None:
    for name, value in NAMES.items():
        doc = inspect.getdoc(value) or ""
        assert len(doc.split("\n\n")[0].split()) >= 2, name
        assert example(value), name
        if inspect.isfunction(value):
            for parameter in inspect.signature(value).parameters:
                assert re.search(rf"\b{parameter}\b", doc), f"{name}: {parameter}"
