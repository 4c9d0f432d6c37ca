"""`plan --check`: simulate a plan's arrivals with the scheduler that will serve it.

Each tenant has its own worker, as in every way to share that plans use; neighbours slow it down by the plan's predicted
factor. Requests follow the tenant's arrival process (bursts included), are batched, ordered and shed by the scheduler,
and count as kept if they finish within the objective. The ends of the interval are simulated with the ends of the
plan's range of times, so that they cover the error of the predicted ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cotenant.errors import SchedulingError
from cotenant.paths import AnyPath
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.plan import PlanDevice, PlanDocument, PlanSeat, read_plan

if TYPE_CHECKING:
    from cotenant.planning.predictors.profiles import Simulation
    from cotenant.scheduling import TenantCosts

SEEDS = range(11, 19)
LOOKS = SEEDS, range(19, 27), range(27, 43)
"""Seeds of the arrivals; further ones are only simulated if the earlier ones leave the verdict open."""
LEAST_REQUESTS, MOST_REQUESTS, LONGEST_S = 600, 3000, 600.0
OBJECTIVES = 20
"""A window lasts at least this many objectives, so that queues have time to grow."""
UNDECIDED = "can't tell"


@dataclass(frozen=True, slots=True)
class Attained:
    """One tenant of a plan under simulated arrivals."""

    device: str
    tenant: str
    rate_rps: float
    objective_ms: float
    wanted: float
    """Share of the requests that must finish within the objective."""
    attained: float
    lo: float
    hi: float
    """Over the plan's range of times, and 95 % over the seeds for all looks at them together."""
    shed: float
    p99_ms: float
    requests: int

    @property
    def verdict(self) -> str:
        """`kept`, `missed`, or `can't tell` if the interval contains the required share."""
        return _verdict(self.lo, self.hi, self.wanted)


@dataclass(frozen=True, slots=True)
class Checked:
    """All tenants of a plan."""

    source: str
    tenants: tuple[Attained, ...]
    basis: str = "simulated: scheduler and arrivals; service times predicted"

    @property
    def keeps_all(self) -> bool:
        """No objective is missed or in doubt."""
        return all(one.verdict == "kept" for one in self.tenants)


def check_plan(path: AnyPath) -> Checked:
    """Simulate a plan.

    Args:
        path: A plan.yaml.

    Raises:
        StudyError: It can't be read or isn't a plan.
    """
    path = Path(path)
    plan = read_plan(path)
    found = []
    measured = False
    for device in plan.devices:
        if not DeviceName(device.kind).simulated:
            found += _on_real(plan, device, str(path))
            measured = True
            continue
        for name, seat in device.tenants.items():
            if seat.expected and seat.rate_rps > 0:
                found.append(attained(device, name, seat))
    if measured:
        return Checked(str(path), tuple(found), "simulated: queues and arrivals; times alone measured")
    return Checked(str(path), tuple(found))


def _on_real(plan: PlanDocument, device: PlanDevice, source: str) -> list[Attained]:
    """Every tenant in its own process, as `cotenant run` runs the plan: nothing is shed."""
    from cotenant.planning.check_measured import attainments, measured_device

    found = []
    kept = attainments(measured_device(plan, device, source), device, SEEDS)
    for name, (attained_part, lo, hi, p99_ms, count) in kept.items():
        seat = device.tenants[name]
        limit = seat.limit_of_a_request((seat.runs.tokens or 1) - 1)
        assert limit is not None, "only tenants with an objective are judged"
        part, rate = (attained_part, lo, hi), seat.rate_rps
        found.append(Attained(device.name, name, rate, limit[0] * 1e3, limit[1], *part, 0.0, p99_ms, count))
    return found


def attained(device: PlanDevice, name: str, seat: PlanSeat, *, looks: Sequence[Iterable[int]] = LOOKS) -> Attained:
    """Simulate one tenant of a plan.

    Args:
        device: A device of the plan.
        name: The tenant.
        seat: Its seat.
        looks: Seeds of the arrivals, until a verdict is possible.
    """
    simulation = _simulation(device, name, seat)
    low, high = _factors(simulation, device, seat)
    if simulation.served(device.kind, 0):
        return _attained_by_engine(simulation, device, name, seat, (low, high))
    usual = _Simulated.of(simulation, device, name, seat)
    slower, faster = (
        usual if factor == 1 else _Simulated.of(simulation, device, name, seat, factor) for factor in (high, low)
    )
    lo, hi = 0.0, 1.0
    for seeds in looks:
        for one in {id(one): one for one in (usual, slower, faster)}.values():
            one.add(seeds)
        lo = interval_over_seeds(slower.parts, slower.requests, len(looks))[0]
        hi = interval_over_seeds(faster.parts, faster.requests, len(looks))[1]
        if _verdict(lo, hi, usual.wanted) != UNDECIDED:
            break
    return Attained(
        device=device.name,
        tenant=name,
        rate_rps=usual.rate,
        objective_ms=usual.objective_s * 1e3,
        wanted=usual.wanted,
        attained=float(np.mean(usual.parts)),
        lo=lo,
        hi=hi,
        shed=usual.shed / max(usual.requests, 1),
        p99_ms=float(np.quantile(usual.times, 0.99)) * 1e3 if usual.times else float("inf"),
        requests=usual.requests,
    )


def _attained_by_engine(
    simulation: "Simulation", device: PlanDevice, name: str, seat: PlanSeat, ends: tuple[float, float]
) -> Attained:
    """An engine batches by itself and sheds nothing; a request must keep all of its limits."""
    from cotenant.prediction.engines.tails import NO_TIMES, engine_times

    engine = simulation.engines[simulation.profile(device.kind, 0, seat.at_once, "", float("nan")).engine]
    limits = {one.metric: one.limit_ms / 1e3 for one in seat.objectives}
    kept: dict[float, list[float]] = {}
    p99_ms, requests = float("inf"), 0
    for factor in (ends[0], 1.0, ends[1]):
        slowdown = seat.slowdown * factor
        keeps_up = seat.rate_rps * slowdown < engine.capacity_rps
        times = NO_TIMES
        if keeps_up:
            times = engine_times(
                engine.engine,
                lambda seed, horizon: engine.arrivals(seat.rate_rps, seed, horizon),
                rate_rps=seat.rate_rps,
                stretch=np.array([slowdown]),
                together=float(engine.usual(np.array(seat.rate_rps))[3]),
                seed=SEEDS[0],
            )
        found = [times.of(metric).latencies_s for metric in limits]
        kept[factor] = [
            float(np.all([took <= limit for took, limit in zip(one, limits.values(), strict=True)], axis=0).mean())
            for one in zip(*found, strict=True)
        ] or [0.0, 0.0]
        if factor == 1.0 and keeps_up:
            p99_ms = 1e3 * times.latency.quantile(0.99)[1]
            requests = sum(one.size for one in times.latency.latencies_s)
    limit = seat.limit_of_a_request(engine.engine.output - 1)
    assert limit is not None, "only tenants with an objective are judged"
    return Attained(
        device=device.name,
        tenant=name,
        rate_rps=seat.rate_rps,
        objective_ms=limit[0] * 1e3,
        wanted=limit[1],
        attained=float(np.mean(kept[1.0])),
        lo=interval_over_seeds(kept[ends[1]], requests)[0],
        hi=interval_over_seeds(kept[ends[0]], requests)[1],
        shed=0.0,
        p99_ms=p99_ms,
        requests=requests,
    )


@dataclass(slots=True)
class _Simulated:
    """One tenant's arrivals under the scheduler, seed after seed."""

    name: str
    costs: "TenantCosts"
    noise: float
    objective_s: float
    wanted: float
    rate: float
    cv: float
    parts: list[float] = field(default_factory=list)
    """Share kept, by seed."""
    times: list[float] = field(default_factory=list)
    shed: int = 0
    requests: int = 0

    @classmethod
    def of(
        cls,
        simulation: "Simulation",
        device: PlanDevice,
        name: str,
        seat: PlanSeat,
        factor: float = 1.0,
    ) -> "_Simulated":
        """Nothing simulated yet; with times that are this factor longer than predicted."""
        costs, noise = _costs(simulation, device, seat, seat.slowdown * factor)
        limit = seat.limit_of_a_request(max(costs.steps, 1))
        assert limit is not None, "only tenants with an objective are judged"
        return cls(name, costs, noise, *limit, seat.rate_rps, seat.cv)

    def add(self, seeds: Iterable[int]) -> None:
        """Simulate further seeds."""
        from cotenant.scheduling import Contract, Scheduler
        from cotenant.scheduling.simulation import Arrival, SimulatedDevice, simulate
        from cotenant.tenancy.load import Load, arrivals_ns

        length = min(
            max(LEAST_REQUESTS / self.rate, OBJECTIVES * self.objective_s), LONGEST_S, MOST_REQUESTS / self.rate
        )
        load = Load(kind="gamma", rate_rps=self.rate, cv=self.cv)
        for seed in seeds:
            due = arrivals_ns(load, seed=seed, horizon_s=length) / 1e9
            if not due.size:
                continue
            self.requests += due.size
            try:
                scheduler = Scheduler([(Contract(self.name, self.objective_s), self.costs)])
            except SchedulingError:  # one request alone takes longer than the objective
                self.parts.append(0.0)
                self.shed += due.size
                continue
            worker = SimulatedDevice({self.name: self.costs}, noise=self.noise, seed=seed)
            result = simulate([Arrival(float(time), self.name) for time in due], scheduler, worker)
            self.parts.append(result.attainment()[self.name])
            self.shed += sum(one.done is None for one in result.outcomes)
            self.times += [one.latency_s for one in result.outcomes if one.latency_s is not None]


def _factors(simulation: "Simulation", device: PlanDevice, seat: PlanSeat) -> tuple[float, float]:
    """How much less and more time than predicted a request may take.

    From the validated error of its class; from the plan's range where that is narrower, as it is after measurements.
    The plan's range is that of a queue, in which an error of the service time grows.
    """
    from cotenant.planning.mixes.predictor import Mixes
    from cotenant.planning.predictors.errors import SimulationErrors

    ranges = [one for one in seat.expected.values() if one.estimate_ms]
    low = min(((one.lower_ms or 0.0) / (one.estimate_ms or 1.0) for one in ranges), default=1.0)
    high = max(((one.upper_ms or 0.0) / (one.estimate_ms or 1.0) for one in ranges), default=1.0)
    seats = np.zeros((1, min(len(device.tenants), 2)), np.int64)
    limited = np.full(seats.shape, 50.0 if seat.share is not None else np.nan)
    mix = Mixes(device.kind, device.sharing, seats, np.ones(seats.shape), np.ones_like(seats), limited)
    of_class = SimulationErrors(simulation).factors(mix, closed=False)
    return max(low, float(of_class[0][0, 0])), min(high, float(of_class[1][0, 0]))


def _verdict(lo: float, hi: float, wanted: float) -> str:
    if lo >= wanted:
        return "kept"
    return "missed" if hi < wanted else UNDECIDED


def interval_over_seeds(parts: list[float], requests: int, looks: int = 1) -> tuple[float, float]:
    """Student's interval over the seeds; wider the more often it is looked at, so that all looks hold together.

    Seeds that all agree say no more than the number of requests does: of 600 kept ones, 99.4 % or more are.

    Args:
        parts: Share kept, by seed.
        requests: Of all seeds.
        looks: How often the interval may be looked at.
    """
    from scipy.stats import t

    mean, tail = float(np.mean(parts)), 0.025 / looks
    if len(parts) < 2:
        return 0.0, 1.0
    half = float(t.ppf(1 - tail, len(parts) - 1) * np.std(parts, ddof=1) / np.sqrt(len(parts)))
    unseen = 1 - tail ** (1 / max(requests, 1))
    return max(mean - max(half, unseen if mean == 1 else 0.0), 0.0), min(mean + half, 1.0)


def _simulation(device: PlanDevice, name: str, seat: PlanSeat) -> "Simulation":
    from cotenant.devices.simulated.simulated_gpu import open_simulated
    from cotenant.planning.mixes.tenants import planned
    from cotenant.planning.predictors.profiles import Simulation

    entries = {name: seat.entry}
    return Simulation(planned(entries), entries, {device.kind: open_simulated(device.kind)}, risk=0.1)


def _costs(
    simulation: "Simulation", device: PlanDevice, seat: PlanSeat, slowdown: float
) -> "tuple[TenantCosts, float]":
    """Request costs on the part of the device and beside the neighbours that the plan gives them, and their variation.

    The plan's slowdown is relative to the whole device alone, so it includes the effect of the part.
    """
    from cotenant.scheduling import BatchCurve, TenantCosts, chunk_cost, some_batches

    kind, sizes = device.kind, some_batches(seat.at_once)
    profiles = {size: simulation.profile(kind, 0, size, "", float("nan")) for size in sizes}
    one = profiles[1]
    noise = 0.05
    if one.outputs > 1:
        step = chunk_cost(one.step_ms / 1e3 * slowdown, spread=noise)
        curve = BatchCurve.through({size: profiles[size].step_ms for size in sizes})
        prompt = chunk_cost(one.first_ms / 1e3 * slowdown, spread=noise)
        return TenantCosts((prompt,), BatchCurve(), step, curve, one.outputs - 1), noise
    curve = BatchCurve.through({size: profiles[size].alone_ms for size in sizes})
    return TenantCosts((chunk_cost(one.alone_ms / 1e3 * slowdown, spread=noise),), curve), noise
