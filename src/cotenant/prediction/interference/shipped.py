"""Initial variances of the correction, fitted on measured matrices, and the prior's error there.

Never refitted on a user's evidence: below about a hundred pairs, refitted variances give intervals that are too narrow.
`python -m validation.interference --data DIR` refits and evaluates them.
"""

from dataclasses import replace

import numpy as np

from cotenant.prediction.interference.covariance import Variances


def _squares(rows: tuple[tuple[float, ...], ...]) -> np.ndarray:
    return np.array(rows, np.float64) ** 2


GPU = Variances(
    shift=_squares(
        (
            (0.024, 0.023, 0.015, 0.011),
            (0.036, 0.036, 0.013, 0.026),
            (0.022, 0.021, 0.013, 0.009),
            (0.044, 0.012, 0.008, 0.041),
        )
    ),
    slope=_squares(
        (
            (0.095, 0.050, 0.099, 0.048),
            (0.185, 0.0, 0.0, 0.0),
            (0.117, 0.0, 0.884, 0.0),
            (0.039, 0.0, 0.0, 0.0),
        )
    ),
    noise=0.035**2,
)
"""Fitted on the 337 pairs of Gavel's jobs on a P100; evaluated on those on a V100."""

CPU = Variances(
    shift=_squares(
        (
            (0.120, 0.024, 0.101, 0.057),
            (0.042, 0.024, 0.023, 0.009),
            (0.062, 0.046, 0.114, 0.036),
            (0.011, 0.005, 0.006, 0.020),
        )
    ),
    slope=_squares(
        (
            (0.090, 0.058, 0.108, 0.080),
            (0.112, 0.0, 0.0, 0.0),
            (0.498, 0.0, 0.426, 0.0),
            (0.018, 0.0, 0.0, 0.0),
        )
    ),
    noise=0.019**2,
    group_noise=0.25**2,
    group_half=0.35,
)
"""Fitted on the V100's 328 pairs, which leave more to the evidence: no other public matrix was measured on a CPU. What
pairs don't show of groups is from the triples of `predict-truth`, the half-width with each model left out in turn."""

CPU_THREADS = replace(CPU, group_half=0.57)
"""Tenants that are threads of one process also wait for its interpreter lock."""

GPU_PRIOR_HALF = 0.44
"""90 % of the slowdowns of Gavel's ResNets on a P100, the worse of its two GPUs, are within e^0.44 of the prior with
the profiles that `predict` makes."""
PLAIN_PRIOR_HALF = 0.65
"""The same with profiles of nothing but times alone, all of Gavel's jobs on a V100, the worse of the two."""
CPU_PRIOR_HALF = 1.2
"""90 % of the slowdowns of `predict-truth` are within e^1.2 of the prior: it says little without measured mixes."""
