"""What CRUX (``crux.py``) takes: its parameters, and one option for each place that the paper's text leaves open.

An option is declared here alone, with its default, the values it may have and what it means; study files read it here.
"""

from typing import Annotated, Any

import jax.numpy as jnp

from jaxbandit.errors import BadInput
from jaxbandit.extraction.crux import Crux
from jaxbandit.extraction.estimators import ESTIMATORS
from jaxbandit.extraction.readings import Readings
from jaxbandit.parameters import Key, checked
from jaxbandit.parsers import flag, one_of, real, whole
from jaxbandit.space import Choice, Range


def _words(*words: str, **more: Any) -> Key:
    """The key of an option that is one of some words; ``more``: see ``Parameter``."""
    return Key(one_of(*words), on_request=True, **more)


_RESAMPLED = {"bootstrap": Range(1, 1000)}
_BY_DELTA = {"estimator": Choice(("good-turing", "chao92")), "gain": Choice(("sample",)), **_RESAMPLED}
_REMOVED = {"removal": Choice(("lasting", "fresh"))}
_REMOVED_FOR_GOOD = {"removal": Choice(("lasting",))}


@checked
def crux(
    estimator: Annotated[str, Key(one_of(*ESTIMATORS, "new-regr"))] = "chao92",
    *,
    removal: Annotated[str, _words("lasting", "fresh", "none")] = "lasting",
    unseen: Annotated[str, _words("k", "one")] = "k",
    gain: Annotated[str, _words("sample", "bootstrap-mean", when=_RESAMPLED)] = "sample",
    variance: Annotated[str, _words("delta", "bootstrap", when=_BY_DELTA)] = "delta",
    never_asked: Annotated[str, _words("one", "plus-one", "infinite")] = "one",
    asked_by: Annotated[str, _words("configuration", "node")] = "configuration",
    affordable: Annotated[str, _words("at most", "less")] = "at most",
    exclude_from: Annotated[str, _words("node", "all")] = "node",
    short_list: Annotated[str, _words("configured", "actual", "unavailable")] = "configured",
    empty: Annotated[str, _words("unless-covered", "always", "ignored")] = "unless-covered",
    removal_at_start: Annotated[bool, Key(flag, on_request=True, when=_REMOVED)] = True,
    reentry: Annotated[bool, Key(flag, on_request=True, when=_REMOVED_FOR_GOOD)] = True,
    bootstrap: Annotated[int, Key(whole(0, 1000), on_request=True)] = 10,
    exclude_draws: Annotated[int, Key(whole(1, 1000), on_request=True)] = 10,
    variance_floor: Annotated[float, Key(real(0, 1e6), search=Range(0.001, 10, log=True))] = 0.01,
    prior: Annotated[float, Key(real(0, 1e6), search=Range(0, 50))] = 0.0,
    grow: bool = True,
) -> Crux:
    """CRUX, Algorithms 1 and 2. Defaults follow the paper's text where it is clear.

    Args:
        estimator: of the gain; ``new-regr`` takes K after further answers from a logistic curve through the last 64
            pairs (n, K) of the node since it entered.
        removal: whether bad queries leave for good (Algorithm 2 as printed), for the next round, or never.
        unseen: the gain of a node without answers, or all of whose answers are excluded: k or 1.
        gain: r: the estimate by the sample, or its mean over bootstrap samples, which repeat entities, so that it is
            lower.
        variance: v_q of good-turing and chao92 where a node has more than 31 answers: by the delta method, the limit
            of many resamples, or by resamples as elsewhere, at many times the price. With gain = bootstrap-mean it is
            by resamples, which that mean takes anyway.
        never_asked: n_q of a query never asked: one, plus-one (n_q + 1 for all), or an infinite sigma.
        asked_by: whether n_q counts a query's configuration or its node.
        affordable: whether a query may cost at most what is left (the text), or must cost less (line 8 as printed).
        exclude_from: whether lists are drawn from what was retrieved at the query's node, or from all.
        short_list: where fewer than l entities are known: all of them at the cost of l, all at the cost of what is
            there, or no such query, which then removes no other.
        empty: whether an empty answer ends a node: unless its exclude list held all that is known (a node of at most l
            may be asked to the end of the budget), always (better with removal = fresh or none), or never.
        removal_at_start: remove bad queries before the first round too (Algorithm 1, line 6).
        reentry: a node asked again brings removed queries of its children in again.
        bootstrap: resamples that a gain's variance is taken over, each with a list of its own (with 0, v_q is the
            floor alone, and then all but the largest k leave for good, whatever the estimator says).
        exclude_draws: exclude lists that a gain is averaged over.
        variance_floor: the least variance of a gain, v_q.
        prior: answers that the root's gain counts as at each node; r is the mean of the node's gain, weighted by its
            own number of answers, and of the root's for the same (k, l), weighted by this. 0 is the paper's.
        grow: whether the children of a node asked come in; else the root alone is asked.

    Raises:
        BadInput: for a value that an option cannot have.

    Example:
        >>> from jaxbandit import extraction
        >>> extraction.crux("good-turing", removal="none").readings.removal
        'none'
    """
    if gain == "bootstrap-mean" and not bootstrap:
        raise BadInput("bootstrap", bootstrap, "at least 1 for gain = bootstrap-mean")
    readings = Readings(
        estimator=estimator, removal=removal, unseen=unseen, gain=gain, variance=variance, never_asked=never_asked,
        asked_by=asked_by, affordable=affordable, exclude_from=exclude_from, short_list=short_list, empty=empty,
        removal_at_start=removal_at_start, reentry=reentry, bootstrap=bootstrap, exclude_draws=exclude_draws,
    )  # fmt: skip
    return Crux(jnp.float32(variance_floor), jnp.float32(prior), prior > 0, readings, grow)


def root_chao() -> Crux:
    """RootChao, a baseline of the paper: asks the root alone, by Chao92 and Shen's formula.

    Example:
        >>> from jaxbandit import extraction
        >>> extraction.root_chao().grow
        False
    """
    return crux("chao92", grow=False)
