"""Wording of values and suggestions in messages, and shares written as `3%`. Imports no model: `show` needs it."""

import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from cotenant.text import nearest

_LONGEST = 60
_PERCENT = re.compile(r"^(\d+(?:\.\d*)?)\s*%$")


def shown(value: Any) -> str:
    """A value in a message: short, on a single line, without control characters."""
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


def expected(form: str, value: Any, near: str = "") -> ValueError:
    """The error for a value of another kind than expected."""
    return ValueError(f"expected {form}, not {shown(value)}{near}")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def is_number(value: Any) -> bool:
    """A finite number; true and false don't count."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def share_of_one(value: Any) -> float:
    """A share from `3%` or 0.03. Raises ValueError with the complete sentence."""
    match = _PERCENT.match(value.strip()) if isinstance(value, str) else None
    share = float(Decimal(match.group(1)) / 100) if match else value
    if not is_number(share) or not 0 < share < 1:
        raise expected("a share between 0% and 100% such as 3%", value)
    return float(share)


def share_written(share: float) -> str:
    """The share in the syntax of a study."""
    return f"{(Decimal(repr(share)) * 100).normalize():f}%"
