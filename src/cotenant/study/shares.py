"""Shares written as `3%`. In its own module, since `show` needs it without the model of a study."""

import math
import re
from decimal import Decimal
from typing import Any

from cotenant.study.words import expected

_PERCENT = re.compile(r"^(\d+(?:\.\d*)?)\s*%$")


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
