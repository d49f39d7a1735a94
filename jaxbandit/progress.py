"""How far a simulation or a study is, and how that is shown: a bar, or a line now and then where no terminal is."""

import math
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

from jaxbandit.errors import BadInput


class Status(NamedTuple):
    """Says how far a simulation or a study is.

    Attributes:
        done, of: runs, counted over configurations.
        doing: what goes on, as "compiling 3 of 5 programs" or "running ee (2 of 6)".
        idle: steps that each of the runs at hand has made since one of them ended, at most.
        widest: half of the widest 95 % interval of the metric that is drawn or waited for, as far as this process has
            seen runs.
        left: a guess of the seconds that are left; NaN where nothing tells yet.
    """

    done: int
    of: int
    doing: str = ""
    idle: int = 0
    widest: float | None = None
    left: float | None = None


Progress = Callable[[Status], None]
"""Called whenever the status changes."""

_TICK = 1.0
_FIRST_LINE, _NEXT_LINE = 10.0, 30.0
_WORTH_A_WORD = 5.0
_COUNTED = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}{postfix}]"
_UNCOUNTED = "{desc}{postfix}"


@dataclass
class Clock:
    """Estimates the time that runs still take, in work that goes policy by policy.

    A run of a policy that has not run yet takes as long as those of the others.
    """

    running: float = 0.0
    """Seconds that runs have taken so far."""
    _rates: list[float] = field(default_factory=list)
    _runs: int = 0
    _later: int = 0
    _done: int = 0
    _before: float = 0.0
    _since: float | None = None
    """When runs were last seen to go on; None while they wait for a program."""

    def begin(self, runs: int, later: int = 0) -> None:
        """Begins a policy with so many runs to make, and so many ``later`` of those that follow."""
        self.tell(False, self._done)
        if self._done:
            self._rates.append((self.running - self._before) / self._done)
        self._runs, self._later, self._done, self._before = runs, later, 0, self.running

    def tell(self, running: bool, done: int) -> None:
        """Notes whether runs go on from now, and how many of the policy's are done."""
        now = time.monotonic()
        self.running += 0.0 if self._since is None else now - self._since
        self._since, self._done = now if running else None, done

    def left(self) -> float:
        """Returns the seconds that are left; NaN where no run is done to estimate them by."""
        own = [(self.running - self._before) / self._done] if self._done else []
        rates = [*self._rates, *own]
        if not rates:
            return math.nan
        usual = sum(rates) / len(rates)
        return (self._runs - self._done) * (own or [usual])[0] + self._later * usual


@contextmanager
def shown(progress: Progress | bool, doing: str = "", unit: str = "runs") -> Iterator[Progress]:
    """Yields what is called with each status: ``progress``, a display where it is True, nothing where it is False."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise BadInput("progress", progress, "True, False, or what is called with each Status")
    if progress is True:
        with Display(doing, unit) as display:
            yield display
    else:
        yield progress or (lambda status: None)


class Display:
    """Shows the status that it was called with last, anew each second, as the seconds pass while a program compiles.

    Nothing is shown in the first second, nor where tqdm is not installed.
    """

    def __init__(self, doing: str = "", unit: str = "runs") -> None:
        self.status = Status(0, 0, doing)
        self._unit = unit
        self._start = self._since = self._moved = self._told = time.monotonic()
        self._line_due = self._start + _FIRST_LINE
        self._make_bar = _bar_maker()
        self._bar: Any = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> "Display":
        if self._make_bar is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._over.set()
        if self._make_bar is not None:
            self._thread.join()
        if self._bar is not None:
            if kind is None:
                self(self.status._replace(doing="done", idle=0, left=None))
            self._draw()
            self._bar.close()

    def __call__(self, status: Status) -> None:
        """Takes what is to be shown."""
        now = time.monotonic()
        if status.doing != self.status.doing:
            self._since = now
        if status.done != self.status.done or status.doing != self.status.doing:
            self._moved = now
        self.status, self._told = status, now

    def _tick(self) -> None:
        while not self._over.wait(_TICK):
            if _bar_fits():
                self._draw()
            elif time.monotonic() >= self._line_due:
                self._line_due = time.monotonic() + _NEXT_LINE
                self.say(f"jaxbandit: {self.line()}")

    def say(self, line: str) -> None:
        """Prints a line to stderr, above the bar."""
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)

    def _draw(self) -> None:
        status = self.status
        if self._bar is None and self._make_bar is not None:
            self._bar = self._make_bar(desc=self._doing(), unit=f" {self._unit}", bar_format=_UNCOUNTED)
            self._bar.start_t -= time.monotonic() - self._start
        self._bar.bar_format = _COUNTED if status.of else _UNCOUNTED
        self._bar.total, self._bar.n, self._bar.unit_scale = status.of, status.done, status.of >= 10_000
        self._bar.set_description_str(self._doing(), refresh=False)
        self._bar.set_postfix_str("; ".join(self._asides()), refresh=False)
        self._bar.refresh()

    def line(self) -> str:
        """Returns the status and the time left, as one line of text."""
        status = self.status
        counted = [f"{status.done:,} of {status.of:,} {self._unit}"] if status.of else []
        return "; ".join([*counted, self._doing(), *self._asides()])

    def _doing(self) -> str:
        seconds = time.monotonic() - self._since
        return self.status.doing + (f", {seconds:.0f} s" if seconds >= 1 else "")

    def _asides(self) -> list[str]:
        status, asides = self.status, []
        if status.idle and time.monotonic() - self._moved > _WORTH_A_WORD:
            asides.append(f"no run has ended for {status.idle:,} steps")
        left = (status.left or 0.0) - (time.monotonic() - self._told)
        if status.done < status.of and (left > 0 or math.isnan(left)):
            asides.append("time left not known yet" if math.isnan(left) else f"about {_duration(left)} left")
        if status.widest is not None:
            asides.append(f"widest interval ±{status.widest:.2g}")
        return asides


def _duration(seconds: float) -> str:
    """Returns seconds for people: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _bar_fits() -> bool:
    """Returns whether stderr is a terminal, or a notebook's."""
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")


def _bar_maker() -> Callable[..., Any] | None:
    """tqdm's bar for a terminal or a notebook, if it is installed. It is the main thread that imports it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without widgets has a bar of text
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return lambda **given: tqdm(dynamic_ncols=True, **given)
