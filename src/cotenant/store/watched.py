"""Watched runs, read back: the totals of each tenant, as they were read from its server."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cotenant.analyse.neighbours.totals import Totals
from cotenant.analyse.neighbours.watched import Grant, TenantTotals, Watched, watched_of
from cotenant.errors import WatchedRuns, WatchError
from cotenant.store.reading import OpenRuns, open_runs

WATCHED = "watched"
"""The load of watched trials, and the name of such runs."""

_SAMPLES = """
SELECT sensor, list(t_ns ORDER BY t_ns), list(value ORDER BY t_ns)
FROM samples JOIN trials USING (run, trial) WHERE trials.load = ? GROUP BY sensor
"""
_BUCKETS = """
SELECT tenant, facts FROM tenants JOIN trials USING (run, trial) WHERE trials.load = ? ORDER BY run, trial
"""


def sensor_name(role: str, tenant: str) -> str:
    """`requests[chat]`."""
    return f"{role}[{tenant}]"


def role_unit(role: str) -> str:
    """The unit of a total."""
    if role.endswith("_s"):
        return "s"
    return "tokens" if role.startswith("tokens") else "count"


def watched_totals(runs: OpenRuns) -> list[TenantTotals]:
    """Every tenant of the watched runs among these; of several runs, one tenant's readings together."""
    totals: dict[str, dict[str, Totals]] = {}
    for sensor, t_ns, values in runs.con.execute(_SAMPLES, [WATCHED]).fetchall():
        role, _, rest = sensor.partition("[")
        read = Totals.of(np.array(t_ns, np.float64) / 1e9, np.array(values, np.float64))
        totals.setdefault(rest.removesuffix("]"), {})[role] = read
    buckets: dict[str, dict[str, dict[float, float]]] = {}
    for tenant, facts in runs.con.execute(_BUCKETS, [WATCHED]).fetchall():
        for measured, counts in (json.loads(facts or "{}").get("buckets") or {}).items():
            sums = buckets.setdefault(tenant, {}).setdefault(measured, {})
            for bound, count in counts.items():
                sums[float(bound)] = sums.get(float(bound), 0.0) + count
    described: dict[str, Mapping[str, Any]] = {}
    for manifest in runs.manifests:
        described.update((manifest.get("watched") or {}).get("tenants") or {})
    return [
        TenantTotals(
            tenant,
            str(described.get(tenant, {}).get("software", "")),
            roles,
            buckets.get(tenant, {}),
            described.get(tenant, {}).get("facts") or {},
            tuple(Grant(**one) for one in described.get(tenant, {}).get("grants") or ()),
        )
        for tenant, roles in totals.items()
    ]


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
        )
    return replace(found, folder=paths[0])


def require_requests(runs: OpenRuns, what: str) -> None:
    """Refuse watched runs where single requests are needed. Raises WatchedRuns."""
    for path, manifest in zip(runs.paths, runs.manifests, strict=True):
        if manifest.get("study_name") == WATCHED:
            raise WatchedRuns(
                f"{path} was watched, so it has totals of its servers and no requests, which {what} needs.",
                hint=f"Who slows whom: cotenant show {shlex.quote(str(path))}",
            )


def watched_words(runs: OpenRuns, kind: str) -> list[str]:
    """The sentences of watched runs: `notes` or `unseen`."""
    found = [one for manifest in runs.manifests for one in (manifest.get("watched") or {}).get(kind) or ()]
    return list(dict.fromkeys(map(str, found)))
