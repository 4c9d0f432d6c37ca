"""Service times of tenants alone, for simulating queues."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cotenant.store.identities import Identities
from cotenant.store.reading import OpenRuns
from cotenant.tenancy.identity import TenantIdentity

POINTS = 200
"""Quantiles that represent the requests of a block."""

_SOLO = """
SELECT run, tenants."of", {columns}, trials.block,
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
    SELECT run, tenants."of", {columns},
        started_ns, done_ns, intended_ns, in_window, ok,
        max(done_ns) OVER (PARTITION BY run, trial, tenant ORDER BY started_ns ROWS BETWEEN UNBOUNDED PRECEDING
            AND 1 PRECEDING) AS before_ns
    FROM requests JOIN tenants USING (run, trial, tenant) JOIN trials USING (run, trial)
    WHERE trials.solo AND trials.block >= 0 AND trials.verdict != 'invalid' AND done_ns IS NOT NULL
        AND NOT starts_with(coalesce(tenants.load, trials.load), 'closed')
)
SELECT run, "of", workload, batch, seq, dtype, threads, software, load, settings,
    list((done_ns - started_ns) ORDER BY done_ns)
FROM served WHERE in_window AND coalesce(ok, false) AND intended_ns > before_ns
GROUP BY ALL
"""
FEWEST_PAUSES = 30
"""Requests after a pause that say how long they take."""

_COLUMNS = """tenants.workload, tenants.batch, tenants.seq, tenants.dtype, tenants.threads, tenants.software,
    coalesce(tenants.load, trials.load) AS load, trials.settings"""
_NAMES = ("workload", "batch", "seq", "dtype", "threads", "software", "load", "settings")


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


def service_times(runs: OpenRuns) -> Mapping[tuple[TenantIdentity, str], ServiceTimes]:
    """By identity and name: closed loads, usable trials."""
    points = [(place + 0.5) / POINTS for place in range(POINTS)]
    identities = Identities(runs)
    blocks: dict[tuple[TenantIdentity, str], list[tuple[object, ...]]] = {}
    for run, name, *row in runs.con.execute(_SOLO.format(points=points, columns=_COLUMNS)).fetchall():
        key = identities.of(run, name, **dict(zip(_NAMES, row, strict=False)))
        blocks.setdefault((key, name), []).append(tuple(row[len(_NAMES) + 1 :]))
    return {key: _of(rows) for key, rows in blocks.items()}


def after_pauses(runs: OpenRuns) -> Mapping[TenantIdentity, npt.NDArray[np.float64]]:
    """By identity: times in seconds of requests under open loads that came while nothing ran, alone on the device."""
    points = [(place + 0.5) / POINTS for place in range(POINTS)]
    identities = Identities(runs)
    times: dict[TenantIdentity, list[int]] = {}
    for run, name, *row, taken in runs.con.execute(_AFTER_PAUSE.format(columns=_COLUMNS)).fetchall():
        # Whether the load is open doesn't change what runs.
        key = replace(identities.of(run, name, **dict(zip(_NAMES, row, strict=True))), in_flight=None)
        times.setdefault(key, []).extend(taken)
    return {key: np.quantile(taken, points) / 1e9 for key, taken in times.items() if len(taken) >= FEWEST_PAUSES}


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
