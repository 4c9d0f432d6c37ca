"""What one rename commits: a folder named after the trials in it.

`000007` holds one trial, `000012-000025` all of these, `000012-000014+000017` some of them. The names alone say which
trials of a run are on the disk.
"""

import re
from collections.abc import Iterable

LONGEST_NAME = 240
"""Bytes; most file systems allow 255."""
MOST_TRIALS = 4096
"""In one folder: a name that claims more was not written by a run."""
_NAME = re.compile(r"\d{6,}(-\d{6,})?(\+\d{6,}(-\d{6,})?)*")


def chunk_name(trials: Iterable[int]) -> str:
    """The name of the folder that holds these trials."""
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
    """The trials that a folder of this name holds; none if it is not such a name."""
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
