"""`doctor`: is this machine ready to measure?"""

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
    from cotenant.devices import find_device
    from cotenant.devices.nvidia import checkup
    from cotenant.errors import DeviceError

    if fix or restore:
        return checkup.fixed(None if device is None else find_device(device)) if fix else tuple(checkup.restore())
    if on is not None:
        from cotenant.fleet import asking

        return asking.doctor(on, device, insecure=insecure)
    if device is None:
        return (*find_device("cpu").checkup(), *checkup.every_gpu_checked())
    if DeviceName(device).family != "cuda":
        return find_device(device).checkup()
    try:
        found = find_device(device)
    except DeviceError as error:
        return checkup.absent(error)
    return found.checkup()


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
