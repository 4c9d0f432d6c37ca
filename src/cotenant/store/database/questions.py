"""Analyses of the database: differences between GPUs, slow ones with onset and cause, faulty sensors."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.analyse.tabular import fields_of, plain
from cotenant.analyse.variability import (
    MOVED,
    Change,
    GpuProfile,
    HeatFit,
    SensorComparison,
    SharedPower,
    SlowGpu,
    Stuck,
    Variability,
    analyse_variability,
    anomalies,
    compare_sensors,
    fit_heat,
    longest_stretch,
    shared_power,
    stuck,
    stuck_sentence,
    undecided_sentences,
)
from cotenant.errors import DatabaseError
from cotenant.store.database.database import Database, MeasuredWork, SensorUse
from cotenant.store.database.index import Source

# --- quality of sensors from their readings: comparison of two of the same quantity, and how power becomes heat

SAME_THING = ("power_instant_w", "power_w", "power_average_w")
"""Sensors of the same power, from the least averaging."""
MOST_READINGS = 20_000
"""Maximum readings used; more add nothing about gain, lag and window."""
FEWEST_READINGS = 30


@dataclass(frozen=True, slots=True)
class SensorPair:
    """Two sensors of the same quantity."""

    reference: SensorUse
    other: SensorUse
    comparison: SensorComparison

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "reference": self.reference._asdict(),
            "other": self.other._asdict(),
            **plain(self.comparison),
        }


@dataclass(frozen=True, slots=True)
class HeatOf:
    """The thermal behaviour of a GPU, from a source."""

    gpu: str
    source: str
    fit: HeatFit | None
    why_not: str = ""


def sensor_pairs(database: Database, gpu: str) -> list[SensorPair]:
    """Sensors of a GPU that read the same power at the same time, each compared with the finest."""
    there = [
        sensor for sensor in database.sensors(gpu) if sensor.sensor in SAME_THING and sensor.readings >= FEWEST_READINGS
    ]
    there.sort(key=lambda sensor: (SAME_THING.index(sensor.sensor), sensor.source))
    found = []
    for other in there[1:]:
        try:
            found.append(SensorPair(there[0], other, _compared(database, there[0], other)))
        except ValueError:
            continue  # they never ran at the same time
    return found


def compare_named(database: Database, reference: str, other: str) -> SensorPair:
    """Two sensors, each selected by words unique to its line in the list; the finer first.

    Raises:
        DatabaseError: The words match no sensor or several, or the two don't overlap in time.
    """
    first, second = (_find(database, words) for words in (reference, other))
    try:
        return SensorPair(first, second, _compared(database, first, second))
    except ValueError as error:
        raise DatabaseError(
            f"{_label(database, first)} and {_label(database, second)} can't be compared: {error}.",
            hint="both need times since 1970 and a load that changes; cotenant db sensors lists all",
        ) from None


def heat_fits(database: Database, gpu: str) -> list[HeatOf]:
    """Thermal fits from every source with power and temperature of a GPU, over its longest gapless interval."""
    by_source: dict[str, dict[str, SensorUse]] = {}
    for sensor in database.sensors(gpu):
        by_source.setdefault(sensor.source, {})[sensor.sensor] = sensor
    found = []
    for source, sensors in by_source.items():
        power = next((sensors[name] for name in SAME_THING if name in sensors), None)
        if power is None or "temperature_c" not in sensors:
            continue
        at_s, watts = longest_stretch(*database.series(power))
        warm_s, warm = database.series(sensors["temperature_c"])
        name = database.sources[source].name
        try:
            found.append(HeatOf(gpu, name, fit_heat(at_s, watts, np.interp(at_s, warm_s, warm))))
        except ValueError as error:
            found.append(HeatOf(gpu, name, None, str(error)))
    return found


def _compared(database: Database, reference: SensorUse, other: SensorUse) -> SensorComparison:
    fine_s, fine = database.series(reference)
    at_s, shown = longest_stretch(*database.series(other))
    if not fine.size or not shown.size:
        raise ValueError("one of them has no readings")
    return compare_sensors(fine_s, fine, at_s[:MOST_READINGS], shown[:MOST_READINGS])


def _find(database: Database, words: str) -> SensorUse:
    every = [(sensor, _label(database, sensor)) for sensor in database.sensors()]
    terms = words.lower().split()
    fitting = [(sensor, label) for sensor, label in every if all(word in label.lower() for word in terms)]
    exact = [pair for pair in fitting if set(terms) >= {pair[0].sensor.lower()}]
    chosen = exact if len(exact) == 1 else fitting
    if len(chosen) == 1:
        return chosen[0][0]
    if not chosen:
        raise DatabaseError(f"No sensor matches all of {words!r}.", hint="all of them: cotenant db sensors")
    names = "; ".join(itertools.islice((label for _, label in chosen), 3))
    raise DatabaseError(f"{words!r} matches {len(chosen)} sensors.", hint=f"add words unique to one: {names}")


def _label(database: Database, sensor: SensorUse) -> str:
    return f"{sensor.gpu} {sensor.sensor} {sensor.origin} {database.sources[sensor.source].name}"


def sensor_lines(database: Database) -> Iterator[tuple[SensorUse, str]]:
    """Every sensor with the name of its source."""
    for sensor in database.sensors():
        yield sensor, database.sources[sensor.source].name


@dataclass(frozen=True, slots=True)
class StuckSensor:
    """A stuck sensor and its GPU."""

    gpu: str
    source: str
    stuck: Stuck

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"gpu": self.gpu, "source": self.source, **plain(self.stuck)}


@dataclass(frozen=True, slots=True)
class GpuUnderWork:
    """A GPU under a kind of work."""

    work: str
    profile: GpuProfile
    place: int
    """1 for the fastest."""
    of: int
    slow: SlowGpu | None
    changes: tuple[Change, ...]
    noun: str = "GPU"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return fields_of(self.profile) | fields_of(self, without=("profile", "noun"))


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a database."""

    home: Path
    sources: tuple[Source, ...]
    works: tuple[MeasuredWork, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return fields_of(self, home="database")


@dataclass(frozen=True, slots=True)
class GpuStory:
    """Everything known about a GPU."""

    gpu: str
    works: tuple[GpuUnderWork, ...]
    sensors: dict[str, int]
    """Readings by sensor."""
    stuck: tuple[StuckSensor, ...]
    pairs: tuple[SensorPair, ...]
    """Its sensors of the same power, compared with the finest of them."""
    heat: tuple[HeatOf, ...]
    shared: tuple[SharedPower, ...]
    """Attribution of its power to concurrent kinds of work."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return fields_of(self, stuck="stuck_sensors", pairs="sensor_pairs", shared="shared_power")


@dataclass(frozen=True, slots=True)
class Anomalies:
    """Anomalies over all work and sensors."""

    works: tuple[Variability, ...]
    stuck: tuple[StuckSensor, ...]

    def sentences(self) -> list[str]:
        """One sentence per anomaly."""
        several = len(self.works) > 1
        found = [
            f"{work.work}: {sentence}" if several else sentence for work in self.works for sentence in anomalies(work)
        ]
        found += [stuck_sentence(sensor.gpu, sensor.stuck) for sensor in self.stuck]
        return found + undecided_sentences(self.works)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "sentences": self.sentences(),
            "slow": [{"work": work.work, **plain(gpu)} for work in self.works for gpu in work.slow],
            "changes": [
                {"work": work.work, **change.to_json()} for work in self.works for change in work.drift.changes
            ],
            "sick_sensors": [{"work": work.work, **plain(sick)} for work in self.works for sick in work.sick_sensors],
            "stuck_sensors": self.stuck,
        }


def variabilities(database: Database, part: str | None = None) -> Iterator[tuple[MeasuredWork, Variability]]:
    """Every kind of work whose name contains the text, singly to bound memory."""
    for work in database.find_work(part):
        yield work, analyse_variability(database.readings(work), work.name, simulated=work.simulated)


def stuck_sensors(database: Database, gpu: str | None = None) -> list[StuckSensor]:
    """Power sensors that were constant while temperature, clock or activity changed."""
    by_place: dict[tuple[str, str], dict[str, SensorUse]] = {}
    for used in database.sensors(gpu):
        by_place.setdefault((used.gpu, used.source), {})[used.sensor] = used
    found = []
    for (name, source), sensors in by_place.items():
        for sensor, use in sensors.items():
            # A simulated GPU at its cap draws exactly constant power; no real GPU does.
            if not sensor.startswith("power") or "limit" in sensor or use.origin.startswith("simulated"):
                continue
            at_s, values = database.series(use)
            witnesses = {}
            for other, place in sensors.items():
                if other in MOVED:
                    seen_at, seen = database.series(place)
                    witnesses[other] = np.interp(at_s, seen_at, seen)
            if (still := stuck(sensor, at_s, values, witnesses)) is not None:
                found.append(StuckSensor(name, source, still))
    return found


def all_anomalies(database: Database, part: str | None = None) -> Anomalies:
    """All anomalies; sensors are skipped if a kind of work is selected."""
    works = tuple(found for _, found in variabilities(database, part))
    return Anomalies(works, tuple(stuck_sensors(database)) if part is None else ())


def gpu_story(database: Database, name: str) -> GpuStory:
    """Everything known about a GPU."""
    sensors: dict[str, int] = {}
    for sensor in database.sensors(name):
        sensors[sensor.sensor] = sensors.get(sensor.sensor, 0) + sensor.readings
    return GpuStory(
        name,
        tuple(_under_works(database, name)),
        sensors,
        tuple(stuck_sensors(database, name)),
        tuple(sensor_pairs(database, name)),
        tuple(heat_fits(database, name)),
        tuple(shared_power(database.drawn(name), name, database.source_names())),
    )


def _under_works(database: Database, name: str) -> list[GpuUnderWork]:
    """A GPU under every kind of work it was measured with."""
    found = []
    for work, seen in variabilities(database):
        profile = next((profile for profile in seen.profiles if profile.gpu == name), None)
        if profile is None:
            continue
        found.append(
            GpuUnderWork(
                work.name,
                profile,
                1 + sum(other.time_ms < profile.time_ms for other in seen.profiles),
                len(seen.profiles),
                next((slow for slow in seen.slow if slow.gpu == name), None),
                tuple(change for change in seen.drift.changes if change.gpu == name),
                seen.noun,
            )
        )
    return found
