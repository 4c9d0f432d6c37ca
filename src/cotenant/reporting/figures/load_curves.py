"""Latency against load for scheduled requests: the load at which a tenant tips over."""

from collections.abc import Sequence
from dataclasses import replace

from cotenant.analyse.findings.knee import RateLatency, knee
from cotenant.analyse.sharing.cells import Cell
from cotenant.reporting.figures.figure import Absent, Figure, Row, Understanding
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import ALONE
from cotenant.reporting.figures.style import QUIET, faceted, tips
from cotenant.reporting.figures.ways import Ways, mode_of
from cotenant.reporting.terminal.literal import literal

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
        for turn, last in ((_knee_row(group), max(group, key=lambda one: float(str(one["rate_rps"])))),)
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
    found = knee([RateLatency(float(str(row["rate_rps"])), float(str(row["p50_ms"]))) for row in rows])
    return next((row for row in rows if found is not None and row["rate_rps"] == found.rate_rps), None)


def _spec(rows: Sequence[Row], ways: Ways) -> dict[str, object]:
    tenants = list(dict.fromkeys(str(row["of"]) for row in rows))
    x = {
        "field": "rate_rps",
        "type": "quantitative",
        "title": "offered requests per second",
        "scale": {"zero": False, "nice": False, "padding": 8},
    }
    shared = {"x": x, "color": ways.channel(), "detail": {"field": "line"}}

    def y(field: str) -> dict[str, object]:
        return {
            "field": field,
            "type": "quantitative",
            "title": "latency, ms",
            "scale": {"type": "log", "nice": False, "padding": 10},
            "axis": {"tickCount": 5, "format": "~g"},
        }

    spec = {
        "layer": [
            {
                "transform": [{"filter": {"field": "p99_ms", "valid": True}}],
                "mark": {"type": "line", "strokeDash": [4, 3], "strokeWidth": 1.5, "opacity": 0.8},
                "encoding": shared | {"y": y("p99_ms")},
            },
            {
                "mark": {"type": "line", "point": {"size": 40, "filled": True}},
                "encoding": shared
                | {
                    "y": y("p50_ms"),
                    "tooltip": tips(
                        ("line", "mix and arrivals"),
                        ("load", "load"),
                        ("rate_rps", "#requests/s"),
                        ("p50_ms", "#p50, ms"),
                        ("p99_ms", "#p99, ms"),
                        ("unfinished", "#never done"),
                    ),
                },
            },
            {
                "transform": [{"filter": {"field": "ends", "equal": True}}],
                "mark": {"type": "text", "align": "right", "dy": -9, "fontSize": 11},
                "encoding": shared | {"y": y("p50_ms"), "text": {"field": "line"}},
            },
            {
                "transform": [{"filter": {"field": "knee", "equal": True}}],
                "mark": {
                    "type": "point",
                    "shape": "diamond",
                    "size": 260,
                    "filled": False,
                    "strokeWidth": 2,
                    "color": QUIET,
                },
                "encoding": {"x": x, "y": y("p50_ms")},
            },
        ]
    }
    return faceted("of", tenants, spec, 240, {"scale": {"x": "independent", "y": "independent"}})
