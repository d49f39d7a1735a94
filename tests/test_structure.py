"""The size of what a reader has to hold in mind at once: functions, modules, and files of rules."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "jaxbandit"
MODULES = sorted(PACKAGE.rglob("*.py"))
RULES = [
    PACKAGE / family / f"{name}.py"
    for family, names in {
        "cleaning": ("known_sc", "random", "greedy", "epsilon_greedy", "ee", "index", "trained"),
        "topk": ("uniform", "optmai", "sar", "lucb", "halving", "trained"),
        "outliers": ("rr", "wrr", "nrr", "ib", "gold"),
        "extraction": ("crux", "gs_exact", "bfs", "rand"),
    }.items()
    for name in names
]


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    """The functions of a module, with their lines but for the docstring."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            text = ast.get_docstring(node, clean=False)
            yield node.name, node.end_lineno - node.lineno + 1 - (text.count("\n") + 1 if text else 0)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_sizes(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400
    assert {name: lines for name, lines in _functions(path) if lines > 60} == {}


@pytest.mark.parametrize("path", RULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_rule_is_short_or_says_why_not(path: Path) -> None:
    text = path.read_text()
    why = " ".join((ast.get_docstring(ast.parse(text)) or "").split())
    assert len(text.splitlines()) <= 150 or "file is long because" in why or "above 150 lines because" in why


def _prose(path: Path) -> Iterator[str]:
    """The comments and docstrings of a module."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""
    yield from (
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    )


def test_what_speaks_to_the_compiler_knows_no_other_package() -> None:
    """But ``pytree.py``, which knows none: samplers and rules take it, so that it would be imported in a circle."""
    sources = "".join(path.read_text() for path in MODULES if path.parent.name == "xla")
    assert set(re.findall(r"^\s*(?:from|import) jaxbandit\.(\w+)", sources, re.MULTILINE)) == {"xla", "pytree"}


OUTSIDE = [path for path in MODULES if path.parent.name != "xla"]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_one_package_speaks_of_the_compiler(path: Path) -> None:
    """What XLA makes of a program is told in ``jaxbandit/xla`` and on docs/xla-cpu.md; users' XLA_FLAGS are theirs."""
    words = re.compile(r"\bXLA\b(?!_)|\bfence[sd]?\b|\bfus(?:ed?|ion)\b|\bkernels?\b", re.IGNORECASE)
    assert [
        word for text in _prose(path) for word in words.findall(re.sub(r"``xla/\w+\.py``|docs/xla-cpu.md", "", text))
    ] == []
