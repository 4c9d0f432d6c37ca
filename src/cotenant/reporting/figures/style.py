"""Style of figures: colours that work on white and on black, thin axes, no ornament."""

import math
from typing import Any

PALETTE = ["#3578b9", "#d9702f", "#2a9270", "#a95bb0", "#a8871d", "#7a5c3e", "#6c7a89", "#1491a3"]
ACCENT = PALETTE[0]
QUIET = "#868e96"
"""For references and secondary elements; visible on white and on black."""
LIMIT = "#cf3a4a"
"""For objectives."""
DARKEST_AT = 4.0
"""Slowdown with the strongest colour."""
LOOSE = {"zero": False}
"""A scale that may begin anywhere."""
WARMEST = 0.62
"""Opacity of the strongest colour; text stays readable on white and on black."""

CONFIG: dict[str, Any] = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "range": {"category": PALETTE},
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": 500, "labelLimit": 220, "gridOpacity": 0.5},
    "axisX": {"labelSeparation": 4},
    "axisY": {"titleAlign": "left", "titleAnchor": "end", "titleAngle": 0, "titleX": 0, "titleY": -10},
    "legend": {
        "orient": "top",
        "direction": "horizontal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "labelLimit": 260,
        "symbolStrokeWidth": 2.5,
        "columns": 3,
        "offset": 24,
        "layout": {"top": {"direction": "vertical", "anchor": "start"}},
    },
    "header": {
        "labelFontSize": 13,
        "labelFontWeight": 600,
        "labelAnchor": "start",
        "labelOrient": "top",
        "title": None,
        "labelLimit": 420,
    },
    "point": {"filled": True, "size": 70},
    "rule": {"strokeWidth": 2},
    "line": {"strokeWidth": 2},
    "aria": False,
}
"""The page describes each figure; marks would only repeat numbers one by one."""


def whole(spec: dict[str, Any], height: int | dict[str, int]) -> dict[str, Any]:
    """A specification that fills the width of its container."""
    return {
        "data": {"name": "rows"},
        "config": CONFIG,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
    } | spec


def faceted(
    field: str, order: list[str], spec: dict[str, Any], height: int | dict[str, int], resolve: dict[str, Any]
) -> dict[str, Any]:
    """One panel per value of a field, stacked vertically; the page sets their width.

    The default order is that of the data.
    """
    return {
        "data": {"name": "rows"},
        "config": CONFIG,
        "facet": {"row": {"field": field, "type": "nominal", "sort": order or None, "title": None}},
        "spec": {"width": 600, "height": height} | spec,
        "resolve": resolve,
        "spacing": 34,
    }


def quantity(field: str, title: str | None = None, **more: Any) -> dict[str, Any]:
    """A channel of figures."""
    return {"field": field, "type": "quantitative", "title": title} | more


def label(field: str, title: str | None = None, **more: Any) -> dict[str, Any]:
    """A channel of names."""
    return {"field": field, "type": "nominal", "title": title} | more


def known(field: str) -> dict[str, Any]:
    """Only rows that have this field."""
    return {"filter": {"field": field, "valid": True}}


def equal(field: str, value: Any) -> dict[str, Any]:
    """Only rows whose field has this value."""
    return {"filter": {"field": field, "equal": value}}


def marks(kind: str, encoding: dict[str, Any], *only: dict[str, Any] | str, **style: Any) -> dict[str, Any]:
    """Marks of one kind for the rows that pass these filters."""
    filters = [{"filter": each} if isinstance(each, str) else each for each in only]
    transform = {"transform": filters} if filters else {}
    return transform | {"mark": {"type": kind} | style, "encoding": encoding}


def colour(field: str, order: list[str], title: str) -> dict[str, Any]:
    """Colours in the order of the names, so that a name has one colour throughout a figure."""
    shades = [PALETTE[i % len(PALETTE)] for i in range(len(order))]
    return label(field, title, sort=None, scale={"domain": order, "range": shades})


def interval_layers(
    y: dict[str, Any], x_title: str, colouring: dict[str, Any] | None, tooltip: list[dict[str, Any]], zero: bool
) -> list[dict[str, Any]]:
    """An estimate as a dot on the line of its interval (`est`, `lo`, `hi`)."""
    scale = {"zero": zero, "nice": True}
    shared = {"y": y} | ({"color": colouring} if colouring else {"color": {"value": ACCENT}})
    line = {"x": quantity("lo", x_title, scale=scale), "x2": {"field": "hi"}}
    dot = {"x": quantity("est", x_title, scale=scale), "tooltip": tooltip}
    return [
        marks("rule", shared | line, known("lo"), known("hi")),
        marks("point", shared | dot, known("est"), filled=True, opacity=1),
    ]


def tips(*fields: tuple[str, str]) -> list[dict[str, Any]]:
    """Tooltip lines; numbers with four digits."""
    return [
        quantity(field, title[1:], format=".4~g") if title[0] == "#" else label(field, title) for field, title in fields
    ]


def interval_rows_height(lines: int) -> dict[str, int]:
    """Height of a panel with this many lines of dots."""
    return {"step": 26 if lines > 1 else 34}


def warmth(slowdown: float | None) -> float:
    """Opacity of the colour of a slowdown."""
    doublings = math.log2(slowdown) if slowdown else 0.0
    return round(min(WARMEST, abs(doublings) / math.log2(DARKEST_AT) * WARMEST), 3)
