"""Measurements of jobs alone on a device at fixed clocks or power limits."""

import json
from typing import Any

from cotenant.analyse.dvfs import JobReading
from cotenant.store.reading import OpenRuns

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
