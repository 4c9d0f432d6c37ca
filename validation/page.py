"""Accuracy of the simulation, as a page: data, measures and a figure each."""

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

from validation.result import Result, Skipped
from validation.tables import cells, progress, verdict

PARTS = """# Accuracy of the parts of the simulation

Single laws beside measurements: products of layers, kernels, memory, power, fleets, sensors. Written by
`make validate DATA=DIR`; nothing here is edited by hand. The accuracy of studies on simulated GPUs is in
[validation.md](validation.md).

Every figure in the tables is taken over held-out models, GPUs or cabinets, never over random rows, beside those of
trivial baselines on the same rows. Errors are |simulated / measured - 1| unless a measure says
otherwise; where a measure describes a population, the column *measured* has its value in the held-out data.
"""
ENGINES = """# Accuracy of language-model engines

Kernels, steps, loads and generations of engines beside public measurements, by the laws of simulated GPUs. Written by
`make validate DATA=DIR`; nothing here is edited by hand.

Errors are |simulated / measured - 1| over rows that no constant was fitted on, unless a measure says otherwise, beside
those of simple laws on the same rows.
"""
MOST_POINTS = 1500
"""Maximum points in a figure, thinned evenly; tables use all."""
SIZE, EDGE = 420.0, 56.0
"""Size of the square, and of the margin for labels, in pixels."""

STYLE = """<style>
text{font:12px sans-serif;fill:#555}.line{stroke:#999;fill:none}
.out{fill:#0969da;opacity:.6}.fit{fill:#999;opacity:.4}
</style>"""


def markdown(
    results: Sequence[Result], skipped: Sequence[Skipped] = (), *, folder: str | None, head: str = PARTS
) -> str:
    """The page; figures are expected in ``folder`` beside it, None for a page without."""
    parts = [head, _text(verdict(results, skipped)), "", *(f"- {_text(progress(data_set))}" for data_set in skipped)]
    parts += [""] if skipped else []
    for result, figure in zip(results, _names(folder or "", results), strict=True):
        parts += [
            f"## {_text(result.data_set)}: {_text(result.what)}",
            "",
            f"{_text(result.source)}. {result.n} rows, {result.n_held_out} held out. {_text(result.split)}",
            "",
            "| measure | simulated | measured | baselines | target | reached |",
            "|---|---:|---:|---|---|---|",
        ]
        for measure in result.measures:
            unknown = "" if measure.target is None else "no rows"
            reached = unknown if measure.reached is None else "yes" if measure.reached else "**no**"
            fitted = "" if measure.fitted is None else f" (rows used for fitting: {measure.fitted:.3g})"
            name, value, *rest = (_text(cell) for cell in cells(measure))
            parts.append(f"| {name} | {value}{fitted} | {' | '.join(rest)} | {reached} |")
        notes = (*result.notes, *result.left_out)
        parts += ["", *(f"- {_text(note)}" for note in notes), *([""] if notes else [])]
        if result.rows and folder is not None:
            parts += [f"![{_text(result.quantity)}: simulated over measured]({figure})", ""]
    return "\n".join(parts).rstrip() + "\n"


def figures(results: Sequence[Result], *, folder: str) -> dict[str, str]:
    """The figures as SVG, by their path relative to the page."""
    names = _names(folder, results)
    return {name: _figure(result) for name, result in zip(names, results, strict=True) if result.rows}


def _figure(result: Result) -> str:
    every = -(-len(result.rows) // MOST_POINTS)
    rows = result.rows[::every]
    unit = f", {result.unit}" if result.unit else ""
    return scatter(
        [(row.measured, row.simulated, row.held_out) for row in rows],
        across=f"measured {result.quantity}{unit}",
        up=f"simulated {result.quantity}{unit}",
    )


def _names(folder: str, results: Sequence[Result]) -> list[str]:
    """A file per result, numbered within its data set, so that another data set renames nothing."""
    seen: Counter[str] = Counter()
    names = []
    for result in results:
        seen[result.data_set] += 1
        names.append(f"{folder}/{result.data_set}-{seen[result.data_set]}.svg")
    return names


def _text(words: str) -> str:
    """Text escaped for Markdown, also within a table."""
    return words.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


# --- Simulated against measured as a drawing: dots on the diagonal are exact


def scatter(points: Sequence[tuple[float, float, bool]], *, across: str, up: str) -> str:
    """An SVG with a dot per (measured, simulated, held out); logarithmic if values span more than a factor of ten."""
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
