"""The lists: studies, devices, workloads."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.reporting.terminal.listing import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.text import NOTHING, count

if TYPE_CHECKING:
    from cotenant.devices.catalogue import DeviceInfo
    from cotenant.devices.protocol import SharingMode
    from cotenant.study.library import StudyInfo
    from cotenant.workloads import WorkloadInfo
    from cotenant.workloads.servers.presets import Preset


def study_list(studies: "Sequence[StudyInfo]") -> Table:
    """Name, size and question of each study."""
    rows = [(study.name, len(study.tenants), len(study.mixes), study.about) for study in studies]
    return listing(("study", "tenants", "mixes", "what it asks"), rows)


def server_list(servers: "Sequence[Preset]") -> Group:
    """Name, availability, version measured and workload; then how the memory of each is set."""
    rows = [
        (
            one.name,
            "installed" if one.installed else "not installed",
            "never run" if one.tried is None else one.tried,
            one.workload,
        )
        for one in servers
    ]
    memory = Table.grid(padding=(0, 2))
    memory.add_column(no_wrap=True)
    for one in servers:
        memory.add_row(Text(literal(one.name)), Text(literal(one.memory)))
    title = Text("\nHow each is given its share of memory", "bold")
    return Group(listing(("preset", "here", "measured", "workload"), rows), title, memory)


def device_list(devices: "Sequence[DeviceInfo]") -> Group:
    """Each device with its ways to share and what is missing for unsupported ones; then simulated devices."""
    parts: list[RenderableType] = []
    for device in devices:
        if not device.simulated:
            parts.append(Text.assemble((literal(device.name), "bold"), f"  {literal(device.meaning)}"))
            parts.append(_sharings(device.sharings))
    simulated = [device for device in devices if device.simulated]
    return Group(*parts, *_simulated(simulated)) if simulated else Group(*parts)


def _simulated(devices: "Sequence[DeviceInfo]") -> list[RenderableType]:
    """Simulated GPUs share alike, so their ways to share are listed once; then one line per GPU with exceptions."""
    ways = {sharing.mode: sharing for device in devices for sharing in device.sharings if sharing.available}
    head = Text.assemble(
        (f"\n{len(devices)} GPUs ", "bold"), ("SIMULATED", "bold magenta"), "  shared as below unless noted"
    )
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for device in devices:
        lacks = [sharing.mode for sharing in device.sharings if not sharing.available]
        without = f"; no {', '.join(lacks)}" if lacks else ""
        table.add_row(Text(literal(device.name), "bold"), Text(literal(device.meaning + without)))
    return [head, _sharings(tuple(ways.values())), table]


def _sharings(sharings: "Sequence[SharingMode]") -> Table:
    table = Table.grid(padding=(0, 2))
    for sharing in sharings:
        words = sharing.meaning
        if not sharing.available:
            words += f" (not available: {sharing.missing or 'unknown reason'}" + (
                f"; next best: {sharing.instead})" if sharing.instead else ")"
            )
        mark = Text("✓", "green") if sharing.available else Text("✗", "red")
        table.add_row("", mark, Text(literal(sharing.mode)), Text(literal(words)))
    return table


def workload_list(workloads: "Sequence[WorkloadInfo]") -> Group:
    """Name, family and cost of one request; small siblings share one line."""
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
