"""Measurements of a kind of work on many GPUs, as columns sorted by GPU and time."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.intervals import Floats

Codes = npt.NDArray[np.int32]
SENSORS = ("clock_mhz", "temperature_c", "power_w")
PLACES = ("cabinet", "node", "job")
_CORE = re.compile(r"(^| )cpu(:[\d,-]+)?$")
UNKNOWN = -1
"""Code of an unrecorded cabinet, node or job."""


@dataclass(frozen=True)
class FleetReadings:
    """One row per measurement, sorted by GPU and then by time; NaN where nothing was read. Build with `of`.

    Sensor columns may have single precision: ten million rows of four sensors then take 160 MB.
    """

    gpus: tuple[str, ...]
    """Lasting identities; ``gpu`` holds positions in it."""
    gpu: Codes
    time_ms: Floats
    """Per request."""
    clock_mhz: npt.NDArray[Any]
    temperature_c: npt.NDArray[Any]
    power_w: npt.NDArray[Any]
    at_s: Floats
    """Seconds since 1970."""
    cabinet: Codes
    node: Codes
    job: Codes
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names behind the codes of `PLACES`."""
    power_limit_w: float | None = None
    """The limit that applied to all, where recorded."""
    reasons: tuple[str, ...] = ()
    """By GPU: the reason its driver gave most often for holding the clock down; empty: not recorded."""

    @classmethod
    def of(
        cls,
        gpu: Sequence[str] | npt.NDArray[Any],
        time_ms: npt.ArrayLike,
        *,
        clock_mhz: npt.ArrayLike | None = None,
        temperature_c: npt.ArrayLike | None = None,
        power_w: npt.ArrayLike | None = None,
        at_s: npt.ArrayLike | None = None,
        cabinet: Sequence[str] | None = None,
        node: Sequence[str] | None = None,
        job: Sequence[str] | None = None,
        power_limit_w: float | None = None,
    ) -> "FleetReadings":
        """Build from labels as text (empty: unknown) and numbers, in any order."""
        names, codes = np.unique(np.asarray(gpu, dtype=np.str_), return_inverse=True)
        n = codes.size
        numbers = [_column(values, n) for values in (time_ms, clock_mhz, temperature_c, power_w, at_s)]
        order = np.lexsort((numbers[4], codes))
        labels = {name: _coded(values, n) for name, values in zip(PLACES, (cabinet, node, job), strict=True)}
        time, clock, heat, power, at = (column[order] for column in numbers)
        cabinets, nodes, jobs = (labels[name][1][order] for name in PLACES)
        return cls(
            gpus=tuple(str(name) for name in names),
            gpu=codes[order].astype(np.int32),
            time_ms=time,
            clock_mhz=clock,
            temperature_c=heat,
            power_w=power,
            at_s=at,
            cabinet=cabinets,
            node=nodes,
            job=jobs,
            names={name: labels[name][0] for name in PLACES},
            power_limit_w=power_limit_w,
        )

    def __len__(self) -> int:
        return int(self.time_ms.size)

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each GPU's rows begin, plus the end of the last."""
        return np.searchsorted(self.gpu, np.arange(len(self.gpus) + 1))

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows of each GPU."""
        return np.diff(self.starts)

    @property
    def noun(self) -> str:
        """What to call one of them: `GPU`, `core` of a CPU, or `device` where both occur."""
        cores = sum(_CORE.search(name) is not None for name in self.gpus)
        return "core" if cores == len(self.gpus) else "device" if cores else "GPU"

    def of_gpu(self, column: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """A column's values by GPU, as views."""
        return [column[a:b] for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]

    def medians(self, column: npt.NDArray[Any]) -> Floats:
        """Each GPU's median of a column; NaN where nothing was read."""
        present = np.flatnonzero(~np.isnan(column))
        gpu, values = self.gpu[present], column[present]
        values = values[np.lexsort((values, gpu))]  # rows are in order of GPUs, and stay so
        starts = np.searchsorted(gpu, np.arange(len(self.gpus) + 1))
        count, found = np.diff(starts), np.full(len(self.gpus), np.nan)
        read = np.flatnonzero(count)
        low, high = starts[read] + (count[read] - 1) // 2, starts[read] + count[read] // 2
        found[read] = (values[low] + values[high]) / 2
        return found

    @cached_property
    def gpu_times(self) -> Floats:
        """Each GPU's median time."""
        return self.medians(self.time_ms)

    @cached_property
    def places(self) -> dict[str, Codes]:
        """Each GPU's cabinet and node: the most frequent in its rows."""
        return {
            name: np.array([_commonest(codes) for codes in self.of_gpu(getattr(self, name))], dtype=np.int32)
            for name in ("cabinet", "node")
        }

    def place_of(self, number: int, name: str) -> str:
        """The name of a GPU's cabinet or node; empty if unknown."""
        code = int(self.places[name][number])
        return "" if code == UNKNOWN else self.names[name][code]

    def thinned(self, most: int) -> "FleetReadings":
        """At most about this many rows: every k-th of each GPU, evenly over time; at least two of each GPU."""
        if len(self) <= most:
            return self
        each = max(2, most // max(1, len(self.gpus)))
        rows = np.concatenate(
            [
                a + np.unique(np.linspace(0, b - a - 1, min(b - a, each)).astype(np.int64))
                for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)
            ]
        )
        return self._chosen(rows)

    def since(self, begin_s: Mapping[str, float]) -> "FleetReadings":
        """Drop what some GPUs did before a time; the last time given for a GPU applies."""
        if not begin_s:
            return self
        begin = np.full(len(self.gpus), -np.inf)
        for number, gpu in enumerate(self.gpus):
            begin[number] = begin_s.get(gpu, -np.inf)
        kept = ~(self.at_s < begin[self.gpu])
        return self._chosen(np.flatnonzero(kept))

    def _chosen(self, rows: npt.NDArray[np.int64]) -> "FleetReadings":
        columns = ("gpu", "time_ms", *SENSORS, "at_s", *PLACES)
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})


def _column(values: npt.ArrayLike | None, n: int) -> Floats:
    if values is None:
        return np.full(n, np.nan)
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (n,):
        raise ValueError(f"a column holds {column.size} values, not {n}")
    return column


def _coded(labels: Sequence[str] | None, n: int) -> tuple[tuple[str, ...], Codes]:
    if labels is None:
        return (), np.full(n, UNKNOWN, dtype=np.int32)
    names, codes = np.unique(np.asarray(labels, dtype=np.str_), return_inverse=True)
    if codes.shape != (n,):
        raise ValueError(f"a column holds {codes.size} labels, not {n}")
    if names.size and names[0] == "":
        names, codes = names[1:], codes - 1
    return tuple(str(name) for name in names), codes.astype(np.int32)


def _commonest(codes: Codes) -> int:
    known = codes[codes != UNKNOWN]
    return int(np.bincount(known).argmax()) if known.size else UNKNOWN
