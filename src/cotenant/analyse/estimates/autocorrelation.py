"""Correlation of neighbouring blocks: how much less a correlated block tells than an independent one.

From one series of some seventy blocks it is known to ±0.12 only, and an interval widened by such a guess is up to a
third too wide in the unluckiest of a dozen cells. All slowdowns of a run are taken on the same machine at the same
time: the correlation that they have in common is known several times better. A series whose own correlation is clearly
larger keeps it.
"""

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.robust import huber

Floats = npt.NDArray[np.float64]

FEWEST = 12
"""Values for a usable estimate."""
LARGEST = 0.9
CLEARLY = 2.5
"""Standard errors by which a series exceeds the common correlation before it keeps its own."""


def common_correlation(series: Iterable[Floats]) -> float | None:
    """Correlation of neighbours that several series of blocks have in common; None if all are short.

    Each series counts by its length, whatever its spread.
    """
    products = values = count = 0.0
    for one in series:
        if len(one) >= FEWEST:
            raw = _raw(huber(one).influence)
            products += raw * len(one)
            values += len(one)
            count += 1
    if not count:
        return None
    return min(max(_corrected(products / values, values / count), 0.0), LARGEST)


def lag_correlation(influence: Floats, common: float | None = None) -> float:
    """Correlation of neighbours in one series: the common one, or its own where that is clearly larger.

    Without a common one: its own, if beyond its standard error, else 0.
    """
    n = influence.size
    own, error = _raw(influence), 1 / math.sqrt(n)
    if common is not None and own <= common + CLEARLY * error:
        return common
    return min(_corrected(own, n), LARGEST) if own > error else 0.0


def _raw(data: Floats) -> float:
    centred = data - data.mean()
    variance = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / variance if variance > 0 else 0.0


def _corrected(raw: float, n: float) -> float:
    """Without the bias of short series."""
    return raw + (1 + 3 * raw) / n
