"""A policy's run against answers that come one by one: always as far as they allow."""

import functools
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxbandit.grammar import Policy, Problem, Tree
from jaxbandit.live.questions import Address, Questions
from jaxbandit.random.stream import Stream


class Play:
    """A run of a policy, from the answers that there are. It is the run that ``simulate`` makes of the policy as it is
    written, at the same seed and run number, where its draws are these answers.

    Attributes:
        answers: by address.
        told: those of them that the policy has asked for.
        steps: pulls that the policy was told.
        over: whether it wants no more.
    """

    def __init__(self, problem: Problem, policy: Policy, key: Stream, asks: Questions) -> None:
        self._asks = asks
        leaves, treedef = jax.tree.flatten((problem, policy))
        self._begin = functools.partial(_begin(treedef), leaves, key)
        self._step = functools.partial(_step(treedef), leaves, key)
        self._answer = functools.partial(_answer(treedef), leaves, key)
        self.restart({})

    def restart(self, answers: Mapping[Address, Any]) -> None:
        """From the beginning, with other answers."""
        self.answers, self.told = dict(answers), dict[Address, Any]()
        self.steps, self._traces = 0, [b""]
        self._take(self._begin())
        self._go_on()

    def tell(self, address: Address, value: Any) -> None:
        """An answer more."""
        self.answers[address] = value
        self._fresh.pop(address, None)
        if address in self._waiting:
            self._waiting.remove(address)
            self.told[address] = value
            self._go_on()

    def trace(self, step: int) -> str:
        """A hash of all pulls and outcomes before a step, which two versions that decide alike have in common."""
        return self._traces[step].hex()

    def asked(self, address: Address) -> None:
        """``wanted`` need not name it any more."""
        self._fresh.pop(address, None)

    def wanted(self) -> Iterator[Address]:
        """Questions that the present pull cannot do without and that have no answer, less those that were asked since
        it began."""
        yield from list(self._fresh)

    def ahead(self, most: int) -> Iterator[Address]:
        """Questions that the policy would ask next if the open ones went as ``Questions.guess`` has it, over at most
        ``most`` of its pulls. An answer to one of them is told when the policy asks for it, if it ever does."""
        imagined, state, pull, over = dict(self.answers), self._state, self.pull, self.over
        for _ in range(most):
            if over:
                return
            while missing := [each for each in self._asks.due(pull, imagined) if each not in imagined]:
                for address in missing:
                    guess = self._asks.guess(address, imagined)
                    if guess is None:
                        return
                    imagined[address] = guess
                    yield address
            state, pull, over = self._step(state, self._asks.outcome(pull, imagined))
            pull, over = jax.device_get(pull), bool(over)

    def answer(self) -> dict[str, np.ndarray]:
        """What the policy answers after the pulls that it was told."""
        found: dict[str, np.ndarray] = jax.device_get(self._answer(self._state))
        return found

    @property
    def state(self) -> Tree:
        """The policy's, after those pulls."""
        return self._state

    def _take(self, found: tuple[Tree, Tree, Array]) -> None:
        self._state, pull, over = found
        self.pull, self.over = jax.device_get(pull), bool(over)
        self._waiting: set[Address] = set()
        self._fresh: dict[Address, None] = {}

    def _go_on(self) -> None:
        while not self.over and not self._waiting:
            if missing := [each for each in self._asks.due(self.pull, self.told) if each not in self.told]:
                self.told.update({each: self.answers[each] for each in missing if each in self.answers})
                self._fresh = {each: None for each in missing if each not in self.answers}
                self._waiting = set(self._fresh)
                continue
            outcome = self._asks.outcome(self.pull, self.told)
            digest = hashlib.sha256(self._traces[-1])
            for leaf in jax.tree.leaves((self.pull, outcome)):
                digest.update(np.asarray(leaf).tobytes())
            self._traces.append(digest.digest()[:16])
            self.steps += 1
            self._take(self._step(self._state, outcome))


@functools.cache
def _begin(treedef: Any) -> Any:
    @jax.jit
    def begin(leaves: list[Any], key: Stream) -> tuple[Tree, Tree, Array]:
        problem, policy = jax.tree.unflatten(treedef, leaves)
        view = problem.view(key, problem.draw(key))
        state = jax.tree.map(jnp.asarray, policy.init(view))
        return state, policy.ask(view, state), policy.done(view, state)

    return begin


@functools.cache
def _step(treedef: Any) -> Any:
    @jax.jit
    def step(leaves: list[Any], key: Stream, state: Tree, outcome: Tree) -> tuple[Tree, Tree, Array]:
        problem, policy = jax.tree.unflatten(treedef, leaves)
        view = problem.view(key, problem.draw(key))
        state = policy.tell(view, state, policy.ask(view, state), outcome)
        return state, policy.ask(view, state), policy.done(view, state)

    return step


@functools.cache
def _answer(treedef: Any) -> Any:
    @jax.jit
    def answer(leaves: list[Any], key: Stream, state: Tree) -> dict[str, Array]:
        problem, policy = jax.tree.unflatten(treedef, leaves)
        return policy.answer(problem.view(key, problem.draw(key)), state)  # type: ignore[no-any-return]

    return answer
