"""Where requests of a live session wait: for their turn to be written, and for a question."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from sqlalchemy.exc import DBAPIError

from jaxbandit.live.session import Session

_AT_ONCE, _LOOK = 256, 1.0

Call = Callable[[], dict[str, Any]]


class Desk:
    """Takes the calls that wait into one transaction after another, so that one write to the disk serves them all."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: list[tuple[Call, asyncio.AbstractEventLoop, asyncio.Future[Any]]] = []
        self._there = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    async def call(self, what: Call) -> dict[str, Any]:
        """Returns what a call of the session gives, once it is on disk."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[dict[str, Any]] = loop.create_future()
        with self._there:
            self._waiting.append((what, loop, future))
            self._there.notify()
        return await future

    def close(self) -> None:
        """Ends once all that waits is done."""
        with self._there:
            self._closed = True
            self._there.notify()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            with self._there:
                while not self._waiting and not self._closed:
                    self._there.wait()
                if not self._waiting:
                    return
                some, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
            results: list[Any] = []
            try:
                with self._session.together():
                    for what, _, _ in some:
                        try:
                            results.append(what())
                        except DBAPIError:  # the transaction may be over
                            raise
                        except Exception as error:  # of this call alone, which left nothing
                            results.append(error)
            except Exception as error:  # none of them is on disk
                results = [error] * len(some)
            for (_, loop, future), result in zip(some, results, strict=True):
                loop.call_soon_threadsafe(_settle, future, result)


class Line:
    """Agents that wait for a question. An answer wakes the first of them, and who gets a question wakes the next one,
    so that an answer does not wake all of them.

    Each asks every ``_LOOK`` seconds too: for leases that ended, and for answers that another process recorded.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: deque[asyncio.Event] = deque()

    def wake(self) -> None:
        """Wakes the first agent that waits, which then asks for a question."""
        if self._waiting:
            self._waiting.popleft().set()

    async def next(self, ask: Call, wait: float, gone: Callable[[], Awaitable[bool]]) -> dict[str, Any]:
        """Returns what ``ask`` gives: once it is a question or the end, or after ``wait`` seconds. An agent that is
        ``gone`` is given no question."""
        end = time.monotonic() + wait
        found = await self._desk.call(ask)
        while not (done := "id" in found or found["over"]) and (left := end - time.monotonic()) > 0:
            await self._stand(min(left, _LOOK))
            if await gone():
                break
            found = await self._desk.call(ask)
        if done or wait:
            self.wake()
        return found

    async def _stand(self, seconds: float) -> None:
        """Waits in the line until it is this one's turn or the time is over."""
        turn = asyncio.Event()
        self._waiting.append(turn)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await turn.wait()
        if not turn.is_set():
            self._waiting.remove(turn)


def _settle(future: "asyncio.Future[Any]", result: Any) -> None:
    if future.cancelled():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


__all__ = ["Desk", "Line"]
