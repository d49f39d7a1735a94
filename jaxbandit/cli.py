"""The command line: ``jaxbandit run``, ``show``, ``compare``, ``reproduce``, ``tune`` and ``list``.

Tables go to stdout, all else to stderr. Bad input is one line there and exit status 2, an interruption 130. JAX and
Matplotlib are imported once the arguments are known to be right.
"""

import contextlib
import errno
import io
import logging
import os
import re
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from jaxbandit.errors import BadInput

try:
    import tyro
except ImportError:
    raise SystemExit("jaxbandit: the command line needs more packages: pip install 'jaxbandit[lab]'") from None

if TYPE_CHECKING:
    from jaxbandit.registry import Parameter

Format = Literal["text", "markdown", "latex", "csv", "json"]
_Study = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY.toml")]
_Out = Annotated[Path, tyro.conf.arg(metavar="DIR")]
_Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
_SCHEDULER = tyro.conf.arg(metavar="ADDRESS", help_behavior_hint="(default: none)")


@dataclass(frozen=True)
class Run:
    """Run a study file, or what is missing of it, and store its results."""

    study: _Study
    """The study, a TOML file."""
    out: _Out
    """Folder for the results; the same command continues an interrupted study, or extends it."""
    scheduler: Annotated[str | None, _SCHEDULER] = None
    """Address of a Dask scheduler, such as tcp://host:8786, whose workers compute; this machine where left out."""

    def __call__(self) -> None:
        """Writes the folder, prints the table."""
        from jaxbandit.study import picture
        from jaxbandit.study.run import run
        from jaxbandit.study.spec import load
        from jaxbandit.study.table import render

        study = load(self.study)
        with _workers(self.scheduler) as (executor, in_flight), _progress(self.out) as progress:
            rows = run(study, self.out, progress, executor=executor, in_flight=in_flight)
        labels = {metric.name: metric.label for metric in study.family.metrics}
        picture.save(self.out, picture.of_rows(rows, study.swept, self.study.stem, labels))
        sys.stdout.write(render(rows))


@dataclass(frozen=True)
class Show:
    """Print the table of a folder of results again, draw its picture again, and write report.html."""

    folder: _Folder
    """A folder that run, reproduce or tune wrote."""
    format: Format = "text"
    """How the table is printed."""

    def __call__(self) -> None:
        """Prints the tables, draws the picture, writes the report."""
        from jaxbandit.study import folder, picture
        from jaxbandit.study.report import REPORT, report
        from jaxbandit.study.store import RESULTS
        from jaxbandit.study.table import render

        rows = folder.read(self.folder / folder.SUMMARY)
        if (self.folder / RESULTS).exists() and not (self.folder / folder.FINISHED).exists():
            _say(f"the study in {self.folder} goes on, or was interrupted: this is what it had before")
        more = folder.read(self.folder / folder.TIMINGS) if (self.folder / folder.TIMINGS).exists() else []
        drawing = folder.read(self.folder / folder.FIGURE) if (self.folder / folder.FIGURE).exists() else None
        try:
            tables = [render(table, self.format) for table in (rows, more) if table]
            with _unwritable(self.folder):
                if drawing is not None:
                    picture.save(self.folder, drawing)
                folder.write(self.folder / REPORT, report(self.folder).encode())
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise BadInput("DIR", str(self.folder), "a folder of results as jaxbandit wrote them") from None
        sys.stdout.write("\n".join(tables))


@dataclass(frozen=True)
class Compare:
    """Compare the policies of a folder of results, run by run: their ranks and paired differences, or quantiles."""

    folder: _Folder
    """A folder that run wrote, or one under studies of a folder that reproduce wrote."""
    metric: Annotated[str | None, tyro.conf.arg(metavar="METRIC", help_behavior_hint="(default: the first)")] = None
    """The metric to compare by."""
    baseline: Annotated[str | None, tyro.conf.arg(metavar="POLICY", help_behavior_hint="(default: all pairs)")] = None
    """The policy that the others are compared with."""
    quantiles: Annotated[tuple[float, ...], tyro.conf.arg(metavar="Q ...", help_behavior_hint="(default: none)")] = ()
    """Print these quantiles over runs instead, such as 0.05 0.5 0.95."""
    format: Format = "text"
    """How the tables are printed."""

    def __call__(self) -> None:
        """Prints the tables."""
        from jaxbandit.study import compare
        from jaxbandit.study.results import open_results
        from jaxbandit.study.table import render

        data = open_results(self.folder)
        if self.quantiles:
            tables = [compare.quantiles(data, self.quantiles, self.metric)]
        else:
            differences = compare.paired_differences(data, self.metric, self.baseline)
            tables = [compare.ranks(data, self.metric), differences]
        sys.stdout.write("\n".join(render(table, self.format) for table in tables))


@dataclass(frozen=True)
class Reproduce:
    """Reproduce a figure or a table of a paper."""

    figure: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PAPER/FIGURE")]
    """One of those that `jaxbandit list` prints."""
    out: _Out
    """Folder for the results; the same command continues an interrupted study."""
    runs: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: the figure's own)")] = None
    """Runs of each configuration."""
    seed: Annotated[int, tyro.conf.arg(metavar="S")] = 0
    """Seed, 0 to 2^32 - 1."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: none)")] = None
    """A file or a folder of data, for figures on real data."""
    scheduler: Annotated[str | None, _SCHEDULER] = None
    """Address of a Dask scheduler, such as tcp://host:8786, whose workers compute; this machine where left out."""

    def __call__(self) -> None:
        """Writes the folder, prints the table."""
        from jaxbandit.papers import FIGURES
        from jaxbandit.study import folder
        from jaxbandit.study.figure import Request, reproduce
        from jaxbandit.study.table import render

        if self.figure not in FIGURES:
            raise BadInput(
                "PAPER/FIGURE", self.figure, "a figure that `jaxbandit list` names" + _near(self.figure, FIGURES)
            )
        figure = FIGURES[self.figure]
        request = Request(figure.runs if self.runs is None else self.runs, self.seed, self.data)
        with _workers(self.scheduler) as (executor, in_flight), _progress(self.out) as progress:
            rows = reproduce(figure, request, self.out, progress, executor=executor, in_flight=in_flight)
        timings = folder.read(self.out / folder.TIMINGS) if (self.out / folder.TIMINGS).exists() else []
        sys.stdout.write("\n".join(render(table) for table in (rows, timings) if table))


@dataclass(frozen=True)
class Tune:
    """Tune the policies for the problems of a study file."""

    study: _Study
    """The study, a TOML file."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Folder for the results."""

    def __call__(self) -> None:
        """Prints the table of tuned parameters."""
        from jaxbandit.study import folder
        from jaxbandit.study.run import facts
        from jaxbandit.study.spec import load
        from jaxbandit.study.summary import Row, dumps
        from jaxbandit.study.table import render

        study = load(self.study)
        if study.family.tune is None:
            raise BadInput("problem.kind", study.problem["kind"], "a problem of a family whose policies can be tuned")
        identity = {"tune": study.canonical()}
        if self.out is not None:
            folder.check(self.out, identity)
        rows, start = [], time.monotonic()
        for setting, params in study.settings():
            for row in study.family.tune(setting):
                rows.append(cast(Row, {**row, "params": {**params, **row["params"]}}))
                _say(f"{time.monotonic() - start:.0f} s: {row['policy']}, {row['metric']} = {row['mean']:.6g}")
        if self.out is not None:
            with folder.claimed(self.out, identity, facts()):
                folder.write(self.out / folder.SUMMARY, dumps(rows))
        sys.stdout.write(render(rows))


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
            for policy in family.policies.values():
                print(f"policy {policy.name}: {policy.summary}")
                _print_parameters(policy.parameters)
            print(f"metrics of {family.name}:")
            for metric in family.metrics:
                print(f"    {metric.name}: {metric.label}")
        for figure in FIGURES.values():
            print(f"figure {figure.name}: {figure.title} ({figure.runs:,} runs)")


VERBS: dict[str, Callable[..., Any]] = {
    verb.__name__.lower(): verb for verb in (Run, Show, Compare, Reproduce, Tune, List)
}


def _print_parameters(parameters: Sequence["Parameter"]) -> None:
    from jaxbandit.study.summary import show

    for parameter in parameters:
        note = "required" if parameter.required else "optional"
        if isinstance(parameter.default, bool | int | float | str):
            note = f"default {show(parameter.default)}"
        print(f"    {parameter.name} ({note}): {parameter.help}")


def _near(name: str, names: Any) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, 3)
    return f", such as {', '.join(near)}" if near else ""


@contextlib.contextmanager
def _progress(out: Path) -> Iterator[Any]:
    """A bar where stderr is a terminal, and at the end a line on how much was done and where it is."""
    from tqdm import tqdm

    start = time.monotonic()
    total = 0
    with tqdm(unit=" runs", unit_scale=True, disable=None, dynamic_ncols=True) as bar:

        def report(done: int, of: int, widest: float | None = None) -> None:
            nonlocal total
            bar.total = total = of
            if widest is not None:
                bar.set_postfix_str(f"widest interval ±{widest:.2g}", refresh=False)
            bar.update(done - bar.n)

        yield report
    _say(f"{total:,} runs done after {time.monotonic() - start:.1f} s; results in {out}")


@contextlib.contextmanager
def _workers(scheduler: str | None) -> Iterator[tuple[Any, int | None]]:
    """An executor on the workers of a Dask scheduler, and how many chunks to give it; both None without one."""
    if scheduler is None:
        yield None, None
        return
    try:
        from distributed import Client
    except ImportError:
        raise BadInput("--scheduler", scheduler, "used with the extra: pip install 'jaxbandit[cluster]'") from None
    try:
        client = Client(scheduler, timeout=20)
    except (OSError, ValueError) as error:
        raise BadInput("--scheduler", scheduler, f"the address of a scheduler that answers ({error})") from None
    with client:
        yield client.get_executor(), 2 * max(1, len(client.scheduler_info()["workers"]))


@contextlib.contextmanager
def _unwritable(out: Path) -> Iterator[None]:
    """Says so where a folder is for reading alone."""
    try:
        yield
    except OSError as error:
        _say(f"{out} cannot be written ({error.strerror}): no new picture and no report")


def _say(line: str) -> None:
    print(f"jaxbandit: {line}", file=sys.stderr)


def _parse(argv: Sequence[str]) -> Any:
    """The verb with its arguments. What tyro would say in a box becomes a ``BadInput``."""
    if not argv or (argv[0] not in VERBS and argv[0] not in ("-h", "--help")):
        raise BadInput("verb", argv[0] if argv else "missing", f"one of {', '.join(VERBS)}; see jaxbandit --help")
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.extras.subcommand_cli_from_dict(
                VERBS,
                prog="jaxbandit",
                description="A batch simulator in JAX for exploration-exploitation systems.",
                args=argv,
            )
    except SystemExit as stop:
        if not stop.code:
            raise
    raise _complaint(argv, box.getvalue())


def _complaint(argv: Sequence[str], box: str) -> BadInput:
    """The first thing that tyro's error box names."""
    text = " ".join(re.sub("[─-╿]", " ", box).split())
    usage = f"see jaxbandit {argv[0]} --help"
    if found := re.search(r"Unrecognized (?:or misplaced )?options: (\S+?),?(?: |$)", text):
        return BadInput("argument", found[1], f"no such argument; {usage}")
    if found := re.search(r"Missing from jaxbandit \w+: (\S+)", text):
        return BadInput(found[1], "missing", f"it must be given; {usage}")
    if found := re.search(r"Missing value for argument '(\S+)'", text):
        return BadInput(found[1], "missing", f"a value; {usage}")
    if found := re.search(r"invalid choice '(.*)' for argument '(\S+)'. Expected one of \((.*?)\)", text):
        return BadInput(found[2], found[1], f"one of {found[3]}".replace("'", ""))
    if found := re.search(r"Error parsing (\S+): .*invalid literal for int\(\) with base 10: '(.*?)'", text):
        return BadInput(found[1], found[2], "a whole number")
    return BadInput("arguments", " ".join(argv), usage)


def _use_all_cores() -> None:
    """One JAX device a core, on the CPU, unless the user has set that. It has no effect on accelerators."""
    import jax

    if "JAX_NUM_CPU_DEVICES" in os.environ or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(RuntimeError):  # JAX already runs: in a notebook, or a test
        jax.config.update("jax_num_cpu_devices", cores)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line ``argv``, the program's own where None; returns the exit status."""
    argv = sys.argv[1:] if argv is None else list(argv)
    try:
        verb = _parse(argv)
        if not isinstance(verb, Show):
            _use_all_cores()
        verb()
        sys.stdout.flush()
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except BadInput as error:
        _say(str(error))
        return 2
    except KeyboardInterrupt:
        # Zarr's event loop would tell of each write that it drops at exit; what was stored is whole without them.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        warnings.simplefilter("ignore", RuntimeWarning)
        _say(f"interrupted; `jaxbandit {shlex.join(argv)}` continues where it stopped")
        return 130
    except BrokenPipeError:  # the reader of stdout left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        out, why = str(getattr(verb, "out", "DIR")), "that can be read and written"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            why = "on a disk with space left"
        again = "what is stored is whole, and the same command continues there"
        _say(str(BadInput("--out", out, f"a folder {why} ({error.strerror or error}); {again}")))
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
