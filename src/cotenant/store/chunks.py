"""The unit of commit: a folder named after its trials.

`000007` holds one trial, `000012-000025` a range, `000012-000014+000017` several ranges. The names alone determine
which trials of a run are on disk.
"""

import re
from collections.abc import Iterable

LONGEST_NAME = 240
"""Bytes; most file systems allow 255."""
MOST_TRIALS = 4096
"""Maximum trials per folder; a name that claims more was not written by a run."""
_NAME = re.compile(r"\d{6,}(-\d{6,})?(\+\d{6,}(-\d{6,})?)*")


def chunk_name(trials: Iterable[int]) -> str:
    """The folder name for these trials."""
    parts: list[list[int]] = []
    for number in sorted(trials):
        if number < 0:
            raise ValueError(f"trials are numbered from 0, not {number}")
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return "+".join(f"{first:06d}" if first == last else f"{first:06d}-{last:06d}" for first, last in parts)


def trials_in(name: str) -> tuple[int, ...]:
    """The trials of a folder of this name; empty if it isn't such a name."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        return ()
    found: list[int] = []
    for part in name.split("+"):
        first, _, last = part.partition("-")
        span = range(int(first), int(last or first) + 1)
        if len(found) + len(span) > MOST_TRIALS:
            return ()
        found += span
    return tuple(found) if found and chunk_name(found) == name else ()
