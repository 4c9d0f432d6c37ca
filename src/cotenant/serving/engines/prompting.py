"""A decoder's prompt from what callers have at hand: ids, tensors, a tokenizer's output."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from cotenant.errors import BadInput
from cotenant.serving.engines.protocol import Prompt
from cotenant.text import did_you_mean

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
    for one in args:
        options = {**one, **options} if isinstance(one, Mapping) else {"input_ids": one, **options}
    ids, mask = options.pop("input_ids", None), options.pop("attention_mask", None)
    options.pop(_IGNORED, None)
    if len(args) > 1 or ids is None:
        raise BadInput("A call takes the token ids of one prompt.", hint="Pass them first, or as `input_ids=`.")
    if "max_new_tokens" in options:
        options["tokens"] = options.pop("max_new_tokens")
    for name in options:
        if name not in _OPTIONS:
            raise BadInput(f"A decoder has no option {name!r}.", hint=did_you_mean(name, _OPTIONS))
    if "logit_bias" in options:
        options["logit_bias"] = tuple(dict(options["logit_bias"]).items())
    row = _row(ids, "input_ids")
    if mask is not None:
        kept = _row(mask, "attention_mask")
        if len(kept) != len(row):
            raise BadInput(f"attention_mask has {len(kept)} tokens, but input_ids has {len(row)}.")
        row = tuple(one for one, real in zip(row, kept, strict=True) if real)
    if not row:
        raise BadInput("The prompt is empty.")
    return Prompt(row, **{"tokens": tokens, **options})


def _row(value: Any, name: str) -> tuple[int, ...]:
    """A sequence or tensor of shape (n) or (1, n)."""
    value = value.tolist() if hasattr(value, "tolist") else list(value)
    if value and isinstance(value[0], list | tuple):
        if len(value) > 1:
            raise BadInput(f"{name} has {len(value)} prompts; a call takes one.", hint="Make a call for each.")
        value = list(value[0])
    return tuple(int(one) for one in value)
