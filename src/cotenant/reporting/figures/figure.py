"""A figure: a specification, the few rows it draws, and what a reader has to know about it."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Names the language of the specification; nothing is ever loaded from there."""
MOST_POINTS = 2000
"""Rows of one figure: more than this no eye can tell apart, and every reader would have to load them."""
EXPORT_WIDTH = 640

Row = Mapping[str, Any]
Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Understanding:
    """What stands beside a figure, in plain words."""

    shows: str
    look: str
    """What to look at first."""
    misleads: str
    """How one could read it wrongly."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. The specification refers to data by the name `rows` and holds none itself."""

    name: str
    """Unique in a report; safe as a file name."""
    title: str
    condition: str
    """Under which load, setting, device or run, where that varies; else empty."""
    spec: Spec
    rows: tuple[Row, ...]
    understanding: Understanding
    margin: int = 70
    """Pixels that the labels of the vertical axis take."""

    def complete(self) -> Spec:
        """The specification with its data and a fixed width, for a renderer that has no page."""
        spec = deepcopy(self.spec)
        spec["$schema"] = SCHEMA
        spec["data"] = {"name": "rows", "values": [dict(row) for row in self.rows]}
        spec["background"] = "white"
        spec["padding"] = 20
        spec["config"] = spec["config"] | {"font": "sans-serif"}
        spec["title"] = {"text": [self.title, self.condition] if self.condition else self.title, "anchor": "start"}
        inner = spec["spec"] if "facet" in spec else spec
        inner["width"] = EXPORT_WIDTH
        if "facet" not in spec:
            spec["autosize"] = {"type": "pad"}
        return spec


@dataclass(frozen=True, slots=True)
class Absent:
    """A figure that can't be drawn from these runs, and why."""

    name: str
    title: str
    reason: str


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value
