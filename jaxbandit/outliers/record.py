"""The record of a run, from which rules decide, and the answer that all rules give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxbandit.outliers.double_float import in_float64
from jaxbandit.outliers.problem import Pull
from jaxbandit.xla.exact import quotient

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int32

DECIDED, CAPPED, FLAT = range(1, 4)
"""Result codes. DECIDED: the rule ended the run; CAPPED: the budget did, and the answer is the set estimated by then;
FLAT: the budget did, and all means were equal."""


class Seen(NamedTuple):
    """Holds the record of a run: the ``pulls`` of each arm, the sum of its rewards in units (``ones``; see
    ``View.unit``), and the number of all pulls (``total``).

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import outliers
        >>> seen = outliers.Seen.nothing(3)
        >>> for arm, reward in ((0, 1), (1, 0), (2, 0), (0, 1)):
        ...     seen = seen.after(seen.next_of(jnp.int32(arm)), jnp.int32(reward))
        ...
        >>> seen.pulls.tolist(), seen.ones.tolist(), int(seen.total)
        ([2, 1, 1], [2, 0, 0], 4)
    """

    pulls: Int32[Array, " arms"]
    ones: Int32[Array, " arms"]
    total: Int32[Array, ""]

    @classmethod
    def nothing(cls, n: int) -> Seen:
        """Returns the record of ``n`` arms before the first pull."""
        return cls(jnp.zeros(n, jnp.int32), jnp.zeros(n, jnp.int32), jnp.int32(0))

    def add(self, count: Int32[Array, " arms"], ones: Int32[Array, " arms"]) -> Seen:
        """Returns the record after ``count`` further pulls of each arm, whose rewards add up to ``ones``."""
        return Seen(self.pulls + count, self.ones + ones, self.total + jnp.sum(count, dtype=jnp.int32))

    def after(self, pull: Pull, reward: Int32[Array, ""]) -> Seen:
        """Returns the record after one further pull and its reward."""
        return Seen(self.pulls.at[pull.arm].add(1), self.ones.at[pull.arm].add(reward), self.total + 1)

    def next_of(self, arm: Int32[Array, ""]) -> Pull:
        """Returns the next pull of an arm, with the number of pulls before it."""
        return Pull(arm, self.pulls[arm])


def means_of(
    pulls: Int32[Array, "*arms"], ones: Int32[Array, "*arms"], dtype: Any = jnp.float32
) -> Float[Array, "*arms"]:
    """Returns empirical means, in units, of arms that were pulled at least once."""
    return quotient(ones.astype(dtype), pulls.astype(dtype))


@in_float64
def equal_means(
    pulls: Int32[Array, " ..."],
    ones: Int32[Array, " ..."],
    other_pulls: Int32[Array, " ..."],
    other_ones: Int32[Array, " ..."],
) -> Bool[Array, " ..."]:
    """Returns whether empirical means are equal, decided on integers: s_i m_j = s_j m_i, in 64 bits. Broadcasts."""
    m, s, n, t = (x.astype(jnp.int64) for x in (pulls, ones, other_pulls, other_ones))
    return s * n == t * m


def all_equal(pulls: Int32[Array, "... arms"], ones: Int32[Array, "... arms"]) -> Bool[Array, " ..."]:
    """Returns whether the empirical means of all arms are equal: whether each is the mean of all rewards."""
    all_pulls, all_ones = (jnp.sum(x, axis=-1, keepdims=True, dtype=jnp.int32) for x in (pulls, ones))
    return jnp.all(equal_means(pulls, ones, all_pulls, all_ones), axis=-1)


def answer(seen: Seen, outliers: Bool[Array, " arms"], decided: Bool[Array, ""]) -> dict[str, Array]:
    """Returns a rule's answer: ``outliers`` (bool, (n,)), ``arm_pulls`` (int32, (n,)), and the result ``code``."""
    stuck = jnp.where(all_equal(jnp.maximum(seen.pulls, 1), seen.ones), FLAT, CAPPED)
    code = jnp.where(decided, DECIDED, stuck).astype(jnp.int32)
    return {"outliers": outliers, "arm_pulls": seen.pulls, "code": code}
