"""Counters of a GPU: activity from NVML GPM, PCIe traffic, field values, and how its power readings are made."""

import struct
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from cotenant import sensors
from cotenant.analyse.energy import FEWEST_CHANGES, Counter, Floats, PowerSensor
from cotenant.devices.nvidia import library
from cotenant.devices.nvidia.nvml import GpuFacts, handle
from cotenant.devices.protocol import SensorInfo

GPM_PERIOD_S = 0.2
"""NVIDIA requires at least 100 ms between two samples."""
LONGEST_S = 1.0
"""A reading over a longer interval would cover the time between two trials."""
GPM_SOURCE = "NVML GPM"
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
            SensorInfo(name, unit, GPM_SOURCE, GPM_PERIOD_S, quality) for _, name, unit, _, quality in _METRICS
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


def why_no_gpm(gpu: GpuFacts) -> str | None:
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


# --- PCIe traffic of GPUs without GPM. The driver's function samples a counter for 20 ms, so it runs in the background

PCIE_PERIOD_S = 2.0
PCIE_SOURCE = "NVML PCIe throughput"
_NOTHING = (float("nan"), float("nan"))


class PcieProbe:
    """Each reading returns the result since the previous reading and starts the next."""

    def __init__(self, gpu: GpuFacts) -> None:
        self._device, self._label = handle(gpu), gpu.label
        self._read, self._error = library.function("nvmlDeviceGetPcieThroughput"), library.nvml_error()
        self._asked: Future[tuple[float, float]] | None = None
        self._asked_s = 0.0
        quality = f"20 ms out of every {PCIE_PERIOD_S:g} s, up to {PCIE_PERIOD_S:g} s old"
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo(*sensors.PCIE_SENT, PCIE_SOURCE, PCIE_PERIOD_S, f"sent to the host; {quality}"),
            SensorInfo(*sensors.PCIE_RECEIVED, PCIE_SOURCE, PCIE_PERIOD_S, f"received from the host; {quality}"),
        )

    def read(self) -> Sequence[float]:
        """Bytes per second, sent and received."""
        found = _NOTHING
        if self._asked is not None:
            if not self._asked.done():
                return found
            found = self._asked.result()
        now = time.monotonic()
        if now - self._asked_s > 2 * PCIE_PERIOD_S:  # stale: from another trial
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


def why_no_pcie(gpu: GpuFacts) -> str | None:
    """Why it can't be read here; None if it can."""
    try:
        library.call("nvmlDeviceGetPcieThroughput", handle(gpu), 0, of=gpu.label)
    except library.DriverProblem as problem:
        if problem.trouble == "lost":
            raise
        return problem.message
    return None


# --- field values: several metrics of a GPU in a single driver call

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
    """Field values of a GPU, polled many times a second: the request is built once."""

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


# --- how a GPU's power readings are made: published by architecture and driver, or found by polling

SPLIT_DRIVER = "530"
"""The driver branch in which the average on Ampere and Ada was an instantaneous reading."""


_FAST = {"usage": (20, 10), "instant": (20, 10)}
_PLAIN = {"usage": (100, 100), "instant": (100, 100)}
_QUARTER = {"usage": (100, 25), "instant": (100, 25)}
_AVERAGED = {"usage": (100, 1000), "average": (100, 1000), "instant": (100, 100)}
_HOPPER = {"usage": (100, 1000), "average": (100, 1000), "instant": (100, 25)}
_PUBLISHED: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "kepler": _PLAIN, "maxwell": _PLAIN, "pascal": _FAST, "volta": _FAST, "turing": _PLAIN, "ga100": _QUARTER,
    "ampere": _AVERAGED, "ada": _AVERAGED, "hopper": _HOPPER,
}  # fmt: skip
"""Update period and window in milliseconds, by architecture and counter."""


def published_power(
    architecture: str, compute_capability: tuple[int, int], driver: str, counter: Counter
) -> PowerSensor | None:
    """Published values for this counter on this kind of GPU; None if it lacks the counter."""
    kind = "ga100" if architecture == "ampere" and compute_capability == (8, 0) else architecture
    branch = driver.partition(".")[0]
    if kind in {"ampere", "ada"} and counter == "usage" and branch == SPLIT_DRIVER:
        return PowerSensor(counter, 0.1, 0.1)
    found = _PUBLISHED.get(kind, _HOPPER).get(counter)
    return None if found is None else PowerSensor(counter, found[0] / 1e3, found[1] / 1e3, known=kind in _PUBLISHED)


def polled_power(read: Callable[[], float], *, at_most_s: float = 0.7, pause_s: float = 0.002) -> tuple[Floats, Floats]:
    """Poll until the value has changed often enough; return times and values."""
    begin = time.monotonic()
    t_s, values = [0.0], [read()]
    changes = 0
    while t_s[-1] < at_most_s and changes < 3 * FEWEST_CHANGES:
        time.sleep(pause_s)
        values.append(read())
        t_s.append(time.monotonic() - begin)
        changes += values[-1] != values[-2]
    return np.array(t_s), np.array(values)
