"""Lines of `tegrastats`, JetPack 4 to 7. Fields differ by board and release, so they are detected."""

import re
from pathlib import Path

import numpy as np

from cotenant import sensors
from cotenant.devices.jetson import TOTAL_RAILS
from cotenant.store.imports import lines
from cotenant.store.imports.lines import SheetCell
from cotenant.store.imports.result import Imported, Kind, by_device, nothing_in
from cotenant.tenancy.records import Int64s

LOOKED_AT = 200
"""Lines used to detect the fields."""
OFF_C = -256.0
"""Reading of a zone that is switched off."""

_IS_LINE = re.compile(r"\bRAM \d+/\d+MB\b")
_RAIL = re.compile(r"(?<=\s)([A-Z][A-Z0-9_]*) (-?\d+)(mW)?/(-?\d+)(?:mW)?(?=\s|$)")
_ZONE = re.compile(r"\b([A-Za-z][\w-]*)@(-?\d+(?:\.\d+)?)C\b")
_STAMP = r"^(\d\d-\d\d-\d{4} \d\d:\d\d:\d\d)"
_ENGINES = {"GR3D_FREQ": ("any_kernel_share", "sm_clock_mhz"), "EMC_FREQ": ("memory_busy_share", "memory_clock_mhz")}


def recognise(text: list[str]) -> bool:
    """Whether these first lines are from tegrastats."""
    return any(_IS_LINE.search(line) and ("CPU [" in line or _RAIL.search(line)) for line in text)


def read(path: Path, *, skip_bad: bool, interval_s: float) -> Imported:
    """Every reading in the file; ``interval_s`` is used if lines have no time (JetPack 4). Raises DataError."""
    text = [line for line in lines.head(path, LOOKED_AT) if _IS_LINE.search(line)]
    if not text:
        raise nothing_in(path, "lines of tegrastats")
    timed = all(re.match(_STAMP, line) for line in text)
    cells, kinds = _fields(text)
    if timed:
        cells.append(SheetCell("t_ns", "the time", f"regexp_extract(line, '{_STAMP}', 1)", "time"))
    table = lines.read_lines(path, split="[]", width=None, cells=cells, skip_bad=skip_bad)
    columns = dict(table.columns)
    count = len(columns["RAM"])
    if timed:
        columns["t_ns"], clock = _spread(columns["t_ns"]), "local time taken as UTC, spread evenly within each second"
    else:
        columns["t_ns"] = np.arange(count) * round(interval_s * 1e9)
        clock = f"the first line; the file has no times, so {interval_s:g} s between lines is assumed"
    for name, kind in kinds.items():
        if kind.unit == "°C":
            columns[name] = np.where(columns[name] <= OFF_C, np.nan, columns[name])
    return Imported(
        path=path,
        format="tegrastats",
        clock=clock,
        series=by_device(columns, kinds, ("jetson",)),
        facts={"fields": sorted(kinds), "times": timed},
        skipped=table.skipped,
    )


def _fields(text: list[str]) -> tuple[list[SheetCell], dict[str, Kind]]:
    """The fields of the lines: cells to read, and their meaning."""
    cells = [SheetCell("RAM", "RAM", r"regexp_extract(line, '\bRAM (\d+)/', 1)", "number")]
    kinds = {"RAM": Kind(*sensors.MEMORY_USED, "tegrastats RAM", 2.0**-20)}

    def add(name: str, sensor: str, unit: str, per: float, pattern: str) -> None:
        if name not in kinds:
            cells.append(SheetCell(name, name, f"regexp_extract(line, '{pattern}', 1)", "number", required=False))
            kinds[name] = Kind(sensor, unit, f"tegrastats {name}", per)

    for engine, (busy, clock) in _ENGINES.items():
        if any(re.search(rf"\b{engine} \d+%", line) for line in text):
            add(engine, busy, "share", 100.0, rf"\b{engine} (\d+)%")
        if any(re.search(rf"\b{engine} \d+%@\[?\d", line) for line in text):
            add(f"{engine}@", clock, "MHz", 1.0, rf"\b{engine} \d+%@\[?(\d+)")
    for line in text:
        for rail in _RAIL.findall(line):
            if rail[0] != "NC":
                add(rail[0], _rail_sensor(rail[0]), "W", 1e3, rf"\b{rail[0]} (-?\d+)(?:mW)?/")
        for zone, _ in _ZONE.findall(line):
            name = re.sub(r"[\W_]+", "_", zone).lower()
            add(
                f"{zone}@",
                "temperature_c" if name == "gpu" else f"{name}_temperature_c",
                "°C",
                1.0,
                rf"\b{zone}@(-?[0-9.]+)C\b",
            )
    return cells, kinds


def _rail_sensor(rail: str) -> str:
    return "power_w" if rail in TOTAL_RAILS else f"rail_{rail.lower()}_w"


def _spread(t_ns: Int64s) -> Int64s:
    """Stamps have whole seconds: lines that share a stamp are spread evenly over its second."""
    _, first, count = np.unique(t_ns, return_index=True, return_counts=True)
    spread = t_ns.copy()
    for begin, many in zip(first.tolist(), count.tolist(), strict=True):
        if many > 1 and (t_ns[begin : begin + many] == t_ns[begin]).all():
            spread[begin : begin + many] += np.arange(many) * 1_000_000_000 // many
    return spread
