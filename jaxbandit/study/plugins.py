"""Policies and families from elsewhere: a user's file, a module, or a package that was installed.

A plugin is a module that registers something when it is imported: ``jaxbandit.register_policy``, ``families.register``.
An installed package names its module in the entry point group ``jaxbandit.families``. What a plugin registers carries
the SHA-256 of its source, which is a part of a study's identity: results of another version are not continued.
"""

import importlib
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from jaxbandit.contract import PAGE, made
from jaxbandit.errors import BadInput
from jaxbandit.parameters import Key
from jaxbandit.registry import Family, Parameter, PolicyKind, ProblemKind, Required, flag, one_of, real, text, whole
from jaxbandit.study.families import FAMILIES, register
from jaxbandit.study.sources import source, source_of

GROUP = "jaxbandit.families"
_groups = [GROUP]
"""Entry points that are still to be searched: it takes a while, and they may ask for families themselves."""

OWN = "one of your own comes from --plugin FILE.py"
_log = logging.getLogger("jaxbandit")

F = TypeVar("F", bound=Callable[..., Any])
_registered: set[tuple[str, str]] = set()


def register_policy(family: str, name: str | None = None, *, anytime: bool = False) -> Callable[[F], F]:
    """Gives a family a policy: the function under this decorator makes it from the keys of a study file.

    Each argument of the function is a key, with its default; its annotation is ``int``, ``float``, ``bool``, ``str`` or
    a ``Literal`` of words. ``Annotated[int, whole(1, 9), "what it is"]`` narrows the range and adds a help text; in the
    place of a parser it takes a ``jaxbandit.registry.Key``, which may say more. An argument named ``setting`` is no
    key: it is the problem as its user describes it. The docstring is the summary.

    Args:
        family: the family's name: cleaning, topk, outliers or extraction, or that of a registered one.
        name: of the policy in study files; the function's with - in the place of _ where None.
        anytime: whether the policy does the same whatever its budget, so that checkpoints can be recorded.

    Raises:
        BadInput: for a family that does not exist, a name that the family has, an argument without such an annotation,
            and one that has the name of another key: ``kind``, or one of the family's problems, but for ``path``.

    Example:
        >>> from jaxbandit import cleaning, register_policy
        >>> @register_policy("cleaning", "patient")
        ... def patient(t: int = 5) -> cleaning.EE:
        ...     "Explores for long."
        ...     return cleaning.ee(t, 0.8)
        ...
        >>> patient().t.item()
        5
    """
    known = families()
    if not isinstance(family, str) or family not in known:
        raise BadInput("register_policy.family", family, f"one of {', '.join(known)}")

    def decorate(function: F) -> F:
        kind = name or function.__name__.replace("_", "-")
        if kind in known[family].policies and (family, kind) not in _registered:
            allowed = f"a name that {family} has not: it has {', '.join(known[family].policies)}"
            raise BadInput("register_policy.name", kind, allowed)
        signature = inspect.signature(function, eval_str=True)
        takes_setting = "setting" in signature.parameters
        arguments = [each for each in signature.parameters.values() if each.name != "setting"]
        _check_names(known[family], arguments)
        parameters = tuple(map(_parameter, arguments))

        def build(setting: Any, **given: Any) -> tuple[Any, dict[str, Any]]:
            own = {"setting": setting} if takes_setting else {}
            return made(f"policy.{kind}", "policy", function, **own, **given), given

        summary = (inspect.getdoc(function) or "a policy of your own").partition("\n")[0].rstrip(".")
        policies = {
            **FAMILIES[family].policies,
            kind: PolicyKind(kind, summary, parameters, build, anytime, source_of(function)),
        }
        register(replace(FAMILIES[family], policies=policies))
        _registered.add((family, kind))
        return function

    return decorate


def _check_names(family: Family, arguments: Sequence[inspect.Parameter]) -> None:
    """Refuses arguments that are called as other keys: rows have the keys of a policy beside those of its problem."""
    problems = {each.name for kind in family.problems.values() for each in kind.parameters}
    policies = {each.name for kind in family.policies.values() for each in kind.parameters}
    # A file of its own, as any policy may have, and what policies of the family have as well, such as a confidence.
    taken = {"kind", *problems} - {"path", *policies}
    for each in arguments:
        if each.name in taken:
            raise BadInput("register_policy, argument", each.name, f"a name that is none of {', '.join(sorted(taken))}")


def _any(parse: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Returns the parser without its domain: all numbers of a type are no place to search in."""
    return lambda name, value: parse(name, value)


_PARSERS: dict[Any, Callable[[str, Any], Any]] = {
    int: _any(whole(-(2**31), 2**31 - 1)), float: _any(real(-3e38, 3e38)), bool: flag, str: text,
}  # fmt: skip


def _parameter(argument: inspect.Parameter) -> Parameter:
    annotation, more = argument.annotation, []
    if get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
    words = get_args(annotation) if get_origin(annotation) is Literal else ()
    parse = one_of(*words) if words and all(isinstance(each, str) for each in words) else _PARSERS.get(annotation)
    own = next((each for each in more if callable(each) or isinstance(each, Key)), parse)
    if own is None:
        allowed = f"annotated int, float, bool, str or a Literal of words; {PAGE}"
        shown = "nothing" if annotation is inspect.Parameter.empty else str(annotation)
        raise BadInput(f"register_policy, argument {argument.name}", shown, allowed)
    key = own if isinstance(own, Key) else Key(own)
    help = next((each for each in more if isinstance(each, str)), argument.name.replace("_", " "))
    default = Required if argument.default is inspect.Parameter.empty else argument.default
    return Parameter(argument.name, key.parse, help, default, **key.more)


def families() -> dict[str, Family]:
    """Returns all families by name, those of installed packages among them."""
    while _groups:
        for point in metadata.entry_points(group=_groups.pop()):
            before = dict(FAMILIES)
            try:
                found = point.load()
                if isinstance(found, Family):
                    register(found)
                _stamp(before, sys.modules[point.module])
            except Exception as error:  # another package's fault, which must not keep this one from working
                why = f"{type(error).__name__}: {error}"
                _log.warning("jaxbandit: the plugin %s cannot be loaded (%s)", point.value, why)
    return FAMILIES


def lookup(field: str, kind: object) -> tuple[Family, ProblemKind]:
    """Returns the family and the problem that ``family/problem`` names.

    Raises:
        BadInput: naming ``field``, where there is no such problem.
    """
    known = {f"{family.name}/{problem}": family for family in families().values() for problem in family.problems}
    if not isinstance(kind, str) or kind not in known:
        raise BadInput(field, kind, f"one of {', '.join(known)}; {OWN}")
    return known[kind], known[kind].problems[kind.partition("/")[2]]


def load(given: str) -> None:
    """Imports a user's module, whose problems and policies register themselves.

    Args:
        given: a Python file, or the name of a module that can be imported.

    Raises:
        BadInput: where it cannot be imported, or registers nothing.
    """
    path = Path(given)
    before = dict(families())
    try:
        if path.suffix == ".py" or len(path.parts) > 1 or path.exists():
            module = _of_file(given, path)
        else:
            module = importlib.import_module(given)
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        allowed = f"a Python file, or a module, that can be imported ({type(error).__name__}: {error})"
        raise BadInput("--plugin", given, " ".join(allowed.split())) from error
    if not _stamp(before, module) and module.__name__ not in _loaded:
        raise BadInput("--plugin", given, f"a file that registers a policy or a family; {PAGE}")
    _loaded.add(module.__name__)


_loaded: set[str] = set()


def _of_file(given: str, path: Path) -> ModuleType:
    """Returns the module of a file, by the name of the file."""
    if path.suffix != ".py" or not path.is_file():
        raise BadInput("--plugin", given, "a Python file that exists, or the name of a module")
    name, path = path.stem, path.resolve()
    spec = sys.modules[name].__spec__ if name in sys.modules else importlib.util.find_spec(name)
    if spec is not None and Path(spec.origin or "").resolve() != path:
        raise BadInput("--plugin", given, f"a file of another name: {name} is a module already")
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _stamp(before: dict[str, Family], module: ModuleType) -> bool:
    """Notes the sources of a package in what it registered; returns whether the module did register anything. What a
    single file registers has its source from there on, however it was imported."""
    changed = {name: family for name, family in FAMILIES.items() if before.get(name) is not family}
    if not hasattr(module, "__path__"):
        return bool(changed)
    files = source(module)
    for name, family in changed.items():
        old = before.get(name)
        if old is not None and replace(family, policies=old.policies) == old:
            policies = {
                each: kind if old.policies.get(each) is kind else replace(kind, fingerprint=files)
                for each, kind in family.policies.items()
            }
            FAMILIES[name] = replace(family, policies=policies)
        else:
            FAMILIES[name] = replace(family, fingerprint=files)
    return bool(changed)
