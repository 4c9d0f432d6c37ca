"""Requests that run together: forward passes joined by rows, decoders that step in one cache."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from cotenant.serving.workers.work import Call

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each layer, with the tokens along the third dimension."""


def rows_of(call: Call) -> int | None:
    """Number of rows of a call's tensors; None if they disagree or there are none."""
    sizes = {value.shape[0] if value.dim() else None for value in _tensors(call)}
    return sizes.pop() if len(sizes) == 1 else None


def shape_of(call: Call) -> Any:
    """What must be equal for two calls to be batched: everything but the number of rows."""
    return tuple(_form(value) for value in call.args), tuple((k, _form(v)) for k, v in sorted(call.kwargs.items()))


def together(calls: Sequence[Call]) -> Call:
    """Concatenate calls into one."""
    if len(calls) == 1:
        return calls[0]
    first = calls[0]
    args = tuple(_joined([call.args[place] for call in calls]) for place in range(len(first.args)))
    return Call(args, {name: _joined([call.kwargs[name] for call in calls]) for name in first.kwargs})


def apart(result: Any, rows: Sequence[int]) -> list[Any]:
    """Split a result by the rows of each call."""
    if isinstance(result, torch.Tensor):
        if result.dim() and result.shape[0] == sum(rows):
            return list(torch.split_with_sizes(result, list(rows)))
        raise ValueError(f"a result of shape {list(result.shape)} has no row for each of {sum(rows)} inputs")
    if isinstance(result, Mapping):
        parts = {name: apart(value, rows) for name, value in result.items() if value is not None}
        kind = type(result)
        return [kind(**{name: part[place] for name, part in parts.items()}) for place in range(len(rows))]
    if isinstance(result, tuple | list):
        split = [apart(value, rows) for value in result]
        return [type(result)(part[place] for part in split) for place in range(len(rows))]
    raise ValueError(f"a result of type {type(result).__name__} can't be split by rows")


def copied(result: Any) -> Any:
    """A result whose tensors are copies."""
    if isinstance(result, torch.Tensor):
        return result.clone()
    if isinstance(result, Mapping):
        kind: Any = type(result)
        return kind(**{name: copied(value) for name, value in result.items()})
    if isinstance(result, tuple | list):
        return type(result)(copied(value) for value in result)
    return result


def _tensors(call: Call) -> list[torch.Tensor]:
    return [value for value in (*call.args, *call.kwargs.values()) if isinstance(value, torch.Tensor)]


def _form(value: Any) -> Any:
    return (value.shape[1:], value.dtype) if isinstance(value, torch.Tensor) else repr(value)


def _joined(values: Sequence[Any]) -> Any:
    return torch.cat(list(values)) if isinstance(values[0], torch.Tensor) else values[0]


class Gang:
    """Several requests in a common cache, padded and masked on the left so that all end at the same column."""

    def __init__(self, caches: Sequence[Layers]) -> None:
        from transformers import DynamicCache

        self.lengths = [layers[0][0].shape[2] for layers in caches]
        longest = max(self.lengths)
        device = caches[0][0][0].device
        self._pads = [longest - length for length in self.lengths]
        self._cache: Any = DynamicCache()
        for layer in range(len(caches[0])):
            keys, values = (torch.cat([_padded(layers[layer][part], longest) for layers in caches]) for part in (0, 1))
            self._cache.update(keys, values, layer)
        self._padded = any(self._pads)
        self._mask = torch.ones(len(caches), longest, dtype=torch.long, device=device)
        for row, pad in enumerate(self._pads):
            self._mask[row, :pad] = 0

    full = False
    """It always has room for another step."""

    def step(self, model: nn.Module, tokens: Sequence[int]) -> torch.Tensor:
        """Feed a token per member; returns the scores of the next tokens, a row each."""
        device = self._mask.device
        positions = torch.tensor(self.lengths, device=device).unsqueeze(1)
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(self.lengths), 1)], dim=1)
        result = model(
            input_ids=torch.tensor(tokens, device=device).unsqueeze(1),
            past_key_values=self._cache,
            attention_mask=self._mask if self._padded else None,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
        )
        self.lengths = [length + 1 for length in self.lengths]
        scores: torch.Tensor = result.logits[:, -1]
        return scores

    def member(self, place: int) -> Layers:
        """One member's own cache, without the padding."""
        pad = self._pads[place]
        return [
            (layer.keys[place : place + 1, :, pad:].clone(), layer.values[place : place + 1, :, pad:].clone())
            for layer in self._cache.layers
        ]


def layers_of(cache: Any) -> Layers:
    """The tensors of a request's cache."""
    return [(layer.keys, layer.values) for layer in cache.layers]


def _padded(tensor: torch.Tensor, length: int) -> torch.Tensor:
    missing = length - tensor.shape[2]
    return nn.functional.pad(tensor, (0, 0, missing, 0)) if missing else tensor
