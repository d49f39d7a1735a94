"""What a journal's events say: which questions there are, what was answered, and how far the policy got with it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxbandit import __version__
from jaxbandit.errors import BadInput
from jaxbandit.live.case import Case
from jaxbandit.live.journal import Event
from jaxbandit.live.play import Play
from jaxbandit.live.questions import Address, Questions, questions
from jaxbandit.random.stream import stream
from jaxbandit.study.summary import identity


@dataclass
class AskedQuestion:
    """Holds what became of a question. ``asked``: the number of its event. ``step`` and ``trace``: where the policy
    stood then. ``state``: open, answered, undone or withdrawn. ``done``: the number of its answer's event; ``cost``: of
    the answer, in the problem's units."""

    address: Address
    asked: int
    step: int
    trace: str
    version: str
    state: str = "open"
    answer: Any = None
    done: int = 0
    cost: int = 0


class Ledger:
    """Knows the state of a session after some events of its journal.

    Attributes:
        place: of the journal.
        case: the problem and the policy, as of the last change.
        asks, play: the policy's questions, and its run so far.
        events: all that were taken.
        questions: by number; ``open``: those that are open.
        at: by address, the number of the question that is open or answered there.
        budget, spent: what the answers may cost and have cost, in the problem's units: whole numbers, as sums of
            fractions are a little off, and the last question would then be thought too dear.
        changed: the number of the event that changed the policy last; 0 before there is one.
    """

    case: Case
    asks: Questions
    play: Play

    def __init__(self, case: Case, place: str) -> None:
        self._first, self.place = case, place
        self.forget()

    def forget(self) -> None:
        """Goes back to the state before the first event."""
        self.events: list[Event] = []
        self.questions: dict[int, AskedQuestion] = {}
        self.open: dict[int, AskedQuestion] = {}
        self.at: dict[Address, int] = {}
        self.spent, self.changed = 0, 0
        self._follow(self._first)

    def back(self, many: int) -> None:
        """Goes back to the state after the first ``many`` events, if there are more."""
        if len(self.events) > many:
            events = self.events[:many]
            self.forget()
            self.take(events)

    def take(self, events: Sequence[Event]) -> None:
        """Applies the journal's next events to the state.

        Raises:
            BadInput: where this version would have decided otherwise than the one that asked.
        """
        self.events += events
        since = 0
        for place, event in enumerate(events):
            if event.kind == "changed":
                self._tell(events[since:place])
                self.changed, since = event.number, place + 1
                self._follow(self.case.changed(event.content))
        self._tell(events[since:])

    def changes(self) -> list[dict[str, Any]]:
        """Returns the changes of the policy: ``policy``, ``was``, and what was ``spent`` by then on answers that still
        count."""
        found, spent = [], 0
        for event in self.events:
            if (number := self.answered(event)) is not None:
                spent += self.questions[number].cost
            if event.kind == "changed":
                content, paid = event.content, spent / self.asks.units
                found.append({"policy": content["label"], "was": content["was"], "spent": paid})
        return found

    def has(self, kind: str, question: int, content: Mapping[str, Any]) -> bool:
        """Returns whether there is an event that says this of a question."""
        same = identity(content)
        return any(
            event.kind == kind and event.question == question and identity(event.content) == same
            for event in self.events
        )

    def late(self) -> tuple[int, dict[str, int]]:
        """Returns how many answers came late, and how many of each agent are other ones than those that count."""
        events = [event for event in self.events if event.kind == "late"]
        otherwise = Counter(
            event.content["agent"] or "nobody in particular"
            for event in events
            if self.questions[event.question or 0].state == "answered"
        )
        return len(events), dict(otherwise)

    def answered(self, event: Event) -> int | None:
        """Returns the question that an event has the answer of; None for other events, and for one that was taken
        back."""
        asked = self.questions.get(event.question or 0)
        counts = asked is not None and asked.state == "answered" and asked.done == event.number
        return event.question if counts else None

    @property
    def left(self) -> int:
        """Returns what further questions may cost, in the problem's units, once the open ones are answered."""
        return self.budget - self.spent - sum(each.cost for each in self.open.values())

    def stale(self, number: int) -> bool:
        """Returns whether an open question was asked for a policy that another one has replaced, which does not need it
        now."""
        asked = self.open[number]
        return asked.asked < self.changed and not self.play.needs(asked.address)

    def _follow(self, case: Case) -> None:
        """Goes on with another policy, which is told what was answered as far as it asks for it."""
        chosen, key = case.chosen, stream(case.table["seed"], 0)
        self.case = case
        self.asks = questions(chosen.setting, chosen.problem, chosen.policy, key)
        # The problems of all families that are asked live have a budget, in whole units; not every ``Problem`` has.
        self.budget = int(chosen.problem.budget)  # type: ignore[attr-defined]
        self.play = Play(chosen.problem, chosen.policy, key, self.asks, self._answers())
        for address in self.at:
            self.play.asked(address)

    def _answers(self) -> dict[Address, Any]:
        """Returns the answers that count, in the order in which they came."""
        answered = [each for each in self.questions.values() if each.state == "answered"]
        return {each.address: each.answer for each in sorted(answered, key=lambda each: each.done)}

    def _tell(self, events: Sequence[Event]) -> None:
        """Events without a change of the policy."""
        again = any(event.kind == "undone" for event in events)
        for event in events:
            number = event.question
            assert number is not None
            if event.kind == "asked":
                self._asked(event, number, again)
            elif event.kind == "answered":
                asked = self.questions[number]
                asked.state, asked.answer, asked.done = "answered", event.content["answer"], event.number
                del self.open[number]
                self.spent += asked.cost
                if not again:
                    self.play.tell(asked.address, asked.answer)
            elif event.kind == "undone":
                self._undone(number)
            elif event.kind == "withdrawn":
                self._withdraw(number)
        if again:
            self.play.restart(self._answers())
            for number, each in self.questions.items():
                if each.state in ("open", "answered"):
                    if each.asked > self.changed:  # the others were checked when they were asked
                        self._check(number, each)
                    self.play.asked(each.address)

    def _asked(self, event: Event, number: int, again: bool) -> None:
        content = event.content
        asked = AskedQuestion(_address(content), event.number, content["step"], content["trace"], content["version"])
        asked.cost = self.asks.cost(asked.address)
        self.questions[number] = self.open[number] = asked
        self.at[asked.address] = number
        if not again:
            self._check(number, asked)
            self.play.asked(asked.address)

    def _undone(self, number: int) -> None:
        taken = self.questions[number]
        taken.state = "undone"
        self.spent -= taken.cost
        del self.at[taken.address]
        for other in [other for other, each in self.open.items() if each.asked > taken.done]:
            self._withdraw(other)

    def _withdraw(self, number: int) -> None:
        self.questions[number].state = "withdrawn"
        del self.at[self.open.pop(number).address]

    def _check(self, number: int, asked: AskedQuestion) -> None:
        """Checks that this version decides as the version that asked the question did."""
        if asked.step > self.play.steps or self.play.trace(asked.step) != asked.trace:
            raise BadInput(
                "place", self.place,
                f"a journal of a version that decides the same: question {number} was asked by {asked.version}, and "
                f"this one ({__version__}) would not have asked it; go on with that version",
            )  # fmt: skip


def _address(asked: Mapping[str, Any]) -> Address:
    """Returns the address of a question that was asked. The first journals have numbers for the entities that a query
    excludes, and their names in what was shown alone."""
    found: Address = _tuples(asked["address"])
    shown = asked["about"].get("query")
    return (*found[:3], tuple(shown["exclude"])) if shown else found


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


__all__ = ["AskedQuestion", "Ledger"]
