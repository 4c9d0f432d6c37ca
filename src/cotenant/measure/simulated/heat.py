"""Temperature of a simulated GPU at the start of a trial: a study's `before` in simulated time."""

from dataclasses import dataclass

from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power.dies import Die
from cotenant.prediction.power.thermal import Cooling, Heat
from cotenant.study.preconditions import Before


@dataclass(frozen=True, slots=True)
class HeatAtStart:
    """A GPU at the start of a trial."""

    heat: Heat | None
    """None for the temperature the work itself sustains."""
    waited_s: float = 0.0
    temperature_c: float | None = None
    unmet: str | None = None
    """Why it is warmer than required."""


STEADY = HeatAtStart(None)


def start_of(gpu: GpuSpec, die: Die, left: Heat | None, before: Before | None, *, name: str) -> HeatAtStart:
    """Let a GPU cool down after the last trial.

    Args:
        gpu: The model.
        die: The die.
        left: Its heat at the end of the last trial; None if it was idle.
        before: The study's conditions.
        name: For messages.
    """
    if before is None or before.above_idle_c is None:
        return STEADY
    cooling, idle_w = Cooling.of(gpu, die), gpu.power.idle_w
    idle = cooling.settled(idle_w)
    if left is None:
        return HeatAtStart(idle, 0.0, cooling.temperature_c(idle))
    goal_c = cooling.temperature_c(idle) + before.above_idle_c
    waited = _seconds_to(cooling, left, idle_w, goal_c, before.timeout_s)
    heat = cooling.after(left, idle_w, waited)
    reached = cooling.temperature_c(heat)
    unmet = None
    if reached > goal_c + 0.01:
        unmet = f"{name} was at {reached:.1f} C after {before.timeout_s:g} s of cooling, not at {goal_c:.1f} C"
    return HeatAtStart(heat, waited, reached, unmet)


def _seconds_to(cooling: Cooling, heat: Heat, idle_w: float, goal_c: float, most_s: float) -> float:
    """Time to cool down, up to a limit; the temperature only falls."""
    low, high = 0.0, most_s
    if cooling.temperature_c(heat) <= goal_c:
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if cooling.temperature_c(cooling.after(heat, idle_w, middle)) <= goal_c else (middle, high)
        )
    return high
