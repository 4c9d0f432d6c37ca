"""Unusable lines: counted, named with their place, and refused or skipped."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cotenant.errors import DataError
from cotenant.store.imports.result import Skipped

SHOWN = 3
"""Places named per kind of problem."""
HINT = "fix the file, or skip such lines: skip_bad=True, on the command line --skip-bad"


class Problems:
    """Collects problems, line by line."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, list[int]]] = {}

    def add(self, what: str, lines: Iterable[int]) -> None:
        """These lines (counted from 1) have this problem."""
        lines = list(lines)
        count, first = self._found.get(what, (0, []))
        self._found[what] = (count + len(lines), [*first, *lines][:SHOWN])

    def add_codes(self, codes: npt.NDArray[np.int8], words: Mapping[int, str], first_line: int) -> None:
        """One code per line, 0 for a good one."""
        bad = np.flatnonzero(codes)
        for code in np.unique(codes[bad]):
            if int(code) in words:
                self.add(words[int(code)], (bad[codes[bad] == code] + first_line).tolist())

    def settle(self, path: Path, *, skip_bad: bool) -> tuple[Skipped, ...]:
        """The skipped lines, if requested. Otherwise raises DataError with every kind, place and count."""
        skipped = tuple(Skipped(what, count, tuple(lines)) for what, (count, lines) in self._found.items())
        if skipped and not skip_bad:
            total = sum(one.count for one in skipped)
            kinds = "; ".join(sentence(one) for one in skipped)
            raise DataError(
                f"{path} has {total:,} {'line' if total == 1 else 'lines'} that can't be used, so nothing was "
                f"imported: {kinds}.",
                hint=HINT,
            )
        return skipped


def sentence(skipped: Skipped) -> str:
    """`power.draw [W] is not a number (12 times, first in lines 3, 7, 9)`."""
    numbers = ", ".join(map(str, skipped.lines))
    if skipped.count == 1:
        return f"{skipped.what} (line {numbers})"
    first = "first in lines" if skipped.count > len(skipped.lines) else "in lines"
    return f"{skipped.what} ({skipped.count:,} times, {first} {numbers})"


def nothing_in(path: Path, what: str) -> DataError:
    """The error for a readable file without relevant data."""
    return DataError(f"{path} has no {what}.", hint="check that the tool ran long enough and wrote to this file")
