"""Sweeps over clocks or power limits: time, power and energy at each value, and the value with the least energy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cotenant.analyse.tabular import fields_of
from cotenant.analyse.variability.frequency import (
    FEWEST_CLOCKS,
    FEWEST_CLOCKS_FOR_A_KNEE,
    PowerByClock,
    TimeByClock,
    fit_power,
    fit_time,
)

Control = Literal["clock_mhz", "power_w"]
FEWEST = 3
"""Fewest values of a control that make a sweep."""
WORTH_SAYING = 0.01
"""Smaller energy savings are ignored."""


@dataclass(frozen=True, slots=True)
class JobReading:
    """A job alone on a device in a trial."""

    run: str
    job: str
    device: str
    clock_set_mhz: float | None
    limit_set_w: float | None
    clock_mhz: float
    """Clock as measured, which a limit may have pulled below the clock set."""
    power_w: float
    time_ms: float
    """Mean time per request."""

    @property
    def energy_j(self) -> float:
        """Per request."""
        return self.power_w * self.time_ms / 1e3


@dataclass(frozen=True, slots=True)
class ClockStep:
    """Means over all readings at a value of the control."""

    value: float | None
    """None: the control was left at its default."""
    clock_mhz: float
    power_w: float
    time_ms: float
    energy_j: float
    readings: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """A job over the values of a control."""

    run: str
    job: str
    control: Control
    devices: int
    steps: tuple[ClockStep, ...]
    """From the default (if measured) down to the lowest value."""
    power: PowerByClock | None
    time: TimeByClock | None

    @property
    def best(self) -> ClockStep:
        """The step with the least energy per request."""
        return min(self.steps, key=lambda step: step.energy_j)

    @property
    def energy_saved(self) -> float:
        """Energy saved by the best step, as a share of the first step's."""
        return 1 - self.best.energy_j / self.steps[0].energy_j

    @property
    def time_lost(self) -> float:
        """Time lost by the best step, as a share of the first step's."""
        return self.best.time_ms / self.steps[0].time_ms - 1

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        known = fields_of(self, "best", "energy_saved", "time_lost", power="power_model", time="time_model")
        return known | {"knee_mhz": self.power.knee_mhz if self.power else None}


def sweeps(readings: Iterable[JobReading]) -> tuple[Sweep, ...]:
    """Every job and control with at least three measured values and no other control set."""
    found: dict[tuple[str, str, Control], list[JobReading]] = {}
    free: dict[tuple[str, str], list[JobReading]] = {}
    for reading in readings:
        if reading.clock_set_mhz is None and reading.limit_set_w is None:
            free.setdefault((reading.run, reading.job), []).append(reading)
        elif reading.limit_set_w is None:
            found.setdefault((reading.run, reading.job, "clock_mhz"), []).append(reading)
        elif reading.clock_set_mhz is None:
            found.setdefault((reading.run, reading.job, "power_w"), []).append(reading)
    return tuple(
        _sweep(key, mine, free.get(key[:2], []))
        for key, mine in sorted(found.items())
        if len({_value(reading, key[2]) for reading in mine}) >= FEWEST
    )


def sentence(sweep: Sweep) -> str:
    """The conclusion as a sentence."""
    best, first = sweep.best, sweep.steps[0]
    against = "no limit" if first.value is None else _named(sweep.control, first.value)
    if best is first or sweep.energy_saved < WORTH_SAYING:
        return f"{sweep.job}: no {_WORDS[sweep.control]} needs less energy per request than {against}."
    knee = ""
    if sweep.power is not None and sweep.power.bend > 0:
        knee = f"; power rises faster above a knee at about {sweep.power.knee_mhz:.0f} MHz"
    errors = [
        f"{model.held_out * 100:.2g} % in {what}"
        for what, model in (("time", sweep.time), ("power", sweep.power))
        if model is not None and model.held_out is not None
    ]
    off = f" (at clocks left out of the fit, the curves are off by {', '.join(errors)})" if errors else ""
    return (
        f"{sweep.job} needs the least energy at {_named(sweep.control, best.value)}: {best.energy_j:.3g} J a request, "
        f"{sweep.energy_saved * 100:.0f} % less than with {against}, for {max(sweep.time_lost, 0) * 100:.0f} % more "
        f"time{knee}{off}."
    )


_WORDS: dict[Control, str] = {"clock_mhz": "clock", "power_w": "power limit"}


def _named(control: Control, value: float | None) -> str:
    if value is None:
        return "no limit"
    return f"{value:.0f} MHz" if control == "clock_mhz" else f"a limit of {value:.0f} W"


def _value(reading: JobReading, control: Control) -> float | None:
    return reading.clock_set_mhz if control == "clock_mhz" else reading.limit_set_w


def _sweep(key: tuple[str, str, Control], mine: Sequence[JobReading], free: Sequence[JobReading]) -> Sweep:
    run, job, control = key
    by_value: dict[float, list[JobReading]] = {}
    for reading in mine:
        value = _value(reading, control)
        assert value is not None
        by_value.setdefault(value, []).append(reading)
    steps = [_step(value, by_value[value]) for value in sorted(by_value, reverse=True)]
    if free:
        steps.insert(0, _step(None, free))
    clocks, powers, times = (
        np.array([getattr(reading, name) for reading in mine]) for name in ("clock_mhz", "power_w", "time_ms")
    )
    different = np.unique(clocks).size
    enough = control == "clock_mhz" and different >= FEWEST_CLOCKS_FOR_A_KNEE
    return Sweep(
        run=run,
        job=job,
        control=control,
        devices=len({reading.device for reading in mine}),
        steps=tuple(steps),
        power=fit_power(clocks, powers) if enough else None,
        time=fit_time(clocks, times) if control == "clock_mhz" and different >= FEWEST_CLOCKS else None,
    )


def _step(value: float | None, readings: Sequence[JobReading]) -> ClockStep:
    clock, power, time, energy = (
        float(np.mean([getattr(reading, name) for reading in readings]))
        for name in ("clock_mhz", "power_w", "time_ms", "energy_j")
    )
    return ClockStep(value, clock, power, time, energy, len(readings))
