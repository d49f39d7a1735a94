"""From a policy's pulls to questions that an agent can answer, one at a time, and back to what the policy is told.

A question has an *address*: which draw of the problem it stands for, as (entity, attempt) or (arm, number of the pull).
In a simulation a draw depends on its address alone, and so does an answer here. Therefore the run is a function of the
answers by address, in whatever order they came.
"""

from collections.abc import Mapping
from functools import singledispatch
from typing import Any, Protocol

from jaxbandit.errors import BadInput
from jaxbandit.grammar import Tree
from jaxbandit.random.stream import Stream

Address = tuple[Any, ...]
"""Whole numbers, texts, and tuples of them."""

Answers = Mapping[Address, Any]
"""What was answered, JSON-ready as ``Questions.parse`` gave it, by address."""


class Questions(Protocol):
    """Says how a family's pulls are asked for. All that a question shows is JSON-ready.

    Attributes:
        family: its name.
        units: how many of the problem's units make 1 of the user's money.
    """

    family: str
    units: int

    def due(self, pull: Tree, answers: Answers) -> list[Address]:
        """Returns the questions that a pull cannot do without, whatever is answered to the others of them; some may
        have been answered. None is left where the pull is complete."""

    def outcome(self, pull: Tree, answers: Answers) -> Tree:
        """Returns what the policy is told of a complete pull."""

    def shown(self, address: Address, answers: Answers) -> dict[str, Any]:
        """Returns what an agent is asked: of what, ``allowed`` (a list of texts, one of which is the answer, or of
        forms with capitals in place of what is to be filled in), ``how`` to answer (a sentence) and ``why`` it is
        asked."""

    def parse(self, address: Address, answer: str, answers: Answers) -> Any:
        """Returns the checked answer of a text, JSON-ready.

        Raises:
            BadInput: where it is none that the question allows.
        """

    def text(self, answer: Any) -> str:
        """Returns an answer that ``parse`` gave, as an agent would write it."""

    def guess(self, address: Address, answers: Answers) -> Any:
        """Returns what an open question counts as while questions are asked ahead of its answer: most often a failure.
        None where nothing can be asked ahead."""

    def same_to_policy(self, address: Address, one: Any, other: Any) -> bool:
        """Returns whether a policy would do the same after both answers."""

    def cost(self, address: Address) -> int:
        """Returns what an answer costs, in the problem's units."""

    def ready(self, address: Address, answers: Answers) -> bool:
        """Returns whether a question can be asked: what it shows is known."""

    def found(self, answers: Answers, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the metrics so far, from the answers and from what the policy answers (arrays by name)."""


@singledispatch
def questions(setting: Any, problem: Any, policy: Any, key: Stream) -> Questions:
    """Returns the questions of a setting's problem to a policy, in the run of ``key``.

    Raises:
        BadInput: for a family that has none.
    """
    raise BadInput("problem.kind", type(setting).__module__, "a problem of cleaning, topk, outliers or extraction")
