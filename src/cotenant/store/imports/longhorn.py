"""Runs of a workload on a fleet: CSV in the schema of the Longhorn data (perf in ms, freq, temp, pwr, uuid, ...)."""

from pathlib import Path

import numpy as np

from cotenant.errors import DataError
from cotenant.store.imports import lines
from cotenant.store.imports.lines import Sheet, SheetCell, text_cell
from cotenant.store.imports.result import RUN_COLUMNS, Imported, nothing_in
from cotenant.tenancy.records import Columns

_REQUIRED = ("uuid", "ts", "perf", "freq", "temp", "pwr")
_COLUMNS = {
    "workload": ("exp", "text"),
    "gpu": ("uuid", "text"),
    "cabinet": ("cabinet", "text"),
    "node": ("node", "text"),
    "slot": ("device", "text"),
    "job": ("job_id", "text"),
    "started_s": ("ts", "number"),
    "time_ms": ("perf", "number"),
    "sm_clock_mhz": ("freq", "number"),
    "memory_clock_mhz": ("memfreq", "number"),
    "temperature_c": ("temp", "number"),
    "power_w": ("pwr", "number"),
}
_OTHER_NAMES = {"device": ("dev_id",), "memfreq": ("median_memfreq",)}
UNKNOWN = ("-1", "")
"""Values for an unknown name, place or job."""


def is_header(header: list[str]) -> bool:
    """Whether a header is of this kind: it has most required columns; missing ones are reported."""
    return len({"perf", "freq", "temp", "pwr", "uuid", "cabinet"} & set(header)) >= 4


def read_header(path: Path) -> list[str]:
    """The names of the columns."""
    first = lines.head(path, 1)
    return [name.strip(' "') for name in first[0].split(",")] if first else []


def sheet(path: Path) -> Sheet:
    """The contents of its header. Raises DataError."""
    header = read_header(path)
    missing = [name for name in _REQUIRED if name not in header]
    if missing:
        raise DataError(
            f"{path} has no column {', '.join(map(repr, missing))} in line 1.",
            hint=f"required: {', '.join(_REQUIRED)}; optional: exp, cabinet, node, device, job_id and memfreq",
        )
    cells = {}
    for name, (column, kind) in _COLUMNS.items():
        found = next((name for name in (column, *_OTHER_NAMES.get(column, ())) if name in header), None)
        if found is None:
            continue
        at = header.index(found) + 1
        number = kind == "number"
        cells[at] = SheetCell(name, found, text_cell(at), "number" if number else "text", required=found in _REQUIRED)
    return Sheet(path, tuple(header), cells, {"columns": header})


def read(path: Path, *, skip_bad: bool) -> Imported:
    """Every run in the file. Raises DataError."""
    found = sheet(path)
    table = found.by_lines(skip_bad=skip_bad)
    count = len(table.columns["gpu"])
    if count == 0:
        raise nothing_in(path, "runs")
    return Imported(
        path=path,
        format="longhorn",
        clock="seconds since 1970",
        runs=_runs(table.columns, count, path.stem),
        facts=found.facts,
        skipped=table.skipped,
    )


def _runs(found: Columns, count: int, stem: str) -> Columns:
    runs = {}
    for name in RUN_COLUMNS:
        if _COLUMNS[name][1] == "number":
            runs[name] = found.get(name, np.full(count, np.nan))
            continue
        values = found.get(name)
        if values is None:
            runs[name] = np.full(count, stem if name == "workload" else None, dtype=object)
        else:
            runs[name] = values.astype(object)
            runs[name][np.isin(values.astype(str), UNKNOWN)] = None
    return runs
