"""How much a quantity changed between two runs, and what can be shown about the change.

Runs are independent, so their blocks are compared by Welch's t on logarithms. Differences between two days on the same
machine (memory layout, room temperature, a fresh process) affect all blocks of a run alike and are invisible within
it, so no number of blocks averages them out. The margin covers them. `slower` means shown to be slower by more than
the margin, `same` means shown to be within it; nothing else is claimed.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from cotenant.analyse.comparison.series import BlockSeries
from cotenant.analyse.estimates.distributions import student_t, t_cdf
from cotenant.analyse.estimates.effects import RatioEffect, equivalence, holm, independent_effect
from cotenant.analyse.sharing.evidence import Logs, TenantEvidence
from cotenant.tenancy.interval import Estimate

Verdict = Literal["faster", "slower", "same", "ambiguous"]

MARGIN = 0.03
LEVEL = 0.05
MOST_BLOCKS = 1000
"""No practical run has more blocks than this: the change lies at the margin and will stay there."""


@dataclass(frozen=True, slots=True)
class JudgedChange:
    """The verdict on a change."""

    verdict: Verdict
    p_value: float
    """p-value of the verdict, corrected for the number of rows if it is `faster` or `slower`."""
    blocks_missing: int | None = None
    """For `ambiguous`: blocks per run that would probably decide it; None if no practical number would."""


def change(now: Logs, before: Logs) -> RatioEffect | None:
    """The ratio now / before over independent blocks; None if either run has fewer than two."""
    if min(len(now), len(before)) < 2:
        return None
    return independent_effect(np.exp(list(now.values())), np.exp(list(before.values())))


def judge(effects: Sequence[RatioEffect], margin: float, level: float = LEVEL) -> list[JudgedChange]:
    """Judge all rows of a matrix together.

    The chance of even a single false `slower` is at most ``level``, and so is that of a false `faster` (Holm, a family
    per direction), where false means that the true ratio is within the margin. `same` is wrong with probability at
    most `LEVEL` in each row.
    """
    slower = holm([_p_beyond(effect.log_ratio, effect, margin) for effect in effects])
    faster = holm([_p_beyond(-effect.log_ratio, effect, margin) for effect in effects])
    strictest = level / max(1, len(effects))
    return [
        _judged(effect, float(up), float(down), margin=margin, level=level, strictest=strictest)
        for effect, up, down in zip(effects, slower, faster, strict=True)
    ]


def _judged(
    effect: RatioEffect, slower: float, faster: float, *, margin: float, level: float, strictest: float
) -> JudgedChange:
    if slower <= level:
        return JudgedChange("slower", slower)
    if faster <= level:
        return JudgedChange("faster", faster)
    same = equivalence(effect, margin, LEVEL)
    if same.holds(LEVEL):
        return JudgedChange("same", same.p_value)
    return JudgedChange("ambiguous", min(slower, faster, 1.0), _blocks_missing(effect, margin, strictest))


def _p_beyond(log_ratio: float, effect: RatioEffect, margin: float) -> float:
    """One-sided p-value against "at most the margin"."""
    beyond = log_ratio - math.log1p(margin)
    if effect.standard_error == 0:
        return 0.0 if beyond > 0 else 1.0
    return t_cdf(effect.df, -beyond / effect.standard_error)


def _blocks_missing(effect: RatioEffect, margin: float, strictest: float) -> int | None:
    """Logs per run to add, assuming that the estimate stays and further blocks scatter like those seen."""
    n = effect.ratio.n
    room = abs(abs(effect.log_ratio) - math.log1p(margin))
    within = abs(effect.log_ratio) < math.log1p(margin)
    total = n + 1
    while total - n <= MOST_BLOCKS:
        df = 2 * total - 2
        # student_t is two-sided: a tail is half of what its level leaves.
        wanted = student_t(df, 1 - 2 * (LEVEL if within else strictest))
        if wanted * effect.standard_error * math.sqrt(n / total) <= room:
            return total - n
        total = math.ceil(total * 1.1)
    return None


# --- variance between runs with no change behind it: load that drifts more slowly than a block

DF = 2.0
"""Degrees of freedom: two runs each contribute a difference of halves."""
FEWEST_BLOCKS = 4


def between_variance(runs: Sequence[Iterable[BlockSeries]], evidence: Sequence[Iterable[TenantEvidence]]) -> float:
    """Variance of the log ratio now / before that comes from when a run took place rather than from its blocks."""
    drift = sum(_drift([series.time for series in run]) for run in runs)
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


def _drift(rows: Sequence[Logs]) -> float:
    """Difference between the two halves of a run, beyond what independent blocks would show."""
    together = _mean_of_rows(rows)
    if len(together) < FEWEST_BLOCKS:
        return 0.0
    middle = len(together) // 2
    halves = (statistics.fmean(together[middle:]) - statistics.fmean(together[:middle])) / 2
    # From neighbours: a slow drift is part of the overall scatter, but hardly of the step between neighbouring blocks.
    steps = [(later - earlier) ** 2 for earlier, later in pairwise(together)]
    scatter = statistics.fmean(steps) / 2
    return max(0.0, halves**2 - scatter / len(together))


def _mean_of_rows(rows: Sequence[Logs]) -> list[float]:
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
