"""The best simple law of a class, fitted as fairly as the simulation: never on the data set it is judged by.

A law's constants come from all other data sets of the same software, phase and way to share, on any GPU: a class whose
rows are all from one GPU says nothing about the next.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cotenant.prediction.trust import Class
from validation.users.row import UserRow

Floats = NDArray[np.float64]
NONE = "none: a single data set"
_COPIES = np.linspace(0, 1.5, 61)
_LAUNCH_US, _EFFICIENCY = np.linspace(0, 120, 61), np.linspace(0.1, 1.0, 37)


def best_law(kind: Class, pool: Sequence[UserRow]) -> tuple[str, float]:
    """The name of the closest law, and its mean error on the class's rows; NaN if the pool has one group only."""
    names = np.array([" ".join(row.unit) for row in pool])
    mine = np.array([row.kind == kind for row in pool])
    if len(set(names)) < 2:
        return NONE, float("nan")
    measured = np.array([row.measured for row in pool])
    errors = {
        law: float(np.mean(_left_out(predictions(pool) / measured - 1, names)[mine]))
        for law, predictions in _LAWS.items()
        if law == _CONSTANT or {len(row.features) for row in pool} == {_FEATURES[law]}
    }
    best = min(errors, key=lambda law: errors[law])
    return best, errors[best]


def pool_of(kind: Class) -> Class:
    """The classes that share a law: all GPU families."""
    return replace(kind, family="ampere")


def _left_out(off: Floats, names: NDArray[np.str_]) -> Floats:
    """Errors of each row under the constants (rows of `off`) that suit all other groups best."""
    errors = np.abs(off)
    total = errors.sum(axis=1)
    result = np.empty(names.size)
    for name in set(names):
        here = names == name
        result[here] = errors[int(np.argmin(total - errors[:, here].sum(axis=1)))][here]
    return result


def _constants(rows: Sequence[UserRow]) -> Floats:
    measured = np.array([row.measured for row in rows])
    return np.unique(measured)[:, None] * np.ones(measured.size)


def _by_copies(rows: Sequence[UserRow]) -> Floats:
    given = np.array([row.features[0] for row in rows])
    return np.asarray(1 + _COPIES[:, None] * (given - 1))


def _by_launches(rows: Sequence[UserRow]) -> Floats:
    launches, roofline = np.array([row.features for row in rows]).T
    each = _LAUNCH_US[:, None, None] * launches + roofline / _EFFICIENCY[None, :, None]
    return np.asarray(each.reshape(-1, launches.size))


_CONSTANT = "a constant"
_LAWS: Mapping[str, Callable[[Sequence[UserRow]], Floats]] = {
    _CONSTANT: _constants,
    "1 + c (x - 1), x copies or parts": _by_copies,
    "launches x a + roofline / b": _by_launches,
}
_FEATURES = {"1 + c (x - 1), x copies or parts": 1, "launches x a + roofline / b": 2}
