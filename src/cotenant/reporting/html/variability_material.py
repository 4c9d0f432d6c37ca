"""Contents of a report about many GPUs, reduced from a database or from runs with several members."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotenant.analyse.estimates.intervals import Floats
from cotenant.analyse.variability.clock_curves import ClockCurve, clock_curves
from cotenant.analyse.variability.profiles import Box, boxes
from cotenant.analyse.variability.sentences import heat_sentence
from cotenant.analyse.variability.summary import Variability, analyse_variability
from cotenant.reporting.terminal.variability import pair_said
from cotenant.store.database.add import add
from cotenant.store.database.database import Database, Sensor, Work
from cotenant.store.database.from_runs import BITS, CLOCKS
from cotenant.store.database.index import Source
from cotenant.store.database.questions import StuckSensor, stuck_sensors
from cotenant.store.database.sensing import heat_fits, sensor_pairs

MOST_WORKS = 12
"""Maximum kinds of work drawn; a sweep has hundreds of settings, which the clock curves show together."""
MOST_TIMELINES = 6
POINTS = 150
SHOWN = (*CLOCKS, "power_w", "temperature_c")


@dataclass(frozen=True, slots=True)
class FleetWork:
    """One kind of work on all GPUs."""

    work: Work
    found: Variability
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """An interval during which the clock was held down."""

    from_s: float
    to_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Sensors of one GPU in one source; seconds since its first reading."""

    gpu: str
    source: str
    lines: dict[str, tuple[Floats, Floats]]
    """By sensor: times and values, averaged over intervals."""
    held: tuple[Stretch, ...]
    said: tuple[str, ...] = ()
    """Sentences on agreement between sensors, and on how power becomes heat."""


@dataclass(frozen=True, slots=True)
class FleetMaterial:
    """Contents of the report."""

    home: str
    sources: tuple[Source, ...]
    works: tuple[FleetWork, ...]
    left_out: int
    """Number of kinds of work not drawn."""
    timelines: tuple[Timeline, ...]
    curves: tuple[ClockCurve, ...]
    stuck: tuple[StuckSensor, ...]

    @property
    def simulated(self) -> bool:
        """Whether any of it was computed by a model instead of measured."""
        return any(one.work.simulated for one in self.works)


def gather(database: Database, part: str | None = None) -> FleetMaterial:
    """Collect all work whose name contains the text. Raises DatabaseError if there is none."""
    every = database.find_work(part)
    compared = [work for work in every if work.gpus > 1] or every
    works = []
    for work in compared[:MOST_WORKS]:
        readings = database.readings(work)
        found = analyse_variability(readings, work.name, simulated=work.simulated)
        works.append(FleetWork(work, found, boxes(readings)))
    stuck = tuple(stuck_sensors(database))
    names = database.source_names()
    return FleetMaterial(
        home=str(database.home),
        sources=tuple(database.sources.values()),
        works=tuple(works),
        left_out=len(compared) - len(works),
        timelines=tuple(_timelines(database, [one.found for one in works], stuck, names)),
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
) -> list[Timeline]:
    """GPUs with a stuck sensor first, then slow ones, then the rest in order."""
    sensors: dict[tuple[str, str], dict[str, Sensor]] = {}
    for one in database.sensors():
        sensors.setdefault((one.gpu, one.source), {})[one.sensor] = one
    notable = [one.gpu for one in stuck] + [slow.gpu for work in works for slow in work.slow]
    order = {gpu: place for place, gpu in reversed(list(enumerate(notable)))}
    chosen = sorted(sensors, key=lambda place: (order.get(place[0], len(order)), place))[:MOST_TIMELINES]
    found = []
    for gpu, source in chosen:
        lines = {name: database.series(one) for name, one in sensors[gpu, source].items() if name in SHOWN}
        lines = {name: line for name, line in lines.items() if line[0].size > 1}
        if not lines:
            continue
        begin = min(float(times[0]) for times, _ in lines.values())
        found.append(
            Timeline(
                gpu,
                names.get(source, source),
                {name: _averaged(times - begin, values) for name, (times, values) in lines.items()},
                tuple(_held(database, sensors[gpu, source], begin)),
                _said(database, gpu, source, names.get(source, source)),
            )
        )
    return found


def _said(database: Database, gpu: str, source: str, name: str) -> tuple[str, ...]:
    pairs = [one for one in sensor_pairs(database, gpu) if one.other.source == source]
    heat = [one.fit for one in heat_fits(database, gpu) if one.source == name and one.fit is not None]
    return (*map(pair_said, pairs), *map(heat_sentence, heat))


def _averaged(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    bins = np.minimum((times / max(float(times[-1]), 1e-9) * POINTS).astype(np.int64), POINTS - 1)
    count = np.bincount(bins, minlength=POINTS)
    some = count > 0
    middle, mean = (np.bincount(bins, column, POINTS)[some] / count[some] for column in (times, values))
    return middle, mean


def _held(database: Database, sensors: dict[str, Sensor], begin: float) -> list[Stretch]:
    """Intervals with a reason: a counter of throttled time grew, or the driver's bits named one."""
    found: list[Stretch] = []
    for name, one in sensors.items():
        if name == "event_reasons":
            times, values = database.series(one)
            for mask, reason in BITS.items():
                found += _stretches(times - begin, (values.astype(np.int64) & mask) > 0, reason)
        elif name.startswith("throttled_"):
            times, values = database.series(one)
            grew = np.concatenate(([False], np.diff(values) > 0))
            found += _stretches(
                times - begin, grew, name.removeprefix("throttled_").removesuffix("_s").replace("_", " ")
            )
    return found


def _stretches(times: Floats, on: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]", reason: str) -> list[Stretch]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], on, [False])).astype(np.int8)))
    return [
        Stretch(float(times[max(0, a - 1)]), float(times[b - 1]), reason)
        for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    ]
