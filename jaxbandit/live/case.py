"""What a session is about: one problem and one policy of a study, with the files that they were read from."""

import base64
import hashlib
import json
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxbandit.errors import BadInput
from jaxbandit.laws import Beta
from jaxbandit.registry import Family, parse
from jaxbandit.study.keys import paths
from jaxbandit.study.spec import Configuration, Study
from jaxbandit.user_tables import columns, header

MOST_BYTES = 1 << 28
"""The most bytes of all input files together."""
MOST_SOURCES = 3


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
            raise BadInput("--policy", policy, f"one of {', '.join(label for label, _ in wanted)}")
        (label, own), problem = tables[0], dict(study.problem)
        _may_be_live(study.family, own["kind"])
        for name, values in study.sweep.items():
            if name not in given and len(values) > 1:
                raise BadInput(f"--set {name}", "missing", f"one value, as the study sweeps {name}: {values}")
            problem[name] = values[0]
        problem |= given
        files: dict[str, tuple[str, bytes]] = {}

        def kept(field: str, path: str) -> str:
            content = _read(field, path)
            name = f"{hashlib.sha256(content).hexdigest()}{Path(path).suffix}"
            files[name] = (path, content)
            return name

        table = {"seed": study.seed, "problem": paths("problem", problem, kept), "policy": paths("policy", own, kept)}
        if sum(len(content) for _, content in files.values()) > MOST_BYTES:
            raise BadInput("problem.path", label, f"files of at most {MOST_BYTES >> 20} MiB, which the journal keeps")
        return cls._tuned(table, files, label)

    @classmethod
    def _tuned(cls, table: Mapping[str, Any], files: Mapping[str, tuple[str, bytes]], label: str = "") -> "Case":
        """Writes what is found by tuning into the table, so that no later version tunes otherwise. ``label``: made of
        all parameters where there is none."""
        own, chosen = table["policy"], _built(table, files)
        kind = chosen.family.policies[own["kind"]]
        found = {each.name: chosen.params[each.name] for each in kind.parameters if each.name in chosen.params}
        with_found = {**table, "policy": {**{name: each for name, each in found.items() if each is not None}, **own}}
        chosen = _built(with_found, files)
        return cls(with_found, files, label or chosen.label, chosen)

    def with_policy(self, policy: Mapping[str, Any], sc_pdf: Beta | None = None) -> "Case":
        """Returns the same problem with another policy, given as a table of its kind and parameters. ``sc_pdf``
        replaces the study's where it fits the answers better.

        Raises:
            BadInput: for one that there is not, and one that knows the truth.
        """
        kinds = self.chosen.family.policies
        if policy["kind"] not in kinds:
            raise BadInput("--policy", policy["kind"], f"one of {', '.join(kinds)}")
        _may_be_live(self.chosen.family, policy["kind"])
        problem = dict(self.table["problem"])
        if sc_pdf is not None:
            problem["sc_pdf"] = {"beta": [sc_pdf.alpha, sc_pdf.beta]}
        return self._tuned({**self.table, "problem": problem, "policy": dict(policy)}, self.files)

    def changed(self, table: Mapping[str, Any], label: str) -> "Case":
        """Returns the case after a change of policy that the journal has."""
        return replace(self, table=table, label=label, chosen=_built(table, self.files))

    def head(self) -> dict[str, str]:
        """Returns the case as texts by name, for the head of a journal."""
        data = {
            name: {"path": path, "data": base64.b85encode(zlib.compress(content)).decode()}
            for name, (path, content) in self.files.items()
        }
        return {"study": json.dumps(self.table), "label": self.label, "files": json.dumps(data)}

    @cached_property
    def sources(self) -> Mapping[tuple[str, str], list[str]]:
        """Returns who claims each value of an entity in a table that is cleaned: the other cells of up to
        ``MOST_SOURCES`` rows. It is empty for other problems."""
        problem, found = self.table["problem"], dict[tuple[str, str], list[str]]()
        if problem["kind"] != "cleaning/table":
            return found
        keys, attributes = (
            [problem[name]] if isinstance(problem[name], str) else list(problem[name]) for name in ("entity", "value")
        )
        with _laid_out(self.files) as folder:
            path, table = folder / problem["path"], problem.get("table")
            others = [name for name in header(path, table) if name not in (*keys, *attributes)]
            if not others:
                return found
            for _, cells in columns(path, {"value": [*keys, *attributes, *others]}, table):
                key, claims, rest = cells[: len(keys)], cells[len(keys) : -len(others)], cells[-len(others) :]
                for attribute, claim in zip(attributes, claims, strict=True):
                    name = " / ".join([*key, attribute] if len(attributes) > 1 else key)
                    rows = found.setdefault((name, claim), [])
                    if claim and len(rows) < MOST_SOURCES:
                        rows.append(", ".join(filter(None, rest)))
        return found

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

    @classmethod
    def back(cls, head: Mapping[str, str], own: str = "") -> "Case":
        """Returns the case that ``head`` gave. ``own``: a file that may change, as the session writes into it.

        Raises:
            BadInput: where a file that is still there has changed since.
        """
        table, files = json.loads(head["study"]), {}
        for name, kept in json.loads(head["files"]).items():
            path, content = kept["path"], zlib.decompress(base64.b85decode(kept["data"]))
            may = own and Path(own).absolute() == Path(path).absolute()
            if not may and Path(path).exists() and _read("problem.path", path) != content:
                raise BadInput(
                    "problem.path",
                    path,
                    "the file as it was when the session began, or none at all: the journal has its content",
                )
            files[name] = (path, content)
        return cls(table, files, head["label"], _built(table, files))


def _may_be_live(family: Family, kind: str) -> None:
    if family.policies[kind].reference:
        raise BadInput("--policy", kind, "a policy that does not know the truth: nobody does in a live session")


def _read(field: str, path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise BadInput(field, path, f"a file that can be read ({error.strerror})") from None
    if not content.startswith(b"SQLite format 3\0"):
        return content
    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as database:
        return database.serialize()  # with what is in its write-ahead log


@contextmanager
def _laid_out(files: Mapping[str, tuple[str, bytes]]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        for each, (_, content) in files.items():
            (Path(name) / each).write_bytes(content)
        yield Path(name)


def _built(table: Mapping[str, Any], files: Mapping[str, tuple[str, bytes]]) -> Configuration:
    with _laid_out(files) as folder:
        study = Study.of({**table, "policy": [table["policy"]], "runs": 1}, base=folder)
        setting, params = next(iter(study.settings()))
        (_, own) = study.policy_tables()[0]
        given = {name: value for name, value in own.items() if name != "kind"}
        parse(f"policy.{own['kind']}", study.family.policies[own["kind"]].parameters, given)
        return study.configuration(setting, setting.problem(), params, own["kind"], given)
