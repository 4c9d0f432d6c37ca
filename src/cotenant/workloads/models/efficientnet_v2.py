"""EfficientNet-V2: fused and plain inverted residuals, as published (Tan and Le, 2021), without stochastic depth."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn


class Part(NamedTuple):
    """A sequence of equal blocks: the first one changes width and resolution."""

    fused: bool
    expand: int
    stride: int
    width: int
    blocks: int


@dataclass(frozen=True, slots=True)
class EfficientNetV2Config:
    """The dimensions of one size."""

    stem: int
    parts: tuple[tuple[bool, int, int, int, int], ...]
    """Fields of one `Part` each: plain data, so that the catalogue needs no torch."""
    head: int = 1280
    dropout: float = 0.2
    num_labels: int = 1000


@dataclass(frozen=True, slots=True)
class Classified:
    """Scores of the classes."""

    logits: torch.Tensor


class EfficientNetV2ForImageClassification(nn.Module):
    """Stem, blocks, head."""

    def __init__(self, config: EfficientNetV2Config) -> None:
        super().__init__()
        self.stem = _convolution(3, config.stem, 3, 2)
        blocks: list[nn.Module] = []
        width = config.stem
        for part in (Part(*fields) for fields in config.parts):
            for number in range(part.blocks):
                stride = part.stride if number == 0 else 1
                blocks.append(InvertedResidual(width, part.width, part.expand, stride, fused=part.fused))
                width = part.width
        self.blocks = nn.ModuleList(blocks)
        self.head = _convolution(width, config.head, 1, 1)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.head, config.num_labels)

    def forward(self, pixel_values: torch.Tensor) -> Classified:
        """Classify a batch of images."""
        hidden = self.stem(pixel_values)
        for block in self.blocks:
            hidden = block(hidden)
        features = self.head(hidden).mean(dim=(2, 3))
        return Classified(self.classifier(self.dropout(features)))


class InvertedResidual(nn.Module):
    """Expand, convolve, project; fused blocks expand and convolve at once and have no squeeze and excitation."""

    def __init__(self, width_in: int, width_out: int, expand: int, stride: int, *, fused: bool) -> None:
        super().__init__()
        self.residual = stride == 1 and width_in == width_out
        wide = width_in * expand
        if fused and expand == 1:
            layers = [_convolution(width_in, width_out, 3, stride)]
        elif fused:
            layers = [_convolution(width_in, wide, 3, stride), _convolution(wide, width_out, 1, 1, active=False)]
        else:
            layers = [
                _convolution(width_in, wide, 1, 1),
                _convolution(wide, wide, 3, stride, groups=wide),
                SqueezeExcitation(wide, max(1, width_in // 4)),
                _convolution(wide, width_out, 1, 1, active=False),
            ]
        self.layers = nn.Sequential(*layers)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The block's output, plus its input where the shapes allow."""
        out: torch.Tensor = self.layers(hidden)
        return out + hidden if self.residual else out


class SqueezeExcitation(nn.Module):
    """Scales each channel by a gate computed from all channels' means."""

    def __init__(self, width: int, squeezed: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(width, squeezed, 1)
        self.excite = nn.Conv2d(squeezed, width, 1)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The gated input."""
        gate: torch.Tensor = self.excite(nn.functional.silu(self.squeeze(hidden.mean(dim=(2, 3), keepdim=True))))
        return hidden * gate.sigmoid()


def _convolution(
    width_in: int, width_out: int, kernel: int, stride: int, *, groups: int = 1, active: bool = True
) -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(width_in, width_out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(width_out, eps=1e-3),
    ]
    if active:
        layers.append(nn.SiLU(inplace=True))
    return nn.Sequential(*layers)
