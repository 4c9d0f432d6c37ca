"""Rates and costs of served traffic."""

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.store.reading import OpenRuns

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
    """Their median time on the device."""


def traffic_of(runs: OpenRuns) -> Mapping[str, Traffic]:
    """By tenant: all its requests, whether served in time, late or refused."""
    rows = runs.con.execute(_TRAFFIC, [SERVED]).fetchall()
    return {
        name: Traffic(gaps + 1, gaps / seconds, float(cv or 0), served, cost)
        for name, gaps, seconds, cv, served, cost in rows
        if seconds
    }
