"""What the sensors of a simulated GPU would have shown during a trial."""

import numpy as np

from cotenant.devices.simulated import sensors
from cotenant.devices.simulated.device import ACTIVITIES, SimulatedGpu
from cotenant.devices.simulated.engine import ACTIVITIES as COLUMNS
from cotenant.devices.simulated.power import Activity
from cotenant.devices.simulated.settling import FREE, Limits, settle
from cotenant.devices.simulated.simulate import Outcome
from cotenant.devices.simulated.timeline import Phase, timeline
from cotenant.measure.sampler import Samples

_HEATED = 5
"""Periods over which heat and power are followed at once: they settle in seconds."""
_SHOWN = {"sm_active": "sm", "tensor_active": "tensor", "dram_active": "dram"}


def settled_clock_mhz(device: SimulatedGpu, outcome: Outcome, limits: Limits) -> float | None:
    """The clock under the limits that a study set; None: nothing is set, so it is the one that costs assume."""
    if limits == FREE:
        return None
    activity = _mean_activity(outcome)
    free = settle(device.gpu, activity, device.die)
    held = settle(device.gpu, activity, device.die, limits)
    return device.gpu.clocks_mhz.under_load * min(1.0, held.clock_mhz / free.clock_mhz)


def samples_of(device: SimulatedGpu, outcome: Outcome, limits: Limits) -> Samples:
    """Activity per period, and power, clock, temperature and energy through their sensors."""
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
        die=device.die,
        limits=limits,
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
        "t_ns": np.tile(ends_ns, len(values)),
        "device": np.full(count * len(values), device.name),
        "sensor": np.repeat(list(values), count),
        "value": np.concatenate(list(values.values())).astype(np.float64),
        "unit": np.repeat([infos[name].unit for name in values], count),
        "source": np.repeat([infos[name].source for name in values], count),
    }
    order = np.argsort(columns["t_ns"], kind="stable")
    return Samples({name: column[order] for name, column in columns.items()}, ())


def _activity(row: np.ndarray) -> Activity:
    return Activity(
        compute=float(min(row[COLUMNS.index("sm")], 1.0)), memory=float(min(row[COLUMNS.index("dram")], 1.0))
    )


def _mean_activity(outcome: Outcome) -> Activity:
    return _activity(outcome.activity.mean(axis=0))
