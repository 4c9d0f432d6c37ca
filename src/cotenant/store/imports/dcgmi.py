"""`dcgmi dmon` text: an entity and a value per field in each line, repeated headers, no times."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cotenant import sensors
from cotenant.errors import DataError
from cotenant.store.imports import lines
from cotenant.store.imports.lines import SheetCell
from cotenant.store.imports.result import Imported, Kind, by_device, nothing_in
from cotenant.tenancy.records import Int64s

FIELDS = {
    "GRACT": ("graphics_active", "share", 1.0),
    "SMACT": (*sensors.SM_ACTIVE, 1.0),
    "SMOCC": (*sensors.SM_OCCUPANCY, 1.0),
    "TENSO": (*sensors.TENSOR_ACTIVE, 1.0),
    "DRAMA": (*sensors.DRAM_ACTIVE, 1.0),
    "FP64A": (*sensors.FP64_ACTIVE, 1.0),
    "FP32A": (*sensors.FP32_ACTIVE, 1.0),
    "FP16A": ("fp16_active", "share", 1.0),
    "PCITX": (*sensors.PCIE_SENT, 1.0),
    "PCIRX": (*sensors.PCIE_RECEIVED, 1.0),
    "NVLTX": ("nvlink_tx_bytes_per_s", "B/s", 1.0),
    "NVLRX": ("nvlink_rx_bytes_per_s", "B/s", 1.0),
    "POWER": (*sensors.POWER, 1.0),
    "TOTEC": (*sensors.ENERGY, 1e3),
    "SMCLK": (*sensors.SM_CLOCK, 1.0),
    "MMCLK": (*sensors.MEMORY_CLOCK, 1.0),
    "TMPTR": (*sensors.TEMPERATURE, 1.0),
    "MMTMP": (*sensors.MEMORY_TEMPERATURE, 1.0),
    "GPUTL": (*sensors.ANY_KERNEL, 100.0),
    "MCUTL": ("any_memory_access_share", "share", 100.0),
    "FBUSD": (*sensors.MEMORY_USED, 2.0**-20),
}
"""Short names, with our name, our unit and the divisor. Others keep their short name."""
_ENTITY_CELL = r"regexp_replace(regexp_extract(line, '^\s*([A-Za-z][\w-]*\s+\d+)\s', 1), '\s+', ' ')"
"""SQL: `GPU 0`, `GPU-I 3`."""
_ENTITY = re.compile(r"^#\s*Entity\s+(\S.*)$", re.IGNORECASE)


def header_of(text: list[str]) -> list[str] | None:
    """Short names of the fields, from the first header among these lines."""
    match = next((found for line in text if (found := _ENTITY.match(line.strip()))), None)
    return match[1].split() if match else None


def read(path: Path, *, skip_bad: bool, interval_s: float) -> Imported:
    """Every reading in the file; ``interval_s`` is dmon's delay (-d). Raises DataError."""
    header = header_of(lines.head(path, 50))
    if header is None:
        raise DataError(
            f"{path} has no header line '#Entity ...' among its first lines.",
            hint="write it with: dcgmi dmon -e 1002,1004,1005,155 -d 100 > file",
        )
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise DataError(f"{path} has the field {twice!r} twice in its header.", hint="query each field once")
    kinds = {name: _kind(name) for name in header}
    width = len(header) + 2  # the entity is two words: GPU 0, GPU-I 3
    cells = [SheetCell("device", "entity", _ENTITY_CELL, "category")]
    cells += [SheetCell(name, name, f"parts[{at + 3}]", "number", required=False) for at, name in enumerate(header)]
    table = lines.read_lines(
        path,
        split=r"regexp_split_to_array(trim(line), '\s+')",
        width=width,
        cells=cells,
        ignore=r"regexp_matches(line, '^\s*(#|ID\b|Id\b|dmon was stopped)')",
        skip_bad=skip_bad,
    )
    if not len(table.columns["device"]):
        raise nothing_in(path, "readings")
    t_ns = _times(table.columns["device"], interval_s)
    return Imported(
        path=path,
        format="dcgmi",
        clock=f"the first reading; the file has no times, so {interval_s:g} s between readings is assumed",
        series=by_device({**table.columns, "t_ns": t_ns}, kinds, table.categories["device"]),
        facts={"fields": header, "interval_s": interval_s},
        skipped=table.skipped,
    )


def _kind(name: str) -> Kind:
    sensor, unit, per = FIELDS.get(name, (name.lower(), "", 1.0))
    return Kind(sensor, unit, f"dcgmi dmon {name}", per)


def _times(devices: npt.NDArray[Any], interval_s: float) -> Int64s:
    """The n-th line of an entity was read n intervals after the first."""
    t_ns = np.empty(devices.size, np.int64)
    for number in np.unique(devices):
        mine = devices == number
        t_ns[mine] = np.arange(int(mine.sum())) * round(interval_s * 1e9)
    return t_ns
