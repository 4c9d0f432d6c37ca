"""A database of many GPUs as one HTML text."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotenant import __version__
from cotenant.analyse.estimates import Floats
from cotenant.analyse.variability import (
    Box,
    ClockCurve,
    Variability,
    analyse_variability,
    anomalies,
    boxes,
    clock_curves,
    headline,
    heat_sentence,
    opening,
    stuck_sentence,
    undecided_sentences,
)
from cotenant.reporting.figures.clocks import clock_figures, timeline_figures
from cotenant.reporting.figures.figure import Absent, Figure
from cotenant.reporting.figures.variability import fleet_figures
from cotenant.reporting.html.assets import columnar, embedded_json, environment, markup, policy, resource, scripts
from cotenant.reporting.results.varied import gpu_rows, level_columns, level_rows, pair_said
from cotenant.store.database import (
    BITS,
    CLOCKS,
    Database,
    MeasuredWork,
    SensorUse,
    Source,
    StuckSensor,
    add,
    heat_fits,
    sensor_pairs,
    stuck_sensors,
)
from cotenant.text import NOTHING, percent

# --- contents of a report about many GPUs, reduced from a database or from runs with several members

MOST_WORKS = 12
"""Maximum kinds of work drawn; a sweep has hundreds of settings, which the clock curves show together."""
MOST_TIMELINES = 6
POINTS = 150
SHOWN = (*CLOCKS, "power_w", "temperature_c")


@dataclass(frozen=True, slots=True)
class FleetSpread:
    """One kind of work on all GPUs."""

    work: MeasuredWork
    found: Variability
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class HeldStretch:
    """An interval during which the clock was held down."""

    from_s: float
    to_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class SensorTimeline:
    """Sensors of one GPU in one source; seconds since its first reading."""

    gpu: str
    source: str
    lines: dict[str, tuple[Floats, Floats]]
    """By sensor: times and values, averaged over intervals."""
    held: tuple[HeldStretch, ...]
    said: tuple[str, ...] = ()
    """Sentences on agreement between sensors, and on how power becomes heat."""


@dataclass(frozen=True, slots=True)
class FleetMaterial:
    """Contents of the report."""

    home: str
    sources: tuple[Source, ...]
    works: tuple[FleetSpread, ...]
    left_out: int
    """Number of kinds of work not drawn."""
    timelines: tuple[SensorTimeline, ...]
    curves: tuple[ClockCurve, ...]
    stuck: tuple[StuckSensor, ...]

    @property
    def simulated(self) -> bool:
        """Whether any of it was computed by a model instead of measured."""
        return any(fleet.work.simulated for fleet in self.works)

    @property
    def measured(self) -> bool:
        """Some of it was measured."""
        return any(not fleet.work.simulated for fleet in self.works)


def gather(database: Database, part: str | None = None) -> FleetMaterial:
    """Collect all work whose name contains the text. Raises DatabaseError if there is none."""
    every = database.find_work(part)
    compared = [work for work in every if work.gpus > 1] or every
    works = []
    for work in compared[:MOST_WORKS]:
        readings = database.readings(work)
        variability = analyse_variability(readings, work.name, simulated=work.simulated)
        works.append(FleetSpread(work, variability, boxes(readings)))
    stuck = tuple(stuck_sensors(database))
    names = database.source_names()
    return FleetMaterial(
        home=str(database.home),
        sources=tuple(database.sources.values()),
        works=tuple(works),
        left_out=len(compared) - len(works),
        timelines=tuple(_timelines(database, [work.found for work in works], stuck, names)),
        curves=tuple(clock_curves(database.at_settings())),
        stuck=stuck,
    )


def gather_runs(runs: Sequence[Path]) -> FleetMaterial:
    """The same for runs outside a database. Raises RunFolderError if one can't be read."""
    with tempfile.TemporaryDirectory(prefix="cotenant-") as scratch:
        home = Path(scratch) / "database"
        add(runs, home)
        with Database.open(home) as database:
            return gather(database)


def _timelines(
    database: Database, works: Sequence[Variability], stuck: Sequence[StuckSensor], names: dict[str, str]
) -> list[SensorTimeline]:
    """GPUs with a stuck sensor first, then slow ones, then the rest in order."""
    sensors: dict[tuple[str, str], dict[str, SensorUse]] = {}
    for sensor in database.sensors():
        sensors.setdefault((sensor.gpu, sensor.source), {})[sensor.sensor] = sensor
    notable = [gpu.gpu for gpu in stuck] + [slow.gpu for work in works for slow in work.slow]
    order = {gpu: number for number, gpu in reversed(list(enumerate(notable)))}
    chosen = sorted(sensors, key=lambda source: (order.get(source[0], len(order)), source))[:MOST_TIMELINES]
    timelines = []
    for gpu, source in chosen:
        lines = {name: database.series(sensor) for name, sensor in sensors[gpu, source].items() if name in SHOWN}
        lines = {name: line for name, line in lines.items() if line[0].size > 1}
        if not lines:
            continue
        begin = min(float(times[0]) for times, _ in lines.values())
        timelines.append(
            SensorTimeline(
                gpu,
                names.get(source, source),
                {name: _averaged(times - begin, values) for name, (times, values) in lines.items()},
                tuple(_held(database, sensors[gpu, source], begin)),
                _said(database, gpu, source, names.get(source, source)),
            )
        )
    return timelines


def _said(database: Database, gpu: str, source: str, name: str) -> tuple[str, ...]:
    pairs = [pair for pair in sensor_pairs(database, gpu) if pair.other.source == source]
    heat = [fit.fit for fit in heat_fits(database, gpu) if fit.source == name and fit.fit is not None]
    return (*map(pair_said, pairs), *map(heat_sentence, heat))


def _averaged(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    bins = np.minimum((times / max(float(times[-1]), 1e-9) * POINTS).astype(np.int64), POINTS - 1)
    count = np.bincount(bins, minlength=POINTS)
    some = count > 0
    middle, mean = (np.bincount(bins, column, POINTS)[some] / count[some] for column in (times, values))
    return middle, mean


def _held(database: Database, sensors: dict[str, SensorUse], begin: float) -> list[HeldStretch]:
    """Intervals with a reason: a counter of throttled time grew, or the driver's bits named one."""
    stretches: list[HeldStretch] = []
    for name, sensor in sensors.items():
        if name == "event_reasons":
            times, values = database.series(sensor)
            for mask, reason in BITS.items():
                stretches += _stretches(times - begin, (values.astype(np.int64) & mask) > 0, reason)
        elif name.startswith("throttled_"):
            times, values = database.series(sensor)
            grew = np.concatenate(([False], np.diff(values) > 0))
            stretches += _stretches(
                times - begin, grew, name.removeprefix("throttled_").removesuffix("_s").replace("_", " ")
            )
    return stretches


def _stretches(times: Floats, on: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]", reason: str) -> list[HeldStretch]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], on, [False])).astype(np.int8)))
    return [
        HeldStretch(float(times[max(0, a - 1)]), float(times[b - 1]), reason)
        for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    ]


MOST_GPUS_LISTED = 200
SECTIONS = {
    "boxes": "Every device",
    "scatter": "Correlations",
    "places": "Where",
    "straggler": "What it costs",
    "trend": "Over time",
}


def fleet_page(material: FleetMaterial) -> str:
    """One HTML text without external resources."""
    drawn = fleet_figures(material)
    sections: list[tuple[str, str, list[Figure | Absent]]] = [
        (kind, heading, _drawable(drawn[kind])) for kind, heading in SECTIONS.items() if drawn[kind]
    ]
    if curves := clock_figures(material.curves):
        sections.append(("clock", "Clocks", [*curves]))
    if timelines := timeline_figures(material.timelines):
        sections.append(("timelines", "Sensors", [*timelines]))
    figures = [figure for _, _, many in sections for figure in many if isinstance(figure, Figure)]
    several = len(material.works) > 1
    anomalous = [
        f"{work.work.name}: {sentence}" if several else sentence
        for work in material.works
        for sentence in anomalies(work.found)
    ]
    texts = scripts()
    data = {
        "figures": {
            figure.name: {"spec": figure.spec, "margin": figure.margin} | columnar(figure.rows) for figure in figures
        }
    }
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
            opening=opening([work.found for work in material.works]),
            works=[_summary(work) for work in _by_spread(material.works)],
            anomalies=anomalous + [stuck_sentence(gpu.gpu, gpu.stuck) for gpu in material.stuck],
            undecided=undecided_sentences([work.found for work in material.works]),
            sections=sections,
            tables=[
                (work.work.name, _levels(work), gpu_rows(work.found)[:MOST_GPUS_LISTED], work.found.noun)
                for work in material.works
            ],
            sources=[
                (
                    source.name,
                    source.kind,
                    source.gpus,
                    source.measurements,
                    source.readings,
                    source.added_utc,
                    "; ".join(source.left_out),
                )
                for source in material.sources
            ],
        )
    )


def _by_spread(works: Sequence[FleetSpread]) -> list[FleetSpread]:
    return sorted(works, key=lambda work: -(work.found.variation.whisker_range.est or 0.0))


def _summary(work: FleetSpread) -> tuple[str, str, str, str, list[str]]:
    """A line about one kind of work, and all its sentences."""
    seen = work.found.variation
    within = NOTHING if seen.repeatability.est is None else percent(seen.repeatability.est)
    apart = NOTHING if seen.whisker_range.est is None else percent(seen.whisker_range.est)
    return work.work.name, apart, within, f"{seen.gpus:,}", headline(work.found)


def _levels(work: FleetSpread) -> list[tuple[str | int, ...]]:
    """Headings, then rows; empty if no level varies."""
    rows = level_rows(work.found)
    return [level_columns(work.found), *rows] if rows else []


def _drawable(drawn: list[Figure | Absent]) -> list[Figure | Absent]:
    """The figures that could be drawn, else one reason."""
    return [figure for figure in drawn if isinstance(figure, Figure)] or drawn[:1]
