"""Which devices there are, by name."""

import difflib
from dataclasses import dataclass

from cotenant.devices.protocol import Device, SharingMode
from cotenant.errors import DeviceError

FORMS = "cpu, cpu:0, cpu:0-1, cpu:0,2, cpu:each, sim:a100-sxm4-40gb, sim:v100-sxm2-16gb*4, all"
_ACCELERATORS = ("cuda", "gpu", "mig", "mps", "nvidia", "jetson", "rocm", "hip", "xpu")


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
        name: `cpu` (all cores this process may use), or some of its cores: `cpu:0`, `cpu:0-1`, `cpu:0,2`; or a
            simulated GPU: `sim:a100-sxm4-40gb`, one of a fleet `sim:v100-sxm2-16gb#17`, your own `sim:gpu.yaml`;
            or a group of devices: `cpu:each`, `cuda:all`, `cuda:0,1`, `sim:v100-sxm2-16gb*4`, `all`.

    Raises:
        DeviceError: There is no such device here.
    """
    from cotenant.devices.cpu import open_cpu
    from cotenant.devices.group_names import open_group

    group = open_group(name.strip(), find_device)
    if group is not None:
        return group
    family, _, part = name.strip().partition(":")
    if family == "cpu":
        return open_cpu(name.strip(), part if ":" in name else None)
    if family.lower() == "sim":
        from cotenant.devices.simulated.device import open_simulated

        return open_simulated(part)
    if family.lower() in _ACCELERATORS:
        raise DeviceError(
            f"there is no device {name!r}: this version of cotenant measures CPUs and simulates GPUs",
            hint=f"use one of {FORMS}; `cotenant devices` lists what is here",
        )
    near = difflib.get_close_matches(family.lower(), ["cpu", "sim"], n=1, cutoff=0.5)
    meant = f"did you mean {near[0]!r}? " if near else ""
    raise DeviceError(f"there is no device {name!r}", hint=f"{meant}devices are named {FORMS}")


def list_devices() -> tuple[DeviceInfo, ...]:
    """Every device of this machine and every GPU that can be simulated, with the ways each can be shared."""
    from cotenant.devices.cpu import open_cpu
    from cotenant.devices.simulated.catalogue import gpu_names
    from cotenant.devices.simulated.device import open_simulated

    cpu = open_cpu("cpu", None)
    simulated = [open_simulated(name) for name in gpu_names()]
    return (
        DeviceInfo(cpu.name, cpu.meaning, cpu.sharings()),
        *(DeviceInfo(gpu.name, gpu.meaning, gpu.sharings(), simulated=True) for gpu in simulated),
    )
