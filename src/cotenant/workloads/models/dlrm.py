"""DLRM: embedding bags for categories, a small network for numbers, dot products between them (Naumov et al., 2019)."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn


@dataclass(frozen=True, slots=True)
class DlrmConfig:
    """The dimensions of one model."""

    tables: tuple[int, ...]
    """Rows of each embedding table."""
    width: int
    dense: int
    bottom: tuple[int, ...]
    """Hidden layers of the network for numbers; its output has the embeddings' width."""
    top: tuple[int, ...]
    """Hidden layers of the network that computes the score."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The logit of each item."""

    logits: torch.Tensor


class Dlrm(nn.Module):
    """Scores items described by numbers and bags of categories."""

    def __init__(self, config: DlrmConfig) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, config.width, mode="sum") for rows in config.tables)
        self.bottom = _network((config.dense, *config.bottom, config.width), last_active=True)
        features = len(config.tables) + 1
        self.top = _network((config.width + features * (features - 1) // 2, *config.top, 1), last_active=False)
        self.register_buffer("pairs", torch.tril_indices(features, features, offset=-1), persistent=False)
        self.pairs: torch.Tensor

    def forward(self, dense: torch.Tensor, categories: torch.Tensor) -> Scored:
        """Score a batch: ``dense`` is [items, numbers], ``categories`` [tables, items, lookups]."""
        numbers = self.bottom(dense)
        vectors = [table(rows) for table, rows in zip(self.tables, categories, strict=True)]
        features = torch.stack([numbers, *vectors], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        interactions = products[:, self.pairs[0], self.pairs[1]]
        return Scored(self.top(torch.cat([numbers, interactions], dim=1)))


def _network(widths: tuple[int, ...], *, last_active: bool) -> nn.Module:
    layers: list[nn.Module] = []
    for width_in, width_out in pairwise(widths):
        layers += [nn.Linear(width_in, width_out), nn.ReLU()]
    return nn.Sequential(*(layers if last_active else layers[:-1]))
