"""What may differ between two runs though nothing was changed: load that drifts more slowly than a block.

Blocks of a run scatter by what changes from block to block. A load that is there for half a run or for all of it is
the same in many blocks, so that their scatter hides it. Two things show it nevertheless: the blocks of a run move
together over its length, and the sensors say how much of the device others took. Both become part of the variance of
whatever is compared between the runs as a whole.
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
"""Two runs are all that this is estimated from: one difference of halves in each."""
FEWEST_BLOCKS = 4


def between_variance(runs: Sequence[Iterable[Series]], evidence: Sequence[Iterable[TenantEvidence]]) -> float:
    """The variance of a logarithm of now / before that comes from the time of the run and not from its blocks."""
    drift = sum(_drift([one.time for one in run]) for run in runs)
    before, now = (_taken(run) for run in evidence)
    return drift + math.log((1 - before) / (1 - now)) ** 2


def widened(effect: RatioEffect, variance: float, level: float = 0.95) -> RatioEffect:
    """The effect with a further variance in its interval, which has few degrees of freedom of its own."""
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
    """How far the second half of a run is from the first, beyond what independent blocks would be."""
    together = _mean_of_rows(rows)
    if len(together) < FEWEST_BLOCKS:
        return 0.0
    middle = len(together) // 2
    halves = (statistics.fmean(together[middle:]) - statistics.fmean(together[:middle])) / 2
    # From neighbours: a slow drift is in the scatter of all blocks, but hardly between one block and the next.
    steps = [(later - earlier) ** 2 for earlier, later in pairwise(together)]
    scatter = statistics.fmean(steps) / 2
    return max(0.0, halves**2 - scatter / len(together))


def _mean_of_rows(rows: Sequence[Blocks]) -> list[float]:
    """What all rows did in each block, relative to their own means."""
    blocks: dict[int, list[float]] = {}
    for row in rows:
        if len(row) >= FEWEST_BLOCKS:
            level = statistics.fmean(row.values())
            for block, log in row.items():
                blocks.setdefault(block, []).append(log - level)
    return [statistics.fmean(values) for _, values in sorted(blocks.items())]


def _taken(evidence: Iterable[TenantEvidence]) -> float:
    """Mean share of the device that others took, and the hypervisor; 0 where no sensor says."""
    shares = [(item.foreign_share or 0.0) + (item.steal_share or 0.0) for item in evidence]
    return min(0.95, statistics.fmean(shares)) if shares else 0.0
