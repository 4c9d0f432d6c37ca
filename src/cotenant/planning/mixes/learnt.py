"""Correct the mixes of a plan with measured ones: a factor on the simulated slowdown, its interval and its basis.

Measured slowdowns are those beside neighbours that are always busy; a plan's tenants rarely are. A correction applies
in proportion to how close the simulated slowdown is to the one beside busy neighbours.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cotenant.planning.mixes.predictor import Mixes
from cotenant.planning.solver.problem import Floats, Ints
from cotenant.prediction.interference.predictor import MEASURED, Predictor

_NOTHING = 1e-3
"""Log slowdowns below this count as zero: tenants that don't interfere need no correction."""


@dataclass(frozen=True, slots=True)
class Factors:
    """Factors on simulated slowdowns, mixes x seats, and their basis."""

    factor: Floats
    half: Floats
    """Half-width of its logarithm; NaN without measurements, where the simulation's interval applies."""
    basis: tuple[str | None, ...]
    """By mix: `measured`, `3 mixes`; None without measurements."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """A predictor with measurements, for one kind of device and one way to share."""

    predictor: Predictor
    places: Mapping[tuple[int, int], int]
    """By plan tenant and batch: its index among the predictor's tenants."""

    def factors(self, mixes: Mixes, slowdown: Floats) -> Factors:
        """Corrections for mixes whose tenants are all known at these batches; 1 for the others.

        Args:
            mixes: Mixes of a plan.
            slowdown: Mixes x seats, simulated at the plan's loads.
        """
        places = self._places(mixes)
        whole = (places >= 0).sum(axis=1) == mixes.there.sum(axis=1)
        asked = np.flatnonzero(whole & (mixes.there.sum(axis=1) > 1))
        factor, half = np.ones(slowdown.shape), np.full(slowdown.shape, np.nan)
        basis: list[str | None] = [None] * len(slowdown)
        if not asked.size or not len(self.predictor.evidence):
            return Factors(factor, half, tuple(basis))
        rows = -np.sort(-places[asked], axis=1)
        order = np.argsort(-places[asked], axis=1, kind="stable")
        found = self.predictor.slowdowns(rows)
        prior = self.predictor.setting.prior(rows)
        part = np.clip(np.log(np.take_along_axis(slowdown[asked], order, 1)) / np.maximum(prior, _NOTHING), 0.0, 1.0)
        logs = np.nan_to_num(part * (np.log(found.estimate) - prior))
        wide = part * np.log(found.high / found.estimate)
        back = np.argsort(order, axis=1, kind="stable")
        factor[asked] = np.exp(np.take_along_axis(logs, back, 1))
        half[asked] = np.take_along_axis(wide, back, 1)
        for row, mix in enumerate(asked):
            measured = found.basis[row, 0] == MEASURED
            fewest = int(found.count[row][rows[row] >= 0].min())
            basis[mix] = "measured" if measured else f"{fewest} mixes" if fewest else None
        return Factors(factor, half, tuple(basis))

    def _places(self, mixes: Mixes) -> Ints:
        seats = np.stack([mixes.tenants, mixes.batch], axis=-1).reshape(-1, 2)
        needed, index = np.unique(seats, axis=0, return_inverse=True)
        places = np.array([self.places.get((int(tenant), int(batch)), -1) for tenant, batch in needed], np.int64)
        return places[index.reshape(mixes.tenants.shape)]
