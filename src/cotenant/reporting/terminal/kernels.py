"""A request's kernels as a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cotenant.reporting.terminal.literal import literal
from cotenant.text import NOTHING, count, figure, percent

if TYPE_CHECKING:
    from cotenant.prediction.kernels.traces import KernelLine, KernelTrace


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
