"""Latency against load for scheduled requests: the load at which a tenant tips over."""

from collections.abc import Sequence
from dataclasses import replace

from cotenant.analyse.dvfs import Sweep
from cotenant.analyse.findings import RateLatency, knee
from cotenant.analyse.sharing import Cell
from cotenant.reporting.figures.figure import Absent, Figure, Row, Spec, Understanding
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import ALONE, Ways, mode_of
from cotenant.reporting.figures.style import QUIET, equal, faceted, known, marks, quantity, tips
from cotenant.text import literal

TITLE = "Latency against load"
UNDERSTANDING = Understanding(
    shows="The latency of each tenant as its rate increases: the median as a line, p99 as a dashed line where "
    "there were enough requests. One line per mix, way to share and kind of arrivals.",
    look="The knee, marked by a diamond: the highest load measured before the median takes more than twice what it "
    "takes at the lightest load. To its right, waiting dominates, and a little more load costs a lot.",
    misleads="To the right of the knee, latencies grow with the length of the measurement: a queue that never empties "
    "has no steady latency. The axis is the offered rate, not the served rate.",
)


def load_figure(material: Material) -> Figure | Absent:
    """One panel per tenant: rate against latency."""
    series: dict[tuple[Cell, str, str], list[dict[str, object]]] = {}
    for tenant in material.summary.tenants:
        rate = material.tenants[tenant.cell, tenant.tenant].rate_rps
        median = tenant.latency_ms["p50"].est
        if rate is None or median is None:
            continue
        arrivals = tenant.cell.load.partition("(")[0]
        varying = tenant.cell.load.rpartition(",")[2].strip(" )") if arrivals == "gamma" else ""
        kind = f"{arrivals}, cv {varying}" if varying else arrivals
        line = f"{material.names.place(tenant.cell)}, {literal(kind)}"
        if material.names.several_runs:
            line = f"{material.names.run(tenant.cell.run)}: {line}"
        series.setdefault((replace(tenant.cell, load=kind), tenant.tenant, tenant.of), []).append(
            {
                "of": literal(tenant.of),
                "tenant": literal(tenant.tenant),
                "line": line,
                "sharing": ALONE if tenant.cell.solo else literal(tenant.cell.sharing),
                "mode": ALONE if tenant.cell.solo else mode_of(tenant.cell.sharing),
                "load": literal(tenant.cell.load),
                "rate_rps": rate,
                "p50_ms": median,
                "p50_lo_ms": tenant.latency_ms["p50"].lo,
                "p50_hi_ms": tenant.latency_ms["p50"].hi,
                "p99_ms": tenant.latency_ms["p99"].est,
                "unfinished": tenant.unfinished,
                "requests": tenant.requests,
            }
        )
    curves = {key: rows for key, rows in series.items() if len(rows) > 1}
    if not curves:
        return Absent("load", TITLE, "no tenant was measured at two or more rates of an open load")
    rows = [
        row | {"knee": row is turn, "ends": row is last}
        for group in curves.values()
        for turn, last in ((_knee_row(group), max(group, key=lambda row: float(str(row["rate_rps"])))),)
        for row in group
    ]
    return Figure(
        name="load",
        title=TITLE,
        condition="",
        spec=_spec(rows, material.ways),
        rows=tuple(rows),
        understanding=UNDERSTANDING,
        margin=56,
    )


def _knee_row(rows: Sequence[dict[str, object]]) -> dict[str, object] | None:
    turn = knee([RateLatency(float(str(row["rate_rps"])), float(str(row["p50_ms"]))) for row in rows])
    return next((row for row in rows if turn is not None and row["rate_rps"] == turn.rate_rps), None)


def _spec(rows: Sequence[Row], ways: Ways) -> Spec:
    tenants = list(dict.fromkeys(str(row["of"]) for row in rows))
    x = quantity("rate_rps", "offered requests per second", scale={"zero": False, "nice": False, "padding": 8})
    shared = {"x": x, "color": ways.channel(), "detail": {"field": "line"}}

    def y(field: str) -> Spec:
        scale = {"type": "log", "nice": False, "padding": 10}
        return quantity(field, "latency, ms", scale=scale, axis={"tickCount": 5, "format": "~g"})

    tip = tips(
        ("line", "mix and arrivals"), ("load", "load"), ("rate_rps", "#requests/s"), ("p50_ms", "#p50, ms"),
        ("p99_ms", "#p99, ms"), ("unfinished", "#never done"),
    )  # fmt: skip
    median, ends = shared | {"y": y("p50_ms"), "tooltip": tip}, shared | {"y": y("p50_ms"), "text": {"field": "line"}}
    dashed = {"strokeDash": [4, 3], "strokeWidth": 1.5, "opacity": 0.8}
    diamond = {"shape": "diamond", "size": 260, "filled": False, "strokeWidth": 2, "color": QUIET}
    spec = {
        "layer": [
            marks("line", shared | {"y": y("p99_ms")}, known("p99_ms"), **dashed),
            marks("line", median, point={"size": 40, "filled": True}),
            marks("text", ends, equal("ends", True), align="right", dy=-9, fontSize=11),
            marks("point", {"x": x, "y": y("p50_ms")}, equal("knee", True), **diamond),
        ]
    }
    return faceted("of", tenants, spec, 240, {"scale": {"x": "independent", "y": "independent"}})


# --- energy against time over a sweep of clocks or power limits: what each step saves and what it costs

SWEEPS_TITLE = "Energy against time"
PANELS = {
    "clock_mhz": "energy of a request under locked clocks",
    "power_w": "energy of a request under power limits",
}
UNITS = {"clock_mhz": "MHz", "power_w": "W"}
SWEEPS_UNDERSTANDING = Understanding(
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
        return Absent("sweeps", SWEEPS_TITLE, "no job was measured at three or more clocks or power limits")
    panels = [panel for panel in PANELS.values() if any(row["panel"] == panel for row in rows)]
    return Figure(
        name="sweeps",
        title=SWEEPS_TITLE,
        condition="",
        spec=faceted("panel", panels, {"layer": _layers()}, 260, {"scale": {"x": "independent"}}),
        rows=tuple(rows),
        understanding=SWEEPS_UNDERSTANDING,
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
        return quantity(field, title, scale=scale, axis={"format": ".0%"})

    axes = {"x": axis("time", "time, relative to the default"), "y": axis("energy", None)}
    colour = {"color": {"field": "job", "type": "nominal", "legend": None}}
    tip = tips(("job", "job"), ("set", "set to"), ("time_ms", "#ms"), ("energy_j", "#J"), ("power_w", "#W"))
    best, coloured = axes | {"text": {"field": "set"}}, axes | colour
    return [
        marks("line", coloured | {"order": {"field": "order"}}),
        marks("point", coloured | {"tooltip": tip}, filled=True, size=30),
        marks("point", coloured | {"tooltip": tip}, "datum.best", shape="diamond", filled=True, size=140),
        marks("text", best, "datum.best", align="left", dx=9, dy=-13, color=QUIET),
        marks("text", coloured | {"text": {"field": "job"}}, "datum.ends", align="left", dx=8, fontWeight="bold"),
    ]
