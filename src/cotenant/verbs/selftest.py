"""`selftest`: does cotenant measure right on this device?"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.measure.selftest import SelfTest


def selftest(device: str = "cpu") -> "SelfTest":
    """Try timing, every way to share, sensors and controls of a device.

    Raises:
        DeviceError: There is no such device, or it is being measured.
    """
    from cotenant.devices import find_device
    from cotenant.measure.selftest import try_out

    return try_out(find_device(device))
