"""Service times of tenants alone, for simulating queues."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.store.reading import OpenRuns

POINTS = 200
"""Quantiles that represent the requests of a block."""

_SOLO = """
SELECT tenants.workload, tenants.batch, tenants.seq, tenants.dtype, tenants.threads, tenants."of", run, trials.block,
    quantile_cont(done_ns - started_ns, {points}),
    avg(done_ns - started_ns), avg(first_ns - started_ns),
    avg((done_ns - first_ns) / (tokens_out - 1)) FILTER (tokens_out > 1), max(tokens_out), count(*)
FROM requests JOIN tenants USING (run, trial, tenant) JOIN trials USING (run, trial)
WHERE trials.solo AND trials.block >= 0 AND trials.verdict != 'invalid'
    AND in_window AND coalesce(ok, false) AND done_ns IS NOT NULL
    AND starts_with(coalesce(tenants.load, trials.load), 'closed')
GROUP BY ALL ORDER BY run, trials.block
"""

_AFTER_PAUSE = """
WITH served AS (
    SELECT tenants.workload, tenants.batch, tenants.seq, tenants.dtype, tenants.threads,
        started_ns, done_ns, intended_ns, in_window, ok,
        max(done_ns) OVER (PARTITION BY run, trial, tenant ORDER BY started_ns ROWS BETWEEN UNBOUNDED PRECEDING
            AND 1 PRECEDING) AS before_ns
    FROM requests JOIN tenants USING (run, trial, tenant) JOIN trials USING (run, trial)
    WHERE trials.solo AND trials.block >= 0 AND trials.verdict != 'invalid' AND done_ns IS NOT NULL
        AND NOT starts_with(coalesce(tenants.load, trials.load), 'closed')
)
SELECT workload, batch, seq, dtype, threads, count(*), quantile_cont(done_ns - started_ns, {points})
FROM served WHERE in_window AND coalesce(ok, false) AND intended_ns > before_ns
GROUP BY ALL
"""
FEWEST_PAUSES = 30
"""Requests after a pause that say how long they take."""

Key = tuple[str, int | None, int | None, str | None, int | None]
"""Workload, batch, length, number format, threads."""


@dataclass(frozen=True, slots=True)
class ServiceTimes:
    """A tenant's requests alone, over all blocks of all runs."""

    drawn_s: npt.NDArray[np.float64]
    """By block, `POINTS` of each."""
    means_s: tuple[float, ...]
    """Mean by block: the drift of the device."""
    requests: tuple[int, ...]
    """By block."""
    first_s: float | None
    """Until the first output; None if that is the end."""
    step_s: float | None
    """Per output after that."""
    outputs: int


def service_times(runs: OpenRuns) -> Mapping[tuple[Key, str], ServiceTimes]:
    """By workload and tenant name: closed loads, usable trials."""
    points = [(place + 0.5) / POINTS for place in range(POINTS)]
    blocks: dict[tuple[Key, str], list[tuple[object, ...]]] = {}
    for row in runs.con.execute(_SOLO.format(points=points)).fetchall():
        blocks.setdefault((tuple(row[:5]), row[5]), []).append(row[8:])
    return {key: _of(rows) for key, rows in blocks.items()}


def after_pauses(runs: OpenRuns) -> Mapping[Key, npt.NDArray[np.float64]]:
    """By workload: times in seconds of requests under open loads that came while nothing ran, alone on the device."""
    points = [(place + 0.5) / POINTS for place in range(POINTS)]
    rows = runs.con.execute(_AFTER_PAUSE.format(points=points)).fetchall()
    return {tuple(row[:5]): np.asarray(row[6], np.float64) / 1e9 for row in rows if row[5] >= FEWEST_PAUSES}


def _of(rows: list[tuple[object, ...]]) -> ServiceTimes:
    outputs = max(int(row[4] or 1) for row in rows)  # type: ignore[call-overload]
    return ServiceTimes(
        drawn_s=np.array([row[0] for row in rows], np.float64) / 1e9,
        means_s=tuple(float(row[1]) / 1e9 for row in rows),  # type: ignore[arg-type]
        requests=tuple(int(row[5]) for row in rows),  # type: ignore[call-overload]
        first_s=_mean([row[2] for row in rows]) if outputs > 1 else None,
        step_s=_mean([row[3] for row in rows]) if outputs > 1 else None,
        outputs=outputs,
    )


def _mean(values: list[object]) -> float | None:
    known = [float(value) for value in values if value is not None]  # type: ignore[arg-type]
    return float(np.mean(known)) / 1e9 if known else None
