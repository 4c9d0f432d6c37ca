"""Calibration of a simulated GPU by measured times, and what a calibrated server is predicted to do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cotenant.devices.simulated import Calibration, EngineCalibration, KernelCalibration
from cotenant.reporting.elements import DataTable, Element, Sentences

if TYPE_CHECKING:
    from cotenant.prediction.calibration import PredictedLoad, PredictedMs


def calibrated_elements(calibration: Calibration | EngineCalibration | KernelCalibration) -> list[Element]:
    """What was fitted, and how well."""
    if isinstance(calibration, EngineCalibration):
        return _engine(calibration)
    return [_kernels(calibration) if isinstance(calibration, KernelCalibration) else _solos(calibration)]


def _solos(calibration: Calibration) -> DataTable:
    """One row per time."""
    rows = tuple(
        (
            tenant.time.workload,
            str(tenant.time.batch or "any"),
            f"{tenant.time.ms:.3g}",
            f"{tenant.simulated_ms:.3g}",
            f"x{tenant.fit.host:.2f}",
            f"x{tenant.fit.device:.2f}",
            f"{tenant.fit.item_ns / 1e3:.3g}",
        )
        for tenant in calibration.tenants
    )
    return DataTable(("workload", "batch", "measured ms", "simulated ms", "host", "device", "us per item"), rows)


def _kernels(calibration: KernelCalibration) -> DataTable:
    """One row per kind of kernel."""
    rows = tuple(
        (
            fitted.kind,
            f"{fitted.rows:,}",
            f"{fitted.before:.1%}",
            f"{fitted.held_out:.1%}",
            f"x{fitted.scale.times:.2f}",
            f"{fitted.scale.added_us:+.1f}",
        )
        for fitted in calibration.kernels
    )
    return DataTable(("kernels", "rows", "error of the law", "left-out rows, fitted", "time", "us added"), rows)


def _engine(calibration: EngineCalibration) -> list[Element]:
    """The rates of an engine, how well each is known, and the error of the fit."""
    fit = calibration.fit
    rows = tuple(
        (
            "host" if rate.rate.host else "device",
            f"{_rounded(rate.value, rate.half)} ± {_rounded(rate.half, rate.half)}",
            rate.rate.unit,
            "yes" if rate.determined else "hardly: mostly the usual value",
        )
        for rate in fit.rates
    )
    unseen = f"TTFT {fit.ttft.left_out:.1%}, TPOT {fit.tpot.left_out:.1%}"
    error = f"{fit.off:.1%} off on average; probes that were left out: {unseen}."
    return [
        DataTable(("part", "rate", "unit", "determined"), rows),
        Sentences((error, *calibration.notes), plain=True),
    ]


def _rounded(value: float, half: float) -> str:
    """To the digits that its interval leaves."""
    return f"{value:,.0f}" if half >= 10 else f"{value:.1f}" if half >= 0.5 else f"{value:.3f}"


def predicted_elements(predicted: "Sequence[PredictedLoad]") -> list[Element]:
    """Times of a calibrated server by load, and what goes beyond its probes."""

    def ranged(time: "PredictedMs", load: "PredictedLoad") -> str:
        return f"{time.ms:.3g} [{time.low:.3g}, {time.high:.3g}]" if load.keeps_up else "can't keep up"

    names = [f"{load.prompt}/{load.tokens} {load.load}" for load in predicted]
    rows = tuple(
        (name, *(ranged(time, load) for time in (*load.ttft, *load.tpot)), f"{load.together:.3g}")
        for name, load in zip(names, predicted, strict=True)
    )
    notes = (f"{name}: {load.beyond}." for name, load in zip(names, predicted, strict=True) if load.beyond)
    heads = ("prompt/tokens load", "ttft p50 ms", "ttft p95 ms", "tpot p50 ms", "tpot p95 ms", "sequences")
    return [DataTable(heads, rows), Sentences(("Predicted from probes of the server.", *notes), plain=True)]
