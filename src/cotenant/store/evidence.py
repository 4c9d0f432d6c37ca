"""From records to the input of comparisons and explanations: observations with their circumstances."""

import json
from collections import Counter
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from cotenant.analyse.sharing import RequestWork, TenantEvidence, cores_of
from cotenant.store import parquet
from cotenant.store.observe import observations
from cotenant.store.portions import TrialKey, of_trials, portions, rows_by_trial
from cotenant.store.reading import OpenRuns

if TYPE_CHECKING:
    import duckdb

    from cotenant.store.identities import Identities

CLOCKS = ("frequency_mhz", "sm_clock_mhz")
"""Clocks of a CPU and of a GPU: a trial has either."""
BUSY, OWN, STEAL = "cpu_busy_s", "own_cpu_s", "cpu_steal_s"
PACKAGE, PACKAGE_CORES = "package_busy_s", "package_cores"

Key = tuple[str, int, str]

_TENANTS = """
SELECT run, trial, tenant, workload, batch, seq, dtype, threads, flops_per_request, bytes_per_request,
    coalesce(tenants.load, trials.load), rate_rps, switches_voluntary, observed, facts, peak_memory_bytes,
    coalesce(started_utc, ''), software, settings
FROM tenants JOIN trials USING (run, trial)
"""
_SERVICE = """
SELECT run, trial, tenant, avg(done_ns - started_ns)
FROM ({requests}) WHERE in_window AND coalesce(ok, false) AND done_ns IS NOT NULL
GROUP BY ALL
"""
_STAGES = """
SELECT run, trial, tenant, stage, sum(duration_ns) / count(DISTINCT seq)
FROM ({stages}) SEMI JOIN (FROM ({requests}) WHERE in_window AND coalesce(ok, false)) USING (run, trial, tenant, seq)
GROUP BY ALL ORDER BY min(start_ns)
"""
_SAMPLES = """
SELECT run, trial, sensor, count(*), any_value(start_ns), any_value(end_ns),
    avg(value) FILTER (t_ns BETWEEN start_ns AND end_ns),
    max(t_ns) FILTER (t_ns <= start_ns), arg_max(value, t_ns) FILTER (t_ns <= start_ns),
    min(t_ns) FILTER (t_ns >= start_ns), arg_min(value, t_ns) FILTER (t_ns >= start_ns),
    max(t_ns) FILTER (t_ns <= end_ns), arg_max(value, t_ns) FILTER (t_ns <= end_ns),
    min(t_ns) FILTER (t_ns >= end_ns), arg_min(value, t_ns) FILTER (t_ns >= end_ns)
FROM ({samples}) JOIN (
    SELECT run, trial, window_start_ns AS start_ns, window_start_ns + window_s * 1e9 AS end_ns
    FROM trials WHERE window_start_ns IS NOT NULL
) USING (run, trial)
WHERE sensor IN ({sensors}) AND value IS NOT NULL AND NOT isnan(value)
GROUP BY run, trial, device, sensor ORDER BY run, trial, device, sensor
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
    software: str | None
    settings: str | None


def evidence(runs: OpenRuns, identities: "Identities | None" = None) -> list[TenantEvidence]:
    """Every tenant of every trial that belongs to a block.

    Args:
        runs: The runs.
        identities: Of their tenants, for predictions: the studies they come from are slow to read.
    """
    facts = {row[:3]: _TenantRow._make(row[3:]) for row in runs.con.execute(_TENANTS).fetchall()}
    bulk = _bulk(runs)
    found = []
    for seen in observations(runs, raw=False):
        if seen.block < 0:
            continue
        key = seen.run, seen.trial, seen.tenant
        row = facts[key]
        found.append(
            TenantEvidence(
                seen=seen,
                work=RequestWork(row.workload, row.batch, row.seq, row.dtype, row.threads, row.flops, row.moved),
                load=row.load,
                rate_rps=row.rate_rps,
                service_ns=bulk.service_ns.get(key),
                switches_voluntary=row.switches_voluntary,
                device_clock=_entry(row.observed, "device_clock", str),
                peak_memory_bytes=row.peak_memory_bytes,
                working_set_bytes=_entry(row.facts, "working_set_bytes", int),
                stages_ns=bulk.stages_ns.get(key, {}),
                started_utc=row.started_utc,
                identity=None
                if identities is None
                else identities.of(
                    seen.run,
                    seen.of,
                    load=row.load,
                    settings=row.settings,
                    workload=row.workload,
                    batch=row.batch,
                    seq=row.seq,
                    dtype=row.dtype,
                    threads=row.threads,
                    software=row.software,
                ),
                **bulk.around.get((seen.run, seen.trial), {}),
            )
        )
    return found


def _entry(text: str | None, name: str, kind: type) -> Any:
    """An entry of a JSON column, if present and of its type."""
    try:
        value = json.loads(text or "{}").get(name)
    except (ValueError, AttributeError, RecursionError):
        return None
    return value if isinstance(value, kind) else None


@dataclass(frozen=True, slots=True)
class _Bulk:
    """Data from the large tables, by tenant and by trial."""

    service_ns: dict[Key, float] = field(default_factory=dict)
    stages_ns: dict[Key, dict[str, float]] = field(default_factory=dict)
    around: dict[TrialKey, dict[str, float | None]] = field(default_factory=dict)


def _bulk(runs: OpenRuns) -> _Bulk:
    """Read in portions: the requests of a long run joined with their stages would not fit into memory."""
    found = _Bulk()
    con, files = runs.con, runs.files
    cores = {run: cores_of(folder.manifest) for run, folder in runs.folders.items()}
    sizes: Counter[TrialKey] = Counter()
    for table in ("requests", "stages", "samples"):
        sizes.update(rows_by_trial(con, table))
    trials = sorted(sizes)
    alone = set(con.execute("SELECT run, trial FROM trials WHERE solo").fetchall())
    for portion in portions(trials, (sizes[trial] for trial in trials)):
        requests, samples = (of_trials(files, table, portion) for table in ("requests", "samples"))
        undisturbed = [trial for trial in portion if trial in alone]
        stages, solo = (of_trials(files, table, undisturbed) for table in ("stages", "requests"))
        if requests:
            for *key, service_ns in con.execute(_SERVICE.format(requests=requests)).fetchall():
                found.service_ns[key[0], key[1], key[2]] = service_ns
        if stages and solo:
            for *key, stage, duration_ns in con.execute(_STAGES.format(stages=stages, requests=solo)).fetchall():
                found.stages_ns.setdefault((key[0], key[1], key[2]), {})[stage] = float(duration_ns)
        if samples:
            found.around.update(_circumstances(con, samples, cores))
    return found


class _Around(NamedTuple):
    """The readings of a sensor on both sides of a window's end; None if missing."""

    before_ns: int | None
    before: float | None
    after_ns: int | None
    after: float | None

    def value_at(self, t_ns: float) -> float:
        """The interpolated value; constant beyond the first and last reading."""
        if self.before_ns is None or self.before is None:
            assert self.after is not None, "a sensor that was read has a reading on one side"
            return self.after
        if self.after_ns is None or self.after is None or self.after_ns == self.before_ns:
            return self.before
        return self.before + (self.after - self.before) * (t_ns - self.before_ns) / (self.after_ns - self.before_ns)


def _circumstances(
    con: "duckdb.DuckDBPyConnection", samples: str, cores: dict[str, int]
) -> dict[TrialKey, dict[str, float | None]]:
    sensors: dict[TrialKey, dict[str, list[float]]] = {}
    listed = ", ".join(map(parquet.text, (*CLOCKS, BUSY, OWN, STEAL, PACKAGE, PACKAGE_CORES)))
    for row in con.execute(_SAMPLES.format(samples=samples, sensors=listed)).fetchall():
        run, trial, sensor, count, start_ns, end_ns, mean, *near = row
        of_trial = sensors.setdefault((run, trial), {})
        start, end = _Around(*near[:4]), _Around(*near[4:])
        if sensor in {*CLOCKS, PACKAGE_CORES}:
            of_trial.setdefault(sensor, []).extend([] if mean is None else [mean])
        elif count >= 2 and end.after_ns is not None:
            grown = end.value_at(end_ns) - start.value_at(start_ns)
            of_trial.setdefault(sensor, []).append(grown / ((end_ns - start_ns) / 1e9 * cores.get(run, 1)))
    found: dict[TrialKey, dict[str, float | None]] = {}
    for key, of_trial in sensors.items():
        shares = {sensor: sum(values) for sensor, values in of_trial.items() if values}  # sum over members of a group
        foreign = max(shares[BUSY] - shares[OWN], 0.0) if BUSY in shares and OWN in shares else None
        if OWN in shares and of_trial.get(PACKAGE) and of_trial.get(PACKAGE_CORES):
            # Other activity on the machine also disturbs the device; members of a group may share a socket.
            scale = cores.get(key[0], 1) / max(of_trial[PACKAGE_CORES])
            foreign = max(foreign or 0.0, (max(of_trial[PACKAGE]) - shares[OWN]) * scale)
        clock = next((fmean(of_trial[name]) for name in CLOCKS if of_trial.get(name)), None)
        found[key] = {"clock_mhz": clock, "foreign_share": foreign, "steal_share": shares.get(STEAL)}
    return found
