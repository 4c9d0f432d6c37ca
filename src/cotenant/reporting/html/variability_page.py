"""A database of many GPUs as one HTML text."""

from collections.abc import Sequence

from cotenant import __version__
from cotenant.analyse.variability.opening import opening
from cotenant.analyse.variability.sentences import anomalies, headline, stuck_sentence, undecided_sentences
from cotenant.reporting.figures.clocks import clock_figures, timeline_figures
from cotenant.reporting.figures.figure import Absent, Figure
from cotenant.reporting.figures.variability import fleet_figures
from cotenant.reporting.html.assets import environment, markup, policy, resource, scripts
from cotenant.reporting.html.embedding import columnar, embedded_json
from cotenant.reporting.html.variability_material import FleetMaterial, FleetWork
from cotenant.reporting.terminal.variability import gpu_rows, level_columns, level_rows
from cotenant.text import NOTHING, percent

MOST_GPUS_LISTED = 200
SECTIONS = {
    "boxes": "Every device",
    "scatter": "Correlations",
    "places": "Where",
    "straggler": "What it costs",
    "trend": "Over time",
}


def page(material: FleetMaterial) -> str:
    """One HTML text without external resources."""
    drawn = fleet_figures(material)
    sections: list[tuple[str, str, list[Figure | Absent]]] = [
        (kind, heading, _drawable(drawn[kind])) for kind, heading in SECTIONS.items() if drawn[kind]
    ]
    if curves := clock_figures(material.curves):
        sections.append(("clock", "Clocks", [*curves]))
    if timelines := timeline_figures(material.timelines):
        sections.append(("timelines", "Sensors", [*timelines]))
    figures = [one for _, _, many in sections for one in many if isinstance(one, Figure)]
    several = len(material.works) > 1
    anomalous = [
        f"{one.work.name}: {sentence}" if several else sentence
        for one in material.works
        for sentence in anomalies(one.found)
    ]
    texts = scripts()
    data = {"figures": {one.name: {"spec": one.spec, "margin": one.margin} | columnar(one.rows) for one in figures}}
    return (
        environment()
        .get_template("variability.html.j2")
        .render(
            version=__version__,
            policy=policy(texts),
            style=markup(resource("templates", "report.css")),
            scripts=[markup(text) for text in texts],
            data=markup(embedded_json(data)),
            material=material,
            opening=opening([one.found for one in material.works]),
            works=[_summary(one) for one in _by_spread(material.works)],
            anomalies=anomalous + [stuck_sentence(one.gpu, one.stuck) for one in material.stuck],
            undecided=undecided_sentences([one.found for one in material.works]),
            sections=sections,
            tables=[
                (one.work.name, _levels(one), gpu_rows(one.found)[:MOST_GPUS_LISTED], one.found.noun)
                for one in material.works
            ],
            sources=[
                (one.name, one.kind, one.gpus, one.measurements, one.readings, one.added_utc, "; ".join(one.left_out))
                for one in material.sources
            ],
        )
    )


def _by_spread(works: Sequence[FleetWork]) -> list[FleetWork]:
    return sorted(works, key=lambda one: -(one.found.variation.whisker_range.est or 0.0))


def _summary(one: FleetWork) -> tuple[str, str, str, str, list[str]]:
    """A line about one kind of work, and all its sentences."""
    seen = one.found.variation
    within = NOTHING if seen.repeatability.est is None else percent(seen.repeatability.est)
    apart = NOTHING if seen.whisker_range.est is None else percent(seen.whisker_range.est)
    return one.work.name, apart, within, f"{seen.gpus:,}", headline(one.found)


def _levels(one: FleetWork) -> list[tuple[str | int, ...]]:
    """Headings, then rows; empty if no level varies."""
    rows = level_rows(one.found)
    return [level_columns(one.found), *rows] if rows else []


def _drawable(drawn: list[Figure | Absent]) -> list[Figure | Absent]:
    """The figures that could be drawn, else one reason."""
    return [one for one in drawn if isinstance(one, Figure)] or drawn[:1]
