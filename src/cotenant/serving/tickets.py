"""An unanswered request, its result to come, and what becomes of it."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, TypeVar

from cotenant.serving.workers.work import ScoredToken

# The result of a request to come: awaited like a future, or heard by a listener the moment it is known.

T = TypeVar("T")


class Pending(Generic[T]):
    """A result that reaches whoever waits for it without a turn of the event loop.

    The listener is called before the rest of what ends a request, so it must not begin another one.
    """

    __slots__ = ("_error", "_form", "_listener", "_result", "done")

    def __init__(self) -> None:
        self.done = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._form: Callable[[Any], Any] | None = None
        self._listener: Callable[[Pending[T]], None] | None = None

    def into(self, form: Callable[[Any], Any]) -> "Pending[Any]":
        """The same, with a result that is turned into another by a function when it is asked for."""
        before = self._form
        self._form = form if before is None else lambda result: form(before(result))
        return self

    def then(self, listener: Callable[["Pending[T]"], None]) -> None:
        """Call a function once, when the result is known, or now if it is."""
        if self.done:
            listener(self)
        else:
            assert self._listener is None, "a result has one listener"
            self._listener = listener

    def result(self) -> T:
        """The result. Raises the error if there is none."""
        if self._error is not None:
            raise self._error
        result: T = self._result if self._form is None else self._form(self._result)
        return result

    def resolve(self, result: Any = None, error: BaseException | None = None) -> None:
        """End it with a result or an error; the first end counts."""
        if self.done:
            return
        self.done, self._result, self._error = True, result, error
        if self._listener is not None:
            self._listener(self)

    def cancel(self) -> None:
        """Nobody waits any more: the listener isn't called."""
        self._listener = None
        self.resolve(error=asyncio.CancelledError())

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done:
            future = asyncio.get_running_loop().create_future()
            self.then(lambda _: None if future.done() else future.set_result(None))
            try:
                yield from future
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()


TRACEPARENT: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""The `traceparent` header of the current request."""
TokenSink = Callable[[list[int], Sequence[ScoredToken]], bool | None]
"""Receives tokens and their scores, if requested, as they are generated; returns True to stop, counted as served."""

FAILED, BAD_INPUT = "failed", "bad input"
NOT_OURS = ("cancelled", BAD_INPUT)
"""Requests that say nothing about the service: the client left, or asked for what no model can answer."""


class RequestOutcome(NamedTuple):
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

    def outcome(self, done: float, *, device_s: float, met: bool, why: str | None) -> RequestOutcome:
        """What became of it."""
        times = (self.arrived, self.began, self.first, done)
        known = RequestOutcome(self.tenant, *times, device_s, self.predicted_s, met, why, self.tokens, self.trace)
        return known if not self.tokens else known._replace(prompt=self.prompt, most=self.most, gaps=tuple(self._gaps))
