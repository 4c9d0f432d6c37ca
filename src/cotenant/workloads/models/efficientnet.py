"""EfficientNet-V2 and EfficientNet-Lite as published (Tan and Le, 2021), without stochastic depth."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForImageClassification, PretrainedConfig, PreTrainedModel, logging
from transformers.modeling_outputs import ImageClassifierOutputWithNoAttention


class NetworkPart(NamedTuple):
    """A sequence of equal blocks: the first changes width and resolution."""

    fused: bool
    expand: int
    stride: int
    width: int
    blocks: int


@dataclass(frozen=True, slots=True)
class EfficientNetV2Config:
    """The dimensions of a size."""

    stem: int
    parts: tuple[tuple[bool, int, int, int, int], ...]
    """Fields of a `Part` each: plain data, so that the catalogue needs no torch."""
    head: int = 1280
    dropout: float = 0.2
    num_labels: int = 1000


@dataclass(frozen=True, slots=True)
class ClassifiedV2:
    """Scores of the classes."""

    logits: torch.Tensor


class EfficientNetV2ForImageClassification(nn.Module):
    """Stem, blocks, head."""

    def __init__(self, config: EfficientNetV2Config) -> None:
        super().__init__()
        self.stem = _convolution(3, config.stem, 3, 2)
        blocks: list[nn.Module] = []
        width = config.stem
        for part in (NetworkPart(*fields) for fields in config.parts):
            for number in range(part.blocks):
                stride = part.stride if number == 0 else 1
                blocks.append(InvertedResidual(width, part.width, part.expand, stride, fused=part.fused))
                width = part.width
        self.blocks = nn.ModuleList(blocks)
        self.head = _convolution(width, config.head, 1, 1)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.head, config.num_labels)

    def forward(self, pixel_values: torch.Tensor) -> ClassifiedV2:
        """Classify a batch of images."""
        hidden = self.stem(pixel_values)
        for block in self.blocks:
            hidden = block(hidden)
        features = self.head(hidden).mean(dim=(2, 3))
        return ClassifiedV2(self.classifier(self.dropout(features)))


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


# EfficientNet-Lite: inverted residuals without squeeze and excitation, as published for mobile processors

MODEL_TYPE = "efficientnet_lite"
__all__ = ["MODEL_TYPE", "AutoConfig", "AutoModelForImageClassification", "EfficientNetLiteConfig", "logging"]

# Each stage: blocks, kernel, stride, expansion, width.
_PARTS = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192))
_LAST = (1, 3, 1, 6, 320)
_STEM, _HEAD = 32, 1280
_EPSILON = 1e-3


class EfficientNetLiteConfig(PretrainedConfig):  # type: ignore[misc]  # transformers is not typed
    """Width and depth relative to Lite0."""

    model_type = MODEL_TYPE

    def __init__(self, wider: float = 1.0, deeper: float = 1.0, image_size: int = 224, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wider, self.deeper, self.image_size = wider, deeper, image_size


class EfficientNetLiteForImageClassification(PreTrainedModel):  # type: ignore[misc]  # transformers is not typed
    """Stem, blocks, head; stem and head have the same size at every width."""

    config_class = EfficientNetLiteConfig
    main_input_name = "pixel_values"

    def __init__(self, config: EfficientNetLiteConfig) -> None:
        super().__init__(config)
        self.stem = _Convolution(3, _STEM, 3, 2)
        blocks: list[nn.Module] = []
        width = _STEM
        for number, (count, kernel, stride, expand, wide) in enumerate((*_PARTS, _LAST)):
            fixed = number in (0, len(_PARTS))  # the first and the last stage keep their depth
            for turn in range(count if fixed else math.ceil(count * config.deeper)):
                out = _rounded(wide * config.wider)
                blocks.append(LiteResidual(width, out, kernel, stride if turn == 0 else 1, expand))
                width = out
        self.blocks = nn.ModuleList(blocks)
        self.head = _Convolution(width, _HEAD, 1, 1)
        self.classifier = nn.Linear(_HEAD, config.num_labels)
        self.post_init()

    def forward(self, pixel_values: torch.Tensor) -> ImageClassifierOutputWithNoAttention:
        """Classify a batch of images."""
        hidden = self.stem(pixel_values)
        for block in self.blocks:
            hidden = block(hidden)
        return ImageClassifierOutputWithNoAttention(logits=self.classifier(self.head(hidden).mean(dim=(2, 3))))


class LiteResidual(nn.Module):
    """Expand, convolve each channel, project."""

    def __init__(self, width_in: int, width_out: int, kernel: int, stride: int, expand: int) -> None:
        super().__init__()
        wide = width_in * expand
        self.expand = _Convolution(width_in, wide, 1, 1) if expand > 1 else nn.Identity()
        self.depthwise = _Convolution(wide, wide, kernel, stride, groups=wide)
        self.project = _Convolution(wide, width_out, 1, 1, active=False)
        self.residual = stride == 1 and width_in == width_out

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The block's output, plus its input where the shapes allow."""
        out: torch.Tensor = self.project(self.depthwise(self.expand(hidden)))
        return out + hidden if self.residual else out


class _Convolution(nn.Module):
    """Convolution, normalisation and a clipped linear unit; padded as in training: more at the end."""

    def __init__(
        self, width_in: int, width_out: int, kernel: int, stride: int, *, groups: int = 1, active: bool = True
    ) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(width_in, width_out, kernel, stride, groups=groups, bias=False)
        self.normalisation = nn.BatchNorm2d(width_out, eps=_EPSILON)
        self.kernel, self.stride, self.active = kernel, stride, active

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.kernel > 1:
            height, width = (self._padding(size) for size in hidden.shape[2:])
            hidden = nn.functional.pad(hidden, (width // 2, width - width // 2, height // 2, height - height // 2))
        out: torch.Tensor = self.normalisation(self.convolution(hidden))
        return nn.functional.relu6(out) if self.active else out

    def _padding(self, size: int) -> int:
        return max(0, (math.ceil(size / self.stride) - 1) * self.stride + self.kernel - size)


def _rounded(width: float) -> int:
    """The nearest multiple of 8, at most a tenth too small."""
    whole = max(8, int(width + 4) // 8 * 8)
    return whole + 8 if whole < 0.9 * width else whole


AutoConfig.register(MODEL_TYPE, EfficientNetLiteConfig, exist_ok=True)
AutoModelForImageClassification.register(EfficientNetLiteConfig, EfficientNetLiteForImageClassification, exist_ok=True)
