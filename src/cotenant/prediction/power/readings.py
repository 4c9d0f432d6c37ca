"""Sensor readings of a timeline: power through the sensor's update period and window, whole degrees, clock steps.

A sensor that averages 25 ms of every 100 ms (A100) misses three quarters of the time. The catalogue describes the
instantaneous reading, which live devices prefer; the plain one of GeForce RTX 30 and later, A40, L4, ... is an average
over 1 s and lags. Periods and windows: Yang, Adamek, Armour, arXiv 2312.02741.
"""

from dataclasses import dataclass

import numpy as np

from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power.draw import Floats
from cotenant.prediction.power.settling import shown_clock_mhz
from cotenant.prediction.power.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Readings:
    """Values shown at each reading."""

    t_s: Floats
    power_w: Floats
    clock_mhz: Floats
    temperature_c: Floats
    energy_j: Floats


def read(gpu: GpuSpec, truth: Timeline, at_s: Floats, *, phase_s: float = 0.0) -> Readings:
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
