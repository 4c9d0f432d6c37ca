"""Slowdowns of any mixes, each with an interval and its basis, for planning and `predict`."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from cotenant.prediction.interference.correction import Correction, Evidence
from cotenant.prediction.interference.covariance import Variances
from cotenant.prediction.interference.intervals import NORMAL, Widths, quantile_up, widths
from cotenant.prediction.interference.setting import Setting, by_victim, group_size, present
from cotenant.prediction.interference.stacking import Stack
from cotenant.prediction.kernels.columns import Bools, Floats, Ints
from cotenant.tenancy.interval import Interval

# --- How much of a learnt correction carries over to tenants of families without evidence
#
# The prior's errors are alike within a family, so what was learnt on some families may be wrong for another. Families
# of the evidence are left out, alone and in pairs; the share of the correction that would have predicted their mixes
# best, less a standard error, applies to families that were never measured: without clear evidence for the correction,
# the prior stands.

_MOST_PAIRS = 200
"""Pairs of families to leave out."""
_HEAD_START = 1.0
"""Of the prior against the correction, in measured mixes: learnt from a single pair, the correction of others was off
by more than the prior alone (28 against 19 % on a V100 where only times describe Gavel's jobs)."""
_LEAST = 1e-9
"""Part of a sum that is distinguishable from rounding."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the correction, from 0 (the prior alone) to 1."""

    some: float
    """Where some tenants of a mix are of a new family."""
    every: float
    """Where all are."""
    seen: Ints
    """Families with evidence."""

    def of(self, families: Ints, rows: Ints) -> Floats:
        """By row: the share to apply."""
        there = present(rows)
        new = ~np.isin(families[np.maximum(rows, 0)], self.seen) & there
        every = (new | ~there).all(axis=1)
        return np.where(every, self.every, np.where(new.any(axis=1), self.some, 1.0))


def shares(correction: Correction) -> Shares:
    """Estimate the shares from the evidence; 1 where it has too few families to tell."""
    families = correction.setting.families[np.maximum(correction.evidence.rows, 0)]
    there = present(correction.evidence.rows)
    seen = np.unique(families[there])
    some, every = [], []
    for left_out in seen[:, None]:
        own = (families == left_out) & there
        inside = (own | ~there).all(axis=1)
        some.append(_products(correction, own.any(axis=1), ~inside))
        every.append(_products(correction, own.any(axis=1), inside))
    for pair in _measured_pairs(families, there):
        first, second = ((families == family) & there for family in pair[:, None])
        between = first.any(axis=1) & second.any(axis=1) & (first | second | ~there).all(axis=1)
        every.append(_products(correction, (first | second).any(axis=1), between))
    return Shares(_share(np.array(some)), _share(np.array(every)), seen)


def _measured_pairs(families: Ints, there: Bools) -> Ints:
    """Two families each, of measured mixes with tenants of just these."""
    low = np.where(there, families, families.max(initial=0)).min(axis=1)
    high = np.where(there, families, -1).max(axis=1)
    of_two = ((families == low[:, None]) | (families == high[:, None]) | ~there).all(axis=1) & (low < high)
    pairs = np.unique(np.column_stack((low, high))[of_two], axis=0)
    return pairs[:: max(1, -(-len(pairs) // _MOST_PAIRS))]


def _products(correction: Correction, left_out: Bools, judged: Bools) -> tuple[float, float]:
    """Sums over the judged rows: the prior's error times the correction learnt without these; the latter squared."""
    mine = np.flatnonzero(left_out)
    if mine.size == left_out.size or not (left_out & judged).any():
        return 0.0, 0.0
    error, _ = correction.without(mine)
    judging = judged[mine]
    residual = correction.residual[mine][judging]
    learnt = residual - error[judging]
    return float(residual @ learnt), float(learnt @ learnt)


def _share(products: Floats) -> float:
    """The least-squares share, less a jackknife's standard error."""
    products = products.reshape(-1, 2)
    products = products[products[:, 1] > 0]
    if len(products) < 2:
        return 1.0
    total = products.sum(axis=0)
    without = total - products
    each = without[:, 0] / np.maximum(without[:, 1], _LEAST * total[1])
    error = float(np.sqrt((len(each) - 1) * each.var()))
    return float(np.clip(total[0] / total[1] - error, 0.0, 1.0))


MEASURED: Final = 0
FROM_PAIRS: Final = 1
PRIOR_ONLY: Final = 2

LEVEL = 0.9
"""Level of every interval."""


@dataclass(frozen=True, slots=True)
class Slowdowns:
    """Rows x places of the requested mixes; NaN (or -1) in empty places."""

    estimate: Floats
    low: Floats
    high: Floats
    basis: Ints
    """`MEASURED`, `FROM_PAIRS` or `PRIOR_ONLY`."""
    count: Ints
    """Blocks of a measured mix; otherwise, measured mixes with this tenant."""


@dataclass(frozen=True, slots=True)
class Typical:
    """The median measured slowdown, and mean errors on mixes left out."""

    slowdown: Interval
    constant: float
    """Error of predicting it every time..."""
    ours: float
    """... and of our predictions."""
    sure: bool
    """Whether the mixes suffice to tell which is closer."""


class Predictor:
    """Prior, evidence and calibration for a kind of device under a way to share."""

    def __init__(
        self, setting: Setting, evidence: Evidence, variances: Variances, *, prior_half: float, level: float = LEVEL
    ) -> None:
        """Condition the correction on the evidence and calibrate its intervals.

        Args:
            setting: The tenants and the prior.
            evidence: Measured mixes; may be empty.
            variances: Variances of the correction.
            prior_half: Half-width of the prior's interval for a log slowdown, validated on other data.
            level: Level of the intervals.
        """
        self.setting = setting
        self.evidence = evidence
        self.correction = Correction(setting, evidence, variances)
        self.stack = Stack(self.correction)
        self.widths: Widths = widths(self.correction, level=level, prior_half=prior_half, errors=self.stack.errors)
        width = max(evidence.rows.shape[1], 2)
        self._seen = {row.tobytes(): number for number, row in enumerate(_canonical(evidence.rows, width))}
        self._width = width
        self._level = level
        self._prior_half = prior_half

    def slowdowns(self, mixes: Ints) -> Slowdowns:
        """Slowdown of every tenant of every mix."""
        which, column, rows = by_victim(mixes)
        prior = self.setting.prior(mixes)[which, column]
        share = self.carried_over.of(self.setting.families, rows)
        cells = self.evidence.cells
        share = share * np.where(self._pairs_measured(rows), 1.0, cells / (cells + _HEAD_START))
        learnt = self.correction.mean(rows)
        logs = self.stack.mean(rows, prior + share * learnt)
        # What was left out of the correction may be right after all.
        half = self._half(rows, share) + (1 - share) * np.abs(learnt)
        count = self.measured_with[rows[:, 0]]
        basis = np.full(len(rows), FROM_PAIRS if len(self.evidence) else PRIOR_ONLY, np.int64)
        # No tenant is faster than alone, apart from noise and from what was measured here.
        fastest = min(float(self.evidence.logs.min(initial=0.0)), 0.0)
        least = np.minimum(logs, fastest) - np.sqrt(self.correction.variances.noise)
        low, high = np.maximum(logs - half, least), logs + half
        for row, known in self._known(rows):
            logs[row] = self.evidence.logs[known]
            spread = self.evidence.half[known]
            low[row], high[row] = logs[row] - spread, logs[row] + spread
            basis[row], count[row] = MEASURED, self.evidence.blocks[known]
        return Slowdowns(
            estimate=_at(mixes, which, column, np.exp(logs), np.nan),
            low=_at(mixes, which, column, np.exp(low), np.nan),
            high=_at(mixes, which, column, np.exp(high), np.nan),
            basis=_at(mixes, which, column, basis, -1).astype(np.int64),
            count=_at(mixes, which, column, count, -1).astype(np.int64),
        )

    @cached_property
    def carried_over(self) -> Shares:
        """How much of the correction applies to tenants of new families."""
        return shares(self.correction)

    @cached_property
    def measured_with(self) -> Ints:
        """By tenant: number of measured mixes with it."""
        counts = np.zeros(len(self.setting), np.int64)
        for tenant in range(len(self.setting)):
            mine = (self.evidence.rows == tenant).any(axis=1)
            counts[tenant] = np.unique(self.evidence.cell[mine]).size
        return counts

    def variance_within(self, half: float, mixes: Ints) -> Floats:
        """By mix: the variance of a correction, without noise, at which its intervals are as narrow as this."""
        return self.widths.variance_within(half, self._new(mixes), self.correction.variances.noise)

    def typical(self) -> Typical | None:
        """The typical slowdown, and how well it and ours predict mixes left out; None below three measured mixes."""
        if self.evidence.cells < 3:
            return None
        logs = self.evidence.logs
        constant = np.array(
            [logs[i] - np.median(logs[self.evidence.cell != self.evidence.cell[i]]) for i in range(logs.size)]
        )
        ours = self.stack.errors
        ordered = np.sort(logs)
        # Order statistics that hold the median in nine of ten samples.
        away = int(np.ceil(NORMAL * np.sqrt(ordered.size) / 2))
        low, high = max((ordered.size - 1) // 2 - away, 0), min(ordered.size // 2 + away, ordered.size - 1)
        gain = np.abs(np.expm1(constant)) - np.abs(np.expm1(ours))
        by_cell = np.array([gain[self.evidence.cell == cell].mean() for cell in np.unique(self.evidence.cell)])
        unsure = float(by_cell.std(ddof=1) / np.sqrt(by_cell.size))
        return Typical(
            Interval(*(float(np.exp(log)) for log in (np.median(logs), ordered[low], ordered[high]))),
            _mean_error(constant),
            _mean_error(ours),
            sure=abs(float(by_cell.mean())) > NORMAL * unsure,
        )

    def left_out_quantile(self, level: float) -> float:
        """Quantile of the relative error on left-out mixes."""
        return float(np.expm1(quantile_up(np.abs(self.stack.errors), level)))

    def _half(self, rows: Ints, share: Floats) -> Floats:
        """Half-widths of log intervals."""
        deviation = np.sqrt(self.correction.variance_of_pairs(rows))
        half = self.widths.half(deviation, self._new(rows))
        # As far as an estimate rests on the prior, it is no better known than the prior.
        half = np.maximum(half, (1 - share) * np.nan_to_num(self._prior_half))
        if not self.widths.relative:
            # Pairs that were measured themselves need no calibration on others.
            half = np.where(self._pairs_measured(rows), NORMAL * deviation, half)
        return np.hypot(half, self.correction.variances.group_half * group_size(rows))

    def _pairs_measured(self, rows: Ints) -> Bools:
        """Groups in which the victim was measured beside each neighbour."""
        there = present(rows[:, 1:])
        pairs = self._measured[rows[:, :1], np.maximum(rows[:, 1:], 0)] | ~there
        return np.asarray(pairs.all(axis=1) & (there.sum(axis=1) > 1))

    @cached_property
    def _measured(self) -> Bools:
        """Tenants x tenants: whether the first was measured beside just the second."""
        table = np.zeros((len(self.setting), len(self.setting)), bool)
        of_two = self.evidence.rows[present(self.evidence.rows).sum(axis=1) == 2]
        table[of_two[:, 0], of_two[:, 1]] = True
        return table

    def _new(self, rows: Ints) -> Bools:
        families = np.where(present(rows), self.setting.families[np.maximum(rows, 0)], -1)
        strange = ~np.isin(families, self.widths.known_families) & present(rows)
        return np.asarray(strange.any(axis=1))

    def _known(self, rows: Ints) -> list[tuple[int, int]]:
        """Measured rows and their position in the evidence; copies of a tenant are the same victim."""
        there = present(rows)
        possible = (there.sum(axis=1) <= self._width) & (self.measured_with[np.maximum(rows, 0)] > 0).all(
            axis=1, where=there
        )
        places = np.flatnonzero(possible)
        positions = [
            (int(row), self._seen.get(mix.tobytes()))
            for row, mix in zip(places, _canonical(rows[places], self._width), strict=True)
        ]
        return [(row, known) for row, known in positions if known is not None]


def _canonical(rows: Ints, width: int) -> Ints:
    """The victim, then its neighbours in descending order, cut or padded to the same width."""
    others = -np.sort(-rows[:, 1:], axis=1)
    filled = np.full((len(rows), width), -1, np.int64)
    filled[:, 0] = rows[:, 0]
    kept = min(others.shape[1], width - 1)
    filled[:, 1 : 1 + kept] = others[:, :kept]
    return filled


def _at(mixes: Ints, which: Ints, column: Ints, values: Floats | Ints, absent: float) -> Floats:
    table = np.full(mixes.shape, absent, np.float64)
    table[which, column] = values
    return table


def _mean_error(errors: Floats) -> float:
    return float(np.mean(np.abs(np.expm1(errors))))


# --- Slowdowns under open loads: a neighbour slows a tenant down only while it is busy

_ROUNDS = 30


def stretched(solo_s: Floats, slowdown: Floats, weights: Floats, rate_rps: Floats) -> Floats:
    """Service times of the tenants of a mix under their loads.

    Args:
        solo_s: Service time alone.
        slowdown: Slowdown beside neighbours that are always busy.
        weights: Tenants x tenants: fraction of a slowdown due to each neighbour; rows sum to 1.
        rate_rps: Arrivals per second; NaN: always busy.
    """
    service = solo_s * slowdown
    for _ in range(_ROUNDS):
        busy = np.where(np.isnan(rate_rps), 1.0, np.minimum(rate_rps * service, 1.0))
        service = solo_s * (1 + (slowdown - 1) * (weights @ busy))
    return np.asarray(service)
