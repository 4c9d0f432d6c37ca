"""Calibration of a simulated GPU by measured solo times, as a table."""

from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from cotenant.reporting.terminal.listing import listing
from cotenant.reporting.terminal.literal import literal

if TYPE_CHECKING:
    from cotenant.devices.simulated.calibrated import Calibration, EngineCalibration


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


def engine_calibration_parts(calibration: "EngineCalibration") -> tuple[RenderableType, ...]:
    """The rates of an engine, how well each is known, and the error of the fit."""
    fit = calibration.fit
    rows = [
        (
            "host" if one.rate.host else "device",
            f"{one.value:.3g} ± {one.half:.2g}",
            one.rate.unit,
            "yes" if one.determined else "hardly: mostly the usual value",
        )
        for one in fit.rates
    ]
    error = f"{fit.off:.1%} off on average; probes that were left out {fit.left_out:.1%}."
    return listing(("part", "rate", "unit", "determined"), rows), Text("\n".join((error, *calibration.notes)))
