"""Field values: several metrics of a GPU in one driver call."""

import struct
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
"""Nanoseconds the clock was held back since the driver was loaded, by reason."""

_VALUE = struct.Struct("=IIqqII8s")
"""Field, scope, timestamp, latency, type, return code, value: the memory layout of nvmlFieldValue_t."""
_OF_TYPE = tuple(struct.Struct(code) for code in ("=d", "=I4x", "=Q", "=Q", "=q", "=i4x", "=H6x"))


class Fields:
    """Field values of one GPU, polled many times a second: the request is built once."""

    def __init__(self, gpu: GpuFacts, ids: Sequence[int]) -> None:
        self._device, self._n = handle(gpu), len(ids)
        self._get, self._error = library.raw_function("nvmlDeviceGetFieldValues"), library.nvml_error()
        self._values: Any = (library.binding("c_nvmlFieldValue_t") * len(ids))()
        for place, number in enumerate(ids):
            self._values[place].fieldId = number

    def read(self) -> list[float]:
        """The values; NaN where the GPU has none. Raises the bindings' error."""
        code = self._get(self._device, self._n, self._values)
        if code:
            raise self._error(code)
        return [
            float(_OF_TYPE[kind].unpack(value)[0]) if failed == 0 else float("nan")
            for _, _, _, _, kind, failed, value in _VALUE.iter_unpack(self._values)
        ]


def supported(gpu: GpuFacts, ids: Sequence[int]) -> frozenset[int]:
    """The field values this GPU and driver support."""
    answers = library.ask("nvmlDeviceGetFieldValues", handle(gpu), list(ids), of=gpu.label)
    return frozenset() if answers is None else frozenset(a.fieldId for a in answers if a.nvmlReturn == 0)
