"""Decode steps as graphs of a GPU: one per number of requests that step together, replayed for each token.

A graph computes with fixed shapes and addresses, so these gangs have a cache of fixed length, whose unused columns are
masked. It rounds differently from a cache that grows: scores agree to the last bits, not bit for bit.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from cotenant.errors import ServingError
from cotenant.scheduling import some_batches
from cotenant.serving.engines.gang import Layers
from cotenant.serving.engines.protocol import Prompt
from cotenant.serving.engines.recorded import Recorder

COLUMNS = 64
"""The length of a cache is a multiple of this."""


class RecordedSteps:
    """The graphs of one decoder, for 1, 2, 4, ... requests no longer than the sample with its answer."""

    def __init__(self, model: nn.Module, sample: Prompt, recorder: Recorder, *, largest: int = 1) -> None:
        """Record everything.

        Raises:
            ServingError: The model can't be recorded.
        """
        length = -(-(len(sample.ids) + sample.tokens) // COLUMNS) * COLUMNS
        try:
            self._shapes = [_RecordedStep(model, size, length, recorder) for size in some_batches(largest)]
        except Exception as error:
            raise ServingError(
                f"The decode steps can't be recorded as graphs: {type(error).__name__}: {error}.",
                hint="Serve it with `software: eager`.",
            ) from error

    def gang(self, caches: Sequence[Layers]) -> "RecordedGang | None":
        """These requests together; None if no recording has room for them. The gang before it must be dissolved."""
        longest = max(layers[0][0].shape[2] for layers in caches)
        for shape in self._shapes:
            if len(caches) <= shape.rows and longest < shape.length:
                return RecordedGang(shape, caches, longest)
        return None


class _RecordedStep:
    """The graph of a step for a number of rows, and all tensors that it reads and writes."""

    def __init__(self, model: nn.Module, rows: int, length: int, recorder: Recorder) -> None:
        from transformers import StaticCache

        self.rows, self.length = rows, length
        device, dtype = recorder.device, next(model.parameters()).dtype
        self.masked = torch.finfo(dtype).min
        self.tokens = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.positions = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.mask = torch.full((rows, 1, 1, length), self.masked, dtype=dtype, device=device)
        cache: Any = StaticCache(config=model.config, max_cache_len=length)
        self._model, self._cache = model, cache
        self._step()  # allocates the cache, and the workspaces of libraries
        self.layers: list[Any] = list(cache.layers)
        if any(layer.keys.shape[2] != length for layer in self.layers):
            raise ValueError("some of its layers keep only the last tokens")
        self.graph, _ = recorder.record(self._step, recorder.pool())

    def _step(self) -> bool:
        result: Any = self._model(
            input_ids=self.tokens,
            past_key_values=self._cache,
            attention_mask=self.mask,
            position_ids=self.positions,
            use_cache=True,
            logits_to_keep=1,
        )
        self.scores: torch.Tensor = result.logits[:, -1]
        return True


class RecordedGang:
    """Several requests in the cache of a recording, padded on the left; to an engine it is like `Gang`."""

    def __init__(self, shape: _RecordedStep, caches: Sequence[Layers], longest: int) -> None:
        self.lengths = [layers[0][0].shape[2] for layers in caches]
        self._shape = shape
        self._pads = [longest - length for length in self.lengths]
        self._column = longest
        shape.mask.fill_(shape.masked)
        for row, pad in enumerate(self._pads):
            shape.mask[row, ..., pad:longest] = 0
        for layer, fixed in enumerate(shape.layers):
            fixed.cumulative_length.fill_(longest)
            for row, (pad, layers) in enumerate(zip(self._pads, caches, strict=True)):
                fixed.keys[row, :, pad:longest] = layers[layer][0][0]
                fixed.values[row, :, pad:longest] = layers[layer][1][0]

    @property
    def full(self) -> bool:
        """Whether the cache has no room for another step."""
        return self._column >= self._shape.length

    def step(self, model: nn.Module, tokens: Sequence[int]) -> torch.Tensor:
        """Feed one token per member; returns the scores of the next tokens, one row each."""
        del model  # it is in the graph
        shape, count = self._shape, len(self.lengths)
        shape.mask[:count, ..., self._column] = 0
        fed = torch.tensor([tokens, self.lengths]).unsqueeze(2)
        shape.tokens[:count].copy_(fed[0], non_blocking=True)
        shape.positions[:count].copy_(fed[1], non_blocking=True)
        shape.graph.replay()
        self._column += 1
        self.lengths = [length + 1 for length in self.lengths]
        return shape.scores[:count]

    def member(self, place: int) -> Layers:
        """One member's own cache, without the padding."""
        own = slice(self._pads[place], self._column)
        return [
            (layer.keys[place : place + 1, :, own].clone(), layer.values[place : place + 1, :, own].clone())
            for layer in self._shape.layers
        ]
