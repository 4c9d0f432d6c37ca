"""Every figure of a report, in reading order."""

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant import opening
from cotenant.errors import CotenantError
from cotenant.reporting.figures.devices import devices_figure
from cotenant.reporting.figures.figure import EXPORT_WIDTH, Absent, Figure, harmless
from cotenant.reporting.figures.latency import latency_figure, slowdown_figure
from cotenant.reporting.figures.load_curves import load_figure, sweep_figure
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.names import Condition
from cotenant.reporting.figures.roofline import roofline_figure
from cotenant.reporting.figures.sensors import sensors_figure
from cotenant.reporting.figures.work import fairness_figure, stages_figure, stp_figure, throughput_figure

if TYPE_CHECKING:
    from cotenant.reporting.html.variability_page import FleetMaterial


MOST_LINES_TOGETHER = 60

Drawn = Sequence[Figure | Absent]


def figures(material: Material) -> dict[str, Drawn]:
    """Figures by kind, for every condition and run; a missing kind is reported once."""
    by_condition: dict[str, Callable[[Material, Condition], Figure | Absent]] = {
        "slowdown": slowdown_figure,
        "latency": latency_figure,
        "stages": stages_figure,
    }
    conditions = material.names.conditions or [Condition("", "", "")]
    figures = {
        kind: _drawable([draw(material, condition) for condition in conditions]) for kind, draw in by_condition.items()
    }
    together: dict[str, Callable[[Material, Sequence[Condition]], Figure | Absent]] = {
        "throughput": throughput_figure,
        "stp": stp_figure,
        "fairness": fairness_figure,
    }
    # A few lines are easier to compare in one figure.
    few = len(material.summary.tenants) <= MOST_LINES_TOGETHER
    groups = [conditions] if few else [[condition] for condition in conditions]
    figures |= {kind: _drawable([draw(material, group) for group in groups]) for kind, draw in together.items()}
    figures["sweeps"] = [sweep_figure(material)]
    figures["load"] = [load_figure(material)]
    figures["roofline"] = _drawable([roofline_figure(material, run) for run in material.runs])
    figures["sensors"] = _drawable([sensors_figure(material, run) for run in material.runs])
    order = ("sweeps", "slowdown", "latency", "throughput", "stp", "fairness", "load", "stages", "roofline", "sensors")
    fleet = every_fleet_figure(material.fleet) if material.fleet is not None else []
    devices = devices_figure(material)
    found: dict[str, Drawn] = {kind: figures[kind] for kind in order} | ({"variability": fleet} if fleet else {})
    return found | ({"devices": [devices]} if devices is not None else {})


def every_fleet_figure(fleet: "FleetMaterial") -> list[Figure | Absent]:
    """Figures about the members of a group, by kind; missing ones are left out, since others say more."""
    from cotenant.reporting.figures.clocks import clock_figures, timeline_figures  # most runs have a single device
    from cotenant.reporting.figures.variability import fleet_figures

    drawn = [figure for many in fleet_figures(fleet).values() for figure in many if isinstance(figure, Figure)]
    return [*drawn, *clock_figures(fleet.curves), *timeline_figures(fleet.timelines)]


def _drawable(drawn: Drawn) -> Drawn:
    """The figures that could be drawn, else one reason; names numbered if there are several."""
    real = [figure for figure in drawn if isinstance(figure, Figure)]
    if not real:
        return drawn[:1]
    if len(real) == 1:
        return real
    return [replace(figure, name=f"{figure.name}-{number}") for number, figure in enumerate(real, 1)]


# --- export figures as SVG and PNG files

LANGUAGE = "6.4"
"""The version of Vega-Lite, the same as in the HTML report."""
SCALE = 2.0
COLUMN_WIDTH = 252
"""3.5 inches at 72 points: a column of a two-column paper."""
GUTTER = 18
MOST_SHRUNK = 1.8
"""A drawing wider than this many columns goes over two: its letters would be smaller than 6 points."""
SIZE = re.compile(r'\b(width|height)="([\d.]+)"')
PRINTED = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"]
"""Okabe and Ito's colours: told apart in print and by colour-blind readers."""


def export_figures(
    figures: Iterable[Figure], folder: Path, *, simulated: bool = False, paper: bool = False
) -> list[Path]:
    """Write each figure as SVG and PNG, or for a paper as SVG and PDF with its data, and return the paths.

    Args:
        figures: What to draw.
        folder: Where; made if necessary.
        simulated: Stamp every figure SIMULATED.
        paper: As wide as a column, in colours that print, with the rows as CSV.

    Raises:
        CotenantError: The renderer is not installed, or the folder can't be written to.
    """
    try:
        import vl_convert
    except ImportError:
        raise CotenantError(
            "figures as files need vl-convert, which is not installed.",
            hint="pip install 'cotenant[figures]', or use the figures in the HTML report",
        ) from None
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            spec = figure.complete(width=COLUMN_WIDTH if paper else EXPORT_WIDTH, simulated=simulated)
            if paper:
                spec["config"] = spec["config"] | {"range": {"category": PRINTED}}
            svg = folder / f"{figure.name}.svg"
            other = folder / f"{figure.name}.{'pdf' if paper else 'png'}"
            # Load nothing: the data is in the specification.
            given: Any = {"vl_version": LANGUAGE, "allowed_base_urls": []}
            drawing = vl_convert.vegalite_to_svg(spec, **given)
            svg.write_text(_printed(drawing, "pt") if paper else drawing, encoding="utf-8")
            if paper:
                other.write_bytes(vl_convert.svg_to_pdf(_printed(drawing)))
                written += [svg, other, _data(figure, folder)]
            else:
                other.write_bytes(vl_convert.vegalite_to_png(spec, scale=SCALE, **given))
                written += [svg, other]
    except OSError as error:
        raise CotenantError(
            f"figures can't be written to {folder}: {opening.why(error)}.",
            hint="choose another folder: --figures DIR",
        ) from None
    return written


def _printed(drawing: str, unit: str = "") -> str:
    """The same drawing as wide as a column, or as two of them; its view box keeps what is inside."""
    head, end, rest = drawing.partition(">")
    sizes = {name: float(value) for name, value in SIZE.findall(head)}
    columns = 1 if sizes["width"] <= MOST_SHRUNK * COLUMN_WIDTH else 2
    scale = (columns * COLUMN_WIDTH + (columns - 1) * GUTTER) / sizes["width"]
    return SIZE.sub(lambda size: f'{size[1]}="{sizes[size[1]] * scale:.4g}{unit}"', head) + end + rest


def _data(figure: Figure, folder: Path) -> Path:
    path = folder / f"{figure.name}.csv"
    columns = list(dict.fromkeys(name for row in figure.rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        table.writerows({name: harmless(value) for name, value in row.items()} for row in figure.rows)
    return path
