"""The settings of a simulated GPU: read from a study, checked against its data sheet."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cotenant import sensors, workloads
from cotenant.devices.protocol import SensorInfo
from cotenant.devices.simulated.solo_times import parse_solo_times
from cotenant.errors import DeviceError
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power import Limits
from cotenant.prediction.simulated_gpu import Controls

NAMES = ("clock_mhz", "power_w", "boost", "host_us", "device_ms", "solo_ms", "host_cores")
_IN_TENANTS = {
    "fusion": "set it in the tenant: `software: compile`",
    "host_ms": "set it in the tenant: `loading: 40ms`",
}


def read_controls(gpu: GpuSpec, settings: Mapping[str, Any]) -> Controls:
    """Parse and check settings. Raises DeviceError."""
    unknown = [key for key in settings if key not in NAMES]
    if unknown:
        raise DeviceError(
            f"{gpu.title} has no control {unknown[0]!r}",
            hint=_IN_TENANTS.get(unknown[0]) or f"it has {', '.join(NAMES[:-1])} and {NAMES[-1]}",
        )
    settings = absolute(gpu, settings)
    limits = Limits(power_w=_number(settings, "power_w"), clock_mhz=_number(settings, "clock_mhz"))
    if not _boost(settings):
        if limits.clock_mhz is not None:
            raise DeviceError("boost: off and clock_mhz both set the clock", hint="leave one of them out")
        limits = replace(limits, clock_mhz=gpu.clocks_mhz.base)
    limits.check(gpu)
    cores = _number(settings, "host_cores")
    if cores == 0:
        raise DeviceError("host_cores must be above 0", hint="leave it out if the host has enough of them")
    return Controls(
        limits,
        _number(settings, "host_us"),
        _times(settings, "device_ms"),
        parse_solo_times(settings.get("solo_ms") or gpu.solo_ms),
        cores,
    )


def absolute(gpu: GpuSpec, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings with `80%` (of the highest clock or the power limit) resolved, at least the lowest allowed."""
    clocks, limit_w = gpu.clocks_mhz, gpu.power.limit_w
    values = dict(settings)
    if (share := _share_of_most(settings, "clock_mhz")) is not None:
        mhz = clocks.boost - round((1 - share) * clocks.boost / clocks.step) * clocks.step
        values["clock_mhz"] = max(mhz, clocks.min)
    if (share := _share_of_most(settings, "power_w")) is not None:
        values["power_w"] = max(float(round(share * limit_w)), gpu.power.min_limit_w)
    return values


def _times(settings: Mapping[str, Any], key: str) -> tuple[tuple[str, float], ...]:
    times = settings.get(key) or {}
    if not isinstance(times, Mapping):
        raise DeviceError(
            f"{key} must give a time by workload, not {times!r}", hint=f"write `{key}: {{resnet50: 4.2}}`"
        )
    for name in times:
        workloads.find(str(name))
        if not _number(times, name):
            raise DeviceError(f"{key} of {name} must be above 0")
    return tuple(sorted((str(name), float(value)) for name, value in times.items()))


def _number(settings: Mapping[str, Any], key: str) -> float | None:
    value = settings.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise DeviceError(f"{key} must be a number, not {value!r}")
    return float(value)


def _share_of_most(settings: Mapping[str, Any], key: str) -> float | None:
    value = settings.get(key)
    if not isinstance(value, str):
        return None
    try:
        share = float(value.strip().removesuffix("%")) / 100
    except ValueError:
        share = float("nan")
    if not value.strip().endswith("%") or not 0 < share <= 1:
        raise DeviceError(f"{key} must be a number or a share such as 80%, not {value!r}")
    return share


def _boost(settings: Mapping[str, Any]) -> bool:
    value = settings.get("boost", True)
    if value not in (True, False, "on", "off"):
        raise DeviceError(f"boost is on or off, not {value!r}", hint="write `boost: off`")
    return value in (True, "on")


# --- the sensors of a simulated GPU and their quality

CLOCK_PERIOD_S = 0.02
TEMPERATURE_PERIOD_S = 0.1


def infos(gpu: GpuSpec) -> tuple[SensorInfo, ...]:
    """The sensors in the order of `Readings`, with their quality."""
    sensor = gpu.sensor
    share = min(1.0, sensor.window_ms / sensor.update_ms)
    blind = "" if share == 1.0 else f", so it sees {share:.0%} of the time"
    what = f"new value every {sensor.update_ms:g} ms, average of the last {sensor.window_ms:g} ms{blind}"
    source = f"simulated {gpu.name}"
    return (
        SensorInfo(*sensors.POWER, source, sensor.update_ms / 1e3, f"simulated; {what}"),
        SensorInfo(*sensors.SM_CLOCK, source, CLOCK_PERIOD_S, "simulated; nearest step of the mean clock"),
        SensorInfo(*sensors.TEMPERATURE, source, TEMPERATURE_PERIOD_S, "simulated; whole degrees"),
        SensorInfo(*sensors.ENERGY, source, sensor.update_ms / 1e3, "simulated; counter, true energy at each update"),
    )
