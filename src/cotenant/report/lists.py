"""The lists: studies, devices, workloads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.report.listing import listing
from cotenant.report.literal import literal
from cotenant.report.numbers import count

if TYPE_CHECKING:
    from cotenant.devices.catalogue import DeviceInfo
    from cotenant.study.library import StudyInfo
    from cotenant.workloads.catalogue import Entry


def study_list(studies: "Sequence[StudyInfo]") -> Table:
    """Name, size and question of each study."""
    rows = [(study.name, len(study.tenants), len(study.mixes), study.about) for study in studies]
    return listing(("study", "tenants", "mixes", "what it asks"), rows)


def device_list(devices: "Sequence[DeviceInfo]") -> Group:
    """Each device, and below it the ways to share it, with what is missing for those that don't work here."""
    parts: list[RenderableType] = []
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


def workload_list(workloads: "Sequence[Entry]") -> Group:
    """Name, family, size and a line about each workload; small siblings in one line instead of one each."""
    small = {entry.mini for entry in workloads if entry.mini is not None}
    rows = [
        (entry.name, entry.family, count(entry.params) if entry.params is not None else None, entry.about)
        for entry in workloads
        if entry.name not in small
    ]
    table = listing(("workload", "family", "parameters", "what it is"), rows)
    if not small:
        return Group(table)
    example = next(entry.mini for entry in workloads if entry.mini is not None)
    return Group(table, Text(f"\nEvery model has a small sibling for tests and small machines, e.g. {example}."))
