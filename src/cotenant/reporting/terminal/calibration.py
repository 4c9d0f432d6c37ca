"""Calibration of a simulated GPU by measured solo times, as a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from cotenant.reporting.terminal.grouped import listing
from cotenant.reporting.terminal.literal import literal

if TYPE_CHECKING:
    from cotenant.devices.simulated.solo_times import Calibration, EngineCalibration, KernelCalibration
    from cotenant.prediction.calibration.engine_loads import PredictedLoad, PredictedMs


def calibration_parts(
    calibration: "Calibration | EngineCalibration | KernelCalibration",
) -> tuple[RenderableType, ...]:
    """What was fitted, and how well."""
    from cotenant.devices.simulated.solo_times import EngineCalibration, KernelCalibration

    if isinstance(calibration, EngineCalibration):
        return _engine_parts(calibration)
    return (_kernel_table(calibration) if isinstance(calibration, KernelCalibration) else _solo_table(calibration),)


def _solo_table(calibration: "Calibration") -> RenderableType:
    """One row per time."""
    rows = [
        (
            Text(literal(tenant.time.workload)),
            str(tenant.time.batch or "any"),
            f"{tenant.time.ms:.3g}",
            f"{tenant.simulated_ms:.3g}",
            f"x{tenant.fit.host:.2f}",
            f"x{tenant.fit.device:.2f}",
            f"{tenant.fit.item_ns / 1e3:.3g}",
        )
        for tenant in calibration.tenants
    ]
    return listing(("workload", "batch", "measured ms", "simulated ms", "host", "device", "us per item"), rows)


def _kernel_table(calibration: "KernelCalibration") -> RenderableType:
    """One row per kind of kernel."""
    rows = [
        (
            fitted.kind,
            f"{fitted.rows:,}",
            f"{fitted.before:.1%}",
            f"{fitted.held_out:.1%}",
            f"x{fitted.scale.times:.2f}",
            f"{fitted.scale.added_us:+.1f}",
        )
        for fitted in calibration.kernels
    ]
    return listing(("kernels", "rows", "error of the law", "left-out rows, fitted", "time", "us added"), rows)


def _engine_parts(calibration: "EngineCalibration") -> tuple[RenderableType, ...]:
    """The rates of an engine, how well each is known, and the error of the fit."""
    fit = calibration.fit
    rows = [
        (
            "host" if rate.rate.host else "device",
            f"{_rounded(rate.value, rate.half)} ± {_rounded(rate.half, rate.half)}",
            rate.rate.unit,
            "yes" if rate.determined else "hardly: mostly the usual value",
        )
        for rate in fit.rates
    ]
    unseen = f"TTFT {fit.ttft.left_out:.1%}, TPOT {fit.tpot.left_out:.1%}"
    error = f"{fit.off:.1%} off on average; probes that were left out: {unseen}."
    return listing(("part", "rate", "unit", "determined"), rows), Text("\n".join((error, *calibration.notes)))


def _rounded(value: float, half: float) -> str:
    """To the digits that its interval leaves."""
    return f"{value:,.0f}" if half >= 10 else f"{value:.1f}" if half >= 0.5 else f"{value:.3f}"


def predicted_loads_parts(predicted: "Sequence[PredictedLoad]") -> tuple[RenderableType, ...]:
    """Times of a calibrated server by load, and what goes beyond its probes."""

    def ranged(time: "PredictedMs", load: "PredictedLoad") -> str:
        return f"{time.ms:.3g} [{time.low:.3g}, {time.high:.3g}]" if load.keeps_up else "can't keep up"

    rows = [
        (
            f"{load.prompt}/{load.tokens} {load.load}",
            *(ranged(time, load) for time in (*load.ttft, *load.tpot)),
            f"{load.together:.3g}",
        )
        for load in predicted
    ]
    notes = [f"{load.prompt}/{load.tokens} {load.load}: {load.beyond}." for load in predicted if load.beyond]
    heads = ("prompt/tokens load", "ttft p50 ms", "ttft p95 ms", "tpot p50 ms", "tpot p95 ms", "sequences")
    return listing(heads, rows), Text("\n".join(["Predicted from probes of the server.", *notes]))
