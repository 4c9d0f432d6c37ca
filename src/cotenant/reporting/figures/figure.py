"""A figure: a specification, its rows, and guidance for the reader."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Identifies the specification language; never loaded."""
MOST_POINTS = 2000
"""Maximum rows of one figure: more would be indistinguishable and slow to load."""
EXPORT_WIDTH = 640
STAMP = "SIMULATED: a model computed this; nothing was measured"
STAMP_COLOUR = "#6f2da8"

Row = Mapping[str, Any]
Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Understanding:
    """Guidance shown beside a figure."""

    shows: str
    look: str
    """What to look at first."""
    misleads: str
    """How it could be misread."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. The specification refers to its data as `rows` and contains none."""

    name: str
    """Unique within a report, and a valid file name."""
    title: str
    condition: str
    """Load, setting, device or run, where these vary; else empty."""
    spec: Spec
    rows: tuple[Row, ...]
    understanding: Understanding
    margin: int = 70
    """Width of the vertical axis labels in pixels."""

    def complete(self, *, width: int = EXPORT_WIDTH, simulated: bool = False) -> Spec:
        """The specification with its data and a fixed width, for rendering outside a page.

        Args:
            width: Of the plot, in pixels.
            simulated: Stamp it: figures leave their page, and the page's banner with it.
        """
        spec = deepcopy(self.spec)
        spec["$schema"] = SCHEMA
        spec["data"] = {"name": "rows", "values": [dict(row) for row in self.rows]}
        spec["background"] = "white"
        spec["padding"] = 20
        spec["config"] = spec["config"] | {"font": "sans-serif"}
        title = [self.title, self.condition] if self.condition else self.title
        stamp = {"subtitle": STAMP, "subtitleColor": STAMP_COLOUR, "subtitleFontWeight": "bold"} if simulated else {}
        spec["title"] = {"text": title, "anchor": "start", **stamp}
        inner = spec["spec"] if "facet" in spec else spec
        inner["width"] = width
        if "facet" not in spec:
            spec["autosize"] = {"type": "pad"}
        return spec


@dataclass(frozen=True, slots=True)
class Absent:
    """A figure that can't be drawn from these runs, and why."""

    name: str
    title: str
    reason: str


def harmless(value: Any) -> Any:
    """A value that a spreadsheet doesn't take for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value
