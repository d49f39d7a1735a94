"""What the verbs share beside their arguments: lines on stderr, and where chunks are computed."""

import contextlib
import logging
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jaxbandit.errors import BadInput
from jaxbandit.progress import Display
from jaxbandit.words import counted

GOES_ON = "the study in {} goes on, or was interrupted: this is what it had before"


def say(line: str) -> None:
    """Prints a line to stderr, in the program's name."""
    print(f"jaxbandit: {printable(line)}", file=sys.stderr)


def printable(text: str) -> str:
    """Returns a text whose control characters are replaced. A terminal would obey them, and a user's table may hold
    any."""
    return "".join(each if each.isprintable() or each == "\n" else "\N{REPLACEMENT CHARACTER}" for each in text)


def columns() -> int:
    """Returns how wide a table may be: as elsewhere, or less on a terminal that is narrower."""
    from jaxbandit.study.table import WIDTH

    return min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns) if sys.stdout.isatty() else WIDTH


@contextlib.contextmanager
def progress_shown(out: Path) -> Iterator[Display]:
    """Shows the progress of a study, and at the end a line on how much was done and where it is."""
    start = time.monotonic()
    with Display("preparing") as display:
        yield display
    done = counted(display.status.of, "run", "runs")
    say(f"{done} done after {time.monotonic() - start:.1f} s; results in {out}")


@contextlib.contextmanager
def workers(scheduler: str | None) -> Iterator[tuple[Any, int | None]]:
    """Yields an executor on the workers of a Dask scheduler and how many chunks to give it; both None without one."""
    if scheduler is None:
        yield None, None
        return
    try:
        from distributed import Client
    except ImportError:
        raise BadInput(
            "--scheduler", scheduler, "an installation with the extra: pip install 'jaxbandit[cluster]'"
        ) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it prints tracebacks; a line is said here
    try:
        client = Client(scheduler, timeout=20)
    except Exception as error:  # also of a kind of connection that is not installed
        wanted = f"the address of a scheduler that answers ({_told(error)})"
        raise BadInput("--scheduler", scheduler, wanted) from None
    with client:
        count = len(client.nthreads())
        if not count:
            say(f"{scheduler} has no workers yet: it waits for one")
        try:
            yield client.get_executor(), 2 * max(1, count)
        except Exception as error:
            if isinstance(error, BadInput | OSError) or not _of_the_cluster(error):
                raise
            wanted = "a scheduler that stays, with workers that can import what the study needs"
            again = "what is stored is whole, and the same command continues"
            raise BadInput("--scheduler", scheduler, f"{wanted} ({_told(error)}); {again}") from None


_CONNECTIONS = "asyncio", "concurrent", "dask", "distributed", "tornado"


def _of_the_cluster(error: BaseException) -> bool:
    """Returns whether a connection failed, or a worker that could not load a task; not a fault of what is run."""
    told = "deserializ" in str(error) or isinstance(error, ImportError)
    return told or type(error).__module__.partition(".")[0] in _CONNECTIONS


def _told(error: BaseException) -> str:
    """Returns what an error says in short, or the one that caused it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return ": ".join(filter(None, (type(error).__name__, textwrap.shorten(str(error), 160, placeholder=" ..."))))


@contextlib.contextmanager
def unwritable(out: Path) -> Iterator[Callable[[], bool]]:
    """Prints a line in place of the error where the folder ``out`` cannot be written. What it yields says afterwards
    whether it could."""
    failed: list[OSError] = []
    try:
        yield lambda: not failed
    except OSError as error:
        failed.append(error)
        say(f"{out} cannot be written ({error.strerror}): no new picture and no report")
