"""Plain data for JSON: no NaN, no infinity."""

import math
from typing import Any


def plain(value: Any) -> Any:
    """The same data with every number that JSON can't hold replaced by null."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
    return value
