"""A thread of this process that executes chunks in order, with one queued behind the running one."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from cotenant.scheduling import Chunk, RequestId
from cotenant.serving.engines.protocol import Call, Engine, Prompt, Tell
from cotenant.serving.worker.bench import Bench, Ended
from cotenant.serving.worker.place import Place

T = TypeVar("T")


class Station:
    """A bench with a thread of its own. Engines are only used in that thread."""

    def __init__(self, place: Place, report: Callable[[Ended], None], tell: Tell | None = None) -> None:
        self._place = place
        self._report = report
        self._tell = tell
        self._bench = Bench(place)
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
        """Run a chunk when ``after`` ends, replacing the queued one; ignored if ``after`` isn't running."""
        with self._lock:
            if self._running == after:
                self._queued = chunk

    def install(self, tenant: str, engine: Engine) -> None:
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
        """Run a chunk; returns the queued one that follows it at once, if any."""
        began = time.monotonic()
        progress = self._bench.run(chunk, self._tell)
        ended = time.monotonic()
        with self._lock:
            following, self._queued = self._queued, None
            self._running = following.version if following else None
        self._report(Ended(chunk.version, began, ended, following.version if following else None, progress))
        return following
