"""A baseline: completing the matrix of measured pairs by factors, as Gavel and Quasar do."""

import numpy as np

from cotenant.prediction.interference.correction import Evidence
from cotenant.prediction.interference.stacking import additive
from cotenant.prediction.kernels.columns import Floats, Ints

ROUNDS = 30


def low_rank(evidence: Evidence, rows: Ints, tenants: int, rank: int = 2, pull: float = 0.1) -> Floats:
    """Additive effects plus low-rank factors of what they leave, by alternating least squares."""
    v, w = evidence.rows[:, 0], evidence.rows[:, 1]
    left = evidence.logs - additive(evidence, evidence.rows, tenants)
    random = np.random.default_rng(0)
    first, second = (0.1 * random.standard_normal((tenants, rank)) for _ in range(2))
    for _ in range(ROUNDS):
        _solve(first, v, second[w], left, pull)
        _solve(second, w, first[v], left, pull)
    return np.asarray(additive(evidence, rows, tenants) + (first[rows[:, 0]] * second[rows[:, 1]]).sum(axis=1))


def _solve(factors: Floats, owner: Ints, others: Floats, left: Floats, pull: float) -> None:
    eye = np.eye(factors.shape[1])
    for tenant in np.unique(owner):
        mine = owner == tenant
        factors[tenant] = np.linalg.solve(others[mine].T @ others[mine] + pull * eye, others[mine].T @ left[mine])
