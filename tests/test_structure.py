"""The size of what a reader has to hold in mind at once: functions, modules, and files of rules."""

import ast
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
    why = ast.get_docstring(ast.parse(text)) or ""
    assert len(text.splitlines()) <= 150 or "file is long because" in why or "above 150 lines because" in why
