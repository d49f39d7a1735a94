"""What is checked of the arguments that say a cleaning problem."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxbandit.errors import BadInput, quoted
from jaxbandit.laws import Law

_MOST = 4096


def numbers(field: str, values: Any, allowed: str) -> NDArray[np.float64]:
    """Returns an array of float64.

    Raises:
        BadInput: for what is no number or array of numbers.
    """
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise BadInput(field, quoted(values), allowed) from None


def whole_numbers(field: str, values: Any, allowed: str) -> NDArray[np.int64]:
    """Returns an array of int64.

    Raises:
        BadInput: for what is no whole number or array of whole numbers.
    """
    found = numbers(field, values, allowed)
    if not (np.isfinite(found) & (found == np.floor(found)) & (abs(found) < 2**53)).all():
        raise BadInput(field, quoted(values), allowed)
    return found.astype(np.int64)


def weights_of(false_values: Any) -> NDArray[np.float64]:
    """Returns the weights of r = 0, 1, 2 ... false values as float64, of which one of r > 0 is positive.

    Raises:
        BadInput: for anything else, and for more than 4096 of them.
    """
    allowed = f"2 to {_MOST} weights, of r = 0, 1, 2 ..., as uniform_false_values(0, 19) gives them"
    weights = numbers("false_values", false_values, allowed)
    if weights.ndim != 1 or not 2 <= weights.size <= _MOST:
        raise BadInput("false_values", f"{weights.size} weights", f"2 to {_MOST} weights, of r = 0, 1, 2 ...")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights[1:].sum() > 0:
        raise BadInput("false_values", weights.tolist(), "weights of at least 0, not all of r > 0 being 0")
    return weights


def law_of(sc_pdf: Any) -> Law:
    """Returns the law of the sc-probabilities.

    Raises:
        BadInput: for what is no ``Law``.
    """
    if not isinstance(sc_pdf, Law):
        allowed = "a law, such as cleaning.Uniform(), cleaning.Normal(variance=0.3) or cleaning.Beta(2, 5)"
        raise BadInput("sc_pdf", quoted(sc_pdf), allowed)
    return sc_pdf
