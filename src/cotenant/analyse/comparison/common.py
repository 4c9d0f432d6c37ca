"""What all tenants have in common: if everything moved alike, it was not one tenant that changed."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cotenant.analyse.comparison.series import Blocks, pooled

FEWEST_TENANTS = 3
"""With two, nobody can say which of them moved."""


@dataclass(frozen=True, slots=True)
class Common:
    """The part of all changes that is the same: of the machine, or of something that all tenants use."""

    runs: tuple[Blocks, ...]
    """Of each run, block by block: how far the tenants that moved alike were from their own middle."""
    tenants: int
    """Study tenants that were measured alone in every run."""
    alike: int
    """Of these, how many moved like the median."""


def common_part(alone: Sequence[Mapping[str, Blocks]], margin: float) -> Common | None:
    """What the tenants that moved together did, alone on the device; None if there is no such thing.

    A tenant moves with the others if the change of its service time is within the margin of the median over tenants,
    which does not follow those that were changed themselves as long as they are fewer than half. It needs
    `FEWEST_TENANTS`, more than half of them alike, and blocks that hold all of these.

    Args:
        alone: For each run, by the study's tenant: its service time alone in each block.
        margin: How far apart changes may lie and still be called alike.
    """
    tenants = [tenant for tenant in alone[0] if all(run.get(tenant) for run in alone)]
    if len(tenants) < FEWEST_TENANTS:
        return None
    levels = [{tenant: statistics.fmean(run[tenant].values()) for tenant in tenants} for run in alone]
    middles = {tenant: statistics.fmean(level[tenant] for level in levels) for tenant in tenants}
    typical = [statistics.median(level[tenant] - middles[tenant] for tenant in tenants) for level in levels]
    alike = [
        tenant
        for tenant in tenants
        if _spread(level[tenant] - middles[tenant] - usual for level, usual in zip(levels, typical, strict=True))
        <= math.log1p(margin)
    ]
    if 2 * len(alike) <= len(tenants):
        return None
    runs = tuple(
        pooled([{block: log - middles[tenant] for block, log in run[tenant].items()} for tenant in alike])
        for run in alone
    )
    return Common(runs, len(tenants), len(alike)) if all(len(run) >= 2 for run in runs) else None


def _spread(values: Iterable[float]) -> float:
    """Twice the standard deviation: of two values their distance, and of many it does not grow with their number."""
    return 2 * statistics.pstdev(values)
