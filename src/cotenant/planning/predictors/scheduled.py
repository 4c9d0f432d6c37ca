"""`sharing: scheduled`: one server orders the requests of all tenants on the whole device.

Simulated with the scheduler that will serve. In closed form, for all mixes: the server serves what is due first, so the
work that waits is spread over the tenants by the slack that each has. With deterministic slacks and much traffic, an
arrival of a tenant waits as long as its slack exceeds that of the request in service (Doytchinov, Lehoczky, Shreve).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from cotenant.planning.mixes.batching import BatchService
from cotenant.planning.predictors.profiles import Simulation
from cotenant.planning.solver.problem import Floats
from cotenant.prediction.request_costs import CHUNKS, request_costs
from cotenant.scheduling import Contract, DeviceScheduler, Settings, TenantCosts
from cotenant.scheduling.simulation import Arrival, Replications, SimulatedDevice, simulate
from cotenant.tenancy.load import Load, arrivals_ns

FEWEST, MOST_REQUESTS, LONGEST_S = 400, 1500, 300.0
"""Of the slowest tenant and of all tenants in a replication, where it doesn't take longer."""
ROUNDS = 12
"""Until the wait and the number of requests that are taken together agree."""
HALVINGS = 40
SERVICE_CV2 = 0.01
"""Squared variation of service times on the simulated device."""


class OrderedTenant(NamedTuple):
    """A tenant of the server."""

    contract: Contract
    costs: TenantCosts
    load: Load

    def slower(self, factor: float) -> "OrderedTenant":
        """The same with longer service times."""
        return self._replace(costs=self.costs.slower(factor))


class OrderedTimes(NamedTuple):
    """Of a tenant's requests, by replication, in seconds; infinite for requests that were refused."""

    latency: tuple[Floats, ...]
    ttft: tuple[Floats, ...]
    tpot: tuple[Floats, ...]

    def of(self, metric: str) -> Replications:
        """The times of a metric."""
        return Replications(getattr(self, metric))


def in_order(
    tenants: Sequence[OrderedTenant], settings: Settings, *, seconds: float, seeds: Iterable[int], warm_up: float = 0.0
) -> list[OrderedTimes]:
    """Requests of all tenants as the scheduler serves them, by tenant.

    Args:
        tenants: Those of a device, or of a backend.
        settings: Of the scheduler.
        seconds: Of arrivals in each replication.
        seeds: One for each replication.
        warm_up: Part of the arrivals that is left out, because the server begins without any.
    """
    costs = {tenant.contract.tenant: tenant.costs for tenant in tenants}
    rows: dict[str, tuple[list[Floats], list[Floats], list[Floats]]] = {name: ([], [], []) for name in costs}
    for seed in seeds:
        arrivals = sorted(
            Arrival(float(time) / 1e9, tenant.contract.tenant)
            for place, tenant in enumerate(tenants)
            for time in arrivals_ns(tenant.load, seed=seed + place, horizon_s=seconds)
        )
        scheduler = DeviceScheduler([(tenant.contract, tenant.costs) for tenant in tenants], settings)
        times: dict[str, list[tuple[float, float, float]]] = {name: [] for name in costs}
        for outcome in simulate(arrivals, scheduler, SimulatedDevice(costs, seed=seed)).outcomes:
            if outcome.arrived < warm_up * seconds:
                continue
            if outcome.done is None:
                times[outcome.tenant].append((np.inf, np.inf, np.inf))
                continue
            first = outcome.done if outcome.first is None else outcome.first
            step = (outcome.done - first) / max(costs[outcome.tenant].steps, 1)
            times[outcome.tenant].append((outcome.done - outcome.arrived, first - outcome.arrived, step))
        for name, requests in times.items():
            columns = np.array(requests).reshape(-1, 3)
            for metric, values in zip(rows[name], columns.T, strict=True):
                metric.append(values)
    return [OrderedTimes(*(tuple(times for times in metric if times.size) for metric in row)) for row in rows.values()]


def seconds_for(rates: Sequence[float]) -> float:
    """Arrivals that show the tails of all tenants with these rates."""
    return min(FEWEST / min(rates), MOST_REQUESTS / sum(rates), LONGEST_S)


def costs_of(simulation: Simulation, device: str, tenant: int, most: int, clock_mhz: float | None) -> TenantCosts:
    """What requests of a tenant cost on the whole device, up to so many at once."""
    gpu, spec = simulation.gpus[device], simulation.spec(device, tenant, 1)
    costs = request_costs(gpu, spec, most, clock_of=lambda part: gpu.locked_clock(part, clock_mhz))
    return costs.slower(float(simulation.scale[tenant]))


def quantile_ms(times: Replications, level: float) -> tuple[float, float, float]:
    """Lower end, estimate and upper end of a quantile; infinite if more requests are refused than it leaves out."""
    refused = 1e6
    finite = Replications(tuple(np.where(np.isfinite(each), each, refused) for each in times.latencies_s))
    low, estimate, high = (1e3 * value if value < refused / 2 else np.inf for value in finite.quantile(level))
    return low, estimate, high


# --- in closed form


class OrderedMixes(NamedTuple):
    """Mixes x seats; times in milliseconds, rates in requests per millisecond, 0 for empty seats."""

    service: BatchService
    rate: Floats
    limit: Floats
    """When a request is due."""
    cv: Floats


def load_of(mixes: OrderedMixes) -> Floats:
    """By mix: the part of the time that the server is busy if all are served in the largest batches."""
    return np.asarray((mixes.rate * mixes.service.full / mixes.service.largest).sum(axis=1))


def waits(mixes: OrderedMixes, levels: Floats) -> tuple[Floats, Floats]:
    """Mixes x seats: how long a request waits at this level, and how long it then takes.

    Infinite where the server can't keep up.
    """
    service, rate = mixes.service, mixes.rate
    size = np.broadcast_to(service.largest, rate.shape).astype(np.float64)
    possible = load_of(mixes) < 1
    for _ in range(ROUNDS):  # the longer requests wait, the more of them are taken together
        time = service.time(size)
        parts = rate * time / size
        load = np.minimum(parts.sum(axis=1), 0.999)
        rest = (parts * time * (mixes.cv**2 + SERVICE_CV2) / 2).sum(axis=1)
        usual = rest / (1 - load) / np.maximum(load, 1e-9)
        tail = usual[:, None] * np.log(np.maximum(load[:, None] / (1 - levels), 1.0))
        size = (size + np.clip(1 + rate * tail, 1.0, service.largest)) / 2
    slack = np.where(rate > 0, mixes.limit - time, -np.inf)
    weights = parts / np.maximum(parts.sum(axis=1, keepdims=True), 1e-12)
    low = np.where(rate > 0, slack, np.inf).min(axis=1, keepdims=True) - tail - 1
    high = np.broadcast_to(slack.max(axis=1, keepdims=True), low.shape)
    for _ in range(HALVINGS):  # the slack of the request in service, at which this much work waits
        middle = (low + high) / 2
        ahead = np.maximum(slack[:, None, :] - middle[:, :, None], 0.0)
        much = (weights[:, None, :] * ahead).sum(axis=2) > tail
        low, high = np.where(much, middle, low), np.where(much, high, middle)
    blocked = np.where(rate > 0, time / CHUNKS, 0.0).max(axis=1, keepdims=True) / 2
    waited = np.maximum(slack - (low + high) / 2, 0.0) + blocked * np.minimum(load, 1.0)[:, None]
    return np.where(possible[:, None], waited, np.inf), time
