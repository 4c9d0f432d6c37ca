"""Lanes of tenants: those that take turns on the device, those with a part of it each, those of each backend."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.serving.tenants_file import TenantsFile

DEVICE = "device"
SLEEPERS = "sleepers"


@dataclass(frozen=True, slots=True)
class Lane:
    """Tenants whose requests are ordered against each other, and how many run at a time."""

    name: str
    tenants: tuple[str, ...]
    slots: int = 1
    own: bool = False
    """Served by our own workers."""


def lanes_of(file: "TenantsFile") -> tuple[Lane, ...]:
    """The lanes of a file; shares are relative to a lane. Tenants with a part of the device each run in parallel."""
    names: dict[str, list[str]] = {}
    slots: dict[str, int] = {}
    own: set[str] = set()
    for name, tenant in file.tenants.items():
        backend = tenant.backend
        if backend is None:
            home = f"{DEVICE}/{name}" if file.divided else DEVICE
            own.add(home)
        else:
            home = SLEEPERS if backend.sleep else backend.address.name
        names.setdefault(home, []).append(name)
        slots[home] = max(slots.get(home, 1), 1 if backend is None else backend.parallel)
    return tuple(Lane(home, tuple(members), slots[home], home in own) for home, members in names.items())
