"""Power and time over the clock: curves fitted to measurements at several clocks, with their held-out errors.

P(f) = idle + slope f + bend max(0, f - knee)^2        the voltage is flat up to the knee, then it rises
t(f) = t_memory + t_core f_top / f                     core time stretches, memory time does not
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cotenant.analyse.estimates.intervals import Floats
from cotenant.analyse.tabular import fields_of

FEWEST_CLOCKS_FOR_A_KNEE = 5
FEWEST_CLOCKS = 3
_KNEES = 60


@dataclass(frozen=True, slots=True)
class PowerByClock:
    """Power over the clock; clocks in MHz, power in W."""

    idle_w: float
    slope: float
    bend: float
    knee_mhz: float
    held_out: float | None
    """Mean relative error at clocks that were left out, each in turn; None: too few clocks to leave any out."""
    clocks: int

    def at(self, clock_mhz: Floats) -> Floats:
        """Power at these clocks."""
        above = np.maximum(0.0, clock_mhz - self.knee_mhz)
        return np.asarray(self.idle_w + self.slope * clock_mhz + self.bend * above**2)


@dataclass(frozen=True, slots=True)
class TimeByClock:
    """Time per request over the clock."""

    memory_ms: float
    core_ms: float
    """Core time at the highest clock measured."""
    top_mhz: float
    held_out: float | None
    clocks: int

    @property
    def core_share(self) -> float:
        """Share of the time at the highest clock that stretches when the clock falls: 1 for a matrix product."""
        whole = self.memory_ms + self.core_ms
        return self.core_ms / whole if whole else 0.0

    def at(self, clock_mhz: Floats) -> Floats:
        """Time at these clocks."""
        return np.asarray(self.memory_ms + self.core_ms * self.top_mhz / clock_mhz)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return fields_of(self, "core_share")


@dataclass(frozen=True, slots=True)
class BestClock:
    """The clock with the least energy per request, against the highest."""

    clock_mhz: float
    energy_j: float
    energy_saved: float
    """Share of the energy at the highest clock."""
    time_lost: float
    """Share of the time at the highest clock."""


def fit_power(clock_mhz: Floats, power_w: Floats) -> PowerByClock:
    """Fit by least squares with coefficients of at least 0; the knee is searched. Clocks may repeat.

    Raises:
        ValueError: Fewer than five different clocks.
    """
    clocks = np.unique(clock_mhz)
    if clocks.size < FEWEST_CLOCKS_FOR_A_KNEE:
        raise ValueError(f"a knee needs {FEWEST_CLOCKS_FOR_A_KNEE} different clocks, not {clocks.size}")
    idle, slope, bend, knee = _power(clock_mhz, power_w)

    def left_out(rest: Any, out: Any) -> Floats:
        a, b, c, k = _power(clock_mhz[rest], power_w[rest])
        return PowerByClock(a, b, c, k, None, 0).at(clock_mhz[out])

    held_out = _held_out(clock_mhz, power_w, left_out) if clocks.size > FEWEST_CLOCKS_FOR_A_KNEE else None
    return PowerByClock(idle, slope, bend, knee, held_out, int(clocks.size))


def fit_time(clock_mhz: Floats, time_ms: Floats) -> TimeByClock:
    """Fit by least squares with both parts at least 0.

    Raises:
        ValueError: Fewer than three different clocks.
    """
    clocks = np.unique(clock_mhz)
    if clocks.size < FEWEST_CLOCKS:
        raise ValueError(f"the parts of a time need {FEWEST_CLOCKS} different clocks, not {clocks.size}")
    top = float(clocks[-1])
    memory, core = _nonnegative(np.stack([np.ones_like(clock_mhz), top / clock_mhz], axis=1), time_ms)

    def left_out(rest: Any, out: Any) -> Floats:
        a, b = _nonnegative(np.stack([np.ones_like(clock_mhz[rest]), top / clock_mhz[rest]], axis=1), time_ms[rest])
        return np.asarray(a + b * top / clock_mhz[out])

    return TimeByClock(memory, core, top, _held_out(clock_mhz, time_ms, left_out), int(clocks.size))


def best_clock(clock_mhz: Floats, power_w: Floats, time_ms: Floats) -> BestClock:
    """Choose among the measured clocks, from means at each; the curves are not used."""
    clocks = np.unique(clock_mhz)
    power, time = (
        np.array([values[clock_mhz == clock].mean() for clock in clocks]) for values in (power_w, time_ms / 1e3)
    )
    energy = power * time
    best = int(energy.argmin())
    return BestClock(
        float(clocks[best]), float(energy[best]), float(1 - energy[best] / energy[-1]), float(time[best] / time[-1] - 1)
    )


def _power(clock: Floats, power: Floats) -> tuple[float, float, float, float]:
    clocks = np.unique(clock)
    best: tuple[float, ...] = ()
    least = np.inf
    for knee in np.linspace(clocks[1], clocks[-2], _KNEES):
        terms = np.stack([np.ones_like(clock), clock, np.maximum(0.0, clock - knee) ** 2], axis=1)
        found = _nonnegative(terms / _scales(terms), power) / _scales(terms)
        rest = float(((terms @ found - power) ** 2).sum())
        if rest < least:
            least, best = rest, (*(float(coefficient) for coefficient in found), float(knee))
    idle, slope, bend, knee = best
    return idle, slope, bend, knee


def _scales(terms: Floats) -> Floats:
    return np.asarray(np.maximum(np.abs(terms).max(axis=0), 1e-12))


def _nonnegative(terms: Floats, values: Floats) -> Floats:
    from scipy.optimize import nnls

    return np.asarray(nnls(terms, values)[0], dtype=np.float64)


def _held_out(clock: Floats, values: Floats, predict: Callable[[Any, Any], Floats]) -> float | None:
    clocks = np.unique(clock)
    if clocks.size <= FEWEST_CLOCKS:
        return None
    errors = []
    for left in clocks:
        out = clock == left
        errors.append(np.abs(predict(~out, out) / values[out] - 1))
    return float(np.concatenate(errors).mean())


# --- time and power over the clock, by kind of work


class AtSetting(NamedTuple):
    """A GPU under a setting of its controls."""

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
    """Effect of the clock on a kind of work: means over GPUs, and curves if there are enough clocks."""

    work: str
    simulated: bool
    points: tuple[AtSetting, ...]
    power: PowerByClock | None
    time: TimeByClock | None
    best: BestClock | None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return fields_of(self) | {"points": [point._asdict() for point in self.points]}


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
