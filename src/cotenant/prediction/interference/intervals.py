"""Calibrate interval widths: errors on left-out pairs, in units of the expected deviation.

Known families: leave out one pair at a time. Pairs chosen for measurement have larger deviations than the rest, whose
errors may shrink less than their deviations: so an interval also has to hold in units of a power of them. New families:
leave out entire families and take the widest of their quantiles, because errors within a family are similar and a new
one may resemble the worst. With fewer than `FEWEST` measured mixes, the prior's error on validation data is used
instead.
"""

from dataclasses import dataclass

import numpy as np

from cotenant.prediction.interference.correction import Correction
from cotenant.prediction.kernels.columns import Bools, Floats, Ints

_LEAST, _LEVEL = 3, 0.9
"""Mixes from which on their own errors count."""
FEWEST = 20
"""Minimum number of measured mixes for intervals from the evidence."""
NORMAL = 1.645
"""Half-width of a 90 % interval in standard deviations, if errors are normal."""
DAMPING = 0.75
"""Errors grow at least with this power of the expected deviation. With 50 chosen pairs of Gavel's jobs on a P100, and
variances fitted on a V100, 85 % of the intervals in plain deviations hold."""
MANY_OF_A_FAMILY = 8
"""A family with this many measured mixes is known, regardless of the others."""


@dataclass(frozen=True, slots=True)
class Widths:
    """Half-width of a log interval in expected deviations, or absolute; see `relative`."""

    known: float
    new: float
    damped: float
    """The same in units of the deviation to the power `DAMPING`."""
    relative: bool
    """False if there is too little evidence: both numbers are then absolute half-widths of the logarithm."""
    known_families: Ints

    def half(self, deviation: Floats, new: Bools) -> Floats:
        """Half-widths for cells with these expected deviations; ``new`` marks cells with a tenant of a new family."""
        factor = np.where(new, self.new, self.known)
        if not self.relative:
            return np.asarray(factor + 0.0 * deviation)
        return np.asarray(np.maximum(factor * deviation, self.damped * deviation**DAMPING))

    def variance_within(self, half: float, new: Bools, noise: float) -> Floats:
        """The variance of a correction at which an interval is as narrow as this.

        With too little evidence for a factor, deviations are taken at their word.
        """
        if not self.relative:
            return np.full(new.shape, max((half / NORMAL) ** 2 - noise, 0.0))
        deviation = np.minimum(half / np.where(new, self.new, self.known), (half / self.damped) ** (1 / DAMPING))
        return np.asarray(np.maximum(deviation**2 - noise, 0.0))


def widths(correction: Correction, *, level: float, prior_half: float, errors: Floats | None = None) -> Widths:
    """Calibrate on the evidence.

    Args:
        correction: The correction with its evidence.
        level: Level of the interval, e.g. 0.9.
        prior_half: Half-width of the prior's own interval at that level, validated on other data.
        errors: Errors of what is predicted, each mix left out; default: those of the correction.
    """
    evidence = correction.evidence
    if evidence.cells < FEWEST:
        half = _with_few(correction, prior_half, errors)
        return Widths(half, half, 0.0, relative=False, known_families=np.empty(0, np.int64))
    error, deviation = correction.left_out(evidence.cell)
    error = error if errors is None else errors
    known = quantile_up(np.abs(error) / deviation, level)
    damped = quantile_up(np.abs(error) / deviation**DAMPING, level)
    families = known_families(correction)
    new = max(known, _widest(correction, families, level))
    return Widths(known, new, damped, relative=True, known_families=families)


def _with_few(correction: Correction, prior_half: float, errors: Floats | None) -> float:
    """The prior's half-width, or one drawn to that of mixes left out where these are farther off."""
    cells = correction.evidence.cells
    if cells < _LEAST:
        return prior_half
    left_out = correction.left_out(correction.evidence.cell)[0] if errors is None else errors
    seen = quantile_up(np.abs(left_out), _LEVEL)
    return max(float(np.sqrt((FEWEST * prior_half**2 + cells * seen**2) / (FEWEST + cells))), prior_half)


def known_families(correction: Correction) -> Ints:
    """Families with about as many measured mixes as the others, or enough in any case."""
    counts = {family: np.unique(correction.evidence.cell[rows]).size for family, rows in _by_family(correction).items()}
    if not counts:
        return np.empty(0, np.int64)
    enough = min(MANY_OF_A_FAMILY, float(np.median(list(counts.values()))) / 2)
    return np.array(sorted(family for family, count in counts.items() if count >= enough), np.int64)


def quantile_up(scores: Floats, level: float) -> float:
    """The quantile that a new score stays below with this probability, corrected for sample size."""
    ordered = np.sort(scores)
    index = int(np.ceil((ordered.size + 1) * level)) - 1
    return float(ordered[min(index, ordered.size - 1)])


def _widest(correction: Correction, families: Ints, level: float) -> float:
    rows = _by_family(correction)
    quantiles = []
    for family in families:
        if len(correction.evidence) == rows[family].size:
            continue  # nothing would be left to predict from
        error, deviation = correction.without(rows[family])
        quantiles.append(quantile_up(np.abs(error) / deviation, level))
    return max(quantiles, default=0.0)


def _by_family(correction: Correction) -> dict[int, Ints]:
    families = correction.setting.families
    rows = correction.evidence.rows
    member = np.where(rows >= 0, families[np.maximum(rows, 0)], -1)
    return {int(family): np.flatnonzero((member == family).any(axis=1)) for family in np.unique(member) if family >= 0}
