"""``jaxbandit doctor``."""

import collections
import contextlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from jaxbandit.cli.arguments import Platform
from jaxbandit.words import counted

if TYPE_CHECKING:
    import jax

_MIB = 1 << 20

_PROBE = """
import jax, jaxbandit, numpy
jaxbandit.cache()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
def doctor_of_jaxbandit(x):
    return x * 271 + 828
jax.jit(doctor_of_jaxbandit)(numpy.int32(1)).block_until_ready()
print("hits" if "/jax/compilation_cache/cache_hits" in events else "missed")
"""
"""A program that is compiled or loaded, in a process of its own."""


_PLUGINS = ("jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm60-plugin", "jax-rocm7-plugin", "libtpu")


@dataclass(frozen=True)
class Doctor:
    """Print what this installation has: versions, devices, whether the cache of compiled programs works, settings."""

    check: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Also run EE for some seconds: its mean against the exact one, its bits, its speed; status 1 if it is wrong."""
    platform: Platform = None

    def __call__(self) -> None:
        """Prints the facts of the installation, a line each."""
        for name, value in _findings(self.platform):
            print(f"{name:10}{value}", flush=True)
        if not self.check:
            return
        from jaxbandit.cli.checkup import checkup

        right = True
        for name, value, good in checkup():
            print(f"{name:10}{'right: ' if good else 'WRONG: '}{value}", flush=True)
            right &= good
        if not right:
            raise SystemExit(1)


def _findings(platform_asked: str | None) -> Iterator[tuple[str, str]]:
    import jax
    import numpy
    from jaxlib.version import __version__ as jaxlib_version

    from jaxbandit import __version__
    from jaxbandit.devices import use_platform
    from jaxbandit.xla.options import options_for

    yield (
        "versions",
        (
            f"jaxbandit {__version__}, JAX {jax.__version__}, jaxlib {jaxlib_version}, NumPy {numpy.__version__}, "
            f"Python {platform.python_version()}, {platform.platform()}"
        ),
    )
    plugins = _plugins()
    yield "plugins", ", ".join(f"{name} {version}" for name, version in plugins.items()) or "none"
    yield "cache", _cache()
    if jax.config.values["jax_compilation_cache_dir"]:
        yield "hits", _hits(platform_asked)  # before JAX starts here and takes the memory of a GPU
    use_platform(platform_asked)
    kinds = collections.Counter((device.device_kind, _memory(device)) for device in jax.local_devices())
    unused = f"; none for {', '.join(plugins)}" if plugins and jax.default_backend() == "cpu" else ""
    yield "devices", "; ".join(f"{count} x {kind}{memory}" for (kind, memory), count in kinds.items()) + unused
    if hasattr(os, "sysconf"):
        yield "memory", f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / _MIB:,.0f} MiB"
    given = [f"{name}={os.environ[name]}" for name in sorted(os.environ) if name.startswith(("JAX", "XLA_"))]
    yield "settings", " ".join(given) or "none"
    options = options_for(jax.default_backend()) or {}
    yield "options", " ".join(f"{name}={value}" for name, value in options.items()) or "none"


def _plugins() -> dict[str, str]:
    """Returns the packages of accelerators that are installed, with their versions."""
    found = {}
    for name in _PLUGINS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _memory(device: "jax.Device") -> str:
    from jaxbandit.devices import memory

    most = memory(device)
    return f" with {most / _MIB:,.0f} MiB" if most else ""


def _cache() -> str:
    """Says where compiled programs are kept and how many there are, or why none are."""
    import jax

    from jaxbandit.programs.cache import MOST_BYTES, OFF, stored

    place = jax.config.values["jax_compilation_cache_dir"]
    if os.environ.get("JAXBANDIT_CACHE", "").lower() in OFF and not place:
        return "off, by JAXBANDIT_CACHE"
    if not jax.config.values["jax_enable_compilation_cache"]:
        return "off, by jax_enable_compilation_cache"
    if not place:
        return "off: its folder cannot be made, or others may write there; JAXBANDIT_CACHE=FOLDER names another"
    folder = Path(place)
    if not folder.name.startswith("programs-"):
        return f"{place}, by JAX's own settings"
    everything = stored(folder.parent)
    programs = sum(file.parent == folder and file.suffix == ".program" for _, _, file in everything)
    size = sum(size for _, size, _ in everything) / _MIB
    note = "" if os.access(folder, os.W_OK) else ", which cannot be written"
    bounded = f"{size:,.1f} of at most {MOST_BYTES / _MIB:,.0f} MiB with those of other versions"
    return f"{place}{note}: {counted(programs, 'program', 'programs')}; {bounded}"


def _hits(platform_asked: str | None) -> str:
    """Returns whether a program that one process has compiled is loaded by another."""
    # Filtered, JAX's traceback ends with a remark on itself.
    environment = os.environ | {"JAX_TRACEBACK_FILTERING": "off"}
    environment |= {"JAX_PLATFORMS": platform_asked} if platform_asked else {}
    # As this process finds modules: not in the folder where it was started, which may have any numpy.py.
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    for _ in range(2):
        done = subprocess.run([sys.executable, "-P", "-c", _PROBE], capture_output=True, text=True, env=environment)
        if done.returncode:
            return f"not known, as the test failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    if done.stdout.split()[-1:] == ["hits"]:
        return "yes: a process loads what another has compiled"
    return "no: what a process compiles, the next one compiles again"
