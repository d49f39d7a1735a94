"""Parameters: declared once, on the function that makes a policy; studies, lists, docs and ``tune`` read them there.

The annotation of an argument says what it takes (``Key``), the signature its default, the docstring what it means.
"""

import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jax
import numpy as np

from jaxbandit.devices import lenient, use_all_cores
from jaxbandit.space import Choice, Domain

Made = TypeVar("Made", bound=Callable[..., Any])


class Required:
    """Marks a parameter without a default, which must be given.

    Example:
        >>> from jaxbandit.registry import Parameter, Required, text
        >>> Parameter("path", text, "the table of claims").default is Required
        True
    """


class Key:
    """Annotates an argument with what it takes: ``Annotated[int, Key(whole(1, 9))]``; ``more``: see ``Parameter``.

    Example:
        >>> from typing import Annotated
        >>> from jaxbandit.parameters import Key, parameters
        >>> from jaxbandit.registry import whole
        >>> def rule(t: Annotated[int, Key(whole(1, 9))] = 3) -> None:
        ...     '''A rule.
        ...
        ...     Args:
        ...         t: operations to explore with.
        ...     '''
        >>> [(each.name, each.default, each.help) for each in parameters(rule)]
        [('t', 3, 'operations to explore with')]
    """

    def __init__(self, parse: Callable[[str, Any], Any], **more: Any) -> None:
        self.parse, self.more = parse, more


@dataclass(frozen=True)
class Parameter:
    """Describes one key of a problem or a policy.

    ``parse(field, value)`` gives the checked value or raises ``BadInput``; ``swept``: whether a list in a study file
    stands for several configurations (else a list is one value); ``label``: what an axis says, with the unit, where the
    name alone does not do; ``partner``: the parameter without which it is not given.

    For ``jaxbandit tune``: ``search`` is the domain in which it searches, in the place of all that ``parse`` takes;
    ``on_request``: only where ``[tune.space]`` names it, as of a promise that the best value would break, of a price,
    or of a reading of a paper's text; ``when``: other parameters, with the values under which this one matters.

    Example:
        >>> from jaxbandit.registry import Parameter, whole
        >>> Parameter("t", whole(1, 9), "operations to explore with", 3).required
        False
    """

    name: str
    parse: Callable[[str, Any], Any]
    help: str
    default: Any = Required
    swept: bool = True
    label: str = ""
    search: Domain | None = None
    partner: str = ""
    on_request: bool = False
    when: Mapping[str, Domain] = field(default_factory=dict)

    @property
    def required(self) -> bool:
        """Returns whether a user must give the parameter."""
        return self.default is Required

    @property
    def domain(self) -> Domain | None:
        """Returns what a search may move over; None where ``parse`` does not say what it takes, as of a path."""
        return self.search or getattr(self.parse, "domain", None)

    def matters(self, values: Mapping[str, Any]) -> bool:
        """Returns whether it makes a difference, given the values of all parameters that it depends on."""
        return all(values.get(name) in domain for name, domain in self.when.items())

    @property
    def searched(self) -> str:
        """Returns what a user is told of where ``tune`` searches; empty of a parameter that it cannot search."""
        if self.domain is None:
            return ""
        words = "tune, if its space names it" if self.on_request else "tune"
        return f"{words}: {self.domain}" + (f" (where {self.condition})" if self.when else "")

    @property
    def condition(self) -> str:
        """Returns where it matters, in words; empty of one that always does."""
        domains = {name: str(domain).replace(", ", " or ") for name, domain in self.when.items()}
        found = [f"{name} is {'left out' if self.when[name] == LEFT_OUT else each}" for name, each in domains.items()]
        return " and ".join(found)


LEFT_OUT = Choice((None,))
"""The domain of a parameter that is not given, for ``when``."""


def parameters(
    made_by: Callable[..., Any], *, leave_out: tuple[str, ...] = (), **defaults: Any
) -> tuple[Parameter, ...]:
    """Returns the parameters that a function declares by ``Key`` in the annotations of its arguments, in their order.

    Args:
        made_by: the function, or a dataclass, whose fields they are then.
        leave_out: names of arguments that are not asked for.
        defaults: in the place of those of the signature, by name.
    """
    helps, signature = _helps(made_by), inspect.signature(made_by)
    found = []
    for name, key in _keys(made_by).items():
        if name in leave_out:
            continue
        default = defaults.get(name, signature.parameters[name].default)
        default = Required if default is inspect.Parameter.empty else default
        found.append(Parameter(name, key.parse, helps[name], default, **key.more))
    return tuple(found)


def checked(made_by: Made) -> Made:
    """Has a function check the arguments that it declares by ``Key``: a ``BadInput`` names the one that is wrong.

    A default is not checked, nor an array, whose values may differ from run to run. What is made may have the first
    arrays, so all cores are used from then on.
    """
    signature = inspect.signature(made_by)

    @functools.wraps(made_by)
    @lenient()
    def call(*given: Any, **named: Any) -> Any:
        use_all_cores()
        bound = signature.bind(*given, **named)
        for name, key in _keys(made_by).items():
            value = bound.arguments.get(name, signature.parameters[name].default)
            if value is not signature.parameters[name].default and not isinstance(value, jax.Array):
                bound.arguments[name] = key.parse(name, value.item() if isinstance(value, np.generic) else value)
        return made_by(*bound.args, **bound.kwargs)

    # Whoever reads the signature sees plain types.
    plain = typing.get_type_hints(made_by)
    shown = [each.replace(annotation=plain.get(name, Any)) for name, each in signature.parameters.items()]
    vars(call)["__signature__"] = signature.replace(parameters=shown, return_annotation=plain.get("return", Any))
    return typing.cast(Made, call)


@functools.cache
def _keys(made_by: Callable[..., Any]) -> dict[str, Key]:
    hints = typing.get_type_hints(inspect.unwrap(made_by), include_extras=True)
    keys = {name: [each for each in typing.get_args(hint) if isinstance(each, Key)] for name, hint in hints.items()}
    return {name: found[0] for name, found in keys.items() if found}


def _helps(made_by: Callable[..., Any]) -> dict[str, str]:
    """Returns what the docstring says of the arguments, by their names, up to the first semicolon or full stop."""
    listed = re.search(r"\n(?:Args|Attributes):\n(.*?)(?:\n\n|\Z)", inspect.getdoc(made_by) or "", re.S)
    entries = re.findall(r"^ {4}(\w[\w, ]*): (.*?)(?=^ {4}\w|\Z)", listed.group(1) if listed else "", re.S | re.M)
    return {
        name: re.split(r"; |\. ", " ".join(text.split()))[0].removesuffix(".").replace("``", "")
        for names, text in entries
        for name in names.split(", ")
    }
