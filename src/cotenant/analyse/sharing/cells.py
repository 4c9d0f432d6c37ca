"""Cells: observations of a mix under a way to share, under equal conditions."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cotenant.tenancy.records import OWN, TenantObservation


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A mix and a sharing under a load and a setting of a device, within a run."""

    run: str
    device: str
    simulated: bool
    settings: str
    load: str
    with_neighbours: bool
    """False for solo cells, so that they sort first."""
    mix: str
    sharing: str

    @classmethod
    def of(cls, seen: TenantObservation) -> "Cell":
        """The cell that an observation belongs to."""
        return cls(
            seen.run, seen.device, seen.simulated, seen.settings, seen.load, not seen.solo, seen.mix, seen.sharing
        )

    @property
    def solo(self) -> bool:
        """One tenant, alone."""
        return not self.with_neighbours

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "mix": self.mix,
            "sharing": self.sharing,
            "solo": self.solo,
            "load": self.load,
            "settings": self.settings,
            "device": self.device,
            "simulated": self.simulated,
            "run": self.run,
        }


_CONTROLS = {"clock_mhz": "{:,.0f} MHz", "power_w": "{:,.0f} W"}


def settings_said(settings: str) -> str:
    """Controls as text: `320 W`, `boost off`; `as found` where nothing was set."""
    try:
        found = json.loads(settings or "{}")
    except ValueError:
        return settings  # the record comes from elsewhere
    if not isinstance(found, dict) or not found:
        return "as found"
    return ", ".join(_control_said(name, value) for name, value in found.items())


def _control_said(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"{name} {'on' if value else 'off'}"
    if name in _CONTROLS and isinstance(value, int | float):
        return _CONTROLS[name].format(value)
    return f"{name} {json.dumps(value)}"


def load_said(load: str) -> str:
    """`load closed(1)`, or a note that each tenant has its own."""
    return "each tenant's own load" if load == OWN else f"load {load}"


def sharing_said(sharing: str) -> str:
    """`mig 4g+3g` of `mig[4g.20gb, 3g.20gb]`: tables and labels have no room for more."""
    mode, shares = sharing.partition("[")[0], shares_said(sharing)
    return f"{mode} {shares}" if shares else mode


def shares_said(sharing: str) -> str:
    """`4g+3g` of `mig[4g.20gb, 3g.20gb]`, `16.7 each` of six equal shares; empty where no shares are given."""
    profiles = sharing.partition("[")[2].removesuffix("]").split(", ")
    shares = [profile.partition(".")[0] if profile.endswith("gb") else profile for profile in profiles]
    return f"{shares[0]} each" if len(shares) > 2 and len({*shares}) == 1 else "+".join(shares)


def usable(seen: TenantObservation) -> bool:
    """Usable for estimates; invalid trials are only counted."""
    return seen.verdict != "invalid"


def counts(seen: TenantObservation) -> bool:
    """Belongs to a block; trials that only calibrate loads don't."""
    return seen.block >= 0


def by_block(values: Iterable[tuple[int, float]]) -> list[float]:
    """The mean of each block, in order: a block is a single replicate however many trials it contains."""
    blocks: dict[int, list[float]] = {}
    for block, value in values:
        blocks.setdefault(block, []).append(value)
    return [sum(blocks[block]) / len(blocks[block]) for block in sorted(blocks)]
