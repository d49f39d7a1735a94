"""What policies ask of a cleaning problem, what they are told, and what they count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int32


class Pull(NamedTuple):
    """A pull: clean one entity until some of its false values are gone, or too many operations failed, or enough were
    made.

    ``attempt``: operations on this entity before; ``successes``, ``failures``, ``cleans``: the three limits
    (``UNLIMITED`` where there is none; a limit of 0 makes the pull one of count 0).

    Example:
        >>> import numpy as np
        >>> from jaxbandit import cleaning, random
        >>> known, key = np.array([1.0, 0.0]), random.stream(0, 0)
        >>> problem = cleaning.of_table(budget=9, false_values=np.array([4, 3]), sc_probabilities=known)
        >>> pull = cleaning.Pull(*map(np.int32, (0, 0, 2, 1, 9)))  # entity 0, to 2 successes, 1 failure or 9 operations
        >>> problem.pull(key, problem.draw(key), pull)
        Outcome(cleans=Array(2, dtype=int32), removed=Array(2, dtype=int32))
    """

    entity: Int32[Array, ""]
    attempt: Int32[Array, ""]
    successes: Int32[Array, ""]
    failures: Int32[Array, ""]
    cleans: Int32[Array, ""]


class RankedPull(NamedTuple):
    """A pull that takes knowledge of the sc-probabilities: clean the entity of a rank by them to the end.

    Only a policy that is ``informed`` may ask for it (``grammar.Informed``).

    ``rank``: 0 for the highest sc-probability; ``height``: what the outcome at the rank before gave, at first 0;
    ``attempt`` and ``gained``: operations on the entity before, and how many succeeded; ``cleans``: the most
    operations.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import cleaning, random
        >>> known, key = np.array([0.3, 1.0]), random.stream(0, 0)
        >>> problem = cleaning.of_table(budget=9, false_values=np.array([2, 3]), sc_probabilities=known)
        >>> best = cleaning.RankedPull(*map(np.int32, (0, 0, 0, 0, 9)))  # at most 9 operations on the entity of rank 0
        >>> int(problem.pull(key, problem.draw(key), best).removed)
        3
    """

    rank: Int32[Array, ""]
    height: Float32[Array, ""]
    attempt: Int32[Array, ""]
    gained: Int32[Array, ""]
    cleans: Int32[Array, ""]

    @property
    def informed(self) -> Literal[True]:
        """Says that the pull takes knowledge of the truth, so that the engine refuses it to other policies."""
        return True


class Outcome(NamedTuple):
    """The outcome of a ``Pull``. ``cleans``: operations made, at most ``LONGEST_RACE``; ``removed``: how many
    succeeded.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import cleaning
        >>> outcome = cleaning.Outcome(cleans=jnp.int32(3), removed=jnp.int32(2))  # an agent has tried 3 times
        >>> int(outcome.cleans - outcome.removed)  # and failed once
        1
    """

    cleans: Int32[Array, ""]
    removed: Int32[Array, ""]


class Told(NamedTuple):
    """The outcome of a ``RankedPull``. ``cleans`` and ``removed``: as in ``Outcome``; ``clean``: whether the entity
    has no false value left; ``height``: for the next rank.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import cleaning
        >>> told = cleaning.Told(jnp.int32(5), jnp.int32(2), clean=jnp.bool_(True), height=jnp.float32(0.1))
        >>> int(cleaning.Totals.zero().add(told, told.clean).finished)  # as a policy counts it
        1
    """

    cleans: Int32[Array, ""]
    removed: Int32[Array, ""]
    clean: Bool[Array, ""]
    height: Float32[Array, ""]


class Totals(NamedTuple):
    """What every cleaning policy counts: operations, false values removed, entities cleaned to the end.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import cleaning
        >>> outcome = cleaning.Outcome(cleans=jnp.int32(3), removed=jnp.int32(2))
        >>> totals = cleaning.Totals.zero().add(outcome, clean=jnp.bool_(False))
        >>> {name: int(value) for name, value in totals.answer().items()}
        {'cleans': 3, 'removed': 2, 'finished': 0}
    """

    spent: Int32[Array, ""]
    removed: Int32[Array, ""]
    finished: Int32[Array, ""]

    @classmethod
    def zero(cls) -> Totals:
        """Returns the counts before the first pull, all 0."""
        return cls(jnp.int32(0), jnp.int32(0), jnp.int32(0))

    def add(self, outcome: Outcome | Told, clean: Bool[Array, ""]) -> Totals:
        """Returns the counts after an outcome; ``clean``: whether it removed the entity's last false value."""
        return Totals(
            self.spent + outcome.cleans, self.removed + outcome.removed, self.finished + clean.astype(jnp.int32)
        )

    def answer(self) -> dict[str, Array]:
        """Returns the totals under the names of the answers."""
        return {"cleans": self.spent, "removed": self.removed, "finished": self.finished}
