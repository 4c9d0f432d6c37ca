"""One unanswered request, and what becomes of it."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from cotenant.serving.conduct.pending import Pending
from cotenant.serving.engines.protocol import Scored

TRACEPARENT: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""The `traceparent` header of the current request."""
TokenSink = Callable[[list[int], Sequence[Scored]], bool | None]
"""Receives tokens and their scores, if requested, as they are generated; returns True to stop, counted as served."""

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
    prompt: int = 0
    """Tokens of the prompt."""
    most: int = 0
    """Tokens that were asked for."""
    gaps: tuple[tuple[float, int], ...] = ()
    """Seconds from token to token, each with the number of tokens."""


class Ticket(Pending[Any]):
    """A request that hasn't been answered yet."""

    __slots__ = (
        "_gaps", "_latest", "_left", "arrived", "began", "enough", "first", "held", "most", "number", "predicted_s",
        "prompt", "sink", "tenant", "tokens", "trace", "why",
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
        self.tokens = self.prompt = self.most = 0
        self._latest = 0.0
        self._gaps: list[tuple[float, int]] = []
        self.trace = TRACEPARENT.get()
        self.why: str | None = None
        """Why it has no result; `bad input` is the client's fault."""

    def made(self, tokens: int, at: float) -> None:
        """New tokens have arrived."""
        if self.first is None:
            self.first = at
        elif tokens:
            self._gaps.append(((at - self._latest) / tokens, tokens))
        self.tokens += tokens
        self._latest = at

    def cancel(self) -> None:
        """The client has left: what it asked for is taken back."""
        if not self.done:
            super().cancel()
            self._left(self.number)

    def outcome(self, done: float, *, device_s: float, met: bool, why: str | None) -> Outcome:
        """What became of it."""
        times = (self.arrived, self.began, self.first, done)
        known = Outcome(self.tenant, *times, device_s, self.predicted_s, met, why, self.tokens, self.trace)
        return known if not self.tokens else known._replace(prompt=self.prompt, most=self.most, gaps=tuple(self._gaps))
