"""Mix the learnt correction, additive effects and a constant by how well each predicts mixes left out.

A table may be too small, or its tenants too little known, for the correction to beat simpler laws. Weights are chosen
on measured pairs left out one at a time, and drawn towards the correction alone while these are few (stacking: Wolpert
1992; Breiman 1996).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import nnls

from cotenant.prediction.interference.correction import Correction, Evidence
from cotenant.prediction.interference.setting import present
from cotenant.prediction.kernels.columns import Bools, Floats, Ints

PARTS = ("the simulation, corrected", "additive effects", "a constant")
FEWEST = 6
"""Fewer pairs say nothing about weights."""
_PULL = 8.0
"""Strength of the correction's head start, in pairs."""
_SUM = 1e3
"""Weight of the equation that weights add up to 1."""


@dataclass(frozen=True)
class Stack:
    """Parts and their weights, which add up to 1."""

    correction: Correction

    @cached_property
    def weights(self) -> Floats:
        """By part."""
        first = np.array([1.0, 0.0, 0.0])
        pairs = self._pairs
        if pairs.cells < FEWEST:
            return first
        left_out = self._left_out
        spread = float(np.mean(np.var(left_out - pairs.logs[:, None], axis=0))) or 1.0
        pull = np.sqrt(_PULL * max(float(np.var(left_out[:, 1:] - left_out[:, :1])), 1e-6 * spread))
        design = np.vstack([left_out, pull * np.eye(3), _SUM * np.ones((1, 3))])
        fitted, _ = nnls(design, np.concatenate([pairs.logs, pull * first, [_SUM]]))
        return np.asarray(fitted / fitted.sum())

    def mean(self, rows: Ints, corrected: Floats) -> Floats:
        """Log slowdowns, given those of the corrected simulation.

        Groups, and pairs with a tenant that no mix was measured with, are left as they are: simple laws say nothing.
        """
        weights = self.weights
        known = np.isin(rows, self.correction.evidence.rows) | ~present(rows)
        two = (present(rows).sum(axis=1) == 2) & known.all(axis=1)
        if weights[0] == 1.0 or not two.any():
            return corrected
        result = corrected.copy()
        asked = rows[two][:, :2]
        tenants = len(self.correction.setting)
        parts = corrected[two], additive(self._pairs, asked, tenants), constant(self._pairs, asked)
        result[two] = sum(weight * part for weight, part in zip(weights, parts, strict=True))
        return result

    @cached_property
    def errors(self) -> Floats:
        """Errors of the logarithms on the evidence's rows, each left out with its mix."""
        errors, _ = self.correction.left_out(self.correction.evidence.cell)
        if self.weights[0] < 1.0:
            errors = errors.copy()
            errors[self._two] = self._pairs.logs - self._left_out @ self.weights
        return errors

    @cached_property
    def _two(self) -> Bools:
        return np.asarray(present(self.correction.evidence.rows).sum(axis=1) == 2)

    @cached_property
    def _pairs(self) -> Evidence:
        return self.correction.evidence.only(np.flatnonzero(self._two))

    @cached_property
    def _left_out(self) -> Floats:
        """Rows of pairs x parts: what each part predicts without the row's mix."""
        pairs, tenants = self._pairs, len(self.correction.setting)
        errors, _ = self.correction.left_out(self.correction.evidence.cell)
        medians = np.zeros(len(pairs))
        for cell in np.unique(pairs.cell):
            mine = pairs.cell == cell
            medians[mine] = np.median(pairs.logs[~mine])
        return np.column_stack([pairs.logs - errors[self._two], additive_left_out(pairs, tenants), medians])


# --- Baselines that a prediction must beat: a constant, additive effects, and low-rank matrix completion

_SHRINK = 0.1
"""Shrinkage of effects to zero, in measured pairs; a tenant without any has no effect."""


def constant(evidence: Evidence, rows: Ints) -> Floats:
    """The median of all measured log slowdowns."""
    return np.full(len(rows), float(np.median(evidence.logs)) if len(evidence) else 0.0)


def additive(evidence: Evidence, rows: Ints, tenants: int) -> Floats:
    """A mean plus effects of the victim and its neighbour, by least squares."""
    mean, victim, neighbour = _effects(evidence, tenants)
    return np.asarray(mean + victim[rows[:, 0]] + neighbour[rows[:, 1]])


def additive_left_out(evidence: Evidence, tenants: int) -> Floats:
    """By row of pairs, what additive effects predict without the row's mix."""
    design = _design(evidence, tenants)
    normal = design.T @ design + _SHRINK * np.eye(2 * tenants)
    total, counted, sum_of = design.T @ evidence.logs, design.sum(axis=0), float(evidence.logs.sum())
    predicted = np.zeros(len(evidence))
    for cell in np.unique(evidence.cell):
        mine = np.flatnonzero(evidence.cell == cell)
        own, logs = design[mine], evidence.logs[mine]
        mean = (sum_of - float(logs.sum())) / (len(evidence) - mine.size)
        target = total - own.T @ logs - mean * (counted - own.sum(axis=0))
        predicted[mine] = mean + own @ np.linalg.solve(normal - own.T @ own, target)
    return predicted


def _effects(evidence: Evidence, tenants: int) -> tuple[float, Floats, Floats]:
    design = _design(evidence, tenants)
    mean = float(evidence.logs.mean())
    normal = design.T @ design + _SHRINK * np.eye(2 * tenants)
    effects = np.asarray(np.linalg.solve(normal, design.T @ (evidence.logs - mean)), np.float64)
    return mean, effects[:tenants], effects[tenants:]


def _design(evidence: Evidence, tenants: int) -> Floats:
    """Rows x effects of victims, then of neighbours."""
    count = len(evidence)
    design = np.zeros((count, 2 * tenants))
    design[np.arange(count), evidence.rows[:, 0]] = 1.0
    design[np.arange(count), tenants + evidence.rows[:, 1]] = 1.0
    return design
