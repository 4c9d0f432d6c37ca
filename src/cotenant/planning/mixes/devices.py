"""Where tenants can go: kinds of devices, what each costs, holds, and in which ways it can be shared."""

from dataclasses import dataclass

from cotenant.planning.mixes.mig import Mig

MOST_TENANTS = 48
"""Clients of one MPS server on Volta and later."""
OWN_PROCESS = frozenset({"processes", "mps", "pinned", "mig"})
"""Ways to share in which every tenant has a process of its own."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock to hold a device to."""

    mhz: float
    full_w: float
    """What the device draws there at most: a power limit of as much never slows it down."""


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """Devices that are alike."""

    name: str
    """As `--devices` names it: `sim:a100-sxm4-80gb`, `cuda:0`, `cpu`."""
    title: str
    memory_bytes: int
    price_per_h: float
    price_basis: str
    """Whose price, and of which day."""
    available: int
    ways: tuple[str, ...]
    """Ways to share that it has, the plainest first."""
    mig: Mig | None = None
    idle_w: float = 0.0
    clocks: tuple["Clock", ...] = ()
    """Clocks that it can be held to, the highest first; empty: it runs as fast as it likes."""
    members: tuple[str, ...] = ()
    """Names of the devices themselves; empty: the name and a number."""

    def member(self, number: int) -> str:
        """The name of one of them."""
        if self.members:
            return self.members[number]
        return self.name if self.available == 1 else f"{self.name}#{number}"
