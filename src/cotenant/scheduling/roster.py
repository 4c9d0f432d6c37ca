"""The tenants of one device, with validated contracts and shares."""

from collections.abc import Iterable

from cotenant.errors import SchedulingError
from cotenant.scheduling.contract import Contract, settle_shares
from cotenant.scheduling.correction import DeviceSpeed
from cotenant.scheduling.costs import TenantCosts
from cotenant.scheduling.settings import Settings
from cotenant.scheduling.tenant import Tenant


class Roster:
    """Tenants by name, the device's speed, and the longest chunk that suits the tightest tenant."""

    def __init__(self, tenants: Iterable[tuple[Contract, TenantCosts]], settings: Settings, now: float) -> None:
        self._settings = settings
        self.speed = DeviceSpeed()
        self.tenants: dict[str, Tenant] = {}
        self.quantum_s = 0.0
        agreed = list(tenants)
        settle_shares(contract for contract, _ in agreed)
        for contract, costs in agreed:
            self._take(contract, costs, now)
        self._settle()

    def named(self, name: str) -> Tenant:
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
            self.tenants[contract.tenant] = Tenant(contract, costs, self.speed, now)

    def _settle(self) -> None:
        settings = self._settings
        shares = settle_shares(tenant.contract for tenant in self.tenants.values())
        for tenant in self.tenants.values():
            tenant.grant(shares[tenant.name], settings.slots, settings.burst, settings.memory_s)
        slack = [tenant.objective_s - tenant.estimate.costs.total_s for tenant in self.tenants.values()]
        tightest = min((time for time in slack if time > 0), default=0.0)
        self.quantum_s = settings.quantum_s or tightest / 2
