"""Applies a study's `before` on a real device: waits until it is cool, and records its temperature at the start."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cotenant.devices.group import MemberProbe
from cotenant.devices.protocol import Probe
from cotenant.measure.gather import Timing
from cotenant.measure.sampler import Samples
from cotenant.study.model import Before

PRECONDITION = "precondition"
START_C, WAITED_S = "start_temperature_c", "waited_s"
DEGREES = "°C"
POLL_S = 1.0
STEADY_C = 2.0
"""Largest change of a temperature in whole degrees over a window that counts as steady."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Temperatures of a trial's devices when it began."""

    start_c: dict[str, float] = field(default_factory=dict)
    """By device; those without a temperature are missing."""
    waited_s: float = 0.0
    unmet: tuple[str, ...] = ()

    def added_to(self, samples: Samples, t_ns: int) -> Samples:
        """The trial's samples, with these added."""
        if not self.start_c:
            return samples
        devices, count = list(self.start_c), len(self.start_c)
        mine = {
            "t_ns": np.full(2 * count, t_ns, np.int64),
            "device": np.array([*devices, *devices]),
            "sensor": np.repeat([START_C, WAITED_S], count),
            "value": np.array([*self.start_c.values(), *[self.waited_s] * count], np.float64),
            "unit": np.repeat([DEGREES, "s"], count),
            "source": np.full(2 * count, PRECONDITION),
        }
        if not samples.columns:
            return Samples(mine, samples.lost, samples.lost_probes)
        joined = {name: np.concatenate([samples.columns[name], mine[name]]) for name in mine}
        return Samples(joined, samples.lost, samples.lost_probes)


class Preconditions:
    """Tracks how warm each device is when idle."""

    def __init__(
        self,
        before: Before | None,
        device: str,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._before, self._device, self._now, self._sleep = before, device, now, sleep
        self._idle_c: dict[str, float] = {}

    @property
    def asked(self) -> bool:
        """True if the study sets any condition."""
        return self._before is not None

    def look(self, probes: Sequence[Probe]) -> dict[str, float]:
        """Temperatures now; the lowest ever seen on a device counts as idle."""
        seen = temperatures(probes, self._device)
        for device, value in seen.items():
            self._idle_c[device] = min(value, self._idle_c.get(device, value))
        return seen

    def wait(self, probes: Sequence[Probe]) -> Readiness:
        """Wait until the devices behind these probes are as cool as required, up to the timeout."""
        if self._before is None:
            return Readiness()
        begin, seen = self._now(), self.look(probes)
        above_c = self._before.above_idle_c
        while above_c is not None and (hot := self._hot(seen, above_c)):
            waited = self._now() - begin
            if waited >= self._before.timeout_s:
                sentences = tuple(
                    f"{device} was at {seen[device]:g} C after {waited:.0f} s of waiting, "
                    f"not at {self._idle_c[device] + above_c:g} C"
                    for device in hot
                )
                return Readiness(seen, waited, sentences)
            self._sleep(POLL_S)
            seen = self.look(probes)
        return Readiness(seen, self._now() - begin)

    def unsteady(self, samples: Samples, timing: Timing) -> tuple[str, ...]:
        """Where the study requires a steady temperature: devices whose temperature changed over the window."""
        if self._before is None or self._before.above_idle_c is not None:
            return ()
        found = []
        for device, (t_ns, values) in samples.by_device("temperature_c").items():
            inside = values[(t_ns >= timing.window_start_ns) & (t_ns <= timing.window_end_ns)]
            if inside.size and float(np.ptp(inside)) > STEADY_C:
                found.append(f"{device} went from {inside[0]:g} C to {inside[-1]:g} C over the window")
        return tuple(found)

    def _hot(self, seen: dict[str, float], above_c: float) -> list[str]:
        return [device for device, value in seen.items() if value > self._idle_c[device] + above_c]


def temperatures(probes: Sequence[Probe], device: str) -> dict[str, float]:
    """The highest temperature of each device; those without a sensor are missing."""
    hottest: dict[str, float] = {}
    for probe in probes:
        if not any(info.unit == DEGREES for info in probe.sensors):
            continue
        whose = probe.device if isinstance(probe, MemberProbe) else device
        try:
            values = probe.read()
        except (OSError, ValueError):  # the sampler will report that it is gone
            continue
        for info, value in zip(probe.sensors, values, strict=True):
            if info.unit == DEGREES and not math.isnan(value):
                hottest[whose] = max(value, hottest.get(whose, value))
    return hottest
