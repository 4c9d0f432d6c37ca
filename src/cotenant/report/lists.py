"""The lists: studies, devices, workloads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cotenant.report.listing import listing
from cotenant.report.literal import literal
from cotenant.report.numbers import count

if TYPE_CHECKING:
    from cotenant.devices.catalogue import DeviceInfo
    from cotenant.workloads.catalogue import Entry


class Described(Protocol):
    """Something with a name and one sentence about it."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def about(self) -> str:
        """What it is."""
        ...


def study_list(studies: Sequence[Described]) -> Table:
    """Name and question of each study."""
    return listing(("study", "what it asks"), [(study.name, study.about) for study in studies])


def device_list(devices: "Sequence[DeviceInfo]") -> Group:
    """Each device, and below it the ways to share it, with what is missing for those that don't work here."""
    parts = []
    for device in devices:
        label = " SIMULATED" if device.simulated else ""
        parts.append(
            Text.assemble((literal(device.name), "bold"), (label, "bold magenta"), f"  {literal(device.meaning)}")
        )
        table = Table.grid(padding=(0, 2))
        for sharing in device.sharings:
            words = sharing.meaning
            if not sharing.available:
                words += f" (not here: {sharing.missing or 'unavailable'}" + (
                    f"; next best: {sharing.instead})" if sharing.instead else ")"
                )
            mark = Text("✓", "green") if sharing.available else Text("✗", "red")
            table.add_row("", mark, Text(literal(sharing.mode)), Text(literal(words)))
        parts.append(table)
    return Group(*parts)


def workload_list(workloads: "Sequence[Entry]") -> Table:
    """Name, family, size and a line about each workload."""
    rows = [
        (entry.name, entry.family, count(entry.params) if entry.params is not None else None, entry.about)
        for entry in workloads
    ]
    return listing(("workload", "family", "parameters", "what it is"), rows)
