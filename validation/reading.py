"""Read measured data from the user's folder, with the required columns or a sentence on what is wrong.

Rows that can't be judged are counted by reason: nothing is dropped silently.
"""

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cotenant.errors import DataError

HINT = "set --data to the folder with the measured data; its README lists the files"
_NAMED = 6
"""Maximum names listed; the rest are counted."""


class AbsentData(DataError):
    """The folder has no such file, so there is nothing to compare with."""


def read_table(data: Path, file: str, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV file below ``data``, each with at least the named columns, as stripped text."""
    try:
        with _path(data, file).open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream, skipinitialspace=True)
            if not reader.fieldnames:
                raise DataError(f"{file} is empty.", hint=HINT)
            missing = [column for column in columns if column not in reader.fieldnames]
            if missing:
                raise DataError(f"{file} has no column {', '.join(map(repr, missing))}.", hint=HINT)
            rows = [{column: (row[column] or "").strip() for column in columns} for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise DataError(f"{file} can't be read: {problem}.", hint=HINT) from problem
    if not rows:
        raise DataError(f"{file} has no rows.", hint=HINT)
    return rows


def read_json(data: Path, file: str) -> Any:
    """A JSON file below ``data``."""
    try:
        return json.loads(_path(data, file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise DataError(f"{file} can't be read: {problem}.", hint=HINT) from problem


def number(text: str, file: str, column: str) -> float:
    """A cell as a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise DataError(f"{file} has {text!r} where column {column!r} should hold a number.", hint=HINT)
    return value


def positive(text: str, file: str, column: str) -> float:
    """A cell as a finite number above 0: a time, a throughput, a power."""
    value = number(text, file, column)
    if value <= 0:
        raise DataError(f"{file} has {text!r} where column {column!r} should hold a number above 0.", hint=HINT)
    return value


def count(text: str, file: str, column: str) -> int:
    """A cell as an integer above 0: items of a batch, processes, tokens."""
    value = number(text, file, column)
    if value < 1 or value != int(value):
        raise DataError(f"{file} has {text!r} where column {column!r} should hold an integer above 0.", hint=HINT)
    return int(value)


def files(data: Path, pattern: str) -> list[str]:
    """The files below ``data`` that match the pattern, at least one, sorted."""
    _folder(data)
    names = sorted(path.relative_to(data).as_posix() for path in data.glob(pattern) if path.is_file())
    if not names:
        raise AbsentData(f"There is no {pattern} in the folder of measured data.", hint=HINT)
    return names


def _path(data: Path, file: str) -> Path:
    _folder(data)
    path = data / file
    if not path.is_file():
        raise AbsentData(f"There is no {file} in the folder of measured data.", hint=HINT)
    return path


def _folder(data: Path) -> None:
    if not data.is_dir():
        raise DataError(f"There is no folder {str(data)!r} with measured data.", hint=HINT)


class LeftOutRows:
    """Rows left out of a data set, and why."""

    def __init__(self) -> None:
        self._reasons: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, why: str, what: str, rows: int = 1) -> None:
        """Count rows.

        Args:
            why: A clause: ``the GPU isn't in the catalogue``.
            what: What they share: a model, a GPU, a file.
            rows: Number of rows.
        """
        self._reasons[why][what] += rows

    def sentences(self) -> tuple[str, ...]:
        """A sentence per reason."""
        return tuple(_sentence(why, what) for why, what in self._reasons.items())


def _sentence(why: str, what: Counter[str]) -> str:
    total = what.total()
    names = [f"{name} ({rows})" if rows > 1 and len(what) > 1 else name for name, rows in sorted(what.items())]
    others = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{total:,} {'row' if total == 1 else 'rows'} left out, as {why}: {', '.join(names[:_NAMED])}{others}."
