"""What was measured, and how it corrects a prediction.

A run says how much slower a tenant was beside others. The prediction for the same mix at the same load is made to agree
with it: what neighbours add to its time is scaled. Larger mixes get the mean correction of their measured pairs. A
product of pairs' slowdowns would be far off.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.solver.problem import NOBODY, Floats

SLIGHT = 0.02
"""Excess time below which a ratio of excesses says nothing."""
FARTHEST = 5.0
"""Corrections are taken up to this factor, either way."""


@dataclass(frozen=True, slots=True)
class MeasuredMix:
    """How much slower each tenant was in one mix."""

    slowdown: Mapping[int, float]
    """By the tenant's number; copies of a tenant count once, with their mean."""
    half: float
    """Relative half-width of the widest of its intervals."""
    blocks: int
    simulated: bool = False
    """The run was one on a simulated device."""

    @property
    def basis(self) -> str:
        """Where corrected figures come from."""
        kind = "simulated run" if self.simulated else "measured"
        return f"{kind} ({self.blocks} blocks), scaled to the rates"


@dataclass(frozen=True, slots=True)
class Corrections:
    """By how much what neighbours add has to be scaled."""

    mixes: Mapping[tuple[str, tuple[int, ...]], tuple[Mapping[int, float], MeasuredMix]]
    """By sharing and tenants in order: the factor of each tenant, and the measurement."""

    def apply(
        self, mixes: Mixes, slowdown: Floats, half: float, *, least: float = 0.0
    ) -> tuple[Floats, Floats, tuple[str | None, ...]]:
        """Corrected slowdowns, half-widths by mix, and a basis for mixes that a measurement speaks about.

        Args:
            mixes: Asked about.
            slowdown: As predicted.
            half: Half-width of what is predicted.
            least: Of what a measured slowdown leaves open, such as the wait in a queue.
        """
        corrected, halves = slowdown.copy(), np.full(len(slowdown), half)
        basis: list[str | None] = [None] * len(slowdown)
        for row, tenants in enumerate(mixes.tenants):
            there = [int(tenant) for tenant in tenants if tenant != NOBODY]
            if len(there) < 2:
                continue
            known = self.mixes.get((mixes.sharing, tuple(sorted(there))))
            if known is not None:
                factors, measured = known
                halves[row] = half if measured.simulated else min(half, float(np.hypot(measured.half, least)))
                basis[row] = measured.basis
                for place, tenant in enumerate(there):
                    corrected[row, place] = 1 + (slowdown[row, place] - 1) * factors[tenant]
                continue
            corrected_any = False
            for place, tenant in enumerate(there):
                others = there[:place] + there[place + 1 :]
                logs = [
                    np.log(found[0][tenant])
                    for other in others
                    if (found := self.mixes.get((mixes.sharing, tuple(sorted((tenant, other)))))) is not None
                ]
                if logs:
                    corrected_any = True
                    corrected[row, place] = 1 + (slowdown[row, place] - 1) * float(np.exp(np.mean(logs)))
            if corrected_any:
                basis[row] = "simulated, corrected by pairs of runs"
        return corrected, halves, tuple(basis)


NOTHING = Corrections({})


def factors_of(measured: MeasuredMix, predicted: Mapping[int, float]) -> Mapping[int, float]:
    """What scales each tenant's predicted excess time to the measured one."""
    return {
        tenant: float(np.clip((slowdown - 1 + SLIGHT) / (predicted[tenant] - 1 + SLIGHT), 1 / FARTHEST, FARTHEST))
        for tenant, slowdown in measured.slowdown.items()
    }
