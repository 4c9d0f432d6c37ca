"""Kinds of devices: price, memory, and the ways each can be shared."""

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.errors import CotenantError
from cotenant.planning.mixes.mig import MigGeometry
from cotenant.tenancy.device_names import DeviceName
from cotenant.text import listed

CAPPED = "mps with shares"
MOST_TENANTS = 48
"""Maximum clients of an MPS server on Volta and later."""
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
    mig: MigGeometry | None = None
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
        """Name of a device."""
        if self.members:
            return self.members[number]
        return self.name if self.available == 1 else f"{self.name}#{number}"


# --- hourly prices of devices: public list prices with their date, overridden by `prices:`


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per hour for a device, with the source."""

    usd_per_h: float
    source: str
    read_on: str

    @property
    def basis(self) -> str:
        """`RunPod secure cloud, 2026-11-09`."""
        return f"{self.source}, {self.read_on}" if self.read_on else self.source


_RUNPOD = "RunPod secure cloud, list"
PRICES: dict[str, Price] = {
    "a100-sxm4-80gb": Price(1.79, _RUNPOD, "2026-11-09"),
    "a100-pcie-80gb": Price(1.79, _RUNPOD, "2026-11-09"),
    "h100-pcie-80gb": Price(2.89, _RUNPOD, "2026-11-09"),
    "h100-sxm5-80gb": Price(3.99, _RUNPOD, "2026-11-09"),
    "a100-sxm4-40gb": Price(2.7447, "AWS p4d.24xlarge / 8, us-east-1, on demand", "2026-11-09"),
    "a40": Price(0.44, _RUNPOD, "2026-08-19"),
    "l40s": Price(0.99, "RunPod, list", "2026-09-20"),
    "rtx-4090": Price(0.44, "RunPod, list", "2026-09-20"),
    "rtx-3090": Price(0.24, "RunPod, list", "2026-09-20"),
    "l4": Price(0.684, "RunPod serverless, flex workers, list ($0.00019 per second)", "2026-11-18"),
    "t4": Price(0.526, "AWS g4dn.xlarge, on demand", "2023-11-15"),
}


def price_of(kind: str, own: dict[str, float]) -> Price | None:
    """Price of a kind of device: the user's, else the table's; None if neither knows it."""
    short = DeviceName(kind).model
    for name in (kind, short):
        if name in own:
            return Price(own[name], "your price", "given")
    return PRICES.get(short)


def unknown_prices(kinds: Sequence[str]) -> CotenantError:
    """The refusal of kinds without a price."""
    prices = ", ".join(f"{kind.removeprefix('sim:')}: 1.20" for kind in kinds)
    several = len(kinds) > 1
    return CotenantError(
        f"the {'prices' if several else 'price'} of {listed(kinds)} {'are' if several else 'is'} unknown",
        hint=f"add {'their prices' if several else 'its price'} per hour to the tenants file: "
        f"`prices: {{{prices}}}`, or minimise devices, energy or latency",
    )


@dataclass(frozen=True, slots=True)
class Way:
    """A way to use a kind of device."""

    kind: int
    sharing: str
    """The device's name for it; `CAPPED` is `mps` with a share per tenant."""
    clock_mhz: float | None = None
    """Fixed clock; None if unrestricted."""

    @property
    def mode(self) -> str:
        """The name of this sharing in studies."""
        return "mps" if self.sharing == CAPPED else self.sharing

    @property
    def divides(self) -> bool:
        """Whether every tenant gets a part of the device, each of which has to be described."""
        return self.sharing in {CAPPED, "mig"}


def ways_of(kinds: Sequence[DeviceKind]) -> tuple[Way, ...]:
    """Every way to share every kind at every clock, plus `mps` with shares where `mps` is supported."""
    return tuple(
        Way(number, sharing, clock)
        for number, kind in enumerate(kinds)
        for clock in _clocks(kind)
        for way in kind.ways
        for sharing in ((way, CAPPED) if way == "mps" else (way,))
    )


def _clocks(kind: DeviceKind) -> tuple[float | None, ...]:
    return tuple(clock.mhz for clock in kind.clocks) or (None,)
