"""`doctor`: is this machine ready to measure?"""

from dataclasses import replace
from typing import TYPE_CHECKING

from cotenant.tenancy.device_names import DeviceName

if TYPE_CHECKING:
    from cotenant.devices.protocol import Finding
    from cotenant.measure.selftest import SelfTest


def doctor(
    device: str | None = None,
    *,
    fix: bool = False,
    restore: bool = False,
    on: str | None = None,
    insecure: bool = False,
) -> "tuple[Finding, ...]":
    """Whether this machine is ready to measure; a missing or lost GPU is a finding.

    Args:
        device: Only this device; default: the CPU and every GPU.
        fix: Fix what is safe to fix (GPU persistence mode, leftovers of killed runs); returns what was done.
        restore: Restore settings left by killed runs on this machine or changed by ``fix``; returns what was done.
        on: A Ray cluster, all of whose nodes are checked: `ray`, `ray://host:port`.
        insecure: Accept a cluster without token authentication.

    Raises:
        DeviceError: The device's name is invalid, or ``fix`` names a GPU that isn't there.
    """
    if fix or restore:
        return _fixed(device) if fix else _restored()
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


def _fixed(device: str | None) -> "tuple[Finding, ...]":
    from cotenant.devices import find_device
    from cotenant.devices.nvidia import checkup
    from cotenant.devices.nvidia.checkup.state import every_gpu
    from cotenant.devices.nvidia.cuda_device import CudaDevice

    if device is None:
        return tuple(checkup.fix(every_gpu()[0]))
    found = find_device(device)
    return tuple(checkup.fix([found.gpu] if isinstance(found, CudaDevice) else []))


def _restored() -> "tuple[Finding, ...]":
    from cotenant.devices.nvidia import checkup

    return tuple(checkup.restore())


def _gpus() -> "tuple[Finding, ...]":
    """Findings for every GPU; a single line on a machine without any."""
    from cotenant.devices.nvidia.checkup.state import every_gpu
    from cotenant.devices.nvidia.cuda_device import open_cuda
    from cotenant.devices.nvidia.jetson_device import open_jetson
    from cotenant.devices.protocol import Finding

    gpus, lost, why_none = every_gpu()
    findings: list[Finding] = []
    for gpu in gpus:
        device = open_cuda(str(gpu.index))
        findings += [
            replace(finding, subject=f"cuda:{gpu.index} {finding.subject}") for finding in _own(device.checkup())
        ]
    findings += [
        Finding(f"cuda:{index} GPU", "problem", problem.message, problem.hint) for index, problem in lost.items()
    ]
    board = open_jetson() if not gpus else None
    if board is not None:
        return board.checkup()
    if why_none is not None:
        findings.append(Finding("NVIDIA GPUs", "note", why_none.message, "cotenant doctor --device cuda:0 says more"))
    elif not findings:
        findings.append(Finding("NVIDIA GPUs", "note", "the driver is installed and sees none"))
    return tuple(findings)


def _own(findings: "tuple[Finding, ...]") -> "tuple[Finding, ...]":
    """Drop findings already reported for the CPU."""
    return tuple(finding for finding in findings if finding.subject not in {"Python", "disk"})


# --- `selftest`: does cotenant measure correctly on this device?


def selftest(device: str = "cpu") -> "SelfTest":
    """Test timing, every way to share, sensors and controls of a device.

    Raises:
        DeviceError: There is no such device, it is in use, or it has nothing to test.
    """
    from cotenant.devices import find_device
    from cotenant.errors import DeviceError
    from cotenant.measure.selftest import try_out

    place = find_device(device)
    if place.simulated:
        raise DeviceError(
            f"{place.name} is simulated: it has nothing to test",
            hint="how far its numbers are from measured ones: cotenant doctor --device " + device,
        )
    if place.names:
        raise DeviceError(
            f"{place.name} is a group of devices",
            hint=f"test one at a time, e.g. cotenant selftest {place.names[0]}",
        )
    return try_out(place)


def selftest_nodes(device: str = "cpu", *, on: str, insecure: bool = False) -> "tuple[SelfTest, ...]":
    """The self-test of a device on every node of a Ray cluster. Raises CotenantError."""
    from cotenant.fleet import asking

    return asking.selftest(on, device, insecure=insecure)
