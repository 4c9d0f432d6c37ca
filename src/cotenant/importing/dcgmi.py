"""`dcgmi dmon` text: an entity and a value per field in each line, headers again and again, no times at all."""

import re
from pathlib import Path

import numpy as np

from cotenant.errors import DataError
from cotenant.importing import lines
from cotenant.importing.lines import Cell
from cotenant.importing.problems import nothing_in
from cotenant.importing.result import Imported
from cotenant.importing.series import by_device

FIELDS = {
    "GRACT": ("graphics_active", "share"),
    "SMACT": ("sm_active", "share"),
    "SMOCC": ("sm_occupancy", "share"),
    "TENSO": ("tensor_active", "share"),
    "DRAMA": ("dram_active", "share"),
    "FP64A": ("fp64_active", "share"),
    "FP32A": ("fp32_active", "share"),
    "FP16A": ("fp16_active", "share"),
    "PCITX": ("pcie_sent_bytes_per_s", "B/s"),
    "PCIRX": ("pcie_received_bytes_per_s", "B/s"),
    "NVLTX": ("nvlink_sent_bytes_per_s", "B/s"),
    "NVLRX": ("nvlink_received_bytes_per_s", "B/s"),
    "POWER": ("power_w", "W"),
    "TOTEC": ("energy_mj", "mJ"),
    "SMCLK": ("sm_clock_mhz", "MHz"),
    "MMCLK": ("memory_clock_mhz", "MHz"),
    "TMPTR": ("temperature_c", "°C"),
    "MMTMP": ("memory_temperature_c", "°C"),
    "GPUTL": ("gpu_busy", "%"),
    "MCUTL": ("memory_busy", "%"),
    "FBUSD": ("memory_used_mib", "MiB"),
}
"""Its short names, and ours with their units; others are kept under their short name."""
_ENTITY = re.compile(r"^#\s*Entity\s+(\S.*)$", re.IGNORECASE)


def header_of(text: list[str]) -> list[str] | None:
    """The short names of the fields, from the first header among these lines."""
    match = next((found for line in text if (found := _ENTITY.match(line.strip()))), None)
    return match[1].split() if match else None


def read(path: Path, *, skip_bad: bool, interval_s: float) -> Imported:
    """Every reading in the file; ``interval_s`` is the delay that dmon was started with (-d). Raises DataError."""
    header = header_of(lines.head(path, 50))
    if header is None:
        raise DataError(
            f"{path} has no header line '#Entity ...' among its first lines.",
            hint="write it with: dcgmi dmon -e 1002,1004,1005,155 -d 100 > file",
        )
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise DataError(f"{path} has the field {twice!r} twice in its header.", hint="ask dcgmi for each field once")
    kinds = {name: (*FIELDS.get(name, (name.lower(), "")), f"dcgmi dmon {name}") for name in header}
    width = len(header) + 2  # the entity is two words: GPU 0, GPU-I 3
    cells = [Cell("device", "entity", "parts[1] || ' ' || parts[2]", "text")]
    cells += [Cell(name, name, f"parts[{at + 3}]", "number", required=False) for at, name in enumerate(header)]
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
    return Imported(
        path=path,
        format="dcgmi",
        clock=f"the first reading; the file has no times, {interval_s:g} s between readings are assumed",
        series=by_device(
            {**table.columns, "t_ns": _times(table.columns["device"], interval_s)}, kinds, default_device="GPU 0"
        ),
        facts={"fields": header, "interval_s": interval_s},
        skipped=table.skipped,
    )


def _times(devices: np.ndarray, interval_s: float) -> np.ndarray:
    """The n-th line of an entity was read n intervals after the first."""
    t_ns = np.empty(devices.size, np.int64)
    names, which = np.unique(devices.astype(str), return_inverse=True)
    for number in range(len(names)):
        mine = np.flatnonzero(which == number)
        t_ns[mine] = np.arange(mine.size) * round(interval_s * 1e9)
    return t_ns
