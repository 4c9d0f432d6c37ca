"""Variance between runs with no change behind it: load that drifts more slowly than a block.

The scatter between blocks shows what changes from block to block. Load that lasts for half a run or longer is the same
in many blocks, so their scatter hides it. It shows up in two other ways: the blocks of a run move together over its
length, and sensors record how much of the device other processes took. Both enter the variance of every comparison
between runs.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from cotenant.analyse.comparison.series import Blocks, Series
from cotenant.analyse.estimates.effects import RatioEffect
from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import student_t
from cotenant.analyse.sharing.evidence import TenantEvidence

DF = 2.0
"""Degrees of freedom: two runs contribute one difference of halves each."""
FEWEST_BLOCKS = 4


def between_variance(runs: Sequence[Iterable[Series]], evidence: Sequence[Iterable[TenantEvidence]]) -> float:
    """Variance of the log ratio now / before that comes from when a run took place rather than from its blocks."""
    drift = sum(_drift([one.time for one in run]) for run in runs)
    before, now = (_taken(run) for run in evidence)
    return drift + math.log((1 - before) / (1 - now)) ** 2


def widened(effect: RatioEffect, variance: float, level: float = 0.95) -> RatioEffect:
    """Widen an effect's interval by a further variance that has few degrees of freedom."""
    if variance <= 0:
        return effect
    own = effect.standard_error**2
    total = own + variance
    df = total**2 / (own**2 / effect.df + variance**2 / DF)
    half = student_t(df, level) * math.sqrt(total)
    ratio = Estimate(
        effect.ratio.est,
        math.exp(effect.log_ratio - half),
        math.exp(effect.log_ratio + half),
        effect.ratio.n,
        f"{effect.ratio.method}, with the variance between runs",
    )
    return replace(effect, ratio=ratio, standard_error=math.sqrt(total), df=df)


def _drift(rows: Sequence[Blocks]) -> float:
    """Difference between the two halves of a run, beyond what independent blocks would show."""
    together = _mean_of_rows(rows)
    if len(together) < FEWEST_BLOCKS:
        return 0.0
    middle = len(together) // 2
    halves = (statistics.fmean(together[middle:]) - statistics.fmean(together[:middle])) / 2
    # From neighbours: a slow drift is part of the overall scatter, but hardly of the step from one block to the next.
    steps = [(later - earlier) ** 2 for earlier, later in pairwise(together)]
    scatter = statistics.fmean(steps) / 2
    return max(0.0, halves**2 - scatter / len(together))


def _mean_of_rows(rows: Sequence[Blocks]) -> list[float]:
    """Mean over all rows in each block, relative to each row's own mean."""
    blocks: dict[int, list[float]] = {}
    for row in rows:
        if len(row) >= FEWEST_BLOCKS:
            level = statistics.fmean(row.values())
            for block, log in row.items():
                blocks.setdefault(block, []).append(log - level)
    return [statistics.fmean(values) for _, values in sorted(blocks.items())]


def _taken(evidence: Iterable[TenantEvidence]) -> float:
    """Mean share of the device taken by other processes and by the hypervisor; 0 without a sensor."""
    shares = [(item.foreign_share or 0.0) + (item.steal_share or 0.0) for item in evidence]
    return min(0.95, statistics.fmean(shares)) if shares else 0.0
