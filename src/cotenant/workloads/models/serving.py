"""How a built model serves a request: its stages, by mode."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.inputs import Inputs, Tensors, host_of
from cotenant.workloads.protocol import DEFAULT_TOKENS, Stage


def inference_stages(
    model: nn.Module, entry: ModelEntry, mode: str, inputs: Inputs, *, device: str, tokens: int | None = None
) -> tuple[Stage, ...]:
    """The stages of one request."""
    match mode:
        case "prefill":
            return _around(_quiet(lambda batch: _prefill(model, batch)[1]), inputs, device, first_output=True)
        case "decode":
            return _decode_stages(model, inputs, device)
        case "generate":
            return _generate_stages(model, inputs, device, tokens or DEFAULT_TOKENS)
        case _:
            return _around(_quiet(_forward(model, entry, mode)), inputs, device)


def to_device_stage(inputs: Inputs, device: str) -> Stage:
    """Move the next input to the device."""
    turns = inputs.turns()
    copies = torch.device(device).type != "cuda"

    def to_device(_: Any) -> Tensors:
        # On a CPU the copy is made too: a free stage would misrepresent the request.
        return {name: value.to(device, non_blocking=True, copy=copies) for name, value in next(turns).items()}

    return Stage("to_device", to_device)


def _around(
    compute: Callable[[Any], Any], inputs: Inputs, device: str, *, first_output: bool = False
) -> tuple[Stage, ...]:
    return (
        to_device_stage(inputs, device),
        Stage("compute", compute, first_output=first_output),
        Stage("to_host", _to_host(device)),
    )


def _to_host(device: str) -> Callable[[torch.Tensor], torch.Tensor]:
    host = host_of(device)
    return lambda result: result.to(host, copy=True)


def _quiet(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """No gradients are recorded: this is inference."""
    wrapped: Callable[[Any], Any] = torch.inference_mode()(function)
    return wrapped


def _forward(model: nn.Module, entry: ModelEntry, mode: str) -> Callable[[Tensors], torch.Tensor]:
    if entry.family in ("decoder", "seq2seq"):
        # All positions get logits, as in a plain forward call; only the last ones leave the device.
        return lambda batch: model(**batch).logits[:, -1]
    if mode == "embed":
        return lambda batch: model(**batch).last_hidden_state.mean(dim=1)
    return lambda batch: model(**batch).logits


def _prefill(model: nn.Module, batch: Tensors) -> tuple[Any, torch.Tensor]:
    from transformers import DynamicCache

    cache = DynamicCache()
    result = model(**batch, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return cache, result.logits[:, -1].argmax(dim=-1, keepdim=True)


def _step(model: nn.Module, cache: Any, token: torch.Tensor) -> torch.Tensor:
    logits = model(input_ids=token, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
    following: torch.Tensor = logits[:, -1].argmax(dim=-1, keepdim=True)
    return following


def _decode_stages(model: nn.Module, inputs: Inputs, device: str) -> tuple[Stage, ...]:
    """One token per request, always at the same context length: the cache is truncated after each step."""
    prompt = {name: value.to(device) for name, value in inputs.ring[0].items()}
    cache, token = _quiet(lambda batch: _prefill(model, batch))(prompt)
    host_token = token if device == "meta" else token.cpu()

    def compute(batch: Tensors) -> torch.Tensor:
        following = _step(model, cache, batch["token"])
        cache.crop(-1)
        return following

    return _around(_quiet(compute), Inputs(({"token": host_token},)), device)


def _generate_stages(model: nn.Module, inputs: Inputs, device: str, tokens: int) -> tuple[Stage, ...]:
    def prefill(batch: Tensors) -> tuple[Any, list[torch.Tensor]]:
        cache, token = _prefill(model, batch)
        return cache, [token]

    def decode(state: tuple[Any, list[torch.Tensor]]) -> tuple[Any, list[torch.Tensor]]:
        cache, made = state
        made.append(_step(model, cache, made[-1]))
        return state

    copy = _to_host(device)
    steps = (Stage("decode", _quiet(decode), repeat=tokens - 1),) if tokens > 1 else ()
    return (
        to_device_stage(inputs, device),
        Stage("prefill", _quiet(prefill), first_output=True),
        *steps,
        Stage("to_host", _quiet(lambda state: copy(torch.cat(state[1], dim=1)))),
    )
