"""What comes out of a foreign file, whichever format it had."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cotenant.tenancy.records import Columns, Int64s

Floats = npt.NDArray[np.float64]

RUN_COLUMNS = {
    "workload": "what ran",
    "gpu": "the GPU, by UUID or, where the file knows none, by its place",
    "cabinet": "where the node stands; NULL: the file doesn't say",
    "node": "the machine; NULL: the file doesn't say",
    "slot": "which GPU of the machine; NULL: the file doesn't say",
    "job": "the job that the run belonged to; NULL: the file doesn't say",
    "started_s": "when it began, seconds since 1970",
    "time_ms": "how long one step (kernel, iteration) took, milliseconds",
    "sm_clock_mhz": "SM clock over the run",
    "memory_clock_mhz": "memory clock over the run; NaN: the file doesn't say",
    "temperature_c": "temperature over the run, degrees Celsius",
    "power_w": "power over the run, watts",
}
"""The columns of `Imported.runs`: one row for each run of a workload on a GPU. Text is str or None, numbers float64."""

KERNEL_COLUMNS = ("tenant", "name", "device", "stream", "start_ns", "duration_ns")
"""The columns of `Imported.kernels`, as in the table `kernels` of a run."""


@dataclass(frozen=True, slots=True)
class Series:
    """The readings of one sensor of one device, in the order of time. Readings that failed are left out."""

    device: str
    """As the file names it: a UUID, `GPU 0`, `0`."""
    sensor: str
    """Our name for the quantity, where we have one: `power_w`, `sm_clock_mhz`, `temperature_c`, `sm_active`."""
    unit: str
    source: str
    """The tool, and its own name for the quantity."""
    t_ns: Int64s
    value: Floats
    refused: int = 0
    """How often the tool said that it could not read it."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """One kind of line that could not be used."""

    what: str
    count: int
    lines: tuple[int, ...]
    """The first few of them, counted from 1."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A foreign file in columns of ours. Which of ``runs``, ``series`` and ``kernels`` is filled depends on the format.

    Nothing here is a trial: foreign files know no blocks, no solo baseline and no verdicts.
    """

    path: Path
    format: str
    clock: str
    """What the nanoseconds count from, in words: files differ, and two of them need not share a clock."""
    runs: Columns = field(default_factory=dict)
    series: tuple[Series, ...] = ()
    kernels: Columns = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able statements of the file about itself."""
    skipped: tuple[Skipped, ...] = ()

    @property
    def rows(self) -> int:
        """How many runs, readings and kernels came out."""
        tables = (next(iter(table.values()), ()) for table in (self.runs, self.kernels))
        return sum(len(column) for column in tables) + sum(len(series.value) for series in self.series)

    def samples(self) -> Columns:
        """All series as one table with the columns of a run's `samples`; several times larger, as text is repeated."""
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
