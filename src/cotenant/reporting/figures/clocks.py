"""Clocks and power over time, with throttling; and the effect of locked clocks and power limits."""

from typing import TYPE_CHECKING

import numpy as np

from cotenant.analyse.variability import ClockCurve
from cotenant.reporting.figures.figure import MOST_POINTS, Figure, Row, Spec, Understanding
from cotenant.reporting.figures.style import (
    ACCENT,
    LOOSE,
    PALETTE,
    colour,
    equal,
    faceted,
    known,
    marks,
    quantity,
    tips,
)
from cotenant.text import literal

MEASURED, FITTED = "measured", "curve"
UNITS = {
    "sm_clock_mhz": "clock, MHz",
    "frequency_mhz": "clock, MHz",
    "power_w": "power, W",
    "temperature_c": "temperature, °C",
}
TIMELINE = Understanding(
    shows="Clock, power and temperature of one GPU as its sensors showed them, averaged over short intervals. Coloured "
    "intervals: the driver reported that the clock was held down.",
    look="A clock that falls where power stays at its limit (power cap) or where temperature is high (heat).",
    misleads="Without coloured intervals, throttling may simply not have been recorded. A flat power line under a "
    "climbing temperature is a stuck sensor, not a steady load.",
)
CLOCK = Understanding(
    shows="Time, power and energy of a request at each clock the GPUs actually ran at, under locked clocks or power "
    "limits. Curves: t = memory part + core part / f; P = idle + slope f + bend (f - knee)^2 above the knee.",
    look="The lowest point of the energy panel. Below the knee, a slower clock saves little.",
    misleads="Curves are fits; their error at held-out clocks is given above. Energy is power times time "
    "of the entire GPU, idle power included.",
)

if TYPE_CHECKING:
    from cotenant.reporting.html.variability_page import SensorTimeline


def timeline_figures(timelines: "tuple[SensorTimeline, ...]") -> list[Figure]:
    """One figure per GPU, one panel per sensor."""
    return [_timeline(timeline, f"timeline-{number}") for number, timeline in enumerate(timelines, 1)]


def clock_figures(curves: tuple[ClockCurve, ...]) -> list[Figure]:
    """One figure per kind of work."""
    return [_clock(curve, f"clock-{number}") for number, curve in enumerate(curves, 1)]


def _timeline(timeline: "SensorTimeline", name: str) -> Figure:
    labels = [UNITS[sensor] for sensor in timeline.lines]
    rows: list[Row] = [
        {"panel": UNITS[sensor], "t_s": float(at), "value": float(f"{value:.6g}")}
        for sensor, (times, values) in timeline.lines.items()
        for at, value in zip(times, values, strict=True)
    ]
    most = (MOST_POINTS - len(rows)) // max(1, len(labels))
    rows += [
        {"panel": label, "t_s": held.from_s, "until_s": held.to_s, "reason": held.reason}
        for held in sorted(timeline.held, key=lambda held: held.from_s - held.to_s)[:most]
        for label in labels
    ]
    x = quantity("t_s", "seconds", scale={"nice": False})
    encoding = {"x": x, "y": quantity("value", scale=LOOSE), "tooltip": tips(("t_s", "#second"), ("value", "#value"))}
    line = marks("line", encoding, known("value"), strokeWidth=1.5, color=ACCENT)
    spec = {"layer": [*([_held(x, timeline)] if timeline.held else []), line]}
    head = f"{timeline.gpu}, {timeline.source}{'.' if timeline.said else ''}"
    return Figure(
        name,
        "Clock, power and temperature over time",
        literal(" ".join([head, *timeline.said])),
        faceted("panel", labels, spec, 80, {"scale": {"y": "independent"}}),
        tuple(rows),
        TIMELINE,
        margin=56,
    )


def _held(x: Spec, timeline: "SensorTimeline") -> Spec:
    """Intervals coloured by what held the clock down."""
    reasons = sorted({held.reason for held in timeline.held})
    shades = colour("reason", reasons, "held down by")
    shades["scale"]["range"] = [PALETTE[(5 + number) % len(PALETTE)] for number in range(len(reasons))]
    encoding = {"x": x, "x2": {"field": "until_s"}, "color": shades, "tooltip": tips(("reason", "held by"))}
    return marks("rect", encoding, known("until_s"), opacity=0.22)


def _clock(curve: ClockCurve, name: str) -> Figure:
    panels = ["time, ms", "power, W", "energy, J"]
    rows: list[Row] = []
    for point in curve.points[:: -(-len(curve.points) // 500)]:
        shared = {"clock": point.clock_mhz, "kind": MEASURED}
        shared |= {"gpu": literal(point.gpu), "settings": literal(point.settings)}
        rows.append(shared | {"panel": panels[0], "value": point.time_ms})
        if point.power_w is not None:
            rows.append(shared | {"panel": panels[1], "value": point.power_w})
            rows.append(shared | {"panel": panels[2], "value": point.power_w * point.time_ms / 1e3})
    grid = np.linspace(min(p.clock_mhz for p in curve.points), max(p.clock_mhz for p in curve.points), 60)
    time = curve.time.at(grid) if curve.time is not None else None
    power = curve.power.at(grid) if curve.power is not None else None
    curves = {
        panels[0]: time,
        panels[1]: power,
        panels[2]: time * power / 1e3 if time is not None and power is not None else None,
    }
    for panel, values in curves.items():
        if values is not None:
            rows += [
                {"panel": panel, "clock": float(at), "value": float(value), "kind": FITTED}
                for at, value in zip(grid, values, strict=True)
            ]
    x, y = quantity("clock", "clock, MHz", scale=LOOSE), quantity("value", scale=LOOSE)
    tip = tips(("gpu", "GPU"), ("settings", "set to"), ("clock", "#MHz"), ("value", "#value"))
    points = {"x": x, "y": y, "tooltip": tip}
    spec = {
        "layer": [
            marks("line", {"x": x, "y": y}, equal("kind", FITTED), color=PALETTE[1]),
            marks("point", points, equal("kind", MEASURED), filled=True, size=40, color=ACCENT, opacity=0.8),
        ]
    }
    drawn = [panel for panel in panels if any(row["panel"] == panel for row in rows)]
    return Figure(
        name,
        "Effect of the clock",
        literal(f"{curve.work}{' (simulated)' if curve.simulated else ''}{_said(curve)}"),
        faceted("panel", drawn, spec, 150, {"scale": {"y": "independent"}}),
        tuple(rows),
        CLOCK,
        margin=64,
    )


def _said(curve: ClockCurve) -> str:
    parts = []
    if curve.best is not None:
        parts.append(
            f"least energy at {curve.best.clock_mhz:.0f} MHz: {curve.best.energy_saved * 100:.0f} % less than at the "
            f"highest, {curve.best.time_lost * 100:.0f} % more time"
        )
    if curve.power is not None:
        parts.append(f"knee at {curve.power.knee_mhz:.0f} MHz")
    errors = [
        f"{fit.held_out * 100:.1f} % ({what})"
        for what, fit in (("time", curve.time), ("power", curve.power))
        if fit is not None and fit.held_out is not None
    ]
    if errors:
        parts.append(f"held-out error {', '.join(errors)}")
    return "".join(f"; {part}" for part in parts)
