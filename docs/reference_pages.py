"""Writes the Reference section from what the package says of itself: public names, study-file keys and commands.

Pages are made anew at each build, in ``docs/reference``, which git ignores. A page is written only where it differs, so
that Sphinx reads again what changed alone.
"""

import ast
import dataclasses
import importlib
import inspect
import json
import re
import textwrap
import typing
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any

import numpy as np

HERE = Path(__file__).parent / "reference"
MODULES = {
    "jaxbandit": "simulate, studies, tuning, policies of your own",
    "jaxbandit.cleaning": "cleaning an ambiguous database",
    "jaxbandit.topk": "the K best arms",
    "jaxbandit.outliers": "the arms that deviate",
    "jaxbandit.extraction": "entities of a hierarchy",
    "jaxbandit.random": "words with addresses, and exact samplers",
    "jaxbandit.registry": "families, metrics and parameters of your own",
    "jaxbandit.live": "a policy that decides against a real agent",
    "jaxbandit.testing": "a check for test suites",
}
SPACE = "\N{NO-BREAK SPACE}"
KEYS = {
    "seed": ("0", "Of all randomness, a whole number from 0 to 4,294,967,295."),
    "runs": ("required", "Runs of each configuration; with `stop_when` the most. `tune` and `plan` do without."),
    "problem": ("required", "A table: `kind` names the family and the problem; the other keys are the problem's own."),
    "policy": ("required", "Tables, one a policy: `kind`, and the policy's own keys. A list of values is swept."),
    "sweep": ("nothing", "Lists of values of the problem's keys. Every combination is run."),
    "checkpoints": ("none", "Budgets below the problem's, at which each run is recorded on its way."),
    "stop_when": ("all runs", "Stop when intervals are narrow: `metric`, `half_width` or `relative`, `difference`."),
    "implementation": ("`fast`", "`reference` runs each policy as its rule's file has it; results have the same law."),
    "tune": ("nothing", "How `jaxbandit tune` searches: [its keys](../tuning.md#the-keys-of-tune)."),
    "train": ("nothing", "How `jaxbandit train` trains a policy: [its keys](../trained.md#the-keys-of-train)."),
}
"""The keys at the top of a study file; a test asks whether these are all."""


def public(module: ModuleType) -> list[str]:
    """The names that a page shows: those of ``__all__``, or all that are the module's own."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return [name for name in sorted(names, key=str.lower) if not inspect.ismodule(getattr(module, name))]


def described(module: ModuleType, name: str) -> str:
    """The string below a constant, where it is defined: what its page says of it."""
    body = ast.parse(inspect.getsource(module)).body
    for node in body:
        if isinstance(node, ast.ImportFrom) and name in [each.asname or each.name for each in node.names]:
            return described(importlib.import_module(str(node.module)), name)
    for node, text in pairwise(body):
        if not isinstance(node, ast.Assign) or not isinstance(text, ast.Expr):
            continue
        names = [each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        if name in names and isinstance(text.value, ast.Constant):
            return inspect.cleandoc(str(text.value.value))
    return ""


def python_page(name: str, what: str) -> str:
    """All public names of a module."""
    module = importlib.import_module(name)
    lines = [f"# {name}", "", f"{what[0].upper()}{what[1:]}.", "", "```{eval-rst}", f".. module:: {name}", ""]
    for each in public(module):
        value = getattr(module, each)
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
        kind = "exception" if kind == "class" and issubclass(value, BaseException) else kind
        if kind == "data":
            lines += [f".. py:data:: {each}", f"   :value: {value!r}", ""]
            lines += [textwrap.indent(described(module, each), "   "), ""]
            continue
        lines.append(f".. auto{kind}:: {name}.{each}")
        if kind in ("class", "exception"):
            lines.append("   :members:")
        lines.append("")
    return "\n".join([*lines, "```", ""])


def cell(text: str) -> str:
    """A text that is fit for a cell of a table."""
    return " ".join(text.split()).replace("|", r"\|")


def parameters(given: Any, searched: bool = False) -> Iterator[str]:
    """A table of keys, or a sentence that there are none; ``searched``: with where ``jaxbandit tune`` looks."""
    if not given:
        yield from ("It has no keys of its own.", "")
        return
    yield "| key | where left out | what |" + (" `tune` searches |" if searched else "")
    yield "|---|---|---|" + ("---|" if searched else "")
    for each in given:
        default = each.default
        left = "required" if each.required else "optional" if default is None else f"`{plain(default)}`"
        where = f" {cell(each.searched or 'nowhere: a file or a name')} |" if searched else ""
        yield f"| `{each.name}` | {left} | {cell(each.help)} |" + where
    yield ""


def plain(value: Any) -> str:
    """A default as a study file has it."""
    from jaxbandit.laws import Law

    if isinstance(value, Law):
        return value.describe()
    if isinstance(value, np.ndarray):  # weights of 0, 1, 2 ... false values, all the same
        assert len({*value.tolist()}) == 1
        return f"{{ uniform = [0, {len(value) - 1}] }}"
    if isinstance(value, tuple):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def family_page(family: Any) -> str:
    """Problems, policies and metrics of a family, as study files name them."""
    lines = [f"# Study files: {family.name}", "", "## Problems", ""]
    for kind in family.problems.values():
        name = f"{family.name}/{kind.name}"
        lines += [f"### `{name}`", "", f"{cell(kind.summary)}.", "", *parameters(kind.parameters)]
        lines += [f"Metric of this kind alone: `{each.name}`, {each.label}.\n" for each in kind.metrics]
    lines += ["## Policies", ""]
    for kind in family.policies.values():
        lines += [f"### `{kind.name}`", "", f"{cell(kind.summary)}.", ""]
        if kind.reference:
            lines += ["It knows the truth: a reference, and not a policy to take.", ""]
        if kind.anytime:
            lines += ["It does the same whatever its budget, so `checkpoints` record it on its way.", ""]
        lines += parameters(kind.parameters, searched=not kind.reference)
    lines += ["## Metrics", "", "| metric | what | better |", "|---|---|---|"]
    lines += [
        f"| `{each.name}` | {cell(each.label)} | {'lower' if each.lower_is_better else 'higher'} |"
        for each in family.metrics
    ]
    return "\n".join([*lines, ""])


def metadata(annotation: Any, kind: str) -> Any:
    """What tyro was told of an argument, None where nothing; ``kind``: the name of a class or of a marker."""
    found = [each for each in getattr(annotation, "__metadata__", ()) if kind in (type(each).__name__, str(each))]
    inner = [metadata(each, kind) for each in typing.get_args(annotation)[:1] if hasattr(each, "__metadata__")]
    return next(iter([*found, *(each for each in inner if each is not None)]), None)


def shown(annotation: Any) -> str:
    """What an argument takes, where it has no name for it: the words of a Literal, or nothing."""
    inner = typing.get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
    if isinstance(inner, UnionType) or typing.get_origin(inner) is typing.Union:
        inner = next(each for each in typing.get_args(inner) if each is not NoneType)
    if typing.get_origin(inner) is typing.Literal:
        return "{" + ",".join(typing.get_args(inner)) + "}"
    return "" if inner is bool else getattr(inner, "__name__", "value").upper()


def is_doc(field: ast.stmt, text: ast.stmt) -> bool:
    """Whether the second statement is the docstring of the first, a field."""
    return isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)


def verb_section(name: str, verb: Any) -> Iterator[str]:
    """One command: what it does, and each of its arguments."""
    body = ast.parse(textwrap.dedent(inspect.getsource(verb))).body[0].body
    docs = {field.target.id: text.value.value for field, text in pairwise(body) if is_doc(field, text)}
    hints = typing.get_type_hints(verb, include_extras=True)
    rows, usage = [], []
    for each in dataclasses.fields(verb):
        hint, default = hints[each.name], each.default
        told = metadata(hint, "_ArgConfig")
        name_of_value = (told.metavar if told else None) or shown(hint)
        positional = "Positional" in str(hint)
        argument = name_of_value if positional else f"--{each.name.replace('_', '-')} {name_of_value}".strip()
        needed = default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
        usage.append(argument if needed else f"[{argument}]")
        text = docs.get(each.name) or (told and told.help) or ""
        left = "required" if needed else "nothing" if default in (None, (), False, "") else f"`{plain(default)}`"
        # Spaces, where a phone can break the line.
        rows.append(f"| `{cell(argument.replace(',', ', '))}` | {left} | {cell(str(text))} |")
    line = f"jaxbandit {name} {' '.join(each.replace(' ', SPACE) for each in usage)}".rstrip()
    wrapped = textwrap.fill(line, 76, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    yield from (f"## jaxbandit {name}", "", "```text", wrapped.replace(SPACE, " "), "```", "")
    yield from (inspect.cleandoc(verb.__doc__), "")
    if rows:
        yield from ("| argument | where left out | what |", "|---|---|---|", *rows, "")


def commands_page() -> str:
    """Every command with every argument."""
    from jaxbandit.cli.live import VERBS as LIVE
    from jaxbandit.cli.program import VERBS

    lines = ["# Commands", "", "`jaxbandit VERB --help` prints the same. `jaxbandit --version` prints the version.", ""]
    for name, verb in (VERBS | {f"live {name}": verb for name, verb in LIVE.items()}).items():
        lines += verb_section(name, verb)
    return "\n".join(lines)


def figures_page() -> str:
    """Every figure that ``reproduce`` knows."""
    from jaxbandit.papers import FIGURES

    lines = ["# Figures of the papers", "", "`jaxbandit reproduce FIGURE --out DIR` makes each of them again.", ""]
    lines += ["| figure | what it shows | runs by default |", "|---|---|---|"]
    lines += [f"| `{name}` | {cell(each.title)} | {each.runs:,} |" for name, each in FIGURES.items()]
    return "\n".join([*lines, ""])


def pages() -> dict[str, str]:
    """All pages by name."""
    from jaxbandit.study.families import FAMILIES

    found = {f"{name}.md": python_page(name, what) for name, what in MODULES.items()}
    found |= {f"study-{name}.md": family_page(family) for name, family in FAMILIES.items()}
    found["commands.md"], found["figures.md"] = commands_page(), figures_page()
    keys = [f"| `{key}` | {left} | {what} |" for key, (left, what) in KEYS.items()]
    lines = ["# Study files", "", "The keys at the top of a file. [Study files](../studies.md) has examples.", ""]
    lines += ["| key | where left out | what |", "|---|---|---|", *keys, "", "The keys of each family's problems and"]
    lines += ["policies:", "", *toctree([name for name in found if name.startswith("study-")])]
    found["study-files.md"] = "\n".join(lines)
    found["python.md"] = "\n".join(
        ["# Python", "", "Every public name.", "", *toctree([f"{name}.md" for name in MODULES])]
    )
    return found


def toctree(names: list[str]) -> list[str]:
    """The pages of these files, as a list of links."""
    return ["```{toctree}", ":maxdepth: 1", "", *(name.removesuffix(".md") for name in names), "```", ""]


def write(app: Any) -> None:
    """Writes the pages that differ, and takes those away that are no longer made."""
    HERE.mkdir(exist_ok=True)
    made = pages()
    for old in HERE.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        path = HERE / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def fields(value: Any) -> Iterator[str]:
    """The fields of a dataclass or a NamedTuple, with their defaults; of an array, with its type and shape."""
    if dataclasses.is_dataclass(value):
        shown = {each.name: each.default for each in dataclasses.fields(value) if each.init}
        made = {each.name for each in dataclasses.fields(value) if each.default_factory is not dataclasses.MISSING}
    else:
        shown = {name: value._field_defaults.get(name, dataclasses.MISSING) for name in value._fields}
        made = set()
    for name, default in shown.items():
        kind = next(own[name] for each in value.__mro__ if name in (own := getattr(each, "__annotations__", {})))
        text = str(getattr(kind, "__forward_arg__", kind))  # as a NamedTuple keeps it
        typed = f"{name}: {text}" if re.search(r"\w\[.+, '", text) else name
        given = "..." if name in made or callable(default) else repr(default)
        yield (
            typed
            if default is dataclasses.MISSING and name not in made
            else typed + (" = " if ":" in typed else "=") + given
        )


def signature(app: Any, what: str, name: str, value: Any, options: Any, args: str, returns: str) -> Any:
    """Types as the source has them, which are aliases that a reader knows, and of a class its ``fields``."""
    if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
        return f"({', '.join(fields(value))})", None
    value = inspect.unwrap(value) if callable(value) else value
    if not inspect.isfunction(value) or value.__name__ == "<lambda>":
        return None
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    if not isinstance(node, ast.FunctionDef):
        return None
    if node.args.args and node.args.args[0].arg in ("self", "cls"):
        del node.args.args[0]
    return f"({ast.unparse(node.args)})", ast.unparse(node.returns) if node.returns else None


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("builder-inited", write)
    app.connect("autodoc-process-signature", signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
