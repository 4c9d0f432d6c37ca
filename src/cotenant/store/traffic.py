"""Rates and costs of served and of watched traffic."""

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.analyse.neighbours.watched import watched_of
from cotenant.store.reading import OpenRuns
from cotenant.store.watched import WATCHED, watched_totals

SERVED = "served"
"""The load of trials that `cotenant serve` records, and the name of its runs."""

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
    """Arrivals of one tenant."""

    requests: int
    rate_rps: float
    cv: float
    """Standard deviation of the gaps over their mean; 1 is Poisson."""
    served: int = 0
    """Requests whose cost is known: of a tenant served in batches, none, since a batch costs less than its parts."""
    cost_s: float | None = None
    """Their median time on the device; of watched servers, the mean."""


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
        one.tenant: Traffic(
            one.requests,
            one.rate_rps,
            1.0 if one.cv is None else one.cv,
            one.requests if one.device_ms else 0,
            None if one.device_ms is None else one.device_ms / 1e3,
        )
        for one in watched
        if one.requests and one.rate_rps
    }
