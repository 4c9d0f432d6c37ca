"""Names of groups: `cpu:each`, `cuda:all`, `cuda:0,2`, `sim:v100-sxm2-16gb*392`, and `all` for the whole machine."""

import logging
import re
from collections.abc import Callable

from cotenant.devices.cpu.cores import format_cores, parse_cores
from cotenant.devices.group import DeviceGroup
from cotenant.devices.protocol import Device
from cotenant.errors import DeviceError
from cotenant.tenancy.device_names import counted

log = logging.getLogger(__name__)

ALL = "all"
EACH = "cpu:each"

_SEVERAL = re.compile(r"all\b|\d+\s*[,-]", re.ASCII)
"""GPU indices; a UUID starts with letters."""

Opener = Callable[[str], Device]


def open_group(name: str, find: Opener) -> DeviceGroup | None:
    """Return the group with this name, or None if it names a single device (or nothing).

    Args:
        name: As written by the user.
        find: Opens a member by its name.

    Raises:
        DeviceError: The group doesn't exist here.
    """
    family, _, part = name.partition(":")
    if name == ALL:
        return _gpus(ALL, ALL, find) if _gpu_count() else _cores(find)
    if name == EACH:
        return _cores(find)
    if family == "sim" and "*" in (fleet := counted(name)):
        return _fleet(fleet.partition(":")[2])
    if family == "cuda" and _SEVERAL.match(part):
        return _gpus(name, part, find)
    return None


def require_group(device: Device, name: str) -> Device:
    """Return the group `--devices` names. Raises DeviceError if it names a single device."""
    if device.names:
        return device
    raise DeviceError(
        f"{name!r} is a single device, not a group",
        hint=f"use --device {name}, or a group: {ALL}, {EACH}, cuda:all, cuda:0,1, sim:v100-sxm2-16gb*4",
    )


def _cores(find: Opener) -> DeviceGroup:
    from cotenant.devices.cpu.cpu_device import open_cpu

    return DeviceGroup(EACH, [f"cpu:{core}" for core in open_cpu("cpu", None).cores], find)


def _fleet(part: str) -> DeviceGroup:
    from cotenant.devices.simulated.simulated_gpu import fleet_opener

    name, names, open_member = fleet_opener(part)
    return DeviceGroup(name, names, open_member, simulated=True)


def _gpus(name: str, part: str, find: Opener) -> DeviceGroup:
    from cotenant.devices.nvidia.torch_side import ON_CPU, on_cpu

    count = _gpu_count()
    part = part.removesuffix(ON_CPU).strip()
    try:
        wanted = tuple(range(count)) if part == ALL else parse_cores(part)
    except ValueError:
        raise DeviceError(f"{name!r} is not a group of GPUs", hint="write cuda:all, cuda:0,1 or cuda:0-3") from None
    absent = [index for index in wanted if index >= count]
    if absent or not count:
        has = f"this machine has {count} NVIDIA GPU{'s'[: count != 1]}" if count else "this machine has no NVIDIA GPU"
        what = f"cuda:{absent[0]}" if absent else "such device"
        raise DeviceError(
            f"there is no {what} for {name!r}: {has}",
            hint="use cpu:each, or simulate a fleet: --device sim:v100-sxm2-16gb*4; `cotenant devices` lists all",
        )
    # Spelled out, so that a resumed run uses the same GPUs, or names the missing GPU.
    mark = ON_CPU if on_cpu() else ""
    return DeviceGroup(f"cuda:{_spelled(wanted)}{mark}", [f"cuda:{index}" for index in wanted], find)


def _spelled(indices: tuple[int, ...]) -> str:
    return f"{indices[0]}-{indices[0]}" if len(indices) == 1 else format_cores(indices)


def _gpu_count() -> int:
    """Number of NVIDIA GPUs in this machine; 0 without a driver."""
    from cotenant.devices.nvidia import nvml

    try:
        return len(nvml.gpus()) + len(nvml.lost())
    except nvml.DriverProblem as problem:
        log.debug("no NVIDIA driver: %s", problem.message)
        return 0


def each_of(devices: str | None) -> tuple[str, ...]:
    """The devices of a list such as `sim:t4,sim:v100-sxm2-32gb`; empty for a group such as `cuda:0,1`."""
    parts = counted(devices or "").split(",")
    whole = all(part == "cpu" or (part.partition(":")[2] and not part[0].isdigit()) for part in parts)
    return tuple(parts) if len(parts) > 1 and whole else ()
