"""Data inside a page: JSON that can't end its element, and hashes that let only our own scripts run."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from cotenant.analyse.plain import plain
from cotenant.reporting.figures.figure import Row

_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""Within JSON these only occur inside strings, where an escape means the same."""


def embedded_json(data: Any) -> str:
    """JSON for a script element of type application/json: holds no `<`, `>`, `&` or line separator."""
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode()


def columnar(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows with their column names said once, and each text of a column once: rows then hold its place in `words`.

    Numbers have seven digits, more than a figure can show.
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
    """The different texts of a column, in the order of their first use; none if it holds anything but text."""
    found = list(dict.fromkeys(value for value in values if value is not None))
    return found if all(isinstance(one, str) for one in found) else []


def _short(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


def script_hash(script: str) -> str:
    """What a Content-Security-Policy names a script by."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
