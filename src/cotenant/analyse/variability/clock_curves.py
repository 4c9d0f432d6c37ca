"""Time and power over the clock, by kind of work."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cotenant.analyse.variability.frequency import (
    BestClock,
    PowerByClock,
    TimeByClock,
    best_clock,
    fit_power,
    fit_time,
)


class AtSetting(NamedTuple):
    """One GPU under one setting of its controls."""

    work: str
    model: str | None
    gpu: str
    simulated: bool
    settings: str
    clock_mhz: float
    time_ms: float
    power_w: float | None
    measurements: int


@dataclass(frozen=True, slots=True)
class ClockCurve:
    """Effect of the clock on one kind of work: means over GPUs, and curves if there are enough clocks."""

    work: str
    simulated: bool
    points: tuple[AtSetting, ...]
    power: PowerByClock | None
    time: TimeByClock | None
    best: BestClock | None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "work": self.work,
            "simulated": self.simulated,
            "points": [point._asdict() for point in self.points],
            **{name: getattr(self, name) for name in ("power", "time", "best")},
        }


def clock_curves(measured: Iterable[AtSetting]) -> list[ClockCurve]:
    """Time and power over the clock, for work measured under at least three settings."""
    groups: dict[tuple[str, bool, str | None], list[AtSetting]] = {}
    for point in measured:
        groups.setdefault((point.work, point.simulated, point.model), []).append(point)
    return [
        _curve(f"{work} on {model}" if model else work, simulated, points)
        for (work, simulated, model), points in groups.items()
        if len({point.settings for point in points}) >= 3
    ]


def _curve(work: str, simulated: bool, points: list[AtSetting]) -> ClockCurve:
    clock = np.array([round(point.clock_mhz) for point in points], dtype=np.float64)
    time = np.array([point.time_ms for point in points])
    power = np.array([np.nan if point.power_w is None else point.power_w for point in points])
    powered = bool(np.isfinite(power).all())
    different = np.unique(clock).size
    return ClockCurve(
        work,
        simulated,
        tuple(points),
        fit_power(clock, power) if powered and different >= 5 else None,
        fit_time(clock, time) if different >= 3 else None,
        best_clock(clock, power, time) if powered and different >= 2 else None,
    )
