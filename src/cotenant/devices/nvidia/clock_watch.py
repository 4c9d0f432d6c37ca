"""Checks whether a locked clock held: power and thermal limits lower it silently."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from cotenant.devices.nvidia import fields, library
from cotenant.devices.nvidia.nvml import GpuFacts, handle
from cotenant.devices.nvidia.sensors import reasons_function

PERIOD_S = 0.2
HELD_BACK_SHARE = 0.01
"""A lock that was overridden for less than this share of the time counts as held."""
AWAY_SHARE = 0.02
"""Tolerated deviation from the lock: drivers round to their own steps."""

REASONS: Mapping[int, str] = {
    0x4: "the power limit",
    0x8: "a hardware slowdown",
    0x20: "the driver, for heat",
    0x40: "the hardware, for heat",
    0x80: "the hardware, by a signal of the power supply",
}
IDLE = 0x1
_COUNTERS: Mapping[int, int] = {
    fields.THROTTLED_POWER_CAP: 0x4,
    fields.THROTTLED_THERMAL: 0x20,
    fields.THROTTLED_THERMAL_HARDWARE: 0x40,
    fields.THROTTLED_POWER_BRAKE: 0x80,
}


@dataclass(slots=True)
class Seen:
    """Observations so far."""

    readings: int = 0
    busy: int = 0
    held_back: dict[int, int] = field(default_factory=dict)
    """Readings with this reason."""
    clocks_mhz: list[int] = field(default_factory=list)
    """Clocks while the GPU was busy and unthrottled."""


class ClockWatch:
    """Watches a GPU from a runner thread while its clock is locked; a context manager."""

    def __init__(self, gpu: GpuFacts) -> None:
        self._gpu, self._device = gpu, handle(gpu)
        self._clock = library.function("nvmlDeviceGetClockInfo")
        name = reasons_function(gpu)
        self._reasons = library.function(name) if name else None
        self._counters = [number for number in _COUNTERS if number in fields.supported(gpu, list(_COUNTERS))]
        self._error = library.nvml_error()
        self._seen = Seen()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock watch", daemon=True)
        self._begin = self._end = [0.0] * len(self._counters)
        self._seconds = 0.0

    def __enter__(self) -> Self:
        """Note the counters and start watching."""
        self._seconds = time.monotonic()
        self._begin = self._count()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()
        self._end = self._count()
        self._seconds = time.monotonic() - self._seconds

    def violations(self, locked_mhz: int | None) -> list[str]:
        """One sentence for each way in which the lock did not hold; call after leaving.

        Args:
            locked_mhz: The locked clock; None means the driver's base clock.
        """
        seen, found = self._seen, []
        for bit, share in self._shares().items():
            if share > HELD_BACK_SHARE:
                to = f" to {locked_mhz} MHz" if locked_mhz else ""
                found.append(
                    f"the clock of {self._gpu.label} was locked{to}, but {REASONS[bit]} held it back for "
                    f"{share:.0%} of the trial"
                )
        if found or locked_mhz is None or not seen.clocks_mhz:
            return found
        median = sorted(seen.clocks_mhz)[len(seen.clocks_mhz) // 2]
        if abs(median - locked_mhz) > AWAY_SHARE * locked_mhz:
            found.append(f"the clock of {self._gpu.label} read {median} MHz though it was locked to {locked_mhz} MHz")
        return found

    def _shares(self) -> dict[int, float]:
        """Share of the time that each reason held the clock back: from counters, else from observations."""
        shares: dict[int, float] = {}
        for number, begin, end in zip(self._counters, self._begin, self._end, strict=True):
            if end >= begin and self._seconds > 0:  # not a number, or the counter was reset: claim nothing
                shares[_COUNTERS[number]] = (end - begin) / 1e9 / self._seconds
        for bit, times in self._seen.held_back.items():
            shares.setdefault(bit, times / max(1, self._seen.readings))
        return shares

    def _count(self) -> list[float]:
        try:
            return fields.Fields(self._gpu, self._counters).read() if self._counters else []
        except (self._error, library.DriverProblem):
            return [float("nan")] * len(self._counters)

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_S):
            try:
                reasons = int(self._reasons(self._device)) if self._reasons else 0
                clock = int(self._clock(self._device, 1))
            except self._error:
                continue  # a lost GPU is reported by its sensors
            seen = self._seen
            seen.readings += 1
            for bit in REASONS:
                if reasons & bit:
                    seen.held_back[bit] = seen.held_back.get(bit, 0) + 1
            if self._reasons and not reasons & IDLE and not any(reasons & bit for bit in REASONS):
                seen.clocks_mhz.append(clock)
