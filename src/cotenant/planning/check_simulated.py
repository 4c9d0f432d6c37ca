"""`plan --check` on a simulated GPU: all tenants of a device together, as the plan's way to share runs them.

Kernels of all tenants run against each other in the event simulation, once for each seed, so that bursts that coincide
slow each other down. Requests then queue behind each other with these times, in an engine if one serves them; where one
server orders the requests of all, the scheduler does. The ends of the interval are simulated with the ends of the range
of service times.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cotenant.errors import SharingUnavailable, StudyError
from cotenant.planning.check import Attained, interval_over_seeds
from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.predictors.closed_form import ClosedForm
from cotenant.planning.predictors.engine import EnginePredictor
from cotenant.planning.predictors.profiles import Simulation
from cotenant.planning.solver.problem import Floats
from cotenant.prediction.contention import lay_out, own_shares
from cotenant.scheduling.simulation import Replications
from cotenant.tenancy.interval import Interval
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.plan_document import REPLAN, PlanDevice, PlanSeat, PromisedTime
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.tenant_entry import TenantEntry

if TYPE_CHECKING:
    from cotenant.tenancy.objective import Objective

Times = Mapping[str, Replications]
"""By metric."""


def simulated_device(device: PlanDevice, seeds: Iterable[int], *, risk: float) -> list[Attained]:
    """Every objective on a device, judged against its own limit.

    Args:
        device: A device of the plan.
        seeds: Of the arrivals.
        risk: Of the plan: how often a service time may be beyond its range.
    """
    simulation, mix = device_simulation(device, risk)
    rough = ClosedForm(simulation)
    low, high = rough.errors.factors(mix, closed=False)
    ends = [np.ones(low.shape[1]) for _ in range(3)]
    for place, seat in enumerate(device.tenants.values()):
        ends[0][place], ends[2][place] = _narrowed(seat, float(low[0, place]), float(high[0, place]))
    by_seed = [EnginePredictor(simulation, rough, seed=seed).request_times(mix, ends) for seed in seeds]
    rows = []
    for place, (name, seat) in enumerate(device.tenants.items()):
        if seat.rate_rps > 0:
            seats = [[times[end][place] for times in by_seed] for end in range(3)]
            rows += [_judged(device, name, seat, objective, seats) for objective in seat.objectives]
    return rows


def _judged(
    device: PlanDevice, name: str, seat: PlanSeat, objective: "Objective", ends: Sequence[Sequence[Times]]
) -> Attained:
    """The share of the requests within a limit, over all replications of all seeds."""
    replications = [[times for seed in end for times in seed[objective.metric].latencies_s] for end in ends]
    limit_s = objective.limit_ms / 1e3
    kept = [[float((times <= limit_s).mean()) for times in end] or [0.0, 0.0] for end in replications]
    usual = replications[1]
    requests = sum(times.size for times in usual)
    answered = [[each[np.isfinite(each)] for each in times] for times in replications]
    tails = [
        1e3 * float(np.quantile(np.concatenate(times), objective.quantile))
        if sum(each.size for each in times)
        else float("inf")
        for times in answered
    ]
    return Attained(
        device=device.name,
        tenant=name,
        rate_rps=seat.rate_rps,
        objective=objective.label,
        objective_ms=objective.limit_ms,
        wanted=objective.quantile,
        attained=Interval(
            float(np.mean(kept[1])),
            interval_over_seeds(kept[2], requests)[0],
            interval_over_seeds(kept[0], requests)[1],
        ),
        shed=sum(int(np.isinf(times).sum()) for times in usual) / max(requests, 1),
        tail_ms=Interval(tails[1], tails[0], tails[2]),
        requests=requests,
    )


def _narrowed(seat: PlanSeat, low: float, high: float) -> tuple[float, float]:
    """How much less and more time than predicted a request may take.

    From the validated error of its class; from the plan's range where that is narrower, as it is after measurements.
    The plan's range is that of a queue, in which an error of the service time grows.
    """
    ranges = [promised for promised in seat.expected.values() if promised.estimate_ms]
    if not ranges:
        return low, high
    least = min((promised.lower_ms or 0.0) / (promised.estimate_ms or 1.0) for promised in ranges)
    most = max((promised.upper_ms or 0.0) / (promised.estimate_ms or 1.0) for promised in ranges)
    return max(low, least), min(high, most)


def service_range(device: str, name: str, seat: PlanSeat, *, risk: float) -> tuple[float, float]:
    """How much less and more time than predicted a request of a tenant may take alone on a simulated GPU."""
    simulation, mix = device_simulation(PlanDevice(name=device, tenants={name: seat}), risk)
    low, high = ClosedForm(simulation).errors.factors(mix, closed=False)
    return _narrowed(seat, float(low[0, 0]), float(high[0, 0]))


def device_simulation(device: PlanDevice, risk: float) -> tuple[Simulation, Mixes]:
    """The device of a plan, and its tenants as a mix."""
    seats = list(device.tenants.values())
    simulation = _simulation(device.kind, {name: seat.entry for name, seat in device.tenants.items()}, risk)
    sizes = _sizes(simulation, device.kind)
    for name, seat in device.tenants.items():
        if isinstance(seat.share, str) and seat.share not in sizes:
            there = f"has the profiles {', '.join(sizes)}" if sizes else "has no MIG"
            raise StudyError(
                f"{device.name}: {name} has the share {seat.share}, and {device.kind} {there}", hint=REPLAN
            )
    mix = Mixes(
        device.kind,
        device.sharing,
        np.arange(len(seats), dtype=np.int64)[None, :],
        np.array([[seat.rate_rps for seat in seats]]),
        np.array([[seat.at_once for seat in seats]], np.int64),
        _numbers([seat.share for seat in seats], sizes),
        device.clock_mhz,
    )
    return simulation, mix


def _simulation(kind: str, entries: Mapping[str, TenantEntry], risk: float) -> Simulation:
    from cotenant.devices.simulated import open_simulated
    from cotenant.planning.mixes.tenants import planned

    return Simulation(planned(entries), entries, {kind: open_simulated(kind)}, risk=risk)


def _sizes(simulation: Simulation, kind: str) -> list[str]:
    mig = simulation.gpus[kind].gpu.mig
    return list(mig.profiles) if mig is not None else []


def _numbers(shares: Sequence[float | str | None], sizes: Sequence[str]) -> Floats:
    """Shares as a mix has them: percentages, and numbers of MIG profiles."""
    numbers = [sizes.index(share) if isinstance(share, str) else np.nan if share is None else share for share in shares]
    return np.array([numbers], np.float64)


# --- the same for `predict`

RISK = 0.1
"""A plan's, if it is not given another: 80 % of service times are within their range."""


class MixQueues:
    """Requests of mixes that are not planned: how they wait and how long they take, as a plan would have it."""

    def __init__(
        self,
        device: str,
        entries: Mapping[str, TenantEntry],
        loads: Mapping[str, Load],
        ways: Mapping[str, Sharing],
    ) -> None:
        """Of a file.

        Args:
            device: A simulated GPU.
            entries: Its tenants.
            loads: Arrivals at known rates; the others are always busy.
            ways: Ways to share, as written in a prediction.
        """
        self._device, self._ways = device, ways
        self._seats = {name: _asking(entry, loads.get(name)) for name, entry in entries.items()}
        self._names = list(entries)

    @cached_property
    def _predictor(self) -> EnginePredictor:
        simulation = _simulation(self._device, {name: seat.entry for name, seat in self._seats.items()}, RISK)
        return EnginePredictor(simulation, ClosedForm(simulation))

    def slowdowns(self, group: tuple[str, ...], way: str, *, exact: bool) -> list[float] | None:
        """By the event simulation or in closed form; None if they can't share the device so."""
        mix = self._mix(group, way)
        if mix is None:
            return None
        predicted = self._predictor(mix) if exact else self._predictor.rough(mix)
        return [float(slowdown) for slowdown in predicted.slowdown.estimate[0]]

    def times(
        self, group: tuple[str, ...], way: str, factors: Sequence[Sequence[float]] | None, *, exact: bool
    ) -> Sequence[Sequence[Times]] | None:
        """Times of requests at the lower end, the estimate and the upper end of service times, by tenant.

        Args:
            group: The mix.
            way: How they share.
            factors: By end and tenant: service times over predicted ones; None: the validated range.
            exact: By the event simulation instead of the closed form.
        """
        mix = self._mix(group, way)
        if mix is None:
            return None
        low, high = self._predictor.rough.errors.factors(mix, closed=not exact)
        ends = [low[0], np.ones(len(group)), high[0]] if factors is None else [np.array(end) for end in factors]
        return self._predictor.request_times(mix, ends, closed=not exact)

    def _mix(self, group: tuple[str, ...], way: str) -> Mixes | None:
        """None if they can't share the device so."""
        simulation, sharing, count = self._predictor.simulation, self._ways[way].among(len(group)), len(group)
        gpu = simulation.gpus[self._device]
        specs = [self._seats[name].entry.spec() for name in group]
        tenants = [
            Tenant(name=str(seat), of=name, workload=spec, load=Load(kind="closed"), share=self._seats[name].runs.share)
            for seat, (name, spec) in enumerate(zip(group, specs, strict=True))
        ]
        needs = {tenant.name: gpu.memory_bytes(spec) for tenant, spec in zip(tenants, specs, strict=True)}
        try:
            parts = lay_out(gpu.gpu, sharing, tenants, needs).parts
        except SharingUnavailable:
            return None
        own = own_shares(tenants)
        usual: dict[str, Sequence[float | str]] = {
            "mps": own,
            "green": own or [100 / count] * count,
            "mig": [str(part.label) for part in parts],
        }
        shares: Sequence[float | str | None] = sharing.shares or usual.get(sharing.mode) or [None] * count
        seats = [self._seats[name] for name in group]
        return Mixes(
            self._device,
            sharing.mode,
            np.array([[self._names.index(name) for name in group]]),
            np.array([[seat.rate_rps for seat in seats]]),
            np.array([[seat.at_once for seat in seats]], np.int64),
            _numbers(shares, _sizes(self._predictor.simulation, self._device)),
            None,
        )


def _asking(entry: TenantEntry, load: Load | None) -> PlanSeat:
    return PlanSeat(
        rate_rps=0.0 if load is None else load.rate_rps or 0.0,
        at_once=entry.most_at_once,
        runs=entry,
        cv=1.0 if load is None else load.cv,
        software=entry.software[0] if entry.software else "eager",
        priority=entry.priority,
        expected={objective.label: PromisedTime(limit_ms=objective.limit_ms) for objective in entry.slo},
    )
