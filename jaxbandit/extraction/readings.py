"""What the text of Rekatsinas, Deshpande and Parameswaran 2019 leaves open of CRUX: each reading is a named option."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Readings:
    """The options of CRUX that change its program, as ``crux`` makes them, which explains each and has its default.

    Example:
        >>> from jaxbandit import extraction
        >>> readings = extraction.crux("good-turing", empty="always").readings
        >>> readings.empty, readings.never_asked, readings.bootstrap
        ('always', 'one', 10)
        >>> readings == extraction.crux("good-turing", empty="always").readings, hash(readings) == hash(readings)
        (True, True)
    """

    estimator: str
    removal: str
    unseen: str
    gain: str
    variance: str
    never_asked: str
    asked_by: str
    affordable: str
    exclude_from: str
    short_list: str
    empty: str
    removal_at_start: bool
    reentry: bool
    bootstrap: int
    exclude_draws: int
