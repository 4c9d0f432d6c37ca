"""Which GPUs are slow, and why: silicon, heat or a power brake, a locked clock, or none that the clock explains.

A GPU is slow if its median time lies above the upper whisker of the GPUs' medians (with few GPUs: clearly above their
median). Recorded driver reasons decide; else power, clock and temperature do, each compared with the fleet rather than
a data sheet.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cotenant.analyse.estimates.intervals import Floats
from cotenant.analyse.variability.readings import FleetReadings
from cotenant.analyse.variability.variation import upper_fence

Cause = Literal["silicon", "heat or power brake", "clock locked", "not the clock", "unknown"]
MEANINGS: dict[Cause, str] = {
    "silicon": "it is at the power cap like the others and reaches a lower clock there: this die needs more power",
    "heat or power brake": "it stays below the power cap and yet runs slower: heat or the supply holds it back",
    "clock locked": "its clock never moves and lies below the others': it was set, or a setting was left behind",
    "not the clock": "clock, power and temperature are as elsewhere: look at memory, links, the host or other jobs",
    "unknown": "neither clock nor power was read, so the cause is unknown: measure with sensors",
}
REASONS: dict[str, Cause] = {
    "power cap": "silicon",
    "heat": "heat or power brake",
    "power brake": "heat or power brake",
    "clock setting": "clock locked",
}
"""Causes behind a driver's terms for holding a clock down."""
FEW_GPUS = 10
SLOW_OF_FEW = 1.03
LEAST_SLOW = 1.01
AT_LIMIT = 0.97
"""Share of a recorded limit that counts as being at it: control regulates about 1 % below."""
AT_INFERRED_CAP = 0.975
PINNED = 0.02
"""If the middle half of all GPUs draws the same power within this share, they are at a cap."""
SAME_CLOCK = 0.01
FEWEST_RUNS = 3
RUNS_OF_A_STUCK_SENSOR = 20
MOVING = 0.005
"""A constant reading is suspect only if the others' move by at least this share from run to run."""


@dataclass(frozen=True, slots=True)
class SlowGpu:
    """One slow GPU."""

    gpu: str
    cabinet: str
    node: str
    runs: int
    ratio: float
    """Its median time over the median GPU's."""
    clock_mhz: float | None
    temperature_c: float | None
    power_w: float | None
    cause: Cause
    because: str
    since_s: float | None = None
    """When it became slow; None if it was from its first run, or times are unknown."""


@dataclass(frozen=True, slots=True)
class SickSensor:
    """A GPU with an unreliable sensor."""

    gpu: str
    sensor: str
    because: str


@dataclass(frozen=True, slots=True)
class _Fleet:
    """Medians of every GPU, and the typical values among them."""

    clock: Floats
    temperature: Floats
    power: Floats
    cap_w: float | None
    cap_said: str

    @classmethod
    def of(cls, readings: FleetReadings) -> "_Fleet":
        power = readings.medians(readings.power_w)
        cap, said = power_cap(power, readings.power_limit_w)
        return cls(readings.medians(readings.clock_mhz), readings.medians(readings.temperature_c), power, cap, said)


def power_cap(gpu_powers: Floats, limit_w: float | None = None) -> tuple[float | None, str]:
    """The least power of a GPU that counts as at its cap, and the evidence; None if no cap is visible."""
    if limit_w is not None:
        return AT_LIMIT * limit_w, f"the limit of {limit_w:.0f} W"
    known = gpu_powers[np.isfinite(gpu_powers)]
    if known.size < 4:
        return None, ""
    low, middle, high = np.percentile(known, [25, 50, 75])
    if high - low > PINNED * middle:
        return None, ""
    return AT_INFERRED_CAP * float(middle), f"the {middle:.0f} W that most GPUs stand at"


def slow_gpus(readings: FleetReadings) -> tuple[SlowGpu, ...]:
    """Every slow GPU with its cause, slowest first."""
    times = readings.gpu_times
    if times.size < 2:
        return ()
    middle = float(np.median(times))
    slow = np.flatnonzero(times > slow_fence(times) * middle)
    fleet = _Fleet.of(readings)
    found = []
    for number in slow[np.argsort(-times[slow])].tolist():
        cause, because = _cause(readings, fleet, number)
        found.append(
            SlowGpu(
                readings.gpus[number],
                readings.place_of(number, "cabinet"),
                readings.place_of(number, "node"),
                int(readings.counts[number]),
                float(times[number]) / middle,
                _known(fleet.clock[number]),
                _known(fleet.temperature[number]),
                _known(fleet.power[number]),
                cause,
                because,
            )
        )
    return tuple(found)


def slow_fence(gpu_times: Floats) -> float:
    """Threshold of slow, over the median GPU's time."""
    middle = float(np.median(gpu_times))
    return max(LEAST_SLOW, upper_fence(gpu_times) / middle if gpu_times.size >= FEW_GPUS else SLOW_OF_FEW)


def sick_sensors(readings: FleetReadings) -> tuple[SickSensor, ...]:
    """GPUs whose power reading is constant over many runs while the others' moves, or impossible at their clock."""
    found = []
    fleet = _Fleet.of(readings)
    powers = readings.of_gpu(readings.power_w)
    spreads = np.array([np.ptp(values) if values.size and np.isfinite(values).all() else np.nan for values in powers])
    usual_w = np.nanmedian(fleet.power) if np.isfinite(fleet.power).any() else np.nan
    others_move = bool(np.isfinite(spreads).any()) and np.nanmedian(spreads) > MOVING * usual_w
    middle = float(np.median(readings.gpu_times))
    for number, gpu in enumerate(readings.gpus):
        if others_move and spreads[number] == 0 and powers[number].size >= RUNS_OF_A_STUCK_SENSOR:
            found.append(
                SickSensor(
                    gpu, "power_w", f"{powers[number][0]:.1f} W in all {powers[number].size} runs, to the last digit"
                )
            )
        elif fleet.power[number] < usual_w / 2 and readings.gpu_times[number] < LEAST_SLOW * middle:
            found.append(
                SickSensor(
                    gpu,
                    "power_w",
                    f"{fleet.power[number]:.0f} W at the usual speed, where others draw {usual_w:.0f} W",
                )
            )
    return tuple(found)


def _cause(readings: FleetReadings, fleet: _Fleet, number: int) -> tuple[Cause, str]:
    said = readings.reasons[number] if readings.reasons else ""
    lower = fleet.clock[number] < _usual(fleet.clock, 50) * (1 - SAME_CLOCK)
    # All may be locked on purpose: a locked clock explains nothing unless it is lower than the others'.
    if said in REASONS and (REASONS[said] != "clock locked" or lower):
        return REASONS[said], f"its driver names {said} as what held the clock down"
    clock, temperature, power = (float(column[number]) for column in (fleet.clock, fleet.temperature, fleet.power))
    usual_clock = _usual(fleet.clock, 50)
    below_cap = fleet.cap_w is not None and power < fleet.cap_w
    hot = temperature > _usual(fleet.temperature, 75)
    runs = readings.of_gpu(readings.clock_mhz)[number]
    stands_still = runs.size >= FEWEST_RUNS and float(np.ptp(runs)) == 0
    others_move = _usual(np.array([np.ptp(clocks) for clocks in readings.of_gpu(readings.clock_mhz)]), 50) > 0
    slower_clock = clock < usual_clock * (1 - SAME_CLOCK)
    facts = f"{_said(power, 'W')}, {_said(clock, 'MHz')}, {_said(temperature, 'C')}"
    if fleet.cap_w is not None and power >= fleet.cap_w and slower_clock:
        also = ", and it runs hot" if hot else ""
        return "silicon", f"at {fleet.cap_said} it reaches {clock:.0f} MHz, others {usual_clock:.0f} MHz{also}"
    if slower_clock and stands_still and others_move and not hot:
        return (
            "clock locked",
            f"{clock:.0f} MHz in all {runs.size} runs, others have {usual_clock:.0f} MHz",
        )
    if below_cap and hot:
        return "heat or power brake", f"hot and below {fleet.cap_said}: {facts}"
    if below_cap or (slower_clock and (hot or fleet.cap_w is None)):
        where = f"below {fleet.cap_said}" if below_cap else "hot" if hot else "its clock is lower than the others'"
        return "heat or power brake", f"{where}: {facts}"
    return ("not the clock", f"as the others are: {facts}") if np.isfinite(clock) else ("unknown", "no clock was read")


def _usual(values: Floats, quantile: float) -> float:
    known = values[np.isfinite(values)]
    return float(np.percentile(known, quantile)) if known.size else float("nan")


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _said(value: float, unit: str) -> str:
    return f"{value:.0f} {unit}" if np.isfinite(value) else f"no {unit}"
