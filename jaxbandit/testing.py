"""What a policy and a problem of one's own must satisfy, for a test suite.

    from jaxbandit.testing import conformance

    def test_ucb() -> None:
        other = Bandit(jnp.array([0.7, 0.4]), jnp.int32(200))
        conformance(Bandit(jnp.array([0.4, 0.7]), jnp.int32(200)), [UCB(jnp.float32(1)), UCB(jnp.float32(2))], other)

This package's own policies pass it too (``tests/test_conformance.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np

from jaxbandit.conformance import check, same_bits
from jaxbandit.contract import PAGE, briefly
from jaxbandit.engine import count_programs, simulate
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Policy, Problem, Tree, faster
from jaxbandit.parsers import one_of
from jaxbandit.pytree import pytree
from jaxbandit.random.stream import Stream

_OTHERWISE = "other values where runs share lanes otherwise"
_FAR = 5.0
"""Standard errors between two means that chance does not put there."""


def conformance(
    problem: Problem,
    policies: Policy | Sequence[Policy],
    other: Problem | None = None,
    *,
    runs: int = 24,
    seed: int = 0,
    fast: Literal["bits", "law"] = "law",
    law_runs: int = 400,
) -> list[str]:
    """Raises an error at the first thing that a policy or a problem does not keep to, and says what to mend.

    Of each policy: what ``jaxbandit.check`` looks for (shapes and types that stay, no NaN, no draw that is used twice,
    no change after the end); that its runs end; that they have the same bits in chunks, on few lanes and on several
    devices, where there are two; that it decides alike where the truth is another; and that its fast implementation,
    if it has one, agrees with it. Policies of one class must be one program, so that a sweep does not compile again.

    Args:
        problem: small enough that runs end within some thousand steps.
        policies: one or several; give two of a class that differ in the numbers that are swept.
        other: ``problem`` with another truth and the same public side. Each policy is shown what may be seen of
            ``other`` and gets the outcomes of ``problem``: it has to do the same. Not checked where None, nor for a
            policy that is ``informed``.
        runs: how many runs are compared, 1 or more.
        seed: of these runs, 0 to 2^32 - 1.
        fast: whether a fast implementation has the bits of its policy, or its law alone: the means of answers and of
            their squares.
        law_runs: how many runs that comparison of laws takes.

    Returns:
        What ``jaxbandit.check`` remarks.

    Raises:
        BadInput: naming the class, the method, what was found and what to do; or an argument, such as no policies.

    Example:
        >>> from jaxbandit import cleaning
        >>> from jaxbandit.testing import conformance
        >>> problem = cleaning.synthetic(
        ...     budget=100, entities=1_000, false_values=cleaning.uniform_false_values(0, 9), sc_pdf=cleaning.Uniform()
        ... )
        >>> conformance(problem, cleaning.ee(3, 0.667))  # doctest: +SKIP
    """
    given: list[Any] = [policies]
    if isinstance(policies, list | tuple) and not hasattr(policies, "_fields"):  # a NamedTuple may be a policy
        given = list(policies)
    if not given:
        raise BadInput("policies", policies, "one policy, or several")
    one_of("bits", "law")("fast", fast)
    remarks: list[str] = []
    for policy in given:
        found = check(problem, policy, seed=seed, thorough=False)
        for remark in found:
            if "did not all end" in remark:
                name = f"policy {type(policy).__name__}.done"
                raise BadInput(name, remark.partition(": ")[2], f"runs that end on a small problem; {PAGE}")
        remarks += [remark for remark in found if remark not in remarks]
    _one_program(problem, given)
    for policy in {_structure(policy): policy for policy in reversed(given)}.values():
        has_fast = faster(policy, problem) is not policy
        count = law_runs if has_fast and fast == "law" else runs
        whole = _answers(problem, policy, count, seed)
        _same_however_cut(problem, policy, whole, seed)
        seen = None if getattr(policy, "informed", False) else other
        if not has_fast and seen is None:
            continue
        # What is shown as it is is disguised as well: so it shares a program with what is not.
        disguise = _Scored if hasattr(problem, "score") else _Disguised
        itself = problem if seen is None else disguise(problem, problem)
        plain = _answers(itself, policy, count, seed, implementation="reference") if has_fast else whole
        if has_fast and fast == "bits":
            same_bits(policy, plain, whole, "other values of its fast implementation", "the same bits")
        elif has_fast:
            _same_law(policy, plain, whole)
        if seen is not None:
            shown = _answers(disguise(problem, seen), policy, count, seed, implementation="reference")
            allowed = "the same, as the outcomes are: a policy knows of the truth what it is told alone"
            same_bits(policy, plain, shown, "other values where the truth is another", allowed)
    return remarks


def _structure(policy: Policy) -> Any:
    leaves, treedef = jax.tree.flatten(policy)
    return treedef, tuple(np.shape(leaf) for leaf in leaves)


def _one_program(problem: Problem, policies: Sequence[Policy]) -> None:
    for kind in dict.fromkeys(map(type, policies)):
        own = [(problem, policy) for policy in policies if type(policy) is kind]
        if (programs := count_programs(own)) > 1:
            raise BadInput(
                f"policy {kind.__name__}", f"{programs} programs for {len(own)} policies",
                f"one, so that a sweep compiles once: numbers that differ stand in fields that are not static; {PAGE}",
            )  # fmt: skip


def _same_however_cut(problem: Problem, policy: Policy, whole: dict[str, np.ndarray], seed: int) -> None:
    """Against some of the runs in parts on few lanes, and all of them on two devices."""
    runs = whole["endless"].shape[1]
    part = max(1, min(8, runs // 3))
    for first in range(0, min(runs, 3 * part), part):
        some = min(part, runs - first)
        cut = _answers(problem, policy, some, seed, first_run=first, lanes=3)
        same_bits(policy, {name: values[:, first : first + some] for name, values in whole.items()}, cut, _OTHERWISE)
    if len(devices := jax.local_devices()) > 1:
        several = _answers(problem, policy, runs, seed, devices=devices[:2])
        same_bits(policy, whole, several, "other values on two devices")


def _same_law(policy: Policy, slow: dict[str, np.ndarray], quick: dict[str, np.ndarray]) -> None:
    """Looks at the means of answers and of their squares. The two implementations share their randomness, which makes
    the bound on their distance a wide one."""
    for answer, values in slow.items():
        field = f"policy {type(policy).__name__}.answer[{answer!r}]"
        runs = values.shape[1]
        for power, what in ((1, "mean"), (2, "mean square")):
            one, two = (each[answer][0].astype(np.float64) ** power for each in (slow, quick))
            error = np.sqrt((one.var(axis=0) + two.var(axis=0)) / runs)
            if (np.abs(one.mean(axis=0) - two.mean(axis=0)) > _FAR * error + 1e-6 * np.abs(one).max()).any():
                found = f"a {what} of {two.mean():.6g} over {runs} runs of its fast implementation"
                raise BadInput(field, found, f"about {one.mean():.6g}, that of the policy as it is written; {PAGE}")


@pytree
@dataclass(frozen=True)
class _Disguised:
    """``problem``, of which a policy is shown what may be seen of ``other``."""

    problem: Any
    other: Any

    def draw(self, key: Stream) -> Tree:
        return self.problem.draw(key), self.other.draw(key)

    def view(self, key: Stream, instance: Tree) -> Any:
        return self.other.view(key, instance[1])

    def pull(self, key: Stream, instance: Tree, pull: Tree) -> Tree:
        return self.problem.pull(key, instance[0], pull)


class _Scored(_Disguised):
    def score(self, instance: Tree, answer: Any) -> Any:
        return self.problem.score(instance[0], answer)


jax.tree_util.register_dataclass(_Scored, ["problem", "other"], [])


def _answers(problem: Any, policy: Any, runs: int, seed: int, **more: Any) -> dict[str, np.ndarray]:
    more.setdefault("devices", jax.local_devices()[:1])
    with briefly():
        return simulate(problem, policy, runs=runs, seed=seed, progress=False, **more)


__all__ = ["conformance"]
