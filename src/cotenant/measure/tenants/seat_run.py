"""A tenant's part in a window, on the runner's side: its schedule, memory and result."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.measure.gather import RequestColumns, SeatOutcome, Timing, queued, with_unserved
from cotenant.measure.tenants.arena import ANSWER_COLUMNS, ArenaPart, Board, opened
from cotenant.measure.tenants.host_process import HostProcess
from cotenant.measure.tenants.messages import SeatReady, SeatResult, SeatWindow, WindowTimes
from cotenant.study.expand import arrival_seed
from cotenant.tenancy.load import Load, arrivals_ns, first_arrival
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import Int64s
from cotenant.workloads.protocol import Properties

CAPACITY_MAX = 8_000_000
ROOM = 4
"""Requests may come this many times faster than the warm-up suggested."""
ROOM_EXTRA = 1000


@dataclass(slots=True)
class SeatRun:
    """A tenant in a window, its seat, and the memory it will write to."""

    tenant: Tenant
    window: int
    """Position in the sequence."""
    index: int
    host: HostProcess
    seat: int
    ready: SeatReady
    load: Load
    """Its load, with the rate resolved."""
    offsets: Int64s | None
    """For an open load: when requests are due, from the window's common start."""
    first_arrival: int
    """For a load from a trace: the position of its first request."""
    first: int
    part: ArenaPart
    canary: bool = False
    result: SeatResult | None = None
    fate: str | None = None
    """How it ended early, where that differs from its process."""

    @property
    def _queues(self) -> bool:
        """For a closed load: what is due and not started waits in its queue.

        Not where it sends its only request after the canary, which may end after the window: then nothing was due in
        it. Nor at a server, where everything due is in flight.
        """
        return not (self.canary and self.load.outstanding == 1) and not self.ready.concurrent

    def order(self) -> SeatWindow:
        """The order for its host."""
        return SeatWindow(
            window=self.window,
            index=self.index,
            first=self.first,
            capacity=self.part.capacity,
            outstanding=0 if self.load.open else self.load.outstanding,
            scheduled=0 if self.offsets is None else self.offsets.size,
            synchronised=self.tenant.synchronised,
            first_arrival=self.first_arrival,
            canary=self.canary,
            tenant=self.tenant.name,
        )

    def outcome(self, properties: Properties, board: Board, timing: Timing) -> SeatOutcome:
        """Its results, even if it was killed midway."""
        recorded = board.page(self.window).recorded[self.index]
        count = max(min(recorded, self.part.capacity), 0)  # a tenant may have overwritten it
        parts, answers = np.split(self.part.slot_ends[:, :count], [len(self.ready.slots)])
        requests = RequestColumns(
            **{
                name: np.array(getattr(self.part, name)[:count])
                for name in ("intended", "started", "first", "done", "device", "ok")
            },
            slot_ends=np.array(parts),
            answers=dict(zip(ANSWER_COLUMNS, np.array(answers), strict=True)) if self.ready.concurrent else {},
        )
        if self.offsets is not None:
            requests = with_unserved(requests, timing.start_ns + self.offsets, timing.window_end_ns)
        elif self.result is not None and not self.result.stopped_early and self._queues:
            # If it stopped early, the trial is invalid for that reason.
            requests = with_unserved(requests, queued(requests, self.load.outstanding), timing.window_end_ns)
        return SeatOutcome(
            tenant=self.tenant,
            rate_rps=self.load.rate_rps,
            properties=properties,
            ready=self.ready,
            result=self.result,
            fate=self.fate or (self.host.fate if self.result is None else None),
            requests=requests,
        )


Place = tuple[HostProcess, int]
"""A process, and the seat in it."""


@contextlib.contextmanager
def open_seats(
    trials: Sequence[tuple[Trial, WindowTimes, Sequence[Place]]], rates: Mapping[str, float], *, canary: bool
) -> Iterator[list[list[SeatRun]]]:
    """The seats of each trial of a sequence with their memory laid out; released on exit."""
    needs = [
        [_need(trial, times, tenant, _ready(place), rates) for tenant, place in zip(trial.tenants, places, strict=True)]
        for trial, times, places in trials
    ]
    totals: Counter[Place] = Counter()
    for (_, _, places), mine in zip(trials, needs, strict=True):
        for place, (_, _, capacity) in zip(places, mine, strict=True):
            totals[place] += capacity
    with contextlib.ExitStack() as stack:
        arenas = {
            (host, seat): stack.enter_context(
                opened(host.arena_fds[seat], capacity=total, slots=_ready((host, seat)).rows)
            )
            for (host, seat), total in totals.items()
        }
        filled: Counter[Place] = Counter()
        sequence = []
        for window, ((trial, _, places), mine) in enumerate(zip(trials, needs, strict=True)):
            seats = []
            for index, (tenant, place, need) in enumerate(zip(trial.tenants, places, mine, strict=True)):
                load, offsets, capacity = need
                part = arenas[place].part(filled[place], capacity)
                if offsets is not None:
                    part.intended[: offsets.size] = offsets
                first = filled[place]
                alone = canary and len(place[0].tenants) == 1  # in a shared process it would time the interpreter lock
                arrival = first_arrival(load, seed=arrival_seed(trial, tenant))
                seats.append(
                    SeatRun(tenant, window, index, *place, _ready(place), load, offsets, arrival, first, part, alone)
                )
                filled[place] += capacity
            sequence.append(seats)
        try:
            yield sequence
        finally:
            for seats in sequence:
                for seat in seats:
                    del seat.part  # it refers to memory being released now


def _ready(place: Place) -> SeatReady:
    host, seat = place
    assert host.ready is not None
    return host.ready.seats[seat]


def _need(
    trial: Trial, times: WindowTimes, tenant: Tenant, ready: SeatReady, rates: Mapping[str, float]
) -> tuple[Load, Int64s | None, int]:
    """A tenant's load with its rate resolved, its schedule if any, and how many requests to make room for."""
    load = resolve(tenant.load, rates.get(tenant.of))
    total_s = (times.lead_ns + times.window_ns + times.patience_ns) / 1e9
    if load.open:
        offsets = arrivals_ns(load, seed=arrival_seed(trial, tenant), horizon_s=total_s)
        return load, offsets, max(offsets.size, 1)
    at_once = load.outstanding if ready.concurrent else 1
    return load, None, min(int(total_s / max(ready.request_s, 1e-7) * at_once * ROOM) + ROOM_EXTRA, CAPACITY_MAX)


def resolve(load: Load, alone_rps: float | None) -> Load:
    """A load given as a share of the tenant's capacity alone, as a rate."""
    if load.rate_share is None:
        return load
    if alone_rps is None:
        raise ValueError(f"the capacity alone of a tenant with load {load} is unknown")
    return load.at(load.rate_share * alone_rps)
