"""Choose the mixes to measure next: the most informative about all others, or about those a plan would use.

Informative by two views of what is unknown, in equal parts: the covariance of the prior's errors, and effects of each
tenant as a victim and as a neighbour. The first alone trusts similar tenants to behave alike; where only times describe
them they don't, and the pairs it chose taught less than random ones. The second makes the choice cover tenants.
"""

import numpy as np

from cotenant.prediction.interference.correction import Correction
from cotenant.prediction.interference.setting import by_victim, present
from cotenant.prediction.kernels.columns import Floats, Ints

_NOISE_OF_EFFECTS = 1.0
"""Variance of what effects of tenants don't explain of a mix, in units of theirs."""
MOST_ROWS = 1500
"""Maximum victims whose covariances are kept at once; beyond it, those with the largest variances."""


def choose_next_cells(
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
    importance = matter[which]
    views = [
        _View(correction.posterior(rows), correction.variances.noise, importance),
        _View(_effects(correction, rows), _NOISE_OF_EFFECTS, importance),
    ]
    chosen: list[tuple[int, float]] = []
    open_ = list(dict.fromkeys(which.tolist()))
    places = {cell: np.flatnonzero(which == cell) for cell in open_}
    while open_ and len(chosen) < count:
        if enough is not None:
            unknown = np.isin(which, open_) & (np.diag(views[0].within) > enough[which])
            importance = np.where(unknown, matter[which], 0.0)
            if not importance.any():
                break
        gains = [sum(view.gain(places[cell], importance) for view in views) / len(views) for cell in open_]
        best = int(np.argmax(gains))
        cell = open_.pop(best)
        chosen.append((cell, gains[best]))
        for view in views:
            view.measure(places[cell])
    return chosen


class _View:
    """Covariances of what is unknown about rows, and what measuring some of them tells."""

    def __init__(self, within: Floats, noise: float, importance: Floats) -> None:
        self.within = within
        self._noise = noise
        self._total = float(importance @ np.diag(within))

    def gain(self, mine: Ints, importance: Floats) -> float:
        """Fraction of the total weighted variance that measuring these rows removes."""
        columns, known = self._known(mine)
        return float(importance @ np.einsum("ij,ji->i", columns, known)) / self._total if self._total > 0 else 0.0

    def measure(self, mine: Ints) -> None:
        """Take these rows as measured."""
        columns, known = self._known(mine)
        self.within = np.asarray(self.within - columns @ known)

    def _known(self, mine: Ints) -> tuple[Floats, Floats]:
        columns = self.within[:, mine]
        own = self.within[np.ix_(mine, mine)] + self._noise * np.eye(mine.size)
        return columns, np.asarray(np.linalg.solve(own, columns.T), np.float64)


def _effects(correction: Correction, rows: Ints) -> Floats:
    """Covariances of a common mean plus effects of victims and neighbours, given what was measured."""
    evidence, tenants = correction.evidence, len(correction.setting)
    asked = _shares(rows, tenants)
    own = asked @ asked.T
    if not len(evidence):
        return np.asarray(own)
    seen = _shares(evidence.rows, tenants)
    across = seen @ asked.T
    return np.asarray(own - across.T @ np.linalg.solve(seen @ seen.T + _NOISE_OF_EFFECTS * np.eye(len(seen)), across))


def _shares(rows: Ints, tenants: int) -> Floats:
    """Rows x effects: the mean, the victim, and neighbours in equal parts."""
    numbers = np.arange(len(rows))
    table = np.zeros((len(rows), 1 + 2 * tenants))
    table[:, 0] = table[numbers, 1 + rows[:, 0]] = 1.0
    row, place = np.nonzero(present(rows[:, 1:]))
    count = np.maximum(present(rows[:, 1:]).sum(axis=1), 1)
    np.add.at(table, (row, 1 + tenants + rows[row, place + 1]), 1.0 / count[row])
    return table
