"""Ctrl-C and SIGTERM: the program says so in one line and is gone at once, whatever it was doing.

Python's own way, an exception in the main thread, does not fit a program of JAX. It waits until a computation has
ended, it can strike an import that cannot be undone, and it leads to the interpreter's shutdown, which destroys what
threads still compile with: one interruption in four ended in a crash. So a thread of its own waits for the signal and
ends the process without that shutdown. Nothing is lost by it, as what is stored survives a kill at any moment.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable

continues: Callable[[], str | None] | None = None
"""Gives the command that goes on with what was begun, None where there is nothing to go on with."""

leaving: list[Callable[[], None]] = []
"""Called before an interruption ends the process, the last one first: what closes or stops something, which takes a
second or two at most."""

_ending = threading.Lock()
"""Taken by the end that comes first, an interruption's or the program's own; the other then never happens."""

_STOPS: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def watch() -> None:
    """Takes the signals from now on. It works in the main thread alone."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a background job of a shell ignores Ctrl-C
            signal.signal(number, lambda *_: None)
    threading.Thread(target=_leave, args=(reader,), daemon=True).start()


def over() -> None:
    """Marks the work as done and said, so that a later signal can no longer interrupt it."""
    _ending.acquire()
    for number in _STOPS:
        signal.signal(number, signal.SIG_IGN)


def _leave(reader: int) -> None:
    while (number := os.read(reader, 1)[0]) not in _STOPS:
        pass
    _ending.acquire()
    try:
        stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):  # the main thread goes on meanwhile, and may have more to say
            os.dup2(nowhere, descriptor)
        line = f"jaxbandit: {_STOPS[number]}"
        if continues is not None and (command := continues()):
            line += f"; `{command}` continues where it stopped"
        bar = "\n" if os.isatty(stderr) else ""  # one may be on this line, and the terminal's own ^C
        with contextlib.suppress(OSError):  # nobody may read it any more
            os.write(stderr, f"{bar}{line}\n".encode(sys.getfilesystemencoding(), "surrogateescape"))
        while leaving:
            with contextlib.suppress(Exception):
                leaving.pop()()
    finally:
        os._exit(128 + number)
