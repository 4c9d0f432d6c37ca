"""Fit the variances of the correction to a complete measured matrix, by marginal likelihood with a weak prior."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from cotenant.prediction.interference.correction import Evidence
from cotenant.prediction.interference.covariance import PARTS, Variances, likenesses
from cotenant.prediction.interference.setting import Setting
from cotenant.prediction.kernels.columns import Floats

_SHIFT, _SLOPE, _NOISE = 0.05**2, 0.1**2, 0.04**2
"""Centre of the prior of variances."""
_PULL = 3.0
"""Width of the prior: standard deviation of the logarithm of a variance."""
_BOUNDS = (-14.0, 2.0)
_SLOPES = ((0, 0), (2, 0), (0, 2), (2, 2), (1, 0), (0, 1), (3, 0), (0, 3))
"""Fitted slopes, by index in `PARTS`: of all, of similar ones, of families, of single tenants."""


def fit_variances(setting: Setting, evidence: Evidence) -> Variances:
    """The variances that maximise the likelihood of the prior's errors on these pairs."""
    victim, neighbour = evidence.rows[:, 0], evidence.rows[:, 1]
    prior = setting.pair_prior[victim, neighbour]
    residual = evidence.logs - prior
    tables = likenesses(setting)
    of_victim = [table[np.ix_(victim, victim)] for table in tables]
    of_neighbour = [table[np.ix_(neighbour, neighbour)] for table in tables]
    steady = [(a, b) for a in range(len(PARTS)) for b in range(len(PARTS))]
    parts = np.array(
        [of_victim[a] * of_neighbour[b] for a, b in steady]
        + [np.outer(prior, prior) * of_victim[a] * of_neighbour[b] for a, b in _SLOPES]
        + [np.eye(residual.size)]
    )
    guess = np.log([_SHIFT] * len(steady) + [_SLOPE] * len(_SLOPES) + [_NOISE])

    def cost(logs: Floats) -> tuple[float, Floats]:
        sizes = np.exp(logs)
        within = np.tensordot(sizes, parts, 1)
        within[np.diag_indices_from(within)] += 1e-8
        factor = cho_factor(within, lower=True)
        alpha = cho_solve(factor, residual)
        inverse = cho_solve(factor, np.eye(residual.size))
        pull = (logs - guess) / _PULL
        value = 0.5 * residual @ alpha + np.log(np.diag(factor[0])).sum() + 0.5 * (pull**2).sum()
        slope = 0.5 * np.einsum("kij,ij->k", parts, inverse - np.outer(alpha, alpha)) * sizes + pull / _PULL
        return float(value), slope

    best = np.exp(minimize(cost, guess, jac=True, method="L-BFGS-B", bounds=[_BOUNDS] * guess.size).x)
    shift, slope = np.zeros((4, 4)), np.zeros((4, 4))
    for term, size in zip(steady, best, strict=False):
        shift[term] = size
    for term, size in zip(_SLOPES, best[len(steady) :], strict=False):
        slope[term] = size
    return Variances(shift, slope, float(best[-1]))
