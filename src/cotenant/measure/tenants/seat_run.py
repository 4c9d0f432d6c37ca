"""One tenant's part in one trial, on the runner's side: its schedule, its arena, and what came out."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.measure.gather import RequestColumns, SeatOutcome, Timing, queued, with_unserved
from cotenant.measure.tenants.arena import Arena, Board, opened
from cotenant.measure.tenants.host_process import HostProcess
from cotenant.measure.tenants.messages import SeatReady, SeatResult, SeatTrial
from cotenant.study.expand import arrival_seed
from cotenant.tenancy.arrivals import arrivals_ns
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import Int64s
from cotenant.workloads.protocol import Properties

CAPACITY_MAX = 8_000_000
ROOM = 4
"""Requests may come this many times faster than the warm-up suggested."""
ROOM_EXTRA = 1000


@dataclass(slots=True)
class SeatRun:
    """A tenant, where it sits, and the memory it will write to."""

    tenant: Tenant
    index: int
    host: HostProcess
    seat: int
    ready: SeatReady
    load: Load
    """With its rate resolved."""
    schedule: Int64s | None
    arena: Arena
    result: SeatResult | None = None
    fate: str | None = None
    """How it ended before its time, where that differs from how its process did."""

    def order(self) -> SeatTrial:
        """What its host is told."""
        return SeatTrial(
            seat=self.seat,
            index=self.index,
            capacity=self.arena.capacity,
            outstanding=0 if self.load.open else self.load.outstanding,
            scheduled=0 if self.schedule is None else self.schedule.size,
            synchronised=self.tenant.synchronised,
            tenant=self.tenant.name,
        )

    def outcome(self, properties: Properties, board: Board, timing: Timing) -> SeatOutcome:
        """What it left behind, also if it was killed half way."""
        count = max(min(board.recorded[self.index], self.arena.capacity), 0)  # a tenant may have scribbled on it
        requests = RequestColumns(
            **{
                name: np.array(getattr(self.arena, name)[:count])
                for name in ("intended", "started", "first", "done", "device", "ok")
            },
            slot_ends=np.array(self.arena.slot_ends[:, :count]),
        )
        if self.schedule is not None:
            requests = with_unserved(requests, self.schedule, timing.window_end_ns)
        elif self.result is not None and not self.result.stopped_early:  # else its trial is invalid for that
            requests = with_unserved(requests, queued(requests, self.load.outstanding), timing.window_end_ns)
        return SeatOutcome(
            tenant=self.tenant,
            rate_rps=self.load.rate_rps,
            properties=properties,
            ready=self.ready,
            result=self.result,
            fate=self.fate or self.host.fate,
            requests=requests,
        )


@contextlib.contextmanager
def open_seats(
    trial: Trial, places: Sequence[tuple[HostProcess, int]], timing: Timing, rates: Mapping[str, float]
) -> Iterator[list[SeatRun]]:
    """The seats of a trial with their memory laid out; it is given back on leaving."""
    with contextlib.ExitStack() as arenas:
        seats = []
        for index, (tenant, (host, seat)) in enumerate(zip(trial.tenants, places, strict=True)):
            assert host.ready is not None
            ready = host.ready.seats[seat]
            load = resolve(tenant.load, rates.get(tenant.of))
            schedule = None
            total_s = (timing.deadline_ns - timing.start_ns) / 1e9
            if load.open:
                offsets = arrivals_ns(load, seed=arrival_seed(trial, tenant), horizon_s=total_s)
                schedule = timing.start_ns + offsets
                capacity = max(schedule.size, 1)
            else:
                capacity = min(int(total_s / max(ready.request_s, 1e-7) * ROOM) + ROOM_EXTRA, CAPACITY_MAX)
            arena = arenas.enter_context(opened(host.arena_fds[seat], capacity=capacity, slots=len(ready.slots)))
            if schedule is not None:
                arena.intended[: schedule.size] = schedule
            seats.append(SeatRun(tenant, index, host, seat, ready, load, schedule, arena))
        yield seats


def resolve(load: Load, alone_rps: float | None) -> Load:
    """A load given as a share of what the tenant can do alone, as a rate."""
    if load.rate_share is None:
        return load
    if alone_rps is None:
        raise ValueError(f"nothing is known of what a tenant with load {load} can do alone")
    return load.at(load.rate_share * alone_rps)
