"""Sensor readings over a run, marking trials in which the machine was disturbed."""

from collections.abc import Sequence

import numpy as np

from cotenant.reporting.figures.figure import MOST_POINTS, Absent, Figure, Row, Understanding
from cotenant.reporting.figures.material import Material, RunFacts
from cotenant.reporting.figures.style import ACCENT, LOOSE, faceted, known, marks, quantity, tips
from cotenant.store.reduced import SamplePoint
from cotenant.text import literal

TITLE = "Sensors over the run"
DISTURBING = ("no_steal", "clock_stable", "quiet_machine")
MOST_SENSORS = 12
STILL = 1e-6
"""A sensor that varies by less than this fraction counts as constant."""
FIRST = (
    "throttl",
    "server_",
    "power_w",
    "sm_clock",
    "sm_active",
    "tensor_active",
    "dram_active",
    "frequency",
    "temperature",
    "energy",
    "power",
    "cpu_busy",
    "cpu_steal",
    "pressure_cpu",
    "memory_used",
)
"""Prefixes or parts of sensor names, most informative first."""
UNDERSTANDING = Understanding(
    shows="Readings of each sensor over the run. Counters are shown as rates: a cpu_busy of 2 s per s means "
    "that two cores were busy. Red intervals are trials in which the clock moved, the hypervisor took CPU time "
    "(steal), or processes outside the study used the device.",
    look="A falling clock or a rising temperature over the run; stolen time; activity between trials, when "
    "nothing of the study runs.",
    misleads="Values are averages of intervals: shorter spikes are flattened. The quality of each sensor "
    "(its source and how often it changes) is in the table of sensors below.",
)


def sensors_figure(material: Material, run: RunFacts) -> Figure | Absent:
    """One panel per sensor that changed."""
    points = [point for point in material.samples if point.run == run.identity]
    if not points:
        return Absent("sensors", TITLE, "the run has no sensor readings")
    moving = _moving(points)
    if not moving:
        return Absent("sensors", TITLE, "no sensor changed its value over the run")
    chosen = sorted(moving, key=_telling)[:MOST_SENSORS]
    bands = _bands(material, run)[: MOST_POINTS // (4 * len(chosen))]
    each = max(2, MOST_POINTS // len(chosen) - len(bands))
    rows: list[Row] = [
        {"sensor": _label(point), "t_s": round(point.t_s, 3), "value": point.value}
        for name in chosen
        for point in moving[name][:: -(-len(moving[name]) // each)]
    ]
    labels = [_label(moving[name][0]) for name in chosen]
    rows += [band | {"sensor": label} for band in bands for label in labels]
    x = quantity("t_s", "seconds since the run began", scale={"nice": False})
    bands_of = {"x": x, "x2": {"field": "until_s"}, "tooltip": tips(("why", "marked"))}
    y = quantity("value", scale=LOOSE, axis={"tickCount": 3, "format": ",.3~r"})
    lines = {"x": x, "y": y, "tooltip": tips(("sensor", "sensor"), ("t_s", "#second"), ("value", "#value"))}
    spec = {
        "layer": [
            marks("rect", bands_of, known("until_s"), color="#cc4455", opacity=0.22),
            marks("line", lines, known("value"), strokeWidth=1.5, color=ACCENT),
        ]
    }
    left_out = len({point.sensor for point in points}) - len(chosen)
    return Figure(
        name="sensors",
        title=TITLE,
        condition=", ".join(
            part
            for part in (
                f"run {run.letter}" if material.names.several_runs else "",
                f"{left_out} sensors that are constant or less informative are left out" if left_out else "",
            )
            if part
        ),
        spec=faceted("sensor", labels, spec, 70, {"scale": {"y": "independent"}}),
        rows=tuple(rows),
        understanding=UNDERSTANDING,
        margin=56,
    )


def _moving(points: Sequence[SamplePoint]) -> dict[str, list[SamplePoint]]:
    by_sensor: dict[str, list[SamplePoint]] = {}
    for point in points:
        by_sensor.setdefault(point.sensor, []).append(point)
    return {
        name: group
        for name, group in by_sensor.items()
        if np.ptp(values := [point.value for point in group]) > STILL * max(map(abs, values))
    }


def _telling(name: str) -> tuple[int, str]:
    return next((number for number, part in enumerate(FIRST) if part in name), len(FIRST)), name


def _label(point: SamplePoint) -> str:
    return literal(f"{point.sensor}, {point.unit}" if point.unit else point.sensor)


def _bands(material: Material, run: RunFacts) -> list[dict[str, object]]:
    return [
        {"t_s": trial.began_s, "until_s": trial.began_s + trial.window_s, "why": ", ".join(why)}
        for trial in material.trials
        if trial.cell.run == run.identity and trial.began_s is not None
        for why in ([check for check in trial.failed_checks if check in DISTURBING],)
        if why
    ]
