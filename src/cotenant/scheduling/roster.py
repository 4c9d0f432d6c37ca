"""The tenants of a device with their contracts and shares, and the memory for their caches."""

from collections.abc import Iterable
from typing import NamedTuple

from cotenant.errors import SchedulingError
from cotenant.scheduling.contract import Contract, Settings, settle_shares
from cotenant.scheduling.correction import DeviceSpeed
from cotenant.scheduling.costs import TenantCosts
from cotenant.scheduling.job import Job, Request
from cotenant.scheduling.tenant import TenantState


class Roster:
    """Tenants by name, the device's speed, and the longest chunk that suits the tightest tenant."""

    def __init__(self, tenants: Iterable[tuple[Contract, TenantCosts]], settings: Settings, now: float) -> None:
        self._settings = settings
        self.speed = DeviceSpeed()
        self.tenants: dict[str, TenantState] = {}
        self.quantum_s = 0.0
        agreed = list(tenants)
        settle_shares(contract for contract, _ in agreed)
        for contract, costs in agreed:
            self._take(contract, costs, now)
        self._settle()

    def named(self, name: str) -> TenantState:
        """The tenant of this name, else an error that lists the tenants."""
        if name not in self.tenants:
            present = ", ".join(self.tenants) or "none"
            raise SchedulingError(f"The device has no tenant {name}.", hint=f"Its tenants: {present}.")
        return self.tenants[name]

    def add(self, contract: Contract, costs: TenantCosts, now: float) -> None:
        """Add a tenant, or replace its contract and costs; on an error nothing changes."""
        others = [tenant.contract for tenant in self.tenants.values() if tenant.name != contract.tenant]
        settle_shares([*others, contract])
        self._take(contract, costs, now)
        self._settle()

    def remove(self, name: str) -> None:
        """Remove a tenant; tenants without a stated share divide its part."""
        del self.tenants[name]
        self._settle()

    def _take(self, contract: Contract, costs: TenantCosts, now: float) -> None:
        objective_s = contract.within_s(costs.steps)
        if contract.hard and costs.total_s > objective_s:
            raise SchedulingError(
                f"Tenant {contract.tenant}: the objective of {1e3 * objective_s:g} ms is below the "
                f"{1e3 * costs.total_s:.3g} ms that one request takes alone.",
                hint="Raise the objective above that time, or make the contract soft.",
            )
        if contract.tenant in self.tenants:
            self.tenants[contract.tenant].agree(contract, costs, self.speed)
        else:
            self.tenants[contract.tenant] = TenantState(contract, costs, self.speed, now)

    def _settle(self) -> None:
        settings = self._settings
        shares = settle_shares(tenant.contract for tenant in self.tenants.values())
        for tenant in self.tenants.values():
            tenant.grant(shares[tenant.name], settings.slots, settings.burst, settings.memory_s)
        slack = [tenant.objective_s - tenant.estimate.costs.total_s for tenant in self.tenants.values()]
        tightest = min((time for time in slack if time > 0), default=0.0)
        self.quantum_s = settings.quantum_s or tightest / 2


class Caches:
    """Decides which requests may take memory. A request holds its memory from its first chunk until its end.

    A tenant's part of the memory is its share among the tenants that use any. What others don't use is lent, except
    for room for a typical request of each, so that a tenant within its part never waits for all borrowers to end.
    """

    def __init__(self, total: int | None, roster: Roster) -> None:
        self.total = total
        self._roster = roster

    def holds(self, request: Request) -> bool:
        """Whether all of the memory would do for a request."""
        return self.total is None or request.cache_bytes <= self.total

    def fits(self, job: Job) -> bool:
        """Whether a job may start, or has."""
        if self.total is None or job.begun:
            return True
        need = sum([request.cache_bytes for request in job.members])
        return not need or self._room(job.tenant, need, self.total)

    def hold(self, job: Job) -> None:
        """A job starts."""
        for request in job.members:
            request.holds = True
            job.tenant.held_bytes += request.cache_bytes

    def held(self) -> int:
        """Memory in use."""
        return sum(tenant.held_bytes for tenant in self._roster.tenants.values())

    def _room(self, tenant: TenantState, need: int, total: int) -> bool:
        held = self.held()
        if not held:
            return need <= total
        if held + need > total:
            return False
        users = [user for user in self._roster.tenants.values() if user.estimate.costs.cache_bytes]
        rates = sum(user.rate for user in users)
        kept = 0.0
        for user in users:
            part = total * user.rate / rates if rates > 0 else 0.0
            if user is not tenant:
                kept += min(max(0.0, part - user.held_bytes), user.estimate.costs.cache_bytes)
            elif user.held_bytes + need <= part:
                return True
        return held + need + kept <= total


class TenantStanding(NamedTuple):
    """A tenant: its share, account, waiting work, recent attainment, and current cost of a request."""

    tenant: str
    share_rate: float
    account_s: float
    backlog_s: float
    attained: float
    request_s: float


def standings(roster: Roster, now: float) -> list[TenantStanding]:
    """All tenants of a device."""
    rows = []
    for tenant in roster.tenants.values():
        cost_s = tenant.estimate.request_s(1.0, tenant.estimate.costs.steps)
        row = TenantStanding(tenant.name, tenant.rate, tenant.balance_s(now), tenant.backlog_s, tenant.attained, cost_s)
        rows.append(row)
    return rows
