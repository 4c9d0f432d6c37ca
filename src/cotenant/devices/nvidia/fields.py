"""Field values: many quantities of a GPU in one call of the driver."""

from collections.abc import Sequence
from typing import Any

from cotenant.devices.nvidia import library
from cotenant.devices.nvidia.nvml import GpuFacts, handle

POWER_AVERAGE, POWER_INSTANT, ENERGY, MEMORY_TEMPERATURE = 185, 186, 83, 82
THROTTLED_POWER_CAP, THROTTLED_SYNC_BOOST = 74, 76
THROTTLED_THERMAL, THROTTLED_THERMAL_HARDWARE, THROTTLED_POWER_BRAKE = 269, 270, 271
THROTTLED = (
    THROTTLED_POWER_CAP,
    THROTTLED_SYNC_BOOST,
    THROTTLED_THERMAL,
    THROTTLED_THERMAL_HARDWARE,
    THROTTLED_POWER_BRAKE,
)
"""Nanoseconds since the driver was loaded in which the clock was held back, by reason."""

_OF_TYPE = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class Fields:
    """Some field values of one GPU."""

    def __init__(self, gpu: GpuFacts, ids: Sequence[int]) -> None:
        self._device, self._ids = handle(gpu), list(ids)
        self._get = library.function("nvmlDeviceGetFieldValues")

    def read(self) -> list[float]:
        """The values; NaN where the GPU has none. Raises the bindings' error."""
        return [_number(answer) for answer in self._get(self._device, self._ids)]


def supported(gpu: GpuFacts, ids: Sequence[int]) -> frozenset[int]:
    """Those of the field values that this GPU and driver have."""
    answers = library.ask("nvmlDeviceGetFieldValues", handle(gpu), list(ids), of=gpu.label)
    return frozenset() if answers is None else frozenset(a.fieldId for a in answers if a.nvmlReturn == 0)


def _number(answer: Any) -> float:
    if answer.nvmlReturn != 0:
        return float("nan")
    return float(getattr(answer.value, _OF_TYPE[answer.valueType]))
