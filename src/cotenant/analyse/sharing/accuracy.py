"""How far a study can be trusted: the width of its intervals, and the machine's variation during it. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from cotenant.analyse.estimates.robust import huber
from cotenant.analyse.estimates.warmup import classify

FEWEST_BLOCKS = 4
"""Fewest blocks to estimate how much the machine's speed varies."""
ROBUST_FROM = 12
"""Fewest blocks for outlying ones to be weighted down."""
DISTURBED = 0.75
"""A block whose slowdowns have a lower mean weight was disturbed."""
FEWEST_REQUESTS = 10
"""Fewest requests of a tenant in all windows of a cell."""
WORTH_NAMING = 0.02
"""Smaller variation of the machine's speed is not what makes intervals wide."""
CROWDED = 0.10
"""Other processes that use less of the device than this are not worth naming."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Precision of a study's slowdowns."""

    widest: float
    """Largest relative half-width of a slowdown."""
    typical: float
    """Median of them."""
    blocks: int
    disturbed: int
    """Outlying blocks, which were weighted down."""
    speed_variation: float | None
    """Variation of a tenant's solo time between blocks, as a share; None with too few blocks."""
    block_s: float
    """Measured seconds per block."""
    foreign_share: float | None = None
    """Typical share of the device used by other processes; None where unknown."""

    @property
    def crowded(self) -> bool:
        """Other processes used so much of the device that the slowdowns hold beside them only."""
        return self.foreign_share is not None and self.foreign_share >= CROWDED

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "widest": self.widest,
            "typical": self.typical,
            "blocks": self.blocks,
            "disturbed_blocks": self.disturbed,
            "speed_variation": self.speed_variation,
            "block_s": self.block_s,
            "foreign_share": self.foreign_share,
        }

    def sentence(self) -> str:
        """The precision in one sentence, and what limits it."""
        said = f"Good to ±{_percent(self.widest)}"
        if self.typical < 0.75 * self.widest:
            said += f", half of the slowdowns to ±{_percent(self.typical)}"
        if self.speed_variation is not None and self.speed_variation >= WORTH_NAMING:
            said += f", because this machine's speed varies by {_percent(self.speed_variation)} from block to block"
        if self.disturbed:
            said += f"; {self.disturbed} of {self.blocks} blocks were disturbed and count less"
        said += "."
        if self.crowded and self.foreign_share is not None:
            share = _percent(self.foreign_share)
            said += f" Other processes used {share} of the device meanwhile: without them slowdowns may differ."
        return said


def accuracy_of(
    widths: Sequence[float | None],
    logs_by_block: Sequence[Mapping[int, float]],
    alone_by_block: Sequence[Mapping[int, float]],
    block_s: float,
    foreign_shares: Sequence[float | None] = (),
) -> Accuracy | None:
    """Accuracy of one run; None if no slowdown has an interval.

    Args:
        widths: Relative half-widths of all slowdowns.
        logs_by_block: Logarithms of every tenant's slowdowns, by block.
        alone_by_block: Logarithms of every tenant's times alone, by block.
        block_s: Measured seconds per block.
        foreign_shares: Share of the device used by other processes during each trial.
    """
    known = [width for width in widths if width is not None]
    if not known:
        return None
    return Accuracy(
        widest=max(known),
        typical=median(known),
        blocks=len({block for logs in logs_by_block for block in logs}),
        disturbed=disturbed_blocks(logs_by_block),
        speed_variation=speed_variation(alone_by_block),
        block_s=block_s,
        foreign_share=median(shares) if (shares := [one for one in foreign_shares if one is not None]) else None,
    )


def disturbed_blocks(logs_by_block: Iterable[Mapping[int, float]]) -> int:
    """Blocks that are outliers in most of the slowdowns they contribute to."""
    weights: dict[int, list[float]] = {}
    for logs in logs_by_block:
        if len(logs) >= ROBUST_FROM:
            for block, weight in zip(logs, huber(np.array(list(logs.values()))).weights, strict=True):
                weights.setdefault(block, []).append(float(weight))
    return sum(sum(found) / len(found) < DISTURBED for found in weights.values())


def speed_variation(alone_by_block: Iterable[Mapping[int, float]]) -> float | None:
    """Variation of solo times between neighbouring blocks: the median over tenants of a robust spread."""
    spreads = []
    for logs in alone_by_block:
        series = np.array([logs[block] for block in sorted(logs)])
        if series.size >= FEWEST_BLOCKS:
            spreads.append(float(np.sqrt(np.mean(np.diff(series) ** 2) / 2)))
    return math.expm1(median(spreads)) if spreads else None


def unsteady(logs: Mapping[int, float]) -> str | None:
    """Trend of a slowdown over the blocks of a run, if any: `warm-up`, `slowdown` or `no steady state`."""
    kind = classify(np.exp([logs[block] for block in sorted(logs)]))
    return None if kind == "flat" else kind


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %" if share < 0.1 else f"{share * 100:.0f} %"
