"""Optimal plans for tenants on their own MIG instances, where no neighbour disturbs them.

Choose each tenant's instances by size and each GPU's layout so that rates are covered, every instance used exists,
and the GPUs cost the least.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.planning.mixes.mig import Mig
from cotenant.planning.solver.problem import Floats

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class CutGpu:
    """A GPU model and the rates its instances serve."""

    mig: Mig
    price: float
    available: int
    rates: Floats
    """Tenants x profiles: requests/s an instance serves within the tenant's objectives; 0 if none."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance and its tenant."""

    profile: str
    tenant: int


@dataclass(frozen=True, slots=True)
class Cut:
    """One GPU of a plan."""

    kind: int
    layout: tuple[int, ...]
    """Instances by profile, including unused ones."""
    instances: tuple[Instance, ...]


@dataclass(frozen=True, slots=True)
class Covered:
    """GPUs that cover every rate; empty if the available ones can't."""

    gpus: tuple[Cut, ...]
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
        row = {size: place for place, size in enumerate(sizes)}
        width = len(self.instances) + len(self.layouts)
        self.cost = np.zeros(width)
        self.serves = np.zeros((rates.size, width))
        self.free = np.zeros((len(sizes), width))
        self.counts = np.zeros((len(kinds), width))
        for place, (number, tenant, profile) in enumerate(self.instances):
            self.serves[tenant, place] = kinds[number].rates[tenant, profile]
            self.free[row[number, profile], place] = -1
        for place, (number, layout) in enumerate(self.layouts, len(self.instances)):
            self.cost[place] = kinds[number].price
            self.counts[number, place] = 1
            for profile, count in enumerate(layout):
                self.free[row[number, profile], place] = count
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

    def cuts(self, counts: np.ndarray) -> tuple[Cut, ...]:
        """Assign instances GPU by GPU to tenants that still need one of that size."""
        wanted: dict[tuple[int, int], list[int]] = {}
        for (number, tenant, profile), count in zip(self.instances, counts, strict=False):
            wanted.setdefault((number, profile), []).extend([tenant] * int(count))
        gpus = []
        for (number, layout), count in zip(self.layouts, counts[len(self.instances) :], strict=True):
            profiles = self.kinds[number].mig.profiles
            for _ in range(int(count)):
                mine = [
                    Instance(profiles[profile].name, wanted[number, profile].pop())
                    for profile, there in enumerate(layout)
                    for _ in range(there)
                    if wanted.get((number, profile))
                ]
                gpus.append(Cut(number, layout, tuple(mine)))
        return tuple(gpus)
