"""Kills a live session at random moments, again and again, and looks what became of its answers.

    python -m tests.live_kills [--kills 200] [--journal PLACE]

A process answers the questions of a session, and notes each answer that ``record`` said was kept. It is killed with
SIGKILL and started again. Then the session is played to its end: every noted answer is in the journal, none is there
twice, and the decisions are those of a session that nobody killed.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jaxbandit.live import Session

_PER_KILL = 40


def _study(budget: int) -> dict[str, object]:
    problem = {"kind": "cleaning/synthetic", "entities": budget, "budget": budget, "false_values": {"uniform": [1, 6]}}
    return {"seed": 5, "problem": problem, "policy": [{"kind": "ee", "t": 3, "q": 0.6}]}


def _answer(asked: dict[str, object]) -> str:
    """By entity and values alone, so that it is the same whoever asks and how often."""
    rng = random.Random(json.dumps([asked["entity"], asked["values"], asked["why"]]))
    return rng.choice([asked["allowed"][0], asked["allowed"][-1]])  # type: ignore[index]


def answer_all(place: str, notes: Path | None) -> Session:
    """Answers what is asked until nothing is."""
    session = Session.open(place)
    while "id" in (asked := session.next("agent")):
        session.record(asked["id"], _answer(asked), "agent")
        if notes is not None:
            with notes.open("a") as file:
                file.write(f"{asked['id']}\n")
    return session


def killed(place: str, kills: int, seed: int = 0) -> int:
    """Runs the session at a place, which is begun here, and kills it; returns how many answers it had at the end.

    Raises:
        AssertionError: where an answer was lost or told twice, or a decision is another one.
    """
    rng, study = random.Random(seed), _study(200 + _PER_KILL * kills)
    Session.begin(study, "ee", place).close()
    with tempfile.TemporaryDirectory() as name:
        notes, calm = Path(name) / "notes", str(Path(name) / "calm")
        notes.touch()
        done = 0
        while done < kills:
            worker = subprocess.Popen(
                [sys.executable, "-m", "tests.live_kills", "--work", str(notes), "--journal", place]
            )
            before, end = notes.stat().st_size, time.monotonic() + 120
            while notes.stat().st_size == before and worker.poll() is None and time.monotonic() < end:
                time.sleep(0.002)
            time.sleep(rng.expovariate(1 / 0.05))
            finished = worker.poll() is not None
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            assert not finished or worker.returncode == 0
            if finished:
                break
            done += 1
        session = answer_all(place, None)
        told = [row["id"] for row in session.told()]
        noted = [int(line) for line in notes.read_text().split("\n")[:-1]]
        assert set(noted) <= set(told), "an answer was lost"
        assert len(told) == len(set(told)) == len(session.answers), "an answer was told twice"
        Session.begin(study, "ee", calm).close()
        alone = answer_all(calm, None)
        assert session.play.trace(session.play.steps) == alone.play.trace(alone.play.steps), "another decision"
        print(f"{done} kills, {len(noted)} answers noted, {len(told)} in the journal, as without a kill")
        return len(told)


def main() -> None:
    """From the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--journal", metavar="PLACE")
    options.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.work:
        answer_all(given.journal, given.work)
        return
    with tempfile.TemporaryDirectory() as name:
        killed(given.journal or os.path.join(name, "journal"), given.kills)


if __name__ == "__main__":
    main()
