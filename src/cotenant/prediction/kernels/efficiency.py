"""Fraction of a GPU's peak rates that kernels achieve: constants fitted to public measurements.

Sources, and the data held out for evaluation:

- products (tiles, fill, splits, smooth, overlap, saturating, dram of gemm): Llama-2-7B's layers on an A100
  (microsoft/vidur, MIT), evaluated on phi-2's on an A100 and an A40;
- convolutions and attention on Ampere: ResNet-50, ViT-B/16, MobileNetV2 and EfficientNet-B0 on an RTX 3090
  (huggingface/pytorch-image-models, Apache-2.0), evaluated on all other models of these families;
- passes over memory: the same and Llama-2-7B's layers, evaluated on MIG slices (MunQ-Lee/ParvaGPU_SC24, MIT);
- TF32 and depthwise convolutions in float32: ResNet-50, VGG-16, MobileNetV2 on those slices, evaluated on the others;
- decoding: Llama-7B at a batch of 1 (MuxServe), evaluated on larger batches;
- Volta's tensor cores: ResNet-50 and BERT on V100s (NVIDIA/DeepLearningExamples), evaluated on A100 and T4;
- doubled lanes: ViT-B/16 in float32 on an RTX A5000 (hpides/alsatian);
- attention on other architectures, Kepler, Pascal, Ada, Hopper, Blackwell and CDNA 3: estimates, not measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Efficiency of libraries. Fractions are relative to the data sheet's peak."""

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
    """Fraction of an SM's peak that a product's inner loop achieves, by the tile of a block."""
    skinny: Mapping[tuple[int, int], float] = field(
        default_factory=lambda: {(32, 128): 0.4, (16, 128): 0.28, (4, 128): 0.12}
    )
    """The same for products of a few rows, as in decoding: bound by the operands that an SM can fetch from L2 (40 bytes
    per clock against 2048 operations on an A100); the smallest is a product with vectors. Not fitted."""
    fill: float = 58.0
    """Overhead of a tile in units of depth: fetching the first operands, writing the result."""
    splits: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    """Number of blocks that the depth of a plain product can be split over; their results are then added."""
    long_splits: tuple[int, ...] = (16, 32, 64, 128, 256)
    """The same for weight gradients of convolutions, whose sums run over all positions of a batch."""
    split_us: float = 0.96
    smooth: float = 0.31
    """0: a nearly empty last wave costs as much as a full wave; 1: in proportion to its blocks."""
    overlap: float = 3.9
    """Exponent for combining arithmetic and memory times; larger means better overlap."""
    saturating: float = 0.35
    """Fraction of the SMs sufficient to saturate the DRAM bandwidth, if nothing else limited them."""
    dram: Mapping[str, float] = field(
        default_factory=lambda: {
            "gemm": 0.81,
            "conv": 0.68,
            "depthwise": 0.63,
            "attention": 0.75,
            "elementwise": 1.0,
            "reduction": 0.75,
            "copy": 0.95,
            "gather": 0.5,
            "transfer": 1.0,
            "conv3x3": 0.68,
            "weight_gradient": 0.68,
            "activation": 1.0,
            "all_reduce": 1.0,
        }
    )
    """Fraction of the DRAM bandwidth, by kind of kernel; of what the SMs can draw for those that pass over memory."""
    drawn_gb_s: float = 25.0
    """What one SM draws from DRAM in a kernel that passes over memory once: as much as its threads have in flight. In
    series with the DRAM's bandwidth, it explains 0.9 of the bandwidth on an RTX 3090 and 0.8 on an A100-80GB."""
    link: float = 0.8
    """Fraction of the GPU links' bandwidth achieved by all-reduces; an estimate."""
    hop_us: float = 2.5
    """Latency of each all-reduce step; an estimate."""
    convolution: float = 0.89
    """Efficiency of a convolution relative to a product of the same size."""
    layout: float = 0.5
    """Passes over a convolution's input and output, each read and written, to bring float32 into the order that tensor
    cores need and back: libraries do it for about half of them. Fitted on ResNet-50 and VGG-16 in float32 on slices of
    an A100 (ParvaGPU)."""
    gradient: float = 0.8
    """Efficiency of a convolution's weight gradient relative to a convolution of the same size: fitted on ResNets and
    VGGs trained on an RTX 3090 (huggingface/pytorch-image-models)."""
    winograd: float = 2.25
    """Reduction of arithmetic of 3x3 convolutions without tensor cores: Winograd's F(2x2, 3x3)."""
    feeding: float = 0.25
    """Exponent of the gain of SMs that do less than 1024 operations per clock, which are easier to keep fed."""
    fed: float = 1.2
    """Maximum of that gain."""
    doubled: float = 0.52
    """Factor on float32 products without tensor cores where half the lanes are shared with integers."""
    depthwise: float = 0.21
    """Fraction of the vector peak achieved by depthwise convolutions."""
    plain_depthwise: float = 0.7
    """Bandwidth of depthwise convolutions in float32, for which torch has a plain kernel, relative to half precision.
    Fitted on MobileNetV2 on slices of an A100 (ParvaGPU)."""
    rounded_power: float = 0.72
    """Power of tensor cores under TF32 relative to half precision, at the same clock. Fitted on VGG-16 on one and on
    seven slices of an A100 (ParvaGPU)."""
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
    """Fraction of the peak achieved by attention, by architecture: newer ones have specialised fused kernels."""
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
    """Efficiency of libraries on an architecture's tensor cores, relative to Ampere's."""
    vector: Mapping[str, float] = field(default_factory=lambda: {"kepler": 0.6})
    """The same without tensor cores, where it isn't 1: an estimate from published training speeds of a K80."""
    streamed_gb_s: float = 7.0
    """Keys and values that one thread block reads when a single token attends to its context: one row after the other.
    Fitted on decoding of Llama-7B at a batch of 1 (MuxServe)."""
    streamed: float = 512.0
    """Tokens of context per thread block; longer contexts are split."""
    small_blocks: float = 8.0
    """Resident blocks of a pointwise kernel per SM: 2048 threads in blocks of 256."""
    l2_bytes_per_clock: float = 40.0
    """Bytes per clock that an SM gets from L2."""
    l2_kept: float = 0.05
    """Fraction of the L2 that still holds the previous kernel's results."""
    launch_us: float | None = None
    """Start, fill and drain of a kernel; None: the GPU's."""
    rounding: float = 0.0
    """Passes over a product's first operand that round it to 8 bits: two bytes read and one written per value."""


FITTED = Efficiency()
ORDERED = replace(FITTED, layout=0.0)
"""Of a model whose images already have the order that tensor cores need (channels last)."""
