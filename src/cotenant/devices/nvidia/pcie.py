"""PCIe traffic of GPUs without GPM. The driver's function samples a counter for 20 ms, so it runs in the background."""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

from cotenant import sensors
from cotenant.devices.nvidia import library
from cotenant.devices.nvidia.nvml import GpuFacts, handle
from cotenant.devices.protocol import SensorInfo

PERIOD_S = 2.0
SOURCE = "NVML PCIe throughput"
_NOTHING = (float("nan"), float("nan"))


class PcieProbe:
    """Each reading returns the result since the previous one and starts the next."""

    def __init__(self, gpu: GpuFacts) -> None:
        self._device, self._label = handle(gpu), gpu.label
        self._read, self._error = library.function("nvmlDeviceGetPcieThroughput"), library.nvml_error()
        self._asked: Future[tuple[float, float]] | None = None
        self._asked_s = 0.0
        quality = f"20 ms out of every {PERIOD_S:g} s, up to {PERIOD_S:g} s old"
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo(*sensors.PCIE_SENT, SOURCE, PERIOD_S, f"sent to the host; {quality}"),
            SensorInfo(*sensors.PCIE_RECEIVED, SOURCE, PERIOD_S, f"received from the host; {quality}"),
        )

    def read(self) -> Sequence[float]:
        """Bytes per second, sent and received."""
        found = _NOTHING
        if self._asked is not None:
            if not self._asked.done():
                return found
            found = self._asked.result()
        now = time.monotonic()
        if now - self._asked_s > 2 * PERIOD_S:  # stale: from another trial
            found = _NOTHING
        self._asked, self._asked_s = _side().submit(self._ask), now
        return found

    def _ask(self) -> tuple[float, float]:
        try:
            return self._read(self._device, 0) * 1024.0, self._read(self._device, 1) * 1024.0
        except self._error as error:
            if library.is_lost(error):
                raise OSError(f"{self._label} is lost") from None
            return _NOTHING


@cache
def _side() -> ThreadPoolExecutor:
    """One thread for all GPUs: each query takes 40 ms and none is urgent."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="pcie")


def unavailable(gpu: GpuFacts) -> str | None:
    """Why it can't be read here; None if it can."""
    try:
        library.call("nvmlDeviceGetPcieThroughput", handle(gpu), 0, of=gpu.label)
    except library.DriverProblem as problem:
        if problem.trouble == "lost":
            raise
        return problem.message
    return None
