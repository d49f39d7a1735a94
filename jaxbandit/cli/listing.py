"""``jaxbandit list``."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from jaxbandit.cli.arguments import Plugins
from jaxbandit.errors import BadInput

if TYPE_CHECKING:
    from jaxbandit.registry import Parameter

_KINDS = ("problems", "policies", "metrics", "figures")
_LONG = 160
"""Characters from which on a line is not printed twice."""


@dataclass(frozen=True)
class List:
    """Print all problems, policies, metrics and figures, or some of them."""

    what: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="WHAT")] = ()
    """A family or a paper (cleaning, cheng2010), a kind (problems, policies, metrics, figures), or both."""
    search: Annotated[str | None, tyro.conf.arg(metavar="WORD", help_behavior_hint="(default: none)")] = None
    """Print only the entries with this word in their name, their summary or their parameters."""
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints the entries that were asked for, with their parameters."""
        entries = list(_entries())
        groups = list(dict.fromkeys(group for _, group, _ in entries))
        for word in self.what:
            if word not in (*_KINDS, *groups):
                raise BadInput("WHAT", word, f"some of {', '.join((*_KINDS, *groups))}")
        kinds = [word for word in self.what if word in _KINDS] or _KINDS
        chosen = [word for word in self.what if word in groups] or groups
        found = [lines for kind, group, lines in entries if kind in kinds and group in chosen]
        if self.search is not None:
            found = [lines for lines in found if self.search.lower() in "\n".join(lines).lower()]
        if not found:
            raise BadInput(
                "--search" if self.search else "WHAT",
                self.search or " ".join(self.what),
                "a word or a name that some entry has; no entry has this one",
            )
        print("\n".join(_printed(found, shutil.get_terminal_size((80, 24)).columns)))


def _printed(entries: Sequence[list[str]], width: int) -> Iterator[str]:
    """Yields the lines of all entries, wrapped; a long one that several have is there once."""
    first: dict[str, str] = {}
    for head, *lines in entries:
        name = head.partition(":")[0]
        for line in (head, *lines):
            if len(line) > _LONG and first.setdefault(line, name) != name:
                line = f"{line.partition(': ')[0]}: as for {first[line]}, above"
            inner = " " * (len(line) - len(line.lstrip()) + 4)
            yield from textwrap.wrap(
                line, width, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False
            )


def _entries() -> Iterator[tuple[str, str, list[str]]]:
    """Yields everything that has a name: its kind, its family or paper, and its lines."""
    from jaxbandit.papers import FIGURES
    from jaxbandit.study.plugins import families

    for family in families().values():
        for problem in family.problems.values():
            head = f"problem {family.name}/{problem.name}: {problem.summary}"
            own = [f"    metric {metric.name}: {metric.label}" for metric in problem.metrics]
            yield "problems", family.name, [head, *_parameters(problem.parameters), *own]
        for policy in family.policies.values():
            head = f"policy {policy.name}: {policy.summary}"
            yield "policies", family.name, [head, *_parameters(policy.parameters, searched=not policy.reference)]
        metrics = [f"    {metric.name}: {metric.label}" for metric in family.metrics]
        yield "metrics", family.name, [f"metrics of {family.name}:", *metrics]
    for figure in FIGURES.values():
        line = f"figure {figure.name}: {figure.title} ({figure.runs:,} runs)"
        yield "figures", figure.name.partition("/")[0], [line]


def _parameters(parameters: Sequence["Parameter"], searched: bool = False) -> Iterator[str]:
    """Returns a line for each parameter, and one more on where ``tune`` searches for its best value, if
    ``searched``."""
    from jaxbandit.study.summary import show

    for parameter in parameters:
        note = "required" if parameter.required else "optional"
        if isinstance(parameter.default, bool | int | float | str):
            note = f"default {show(parameter.default)}"
        yield f"    {parameter.name} ({note}): {parameter.help}"
        if searched and parameter.searched:
            yield f"        {parameter.searched}"
