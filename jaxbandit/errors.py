"""The one error a user's input can cause: it names the field, the value and what is allowed."""

from typing import Any


class BadInput(ValueError):
    """A value that cannot be used. ``str()`` of it is one line, fit to be shown to a user as it is.

    Args:
        field: the name of the argument, key or column, as the user wrote it.
        value: the value found there.
        allowed: what would have been right.
    """

    def __init__(self, field: str, value: Any, allowed: str) -> None:
        self.field, self.value, self.allowed = field, value, allowed
        shown = value if isinstance(value, str) else repr(value)
        shown = " ".join(str(shown).split())
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        super().__init__(f"{field} = {shown}: {allowed}")
