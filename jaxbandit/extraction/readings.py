"""What the text of Rekatsinas, Deshpande and Parameswaran 2019 leaves open of CRUX: each reading is a named option.

An option is declared here alone, with what it may be and what it means: Python and study files read it here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from jaxbandit.errors import BadInput
from jaxbandit.extraction.estimators import ESTIMATORS
from jaxbandit.registry import Parameter, flag, one_of, whole
from jaxbandit.space import Choice, Range


def _option(default: Any, parse: Callable[[str, Any], Any], help: str, **more: Any) -> Any:
    """``more``: see ``Parameter``; a reading is searched where that is asked for."""
    return field(default=default, metadata={"parse": parse, "help": help, "on_request": True, **more})


def _words(help: str, *words: str, **more: Any) -> Any:
    return _option(words[0], one_of(*words), help, **more)


_RESAMPLED = {"bootstrap": Range(1, 1000)}


@dataclass(frozen=True)
class Readings:
    """The options of CRUX; ``parameters()`` says what each means. Defaults are the text where that is clear.

    Raises:
        BadInput: for a value that an option cannot have.

    Example:
        >>> from jaxbandit.extraction import Readings
        >>> readings = Readings.of(estimator="good-turing", empty="always")
        >>> readings.empty, readings.never_asked, readings.bootstrap
        ('always', 'one', 10)
        >>> readings == Readings(estimator="good-turing", empty="always"), hash(readings) == hash(Readings())
        (True, False)
    """

    estimator: str = _option("chao92", one_of(*ESTIMATORS, "new-regr"), "of the gain", on_request=False)
    removal: str = _words(
        "whether bad queries leave for good (Algorithm 2 as printed), for the next round, or never",
        "lasting", "fresh", "none",
    )  # fmt: skip
    unseen: str = _words("the gain of a node without answers, or all of whose answers are excluded: k or 1", "k", "one")
    gain: str = _words(
        "r: the estimate by the sample, or its mean over bootstrap samples, which repeat entities, so that it is lower",
        "sample", "bootstrap-mean", when=_RESAMPLED,
    )  # fmt: skip
    variance: str = _words(
        "v_q of good-turing and chao92 where a node has more than 31 answers: by the delta method, the limit of many "
        "resamples, or by resamples as elsewhere, at many times the price",
        "delta", "bootstrap", when={"estimator": Choice(("good-turing", "chao92")), **_RESAMPLED},
    )  # fmt: skip
    never_asked: str = _words(
        "n_q of a query never asked: one, plus-one (n_q + 1 for all), or an infinite sigma",
        "one",
        "plus-one",
        "infinite",
    )
    asked_by: str = _words("whether n_q counts a query's configuration or its node", "configuration", "node")
    affordable: str = _words("whether a query may cost at most what is left, or must cost less", "at most", "less")
    exclude_from: str = _words(
        "whether lists are drawn from what was retrieved at the query's node, or from all", "node", "all"
    )
    short_list: str = _words(
        "where fewer than l entities are known: all of them at the cost of l, all at the cost of what is there, or no "
        "such query",
        "configured", "actual", "unavailable",
    )  # fmt: skip
    empty: str = _words(
        "whether an empty answer ends a node: unless its exclude list held all that is known, always, or never",
        "unless-covered", "always", "ignored",
    )  # fmt: skip
    removal_at_start: bool = _option(
        True, flag, "remove bad queries before the first round too (Algorithm 1, line 6)",
        when={"removal": Choice(("lasting", "fresh"))},
    )  # fmt: skip
    reentry: bool = _option(
        True, flag, "a node asked again brings removed queries of its children in again",
        when={"removal": Choice(("lasting",))},
    )  # fmt: skip
    bootstrap: int = _option(
        10, whole(0, 1000), "resamples that a gain's variance is taken over, each with a list of its own; 0: v_q is "
        "the floor alone, and then all but the largest k leave for good, whatever the estimator says"
    )  # fmt: skip
    exclude_draws: int = _option(10, whole(1, 1000), "exclude lists that a gain is averaged over")

    @classmethod
    def of(cls, **options: Any) -> "Readings":
        """Of some options, the others at their defaults."""
        names = [each.name for each in fields(cls)]
        for name in options.keys() - names:
            raise BadInput(name, options[name], f"one of {', '.join(names)}")
        return cls(**options)

    def __post_init__(self) -> None:
        for each in fields(self):
            each.metadata["parse"](each.name, getattr(self, each.name))
        if self.gain == "bootstrap-mean" and not self.bootstrap:
            raise BadInput("bootstrap", self.bootstrap, "at least 1 for gain = bootstrap-mean")


def parameters() -> tuple[Parameter, ...]:
    """The options as a study file has them."""
    return tuple(Parameter(f.name, default=f.default, **f.metadata) for f in fields(Readings))
