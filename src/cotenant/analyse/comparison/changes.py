"""How much a quantity changed between two runs, and what can be shown about the change.

Runs are independent, so their blocks are compared by Welch's t on logarithms. Differences between two days on the same
machine (memory layout, room temperature, a fresh process) affect all blocks of a run alike and are invisible within
it, so no number of blocks averages them out. The margin covers them. `slower` means shown to be slower by more than
the margin, `same` means shown to be within it; nothing else is claimed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cotenant.analyse.comparison.series import Blocks
from cotenant.analyse.estimates.effects import RatioEffect, independent_effect
from cotenant.analyse.estimates.equivalence import equivalence
from cotenant.analyse.estimates.intervals import student_t
from cotenant.analyse.estimates.multiple import holm

Verdict = Literal["faster", "slower", "same", "ambiguous"]

MARGIN = 0.03
LEVEL = 0.05
MOST_BLOCKS = 1000
"""No practical run has more blocks than this: the change lies at the margin and will stay there."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a change."""

    verdict: Verdict
    p_value: float
    """p-value of the verdict, corrected for the number of rows if it is `faster` or `slower`."""
    blocks_missing: int | None = None
    """For `ambiguous`: blocks per run that would probably decide it; None if no practical number would."""


def change(now: Blocks, before: Blocks) -> RatioEffect | None:
    """The ratio now / before over independent blocks; None if either run has fewer than two."""
    if min(len(now), len(before)) < 2:
        return None
    return independent_effect(np.exp(list(now.values())), np.exp(list(before.values())))


def judge(effects: Sequence[RatioEffect], margin: float, level: float = LEVEL) -> list[Judged]:
    """Judge all rows of a matrix together.

    The chance of even one false `slower` is at most ``level``, and so is that of one false `faster` (Holm, one family
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
) -> Judged:
    if slower <= level:
        return Judged("slower", slower)
    if faster <= level:
        return Judged("faster", faster)
    same = equivalence(effect, margin, LEVEL)
    if same.holds(LEVEL):
        return Judged("same", same.p_value)
    return Judged("ambiguous", min(slower, faster, 1.0), _blocks_missing(effect, margin, strictest))


def _p_beyond(log_ratio: float, effect: RatioEffect, margin: float) -> float:
    """One-sided p-value against "at most the margin"."""
    from scipy import special

    beyond = log_ratio - math.log1p(margin)
    if effect.standard_error == 0:
        return 0.0 if beyond > 0 else 1.0
    return float(special.stdtr(effect.df, -beyond / effect.standard_error))


def _blocks_missing(effect: RatioEffect, margin: float, strictest: float) -> int | None:
    """Blocks per run to add, assuming that the estimate stays and further blocks scatter like those seen."""
    n = effect.ratio.n
    room = abs(abs(effect.log_ratio) - math.log1p(margin))
    within = abs(effect.log_ratio) < math.log1p(margin)
    total = n + 1
    while total - n <= MOST_BLOCKS:
        df = 2 * total - 2
        # student_t is two-sided: one tail is half of what its level leaves.
        wanted = student_t(df, 1 - 2 * (LEVEL if within else strictest))
        if wanted * effect.standard_error * math.sqrt(n / total) <= room:
            return total - n
        total = math.ceil(total * 1.1)
    return None
