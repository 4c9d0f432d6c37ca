"""The records of runs that a result is computed from: observations, readings of sensors, jobs at fixed clocks."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cotenant.analyse.device_use import SENSORS, SensorSeries, TrialReadings
from cotenant.analyse.dvfs import JobReading
from cotenant.analyse.findings import StageShare
from cotenant.analyse.result import RunRecords
from cotenant.analyse.sharing import Cell
from cotenant.store.manifest import PROFILE_PASS, asked_interval
from cotenant.store.observe import observations
from cotenant.store.portions import TrialKey, of_trials, portions, rows_by_trial
from cotenant.store.reading import OpenRuns, require_requests
from cotenant.store.reduced import Reduced
from cotenant.tenancy.records import STOPPED_BLOCK


def run_records(runs: OpenRuns) -> RunRecords:
    """The records of open runs; they are read while the runs are open.

    Raises:
        RunFolderError: A run has no requests: it was watched.
    """
    require_requests(runs, "a result")
    return RunRecords(
        folders=tuple(runs.paths),
        manifests=tuple(runs.manifests),
        damage=tuple(runs.damage),
        notes=tuple(
            _profiled(path)
            for path, manifest in zip(runs.paths, runs.manifests, strict=True)
            if PROFILE_PASS in manifest
        ),
        target=asked_interval(runs.manifests),
        observations=(seen for seen in observations(runs, raw=True) if seen.block >= 0),
        around=observations(runs, raw=False) if _bracketed(runs) else (),
        reasons=runs.latest_reasons(),
        readings=readings(runs, SENSORS),
        clock_readings=clock_readings(runs),
        stages=lambda: (StageShare(stage.of, stage.stage, stage.mean_ms) for stage in Reduced(runs).stages()),
    )


def _bracketed(runs: OpenRuns) -> bool:
    """Whether some run has solo trials with the other servers stopped."""
    return bool(runs.con.execute("SELECT 1 FROM trials WHERE block <= ? LIMIT 1", [STOPPED_BLOCK]).fetchall())


def _profiled(run: Path) -> str:
    where = shlex.quote(str(run))
    return f"{run} is a profile pass, whose times are not used. Its kernels: cotenant profile {where}"


_TRIALS = """
SELECT run, device, coalesce(simulated, false), settings, load, NOT coalesce(solo, false), mix, sharing, trial,
    window_s, window_start_ns
FROM trials WHERE block >= 0 AND verdict <> 'invalid' AND window_start_ns IS NOT NULL
ORDER BY ALL
"""
_SERVED = """
SELECT run, trial, coalesce(member, ''), count(*)
FROM requests JOIN (SELECT run, trial, tenant, member FROM tenants) USING (run, trial, tenant)
WHERE in_window AND coalesce(ok, false) GROUP BY ALL
"""
_ANY_OF = """
SELECT 1 FROM (SELECT DISTINCT sensor FROM samples)
WHERE EXISTS (SELECT 1 FROM (SELECT unnest($sensors) AS wanted) WHERE sensor LIKE wanted) LIMIT 1
"""
_SERIES = """
SELECT place, device, sensor, any_value(source) AS source, list(t_ns ORDER BY t_ns) AS t_ns,
    list(value ORDER BY t_ns) AS value
FROM ({source}) JOIN (
    SELECT unnest($run) AS run, unnest($trial) AS trial, unnest($place) AS place
) USING (run, trial)
WHERE isfinite(value) AND EXISTS (SELECT 1 FROM (SELECT unnest($sensors) AS wanted) WHERE sensor LIKE wanted)
GROUP BY place, device, sensor ORDER BY place, device, sensor
"""


class _Trial(NamedTuple):
    """A row of `_TRIALS`, after its cell."""

    cell: Cell
    trial: int
    window_s: float
    window_start_ns: int

    @property
    def key(self) -> TrialKey:
        return self.cell.run, self.trial


def readings(runs: OpenRuns, sensors: Sequence[str]) -> Iterator[TrialReadings]:
    """The readings of these sensors (names, or prefixes ending in `%`) of all usable trials.

    Read in portions to bound memory.
    """
    con = runs.con
    if not con.execute(_ANY_OF, {"sensors": list(sensors)}).fetchall():
        return  # counting the requests of each trial is the expensive part
    sizes = rows_by_trial(con, "samples")
    trials = [
        _Trial(Cell(*cell), int(trial), float(window_s), int(start_ns))
        for *cell, trial, window_s, start_ns in con.execute(_TRIALS).fetchall()
    ]
    trials = [trial for trial in trials if trial.key in sizes]
    served: dict[TrialKey, dict[str, int]] = {}
    for run, number, member, count in con.execute(_SERVED).fetchall() if trials else ():
        served.setdefault((run, number), {})[member] = count
    for portion in portions(trials, (sizes[trial.key] for trial in trials)):
        yield from _of_portion(runs, sensors, portion, served)


def _of_portion(
    runs: OpenRuns,
    sensors: Sequence[str],
    trials: Sequence[_Trial],
    served: Mapping[TrialKey, Mapping[str, int]],
) -> Iterator[TrialReadings]:
    found = runs.con.execute(
        _SERIES.format(source=of_trials(runs.files, "samples", (trial.key for trial in trials))),
        {
            "sensors": list(sensors),
            "run": [trial.cell.run for trial in trials],
            "trial": [trial.trial for trial in trials],
            "place": list(range(len(trials))),
        },
    ).fetchnumpy()
    rows = zip(*(found[name] for name in ("place", "device", "sensor", "source", "t_ns", "value")), strict=True)
    for (place, device), of_device in groupby(rows, key=lambda row: (int(row[0]), str(row[1]))):
        trial = trials[place]
        count = _served_on(device, served.get(trial.key, {}))
        if count is None:
            continue
        series = {
            str(sensor): SensorSeries(
                (np.asarray(t_ns, np.int64) - trial.window_start_ns) / 1e9, np.asarray(values, np.float64), str(source)
            )
            for _, _, sensor, source, t_ns, values in of_device
        }
        yield TrialReadings(trial.cell, trial.trial, device, trial.window_s, count, series)


def _served_on(device: str, by_member: Mapping[str, int]) -> int | None:
    """Requests served by a device, from a trial's by member ("": the trial's entire device); None if it was idle."""
    if not by_member:
        return 0
    return min((by_member[name] for name in ("", device) if name in by_member), default=None)


FEWEST_SETTINGS = 3
"""Minimum settings of a sweep; querying the samples is expensive."""
_CLOCKS = ("clock_mhz", "sm_clock_mhz")
_LIMITS = ("power_w", "power_limit_w")

_READINGS = """
WITH alone AS (
    SELECT run, trial, tenant, coalesce(member, trials.device) AS device, mix, settings, window_start_ns AS start_ns,
        window_start_ns + CAST(window_s * 1e9 AS BIGINT) AS end_ns
    FROM trials JOIN tenants USING (run, trial)
    WHERE solo AND block >= 0 AND verdict <> 'invalid'
),
served AS (
    SELECT run, trial, tenant, avg(done_ns - started_ns) / 1e6 AS time_ms
    FROM requests WHERE in_window AND coalesce(ok, false) AND done_ns IS NOT NULL GROUP BY ALL
),
seen AS (
    SELECT samples.run, samples.trial, samples.device, avg(value) FILTER (sensor = 'power_w') AS power_w,
        avg(value) FILTER (sensor IN ('sm_clock_mhz', 'frequency_mhz')) AS clock_mhz
    FROM samples JOIN alone USING (run, trial, device)
    WHERE t_ns BETWEEN start_ns AND end_ns AND sensor IN ('power_w', 'sm_clock_mhz', 'frequency_mhz')
    GROUP BY ALL
)
SELECT run, mix, device, settings, clock_mhz, power_w, time_ms
FROM alone JOIN served USING (run, trial, tenant) JOIN seen USING (run, trial, device)
WHERE power_w IS NOT NULL AND clock_mhz IS NOT NULL
ORDER BY ALL
"""


def clock_readings(runs: OpenRuns) -> tuple[JobReading, ...]:
    """One reading per job, device and trial with clock and power sensors; empty without a sweep."""
    (count,) = runs.con.execute("SELECT count(DISTINCT settings) FROM trials WHERE block >= 0").fetchall()[0]
    if int(count) < FEWEST_SETTINGS:
        return ()
    found = []
    for run, job, device, settings, clock, power, time in runs.con.execute(_READINGS).fetchall():
        controls = _controls(settings)
        found.append(
            JobReading(
                run=run,
                job=job,
                device=device,
                clock_set_mhz=_first(controls, _CLOCKS),
                limit_set_w=_first(controls, _LIMITS),
                clock_mhz=clock,
                power_w=power,
                time_ms=time,
            )
        )
    return tuple(found)


def _controls(settings: str | None) -> dict[str, Any]:
    try:
        read = json.loads(settings or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _first(controls: dict[str, Any], names: tuple[str, ...]) -> float | None:
    values = [controls[name] for name in names if isinstance(controls.get(name), int | float)]
    return float(values[0]) if values else None
