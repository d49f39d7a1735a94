"""What people, agents and services give to a session: each kind of number and of text is read in one place."""

import json
import re
import urllib.parse
from contextlib import suppress
from ipaddress import IPv6Address
from itertools import chain
from typing import Any

from jaxbandit.errors import BadInput
from jaxbandit.parsers import between, whole
from jaxbandit.user_tables import number

ahead = whole(0, 10_000)
"""Reads how many pulls a policy may be ahead of its open questions."""
count = whole(1, 10_000)
"""Reads how many questions a sheet may have."""
lease = between(0, 1e9)
"""Reads for how many seconds a question is an agent's."""
timeout = between(0, 1e6)
"""Reads for how many seconds an agent is waited for."""
cost = between(0, 1e15, least_too=True)
"""Reads what an answer really cost."""
_DEEPEST = 64


def place(value: Any) -> int:
    """Returns a number from 1 on, as of a question or of a value in a list: a whole one, or up to ten of the digits 0
    to 9. Whatever else is given is 0, which nothing has."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) <= 10 else 0
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def parsed(value: str | bytes) -> Any:
    """Returns what a text says in JSON.

    Raises:
        ValueError: for one that is none, that is nested deeper than any value is, or has half a character.
    """
    try:
        found = json.loads(value)
    except RecursionError:
        raise ValueError("nested too deep") from None
    level, depth = [found], 0
    while level:
        for each in level:
            if isinstance(each, str):
                each.encode()  # UnicodeEncodeError is a ValueError
        level = list(chain.from_iterable(map(_inner, level)))
        if (depth := depth + 1) > _DEEPEST:
            raise ValueError("nested too deep")
    return found


def _inner(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def text(field: str, value: Any) -> str:
    """Returns a text that can be stored and sent.

    Raises:
        BadInput: for what is no text, and one with a NUL or with half a character (a lone surrogate, as JSON and
            arguments that are not UTF-8 may have).
    """
    if not isinstance(value, str):
        raise BadInput(field, "missing" if value is None else value, "a text")
    if any(each == "\0" or "\ud800" <= each <= "\udfff" for each in value):
        raise BadInput(field, value, "a text in UTF-8, without NUL")
    return value


def address(field: str, value: str) -> str:
    """Returns the URL of a service.

    Raises:
        BadInput: for one that no request can be sent to.
    """
    try:
        parts = urllib.parse.urlsplit(value)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port that is no number
        right = False
    if not right or not value.isascii() or not value.isprintable() or " " in value:
        raise BadInput(field, value, "http://... or https://...")
    return value


def token(field: str, value: str) -> str:
    """Returns a token that a header and the address of a page can bring as it is (RFC 6750); "" for none.

    Raises:
        BadInput: for other characters, without the token.
    """
    if not re.fullmatch(r"([A-Za-z0-9._~+/-]+=*)?", value):
        raise BadInput(field, "a token with other characters", "one of ASCII letters, digits and . _ ~ + / -")
    return value


def host(field: str, value: str) -> str:
    """Returns the name or the address of a machine as browsers write it in a Host header: in small letters, and an
    IPv6 address in brackets.

    Raises:
        BadInput: for what is more than that, such as a URL, and for a pattern.
    """
    with suppress(ValueError):
        return f"[{IPv6Address(value.removeprefix('[').removesuffix(']'))}]"
    if not re.fullmatch(r"[a-z0-9_.-]+", value.lower()):
        raise BadInput(field, value, "a host without scheme and port, such as lab.example.org or 192.168.1.5")
    return value.lower()


__all__ = [
    "address",
    "ahead",
    "cost",
    "count",
    "host",
    "lease",
    "number",
    "parsed",
    "place",
    "text",
    "timeout",
    "token",
]
