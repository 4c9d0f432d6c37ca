"""The result of reading a foreign file, whatever its format."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cotenant.errors import DataError
from cotenant.tenancy.records import Columns, Int64s

Floats = npt.NDArray[np.float64]

RUN_COLUMNS = {
    "workload": "what ran",
    "gpu": "the GPU, by UUID or, without one, by its place",
    "cabinet": "location of the node; NULL: unknown",
    "node": "the machine; NULL: unknown",
    "slot": "which GPU of the machine; NULL: unknown",
    "job": "the run's job; NULL: unknown",
    "started_s": "start, seconds since 1970",
    "time_ms": "time of one step (kernel, iteration), milliseconds",
    "sm_clock_mhz": "SM clock over the run",
    "memory_clock_mhz": "memory clock over the run; NaN: unknown",
    "temperature_c": "temperature over the run, degrees Celsius",
    "power_w": "power over the run, watts",
}
"""The columns of `Imported.runs`: a row per run of a workload on a GPU. Text is str or None, numbers float64."""

KERNEL_COLUMNS = ("tenant", "name", "device", "stream", "start_ns", "duration_ns")
"""The columns of `Imported.kernels`, as in the table `kernels` of a run."""


@dataclass(frozen=True, slots=True)
class ImportedSeries:
    """The readings of a sensor of a device, in order of time. Failed readings are left out."""

    device: str
    """The file's name for it: a UUID, `GPU 0`, `0`."""
    sensor: str
    """Our name for the quantity, if any: `power_w`, `sm_clock_mhz`, `temperature_c`, `sm_active`."""
    unit: str
    source: str
    """The tool, and its own name for the quantity."""
    t_ns: Int64s
    value: Floats
    refused: int = 0
    """Number of failed readings."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """One kind of unusable line."""

    what: str
    count: int
    lines: tuple[int, ...]
    """The first few of them, counted from 1."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A foreign file in our columns. Which of ``runs``, ``series`` and ``kernels`` is filled depends on the format.

    Nothing here is a trial: foreign files have no blocks, solo baselines or verdicts.
    """

    path: Path
    format: str
    clock: str
    """Origin of the nanoseconds, as text: files differ, and two of them need not share a clock."""
    runs: Columns = field(default_factory=dict)
    series: tuple[ImportedSeries, ...] = ()
    kernels: Columns = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able facts stated by the file."""
    skipped: tuple[Skipped, ...] = ()

    @property
    def rows(self) -> int:
        """Number of runs, readings and kernels."""
        tables = (next(iter(table.values()), ()) for table in (self.runs, self.kernels))
        return sum(len(column) for column in tables) + sum(len(series.value) for series in self.series)

    def samples(self) -> Columns:
        """All series as a table with the columns of a run's `samples`; several times larger, as text is repeated."""
        if not self.series:
            return {}
        counts = [len(series.value) for series in self.series]

        def repeated(values: list[str]) -> npt.NDArray[Any]:
            return np.repeat(np.array(values, dtype=object), counts)

        return {
            "device": repeated([series.device for series in self.series]),
            "t_ns": np.concatenate([series.t_ns for series in self.series]),
            "sensor": repeated([series.sensor for series in self.series]),
            "value": np.concatenate([series.value for series in self.series]),
            "unit": repeated([series.unit for series in self.series]),
            "source": repeated([series.source for series in self.series]),
        }


class Kind(NamedTuple):
    """The meaning of a column of numbers."""

    sensor: str
    unit: str
    source: str
    per: float = 1.0
    """The file's units per unit of ours; dividing keeps 1.918 exact."""


def by_device(columns: Columns, kinds: Mapping[str, Kind], devices: Sequence[str]) -> tuple[ImportedSeries, ...]:
    """Split by the column `device`, if any.

    Args:
        columns: `t_ns`, optionally `device`, and a column of numbers per sensor, NaN where nothing was read.
        kinds: The meaning of each.
        devices: Names indexed by the column `device`; a single name without such a column.
    """
    t_ns = columns["t_ns"]
    rows = {
        name: columns["device"] == number if "device" in columns else np.ones(len(t_ns), np.bool_)
        for number, name in enumerate(devices)
    }
    series = []
    for device, mine in rows.items():
        if not mine.any():  # a name only in bad lines
            continue
        alone = len(rows) == 1  # avoids a copy
        times = t_ns if alone else t_ns[mine]
        for column, (sensor, unit, source, per) in kinds.items():
            values = columns[column] if alone else columns[column][mine]
            if per != 1.0:
                values = values / per
            read = ~np.isnan(values)
            refused = int(values.size - read.sum())
            whole = refused == 0
            series.append(
                ImportedSeries(
                    device,
                    sensor,
                    unit,
                    source,
                    times if whole else times[read],
                    values if whole else values[read],
                    refused,
                )
            )
    return tuple(series)


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
        """A code per line, 0 for a good line."""
        bad = np.flatnonzero(codes)
        for code in np.unique(codes[bad]):
            if int(code) in words:
                self.add(words[int(code)], (bad[codes[bad] == code] + first_line).tolist())

    def settle(self, path: Path, *, skip_bad: bool) -> tuple[Skipped, ...]:
        """The skipped lines, if requested. Otherwise raises DataError with every kind, place and count."""
        skipped = tuple(Skipped(what, count, tuple(lines)) for what, (count, lines) in self._found.items())
        if skipped and not skip_bad:
            total = sum(problem.count for problem in skipped)
            kinds = "; ".join(sentence(problem) for problem in skipped)
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
