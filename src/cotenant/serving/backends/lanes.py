"""Tenants behind other servers: backends are queried and measured, then requests are forwarded to them in our order."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from cotenant.clients.framing import HttpReply
from cotenant.errors import BackendTimeout, Refused, RequestFailed, ServingError
from cotenant.scheduling import (
    Chunk,
    DeviceScheduler,
    RequestId,
    Settings,
    TenantAdded,
    TenantPaused,
    TenantResumed,
    Why,
)
from cotenant.serving.backends.backend import Backend, Errand, Piece
from cotenant.serving.backends.probing import BackendFacts, probe
from cotenant.serving.conductor import Conductor
from cotenant.serving.measures import Measures
from cotenant.serving.tenants_file import SLEEPERS, Lane, TenantsFile
from cotenant.serving.workers.admission import check_floor
from cotenant.serving.workers.crew import Crew
from cotenant.serving.workers.station import Ended
from cotenant.serving.workers.work import ChunkProgress
from cotenant.tenancy.backend import BackendTimeouts
from cotenant.workloads.protocol import DEFAULT_TOKENS

# --- backends that don't fit on the device together take turns to be awake

TURNS = 10.0
"""Minimum length of a turn while others wait, in multiples of the time of a change."""


class Sleeper(Protocol):
    """A backend that can sleep."""

    async def sleep(self) -> None:
        """Free the device's memory."""
        ...

    async def wake(self) -> None:
        """Wake it up."""
        ...


class Gate:
    """Admits requests to the backend that is awake. Call all methods from the loop's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.awake: Sleeper | None = None
        self.change_s = 0.0
        """Duration of the last change."""
        self._clock = clock
        self._since = clock()
        self._inside = 0
        self._waiting: list[tuple[Sleeper, asyncio.Future[None]]] = []
        self._changing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def through(self, backend: Sleeper) -> AsyncIterator[None]:
        """Wait for this backend's turn and hold it meanwhile."""
        if self._changing is not None or self.awake is not backend or self._over(backend):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((backend, turn))
            self._go_on()
            try:
                await turn
            except BaseException:
                if turn.done() and not turn.cancelled() and turn.exception() is None:
                    self._leave()
                raise
        else:
            self._inside += 1
        try:
            yield
        finally:
            self._leave()

    def _over(self, backend: Sleeper) -> bool:
        others = any(other is not backend and not turn.done() for other, turn in self._waiting)
        return others and self._clock() - self._since > TURNS * self.change_s

    def _leave(self) -> None:
        self._inside -= 1
        self._go_on()

    def _go_on(self) -> None:
        """Change over once nothing is in flight and another backend waits."""
        self._waiting = [(waiter, turn) for waiter, turn in self._waiting if not turn.done()]
        if self._inside == 0 and self._changing is None and self._waiting:
            self._changing = asyncio.get_running_loop().create_task(self._change(self._waiting[0][0]))

    async def _change(self, following: Sleeper) -> None:
        began, failure = self._clock(), None
        try:
            if self.awake is not following:
                if self.awake is not None:
                    await self.awake.sleep()
                self.awake = None
                await following.wake()
                self.awake = following
                self.change_s = self._clock() - began
        except Exception as error:  # noqa: BLE001 - passed to the requests waiting for this backend
            failure = error
        self._changing = None
        self._since = self._clock()
        waiting, self._waiting = self._waiting, []
        for waiter, turn in waiting:
            if waiter is not following:
                self._waiting.append((waiter, turn))
            elif turn.done():
                continue
            elif failure is not None:
                turn.set_exception(failure)
            else:
                self._inside += 1
                turn.set_result(None)
        self._go_on()


# A worker that forwards requests to a backend; a backend that is down or silent is polled until it answers.

log = logging.getLogger(__name__)

AGAIN_S = 0.5
"""Seconds between polls of a backend that is down; clients should retry after twice that."""
_TOKEN = b'"choices":'


class BackendWorker:
    """The requests of all tenants of a backend. A chunk is an entire request, since others execute it."""

    def __init__(self, backend: Backend, conductor: Conductor, tenants: tuple[str, ...], gate: Gate | None) -> None:
        self.backend = backend
        self.tenants = tenants
        self._conductor = conductor
        self._gate = gate
        self._errands: dict[RequestId, Errand] = {}
        self._under_way: dict[RequestId, asyncio.Task[None]] = {}
        self._asking: asyncio.Task[None] | None = None

    def take(self, request: RequestId, tenant: str, work: Any) -> None:
        """Keep a request until its turn."""
        del tenant
        assert isinstance(work, Errand)
        self._errands[request] = work

    def free(self, requests: Iterable[RequestId]) -> None:
        """Forget requests; those in flight are aborted."""
        for request in requests:
            self._errands.pop(request, None)
            task = self._under_way.pop(request, None)
            if task is not None:
                task.cancel()

    def start(self, chunk: Chunk) -> None:
        """Send a request."""
        (request,) = chunk.requests
        task = asyncio.get_running_loop().create_task(self._run(chunk, request))
        self._under_way[request] = task

    def queue(self, after: int, chunk: Chunk | None) -> None:
        """Never called: a backend has its own queue."""
        assert chunk is None, f"a chunk was queued behind {after} at a backend"

    async def close(self) -> None:
        """Abort everything."""
        tasks = [*self._under_way.values(), *([self._asking] if self._asking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.backend.close()

    async def _run(self, chunk: Chunk, request: RequestId) -> None:
        began = time.monotonic()
        progress, learnt = ChunkProgress(), False
        try:
            errand = self._errands.pop(request, None)
            if errand is not None:
                reply = await self._send(request, errand)
                progress.results[request] = reply
                learnt = reply.ok
                if not reply.ok:
                    self._conductor.refused_by_backend(request, reply.status)
        except RequestFailed as error:
            progress.failures[request] = failure = self._failure(chunk.tenant, error)
            self._conductor.fail(request, failure)  # before its tenant is paused, which refuses what is under way
            self._pause(error)
        except Exception as error:  # noqa: BLE001 - it belongs to this request
            progress.failures[request] = error
        finally:
            self._under_way.pop(request, None)
            ended = time.monotonic()
            # Refused or aborted requests say nothing about costs.
            since = began if learnt else ended - chunk.predicted_s
            self._conductor.chunk_ended(Ended(chunk.version, since, ended, None, progress))

    async def _send(self, request: RequestId, errand: Errand) -> HttpReply:
        def take(piece: Piece) -> None:
            if isinstance(piece, bytes):
                self._conductor.put_output(request, piece.count(_TOKEN))
            errand.take(piece)

        counted = Errand(errand.target, errand.body, errand.headers, take)
        if self._gate is None:
            return await self.backend.send(counted)
        async with self._gate.through(self.backend):
            return await self.backend.send(counted)

    def _failure(self, tenant: str, error: RequestFailed) -> Exception:
        """The client's error."""
        if error.kind == "timeout":
            message = f"The backend {error.message}."
            return BackendTimeout(message, retry_after_s=self._retry_s(error), hint=error.hint)
        if error.kind == "connection":
            return Refused(tenant, Why.WORKER_LOST, retry_after_s=self._retry_s(error), predicted_wait_s=0.0)
        return error

    def _retry_s(self, error: RequestFailed) -> float:
        return AGAIN_S + (self.backend.probe_s if error.kind == "timeout" else AGAIN_S)

    def _pause(self, error: RequestFailed) -> None:
        """A backend that can't be reached, or is silent, gets nothing until it answers again."""
        if error.kind not in ("timeout", "connection"):
            return
        if error.kind == "timeout":
            self.backend.timeouts += 1
            if not self.backend.silent(error.waited_s):
                log.warning("%s to one request; it answers others", error.message)
                return
        if self._asking is not None and not self._asking.done():
            return
        log.warning("%s; its tenants (%s) are paused", error.message, ", ".join(self.tenants))
        self.backend.mark(error.message)
        now, retry_s = time.monotonic(), self._retry_s(error)
        for tenant in self.tenants:
            self._conductor.tell(TenantPaused(now, tenant, retry_s))
        check = error.kind == "timeout" and self._gate is None  # asleep, no model answers
        self._asking = asyncio.get_running_loop().create_task(self._ask(check=check))

    async def _ask(self, *, check: bool) -> None:
        while not await self.backend.alive(check=check):
            await asyncio.sleep(AGAIN_S)
        down_s = self.backend.unmark()
        log.warning("`%s` answers again after %.1f s", self.backend.address.name, down_s)
        for tenant in self.tenants:
            self._conductor.tell(TenantResumed(time.monotonic(), tenant))


DEFAULT_WORDS = 16


@dataclass(slots=True)
class OpenLane:
    """An open lane."""

    conductor: Conductor
    workers: list[BackendWorker] = field(default_factory=list)
    known: dict[str, BackendFacts] = field(default_factory=dict)

    def ready(self, tenant: str) -> bool:
        """Whether the tenant's backend answers."""
        return any(tenant in worker.tenants and worker.backend.up for worker in self.workers)

    def describe(self) -> list[dict[str, Any]]:
        """Each backend: its address, tenants and health."""
        now = time.monotonic()
        return [
            {
                "backend": worker.backend.address.name,
                "tenants": worker.tenants,
                "up": worker.backend.up,
                "why": worker.backend.down,
                "down_s": None if worker.backend.up else now - worker.backend.down_since,
                "timeouts": worker.backend.timeouts,
                "restarts": 0,
            }
            for worker in self.workers
        ]

    async def close(self) -> None:
        """Abort requests in flight."""
        self.conductor.close()
        for worker in self.workers:
            await worker.close()


async def open_lane(file: TenantsFile, lane: Lane, measures: Measures) -> OpenLane:
    """Open a lane of backends.

    Raises:
        ServingError: A backend is unreachable or refuses, or an objective is below the time of a request.
    """
    settings = Settings(fairness=file.rule(), slots=lane.slots, queue_ahead=False)
    conductor = Conductor(DeviceScheduler([], settings, now=time.monotonic()), Crew(), observe=measures.add)
    opened = OpenLane(conductor)
    gate = Gate() if lane.name == SLEEPERS else None
    try:
        for members in _by_address(file, lane).values():
            entry = file.tenants[members[0]].backend
            assert entry is not None
            worker = BackendWorker(Backend(entry), conductor, members, gate)
            opened.workers.append(worker)
            await _admit(file, opened, worker, gate)
    except BaseException:
        await opened.close()
        raise
    return opened


async def _admit(file: TenantsFile, opened: OpenLane, worker: BackendWorker, gate: Gate | None) -> None:
    try:
        if gate is None:
            await _probe_all(file, opened, worker)
        else:
            async with gate.through(worker.backend):
                await _probe_all(file, opened, worker)
    except RequestFailed as error:
        raise ServingError(f"The backend failed: {error.message}.", hint=error.hint) from None
    for name in worker.tenants:
        known = opened.known[name]
        contract, costs = file.tenants[name].scheduled_contract(name, known.passing.tokens), known.costs
        check_floor(contract, costs)
        worker.backend.check = worker.backend.check or known.check
        opened.conductor.crew.assign(name, worker)
        opened.conductor.tell(TenantAdded(time.monotonic(), contract, costs))


async def _probe_all(file: TenantsFile, opened: OpenLane, worker: BackendWorker) -> None:
    for name in worker.tenants:
        tenant = file.tenants[name]
        assert tenant.backend is not None
        try:
            opened.known[name] = await probe(
                worker.backend,
                tenant.backend,
                seq=tenant.seq or DEFAULT_WORDS,
                tokens=tenant.tokens or DEFAULT_TOKENS,
                embeds=tenant.mode == "embed",
            )
        except ServingError as error:
            raise ServingError(f"Tenant {name}: {error.message}", hint=error.hint) from None


def _by_address(file: TenantsFile, lane: Lane) -> dict[tuple[str, str, BackendTimeouts], tuple[str, ...]]:
    """Tenants of a server share its connections, and are paused together when it is down."""
    members: dict[tuple[str, str, BackendTimeouts], tuple[str, ...]] = {}
    for name in lane.tenants:
        entry = file.tenants[name].backend
        assert entry is not None
        server = (entry.address.name, entry.key_env or "", entry.timeouts)
        members[server] = (*members.get(server, ()), name)
    return members
