"""Hardware counters of the device's cores through `perf stat`, where permitted."""

import logging
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache

from cotenant.devices.child_lines import ChildLines
from cotenant.devices.cpu.cores import Cores, format_cores
from cotenant.devices.protocol import SensorInfo

log = logging.getLogger(__name__)

EVENTS = ("instructions", "cycles", "cache-references", "cache-misses")
_PERIOD_MS = 100


def why_not(cores: Cores) -> str | None:
    """Why `perf` can't count on these cores; None if it can."""
    perf = shutil.which("perf")
    return "perf is not installed" if perf is None else _refusal(perf, cores)


@lru_cache(maxsize=8)
def _refusal(perf: str, cores: Cores) -> str | None:
    command = [*_command(perf, cores), "--", "true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"perf can't be run ({error})"
    counted = counts_by_event(done.stderr)
    if done.returncode == 0 and any(value is not None for value in counted.values()):
        return None
    if counted:
        return "the processor exposes no counters here (usual in virtual machines)"
    return "perf may not count on whole cores"


def _command(perf: str, cores: Cores) -> list[str]:
    return [perf, "stat", "-x", ",", "-a", "-C", format_cores(cores), "-e", ",".join(EVENTS)]


def counts_by_event(text: str) -> dict[str, float | None]:
    """Sum counts by event in lines of `perf stat -x,`; None where the event is listed without a count."""
    counts: dict[str, float | None] = {}
    for line in text.splitlines():
        fields = line.split(",")
        for place, field in enumerate(fields[2:], start=2):
            # Plain, with a modifier (`cycles:u`), or by unit on a hybrid processor (`cpu_core/cycles/`).
            event = field.split("/")[1] if "/" in field else field.split(":")[0]
            if event in EVENTS:
                value = fields[place - 2]  # the unit in between is empty for these
                counts.setdefault(event, None)
                if value.isdecimal():
                    counts[event] = (counts[event] or 0.0) + float(value)
                break
    return counts


class PerfProbe:
    """Sums the output of a background `perf stat`, ten lines a second. Starts with the first reading."""

    def __init__(self, perf: str, cores: Cores) -> None:
        self._command = [*_command(perf, cores), "-I", str(_PERIOD_MS)]
        self._lines: ChildLines | None = None
        self._totals: dict[str, float | None] = dict.fromkeys(EVENTS)
        quality = "counter of the device's cores in steps of 100 ms; scaled where events were multiplexed"
        self.sensors: tuple[SensorInfo, ...] = tuple(
            SensorInfo(event.replace("-", "_"), "count", "perf stat", _PERIOD_MS / 1e3, quality) for event in EVENTS
        )

    def read(self) -> Sequence[float]:
        """Counts since the first reading; NaN where there is none yet. Raises OSError once perf has ended."""
        if self._lines is None:
            self._lines = ChildLines(self._command)
        whole = "\n".join(self._lines.fresh())
        for event, count in counts_by_event(whole).items():
            if count is not None:
                self._totals[event] = (self._totals[event] or 0.0) + count
        return tuple(float("nan") if (total := self._totals[event]) is None else total for event in EVENTS)


def open_perf(cores: Cores) -> PerfProbe | None:
    """The probe, if perf counts on these cores."""
    perf = shutil.which("perf")
    reason = why_not(cores)
    if perf is None or reason is not None:
        log.debug("no hardware counters: %s", reason)
        return None
    return PerfProbe(perf, cores)
