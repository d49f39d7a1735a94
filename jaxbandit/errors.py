"""The one error a user's input can cause: it names the field, the value and what is allowed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class BadInput(ValueError):
    """Reports a value that cannot be used. ``str()`` of it is one line, fit to be shown to a user as it is.

    Args:
        field: the name of the argument, key or column, as the user wrote it.
        value: the value found there.
        allowed: what would have been right.

    Example:
        >>> import jaxbandit
        >>> try:
        ...     jaxbandit.Study.of({"runs": 0})
        ... except jaxbandit.BadInput as error:
        ...     print(error)
        ...
        runs = 0: a whole number from 1 to 2147483647
    """

    def __init__(self, field: str, value: Any, allowed: str) -> None:
        self.field, self.value, self.allowed = field, value, allowed
        shown = " ".join(_shown(value).split())
        # The end of a long path says which file it is.
        shown = shown if len(shown) <= 80 else f"{shown[:38]}...{shown[-39:]}"
        # What is allowed may be cells of a user's table.
        line = f"{field} = {shown}: {' '.join(allowed.split())}"
        # Half a character, which JSON may have, can be neither printed nor sent.
        super().__init__(line.encode("utf-8", "backslashreplace").decode())

    def __reduce__(self) -> tuple[Any, ...]:
        """What another process is sent: the value as it is shown, as it may be anything."""
        return _again, (self.field, _shown(self.value), self.allowed)


def _again(field: str, value: str, allowed: str) -> BadInput:
    return BadInput(field, value, allowed)


def _shown(value: Any) -> str:
    try:
        return value if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):  # of thousands of digits, or of brackets
        return f"one of type {type(value).__name__} that is too long to show"


def quoted(value: Any) -> Any:
    """Returns a text in quotation marks where it reads as a number or a truth value: "20" is wrong for being a text,
    which 20 would not show."""
    if not isinstance(value, str):
        return value
    read = value.strip("+-.0123456789e_") == "" or value.lower() in ("true", "false", "nan", "inf", "+inf", "-inf")
    return f'"{value}"' if read else value


@contextmanager
def under(name: str) -> Iterator[None]:
    """Names the key of a study file in an error of a library function, which knows only its own arguments."""
    try:
        yield
    except BadInput as error:
        own = error.field
        full = name if own == name.rpartition(".")[2] else f"{name}.{own}"
        raise BadInput(full, error.value, error.allowed) from None
