"""`plan --check`: simulate all tenants of a plan's devices together, and judge every objective against its limit.

Each tenant has its own worker, as in every way to share that plans use. Requests follow the tenant's arrival process
(bursts included) and count as kept if they finish within the limit. The ends of the interval are simulated with the
ends of the range of service times, so that they cover the error of the predicted ones.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.paths import AnyPath
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.interval import Interval
from cotenant.tenancy.plan_document import PlanDevice, PlanDocument, read_plan
from cotenant.tenancy.tenant_entry import demands

if TYPE_CHECKING:
    from cotenant.planning.predictors.measured import Measured


SEEDS = range(11, 15)
"""Of the joint simulation; each is followed by many replications of the queues."""
UNDECIDED = "can't tell"
BASIS = "simulated: all tenants of a device together, queues and arrivals; service times predicted"


@dataclass(frozen=True, slots=True)
class Attained:
    """One tenant of a plan under simulated arrivals."""

    device: str
    tenant: str
    rate_rps: float
    objective: str
    """`p99`, `ttft p95`."""
    objective_ms: float
    wanted: float
    """Share of the requests that must finish within the objective."""
    attained: Interval
    """Over the plan's range of times, and 95 % over the seeds for all looks at them together."""
    shed: float
    tail_ms: Interval
    """The objective's own quantile; its ends are those of the range of service times, None if not simulated."""
    requests: int

    @property
    def verdict(self) -> str:
        """`kept`, `missed`, or `can't tell` if the interval contains the required share."""
        lo, hi = self.attained.ends
        return "kept" if lo >= self.wanted else "missed" if hi < self.wanted else UNDECIDED

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        share, tail = self.attained, self.tail_ms
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {
            "attained": share.est,
            "lo": share.lo,
            "hi": share.hi,
            "tail_ms": tail.est,
            "tail_range_ms": None if tail.lo is None else tail.ends,
        }


@dataclass(frozen=True, slots=True)
class Checked:
    """All tenants of a plan."""

    source: str
    tenants: tuple[Attained, ...]
    basis: str = BASIS

    @property
    def keeps_all(self) -> bool:
        """No objective is missed or in doubt."""
        return all(tenant.verdict == "kept" for tenant in self.tenants)

    @property
    def misses(self) -> bool:
        """An objective is missed beyond doubt."""
        return any(tenant.verdict == "missed" for tenant in self.tenants)


def check_plan(path: AnyPath, *, say: Callable[[str], None] = lambda _: None) -> Checked:
    """Simulate a plan.

    Args:
        path: A plan.yaml.
        say: Called with each tenant's load before it is simulated.

    Raises:
        StudyError: It can't be read or isn't a plan.
    """
    from cotenant.planning.check_simulated import simulated_device

    path = Path(path)
    plan = read_plan(path)
    for line in demands({name: seat.entry for device in plan.devices for name, seat in device.tenants.items()}):
        say(line)
    found = []
    measured = False
    for device in plan.devices:
        if not DeviceName(device.kind).simulated:
            found += _on_real(plan, device, str(path))
            measured = True
            continue
        found += simulated_device(device, SEEDS, risk=plan.risk)
    if measured:
        return Checked(str(path), tuple(found), "simulated: queues and arrivals; times alone measured")
    return Checked(str(path), tuple(found))


def _on_real(plan: PlanDocument, device: PlanDevice, source: str) -> list[Attained]:
    """Every tenant in its own process, as `cotenant run` runs the plan: nothing is shed."""
    found = []
    kept = attainments(measured_device(plan, device, source), device, SEEDS)
    for name, (attained_part, lo, hi, p99_ms, count) in kept.items():
        seat = device.tenants[name]
        limit = seat.limit_of_a_request((seat.runs.tokens or 1) - 1)
        assert limit is not None, "only tenants with an objective are judged"
        part, label = Interval(attained_part, lo, hi), seat.objectives[0].label
        limits = (limit[0] * 1e3, limit[1])
        found.append(Attained(device.name, name, seat.rate_rps, label, *limits, part, 0.0, Interval(p99_ms), count))
    return found


def interval_over_seeds(parts: list[float], requests: int, looks: int = 1) -> tuple[float, float]:
    """Student's interval over the seeds; wider the more often it is looked at, so that all looks hold together.

    Seeds that all agree say no more than the number of requests does: of 600 kept ones, 99.4 % or more are.

    Args:
        parts: Share kept, by seed.
        requests: Of all seeds.
        looks: How often the interval may be looked at.
    """
    from scipy.special import stdtrit

    mean, tail = float(np.mean(parts)), 0.025 / looks
    if len(parts) < 2:
        return 0.0, 1.0
    half = float(stdtrit(len(parts) - 1, 1 - tail) * np.std(parts, ddof=1) / np.sqrt(len(parts)))
    unseen = 1 - tail ** (1 / max(requests, 1))
    return max(mean - max(half, unseen if mean == 1 else 0.0), 0.0), min(mean + half, 1.0)


# --- `plan --check` on a real device: the mix under simulated arrivals, with measured times

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
