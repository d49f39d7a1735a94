"""A session: a policy decides what an agent is asked next, and the journal keeps what was asked and answered."""

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from jaxbandit import __version__
from jaxbandit.errors import BadInput
from jaxbandit.live.case import Case
from jaxbandit.live.cleaning import CleaningQuestions
from jaxbandit.live.forecast import forecast
from jaxbandit.live.journal import Event, Journal, Lease, Writing
from jaxbandit.live.play import Play
from jaxbandit.live.questions import Address, questions
from jaxbandit.live.writeback import WriteBack
from jaxbandit.random.stream import stream
from jaxbandit.study.spec import Study, load

LEASE = 3600.0
"""Seconds for which a question is an agent's."""


@dataclass
class _Question:
    """``asked``: the number of its event. ``state``: open, answered, undone or withdrawn."""

    address: Address
    asked: int
    step: int
    trace: str
    version: str
    state: str = "open"
    answer: Any = None
    done: int = 0


class Session:
    """A live session: see ``begin`` and ``open``. Several processes may have the same one open, and threads may share
    one object.

    Attributes:
        case: the problem and the policy.
    """

    def __init__(self, journal: Journal, case: Case, write_back: str = "") -> None:
        self.journal, self.case = journal, case
        self._write_back: WriteBack | None = None
        if write_back:
            with journal.reading() as connection:
                self._write_back = WriteBack(connection, write_back, case)
        chosen, key = case.chosen, stream(case.table["seed"], 0)
        self.asks = questions(chosen.setting, chosen.problem, chosen.policy, key)
        self.play = Play(chosen.problem, chosen.policy, key, self.asks)
        self.events: list[Event] = []
        self._questions: dict[int, _Question] = {}
        self._open: dict[int, _Question] = {}
        self._at: dict[Address, int] = {}
        self._spent = 0.0
        self._foreseen: list[Address] = []
        self._seen_at = -1
        self._lock, self._current = threading.RLock(), cast(Writing | None, None)
        with self._writing():
            pass  # what is there

    @classmethod
    def begin(
        cls, study: Study | Path | str | Mapping[str, Any], policy: str, place: str | Path, *, write_back: str = "",
        **given: Any,
    ) -> "Session":  # fmt: skip
        """Begins a session.

        Args:
            study: a study, the path of a study file, or a mapping as it has them.
            policy: one of the study's, by its kind or by its label (``ee t=3 q=0.667``).
            place: where the journal is to be: a file, or a URL such as ``postgresql://user@host/database``.
            write_back: a table of the same database with the columns of the problem's; each value that is decided is
                written there in the transaction of its answer, and ``undo`` puts back what was there.
            given: parameters of the problem, as its budget, in place of those of the study.

        Raises:
            BadInput: for what does not exist, a policy that knows the truth, and a place that has a journal.
        """
        if isinstance(study, Mapping):
            study = Study.of(study, counted=False)
        elif not isinstance(study, Study):
            study = load(study, counted=False)
        case = Case.of(study, policy, given)
        journal = Journal.at(str(place))
        chosen = case.chosen
        questions(chosen.setting, chosen.problem, chosen.policy, stream(case.table["seed"], 0))  # or there are none
        head = {"version": __version__, "write_back": write_back, **case.head()}
        if write_back:
            with journal.reading() as connection:
                WriteBack(connection, write_back, case)
        journal.create(head)
        return cls(journal, case, write_back)

    @classmethod
    def open(cls, place: str | Path) -> "Session":
        """Goes on with a session.

        Raises:
            BadInput: where there is none, where an input file has changed, and where this version would have decided
                otherwise than the one that asked.
        """
        journal = Journal.at(str(place))
        head = journal.head()
        own = str(place) if head["write_back"] else ""  # which changes, as the session writes into it
        return cls(journal, Case.back(head, own), head["write_back"])

    @property
    def budget(self) -> float:
        """What all answers together may cost."""
        return float(self.case.chosen.setting.budget)

    @property
    def answers(self) -> Mapping[Address, Any]:
        """By address."""
        return self.play.answers

    @property
    def spent(self) -> float:
        """What the answers cost."""
        return self._spent

    @property
    def over(self) -> bool:
        """Whether nothing is asked any more, and no question is open."""
        return not self._open and (self.play.over or next(self._next(0), None) is None)

    def next(self, agent: str = "", *, lease: float = LEASE, ahead: int = 0) -> dict[str, Any]:
        """The next question for an agent.

        An agent with a name gets its own open question again. A question whose lease has expired goes out again.

        Args:
            agent: who asks; "" is nobody in particular.
            lease: seconds for which nobody else gets the question.
            ahead: how many of its pulls the policy may look ahead for questions, taking open ones for failures. It is
                told the answers when it asks for them, so that it decides as without; those it never asks for are paid
                in vain.

        Returns:
            JSON-ready: ``id``, ``family``, what is asked of (``entity`` and ``values``, with the ``sources`` of
            each in a table, ``arm`` or ``query``),
            ``allowed`` answers, ``how``, ``why``, ``cost``, ``spent`` and ``left``, and ``until`` when it is the
            agent's (seconds of the Unix epoch). Without an ``id`` where there is none: ``over`` is then whether the
            session is.
        """
        if not lease > 0 or not lease < 1e9:
            raise BadInput("lease", lease, "seconds, above 0")
        if isinstance(ahead, bool) or not 0 <= ahead <= 10_000:
            raise BadInput("ahead", ahead, "a whole number from 0 to 10000")
        with self._writing() as writing:
            held = writing.leases()
            own = [number for number in self._open if agent and held.get(number, Lease("", 0)).agent == agent]
            free = [number for number in self._open if number not in held]
            number = next(iter([*own, *free]), None)
            if number is None:
                address = next(self._next(ahead), None)
                if address is None:
                    return self._about(None) | {"over": not self._open, "open": len(self._open)}
                number = len(self._questions) + 1
                self._take([writing.add("asked", number, {
                    "address": address, "step": self.play.steps, "trace": self.play.trace(self.play.steps),
                    "version": __version__, "about": self.asks.shown(address, self.answers),
                })])  # fmt: skip
            until = writing.lease(number, agent, lease).until
            return self._about(number) | {"until": until}

    def record(self, question: int | str, answer: str, agent: str = "", cost: float | None = None) -> dict[str, Any]:
        """Records an answer; the same one again changes nothing.

        Args:
            question: its id.
            answer: one of those that it allows.
            agent: who answers.
            cost: what the answer really cost, kept beside it.

        Returns:
            JSON-ready: ``id``, ``answer``, ``recorded`` (whether it was new), ``spent``, ``left``.

        Raises:
            BadInput: for a question that there is not, that is answered otherwise or was withdrawn, and an answer that
                is not allowed. One that comes too late is kept in the journal, and the policy is not told.
        """
        late, new = None, False
        with self._writing() as writing:
            asked = self._found(question)
            number = int(question)
            if asked.state in ("undone", "withdrawn"):
                raise BadInput("ID", question, f"a question that is open; this one was {asked.state}")
            before = self.answers
            if asked.state == "answered":
                before = {each: value for each, value in self.answers.items() if each != asked.address}
            value = self.asks.parse(asked.address, answer, before)
            content = {"answer": value, "agent": agent} | ({} if cost is None else {"cost": cost})
            if asked.state == "answered":
                if value != asked.answer:
                    late = asked.answer
                    self._take([writing.add("late", number, content)])
            else:
                new = True
                writing.release(number)
                content |= self._written(writing, asked.address, value)
                self._take([writing.add("answered", number, content)])
        if late is not None:
            raise BadInput("ID", question, f"a question that is open; this one has the answer {_text(late)}")
        return {"id": number, "answer": value, "recorded": new} | self._money()

    def undo(self) -> dict[str, Any]:
        """Takes the last answer back. The policy asks for it anew, under another id; open questions that were asked
        since are withdrawn.

        Returns:
            JSON-ready: ``id`` of the question, the ``answer`` that was taken back, ``spent``, ``left``.

        Raises:
            BadInput: where there is no answer.
        """
        with self._writing() as writing:
            told = {each.done: number for number, each in self._questions.items() if each.state == "answered"}
            if not told:
                raise BadInput("undo", "no answer", "a session with at least one")
            number = told[max(told)]
            answer = self._questions[number].answer
            for each in self._open:
                writing.release(each)
            written = self.events[self._questions[number].done - 1].content.get("written")
            if written and self._write_back is not None:
                self._write_back.restore(writing.connection, written["column"], written["before"])
            self._take([writing.add("undone", number, {"answer": answer})])
        return {"id": number, "answer": answer} | self._money()

    def status(self) -> dict[str, Any]:
        """How the session stands.

        Returns:
            JSON-ready: ``policy``, ``spent``, ``left``, ``answers`` (how many), of which the policy has not asked for
            ``unused`` yet (see ``ahead``), ``open`` questions, ``late`` answers, ``over``, and the family's metrics so
            far; where an answer came late and was another one, ``contradicted``: how often by each agent.
        """
        with self._writing():
            pass  # what others wrote
        found = self.asks.found(self.answers, self.play.answer())
        late = Counter(
            event.content["agent"] or "nobody in particular" for event in self.events if event.kind == "late"
        )
        return {
            "family": self.asks.family, "policy": self.case.label, **found, **self._money(),
            "answers": len(self.answers), "unused": len(self.answers) - len(self.play.told), "open": len(self._open),
            "late": late.total(), "over": self.over,
        } | ({"contradicted": dict(late)} if late else {})  # fmt: skip

    def forecast(self) -> dict[str, Any] | None:
        """What the rest of the budget is expected to bring, by simulation from the state that was reached.

        Returns:
            JSON-ready: see ``live.forecast``; None where the family has no such simulation.
        """
        if not isinstance(self.asks, CleaningQuestions):
            return None
        chosen = self.case.chosen
        return forecast(self.asks, self.play, chosen.problem, chosen.policy, self.case.table["seed"])

    def told(self) -> list[dict[str, Any]]:
        """The answered questions in order: ``id``, what was asked, ``answer``, ``agent``, ``at``."""
        asked = {event.question: event.content["about"] for event in self.events if event.kind == "asked"}
        rows = []
        for event in self.events:
            number = event.question
            if event.kind == "answered" and number is not None and self._questions[number].done == event.number:
                about = {name: value for name, value in asked[number].items() if name not in ("allowed", "how", "why")}
                rows.append({"id": number, **about, **event.content, "at": event.at})
        return rows

    def answer_of(self, number: int) -> tuple[Address, Any]:
        """The address of an answered question, and its answer."""
        return self._questions[number].address, self._questions[number].answer

    def close(self) -> None:
        """Gives the database's connections back."""
        self.journal.close()

    def _next(self, ahead: int) -> Iterator[Address]:
        """Questions that can be asked now, within the budget."""
        left = self.budget - self.spent - sum(self.asks.cost(each.address) for each in self._open.values())
        for address in self.play.wanted():
            if address not in self._at and self.asks.cost(address) <= left and self.asks.ready(address, self.answers):
                yield address
        if ahead:
            # What was foreseen some steps ago does: it only says which answers may be needed soon.
            since = self.play.steps - self._seen_at
            if since > (ahead // 2 if self._foreseen else ahead // 10) or since < 0:
                self._foreseen, self._seen_at = list(self.play.ahead(ahead)), self.play.steps
            for address in list(self._foreseen):
                if address in self._at or address in self.answers:
                    self._foreseen.remove(address)
                elif self.asks.cost(address) <= left and self.asks.ready(address, self.answers):
                    yield address

    def _written(self, writing: Writing, address: Address, value: Any) -> dict[str, Any]:
        """Writes back what an answer decides; what the journal keeps of it."""
        if self._write_back is None or not isinstance(self.asks, CleaningQuestions):
            return {}
        entity, attempt = address
        left = self.asks.left(entity, {**self.answers, address: value}, attempt + 1)
        if len(left) > 1:
            return {}
        claimed, column = self.asks.candidates(entity), self.asks.column(entity)
        before = self._write_back.write(writing.connection, self.asks.name(entity), column, left[0], claimed)
        return {"written": {"column": column, "value": left[0], "before": before}}

    def _found(self, question: int | str) -> _Question:
        number = int(question) if str(question).isascii() and str(question).isdigit() else 0
        if number not in self._questions:
            last = f"1 to {len(self._questions)}" if self._questions else "`jaxbandit live next` asks the first one"
            raise BadInput("ID", question, f"a question of this session: {last}")
        return self._questions[number]

    def _about(self, number: int | None) -> dict[str, Any]:
        about: dict[str, Any] = {"family": self.asks.family}
        if number is not None:
            asked = self._questions[number]
            shown = self.asks.shown(asked.address, self.answers)
            about = {"id": number, **about, **shown, "cost": self.asks.cost(asked.address)}
            if (sources := self.case.sources) and "entity" in shown:
                about["sources"] = {
                    value: found for value in shown["values"] if (found := sources.get((shown["entity"], value)))
                }
        return about | self._money()

    def _money(self) -> dict[str, float]:
        spent = self.spent
        return {"spent": spent, "left": max(self.budget - spent, 0)}

    @contextmanager
    def together(self) -> Iterator[Writing]:
        """Calls in here are one transaction: none of them counts before the end, and it is on disk then."""
        with self._lock:
            last = self.events[-1] if self.events else None
            before = len(self.events)
            try:
                with self.journal.writing(last.number if last else 0, last.chain if last else "") as writing:
                    self._take(writing.news())
                    before, self._current = len(self.events), writing
                    yield writing
            except BaseException:
                if len(self.events) > before:  # what is not on disk is not so
                    self._forget()
                raise
            finally:
                self._current = None

    @contextmanager
    def _writing(self) -> Iterator[Writing]:
        """A transaction that begins with what others wrote, or that of ``together``."""
        with self._lock:
            if self._current is not None:
                yield self._current
                return
            with self.together() as writing:
                yield writing

    def _forget(self) -> None:
        """As before the first event; the next transaction reads the journal anew."""
        self.events = []
        self._questions, self._open, self._at, self._spent, self._foreseen = {}, {}, {}, 0.0, []
        self._seen_at = -1
        self.play.restart({})

    def _take(self, events: Sequence[Event]) -> None:
        """The journal's next events: which questions are open, and what the policy is told."""
        again = len(events) > 8 or any(event.kind == "undone" for event in events)
        self.events += events
        for event in events:
            number = event.question
            assert number is not None
            if event.kind == "asked":
                address = _address(event.content["address"])
                content = event.content
                asked = _Question(address, event.number, content["step"], content["trace"], content["version"])
                self._questions[number] = self._open[number] = asked
                self._at[address] = number
                if not again:
                    self._check(number, asked)
                    self.play.asked(address)
            elif event.kind == "answered":
                asked = self._questions[number]
                asked.state, asked.answer, asked.done = "answered", event.content["answer"], event.number
                del self._open[number]
                self._spent += self.asks.cost(asked.address)
                if not again:
                    self.play.tell(asked.address, asked.answer)
            elif event.kind == "undone":
                self._undo(number)
        if again:
            live = {number: each for number, each in self._questions.items() if each.state in ("open", "answered")}
            self.play.restart({each.address: each.answer for each in live.values() if each.state == "answered"})
            for number, each in live.items():
                self._check(number, each)
                self.play.asked(each.address)

    def _undo(self, number: int) -> None:
        taken = self._questions[number]
        taken.state, self._foreseen, self._seen_at = "undone", [], -1
        self._spent -= self.asks.cost(taken.address)
        del self._at[taken.address]
        for other, each in list(self._open.items()):
            if each.asked > taken.done:
                each.state = "withdrawn"
                del self._open[other], self._at[each.address]

    def _check(self, number: int, asked: _Question) -> None:
        """Whether this version decided as the one that asked had."""
        if asked.step > self.play.steps or self.play.trace(asked.step) != asked.trace:
            raise BadInput(
                "--journal", self.journal.place,
                f"of a version that decides alike: question {number} was asked by {asked.version}, and this one "
                f"({__version__}) would not have asked it; go on with that version",
            )  # fmt: skip


def _address(value: Any) -> Any:
    return tuple(map(_address, value)) if isinstance(value, list) else value


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


__all__ = ["LEASE", "Session"]
