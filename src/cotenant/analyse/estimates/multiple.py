"""Many tests at once: keep the chance of even one false alarm at the stated level."""

from collections.abc import Sequence

import numpy as np

from cotenant.analyse.estimates.intervals import Floats


def holm(p_values: Sequence[float]) -> Floats:
    """Holm's adjusted p-values, in the order given: alarm where the adjusted value is at most the level.

    Assumes nothing about how the tests depend on each other.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p-values lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted


def benjamini_hochberg(p_values: Sequence[float] | Floats) -> Floats:
    """Adjusted p-values that control the share of false alarms among all alarms, in the order given.

    For tests by the thousand, where one false alarm does no harm. Assumes the tests are independent or positively
    dependent.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p-values lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.minimum.accumulate((p[order] * p.size / np.arange(1, p.size + 1))[::-1])[::-1]
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted
