"""Options of a completion; unsupported ones are refused rather than ignored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.errors import BadInput
from cotenant.serving.models.text import Codec
from cotenant.serving.service import Served

MOST_PROMPTS = 64
MOST_STOPS = 4
_NOT_OFFERED: Mapping[str, tuple[Any, ...]] = {
    "tools": ([],),
    "tool_choice": ("auto", "none"),
    "functions": ([],),
    "response_format": ({"type": "text"},),
    "logit_bias": ({},),
    "suffix": ("",),
    "audio": (),
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (False, 0),
    "top_logprobs": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
}
"""Unsupported options, with the values that mean off."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of one request."""

    tokens: int | None
    temperature: float
    top_p: float
    seed: int
    stop: tuple[str, ...]
    stream: bool
    usage: bool
    ignore_end: bool
    priority: Any


def read_asked(body: Mapping[str, Any], served: Served) -> Asked:
    """Read and check the options. Raises BadInput."""
    for name, harmless in _NOT_OFFERED.items():
        if body.get(name) not in (None, *harmless):
            raise BadInput(f"`{name}` isn't supported by {served.name}.", hint="Leave it out.")
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise BadInput("`stream_options` must be an object.")
    stop = body.get("stop") or ()
    stop = (stop,) if isinstance(stop, str) else stop
    if not isinstance(stop, list | tuple) or len(stop) > MOST_STOPS or not all(isinstance(o, str) and o for o in stop):
        raise BadInput(f"`stop` is a text or up to {MOST_STOPS} of them.")
    tokens = body.get("max_completion_tokens", body.get("max_tokens"))
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        raise BadInput("`max_tokens` is an integer above 0.")
    return Asked(
        tokens,
        _between(body, "temperature", 1.0, 0.0, 2.0),
        _between(body, "top_p", 1.0, 0.0, 1.0),
        _seed(body.get("seed")),
        tuple(stop),
        body.get("stream") is True,
        options.get("include_usage") is True,
        body.get("ignore_eos") is True,
        body.get("priority"),
    )


def prompts_of(prompt: Any, codec: Codec | None) -> list[tuple[int, ...]]:
    """Token ids of one or several texts or lists of ids. Raises BadInput."""
    return texts_of(prompt, codec, name="prompt")


def texts_of(value: Any, codec: Codec | None, *, name: str = "input") -> list[tuple[int, ...]]:
    """The same for any field. Raises BadInput."""
    several = value if isinstance(value, list) and value and isinstance(value[0], list | str) else [value]
    if len(several) > MOST_PROMPTS:
        raise BadInput(f"At most {MOST_PROMPTS} texts can be sent at once.")
    return [_ids(one, codec, name) for one in several]


def _ids(value: Any, codec: Codec | None, name: str) -> tuple[int, ...]:
    if isinstance(value, str):
        if codec is None:
            raise BadInput("This model has no tokenizer; send token ids.")
        ids = codec.encode(value)
    elif isinstance(value, list) and all(type(one) is int for one in value):
        ids = tuple(value)
    else:
        raise BadInput(f"`{name}` is a text, a list of texts or token ids.")
    if not ids:
        raise BadInput(f"`{name}` is empty.")
    if not all(0 <= one < 2**31 for one in ids):
        raise BadInput(f"`{name}` contains a number that isn't a token.")
    return ids


def _between(body: Mapping[str, Any], name: str, default: float, low: float, high: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadInput(f"`{name}` lies between {low:g} and {high:g}.")
    return float(value)


def _seed(value: Any) -> int:
    import secrets

    if value is None:
        return secrets.randbits(62)
    if type(value) is not int or abs(value) >= 2**62:
        raise BadInput("`seed` is an integer.")
    return abs(value)
