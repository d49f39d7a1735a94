"""Output folders: each belongs to one study, and every file in one is whole or absent."""

import errno
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from jaxbandit import __version__
from jaxbandit.errors import BadInput
from jaxbandit.study.summary import identity as identical

STUDY, SUMMARY, TIMINGS, FIGURE, PICTURE = "study.json", "summary.json", "timings.json", "figure.json", "figure.png"
VERDICT, WORDS, CANDIDATES = "verdict.json", "verdict.txt", "candidates.json"
"""The files of ``jaxbandit tune``: see ``docs/tuning.md``."""
FINISHED = "finished.json"
"""Seals the results of a study that is finished: see ``run``."""
FORMAT = 2
"""The format of result folders, which is raised where an older version could not read them."""
_PARTIAL = ".partial"
"""How the name of a file ends that is being written."""
_AT_TIMES = {"implementation", "plugins"}
"""Keys of a study's identity that stand there only where they say something."""


def write(path: Path, data: bytes) -> None:
    """Writes a file so that it is there in full or not at all, whatever stops the program or the machine."""
    partial = path.with_name(f".{uuid.uuid4().hex}{_PARTIAL}")  # its own: `show` may write beside a study that runs
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def read(path: Path, field: str = "DIR") -> Any:
    """Returns the content of a JSON file that was written here.

    Raises:
        BadInput: where there is no such file, or it is no JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError:
        raise BadInput(field, str(path.parent), f"a folder with a {path.name}, written by a finished run") from None
    except ValueError:
        raise BadInput(field, str(path), "an undamaged file") from None


def checksum(field: str, path: Path) -> str:
    """Returns the SHA-256 of a file, or of all files in a folder with their names.

    Raises:
        BadInput: where it cannot be read.
    """
    try:
        if not path.is_dir():
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        files = sorted(inner for inner in path.rglob("*") if inner.is_file())
        parts = [f"{inner.relative_to(path).as_posix()} {checksum(field, inner)}" for inner in files]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
    except OSError as error:
        raise BadInput(field, str(path), f"a file that can be read ({error.strerror})") from None


def altered(out: Path) -> bool:
    """Tells whether ``summary.json`` of a finished study is not the file that the study wrote."""
    sealed = read(out / FINISHED)
    return isinstance(sealed, dict) and sealed.get("summary") != checksum("DIR", out / SUMMARY)


def check(out: Path, identity: Mapping[str, Any]) -> None:
    """Checks that results of ``identity`` may be written to ``out``: it is new or empty, or was begun with the same.

    Raises:
        BadInput: where it may not. Nothing is written.
    """

    def refuse(allowed: str) -> NoReturn:
        raise BadInput("out", str(out), allowed)

    try:
        names = {entry.name for entry in out.iterdir() if entry.suffix != _PARTIAL} if out.exists() else set()
    except OSError as error:
        refuse(f"a folder ({error.strerror})")
    if not names:
        return
    if STUDY not in names:
        refuse("a new or empty folder, or one that holds this study; it holds other files")
    held = read(out / STUDY, "out")
    if not isinstance(held, dict) or "jaxbandit" not in held:
        refuse("a new or empty folder, or one that holds this study; it holds something else")
    theirs, ours = (held.get("format", 1), held["jaxbandit"]), (FORMAT, __version__)
    if theirs != ours:
        age = "newer" if _order(*theirs) > _order(*ours) else "older"
        if theirs[1] == ours[1]:
            refuse(f"a folder of format {ours[0]}, as this jaxbandit writes; this one is of the {age} {theirs[0]}")
        refuse(f"a folder begun with jaxbandit {ours[1]}; this one is of the {age} jaxbandit {theirs[1]}")
    begun = held.get("identity")
    if not isinstance(begun, dict) or (set(begun) ^ set(identity)) - _AT_TIMES:
        refuse("a new or empty folder, or one that holds this study; it holds something else")
    if key := _differing(begun, identity):
        refuse(f"a new or empty folder, or one of this study or a part of it; {key} differs in the study it holds")


def _differing(held: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Returns the first key that has another value, as ``problem.budget``; nothing where all are equal."""
    for key in [*ours, *held]:
        one, other = held.get(key), ours.get(key)
        if identical(one) != identical(other):
            inner = _differing(one, other) if isinstance(one, Mapping) and isinstance(other, Mapping) else ""
            # What is tuned is all under one key.
            return inner if inner and key == "tune" else f"{key}.{inner}".rstrip(".")
    return ""


def _order(form: Any, version: Any) -> tuple[int, list[int]]:
    """Folders of newer versions come later."""
    return form if isinstance(form, int) else 1, [int(number) for number in re.findall(r"\d+", str(version))]


@contextmanager
def claimed(
    out: Path, identity: Mapping[str, Any], facts: Mapping[str, Any], study: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """Makes ``out`` the folder of ``identity``, and keeps other processes out of it meanwhile.

    ``facts`` are noted beside it (versions, the device) and identify nothing; ``study`` is what is run now, which may
    extend what was run before.

    Raises:
        BadInput: see ``check``; and where another process is writing there. Where one is raised inside before there are
            results, the folder is as it was.
    """
    check(out, identity)
    there = out.exists()
    with ExitStack() as held:
        try:
            out.mkdir(parents=True, exist_ok=True)
            lock = _lock(out)
            if lock is not None:
                held.callback(_unlock, lock)
            if not os.access(out, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise BadInput("out", str(out), f"a folder that can be written ({error.strerror})") from None
        check(out, identity)  # another process may have begun there meanwhile
        note = {"format": FORMAT, "jaxbandit": __version__, "identity": identity, "study": study or identity, **facts}
        text = (json.dumps(note, indent=1) + "\n").encode()
        try:
            if not (out / STUDY).exists() or (out / STUDY).read_bytes() != text:
                write(out / STUDY, text)
            yield
        except (BadInput, OSError):
            with suppress(OSError):
                if {entry.name for entry in out.iterdir()} <= {STUDY}:
                    (out / STUDY).unlink(missing_ok=True)
                    if not there:
                        out.rmdir()
            raise


_locks: set[int] = set()
"""Handles of locks of this process. A fork has them too, and would hold the locks beyond the end of this process."""


def _leave_locks() -> None:
    while _locks:
        with suppress(OSError):
            os.close(_locks.pop())


def _unlock(handle: int) -> None:
    if handle in _locks:
        _locks.discard(handle)
        os.close(handle)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_locks)


def _lock(out: Path) -> int | None:
    """Returns a lock that ends with the process, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise BadInput("out", str(out), "a folder that no other process is writing to") from None
    except OSError:  # a file system without locks
        os.close(handle)
        return None
    _locks.add(handle)
    return handle
