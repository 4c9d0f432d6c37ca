"""The workers of a device as one: tenant assignments, running chunks and their successors."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from cotenant.scheduling import Chunk, RequestId
from cotenant.serving.workers.station import Ended


class Worker(Protocol):
    """Interface of a worker in this or another process."""

    def take(self, request: RequestId, tenant: str, work: Any) -> None:
        """Pass the input of a request: tensors, a prompt, or a request to forward."""
        ...

    def free(self, requests: Iterable[RequestId]) -> None:
        """Forget requests."""
        ...

    def start(self, chunk: Chunk) -> None:
        """Run a chunk now."""
        ...

    def queue(self, after: int, chunk: Chunk | None) -> None:
        """Run a chunk when ``after`` ends."""
        ...


class _Running(NamedTuple):
    version: int
    worker: Worker


class Crew:
    """Sends chunks to the worker of their tenant.

    A chunk queued ahead goes to the running worker if it is that worker's; a chunk of another worker is held here and
    started when the running chunk ends.
    """

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._homes: dict[RequestId, Worker] = {}
        self._running: dict[int, _Running] = {}
        """By slot."""
        self._held: dict[int, Chunk] = {}

    def assign(self, tenant: str, worker: Worker) -> None:
        """Assign the tenant to this worker."""
        self._workers[tenant] = worker

    def dismiss(self, tenant: str) -> None:
        """Unassign the tenant."""
        self._workers.pop(tenant, None)

    def take(self, request: RequestId, tenant: str, work: Any) -> None:
        """Pass a request's input to its tenant's worker."""
        worker = self._workers[tenant]
        self._homes[request] = worker
        worker.take(request, tenant, work)

    def forget(self, request: RequestId, *, free: bool) -> None:
        """A request was answered; ``free``: its worker still holds its input or state."""
        worker = self._homes.pop(request, None)
        if worker is not None and free:
            worker.free((request,))

    def start(self, chunk: Chunk) -> None:
        """Run a chunk now."""
        worker = self._workers[chunk.tenant]
        self._running[chunk.slot] = _Running(chunk.version, worker)
        self._held.pop(chunk.slot, None)
        worker.start(chunk)

    def queue(self, after: int, chunk: Chunk | None, slot: int = 0) -> None:
        """Run a chunk after the running chunk; ignored if that has ended."""
        running = self._running.get(slot)
        if running is None or running.version != after:
            return
        ours = chunk is not None and self._workers.get(chunk.tenant) is running.worker
        running.worker.queue(after, chunk if ours else None)
        self._held.pop(slot, None)
        if chunk is not None and not ours:
            self._held[slot] = chunk

    def ended(self, end: Ended, slot: int = 0) -> int | None:
        """Record the end of a chunk; returns the version running now, if any."""
        running = self._running.pop(slot, None)
        held = self._held.pop(slot, None)
        assert running is not None, "a chunk ended that was never started"
        if end.started is not None:
            self._running[slot] = _Running(end.started, running.worker)
        elif held is not None and held.tenant in self._workers:
            self.start(held)
        following = self._running.get(slot)
        return None if following is None else following.version

    def lost(self, worker: Worker) -> int | None:
        """A worker died; returns the version it was running, if any. Such workers have the first slot."""
        for request in [held for held, home in self._homes.items() if home is worker]:
            del self._homes[request]
        running = self._running.get(0)
        if running is None or running.worker is not worker:
            return None
        del self._running[0]
        self._held.pop(0, None)
        return running.version
