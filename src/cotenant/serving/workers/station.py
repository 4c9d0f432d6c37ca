"""A thread of this process that executes chunks in order, with another queued behind."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

from cotenant.scheduling import Chunk, RequestId
from cotenant.serving.workers.place import Workplace
from cotenant.serving.workers.work import Call, ChunkEngine, ChunkProgress, Prompt, Tell

# The engines of some tenants and the requests they hold, for one thread.


class Ended(NamedTuple):
    """A chunk ended: its results, and the queued chunk that started at once, if any."""

    version: int
    began: float
    ended: float
    started: int | None
    progress: ChunkProgress


class Workbench:
    """Runs chunks. Call all methods from the same thread."""

    def __init__(self, place: Workplace) -> None:
        self._place = place
        self._engines: dict[str, ChunkEngine] = {}
        self._homes: dict[RequestId, str] = {}

    def install(self, tenant: str, engine: ChunkEngine) -> None:
        """Start serving a tenant."""
        self._engines[tenant] = engine

    def remove(self, tenant: str) -> None:
        """Stop serving a tenant."""
        engine = self._engines.pop(tenant, None)
        if engine is not None:
            engine.close()
        for request in [held for held, home in self._homes.items() if home == tenant]:
            del self._homes[request]

    def take(self, request: RequestId, tenant: str, work: Call | Prompt) -> None:
        """Keep the input of a request."""
        engine = self._engines.get(tenant)
        if engine is not None:
            engine.take(request, work)
            self._homes[request] = tenant

    def free(self, requests: Iterable[RequestId]) -> None:
        """Forget requests."""
        for request in requests:
            tenant = self._homes.pop(request, None)
            engine = None if tenant is None else self._engines.get(tenant)
            if engine is not None:
                engine.free(request)

    def run(self, chunk: Chunk, tell: Tell | None = None) -> ChunkProgress:
        """Run a chunk of the requests that are still held, and wait for the device."""
        engine = self._engines.get(chunk.tenant)
        held = [request for request in chunk.requests if request in self._homes]
        if engine is None or not held:
            return ChunkProgress()
        try:
            progress = engine.step(held, chunk.steps, tell) if chunk.steps else engine.run(held, chunk.stage)
            self._place.wait()
        except Exception as error:  # noqa: BLE001 - the device's own errors come out at the wait
            for request in held:
                engine.free(request)
            progress = ChunkProgress(failures=dict.fromkeys(held, error))
        for request in (*progress.results, *progress.failures):
            self._homes.pop(request, None)
        return progress

    def close(self) -> None:
        """Restore the models to their original state."""
        for engine in self._engines.values():
            engine.close()


T = TypeVar("T")


class Station:
    """A bench with a thread of its own. Engines are only used in that thread."""

    def __init__(self, place: Workplace, report: Callable[[Ended], None], tell: Tell | None = None) -> None:
        self._place = place
        self._report = report
        self._tell = tell
        self._bench = Workbench(place)
        self._inbox: SimpleQueue[Callable[[], None] | Chunk | None] = SimpleQueue()
        """Errands, chunks to start, and None to end: in order, and cheaper to wait for than a condition."""
        self._lock = threading.Lock()
        self._running: int | None = None
        self._queued: Chunk | None = None
        self._thread = threading.Thread(target=self._live, name="cotenant-station", daemon=True)
        self._thread.start()

    def take(self, request: RequestId, tenant: str, work: Call | Prompt) -> None:
        """Pass the input of a request."""
        self._inbox.put(lambda: self._bench.take(request, tenant, work))

    def free(self, requests: Iterable[RequestId]) -> None:
        """Forget requests."""
        freed = tuple(requests)
        self._inbox.put(lambda: self._bench.free(freed))

    def start(self, chunk: Chunk) -> None:
        """Run a chunk now: the station is idle."""
        with self._lock:
            self._running, self._queued = chunk.version, None
        self._inbox.put(chunk)

    def queue(self, after: int, chunk: Chunk | None) -> None:
        """Run a chunk when ``after`` ends, replacing what is queued; ignored if ``after`` isn't running."""
        with self._lock:
            if self._running == after:
                self._queued = chunk

    def install(self, tenant: str, engine: ChunkEngine) -> None:
        """Start serving a tenant."""
        self._inbox.put(lambda: self._bench.install(tenant, engine))

    def remove(self, tenant: str) -> None:
        """Stop serving a tenant."""
        self._inbox.put(lambda: self._bench.remove(tenant))

    def call(self, function: Callable[[], T]) -> "Future[T]":
        """Run a function in the station's thread between chunks, to build or measure a model."""
        answer: Future[T] = Future()

        def errand() -> None:
            try:
                answer.set_result(function())
            except BaseException as error:  # noqa: BLE001 - passed to the caller
                answer.set_exception(error)

        self._inbox.put(errand)
        return answer

    def close(self) -> None:
        """End the thread after the current chunk."""
        self._inbox.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _live(self) -> None:
        chunk: Chunk | None = None
        with self._place.settled():
            while True:
                if chunk is not None and self._inbox.empty():
                    chunk = self._carry_out(chunk)
                    continue
                item = self._inbox.get()
                if item is None:
                    break
                if isinstance(item, Chunk):
                    chunk = item
                else:
                    item()
        self._bench.close()

    def _carry_out(self, chunk: Chunk) -> Chunk | None:
        """Run a chunk; returns the queued chunk that follows at once, if any."""
        began = time.monotonic()
        progress = self._bench.run(chunk, self._tell)
        ended = time.monotonic()
        with self._lock:
            following, self._queued = self._queued, None
            self._running = following.version if following else None
        self._report(Ended(chunk.version, began, ended, following.version if following else None, progress))
        return following
