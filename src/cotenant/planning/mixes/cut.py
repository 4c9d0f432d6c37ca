"""Plans in which every tenant has its own MIG instances, as many as its rate needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.planning.mixes.alone import KnownTenants, LoneTenants
from cotenant.planning.mixes.judge import Minimise, MixJudge
from cotenant.planning.mixes.kinds import DeviceKind, ways_of
from cotenant.planning.mixes.mig import MigGeometry
from cotenant.planning.mixes.predictor import MixPredictor
from cotenant.planning.mixes.tenants import ServingTenant, Unit, UnitSeat
from cotenant.planning.solver.generation import Solved
from cotenant.planning.solver.problem import Floats, PlacedGroup, cost_of

STEPS = 24
"""Number of rates tried per instance, down from the tenant's own."""
LEAST = 1 / 64
COVER_S = 4.0
"""Time limit of the choice of layouts."""


def plan_of_instances(
    tenants: Sequence[ServingTenant],
    kinds: Sequence[DeviceKind],
    predictor: MixPredictor,
    *,
    minimise: Minimise,
    below: float,
    more: Callable[[], bool],
) -> tuple[MixJudge, Solved] | None:
    """A plan of MIG instances that costs less than ``below``; None if there is none, it is forbidden, or time is up."""
    cut = [kind for kind in kinds if kind.mig is not None and "mig" in kind.ways]
    if not cut or any(tenant.job or tenant.near or tenant.apart or tenant.replicas for tenant in tenants):
        return None
    if any(tenant.devices_on(kind.name) > 1 for tenant in tenants for kind in cut):
        return None
    rates = np.array([tenant.rate_rps for tenant in tenants])
    price = {kind.name: kind.price_per_h if minimise == "cost" else 1.0 for kind in cut}
    offers = [CutGpu(kind.mig, price[kind.name], kind.available, _offers(tenants, kind, predictor, more))
              for kind in cut if kind.mig is not None]  # fmt: skip
    if not more():
        return None
    covered = cover(offers, rates, seconds=COVER_S)
    if covered is None or covered.cost >= below - 1e-9:
        return None
    served = {
        tenant: sum(
            offers[gpu.kind].rates[tenant, _profile(cut[gpu.kind], instance.profile)]
            for gpu in covered.gpus
            for instance in gpu.instances
            if instance.tenant == tenant
        )
        for tenant in range(len(tenants))
    }
    units: list[Unit] = []
    groups: list[tuple[int, tuple[int, ...]]] = []
    seen = [0] * len(tenants)
    total = [
        sum(instance.tenant == tenant for gpu in covered.gpus for instance in gpu.instances)
        for tenant in range(len(rates))
    ]
    for gpu in covered.gpus:
        members = []
        for instance in gpu.instances:
            offer = float(offers[gpu.kind].rates[instance.tenant, _profile(cut[gpu.kind], instance.profile)])
            rate = float(rates[instance.tenant]) * offer / served[instance.tenant]
            members.append(len(units))
            units.append(Unit((UnitSeat(instance.tenant, rate, seen[instance.tenant], total[instance.tenant]),)))
            seen[instance.tenant] += 1
        groups.append((kinds.index(cut[gpu.kind]), tuple(members)))
    judge = MixJudge(tenants, kinds, units, predictor, minimise=minimise)
    option = {way.kind: number for number, way in enumerate(judge.ways) if way.sharing == "mig"}
    columns = tuple(PlacedGroup(option[kind], members, price[kinds[kind].name]) for kind, members in groups if members)
    fits = [bool(judge(column.option, np.array([column.members], np.int64)).fits[0]) for column in columns]
    if not all(fits):
        return None
    bound = min(covered.bound, cost_of(columns))
    return judge, Solved(columns, (), cost_of(columns), bound, "all cuts and instances, if all tenants are on MIG")


def _profile(kind: DeviceKind, name: str) -> int:
    assert kind.mig is not None
    return next(number for number, profile in enumerate(kind.mig.profiles) if profile.name == name)


def _offers(
    tenants: Sequence[ServingTenant], kind: DeviceKind, predictor: MixPredictor, more: Callable[[], bool]
) -> Floats:
    """Tenants x profiles: the highest rate at which an instance meets the tenant's objectives; 0 if none."""
    assert kind.mig is not None
    parts = np.geomspace(1.0, LEAST, STEPS)
    alone = LoneTenants(tenants, [kind], (), predictor, known=KnownTenants(), more=more)
    way = next(way for way in ways_of([kind]) if way.sharing == "mig")
    best = np.zeros((len(tenants), len(kind.mig.profiles)))
    for number in range(len(kind.mig.profiles)):
        for tenant, serving in enumerate(tenants):
            if not more():
                break
            rows = [(part * serving.rate_rps, batch) for part in parts for batch in serving.batches]
            rates = np.array([rate for rate, _ in rows])
            batches, profiles = np.array([batch for _, batch in rows]), np.full(len(rows), float(number))
            keeps = alone.keeps(way, tenant, rates, batches, profiles)
            best[tenant, number] = rates[keeps].max(initial=0.0)
    return best


# --- optimal plans for tenants on their own MIG instances, where no neighbour disturbs them

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class CutGpu:
    """A GPU model and the rates its instances serve."""

    mig: MigGeometry
    price: float
    available: int
    rates: Floats
    """Tenants x profiles: requests/s an instance serves within the tenant's objectives; 0 if none."""


@dataclass(frozen=True, slots=True)
class MigInstance:
    """An instance and its tenant."""

    profile: str
    tenant: int


@dataclass(frozen=True, slots=True)
class DividedGpu:
    """A GPU of a plan."""

    kind: int
    layout: tuple[int, ...]
    """Instances by profile, including unused ones."""
    instances: tuple[MigInstance, ...]


@dataclass(frozen=True, slots=True)
class Covered:
    """GPUs that cover every rate; empty if the available ones can't."""

    gpus: tuple[DividedGpu, ...]
    cost: float
    bound: float
    """Lower bound on the cost of any choice of instances and layouts."""


def cover(kinds: Sequence[CutGpu], rates: Floats, *, seconds: float) -> Covered | None:
    """The cheapest layouts; None if the rates can't be served or no solution was found in time.

    Args:
        kinds: Available GPU models.
        rates: Requests/s by tenant.
        seconds: Approximate time limit.
    """
    model = _Model(kinds, rates)
    relaxed = model.relaxed()
    if relaxed is None:
        return None
    bound = _stepped(relaxed, kinds)
    counts = model.solved(seconds, bound)
    if counts is None:
        return None
    gpus = model.cuts(counts)
    cost = sum(kinds[gpu.kind].price for gpu in gpus)
    return Covered(gpus, cost, max(min(bound, cost), min(_stepped(model.bound, kinds), cost)))


def _stepped(bound: float, kinds: Sequence[CutGpu]) -> float:
    """With a single price, costs are multiples of it."""
    prices = {kind.price for kind in kinds}
    if len(prices) > 1:
        return bound
    price = prices.pop()
    return float(np.ceil(bound / price - _ROUNDING) * price)


class _Model:
    """Columns: instances by kind, tenant and profile, then GPUs by kind and layout."""

    def __init__(self, kinds: Sequence[CutGpu], rates: Floats) -> None:
        self.kinds, self.rates, self.bound = kinds, rates, 0.0
        self.instances = [
            (number, tenant, profile)
            for number, kind in enumerate(kinds)
            for tenant in range(rates.size)
            for profile in range(len(kind.mig.profiles))
            if kind.rates[tenant, profile] > 0
        ]
        self.layouts = [(number, layout) for number, kind in enumerate(kinds) for layout in kind.mig.layouts()]
        sizes = [(number, profile) for number, kind in enumerate(kinds) for profile in range(len(kind.mig.profiles))]
        row = {size: index for index, size in enumerate(sizes)}
        width = len(self.instances) + len(self.layouts)
        self.cost = np.zeros(width)
        self.serves = np.zeros((rates.size, width))
        self.free = np.zeros((len(sizes), width))
        self.counts = np.zeros((len(kinds), width))
        for column, (number, tenant, profile) in enumerate(self.instances):
            self.serves[tenant, column] = kinds[number].rates[tenant, profile]
            self.free[row[number, profile], column] = -1
        for column, (number, layout) in enumerate(self.layouts, len(self.instances)):
            self.cost[column] = kinds[number].price
            self.counts[number, column] = 1
            for profile, count in enumerate(layout):
                self.free[row[number, profile], column] = count
        self.available = np.array([kind.available for kind in kinds], float)

    def relaxed(self) -> float | None:
        from scipy.optimize import linprog

        done = linprog(
            self.cost,
            A_ub=np.vstack([-self.serves, -self.free, self.counts]),
            b_ub=np.concatenate([-self.rates, np.zeros(len(self.free)), self.available]),
            method="highs",
        )
        return float(done.fun) if done.status == 0 and done.fun is not None else None

    def solved(self, seconds: float, bound: float) -> np.ndarray | None:
        """Test first whether the bound itself is attainable, which is quick if so; then minimise the cost."""
        quick = self._solve(seconds / 2, at_most=bound + _ROUNDING)
        return quick if quick is not None else self._solve(seconds / 2, at_most=np.inf)

    def _solve(self, seconds: float, *, at_most: float) -> np.ndarray | None:
        from scipy.optimize import Bounds, LinearConstraint, milp

        reach = np.isfinite(at_most)
        done = milp(
            np.zeros_like(self.cost) if reach else self.cost,
            integrality=np.ones(self.cost.size, np.int64),
            bounds=Bounds(0, np.inf),
            constraints=[
                LinearConstraint(self.serves, self.rates, np.inf),
                LinearConstraint(self.free, 0, np.inf),
                LinearConstraint(self.counts, -np.inf, self.available),
                LinearConstraint(self.cost[None, :], -np.inf, at_most),
            ],
            options={"time_limit": max(seconds, 0.1)},
        )
        if not reach and done.mip_dual_bound is not None:
            self.bound = max(self.bound, float(done.mip_dual_bound))
        return None if done.x is None else np.round(done.x).astype(int)

    def cuts(self, counts: np.ndarray) -> tuple[DividedGpu, ...]:
        """Assign instances GPU by GPU to tenants that still need that size."""
        waiting: dict[tuple[int, int], list[int]] = {}
        for (number, tenant, profile), count in zip(self.instances, counts, strict=False):
            waiting.setdefault((number, profile), []).extend([tenant] * int(count))
        gpus = []
        for (number, layout), count in zip(self.layouts, counts[len(self.instances) :], strict=True):
            profiles = self.kinds[number].mig.profiles
            for _ in range(int(count)):
                mine = [
                    MigInstance(profiles[profile].name, waiting[number, profile].pop())
                    for profile, there in enumerate(layout)
                    for _ in range(there)
                    if waiting.get((number, profile))
                ]
                gpus.append(DividedGpu(number, layout, tuple(mine)))
        return tuple(gpus)
