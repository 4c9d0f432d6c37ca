"""A discrete-event simulator around the scheduler: a worker that holds one chunk ahead, and message delays."""

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cotenant.scheduling.events import Arrived, ChunkDone, Event, RequestId
from cotenant.scheduling.instructions import Chunk, Done, Dropped, Instruction, QueueAhead, Shed, StartChunk, Why
from cotenant.scheduling.scheduler import DeviceScheduler
from cotenant.scheduling.simulation.device import Arrival, SimulatedDevice

# --- the outcome of each request, and statistics by tenant


class SimulatedRequest(NamedTuple):
    """One request. ``done`` is None if it was shed (``why`` gives the reason) or unfinished."""

    tenant: str
    arrived: float
    done: float | None
    met: bool
    why: Why | None
    retry_after_s: float | None
    first: float | None = None
    """End of its prompt, with which the first token comes; of a request without steps, its end."""

    @property
    def latency_s(self) -> float | None:
        """From arrival to completion."""
        return None if self.done is None else self.done - self.arrived


class SimulatedResult(NamedTuple):
    """A simulation: ``outcomes`` in order of arrival, the time of the last event, and device statistics.

    ``busy_s``: total time of chunks. ``replaced``: queued chunks replaced by a newer choice; ``late``: newer choices
    that arrived after the queued chunk had begun.
    """

    outcomes: tuple[SimulatedRequest, ...]
    duration_s: float
    busy_s: float
    chunks: int
    replaced: int
    late: int

    def attainment(self) -> dict[str, float]:
        """By tenant, the fraction of all its requests served in time."""
        asked: dict[str, int] = {}
        met: dict[str, int] = {}
        for outcome in self.outcomes:
            asked[outcome.tenant] = asked.get(outcome.tenant, 0) + 1
            met[outcome.tenant] = met.get(outcome.tenant, 0) + outcome.met
        return {tenant: met[tenant] / asked[tenant] for tenant in asked}

    def goodput(self, worth_s: Mapping[str, float], load_s: float) -> float:
        """Requests served in time, each worth its tenant's device-seconds, per second of load."""
        return sum(worth_s[outcome.tenant] for outcome in self.outcomes if outcome.met) / load_s


class _Running(NamedTuple):
    chunk: Chunk
    began: float


class _Worker:
    """One slot of the device: the running chunk and the queued one."""

    def __init__(self) -> None:
        self.running: _Running | None = None
        self.queued: Chunk | None = None
        self.last_end = float("-inf")


def simulate(
    arrivals: Sequence[Arrival], scheduler: DeviceScheduler, device: SimulatedDevice, *, delay_s: float = 0.0
) -> SimulatedResult:
    """Run all arrivals through the scheduler; ``delay_s`` is the message delay between scheduler and worker."""
    return _Simulation(arrivals, scheduler, device, delay_s).run()


class _Simulation:
    def __init__(
        self, arrivals: Sequence[Arrival], scheduler: DeviceScheduler, device: SimulatedDevice, delay_s: float
    ) -> None:
        self._arrivals = arrivals
        self._scheduler = scheduler
        self._device = device
        self._delay_s = delay_s
        self._workers = [_Worker() for _ in range(scheduler.settings.slots)]
        self._agenda: list[tuple[float, int, Event | StartChunk | QueueAhead | _End]] = []
        self._count = 0
        self._outcomes: list[SimulatedRequest | None] = [None] * len(arrivals)
        self._batches: dict[RequestId, int] = {}
        self._firsts: dict[RequestId, float] = {}
        self._busy_s = self._now = 0.0
        self._chunks = self._replaced = self._late = 0

    def run(self) -> SimulatedResult:
        for number, arrival in enumerate(self._arrivals):
            time, tenant, deadline, scale, steps, priority = arrival
            self._at(time, Arrived(time, number, tenant, deadline, scale, steps, priority))
        while self._agenda:
            self._now, _, item = heapq.heappop(self._agenda)
            if isinstance(item, StartChunk):
                self._start(item.chunk)
            elif isinstance(item, QueueAhead):
                self._queue(item)
            elif isinstance(item, _End):
                self._end(self._workers[item.slot])
            else:
                self._carry_out(self._scheduler.handle(item))
        outcomes = [
            outcome or SimulatedRequest(arrival.tenant, arrival.time, None, met=False, why=None, retry_after_s=None)
            for outcome, arrival in zip(self._outcomes, self._arrivals, strict=True)
        ]
        return SimulatedResult(tuple(outcomes), self._now, self._busy_s, self._chunks, self._replaced, self._late)

    def _at(self, time: float, item: "Event | StartChunk | QueueAhead | _End") -> None:
        self._count += 1
        heapq.heappush(self._agenda, (time, self._count, item))

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, StartChunk | QueueAhead):
                if self._delay_s:
                    self._at(self._now + self._delay_s, instruction)
                elif isinstance(instruction, StartChunk):
                    self._start(instruction.chunk)
                else:
                    self._queue(instruction)
            else:
                self._note(instruction)

    def _note(self, end: Done | Shed | Dropped) -> None:
        number = end.request
        assert isinstance(number, int)
        assert self._outcomes[number] is None, f"request {number} was answered twice"
        arrived = self._arrivals[number].time
        if isinstance(end, Done):
            done = arrived + end.latency_s
            self._outcomes[number] = SimulatedRequest(
                end.tenant, arrived, done, end.met, None, None, self._firsts.pop(number, None)
            )
        else:
            why, retry = (end.why, end.retry_after_s) if isinstance(end, Shed) else (None, None)
            self._outcomes[number] = SimulatedRequest(
                end.tenant, arrived, None, met=False, why=why, retry_after_s=retry
            )

    def _start(self, chunk: Chunk) -> None:
        worker = self._workers[chunk.slot]
        assert worker.running is None, "a chunk was started while another ran"
        scale = max(self._arrivals[number].scale for number in chunk.requests if isinstance(number, int))
        took = self._device.chunk_s(chunk, self._batch(chunk), scale, self._now, self._now - worker.last_end)
        worker.running = _Running(chunk, self._now)
        worker.queued = None
        self._busy_s += took
        self._chunks += 1
        self._at(self._now + took, _End(chunk.slot))

    def _batch(self, chunk: Chunk) -> int:
        """The batch that runs: a worker doesn't reshape what it has begun when a member leaves."""
        if chunk.steps:
            return len(chunk.requests)
        if chunk.stage == 0:
            self._batches |= dict.fromkeys(chunk.requests, len(chunk.requests))
        return self._batches[chunk.requests[0]]

    def _queue(self, order: QueueAhead) -> None:
        worker = self._workers[order.slot]
        if worker.running is None or worker.running.chunk.version != order.after:
            self._late += 1
            return
        self._replaced += worker.queued is not None
        worker.queued = order.chunk

    def _end(self, worker: _Worker) -> None:
        running, chunk = worker.running, worker.queued
        assert running is not None
        worker.running, worker.last_end = None, self._now
        if not running.chunk.steps:  # of several chunks, the last remains
            self._firsts |= dict.fromkeys(running.chunk.requests, self._now)
        if chunk is not None:
            self._start(chunk)
        done = ChunkDone(
            self._now + self._delay_s, running.chunk.version, running.began, self._now,
            chunk.version if chunk else None, slot=running.chunk.slot,
        )  # fmt: skip
        if self._delay_s:
            self._at(done.time, done)
        else:
            self._carry_out(self._scheduler.handle(done))


class _End(NamedTuple):
    """A chunk ends on a slot."""

    slot: int
