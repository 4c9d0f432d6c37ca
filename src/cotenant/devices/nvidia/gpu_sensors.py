"""A GPU's sensors through its driver, grouped by update rate, each with source and quality."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cotenant import sensors
from cotenant.analyse.energy import Counter, PowerSensor, update_period_s
from cotenant.devices.nvidia import counters, library
from cotenant.devices.nvidia.nvml import GpuFacts, handle, process_function
from cotenant.devices.protocol import Probe, SensorInfo

# --- sources of each metric in order of preference, the choice, and why better sources were not chosen


@dataclass(frozen=True, slots=True)
class Rung:
    """One source of a metric."""

    source: str
    worth: str
    """One clause: what it captures, and what it misses."""


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """The source chosen for a metric, and better ones that were unavailable."""

    metric: str
    rung: Rung | None
    """None: no source has this metric here."""
    missed: Mapping[str, str]
    """Why, by source."""

    @property
    def sentence(self) -> str:
        """For the doctor and the manifest."""
        why = "; ".join(f"not from {source}: {reason}" for source, reason in self.missed.items())
        took = f"{self.metric} from {self.rung.source} ({self.rung.worth})" if self.rung else f"no {self.metric}"
        return f"{took}; {why}" if why else took


LADDERS: Mapping[str, tuple[Rung, ...]] = {
    "energy": (
        Rung("NVML energy counter", "counts every update; reset when the driver is reloaded"),
        Rung("NVML power, instant", "integrated; blind between windows"),
        Rung("NVML power, average", "integrated; lags by a second"),
        Rung("NVML power usage", "integrated; instantaneous or a one-second average, by architecture and driver"),
    ),
    "power": (
        Rung("NVML power, instant", "field 186: the shortest window there is"),
        Rung("NVML power usage", "instantaneous on GA100 and older, a one-second average on others"),
    ),
    "activity": (
        Rung("NVML GPM", "SM, tensor core and DRAM activity, Hopper and newer"),
        Rung("DCGM", "SM, tensor core and DRAM activity, Volta and newer, needs its host engine"),
        Rung("NVML utilisation", "only whether any kernel ran, not how many SMs it used"),
    ),
    "throttling": (
        Rung("NVML throttle counters", "nanoseconds held back, by reason; complete"),
        Rung("NVML event reasons", "the reasons at each reading; misses shorter events"),
    ),
    "PCIe traffic": (
        Rung("NVML GPM", "rate between two readings"),
        Rung("DCGM", "rate over its period, needs its host engine"),
        Rung("NVML PCIe throughput", "20 ms out of every reading period"),
    ),
}


def choose(metric: str, unavailable: Mapping[str, str]) -> SourceChoice:
    """Return the best source not known to be unavailable.

    Args:
        metric: A key of `LADDERS`.
        unavailable: Why a source is unavailable, by source.
    """
    missed: dict[str, str] = {}
    for rung in LADDERS[metric]:
        if rung.source not in unavailable:
            return SourceChoice(metric, rung, missed)
        missed[rung.source] = unavailable[rung.source]
    return SourceChoice(metric, None, missed)


CLOCK_PERIOD_S = 0.1
SLOW_PERIOD_S = 0.5
SOURCE = "NVML"
_SM, _MEMORY = 1, 2
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""Drivers before 535 only know the second name; the bits are the same."""
_Read = Callable[[], Sequence[float]]
_Reader = tuple[int, _Read]
"""The count of values it returns, and the function to call."""

_THROTTLED: Mapping[int, tuple[str, str]] = {
    counters.THROTTLED_POWER_CAP: ("throttled_power_cap_s", "by the power limit"),
    counters.THROTTLED_SYNC_BOOST: ("throttled_sync_boost_s", "to keep pace with a group of GPUs"),
    counters.THROTTLED_THERMAL: ("throttled_thermal_s", "by the driver, for heat"),
    counters.THROTTLED_THERMAL_HARDWARE: ("throttled_thermal_hardware_s", "by the hardware, for heat"),
    counters.THROTTLED_POWER_BRAKE: ("throttled_power_brake_s", "by the hardware, on a power supply signal"),
}


@dataclass(frozen=True, slots=True)
class SensorSurvey:
    """Sensors this GPU and driver support."""

    fields: frozenset[int]
    power_usage: bool
    energy: bool
    gpm: str | None
    """Why it is unsupported; None if it is supported."""
    pcie: str | None


class _ReadTogether:
    """Sensors read together, each by a function that returns numbers."""

    def __init__(self, gpu: GpuFacts, sensors: Sequence[SensorInfo], readers: Sequence[_Reader]) -> None:
        self.sensors = tuple(sensors)
        self._label, self._readers, self._error = gpu.label, readers, library.nvml_error()

    def read(self) -> Sequence[float]:
        """One value per sensor. Raises OSError if the GPU is lost."""
        values: list[float] = []
        for width, read in self._readers:
            try:
                values += read()
            except self._error as error:  # a failing sensor must not hide the others
                if library.is_lost(error):
                    raise OSError(f"{self._label} is lost") from None
                values += [float("nan")] * width
        return values


def probes(gpu: GpuFacts, *, measure_period: bool = True) -> tuple[Probe, ...]:
    """The probes of a GPU.

    Args:
        gpu: The GPU.
        measure_period: Poll the power sensor for at most 0.7 s, once per process, to find its update period.

    Raises:
        DriverProblem: The GPU or the driver is lost.
    """
    found = survey(gpu)
    every: list[Probe | None] = [
        _power(gpu, found, measure_period=measure_period),
        _clocks(gpu),
        _slow(gpu, found),
        counters.GpmProbe(gpu) if found.gpm is None else _utilisation(gpu),
        counters.PcieProbe(gpu) if found.gpm is not None and found.pcie is None else None,
    ]
    return tuple(probe for probe in every if probe is not None and probe.sensors)


def survey(gpu: GpuFacts) -> SensorSurvey:
    """Query everything once."""
    wanted = (
        counters.POWER_AVERAGE,
        counters.POWER_INSTANT,
        counters.ENERGY,
        counters.MEMORY_TEMPERATURE,
        *counters.THROTTLED,
    )
    no_gpm = counters.why_no_gpm(gpu)
    return SensorSurvey(
        fields=counters.supported(gpu, wanted),
        power_usage=_answers(gpu, "nvmlDeviceGetPowerUsage"),
        energy=_answers(gpu, "nvmlDeviceGetTotalEnergyConsumption"),
        gpm=no_gpm,
        pcie=counters.why_no_pcie(gpu) if no_gpm is not None else None,
    )


def ladder(gpu: GpuFacts, *, no_dcgm: str | None = "it was not looked for") -> tuple[SourceChoice, ...]:
    """For each metric, its source here and why no better source is available.

    Args:
        gpu: The GPU.
        no_dcgm: Why DCGM can't be used; None if it can.
    """
    found = survey(gpu)
    missing: dict[str, str] = {}
    if found.gpm is not None:
        missing["NVML GPM"] = found.gpm
    if no_dcgm is not None:
        missing["DCGM"] = no_dcgm
    lacks = f"{gpu.name} with driver {gpu.driver} doesn't have it"
    for source, there in (
        ("NVML energy counter", found.energy or counters.ENERGY in found.fields),
        ("NVML power, instant", counters.POWER_INSTANT in found.fields),
        ("NVML power, average", counters.POWER_AVERAGE in found.fields),
        ("NVML power usage", found.power_usage),
        ("NVML throttle counters", counters.THROTTLED_POWER_CAP in found.fields),
        ("NVML event reasons", reasons_function(gpu) is not None),
        ("NVML utilisation", _answers(gpu, "nvmlDeviceGetUtilizationRates")),
    ):
        if not there:
            missing[source] = lacks
    if found.pcie is not None:
        missing["NVML PCIe throughput"] = found.pcie
    return tuple(choose(metric, missing) for metric in ("energy", "power", "activity", "throttling", "PCIe traffic"))


def power_counter(gpu: GpuFacts) -> PowerSensor | None:
    """Quality of this GPU's `power_w`: its counter, update period and window; None without power readings."""
    return _worth(gpu, survey(gpu), measure_period=True)


def reasons_function(gpu: GpuFacts) -> str | None:
    """This driver's name for the clock event reasons."""
    return next((name for name in _REASONS if _answers(gpu, name)), None)


def _power(gpu: GpuFacts, found: SensorSurvey, *, measure_period: bool) -> Probe | None:
    """Power and energy: field values in a single call, or the older functions where there are none."""
    infos: list[SensorInfo] = []
    readers: list[_Reader] = []
    by_field: list[int] = []
    worth = _worth(gpu, found, measure_period=measure_period)
    if worth is not None:
        source = "NVML power, instant" if worth.counter == "instant" else "NVML power usage"
        infos.append(SensorInfo(*sensors.POWER, source, worth.period_s, worth.quality))
        by_field += [counters.POWER_INSTANT] if worth.counter == "instant" else []
    if worth is not None and worth.counter == "usage":
        readers.append((1, _scaled(gpu, "nvmlDeviceGetPowerUsage", 1e-3)))
    period_s = worth.period_s if worth else CLOCK_PERIOD_S
    if counters.POWER_AVERAGE in found.fields:
        average = counters.published_power(gpu.architecture, gpu.compute_capability, gpu.driver, "average")
        quality = average.quality if average else "mean of the last second"
        infos.append(SensorInfo(*sensors.POWER_AVERAGE, "NVML power, average", period_s, quality))
        by_field.append(counters.POWER_AVERAGE)
    energy = f"counter of the whole GPU, updated every {period_s * 1e3:.0f} ms; reset when the driver is reloaded"
    if counters.ENERGY in found.fields:
        infos.append(SensorInfo(*sensors.ENERGY, "NVML energy counter", period_s, energy))
        by_field.append(counters.ENERGY)
    if by_field:
        together = counters.Fields(gpu, by_field)
        readers.append((len(by_field), lambda: [value / 1e3 for value in together.read()]))
    if counters.ENERGY not in found.fields and found.energy:
        infos.append(SensorInfo(*sensors.ENERGY, "NVML energy counter", period_s, energy))
        readers.append((1, _scaled(gpu, "nvmlDeviceGetTotalEnergyConsumption", 1e-3)))
    return _ReadTogether(gpu, infos, readers) if infos else None


def _worth(gpu: GpuFacts, found: SensorSurvey, *, measure_period: bool) -> PowerSensor | None:
    instant = counters.POWER_INSTANT in found.fields
    if not instant and not found.power_usage:
        return None
    counter: Counter = "instant" if instant else "usage"
    published = counters.published_power(gpu.architecture, gpu.compute_capability, gpu.driver, counter)
    assert published is not None  # some architectures lack only the average
    seen = library.remembered()
    key = (gpu.uuid, counter)
    if measure_period and key not in seen:  # once per process is enough
        usage = _scaled(gpu, "nvmlDeviceGetPowerUsage", 1e-3)
        read = counters.Fields(gpu, [counters.POWER_INSTANT]).read if instant else usage
        seen[key] = _watched(gpu, read)
    return replace(published, measured_update_s=seen.get(key))


def _watched(gpu: GpuFacts, read: Callable[[], Sequence[float]]) -> float | None:
    try:
        return update_period_s(*counters.polled_power(lambda: read()[0]))
    except library.nvml_error() as error:
        if library.is_lost(error):
            raise library.problem(error, "nvmlDeviceGetFieldValues", gpu.label) from None
        return None


def _clocks(gpu: GpuFacts) -> Probe | None:
    infos: list[SensorInfo] = []
    readers: list[_Reader] = []
    if _answers(gpu, "nvmlDeviceGetClockInfo", _SM):
        infos.append(SensorInfo(*sensors.SM_CLOCK, SOURCE, CLOCK_PERIOD_S, "clock at the reading"))
        readers.append((1, _number(gpu, "nvmlDeviceGetClockInfo", ctypes.c_uint(), _SM)))
    if (reasons := reasons_function(gpu)) is not None:
        quality = "clock event reasons at the reading, as bits; misses shorter events"
        infos.append(SensorInfo("event_reasons", "bits", "NVML event reasons", CLOCK_PERIOD_S, quality))
        readers.append((1, _number(gpu, reasons, ctypes.c_ulonglong())))
    return _ReadTogether(gpu, infos, readers) if infos else None


def _slow(gpu: GpuFacts, found: SensorSurvey) -> Probe | None:
    infos: list[SensorInfo] = []
    readers: list[_Reader] = []
    if _answers(gpu, "nvmlDeviceGetTemperature", 0):
        infos.append(SensorInfo(*sensors.TEMPERATURE, SOURCE, SLOW_PERIOD_S, "whole degrees, of the die"))
        readers.append((1, _scaled(gpu, "nvmlDeviceGetTemperature", 1.0, 0)))
    if _answers(gpu, "nvmlDeviceGetClockInfo", _MEMORY):
        infos.append(SensorInfo(*sensors.MEMORY_CLOCK, SOURCE, SLOW_PERIOD_S, "clock at the reading"))
        readers.append((1, _scaled(gpu, "nvmlDeviceGetClockInfo", 1.0, _MEMORY)))
    throttled = [number for number in counters.THROTTLED if number in found.fields]
    if throttled:
        infos += [
            SensorInfo(name, "s", "NVML throttle counters", SLOW_PERIOD_S, f"counter: clock held back {why}")
            for name, why in (_THROTTLED[number] for number in throttled)
        ]
        held_back = counters.Fields(gpu, throttled)
        readers.append((len(throttled), lambda: [value / 1e9 for value in held_back.read()]))
    if counters.MEMORY_TEMPERATURE in found.fields:
        infos.append(SensorInfo(*sensors.MEMORY_TEMPERATURE, SOURCE, SLOW_PERIOD_S, "whole degrees, of the memory"))
        readers.append((1, counters.Fields(gpu, [counters.MEMORY_TEMPERATURE]).read))
    if _answers(gpu, "nvmlDeviceGetMemoryInfo"):
        memory, device = library.function("nvmlDeviceGetMemoryInfo"), handle(gpu)
        quality = "held by all processes and the driver, used or not"
        infos.append(SensorInfo(*sensors.MEMORY_USED, SOURCE, SLOW_PERIOD_S, quality))
        readers.append((1, lambda: (float(memory(device).used),)))
    if (listed := process_function(gpu)) is not None:
        quality = "all compute processes; in MIG mode, of the whole GPU"
        infos.append(SensorInfo("processes", "processes", SOURCE, SLOW_PERIOD_S, f"number {quality}"))
        infos.append(SensorInfo("process_memory_bytes", "B", SOURCE, SLOW_PERIOD_S, f"sum {quality}"))
        readers.append((2, _process_reader(gpu, listed)))
    return _ReadTogether(gpu, infos, readers) if infos else None


def _utilisation(gpu: GpuFacts) -> Probe | None:
    if not _answers(gpu, "nvmlDeviceGetUtilizationRates"):
        return None
    rates, device = library.function("nvmlDeviceGetUtilizationRates"), handle(gpu)
    quality = "share of the last 0.2 to 1 s in which any kernel ran, on however many SMs"
    info = SensorInfo(*sensors.ANY_KERNEL, "NVML utilisation", SLOW_PERIOD_S, quality)
    return _ReadTogether(gpu, [info], [(1, lambda: (rates(device).gpu / 100.0,))])


def _process_reader(gpu: GpuFacts, name: str) -> Callable[[], Sequence[float]]:
    listed, device = library.function(name), handle(gpu)

    def read() -> Sequence[float]:
        found = listed(device)
        return len(found), float(sum(process.usedGpuMemory or 0 for process in found))

    return read


def _number(gpu: GpuFacts, name: str, into: "ctypes.c_uint | ctypes.c_ulonglong", *args: int) -> _Read:
    """For functions polled many times a second: the library's own function, with arguments prepared once."""
    read, error = library.raw_function(name), library.nvml_error()
    question = (handle(gpu), *args, ctypes.byref(into))

    def ask() -> Sequence[float]:
        if code := read(*question):
            raise error(code)
        return (float(into.value),)

    return ask


def _scaled(gpu: GpuFacts, name: str, scale: float, *args: int) -> Callable[[], Sequence[float]]:
    read, device = library.function(name), handle(gpu)
    return lambda: (read(device, *args) * scale,)


def _answers(gpu: GpuFacts, name: str, *args: int) -> bool:
    return library.ask(name, handle(gpu), *args, of=gpu.label) is not None
