"""Host and device of one workload on one machine, fitted to its measured solo times.

A measured time says how long the host's launches and the device's kernels take together; where there are several
batches, they tell the two apart. What they can't tell stays as simulated.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.prediction.kernels.columns import Floats

HOST_SPREAD, DEVICE_SPREAD = 0.5, 0.25
"""Standard deviations of the logarithms of both factors before anything is measured: errors of validation."""
_ROBUST = 0.05
"""Relative errors beyond this count less and less: measured tables hold slips."""
_ITEM_SPREAD = 0.3
"""How much of the shortest time per item is the host's own work for it, before anything is measured."""


@dataclass(frozen=True, slots=True)
class SoloFit:
    """How a workload's times on one machine differ from those simulated."""

    host: float = 1.0
    """Factor of its launches and of what comes before and after them."""
    device: float = 1.0
    """Factor of its kernels."""
    item_ns: float = 0.0
    """Host time per item before the first launch: reading, preparing, copying."""
    off: float = 0.0
    """Mean relative error of the explained times."""


UNFITTED = SoloFit()


@dataclass(frozen=True, slots=True)
class Solo:
    """One measured time, and what the simulation takes for it."""

    batch: int
    measured_ns: float
    launched_ns: Floats
    """Host time until each kernel is launched."""
    remaining_ns: Floats
    """Device time from each kernel to the end."""
    around_ns: float
    """Host time before the first launch and after the last kernel."""

    def explained_ns(self, host: float, device: float, item_ns: float) -> float:
        """Its time with these factors: who is later, host or device, counts at every kernel."""
        overlapped = float(np.max(host * self.launched_ns + device * self.remaining_ns))
        return host * self.around_ns + overlapped + item_ns * self.batch

    @property
    def least_ns(self) -> float:
        """The kernels alone."""
        return float(self.remaining_ns[0])


def fit_solos(times: Sequence[Solo]) -> SoloFit:
    """The factors that explain the measured times best."""
    from scipy.optimize import least_squares

    per_item = min(one.measured_ns / one.batch for one in times)
    several = len({one.batch for one in times}) > 2

    def residuals(values: Floats) -> Floats:
        host, device, item = np.exp(values[0]), np.exp(values[1]), values[2] * per_item if several else 0.0
        off = [np.log(one.explained_ns(host, device, item) / one.measured_ns) / _ROBUST for one in times]
        robust = np.sqrt(2 * (np.sqrt(1 + np.square(off)) - 1))
        prior = (values[0] / HOST_SPREAD, values[1] / DEVICE_SPREAD, values[2] / _ITEM_SPREAD)
        return np.concatenate([robust, prior])

    starts = [(host, device, 0.05) for host in (-0.3, 0.3) for device in (-0.2, 0.3)]
    fits = [least_squares(residuals, start, bounds=([-3, -3, 0], [3, 3, 1])) for start in starts]
    best = min(fits, key=lambda one: float(one.cost)).x
    host, device = float(np.exp(best[0])), float(np.exp(best[1]))
    item = float(best[2]) * per_item if several else 0.0
    off = float(np.mean([abs(one.explained_ns(host, device, item) / one.measured_ns - 1) for one in times]))
    return SoloFit(host, device, item, off)


def matched(fit: SoloFit, time: Solo) -> SoloFit:
    """The same fit, scaled so that this very time comes out as measured."""
    scale = time.measured_ns / time.explained_ns(fit.host, fit.device, fit.item_ns)
    return SoloFit(fit.host * scale, fit.device * scale, fit.item_ns * scale, fit.off)
