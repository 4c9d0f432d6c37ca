"""Analyses of the database: differences between GPUs, slow ones with onset and cause, faulty sensors."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.analyse.tabular import plain
from cotenant.analyse.variability.drift import Change
from cotenant.analyse.variability.profiles import GpuProfile
from cotenant.analyse.variability.sensors import MOVED, Stuck, stuck
from cotenant.analyse.variability.sentences import anomalies, stuck_sentence, undecided_sentences
from cotenant.analyse.variability.shared_power import SharedPower, shared_power
from cotenant.analyse.variability.slow import SlowGpu
from cotenant.analyse.variability.summary import Variability, analyse_variability
from cotenant.store.database.database import Database, Sensor, Work
from cotenant.store.database.index import Source
from cotenant.store.database.sensing import HeatOf, SensorPair, heat_fits, sensor_pairs


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
    """One GPU under one kind of work."""

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
        return {
            "work": self.work,
            **plain(self.profile),
            "place": self.place,
            "of": self.of,
            "slow": self.slow,
            "changes": self.changes,
        }


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a database."""

    home: Path
    sources: tuple[Source, ...]
    works: tuple[Work, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "database": str(self.home),
            "sources": self.sources,
            "works": self.works,
        }


@dataclass(frozen=True, slots=True)
class GpuStory:
    """Everything known about one GPU."""

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
        return {
            "gpu": self.gpu,
            "works": self.works,
            "sensors": self.sensors,
            "stuck_sensors": self.stuck,
            "sensor_pairs": self.pairs,
            "heat": self.heat,
            "shared_power": self.shared,
        }


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
        found += [stuck_sentence(one.gpu, one.stuck) for one in self.stuck]
        return found + undecided_sentences(self.works)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "sentences": self.sentences(),
            "slow": [{"work": work.work, **plain(one)} for work in self.works for one in work.slow],
            "changes": [{"work": work.work, **one.to_json()} for work in self.works for one in work.drift.changes],
            "sick_sensors": [{"work": work.work, **plain(one)} for work in self.works for one in work.sick_sensors],
            "stuck_sensors": self.stuck,
        }


def variabilities(database: Database, part: str | None = None) -> Iterator[tuple[Work, Variability]]:
    """Every kind of work whose name contains the text, one at a time to bound memory."""
    for work in database.find_work(part):
        yield work, analyse_variability(database.readings(work), work.name, simulated=work.simulated)


def stuck_sensors(database: Database, gpu: str | None = None) -> list[StuckSensor]:
    """Power sensors that were constant while temperature, clock or activity changed."""
    by_place: dict[tuple[str, str], dict[str, Sensor]] = {}
    for one in database.sensors(gpu):
        by_place.setdefault((one.gpu, one.source), {})[one.sensor] = one
    found = []
    for (name, source), sensors in by_place.items():
        for sensor, one in sensors.items():
            # A simulated GPU at its cap draws exactly constant power; no real one does.
            if not sensor.startswith("power") or "limit" in sensor or one.origin.startswith("simulated"):
                continue
            at_s, values = database.series(one)
            witnesses = {}
            for other, place in sensors.items():
                if other in MOVED:
                    seen_at, seen = database.series(place)
                    witnesses[other] = np.interp(at_s, seen_at, seen)
            if (still := stuck(sensor, at_s, values, witnesses)) is not None:
                found.append(StuckSensor(name, source, still))
    return found


def all_anomalies(database: Database, part: str | None = None) -> Anomalies:
    """All anomalies; sensors are skipped if one kind of work is selected."""
    works = tuple(found for _, found in variabilities(database, part))
    return Anomalies(works, tuple(stuck_sensors(database)) if part is None else ())


def gpu_story(database: Database, name: str) -> GpuStory:
    """Everything known about one GPU."""
    sensors: dict[str, int] = {}
    for one in database.sensors(name):
        sensors[one.sensor] = sensors.get(one.sensor, 0) + one.readings
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
        profile = next((one for one in seen.profiles if one.gpu == name), None)
        if profile is None:
            continue
        found.append(
            GpuUnderWork(
                work.name,
                profile,
                1 + sum(other.time_ms < profile.time_ms for other in seen.profiles),
                len(seen.profiles),
                next((one for one in seen.slow if one.gpu == name), None),
                tuple(change for change in seen.drift.changes if change.gpu == name),
                seen.noun,
            )
        )
    return found
