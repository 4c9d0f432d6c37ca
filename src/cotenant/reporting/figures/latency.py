"""Latency distributions with a stretched tail, and latency over time."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from cotenant.analyse.sharing import Cell, LatencyCurve, sharing_said
from cotenant.reporting.figures.figure import MOST_POINTS, Absent, Figure, Row, Spec, Understanding
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import ALONE, Condition, mode_of
from cotenant.reporting.figures.style import LIMIT, QUIET, faceted, known, label, marks, quantity, tips
from cotenant.store.reduced import MOST_TRIALS_DRAWN
from cotenant.text import literal, milliseconds

TITLE = "Latency distributions"
FEWEST_POINTS_PER_CURVE = 8
UNDERSTANDING = Understanding(
    shows="For each tenant the latency (vertical) that a share of its requests stayed within (horizontal). The axis "
    "gives every further nine equal space: p90, p99 and p99.9 are evenly spaced.",
    look="Compare each line with the grey one, the tenant alone, and with the red one, its objective: the triangle "
    "marks the quantile that has to stay below it. Parallel lines mean that all requests are slowed equally; a line "
    "that bends upwards on the right means that a few requests bear most of it, which a mean or a median hides.",
    misleads="A line ends where fewer than about three requests lie beyond it: a longer measurement draws a "
    "longer line, not a worse one. Latency counts from the time a request was due, waiting included.",
)
TIMELINE = Understanding(
    shows="Latency over the counted window, in short intervals: the line is the median of an interval, the dots its "
    "slowest request; one line per trial.",
    look="A constant level. Trends and steps mean that the trial measured a change (warming up, a clock "
    "that fell, a neighbour outside the study) as much as the mix.",
    misleads="Lines of different blocks lie on top of each other although they were measured at different times. At "
    f"most {MOST_TRIALS_DRAWN} trials of a mix are drawn, spread over the run.",
)

_PERCENTILES = quantity(
    "odds",
    "share of requests at least as fast",
    scale={"type": "log", "nice": False},
    axis={
        "values": [1, 2, 10, 20, 100, 1000, 10000, 100000],
        "labelExpr": "{'1':'min','2':'p50','10':'p90','20':'p95','100':'p99','1000':'p99.9',"
        "'10000':'p99.99','100000':'p99.999'}[toString(datum.value)]",
        "labelOverlap": "greedy",
        "grid": True,
    },
)
_MILLISECONDS = quantity(
    "latency_ms",
    "latency, ms",
    scale={"type": "log", "nice": False, "padding": 20},  # room for a label beyond the lowest and the highest line
    axis={"tickCount": 5, "format": "~g"},
)


def latency_figure(material: Material, condition: Condition) -> Figure | Absent:
    """One panel per tenant, one line per mix and sharing."""
    names = material.names
    curves = [curve for curve in material.curves if Condition.of(curve.cell) == condition and curve.odds]
    if not curves:
        return Absent("latency", TITLE, "no usable trial has enough requests")
    rows = curve_rows(material, curves)
    tenants = list(dict.fromkeys(row["of"] for row in rows))
    runs = list(dict.fromkeys(row["run"] for row in rows))
    lines: Spec = {"color": material.ways.channel(legend=True), "detail": [{"field": "place"}, {"field": "tenant"}]}
    if names.several_runs:
        lines["strokeDash"] = _dashes("run", runs, "run")
    limits = objective_rows(material, tenants)
    rows += limits
    spec = {"layer": [_lines(lines), *(_objective_layers() if limits else ())]}
    return Figure(
        name="latency",
        title=TITLE,
        condition=names.condition(condition),
        spec=faceted("of", tenants, spec, 220, {"scale": {"y": "independent"}, "axis": {"x": "independent"}}),
        rows=tuple(rows),
        understanding=UNDERSTANDING,
        margin=56,
    )


def curve_rows(material: Material, curves: Sequence[LatencyCurve]) -> list[Row]:
    """Points of the curves, limited to the maximum of a figure."""
    each = max(FEWEST_POINTS_PER_CURVE, MOST_POINTS // len(curves))
    return [
        {
            "tenant": literal(curve.tenant),
            "of": literal(curve.of),
            "place": material.names.place(curve.cell),
            "mix": ALONE if curve.cell.solo else literal(curve.cell.mix),
            "sharing": ALONE if curve.cell.solo else literal(curve.cell.sharing),
            "mode": ALONE if curve.cell.solo else mode_of(curve.cell.sharing),
            "run": material.names.run(curve.cell.run),
            "percentile": 100 * (1 - 1 / odds),
            "odds": odds,
            "latency_ms": latency,
            "requests": curve.n,
        }
        for curve in curves
        for odds, latency in curve.thinned(each)
    ]


def mix_curves_spec() -> Spec:
    """One mix: a panel per tenant, alone and shared, each line labelled at its end."""
    colour = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
    spec = {
        "layer": [
            _lines({"color": colour, "detail": [{"field": "state"}, {"field": "tenant"}]}),
            *(_end_label(state, colour, offset) for state, offset in ((ALONE, 11), ("shared", -9))),
            *_objective_layers(),
        ]
    }
    return faceted("of", [], spec, 170, {"scale": {"y": "independent"}, "axis": {"x": "independent"}})


def _end_label(state: str, colour: Spec, offset: int) -> Spec:
    encoding = {"x": _PERCENTILES, "y": _MILLISECONDS, "text": {"field": "ends"}, "color": colour}
    ends = f"datum.state == '{state}' && isValid(datum.ends)"
    return marks("text", encoding, ends, align="right", dy=offset, fontSize=12, fontWeight=600)


def _lines(how: Spec) -> Spec:
    tip = tips(("tenant", "tenant"), ("percentile", "#percentile"), ("latency_ms", "#latency, ms"))
    encoding = {"x": _PERCENTILES, "y": _MILLISECONDS, "tooltip": tip} | how
    return marks("line", encoding, known("latency_ms"), interpolate="linear")


def _objective_layers() -> list[Spec]:
    """The limit as a line, with a triangle at the quantile that has to stay below it."""
    y, limit = _MILLISECONDS | {"field": "limit_ms"}, known("limit_ms")
    at = {"x": _PERCENTILES | {"field": "limit_odds"}, "y": y}
    words = {"x": {"value": 4}, "y": y, "text": {"field": "limit"}}
    return [
        marks("rule", {"y": y}, limit, color=LIMIT, strokeDash=[5, 3]),
        marks("point", at, limit, shape="triangle-down", color=LIMIT, filled=True, size=110, dy=-4),
        marks("text", words, limit, align="left", dy=10, fontSize=12, color=LIMIT),
    ]


def objective_rows(material: Material, tenants: Iterable[str]) -> list[Row]:
    """The objectives of these tenants, one row each."""
    chosen = set(tenants)
    limits = {
        literal(tenant.of): (tenant.slo_ms, tenant.slo.quantile)
        for tenant in material.summary.tenants
        if tenant.slo is not None and tenant.slo_ms is not None and tenant.slo.metric == "latency"
    }
    return [
        {
            "of": of,
            "limit_ms": limit_ms,
            "limit_odds": round(1 / (1 - quantile), 3),
            "limit": f"objective: p{100 * quantile:g} within {milliseconds(limit_ms)}",
        }
        for of, (limit_ms, quantile) in limits.items()
        if of in chosen and quantile < 1
    ]


def mix_curve_rows(material: Material, cell: Cell, solos: Sequence[LatencyCurve], most: int) -> list[Row]:
    """The tenants of one mix, and each of them alone under the same condition."""
    shared = [curve for curve in material.curves if curve.cell == cell and curve.odds]
    workloads = {curve.of for curve in shared}
    baseline = [curve for curve in solos if curve.of in workloads and curve.odds]
    drawn = (*baseline, *shared)
    way = literal(cell.sharing)
    rows: list[Row] = []
    labelled: set[tuple[str, str]] = set()
    for curve in drawn:
        state, of = ALONE if curve.cell.solo else "shared", literal(curve.of)
        points = curve.thinned(max(2, most // max(1, len(drawn))))
        for number, (odds, latency) in enumerate(points, 1):
            # Copies overlap: one label is enough.
            ends = number == len(points) and (of, state) not in labelled
            rows.append(
                {
                    "of": of,
                    "tenant": literal(curve.tenant),
                    "state": state,
                    "percentile": round(100 * (1 - 1 / odds), 4),
                    "odds": round(odds, 3),
                    "latency_ms": round(latency, 4),
                    "colour": QUIET if curve.cell.solo else material.ways.colour(way),
                    "ends": (ALONE if curve.cell.solo else literal(sharing_said(cell.sharing))) if ends else None,
                }
            )
        labelled.add((of, state))
    return [*rows, *objective_rows(material, {literal(name) for name in workloads})]


def timeline_spec() -> Spec:
    """One mix: a panel per tenant, latency over the window."""
    time = quantity("t_s", "seconds into the window", scale={"nice": False})
    block = {"field": "block", "type": "ordinal", "legend": None, "scale": {"scheme": "viridis"}}
    tip = tips(("tenant", "tenant"), ("block", "block"), ("median_ms", "#median, ms"), ("slowest_ms", "#slowest, ms"))
    slowest, median = ({"x": time, "y": quantity(f"{name}_ms", "latency, ms"), "color": block}
                       for name in ("slowest", "median"))  # fmt: skip
    spec = {
        "layer": [
            marks("point", slowest, size=9, opacity=0.7),
            marks("line", median | {"tooltip": tip}, strokeWidth=1.5),
        ]
    }
    return faceted("tenant", [], spec, 120, {"scale": {"y": "independent"}, "axis": {"x": "independent"}})


def timeline_rows(material: Material, cell: Cell) -> list[Row]:
    """The timelines of one mix; of copies only the first, since the others look like it."""
    first: dict[str, str] = {}
    for curve in material.curves:
        if curve.cell == cell:
            first.setdefault(curve.of, curve.tenant)
    shown = set(first.values())
    return [
        {
            "tenant": literal(point.tenant),
            "block": point.block + 1,
            "t_s": round(point.t_s, 4),
            "median_ms": round(point.median_ms, 4),
            "slowest_ms": round(point.slowest_ms, 4),
        }
        for point in material.timelines
        if point.cell == cell and (not shown or point.tenant in shown)
    ]


def _dashes(field: str, order: list[str], title: str) -> Spec:
    patterns = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [1, 3], [10, 4]]
    others = [name for name in order if name != ALONE]
    ranges = [patterns[index % len(patterns)] for index in range(len(others))]
    domain, dashes = ([ALONE, *others], [[1, 0], *ranges]) if ALONE in order else (others, ranges)
    return label(field, title, sort=None, scale={"domain": domain, "range": dashes})


# --- the heat map: the slowdown of each tenant beside its neighbours

SLOWDOWN_TITLE = "Slowdown of every tenant in every mix"
SLOWDOWN_UNDERSTANDING = Understanding(
    shows="How many times longer a tenant's requests take beside its neighbours than alone, in the same block of "
    "trials. 1.00 means that the neighbours cost nothing, 2.00 that everything takes twice as long.",
    look="Read a row from left to right to see which way to share slows a tenant least; read the rows of one "
    "tenant downwards to see which neighbour costs it most. Brackets are 95 % intervals.",
    misleads="A low slowdown of one tenant says nothing about its neighbour's: look at the neighbour's row "
    "too. Two tenants that each take twice as long have gained nothing over taking turns.",
)


def slowdown_figure(material: Material, condition: Condition) -> Figure | Absent:
    """One square per tenant, mix and sharing."""
    names = material.names
    rows: list[dict[str, Any]] = [
        {
            "tenant": literal(tenant.tenant),
            "mix": literal(tenant.cell.mix),
            "line": literal(f"{tenant.tenant} in {tenant.cell.mix}"),
            "sharing": literal(tenant.cell.sharing),
            "run": names.run(tenant.cell.run),
            "slowdown": tenant.slowdown.est,
            "lo": tenant.slowdown.lo,
            "hi": tenant.slowdown.hi,
            "blocks": tenant.slowdown.n,
            "log2": None if not tenant.slowdown.est else math.log2(tenant.slowdown.est),
        }
        for tenant in material.summary.tenants
        if not tenant.cell.solo and Condition.of(tenant.cell) == condition
    ]
    if not any(row["slowdown"] is not None for row in rows):
        return Absent(
            "slowdown", SLOWDOWN_TITLE, "no mix has a usable shared trial and a usable solo trial in one block"
        )
    squares = {
        "x": label("sharing", axis={"orient": "top", "labelAngle": 0}),
        "y": label("line", sort=None),
    }
    shade = {"scheme": "orangered", "domain": [0, 2], "clamp": True}
    tip = tips(("line", "tenant"), ("sharing", "sharing"), ("slowdown", "#slowdown"), ("lo", "#from"), ("hi", "#to"))
    filled = {"color": quantity("log2", "slowdown, powers of two", scale=shade), "tooltip": tip}
    text = {"text": {"field": "slowdown", "type": "quantitative", "format": ".2f"}}
    spec = {
        "encoding": squares,
        "layer": [marks("rect", filled, cornerRadius=3), marks("text", text, fontSize=12, color="#111")],
    }
    runs = [row["run"] for row in rows]
    return Figure(
        name="slowdown",
        title=SLOWDOWN_TITLE,
        condition=names.condition(condition),
        spec=faceted("run", list(dict.fromkeys(runs)), spec, {"step": 28}, {"scale": {"y": "independent"}}),
        rows=tuple(rows),
        understanding=SLOWDOWN_UNDERSTANDING,
        margin=200,
    )
