"""One unanswered request, and what becomes of it."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from cotenant.serving.conduct.pending import Pending

TRACEPARENT: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""The `traceparent` header of the current request."""
TokenSink = Callable[[list[int]], bool | None]
"""Receives tokens as they are generated; returns True to stop, with the request counted as served."""

FAILED, BAD_INPUT = "failed", "bad input"
NOT_OURS = ("cancelled", BAD_INPUT)
"""Requests that say nothing about the service: the client left, or asked for what no model can answer."""


class Outcome(NamedTuple):
    """Outcome of a request, for metrics and records; times in seconds of the monotonic clock.

    ``why`` is the reason of a refusal, `failed`, `bad input` or `cancelled`; None if it was served.
    """

    tenant: str
    arrived: float
    began: float | None
    first: float | None
    done: float
    device_s: float
    predicted_s: float
    met: bool
    why: str | None
    tokens: int
    trace: str | None = None
    """The client's `traceparent`, if any."""


class Ticket(Pending[Any]):
    """A request that hasn't been answered yet."""

    __slots__ = (
        "_left", "arrived", "began", "enough", "first", "held", "number", "predicted_s", "sink", "tenant", "tokens",
        "trace", "why",
    )  # fmt: skip

    def __init__(
        self, number: int, tenant: str, arrived: float, sink: TokenSink | None, left: Callable[[int], None]
    ) -> None:
        super().__init__()
        self._left = left
        self.number = number
        self.tenant = tenant
        self.arrived = arrived
        self.sink = sink
        self.began: float | None = None
        self.first: float | None = None
        self.enough = False
        self.predicted_s = 0.0
        self.held: Any = None
        """The worker's result, until the scheduler has counted the request as served."""
        self.tokens = 0
        self.trace = TRACEPARENT.get()
        self.why: str | None = None
        """Why it has no result; `bad input` is the client's fault."""

    def cancel(self) -> None:
        """The client has left: what it asked for is taken back."""
        if not self.done:
            super().cancel()
            self._left(self.number)

    def outcome(self, done: float, *, device_s: float, met: bool, why: str | None) -> Outcome:
        """What became of it."""
        times = (self.arrived, self.began, self.first, done)
        return Outcome(self.tenant, *times, device_s, self.predicted_s, met, why, self.tokens, self.trace)
