"""Tenants two by two, each pair on a device: the best pairs, and which to measure before trusting them."""

from collections.abc import Collection

import numpy as np

from cotenant.planning.solver.problem import Floats, Ints
from cotenant.prediction.interference.next_cells import next_cells
from cotenant.prediction.interference.predictor import MEASURED, Predictor

HOPE = 1.0
"""Standard deviations by which an unmeasured pair may be better than predicted before it is left aside."""
_MATTERS_LITTLE = 0.02
"""Weight of a pair that no plan would use: what it tells of others still counts."""


def best_pairs(worth: Floats, pairs: Ints, tenants: int) -> Ints:
    """Positions in ``pairs`` of disjoint pairs that hold everyone and are worth most together.

    Args:
        worth: Of each pair.
        pairs: Rows of two tenants' numbers.
        tenants: How many; even.

    Raises:
        ValueError: No choice of these pairs holds everyone.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    holds = np.zeros((tenants, len(pairs)))
    holds[pairs[:, 0], np.arange(len(pairs))] = 1
    holds[pairs[:, 1], np.arange(len(pairs))] = 1
    found = milp(
        -worth,
        constraints=LinearConstraint(holds, 1, 1),
        integrality=np.ones(len(pairs), np.int64),
        bounds=Bounds(0, 1),
    )
    if found.x is None:
        raise ValueError("these pairs can't hold everyone")
    return np.flatnonzero(found.x > 0.5)


def together(slowdowns: Floats) -> Floats:
    """What a pair does of the work of two devices: the sum of both speeds over alone."""
    return np.asarray((1 / slowdowns).sum(axis=1))


def next_pairs(predictor: Predictor, pairs: Ints, count: int) -> list[int]:
    """Positions of the pairs to measure for a plan: of those that it would use, whatever tells most.

    A pair counts as good as it may turn out to be, so that one that was underestimated is looked at as well.

    Args:
        predictor: With what was measured so far.
        pairs: All that can share a device.
        count: How many to name.
    """
    found = predictor.slowdowns(pairs)
    open_ = np.flatnonzero(found.basis[:, 0] != MEASURED)
    if not open_.size:
        return []
    hoped = together(_hoped(predictor, pairs, found.estimate, found.basis[:, 0]))
    used: Collection[int] = set()
    for worth in (together(found.estimate), hoped):
        used = {*used, *best_pairs(worth, pairs, len(predictor.setting)).tolist()}
    weights = np.array([1.0 if number in used else _MATTERS_LITTLE for number in open_])
    chosen = next_cells(predictor.correction, pairs[open_], count, weights)
    return [int(open_[place]) for place, _ in chosen]


def _hoped(predictor: Predictor, pairs: Ints, estimate: Floats, basis: Ints) -> Floats:
    forward, backward = pairs, pairs[:, ::-1]
    spread = np.sqrt(
        np.stack([predictor.correction.variance(forward), predictor.correction.variance(backward)], axis=1)
    )
    spread[basis == MEASURED] = 0.0
    return np.asarray(np.maximum(estimate * np.exp(-HOPE * spread), 1.0))
