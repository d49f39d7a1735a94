"""A few runs of a policy, made step by step, with what is seen of each step: what ``conformance`` looks at."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import checkify

from jaxbandit.contract import Contract, Used
from jaxbandit.describe import is_array
from jaxbandit.grammar import Policy, Problem, Tree, execution_of
from jaxbandit.programs.store import here
from jaxbandit.random.stream import Stream
from jaxbandit.xla.options import Effort, ShortRun
from jaxbandit.xla.platforms import traced_for


class Lanes(NamedTuple):
    """Some runs between two steps; all arrays have the lanes as their first axis.

    ``over``: whether the run was over before the last step; ``pull``: the arrays of what it asked there, ``outcome``:
    those of what it got, by their path.
    ``used``: what the problem's method of that name says of them, else None. ``changed``: by leaf of the state, whether
    a step after the end changed it, and ``nan``: whether one before the end left NaN there; ``odd``: by leaf of the
    outcome, whether one held an infinity (1) or NaN (2) before the end.
    """

    key: Stream
    instance: Tree
    state: Tree
    over: Array
    pull: list[Array]
    outcome: dict[str, Array]
    used: Used | None
    changed: list[Array]
    nan: list[Array]
    odd: list[Array]


def _differs(old: Array, new: Array) -> Array:
    nans = jnp.isnan(old) & jnp.isnan(new) if jnp.issubdtype(old.dtype, jnp.inexact) else jnp.zeros(old.shape, bool)
    return jnp.any((old != new) & ~nans)


def _step(run: Contract, key: Stream, instance: Tree, state: Tree, advancing: bool, pulls: list[Any]) -> Lanes:
    """One step of one lane. ``advancing``: by the policy's ``advance``, whose pulls nobody sees; else what is no array
    in its pull, and the pull's structure, are added to ``pulls``."""
    view = run.view(key, instance)
    over = run.done(view, state)
    pull: Tree = ()
    outcome: Tree = ()
    if advancing:
        after = run.step(view, key, instance, state)
    else:
        pull = run.ask(view, state)
        outcome = run.pull(key, instance, pull)
        after = run.tell(view, state, pull, outcome)
    flat, structure = jax.tree.flatten(pull)
    pulls.append(([None if _varies(leaf) else (leaf,) for leaf in flat], structure))
    if not execution_of(run.policy).masked:  # as the engine does
        after = jax.tree.map(lambda new, old: jnp.where(over, old, new), after, state)
    changed = [over & _differs(*pair) for pair in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True)]
    nan = [~over & (_oddity(leaf) == NAN) for leaf in jax.tree.leaves(after)]
    got = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(outcome)[0]}
    got = {path: jnp.asarray(leaf) for path, leaf in got.items() if is_array(leaf)}
    odd = [jnp.where(over, 0, _oddity(leaf)) for leaf in got.values()]
    asked = [leaf for leaf in jax.tree.leaves(pull) if _varies(leaf)]
    used = None if advancing else run.used(view, pull, outcome)
    return Lanes(key, instance, after, over, asked, got, used, changed, nan, odd)


INFINITE, NAN = 1, 2


def _oddity(leaf: Any) -> Array:
    """What of a leaf is no number: ``NAN``, ``INFINITE`` or nothing (0)."""
    leaf = jnp.asarray(leaf)
    if not jnp.issubdtype(leaf.dtype, jnp.inexact):
        return jnp.zeros((), jnp.int32)
    infinite = jnp.where(jnp.any(jnp.isinf(leaf)), INFINITE, 0)
    return jnp.asarray(jnp.where(jnp.any(jnp.isnan(leaf)), NAN, infinite))


def _varies(leaf: Any) -> bool:
    """Whether a leaf of a pull is an array; one that is Python's is the same in all runs, and may be branched on."""
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def _init(run: Contract, key: Stream) -> tuple[Tree, Tree]:
    instance = jax.tree.map(jnp.asarray, run.draw(key))
    return instance, jax.tree.map(jnp.asarray, run.init(run.view(key, instance)))


class SteppingPrograms:
    """What is compiled for one structure of (problem, policy), whose leaves are the first argument of all.

    The structure is kept here and no argument: JAX takes two classes of the same fields for one structure.
    """

    def __init__(self, pair: tuple[Problem, Policy], key: Stream, advancing: bool) -> None:
        leaves, self._treedef = jax.tree.flatten(pair)
        pulls: list[Any] = []
        # Functions of their own, so that JAX traces them once for all programs.
        self._init = jax.jit(lambda leaves, key: _init(self._join(leaves), key), inline=True)

        def step(leaves: list[Any], key: Stream, instance: Tree, state: Tree) -> Lanes:
            return _step(self._join(leaves), key, instance, state, advancing, pulls)

        self._step = jax.jit(step, inline=True)

        def first(leaves: list[Any], key: Stream) -> Lanes:
            made: Lanes = self._step(leaves, key, *self._init(leaves, key))
            return made

        self.shapes = jax.eval_shape(traced_for(jax.default_backend(), jax.vmap(first, (None, 0))), leaves, key)
        self._fixed, self._pull = pulls[0]
        least = Effort.LEAST  # a few steps, which are compared with one another alone
        self.begin = ShortRun(jax.vmap(self._init, (None, 0)), least)
        self.advance = ShortRun(self._advance, least)
        self.answers = ShortRun(self._answers, least)
        self.again = ShortRun(self._again, least, static_argnames="indices")

    def pull(self, arrays: Sequence[Any]) -> Tree:
        """A pull, of its arrays."""
        rest = iter(arrays)
        return jax.tree.unflatten(self._pull, [next(rest) if own is None else own[0] for own in self._fixed])

    def _join(self, leaves: list[Any]) -> Contract:
        return Contract(*jax.tree.unflatten(self._treedef, leaves))

    def _advance(self, leaves: list[Any], lanes: Lanes, most: Array, idle: Array) -> tuple[Lanes, Array]:
        """Lanes after ``most`` steps, or fewer where all runs are over unless ``idle``; and how many these were."""

        def step(carry: tuple[Lanes, Array]) -> tuple[Lanes, Array]:
            lanes, made = carry
            new = jax.vmap(self._step, (None, 0, 0, 0))(leaves, lanes.key, lanes.instance, lanes.state)
            seen = [(each.changed, each.nan, each.odd) for each in (lanes, new)]
            changed, nan, odd = jax.tree.map(jnp.maximum, *seen)
            return new._replace(changed=changed, nan=nan, odd=odd), made + 1

        def on(carry: tuple[Lanes, Array]) -> Array:
            return (carry[1] < most) & (idle | ~jnp.all(carry[0].over))

        return lax.while_loop(on, step, (lanes, jnp.int32(0)))

    def _answers(self, leaves: list[Any], lanes: Lanes) -> dict[str, Array]:
        def one(key: Stream, instance: Tree, state: Tree) -> dict[str, Array]:
            run = self._join(leaves)
            return run.answer(run.view(key, instance), instance, state)

        return jax.vmap(one)(lanes.key, lanes.instance, lanes.state)

    def _again(self, leaves: list[Any], keys: Stream, arrays: list[Any], indices: bool = False) -> Any:
        """Outcomes of a pull in other runs; ``indices``: after an error of ``checkify`` on an index out of range."""

        def one(key: Stream) -> list[Array]:
            run = self._join(leaves)
            outcome = run.pull(key, run.draw(key), self.pull(arrays))
            return [jnp.asarray(leaf) for leaf in jax.tree.leaves(outcome) if is_array(leaf)]

        return jax.vmap(checkify.checkify(one, errors=checkify.index_checks) if indices else one)(keys)


_made: dict[Any, SteppingPrograms] = {}
_MOST_MADE = 16


def stepping_programs(pair: tuple[Problem, Policy], key: Stream, advancing: bool) -> SteppingPrograms:
    """The programs of a pair, which pairs of its structure and shapes share in a process."""
    leaves, treedef = jax.tree.flatten(pair)
    shapes = [(np.shape(leaf), jnp.result_type(leaf), isinstance(leaf, int | float)) for leaf in leaves]
    which = here((treedef, tuple(shapes), key.high.shape, advancing))
    if which not in _made:
        while len(_made) >= _MOST_MADE:
            _made.pop(next(iter(_made)))
        _made[which] = SteppingPrograms(pair, key, advancing)
    return _made[which]
