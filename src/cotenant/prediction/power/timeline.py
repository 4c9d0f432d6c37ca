"""Clock, power, temperature and energy over time, as a die warms up into its limits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power.dies import TYPICAL, Die
from cotenant.prediction.power.draw import Activity, Floats, PowerCurve, leakage_w, power_curves
from cotenant.prediction.power.settling import FREE, Limits, allowed_w, highest_clock, settle
from cotenant.prediction.power.thermal import Cooling, Heat

STEP_S = 0.05
"""Short compared with the heat sink's tens of seconds; the die's own pole is solved exactly within a step."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A period with one activity."""

    seconds: float
    activity: Activity


@dataclass(frozen=True, slots=True)
class Timeline:
    """The true timeline: one value per interval between the times ``t_s``, energy at each end."""

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


def timeline(
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
