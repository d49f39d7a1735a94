"""``jaxbandit list``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxbandit.registry import Parameter


@dataclass(frozen=True)
class List:
    """Print all problems, policies and figures."""

    def __call__(self) -> None:
        """Prints them."""
        from jaxbandit.papers import FIGURES
        from jaxbandit.study.families import FAMILIES

        for family in FAMILIES.values():
            for problem in family.problems.values():
                print(f"problem {family.name}/{problem.name}: {problem.summary}")
                _print_parameters(problem.parameters)
                for metric in problem.metrics:
                    print(f"    metric {metric.name}: {metric.label}")
            for policy in family.policies.values():
                print(f"policy {policy.name}: {policy.summary}")
                _print_parameters(policy.parameters)
            print(f"metrics of {family.name}:")
            for metric in family.metrics:
                print(f"    {metric.name}: {metric.label}")
        for figure in FIGURES.values():
            print(f"figure {figure.name}: {figure.title} ({figure.runs:,} runs)")


def _print_parameters(parameters: Sequence["Parameter"]) -> None:
    from jaxbandit.study.summary import show

    for parameter in parameters:
        note = "required" if parameter.required else "optional"
        if isinstance(parameter.default, bool | int | float | str):
            note = f"default {show(parameter.default)}"
        print(f"    {parameter.name} ({note}): {parameter.help}")
