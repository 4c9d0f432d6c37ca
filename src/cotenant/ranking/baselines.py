"""The raw input as features: the baseline a model must beat."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from cotenant.ranking.bench import SearchBench
from cotenant.ranking.protocol import Features

SIDE = 32
"""Side to which images are scaled, in pixels."""
WORDS = 2048
"""Columns that tokens are counted in."""


def raw_name(bench: SearchBench) -> str:
    """Name of the baseline."""
    return f"raw pixels ({SIDE} x {SIDE})" if bench.data.kind == "image" else "bag of tokens"


def raw_features(bench: SearchBench, items: Sequence[int] | npt.NDArray[np.int64], candidate: int) -> Features:
    """Pixels of a small image, or token counts (by the vocabulary of a candidate)."""
    numbers = [int(item) for item in items]
    if bench.data.kind == "image":
        pixels: torch.Tensor = bench.data.load(numbers, {"image": SIDE})["pixel_values"]
        return np.asarray(pixels.flatten(1).float().numpy(), dtype=np.float32)
    batch = bench.data.load(numbers, bench.candidates[candidate].shape)
    counts = torch.zeros(len(numbers), WORDS)
    mask = batch["attention_mask"].float()
    counts.scatter_add_(1, batch["input_ids"] * 2654435761 % WORDS, mask)
    return np.asarray(torch.log1p(counts).numpy(), dtype=np.float32)
