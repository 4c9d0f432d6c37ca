"""What each tenant needs by itself: how many requests at once, which share, which MIG instance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cotenant.planning.mixes.kinds import DeviceKind, Way
from cotenant.planning.mixes.predictor import Mixes, MixPredictor, PredictedMix, Requirements
from cotenant.planning.mixes.tenants import ServingTenant, Unit
from cotenant.planning.solver.problem import NOBODY, Bools, Floats, Ints

SHARES = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0)
"""Percentages a tenant may be limited to."""
TOO_MUCH = 1000.0
LAST_PERCENT = 0.02
"""Share of a device that headroom is worth: within it, the number of requests at once with the least strain wins."""

_AtRate = tuple[int, float | None, int, float]
"""Kind of device, clock, tenant and rate."""


@dataclass(frozen=True, slots=True)
class KnownTenants:
    """What was found out about tenants alone; judges of the same tenants and kinds share it."""

    at_once: dict[_AtRate, tuple[int, ...]] = field(default_factory=dict)
    """Numbers of requests worth trying: least use of the device first, then faster ones."""
    shares: dict[_AtRate, float] = field(default_factory=dict)
    instances: dict[_AtRate, tuple[float, int]] = field(default_factory=dict)


class LoneTenants:
    """Tenants of some units, each by itself on every kind of device."""

    def __init__(
        self,
        tenants: Sequence[ServingTenant],
        kinds: Sequence[DeviceKind],
        units: Sequence[Unit],
        predictor: MixPredictor,
        *,
        known: KnownTenants,
        more: Callable[[], bool],
    ) -> None:
        """As for `MixJudge`."""
        self.tenants, self.kinds, self.predictor, self.known, self.more = tenants, kinds, predictor, known, more
        self.hurried = False
        """Some parts of devices were not described for lack of time."""
        self.requirements = Requirements(tenants)
        rates: dict[int, float] = {}
        for seat in (seat for unit in units for seat in unit.seats):
            rates[seat.tenant] = max(rates.get(seat.tenant, 0.0), seat.rate_rps)
        self._rates: Mapping[int, float] = dict(sorted(rates.items()))
        self._ladders: dict[tuple[int, float | None], Ints] = {}
        self._shares: dict[tuple[int, float | None], Floats] = {}

    def at_once(self, way: Way) -> Ints:
        """Tenants x steps: numbers of requests worth trying, padded with 0."""
        key = (way.kind, way.clock_mhz)
        if key not in self._ladders:
            known = self.known.at_once
            fresh = [tenant for tenant, rate in self._rates.items() if (*key, tenant, rate) not in known]
            known |= {(*key, tenant, self._rates[tenant]): steps for tenant, steps in self._steps(way, fresh).items()}
            ladder = np.zeros((len(self.tenants) + 1, max(len(tenant.batches) for tenant in self.tenants)), np.int64)
            for tenant, rate in self._rates.items():
                steps = known[*key, tenant, rate]
                ladder[tenant, : len(steps)] = steps
            self._ladders[key] = ladder
        return self._ladders[key]

    def _steps(self, way: Way, tenants: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """By tenant: its numbers of requests, in the order in which they are tried."""
        if not tenants:
            return {}
        batches = [self.tenants[tenant].batches for tenant in tenants]
        width = max(map(len, batches))
        busy, late = np.full((2, len(tenants), width), np.inf)
        for step in range(width):
            batch = [own[min(step, len(own) - 1)] for own in batches]
            predicted = self._alone(way, self.kinds[way.kind].ways[0], tenants, batch, np.nan)
            busy[:, step] = predicted.busy
            ratios = self.requirements.ratios(np.array(tenants)[:, None], predicted.latency_ms.upper)
            late[:, step] = ratios[:, 0].max(axis=1)
        busy, late = (np.nan_to_num(values, nan=np.inf, posinf=np.inf) for values in (busy, late))  # it doesn't fit
        ladders = {}
        for row, (tenant, own) in enumerate(zip(tenants, batches, strict=True)):
            order = list(np.argsort(busy[row, : len(own)], kind="stable"))
            close = [step for step in order if busy[row, step] <= busy[row, order[0]] + LAST_PERCENT]
            steps = [min(close, key=late[row].__getitem__)]
            for step in order:
                if late[row, step] < late[row, steps[-1]]:
                    steps.append(step)
            ladders[tenant] = tuple(own[step] for step in steps)
        return ladders

    def shares(self, way: Way) -> Floats:
        """Percentage with which each meets its objectives; above 100 if none of `SHARES` is enough."""
        key = (way.kind, way.clock_mhz)
        if key in self._shares:
            return self._shares[key]
        known, complete = self.known.shares, True
        fresh = [tenant for tenant, rate in self._rates.items() if (*key, tenant, rate) not in known]
        if fresh:
            batch, least = self.at_once(way)[fresh, 0], np.full(len(fresh), TOO_MUCH)
            for share in SHARES[::-1]:
                if not self.more():
                    complete, self.hurried = False, True
                    break
                predicted = self._alone(way, "mps", fresh, np.maximum(batch, 1), share)
                kept = ~self.requirements.late(np.array(fresh)[:, None], predicted)[:, 0] & (predicted.busy <= 1)
                least = np.where(kept, share, least)
            if complete:
                known |= {
                    (*key, tenant, self._rates[tenant]): float(share)
                    for tenant, share in zip(fresh, least, strict=True)
                }
        shares = np.full(len(self.tenants), TOO_MUCH)
        for tenant, rate in self._rates.items():
            shares[tenant] = known.get((*key, tenant, rate), TOO_MUCH)
        own = np.array([np.nan if tenant.share is None else tenant.share for tenant in self.tenants])
        shares = np.where(np.isnan(own), shares, own)
        if complete:
            self._shares[key] = shares
        return shares

    def instance(self, way: Way, tenant: int, rate: float) -> tuple[float, int]:
        """The smallest sufficient MIG instance at a rate (NaN if none), and how many requests at once."""
        if tenant == NOBODY:
            return np.nan, 1
        key = way.kind, way.clock_mhz, tenant, rate
        if key not in self.known.instances:
            if not self.more():
                self.hurried = True
                return np.nan, 1
            mig = self.kinds[way.kind].mig
            assert mig is not None
            steps = [int(batch) for batch in self.at_once(way)[tenant] if batch > 0]
            sizes = [(profile.memory, profile.compute) for profile in mig.profiles]
            tried = [(number, batch) for number in sorted(range(len(sizes)), key=sizes.__getitem__) for batch in steps]
            batches, numbers = np.array([batch for _, batch in tried]), np.array([float(number) for number, _ in tried])
            fits = np.flatnonzero(self.keeps(way, tenant, np.full(len(tried), rate), batches, numbers))
            smallest = tried[fits[0]] if fits.size else None
            self.known.instances[key] = (float(smallest[0]), smallest[1]) if smallest else (np.nan, steps[0])
        return self.known.instances[key]

    def keeps(self, way: Way, tenant: int, rates: Floats, batches: Ints, shares: Floats) -> Bools:
        """Whether a tenant limited to shares or profiles meets its objectives, by rate."""
        column = np.full((rates.size, 1), tenant, np.int64)
        name = self.kinds[way.kind].name
        mixes = Mixes(
            name, way.mode, column, rates[:, None], batches[:, None], shares[:, None], way.clock_mhz, loaded=1.0
        )
        return self.requirements.kept(mixes, self.predictor(mixes), self.kinds[way.kind])

    def _alone(
        self, way: Way, mode: str, tenants: Sequence[int], batches: Sequence[int] | Ints, share: float
    ) -> PredictedMix:
        column = np.array(tenants, np.int64)[:, None]
        rates = np.array([[self._rates[tenant]] for tenant in tenants])
        loaded = None if np.isnan(share) else 1.0
        batch, held = np.array(batches, np.int64)[:, None], np.full(column.shape, share)
        name = self.kinds[way.kind].name
        return self.predictor(Mixes(name, mode, column, rates, batch, held, way.clock_mhz, loaded=loaded))
