"""Differences between GPUs: boxes, correlations, location, cost for jobs, change over time."""

from typing import TYPE_CHECKING, Any

from cotenant.analyse.variability import DAY_S, day
from cotenant.reporting.figures.figure import MOST_POINTS, Absent, Figure, Row, Spec, Understanding
from cotenant.reporting.figures.style import (
    ACCENT,
    LOOSE,
    PALETTE,
    QUIET,
    faceted,
    interval_layers,
    label,
    marks,
    quantity,
    tips,
    whole,
)
from cotenant.text import literal

USUAL = "as most"
CLASSES = (USUAL, "silicon", "heat or power brake", "clock locked", "not the clock", "unknown")
MOST_BOXES = 500
SENSORS = {
    "clock_mhz": "ms over clock, MHz",
    "temperature_c": "ms over temperature, °C",
    "power_w": "ms over power, W",
}

BOXES = Understanding(
    shows="One box per GPU, from fast to slow: the middle half of its runs, a line at the median, whiskers "
    "to its outermost run that is not an outlier.",
    look="The rise of the boxes from left to right against the height of one box: GPUs against runs. "
    "Coloured boxes are outliers; the colour gives the reason.",
    misleads="The first and last of many GPUs are always far apart. The whisker range over all runs is "
    "the fairer number.",
)
SCATTER = Understanding(
    shows="Every GPU's median time over its median clock, temperature and power.",
    look="Which of the three correlates with time. At a power cap it is the clock; at a locked clock power varies "
    "instead and time does not.",
    misleads="Correlation is not causation: hot GPUs may be in one corner of the room.",
)
PLACES = Understanding(
    shows="Median time of each node's GPUs over the median of all, by cabinet and node.",
    look="A dark column or row: an entire node or cabinet is slow, which replacing one GPU won't fix.",
    misleads="A node with one bad GPU looks half bad. Nodes of different cabinets share a column only by number.",
)

if TYPE_CHECKING:
    from cotenant.reporting.html.variability_page import FleetMaterial, FleetSpread
STRAGGLER = Understanding(
    shows="A job that waits for all its GPUs at every step runs at the pace of the slowest: expected time relative to "
    "the median GPU, for k random GPUs of this fleet.",
    look="Where the line leaves 1: from that size on, choosing GPUs pays off.",
    misleads="Large jobs are dominated by the few worst GPUs: removing those changes the right end most.",
)
TREND = Understanding(
    shows="Time of runs by day, relative to each GPU's usual time.",
    look="A step of the entire line (a driver, a cooling system) or a slope.",
    misleads="Days with few runs jump; the number of runs is in the tooltip.",
)


def fleet_figures(material: "FleetMaterial") -> dict[str, list[Figure | Absent]]:
    """Figures by kind, each for every kind of work."""
    draw = {
        "boxes": boxes_figure,
        "scatter": scatter_figure,
        "places": places_figure,
        "straggler": straggler_figure,
        "trend": trend_figure,
    }
    several = len(material.works) > 1
    return {
        kind: [drawn(work, f"{kind}-{number}" if several else kind) for number, work in enumerate(material.works, 1)]
        for kind, drawn in draw.items()
    }


def boxes_figure(work: "FleetSpread", name: str) -> Figure | Absent:
    """One box per GPU."""
    causes = _causes(work)
    every = len(work.boxes)
    shown = [
        (number, box)
        for number, box in enumerate(work.boxes, 1)
        if every <= MOST_BOXES or number % (every // MOST_BOXES + 1) == 0 or box.gpu in causes
    ]
    rows: list[Row] = [
        {
            "place": number,
            "gpu": literal(box.gpu),
            "class": causes.get(box.gpu, USUAL),
            "low": box.low,
            "q1": box.q1,
            "median": box.median,
            "q3": box.q3,
            "high": box.high,
            "runs": box.runs,
            "outliers": box.outliers,
        }
        for number, box in shown
    ]
    x = quantity(
        "place", "GPUs from fast to slow", scale={"nice": False, "zero": False}, axis={"format": "d", "tickMinStep": 1}
    )
    width = max(1, min(14, 560 // max(1, len(rows))))
    tooltip = tips(
        ("gpu", "GPU"), ("class", "class"), ("median", "#median, ms"), ("q1", "#from"), ("q3", "#to"), ("runs", "#runs")
    )

    def at(field: str, **more: Any) -> Spec:
        return {"x": x, "y": quantity(field, scale=LOOSE), "color": _colour(work)} | more

    stroke = {"shape": "stroke", "size": max(12, 5 * width), "strokeWidth": 1.5, "filled": False}
    layers = [
        marks("rule", at("low", y2={"field": "high"}), strokeWidth=1),
        marks("bar", at("q1", y2={"field": "q3"}, tooltip=tooltip), width=width, opacity=0.85),
        marks("point", at("median", tooltip=tooltip), **stroke),
    ]
    return Figure(
        name,
        "Every GPU's time per request, ms",
        literal(work.work.name),
        whole({"layer": layers}, 300),
        tuple(rows),
        BOXES,
    )


def scatter_figure(work: "FleetSpread", name: str) -> Figure | Absent:
    """Time against each sensor."""
    title = "Time against clock, temperature and power"
    causes = _causes(work)
    step = -(-len(work.found.profiles) * len(SENSORS) // MOST_POINTS)
    rows: list[Row] = [
        {
            "sensor": label,
            "value": getattr(profile, sensor),
            "time_ms": profile.time_ms,
            "gpu": literal(profile.gpu),
            "class": causes.get(profile.gpu, USUAL),
        }
        for sensor, label in SENSORS.items()
        for number, profile in enumerate(work.found.profiles)
        if getattr(profile, sensor) is not None and (number % step == 0 or profile.gpu in causes)
    ]
    if not rows:
        return Absent(name, title, "no clock, temperature or power was recorded")
    encoding = {
        "x": quantity("value", scale=LOOSE),
        "y": quantity("time_ms", scale=LOOSE),
        "color": _colour(work),
        "tooltip": tips(("gpu", "GPU"), ("class", "class"), ("value", "#value"), ("time_ms", "#ms")),
    }
    spec = marks("point", encoding, filled=True, opacity=0.7, size=36)
    labels = list(dict.fromkeys(str(row["sensor"]) for row in rows))
    drawn = faceted("sensor", labels, spec, 200, {"scale": {"x": "independent"}})
    return Figure(name, title, literal(work.work.name), drawn, tuple(rows), SCATTER, margin=64)


def places_figure(work: "FleetSpread", name: str) -> Figure | Absent:
    """One square per node."""
    title = "By cabinet and node"
    groups: dict[tuple[str, str], list[float]] = {}
    for profile in work.found.profiles:
        groups.setdefault((profile.cabinet or "unknown", profile.node or "unknown"), []).append(
            profile.relative_time.est
        )
    if len(groups) < 2:
        return Absent(name, title, "the GPUs' locations are unknown, or there is only one")
    rows: list[Row] = [
        {
            "cabinet": literal(cabinet),
            "node": literal(node),
            "relative": sorted(times)[len(times) // 2],
            "slowest": max(times),
            "gpus": len(times),
        }
        for (cabinet, node), times in sorted(groups.items(), key=lambda group: (group[0][0], _natural(group[0][1])))
    ]
    nodes = sorted({str(row["node"]) for row in rows}, key=_natural)
    largest = max(0.01, *(abs(float(row["relative"]) - 1) for row in rows))
    shades = {"scheme": "blueorange", "domain": [1 - largest, 1 + largest]}
    encoding = {
        "x": label("node", "node", sort=nodes, axis={"labelAngle": 0}),
        "y": label("cabinet"),
        "color": quantity("relative", "relative time", scale=shades),
        "tooltip": tips(
            ("cabinet", "cabinet"),
            ("node", "node"),
            ("relative", "#median"),
            ("slowest", "#slowest"),
            ("gpus", "#GPUs"),
        ),
    }
    spec = marks("rect", encoding, cornerRadius=2)
    return Figure(name, title, literal(work.work.name), whole(spec, {"step": 26}), tuple(rows), PLACES, margin=90)


def straggler_figure(work: "FleetSpread", name: str) -> Figure | Absent:
    """One dot per job size."""
    title = "Cost of slow GPUs for a synchronous job"
    rows: list[Row] = [
        {"k": f"{k} GPUs", "est": cost.est, "lo": cost.lo, "hi": cost.hi}
        for k, cost in work.found.straggler.items()
        if cost.est is not None
    ]
    if not rows:
        return Absent(name, title, "there are not enough GPUs")
    tooltip = tips(("k", "job on"), ("est", "#times the median"), ("lo", "#from"), ("hi", "#to"))
    layers = interval_layers(label("k", sort=None), "time over that of the median GPU", None, tooltip, zero=False)
    return Figure(
        name, title, literal(work.work.name), whole({"layer": layers}, {"step": 24}), tuple(rows), STRAGGLER, margin=80
    )


def trend_figure(work: "FleetSpread", name: str) -> Figure | Absent:
    """One dot per day."""
    title = "Time by day, relative to each GPU's median"
    if len(work.found.drift.daily) < 2:
        return Absent(name, title, "all runs are from one day, or have no timestamp")
    first = work.found.drift.daily[0][0]
    rows: list[Row] = [
        {"days": (at - first) / DAY_S, "day": day(at), "relative": ratio, "runs": runs}
        for at, ratio, runs in work.found.drift.daily[-MOST_POINTS:]
    ]
    encoding = {
        "x": quantity("days", f"days since {day(first)}"),
        "y": quantity("relative", scale=LOOSE),
        "tooltip": tips(("day", "day"), ("relative", "#relative time"), ("runs", "#runs")),
    }
    spec = marks("line", encoding, point={"filled": True, "size": 40}, color=ACCENT)
    return Figure(name, title, literal(work.work.name), whole(spec, 200), tuple(rows), TREND)


def _causes(work: "FleetSpread") -> dict[str, str]:
    return {slow.gpu: slow.cause for slow in work.found.slow}


def _colour(work: "FleetSpread") -> Spec:
    colours = dict(zip(CLASSES, [QUIET, PALETTE[0], PALETTE[5], PALETTE[4], PALETTE[3], PALETTE[2]], strict=True))
    there = [name for name in CLASSES if name == USUAL or name in _causes(work).values()]
    return label("class", scale={"domain": there, "range": [colours[name] for name in there]})


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), "") if name.isdecimal() and len(name) < 12 else (1, 0, name)
