"""`nvprof --print-gpu-trace --csv`: banners (`==`), a row of units below the header, kernels, system samples."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cotenant import opening, sensors
from cotenant.errors import DataError
from cotenant.store.imports.result import Imported, ImportedSeries, Problems, nothing_in
from cotenant.tenancy.records import Columns

_UNITS_NS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_NEEDED = ("Start", "Duration", "Device", "Name")
_SYSTEM = {
    "[SM/Memory Clock (MHz)]": ((*sensors.SM_CLOCK, 1.0), (*sensors.MEMORY_CLOCK, 1.0)),
    "[Temperature (C)]": ((*sensors.TEMPERATURE, 1.0),),
    "[Power/Limit (mW)]": ((*sensors.POWER, 1e-3), (*sensors.POWER_LIMIT, 1e-3)),
    "[Fan (%)]": (("fan", "%", 1.0),),
}
"""Rows of system profiling: `a/b` in the column System, and the meaning of each part."""


def recognise(text: list[str]) -> bool:
    """Whether these first lines are a trace by nvprof."""
    return any(line.startswith(('"Start","Duration"', "Start,Duration")) for line in text)


@dataclass(slots=True)
class _Found:
    """What was read so far."""

    kernels: list[tuple[str, str, int, int, int]] = field(default_factory=list)
    samples: dict[tuple[str, str, str, str], tuple[list[int], list[float]]] = field(default_factory=dict)


def read(path: Path, *, skip_bad: bool) -> Imported:
    """Every kernel and every system sample in the file. Raises DataError."""
    rows = _rows(path)
    header = next((cells for _, cells in rows if cells[:2] == ["Start", "Duration"]), None)
    if header is None:
        raise DataError(
            f"{path} has no header line that begins with 'Start','Duration'.",
            hint="write it with: nvprof --print-gpu-trace --csv --log-file FILE ...",
        )
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        raise DataError(f"{path} has no column {', '.join(map(repr, missing))}.", hint="use --print-gpu-trace")
    at = {name: position for position, name in enumerate(header)}
    line, units = next(rows, (0, []))
    scale = _scales(path, line, units, at)
    problems, found = Problems(), _Found()
    for line, cells in rows:
        problem = f"not {len(header)} cells" if len(cells) != len(header) else _take(cells, at, scale, found)
        if problem is not None:
            problems.add(problem, [line])
    skipped = problems.settle(path, skip_bad=skip_bad)
    if not found.kernels and not found.samples:
        raise nothing_in(path, "kernels and no system samples")
    return Imported(
        path=path,
        format="nvprof",
        clock="the start of the profile",
        series=tuple(
            ImportedSeries(device, sensor, unit, f"nvprof {name}", np.array(t, np.int64), np.array(values))
            for (device, sensor, unit, name), (t, values) in found.samples.items()
        ),
        kernels=_table(found.kernels, path.stem),
        facts={"columns": header},
        skipped=skipped,
    )


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines with data and their numbers; a kernel's quoted name may contain commas."""
    try:
        opened = opening.open_file(path, most=opening.TABLE_BYTES)
        with io.TextIOWrapper(opened, newline="", encoding="utf-8-sig", errors="replace") as file:
            reader = csv.reader(line.replace("\0", "") for line in file)
            for cells in reader:
                if cells and not cells[0].startswith("=="):
                    yield reader.line_num, cells
    except (OSError, csv.Error) as error:
        raise DataError(f"{path} can't be read: {error}.", hint="check the path") from None


def _scales(path: Path, line: int, units: list[str], at: Mapping[str, int]) -> dict[str, float]:
    scales = {}
    for name in ("Start", "Duration"):
        unit = units[at[name]].strip() if len(units) > at[name] else ""
        if unit not in _UNITS_NS:
            raise DataError(
                f"{path} gives {name} in the unit {unit!r} (line {line}); it should be one of {', '.join(_UNITS_NS)}.",
                hint="the row below the header has to hold units, as nvprof writes it",
            )
        scales[name] = _UNITS_NS[unit]
    return scales


def _take(cells: list[str], at: Mapping[str, int], scale: Mapping[str, float], found: _Found) -> str | None:
    """Parse a row; returns what is wrong with it."""
    name, device = cells[at["Name"]], cells[at["Device"]]
    start = _number(cells[at["Start"]])
    if start is None:
        return "Start is not a number"
    start_ns = round(start * scale["Start"])
    if name in _SYSTEM:
        text = cells[at["System"]] if "System" in at else ""
        values = [_number(part) for part in text.split("/")]
        kinds = _SYSTEM[name]
        if len(values) != len(kinds) or any(value is None for value in values):
            return f"System is not a value of {name}"
        for (sensor, unit, factor), value in zip(kinds, values, strict=True):
            t, series = found.samples.setdefault((device, sensor, unit, name), ([], []))
            t.append(start_ns)
            series.append((value or 0.0) * factor)
        return None
    duration = _number(cells[at["Duration"]])
    if duration is None or duration < 0:
        return "Duration is not a number"
    stream = _number(cells[at["Stream"]]) if "Stream" in at else None
    # the correlation appended by nvprof would make every launch a different kernel
    plain = re.sub(r" \[\d+\]$", "", name)
    found.kernels.append(
        (plain, device, -1 if stream is None else int(stream), start_ns, round(duration * scale["Duration"]))
    )
    return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _table(kernels: list[tuple[str, str, int, int, int]], tenant: str) -> Columns:
    """A trace is of a single application: it is the tenant, under the file's name."""
    if not kernels:
        return {}
    names, devices, streams, starts, durations = zip(*kernels, strict=True)
    return {
        "tenant": np.full(len(kernels), tenant, dtype=object),
        "name": np.array(names, dtype=object),
        "device": np.array(devices, dtype=object),
        "stream": np.array(streams, np.int64),
        "start_ns": np.array(starts, np.int64),
        "duration_ns": np.array(durations, np.int64),
    }
