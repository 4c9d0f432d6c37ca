"""Simulated against measured as a drawing: dots on the diagonal are exact."""

import math
from collections.abc import Sequence
from html import escape

SIZE, EDGE = 420.0, 56.0
"""Size of the square, and of the margin for labels, in pixels."""

STYLE = """<style>
text{font:12px sans-serif;fill:#555}.line{stroke:#999;fill:none}
.out{fill:#0969da;opacity:.6}.fit{fill:#999;opacity:.4}
</style>"""


def scatter(points: Sequence[tuple[float, float, bool]], *, across: str, up: str) -> str:
    """An SVG with one dot per (measured, simulated, held out); logarithmic if values span more than a factor of ten."""
    values = [value for x, y, _ in points for value in (x, y) if math.isfinite(value)]
    low, high = min(values), max(values)
    logarithmic = low > 0 and high / low > 10
    scale = _Scale(low, high, logarithmic)
    dots = [
        f'<circle cx="{scale.x(x):.1f}" cy="{scale.y(y):.1f}" r="2.5" class="{"out" if held_out else "fit"}"/>'
        for x, y, held_out in points
        if math.isfinite(x) and math.isfinite(y)
    ]
    ticks = [
        f'<text x="{scale.x(tick):.1f}" y="{SIZE - EDGE + 18:.0f}" text-anchor="middle">{tick:g}</text>'
        f'<text x="{EDGE - 8:.0f}" y="{scale.y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in scale.ticks()
    ]
    corner, far = EDGE, SIZE - EDGE
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE:g} {SIZE:g}" width="{SIZE:g}" role="img">',
            f"<title>{escape(up)} over {escape(across)}</title>",
            STYLE,
            f'<rect x="0" y="0" width="{SIZE:g}" height="{SIZE:g}" fill="#fff"/>',
            f'<rect x="{corner:g}" y="{corner:g}" width="{far - corner:g}" height="{far - corner:g}" class="line"/>',
            f'<line x1="{corner:g}" y1="{far:g}" x2="{far:g}" y2="{corner:g}" class="line"/>',
            *dots,
            *ticks,
            f'<text x="{SIZE / 2:g}" y="{SIZE - 14:g}" text-anchor="middle">{escape(across)}</text>',
            f'<text x="-{SIZE / 2:g}" y="14" text-anchor="middle" transform="rotate(-90)">{escape(up)}</text>',
            f'<text x="{corner:g}" y="20">blue: held out, grey: used for fitting</text>',
            "</svg>\n",
        )
    )


class _Scale:
    """Values to pixels, the same on both axes so that the diagonal is equality."""

    def __init__(self, low: float, high: float, logarithmic: bool) -> None:
        self._into = math.log10 if logarithmic else float
        self._back = (lambda value: 10.0**value) if logarithmic else float
        start, end = self._into(low), self._into(high)
        room = 0.04 * (end - start) or 0.5
        self._start, self._end = start - room, end + room

    def x(self, value: float) -> float:
        return EDGE + self._share(value) * (SIZE - 2 * EDGE)

    def y(self, value: float) -> float:
        return SIZE - EDGE - self._share(value) * (SIZE - 2 * EDGE)

    def ticks(self) -> list[float]:
        """Five evenly spaced values, with few digits."""
        places = [self._start + (self._end - self._start) * k / 4 for k in range(5)]
        return [float(f"{self._back(place):.3g}") for place in places]

    def _share(self, value: float) -> float:
        return (self._into(value) - self._start) / (self._end - self._start)
