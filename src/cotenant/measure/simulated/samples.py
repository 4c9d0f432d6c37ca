"""Simulated sensor readings of a GPU during a trial."""

import numpy as np

from cotenant.devices.simulated.simulated_gpu import ACTIVITIES, SimulatedGpuDevice
from cotenant.measure.sampler import Samples
from cotenant.prediction.contention.engine import ACTIVITIES as COLUMNS
from cotenant.prediction.contention.simulate import Outcome
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power import readings as sensors
from cotenant.prediction.power.dies import TYPICAL, Die
from cotenant.prediction.power.draw import Activity
from cotenant.prediction.power.settling import FREE, Limits, settle
from cotenant.prediction.power.thermal import Heat
from cotenant.prediction.power.timeline import Phase, timeline

_HEATED = 5
"""Periods over which heat and power are computed at once: they settle in seconds."""
_SHOWN = {"sm_active": "sm", "tensor_active": "tensor", "dram_active": "dram"}


def settled_clock_mhz(device: SimulatedGpuDevice, outcome: Outcome, limits: Limits) -> float | None:
    """The clock of this die under the limits set by a study; None if it is the one that costs assume."""
    if limits == FREE and device.die == TYPICAL:
        return None
    activity = mean_activity(outcome)
    held = settle(device.gpu, activity, device.die, limits)
    return held.clock_mhz * assumed_over_typical(device.gpu, activity)


def assumed_over_typical(gpu: GpuSpec, activity: Activity) -> float:
    """The clock under load that costs assume, relative to where a typical die settles without limits."""
    return gpu.clocks_mhz.under_load / settle(gpu, activity).clock_mhz


def samples_of(
    device: SimulatedGpuDevice, outcome: Outcome, limits: Limits, *, die: Die | None = None, start: Heat | None = None
) -> Samples:
    """Activity per period, and power, clock, temperature and energy through their sensors.

    Args:
        device: The GPU.
        outcome: Its activity.
        limits: The study's limits.
        die: The die in this trial, if its air temperature varies; None for the default.
        start: Its heat when the trial began; None for that after a long warm-up.
    """
    if not outcome.activity.size:
        return Samples({}, ())
    period_s = outcome.period_ns / 1e9
    ends_ns = (np.arange(1, len(outcome.activity) + 1) * outcome.period_ns).astype(np.int64)
    infos = {info.name: info for info in device.sensor_infos()}
    values = {name: outcome.activity[:, COLUMNS.index(_SHOWN[name])] for name in ACTIVITIES}
    truth = timeline(
        device.gpu,
        [
            Phase(period_s * len(rows), _activity(rows.mean(axis=0)))
            for start in range(0, len(outcome.activity), _HEATED)
            if (rows := outcome.activity[start : start + _HEATED]).size
        ],
        die=die or device.die,
        limits=limits,
        start=start,
        step_s=period_s * _HEATED,
    )
    readings = sensors.read(device.gpu, truth, np.minimum(ends_ns / 1e9, truth.end))
    values |= {
        "power_w": readings.power_w,
        "sm_clock_mhz": readings.clock_mhz,
        "temperature_c": readings.temperature_c,
        "energy_j": readings.energy_j,
    }
    count = len(ends_ns)
    columns = {
        "t_ns": np.repeat(ends_ns, len(values)),
        "device": np.full(count * len(values), device.name, object),
        "sensor": _tiled(list(values), count),
        "value": np.stack(list(values.values()), axis=1).astype(np.float64).ravel(),
        "unit": _tiled([infos[name].unit for name in values], count),
        "source": _tiled([infos[name].source for name in values], count),
    }
    return Samples(columns, ())


def _tiled(words: list[str], count: int) -> np.ndarray:
    """The words again and again, as objects: text of fixed width is copied at full width, and converted later."""
    return np.tile(np.array(words, object), count)


def _activity(row: np.ndarray) -> Activity:
    return Activity(
        compute=float(min(row[COLUMNS.index("sm")], 1.0)), memory=float(min(row[COLUMNS.index("dram")], 1.0))
    )


def mean_activity(outcome: Outcome) -> Activity:
    """Average activity of the device."""
    return _activity(outcome.activity.mean(axis=0))
