"""The command line: ``jaxbandit run``, ``show``, ``compare``, ``reproduce``, ``tune``, ``describe``, and more.

Tables go to stdout, all else to stderr. Bad input is one line there and exit status 2, an interruption 130, SIGTERM
143. JAX and Matplotlib are imported once the arguments are known to be right. Each verb has a module of its own.
"""

import gc
import io
import os
import sys
import threading
from collections.abc import Sequence

from jaxbandit.cli import interruption


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line ``argv``, the program's own where None; returns the exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as by >&-
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # of ±, which not every encoding has
    if argv is None:
        interruption.watch()  # before the rest is imported, which takes a while
        # Imports and tracing make many objects that stay: looking for cycles among them takes a twentieth of a study.
        gc.set_threshold(50_000, 20, 50)
    try:
        from jaxbandit.cli import program
    except ModuleNotFoundError as error:
        if error.name != "tyro":
            raise
        raise SystemExit("jaxbandit: the command line needs more packages: pip install 'jaxbandit[lab]'") from None
    status = program.run(sys.argv[1:] if argv is None else list(argv))
    if argv is None:
        interruption.over()
        _leave_compilers(status)
        gc.freeze()  # as Python ends it looks for cycles again, several times: another twentieth
    return status


def _leave_compilers(status: int) -> None:
    """Ends the process if it failed while programs compile, for which Python would wait."""
    if status and any(thread.name.startswith("jaxbandit-compiler") for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


__all__ = ["main"]
