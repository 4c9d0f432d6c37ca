"""Lanes of tenants: those of our own workers, those of each backend, those of sleeping backends."""

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


def lanes_of(file: "TenantsFile") -> tuple[Lane, ...]:
    """The lanes of a file; shares are relative to a lane."""
    names: dict[str, list[str]] = {}
    slots: dict[str, int] = {}
    for name, tenant in file.tenants.items():
        backend = tenant.backend
        home = DEVICE if backend is None else SLEEPERS if backend.sleep else backend.address.name
        names.setdefault(home, []).append(name)
        slots[home] = max(slots.get(home, 1), 1 if backend is None else backend.parallel)
    return tuple(Lane(home, tuple(members), slots[home]) for home, members in names.items())
