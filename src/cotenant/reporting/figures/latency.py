"""Latency distributions on an axis that gives the tail room, and latency over time."""

from collections.abc import Sequence

from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.curves import Curve
from cotenant.reporting.figures.figure import MOST_POINTS, Absent, Figure, Row, Spec, Understanding
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import ALONE, Condition
from cotenant.reporting.figures.style import QUIET, colour, faceted, tips
from cotenant.reporting.terminal.literal import literal
from cotenant.store.reduced import MOST_TRIALS_DRAWN

TITLE = "Latency distributions"
FEWEST_POINTS_PER_CURVE = 8
UNDERSTANDING = Understanding(
    shows="For each tenant the latency (vertical) that a share of its requests stayed within (horizontal). The axis "
    "gives every further nine the same room: p90, p99 and p99.9 are as far apart as they are rare.",
    look="Compare each line with the grey one, the tenant alone. Lines that run side by side mean that all requests "
    "pay alike; a line that bends upwards at the right means that a few requests pay for many, which a mean or a "
    "median hides.",
    misleads="A line ends where fewer than about three requests would lie beyond it: a longer measurement draws a "
    "longer line, not a worse one. Latency counts from the time at which a request was due, waiting included.",
)
TIMELINE = Understanding(
    shows="Latency over the counted window, in stretches: the line is the median of a stretch, the dots its slowest "
    "request; one line for each trial.",
    look="A level that stays where it is. Trends and steps mean that the trial measured a change (warming up, a clock "
    "that fell, a neighbour outside the study) as much as the mix.",
    misleads="Lines of different blocks lie on top of each other although they were measured at different times. At "
    f"most {MOST_TRIALS_DRAWN} trials of a mix are drawn, spread over the run.",
)

_PERCENTILES = {
    "field": "odds",
    "type": "quantitative",
    "title": "share of requests that are at least as fast",
    "scale": {"type": "log", "nice": False},
    "axis": {
        "values": [1, 2, 10, 20, 100, 1000, 10000, 100000],
        "labelExpr": "{'1':'min','2':'p50','10':'p90','20':'p95','100':'p99','1000':'p99.9',"
        "'10000':'p99.99','100000':'p99.999'}[toString(datum.value)]",
        "labelOverlap": "greedy",
        "grid": True,
    },
}
_MILLISECONDS = {
    "field": "latency_ms",
    "type": "quantitative",
    "title": "latency, ms",
    "scale": {"type": "log", "nice": False, "padding": 8},
    "axis": {"tickCount": 5, "format": "~g"},
}


def latency_figure(material: Material, condition: Condition) -> Figure | Absent:
    """A panel for each tenant, a line for each mix and sharing."""
    names = material.names
    curves = [curve for curve in material.curves if Condition.of(curve.cell) == condition and curve.odds]
    if not curves:
        return Absent("latency", TITLE, "no usable trial has enough requests")
    rows = curve_rows(material, curves)
    tenants = list(dict.fromkeys(row["of"] for row in rows))
    places = sorted({row["place"] for row in rows}, key=lambda place: (place != ALONE, place))
    mixes = sorted({row["mix"] for row in rows}, key=lambda mix: (mix != ALONE, mix))
    sharings = sorted({row["sharing"] for row in rows}, key=lambda sharing: (sharing != ALONE, sharing))
    runs = list(dict.fromkeys(row["run"] for row in rows))
    if names.several_runs:
        lines = {"color": _with_alone("place", places, "mix"), "strokeDash": _dashes("run", runs, "run")}
    else:
        lines = {"color": _with_alone("mix", mixes, "mix"), "strokeDash": _dashes("sharing", sharings, "sharing")}
    spec = {"mark": {"type": "line", "interpolate": "linear"}, "encoding": _curve_encoding() | lines}
    return Figure(
        name="latency",
        title=TITLE,
        condition=names.condition(condition),
        spec=faceted("of", tenants, spec, 220, {"scale": {"y": "independent"}, "axis": {"x": "independent"}}),
        rows=tuple(rows),
        understanding=UNDERSTANDING,
        margin=56,
    )


def curve_rows(material: Material, curves: Sequence[Curve]) -> list[Row]:
    """Points of the curves, as many as a figure may have."""
    each = max(FEWEST_POINTS_PER_CURVE, MOST_POINTS // len(curves))
    return [
        {
            "tenant": literal(curve.tenant),
            "of": literal(curve.of),
            "place": material.names.place(curve.cell),
            "mix": ALONE if curve.cell.solo else literal(curve.cell.mix),
            "sharing": literal(curve.cell.sharing),
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
    """Of one mix: a panel for each tenant, alone and shared."""
    places = {"field": "state", "type": "nominal", "title": None, "sort": None}
    scale = {"domain": [ALONE, "shared"], "range": [QUIET, "#d9702f"]}
    spec = {
        "mark": {"type": "line"},
        "encoding": _curve_encoding() | {"color": places | {"scale": scale}, "detail": {"field": "tenant"}},
    }
    return faceted("of", [], spec, 170, {"scale": {"y": "independent"}, "axis": {"x": "independent"}})


def mix_curve_rows(material: Material, cell: Cell, solos: Sequence[Curve], most: int) -> list[Row]:
    """The tenants of one mix, and each of them alone under the same condition."""
    shared = [curve for curve in material.curves if curve.cell == cell and curve.odds]
    wanted = {curve.of for curve in shared}
    baseline = [curve for curve in solos if curve.of in wanted and curve.odds]
    return [
        {
            "of": literal(curve.of),
            "tenant": literal(curve.tenant),
            "state": ALONE if curve.cell.solo else "shared",
            "percentile": round(100 * (1 - 1 / odds), 4),
            "odds": round(odds, 3),
            "latency_ms": round(latency, 4),
        }
        for curve in (*baseline, *shared)
        for odds, latency in curve.thinned(max(2, most // max(1, len(shared) + len(baseline))))
    ]


def timeline_spec() -> Spec:
    """Of one mix: a panel for each tenant, latency over the window."""
    time = {"field": "t_s", "type": "quantitative", "title": "seconds into the window", "scale": {"nice": False}}
    block = {"field": "block", "type": "ordinal", "title": "block", "scale": {"scheme": "viridis"}}
    spec = {
        "layer": [
            {
                "mark": {"type": "point", "size": 9, "opacity": 0.7},
                "encoding": {
                    "x": time,
                    "y": {"field": "slowest_ms", "type": "quantitative", "title": "latency, ms"},
                    "color": block,
                },
            },
            {
                "mark": {"type": "line", "strokeWidth": 1.5},
                "encoding": {
                    "x": time,
                    "y": {"field": "median_ms", "type": "quantitative", "title": "latency, ms"},
                    "color": block,
                    "tooltip": tips(
                        ("tenant", "tenant"),
                        ("block", "block"),
                        ("median_ms", "#median, ms"),
                        ("slowest_ms", "#slowest, ms"),
                    ),
                },
            },
        ]
    }
    return faceted("tenant", [], spec, 120, {"scale": {"y": "independent"}, "axis": {"x": "independent"}})


def timeline_rows(material: Material, cell: Cell) -> list[Row]:
    """The timelines of one mix."""
    return [
        {
            "tenant": literal(point.tenant),
            "block": point.block + 1,
            "t_s": round(point.t_s, 4),
            "median_ms": round(point.median_ms, 4),
            "slowest_ms": round(point.slowest_ms, 4),
        }
        for point in material.timelines
        if point.cell == cell
    ]


def _curve_encoding() -> Spec:
    return {
        "x": _PERCENTILES,
        "y": _MILLISECONDS,
        "tooltip": tips(("tenant", "tenant"), ("percentile", "#percentile"), ("latency_ms", "#latency, ms")),
    }


def _with_alone(field: str, order: list[str], title: str) -> Spec:
    """`alone` is grey: it is what the others are compared with."""
    others = [name for name in order if name != ALONE]
    channel = colour(field, others, title)
    if ALONE in order:
        channel["scale"] = {"domain": [ALONE, *others], "range": [QUIET, *channel["scale"]["range"]]}
    return channel


def _dashes(field: str, order: list[str], title: str) -> Spec:
    patterns = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [1, 3], [10, 4]]
    others = [name for name in order if name != ALONE]
    ranges = [patterns[index % len(patterns)] for index in range(len(others))]
    domain, dashes = ([ALONE, *others], [[1, 0], *ranges]) if ALONE in order else (others, ranges)
    return {
        "field": field,
        "type": "nominal",
        "title": title,
        "sort": None,
        "scale": {"domain": domain, "range": dashes},
    }
