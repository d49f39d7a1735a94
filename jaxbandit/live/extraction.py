"""Queries as questions: name k entities of this node, none of those that are known (Rekatsinas et al. 2019)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxbandit.errors import BadInput
from jaxbandit.extraction.family import Setting
from jaxbandit.extraction.problem import Extraction, Outcome, Pull
from jaxbandit.live import inputs
from jaxbandit.live.questions import Address, Answers, questions
from jaxbandit.random.stream import Stream
from jaxbandit.user_tables import title
from jaxbandit.words import counted

_NONE = "none"


class ExtractionQuestions:
    """Asks for entities. An address is (node, configuration, number of the query, names of the entities excluded); the
    answer is a list of pairs of an entity's name and the node at which it sits. Each policy numbers the entities as it
    is told of them, so that their names alone are the same to the next one."""

    family = "extraction"

    def __init__(self, setting: Setting, problem: Extraction, policy: Any, key: Stream) -> None:
        self._domain = setting.domain
        # As ``queries.price`` has it: by l, or by how many are excluded where the reading says so.
        readings = getattr(policy, "readings", None)
        if readings is not None and readings.short_list == "actual":
            self.costs = np.asarray(problem.shorter)
        else:
            self.costs = np.broadcast_to(np.asarray(problem.cost)[:, None], problem.shorter.shape)
        self._view, self.units = problem.view(key, problem.draw(key)), problem.units
        self._names = [self._domain.name(node) for node in range(len(self._domain.values))]
        self._leaves = {self._names[node]: node for node in np.unique(self._domain.leaf).tolist()}

    def numbers(self, answers: Answers) -> dict[str, int]:
        """Returns the number of each entity, by the answers in order: the policy's, where it was told these."""
        found: dict[str, int] = {}
        for pairs in answers.values():
            for name, _ in pairs:
                found.setdefault(name, len(found))
        return found

    def table(self, answers: Answers) -> list[dict[str, Any]]:
        """Returns a row for each entity, in the order in which they came: its ``entity`` (the name), the ``node`` at
        which it sits, and the ``query`` that brought it first, counted from 1 over all answers."""
        found: dict[str, dict[str, Any]] = {}
        for number, pairs in enumerate(answers.values(), 1):
            for name, node in pairs:
                found.setdefault(name, {"entity": name, "node": self._names[node], "query": number})
        return list(found.values())

    def due(self, pull: Pull, answers: Answers) -> list[Address]:
        """Returns the address of the query, or none where the policy asks nothing."""
        if not pull.asked:
            return []
        names = list(self.numbers(answers))
        exclude = tuple(names[each] for each in pull.exclude if each >= 0)
        return [(int(pull.node), int(pull.configuration), int(pull.number), exclude)]

    def outcome(self, pull: Pull, answers: Answers) -> Outcome:
        """Returns the numbers of the entities in the answer, and the nodes at which they sit."""
        entity, leaf = np.full((2, self._view.k_max), -1, np.int32)
        known = self.numbers(answers)
        for address in self.due(pull, answers):
            for place, (name, node) in enumerate(answers[address]):
                entity[place], leaf[place] = known[name], node
        return Outcome(entity, leaf)  # type: ignore[arg-type]

    def shown(self, address: Address, answers: Answers) -> dict[str, Any]:
        """Returns what an agent is shown: the node, how many entities are asked for, and which are excluded."""
        node, configuration, number, exclude = address
        k, _ = self._view.configurations[configuration]
        known = len(self.numbers(answers))
        here = self._names[node] in self._leaves
        form = "NAME; NAME" if here else "NAME @ NODE; NAME @ NODE"
        return {
            "query": {"node": self._names[node], "k": k, "exclude": list(exclude)},
            "allowed": [_NONE, form],
            "how": f"at most {_entities(k)} as {form}{'' if here else ' with the node at which each sits'}, or {_NONE}",
            "why": f"query {number + 1}; {counted(known, 'entity is', 'entities are')} known",
        }

    def parse(self, address: Address, answer: str, answers: Answers) -> list[list[Any]]:
        """Reads an answer: ``NAME @ NODE; NAME @ NODE``, a JSON list of {"name", "at"}, or none, in
        small letters or capitals. An entity of that name is given with its node."""
        node, configuration, _, exclude = address
        k, _ = self._view.configurations[configuration]
        sits = {name: at for pairs in answers.values() for name, at in pairs}
        found: list[list[Any]] = []
        for name, at in _pairs(answer):
            where = self._names[node] if at is None else at
            if where not in self._leaves:
                raise BadInput("ANSWER", f"{name} @ {where}", "NAME @ NODE with a node at which entities sit")
            leaf = self._leaves[where]
            if node not in np.asarray(self._domain.poset.ancestors)[leaf]:
                raise BadInput("ANSWER", f"{name} @ {where}", f"an entity of {self._names[node]}")
            if name in exclude:
                raise BadInput("ANSWER", name, "an entity that the query does not exclude")
            if sits.get(name, leaf) != leaf:
                raise BadInput(
                    "ANSWER",
                    f"{name} @ {where}",
                    f"the same entity at {self._names[sits[name]]}, as was answered before",
                )
            if [name, leaf] not in found:
                found.append([name, leaf])
        if len(found) > k:
            raise BadInput("ANSWER", _entities(len(found)), f"at most {_entities(k)}")
        return found

    def text(self, answer: list[list[Any]]) -> str:
        """Returns the entities with their nodes, as an agent would write them."""
        return "; ".join(f"{name} @ {self._names[node]}" for name, node in answer) or _NONE

    def guess(self, address: Address, answers: Answers) -> None:
        """Returns None: nothing can be asked ahead, as each query depends on the entities that are known."""

    def same_to_policy(self, address: Address, one: Any, other: Any) -> bool:
        """Returns whether two answers have the same entities in the same order."""
        return bool(one == other)

    def cost(self, address: Address) -> int:
        """Returns the cost of the query by its configuration, in the problem's units."""
        node, configuration, _, exclude = address
        specificity = self._domain.poset.specificity[node]  # type: ignore[index]
        return int(self.costs[configuration, len(exclude), specificity])

    def ready(self, address: Address, answers: Answers) -> bool:
        """Returns true: what a query shows is always known."""
        return True

    def found(self, answers: Answers, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Returns how many entities were bought, with how many queries, and for what."""
        spent = sum(map(self.cost, answers)) / self.units
        return {"entities": len(self.numbers(answers)), "cost": spent, "queries": len(answers)}


def _entities(number: int) -> str:
    return counted(number, "entity", "entities")


def _pairs(answer: str) -> list[tuple[str, str | None]]:
    text = answer.strip()
    if text.lower() == _NONE:
        return []
    found = _listed(text) if text.startswith("[") else _written(text)
    for name, _ in found:
        if not name:
            raise BadInput("ANSWER", answer, f"entities with a name each, as NAME @ NODE; NAME @ NODE, or {_NONE}")
    return found


def _listed(text: str) -> list[tuple[str, str | None]]:
    """Pairs from JSON."""
    allowed = 'JSON as [{"name": "...", "at": "..."}]'
    try:
        found = [(each["name"], each.get("at")) for each in inputs.parsed(text)]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BadInput("ANSWER", text, allowed) from None
    for name, at in found:
        if not isinstance(name, str) or not isinstance(at, str | None):
            raise BadInput("ANSWER", text, f"{allowed}, both of them texts")
    return [(title(name), at and title(at)) for name, at in found]


def _written(text: str) -> list[tuple[str, str | None]]:
    """Pairs from ``NAME @ NODE; NAME @ NODE``."""
    found: list[tuple[str, str | None]] = []
    for part in filter(None, map(str.strip, text.split(";"))):
        name, sign, at = part.rpartition("@")
        found.append((title(name), title(at)) if sign else (title(part), None))
    if not found:
        raise BadInput("ANSWER", text, f"NAME @ NODE; NAME @ NODE, or {_NONE}")
    if any(name.lower() == _NONE and at is None for name, at in found):
        raise BadInput("ANSWER", text, f"{_NONE} alone, or entities alone")
    return found


@questions.register
def _(setting: Setting, problem: Extraction, policy: Any, key: Stream) -> ExtractionQuestions:
    return ExtractionQuestions(setting, problem, policy, key)


__all__ = ["ExtractionQuestions"]
