"""Interface of engines: accept requests, run their chunks, release them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cotenant.scheduling import RequestId


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one request to a model or a function."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to a decoder: token ids, and how the next ones are chosen.

    ``temperature`` 0 takes the most likely token; above that, tokens are sampled from the most likely ones that make up
    ``top_p`` of the probability, with a generator per request.
    """

    ids: tuple[int, ...]
    tokens: int
    stop: tuple[int, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


@dataclass(slots=True)
class Progress:
    """Result of a chunk: requests that ended with a result or an error, and new tokens."""

    results: dict[RequestId, Any] = field(default_factory=dict)
    failures: dict[RequestId, Exception] = field(default_factory=dict)
    tokens: dict[RequestId, list[int]] = field(default_factory=dict)


class Engine(Protocol):
    """One tenant's model. Call all methods from one thread."""

    @property
    def stages(self) -> int:
        """Number of chunks of a request before its decode steps."""
        ...

    def take(self, request: RequestId, work: Call | Prompt) -> None:
        """Keep a request's input until its first chunk."""
        ...

    def run(self, requests: Sequence[RequestId], stage: int) -> Progress:
        """Run one stage of requests that advance together, skipping requests no longer held."""
        ...

    def step(self, requests: Sequence[RequestId], steps: int) -> Progress:
        """Generate this many tokens for each request, together."""
        ...

    def free(self, request: RequestId) -> None:
        """Forget a request and free its resources; unknown ones are ignored."""
        ...

    def close(self) -> None:
        """Restore the model to its original state."""
        ...
