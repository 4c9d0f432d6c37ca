"""Results as JSON values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any


def plain(data: Any) -> Any:  # noqa: PLR0911 - one return per case
    """Convert to lists, dicts, text and finite numbers; infinity and NaN, which JSON lacks, become null.

    An object is converted by its `to_json`; a dataclass without one becomes its fields.
    """
    if hasattr(data, "to_json"):  # first: a named tuple with `to_json` is also a sequence
        return plain(data.to_json())
    match data:
        case None | bool() | int() | str():
            return data
        case float():
            return data if math.isfinite(data) else None
        case Mapping():
            return {str(key): plain(value) for key, value in data.items()}
        case Sequence():
            return [plain(value) for value in data]
    if is_dataclass(data):
        return {field.name: plain(getattr(data, field.name)) for field in fields(data)}
    if hasattr(data, "tolist"):
        return plain(data.tolist())  # numpy
    return str(data)  # paths, dates, decimals
