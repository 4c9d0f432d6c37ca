"""What the correction starts from: variances fitted on measured matrices, and how far off the prior was there.

Never refitted on a user's evidence: below about a hundred pairs, intervals of refitted variances come out too narrow.
`python -m validation.interference --data DIR` fits them again and says how good they are.
"""

import math

import numpy as np

from cotenant.prediction.interference.covariance import Variances


def _squares(rows: tuple[tuple[float, ...], ...]) -> np.ndarray:
    return np.array(rows, np.float64) ** 2


GPU = Variances(
    shift=_squares(
        (
            (0.023, 0.023, 0.013, 0.013),
            (0.036, 0.033, 0.011, 0.023),
            (0.017, 0.015, 0.010, 0.008),
            (0.044, 0.010, 0.008, 0.038),
        )
    ),
    slope=_squares(
        (
            (0.085, 0.047, 0.154, 0.050),
            (0.173, 0.0, 0.0, 0.0),
            (0.225, 0.0, 0.540, 0.0),
            (0.045, 0.0, 0.0, 0.0),
        )
    ),
    noise=0.032**2,
)
"""Fitted on the 337 pairs of Gavel's jobs on a P100; those on a V100 judge it."""

CPU = Variances(
    shift=_squares(
        (
            (0.118, 0.023, 0.092, 0.053),
            (0.044, 0.022, 0.012, 0.009),
            (0.057, 0.039, 0.066, 0.020),
            (0.011, 0.004, 0.005, 0.019),
        )
    ),
    slope=_squares(
        (
            (0.085, 0.059, 0.281, 0.065),
            (0.113, 0.0, 0.0, 0.0),
            (0.351, 0.0, 0.289, 0.0),
            (0.020, 0.0, 0.0, 0.0),
        )
    ),
    noise=0.018**2,
)
"""Those of the V100's 328 pairs, which leave more to the evidence: no public matrix was measured on a CPU."""

GPU_PRIOR_HALF = 0.35
"""Nine of ten of Gavel's slowdowns are within e^0.35 of the prior."""
CPU_PRIOR_HALF = math.nan
"""The prior for CPUs has not been compared with a measured matrix: it has no interval of its own."""
