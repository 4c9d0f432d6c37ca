"""A simulated trial of `scheduled`: the scheduler that serves orders the requests of all tenants on the whole GPU."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cotenant.devices.simulated import ACTIVITY_PERIOD_S, SimulatedGpuDevice
from cotenant.measure.simulated.setup import NS, SimulatedTenant, TrialSetup
from cotenant.prediction.contention import ACTIVITIES, Outcome, Requests
from cotenant.prediction.kernels import Floats, Ints
from cotenant.prediction.request_costs import request_costs
from cotenant.scheduling import Chunk, DeviceScheduler, Settings
from cotenant.scheduling.simulation import Arrival, SimulatedDevice, simulate
from cotenant.tenancy.objective import contract_of


@dataclass
class _Work:
    """What the device did for a request, in seconds."""

    begun: float
    device: float = 0.0


@dataclass
class _Log:
    """Of a device: its work by request, and the time that it worked for each tenant by period."""

    period_s: float
    requests: dict[Any, _Work] = field(default_factory=dict)
    busy: dict[tuple[int, str], float] = field(default_factory=dict)

    def add(self, chunk: Chunk, began: float, took: float) -> None:
        for number in chunk.requests:
            self.requests.setdefault(number, _Work(began)).device += took
        period, end = int(began / self.period_s), began + took
        while began < end:
            until = min((period + 1) * self.period_s, end)
            key = period, chunk.tenant
            self.busy[key] = self.busy.get(key, 0.0) + until - began
            period, began = period + 1, until


class _LoggedDevice(SimulatedDevice):
    """Keeps what it did."""

    def __init__(self, log: _Log, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._log = log

    def chunk_s(self, chunk: Chunk, batch: int, scale: float, began: float, idle_s: float) -> float:
        took = super().chunk_s(chunk, batch, scale, began, idle_s)
        self._log.add(chunk, began, took)
        return took


def play_in_turns(device: SimulatedGpuDevice, setup: TrialSetup, clock_mhz: float | None) -> Outcome:
    """Simulate a trial at a clock; None for the clock that costs assume. Refused requests have no end."""
    contracts = {
        seat.tenant.name: contract_of(
            seat.tenant.name,
            seat.tenant.slo,
            share=seat.tenant.share,
            hard=seat.tenant.hard,
            best_effort=seat.tenant.best_effort,
        )
        for seat in setup.seats
    }
    costs = {
        seat.tenant.name: request_costs(
            device, seat.request.spec, seat.tenant.at_once, clock_of=lambda _: clock_mhz, controls=setup.controls
        )
        for seat in setup.seats
    }
    arrivals = sorted(
        Arrival(float(due) / NS, seat.tenant.name, priority=seat.tenant.priority)
        for seat in setup.seats
        if seat.offsets_ns is not None
        for due in seat.offsets_ns
    )
    log = _Log(ACTIVITY_PERIOD_S)
    scheduler = DeviceScheduler([(contracts[name], costs[name]) for name in contracts], Settings())
    result = simulate(arrivals, scheduler, _LoggedDevice(log, costs, seed=setup.seed))
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in contracts}
    for number, outcome in enumerate(result.outcomes):
        work, done = log.requests.get(number), outcome.done
        if done is None or work is None or done * NS > setup.timing.deadline_ns:
            rows[outcome.tenant].append((outcome.arrived, *[np.nan] * 4))
        else:
            first = done if outcome.first is None else outcome.first
            rows[outcome.tenant].append((outcome.arrived, work.begun, first, done, work.device))
    end_ns = float(setup.timing.deadline_ns)
    return Outcome(
        requests=tuple(_requests(seat, rows[seat.tenant.name]) for seat in setup.seats),
        activity=_activity(device, setup, log, clock_mhz),
        period_ns=ACTIVITY_PERIOD_S * NS,
        completions=result.chunks,
        end_ns=end_ns,
        finished=True,
    )


def _requests(seat: SimulatedTenant, rows: Sequence[tuple[float, ...]]) -> Requests:
    intended, begun, first, done, device = (NS * np.array(rows, np.float64).reshape(-1, 5)).T
    output = seat.request.first_output
    if output < 0:
        first = done
    ends = _ends(seat.request.slot, output, begun, first, done)
    # As a client has it: the request was sent when it was due, whenever the server began with it.
    return Requests(intended, intended, np.full(done.size, -1.0) if output < 0 else first, done, device, ends)


def _ends(slot: Ints, output: int, begun: Floats, first: Floats, done: Floats) -> Floats:
    """Ends of stages: in proportion to their kernels, before the first output and after it."""
    reached = np.searchsorted(slot, np.arange(int(slot[-1]) + 1), side="right")
    until = slot.size if output < 0 else output + 1
    before = np.minimum(reached / until, 1.0)
    after = np.maximum(reached - until, 0) / max(slot.size - until, 1)
    inner = begun[:, None] + np.outer(first - begun, before) + np.outer(done - first, after)
    return np.column_stack([begun, inner, done])


def _activity(device: SimulatedGpuDevice, setup: TrialSetup, log: _Log, clock_mhz: float | None) -> Floats:
    """Mean activity by period, up to the end of the window: that of each tenant's kernels while they run."""
    periods = int(np.ceil(setup.timing.window_end_ns / NS / log.period_s))
    activity = np.zeros((periods, len(ACTIVITIES)))
    for seat in setup.seats:
        trace = device.trace(seat.request, seat.part, setup.controls, clock_mhz=clock_mhz)
        columns = np.stack([np.ones_like(trace.dram), trace.occupancy, trace.tensor, trace.dram])
        part = (columns * trace.duration_ns).sum(axis=1) / trace.alone_ns()
        for (period, name), busy in log.busy.items():
            if name == seat.tenant.name and period < periods:
                activity[period] += part * busy / log.period_s
    return activity
