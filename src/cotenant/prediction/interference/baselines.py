"""Baselines that a prediction must beat: a constant, additive effects, and low-rank matrix completion."""

import numpy as np

from cotenant.prediction.interference.correction import Evidence
from cotenant.prediction.kernels.columns import Floats, Ints

_SHRINK = 0.1
"""Shrinkage of effects to zero, in measured pairs; a tenant without any has no effect."""
_ROUNDS = 30


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
    found = np.zeros(len(evidence))
    for cell in np.unique(evidence.cell):
        mine = np.flatnonzero(evidence.cell == cell)
        own, logs = design[mine], evidence.logs[mine]
        mean = (sum_of - float(logs.sum())) / (len(evidence) - mine.size)
        wanted = total - own.T @ logs - mean * (counted - own.sum(axis=0))
        found[mine] = mean + own @ np.linalg.solve(normal - own.T @ own, wanted)
    return found


def low_rank(evidence: Evidence, rows: Ints, tenants: int, rank: int = 2, pull: float = 0.1) -> Floats:
    """The same plus low-rank factors of the residual, by alternating least squares (as Gavel and Quasar do)."""
    mean, victim, neighbour = _effects(evidence, tenants)
    v, w = evidence.rows[:, 0], evidence.rows[:, 1]
    left = evidence.logs - mean - victim[v] - neighbour[w]
    random = np.random.default_rng(0)
    first, second = (0.1 * random.standard_normal((tenants, rank)) for _ in range(2))
    for _ in range(_ROUNDS):
        _solve(first, v, second[w], left, pull)
        _solve(second, w, first[v], left, pull)
    return np.asarray(additive(evidence, rows, tenants) + (first[rows[:, 0]] * second[rows[:, 1]]).sum(axis=1))


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


def _solve(factors: Floats, owner: Ints, others: Floats, left: Floats, pull: float) -> None:
    eye = np.eye(factors.shape[1])
    for one in np.unique(owner):
        mine = owner == one
        factors[one] = np.linalg.solve(others[mine].T @ others[mine] + pull * eye, others[mine].T @ left[mine])
