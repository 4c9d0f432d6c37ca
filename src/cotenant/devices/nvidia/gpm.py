"""Activity of SMs, tensor cores and DRAM from the driver: NVML GPM, on Hopper and newer."""

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from cotenant import sensors
from cotenant.devices.nvidia import library
from cotenant.devices.nvidia.nvml import GpuFacts, handle
from cotenant.devices.protocol import SensorInfo

PERIOD_S = 0.2
"""NVIDIA requires at least 100 ms between two samples."""
LONGEST_S = 1.0
"""A reading over a longer interval would cover the time between two trials."""
SOURCE = "NVML GPM"
_METRICS: tuple[tuple[int, str, str, float, str], ...] = (
    (2, *sensors.SM_ACTIVE, 0.01, "share of SMs that had a warp, mean since the last reading"),
    (3, *sensors.SM_OCCUPANCY, 0.01, "share of the warps that SMs could hold, mean since the last reading"),
    (5, *sensors.TENSOR_ACTIVE, 0.01, "share of time that tensor cores worked, mean since the last reading"),
    (10, *sensors.DRAM_ACTIVE, 0.01, "share of the DRAM bandwidth, mean since the last reading"),
    (20, *sensors.PCIE_SENT, float(1 << 20), "sent to the host, mean since the last reading"),
    (21, *sensors.PCIE_RECEIVED, float(1 << 20), "received from the host, mean since the last reading"),
)


class GpmProbe:
    """Two alternating samples of the hardware counters; a reading is the difference between them."""

    def __init__(self, gpu: GpuFacts) -> None:
        self._device = handle(gpu)
        self._label = gpu.label
        self._get, self._metrics_get = library.function("nvmlGpmSampleGet"), library.function("nvmlGpmMetricsGet")
        self._error = library.nvml_error()
        samples = [library.call("nvmlGpmSampleAlloc", of=gpu.label) for _ in range(2)]
        # Resolved now: a finalizer may run while this thread holds the lock under which the bindings look functions up.
        free = library.raw_function("nvmlGpmSampleFree")
        for sample in samples:
            weakref.finalize(self, _free, free, sample)
        self._older, self._newer = samples
        self._question: Any = library.binding("c_nvmlGpmMetricsGet_t")()
        self._question.version = library.binding("NVML_GPM_METRICS_GET_VERSION")
        self._question.numMetrics = len(_METRICS)
        for place, metric in enumerate(_METRICS):
            self._question.metrics[place].metricId = metric[0]
        self._read_s = float("-inf")
        self.sensors: tuple[SensorInfo, ...] = tuple(
            SensorInfo(name, unit, SOURCE, PERIOD_S, quality) for _, name, unit, _, quality in _METRICS
        )

    def read(self) -> Sequence[float]:
        """Activity since the previous reading; NaN at the first, or after a pause."""
        nothing = [float("nan")] * len(_METRICS)
        try:
            self._older, self._newer = self._newer, self._older
            self._get(self._device, self._newer)
            now = time.monotonic()
            before, self._read_s = self._read_s, now
            if now - before > LONGEST_S:
                return nothing
            self._question.sample1, self._question.sample2 = self._older, self._newer
            self._metrics_get(self._question)
        except self._error as error:
            if library.is_lost(error):
                raise OSError(f"{self._label} is lost") from None
            return nothing
        answers = self._question.metrics
        return [
            answers[place].value * scale if answers[place].nvmlReturn == 0 else float("nan")
            for place, (_, _, _, scale, _) in enumerate(_METRICS)
        ]


def unavailable(gpu: GpuFacts) -> str | None:
    """Why GPM can't be read here; None if it can."""
    try:
        support = library.call("nvmlGpmQueryDeviceSupport", handle(gpu), of=gpu.label)
    except library.DriverProblem as problem:
        if problem.trouble == "lost":
            raise
        return problem.message
    return None if support.isSupportedDevice else f"{gpu.architecture} has none; it needs Hopper or newer"


def _free(free: Callable[..., int], sample: Any) -> None:
    if library.is_open():
        free(sample)  # its code doesn't matter: a lost GPU took the sample with it
