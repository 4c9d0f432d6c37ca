"""Calls that can be neither cut nor batched, each in one chunk."""

from collections.abc import Callable, Sequence
from typing import Any

from cotenant.scheduling import RequestId
from cotenant.serving.engines.protocol import Call, Progress, Prompt, Tell


class WholeEngine:
    """Calls a function for each request."""

    stages = 1

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._waiting: dict[RequestId, Call] = {}

    def take(self, request: RequestId, work: Call | Prompt) -> None:
        """Keep the arguments until the chunk."""
        assert isinstance(work, Call)
        self._waiting[request] = work

    def run(self, requests: Sequence[RequestId], stage: int) -> Progress:
        """Call the function for each request."""
        del stage
        progress = Progress()
        for request in requests:
            call = self._waiting.pop(request, None)
            if call is None:
                continue
            try:
                progress.results[request] = self._function(*call.args, **call.kwargs)
            except Exception as error:  # noqa: BLE001 - whatever a user's function raises belongs to its request
                progress.failures[request] = error
        return progress

    def step(self, requests: Sequence[RequestId], steps: int, tell: Tell | None = None) -> Progress:
        """It has no decode steps."""
        del tell
        raise AssertionError(f"{len(requests)} requests need {steps} decode steps, but a function has none")

    def free(self, request: RequestId) -> None:
        """Forget a request."""
        self._waiting.pop(request, None)

    def close(self) -> None:
        """Forget all requests."""
        self._waiting.clear()
