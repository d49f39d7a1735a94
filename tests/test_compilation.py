"""The cache of compiled programs: a second process loads them, and nothing that happens to it is an error."""

import contextlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

import jaxbandit
from jaxbandit import cli
from jaxbandit.programs import cache as compilation
from jaxbandit.programs import past, store

_STUDY = """
seed = 3
runs = 8
[problem]
kind = "toy/coins"
[[policy]]
kind = "mixed"
[sweep]
budget = [5]
"""

# The command line, which says which events of JAX's cache there were.
_PROGRAM = """
import collections, json, sys, jax
from jaxbandit import cli, jobs
from jaxbandit.study import families
from tests import toy
families.register(toy.FAMILY)
events = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: events.update([event.rpartition("/")[2]]))
assert cli.main(sys.argv[1:]) == 0
print(json.dumps(events))
"""


def start(cache: Path, *argv: object) -> subprocess.Popen[str]:
    ours = {"JAXBANDIT_CACHE": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "PYTHONPATH": os.getcwd()}
    kept = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *map(str, argv)], env=kept | ours, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> dict[str, int]:
    """The events; nothing but the usual may be on stderr."""
    out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert all(line.startswith("jaxbandit: ") for line in said.splitlines()), said
    events: dict[str, int] = json.loads(out.splitlines()[-1])
    return events


@contextlib.contextmanager
def unset_settings() -> Iterator[None]:
    """No settings of the cache, which the tests else have, and no programs, as in another process; what is set
    meanwhile is taken back."""
    names = (
        "jax_compilation_cache_dir", "jax_enable_compilation_cache", "jax_persistent_cache_min_compile_time_secs",
    )  # fmt: skip
    before = {name: jax.config.values[name] for name in names}
    internal: Any = importlib.import_module("jax._src.compilation_cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(internal, "get_file_cache", internal.get_file_cache)
        patch.delenv("JAXBANDIT_CACHE", raising=False)
        for known, nothing in ("_MADE_HERE", set()), ("_LOADED", {}), ("COMPILED", set()):
            patch.setattr(store, known, nothing)
        patch.setattr(past, "_past", {})
        jax.config.update("jax_compilation_cache_dir", None)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
        yield
        for name, value in before.items():
            jax.config.update(name, value)


@pytest.fixture
def unset() -> Iterator[None]:
    """As ``unset_settings``, during a test."""
    with unset_settings():
        yield


def test_a_second_process_loads_what_the_first_has_compiled_and_damage_is_repaired(tmp_path: Path) -> None:
    study, cache = tmp_path / "study.toml", tmp_path / "cache"
    study.write_text(_STUDY)

    def run(name: str) -> subprocess.Popen[str]:
        return start(cache, "run", study, "--out", tmp_path / name)

    both = [run("one"), run("two")]  # at once; one that is held up may load what the other has stored
    assert max(finish(process).get("cache_misses", 0) for process in both) > 0
    (folder,) = cache.iterdir()
    assert {cache.stat().st_mode & 0o777, folder.stat().st_mode & 0o777} == {0o700}
    programs = {file: file.read_bytes() for file in folder.iterdir()}
    assert len(programs) > 1
    assert all(file.suffix == ".program" for file in programs)

    events = finish(run("warm"))
    assert events["cache_hits"] >= len(programs)
    assert "cache_misses" not in events

    for number, (file, program) in enumerate(programs.items()):
        damaged = bytearray(program)
        damaged[len(program) // 2] ^= 1
        file.write_bytes((b"", program[: len(program) // 2], program[:5], bytes(damaged))[number % 4])
    assert finish(run("damaged"))["cache_misses"] == len(programs)
    assert finish(run("repaired"))["cache_hits"] >= len(programs)

    summaries = [
        (tmp_path / name / "summary.json").read_bytes() for name in ("one", "two", "warm", "damaged", "repaired")
    ]
    assert len(set(summaries)) == 1


@pytest.mark.usefixtures("unset")
def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert compilation._users_caches() == tmp_path / "caches"
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert compilation._users_caches() == Path.home() / ".cache"

    monkeypatch.setenv("JAXBANDIT_CACHE", str(tmp_path / "named"))
    place = jaxbandit.cache(tmp_path / "given")
    assert place is not None
    assert place.parent == tmp_path / "given"
    assert jax.config.values["jax_compilation_cache_dir"] == str(place)
    assert jax.config.values["jax_persistent_cache_min_compile_time_secs"] == 0.02
    assert jaxbandit.cache(tmp_path / "another") == place  # the first call stands
    jax.config.update("jax_compilation_cache_dir", None)
    named = jaxbandit.cache()
    assert named is not None
    assert named.parent == tmp_path / "named"
    assert not caplog.records


@pytest.mark.usefixtures("unset")
def test_the_users_own_settings_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    assert jaxbandit.cache(tmp_path / "ours") == tmp_path / "own"
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_enable_compilation_cache", False)
    assert jaxbandit.cache(tmp_path / "ours") is None
    jax.config.update("jax_enable_compilation_cache", True)
    for off in ("off", "OFF", "0"):
        monkeypatch.setenv("JAXBANDIT_CACHE", off)
        assert jaxbandit.cache(tmp_path / "ours") is None
    assert jax.config.values["jax_compilation_cache_dir"] is None
    assert list(tmp_path.iterdir()) == []

    monkeypatch.delenv("JAXBANDIT_CACHE")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 7.0)
    assert jaxbandit.cache(tmp_path / "ours") is not None
    assert jax.config.values["jax_persistent_cache_min_compile_time_secs"] == 7.0


@pytest.mark.usefixtures("unset")
def test_a_folder_that_cannot_be_used_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(folder: Path | None) -> int:
        caplog.clear()
        assert jaxbandit.cache(folder) is None
        assert jax.config.values["jax_compilation_cache_dir"] is None
        return len(caplog.records)

    (tmp_path / "file").write_text("")
    assert refused(tmp_path / "file") == 1
    monkeypatch.setattr(compilation, "_users_caches", lambda: tmp_path / "file")
    assert refused(None) == 0  # nobody asked for it

    (tmp_path / "open" / f"programs-{compilation._fingerprint()}").mkdir(parents=True)
    (tmp_path / "open" / f"programs-{compilation._fingerprint()}").chmod(0o777)
    assert refused(tmp_path / "open") == 1

    monkeypatch.delattr("jax._src.compilation_cache.get_file_cache")  # another version of JAX
    assert refused(tmp_path / "cache") == 1


def test_what_cannot_be_written_or_read_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = compilation.Programs(tmp_path)
    programs.put("a", b"program")
    assert programs.get("a") == b"program"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    programs.put("b", b"program")
    assert programs.get("b") is None
    assert [file.name for file in tmp_path.iterdir()] == ["a.program"]
    monkeypatch.setattr(os, "utime", full)
    assert programs.get("a") == b"program"

    gone = compilation.Programs(tmp_path / "gone")
    gone.put("a", b"program")
    assert gone.get("a") is None


@pytest.mark.usefixtures("unset")
def test_its_size_has_a_bound(tmp_path: Path) -> None:
    old = tmp_path / ("programs-" + "0" * 16)
    old.mkdir()
    (tmp_path / "programs-of-mine").mkdir()
    kept = [tmp_path / "programs-of-mine" / "x.program", tmp_path / "y.program"]
    for file in kept:
        file.write_bytes(bytes(1000))
    for age in range(4):
        compilation.Programs(old).put(f"{age}", bytes(68))
        os.utime(old / f"{age}.program", (10**9 - age, 10**9 - age))
    assert compilation.Programs(old).get("3") == bytes(68)  # used just now
    jaxbandit.cache(tmp_path, most_bytes=250)
    assert {file.name for file in old.iterdir()} == {"0.program", "3.program"}
    assert all(file.exists() for file in kept)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"most_bytes": -1}, "most_bytes = -1: a whole number of bytes, 0 or more"),
        ({"most_bytes": True}, "most_bytes = True: a whole number of bytes, 0 or more"),
        ({"folder": 3}, "folder = 3: the path of a folder"),
    ],
)
def test_bad_input(given: dict[str, Any], line: str) -> None:
    with pytest.raises(jaxbandit.BadInput) as caught:
        jaxbandit.cache(**given)
    assert str(caught.value) == line


def test_an_import_changes_nothing() -> None:
    code = (
        "import jax; before = dict(jax.config.values); "
        "import jaxbandit.programs.cache, jaxbandit.engine, jaxbandit.cli\n"
        "assert dict(jax.config.values) == before"
    )
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": os.getcwd()}, check=True)


def doctor(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert cli.main(["doctor"]) == 0
    return {line[:10].strip(): line[10:] for line in capsys.readouterr().out.splitlines()}


@pytest.mark.usefixtures("unset")
def test_doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("JAXBANDIT_CACHE", str(tmp_path / "cache"))
    found = doctor(capsys)
    assert found["versions"].startswith(f"jaxbandit {jaxbandit.__version__}, JAX {jax.__version__}, jaxlib ")
    assert found["cache"].startswith(str(tmp_path / "cache"))
    assert found["hits"].startswith("yes")
    assert found["devices"] == f"{jax.local_device_count()} x cpu"
    assert f"JAXBANDIT_CACHE={tmp_path / 'cache'}" in found["settings"]
    again = doctor(capsys)
    assert ": 1 program; 0.0 of at most 512 MiB" in again["cache"]

    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("JAXBANDIT_CACHE", "off")
    found = doctor(capsys)
    assert found["cache"] == "off, by JAXBANDIT_CACHE"
    assert "hits" not in found
