"""The lists: studies, devices, workloads."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.report.listing import listing
from cotenant.report.literal import literal
from cotenant.report.numbers import NOTHING, count

if TYPE_CHECKING:
    from cotenant.devices.catalogue import DeviceInfo
    from cotenant.study.library import StudyInfo
    from cotenant.workloads import Described


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


def workload_list(workloads: "Sequence[Described]") -> Group:
    """Name, family and what one request costs; small siblings of those listed in one line instead of one each."""
    small = {one.entry.mini for one in workloads if one.entry.mini is not None}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("workload", no_wrap=True)
    for column in ("params", "FLOP", "bytes", "FLOP/byte", "memory"):
        table.add_column(column, justify="right", no_wrap=True)
    for family, members in groupby(workloads, key=lambda one: one.entry.family):
        table.add_row(Text(literal(family), "bold"))
        for one in members:
            if one.entry.name in small:
                continue
            cost = one.properties
            numbers = (cost.params, cost.flops, cost.bytes_moved, cost.intensity, cost.peak_memory_bytes)
            shown = (NOTHING if number is None else count(number) for number in numbers)
            table.add_row(f"  {literal(one.entry.name)}", *shown)
    lines = ["Per request, at the default batch and length in float32; from a dry run, not measured. Memory in bytes."]
    if small:
        example = next(one.entry.mini for one in workloads if one.entry.mini is not None)
        lines.append(f"Every model has a small sibling for tests and small machines, e.g. {example}.")
    return Group(table, Text("\n" + "\n".join(lines)))
