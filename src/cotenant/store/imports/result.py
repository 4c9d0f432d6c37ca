"""The result of reading a foreign file, whatever its format."""

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
"""The columns of `Imported.runs`: one row per run of a workload on a GPU. Text is str or None, numbers float64."""

KERNEL_COLUMNS = ("tenant", "name", "device", "stream", "start_ns", "duration_ns")
"""The columns of `Imported.kernels`, as in the table `kernels` of a run."""


@dataclass(frozen=True, slots=True)
class Series:
    """The readings of one sensor of one device, in order of time. Failed readings are left out."""

    device: str
    """The file's name for it: a UUID, `GPU 0`, `0`."""
    sensor: str
    """Our name for the quantity, if there is one: `power_w`, `sm_clock_mhz`, `temperature_c`, `sm_active`."""
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
    series: tuple[Series, ...] = ()
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
