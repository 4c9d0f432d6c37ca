"""How much of a GPU's peak rates kernels really get: constants fitted to public measurements."""

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
    """Depths can be split over this many blocks, whose results are then added."""
    split_us: float = 0.96
    smooth: float = 0.31
    """0: a last wave that is nearly empty costs as much as a full one; 1: as much as its share."""
    overlap: float = 3.9
    """Exponent of how arithmetic and memory times add up; the larger, the better they overlap."""
    saturating: float = 0.59
    """Share of the SMs that is needed to use all of the DRAM bandwidth."""
    dram: Mapping[str, float] = field(
        default_factory=lambda: {
            "gemm": 0.81,
            "conv": 0.80,
            "depthwise": 0.55,
            "attention": 0.75,
            "elementwise": 0.85,
            "reduction": 0.75,
            "copy": 0.75,
            "gather": 0.5,
            "transfer": 1.0,
        }
    )
    """Share of the DRAM bandwidth, by kind of kernel."""
    convolution: float = 0.85
    """What a convolution gets of a product of the same size."""
    vector: float = 0.95
    """What products get of the tiles' shares without tensor cores: those have an easier job."""
    depthwise: float = 0.15
    """Share of the vector peak that depthwise convolutions get."""
    attention: Mapping[str, float] = field(
        default_factory=lambda: {
            "kepler": 0.2,
            "pascal": 0.25,
            "volta": 0.25,
            "turing": 0.3,
            "ampere": 0.45,
            "ada": 0.5,
            "hopper": 0.4,
        }
    )
    """Share of the peak that attention gets, by architecture: newer ones have fused kernels made for them."""
    products: Mapping[str, float] = field(
        default_factory=lambda: {
            "kepler": 0.8,
            "pascal": 0.9,
            "volta": 0.8,
            "turing": 0.85,
            "ampere": 1.0,
            "ada": 1.0,
            "hopper": 0.9,
        }
    )
    """What products on tensor cores (or without them, where there are none) get, against Ampere."""
    l2_bytes_per_clock: float = 24.0
    """Bytes that an SM gets from L2 in a clock."""
    l2_kept: float = 0.5
    """Share of the L2 in which the last kernel's results can still be found."""


FITTED = Efficiency()
