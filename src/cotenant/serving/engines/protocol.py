"""Interface of engines: accept requests, run their chunks, release them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from cotenant.scheduling import RequestId


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one request to a model or a function."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to a decoder: token ids, and how the next ones are chosen.

    ``temperature`` 0 takes the most likely token; above that, tokens are sampled with a generator per request, from the
    ``top_k`` most likely ones (0: all) that make up ``top_p`` of the probability and have at least ``min_p`` times that
    of the most likely one. Before that, scores get ``logit_bias`` (by token) and the penalties: ``repetition_penalty``
    divides those of tokens in the prompt and the answer, the other two are subtracted for tokens of the answer.
    """

    ids: tuple[int, ...]
    tokens: int
    stop: tuple[int, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    """No ``stop`` token comes before this many."""
    logprobs: int | None = None
    """Report each token's log probability, and those of this many most likely ones; None: neither."""
    prompt_logprobs: bool = False
    """Report them for the prompt too, from its second token on."""
    streams: bool = False
    """Report each token when it is made, not at the end of a chunk."""


class Scored(NamedTuple):
    """Log probability of a token, and the most likely tokens at its position with theirs.

    They are the model's own: before bias, penalties and temperature.
    """

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(slots=True)
class Progress:
    """Result of a chunk: requests that ended with a result or an error, and new tokens."""

    results: dict[RequestId, Any] = field(default_factory=dict)
    failures: dict[RequestId, Exception] = field(default_factory=dict)
    tokens: dict[RequestId, list[int]] = field(default_factory=dict)
    scores: dict[RequestId, list[Scored]] = field(default_factory=dict)
    """For requests that want them, one per new token; before the first token, one per token of the prompt but one."""


Tell = Callable[[Progress], None]
"""Hears of tokens before their chunk has ended."""


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

    def step(self, requests: Sequence[RequestId], steps: int, tell: Tell | None = None) -> Progress:
        """Generate this many tokens for each request, together; ``tell`` hears of those that stream before the end."""
        ...

    def free(self, request: RequestId) -> None:
        """Forget a request and free its resources; unknown ones are ignored."""
        ...

    def close(self) -> None:
        """Restore the model to its original state."""
        ...
