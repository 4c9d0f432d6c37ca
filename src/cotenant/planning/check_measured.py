"""`plan --check` on a real device: the mix under simulated arrivals, with measured times."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cotenant.planning.check import interval_over_seeds
from cotenant.tenancy.plan_document import PlanDevice, PlanDocument

if TYPE_CHECKING:
    from cotenant.planning.predictors.measured import Measured

LEAST_REQUESTS, LONGEST_S = 600, 120.0


def measured_device(plan: PlanDocument, device: PlanDevice, source: str) -> "Measured":
    """The predictor that a plan's device was planned with.

    Raises:
        CotenantError: The runs behind the plan are gone.
    """
    from cotenant.devices.target import place_at
    from cotenant.errors import StudyError
    from cotenant.planning.inputs.predictors import measured_on

    runs = [Path(run) for run in plan.runs]
    gone = [run for run in runs if not run.exists()]
    if gone or not runs:
        what = f"{gone[0]}, on which the plan is based, is gone" if gone else f"{source} names no run behind it"
        raise StudyError(what, hint="plan again with --from RUN --out plan.yaml")
    entries = {name: seat.entry for name, seat in device.tenants.items()}
    return measured_on(place_at(device.name), entries, runs, risk=plan.risk, source=source)[0]


def attainments(
    measured: "Measured", device: PlanDevice, seeds: Iterable[int]
) -> dict[str, tuple[float, float, float, float, int]]:
    """By tenant: share of requests within the objective with its interval, p99 in ms, and number of requests.

    The interval is that of the share in the long run: it covers the uncertainty of the measured times (at the plan's
    risk) and what the seeds leave open. A short run may lie outside.
    """
    seats = list(device.tenants.items())
    asked = [(number, seat.at_once, seat.rate_rps) for number, (_, seat) in enumerate(seats)]
    seconds = min(LEAST_REQUESTS / min((rate for *_, rate in asked if rate > 0), default=1.0), LONGEST_S)
    cvs = [seat.cv for _, seat in seats]
    parts: dict[str, list[list[float]]] = {name: [[], [], []] for name, _ in seats}
    tails: dict[str, list[float]] = {name: [] for name, _ in seats}
    counts = dict.fromkeys(parts, 0)
    for seed in seeds:
        for end in range(3):
            times = measured.simulate(device.sharing, asked, cvs, end=end, seed=seed, seconds=seconds)
            for place, (name, seat) in enumerate(seats):
                limit = seat.limit_of_a_request((seat.runs.tokens or 1) - 1)
                if limit is None:
                    continue
                parts[name][end].append(float((times[place] <= limit[0]).mean()))
                if end == 1:
                    tails[name] += times[place].tolist()
                    counts[name] += times[place].size
    return {
        name: (
            float(np.mean(ends[1])),
            interval_over_seeds(ends[2], counts[name])[0],
            interval_over_seeds(ends[0], counts[name])[1],
            float(np.quantile(tails[name], 0.99)) * 1e3,
            counts[name],
        )
        for name, ends in parts.items()
        if ends[1]
    }
