"""A thread of this process that executes chunks in order, with one queued behind the running one."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TypeVar

from cotenant.scheduling import Chunk, RequestId
from cotenant.serving.engines.protocol import Call, Engine, Prompt
from cotenant.serving.worker.bench import Bench, Ended
from cotenant.serving.worker.place import Place

T = TypeVar("T")


class Station:
    """A bench with a thread of its own. Engines are only used in that thread."""

    def __init__(self, place: Place, report: Callable[[Ended], None]) -> None:
        self._place = place
        self._report = report
        self._bench = Bench(place)
        self._wake = threading.Condition()
        self._errands: deque[Callable[[], None]] = deque()
        self._running: int | None = None
        self._pending: Chunk | None = None
        self._queued: Chunk | None = None
        self._open = True
        self._thread = threading.Thread(target=self._live, name="cotenant-station", daemon=True)
        self._thread.start()

    def take(self, request: RequestId, tenant: str, work: Call | Prompt) -> None:
        """Pass the input of a request. Doesn't wake the thread: only a chunk needs it."""
        with self._wake:
            self._errands.append(lambda: self._bench.take(request, tenant, work))

    def free(self, requests: Iterable[RequestId]) -> None:
        """Forget requests."""
        freed = tuple(requests)
        self._later(lambda: self._bench.free(freed))

    def start(self, chunk: Chunk) -> None:
        """Run a chunk now: the station is idle."""
        with self._wake:
            self._running, self._pending, self._queued = chunk.version, chunk, None
            self._wake.notify()

    def queue(self, after: int, chunk: Chunk | None) -> None:
        """Run a chunk when ``after`` ends, replacing the queued one; ignored if ``after`` isn't running."""
        with self._wake:
            if self._running == after:
                self._queued = chunk

    def install(self, tenant: str, engine: Engine) -> None:
        """Start serving a tenant."""
        self._later(lambda: self._bench.install(tenant, engine))

    def remove(self, tenant: str) -> None:
        """Stop serving a tenant."""
        self._later(lambda: self._bench.remove(tenant))

    def call(self, function: Callable[[], T]) -> "Future[T]":
        """Run a function in the station's thread between chunks, to build or measure a model."""
        answer: Future[T] = Future()

        def errand() -> None:
            try:
                answer.set_result(function())
            except BaseException as error:  # noqa: BLE001 - passed to the caller
                answer.set_exception(error)

        self._later(errand)
        return answer

    def close(self) -> None:
        """End the thread after the current chunk."""
        with self._wake:
            self._open = False
            self._wake.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _later(self, errand: Callable[[], None]) -> None:
        with self._wake:
            self._errands.append(errand)
            self._wake.notify()

    def _live(self) -> None:
        with self._place.settled():
            while True:
                with self._wake:
                    while self._open and not self._errands and self._pending is None:
                        self._wake.wait()
                    if not self._open:
                        break
                    chunk, self._pending = self._pending, None
                self._run_errands()
                while chunk is not None:
                    chunk = self._carry_out(chunk)
        self._bench.close()

    def _carry_out(self, chunk: Chunk) -> Chunk | None:
        """Run a chunk; returns the queued one that follows it at once, if any."""
        began = time.monotonic()
        progress = self._bench.run(chunk)
        ended = time.monotonic()
        with self._wake:
            following, self._queued = self._queued, None
            self._running = following.version if following else None
        self._report(Ended(chunk.version, began, ended, following.version if following else None, progress))
        self._run_errands()
        return following

    def _run_errands(self) -> None:
        while self._errands:
            self._errands.popleft()()
