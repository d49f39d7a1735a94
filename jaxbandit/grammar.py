"""The grammar of simulations: what a problem is, what a policy is, and how a policy may say that it is run best."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Literal, Protocol

from jax import Array

from jaxbandit.errors import BadInput
from jaxbandit.random.stream import Stream

Tree = Any
"""A pytree of arrays."""


class Problem(Protocol):
    """What the lanes are run against: the hidden truth, and what an algorithm may see of it. A pytree.

    One that can say what an answer is worth by the truth has a method ``score``: see ``Scoring``.

    Example:
        >>> import numpy as np
        >>> from jaxbandit import cleaning, random
        >>> problem = cleaning.of_table(budget=9, false_values=np.array([2, 3]), sc_pdf=cleaning.Uniform())
        >>> key = random.stream(0, 7)  # of seed 0, run 7
        >>> instance = problem.draw(key)  # what no policy sees
        >>> view, rule = problem.view(key, instance), cleaning.ee(3, 0.667)
        >>> problem.pull(key, instance, rule.ask(view, rule.init(view)))
        Outcome(cleans=Array(3, dtype=int32), removed=Array(2, dtype=int32))
    """

    def draw(self, key: Stream) -> Tree:
        """What is drawn once a run (a few scalars); kept with the lane."""

    def view(self, key: Stream, instance: Tree) -> Any:
        """The public side of the run, for the policy."""

    def pull(self, key: Stream, instance: Tree, pull: Tree) -> Tree:
        """The outcome of a pull."""


class Scoring(Problem, Protocol):
    """A problem that holds a policy's answer against the truth, which no policy sees."""

    def score(self, instance: Tree, answer: dict[str, Array]) -> dict[str, Array]:
        """What is measured of a run, from what the policy answered."""


class Policy(Protocol):
    """An algorithm: pure functions on one lane. A pytree whose leaves are its hyperparameters.

    The engine asks, pulls and tells until ``done``, and what a policy is told after that has no effect. A policy may
    say how it is best run by an attribute ``execution``, an ``Execution``. One that can make several steps at less
    cost than one by one may have a method ``advance``: see ``Advancing``.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxbandit import outliers
        >>> rule = outliers.RR(outliers.interval("bounded", delta=0.1, k=1.5))  # one of the policies
        >>> view = outliers.View(budget=jnp.int32(100), arms=3)
        >>> state = rule.init(view)
        >>> state = rule.tell(view, state, rule.ask(view, state), jnp.int32(1))  # arm 0 has paid 1
        >>> int(rule.ask(view, state).arm), bool(rule.done(view, state))
        (1, False)
    """

    def init(self, view: Any) -> Tree:
        """The state before the first pull."""

    def ask(self, view: Any, state: Tree) -> Tree:
        """The next pull."""

    def tell(self, view: Any, state: Tree, pull: Tree, outcome: Tree) -> Tree:
        """The state after the outcome."""

    def done(self, view: Any, state: Tree) -> Array:
        """Whether the run is over (bool scalar)."""

    def answer(self, view: Any, state: Tree) -> dict[str, Array]:
        """What is measured at the end, by name (arrays of any shape); or what the problem's ``score`` takes."""


class Advancing(Policy, Protocol):
    """A policy that makes several steps at once."""

    def advance(self, view: Any, state: Tree, sample: Callable[[Tree], Tree]) -> Tree:
        """The state after some steps. ``sample``, from a pull to its outcome, is the only way to rewards."""


class Informed(Policy, Protocol):
    """A reference that may know what no policy sees: how well one could do. It says so by ``informed``, and its views
    come from the problem's ``informed_view``, which takes what ``view`` takes."""

    informed: Literal[True]


@dataclass(frozen=True)
class Execution:
    """How the engine runs a policy best. Nothing of it changes a result, but for ``masked`` where that is not so.

    Attributes:
        stride: steps that all lanes make before the engine looks which of them are over.
        cache_mib: MiB that the states of a CPU device's lanes may take, where a step goes over the whole state, so that
            a processor's cache should hold them, or over a part of it most of the time; 0 for 128.
        step_bytes: bytes of a lane that a step works on, where that is more than its state.
        temporaries: so many times the bytes of its state are needed besides on an accelerator, where a step works on
            the whole state.
        most_lanes: lanes at once that are enough on a CPU.
        scratch: fields of the state whose contents do not matter when a run begins: the engine leaves those of the
            lane's last run there.
        masked: whether ``tell`` and ``advance`` leave the state of a run that is over bit for bit as it is. Where they
            do not say so, the engine sees to it, at the cost of a selection of the whole state in each step.
        many_steps: how a CPU makes many steps before the engine looks which lanes are over, if it does: for rules whose
            steps are a few operations on scalars and on single rows of ``scratch``. ``in turn``: those of one lane
            before the next one's, for steps of very different length; ``abreast``: each step of all lanes before the
            next step, with all writes to ``scratch`` by ``entries.in_shared``. The scratch arrays of all lanes are one
            array then, lane after lane; the field ``run`` of the state (int32, 0 from ``init``) is the number of the
            lane whose part of them the state means. ``stride`` then counts elsewhere than on a CPU alone.
        unroll: steps that an accelerator makes of a lane before its state is written, a divisor of ``stride``: for
            steps that are arithmetic on a lane's own numbers and nothing else, so short that to start them, and to
            read and write states, takes longer.
        level: LLVM's optimization level of a CPU's program, 2 or 3: what is faster (``benchmarks/hurry.py``).
        gain_ns: nanoseconds for a unit of the problem's ``budget`` that a CPU's program gains when it is compiled with
            full effort, for each second that this effort takes (``benchmarks/hurry.py``). What gains less than half of
            the effort in all its runs is compiled in a hurry. A problem may have such a number too, of what it draws
            itself; both are added.
        loss_ns: the same that a CPU's program loses when it is compiled with the least effort, for each second that
            this saves against a hurry.
        growth: the power of the budget that a run's time grows with, where many pulls are drawn as one: 0 where it does
            not grow. It is that of the units of ``gain_ns`` and ``loss_ns``, too.

    Example:
        >>> from jaxbandit import Execution
        >>> Execution(masked=True).masked
        True
    """

    stride: int = 32
    cache_mib: int = 0
    step_bytes: int = 0
    temporaries: int = 0
    most_lanes: int = 2048
    scratch: tuple[str, ...] = ()
    masked: bool = False
    many_steps: Literal["", "in turn", "abreast"] = ""
    unroll: int = 1
    level: int = 2
    gain_ns: float = 30
    loss_ns: float = 300
    growth: float = 1


def execution_of(policy: Any) -> Execution:
    """What the policy says of its execution, or the default.

    Raises:
        BadInput: where ``execution`` is something else.
    """
    found = getattr(policy, "execution", Execution())
    if not isinstance(found, Execution):
        raise BadInput(f"{type(policy).__name__}.execution", found, "a jaxbandit.Execution")
    return found


Implementation = Literal["fast", "reference"]


@singledispatch
def accelerated(policy: Any, problem: Any) -> Any:
    """A faster implementation of a policy on a problem, or the policy itself where there is none.

    A rule's file has the rule as its paper does. A second file registers here what makes it fast: another policy of
    the same law, for a problem that it is given. ``simulate`` takes that one (``faster``) unless it is told otherwise.
    """
    return policy


def faster(policy: Any, problem: Any) -> Any:
    """What ``accelerated`` has for the policy's own class, or the policy itself.

    A class that inherits from one of this package, as a policy or as a problem, may override what a faster
    implementation of that one would not know of. So it is taken as it is.
    """
    known = type(policy) in accelerated.registry and not derived(problem)
    return accelerated(policy, problem) if known else policy


def derived(instance: Any) -> bool:
    """Whether the class is not of this package, but inherits from one that is (a protocol apart)."""
    classes = [each for each in type(instance).__mro__ if not getattr(each, "_is_protocol", False)]
    first, *others = (each.__module__.partition(".")[0] for each in classes)
    return first != "jaxbandit" and "jaxbandit" in others


@singledispatch
def lean(problem: Any, policy: Any) -> Any:
    """The problem without what a faster implementation of a policy does not use of it, or the problem itself.

    What is left out may differ from configuration to configuration, and they are compiled for once.
    """
    return problem
