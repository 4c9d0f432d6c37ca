"""The change common to all tenants: if everything moved alike, no single tenant changed."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cotenant.analyse.comparison.series import Blocks, Row, Series, pooled

FEWEST_TENANTS = 3
"""With two tenants it is impossible to say which of them moved."""


@dataclass(frozen=True, slots=True)
class Common:
    """The change that all tenants share: of the machine, or of something that all of them use."""

    runs: tuple[Blocks, ...]
    """For each run, block by block: distance of the tenants that moved alike from their own centre."""
    tenants: int
    """Tenants of the study that were measured alone in every run."""
    alike: int
    """How many of them moved with the median."""


def alone_by_tenant(run: Mapping[Row, Series], rows: Iterable[Row]) -> dict[str, Blocks]:
    """Service time alone by the study's tenant, over its loads and settings."""
    found: dict[str, list[Blocks]] = {}
    for row in rows:
        if row.solo:
            found.setdefault(run[row].of, []).append(run[row].service)
    return {of: pooled(parts) for of, parts in found.items()}


def common_part(alone: Sequence[Mapping[str, Blocks]], margin: float) -> Common | None:
    """Return the change shared by the tenants that moved together, alone on the device; None if there is none.

    A tenant moves with the others if the change of its service time is within the margin of the median over tenants.
    The median ignores tenants that were changed themselves as long as they are fewer than half. Requires
    `FEWEST_TENANTS`, more than half of them alike, and blocks that contain all of these.

    Args:
        alone: For each run, by the study's tenant: its service time alone in each block.
        margin: How far apart changes may be and still count as alike.
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
    """Twice the standard deviation: the distance for two values, and independent of their number for more."""
    return 2 * statistics.pstdev(values)
