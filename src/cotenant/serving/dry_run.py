"""Simulate whether the contracts of a file hold under its stated loads, before serving."""

import asyncio
import itertools
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cotenant.errors import ServingError
from cotenant.scheduling import Scheduler, Settings, TenantCosts
from cotenant.scheduling.simulation import Arrival, SimulatedDevice, simulate
from cotenant.serving.reloader import opened
from cotenant.serving.tenants_file import ServedTenant, TenantsFile, lanes_of
from cotenant.tenancy.load import arrivals_ns
from cotenant.workloads.protocol import DEFAULT_TOKENS

SEEDS = 5


class SimulatedContract(NamedTuple):
    """One tenant: fraction of its requests in time, over the seeds, and its demand on the device."""

    tenant: str
    objective_ms: float
    quantile: float
    asked_share: float
    attainment: float
    worst: float
    kept: bool


@dataclass(frozen=True, slots=True)
class SimulatedContracts:
    """The result; ``basis`` names the source of the costs."""

    device: str
    basis: str
    seconds: float
    tenants: tuple[SimulatedContract, ...]

    @property
    def kept(self) -> bool:
        """Whether every tenant meets its objective."""
        return all(tenant.kept for tenant in self.tenants)


def simulate_contracts(file: TenantsFile, *, seconds: float = 30.0, seed: int = 0) -> SimulatedContracts:
    """Measure the costs (predict them on a simulated device), then simulate the contracts under the stated loads.

    Raises:
        ServingError: A tenant states no load, or can't be served.
    """
    for name, tenant in file.tenants.items():
        if tenant.arrivals is None or not tenant.arrivals.open:
            raise ServingError(
                f"Tenant {name} has no open load, so it can't be simulated.",
                hint=f"Add `rate: 20/s` to {name}.",
            )
    costs, basis = asyncio.run(_costs(file))
    return judge(file, costs, basis=basis, seconds=seconds, seed=seed)


def judge(
    file: TenantsFile, costs: Mapping[str, TenantCosts], *, basis: str, seconds: float, seed: int
) -> SimulatedContracts:
    """Simulate contracts with known costs."""
    attained: dict[str, list[float]] = {name: [] for name in file.tenants}
    places = {name: place for place, name in enumerate(file.tenants)}
    for lane, run in itertools.product(lanes_of(file), range(SEEDS)):
        arrivals = sorted(
            arrival
            for name in lane.tenants
            for arrival in _arrivals(name, file.tenants[name], costs[name], seconds, seed + 1000 * run + places[name])
        )
        contracts = [file.tenants[name].scheduled_contract(name, _tokens(file.tenants[name])) for name in lane.tenants]
        scheduler = Scheduler(
            [(contract, costs[contract.tenant]) for contract in contracts],
            Settings(
                fairness=file.rule(),
                slots=lane.slots,
                queue_ahead=lane.slots == 1,
                cache_bytes=file.cache_bytes(lane),
            ),
        )
        result = simulate(arrivals, scheduler, SimulatedDevice(costs, seed=seed + run))
        for name, part in result.attainment().items():
            attained[name].append(part)
    return SimulatedContracts(
        file.device, basis, seconds, tuple(_kept(file, costs, name, parts) for name, parts in attained.items())
    )


def _kept(file: TenantsFile, costs: Mapping[str, TenantCosts], name: str, parts: list[float]) -> SimulatedContract:
    tenant, cost = file.tenants[name], costs[name]
    mean, quantile = (statistics.mean(parts) if parts else 1.0), tenant.deadline.quantile
    within_s = tenant.scheduled_contract(name, _tokens(tenant)).within_s(cost.steps)
    asked = _rate(tenant, cost) * cost.total_s
    return SimulatedContract(
        name, 1e3 * within_s, quantile, asked, mean, min(parts, default=1.0), kept=mean >= quantile
    )


def _arrivals(name: str, tenant: ServedTenant, costs: TenantCosts, seconds: float, seed: int) -> list[Arrival]:
    load = tenant.arrivals
    assert load is not None
    load = load if load.rate_share is None else load.at(_rate(tenant, costs))
    return [Arrival(float(time) / 1e9, name) for time in arrivals_ns(load, seed=seed, horizon_s=seconds)]


def _tokens(tenant: ServedTenant) -> int:
    return tenant.tokens or DEFAULT_TOKENS


def _rate(tenant: ServedTenant, costs: TenantCosts) -> float:
    """Requests per second; a share is relative to the tenant's rate alone."""
    load = tenant.arrivals
    assert load is not None
    return load.rate_share / costs.total_s if load.rate_share is not None else load.rate_rps or 0.0


async def _costs(file: TenantsFile) -> tuple[dict[str, TenantCosts], str]:
    async with opened(file) as service:
        return {name: served.costs for name, served in service.tenants.items()}, service.basis
