"""Multiple tests: bound the chance of even one false alarm."""

from collections.abc import Sequence

import numpy as np

from cotenant.analyse.estimates.intervals import Floats


def holm(p_values: Sequence[float]) -> Floats:
    """Holm's adjusted p-values, in the order given: raise an alarm where the adjusted value is at most the level.

    Valid under any dependence between the tests.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p-values lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted
