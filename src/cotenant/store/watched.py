"""Watched runs, read back: the totals of each tenant, as they were read from its server."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.analyse.neighbours import Grant, TenantTotals, Totals, Watched, WatchedRun, watched_of
from cotenant.errors import RunFolderError, WatchError
from cotenant.store.observe import observations
from cotenant.store.reading import WATCHED, OpenRuns, open_runs
from cotenant.tenancy.records import SERVED

if TYPE_CHECKING:
    from cotenant.analyse.copy_options import CopyStart

_SAMPLES = """
SELECT sensor, list(t_ns ORDER BY t_ns), list(value ORDER BY t_ns)
FROM samples JOIN trials USING (run, trial) WHERE trials.load = ? AND run LIKE ? GROUP BY sensor
"""
_BUCKETS = """
SELECT tenant, facts FROM tenants JOIN trials USING (run, trial) WHERE trials.load = ? AND run LIKE ?
ORDER BY run, trial
"""
_SHARING = "SELECT sharing FROM trials WHERE run = ? AND load = ? GROUP BY sharing ORDER BY count(*) DESC LIMIT 1"
EVERY = "%"


def sensor_name(role: str, tenant: str) -> str:
    """`requests[chat]`."""
    return f"{role}[{tenant}]"


def role_unit(role: str) -> str:
    """The unit of a total."""
    if role.endswith(("_s", "_j")):
        return role[-1].replace("j", "J")
    return "tokens" if role.startswith("tokens") else "count"


def watched_totals(runs: OpenRuns, run: str = EVERY) -> list[TenantTotals]:
    """Every tenant of the watched runs among these, or of one; of several runs, a tenant's readings together."""
    totals: dict[str, dict[str, Totals]] = {}
    for sensor, t_ns, values in runs.con.execute(_SAMPLES, [WATCHED, run]).fetchall():
        role, _, rest = sensor.partition("[")
        read = Totals.of(np.array(t_ns, np.float64) / 1e9, np.array(values, np.float64))
        totals.setdefault(rest.removesuffix("]"), {})[role] = read
    buckets: dict[str, dict[str, dict[float, float]]] = {}
    for tenant, facts in runs.con.execute(_BUCKETS, [WATCHED, run]).fetchall():
        for measured, counts in (json.loads(facts or "{}").get("buckets") or {}).items():
            sums = buckets.setdefault(tenant, {}).setdefault(measured, {})
            for bound, count in counts.items():
                sums[float(bound)] = sums.get(float(bound), 0.0) + count
    described: dict[str, Mapping[str, Any]] = {}
    for name, manifest in zip(runs.folders, runs.manifests, strict=True):
        if run in (EVERY, name):
            described.update((manifest.get("watched") or {}).get("tenants") or {})
    return [
        TenantTotals(
            tenant,
            str(described.get(tenant, {}).get("software", "")),
            roles,
            buckets.get(tenant, {}),
            described.get(tenant, {}).get("facts") or {},
            tuple(Grant(**grant) for grant in described.get(tenant, {}).get("grants") or ()),
        )
        for tenant, roles in sorted(totals.items(), key=lambda read: _place(read[0], described))
    ]


def _place(tenant: str, described: Mapping[str, Any]) -> tuple[int, str]:
    """In the order in which they were named."""
    return (list(described).index(tenant) if tenant in described else len(described)), tenant


def watched_counts(runs: OpenRuns) -> dict[str, list[dict[float, float]]]:
    """By tenant, for each stretch that was written: requests by upper bound of their seconds."""
    found: dict[str, list[dict[float, float]]] = {}
    for tenant, facts in runs.con.execute(_BUCKETS, [WATCHED, EVERY]).fetchall():
        counts = (json.loads(facts or "{}").get("buckets") or {}).get("latency") or {}
        if any(counts.values()):
            found.setdefault(tenant, []).append({float(bound): count for bound, count in counts.items()})
    return found


def read_watched(paths: Sequence[Path]) -> Watched:
    """What watched runs of the same tenants tell.

    Raises:
        RunFolderError: A folder is not a run, is damaged, or is of a newer schema.
        WatchError: None of them was watched, or nothing was read.
    """
    with open_runs(paths) as opened:
        tenants = watched_totals(opened)
        if not tenants:
            raise WatchError(f"{', '.join(map(str, paths))}: nothing was watched there")
        found = watched_of(
            tenants,
            device=str(opened.manifests[0].get("device", "?")),
            notes=[*opened.damage, *watched_words(opened, "notes")],
            unseen=watched_words(opened, "unseen"),
            cores=_host_cores(opened.manifests[0]),
        )
    return replace(found, folder=paths[0])


def watched_runs(runs: OpenRuns) -> list[WatchedRun]:
    """Each run by itself. Raises WatchError if nothing was read in one."""
    found = []
    for name, folder in runs.folders.items():
        tenants = watched_totals(runs, name)
        if not tenants:
            raise WatchError(f"{folder.path}: nothing was watched there")
        sharing = runs.con.execute(_SHARING, [name, WATCHED]).fetchone()
        watched = watched_of(
            tenants, device=str(folder.manifest.get("device", "?")), cores=_host_cores(folder.manifest)
        )
        found.append(WatchedRun(name, str(sharing[0]) if sharing else "processes", watched))
    return found


def all_watched(runs: OpenRuns) -> bool:
    """Whether `watch` wrote all of them. Raises RunFolderError if only some of them."""
    kinds = {manifest.get("study_name") == WATCHED for manifest in runs.manifests}
    if len(kinds) > 1:
        raise RunFolderError(
            f"{' and '.join(map(str, runs.paths))} can't be read together: some were watched, others measured.",
            hint="a watched run has no single requests; name runs of one kind",
        )
    return kinds == {True}


def _host_cores(manifest: Mapping[str, Any]) -> int | None:
    cores = (manifest.get("device_description") or {}).get("host_cores")
    return cores if isinstance(cores, int) else None


def watched_words(runs: OpenRuns, kind: str) -> list[str]:
    """The sentences of watched runs: `notes` or `unseen`."""
    found = [entry for manifest in runs.manifests for entry in (manifest.get("watched") or {}).get(kind) or ()]
    return list(dict.fromkeys(map(str, found)))


# --- rates and costs of served and of watched traffic

_TRAFFIC = """
WITH arrivals AS (
    SELECT tenants."of" AS name, run, intended_ns,
        CASE WHEN coalesce(ok, false) AND coalesce(tenants.batch, 1) = 1 THEN device_ns END AS cost,
        intended_ns - lag(intended_ns) OVER (PARTITION BY run, tenants."of" ORDER BY intended_ns) AS gap
    FROM requests JOIN tenants USING (run, trial, tenant) JOIN trials USING (run, trial)
    WHERE trials.load = ?
)
SELECT name, count(gap), sum(gap) / 1e9, stddev_samp(gap) / avg(gap), count(cost), median(cost) / 1e9
FROM arrivals GROUP BY name
"""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Arrivals of a tenant."""

    requests: int
    rate_rps: float
    cv: float
    """Standard deviation of the gaps over their mean; 1 is Poisson."""
    served: int = 0
    """Requests whose cost is known: of a tenant served in batches, none, since a batch costs less than its parts."""
    cost_s: float | None = None
    """Their median time on the device; of watched servers, the mean."""
    tokens_in: float | None = None
    """Mean prompt and mean answer, of watched servers that count tokens."""
    tokens_out: float | None = None
    quantiles_ms: Mapping[str, float] = field(default_factory=dict)
    """Of watched servers, from their own buckets; none where only a bound is known."""


def traffic_of(runs: OpenRuns) -> Mapping[str, Traffic]:
    """By tenant: all its requests, whether served in time, late or refused; of watched servers those they counted."""
    rows = runs.con.execute(_TRAFFIC, [SERVED]).fetchall()
    served = {
        name: Traffic(gaps + 1, gaps / seconds, float(cv or 0), served, cost)
        for name, gaps, seconds, cv, served, cost in rows
        if seconds
    }
    watched = any(manifest.get("study_name") == WATCHED for manifest in runs.manifests)
    return (_watched(runs) | served) if watched else served


def _watched(runs: OpenRuns) -> dict[str, Traffic]:
    """Servers that were watched publish counts, so the variation of gaps comes from counts per interval."""
    watched = watched_of(watched_totals(runs), device="").tenants
    return {
        tenant.tenant: Traffic(
            tenant.requests,
            tenant.rate_rps,
            1.0 if tenant.cv is None else tenant.cv,
            tenant.requests if tenant.device_ms else 0,
            None if tenant.device_ms is None else tenant.device_ms / 1e3,
            tenant.tokens_in,
            tenant.tokens_out,
            {name: value for name, value in tenant.quantiles_ms.items() if value > (tenant.first_bound_ms or 0.0)},
        )
        for tenant in watched
        if tenant.requests and tenant.rate_rps
    }


# --- what each trial of a run started: whether all tenants came up, what they resolved, and how they ended

NOT_SERVED = "did not serve: "
"""Beginning of a tenant's error in a trial whose mix never ran."""
_ROWS = """
SELECT trial, block, mix, sharing, solo, failed_checks, reasons, window_s, tenant, error, facts, cpu_time_ns,
    peak_memory_bytes
FROM trials JOIN tenants USING (run, trial) WHERE block >= 0 ORDER BY trial, tenant
"""


def starts(runs: OpenRuns) -> "Iterator[CopyStart]":
    """One for each trial of the blocks, in order."""
    cursor = runs.con.execute(_ROWS)
    names = [column[0] for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    served: dict[int, float] = {}
    for seen in observations(runs, raw=False):
        if seen.verdict != "invalid":
            served[seen.trial] = served.get(seen.trial, 0.0) + seen.throughput_rps
    for trial, group in groupby(rows, key=lambda row: row["trial"]):
        yield _start(list(group), served.get(trial))


def _start(rows: list[dict[str, Any]], throughput_rps: float | None) -> "CopyStart":
    from cotenant.analyse.copy_options import CopyStart

    first = rows[0]
    errors = [str(row["error"]) for row in rows if row["error"]]
    absent = next((error for error in errors if error.startswith(NOT_SERVED)), None)
    checks = list(first["failed_checks"] or ())
    alive = "tenants_alive" not in checks
    facts = [_facts(row["facts"]) for row in rows]
    cpu_ns = [row["cpu_time_ns"] for row in rows]
    memory = [row["peak_memory_bytes"] for row in rows]
    return CopyStart(
        block=int(first["block"]),
        mix=str(first["mix"]),
        sharing=str(first["sharing"]),
        copies=len(rows),
        failed=None if absent is None else absent.removeprefix(NOT_SERVED),
        died=None if alive or absent is not None else next(iter(errors), "a copy ended"),
        failed_checks=tuple(checks),
        reasons=tuple(first["reasons"] or ()),
        throughput_rps=throughput_rps,
        cores=sum(cpu_ns) / 1e9 / first["window_s"] if all(time_ns is not None for time_ns in cpu_ns) else None,
        memory_bytes=sum(memory) if all(used is not None for used in memory) else None,
        resolved=facts[0],
    )


def _facts(text: str | None) -> Mapping[str, int]:
    facts = json.loads(text) if text else {}
    found = {**(facts.get("resolved") or {}), **(facts.get("cache") or {})}
    return {str(key): int(value) for key, value in found.items() if isinstance(value, int | float)}
