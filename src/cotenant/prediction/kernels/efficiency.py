"""How much of a GPU's peak rates kernels really get: constants fitted to public measurements.

Where they come from, and what is held out when they are judged:

- products (tiles, fill, splits, smooth, overlap, saturating, dram of gemm): Llama-2-7B's layers on an A100
  (microsoft/vidur, MIT), judged on phi-2's on an A100 and an A40;
- convolutions, attention on Ampere and memory-bound kernels: ResNet-50, ViT-B/16, MobileNetV2 and EfficientNet-B0 on
  an RTX 3090 (huggingface/pytorch-image-models, Apache-2.0), judged on all other models of these families;
- what Volta's tensor cores get: ResNet-50 and BERT on V100s (NVIDIA/DeepLearningExamples), judged on A100 and T4;
- doubled lanes: ViT-B/16 in float32 on an RTX A5000 (hpides/alsatian);
- attention on other architectures, Kepler, Pascal, Ada, Hopper, Blackwell and CDNA 3: estimates, no measurement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What libraries achieve. Shares are of the data sheet's peak."""

    tiles: Mapping[tuple[int, int], float] = field(
        default_factory=lambda: {
            (256, 128): 0.78,
            (128, 256): 0.78,
            (128, 128): 0.79,
            (256, 64): 0.655,
            (64, 256): 0.655,
            (128, 64): 0.655,
            (64, 128): 0.655,
            (64, 64): 0.42,
        }
    )
    """Share of an SM's peak that the inner loop of a product gets, by the tile that a block computes."""
    fill: float = 58.0
    """Each tile costs as much as this much more depth: fetching the first operands, writing the result."""
    splits: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    """Depths of plain products can be split over this many blocks, whose results are then added."""
    long_splits: tuple[int, ...] = (16, 32, 64, 128, 256)
    """Those of weight gradients of convolutions, whose sums go over all positions of a batch, further."""
    split_us: float = 0.96
    smooth: float = 0.31
    """0: a last wave that is nearly empty costs as much as a full one; 1: as much as its share."""
    overlap: float = 3.9
    """Exponent of how arithmetic and memory times add up; the larger, the better they overlap."""
    saturating: float = 0.35
    """Share of the SMs that could draw the whole DRAM bandwidth if nothing else held them back."""
    dram: Mapping[str, float] = field(
        default_factory=lambda: {
            "gemm": 0.81,
            "conv": 0.68,
            "depthwise": 0.63,
            "attention": 0.75,
            "elementwise": 0.92,
            "reduction": 0.6,
            "copy": 0.87,
            "gather": 0.5,
            "transfer": 1.0,
            "conv3x3": 0.68,
            "weight_gradient": 0.68,
            "activation": 0.8,
            "all_reduce": 1.0,
        }
    )
    """Share of the DRAM bandwidth, by kind of kernel."""
    link: float = 0.8
    """Share of the links' bandwidth between GPUs that sums over them get; an estimate."""
    hop_us: float = 2.5
    """Time of each step of such a sum beside what it moves; an estimate."""
    convolution: float = 0.89
    """What a convolution gets of a product of the same size."""
    gradient: float = 0.8
    """What the weight gradient of a convolution gets of one of the same size: fitted on ResNets and VGGs trained on an
    RTX 3090 (huggingface/pytorch-image-models)."""
    winograd: float = 2.25
    """How much less arithmetic 3x3 convolutions need without tensor cores: F(2x2, 3x3) of Winograd's algorithms."""
    feeding: float = 0.25
    """Exponent by which SMs that do less than 1024 operations per clock are easier to keep fed."""
    fed: float = 1.2
    """What they gain at most."""
    doubled: float = 0.52
    """Share that float32 products keep without tensor cores where each lane's twin is shared with integers."""
    depthwise: float = 0.21
    """Share of the vector peak that depthwise convolutions get."""
    attention: Mapping[str, float] = field(
        default_factory=lambda: {
            "kepler": 0.2,
            "pascal": 0.3,
            "volta": 0.35,
            "turing": 0.4,
            "ampere": 0.6,
            "ada": 0.6,
            "hopper": 0.5,
            "blackwell": 0.5,
            "cdna3": 0.3,
        }
    )
    """Share of the peak that attention gets, by architecture: newer ones have fused kernels made for them."""
    tensor: Mapping[str, float] = field(
        default_factory=lambda: {
            "kepler": 1.0,
            "pascal": 1.0,
            "volta": 0.72,
            "turing": 0.72,
            "ampere": 1.0,
            "ada": 1.0,
            "hopper": 1.0,
            "blackwell": 1.0,
            "cdna3": 0.7,
        }
    )
    """What libraries get out of an architecture's tensor cores, against Ampere's."""
    small_blocks: float = 8.0
    """Blocks of a pointwise kernel that an SM holds at once: 2048 threads in blocks of 256."""
    l2_bytes_per_clock: float = 40.0
    """Bytes that an SM gets from L2 in a clock."""
    l2_kept: float = 0.25
    """Share of the L2 in which the last kernel's results can still be found."""


FITTED = Efficiency()
