"""Programs are compiled side by side, ahead of their use: JAX compiles in threads while others are traced, or run."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from jaxbandit.devices import cores
from jaxbandit.programs import store

THREADS = "jaxbandit-compiler"
"""How the names of the threads begin that compile."""
_GLANCE = 0.2


@dataclass(frozen=True)
class Program:
    """What ``jax.jit`` compiles for some shapes.

    Attributes:
        key: equal for equal programs.
        lower: traces the program and lowers it; a later plain call of the same function then finds it compiled.
        like: how it is called, for one that may be loaded from disk.
    """

    key: Any
    lower: Callable[[], Any] = field(compare=False)
    like: Callable[[], store.Like] | None = field(default=None, compare=False)


class Ahead:
    """Compiles programs in the order in which they will be needed, as many at a time as there are cores.

    The caller's thread traces them, in its own context of JAX and in between its waiting; compiling needs neither. What
    is raised by one of them is raised where that one is needed. As a context, it drops what has not begun at its end.
    """

    def __init__(self, programs: Iterable[Program] = ()) -> None:
        self._waiting = dict.fromkeys(programs)
        self._begun: dict[Program, Future[Any]] = {}
        self._ends: list[float] = []
        self._start = 0.0
        self._pool = ThreadPoolExecutor(cores(), THREADS)

    def __enter__(self) -> "Ahead":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        # Not waited for: the interpreter does so when it ends, because no compilation may outlive it.
        self._pool.shutdown(wait=False, cancel_futures=True)

    def need(self, program: Program, tell: Callable[[str], None]) -> Any | None:
        """Waits until a program is compiled, and traces the next ones meanwhile; ``tell`` is told what goes on.

        Returns it where it was loaded from disk, to be called in the function's place. None: a plain call finds it.
        """
        if program not in self._begun:
            self._begin(program)
        future = self._begun[program]
        while not future.done():
            tell(self.doing())
            if not wait([future], _GLANCE).done and self._waiting:
                self._begin(next(iter(self._waiting)))
        return future.result()

    def anew(self, program: Program) -> None:
        """Forgets a program that was loaded from disk, so that it is compiled when it is needed next."""
        store.forget(store.name_of(program.key))
        del self._begun[program]
        self._ends.pop()

    def doing(self) -> str:
        """As ``compiling 3 of 5 programs``: the first two are compiled."""
        count = len(self._begun) + len(self._waiting)
        return f"compiling {min(len(self._ends) + 1, count)} of {count} programs" if count > 1 else "compiling"

    def left(self) -> float:
        """A guess of the seconds until all are compiled: each takes as long as those before; NaN before the first."""
        count = len(self._begun) + len(self._waiting) - len(self._ends)
        if not count or not self._ends:
            return float("nan") if count else 0.0
        pace = (self._ends[-1] - self._start) / len(self._ends)
        return max(count * pace - (time.monotonic() - self._ends[-1]), (count - 1) * pace)

    def _begin(self, program: Program) -> None:
        self._waiting.pop(program, None)
        self._start = self._start or time.monotonic()
        which = store.here(program.key) if program.like else None
        known = which is not None and which in store.COMPILED
        name = store.name_of(program.key) if which and not known else None
        ready, found = (store.loaded(name), store.find(name)) if name else (None, None)
        future: Future[Any] = Future()
        try:
            if ready is not None or known:
                future.set_result(ready)
            elif found and program.like:
                future = self._pool.submit(store.load, found, program.like())
            else:
                future = self._pool.submit(store.compiled, program.lower(), name, which)
        except Exception as error:  # of the policy, or of the problem
            future.set_exception(error)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None  # or all that JAX was tracing would be printed
        self._begun[program] = future
        future.add_done_callback(lambda _: self._ends.append(time.monotonic()))
