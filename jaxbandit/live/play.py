"""A policy's run against answers that come one by one: always as far as they allow."""

import copy
import functools
import hashlib
from collections.abc import Container, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxbandit.grammar import Policy, Problem, Tree
from jaxbandit.live.questions import Address, Questions
from jaxbandit.random.stream import Stream
from jaxbandit.xla.options import ShortRun


class Play:
    """Runs a policy on the answers that there are. It is the run that ``simulate`` makes of the policy as it is
    written, at the same seed and run number, where its draws are these answers.

    Attributes:
        answers: by address.
        told: those of them that the policy has asked for.
        steps: pulls that the policy was told.
        over: whether it wants no more.
    """

    def __init__(
        self, problem: Problem, policy: Policy, key: Stream, asks: Questions, answers: Mapping[Address, Any]
    ) -> None:
        self._asks, self._problem, self._key = asks, problem, key
        leaves, treedef = jax.tree.flatten((problem, policy))
        self._begin = functools.partial(_begin(treedef), leaves, key)
        self._step = functools.partial(_step(treedef), leaves, key)
        self._answer = functools.partial(_answer(treedef), leaves, key)
        self.restart(answers)

    def restart(self, answers: Mapping[Address, Any]) -> None:
        """Begins the run again from the start, with other answers."""
        self.answers, self.told = dict(answers), dict[Address, Any]()
        self.steps, self._traces = 0, [b""]
        self._guesses, self._since = dict[Address, Any](), 1 << 30
        self._take(self._begin())
        self._go_on()

    def tell(self, address: Address, value: Any) -> None:
        """Adds an answer, and goes on with the run as far as the answers allow."""
        self._since += 1
        guess, later = self._guesses.pop(address, None), list[Address]()
        if guess is not None and not self._asks.same_to_policy(address, guess, value):
            later = [each for each in self._guesses if not self._asks.ready(each, self.answers)]
        self.answers[address] = value
        for each in later:
            if self._asks.ready(each, self.answers):  # but it was foreseen for another answer
                del self._guesses[each]
        self._fresh.pop(address, None)
        if address in self._waiting:
            self._waiting.remove(address)
            self.told[address] = value
            self._go_on()

    def copy(self) -> "Play":
        """Returns the run as it stands, to be read while this one goes on."""
        found = copy.copy(self)
        found.answers, found.told = dict(self.answers), dict(self.told)
        return found

    def prepare(self) -> None:
        """Compiles what an answer needs, by an outcome of zeros from which nothing follows, so that the first real one
        does not wait for it."""
        if not self.over:
            outcome = jax.eval_shape(lambda: self._problem.pull(self._key, self._problem.draw(self._key), self.pull))
            self._step(self._state, jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), outcome))

    def trace(self, step: int) -> str:
        """Returns a hash of all pulls and outcomes before a step, which two versions that decide the same have in
        common."""
        return self._traces[step].hex()

    def asked(self, address: Address) -> None:
        """Notes that a question was asked, so that ``wanted`` leaves it out."""
        self._fresh.pop(address, None)

    def needs(self, address: Address) -> bool:
        """Returns whether the present pull waits for its answer."""
        return address in self._waiting

    def wanted(self) -> Iterator[Address]:
        """Questions that the present pull cannot do without and that have no answer, less those that were asked since
        it began."""
        yield from list(self._fresh)

    def foreseen(self, most: int, taken: Container[Address]) -> Iterator[Address]:
        """Questions that the policy may come to soon, that can be asked now, and that are not ``taken``.

        What was foreseen some answers ago does for a while: it only says which answers may be needed.
        """
        if self._since >= most:
            self._foresee(most)
        found = False
        for address in self._askable(taken):
            found = True
            yield address
        if not found and self._since >= max(1, most // 3):
            self._foresee(most)
            yield from self._askable(taken)

    def _askable(self, taken: Container[Address]) -> Iterator[Address]:
        for address in list(self._guesses):
            if address not in taken and self._asks.ready(address, self.answers):
                yield address

    def _foresee(self, most: int) -> None:
        """Goes on for ``most`` pulls in imagination, in which questions without an answer go as ``Questions.guess`` has
        it. A real answer is told when the policy asks for it, if it ever does."""
        self._since, self._guesses = 0, {}
        imagined, state, pull, over = {**self.told, **self.answers}, self._state, self.pull, self.over
        for _ in range(most):
            if over:
                return
            while missing := [each for each in self._asks.due(pull, imagined) if each not in imagined]:
                for address in missing:
                    guess = self._asks.guess(address, imagined)
                    if guess is None:
                        return
                    imagined[address] = self._guesses[address] = guess
            state, pull, over = self._step(state, self._asks.outcome(pull, imagined))
            pull, over = _seen(pull), bool(over)

    def answer(self) -> dict[str, np.ndarray]:
        """Returns what the policy answers after the pulls that it was told."""
        found: dict[str, np.ndarray] = jax.device_get(self._answer(self._state))
        return found

    @property
    def state(self) -> Tree:
        """Returns the policy's state after the pulls that it was told."""
        return self._state

    def _take(self, found: tuple[Tree, Tree, Array]) -> None:
        self._state, pull, over = found
        self.pull, self.over = _seen(pull), bool(over)
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


def _seen(pull: Tree) -> Tree:
    """Returns a pull as arrays of NumPy; ``device_get`` takes four times as long for a few scalars."""
    return jax.tree.map(np.asarray, pull)


@functools.cache
def _begin(treedef: Any) -> Any:
    @ShortRun
    def begin(leaves: list[Any], key: Stream) -> tuple[Tree, Tree, Array]:
        problem, policy = jax.tree.unflatten(treedef, leaves)
        view = problem.view(key, problem.draw(key))
        # Of a state of constants, the compiler simplifies the first pull in circles for a while, and says so.
        state = lax.optimization_barrier(jax.tree.map(jnp.asarray, policy.init(view)))
        return state, policy.ask(view, state), policy.done(view, state)

    return begin


@functools.cache
def _step(treedef: Any) -> Any:
    @ShortRun
    def step(leaves: list[Any], key: Stream, state: Tree, outcome: Tree) -> tuple[Tree, Tree, Array]:
        problem, policy = jax.tree.unflatten(treedef, leaves)
        view = problem.view(key, problem.draw(key))
        state = policy.tell(view, state, policy.ask(view, state), outcome)
        return state, policy.ask(view, state), policy.done(view, state)

    return step


@functools.cache
def _answer(treedef: Any) -> Any:
    @ShortRun
    def answer(leaves: list[Any], key: Stream, state: Tree) -> dict[str, Array]:
        problem, policy = jax.tree.unflatten(treedef, leaves)
        return policy.answer(problem.view(key, problem.draw(key)), state)  # type: ignore[no-any-return]

    return answer
