"""VGG, DenseNet and Inception-v3 as published: networks of measured tables that the catalogue doesn't offer.

They are only described, never run: how many operators of which shapes a request has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

CLASSES = 1000


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Which network, and its dimensions."""

    family: str
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Classified:
    """Scores of the classes."""

    logits: torch.Tensor


class Network(nn.Module):
    """One of the networks, in the form of all models: pixels in, an object with `logits` out."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.layers = _FAMILIES[config.family](config.blocks)

    def forward(self, pixel_values: torch.Tensor) -> Classified:
        """Classify a batch of images."""
        return Classified(self.layers(pixel_values))


class Joined(nn.Module):
    """Branches over one input, their results behind each other."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """All branches."""
        return torch.cat([branch(hidden) for branch in self.branches], 1)


def _vgg(convolutions: Sequence[int]) -> nn.Module:
    """Five runs of 3x3 convolutions (Simonyan and Zisserman, 2014)."""
    layers: list[nn.Module] = []
    width = 3
    for run, wider in zip(convolutions, (64, 128, 256, 512, 512), strict=True):
        for _ in range(run):
            layers += [nn.Conv2d(width, wider, 3, padding=1), nn.ReLU()]
            width = wider
        layers.append(nn.MaxPool2d(2))
    layers += [nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(width * 49, 4096), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, CLASSES))


def _densenet(blocks: Sequence[int]) -> nn.Module:
    """Each layer reads all results of its block so far (Huang et al., 2017)."""
    growth, width = 32, 64
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    for number, block in enumerate(blocks):
        for _ in range(block):
            new = nn.Sequential(
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, 4 * growth, 1, bias=False),
                nn.BatchNorm2d(4 * growth),
                nn.ReLU(),
                nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
            )
            layers.append(Joined(nn.Identity(), new))
            width += growth
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        if number + 1 < len(blocks):
            layers += [nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
            width //= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


def _inception(_: Sequence[int]) -> nn.Module:
    """Inception-v3 (Szegedy et al., 2015) without the auxiliary head, which only training uses."""
    layers: list[nn.Module] = [
        _normed(3, 32, 3, stride=2),
        _normed(32, 32, 3),
        _normed(32, 64, 3, padding=1),
        nn.MaxPool2d(3, 2),
        _normed(64, 80, 1),
        _normed(80, 192, 3),
        nn.MaxPool2d(3, 2),
    ]
    for width, pooled in ((192, 32), (256, 64), (288, 64)):
        layers.append(
            Joined(
                _normed(width, 64, 1),
                nn.Sequential(_normed(width, 48, 1), _normed(48, 64, 5, padding=2)),
                nn.Sequential(_normed(width, 64, 1), _normed(64, 96, 3, padding=1), _normed(96, 96, 3, padding=1)),
                _pooled(width, pooled),
            )
        )
    narrowing = nn.Sequential(_normed(288, 64, 1), _normed(64, 96, 3, padding=1), _normed(96, 96, 3, stride=2))
    layers.append(Joined(_normed(288, 384, 3, stride=2), narrowing, nn.MaxPool2d(3, 2)))
    layers += [_stretched(narrow) for narrow in (128, 160, 160, 192)]
    layers.append(
        Joined(
            nn.Sequential(_normed(768, 192, 1), _normed(192, 320, 3, stride=2)),
            nn.Sequential(_normed(768, 192, 1), _row(192, 192), _column(192, 192), _normed(192, 192, 3, stride=2)),
            nn.MaxPool2d(3, 2),
        )
    )
    layers += [_widened(width) for width in (1280, 2048)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, CLASSES))


def _stretched(narrow: int) -> nn.Module:
    """Rows and columns instead of squares."""
    there_and_back = [_column(narrow, narrow), _row(narrow, narrow), _column(narrow, narrow), _row(narrow, 192)]
    return Joined(
        _normed(768, 192, 1),
        nn.Sequential(_normed(768, narrow, 1), _row(narrow, narrow), _column(narrow, 192)),
        nn.Sequential(_normed(768, narrow, 1), *there_and_back),
        _pooled(768, 192),
    )


def _widened(width: int) -> nn.Module:
    """The last two, whose branches end in a row beside a column."""
    return Joined(
        _normed(width, 320, 1),
        nn.Sequential(_normed(width, 384, 1), _crossed()),
        nn.Sequential(_normed(width, 448, 1), _normed(448, 384, 3, padding=1), _crossed()),
        _pooled(width, 192),
    )


def _normed(width: int, wider: int, size: Any, *, stride: int = 1, padding: Any = 0) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(width, wider, size, stride, padding, bias=False), nn.BatchNorm2d(wider, eps=0.001), nn.ReLU()
    )


def _row(width: int, wider: int) -> nn.Module:
    return _normed(width, wider, (1, 7), padding=(0, 3))


def _column(width: int, wider: int) -> nn.Module:
    return _normed(width, wider, (7, 1), padding=(3, 0))


def _pooled(width: int, wider: int) -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), _normed(width, wider, 1))


def _crossed() -> nn.Module:
    return Joined(_normed(384, 384, (1, 3), padding=(0, 1)), _normed(384, 384, (3, 1), padding=(1, 0)))


_FAMILIES: Mapping[str, Callable[[Sequence[int]], nn.Module]] = {
    "vgg": _vgg,
    "densenet": _densenet,
    "inception": _inception,
}
