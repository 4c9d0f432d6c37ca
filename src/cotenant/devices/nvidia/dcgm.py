"""Activity of SMs, tensor cores and memory through `dcgmi dmon`, for GPUs whose driver lacks it (V100 to A100).

A child process prints a line per period; it is read without blocking and ends with the run.
"""

import logging
import math
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from cotenant import sensors
from cotenant.devices.child_lines import ChildLines
from cotenant.devices.nvidia import counters, tools
from cotenant.devices.nvidia.nvml import GpuFacts
from cotenant.devices.protocol import Probe, SensorInfo

PERIOD_S = 0.1
"""The host engine's shortest update period."""
FIRST_ROWS_S = 5.0
DISCOVERY_S = 10.0
ROWS_LOOKED_AT = 3
"""A paused profiler prints N/A for ever; the first line may legitimately do so."""


@dataclass(frozen=True, slots=True)
class Field:
    """One DCGM field."""

    number: int
    sensor: str
    unit: str
    what: str


FIELDS = (
    Field(1002, *sensors.SM_ACTIVE, "share of time an SM had a warp, mean over SMs"),
    Field(1005, *sensors.DRAM_ACTIVE, "share of time the memory interface moved data"),
    Field(1004, *sensors.TENSOR_ACTIVE, "share of time tensor cores worked"),
    Field(1003, *sensors.SM_OCCUPANCY, "share of the warps that SMs could hold"),
    Field(1007, *sensors.FP32_ACTIVE, "share of time the FP32 units worked"),
    Field(1006, *sensors.FP64_ACTIVE, "share of time the FP64 units worked"),
    Field(1009, *sensors.PCIE_SENT, "sent to the host"),
    Field(1010, *sensors.PCIE_RECEIVED, "received from the host"),
    Field(1013, "tensor_int_active", "share", "share of time tensor cores worked on integers; Ampere and newer"),
)
"""Most important first: fields a GPU lacks are dropped from the end."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why there is no probe, and what would fix it."""

    reason: str
    fix: str | None = None


_REASONS = (
    (
        r"host engine is not running|unable to connect to host ?engine|establish a connection",
        "DCGM's host engine is not running",
        "sudo systemctl start nvidia-dcgm (or: sudo nv-hostengine)",
    ),
    (
        r"requires root|running as root|permission",
        "the host engine may not use the profiling counters",
        "run nv-hostengine as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0",
    ),
    (
        r"module of DCGM that is not currently loaded|-33:",
        "DCGM's profiling module is not loaded: this GPU or package has none",
        "dcgmi modules -l; install datacenter-gpu-manager-4-proprietary (DCGM 4)",
    ),
    (
        r"unrecoverable error|in use|conflict",
        "another profiler holds the GPU's counters",
        "stop other profilers and host engines (nsys, ncu, nvprof, dcgm-exporter), then try again",
    ),
    (r"newer driver", "the driver is too old for DCGM's profiling", "install a newer driver"),
    (r"unable to parse|invalid.*gpu|bad param|not found", "DCGM doesn't know this GPU", "dcgmi discovery -l"),
)
_UNSUPPORTED = re.compile(r"feature not supported|-6:", re.IGNORECASE)
_PAUSED = Unavailable("DCGM's profiling is paused", "dcgmi profile --resume")


class DcgmProbe:
    """The latest line of a GPU."""

    def __init__(self, lines: ChildLines, gpu_index: int, fields: Sequence[Field], first: Sequence[float]) -> None:
        self._lines, self._row, self._first = lines, _row_pattern(gpu_index), tuple(first)
        self._count = len(fields)
        self.sensors: tuple[SensorInfo, ...] = tuple(
            SensorInfo(
                field.sensor,
                field.unit,
                f"DCGM {field.number}",
                PERIOD_S,
                f"{field.what}; mean over the period, counters may be multiplexed",
            )
            for field in fields
        )

    def read(self) -> Sequence[float]:
        """The latest values; NaN without a line since the last reading. Raises OSError if dcgmi has ended."""
        newest = self._first
        self._first = ()
        for line in self._lines.fresh():
            values = _values(self._row, line, self._count)
            newest = newest if values is None else values
        return newest or [math.nan] * self._count

    def close(self) -> None:
        """End the child."""
        self._lines.close()


def probe(gpu_index: int, uuid: str | None = None) -> Probe | Unavailable:
    """Return a probe of a GPU, or why there is none.

    Starts a child process that lives as long as the probe: call once and keep it.

    Args:
        gpu_index: Its index according to the driver.
        uuid: DCGM has its own numbering: in a container, for instance, it counts all GPUs of the machine.
    """
    command = shutil.which("dcgmi")
    if command is None:
        return Unavailable("dcgmi is not installed", "install datacenter-gpu-manager (DCGM)")
    known = _discovered(command) if uuid else {}
    if known and uuid not in known:
        return Unavailable("DCGM doesn't know this GPU", "dcgmi discovery -l; restart its host engine after a change")
    number = known.get(uuid or "", gpu_index)
    fields: Sequence[Field] = FIELDS
    while fields:
        answer = _start(command, number, fields)
        if not isinstance(answer, str):
            return answer
        if not _UNSUPPORTED.search(answer):
            return _explained(answer)
        fields = fields[:-1]
    return Unavailable("this GPU has none of DCGM's profiling fields (it needs Volta or newer)")


def _discovered(command: str) -> dict[str, int]:
    """DCGM's own GPU indices by UUID; empty if it doesn't say."""
    found: dict[str, int] = {}
    number = None
    for line in tools.run([command, "discovery", "-l"], timeout_s=DISCOVERY_S).out.splitlines():
        if numbered := re.match(r"\|\s*(\d+)\s*\|", line):
            number = int(numbered[1])
        if (named := re.search(r"Device UUID:\s*(GPU-[\w-]+)", line)) and number is not None:
            found[named[1]] = number
    return found


def _start(command: str, gpu_index: int, fields: Sequence[Field]) -> DcgmProbe | Unavailable | str:
    """Return the probe, that it is paused, or what dcgmi printed instead."""
    numbers = ",".join(str(field.number) for field in fields)
    delay = str(round(PERIOD_S * 1e3))
    arguments = [command, "dmon", "-e", numbers, "-d", delay, "-i", str(gpu_index)]
    lines = ChildLines(arguments, env={**os.environ, "LC_ALL": "C"})
    row, seen = _row_pattern(gpu_index), []

    def is_enough(line: str) -> bool:
        values = _values(row, line, len(fields))
        if values is not None:
            seen.append(values)
        return _complains(line) or len(seen) >= ROWS_LOOKED_AT or (values is not None and not _nothing(values))

    found = lines.wait_for(is_enough, FIRST_ROWS_S)
    if seen and not _nothing(seen[-1]):
        return DcgmProbe(lines, gpu_index, fields, seen[-1])
    lines.close()
    if seen:
        return _PAUSED
    return found or next((line for line in reversed(lines.tail) if _complains(line)), None) or _silence(lines)


def _complains(line: str) -> bool:
    return bool(re.search(r"error|unable|not supported|requires", line, re.IGNORECASE))


def _silence(lines: ChildLines) -> str:
    return lines.tail[-1] if lines.tail else "it printed nothing"


def _explained(output: str) -> Unavailable:
    for pattern, reason, fix in _REASONS:
        if re.search(pattern, output, re.IGNORECASE):
            return Unavailable(reason, fix)
    return Unavailable(f"dcgmi dmon gives no readings: {' '.join(output.split())[:200]}", "dcgmi dmon -e 1002 -d 100")


def _row_pattern(gpu_index: int) -> re.Pattern[str]:
    return re.compile(rf"^GPU\s+{gpu_index}\s+(\S.*)$")


def _values(row: re.Pattern[str], line: str, count: int) -> tuple[float, ...] | None:
    """The values in a data line of this GPU; None for any other line."""
    match = row.match(line.strip())
    cells = match[1].split() if match else []
    return tuple(_number(cell) for cell in cells) if len(cells) == count else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # N/A
        return math.nan


def _nothing(values: Sequence[float]) -> bool:
    return all(math.isnan(value) for value in values)


# --- SM, tensor core and DRAM activity from DCGM, where the driver doesn't report it (before Hopper)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DcgmActivity:
    """DCGM's probe, or why it is missing."""

    probe: Probe | None
    why_not: str | None
    fix: str | None = None


def ask_dcgm(gpu: GpuFacts) -> DcgmActivity:
    """Start DCGM's reader, unless the driver reports activity itself. It is a child process: start once and keep it."""
    if counters.why_no_gpm(gpu) is None:
        return DcgmActivity(None, "the driver reports it (GPM)")
    found = probe(gpu.index, gpu.uuid)
    if isinstance(found, Unavailable):
        log.info("no activity from DCGM for %s: %s", gpu.label, found.reason)
        return DcgmActivity(None, found.reason, found.fix)
    return DcgmActivity(found, None)
