"""Power of a GPU: board, leakage, and switching that grows with the clock and, above a knee, with the voltage too.

    P = board + leakage(T) + k * V(f)^2 * (clock tree * f + work per second) + memory * bandwidth used

Below the knee the voltage is flat and power is linear in the clock; above it f*V^2 gains a square, the shape that
fits 20 kernels at 10 clocks on a V100 within 2.7 % (P = a + b f + c max(0, f - knee)^2).
Work per second follows the clock: a slower clock does less work and moves fewer bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotenant.prediction.gpu import GpuSpec

Floats = NDArray[np.float64]

VOLTAGE_GAIN = 0.565
"""V^2 at the boost clock is this much above V^2 below the knee: matrixMul on a V100, 99 W at 945 MHz, 186 W at 1380."""
CLOCK_TREE = 0.09
"""Fraction of full switching in an idle but clocked GPU: a V100 at 1530 MHz and 57 C without work draws 81 W."""
MEMORY_SHARE = 0.16
"""Power of memory at full bandwidth, as a fraction of the power limit; an estimate."""
MIDWAY_LOAD = 1.067
"""Power of full load midway between base and boost clock, relative to the limit: Longhorn's V100s (1312, 1530 MHz)
sustain 1365 MHz. An estimate for others: a data sheet's base clock is guaranteed, not what the board runs at."""
LEAKAGE_REFERENCE_C = 65.0
LEAKAGE_FOLD_C = 39.0
"""Leakage grows by a factor of e in this many degrees: Longhorn's V100s, 0.37 W/C at 34 C (PageRank), 0.82 W/C at 66 C
(SGEMM)."""
WARM_C = 60.0
"""Temperature at which a mean power is given; an estimate."""
IDLE_C = 35.0
"""Approximate temperature of a GPU's stated idle power."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Mean activity of the device, as fractions of its peaks at the boost clock."""

    compute: float
    """Fraction of its arithmetic (or of SM time, if only that is known), 0 to 1."""
    memory: float
    """Fraction of its memory bandwidth, 0 to 1."""
    core_time: float | None = None
    """Fraction of the time that scales with the clock; None: from the ratio of compute to memory, the rest being
    idle."""

    @property
    def clock_bound(self) -> float:
        """Fraction of the time that scales with the clock."""
        if self.core_time is not None:
            return self.core_time
        return self.compute / max(1.0, self.compute + self.memory)


FULL = Activity(compute=1.0, memory=0.043)
"""A large float32 matrix product; its time scales with f^-0.95 on Longhorn's V100s."""


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """Power of an activity on a GPU over its clocks, without leakage."""

    clocks_mhz: Floats
    """Rising."""
    dynamic_w: Floats
    """Switching and memory at each clock, for a typical die; rising."""
    board_w: float
    clock_bound: float

    def dynamic_at(self, clock_mhz: Floats) -> Floats:
        """Switching and memory power at these clocks."""
        return np.interp(clock_mhz, self.clocks_mhz, self.dynamic_w)

    def clock_for(self, dynamic_w: Floats) -> Floats:
        """The highest clock whose switching and memory power fits, else the lowest."""
        return np.interp(dynamic_w, self.dynamic_w, self.clocks_mhz)

    def slowdown_at(self, clock_mhz: Floats) -> Floats:
        """Time relative to the boost clock: only the clock-bound part stretches."""
        return stretch(self.clock_bound, self.clocks_mhz[-1] / clock_mhz)


def power_curve(gpu: GpuSpec, activity: Activity) -> PowerCurve:
    """The curve of an activity on a GPU, over all its clocks."""
    return power_curves(gpu)(activity)


def power_curves(gpu: GpuSpec) -> Callable[[Activity], PowerCurve]:
    """The curves of activities on a GPU; what they have in common is computed once."""
    clocks, board = _clocks(gpu), board_w(gpu)
    midway = _Speeds.of(gpu, np.array([(gpu.clocks_mhz.base + gpu.clocks_mhz.boost) / 2]))
    fixed_w = board + float(leakage_w(gpu, np.array(LEAKAGE_REFERENCE_C)))
    switching_w = MIDWAY_LOAD * gpu.power.limit_w - fixed_w - float(_memory_w(gpu, FULL, midway)[0])
    per_unit = max(switching_w, 0.1 * gpu.power.limit_w) / float(_switching(FULL, midway)[0])
    speeds = _Speeds.of(gpu, clocks)

    def curve(activity: Activity) -> PowerCurve:
        dynamic = per_unit * _switching(activity, speeds) + _memory_w(gpu, activity, speeds)
        return PowerCurve(clocks, dynamic, board, activity.clock_bound)

    return curve


def mean_w(gpu: GpuSpec, activity: Activity, clock_mhz: float | None = None) -> float:
    """Power of an activity on a warm GPU, up to its limit; at the boost clock unless another is given."""
    curve = power_curve(gpu, activity)
    at = curve.clocks_mhz[-1] if clock_mhz is None else clock_mhz
    drawn = curve.board_w + float(curve.dynamic_at(np.array(at))) + float(leakage_w(gpu, np.array(WARM_C)))
    return min(drawn, gpu.power.limit_w)


def board_w(gpu: GpuSpec) -> float:
    """Power that depends on neither clock nor temperature once a context exists: regulators, clocked memory."""
    leaking = float(leakage_w(gpu, np.array(IDLE_C)))
    return max(gpu.power.idle_w - leaking, 0.1 * gpu.power.idle_w) + gpu.power.awake_w


def leakage_w(gpu: GpuSpec, temperature_c: Floats) -> Floats:
    """Leakage of a typical die; the data give its slope at the reference temperature."""
    at_reference = gpu.thermal.leakage_w_per_c * LEAKAGE_FOLD_C
    return np.asarray(at_reference * np.exp((temperature_c - LEAKAGE_REFERENCE_C) / LEAKAGE_FOLD_C))


def voltage_squared(gpu: GpuSpec, clock_mhz: Floats) -> Floats:
    """V^2 relative to its value below the knee."""
    boost, knee = gpu.clocks_mhz.boost, gpu.power.knee_mhz
    if knee >= boost:
        return np.ones_like(clock_mhz)
    steepness = VOLTAGE_GAIN * boost / (boost - knee) ** 2
    above = np.maximum(0.0, clock_mhz - knee)
    return np.asarray(1.0 + steepness * above**2 / clock_mhz)


def stretch(clock_bound: float, clock_ratio: Floats) -> Floats:
    """Time relative to the reference clock, where ``clock_ratio`` is reference over clock."""
    return np.asarray((1.0 - clock_bound) + clock_bound * clock_ratio)


def _clocks(gpu: GpuSpec) -> Floats:
    low, high, step = gpu.clocks_mhz.min, gpu.clocks_mhz.boost, gpu.clocks_mhz.step
    below = np.arange(high, low, -step)[::-1]
    return np.concatenate(([low], below)) if below[0] > low else below


class _Speeds(NamedTuple):
    """Some clocks of a GPU."""

    ratio: Floats
    """Boost clock over clock."""
    voltage_squared: Floats

    @classmethod
    def of(cls, gpu: GpuSpec, clocks_mhz: Floats) -> "_Speeds":
        return cls(gpu.clocks_mhz.boost / clocks_mhz, voltage_squared(gpu, clocks_mhz))


def _switching(activity: Activity, at: _Speeds) -> Floats:
    """V^2 times the clocked and the working share, in units of the boost clock."""
    work = activity.compute / stretch(activity.clock_bound, at.ratio)
    return at.voltage_squared * (CLOCK_TREE / at.ratio + (1.0 - CLOCK_TREE) * work)


def _memory_w(gpu: GpuSpec, activity: Activity, at: _Speeds) -> Floats:
    return MEMORY_SHARE * gpu.power.limit_w * activity.memory / stretch(activity.clock_bound, at.ratio)
