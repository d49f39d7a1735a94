"""Compiled programs are kept on disk, so that one process loads what another has compiled."""

import contextlib
import hashlib
import importlib
import logging
import os
import platform
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import jax
from jaxlib.version import __version__ as jaxlib_version

from jaxbandit import __version__
from jaxbandit.errors import BadInput

_log = logging.getLogger("jaxbandit")

OFF = ("off", "0")
"""Values of ``JAXBANDIT_CACHE`` that turn the cache off; any other names its folder."""
MOST_BYTES = 1 << 29
_LEAST_SECONDS = 0.02  # of compilation, below which loading gains little; JAX's own default is 1
_DIGEST = hashlib.sha256().digest_size
_PLACES: dict[str, "Programs"] = {}
"""By their paths the folders that ``cache`` has set."""


def cache(folder: str | os.PathLike[str] | None = None, most_bytes: int = MOST_BYTES) -> Path | None:
    """Keeps what JAX compiles from now on, in this process, in a folder, and loads what is there.

    It sets JAX's persistent compilation cache. The command line calls it; ``import jaxbandit`` does not. The results of
    programs are the same with it and without. It does nothing if JAX has been given a compilation cache already (as by
    ``JAX_COMPILATION_CACHE_DIR``), if ``jax_enable_compilation_cache`` is false, or if the environment variable
    ``JAXBANDIT_CACHE`` is ``off``.

    Args:
        folder: holds the cache, with a folder inside for each processor and each version of JAX, Python and jaxbandit.
            By default it is the path in ``JAXBANDIT_CACHE``, else ``jaxbandit`` in the user's folder for caches.
        most_bytes: the size of the whole cache, in bytes. Programs that were not used for longest are removed now,
            until it has at most this size.

    Returns:
        The folder where JAX keeps programs from now on, or None if it keeps none. That is so, too, where the folder
        cannot be made, or belongs to another user or can be written by one: whoever writes programs there decides what
        this process runs.

    Raises:
        BadInput: if ``most_bytes`` is no whole number from 0, or ``folder`` is no path.

    Example:
        >>> import jaxbandit
        >>> jaxbandit.cache("kept")  # doctest: +SKIP
    """
    if isinstance(most_bytes, bool) or not isinstance(most_bytes, int) or most_bytes < 0:
        raise BadInput("most_bytes", most_bytes, "a whole number of bytes, 0 or more")
    if not isinstance(folder, str | os.PathLike | None):
        raise BadInput("folder", folder, "the path of a folder")
    asked = os.environ.get("JAXBANDIT_CACHE", "")
    if asked.lower() in OFF or not jax.config.values["jax_enable_compilation_cache"]:
        return None
    if set_before := jax.config.values["jax_compilation_cache_dir"]:
        return Path(set_before)
    try:
        root = Path(folder or asked).expanduser().absolute() if folder or asked else _users_caches() / "jaxbandit"
        place = root / f"programs-{_fingerprint()}"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
        usable = _is_private(place) and _install(place)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        usable = False
    if not usable:
        if folder or asked:
            _log.warning("jaxbandit: compiled programs are not kept, as %s cannot be used for them", folder or asked)
        return None
    _prune(root, most_bytes)
    _PLACES[str(place)] = Programs(place)
    jax.config.update("jax_compilation_cache_dir", str(place))
    if jax.config.values["jax_persistent_cache_min_compile_time_secs"] == 1.0:  # the user has not set it
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_SECONDS)
    return place


def programs() -> "Programs | None":
    """The folder of programs that ``cache`` has set; None where there is none, or JAX has another."""
    return _PLACES.get(jax.config.values["jax_compilation_cache_dir"] or "")


HITS = threading.local()
"""``any``: whether JAX has found a program on disk in this thread since it was set to false."""


class Programs:
    """The programs in a folder: what JAX's compilation cache and ``store`` read and write.

    JAX's own class writes a file in place and never replaces it, so that one which a kill or a full disk has cut off
    stays, and every later process warns of it. Here a file appears as a whole, with a checksum. A damaged one counts as
    missing, and is replaced once its program has been compiled. What cannot be read or written is no error.
    """

    def __init__(self, path: Path) -> None:
        self._path = path  # JAX's log names it

    def _file(self, key: str) -> Path:
        return self._path / f"{key}.program"

    def get(self, key: str) -> bytes | None:
        """The program of a key, or None."""
        try:
            stored = self._file(key).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(stored[_DIGEST:]).digest() != stored[:_DIGEST]:
            return None
        with contextlib.suppress(OSError):
            os.utime(self._file(key))  # it was used now: see _prune
        HITS.any = True
        return stored[_DIGEST:]

    def remove(self, key: str) -> None:
        """Forgets the program of a key."""
        with contextlib.suppress(OSError):
            self._file(key).unlink()

    def put(self, key: str, value: bytes) -> None:
        """Stores the program of a key."""
        with contextlib.suppress(OSError):
            descriptor, partial = tempfile.mkstemp(dir=self._path)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(hashlib.sha256(value).digest() + value)
                os.replace(partial, self._file(key))
            except OSError:
                os.unlink(partial)


def _install(place: Path) -> bool:
    """Has JAX use ``Programs`` for this folder; returns whether this version of JAX can.

    JAX has no public way to do this. This one is the same in its versions 0.8 to 0.12.
    """
    try:
        internal: Any = importlib.import_module("jax._src.compilation_cache")
        theirs = internal.get_file_cache
    except (ImportError, AttributeError):
        return False
    internal.get_file_cache = lambda path: (Programs(place), path) if path == str(place) else theirs(path)
    return True


def _users_caches() -> Path:
    """Where programs keep what they can make again, on this system."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named) if os.path.isabs(named) else Path.home() / ".cache"  # a relative one is to be ignored


def _fingerprint() -> str:
    """Of all that a compiled program depends on beside what JAX's own keys hold: a home may be shared by machines."""
    cpu = {platform.machine(), platform.processor()}
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        names = ("model name", "flags", "Features", "CPU implementer", "CPU part")
        cpu.update(line for line in lines if line.startswith(names))
    parts = [sys.version, jax.__version__, jaxlib_version, __version__, *sorted(cpu)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _is_private(place: Path) -> bool:
    """Whether this user owns the folder and nobody else may write there."""
    if not hasattr(os, "getuid"):
        return True
    found = place.stat()
    return found.st_uid == os.getuid() and not found.st_mode & 0o022


def stored(root: Path) -> list[tuple[float, int, Path]]:
    """All files of a cache, of all its fingerprints: when each was last used (seconds), its size in bytes, its path."""
    found = []
    for file in root.glob(f"programs-{'[0-9a-f]' * 16}/*"):
        with contextlib.suppress(OSError):  # another process may remove it
            if file.is_file():
                found.append((file.stat().st_mtime, file.stat().st_size, file))
    return found


def _prune(root: Path, most_bytes: int) -> None:
    """Removes the files that were not used for longest, until the rest has at most ``most_bytes``."""
    files = sorted(stored(root))
    size = sum(bytes_ for _, bytes_, _ in files)
    for _, bytes_, file in files:
        if size <= most_bytes:
            break
        size -= bytes_
        with contextlib.suppress(OSError):
            file.unlink()
