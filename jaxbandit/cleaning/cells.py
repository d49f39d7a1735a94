"""What is known of a problem's entities before any operation: sc-pdfs as the probabilities of cells of [0, 1], and
distributions of r; checked."""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray

from jaxbandit.cleaning.given import numbers
from jaxbandit.errors import BadInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


def distribution(field: str, values: ArrayLike) -> Floats:
    """Returns ``values`` as float64, each row summing to 1; BadInput unless they are probabilities that do so to
    1e-4."""
    rows = numbers(field, values, "probabilities that sum to 1 along the last dimension")
    if rows.ndim == 0 or rows.shape[-1] == 0:
        raise BadInput(field, rows.shape, "at least one dimension is needed, the last one not empty")
    total = rows.sum(-1, keepdims=True)
    if not ((rows >= 0).all() and (abs(total - 1) < 1e-4).all()):
        raise BadInput(field, rows, "probabilities that sum to 1 along the last dimension")
    normal: Floats = rows / total
    return normal


def problem(cells: ArrayLike, false_values: ArrayLike) -> tuple[Floats, Floats]:
    """Checks and returns the two distributions of a problem, in which some entity must have a false value."""
    pdf, counts = distribution("cells", cells), distribution("false_values", false_values)
    if not (counts[..., 1:].sum(-1) > 0).all():
        raise BadInput("false_values", counts, "some entity must have a false value")
    return pdf, counts


def common_shape(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape to which the named leading dimensions broadcast; BadInput if they do not."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        raise BadInput(", ".join(shapes), tuple(shapes.values()), "leading dimensions must broadcast") from None


def midpoints(count: int) -> Array:
    """Returns the midpoints of ``count`` equal cells of [0, 1]; none is 0 or 1, so 1/p and log(1-p) stay finite."""
    return (jnp.arange(count) + 0.5) / count
