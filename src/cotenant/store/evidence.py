"""From records to what comparing and explaining see: observations with their circumstances."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cotenant.analyse.evidence import TenantEvidence, Work
from cotenant.store import views
from cotenant.store.observe import observations

if TYPE_CHECKING:
    import duckdb

CLOCKS = ("frequency_mhz", "sm_clock_mhz")
"""Of a CPU and of a GPU: a trial has one of them."""
BUSY, OWN, STEAL = "cpu_busy_s", "own_cpu_s", "cpu_steal_s"

Key = tuple[str, int, str]

_TENANTS = """
SELECT run, trial, tenant, workload, batch, seq, dtype, threads, flops_per_request, bytes_per_request,
    coalesce(tenants.load, trials.load), rate_rps, switches_voluntary, observed, facts, peak_memory_bytes,
    coalesce(started_utc, '')
FROM tenants JOIN trials USING (run, trial)
"""
_SERVICE = """
SELECT run, trial, tenant, avg(done_ns - started_ns)
FROM requests WHERE in_window AND coalesce(ok, false) AND done_ns IS NOT NULL
GROUP BY ALL
"""
_STAGES = """
SELECT run, trial, tenant, stage, sum(duration_ns) / count(DISTINCT seq)
FROM stages SEMI JOIN (FROM requests WHERE in_window AND coalesce(ok, false)) USING (run, trial, tenant, seq)
GROUP BY ALL ORDER BY min(start_ns)
"""
_SAMPLES = """
SELECT run, trial, sensor, list(t_ns ORDER BY t_ns), list(value ORDER BY t_ns), any_value(window_start_ns),
    any_value(window_s)
FROM samples JOIN trials USING (run, trial)
WHERE sensor IN (?, ?, ?, ?, ?) AND value IS NOT NULL AND NOT isnan(value) AND window_start_ns IS NOT NULL
GROUP BY ALL
"""


class _TenantRow(NamedTuple):
    """A row of `_TENANTS`, after its key."""

    workload: str
    batch: int | None
    seq: int | None
    dtype: str | None
    threads: int | None
    flops: float | None
    moved: float | None
    load: str
    rate_rps: float | None
    switches_voluntary: int | None
    observed: str | None
    facts: str | None
    peak_memory_bytes: int | None
    started_utc: str


def evidence(runs: Sequence[Path], cores: dict[str, int]) -> list[TenantEvidence]:
    """Every tenant of every trial that belongs to a block.

    Args:
        runs: Run folders.
        cores: By run: how many cores its device has, to tell what part of them others used.

    Raises:
        RunFolderError: A run can't be read.
    """
    con = views.connect(runs)
    try:
        facts = {row[:3]: _TenantRow._make(row[3:]) for row in con.execute(_TENANTS).fetchall()}
        service = {row[:3]: row[3] for row in con.execute(_SERVICE).fetchall()}
        stages: dict[Key, dict[str, float]] = {}
        for *key, stage, duration_ns in con.execute(_STAGES).fetchall():
            stages.setdefault((key[0], key[1], key[2]), {})[stage] = float(duration_ns)
        around = _circumstances(con, cores)
    finally:
        con.close()
    found = []
    for seen in observations(runs, raw=False):
        if seen.block < 0:
            continue
        key = seen.run, seen.trial, seen.tenant
        row = facts[key]
        found.append(
            TenantEvidence(
                seen=seen,
                work=Work(row.workload, row.batch, row.seq, row.dtype, row.threads, row.flops, row.moved),
                load=row.load,
                rate_rps=row.rate_rps,
                service_ns=service.get(key),
                switches_voluntary=row.switches_voluntary,
                device_clock=_entry(row.observed, "device_clock", str),
                peak_memory_bytes=row.peak_memory_bytes,
                working_set_bytes=_entry(row.facts, "working_set_bytes", int),
                stages_ns=stages.get(key, {}),
                started_utc=row.started_utc,
                **around.get((seen.run, seen.trial), {}),
            )
        )
    return found


def _entry(text: str | None, name: str, kind: type) -> Any:
    """One entry of a column that holds JSON, if it is there and of its type."""
    try:
        value = json.loads(text or "{}").get(name)
    except (ValueError, AttributeError, RecursionError):
        return None
    return value if isinstance(value, kind) else None


def _circumstances(
    con: "duckdb.DuckDBPyConnection", cores: dict[str, int]
) -> dict[tuple[str, int], dict[str, float | None]]:
    sensors: dict[tuple[str, int], dict[str, float]] = {}
    for run, trial, sensor, t_ns, values, start_ns, window_s in con.execute(
        _SAMPLES, [*CLOCKS, BUSY, OWN, STEAL]
    ).fetchall():
        t, value = np.asarray(t_ns, np.float64), np.asarray(values, np.float64)
        end_ns = start_ns + window_s * 1e9
        of_trial = sensors.setdefault((run, trial), {})
        if sensor in CLOCKS:
            inside = value[(t >= start_ns) & (t <= end_ns)]
            if inside.size:
                of_trial[sensor] = float(inside.mean())
        elif t.size >= 2 and t[-1] >= end_ns:
            before, after = np.interp([start_ns, end_ns], t, value)
            of_trial[sensor] = float(after - before) / (window_s * cores.get(run, 1))
    found: dict[tuple[str, int], dict[str, float | None]] = {}
    for key, shares in sensors.items():
        foreign = max(shares[BUSY] - shares[OWN], 0.0) if BUSY in shares and OWN in shares else None
        clock = next((shares[name] for name in CLOCKS if name in shares), None)
        found[key] = {"clock_mhz": clock, "foreign_share": foreign, "steal_share": shares.get(STEAL)}
    return found
