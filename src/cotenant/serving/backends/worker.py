"""A worker that forwards requests to a backend; a backend that is down or silent is polled until it answers."""

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any

from cotenant.clients.framing import Reply
from cotenant.errors import BackendTimeout, Refused, RequestFailed
from cotenant.scheduling import Chunk, RequestId, TenantPaused, TenantResumed, Why
from cotenant.serving.backends.backend import Backend
from cotenant.serving.backends.errand import Errand, Piece
from cotenant.serving.backends.gate import Gate
from cotenant.serving.conduct.conductor import Conductor
from cotenant.serving.engines.protocol import Progress
from cotenant.serving.worker.bench import Ended

log = logging.getLogger(__name__)

AGAIN_S = 0.5
"""Seconds between polls of a backend that is down; clients should retry after twice that."""
_TOKEN = b'"choices":'


class BackendWorker:
    """The requests of all tenants of one backend. A chunk is an entire request, since others execute it."""

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
        progress, learnt = Progress(), False
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

    async def _send(self, request: RequestId, errand: Errand) -> Reply:
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
