"""How each tenant stands, as values: for metrics, a live page and explanations."""

from typing import NamedTuple

from cotenant.scheduling.roster import Roster


class Standing(NamedTuple):
    """One tenant: its share, what is in its account, work waiting, attainment lately, and what a request costs now."""

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
