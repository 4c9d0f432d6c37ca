"""What every engine offers a worker: take requests in, run their chunks, let go of them."""

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

    ``temperature`` 0 takes the likeliest token; above that, tokens are drawn from the likeliest ones that make up
    ``top_p`` of the probability, with a generator of the request's own.
    """

    ids: tuple[int, ...]
    tokens: int
    stop: tuple[int, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


@dataclass(slots=True)
class Progress:
    """What a chunk brought about: requests that ended with a result or an error, and tokens that it made."""

    results: dict[RequestId, Any] = field(default_factory=dict)
    failures: dict[RequestId, Exception] = field(default_factory=dict)
    tokens: dict[RequestId, list[int]] = field(default_factory=dict)


class Engine(Protocol):
    """One tenant's model. All methods are called from one thread."""

    @property
    def stages(self) -> int:
        """How many chunks a request has before its decode steps."""
        ...

    def take(self, request: RequestId, work: Call | Prompt) -> None:
        """Keep a request's input until its first chunk."""
        ...

    def run(self, requests: Sequence[RequestId], stage: int) -> Progress:
        """Run one stage of requests that advance together. Requests that aren't held any more are skipped."""
        ...

    def step(self, requests: Sequence[RequestId], steps: int) -> Progress:
        """Make this number of tokens for each request, all of them together."""
        ...

    def free(self, request: RequestId) -> None:
        """Forget a request and free what it holds; unknown ones are ignored."""
        ...

    def close(self) -> None:
        """Leave the model as it was found."""
        ...
