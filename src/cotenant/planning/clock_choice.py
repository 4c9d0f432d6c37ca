"""Choose clocks: lower for GPUs that would only wait, under a power budget, or to save energy."""

import numpy as np

from cotenant.analyse.estimates.intervals import Floats
from cotenant.errors import CotenantError
from cotenant.planning.gpu_fleet import GpuFleet, Numbers
from cotenant.planning.jobs import JobClass


def waiting_clocks(fleet: GpuFleet, kind: JobClass, gpus: Numbers, slowest: float) -> Floats:
    """The lowest clock at which each GPU still finishes with the slowest, but not below the knee of its power curve.

    Below the knee the voltage no longer falls: a slower clock only prolongs the idle power.
    """
    work = fleet.work(kind)
    clocks = work.clock_mhz[gpus]
    if kind.core_share == 0:
        return clocks
    pace = fleet.relative_time[gpus] * fleet.clock_mhz[gpus]
    left = slowest * work.middle - (1 - kind.core_share)
    needed = kind.core_share * pace / np.maximum(left, 1e-9)
    return np.asarray(np.clip(needed, np.minimum(fleet.kind.curve.knee_mhz, clocks), clocks))


def thriftiest_clock(fleet: GpuFleet, kind: JobClass, gpus: Numbers) -> float:
    """The common clock at which these GPUs use the least energy for the same work."""
    top = float(fleet.work(kind).clock_mhz[gpus].min())
    clocks = np.linspace(min(fleet.kind.lowest_mhz, top), top, 64)
    energy = [
        float(fleet.power_at(kind, gpus, np.full(gpus.size, clock)).sum())
        * float(fleet.time_at(kind, gpus, np.full(gpus.size, clock)).max())
        for clock in clocks
    ]
    return float(clocks[int(np.argmin(energy))])


def clocks_within(
    fleet: GpuFleet, placed: list[tuple[JobClass, Numbers]], clocks: list[Floats], budget_w: float
) -> list[Floats]:
    """Lower clocks until all jobs fit a power budget, where a watt costs the least time first.

    Raises:
        CotenantError: The budget is exceeded even at the lowest clocks.
    """
    lowered = [clock.copy() for clock in clocks]
    step = 15.0
    idle = fleet.kind.idle_w * (len(fleet) - sum(gpus.size for _, gpus in placed))

    def drawn() -> list[float]:
        return [
            float(fleet.power_at(kind, gpus, clock).sum()) for (kind, gpus), clock in zip(placed, lowered, strict=True)
        ]

    watts = drawn()
    while sum(watts) + idle > budget_w:
        best, most = None, -1.0
        for number, (kind, gpus) in enumerate(placed):
            slower = np.maximum(lowered[number] - step, np.minimum(fleet.kind.lowest_mhz, lowered[number]))
            saved = watts[number] - float(fleet.power_at(kind, gpus, slower).sum())
            lost = float(fleet.time_at(kind, gpus, slower).max() - fleet.time_at(kind, gpus, lowered[number]).max())
            worth = saved / (lost * gpus.size + 1e-6)
            if saved > 1e-6 and worth > most:
                best, most = number, worth
        if best is None:
            idling = f" ({idle:,.0f} W of that by idle GPUs)" if idle else ""
            raise CotenantError(
                f"these jobs draw at least {sum(watts) + idle:,.0f} W{idling}, "
                f"more than the budget of {budget_w:,.0f} W",
                hint="raise the power budget or run fewer jobs at once",
            )
        kind, gpus = placed[best]
        lowered[best] = np.maximum(lowered[best] - step, np.minimum(fleet.kind.lowest_mhz, lowered[best]))
        watts[best] = float(fleet.power_at(kind, gpus, lowered[best]).sum())
    return lowered
