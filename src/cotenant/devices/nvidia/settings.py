"""A study's settings for a GPU, checked against the GPU before anything starts. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.devices.nvidia.nvml import GpuFacts
from cotenant.errors import DeviceError
from cotenant.text import did_you_mean

CONTROLS: Mapping[str, str] = {
    "sm_clock_mhz": "lock the SMs' clock",
    "mem_clock_mhz": "lock the memory's clock",
    "power_limit_w": "limit the power",
    "boost": "off: lock the SMs' clock to the base clock",
    "persistence": "keep the driver loaded while the GPU is unused",
}
SAME: Mapping[str, str] = {"clock_mhz": "sm_clock_mhz", "power_w": "power_limit_w"}
"""Names of the same controls on simulated GPUs, so that a study runs on both."""

_PERCENT = re.compile(r"^\s*(\d+(?:\.\d*)?)\s*%\s*$")
_NO_LOCKED_CLOCKS = ("kepler", "maxwell", "pascal")
_NO_LOCKED_MEMORY = (*_NO_LOCKED_CLOCKS, "volta", "turing")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings in the driver's terms; None leaves a control alone."""

    sm_clock_mhz: int | None = None
    to_base: bool = False
    """Lock the SM clock to the base clock, which only the driver knows."""
    mem_clock_mhz: int | None = None
    power_limit_w: float | None = None
    persistence: bool | None = None

    @property
    def locks_clock(self) -> bool:
        """True if the SM clock is to be locked."""
        return self.to_base or self.sm_clock_mhz is not None

    @property
    def anything(self) -> bool:
        """True if there is anything to set."""
        return self != Wanted()


def absolute(gpu: GpuFacts, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings with values such as `80%` (of the highest clock or the power limit) resolved; checked.

    Raises:
        DeviceError: This GPU lacks the control or the value.
    """
    values = dict(settings)
    for key, value in settings.items():
        match = _PERCENT.match(value) if isinstance(value, str) else None
        if match is None:
            continue
        share = float(match.group(1)) / 100
        name = SAME.get(key, key)
        if name == "sm_clock_mhz" and gpu.sm_clocks_mhz:
            values[key] = _nearest(gpu.sm_clocks_mhz, share * gpu.sm_clocks_mhz[0])
        elif name == "mem_clock_mhz" and gpu.mem_clocks_mhz:
            values[key] = _nearest(gpu.mem_clocks_mhz, share * gpu.mem_clocks_mhz[0])
        elif name == "power_limit_w" and gpu.power_limits is not None:
            values[key] = float(round(share * gpu.power_limits.default))
    check(gpu, values)
    return values


def check(gpu: GpuFacts, settings: Mapping[str, Any]) -> Wanted:
    """Parse and check the settings.

    Raises:
        DeviceError: This GPU lacks the control or the value.
    """
    named = _named(gpu, settings)
    boost = named.get("boost", True)
    if boost not in (True, False, "on", "off"):
        raise DeviceError(f"boost is on or off, not {boost!r}", hint="write `boost: off`")
    off = boost in (False, "off")
    if off and "sm_clock_mhz" in named:
        raise DeviceError("boost: off and sm_clock_mhz both set the clock", hint="leave one of them out")
    if off:
        _needs_locked_clocks(gpu, "boost")
    clock = _sm_clock(gpu, named["sm_clock_mhz"]) if "sm_clock_mhz" in named else None
    return Wanted(
        sm_clock_mhz=gpu.base_clock_mhz if off else clock,
        to_base=off and gpu.base_clock_mhz is None,
        mem_clock_mhz=_mem_clock(gpu, named["mem_clock_mhz"]) if "mem_clock_mhz" in named else None,
        power_limit_w=_power_limit(gpu, named["power_limit_w"]) if "power_limit_w" in named else None,
        persistence=_persistence(gpu, named["persistence"]) if "persistence" in named else None,
    )


def _named(gpu: GpuFacts, settings: Mapping[str, Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for key, value in settings.items():
        name = SAME.get(key, key)
        if name not in CONTROLS:
            hint = did_you_mean(str(key), CONTROLS) or f"choose from {', '.join(CONTROLS)}"
            raise DeviceError(f"{gpu.label} has no control {key!r}", hint=hint)
        if name in named:
            raise DeviceError(f"{key!r} and {name!r} are the same control", hint="leave one of them out")
        named[name] = value
    return named


def _sm_clock(gpu: GpuFacts, value: Any) -> int:
    mhz = _number(gpu, "sm_clock_mhz", value)
    _needs_locked_clocks(gpu, "sm_clock_mhz")
    clocks = gpu.sm_clocks_mhz
    if clocks and not clocks[-1] <= mhz <= clocks[0]:
        raise DeviceError(f"{gpu.label} has no SM clock of {mhz:g} MHz", hint=f"choose {clocks[-1]} to {clocks[0]} MHz")
    return _nearest(clocks, mhz) if clocks else round(mhz)


def _mem_clock(gpu: GpuFacts, value: Any) -> int:
    mhz = _number(gpu, "mem_clock_mhz", value)
    if gpu.architecture in _NO_LOCKED_MEMORY:
        raise DeviceError(
            f"{gpu.label} can't lock its memory clock: that needs Ampere or newer",
            hint="leave 'mem_clock_mhz' out of the settings",
        )
    clocks = gpu.mem_clocks_mhz
    if clocks and round(mhz) not in clocks:
        raise DeviceError(
            f"{gpu.label} has no memory clock of {mhz:g} MHz", hint=f"choose {' or '.join(map(str, clocks))} MHz"
        )
    return round(mhz)


def _power_limit(gpu: GpuFacts, value: Any) -> float:
    watts = _number(gpu, "power_limit_w", value)
    if gpu.power_limits is None:
        raise DeviceError(f"the power of {gpu.label} can't be limited", hint="leave 'power_limit_w' out")
    low, high = gpu.power_limits.low, gpu.power_limits.high
    if not low <= watts <= high:
        raise DeviceError(f"{gpu.label} can't set a power limit of {watts:g} W", hint=f"choose {low:g} to {high:g} W")
    return watts


def _persistence(gpu: GpuFacts, value: Any) -> bool:
    if value not in (True, False, "on", "off"):
        raise DeviceError(f"persistence is on or off, not {value!r}", hint="write `persistence: on`")
    if gpu.persistence is None:
        raise DeviceError(f"{gpu.label} has no persistence mode", hint="leave 'persistence' out of the settings")
    return value in (True, "on")


def _number(gpu: GpuFacts, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise DeviceError(f"{key} of {gpu.label} must be a number, not {value!r}")
    return float(value)


def _needs_locked_clocks(gpu: GpuFacts, key: str) -> None:
    if gpu.architecture in _NO_LOCKED_CLOCKS:
        raise DeviceError(
            f"{gpu.label} can't lock its clocks: that needs Volta or newer", hint=f"leave {key!r} out of the settings"
        )


def _nearest(clocks: Sequence[int], mhz: float) -> int:
    return min(clocks, key=lambda clock: abs(clock - mhz))
