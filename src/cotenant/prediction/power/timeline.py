"""Clock, power, temperature and energy over time, as a die warms up into its limits; and what its sensors show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power.dies import TYPICAL, Cooling, Die, Heat
from cotenant.prediction.power.draw import Activity, Floats, PowerCurve, leakage_w, power_curves
from cotenant.prediction.power.settling import FREE, Limits, allowed_w, highest_clock, settle, shown_clock_mhz

STEP_S = 0.05
"""Short compared with the heat sink's tens of seconds; the die's own pole is solved exactly within a step."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A period of constant activity."""

    seconds: float
    activity: Activity


@dataclass(frozen=True, slots=True)
class Timeline:
    """The true timeline: a value per interval between the times ``t_s``, energy at each end."""

    t_s: Floats
    clock_mhz: Floats
    power_w: Floats
    temperature_c: Floats
    """At the end of each interval."""
    energy_j: Floats
    """Since the start, at each of ``t_s``."""

    @property
    def end(self) -> float:
        """Seconds covered."""
        return float(self.t_s[-1])


def warm(gpu: GpuSpec, activity: Activity, die: Die = TYPICAL, limits: Limits = FREE) -> Heat:
    """The poles of a die in steady state."""
    return Cooling.of(gpu, die).settled(settle(gpu, activity, die, limits).power_w)


def simulate_timeline(
    gpu: GpuSpec,
    phases: Sequence[Phase],
    *,
    die: Die = TYPICAL,
    limits: Limits = FREE,
    start: Heat | None = None,
    step_s: float = STEP_S,
) -> Timeline:
    """Simulate a die through its phases.

    Args:
        gpu: The GPU.
        phases: Consecutive activities.
        die: The die.
        limits: Power limit and locked clock.
        start: Initial heat; None: the steady state of the first phase, as after a warm-up.
        step_s: Longest interval.
    """
    limits.check(gpu)
    cooling = Cooling.of(gpu, die)
    heat = start if start is not None else warm(gpu, phases[0].activity, die, limits)
    most_w = allowed_w(gpu, limits) * die.control
    top_mhz = highest_clock(gpu, limits)
    spans, clocks, powers, temperatures = [], [], [], []
    curves: dict[Activity, PowerCurve] = {}
    curve_of = power_curves(gpu)
    for phase in phases:
        if phase.activity not in curves:
            curves[phase.activity] = curve_of(phase.activity)
        curve = curves[phase.activity]
        count = max(1, int(np.ceil(phase.seconds / step_s - 1e-9)))
        span = phase.seconds / count
        for _ in range(count):
            clock, power = _controlled(gpu, curve, die, cooling, heat=heat, most_w=most_w, top_mhz=top_mhz)
            heat = cooling.after(heat, power, span)
            spans.append(span)
            clocks.append(clock)
            powers.append(power)
            temperatures.append(cooling.temperature_c(heat))
    seconds, power_w = np.array(spans), np.array(powers)
    return Timeline(
        t_s=np.concatenate(([0.0], np.cumsum(seconds))),
        clock_mhz=np.array(clocks),
        power_w=power_w,
        temperature_c=np.array(temperatures),
        energy_j=np.concatenate(([0.0], np.cumsum(seconds * power_w))),
    )


def _controlled(
    gpu: GpuSpec, curve: PowerCurve, die: Die, cooling: Cooling, *, heat: Heat, most_w: float, top_mhz: float
) -> tuple[float, float]:
    """Clock and power for the next instant: the highest clock that power and heat allow at this temperature."""
    temperature = cooling.temperature_c(heat)
    fixed_w = curve.board_w + float(leakage_w(gpu, np.array(temperature))) * die.leakage
    # Heat: choose the power at which the die's pole ends just below the slowdown temperature.
    coolest_w = max(0.0, gpu.thermal.slowdown_c - cooling.air_c - heat.slow_c) / cooling.fast_c_per_w
    budget = min(most_w, coolest_w) - fixed_w
    clock = min(float(curve.clock_for(np.array(budget / die.dynamic))), top_mhz)
    return clock, fixed_w + float(curve.dynamic_at(np.array(clock))) * die.dynamic


# --- Sensor readings: power through the sensor's update period and window, whole degrees, clock steps
#
# A sensor that averages 25 ms of every 100 ms (A100) misses three quarters of the time. The catalogue describes the
# instantaneous reading, which live devices prefer; the plain one of GeForce RTX 30 and later, A40, L4, ... is a mean
# over 1 s and lags. Periods and windows: Yang, Adamek, Armour, arXiv 2312.02741.


@dataclass(frozen=True, slots=True)
class Readings:
    """Values shown at each reading."""

    t_s: Floats
    power_w: Floats
    clock_mhz: Floats
    temperature_c: Floats
    energy_j: Floats


def read_sensors(gpu: GpuSpec, truth: Timeline, at_s: Floats, *, phase_s: float = 0.0) -> Readings:
    """Read all sensors at the given times.

    Args:
        gpu: The GPU.
        truth: The true timeline.
        at_s: Reading times, in the timeline's seconds.
        phase_s: Offset of the power sensor's updates within its period.
    """
    update_s = gpu.sensor.update_ms / 1e3
    updated = last_update(at_s, update_s, phase_s)
    interval = np.clip(np.searchsorted(truth.t_s, at_s, side="right") - 1, 0, len(truth.power_w) - 1)
    return Readings(
        t_s=at_s,
        power_w=shown_power_w(truth.t_s, truth.energy_j, at_s, gpu.sensor.window_ms / 1e3, update_s, phase_s=phase_s),
        clock_mhz=shown_clock_mhz(gpu, truth.clock_mhz[interval]),
        temperature_c=np.round(truth.temperature_c[interval]),
        energy_j=np.round(np.interp(np.maximum(updated, 0.0), truth.t_s, truth.energy_j), 3),
    )


def shown_power_w(
    t_s: Floats, energy_j: Floats, at_s: Floats, window_s: float, update_s: float, *, phase_s: float = 0.0
) -> Floats:
    """Power shown at ``at_s``: the mean over the window ending at the last update, in whole milliwatts.

    Power is constant between the times ``t_s``, so energy differences are exact. Before the start, power is that of
    the first interval.
    """
    end = last_update(at_s, update_s, phase_s)
    return np.round((_energy(t_s, energy_j, end) - _energy(t_s, energy_j, end - window_s)) / window_s, 3)


def last_update(at_s: Floats, update_s: float, phase_s: float = 0.0) -> Floats:
    """The update seen by a reading at ``at_s``."""
    # A reading exactly on the tick sees the new value, whatever the rounding.
    return np.floor((at_s - phase_s) / update_s + 1e-9) * update_s + phase_s


def _energy(t_s: Floats, energy_j: Floats, when: Floats) -> Floats:
    """Energy at any time; the first and last intervals extend beyond the ends."""
    first = (energy_j[1] - energy_j[0]) / (t_s[1] - t_s[0])
    last = (energy_j[-1] - energy_j[-2]) / (t_s[-1] - t_s[-2])
    inside = np.interp(when, t_s, energy_j)
    before = np.minimum(0.0, when - t_s[0]) * first
    after = np.maximum(0.0, when - t_s[-1]) * last
    return np.asarray(inside + before + after)
