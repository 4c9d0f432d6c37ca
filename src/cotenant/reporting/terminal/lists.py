"""The lists: studies, devices, workloads."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from cotenant.reporting.terminal.grouped import COLUMN_GAP, cell, listing
from cotenant.text import NOTHING, count, figure, literal, percent

if TYPE_CHECKING:
    from cotenant.devices.catalogue import DeviceInfo
    from cotenant.devices.protocol import SharingMode
    from cotenant.prediction.kernels import KernelLine, KernelTrace
    from cotenant.study.schema import StudyInfo
    from cotenant.workloads import WorkloadInfo
    from cotenant.workloads.servers import Preset


def study_list(studies: "Sequence[StudyInfo]") -> Table:
    """Name, size and question of each study."""
    rows = [(study.name, len(study.tenants), len(study.mixes), study.about) for study in studies]
    return listing(("study", "tenants", "mixes", "what it asks"), rows)


def server_list(servers: "Sequence[Preset]") -> Group:
    """Name, availability, version measured and workload; then how the memory of each is set."""
    rows = [
        (
            server.name,
            "installed" if server.installed else "not installed",
            "never run" if server.tried is None else server.tried,
            server.workload,
        )
        for server in servers
    ]
    memory = Table.grid(padding=(0, 2))
    memory.add_column(no_wrap=True)
    for server in servers:
        memory.add_row(Text(literal(server.name)), Text(literal(server.memory)))
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
    small = {workload.entry.mini for workload in workloads if workload.entry.mini is not None}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("workload", no_wrap=True)
    for column in ("params", "FLOP", "bytes", "FLOP/byte", "memory"):
        table.add_column(column, justify="right", no_wrap=True)
    for family, members in groupby(workloads, key=lambda workload: workload.entry.family):
        table.add_row(Text(literal(family), "bold"))
        for workload in members:
            if workload.entry.name in small:
                continue
            cost = workload.properties
            numbers = (cost.params, cost.flops, cost.bytes_moved, cost.intensity, cost.peak_memory_bytes)
            shown = (NOTHING if number is None else count(number) for number in numbers)
            table.add_row(f"  {literal(workload.entry.name)}", *shown)
    lines = ["Per request, at the default batch and length in float32; from a dry run, not measured. Memory in bytes."]
    if small:
        example = next(workload.entry.mini for workload in workloads if workload.entry.mini is not None)
        lines.append(f"Every model has a small sibling for tests and small machines, e.g. {example}.")
    return Group(table, Text("\n" + "\n".join(lines)))


# --- A request's kernels as a table


def kernel_page(trace: "KernelTrace") -> Group:
    """The request and device, its kernels by name, and their sum."""
    heading = Text.assemble(
        (literal(trace.workload), "bold"),
        f", batch {trace.batch}, {trace.dtype}, {trace.software}, on {literal(trace.device)}",
        (" SIMULATED", "bold magenta"),
    )
    closing = (
        f"{trace.kernels} kernels, {trace.launches} launches, {figure(trace.device_ns / 1e6)} ms on the device alone, "
        f"without its host; simulated, not measured.\nSMs: busy, of {trace.sms}. Waves: thread blocks per SM; "
        "below 1, SMs are idle. Both weighted by time. TC: on tensor cores. Bytes: DRAM traffic."
    )
    return Group(heading, Text(), _table(trace.lines), Text(f"\n{closing}"))


def _table(lines: "Sequence[KernelLine]") -> Table:
    """Longest first, with the limiting resource."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("kernel", overflow="fold", min_width=17)
    for column in ("n", "ms", "share", "FLOP", "bytes", "SMs", "waves"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("TC", no_wrap=True)
    table.add_column("limited by", no_wrap=True)
    for line in lines:
        table.add_row(
            literal(line.name),
            str(line.count),
            figure(line.time_ns / 1e6),
            percent(line.share),
            count(line.flops) if line.flops else NOTHING,
            count(line.dram_bytes) if line.dram_bytes else NOTHING,
            f"{line.sms:.0f}",
            figure(line.waves, 2),
            "✓" if line.tensor_cores else "",
            line.limit,
        )
    return table


# --- rows with more columns than fit side by side: each row under its number, one line per column


class QueryAnswer:
    """A table if its column names fit on a line, else row by row."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._columns, self._rows = columns, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = [literal(name) for name in self._columns]
        if not self._rows or sum(map(len, names)) + COLUMN_GAP * (len(names) - 1) <= options.max_width:
            yield listing(self._columns, self._rows)
            return
        for number, row in enumerate(self._rows, start=1):
            yield Text(f"row {number}", "bold")
            grid = Table.grid(padding=(0, 2))
            grid.add_column(no_wrap=True)
            grid.add_column(overflow="fold")
            for name, value in zip(names, row, strict=True):
                grid.add_row(Text(f"  {name}"), cell(value))
            yield grid
