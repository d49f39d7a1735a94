"""Scores that trained policies decide by: a linear function of named statistics, or a small network.

A family says which statistics there are (``Trainable``), ``tuning/train.py`` finds the weights, and a JSON file keeps
them: its ``sha256`` is that of the rest, so that a file that was cut off or edited is noticed.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from jaxbandit.describe import brief
from jaxbandit.errors import BadInput, quoted
from jaxbandit.grammar import Policy

FORMAT = "jaxbandit score"
VERSION = 1
MOST_HIDDEN = 64


@dataclass(frozen=True)
class Score:
    """Computes a trained policy's score from statistics of an entity or an arm.

    Attributes:
        family: whose statistics they are.
        statistics: their names, in the order of the weights.
        hidden: units of the network's hidden layer, 0 for a linear score.
        weights: float64, shape (``size(len(statistics), hidden)``,).
        origin: what the score was trained on, JSON-ready; no policy depends on it.
    """

    family: str
    statistics: tuple[str, ...]
    hidden: int
    weights: np.ndarray
    origin: Mapping[str, Any] = field(default_factory=dict)

    __repr__ = brief

    @property
    def kind(self) -> str:
        """Returns the kind of the score: "linear" or "network"."""
        return "network" if self.hidden else "linear"

    @property
    def sha256(self) -> str:
        """Returns the SHA-256 of what the score's file holds."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()

    def save(self, path: Path | str) -> None:
        """Writes the file, in full or not at all.

        Raises:
            BadInput: where it cannot be written.
        """
        from jaxbandit.study import folder

        try:
            folder.write(Path(path), (json.dumps({**self._content(), "sha256": self.sha256}, indent=1) + "\n").encode())
        except OSError as error:
            raise BadInput("out", str(path), f"a file that can be written ({error.strerror})") from None

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT, "version": VERSION, "family": self.family, "kind": self.kind, "hidden": self.hidden,
            "statistics": list(self.statistics), "weights": self.weights.tolist(), "origin": dict(self.origin),
        }  # fmt: skip


@dataclass(frozen=True)
class Trainable:
    """Declares what a family's policies can be trained on.

    Attributes:
        statistics: by name, the weight with which training begins.
        usual: those that a score has where nothing else is asked for.
        policies: from a setting and scores of one shape to their policies, which are one program.
    """

    statistics: Mapping[str, float]
    usual: tuple[str, ...]
    policies: Callable[[Any, Sequence[Score]], Sequence[Policy]]


def size(statistics: int, hidden: int) -> int:
    """Returns how many weights a score has.

    A network has the linear weights too, and for each hidden unit those of its inputs, its bias and its output.
    """
    return statistics + hidden * (statistics + 2)


def value(weights: Any, hidden: int, statistics: Sequence[Any], tanh: Callable[[Any], Any]) -> Any:
    """Returns the score of each of some entities or arms.

    Args:
        weights: shape (``size(len(statistics), hidden)``,).
        hidden: see ``Score``.
        statistics: arrays that broadcast against each other.
        tanh: of the library that the arrays are of.
    """

    def along(first: int) -> Any:
        terms = [weights[first + place] * each for place, each in enumerate(statistics)]
        return reduce(lambda total, term: total + term, terms)

    total, width = along(0), len(statistics) + 2
    for unit in range(hidden):
        first = len(statistics) + unit * width
        total = total + weights[first + width - 1] * tanh(along(first) + weights[first + width - 2])
    return total


def read(field: str, path: Path | str, family: str, known: Mapping[str, float]) -> Score:
    """Returns the score that a file of ``jaxbandit train`` holds.

    Args:
        field: what errors call it.
        path: of the file.
        family: the family that it must be of.
        known: the family's statistics, by name.

    Raises:
        BadInput: where it cannot be read, is no such file, is damaged, or is of another family.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise BadInput(field, str(path), f"a file that can be read ({error.strerror})") from None
    except ValueError:
        raise BadInput(field, str(path), "a file that `jaxbandit train` wrote; it is no JSON") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BadInput(field, str(path), "a file that `jaxbandit train` wrote")
    if content.get("version") != VERSION:
        raise BadInput(f"{field}.version", content.get("version"), f"{VERSION}, which this jaxbandit reads")
    if content.get("family") != family:
        raise BadInput(f"{field}.family", content.get("family"), f"a score of {family}")
    names, hidden, weights = content.get("statistics"), content.get("hidden"), content.get("weights")
    if not isinstance(names, list) or not names or not all(name in list(known) for name in names):
        raise BadInput(f"{field}.statistics", names, f"some of {', '.join(known)}")
    if isinstance(hidden, bool) or not isinstance(hidden, int) or not 0 <= hidden <= MOST_HIDDEN:
        raise BadInput(f"{field}.hidden", hidden, f"a whole number from 0 to {MOST_HIDDEN}")
    count = size(len(names), hidden)
    if not isinstance(weights, list) or len(weights) != count or not all(isinstance(each, float) for each in weights):
        found = f"{len(weights)} of them" if isinstance(weights, list) else weights
        raise BadInput(f"{field}.weights", found, f"{count} numbers, for {len(names)} statistics and hidden = {hidden}")
    if not np.isfinite(weights).all():
        raise BadInput(f"{field}.weights", "not finite", "finite numbers")
    origin = content.get("origin")
    if not isinstance(origin, dict):
        raise BadInput(f"{field}.origin", origin, "a table of what it was trained on")
    score = Score(family, tuple(names), hidden, np.array(weights), origin)
    if {**score._content(), "sha256": score.sha256} != content:
        raise BadInput(f"{field}.sha256", content.get("sha256"), "that of the file's content: the file was changed")
    return score


def stacked(scores: Sequence[Score], family: str) -> np.ndarray:
    """Returns the weights of scores of one shape: float64, (scores, weights).

    Raises:
        BadInput: where one is no score of ``family``, and where they have different shapes.
    """
    for score in scores:
        if not isinstance(score, Score) or score.family != family:
            found = f"of {score.family}" if isinstance(score, Score) else quoted(score)
            raise BadInput("score", found, f"one of {family}, such as {family}.shipped_score()")
    shapes = {(score.family, score.statistics, score.hidden) for score in scores}
    if len(shapes) > 1:
        raise BadInput("scores", f"{len(shapes)} shapes", "scores with the same statistics and the same hidden")
    return np.stack([score.weights for score in scores])


__all__ = ["FORMAT", "MOST_HIDDEN", "VERSION", "Score", "Trainable", "read", "size", "stacked", "value"]
