"""Decoders that step together: caches of different lengths in one, padded on the left."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each layer, with the tokens along the third dimension."""


class Gang:
    """Several requests in one cache, padded and masked on the left so that all end at the same column."""

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
        """Feed one token per member; returns the scores of the next tokens, one row each."""
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
    """The tensors of a cache of one request."""
    return [(layer.keys, layer.values) for layer in cache.layers]


def _padded(tensor: torch.Tensor, length: int) -> torch.Tensor:
    missing = length - tensor.shape[2]
    return nn.functional.pad(tensor, (0, 0, missing, 0)) if missing else tensor
