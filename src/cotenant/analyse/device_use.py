"""Device use by mix: power, clock, heat, throttling, activity and energy per request, with their sources."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.analyse import energy
from cotenant.analyse.energy import Floats, PowerSensor
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.tabular import fields_of

THROTTLED = "throttled_"
REASONS_THAT_SLOW = 0xEC
"""Bits of the driver's event reasons: power limit, slowdown, heat, power brake."""
GAUGES = ("power_w", "sm_clock_mhz", "temperature_c", "sm_active", "tensor_active", "dram_active", "memory_used_bytes")
SENSORS = (*GAUGES, "energy_j", f"{THROTTLED}%", "event_reasons")
TELLING = ("power_w", "sm_clock_mhz", "sm_active")
"""Sensors of an accelerator: without any of them (a CPU) there is no table."""
MEANS = (*GAUGES, "throttled_share", "energy_per_request_j")
"""Quantities averaged over trials."""
MOST_DEVICES = 8
"""Members of a larger group share a row."""


@dataclass(frozen=True, slots=True)
class SensorSeries:
    """A sensor over a trial, in seconds since the window opened."""

    t_s: Floats
    values: Floats
    source: str


@dataclass(frozen=True, slots=True)
class TrialReadings:
    """A device in a trial."""

    cell: Cell
    trial: int
    device: str
    """The device that was read: a member, if the trial's device is a group."""
    window_s: float
    served: int
    """Requests in the window, of all tenants on the device."""
    series: Mapping[str, SensorSeries]


@dataclass(frozen=True, slots=True)
class MixReading:
    """A quantity of a mix: the mean over its trials."""

    value: float
    trials: int
    source: str
    uncertainty: float | None = None
    """Systematic error, which more trials don't reduce."""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """A device under a mix and a way to share."""

    cell: Cell
    device: str
    power_w: MixReading | None
    sm_clock_mhz: MixReading | None
    temperature_c: MixReading | None
    throttled_share: MixReading | None
    sm_active: MixReading | None
    tensor_active: MixReading | None
    dram_active: MixReading | None
    memory_used_bytes: MixReading | None
    energy_per_request_j: MixReading | None
    no_energy: str | None
    """Why energy per request is missing."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return self.cell.to_json() | fields_of(self, without=("cell",))


def device_use(trials: Iterable[TrialReadings], manifests: Sequence[Mapping[str, Any]]) -> tuple[DeviceUse, ...]:
    """One row per device and mix; empty without accelerator sensors."""
    sensors = {str(manifest.get("run")): _power_sensor(manifest) for manifest in manifests}
    groups: dict[tuple[Cell, str], list[DeviceUse]] = {}
    for trial in trials:
        if any(name in trial.series for name in TELLING):
            used = _in_trial(trial, sensors.get(trial.cell.run))
            groups.setdefault((trial.cell, trial.device), []).append(used)
    return tuple(_over(cell, device, trials) for (cell, device), trials in sorted(_pooled(groups).items()))


def _pooled(groups: dict[tuple[Cell, str], list[DeviceUse]]) -> dict[tuple[Cell, str], list[DeviceUse]]:
    """Collapse all members of a large group into a row."""
    members: dict[Cell, list[str]] = {}
    for cell, device in groups:
        members.setdefault(cell, []).append(device)
    pooled: dict[tuple[Cell, str], list[DeviceUse]] = {}
    for (cell, device), trials in groups.items():
        count = len(members[cell])
        named = device if count <= MOST_DEVICES else f"mean of {count} members"
        pooled.setdefault((cell, named), []).extend(trials)
    return pooled


def _in_trial(trial: TrialReadings, sensor: PowerSensor | None) -> DeviceUse:
    """Reduce trial by trial: the readings of all trials would not fit in memory."""
    energy_per_request_j, no_energy = _energy(trial, sensor)
    return DeviceUse(
        cell=trial.cell,
        device=trial.device,
        throttled_share=_throttled(trial),
        energy_per_request_j=energy_per_request_j,
        no_energy=no_energy,
        **{name: _gauge(trial, name) for name in GAUGES},
    )


def _over(cell: Cell, device: str, trials: Sequence[DeviceUse]) -> DeviceUse:
    """Mean over trials."""
    return DeviceUse(
        cell=cell,
        device=device,
        no_energy=next((trial.no_energy for trial in trials if trial.energy_per_request_j is None), None),
        **{name: _mean([getattr(trial, name) for trial in trials]) for name in MEANS},
    )


def _mean(found: Sequence[MixReading | None]) -> MixReading | None:
    there = [reading for reading in found if reading is not None]
    if not there:
        return None
    off = [reading.uncertainty for reading in there if reading.uncertainty is not None]
    return MixReading(
        value=float(np.mean([reading.value for reading in there])),
        trials=len(there),
        source=", ".join(dict.fromkeys(reading.source for reading in there)),
        uncertainty=float(np.mean(off)) if off else None,  # a gain error does not average out
    )


def _gauge(trial: TrialReadings, name: str) -> MixReading | None:
    series = trial.series.get(name)
    inside = None if series is None else _inside(series, trial.window_s)
    if series is None or inside is None:
        return None
    return MixReading(float(np.mean(inside)), 1, series.source)


def _inside(series: SensorSeries, window_s: float) -> Any:
    """Readings in the window, or the last before it if the window is shorter than the sensor's period."""
    inside = series.values[(series.t_s >= 0) & (series.t_s <= window_s)]
    return inside if inside.size else (series.values[-1:] if series.values.size else None)


def _throttled(trial: TrialReadings) -> MixReading | None:
    """Share of the window in which the clock was held down: from counters, else from sampled reasons."""
    counters = [series for name, series in trial.series.items() if name.startswith(THROTTLED) and series.t_s.size >= 2]
    if counters:
        # Reasons overlap: the longest is a lower bound and their sum an upper bound. Report the longest.
        grown = [float(np.interp(trial.window_s, s.t_s, s.values) - np.interp(0, s.t_s, s.values)) for s in counters]
        return MixReading(min(max(0.0, *grown, 0.0) / trial.window_s, 1.0), 1, counters[0].source)
    reasons = trial.series.get("event_reasons")
    inside = None if reasons is None else _inside(reasons, trial.window_s)
    if reasons is None or inside is None:
        return None
    slowed = (inside.astype(np.int64) & REASONS_THAT_SLOW) != 0
    return MixReading(float(np.mean(slowed)), 1, f"{reasons.source}, sampled")


def _energy(trial: TrialReadings, sensor: PowerSensor | None) -> tuple[MixReading | None, str | None]:
    """Joules per request, or the reason why they are missing."""
    if sensor is None:
        return None, "the power sensor's properties are unknown"
    if not trial.served:
        return None, "no request was served"
    counter, power = trial.series.get("energy_j"), trial.series.get("power_w")
    if counter is not None:
        found = energy.from_counter(counter.t_s, counter.values, 0.0, trial.window_s, sensor)
        source = counter.source
    elif power is not None:
        found = energy.from_power(power.t_s, power.values, 0.0, trial.window_s, sensor)
        source = f"{power.source}, summed up"
    else:
        return None, "neither energy nor power was read"
    if found.joules is None:
        return None, found.refused
    return MixReading(found.joules / trial.served, 1, source, found.uncertainty_j / trial.served), None


def _power_sensor(manifest: Mapping[str, Any]) -> PowerSensor | None:
    """Sensor properties as recorded by the run, else derived from the documented update period."""
    described = manifest.get("device_description")
    kept = described.get("power_sensor") if isinstance(described, Mapping) else None
    try:
        if kept:
            return PowerSensor(**kept)
        infos = [sensor for sensor in manifest.get("sensors") or () if sensor["name"] in {"power_w", "energy_j"}]
        period_s = max(float(sensor["period_s"]) for sensor in infos)
        return PowerSensor("instant", update_s=period_s, window_s=period_s, known=False)
    except (TypeError, ValueError, KeyError):
        return None
