"""Wording of values and suggestions in messages."""

import json
from collections.abc import Iterable
from typing import Any

from cotenant.text import nearest

_LONGEST = 60


def shown(value: Any) -> str:
    """A value in a message: short, on one line, without control characters."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _short(str(value))
        case list() | tuple():
            return "a list"
        case dict():
            return "a mapping"
    return json.dumps(_short(str(value)), ensure_ascii=not str(value).isprintable())


def key_shown(key: str) -> str:
    """A key of a dotted path; hostile ones are escaped."""
    return _short(key) if key and key.isprintable() else json.dumps(_short(key))


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """`; did you mean "batch"?`, or empty if no option is near."""
    near = nearest(word, options)
    return f'; did you mean "{near[0]}"?' if near else ""


def expected(wanted: str, value: Any, near: str = "") -> ValueError:
    """The error for a value of another kind than expected."""
    return ValueError(f"expected {wanted}, not {shown(value)}{near}")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
