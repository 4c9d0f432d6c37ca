"""`plan --check` on a simulated GPU: all tenants of a device together, as the plan's way to share runs them.

Kernels of all tenants run against each other in the event simulation, once for each seed, so that bursts that coincide
slow each other down. Requests then queue behind each other with these times, in an engine if one serves them. The ends
of the interval are simulated with the ends of the range of service times.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cotenant.errors import StudyError
from cotenant.planning.check import Attained, interval_over_seeds
from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.predictors.closed_form import ClosedForm
from cotenant.planning.predictors.engine import EnginePredictor
from cotenant.planning.predictors.profiles import Simulation
from cotenant.planning.solver.problem import Floats
from cotenant.scheduling.simulation.lines import Replications
from cotenant.tenancy.plan_document import REPLAN, PlanDevice, PlanSeat

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
    found: list[list[Sequence[Times]]] = [[], [], []]
    for seed in seeds:
        predictor = EnginePredictor(simulation, rough, seed=seed)
        for times, factors in zip(found, ends, strict=True):
            times.append(predictor.request_times(mix, factors))
    rows = []
    for place, (name, seat) in enumerate(device.tenants.items()):
        if seat.rate_rps > 0:
            seats = [[by_seat[place] for by_seat in times] for times in found]
            rows += [_judged(device, name, seat, objective, seats) for objective in seat.objectives]
    return rows


def _judged(device: PlanDevice, name: str, seat: PlanSeat, objective: "Objective", ends: list[list[Times]]) -> Attained:
    """The share of the requests within a limit, over all replications of all seeds."""
    replications = [[times for seed in end for times in seed[objective.metric].latencies_s] for end in ends]
    limit_s = objective.limit_ms / 1e3
    kept = [[float((times <= limit_s).mean()) for times in end] or [0.0, 0.0] for end in replications]
    usual = replications[1]
    requests = sum(times.size for times in usual)
    tails = [
        1e3 * float(np.quantile(np.concatenate(times), objective.quantile)) if times else float("inf")
        for times in replications
    ]
    return Attained(
        device=device.name,
        tenant=name,
        rate_rps=seat.rate_rps,
        objective=objective.label,
        objective_ms=objective.limit_ms,
        wanted=objective.quantile,
        attained=float(np.mean(kept[1])),
        lo=interval_over_seeds(kept[2], requests)[0],
        hi=interval_over_seeds(kept[0], requests)[1],
        shed=0.0,
        tail_ms=tails[1],
        requests=requests,
        tail_range_ms=(tails[0], tails[2]),
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


def device_simulation(device: PlanDevice, risk: float) -> tuple[Simulation, Mixes]:
    """The device of a plan, and its tenants as a mix."""
    from cotenant.devices.simulated.simulated_gpu import open_simulated
    from cotenant.planning.mixes.tenants import planned

    entries = {name: seat.entry for name, seat in device.tenants.items()}
    gpu = open_simulated(device.kind)
    simulation = Simulation(planned(entries), entries, {device.kind: gpu}, risk=risk)
    sizes = list(gpu.gpu.mig.profiles) if gpu.gpu.mig is not None else []
    seats = list(device.tenants.values())
    for name, seat in device.tenants.items():
        if isinstance(seat.share, str) and seat.share not in sizes:
            there = f"has the profiles {', '.join(sizes)}" if sizes else "has no MIG"
            raise StudyError(
                f"{device.name}: {name} has the share {seat.share}, and {device.kind} {there}", hint=REPLAN
            )
    shares = [
        np.nan if seat.share is None else float(sizes.index(seat.share)) if isinstance(seat.share, str) else seat.share
        for seat in seats
    ]
    everyone: Floats = np.array([[seat.rate_rps for seat in seats]])
    mix = Mixes(
        device.kind,
        device.sharing,
        np.arange(len(seats), dtype=np.int64)[None, :],
        everyone,
        np.array([[seat.at_once for seat in seats]], np.int64),
        np.array([shares]),
        device.clock_mhz,
    )
    return simulation, mix
