"""``jaxbandit plan``."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from jaxbandit.cli.arguments import Format, Platform, Plugins, StudyFile
from jaxbandit.cli.console import say

_NONE = "(default: what the study gives)"


@dataclass(frozen=True)
class Plan:
    """How much budget, or another parameter of the problem, a policy needs for a metric to reach a value."""

    study: StudyFile
    """The study, a TOML file; what it says of the parameter tells the range to look in."""
    reach: float
    """The value that the metric's mean is to reach: at least this, or at most where lower is better."""
    metric: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: the family's first)")] = (
        None
    )
    """The metric, see jaxbandit list."""
    parameter: str = "budget"
    """The parameter of the problem, a whole number."""
    from_: Annotated[int | None, tyro.conf.arg(name="from", metavar="N", help_behavior_hint=_NONE)] = None
    """The least value to look at."""
    to: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint=_NONE)] = None
    """The greatest value to look at."""
    within: float = 0.02
    """How near to the value needed the answer has to be, as a share of it."""
    most_runs: int = 1_000_000
    """Runs of a policy, all values of the parameter together."""
    format: Format = "text"
    """How the table is written."""
    platform: Platform = None
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints a line and a row for each policy."""
        from jaxbandit.study.spec import load
        from jaxbandit.study.table import render
        from jaxbandit.tuning import needed

        study = load(self.study, counted=False)
        wanted = needed.goal(study, self.metric, self.reach)
        found = needed.needed(study, wanted, self.parameter, self.from_, self.to, self.within, self.most_runs)
        sys.stdout.write(render(needed.rows_of(found, wanted, self.parameter), self.format))
        for each in found:
            say(needed.sentence(each, wanted, self.parameter))
