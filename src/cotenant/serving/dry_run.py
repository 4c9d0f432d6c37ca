"""Simulate whether the contracts of a file hold under its stated loads, before serving.

Tenants with a part of a simulated GPU each, or one that has it alone, are simulated as `plan --check` simulates them.
Where requests take turns, and on real devices, the scheduler that will serve orders simulated arrivals.
"""

import asyncio
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from cotenant.errors import ServingError
from cotenant.planning.check import BASIS, SEEDS, Attained, Checked, interval_over_seeds
from cotenant.planning.predictors import OrderedTenant, OrderedTimes, in_order
from cotenant.scheduling import Settings, TenantCosts
from cotenant.serving.reloader import opened
from cotenant.serving.tenants_file import Lane, ServedTenant, TenantsFile, lanes_of
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.interval import Interval
from cotenant.tenancy.objective import Objective
from cotenant.tenancy.plan_document import PlanDevice, PlanSeat, PromisedTime
from cotenant.tenancy.ways import ALONE
from cotenant.workloads.protocol import DEFAULT_TOKENS

REPLICATIONS = 5
"""Of the scheduler's arrivals."""
LEAST_REQUESTS, MOST_REQUESTS, LONGEST_S = 200, 4000, 120.0
"""Of each tenant in a replication, if all tenants together don't get more and it doesn't take longer."""
TOGETHER = ("mps", "streams", "processes")
"""Ways to share in which tenants without a share may use the entire GPU."""


def simulate_contracts(file: TenantsFile, *, seconds: float = 30.0, seed: int = 0) -> Checked:
    """Measure the costs (predict them on a simulated device), then simulate the contracts under the stated loads.

    Args:
        file: The tenants.
        seconds: The least time that the scheduler's order is simulated for.
        seed: Of the scheduler's arrivals.

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


def judge(file: TenantsFile, costs: Mapping[str, TenantCosts], *, basis: str, seconds: float, seed: int) -> Checked:
    """Simulate contracts with known costs: every objective against its own limit."""
    lanes = lanes_of(file)
    device = _planned(file, costs)
    rows: dict[str, list[Attained]] = {name: [] for name in file.tenants}
    bases = []
    if device is not None:
        from cotenant.planning.check_simulated import simulated_device

        lanes = tuple(lane for lane in lanes if not lane.own)
        bases.append(BASIS)
        for row in simulated_device(device, SEEDS, risk=file.risk):
            rows[row.tenant].append(row)
    if lanes:
        times = "measured here" if basis == "measured" else "predicted" if basis == "simulated" else basis
        bases.append(f"simulated: the scheduler's order, queues and arrivals; times alone {times}")
    for lane in lanes:
        for row in _in_order(file, lane, costs, seconds, seed):
            rows[row.tenant].append(row)
    return Checked(file.device, tuple(itertools.chain(*rows.values())), "\n".join(bases))


# --- as in `plan --check`: all tenants together on a simulated GPU


def _planned(file: TenantsFile, costs: Mapping[str, TenantCosts]) -> PlanDevice | None:
    """The tenants of the device as those of a plan; None if requests take turns or the device is real."""
    own = {name: tenant for name, tenant in file.tenants.items() if tenant.backend is None}
    if not DeviceName(file.device).simulated or not own:
        return None
    if any(tenant.arrivals is None or tenant.arrivals.kind == "trace" for tenant in own.values()):
        return None
    shares: Sequence[float | str | None] = [None] * len(own)
    mode = ALONE
    if file.divided:
        assert file.sharing is not None
        sharing = file.sharing.among(len(own))
        mode, shares = sharing.mode, sharing.shares or shares
        if not sharing.shares and mode not in TOGETHER:
            return None  # the server cuts the GPU itself
    elif file.jobs:
        mode = "processes"  # the system gives turns to jobs, which the server can't order
    elif len(own) > 1:
        return None
    seats = {name: _seat(tenant, costs[name], share) for (name, tenant), share in zip(own.items(), shares, strict=True)}
    seats |= file.jobs
    return PlanDevice(name=file.device, sharing=mode, clock_mhz=file.settings.get("clock_mhz"), tenants=seats)


def _seat(tenant: ServedTenant, costs: TenantCosts, share: float | str | None) -> PlanSeat:
    assert tenant.arrivals is not None
    promised = {
        objective.label: tenant.promised.get(objective.label, PromisedTime(limit_ms=objective.limit_ms))
        for objective in tenant.slo
    }
    return PlanSeat(
        rate_rps=_rate(tenant, costs),
        at_once=tenant.most_at_once,
        runs=tenant,
        cv=tenant.arrivals.cv,
        software=tenant.software[0] if tenant.software else "eager",
        share=share,
        priority=tenant.priority,
        expected=promised,
    )


# --- in turns: requests in the order of the scheduler that will serve them


def _in_order(
    file: TenantsFile, lane: Lane, costs: Mapping[str, TenantCosts], seconds: float, seed: int
) -> list[Attained]:
    """At the predicted costs, and at both ends of their range: an error of the costs grows with the queue."""
    rates = [_rate(file.tenants[name], costs[name]) for name in lane.tenants]
    slowest = min((rate for rate in rates if rate > 0), default=LEAST_REQUESTS / LONGEST_S)
    seconds = max(seconds, min(LEAST_REQUESTS / slowest, MOST_REQUESTS / max(sum(rates), slowest), LONGEST_S))
    settings = Settings(
        fairness=file.rule(), slots=lane.slots, queue_ahead=lane.slots == 1, cache_bytes=file.cache_bytes(lane)
    )
    # Alone in its lane, a tenant still has neighbours. A simulated device knows them; of a real one the plan does.
    real = not DeviceName(file.device).simulated
    tenants = [
        _ordered(name, tenant, costs[name], rate).slower(tenant.slowdown if real else 1.0)
        for name, tenant, rate in zip(lane.tenants, map(file.tenants.__getitem__, lane.tenants), rates, strict=True)
    ]
    seeds = [seed + 1000 * run for run in range(REPLICATIONS)]
    usual, *ends = (
        in_order([tenant.slower(factors[tenant.contract.tenant]) for tenant in tenants], settings, seconds=seconds,
                 seeds=seeds)
        for factors in (dict.fromkeys(lane.tenants, 1.0), *_ranges(file, lane, costs))
    )  # fmt: skip
    return [
        _attained(file.device, name, rates[place], objective, [times[place] for times in (usual, *ends)])
        for place, name in enumerate(lane.tenants)
        for objective in _objectives(file, costs, name)
    ]


def _ordered(name: str, tenant: ServedTenant, costs: TenantCosts, rate_rps: float) -> OrderedTenant:
    load = tenant.arrivals
    assert load is not None
    load = load if load.rate_share is None else load.at(rate_rps)
    return OrderedTenant(tenant.scheduled_contract(name, _tokens(tenant)), costs, load)


def _ranges(file: TenantsFile, lane: Lane, costs: Mapping[str, TenantCosts]) -> Sequence[Mapping[str, float]]:
    """By tenant: how much less and more time than predicted a request may take alone; none if it was measured."""
    if not DeviceName(file.device).simulated:
        return ()
    from cotenant.planning.check_simulated import service_range

    ranges = {
        name: (1.0, 1.0)
        if file.tenants[name].backend is not None
        else service_range(file.device, name, _seat(file.tenants[name], costs[name], None), risk=file.risk)
        for name in lane.tenants
    }
    return [{name: ends[side] for name, ends in ranges.items()} for side in range(2)]


def _objectives(file: TenantsFile, costs: Mapping[str, TenantCosts], name: str) -> Sequence[Objective]:
    """Those of a tenant; a backend's request is one chunk, so it has one limit for all of its tokens."""
    tenant = file.tenants[name]
    if tenant.backend is None:
        return tenant.slo
    limit_s = tenant.scheduled_contract(name, _tokens(tenant)).within_s(costs[name].steps)
    return (Objective("latency", tenant.deadline.quantile, 1e3 * limit_s),)


def _attained(device: str, name: str, rate_rps: float, objective: Objective, ends: Sequence[OrderedTimes]) -> Attained:
    """The share in time, with an interval over the replications; the tail is that of answered requests.

    Args:
        device: The device.
        name: The tenant.
        rate_rps: Its rate.
        objective: What is judged.
        ends: Times at the estimated costs; then, if known, at the lower and at the upper end of their range.
    """
    every = [end.of(objective.metric).latencies_s for end in ends]
    requests = sum(each.size for each in every[0])
    parts = [[float((each <= objective.limit_ms / 1e3).mean()) for each in times] for times in every]
    intervals = [interval_over_seeds(part, requests) if part else (0.0, 1.0) for part in parts]
    tails = [_tail_ms(times, objective.quantile) for times in every]
    refused = sum(int(np.isinf(each).sum()) for each in every[0])
    return Attained(
        device=device,
        tenant=name,
        rate_rps=rate_rps,
        objective=objective.label,
        objective_ms=objective.limit_ms,
        wanted=objective.quantile,
        attained=Interval(
            float(np.mean(parts[0])) if parts[0] else 1.0,
            min(lo for lo, _ in intervals),
            max(hi for _, hi in intervals),
        ),
        shed=refused / max(requests, 1),
        tail_ms=Interval(tails[0], min(tails), max(tails)) if len(tails) > 1 else Interval(tails[0]),
        requests=requests,
    )


def _tail_ms(times: Sequence[np.ndarray], quantile: float) -> float:
    answered = np.concatenate([*times, np.empty(0)])
    answered = answered[np.isfinite(answered)]
    return 1e3 * float(np.quantile(answered, quantile)) if answered.size else float("inf")


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
