"""Reduce records for drawing: the database counts and averages, Python sees a few thousand rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.analyse.sharing import Cell
from cotenant.store.portions import TrialKey, of_trials, portions, rows_by_trial
from cotenant.store.reading import OpenRuns

MOST_TRIALS_DRAWN = 6
"""Trials of a mix whose timelines are kept, spread evenly over the run."""
MOST_TIMELINE_POINTS = 8_000
MOST_BINS = 40
FEWEST_BINS = 8
SAMPLE_BINS = 150
RATES = {"s": "s per s", "count": "per s", "J": "W"}
"""Units of counters, and the unit of their rate."""

_SCALES = {"B": 2**30}
_DRAWN = """
SELECT cell, block, run, trial FROM numbered JOIN (SELECT run, trial, block FROM trials) USING (run, trial)
WHERE drawn ORDER BY ALL
"""
_TIMELINES = """
WITH timed AS (
    SELECT cell, block, tenant, window_s, (done_ns - intended_ns) / 1e6 AS latency_ms,
        floor((intended_ns - window_start_ns) / (window_s * 1e9) * $bins) AS bin
    FROM ({source})
        JOIN numbered USING (run, trial)
        JOIN (SELECT run, trial, block, window_start_ns, window_s FROM trials) USING (run, trial)
    WHERE in_window AND ok AND done_ns IS NOT NULL
)
SELECT cell, block, tenant, (greatest(0, least($bins - 1, bin)) + 0.5) * window_s / $bins AS t_s,
    median(latency_ms), max(latency_ms)
FROM timed GROUP BY ALL ORDER BY ALL
"""
_STAGES = """
SELECT cell, tenant, any_value(coalesce("of", tenant)), stage, sum(start_ns - started_ns), sum(duration_ns), count(*)
FROM ({stages})
    JOIN (SELECT run, trial, tenant, seq, started_ns FROM ({requests}) WHERE in_window AND ok)
        USING (run, trial, tenant, seq)
    JOIN (SELECT run, trial, tenant, "of" FROM ({tenants})) USING (run, trial, tenant)
    JOIN numbered USING (run, trial)
GROUP BY cell, tenant, stage
"""
_SERVED = """
SELECT cell, tenant, count(*) FROM ({requests}) JOIN numbered USING (run, trial)
WHERE in_window AND ok GROUP BY cell, tenant
"""
_BEGUN = "SELECT run, trial, began_s, start_ns FROM numbered JOIN trials USING (run, trial)"
_SPANS = """
SELECT run, min(t_s) AS first, greatest(max(t_s) - min(t_s), 1e-9) AS span
FROM (
    SELECT run, began_s + (t_ns - start_ns) / 1e9 AS t_s
    FROM samples JOIN begun USING (run, trial)
)
GROUP BY run
"""
_STRETCHES = """
WITH placed AS (
    SELECT run, sensor, unit, began_s + (t_ns - start_ns) / 1e9 AS t_s,
        CASE WHEN list_contains($counters, unit)
            THEN (value - lag(value) OVER earlier) / nullif(t_ns - lag(t_ns) OVER earlier, 0) * 1e9
            ELSE value END AS value
    FROM ({source}) JOIN begun USING (run, trial)
    WINDOW earlier AS (PARTITION BY run, trial, device, sensor ORDER BY t_ns)
)
SELECT run, sensor, any_value(unit), least(floor((t_s - first) / span * $bins), $bins - 1) AS bin, sum(t_s), sum(value),
    count(*)
FROM placed JOIN spans USING (run)
WHERE t_s IS NOT NULL AND isfinite(value)
GROUP BY run, sensor, bin
"""
"""Sums instead of means, since an interval may span several portions. Rates are within a trial of a device."""


@dataclass(frozen=True, slots=True)
class TenantFacts:
    """Facts about a tenant of a cell, besides its times."""

    rate_rps: float | None
    flops_per_request: float | None
    bytes_per_request: float | None
    dtype: str | None


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """One trial."""

    cell: Cell
    trial: int
    block: int
    began_s: float | None
    """Seconds since the run's first trial began."""
    window_s: float
    verdict: str
    failed_checks: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """An interval of a trial's window as seen by a tenant."""

    cell: Cell
    block: int
    tenant: str
    t_s: float
    median_ms: float
    slowest_ms: float


@dataclass(frozen=True, slots=True)
class StageTime:
    """Mean time that requests of a tenant of a cell spend in a stage, over all its repetitions in a request."""

    cell: Cell
    tenant: str
    of: str
    stage: str
    mean_ms: float
    n: int


@dataclass(frozen=True, slots=True)
class SamplePoint:
    """A sensor's values over an interval of a run. Counters are given as rates."""

    run: str
    sensor: str
    unit: str
    t_s: float
    value: float


class Reduced:
    """Queries open runs, without calibration trials."""

    def __init__(self, runs: OpenRuns) -> None:
        self._con = con = runs.con
        self._files = runs.files
        self.trials = self._read_trials()
        self._cells = list(dict.fromkeys(trial.cell for trial in self.trials))
        numbers = {cell: number for number, cell in enumerate(self._cells)}
        drawn = {(trial.cell.run, trial.trial) for trial in _spread(self.trials)}
        columns = {
            "runs": [trial.cell.run for trial in self.trials],
            "trials": [trial.trial for trial in self.trials],
            "cells": [numbers[trial.cell] for trial in self.trials],
            "began": [trial.began_s for trial in self.trials],
            "drawn": [(trial.cell.run, trial.trial) in drawn for trial in self.trials],
        }
        con.execute(
            """
            CREATE OR REPLACE TEMP TABLE numbered AS
            SELECT cast(unnest($runs) AS VARCHAR) AS run, cast(unnest($trials) AS INTEGER) AS trial,
                cast(unnest($cells) AS INTEGER) AS cell, cast(unnest($began) AS DOUBLE) AS began_s,
                cast(unnest($drawn) AS BOOLEAN) AS drawn
            """,
            columns,
        )

    def _read_trials(self) -> tuple[TrialFacts, ...]:
        rows = self._con.execute(
            """
            SELECT run, device, coalesce(simulated, false), settings, load, NOT coalesce(solo, false), mix, sharing,
                trial, block, began - min(began) OVER (PARTITION BY run), window_s, verdict, failed_checks, reasons
            FROM (SELECT *, epoch(try_cast(started_utc AS TIMESTAMPTZ)) AS began FROM trials)
            WHERE block >= 0 ORDER BY run, block, "order", trial
            """
        ).fetchall()
        return tuple(
            TrialFacts(Cell(*cell), number, block, began, window, verdict, tuple(checks or ()), tuple(reasons or ()))
            for *cell, number, block, began, window, verdict, checks, reasons in rows
        )

    def tenants(self) -> dict[tuple[Cell, str], TenantFacts]:
        """Rates and sizes of every tenant of every cell, by role: the same on every member of a group."""
        rows = self._con.execute(
            """
            SELECT cell, CASE WHEN member IS NULL THEN tenant ELSE regexp_replace(tenant, '@[^@]*$', '') END AS role,
                avg(rate_rps), any_value(flops_per_request), any_value(bytes_per_request), any_value(dtype)
            FROM tenants JOIN numbered USING (run, trial) GROUP BY ALL
            """
        ).fetchall()
        return {(self._cells[cell], tenant): TenantFacts(*facts) for cell, tenant, *facts in rows}

    def timelines(self) -> tuple[TimelinePoint, ...]:
        """Latency over the windows of some trials of every cell."""
        counted = self._con.execute("SELECT count(*) FROM tenants JOIN numbered USING (run, trial) WHERE drawn")
        series = (counted.fetchone() or (0,))[0]
        bins = int(np.clip(MOST_TIMELINE_POINTS // max(1, series), FEWEST_BINS, MOST_BINS))
        sizes = rows_by_trial(self._con, "requests")
        groups: dict[tuple[int, int], list[TrialKey]] = {}
        for cell, block, run, trial in self._con.execute(_DRAWN).fetchall():
            if (run, trial) in sizes:
                groups.setdefault((cell, block), []).append((run, trial))
        points: list[TimelinePoint] = []
        # Medians need an entire group at once; several groups only share a query.
        for portion in portions(list(groups.values()), (sum(sizes[key] for key in keys) for keys in groups.values())):
            source = of_trials(self._files, "requests", (key for keys in portion for key in keys))
            rows = self._con.execute(_TIMELINES.format(source=source), {"bins": bins}).fetchall()
            points += [TimelinePoint(self._cells[cell], *point) for cell, *point in rows]
        return tuple(points)

    def stages(self) -> tuple[StageTime, ...]:
        """Mean time of every stage, in the order of execution."""
        stages = rows_by_trial(self._con, "stages")
        if not stages:
            return ()
        requests = rows_by_trial(self._con, "requests")
        usable = ((trial.cell.run, trial.trial) for trial in self.trials if trial.verdict != "invalid")
        keys = [key for key in usable if key in requests and key in stages]
        self._con.execute(
            """
            CREATE OR REPLACE TEMP TABLE staged
                (cell INTEGER, tenant VARCHAR, "of" VARCHAR, stage VARCHAR, began DOUBLE, took DOUBLE, n BIGINT)
            """
        )
        self._con.execute("CREATE OR REPLACE TEMP TABLE served (cell INTEGER, tenant VARCHAR, n BIGINT)")
        for portion in portions(keys, (requests[key] + stages[key] for key in keys)):
            parts = {table: of_trials(self._files, table, portion) for table in ("stages", "requests", "tenants")}
            self._con.execute(f"INSERT INTO staged {_STAGES.format(**parts)}")
            self._con.execute(f"INSERT INTO served {_SERVED.format(**parts)}")
        rows = self._con.execute(
            """
            WITH requests_of AS (SELECT cell, tenant, sum(n) AS requests FROM served GROUP BY cell, tenant)
            SELECT cell, tenant, any_value("of"), stage, sum(began) / sum(n) AS began,
                sum(took) / any_value(requests) / 1e6, any_value(requests)
            FROM staged JOIN requests_of USING (cell, tenant) GROUP BY cell, tenant, stage ORDER BY cell, tenant, began
            """
        ).fetchall()
        return tuple(
            StageTime(self._cells[cell], tenant, of, stage, mean_ms, int(n))
            for cell, tenant, of, stage, _, mean_ms, n in rows
        )

    def samples(self) -> tuple[SamplePoint, ...]:
        """Readings of every sensor over each run, in at most `SAMPLE_BINS` intervals."""
        sizes = rows_by_trial(self._con, "samples")
        keys = [key for key in ((trial.cell.run, trial.trial) for trial in self.trials) if key in sizes]
        if not keys:
            return ()
        self._con.execute(f"CREATE OR REPLACE TEMP TABLE begun AS {_BEGUN}")
        self._con.execute(f"CREATE OR REPLACE TEMP TABLE spans AS {_SPANS}")
        self._con.execute(
            """
            CREATE OR REPLACE TEMP TABLE stretches
                (run VARCHAR, sensor VARCHAR, unit VARCHAR, bin DOUBLE, t_sum DOUBLE, value_sum DOUBLE, n BIGINT)
            """
        )
        for portion in portions(keys, (sizes[key] for key in keys)):
            source = of_trials(self._files, "samples", portion)
            self._con.execute(
                f"INSERT INTO stretches {_STRETCHES.format(source=source)}",
                {"bins": SAMPLE_BINS, "counters": list(RATES)},
            )
        rows = self._con.execute(
            """
            SELECT run, sensor, any_value(unit), sum(t_sum) / sum(n) AS t_s, sum(value_sum) / sum(n)
            FROM stretches GROUP BY run, sensor, bin ORDER BY run, sensor, t_s
            """
        ).fetchall()
        return tuple(
            SamplePoint(run, *_shown(sensor, unit or ""), t, value / _SCALES.get(unit, 1))
            for run, sensor, unit, t, value in rows
        )


def _shown(sensor: str, unit: str) -> tuple[str, str]:
    """The displayed names of a sensor and its unit."""
    if unit == "B":
        return sensor.removesuffix("_bytes"), "GiB"
    return sensor.removesuffix("_s") if unit == "s" else sensor, RATES.get(unit, unit)


def _spread(trials: Sequence[TrialFacts]) -> list[TrialFacts]:
    """At most `MOST_TRIALS_DRAWN` trials of every cell, spread evenly over the run."""
    by_cell: dict[Cell, list[TrialFacts]] = {}
    for trial in trials:
        by_cell.setdefault(trial.cell, []).append(trial)
    chosen = []
    for group in by_cell.values():
        places = np.unique(np.linspace(0, len(group) - 1, min(len(group), MOST_TRIALS_DRAWN)).round().astype(int))
        chosen += [group[place] for place in places]
    return chosen
