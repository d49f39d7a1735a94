"""``jaxbandit plan``."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from jaxbandit.cli.arguments import Format, Platform, Plugins, StudyFile
from jaxbandit.cli.console import columns, printable, say
from jaxbandit.progress import Display

_NONE = "(default: what the study gives)"


@dataclass(frozen=True)
class Plan:
    """Find how much budget, or how much of another parameter of the problem, a policy needs for a metric to reach a
    value."""

    study: StudyFile
    """The study, a TOML file; the values that it has of the parameter tell the range to search."""
    reach: float
    """The value that the metric's mean is to reach: at least this, or at most where lower is better. It is from
    0 to 1 where the metric is a share."""
    metric: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: the family's first)")] = (
        None
    )
    """The metric that is to reach the value; `jaxbandit list` has their names."""
    parameter: str = "budget"
    """The parameter of the problem that is searched; its values are whole numbers."""
    from_: Annotated[int | None, tyro.conf.arg(name="from", metavar="N", help_behavior_hint=_NONE)] = None
    """The least value of the parameter to try, at least 1."""
    to: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint=_NONE)] = None
    """The greatest value of the parameter to try."""
    within: float = 0.02
    """How near to the value needed the answer has to be, as a share of it."""
    most_runs: int = 1_000_000
    """The most runs of a policy, of all values of the parameter together."""
    format: Format = "text"
    """The format of the table."""
    platform: Platform = None
    plugin: Plugins = ()

    def __call__(self) -> None:
        """Prints a sentence on each policy as soon as it is found, and a table of all at the end."""
        from jaxbandit.study.spec import load
        from jaxbandit.study.table import render
        from jaxbandit.tuning import needed

        study = load(self.study, counted=False)
        wanted = needed.goal(study, self.metric, self.reach)
        if study.checkpoints and self.parameter != "budget":
            whole = study.problem["budget"]
            say(f"checkpoints are left out: values of {self.parameter} are tried with the whole budget, {whole:,}")
        with Display("planning", "policies") as display:

            def told(each: needed.Needed) -> None:
                display.say(f"jaxbandit: {printable(needed.sentence(each, wanted, self.parameter))}")

            found = needed.needed(
                study, wanted, self.parameter, self.from_, self.to, self.within, self.most_runs, display, told
            )
        sys.stdout.write(render(needed.rows_of(found, wanted, self.parameter), self.format, width=columns()))
