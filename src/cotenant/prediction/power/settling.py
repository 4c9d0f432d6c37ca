"""Steady state of a die: the highest clock within the limits, its power and temperature."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotenant.errors import DeviceError
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power.dies import TYPICAL, Die, Dies
from cotenant.prediction.power.draw import Activity, Floats, PowerCurve, leakage_w, power_curve

REGULATED = 0.9905
"""Fraction of the limit that power control maintains: 297.1 W of 300 on Longhorn's V100s."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits set by the user; None: the board's own."""

    power_w: float | None = None
    clock_mhz: float | None = None
    """Locked clock."""

    def check(self, gpu: GpuSpec) -> None:
        """Raise DeviceError if the GPU doesn't support these limits."""
        low, high = gpu.power.min_limit_w, gpu.power.limit_w
        if self.power_w is not None and not low <= self.power_w <= high:
            raise DeviceError(
                f"{gpu.name} can't set a power limit of {self.power_w:g} W", hint=f"choose {low:g} to {high:g} W"
            )
        slow, fast = gpu.clocks_mhz.min, gpu.clocks_mhz.boost
        if self.clock_mhz is not None and not slow <= self.clock_mhz <= fast:
            raise DeviceError(
                f"{gpu.name} has no clock of {self.clock_mhz:g} MHz", hint=f"choose {slow:g} to {fast:g} MHz"
            )


FREE = Limits()


@dataclass(frozen=True, slots=True)
class Settled:
    """A die in steady state."""

    clock_mhz: float
    """Mean; the actual clock moves between steps."""
    power_w: float
    temperature_c: float
    slowdown: float
    """Slowdown of the activity relative to a typical die at the boost clock."""
    held_by: str
    """What limits the clock: `boost`, `lock`, `power` or `heat`."""


@dataclass(frozen=True, slots=True)
class SettledFleet:
    """As `Settled`, a value per die (or per run and die)."""

    clock_mhz: Floats
    power_w: Floats
    temperature_c: Floats
    slowdown: Floats
    held_by: NDArray[np.str_]


def settle(gpu: GpuSpec, activity: Activity, die: Die = TYPICAL, limits: Limits = FREE) -> Settled:
    """Steady state of a die."""
    all_of_it = settle_fleet(gpu, activity, Dies.of([die]), limits)
    return Settled(
        clock_mhz=float(all_of_it.clock_mhz[0]),
        power_w=float(all_of_it.power_w[0]),
        temperature_c=float(all_of_it.temperature_c[0]),
        slowdown=float(all_of_it.slowdown[0]),
        held_by=str(all_of_it.held_by[0]),
    )


def settle_fleet(gpu: GpuSpec, activity: Activity, dies: Dies, limits: Limits = FREE) -> SettledFleet:
    """Steady state of every die of a fleet."""
    limits.check(gpu)
    curve = power_curve(gpu, activity)
    top = highest_clock(gpu, limits)
    air_c = gpu.thermal.ambient_c + dies.inlet_c
    c_per_w = (gpu.thermal.fast_c_per_w + gpu.thermal.slow_c_per_w) * dies.resistance

    allowed_by_limit = allowed_w(gpu, limits) * dies.control
    allowed_by_heat = np.maximum(0.0, gpu.thermal.slowdown_c - air_c) / c_per_w
    allowed = np.minimum(allowed_by_limit, allowed_by_heat)
    hottest = air_c + c_per_w * allowed
    affordable = curve.clock_for((allowed - curve.board_w - leakage_w(gpu, hottest) * dies.leakage) / dies.dynamic)

    clock = np.minimum(affordable, top)
    power, temperature = _balance(gpu, curve, dies, clock, air_c=air_c, c_per_w=c_per_w)
    held_by = np.where(
        affordable >= top,
        "boost" if limits.clock_mhz is None else "lock",
        np.where(allowed_by_heat < allowed_by_limit, "heat", "power"),
    )
    return SettledFleet(clock, power, temperature, curve.slowdown_at(clock) * dies.time, held_by)


def highest_clock(gpu: GpuSpec, limits: Limits) -> float:
    """The maximum clock regardless of power and heat."""
    return gpu.clocks_mhz.boost if limits.clock_mhz is None else limits.clock_mhz


def allowed_w(gpu: GpuSpec, limits: Limits) -> float:
    """The target of power control."""
    return REGULATED * (gpu.power.limit_w if limits.power_w is None else limits.power_w)


def _balance(
    gpu: GpuSpec, curve: PowerCurve, dies: Dies, clock: Floats, *, air_c: Floats, c_per_w: Floats
) -> tuple[Floats, Floats]:
    """Consistent power and temperature at this clock: heat causes leakage, leakage causes heat."""
    without_leakage = curve.board_w + curve.dynamic_at(clock) * dies.dynamic
    temperature = air_c + c_per_w * without_leakage
    for _ in range(60):  # each iteration gains about a factor of ten
        leaking = leakage_w(gpu, np.minimum(temperature, gpu.thermal.slowdown_c + 10.0)) * dies.leakage
        temperature = air_c + c_per_w * (without_leakage + leaking)
    return without_leakage + leaking, temperature


def shown_clock_mhz(gpu: GpuSpec, clock_mhz: Floats) -> Floats:
    """A mean clock as tools show it: the nearest step, in whole MHz."""
    boost, step = gpu.clocks_mhz.boost, gpu.clocks_mhz.step
    return np.floor(boost - np.round((boost - clock_mhz) / step) * step)
