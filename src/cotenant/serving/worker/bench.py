"""The engines of some tenants and the requests they hold, for one thread."""

from collections.abc import Iterable
from typing import NamedTuple

from cotenant.scheduling import Chunk, RequestId
from cotenant.serving.engines.protocol import Call, Engine, Progress, Prompt, Tell
from cotenant.serving.worker.place import Place


class Ended(NamedTuple):
    """A chunk ended: its results, and the queued chunk that started at once, if any."""

    version: int
    began: float
    ended: float
    started: int | None
    progress: Progress


class Bench:
    """Runs chunks. Call all methods from one thread."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._engines: dict[str, Engine] = {}
        self._homes: dict[RequestId, str] = {}

    def install(self, tenant: str, engine: Engine) -> None:
        """Start serving a tenant."""
        self._engines[tenant] = engine

    def remove(self, tenant: str) -> None:
        """Stop serving a tenant."""
        engine = self._engines.pop(tenant, None)
        if engine is not None:
            engine.close()
        for request in [one for one, home in self._homes.items() if home == tenant]:
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

    def run(self, chunk: Chunk, tell: Tell | None = None) -> Progress:
        """Run a chunk of the requests that are still held, and wait for the device."""
        engine = self._engines.get(chunk.tenant)
        held = [request for request in chunk.requests if request in self._homes]
        if engine is None or not held:
            return Progress()
        try:
            progress = engine.step(held, chunk.steps, tell) if chunk.steps else engine.run(held, chunk.stage)
            self._place.wait()
        except Exception as error:  # noqa: BLE001 - the device's own errors come out at the wait
            for request in held:
                engine.free(request)
            progress = Progress(failures=dict.fromkeys(held, error))
        for request in (*progress.results, *progress.failures):
            self._homes.pop(request, None)
        return progress

    def close(self) -> None:
        """Restore the models to their original state."""
        for engine in self._engines.values():
            engine.close()
