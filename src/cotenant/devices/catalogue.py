"""Which devices there are, by name."""

import difflib
from dataclasses import dataclass

from cotenant.devices.protocol import Device, SharingMode
from cotenant.errors import DeviceError

FORMS = "cpu, cpu:0, cpu:0-1, cpu:0,2"
_ACCELERATORS = ("cuda", "gpu", "mig", "mps", "nvidia", "jetson", "rocm", "hip", "xpu", "sim")


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One line of the list of devices."""

    name: str
    meaning: str
    sharings: tuple[SharingMode, ...]
    simulated: bool = False


def find_device(name: str) -> Device:
    """The device of that name.

    Args:
        name: `cpu` (all cores this process may use), or some of its cores: `cpu:0`, `cpu:0-1`, `cpu:0,2`.

    Raises:
        DeviceError: There is no such device here.
    """
    from cotenant.devices.cpu import open_cpu

    family, _, part = name.strip().partition(":")
    if family == "cpu":
        return open_cpu(name.strip(), part if ":" in name else None)
    if family.lower() in _ACCELERATORS:
        raise DeviceError(
            f"there is no device {name!r}: this version of cotenant measures CPUs only",
            hint=f"use one of {FORMS}; `cotenant devices` lists what is here",
        )
    near = difflib.get_close_matches(family.lower(), ["cpu"], n=1, cutoff=0.5)
    meant = f"did you mean {near[0]!r}? " if near else ""
    raise DeviceError(f"there is no device {name!r}", hint=f"{meant}devices are named {FORMS}")


def list_devices() -> tuple[DeviceInfo, ...]:
    """Every device of this machine, with the ways it can be shared."""
    from cotenant.devices.cpu import open_cpu

    cpu = open_cpu("cpu", None)
    return (DeviceInfo(cpu.name, cpu.meaning, cpu.sharings()),)
