"""Energy against time over a sweep of clocks or power limits: what each step saves and what it costs."""

from cotenant.analyse.dvfs import Sweep
from cotenant.reporting.figures.figure import Absent, Figure, Row, Spec, Understanding
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.style import QUIET, faceted, tips
from cotenant.reporting.terminal.literal import literal

TITLE = "Energy against time"
PANELS = {
    "clock_mhz": "energy of a request under locked clocks",
    "power_w": "energy of a request under power limits",
}
UNITS = {"clock_mhz": "MHz", "power_w": "W"}
UNDERSTANDING = Understanding(
    shows="Energy and time of a request at each clock or power limit, relative to the default (top left). One line "
    "per job, from the default down to the lowest setting; the diamond is the step with the least energy.",
    look="How far a line falls before it turns to the right: that energy is saved for almost no time. Where it runs "
    "flat or rises again, a lower setting only costs time.",
    misleads="Energy is power times time of the device alone, without its host. A request that waits for others "
    "takes longer than here.",
)


def sweep_figure(material: Material) -> Figure | Absent:
    """One panel per control, one line per job."""
    rows = [row for sweep in material.sweeps for row in _rows(sweep)]
    if not rows:
        return Absent("sweeps", TITLE, "no job was measured at three or more clocks or power limits")
    panels = [panel for panel in PANELS.values() if any(row["panel"] == panel for row in rows)]
    return Figure(
        name="sweeps",
        title=TITLE,
        condition="",
        spec=faceted("panel", panels, {"layer": _layers()}, 260, {"scale": {"x": "independent"}}),
        rows=tuple(rows),
        understanding=UNDERSTANDING,
        margin=64,
    )


def _rows(sweep: Sweep) -> list[Row]:
    first, last = sweep.steps[0], sweep.steps[-1]
    return [
        {
            "panel": PANELS[sweep.control],
            "job": literal(sweep.job),
            "set": "default" if step.value is None else f"{step.value:,.0f} {UNITS[sweep.control]}",
            "order": order,
            "time": step.time_ms / first.time_ms,
            "energy": step.energy_j / first.energy_j,
            "time_ms": step.time_ms,
            "energy_j": step.energy_j,
            "power_w": step.power_w,
            "best": step is sweep.best,
            "ends": step is last,
        }
        for order, step in enumerate(sweep.steps)
    ]


def _layers() -> list[Spec]:
    def axis(field: str, title: str | None) -> Spec:
        scale = {"zero": False, "nice": False, "padding": 16}
        return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": {"format": ".0%"}}

    place = {"x": axis("time", "time, relative to the default"), "y": axis("energy", None)}
    colour = {"color": {"field": "job", "type": "nominal", "legend": None}}
    tip = tips(("job", "job"), ("set", "set to"), ("time_ms", "#ms"), ("energy_j", "#J"), ("power_w", "#W"))
    return [
        {"mark": {"type": "line"}, "encoding": place | colour | {"order": {"field": "order"}}},
        {"mark": {"type": "point", "filled": True, "size": 30}, "encoding": place | colour | {"tooltip": tip}},
        {
            "transform": [{"filter": "datum.best"}],
            "mark": {"type": "point", "shape": "diamond", "filled": True, "size": 140},
            "encoding": place | colour | {"tooltip": tip},
        },
        {
            "transform": [{"filter": "datum.best"}],
            "mark": {"type": "text", "align": "left", "dx": 9, "dy": -13, "color": QUIET},
            "encoding": place | {"text": {"field": "set"}},
        },
        {
            "transform": [{"filter": "datum.ends"}],
            "mark": {"type": "text", "align": "left", "dx": 8, "fontWeight": "bold"},
            "encoding": place | colour | {"text": {"field": "job"}},
        },
    ]
