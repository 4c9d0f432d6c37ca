"""Choose the mixes to measure next: the most informative about all others, or about those a plan would use."""

import numpy as np

from cotenant.prediction.interference.correction import Correction
from cotenant.prediction.interference.setting import by_victim
from cotenant.prediction.kernels.columns import Floats, Ints

MOST_ROWS = 1500
"""Maximum victims whose covariances are kept at once; beyond it, those with the largest variances."""


def next_cells(
    correction: Correction,
    mixes: Ints,
    count: int,
    weights: Floats | None = None,
    enough: Floats | None = None,
) -> list[tuple[int, float]]:
    """Mixes in the order in which to measure them.

    Each choice accounts for the information from the previous ones.

    Args:
        correction: Conditioned on the measurements so far.
        mixes: Unmeasured candidates.
        count: Number of mixes to return.
        weights: Importance of each mix, e.g. whether a plan uses it; default: equal.
        enough: By mix, the variance (without noise) at which it counts as known: known ones no longer matter, and the
            list ends once all are.

    Returns:
        Positions in ``mixes``, and the fraction of the total weighted variance that each removes.
    """
    which, _, rows = by_victim(mixes)
    matter = np.ones(len(mixes)) if weights is None else weights
    if len(rows) > MOST_ROWS:
        largest = np.argsort(-correction.variance(rows) * matter[which], kind="stable")[:MOST_ROWS]
        whole = np.isin(which, which[largest])
        which, rows = which[whole][: 2 * MOST_ROWS], rows[whole][: 2 * MOST_ROWS]
    within = correction.posterior(rows)
    importance = matter[which]
    total = float(importance @ np.diag(within))
    chosen: list[tuple[int, float]] = []
    noise = correction.variances.noise
    open_ = list(dict.fromkeys(which.tolist()))
    while open_ and len(chosen) < count:
        if enough is not None:
            importance = np.where(np.isin(which, open_) & (np.diag(within) > enough[which]), matter[which], 0.0)
            if not importance.any():
                break
        gains = [_gain(within, np.flatnonzero(which == cell), importance, noise) for cell in open_]
        best = int(np.argmax(gains))
        cell = open_.pop(best)
        chosen.append((cell, gains[best] / total if total > 0 else 0.0))
        within = _given(within, np.flatnonzero(which == cell), noise)
    return chosen


def _gain(within: Floats, mine: Ints, importance: Floats, noise: float) -> float:
    columns = within[:, mine]
    known = np.linalg.solve(within[np.ix_(mine, mine)] + noise * np.eye(mine.size), columns.T)
    return float(importance @ np.einsum("ij,ji->i", columns, known))


def _given(within: Floats, mine: Ints, noise: float) -> Floats:
    columns = within[:, mine]
    known = np.linalg.solve(within[np.ix_(mine, mine)] + noise * np.eye(mine.size), columns.T)
    return np.asarray(within - columns @ known)
