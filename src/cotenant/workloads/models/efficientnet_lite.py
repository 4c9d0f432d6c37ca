"""EfficientNet-Lite: inverted residuals without squeeze and excitation, as published for mobile processors.

Written as a transformers model and registered with its `Auto` classes, so that a directory with its weights is read
like any other; they are re-exported from here.
"""

import math
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForImageClassification, PretrainedConfig, PreTrainedModel, logging
from transformers.modeling_outputs import ImageClassifierOutputWithNoAttention

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
                blocks.append(InvertedResidual(width, out, kernel, stride if turn == 0 else 1, expand))
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


class InvertedResidual(nn.Module):
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
