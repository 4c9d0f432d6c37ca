"""Plans in which every tenant has its own MIG instances, as many as its rate needs."""

from collections.abc import Sequence

import numpy as np

from cotenant.planning.mixes.devices import DeviceKind
from cotenant.planning.mixes.instances import CutGpu, cover
from cotenant.planning.mixes.judge import Judge, Minimise
from cotenant.planning.mixes.predictor import Predictor
from cotenant.planning.mixes.tenants import Seat, ServingTenant, Unit
from cotenant.planning.solver.generation import Solved
from cotenant.planning.solver.problem import Column, Floats, cost_of

STEPS = 24
"""Number of rates tried per instance, down from the tenant's own."""
LEAST = 1 / 64


def plan_of_instances(
    tenants: Sequence[ServingTenant],
    kinds: Sequence[DeviceKind],
    predictor: Predictor,
    *,
    minimise: Minimise,
    below: float,
    seconds: float,
) -> tuple[Judge, Solved] | None:
    """A plan of MIG instances that costs less than ``below``; None if there is none or a constraint forbids it."""
    cut = [kind for kind in kinds if kind.mig is not None and "mig" in kind.ways]
    if not cut or any(tenant.job or tenant.near or tenant.apart or tenant.replicas for tenant in tenants):
        return None
    if any(tenant.devices_on(kind.name) > 1 for tenant in tenants for kind in cut):
        return None
    rates = np.array([tenant.rate_rps for tenant in tenants])
    price = {kind.name: kind.price_per_h if minimise == "cost" else 1.0 for kind in cut}
    offers = [CutGpu(kind.mig, price[kind.name], kind.available, _offers(tenants, kind, predictor)) for kind in cut
              if kind.mig is not None]  # fmt: skip
    covered = cover(offers, rates, seconds=seconds)
    if covered is None or covered.cost >= below - 1e-9:
        return None
    served = {
        tenant: sum(
            offers[gpu.kind].rates[tenant, _profile(cut[gpu.kind], one.profile)]
            for gpu in covered.gpus
            for one in gpu.instances
            if one.tenant == tenant
        )
        for tenant in range(len(tenants))
    }
    units: list[Unit] = []
    groups: list[tuple[int, tuple[int, ...]]] = []
    seen = [0] * len(tenants)
    total = [sum(one.tenant == tenant for gpu in covered.gpus for one in gpu.instances) for tenant in range(len(rates))]
    for gpu in covered.gpus:
        members = []
        for one in gpu.instances:
            offer = float(offers[gpu.kind].rates[one.tenant, _profile(cut[gpu.kind], one.profile)])
            rate = float(rates[one.tenant]) * offer / served[one.tenant]
            members.append(len(units))
            units.append(Unit((Seat(one.tenant, rate, seen[one.tenant], total[one.tenant]),)))
            seen[one.tenant] += 1
        groups.append((kinds.index(cut[gpu.kind]), tuple(members)))
    judge = Judge(tenants, kinds, units, predictor, minimise=minimise)
    option = {way.kind: number for number, way in enumerate(judge.ways) if way.sharing == "mig"}
    columns = tuple(Column(option[kind], members, price[kinds[kind].name]) for kind, members in groups if members)
    fits = [bool(judge(one.option, np.array([one.members], np.int64)).fits[0]) for one in columns]
    if not all(fits):
        return None
    bound = min(covered.bound, cost_of(columns))
    return judge, Solved(columns, (), cost_of(columns), bound, "all cuts and instances, if all tenants are on MIG")


def _profile(kind: DeviceKind, name: str) -> int:
    assert kind.mig is not None
    return next(number for number, profile in enumerate(kind.mig.profiles) if profile.name == name)


def _offers(tenants: Sequence[ServingTenant], kind: DeviceKind, predictor: Predictor) -> Floats:
    """Tenants x profiles: the highest rate at which an instance meets the tenant's objectives; 0 if none."""
    assert kind.mig is not None
    parts = np.geomspace(1.0, LEAST, STEPS)
    judge = Judge(tenants, [kind], [Unit((Seat(0, 0.0),))], predictor)
    option = next(number for number, way in enumerate(judge.ways) if way.sharing == "mig")
    best = np.zeros((len(tenants), len(kind.mig.profiles)))
    for number in range(len(kind.mig.profiles)):
        for tenant, one in enumerate(tenants):
            rows = [(part * one.rate_rps, batch) for part in parts for batch in one.batches]
            rates = np.array([rate for rate, _ in rows])
            keeps = judge.keeps_alone(option, tenant, rates, np.array([batch for _, batch in rows]), float(number))
            best[tenant, number] = rates[keeps].max(initial=0.0)
    return best
