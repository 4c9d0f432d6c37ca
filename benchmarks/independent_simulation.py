"""A simulation of a plan's device that knows nothing of planning.

The kernels of all tenants run against each other from the first arrival to the last, requests that wait are taken
together, an engine goes step by step. Ten seeds, each with service times drawn anew for each tenant from the range that
the plan gives them, whose ends are exceeded as often as the plan's risk says: in a tenth of the draws each, which are
spread evenly over the range (Latin hypercube). That often an objective may be missed: it is kept if it is in nine of
ten seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from cotenant.devices.simulated.simulated_gpu import SimulatedGpuDevice, open_simulated
from cotenant.planning.check_simulated import device_simulation
from cotenant.planning.predictors.closed_form import ClosedForm
from cotenant.prediction.contention.layout import whole_of
from cotenant.prediction.contention.simulation import NEVER_NS, Player, Requests, Steps, simulate
from cotenant.prediction.contention.trace import Trace, plain_trace
from cotenant.prediction.engines.engine_profile import ENGINES
from cotenant.prediction.engines.tenant import EngineLoad
from cotenant.prediction.kernels.columns import Floats
from cotenant.prediction.simulated_gpu import Controls
from cotenant.tenancy.load import Load, arrivals_ns
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.plan_document import PlanDevice, PlanSeat
from cotenant.tenancy.sharing import Sharing

SEEDS = range(501, 511)
RISK = 0.1
FEWEST, SHORTEST_S, LONGEST_S = 300, 4.0, 30.0
"""Requests of the slowest tenant in a seed, and limits of the time in which they arrive."""
BACKLOG_NS = 5e9
"""Time after the last arrival: what is not done by then is late."""
WARM_UP = 0.1
LEAST_SEEDS = round(len(SEEDS) * (1 - RISK))


class Waiting:
    """A worker that takes the requests that wait together, as many as it may."""

    def __init__(self, traces: Sequence[Trace], due_ns: Floats) -> None:
        self._traces, self._due = traces, due_ns
        self._next = self._size = 0
        self._done, self._started = np.full(due_ns.size, np.nan), np.full(due_ns.size, np.nan)

    @property
    def most_kernels(self) -> int:
        """Of the largest batch."""
        return max(trace.duration_ns.size for trace in self._traces)

    @property
    def finished(self) -> bool:
        """Whether every request is done."""
        return self._next >= self._due.size

    def begin(self, now_ns: float) -> tuple[Trace | None, float]:
        """All that wait, or the next that comes."""
        if self.finished:
            return None, NEVER_NS
        start = max(now_ns, float(self._due[self._next]))
        waiting = int(np.searchsorted(self._due, start, side="right")) - self._next
        self._size = min(max(waiting, 1), len(self._traces))
        self._started[self._next : self._next + self._size] = start
        return self._traces[self._size - 1], start

    def end(self, now_ns: float, _device_ns: float) -> None:
        """The batch is over."""
        self._done[self._next : self._next + self._size] = now_ns
        self._next += self._size

    def requests(self) -> Requests:
        """Those that are done."""
        count = self._next
        ends = np.column_stack([self._started[:count]] * 4)
        done = self._done[:count]
        return Requests(self._due[:count], self._started[:count], done, done, done - self._started[:count], ends)


class Slowed:
    """Steps of an engine that take longer by a factor."""

    def __init__(self, engine: Steps, factor: float) -> None:
        self._engine, self._factor = engine, factor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def begin(self, now_ns: float) -> tuple[Trace | None, float]:
        """The next step."""
        trace, start = self._engine.begin(now_ns)
        return (None if trace is None else longer(trace, self._factor)), start


def longer(trace: Trace, factor: float) -> Trace:
    """A request whose device and host times are longer by a factor."""
    return replace(
        trace.slowed(factor),
        launch_ns=trace.launch_ns * factor,
        before_ns=trace.before_ns * factor,
        after_ns=trace.after_ns * factor,
    )


@cache
def gpu_of(kind: str) -> SimulatedGpuDevice:
    """A GPU."""
    return open_simulated(kind)


def times_ms(
    device: PlanDevice, factors: Sequence[float] | Floats, seed: int, due: Sequence[Floats]
) -> list[dict[str, Floats]]:
    """By tenant and metric: the time of each request, infinite for those that are not done in the end."""
    if device.sharing == "scheduled":
        return in_turns_ms(device, factors, due)
    gpu, seats = gpu_of(device.kind), list(device.tenants.values())
    tenants = [
        Tenant(name=name, of=name, workload=seat.entry.spec(), load=Load(kind="closed"))
        for name, seat in device.tenants.items()
    ]
    shares = tuple(seat.share for seat in seats if seat.share is not None)
    mode = device.sharing if len(seats) > 1 or shares else "alone"
    layout = gpu.arrange(Sharing(mode=mode, shares=shares), tenants).layout
    window_ns = max(float(times[-1]) for times in due) + 1
    players = []
    for seat, part, factor, times in zip(seats, layout.parts, factors, due, strict=True):
        spec = gpu.spec(seat.entry.spec(seat.at_once))
        steps: Any
        if gpu.served(spec):
            memory = part.memory_bytes * ENGINES[str(spec.software)].memory_share
            load = EngineLoad(window_ns, memory, times.astype(np.int64))
            steps = Slowed(gpu.engine(spec, part, load, clock_mhz=device.clock_mhz), factor)
        else:
            steps = Waiting(
                [
                    longer(_trace(device.kind, seat, size, part, device.clock_mhz), factor)
                    for size in range(1, seat.at_once + 1)
                ],
                times,
            )
        room = plain_trace(kernels=steps.most_kernels, device_ns=float(steps.most_kernels))
        players.append(
            Player(
                room,
                outstanding=0,
                sm_domain=part.sm_domain,
                dram_domain=part.dram_domain,
                priority=seat.priority,
                steps=steps,
            )
        )
    outcome = simulate(
        players,
        window_end_ns=window_ns,
        deadline_ns=window_ns + BACKLOG_NS,
        slicing=layout.slicing if len(players) > 1 else None,
        host_spread=0.03,
        seed=seed,
    )
    rows = []
    for seat, requests, times in zip(seats, outcome.requests, due, strict=True):
        missing = np.full(max(times.size - requests.done.size, 0), np.inf)
        whole, first = requests.done - requests.intended, requests.first - requests.intended
        steps_ns = (whole - first) / max((seat.runs.tokens or 1) - 1, 1)
        kept = int(times.size * WARM_UP)
        rows.append({
            metric: np.concatenate([values, missing])[kept:] / 1e6
            for metric, values in (("latency", whole), ("ttft", first), ("tpot", steps_ns))
        })  # fmt: skip
    return rows


def in_turns_ms(
    device: PlanDevice, factors: Sequence[float] | Floats, due: Sequence[Floats]
) -> list[dict[str, Floats]]:
    """The same where one server takes what is due first, with others of that tenant that wait, and finishes it."""
    seats, whole = list(device.tenants.values()), whole_of(gpu_of(device.kind).gpu)
    takes = [
        [
            factor * _trace(device.kind, seat, size, whole, device.clock_mhz).alone_ns()
            for size in range(1, seat.at_once + 1)
        ]
        for seat, factor in zip(seats, factors, strict=True)
    ]
    limits = [min(objective.limit_ms for objective in seat.objectives) * 1e6 for seat in seats]
    heads, done, now = [0] * len(seats), [np.full(times.size, np.inf) for times in due], 0.0
    last = max(float(times[-1]) for times in due) + BACKLOG_NS
    while (left := [place for place, times in enumerate(due) if heads[place] < times.size]) and now < last:
        now = max(now, min(float(due[place][heads[place]]) for place in left))
        waiting = [place for place in left if due[place][heads[place]] <= now]
        place = min(waiting, key=lambda place: due[place][heads[place]] + limits[place])
        arrived = int(np.searchsorted(due[place], now, side="right"))
        size = min(arrived - heads[place], len(takes[place]))
        now += takes[place][size - 1]
        done[place][heads[place] : heads[place] + size] = now
        heads[place] += size
    whole_ms = [(ends - times)[int(times.size * WARM_UP) :] / 1e6 for ends, times in zip(done, due, strict=True)]
    return [dict.fromkeys(("latency", "ttft", "tpot"), times) for times in whole_ms]


def _trace(kind: str, seat: PlanSeat, size: int, part: Any, clock_mhz: float | None) -> Trace:
    return _traced(kind, seat.entry.spec(size).model_dump_json(), part, clock_mhz)


@cache
def _traced(kind: str, spec: str, part: Any, clock_mhz: float | None) -> Trace:
    from cotenant.workloads.protocol import WorkloadSpec

    gpu = gpu_of(kind)
    return gpu.trace(
        gpu.request(gpu.spec(WorkloadSpec.model_validate_json(spec))), part, Controls(), clock_mhz=clock_mhz
    )


def seeds_kept(device: PlanDevice, ranges: Mapping[str, tuple[float, float]], *, least: int = 0) -> dict[str, int]:
    """By objective: the number of seeds in which it is kept.

    Args:
        device: The device of a plan.
        ranges: By tenant: the range of its service times.
        least: Stop as soon as an objective can't be kept in so many.
    """
    seats = device.tenants
    draws = drawn(len(seats))
    seconds = float(np.clip(FEWEST / min(seat.rate_rps for seat in seats.values()), SHORTEST_S, LONGEST_S))
    logs = np.log([ranges[seat.tenant or name] for name, seat in seats.items()])
    kept: dict[str, int] = {}
    for count, seed in enumerate(SEEDS, start=1):
        spread = (logs[:, 1] - logs[:, 0]) / 2 / ndtri(1 - RISK)
        factors = np.exp(logs.mean(axis=1) + spread * draws[count - 1])
        due = []
        for number, seat in enumerate(seats.values()):
            assert seat.load is not None
            times = arrivals_ns(seat.load, seed=1000 * seed + number, horizon_s=seconds).astype(np.float64)
            due.append(times if times.size else np.zeros(1))
        for (name, seat), row in zip(seats.items(), times_ms(device, factors, seed, due), strict=True):
            for objective in seat.objectives:
                in_time = float((row[objective.metric] <= objective.limit_ms).mean())
                key = f"{name} {objective.label}"
                kept[key] = kept.get(key, 0) + (in_time >= objective.quantile)
        if min(kept.values()) + len(SEEDS) - count < least:
            break
    return kept


def drawn(tenants: int) -> Floats:
    """Seeds x tenants: standard normal draws, for each tenant one from every tenth of the distribution.

    Ten independent draws would leave it to luck whether the slow end of a range is among them at all.
    """
    random = np.random.default_rng(7)
    parts = np.stack([random.permutation(len(SEEDS)) for _ in range(tenants)], axis=1)
    return np.asarray(ndtri((parts + random.random(parts.shape)) / len(SEEDS)))


def keeps(device: PlanDevice, ranges: Mapping[str, tuple[float, float]]) -> bool:
    """Whether every objective is."""
    return min(seeds_kept(device, ranges, least=LEAST_SEEDS).values()) >= LEAST_SEEDS


def ranges_of(device: PlanDevice) -> dict[str, tuple[float, float]]:
    """By tenant: how much less and more time than predicted its requests may take, as the plan has it."""
    simulation, mix = device_simulation(device, RISK)
    low, high = ClosedForm(simulation).errors.factors(mix, closed=False)
    return {
        seat.tenant or name: (float(low[0, place]), float(high[0, place]))
        for place, (name, seat) in enumerate(device.tenants.items())
    }
