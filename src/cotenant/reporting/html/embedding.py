"""Data inside a page: JSON that can't end its element, and hashes of allowed scripts."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from cotenant.analyse.tabular import plain
from cotenant.reporting.figures.figure import Row

_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""In JSON these only occur inside strings, where an escape is equivalent."""


def embedded_json(data: Any) -> str:
    """JSON for a script element of type application/json, without `<`, `>`, `&` or line separators."""
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode()


def columnar(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows in columns, with the distinct texts of a column stored once in `words` and referenced by index.

    Numbers keep seven digits, more than a figure can show.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    words = {column: found for column in columns if (found := _words(row.get(column) for row in rows))}
    places: dict[str, dict[Any, int]] = {
        column: {word: place for place, word in enumerate(many)} for column, many in words.items()
    }
    return {
        "columns": columns,
        "words": words,
        "rows": [
            [places[column].get(row.get(column)) if column in places else _short(row.get(column)) for column in columns]
            for row in rows
        ],
    }


def _words(values: Iterable[Any]) -> list[str]:
    """The distinct texts of a column in order of first use; None if it holds anything but text."""
    found = list(dict.fromkeys(value for value in values if value is not None))
    return found if all(isinstance(one, str) for one in found) else []


def _short(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


def script_hash(script: str) -> str:
    """A script's hash for a Content-Security-Policy."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
