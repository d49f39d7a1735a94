"""What a session tells of itself: its policy, its answers, what they cost, and what the rest should bring."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from jaxbandit.errors import BadInput
from jaxbandit.laws import Beta
from jaxbandit.live import forecast, forecast_arms, forecast_extraction, inputs
from jaxbandit.live.advice import advice
from jaxbandit.live.arms import OutlierQuestions, TopQuestions
from jaxbandit.live.case import Case
from jaxbandit.live.cleaning import CleaningQuestions
from jaxbandit.live.extraction import ExtractionQuestions
from jaxbandit.live.forecast import records_of, told_by
from jaxbandit.live.ledger import AskedQuestion, Ledger
from jaxbandit.live.play import Play
from jaxbandit.live.questions import Address, Questions
from jaxbandit.parsers import as_printed


class Standing:
    """Tells how a session stands after the events of its ledger, which changes under its lock alone."""

    _ledger: Ledger
    _lock: Any

    def _catch_up(self) -> None:
        """Takes what other processes wrote."""
        raise NotImplementedError

    @property
    def case(self) -> Case:
        """Returns the problem, and the policy as of its last change."""
        return self._ledger.case

    @property
    def asks(self) -> Questions:
        """Returns how the policy's pulls are asked for."""
        return self._ledger.asks

    @property
    def play(self) -> Play:
        """Returns the policy's run on the answers so far."""
        return self._ledger.play

    @property
    def questions(self) -> Mapping[int, AskedQuestion]:
        """Returns all questions that were asked, by number."""
        return self._ledger.questions

    @property
    def budget(self) -> float:
        """Returns what all answers together may cost."""
        return float(self.case.chosen.setting.budget)

    @property
    def answers(self) -> Mapping[Address, Any]:
        """Returns all answers that count, by address."""
        return self.play.answers

    @property
    def spent(self) -> float:
        """Returns what all answers together have cost."""
        return self._ledger.spent / self.asks.units

    @property
    def files(self) -> list[Path]:
        """Returns where the files of the session are, or were: the journal, and those that it was begun with."""
        place = self._ledger.place
        own = [] if "://" in place else [f"{place}{end}" for end in ("", "-wal", "-shm", "-journal")]
        return [Path(each) for each in (*own, *(path for path, _ in self.case.files.values()))]

    def changes(self) -> list[dict[str, Any]]:
        """Returns the changes of the policy: ``policy``, ``was``, and what was ``spent`` by then."""
        with self._lock:
            self._catch_up()
            return self._ledger.changes()

    def forecast(self) -> dict[str, Any]:
        """Returns what the rest of the budget is expected to bring, by simulation from the state that was reached.

        Returns:
            JSON-ready: see the functions of this name in ``live.forecast``, ``live.forecast_arms`` and
            ``live.forecast_extraction``. Where it cannot be told, ``none``: a line that says why.
        """
        case, asks, play, left = self._now()
        chosen, seed = case.chosen, case.table["seed"]
        if isinstance(asks, CleaningQuestions):
            return forecast.forecast(asks, play, chosen, left, seed)
        if isinstance(asks, TopQuestions | OutlierQuestions):
            return forecast_arms.forecast(asks, play, chosen, left, seed)
        if isinstance(asks, ExtractionQuestions):
            return forecast_extraction.forecast(asks, play, chosen, left, seed)
        return {"none": f"the family {asks.family} has none"}

    def advice(self) -> dict[str, Any]:
        """Compares what other policies, or other parameters, would bring from here on with this one's: see ``change``.

        Returns:
            JSON-ready: see ``live.advice``. Where it cannot be told, ``none``: a line that says why.
        """
        case, asks, play, left = self._now()
        if not isinstance(asks, CleaningQuestions):
            return {"none": "only sessions of cleaning are advised"}
        return advice(case, asks, play, left)

    def _now(self) -> tuple[Case, Questions, Play, int]:
        """Returns the case, its questions, the run and the money that is left (in units), which no other thread changes
        while they are read."""
        with self._lock:
            self._catch_up()
            return self.case, self.asks, self.play.copy(), max(self._ledger.budget - self._ledger.spent, 0)

    def told(self) -> list[dict[str, Any]]:
        """Returns the answered questions in order: ``id``, what was asked, ``answer``, ``agent``, ``at``."""
        rows = []
        with self._lock:
            self._catch_up()
            asked = {event.question: event.content["about"] for event in self._ledger.events if event.kind == "asked"}
            for event in self._ledger.events:
                if (number := self._ledger.answered(event)) is not None:
                    hidden = ("allowed", "how", "why")
                    about = {name: value for name, value in asked[number].items() if name not in hidden}
                    rows.append({"id": number, **about, **event.content, "at": event.at})
        return rows

    def answer_of(self, number: int) -> tuple[Address, Any]:
        """Returns the address of an answered question, and its answer."""
        return self.questions[number].address, self.questions[number].answer

    def _fitted(self) -> Beta | None:
        """Returns the sc-pdf that fits the answers, where the family has one."""
        agent = told_by(records_of(self.asks, self.answers)) if isinstance(self.asks, CleaningQuestions) else None
        return None if agent is None else agent.best

    def _found(self, question: int | str) -> int:
        """Returns the number of a question that there is."""
        number = inputs.place(question)
        if number not in self.questions:
            last = f"1 to {len(self.questions)}" if self.questions else "`jaxbandit live next` asks the first one"
            raise BadInput("ID", question, f"a question of this session: {last}")
        return number

    def _about(self, number: int | None) -> dict[str, Any]:
        about: dict[str, Any] = {"family": self.asks.family}
        if number is not None:
            asked = self.questions[number]
            shown = self.asks.shown(asked.address, self.answers)
            key = self._ledger.events[asked.asked - 1].chain
            about = {"id": number, "key": key, **about, **shown, "cost": asked.cost / self.asks.units}
            if (names := self.case.names) and "arm" in shown:
                about["name"] = names[shown["arm"]]
            if (sources := self.case.sources) and "entity" in shown:
                about["sources"] = {
                    value: found
                    for value in shown["values"]
                    if (found := sources.get((shown["entity"], self.case.same(value))))
                }
        return about | self._money()

    def _money(self) -> dict[str, float]:
        left = as_printed(self.budget) - Fraction(self._ledger.spent, self.asks.units)  # not a bit off, as of floats
        return {"spent": self.spent, "left": max(float(left), 0.0)}
