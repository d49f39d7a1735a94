"""A shell command that answers: it gets so much time and may print so much, and what it began ends with it."""

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time

from jaxbandit.errors import BadInput

MOST_PRINTED = 1 << 20
"""The most bytes that a command may print, on stdout and on stderr together."""
_running: set["subprocess.Popen[bytes]"] = set()


def run(line: str, given: bytes, timeout: float) -> tuple[int, bytes, bytes]:
    """Runs a shell command that reads ``given``, in a session of its own.

    Returns:
        Its exit status, and what it printed on stdout and on stderr.

    Raises:
        BadInput: where it takes longer than ``timeout`` seconds or prints more than ``MOST_PRINTED`` bytes. Then it was
            killed, and all that it began.
    """
    with tempfile.TemporaryFile() as file:  # not a pipe: a command need not read
        file.write(given)
        file.seek(0)
        process = subprocess.Popen(
            line, shell=True, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    _running.add(process)
    done = False
    try:
        found = _printed(process, line, time.monotonic() + timeout, timeout)
        done = True
        return found
    finally:
        if not done:
            _kill(process)
        _running.discard(process)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
        process.wait()


def stop() -> None:
    """Kills the commands that run, and all that they began."""
    for process in list(_running):
        _kill(process)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all of it has ended
        os.killpg(process.pid, signal.SIGKILL)


def _printed(process: "subprocess.Popen[bytes]", line: str, end: float, timeout: float) -> tuple[int, bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    late = BadInput("--command", line, f"a command that answers within {timeout:g} s")
    out, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as open_pipes:
        open_pipes.register(process.stdout, selectors.EVENT_READ, out)
        open_pipes.register(process.stderr, selectors.EVENT_READ, errors)
        while open_pipes.get_map():
            if (left := end - time.monotonic()) <= 0:
                raise late
            for key, _ in open_pipes.select(left):
                part = os.read(key.fd, 1 << 16)
                if not part:
                    open_pipes.unregister(key.fileobj)
                key.data.extend(part)
            if len(out) + len(errors) > MOST_PRINTED:
                raise BadInput("--command", line, f"a command that prints at most {MOST_PRINTED >> 20} MiB")
    try:
        status = process.wait(max(end - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        raise late from None
    return status, bytes(out), bytes(errors)


__all__ = ["MOST_PRINTED", "run", "stop"]
