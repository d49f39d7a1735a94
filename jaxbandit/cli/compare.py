"""``jaxbandit compare``."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from jaxbandit.cli.arguments import Folder, Format
from jaxbandit.cli.console import GOES_ON, columns, say
from jaxbandit.errors import BadInput


@dataclass(frozen=True)
class Compare:
    """Compare the policies of a folder of results, run by run: their ranks and paired differences, or quantiles. Of
    more than 20 configurations, the best and those that the runs cannot tell from it take the differences' place."""

    folder: Folder
    """A folder that run wrote, or one under studies of a folder that reproduce wrote."""
    metric: Annotated[str | None, tyro.conf.arg(metavar="METRIC", help_behavior_hint="(default: the first)")] = None
    """The metric to compare by."""
    baseline: Annotated[str | None, tyro.conf.arg(metavar="POLICY", help_behavior_hint="(default: all pairs)")] = None
    """The policy that the others are compared with."""
    differences: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print the differences of all pairs however many there are."""
    quantiles: Annotated[
        tuple[float, ...] | None, tyro.conf.arg(metavar="Q ...", help_behavior_hint="(default: none)")
    ] = None
    """Print these quantiles over runs instead, such as 0.05 0.5 0.95."""
    format: Format = "text"
    """The format of the tables."""

    def __call__(self) -> None:
        """Prints the tables of ranks and differences, or of quantiles."""
        from jaxbandit.study import compare
        from jaxbandit.study.results import goes_on, open_results
        from jaxbandit.study.table import render

        if self.quantiles == ():
            raise BadInput("--quantiles", "missing", "some numbers between 0 and 1, such as 0.05 0.5 0.95")
        if self.quantiles and (self.differences or self.baseline is not None):
            other = "--differences" if self.differences else "--baseline"
            raise BadInput("--quantiles", f"together with {other}", "one of both: quantiles are of each policy alone")
        if self.differences and self.baseline is not None:
            raise BadInput(
                "--differences", "together with --baseline", "one of both: all pairs, or those with one policy"
            )
        data = open_results(self.folder)
        metric = self.metric or data.attrs["metrics"].split()[0]
        without = compare.lacking(data, metric)
        if goes_on(self.folder):
            say(GOES_ON.format(self.folder))
        if without:
            some = ", ".join(without[:3]) + (f" and {len(without) - 3} more" if len(without) > 3 else "")
            say(f"{metric} is not a number in runs of {some}, which are not compared there")
        first = f"rank 1 has the {'highest' if compare.sign_of(data, metric) > 0 else 'lowest'} mean {metric}"
        if self.quantiles:
            tables = [compare.quantiles(data, self.quantiles, self.metric)]
            say("each interval holds by itself, with 95 %, for a number of runs that was chosen beforehand")
        elif compare.in_pairs(data) or self.differences or self.baseline is not None:
            differences = compare.paired_differences(data, self.metric, self.baseline)
            tables = [compare.ranks(data, self.metric), differences]
            say(first)
            if worth := compare.worth_of_pairs(data, self.metric):
                say(worth)
            say("the intervals of the differences hold together, all with 95 %, so each is wider than one alone")
        else:
            tables = [compare.by_rank(compare.ranks(data, self.metric)), compare.leaders(data, self.metric)]
            say(first)
            say(
                f"the second table has the best policy under each setting{compare.besides(data) or ','} and those that "
                "the runs cannot tell from it; --differences prints all pairs, --baseline POLICY those with one"
            )
        sys.stdout.write("\n".join(render(table, self.format, width=columns()) for table in tables))
