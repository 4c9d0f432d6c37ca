"""Ask the slower predictor where the faster can't decide: its estimate keeps every limit, its upper end doesn't.

The fast predictor's range includes its difference from the slower predictor. Tenants alone on a whole device always get
a second opinion; groups get one where a plan depends on it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cotenant.planning.mixes.predictor import Mixes, MixPredictor, PredictedMix, Range
from cotenant.planning.mixes.tenants import ServingTenant
from cotenant.planning.solver.problem import Bools, Floats

FOREVER_MS = 1e12


class SecondOpinion:
    """A predictor that asks another about rows it leaves open."""

    def __init__(
        self,
        rough: MixPredictor,
        closer: MixPredictor,
        tenants: Sequence[ServingTenant],
    ) -> None:
        self.rough, self.closer = rough, closer
        self.limits = limits_of(tenants)
        self.also: set[tuple[int, ...]] = set()
        """Groups of tenants, sorted, that get a second opinion as well."""

    def __call__(self, mixes: Mixes, /) -> PredictedMix:
        """What would happen."""
        predicted = self.rough(mixes)
        rows = np.flatnonzero(self.undecided(mixes, predicted) & self._asked(mixes))
        if not rows.size:
            return predicted
        second = self.closer(
            Mixes(
                mixes.device, mixes.sharing, mixes.tenants[rows], mixes.rate_rps[rows], mixes.batch[rows],
                mixes.share[rows], mixes.clock_mhz,
            )
        )  # fmt: skip
        basis = list(predicted.basis)
        for row, source in zip(rows, second.basis, strict=True):
            basis[row] = source
        return replace(
            predicted,
            latency_ms=_replaced(predicted.latency_ms, second.latency_ms, rows),
            slowdown=_replaced(predicted.slowdown, second.slowdown, rows),
            basis=tuple(basis),
        )

    def undecided(self, mixes: Mixes, predicted: PredictedMix) -> Bools:
        """Mixes whose estimates keep every limit while an upper end doesn't."""
        limits = self.limits[mixes.tenants][..., : predicted.latency_ms.upper.shape[2]]
        there = mixes.there[..., None]
        possible = ~((predicted.latency_ms.estimate > limits) & there).any(axis=(1, 2))
        return np.asarray(possible & ((predicted.latency_ms.upper > limits) & there).any(axis=(1, 2)))

    def _asked(self, mixes: Mixes) -> Bools:
        alone = (mixes.there.sum(axis=1) == 1) & ~np.isfinite(mixes.share).any(axis=1)
        if not self.also:
            return np.asarray(alone)
        named = [tuple(sorted(int(tenant) for tenant in row if tenant >= 0)) in self.also for row in mixes.tenants]
        return np.asarray(alone | np.array(named, dtype=bool))


def limits_of(tenants: Sequence[ServingTenant]) -> Floats:
    """Tenants x objectives; without an objective, any finite time will do. The last row is an empty seat."""
    width = max((len(tenant.objectives) for tenant in tenants), default=0) or 1
    limits = np.full((len(tenants) + 1, width), FOREVER_MS)
    for number, tenant in enumerate(tenants):
        limits[number, : len(tenant.objectives)] = [objective.limit_ms for objective in tenant.objectives]
    return limits


def _replaced(before: Range, after: Range, rows: np.ndarray) -> Range:
    ends = []
    for name in ("lower", "estimate", "upper"):
        values = getattr(before, name).copy()
        values[rows] = getattr(after, name)
        ends.append(values)
    return Range(*ends)
