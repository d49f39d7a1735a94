"""Cleaning operations as questions (Cheng et al. 2010, figure 1): which of an entity's values is wrong?"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxbandit.cleaning.family import Setting
from jaxbandit.cleaning.problem import Cleaning
from jaxbandit.cleaning.pulls import Outcome, Pull
from jaxbandit.errors import BadInput
from jaxbandit.live import inputs
from jaxbandit.live.questions import Address, Answers, questions
from jaxbandit.random.stream import Stream
from jaxbandit.user_tables import title
from jaxbandit.words import counted


class CleaningQuestions:
    """Asks which values are wrong. An address is (entity, operations on it before); the answer is a value that is
    wrong, or ``unknown``.

    An operation that succeeds rules out one false value. When one value is left, it is the entity's.
    """

    family, units = "cleaning", 1

    def __init__(self, setting: Setting, problem: Cleaning, policy: Any, key: Stream) -> None:
        self.setting, self._table = setting, setting.table
        if self._table is None:
            public = problem.public(problem.draw(key))
            self._began = jax.jit(public.false_values)
            self._drawn: dict[int, tuple[str, ...]] = {}
        else:
            self.rows = np.flatnonzero(self._table.false_values)

    def name(self, entity: int) -> str:
        """Returns the entity's name in the user's table, or its number."""
        return f"entity {entity}" if self._table is None else self._table.names[self.rows[entity]]

    def column(self, entity: int) -> str:
        """Returns the column of the user's table with the entity's values; empty without a table."""
        return "" if self._table is None else self._table.columns[self.rows[entity]]

    def candidates(self, entity: int) -> tuple[str, ...]:
        """Returns all values that are claimed of an entity, ruled out or not."""
        if self._table is not None:
            return self._table.candidates[self.rows[entity]]
        if entity not in self._drawn:
            count = 1 + int(self._began(np.int32(entity)))
            self._drawn[entity] = tuple(f"value {number}" for number in range(1, count + 1))
        return self._drawn[entity]

    def left(self, entity: int, answers: Answers, attempts: int | None = None) -> list[str]:
        """Returns the values that are not ruled out by the first ``attempts`` answers, or by all."""
        values, number = list(self.candidates(entity)), 0
        while (answer := answers.get((entity, number))) is not None and number != attempts:
            if answer in values:
                values.remove(answer)
            number += 1
        return values

    def unknown(self, entity: int) -> str:
        """Returns the answer of an agent that cannot tell."""
        word = "unknown"
        while word in self.candidates(entity):
            word += "?"
        return word

    def made(self, pull: Pull, answers: Answers) -> tuple[int, int, bool]:
        """Returns how many operations of a pull are answered, how many of these succeeded, and whether the pull is
        complete."""
        entity, attempt, successes, failures, cleans = map(int, pull)
        made, removed, unknown = 0, 0, self.unknown(entity)
        while True:
            if made >= cleans or removed >= successes or made - removed >= failures:
                return made, removed, True
            answer = answers.get((entity, attempt + made))
            if answer is None:
                return made, removed, False
            made, removed = made + 1, removed + (answer != unknown)

    def due(self, pull: Pull, answers: Answers) -> list[Address]:
        """Returns the address of the next operation alone, as what it shows depends on the one before."""
        made, _, complete = self.made(pull, answers)
        return [] if complete else [(int(pull.entity), int(pull.attempt) + made)]

    def outcome(self, pull: Pull, answers: Answers) -> Outcome:
        """Returns how many operations were made and how many succeeded."""
        made, removed, _ = self.made(pull, answers)
        return Outcome(np.int32(made), np.int32(removed))  # type: ignore[arg-type]

    def shown(self, address: Address, answers: Answers) -> dict[str, Any]:
        """Returns what an agent is shown: the entity and the values that are left."""
        entity, attempt = address
        values = self.left(entity, answers, attempt)
        out = len(self.candidates(entity)) - len(values)
        failed = counted(attempt - out, "answer", "answers")
        record = f"{counted(out, 'of its values is', 'of its values are')} ruled out, {failed} failed"
        return {
            "entity": self.name(entity),
            "values": values,
            "allowed": [*values, self.unknown(entity)],
            "how": f"the value that is wrong (or #1 for the first one), or {self.unknown(entity)}",
            "why": f"operation {attempt + 1} on this entity; {record}",
        }

    def parse(self, address: Address, answer: str, answers: Answers) -> str:
        """Reads an answer: a value that is left, as it is written or as ``#`` and its place, or ``unknown``."""
        shown = self.shown(address, answers)
        values, allowed = shown["values"], shown["allowed"]
        given = title(answer)
        place = inputs.place(given[1:]) if given[:1] == "#" and given not in allowed else 0
        if 1 <= place <= len(values):
            given = values[place - 1]
        if given not in allowed:
            raise BadInput("ANSWER", answer, f"one of {', '.join(allowed)}")
        found: str = given
        return found

    def text(self, answer: str) -> str:
        """Returns an answer as an agent would write it."""
        return answer

    def guess(self, address: Address, answers: Answers) -> str:
        """Returns ``unknown``, or a value that is left once another one of the entity was ruled out: else the policy
        would never come to the end of an entity while questions are asked ahead."""
        entity, attempt = address
        left = self.left(entity, answers, attempt)
        return left[-1] if 1 < len(left) < len(self.candidates(entity)) else self.unknown(entity)

    def same_to_policy(self, address: Address, one: str, other: str) -> bool:
        """Returns whether both answers rule out a value, or neither does."""
        unknown = self.unknown(address[0])
        return (one == unknown) == (other == unknown)

    def cost(self, address: Address) -> int:
        """Returns the cost of an operation, which is always 1."""
        return 1

    def ready(self, address: Address, answers: Answers) -> bool:
        """Returns whether the operation before is answered and there is still a value to rule out."""
        entity, attempt = address
        known = attempt == 0 or (entity, attempt - 1) in answers
        return known and len(self.left(entity, answers, attempt)) > 1

    def confirmed(self, answers: Answers) -> dict[int, str]:
        """Returns the value of each entity that has one value left."""
        found = {}
        for entity in dict.fromkeys(address[0] for address in answers):
            values = self.left(entity, answers)
            if len(values) == 1:
                found[entity] = values[0]
        return found

    def found(self, answers: Answers, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the family's metrics over all operations that were answered."""
        removed = sum(value != self.unknown(entity) for (entity, _), value in answers.items())
        metrics: dict[str, Any] = {
            "effectiveness": removed / self.setting.budget,
            "removed": removed,
            "cleans": len(answers),
            "finished": len(self.confirmed(answers)),
        }
        if self._table is not None:
            metrics["share"] = removed / int(self._table.false_values.sum())
        return metrics


@questions.register
def _(setting: Setting, problem: Cleaning, policy: Any, key: Stream) -> CleaningQuestions:
    return CleaningQuestions(setting, problem, policy, key)


__all__ = ["CleaningQuestions"]
