"""What measured times of a workload at several batch sizes say about its host, when its kernels are known.

The device's time comes from the traced kernels, up to a factor; what is left of a measured time is the host's. Launches
overlap with the device; what the host does for each item (reading, preparing, copying) comes before the first launch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.prediction.kernels.columns import Floats

DEVICE_SPREAD = 0.25
"""Standard deviation of the factor's logarithm: simulated solo times are validated to a mean error of 20 %."""
_SHARPNESS = 8
"""Launches and device overlap almost perfectly: the longer one counts."""
_ROBUST = 0.05
"""Relative errors beyond this count less and less: measured tables hold slips."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Host and device of one workload on one machine. Times are in the unit of the measured ones."""

    launches: float
    """Host time of all launches of a request."""
    item: float
    """Host time per item, before the first launch."""
    device: float
    """How much longer the device takes than simulated."""

    def time(self, batch: float, simulated: float) -> float:
        """Time of a request alone whose kernels take ``simulated`` on the device or a part of it."""
        return float(_time(self.launches, self.item, self.device, np.array([batch]), np.array([simulated]))[0])


def calibrate(
    batches: Sequence[float],
    measured: Sequence[float],
    simulated: Sequence[float],
    *,
    item_least: float = 0.0,
    device_guess: float = 1.0,
) -> Calibration:
    """The calibration that explains the measured times best.

    Args:
        batches: Items per request.
        measured: Time per request, alone, in a closed loop.
        simulated: Device time of its kernels at the same batches.
        item_least: Host time per item that is known to be there, a copy for example.
        device_guess: The factor that is usual for this software.
    """
    from scipy.optimize import least_squares

    batch, time, device = (np.asarray(values, dtype=np.float64) for values in (batches, measured, simulated))
    per_item = float((time / batch).min())

    def residuals(values: Floats) -> Floats:
        launches, factor, item = np.exp(values[0]), np.exp(values[1]), item_least + values[2] * per_item
        off = np.log(_time(launches, item, factor, batch, device) / time) / _ROBUST
        robust = np.sqrt(2 * (np.sqrt(1 + off**2) - 1))
        return np.append(robust, (values[1] - np.log(device_guess)) / DEVICE_SPREAD)

    fits = [
        least_squares(residuals, [np.log(time.min()), np.log(device_guess), item], bounds=([-50, -5, 0], [50, 5, 1]))
        for item in (0.01, 0.5)
    ]
    best = min(fits, key=lambda fit: float(fit.cost)).x
    return Calibration(
        launches=float(np.exp(best[0])), item=item_least + float(best[2]) * per_item, device=float(np.exp(best[1]))
    )


def _time(launches: float, item: float, factor: float, batch: Floats, device: Floats) -> Floats:
    overlapped: Floats = (launches**_SHARPNESS + (factor * device) ** _SHARPNESS) ** (1 / _SHARPNESS)
    return item * batch + overlapped
