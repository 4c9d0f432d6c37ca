"""Connects clients, the scheduler and the workers, in the thread of an asyncio loop.

Every request gets a ticket, which ends with a worker's result, the model's error, or the scheduler's refusal. Whoever
waits for a result has it before the scheduler learns that its chunk has ended, unless the device waits for that.
"""

import asyncio
import itertools
import math
import time
from collections.abc import Callable
from typing import Any

from cotenant.errors import BadInput, Refused
from cotenant.scheduling import (
    Arrived,
    Cancelled,
    Chunk,
    ChunkDone,
    ChunkLost,
    DeviceScheduler,
    Done,
    Dropped,
    Event,
    Instruction,
    QueueAhead,
    RequestId,
    Shed,
    StartChunk,
    TenantPaused,
    Tick,
)
from cotenant.serving.tickets import BAD_INPUT, FAILED, Pending, RequestOutcome, Ticket, TokenSink
from cotenant.serving.workers.crew import Crew, Worker
from cotenant.serving.workers.station import Ended
from cotenant.serving.workers.work import ChunkProgress, Prompt

LATER_S = 2e-3
"""Delay of a wake-up: at the exact moment a request could still be in time."""
TOO_MANY = 429


class Conductor:
    """Owns the scheduler of a device. Call all methods from the loop's thread."""

    def __init__(
        self,
        scheduler: DeviceScheduler,
        crew: Crew,
        *,
        observe: Callable[[RequestOutcome], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scheduler = scheduler
        self.crew = crew
        self._observe = observe
        self._clock = clock
        self._numbers = itertools.count(1)
        self._tickets: dict[int, Ticket] = {}
        self._chunks: dict[int, Chunk] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._awaiting_idle: list[asyncio.Future[None]] = []
        self.device_s = 0.0

    @property
    def in_flight(self) -> int:
        """Number of unanswered requests."""
        return sum(not ticket.done for ticket in self._tickets.values())

    def requests(self) -> list[tuple[str, bool]]:
        """Tenant and started flag of each unanswered request."""
        first: dict[int, Chunk] = {}
        for version in sorted(self._chunks):  # of a slot's chunks, the oldest runs and the others wait
            first.setdefault(self._chunks[version].slot, self._chunks[version])
        running = {request for chunk in first.values() for request in chunk.requests}
        return [
            (ticket.tenant, ticket.began is not None or number in running) for number, ticket in self._tickets.items()
        ]

    async def drained(self) -> None:
        """Wait until every request has been answered."""
        while self._tickets:
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._awaiting_idle.append(idle)
            await idle

    def serve(
        self,
        tenant: str,
        work: Any,
        *,
        deadline_s: float | None = None,
        priority: int = 0,
        scale: float = 1.0,
        steps: int | None = None,
        cache_bytes: int | None = None,
        sink: TokenSink | None = None,
    ) -> Pending[Any]:
        """Serve a request; cancelling what is returned, or the task that awaits it, cancels the request.

        Args:
            tenant: The tenant.
            work: Its input.
            deadline_s: Seconds until the client gives up; None: by the contract.
            priority: Higher goes first among the tenant's own requests.
            scale: Its cost relative to a typical request.
            steps: Maximum number of decode steps.
            cache_bytes: Memory that it holds while it runs; None: as much as a typical request.
            sink: Receives tokens as they are generated.

        Returns:
            Its result to come; `Refused` if the scheduler refuses it.
        """
        now = self._clock()
        number = next(self._numbers)
        self._tickets[number] = ticket = Ticket(number, tenant, now, sink, self._left)
        if isinstance(work, Prompt):
            ticket.prompt, ticket.most = len(work.ids), work.tokens
        deadline = None if deadline_s is None else now + deadline_s
        out = self.scheduler.handle(Arrived(now, number, tenant, deadline, scale, steps, priority, cache_bytes))
        for instruction in out:
            if type(instruction) is Shed and instruction.request == number:
                break
        else:
            self.crew.take(number, tenant, work)
        self._carry_out(out)
        self._set_timer()
        return ticket

    def tell(self, event: Event) -> None:
        """Pass an event to the scheduler and carry out its instructions."""
        self._carry_out(self.scheduler.handle(event))
        self._set_timer()

    def device_waits(self, end: Ended) -> bool:
        """Whether the device is idle after a chunk, with requests left: the scheduler is asked before all else."""
        return end.started is None and len(self._tickets) > len(end.progress.results)

    def hand_out(self, end: Ended) -> None:
        """Give results to whoever waits for them; the rest of what ends a chunk may follow later."""
        for request, result in end.progress.results.items():
            ticket = self._tickets.get(request)  # type: ignore[arg-type] # ours are numbers
            if ticket is not None:
                ticket.resolve(result)

    def chunk_ended(self, end: Ended) -> None:
        """A worker reports the end of a chunk."""
        version, began, ended, _, progress = end
        results, failures, tokens = progress.results, progress.failures, progress.tokens
        self.device_s += ended - began
        chunk = self._chunks.get(version)
        slot = 0
        if chunk is not None:
            slot = chunk.slot
            self._account(chunk, began)
        if tokens:
            self.tokens_made(progress, ended)
        if self.device_waits(end):
            for request, result in results.items():
                ticket = self._tickets.get(request)  # type: ignore[arg-type] # ours are numbers
                if ticket is not None:
                    ticket.held = result
        else:
            self.hand_out(end)
        for request, error in failures.items():
            self.fail(request, error)
        self._forget_chunks(version, slot)
        started = self.crew.ended(end, slot)
        finished = tuple(results)
        if tokens:
            enough = [request for request in tokens if (ticket := self._tickets.get(request)) and ticket.enough]  # type: ignore[arg-type]
            finished = tuple(dict.fromkeys((*results, *enough)))
        self.tell(ChunkDone(self._clock(), version, began, ended, started, finished, slot))
        for request in failures:
            if request in self._tickets:
                self.tell(Cancelled(self._clock(), request))

    def tokens_made(self, progress: ChunkProgress, at: float) -> None:
        """New tokens, perhaps before the end of their chunk."""
        for request, made in progress.tokens.items():
            ticket = self._tickets.get(request)  # type: ignore[arg-type] # ours are numbers
            if ticket is None:
                continue
            ticket.made(len(made), at)
            if ticket.sink is not None and ticket.sink(made, progress.scores.get(request, ())):
                ticket.enough = True

    def put_output(self, request: RequestId, tokens: int) -> None:
        """A backend started or continued its answer: record the first output, count tokens."""
        ticket = self._tickets.get(request)  # type: ignore[arg-type] # ours are numbers
        if ticket is not None:
            ticket.made(tokens, self._clock())

    def refused_by_backend(self, request: RequestId, status: int) -> None:
        """A backend answered with an error: the client gets it as it is, but it wasn't served."""
        ticket = self._tickets.get(request)  # type: ignore[arg-type] # ours are numbers
        if ticket is not None:
            ticket.why = BAD_INPUT if 400 <= status < 500 and status != TOO_MANY else FAILED

    def worker_lost(self, worker: Worker, tenants: tuple[str, ...], retry_after_s: float) -> None:
        """A worker died or hangs: pause its tenants; its chunk will never end."""
        now = self._clock()
        version = self.crew.lost(worker)
        for tenant in tenants:
            self.tell(TenantPaused(now, tenant, retry_after_s))
        if version is not None:
            self.tell(ChunkLost(now, version))

    def close(self, error: BaseException | None = None) -> None:
        """Stop the timer, and end every waiting request with an error; None: cancel it."""
        if self._timer is not None:
            self._timer.cancel()
        tickets, self._tickets = self._tickets, {}
        for ticket in tickets.values():
            ticket.resolve(error=error or asyncio.CancelledError())

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, StartChunk):
                self._chunks[instruction.chunk.version] = instruction.chunk
                self.crew.start(instruction.chunk)
            elif isinstance(instruction, QueueAhead):
                if instruction.chunk is not None:
                    self._chunks[instruction.chunk.version] = instruction.chunk
                self.crew.queue(instruction.after, instruction.chunk, instruction.slot)
            else:
                self._answer(instruction)

    def _answer(self, end: Done | Shed | Dropped) -> None:
        number = end.request
        assert isinstance(number, int)
        ticket = self._tickets.pop(number, None)
        self.crew.forget(number, free=not isinstance(end, Done) or (ticket is not None and ticket.enough))
        if self._awaiting_idle and not self._tickets:
            self._say_idle()
        if ticket is None:
            return
        why = ticket.why
        due, device_s = -math.inf, 0.0
        if isinstance(end, Done):
            due, device_s = end.deadline, end.device_s
            ticket.resolve(ticket.held)
        elif isinstance(end, Shed):
            why = why or str(end.why)
            wait_s = end.predicted_wait_s
            ticket.resolve(
                error=Refused(end.tenant, str(end.why), retry_after_s=end.retry_after_s, predicted_wait_s=wait_s)
            )
        else:
            why = why or "cancelled"
        if self._observe is not None:
            done = self._clock()  # a client waits for its answer, not for the end of the work
            self._observe(ticket.outcome(done, device_s=device_s, met=why is None and done <= due, why=why))

    def _left(self, number: int) -> None:
        """A client is gone."""
        if number in self._tickets:
            self.tell(Cancelled(self._clock(), number))

    def _say_idle(self) -> None:
        waiting, self._awaiting_idle = self._awaiting_idle, []
        for idle in waiting:
            if not idle.done():
                idle.set_result(None)

    def _account(self, chunk: Chunk, began: float) -> None:
        """Record when requests started and their expected cost."""
        each_s = chunk.predicted_s / len(chunk.requests)
        for request in chunk.requests:
            ticket = self._tickets.get(request)  # type: ignore[arg-type]
            if ticket is not None:
                ticket.began = ticket.began or began
                ticket.predicted_s += each_s

    def _forget_chunks(self, version: int, slot: int) -> None:
        """The chunk has ended, and those queued behind earlier ones of its slot will never start."""
        chunks = self._chunks
        for earlier in [earlier for earlier, chunk in chunks.items() if earlier <= version and chunk.slot == slot]:
            del chunks[earlier]

    def fail(self, request: RequestId, error: Exception) -> None:
        """The model or the backend failed: report it to the caller at once."""
        ticket = self._tickets.get(request)  # type: ignore[arg-type] # ours are numbers
        if ticket is not None:
            ticket.why = BAD_INPUT if isinstance(error, BadInput) else FAILED
            ticket.resolve(error=error)

    def _set_timer(self) -> None:
        """Wake up when a waiting request can no longer be in time, to refuse it early.

        A timer that is due earlier stays: moving it at every event would cost more than waking for nothing.
        """
        at = self.scheduler.wake_at()
        if at is None:
            return
        if self._timer is not None:
            if self._timer_due <= at + LATER_S:
                return
            self._timer.cancel()
        now = self._clock()
        self._timer_due = due = max(at, now) + LATER_S
        self._timer = asyncio.get_running_loop().call_later(due - now, self._tick)

    def _tick(self) -> None:
        self._timer = None
        at, now = self.scheduler.wake_at(), self._clock()
        if at is not None and at < now:
            self.tell(Tick(now))
        else:
            self._set_timer()
