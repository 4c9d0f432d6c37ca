"""Calibration of a simulated GPU by measured solo times, as a table."""

from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from cotenant.reporting.terminal.listing import listing
from cotenant.reporting.terminal.literal import literal

if TYPE_CHECKING:
    from cotenant.devices.simulated.calibrated import Calibration


def calibration_table(calibration: "Calibration") -> RenderableType:
    """One row per time."""
    rows = [
        (
            Text(literal(one.time.workload)),
            str(one.time.batch or "any"),
            f"{one.time.ms:.3g}",
            f"{one.simulated_ms:.3g}",
            f"x{one.fit.host:.2f}",
            f"x{one.fit.device:.2f}",
            f"{one.fit.item_ns / 1e3:.3g}",
        )
        for one in calibration.tenants
    ]
    return listing(("workload", "batch", "measured ms", "simulated ms", "host", "device", "us per item"), rows)
