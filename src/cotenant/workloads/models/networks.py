"""VGG, DenseNet, Inception-v3, PointNet and DLRM as published, which transformers lacks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

_COLOURS = 3


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """The network and its dimensions."""

    family: str
    blocks: tuple[int, ...] = ()
    num_labels: int = 1000
    hidden: int = 4096
    """Width of VGG's last layers."""
    thin: int = 1
    """Divisor of every width; 1 is the published network."""


@dataclass(frozen=True, slots=True)
class Classified:
    """Scores of the classes."""

    logits: torch.Tensor


class Network(nn.Module):
    """One of the networks, with the interface of all models: pixels in, an object with `logits` out."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.layers = _FAMILIES[config.family](config)

    def forward(self, pixel_values: torch.Tensor) -> Classified:
        """Classify a batch of images."""
        return Classified(self.layers(pixel_values))


class JoinedBranches(nn.Module):
    """Branches over the same input, with concatenated results."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """All branches."""
        return torch.cat([branch(hidden) for branch in self.branches], 1)


def _vgg(config: NetworkConfig) -> nn.Module:
    """Five runs of 3x3 convolutions (Simonyan and Zisserman, 2014)."""
    layers: list[nn.Module] = []
    width = _COLOURS
    for run, full in zip(config.blocks, (64, 128, 256, 512, 512), strict=True):
        for _ in range(run):
            layers += [nn.Conv2d(width, full // config.thin, 3, padding=1), nn.ReLU()]
            width = full // config.thin
        layers.append(nn.MaxPool2d(2))
    hidden = config.hidden
    layers += [nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(width * 49, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, config.num_labels))


def _densenet(config: NetworkConfig) -> nn.Module:
    """Each layer reads all previous results of its block (Huang et al., 2017)."""
    growth, width = 32 // config.thin, 64 // config.thin
    layers: list[nn.Module] = [
        nn.Conv2d(_COLOURS, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    for number, block in enumerate(config.blocks):
        for _ in range(block):
            new = nn.Sequential(
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, 4 * growth, 1, bias=False),
                nn.BatchNorm2d(4 * growth),
                nn.ReLU(),
                nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
            )
            layers.append(JoinedBranches(nn.Identity(), new))
            width += growth
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        if number + 1 < len(config.blocks):
            layers += [nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
            width //= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, config.num_labels))


@dataclass(frozen=True, slots=True)
class _Inception:
    """Inception-v3 (Szegedy et al., 2015) without the auxiliary head, which only training uses."""

    config: NetworkConfig

    def whole(self) -> nn.Module:
        normed = self.normed
        layers: list[nn.Module] = [
            normed(3, 32, 3, stride=2),
            normed(32, 32, 3),
            normed(32, 64, 3, padding=1),
            nn.MaxPool2d(3, 2),
            normed(64, 80, 1),
            normed(80, 192, 3),
            nn.MaxPool2d(3, 2),
        ]
        for width, pooled in ((192, 32), (256, 64), (288, 64)):
            layers.append(
                JoinedBranches(
                    normed(width, 64, 1),
                    nn.Sequential(normed(width, 48, 1), normed(48, 64, 5, padding=2)),
                    nn.Sequential(normed(width, 64, 1), normed(64, 96, 3, padding=1), normed(96, 96, 3, padding=1)),
                    self.pooled(width, pooled),
                )
            )
        narrowing = nn.Sequential(normed(288, 64, 1), normed(64, 96, 3, padding=1), normed(96, 96, 3, stride=2))
        layers.append(JoinedBranches(normed(288, 384, 3, stride=2), narrowing, nn.MaxPool2d(3, 2)))
        layers += [self.stretched(narrow) for narrow in (128, 160, 160, 192)]
        layers.append(
            JoinedBranches(
                nn.Sequential(normed(768, 192, 1), normed(192, 320, 3, stride=2)),
                nn.Sequential(
                    normed(768, 192, 1), self.row(192, 192), self.column(192, 192), normed(192, 192, 3, stride=2)
                ),
                nn.MaxPool2d(3, 2),
            )
        )
        layers += [self.widened(width) for width in (1280, 2048)]
        head = nn.Linear(2048 // self.config.thin, self.config.num_labels)
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)

    def normed(self, width: int, wider: int, size: Any, *, stride: int = 1, padding: Any = 0) -> nn.Module:
        read = width if width == _COLOURS else width // self.config.thin
        wide = wider // self.config.thin
        return nn.Sequential(
            nn.Conv2d(read, wide, size, stride, padding, bias=False), nn.BatchNorm2d(wide, eps=0.001), nn.ReLU()
        )

    def stretched(self, narrow: int) -> nn.Module:
        """Rows and columns instead of squares."""
        there, back = self.column(narrow, narrow), self.column(narrow, narrow)
        return JoinedBranches(
            self.normed(768, 192, 1),
            nn.Sequential(self.normed(768, narrow, 1), self.row(narrow, narrow), self.column(narrow, 192)),
            nn.Sequential(self.normed(768, narrow, 1), there, self.row(narrow, narrow), back, self.row(narrow, 192)),
            self.pooled(768, 192),
        )

    def widened(self, width: int) -> nn.Module:
        """The last two, whose branches end in a row and a column."""
        normed = self.normed
        return JoinedBranches(
            normed(width, 320, 1),
            nn.Sequential(normed(width, 384, 1), self.crossed()),
            nn.Sequential(normed(width, 448, 1), normed(448, 384, 3, padding=1), self.crossed()),
            self.pooled(width, 192),
        )

    def row(self, width: int, wider: int) -> nn.Module:
        return self.normed(width, wider, (1, 7), padding=(0, 3))

    def column(self, width: int, wider: int) -> nn.Module:
        return self.normed(width, wider, (7, 1), padding=(3, 0))

    def pooled(self, width: int, wider: int) -> nn.Module:
        return nn.Sequential(nn.AvgPool2d(3, 1, 1), self.normed(width, wider, 1))

    def crossed(self) -> nn.Module:
        return JoinedBranches(
            self.normed(384, 384, (1, 3), padding=(0, 1)), self.normed(384, 384, (3, 1), padding=(1, 0))
        )


class _PointNet(nn.Module):
    """PointNet's classifier (Qi et al., 2017): the same small layers for every point, then a maximum."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        thin = config.thin
        self.turn, self.align = _Transform(3, thin), _Transform(64 // thin, thin)
        self.first = _pointwise(3, 64 // thin, 64 // thin)
        self.then = _pointwise(64 // thin, 64 // thin, 128 // thin, 1024 // thin)
        self.head = nn.Sequential(
            *_flat(1024 // thin, 512 // thin),
            *_flat(512 // thin, 256 // thin),
            nn.Linear(256 // thin, config.num_labels),
        )

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        points = pixels.flatten(2)
        points = self.first(torch.bmm(self.turn(points), points))
        points = self.then(torch.bmm(self.align(points), points))
        scores: torch.Tensor = self.head(points.amax(2))
        return scores


class _Transform(nn.Module):
    """A small PointNet that computes a matrix to multiply every point with."""

    def __init__(self, width: int, thin: int) -> None:
        super().__init__()
        self.width = width
        self.points = _pointwise(width, 64 // thin, 128 // thin, 1024 // thin)
        self.matrix = nn.Sequential(
            *_flat(1024 // thin, 512 // thin), *_flat(512 // thin, 256 // thin), nn.Linear(256 // thin, width * width)
        )

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        matrix: torch.Tensor = self.matrix(self.points(points).amax(2))
        return matrix.view(-1, self.width, self.width)


def _pointwise(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width, wider in pairwise(widths):
        layers += [nn.Conv1d(width, wider, 1), nn.BatchNorm1d(wider), nn.ReLU()]
    return nn.Sequential(*layers)


def _flat(width: int, wider: int) -> tuple[nn.Module, ...]:
    return nn.Linear(width, wider), nn.BatchNorm1d(wider), nn.ReLU()


_FAMILIES: Mapping[str, Callable[[NetworkConfig], nn.Module]] = {
    "vgg": _vgg,
    "densenet": _densenet,
    "inception": lambda config: _Inception(config).whole(),
    "pointnet": _PointNet,
}


# DLRM: embedding bags for categories, a small network for numbers, dot products between them (Naumov et al., 2019)


@dataclass(frozen=True, slots=True)
class DlrmConfig:
    """The dimensions of a model."""

    tables: tuple[int, ...]
    """Rows of each embedding table."""
    width: int
    dense: int
    bottom: tuple[int, ...]
    """Hidden layers of the network for numbers; its output has the embeddings' width."""
    top: tuple[int, ...]
    """Hidden layers of the network that computes the score."""


@dataclass(frozen=True, slots=True)
class ClickScores:
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

    def forward(self, dense: torch.Tensor, categories: torch.Tensor) -> ClickScores:
        """Score a batch: ``dense`` is [items, numbers], ``categories`` [tables, items, lookups]."""
        numbers = self.bottom(dense)
        vectors = [table(rows) for table, rows in zip(self.tables, categories, strict=True)]
        features = torch.stack([numbers, *vectors], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        interactions = products[:, self.pairs[0], self.pairs[1]]
        return ClickScores(self.top(torch.cat([numbers, interactions], dim=1)))


def _network(widths: tuple[int, ...], *, last_active: bool) -> nn.Module:
    layers: list[nn.Module] = []
    for width_in, width_out in pairwise(widths):
        layers += [nn.Linear(width_in, width_out), nn.ReLU()]
    return nn.Sequential(*(layers if last_active else layers[:-1]))
