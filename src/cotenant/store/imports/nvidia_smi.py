"""`nvidia-smi --query-gpu=... --format=csv`: units in the header or in the cells, `[N/A]` for missing values."""

import re
from pathlib import Path

from cotenant import sensors
from cotenant.errors import DataError
from cotenant.store.imports import lines
from cotenant.store.imports.lines import Sheet, SheetCell, text_cell
from cotenant.store.imports.result import Imported, Kind, by_device, nothing_in

_SENSORS = {
    "power.draw": sensors.POWER,
    "power.draw.instant": sensors.POWER_INSTANT,
    "power.draw.average": sensors.POWER_AVERAGE,
    "power.limit": sensors.POWER_LIMIT,
    "enforced.power.limit": sensors.POWER_LIMIT,
    "clocks.current.sm": sensors.SM_CLOCK,
    "clocks.sm": sensors.SM_CLOCK,
    "clocks.current.graphics": sensors.GRAPHICS_CLOCK,
    "clocks.gr": sensors.GRAPHICS_CLOCK,
    "clocks.current.memory": sensors.MEMORY_CLOCK,
    "clocks.mem": sensors.MEMORY_CLOCK,
    "temperature.gpu": sensors.TEMPERATURE,
    "temperature.memory": sensors.MEMORY_TEMPERATURE,
    "utilization.gpu": ("any_kernel_share", "%"),
    "utilization.memory": ("any_memory_access_share", "%"),
    "memory.used": ("memory_used_bytes", "MiB"),
    "memory.total": ("memory_total_bytes", "MiB"),
    "fan.speed": ("fan_share", "%"),
}
"""Its names, our names, and the expected unit."""
_OURS = {"%": ("share", 100.0), "MiB": ("B", 2.0**-20)}
"""Units converted to ours, with the divisor."""
_DEVICE = ("uuid", "gpu_uuid", "index", "pci.bus_id", "gpu_bus_id", "gpu_serial", "serial")
"""Columns that identify GPUs, persistent ones first."""
ONLY_GPU = "GPU 0"
"""The name of the GPU in a file without an identifying column."""
_UNITS = {"w": "W", "mhz": "MHz", "%": "%", "mib": "MiB", "c": "°C"}


def is_header(header: list[str]) -> bool:
    """Whether these are fields of nvidia-smi."""
    return sum(_field(name)[0] in _SENSORS for name in header) >= 1 and any("." in name for name in header)


def read_header(path: Path) -> list[str]:
    """The fields in the first line."""
    first = lines.head(path, 1)
    return [name.strip() for name in first[0].split(",")] if first else []


def sheet(path: Path) -> Sheet:
    """The contents of its header. Raises DataError."""
    header = read_header(path)
    fields = [_field(name) for name in header]
    names = [name for name, _ in fields]
    if "timestamp" not in names:
        raise DataError(
            f"{path} has no column 'timestamp' in line 1, so the times of its values are unknown.",
            hint="query it too: nvidia-smi --query-gpu=timestamp,uuid,power.draw,clocks.sm,temperature.gpu "
            "--format=csv -lms 100",
        )
    wanted = {name: position for position, name in enumerate(names) if name in _SENSORS}
    if not wanted:
        raise nothing_in(path, f"known sensor ({', '.join(_SENSORS)})")
    for name, position in wanted.items():
        _check_unit(path, header[position], fields[position][1], _SENSORS[name][1])
    at = names.index("timestamp") + 1
    cells = {at: SheetCell("t_ns", "timestamp", text_cell(at), "time")}
    device = next((name for name in _DEVICE if name in names), None)
    if device is not None:
        at = names.index(device) + 1
        cells[at] = SheetCell("device", device, text_cell(at), "category")
    for name, position in wanted.items():
        unit = _SENSORS[name][1]
        at = position + 1
        cells[at] = SheetCell(name, header[position], _in_unit(text_cell(at), unit), "number", required=False)
    facts = {"fields": header, "gpus_told_apart_by": device or "nothing: taken as one GPU"}
    return Sheet(path, tuple(header), cells, facts)


def kinds(found: Sheet) -> dict[str, Kind]:
    """The meaning of each column of numbers."""
    return {cell.name: _kind(cell.name) for cell in found.cells.values() if cell.kind == "number"}


def read(path: Path, *, skip_bad: bool) -> Imported:
    """Every reading in the file. Raises DataError."""
    found = sheet(path)
    table = found.by_lines(skip_bad=skip_bad)
    if not len(table.columns["t_ns"]):
        raise nothing_in(path, "readings")
    return Imported(
        path=path,
        format="nvidia-smi",
        clock="the machine's local time, taken as UTC",
        series=by_device(table.columns, kinds(found), table.categories.get("device", (ONLY_GPU,))),
        facts=found.facts,
        skipped=table.skipped,
    )


def _kind(name: str) -> Kind:
    sensor, stated = _SENSORS[name]
    unit, per = _OURS.get(stated, (stated, 1.0))
    return Kind(sensor, unit, f"nvidia-smi {name}", per)


def _field(name: str) -> tuple[str, str | None]:
    """`power.draw [W]` -> its name and the unit in the header, if any."""
    match = re.fullmatch(r"([\w.]+)\s*(?:\[(.*)\])?", name.strip().lower())
    return (match[1], match[2]) if match else (name, None)


def _check_unit(path: Path, column: str, stated: str | None, expected: str) -> None:
    if stated is not None and _UNITS.get(stated, stated) != expected:
        raise DataError(
            f"{path} gives {column!r} in {stated!r} in line 1; it should be in {expected}.",
            hint="write the file with nvidia-smi --format=csv or csv,nounits",
        )


def _in_unit(cell: str, unit: str) -> str:
    """SQL of a cell that may carry its unit: with another unit, letters remain and it isn't a number."""
    return f"rtrim({cell}, ' {'C' if unit == '°C' else unit}')"
