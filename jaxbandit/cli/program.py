"""From the program's arguments to a verb, and from what it raises to a line and an exit status."""

import atexit
import contextlib
import errno
import io
import logging
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tyro

from jaxbandit import __version__
from jaxbandit.cli import interruption
from jaxbandit.cli.compare import Compare
from jaxbandit.cli.console import say
from jaxbandit.cli.describe import Describe
from jaxbandit.cli.doctor import Doctor
from jaxbandit.cli.fit import Fit
from jaxbandit.cli.listing import List
from jaxbandit.cli.live import VERBS as LIVE
from jaxbandit.cli.live_common import running
from jaxbandit.cli.plan import Plan
from jaxbandit.cli.reproduce import Reproduce
from jaxbandit.cli.run import Run
from jaxbandit.cli.show import Show
from jaxbandit.cli.train import Train
from jaxbandit.cli.tune import Tune
from jaxbandit.errors import BadInput

VERBS: dict[str, Callable[..., Any]] = {
    verb.__name__.lower(): verb
    for verb in (Run, Show, Compare, Reproduce, Tune, Train, Plan, Fit, Describe, List, Doctor)
}


def _live() -> None:
    """Have a policy decide what a real agent is asked next; `jaxbandit live --help` has its verbs."""


_HELP = ("-h", "--help", "--tyro-print-completion", "--tyro-write-completion")


def parse(argv: Sequence[str]) -> Any:
    """Returns the verb with its arguments. What tyro would say in a box becomes a ``BadInput``."""
    if argv[:1] == ["--version"]:
        print(f"jaxbandit {__version__}")
        raise SystemExit(0)
    if argv[:1] == ["live"]:
        description = "A policy decides what an agent is asked next: docs/live.md."
        return _verb("jaxbandit live", LIVE, argv[1:], description)
    description = "A batch simulator in JAX for exploration-exploitation systems. --version: its version."
    return _verb("jaxbandit", VERBS | {"live": _live}, argv, description)


def _verb(program: str, verbs: dict[str, Callable[..., Any]], argv: Sequence[str], description: str) -> Any:
    if not argv or (argv[0] not in verbs and argv[0] not in _HELP):
        raise BadInput("verb", argv[0] if argv else "missing", f"one of {', '.join(verbs)}; see {program} --help")
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.extras.subcommand_cli_from_dict(
                verbs, prog=program, description=description, args=argv, config=(tyro.conf.DisallowNone,)
            )
    except SystemExit as stop:
        if not stop.code:
            raise
    raise _complaint(f"{program} {argv[0]}", argv, box.getvalue())


def _complaint(verb: str, argv: Sequence[str], box: str) -> BadInput:
    """Returns the first thing that tyro's error box names."""
    text = " ".join(re.sub("[─-╿]", " ", box).split())
    usage = f"see {verb} --help"
    if found := re.search(r"Unrecognized (?:or misplaced )?options: (\S+?),?(?: |$)", text):
        return BadInput("argument", found[1], f"no such argument; {usage}")
    if found := re.search(r"Missing from jaxbandit (?:live )?\w+: (\S+)", text):
        return BadInput(found[1], "missing", f"it must be given; {usage}")
    if found := re.search(r"Missing value for argument '(\S+)'", text):
        return BadInput(found[1], "missing", f"a value; {usage}")
    if found := re.search(r"invalid choice '(.*)' for argument '(\S+)'. Expected one of \((.*?)\)", text):
        choices = found[3].replace("'", "").split(", ")
        if "None" in choices:  # what stands for no option; tyro then gives the others in any order
            choices = sorted({*choices} - {"None"})
        return BadInput(found[2], found[1], f"one of {', '.join(choices)}")
    if found := re.search(r"Error parsing (\S+): no type matching {([a-z,]+)} could be .* from \['(.*?)'\]", text):
        return BadInput(found[1], found[3], f"one of {', '.join(sorted(found[2].split(',')))}")
    if found := re.search(r"Error parsing (\S+): .*invalid literal for int\(\) with base 10: '(.*?)'", text):
        return BadInput(found[1], found[2], "a whole number")
    if found := re.search(r"Error parsing (\S+): .*could not convert string to float: '(.*?)'", text):
        return BadInput(found[1], found[2], "a number")
    if found := re.search(r"Error parsing (\S+): .*Could not find valid parse for arguments: \[(.*?)\] ", text):
        numbers = f"{found[1]} Q ..." in text
        return BadInput(found[1], found[2].replace("'", ""), "numbers" if numbers else usage)
    return BadInput("arguments", " ".join(argv), usage)


def _start_jax() -> None:
    """Imports JAX, which reads its settings then, and has it use all cores."""
    try:
        from jaxbandit.devices import use_all_cores
    except ValueError as error:  # of JAX's own check
        raise BadInput("a JAX_... variable of the environment", "wrong", f"what JAX takes ({error})") from None
    use_all_cores()


def _place(verb: Run | Reproduce | Tune | Train | Plan) -> None:
    """Has JAX start where the user wants it; where nothing is said, when it is needed."""
    if verb.platform is not None and getattr(verb, "scheduler", None) is not None:
        allowed = "no --scheduler beside it: workers compute where their own JAX_PLATFORMS says"
        raise BadInput("--platform", verb.platform, allowed)
    if verb.platform is not None or os.environ.get("JAX_PLATFORMS"):
        from jaxbandit.devices import use_platform

        use_platform(verb.platform)


def _printing(error: OSError) -> bool:
    """Returns whether it was the output that could not be written: files are written elsewhere than in verbs."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return error.filename is None and frame.f_globals["__name__"].startswith("jaxbandit.cli.")


def _leave_stdout() -> None:
    """Has what is left to be printed go nowhere, or Python would try once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave_reads() -> None:
    """Has Python say nothing at its end about reads of stored results that Zarr left where one of them failed."""
    logging.getLogger("asyncio").disabled = True
    sys.unraisablehook = lambda _: None
    warnings.simplefilter("ignore", RuntimeWarning)


def run(argv: Sequence[str]) -> int:
    """Runs the verb that ``argv`` names; returns the exit status."""
    verb = None
    try:
        verb = parse(argv)
        interruption.continues = lambda: f"jaxbandit {shlex.join(argv)}" if getattr(verb, "continues", False) else None
        if not isinstance(verb, Show):
            _start_jax()  # before a plugin makes an array
        if isinstance(verb, Run | Reproduce | Tune | Train | Plan):
            _place(verb)
        if isinstance(verb, Run | Reproduce | Tune | Train | Plan | Doctor) or type(verb) in LIVE.values():
            from jaxbandit.programs.cache import cache

            cache()
        for plugin in getattr(verb, "plugin", ()):
            from jaxbandit.study import plugins

            plugins.load(plugin)
        with running(verb) if type(verb) in LIVE.values() else contextlib.nullcontext():
            verb()
        sys.stdout.flush()
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except BadInput as error:
        # Library functions name their own argument, which is an option here.
        option = error.field == "out" or (
            isinstance(verb, Show | Compare) and error.field in ("metric", "x", "baseline")
        )
        say(str(error if not option else BadInput(f"--{error.field}", error.value, error.allowed)))
        atexit.register(_leave_reads)
        return 2
    except BrokenPipeError:  # the reader of stdout left, as `head` does
        _leave_stdout()
        return 0
    except OSError as error:
        if _printing(error):
            _leave_stdout()
            say(str(BadInput("stdout", "full", f"a place that can be written to ({error.strerror or error})")))
            return 2
        out, why = str(getattr(verb, "out", "DIR")), "that can be read and written"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            why = "on a disk with space left"
        again = "what is stored is whole, and the same command continues there"
        say(str(BadInput("--out", out, f"a folder {why} ({error.strerror or error}); {again}")))
        return 2
    return 0
