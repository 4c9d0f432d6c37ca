"""Status of each tenant as values, for metrics, the live page and explanations."""

from typing import NamedTuple

from cotenant.scheduling.roster import Roster


class Standing(NamedTuple):
    """One tenant: its share, account, waiting work, recent attainment, and current cost of a request."""

    tenant: str
    share_rate: float
    account_s: float
    backlog_s: float
    attained: float
    request_s: float


def standings(roster: Roster, now: float) -> list[Standing]:
    """All tenants of a device."""
    rows = []
    for tenant in roster.tenants.values():
        cost_s = tenant.estimate.request_s(1.0, tenant.estimate.costs.steps)
        row = Standing(tenant.name, tenant.rate, tenant.balance_s(now), tenant.backlog_s, tenant.attained, cost_s)
        rows.append(row)
    return rows
