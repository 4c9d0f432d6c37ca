"""`doctor`: is this machine ready to measure?"""

from dataclasses import replace
from typing import TYPE_CHECKING

from cotenant.tenancy.device_name import DeviceName

if TYPE_CHECKING:
    from cotenant.devices.protocol import Finding


def doctor(device: str | None = None, *, on: str | None = None, insecure: bool = False) -> "tuple[Finding, ...]":
    """The findings for a device; default: the CPU and every GPU; ``on`` a Ray cluster those of all nodes.

    A missing or lost GPU is a finding. Raises DeviceError for an invalid device name.
    """
    from cotenant.devices import find_device
    from cotenant.devices.nvidia.checkup import absent
    from cotenant.errors import DeviceError

    if on is not None:
        from cotenant.fleet import asking

        return asking.doctor(on, device, insecure=insecure)
    if device is None:
        return (*find_device("cpu").checkup(), *_gpus())
    if DeviceName(device).family != "cuda":
        return find_device(device).checkup()
    try:
        found = find_device(device)
    except DeviceError as error:
        return absent(error)
    return found.checkup()


def doctor_fix(device: str | None = None) -> "tuple[Finding, ...]":
    """Fix what is safe to fix (GPU persistence mode, leftovers of killed runs); returns what was done.

    Args:
        device: Only this GPU; default: all of them.

    Raises:
        DeviceError: There is no such GPU.
    """
    from cotenant.devices import find_device
    from cotenant.devices.nvidia import checkup
    from cotenant.devices.nvidia.checkup.driver import every_gpu
    from cotenant.devices.nvidia.device import CudaDevice

    if device is None:
        return tuple(checkup.fix(every_gpu()[0]))
    found = find_device(device)
    return tuple(checkup.fix([found.gpu] if isinstance(found, CudaDevice) else []))


def doctor_restore() -> "tuple[Finding, ...]":
    """Restore settings left by killed runs on this machine or changed by `doctor_fix`; returns what was done."""
    from cotenant.devices.nvidia import checkup

    return tuple(checkup.restore())


def _gpus() -> "tuple[Finding, ...]":
    """Findings for every GPU; a single line on a machine without one."""
    from cotenant.devices.nvidia.checkup.driver import every_gpu
    from cotenant.devices.nvidia.device import open_cuda
    from cotenant.devices.nvidia.jetson_device import open_jetson
    from cotenant.devices.protocol import Finding

    gpus, lost, why_none = every_gpu()
    found: list[Finding] = []
    for gpu in gpus:
        device = open_cuda(str(gpu.index))
        found += [replace(one, subject=f"cuda:{gpu.index} {one.subject}") for one in _own(device.checkup())]
    found += [Finding(f"cuda:{index} GPU", "problem", problem.message, problem.hint) for index, problem in lost.items()]
    board = open_jetson() if not gpus else None
    if board is not None:
        return board.checkup()
    if why_none is not None:
        found.append(Finding("NVIDIA GPUs", "note", why_none.message, "cotenant doctor --device cuda:0 says more"))
    elif not found:
        found.append(Finding("NVIDIA GPUs", "note", "the driver is installed and sees none"))
    return tuple(found)


def _own(findings: "tuple[Finding, ...]") -> "tuple[Finding, ...]":
    """Drop findings already reported for the CPU."""
    return tuple(one for one in findings if one.subject not in {"Python", "disk"})
