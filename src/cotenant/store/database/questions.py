"""What people ask the database: how GPUs differ, which is slow since when and why, which sensor lies."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.analyse.variability.drift import Change
from cotenant.analyse.variability.frequency import (
    BestClock,
    PowerByClock,
    TimeByClock,
    best_clock,
    fit_power,
    fit_time,
)
from cotenant.analyse.variability.profiles import GpuProfile
from cotenant.analyse.variability.sensors import MOVED, Stuck, stuck
from cotenant.analyse.variability.sentences import anomalies, stuck_sentence, undecided_sentences
from cotenant.analyse.variability.slow import SlowGpu
from cotenant.analyse.variability.summary import Variability, analyse_variability
from cotenant.store.database.database import AtSetting, Database, Sensor, Work
from cotenant.store.database.index import Source
from cotenant.store.database.sensing import HeatOf, SensorPair, heat_fits, sensor_pairs
from cotenant.store.database.shared_power import SharedPower, shared_power


@dataclass(frozen=True, slots=True)
class StuckSensor:
    """A sensor that stood still, and whose it is."""

    gpu: str
    source: str
    stuck: Stuck

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"gpu": self.gpu, "source": self.source, **self.stuck.to_json()}


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
            **self.profile.to_json(),
            "place": self.place,
            "of": self.of,
            "slow": None if self.slow is None else self.slow.to_json(),
            "changes": [change.to_json() for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class ClockCurve:
    """What the clock does to one kind of work: means over GPUs, curves where there are clocks enough."""

    work: str
    simulated: bool
    points: tuple[AtSetting, ...]
    power: PowerByClock | None
    time: TimeByClock | None
    best: BestClock | None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "work": self.work,
            "simulated": self.simulated,
            "points": [point._asdict() for point in self.points],
            **{
                name: None if (found := getattr(self, name)) is None else found.to_json()
                for name in ("power", "time", "best")
            },
        }


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a database."""

    home: Path
    sources: tuple[Source, ...]
    works: tuple[Work, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "database": str(self.home),
            "sources": [source.to_json() for source in self.sources],
            "works": [work.to_json() for work in self.works],
        }


@dataclass(frozen=True, slots=True)
class GpuStory:
    """All that is known of one GPU."""

    gpu: str
    works: tuple[GpuUnderWork, ...]
    sensors: dict[str, int]
    """Readings by sensor."""
    stuck: tuple[StuckSensor, ...]
    pairs: tuple[SensorPair, ...]
    """Its sensors of one and the same power, against the finest of them."""
    heat: tuple[HeatOf, ...]
    shared: tuple[SharedPower, ...]
    """Whose its power was while several kinds of work shared it."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "gpu": self.gpu,
            "works": [work.to_json() for work in self.works],
            "sensors": self.sensors,
            "stuck_sensors": [one.to_json() for one in self.stuck],
            "sensor_pairs": [one.to_json() for one in self.pairs],
            "heat": [one.to_json() for one in self.heat],
            "shared_power": [one.to_json() for one in self.shared],
        }


@dataclass(frozen=True, slots=True)
class Anomalies:
    """What is not as it should be, over all work and sensors."""

    works: tuple[Variability, ...]
    stuck: tuple[StuckSensor, ...]

    def sentences(self) -> list[str]:
        """One for each."""
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
            "slow": [{"work": work.work, **one.to_json()} for work in self.works for one in work.slow],
            "changes": [{"work": work.work, **one.to_json()} for work in self.works for one in work.drift.changes],
            "sick_sensors": [{"work": work.work, **one.to_json()} for work in self.works for one in work.sick_sensors],
            "stuck_sensors": [one.to_json() for one in self.stuck],
        }


def variabilities(database: Database, part: str | None = None) -> Iterator[tuple[Work, Variability]]:
    """Every kind of work whose name holds the text, one after another: memory holds one at a time."""
    for work in database.find_work(part):
        yield work, analyse_variability(database.readings(work), work.name, simulated=work.simulated)


def stuck_sensors(database: Database, gpu: str | None = None) -> list[StuckSensor]:
    """Power sensors that stood still while temperature, clock or activity moved."""
    by_place: dict[tuple[str, str], dict[str, Sensor]] = {}
    for one in database.sensors(gpu):
        by_place.setdefault((one.gpu, one.source), {})[one.sensor] = one
    found = []
    for (name, source), sensors in by_place.items():
        for sensor, one in sensors.items():
            # A simulated GPU at its cap draws the same to the last digit; no real one does.
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
    """What is not as it should be; sensors are looked at unless one kind of work is asked for."""
    works = tuple(found for _, found in variabilities(database, part))
    return Anomalies(works, tuple(stuck_sensors(database)) if part is None else ())


def gpu_story(database: Database, name: str) -> GpuStory:
    """All that is known of one GPU."""
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
        tuple(shared_power(database, name)),
    )


def _under_works(database: Database, name: str) -> list[GpuUnderWork]:
    """A GPU under every kind of work that it was measured with."""
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


def clock_curves(database: Database) -> list[ClockCurve]:
    """Time and power over the clock, for work that was measured under at least three settings."""
    groups: dict[tuple[str, bool, str | None], list[AtSetting]] = {}
    for point in database.at_settings():
        groups.setdefault((point.work, point.simulated, point.model), []).append(point)
    return [
        _curve(f"{work} on {model}" if model else work, simulated, points)
        for (work, simulated, model), points in groups.items()
        if len({point.settings for point in points}) >= 3
    ]


def _curve(work: str, simulated: bool, points: list[AtSetting]) -> ClockCurve:
    clock = np.array([round(point.clock_mhz) for point in points], dtype=np.float64)
    time = np.array([point.time_ms for point in points])
    power = np.array([np.nan if point.power_w is None else point.power_w for point in points])
    powered = bool(np.isfinite(power).all())
    different = np.unique(clock).size
    return ClockCurve(
        work,
        simulated,
        tuple(points),
        fit_power(clock, power) if powered and different >= 5 else None,
        fit_time(clock, time) if different >= 3 else None,
        best_clock(clock, power, time) if powered and different >= 2 else None,
    )
