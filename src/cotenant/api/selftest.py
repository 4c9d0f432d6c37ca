"""`selftest`: does cotenant measure correctly on this device?"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.measure.selftest import SelfTest


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
    """The self-test of one device on every node of a Ray cluster. Raises CotenantError."""
    from cotenant.fleet import asking

    return asking.selftest(on, device, insecure=insecure)
