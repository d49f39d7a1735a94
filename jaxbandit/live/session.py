"""A session: a policy decides what an agent is asked next, and the journal keeps what was asked and answered."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from jaxbandit import __version__
from jaxbandit.errors import BadInput
from jaxbandit.live import inputs
from jaxbandit.live.case import Case
from jaxbandit.live.cleaning import CleaningQuestions
from jaxbandit.live.journal import Journal, Lease, Writing
from jaxbandit.live.ledger import AskedQuestion, Ledger
from jaxbandit.live.questions import Address, questions
from jaxbandit.live.standing import Standing
from jaxbandit.live.writeback import WriteBack
from jaxbandit.random.stream import stream
from jaxbandit.study.spec import Study, load

LEASE = 3600.0
"""Seconds for which a question is an agent's."""
_CLOSING = 2.0


class Session(Standing):
    """Runs a policy against real agents: see ``begin`` and ``open``. Several processes may have the same session open,
    and threads may share one object.

    Example:
        >>> from jaxbandit.live import Session
        >>> problem = {"kind": "topk/bernoulli", "n": 4, "K": 1, "budget": 12}
        >>> session = Session.begin({"problem": problem, "policy": [{"kind": "uniform"}]}, "uniform", "arms.db")
        >>> question = session.next()
        >>> question["how"], question["left"]
        ('the reward, 0 or 1', 12.0)
        >>> session.record(question["id"], "1")["left"]
        11.0
        >>> Session.open("arms.db").status()["spent"]
        1.0
    """

    def __init__(self, journal: Journal, case: Case, write_back: str = "") -> None:
        self.journal = journal
        self._write_back: WriteBack | None = None
        if write_back:
            with journal.reading() as connection:
                self._write_back = WriteBack(connection, write_back, case)
        self._ledger = Ledger(case, journal.place)
        self._nothing = (-1, 0)  # after how many events, and how far ahead, there was nothing to ask
        self._lock, self._current = threading.RLock(), cast(Writing | None, None)
        with self._writing():
            pass  # what is there

    @classmethod
    def begin(
        cls, study: Study | Path | str | Mapping[str, Any], policy: str, place: str | Path, /, *,
        write_back: str = "", **given: Any,
    ) -> "Session":  # fmt: skip
        """Begins a live session of a study's policy, with a new journal.

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
        inputs.text("write_back", write_back)
        case = Case.of(study, policy, given)
        journal = Journal.at(str(place))
        if write_back and not journal.there:  # to look into it would make the file
            raise BadInput("write_back", write_back, "a table in the database of the journal; there is no such file")
        if not write_back and case.has(place):
            raise BadInput("place", str(place), "a file of its own, as the problem's has to stay as it is")
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
        """Opens a session that was begun before, from its journal.

        Raises:
            BadInput: where there is none, where an input file has changed, and where this version would have decided
                otherwise than the one that asked.
        """
        journal = Journal.at(str(place))
        head = journal.head()
        own = str(place) if head["write_back"] else ""  # which changes, as the session writes into it
        return cls(journal, Case.back(head, journal.place, own), head["write_back"])

    @property
    def over(self) -> bool:
        """Returns whether nothing is asked any more, and no question is open."""
        with self._lock:
            self._catch_up()
            return self._over()

    def next(self, agent: str = "", *, lease: float = LEASE, ahead: int = 0) -> dict[str, Any]:
        """Returns the next question for an agent.

        An agent with a name gets its own open question again. A question whose lease has expired goes out again.

        Args:
            agent: who asks; "" is nobody in particular.
            lease: seconds for which nobody else gets the question.
            ahead: how many pulls the policy may be ahead of its open questions, taking these for failures. It is
                told the answers when it asks for them, so that it decides as without; those it never asks for are paid
                in vain.

        Returns:
            A JSON-ready dict with ``id``, ``key`` (a text that no question of another session has), ``family``, what is
            asked of (``entity`` and ``values``, with the ``sources`` of each in a table, ``arm`` with its ``name`` if
            the table has one, or ``query``), ``allowed`` answers, ``how``, ``why``, ``cost``, ``spent`` and ``left``,
            and ``until`` when it is the agent's (seconds of the Unix epoch). Without an ``id`` where there is none:
            ``over`` is then whether the session is.
        """
        inputs.text("agent", agent)
        inputs.lease("lease", lease)
        inputs.ahead("ahead", ahead)
        with self._writing() as writing:
            held = writing.leases()
            self._withdraw(writing)
            own = [number for number in self._ledger.open if agent and held.get(number, Lease("", 0)).agent == agent]
            free = [number for number in self._ledger.open if number not in held]
            number = next(iter([*own, *free]), None)
            if number is None:
                since = (len(self._ledger.events), ahead)
                address = None if since == self._nothing else next(self._next(ahead), None)
                if address is None:
                    self._nothing = since
                    return self._about(None) | {"over": not self._ledger.open, "open": len(self._ledger.open)}
                number = len(self.questions) + 1
                self._ledger.take([writing.add("asked", number, {
                    "address": address, "step": self.play.steps, "trace": self.play.trace(self.play.steps),
                    "version": __version__, "about": self.asks.shown(address, self.answers),
                })])  # fmt: skip
            until = writing.lease(number, agent, lease).until
            return self._about(number) | {"until": until}

    def asked(self, question: int | str) -> dict[str, Any]:
        """Returns what a question asks, as ``next`` gives it.

        Raises:
            BadInput: for a question that there is not.
        """
        with self._writing():
            return self._about(self._found(question))

    def hand_back(self, agent: str) -> None:
        """Ends the leases of an agent, so that its open questions go out to others."""
        with self._writing() as writing:
            for number in [number for number, lease in writing.leases().items() if lease.agent == agent]:
                writing.release(number)

    def record(self, question: int | str, answer: str, agent: str = "", cost: float | None = None) -> dict[str, Any]:
        """Records an answer; the same one again changes nothing.

        Args:
            question: its id.
            answer: one of those that it allows.
            agent: who answers.
            cost: what the answer really cost, kept beside it.

        Returns:
            A JSON-ready dict with ``id``, ``answer``, ``recorded`` (whether it was new), ``spent``, ``left``.

        Raises:
            BadInput: for a question that there is not, that is answered otherwise or was withdrawn, and an answer that
                is not allowed. One that comes too late is kept in the journal, and the policy is not told.
        """
        inputs.text("ANSWER", answer)
        inputs.text("agent", agent)
        if cost is not None:
            inputs.cost("cost", cost)
        late, new = "", False
        with self._writing() as writing:
            number = self._found(question)
            asked = self.questions[number]
            before = {each: value for each, value in self.answers.items() if each != asked.address}
            value = self.asks.parse(asked.address, answer, before)
            content = {"answer": value, "agent": agent} | ({} if cost is None else {"cost": cost})
            if asked.state != "open":
                if asked.state != "answered":
                    late = f"was {asked.state}"
                elif value != asked.answer:
                    late = f"has the answer {self.asks.text(asked.answer)}"
                if late and not self._ledger.has("late", number, content):
                    self._ledger.take([writing.add("late", number, content)])
            else:
                new = True
                content |= self._written(writing, asked.address, value)
                writing.release(number)
                self._ledger.take([writing.add("answered", number, content)])
            money = self._money()
        if late:
            raise BadInput("ID", question, f"a question that is open; this one {late}")
        return {"id": number, "answer": value, "recorded": new} | money

    def undo(self, question: int | str | None = None) -> dict[str, Any]:
        """Takes the last answer back. The policy asks for it anew, under another id; open questions that were asked
        since are withdrawn.

        Args:
            question: the id of the question whose answer that is, so that what is said twice takes back one answer.

        Returns:
            A JSON-ready dict with ``id`` of the question, the ``answer`` that was taken back, ``undone`` (whether it
            was now), ``spent``, ``left``.

        Raises:
            BadInput: where there is no answer, or ``question`` is not the one that was answered last.
        """
        with self._writing() as writing:
            named = None if question is None else self._found(question)
            if named and self.questions[named].state == "undone":
                return {"id": named, "answer": self.questions[named].answer, "undone": False} | self._money()
            told = {each.done: number for number, each in self.questions.items() if each.state == "answered"}
            if not told:
                raise BadInput("undo", "no answer", "a session with at least one answer")
            number = told[max(told)]
            if named not in (None, number):
                raise BadInput("ID", question, f"{number}, the question that was answered last")
            taken = self.questions[number]
            for each, asked in self._ledger.open.items():
                if asked.asked > taken.done:
                    writing.release(each)
            self._unwritten(writing, taken)
            self._ledger.take([writing.add("undone", number, {"answer": taken.answer})])
            return {"id": number, "answer": taken.answer, "undone": True} | self._money()

    def change(self, policy: str, /, **params: Any) -> dict[str, Any]:
        """Goes on with another policy, or with other parameters of the same one.

        What was answered stays, and is told to the new policy as far as it asks for it: it decides as if it had been
        there from the start, and what is known by now costs nothing. Open questions stay with the agents that have
        them; those that nobody has are withdrawn, unless the new policy asks them too.

        Args:
            policy: its kind.
            params: its parameters. What is left out is as in a study: tuned where the policy is, and then for the
                sc-pdf that fits the answers, once that can be told.

        Returns:
            A JSON-ready dict with ``policy`` and ``was``, their labels; ``unused`` answers, which the new policy has
            not asked for yet, of ``answers``; ``spent``, ``left``.

        Raises:
            BadInput: for a policy that there is not or that knows the truth, and for the one that there is.
        """
        with self._writing():
            now, fitted = self.case, self._fitted()  # with what others wrote
        case = now.with_policy(policy, params, fitted)
        with self._writing() as writing:
            was = self.case.label
            if case.table["policy"] == self.case.table["policy"]:
                raise BadInput("--policy", case.label, f"another one than now, or other parameters than {was} has")
            content = case.change(self.case) | {"was": was, "version": __version__}
            self._ledger.take([writing.add("changed", None, content)])
            self._withdraw(writing)
            return {
                "policy": case.label, "was": was, "answers": len(self.answers),
                "unused": len(self.answers) - len(self.play.told),
            } | self._money()  # fmt: skip

    def status(self) -> dict[str, Any]:
        """Returns how the session stands: money, answers and the family's metrics.

        Returns:
            A JSON-ready dict with ``policy``, ``spent``, ``left``, ``answers`` (how many), of which the policy has not
            asked for ``unused`` yet (see ``ahead``), ``open`` questions, ``late`` answers, ``over``, and the family's
            metrics so far; of arms that it mentions, ``names`` by row, where the table has some; where an answer came
            late and was another one, ``contradicted``: how often by each agent.
        """
        with self._lock:
            self._catch_up()
            return self._status()

    def _status(self) -> dict[str, Any]:
        found = self.asks.found(self.answers, self.play.answer())
        if "cost" in found:  # at the prices of the policy that asked
            found["cost"] = self.spent
        if self.case.names and "arms" in found:
            rows = sorted({*map(int, found["arms"]), *found.get("chosen", ()), *found.get("outliers", ())})
            found["names"] = {str(row): self.case.names[row] for row in rows}
        late, otherwise = self._ledger.late()
        return {
            "family": self.asks.family, "policy": self.case.label, **found, **self._money(),
            "answers": len(self.answers), "unused": len(self.answers) - len(self.play.told),
            "open": len(self._ledger.open), "late": late, "over": self._over(),
        } | ({"contradicted": otherwise} if otherwise else {})  # fmt: skip

    def _over(self) -> bool:
        return not self._ledger.open and (self.play.over or next(self._next(0), None) is None)

    def _catch_up(self) -> None:
        """Takes what other processes wrote."""
        with self._writing():
            pass

    def close(self) -> None:
        """Closes all connections to the journal's database, see ``Journal.close``."""
        alone = self._lock.acquire(timeout=_CLOSING)
        try:
            self.journal.close()
        finally:
            if alone:
                self._lock.release()

    def _next(self, ahead: int) -> Iterator[Address]:
        """Questions that can be asked now, within the budget."""
        ledger, asks, answers, left = self._ledger, self.asks, self.answers, self._ledger.left
        for address in self.play.wanted():
            if address not in ledger.at and asks.cost(address) <= left and asks.ready(address, answers):
                yield address
        if ahead:
            for address in self.play.foreseen(ahead, ledger.at):
                if asks.cost(address) <= left:
                    yield address

    def _withdraw(self, writing: Writing) -> None:
        """Questions of a policy that was replaced, which nobody is at work on and the new one does not ask."""
        if any(map(self._ledger.stale, self._ledger.open)):
            held = writing.leases()
            for number in [number for number in self._ledger.open if number not in held and self._ledger.stale(number)]:
                self._ledger.take([writing.add("withdrawn", number, {})])

    def _written(self, writing: Writing, address: Address, value: Any) -> dict[str, Any]:
        """Writes back what an answer decides; what the journal keeps of it."""
        if self._write_back is None or not isinstance(self.asks, CleaningQuestions):
            return {}
        entity, attempt = address
        left = self.asks.left(entity, {**self.answers, address: value}, attempt + 1)
        if len(left) > 1:
            return {}
        claimed, column = self.asks.candidates(entity), self.asks.column(entity)
        name = self.asks.name(entity)
        return {"written": self._write_back.write(writing.connection, name, column, left[0], claimed)}

    def _unwritten(self, writing: Writing, taken: AskedQuestion) -> None:
        """Puts back what an answer has written."""
        written = self._ledger.events[taken.done - 1].content.get("written")
        if written and self._write_back is not None and isinstance(self.asks, CleaningQuestions):
            entity = self.asks.name(taken.address[0])
            self._write_back.restore(writing.connection, entity, written)

    @contextmanager
    def together(self) -> Iterator[Writing]:
        """Calls in here are one transaction: none of them counts before the end, and it is on disk then."""
        with self._lock:
            last = self._ledger.events[-1] if self._ledger.events else None
            before = len(self._ledger.events)
            try:
                with self.journal.writing(last.number if last else 0, last.chain if last else "") as writing:
                    self._ledger.take(writing.news())
                    before, self._current = len(self._ledger.events), writing
                    yield writing
            except BaseException:
                if len(self._ledger.events) > before:  # what is not on disk is not so
                    self._ledger.forget()
                    self._nothing = (-1, 0)
                raise
            finally:
                self._current = None

    @contextmanager
    def _writing(self) -> Iterator[Writing]:
        """Opens a transaction that begins with what others wrote, or goes on in that of ``together``. What fails in
        here leaves nothing, there as little."""
        with self._lock:
            if self._current is None:
                with self.together() as writing:
                    yield writing
                return
            before, writing = len(self._ledger.events), self._current
            try:
                with writing.apart(statements=self._write_back is not None):
                    yield writing
            except BaseException:
                self._ledger.back(before)
                self._nothing = (-1, 0)
                raise


__all__ = ["LEASE", "Session"]
