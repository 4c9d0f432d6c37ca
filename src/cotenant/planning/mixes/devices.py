"""Kinds of devices: price, memory, and the ways each can be shared."""

from dataclasses import dataclass

from cotenant.planning.mixes.mig import Mig

MOST_TENANTS = 48
"""Maximum clients of one MPS server on Volta and later."""
OWN_PROCESS = frozenset({"processes", "mps", "pinned", "mig"})
"""Ways to share in which every tenant has its own process."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A fixed clock of a device."""

    mhz: float
    full_w: float
    """Maximum power at this clock; a power limit of this value never slows the device down."""


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """A set of identical devices."""

    name: str
    """As `--devices` names it: `sim:a100-sxm4-80gb`, `cuda:0`, `cpu`."""
    title: str
    memory_bytes: int
    price_per_h: float
    price_basis: str
    """Source and date of the price; empty if it is unknown."""
    available: int
    ways: tuple[str, ...]
    """Supported ways to share, simplest first."""
    mig: Mig | None = None
    idle_w: float = 0.0
    clocks: tuple["Clock", ...] = ()
    """Supported fixed clocks, highest first; empty if the clock can't be fixed."""
    members: tuple[str, ...] = ()
    """Names of the individual devices; empty: the kind's name and a number."""

    @property
    def price(self) -> str:
        """`$1.79/h (RunPod secure cloud, 2026-11-09)`."""
        return (
            f"${self.price_per_h:g}/h ({self.price_basis})" if self.price_basis else "unknown, so devices are counted"
        )

    def member(self, number: int) -> str:
        """Name of one device."""
        if self.members:
            return self.members[number]
        return self.name if self.available == 1 else f"{self.name}#{number}"
