"""Live: a policy of a study decides against a real agent, question by question, with a journal that loses nothing.

    session = live.Session.begin("study.toml", "ee", "session.journal", budget=500)
    question = session.next()
    session.record(question["id"], question["allowed"][0])
    session.status()

A session makes the decisions that ``simulate`` makes of the same policy, given the same answers. It needs the extra
``live``.
"""

from jaxbandit.live import arms, cleaning, extraction
from jaxbandit.live.session import LEASE, Session

__all__ = ["LEASE", "Session", "arms", "cleaning", "extraction"]
