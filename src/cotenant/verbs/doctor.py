"""`doctor`: is this machine ready to measure?"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.devices.protocol import Finding


def doctor(device: str | None = None) -> "tuple[Finding, ...]":
    """The findings for a device; default: the CPU."""
    from cotenant.devices import find_device

    return find_device(device or "cpu").checkup()
