"""Quality of sensors from their readings: comparison of two of the same quantity, and how power becomes heat."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.analyse.tabular import plain
from cotenant.analyse.variability.heat import HeatFit, fit_heat
from cotenant.analyse.variability.sensors import SensorComparison, compare_sensors, longest_stretch
from cotenant.errors import DatabaseError
from cotenant.store.database.database import Database, Sensor

SAME_THING = ("power_instant_w", "power_w", "power_average_w")
"""Sensors of one power, from the least averaging."""
MOST_READINGS = 20_000
"""Maximum readings used; more add nothing about gain, lag and window."""
FEWEST_READINGS = 30


@dataclass(frozen=True, slots=True)
class SensorPair:
    """Two sensors of the same quantity."""

    reference: Sensor
    other: Sensor
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
    """The thermal behaviour of one GPU, from one source."""

    gpu: str
    source: str
    fit: HeatFit | None
    why_not: str = ""


def sensor_pairs(database: Database, gpu: str) -> list[SensorPair]:
    """Sensors of one GPU that read the same power at the same time, each compared with the finest."""
    there = [one for one in database.sensors(gpu) if one.sensor in SAME_THING and one.readings >= FEWEST_READINGS]
    there.sort(key=lambda one: (SAME_THING.index(one.sensor), one.source))
    found = []
    for other in there[1:]:
        try:
            found.append(SensorPair(there[0], other, _compared(database, there[0], other)))
        except ValueError:
            continue  # they never ran at the same time
    return found


def compare_named(database: Database, reference: str, other: str) -> SensorPair:
    """Two sensors, each selected by words unique to its line in the list; the finer one first.

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
    by_source: dict[str, dict[str, Sensor]] = {}
    for one in database.sensors(gpu):
        by_source.setdefault(one.source, {})[one.sensor] = one
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


def _compared(database: Database, reference: Sensor, other: Sensor) -> SensorComparison:
    fine_s, fine = database.series(reference)
    at_s, shown = longest_stretch(*database.series(other))
    if not fine.size or not shown.size:
        raise ValueError("one of them has no readings")
    return compare_sensors(fine_s, fine, at_s[:MOST_READINGS], shown[:MOST_READINGS])


def _find(database: Database, words: str) -> Sensor:
    every = [(one, _label(database, one)) for one in database.sensors()]
    wanted = words.lower().split()
    fitting = [(one, label) for one, label in every if all(word in label.lower() for word in wanted)]
    exact = [pair for pair in fitting if set(wanted) >= {pair[0].sensor.lower()}]
    chosen = exact if len(exact) == 1 else fitting
    if len(chosen) == 1:
        return chosen[0][0]
    if not chosen:
        raise DatabaseError(f"No sensor matches all of {words!r}.", hint="all of them: cotenant db sensors")
    names = "; ".join(itertools.islice((label for _, label in chosen), 3))
    raise DatabaseError(f"{words!r} matches {len(chosen)} sensors.", hint=f"add words unique to one: {names}")


def _label(database: Database, one: Sensor) -> str:
    return f"{one.gpu} {one.sensor} {one.origin} {database.sources[one.source].name}"


def sensor_lines(database: Database) -> Iterator[tuple[Sensor, str]]:
    """Every sensor with the name of its source."""
    for one in database.sensors():
        yield one, database.sources[one.source].name
