"""What engines work on (calls, prompts), their interface, and what a chunk achieves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol

from cotenant.errors import BadInput
from cotenant.scheduling import RequestId
from cotenant.text import did_you_mean


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a request to a model or a function."""

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


class ScoredToken(NamedTuple):
    """Log probability of a token, and the most likely tokens at its position with theirs.

    They are the model's own: before bias, penalties and temperature.
    """

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(slots=True)
class ChunkProgress:
    """Result of a chunk: requests that ended with a result or an error, and new tokens."""

    results: dict[RequestId, Any] = field(default_factory=dict)
    failures: dict[RequestId, Exception] = field(default_factory=dict)
    tokens: dict[RequestId, list[int]] = field(default_factory=dict)
    scores: dict[RequestId, list[ScoredToken]] = field(default_factory=dict)
    """For requests that want them, one per new token; before the first token, one per token of the prompt but one."""


Tell = Callable[[ChunkProgress], None]
"""Hears of tokens before their chunk has ended."""


class ChunkEngine(Protocol):
    """A tenant's model. Call all methods from the same thread."""

    @property
    def stages(self) -> int:
        """Number of chunks of a request before its decode steps."""
        ...

    def take(self, request: RequestId, work: Call | Prompt) -> None:
        """Keep a request's input until its first chunk."""
        ...

    def run(self, requests: Sequence[RequestId], stage: int) -> ChunkProgress:
        """Run a stage of requests that advance together, skipping requests no longer held."""
        ...

    def step(self, requests: Sequence[RequestId], steps: int, tell: Tell | None = None) -> ChunkProgress:
        """Generate this many tokens for each request, together; ``tell`` hears of those that stream before the end."""
        ...

    def free(self, request: RequestId) -> None:
        """Forget a request and free its resources; unknown ones are ignored."""
        ...

    def close(self) -> None:
        """Restore the model to its original state."""
        ...


# A decoder's prompt from what callers have at hand: ids, tensors, a tokenizer's output.

_OPTIONS = tuple(field.name for field in fields(Prompt) if field.name not in ("ids", "logprobs", "prompt_logprobs"))
_IGNORED = "token_type_ids"
"""Some tokenizers add it; decoders have no use for it."""


def prompt_of(args: tuple[Any, ...], kwargs: Mapping[str, Any], tokens: int) -> Prompt:
    """The prompt of a call like transformers' `generate`.

    Args:
        args: Token ids, or a tokenizer's output.
        kwargs: Options, `input_ids` and `attention_mask`.
        tokens: New tokens, unless the options say otherwise.

    Raises:
        BadInput: It isn't one prompt, or an option is unknown.
    """
    options = dict(kwargs)
    for argument in args:
        options = {**argument, **options} if isinstance(argument, Mapping) else {"input_ids": argument, **options}
    ids, mask = options.pop("input_ids", None), options.pop("attention_mask", None)
    options.pop(_IGNORED, None)
    if len(args) > 1 or ids is None:
        raise BadInput("A call takes the token ids of one prompt.", hint="Pass them first, or as `input_ids=`.")
    if "max_new_tokens" in options:
        options["tokens"] = options.pop("max_new_tokens")
    for name in options:
        if name not in _OPTIONS:
            raise BadInput(f"A decoder has no option {name!r}.", hint=did_you_mean(name, _OPTIONS, begin="Did"))
    if "logit_bias" in options:
        options["logit_bias"] = tuple(dict(options["logit_bias"]).items())
    row = _row(ids, "input_ids")
    if mask is not None:
        kept = _row(mask, "attention_mask")
        if len(kept) != len(row):
            raise BadInput(f"attention_mask has {len(kept)} tokens, but input_ids has {len(row)}.")
        row = tuple(token for token, real in zip(row, kept, strict=True) if real)
    if not row:
        raise BadInput("The prompt is empty.")
    return Prompt(row, **{"tokens": tokens, **options})


def _row(value: Any, name: str) -> tuple[int, ...]:
    """A sequence or tensor of shape (n) or (1, n)."""
    try:
        value = list(value.tolist() if hasattr(value, "tolist") else value)
        if value and isinstance(value[0], list | tuple):
            if len(value) > 1:
                raise BadInput(f"{name} has {len(value)} prompts; a call takes one.", hint="Make a call for each.")
            value = list(value[0])
        row = [int(number) for number in value]
    except (TypeError, ValueError):
        row = None
    if row is None or row != value:  # 0.5 isn't token 0
        raise BadInput(f"{name} has to be whole numbers, of shape (n) or (1, n).")
    return tuple(row)
