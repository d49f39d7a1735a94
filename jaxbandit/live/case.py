"""What a session is about: one problem and one policy of a study, with the files that they were read from."""

import base64
import hashlib
import json
import os
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxbandit.conformance import check_once
from jaxbandit.errors import BadInput
from jaxbandit.laws import Beta
from jaxbandit.registry import Family, Parameter, parse, without_kind
from jaxbandit.study.keys import paths
from jaxbandit.study.spec import Configuration, Study
from jaxbandit.study.summary import plain
from jaxbandit.user_tables import columns, header, title

MOST_BYTES = 1 << 28
"""The most bytes of all input files together."""
MOST_SOURCES = 3

_LIVE = "a policy that does not know the truth: nobody does in a live session"


@dataclass(frozen=True)
class Case:
    """Holds what a session is about. ``table``: a study of one problem and one policy, whose paths are names in
    ``files``; ``files``: by name, where a file was and what was in it."""

    table: Mapping[str, Any]
    files: Mapping[str, tuple[str, bytes]]
    label: str
    chosen: Configuration

    @classmethod
    def of(cls, study: Study, policy: str, given: Mapping[str, Any]) -> "Case":
        """Returns the case of a study's policy, by its kind or its label, on the problem that ``given`` picks.

        Raises:
            BadInput: where there is not exactly one such policy or problem, and for a policy that knows the truth.
        """
        tables = [(label, table) for label, table in study.policy_tables() if policy in (label, table["kind"])]
        if len(tables) != 1:
            wanted = tables or study.policy_tables()
            labels = [label for label, table in wanted if not study.family.policies[table["kind"]].reference]
            raise BadInput("--policy", policy, f"one of {', '.join(labels)}" if labels else _LIVE)
        (label, own), problem = tables[0], dict(study.problem)
        _may_be_live(study.family, own["kind"])
        given = _settable(problem["kind"], study.kind.parameters, given)
        for name, values in study.sweep.items():
            if name not in given and len(values) > 1:
                raise BadInput(f"--set {name}", "missing", f"one value, as the study sweeps {name}: {values}")
            problem[name] = values[0]
        files: dict[str, tuple[str, bytes]] = {}
        kept, policy = _kept("problem", problem | given, files), _kept("policy", own, files)
        return cls._tuned({"seed": study.seed, "problem": kept, "policy": policy}, files, label)

    @classmethod
    def _tuned(cls, table: Mapping[str, Any], files: Mapping[str, tuple[str, bytes]], label: str = "") -> "Case":
        """Writes what is found by tuning into the table, so that no later version tunes otherwise. ``label``: made of
        all parameters where there is none.

        Raises:
            BadInput: for a user's own policy that breaks the contract, as a study does.
        """
        own, chosen = table["policy"], _built(table, files)
        kind = chosen.family.policies[own["kind"]]
        found = {each.name: chosen.params[each.name] for each in kind.parameters if each.name in chosen.params}
        with_found = {**table, "policy": {**{name: each for name, each in found.items() if each is not None}, **own}}
        chosen = _built(with_found, files)
        check_once([(chosen.problem, chosen.policy)])
        label = label or chosen.label
        for name, (path, _) in files.items():
            label = label.replace(name, Path(path).name)
        return cls(with_found, files, label, chosen)

    def with_policy(self, kind: str, params: Mapping[str, Any], sc_pdf: Beta | None = None) -> "Case":
        """Returns the same problem with another policy, given by its kind and its parameters. ``sc_pdf``, where it is
        given, takes the place of the study's.

        Raises:
            BadInput: for one that there is not, one that knows the truth, and several values of a parameter.
        """
        kinds = self.chosen.family.policies
        if kind not in kinds:
            may = [name for name, each in kinds.items() if not each.reference]
            raise BadInput("--policy", kind, f"one of {', '.join(may)}")
        _may_be_live(self.chosen.family, kind)
        given = _settable(kind, kinds[kind].parameters, params)
        for name in (each.name for each in kinds[kind].parameters if each.swept):
            if isinstance(given.get(name), list):
                raise BadInput(f"--set {name}", given[name], "one value, and not a list of them")
        problem = dict(self.table["problem"])
        if sc_pdf is not None:
            problem["sc_pdf"] = {"beta": [sc_pdf.alpha, sc_pdf.beta]}
        files = dict(self.files)
        policy = _kept("policy", {"kind": kind, **given}, files)
        return self._tuned({**self.table, "problem": problem, "policy": policy}, files)

    def change(self, before: "Case") -> dict[str, Any]:
        """Returns what ``changed`` needs to make this case of the one before, JSON-ready."""
        files = _packed({name: each for name, each in self.files.items() if name not in before.files})
        return {"table": self.table, "label": self.label} | ({"files": files} if files else {})

    def changed(self, change: Mapping[str, Any]) -> "Case":
        """Returns the case after a change of policy that the journal has."""
        files = {**self.files, **_unpacked(change.get("files", {}))}
        table = change["table"]
        return replace(self, table=table, files=files, label=change["label"], chosen=_built(table, files))

    def head(self) -> dict[str, str]:
        """Returns the case as texts by name, for the head of a journal."""
        files = json.dumps(_packed(self.files))
        return {"study": json.dumps(self.table), "label": self.label, "files": files}

    @cached_property
    def sources(self) -> Mapping[tuple[str, str], list[str]]:
        """Returns who claims each value of an entity, as ``same`` has it, in a table that is cleaned: the other cells
        of up to ``MOST_SOURCES`` rows. It is empty for other problems."""
        problem, found = self.table["problem"], dict[tuple[str, str], list[str]]()
        if problem["kind"] != "cleaning/table":
            return found
        same = self.same
        keys, attributes = (
            [problem[name]] if isinstance(problem[name], str) else list(problem[name]) for name in ("entity", "value")
        )
        with _laid_out(self.files) as folder:
            path, table = folder / problem["path"], problem.get("table")
            others = [name for name in header(path, table) if name not in map(title, (*keys, *attributes))]
            if not others:
                return found
            for _, cells in columns(path, {"value": [*keys, *attributes, *others]}, table):
                key, claims, rest = cells[: len(keys)], cells[len(keys) : -len(others)], cells[-len(others) :]
                for attribute, claim in zip(attributes, claims, strict=True):
                    name = " / ".join([*key, attribute] if len(attributes) > 1 else key)
                    rows = found.setdefault((name, same(claim)), [])
                    if claim and len(rows) < MOST_SOURCES:
                        rows.append(", ".join(filter(None, rest)))
        return found

    @property
    def same(self) -> Callable[[str], str]:
        """Returns what makes texts equal that count as the same value in a table that is cleaned."""
        return str.casefold if self.table["problem"].get("normalise") == "casefold" else str

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Returns the names of arms by row where they are read from a table with a column ``arm``. It is empty for
        other problems."""
        problem = self.table["problem"]
        means = problem.get("means")
        table = means.get("table", {}) if isinstance(means, Mapping) else problem
        column = table.get("arm", "arm" if "reward" in table else None)
        if column is None or "path" not in table:
            return ()
        with _laid_out(self.files) as folder:
            return tuple(dict.fromkeys(name for _, (name,) in columns(folder / table["path"], {"arm": (column,)})))

    def has(self, place: str | Path) -> bool:
        """Returns whether a file at that place is one that the case was read from."""
        return any(same_file(place, path) for path, _ in self.files.values())

    @classmethod
    def back(cls, head: Mapping[str, str], place: str, own: str = "") -> "Case":
        """Returns the case that ``head`` gave in the journal at ``place``. ``own``: a file that may change, as the
        session writes into it.

        Raises:
            BadInput: where a file that is still there has changed since, and for a head that is damaged.
        """
        try:
            table, files = json.loads(head["study"]), _unpacked(json.loads(head["files"]))
        except (ValueError, TypeError, KeyError, AttributeError, zlib.error):
            raise BadInput("place", place, "an undamaged journal; its study or its files were changed") from None
        for path, content in files.values():
            may = own and same_file(own, path)
            if not may and Path(path).exists() and _read("problem.path", path) != content:
                raise BadInput(
                    "problem.path",
                    path,
                    "the file as it was when the session began, or none at all: the journal has its content",
                )
        return cls(table, files, head["label"], _built(table, files))


def same_file(one: str | Path, other: str | Path) -> bool:
    """Returns whether two paths lead to the same file, whether or not there is one."""
    there = os.path.exists(one) and os.path.exists(other)
    return os.path.realpath(one) == os.path.realpath(other) or (there and os.path.samefile(one, other))


def _settable(kind: str, parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of those parameters of a problem or a policy that a session's user gives.

    Raises:
        BadInput: for what is none of its parameters, as its ``kind``, and what a study file could not have.
    """
    names = [each.name for each in parameters]
    for name, value in given.items():
        if name not in names:
            raise BadInput(f"--set {name}", value, f"a parameter of {kind}: {', '.join(names) or 'it has none'}")
    return {name: plain(f"--set {name}", value, nulls=False) for name, value in given.items()}


def _kept(field: str, table: Mapping[str, Any], files: dict[str, tuple[str, bytes]]) -> Any:
    """Returns a table whose paths are names in ``files``, to which it adds what they lead to."""

    def kept(field: str, path: str) -> str:
        content = _read(field, path)
        name = f"{hashlib.sha256(content).hexdigest()}{Path(path).suffix}"
        files.setdefault(name, (path, content))
        return name

    found = paths(field, dict(table), kept)
    if sum(len(content) for _, content in files.values()) > MOST_BYTES:
        raise BadInput(
            f"{field}.path", table["kind"], f"files of at most {MOST_BYTES >> 20} MiB, which a journal keeps"
        )
    return found


def _packed(files: Mapping[str, tuple[str, bytes]]) -> dict[str, dict[str, str]]:
    return {
        name: {"path": path, "data": base64.b85encode(zlib.compress(content)).decode()}
        for name, (path, content) in files.items()
    }


def _unpacked(packed: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, bytes]]:
    return {name: (each["path"], zlib.decompress(base64.b85decode(each["data"]))) for name, each in packed.items()}


def _may_be_live(family: Family, kind: str) -> None:
    if family.policies[kind].reference:
        raise BadInput("--policy", kind, _LIVE)


def _read(field: str, path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
        if not content.startswith(b"SQLite format 3\0"):
            return content
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as database:
            return database.serialize()  # with what is in its write-ahead log
    except OSError as error:
        raise BadInput(field, path, f"a file that can be read ({error.strerror})") from None
    except (sqlite3.Error, ValueError) as error:  # the latter for a NUL in its name
        raise BadInput(field, path, f"a file that can be read ({error})") from None


@contextmanager
def _laid_out(files: Mapping[str, tuple[str, bytes]]) -> Iterator[Path]:
    """Yields a folder with the files. Errors in there name each file by the path that its user knows."""
    with tempfile.TemporaryDirectory() as name:
        for each, (_, content) in files.items():
            (Path(name) / each).write_bytes(content)
        try:
            yield Path(name)
        except BadInput as error:
            value, allowed = error.value, error.allowed
            for each, (path, _) in files.items():
                value = value.replace(str(Path(name) / each), path) if isinstance(value, str) else value
                allowed = allowed.replace(str(Path(name) / each), path)
            raise BadInput(error.field, value, allowed) from None


def _built(table: Mapping[str, Any], files: Mapping[str, tuple[str, bytes]]) -> Configuration:
    with _laid_out(files) as folder:
        study = Study.of({**table, "policy": [table["policy"]], "runs": 1}, base=folder)
        setting, params = next(iter(study.settings()))
        (_, own) = study.policy_tables()[0]
        given = without_kind(own)
        parse(f"policy.{own['kind']}", study.family.policies[own["kind"]].parameters, given)
        return study.configuration(setting, setting.problem(), params, own["kind"], given)
