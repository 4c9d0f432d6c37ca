"""Kernels of language-model engines: constants by GPU generation and number format.

Fitted on tables of kernels measured in vLLM (ai-dynamo/aiconfigurator, Apache-2.0): 0.14 on an A100-SXM4-80GB, 0.19 on
an H100-SXM5-80GB, on every second shape of each table; docs/validation-llm.md has the errors on the others. Newer and
older GPUs take the constants of the nearer of these two, at two to four times the error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np

from cotenant.prediction.gpu import Architecture, KernelKind
from cotenant.prediction.kernels.attention import DecodeAttention, PromptAttention
from cotenant.prediction.kernels.columns import Floats
from cotenant.prediction.kernels.efficiency import FITTED, Efficiency

Format = Literal["half", "fp8", "fp8 blocks"]
"""Number format of a product: float16 or bfloat16; 8 bits with a scale per tensor or row; with a scale per block."""


@dataclass(frozen=True, slots=True)
class Experts:
    """Constants of a fused mixture of experts: two products per expert, and the routing around them."""

    products: Efficiency
    routing_us: float
    """Sorting tokens by expert, and starts."""
    passes: float
    """Fraction of the DRAM bandwidth in passes over the tokens of all experts: gather, activate, sum."""

    def routed_ns(self, assigned: Floats, width: Floats, inner: Floats, bandwidth: float) -> Floats:
        """Time besides the products.

        Args:
            assigned: Tokens times experts per token.
            width: Of the model.
            inner: Of an expert.
            bandwidth: Bytes per nanosecond.
        """
        moved = assigned * (8.0 * width + 6.0 * inner)
        return np.asarray(self.routing_us * 1e3 + moved / (bandwidth * self.passes))


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Time of a sum over GPUs: one kernel over peer memory up to a size, a library beyond."""

    small_us: float
    small_gb_s: Mapping[int, float]
    """By number of GPUs."""
    large_us: float
    large_gb_s: Mapping[int, float]
    eager_us: float
    """Least time without a captured graph."""

    def ns(self, moved_bytes: Floats, gpus: int, *, graphs: bool = True) -> Floats:
        """Time of sums over this many GPUs."""
        small = self.small_us * 1e3 + moved_bytes / self.small_gb_s[gpus]
        large = self.large_us * 1e3 + moved_bytes / self.large_gb_s[gpus]
        time = np.where(moved_bytes <= _SMALL_SUM, small, large)
        return time if graphs else np.maximum(time, self.eager_us * 1e3)


_SMALL_SUM = 2.0 * 2**20


@dataclass(frozen=True, slots=True)
class KernelFamily:
    """Constants of a generation of kernels."""

    products: Mapping[Format, Efficiency]
    experts: Mapping[Format, Experts]
    prompts: PromptAttention
    decoding: DecodeAttention
    sums: AllReduce


def tiled(
    *,
    large: float,
    small: float,
    skinny: float,
    fill: float,
    split_us: float,
    smooth: float,
    overlap: float,
    saturating: float,
    dram: float,
    launch_us: float,
    rounding: float = 0.0,
    splits: tuple[int, ...] = FITTED.splits,
) -> Efficiency:
    """Constants of products, relative to those of other software.

    `large` (tiles of 128 and more), `small` (relative to these) and `skinny` scale the shares of peak, `dram` is the
    fraction of the bandwidth; the others are those of `Efficiency`.
    """
    shares = {tile: share * large * (small if min(tile) <= 64 else 1.0) for tile, share in FITTED.tiles.items()}
    return replace(
        FITTED,
        tiles=shares,
        skinny={tile: share * skinny for tile, share in FITTED.skinny.items()},
        fill=fill,
        splits=splits,
        split_us=split_us,
        smooth=smooth,
        overlap=overlap,
        saturating=saturating,
        dram={**FITTED.dram, "gemm": dram},
        l2_kept=0.0,
        launch_us=launch_us,
        rounding=rounding,
    )


_HOPPER = KernelFamily(
    products={
        "half": tiled(
            large=0.84,
            small=1.729,
            skinny=0.94,
            fill=197.3,
            split_us=2.291,
            smooth=0.499,
            overlap=6.054,
            saturating=0.212,
            dram=0.839,
            launch_us=2.325,
        ),
        "fp8": tiled(
            large=1.015,
            small=0.676,
            skinny=0.65,
            fill=270.9,
            split_us=1.494,
            smooth=0.369,
            overlap=4.236,
            saturating=0.273,
            dram=0.842,
            launch_us=4.396,
            rounding=1.119,
        ),
        "fp8 blocks": tiled(
            large=0.883,
            small=0.464,
            skinny=0.05,
            fill=169.7,
            split_us=6.0,
            smooth=0.03,
            overlap=3.027,
            saturating=0.05,
            dram=0.796,
            launch_us=10.5,
            rounding=1.539,
        ),
    },
    experts={
        "half": Experts(
            tiled(
                large=0.758,
                small=0.469,
                skinny=0.344,
                fill=21.7,
                smooth=0.325,
                overlap=3.018,
                saturating=0.076,
                dram=0.978,
                launch_us=1.0,
                split_us=0.0,
                splits=(1,),
            ),
            routing_us=20.6,
            passes=1.10,
        ),
        "fp8": Experts(
            tiled(
                large=0.779,
                small=0.227,
                skinny=0.444,
                fill=19.6,
                smooth=0.147,
                overlap=4.317,
                saturating=0.081,
                dram=0.897,
                launch_us=1.0,
                split_us=0.0,
                splits=(1,),
            ),
            routing_us=28.9,
            passes=0.95,
        ),
        "fp8 blocks": Experts(
            tiled(
                large=0.465,
                small=1.114,
                skinny=0.463,
                fill=12.8,
                smooth=0.181,
                overlap=2.848,
                saturating=0.05,
                dram=0.924,
                launch_us=1.0,
                split_us=0.0,
                splits=(1,),
            ),
            routing_us=37.8,
            passes=0.78,
        ),
    },
    prompts=PromptAttention(
        share=1.214,
        short=0.636,
        softmax=311.0,
        diagonal=0.601,
        block_us=2.194,
        dram=1.0,
        overlap=1.0,
        floor_us=7.944,
        packed=64.0,
    ),
    decoding=DecodeAttention(
        floor_us=5.982,
        copy_us=0.026,
        split_us=1.253,
        dram=0.981,
        l2=1.736,
        hot=0.866,
        block_us=3.22,
        head_us=0.009,
        streamed_gb_s=178.6,
        overlap=1.0,
        spread=1.333,
        splits_all=True,
    ),
    sums=AllReduce(4.5, {2: 129.9, 4: 75.8, 8: 71.5}, 27.0, {2: 156.4, 4: 115.9, 8: 126.2}, eager_us=20.6),
)

_AMPERE = KernelFamily(
    products={
        **_HOPPER.products,  # Ada has tensor cores for 8 bits, and no table
        "half": tiled(
            large=1.27,
            small=1.048,
            skinny=1.353,
            fill=141.5,
            split_us=1.375,
            smooth=0.258,
            overlap=5.777,
            saturating=0.181,
            dram=0.719,
            launch_us=2.947,
        ),
    },
    experts={
        **_HOPPER.experts,
        "half": Experts(
            tiled(
                large=0.699,
                small=0.642,
                skinny=0.428,
                fill=0.022,
                smooth=0.824,
                overlap=2.819,
                saturating=0.051,
                dram=0.999,
                launch_us=1.0,
                split_us=0.0,
                splits=(1,),
            ),
            routing_us=24.8,
            passes=1.10,
        ),
    },
    prompts=PromptAttention(
        share=0.596,
        short=0.765,
        softmax=9.932,
        diagonal=0.3,
        block_us=2.132,
        dram=0.474,
        overlap=1.0,
        floor_us=7.67,
        packed=1.0,
    ),
    decoding=DecodeAttention(
        floor_us=6.151,
        copy_us=6.909,
        split_us=5.694,
        dram=0.728,
        l2=0.48,
        hot=0.319,
        block_us=4.056,
        head_us=0.037,
        streamed_gb_s=23.6,
        overlap=3.214,
        spread=0.892,
        splits_all=False,
    ),
    sums=AllReduce(5.5, {2: 103.7, 4: 50.9, 8: 48.3}, 58.0, {2: 97.5, 4: 72.1, 8: 63.9}, eager_us=43.6),
)

_NEW: tuple[Architecture, ...] = ("hopper", "blackwell")


def kernel_kind(of: Literal["products", "experts"], form: Format) -> KernelKind:
    """The kind of products or experts in a number format."""
    return of if form == "half" else cast("KernelKind", f"{of} {form}")


def family_of(architecture: Architecture) -> KernelFamily:
    """Constants for GPUs of this architecture."""
    return _HOPPER if architecture in _NEW else _AMPERE
