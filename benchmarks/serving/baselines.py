"""What the scheduler is compared with: first come, earliest deadline, and a bound for any scheduler.

The bound is what a preemptive scheduler that knows all arrivals could serve in time, as a linear program. Time is split
at every arrival and deadline. Requests may be served in part, so no schedule exceeds the bound. With ``batching`` it is
looser still: k requests run together cost at least 1 + a (k - 1) times a request, where a is the chord of the measured
batch curve.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from cotenant.errors import SchedulingError
from cotenant.scheduling import BatchCurve, Contract, TenantCosts
from cotenant.scheduling.job import Job
from cotenant.scheduling.policy import PolicyChoice
from cotenant.scheduling.simulation import Arrival, SpeedTrace
from cotenant.scheduling.tenant import TenantState


class FirstCome:
    """In order of arrival, each request to completion, nothing shed."""

    sheds = False
    guarantees = False

    def conforms(self, tenant: TenantState, cost_s: float, now: float) -> bool:  # noqa: ARG002
        """Every request conforms."""
        return True

    def choose(self, jobs: list[Job], begin: float) -> PolicyChoice:  # noqa: ARG002
        """The running job, else the oldest."""
        return PolicyChoice([min(jobs, key=lambda job: (not job.begun, job.order))], "first come", 1)


class EarliestDeadline:
    """Earliest deadline first; late requests are shed. ``chunks``: decide again after each chunk."""

    sheds = True
    guarantees = False

    def __init__(self, *, chunks: bool) -> None:
        self._chunks = chunks

    def conforms(self, tenant: TenantState, cost_s: float, now: float) -> bool:  # noqa: ARG002
        """Every request conforms."""
        return True

    def choose(self, jobs: list[Job], begin: float) -> PolicyChoice:  # noqa: ARG002
        """The running job if jobs run to completion, else the job due first."""
        if not self._chunks:
            for job in jobs:
                if job.begun:
                    return PolicyChoice([job], "running", 1)
        return PolicyChoice([jobs[0]], "earliest deadline", 1)


class Bound(NamedTuple):
    """The most that can be served in time: worth per second, and the fraction served of each tenant's requests."""

    goodput: float
    attainment: dict[str, float]
    basis: str


class _Window(NamedTuple):
    tenant: str
    cost_s: float
    first: int
    last: int


def clairvoyant_bound(
    arrivals: Sequence[Arrival],
    tenants: Sequence[tuple[Contract, TenantCosts]],
    worth_s: Mapping[str, float],
    *,
    duration_s: float,
    batching: bool = False,
    slots: int = 1,
    trace: SpeedTrace | None = None,
) -> Bound:
    """The largest goodput any schedule could reach on these arrivals, on a device of this speed."""
    from scipy.optimize import linprog

    costs = {contract.tenant: cost for contract, cost in tenants}
    windows, cuts = _windows(arrivals, {contract.tenant: contract for contract, _ in tenants}, costs)
    done = [trace.work_s(cut) for cut in cuts] if trace else cuts
    lengths = [later - earlier for earlier, later in pairwise(done)]
    names = sorted({window.tenant for window in windows})
    largest = {name: max(costs[name].curve.largest, costs[name].step_curve.largest) for name in names}
    program = _Program(windows, lengths, {name: _chord(costs[name]) if batching else 1.0 for name in names}, largest)
    value = [-worth_s[window.tenant] / duration_s for window in windows]
    matrix, right = program.constraints(slots)
    solved = linprog(
        value + [0.0] * (program.variables - len(windows)),
        A_ub=matrix,
        b_ub=right,
        bounds=program.bounds(),
        method="highs",
    )
    if solved.x is None or solved.fun is None:
        raise SchedulingError(f"The clairvoyant bound couldn't be computed: {solved.message}.")
    served = solved.x[: len(windows)]
    attained = {
        name: float(sum(served[at] for at, window in enumerate(windows) if window.tenant == name))
        / sum(window.tenant == name for window in windows)
        for name in names
    }
    return Bound(-float(solved.fun), attained, "LP, batching relaxed" if batching else "LP, no batching")


def _windows(
    arrivals: Sequence[Arrival], contracts: Mapping[str, Contract], costs: Mapping[str, TenantCosts]
) -> tuple[list[_Window], list[float]]:
    deadlines = [
        arrival.time + contracts[arrival.tenant].within_s(arrival.steps or costs[arrival.tenant].steps)
        if arrival.deadline is None
        else arrival.deadline
        for arrival in arrivals
    ]
    cuts = sorted({arrival.time for arrival in arrivals} | set(deadlines))
    index = {time: at for at, time in enumerate(cuts)}
    windows = []
    for arrival, deadline in zip(arrivals, deadlines, strict=True):
        cost = costs[arrival.tenant]
        chunks = sum(chunk.p50_s for chunk in cost.chunks) * arrival.scale
        steps = cost.step.p50_s * (arrival.steps or cost.steps) if cost.step else 0.0
        windows.append(_Window(arrival.tenant, chunks + steps, index[arrival.time], index[deadline]))
    return windows, cuts


def _chord(cost: TenantCosts) -> float:
    """Minimum cost of an additional batch member, relative to its cost alone."""

    def slope(curve: BatchCurve) -> float:
        return (curve.factors[-1] - 1) / (curve.largest - 1) if curve.largest > 1 else 1.0

    steps = cost.step.p50_s * cost.steps if cost.step else 0.0
    chunks = sum(chunk.p50_s for chunk in cost.chunks)
    return (chunks * slope(cost.curve) + steps * slope(cost.step_curve)) / (chunks + steps)


class _Program:
    """Variables: the fraction served of each request, the fraction done per interval, batched runs per interval."""

    def __init__(
        self, windows: list[_Window], lengths: list[float], marginal: Mapping[str, float], largest: Mapping[str, int]
    ) -> None:
        self._windows = windows
        self._largest = largest
        self._lengths = lengths
        self._marginal = marginal
        self._part: dict[tuple[int, int], int] = {}
        self.variables = len(windows)
        for at, window in enumerate(windows):
            for interval in range(window.first, window.last):
                self._part[at, interval] = self.variables
                self.variables += 1
        self._runs: dict[tuple[str, int], int] = {}
        for name in marginal:
            if marginal[name] < 1:
                for interval in range(len(lengths)):
                    self._runs[name, interval] = self.variables
                    self.variables += 1

    def bounds(self) -> list[tuple[float, float | None]]:
        served = len(self._windows)
        return [(0.0, 1.0)] * served + [(0.0, None)] * (self.variables - served)

    def constraints(self, slots: int) -> tuple[Any, list[float]]:
        """Constraint rows (a sparse matrix, which scipy's types don't admit) and right-hand sides."""
        import numpy as np
        from scipy.sparse import csr_array

        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        right = [slots * length for length in self._lengths]
        together: dict[tuple[str, int], int] = {}

        def put(row: int, column: int, value: float) -> None:
            rows.append(row)
            columns.append(column)
            values.append(value)

        for (at, interval), column in self._part.items():  # intervals bound the work done in them
            window = self._windows[at]
            put(interval, column, window.cost_s * self._marginal[window.tenant])
            run = self._runs.get((window.tenant, interval))
            if run is not None:  # a batched run is at least as long as each member's part
                row = len(right)
                right.append(0.0)
                put(row, column, window.cost_s)
                put(row, run, -1.0)
        for (name, interval), run in self._runs.items():
            put(interval, run, 1 - self._marginal[name])
            together[name, interval] = len(right)  # no batch exceeds the largest measured batch
            put(len(right), run, -float(self._largest[name]))
            right.append(0.0)
        for (at, interval), column in self._part.items():
            window = self._windows[at]
            row = together.get((window.tenant, interval), -1)
            if row >= 0:
                put(row, column, window.cost_s)
        for at, window in enumerate(self._windows):  # served at most as far as its parts are done
            row = len(right)
            right.append(0.0)
            put(row, at, 1.0)
            for interval in range(window.first, window.last):
                put(row, self._part[at, interval], -1.0)
        entries = (np.array(values), (np.array(rows), np.array(columns)))
        return csr_array(entries, shape=(len(right), self.variables)), right
