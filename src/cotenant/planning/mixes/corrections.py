"""Correct predictions with measurements.

A run measures how much slower a tenant was beside others. The prediction for the same mix at the same load is scaled
to agree: the factor applies to the time neighbours add. Larger mixes get the mean correction of their measured pairs;
the product of pairwise slowdowns would be far off.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.solver.problem import NOBODY, Floats

SLIGHT = 0.02
"""Excess time below which a ratio of excesses is meaningless."""
FARTHEST = 5.0
"""Corrections are clipped to this factor, either way."""


@dataclass(frozen=True, slots=True)
class MeasuredGroup:
    """Measured slowdown of each tenant in a mix."""

    slowdown: Mapping[int, float]
    """By tenant index; copies of a tenant count once, with their mean."""
    half: float
    """Relative half-width of its widest interval."""
    blocks: int
    simulated: bool = False
    """The run used a simulated device."""

    @property
    def basis(self) -> str:
        """Source of corrected figures."""
        kind = "simulated run" if self.simulated else "measured"
        return f"{kind} ({self.blocks} blocks), scaled to the rates"


@dataclass(frozen=True, slots=True)
class Corrections:
    """Factors on the time that neighbours add."""

    mixes: Mapping[tuple[str, tuple[int, ...]], tuple[Mapping[int, float], MeasuredGroup]]
    """By sharing and sorted tenants: each tenant's factor, and the measurement."""

    def apply(
        self, mixes: Mixes, slowdown: Floats, *, least: float = 0.0
    ) -> tuple[Floats, Floats, tuple[str | None, ...]]:
        """Corrected slowdowns, half-widths by mix, and a basis for mixes covered by a measurement.

        Half-widths are infinite for mixes that weren't measured on a real device.

        Args:
            mixes: Mixes to correct.
            slowdown: Predicted slowdowns.
            least: Half-width of what a measured slowdown doesn't cover, such as queueing.
        """
        corrected, halves = slowdown.copy(), np.full(len(slowdown), np.inf)
        basis: list[str | None] = [None] * len(slowdown)
        if not self.mixes:
            return corrected, halves, tuple(basis)
        for row, tenants in enumerate(mixes.tenants):
            there = [int(tenant) for tenant in tenants if tenant != NOBODY]
            if len(there) < 2:
                continue
            known = self.mixes.get((mixes.sharing, tuple(sorted(there))))
            if known is not None:
                factors, measured = known
                if not measured.simulated:
                    halves[row] = float(np.hypot(measured.half, least))
                basis[row] = measured.basis
                for seat, tenant in enumerate(there):
                    corrected[row, seat] = 1 + (slowdown[row, seat] - 1) * factors[tenant]
                continue
            corrected_any = False
            for seat, tenant in enumerate(there):
                others = there[:seat] + there[seat + 1 :]
                logs = [
                    np.log(pair[0][tenant])
                    for other in others
                    if (pair := self.mixes.get((mixes.sharing, tuple(sorted((tenant, other)))))) is not None
                ]
                if logs:
                    corrected_any = True
                    corrected[row, seat] = 1 + (slowdown[row, seat] - 1) * float(np.exp(np.mean(logs)))
            if corrected_any:
                basis[row] = "simulated, corrected by pairs of runs"
        return corrected, halves, tuple(basis)


NOTHING = Corrections({})


def factors_of(measured: MeasuredGroup, predicted: Mapping[int, float]) -> Mapping[int, float]:
    """Factors that scale each tenant's predicted excess time to the measured."""
    return {
        tenant: float(np.clip((slowdown - 1 + SLIGHT) / (predicted[tenant] - 1 + SLIGHT), 1 / FARTHEST, FARTHEST))
        for tenant, slowdown in measured.slowdown.items()
    }
