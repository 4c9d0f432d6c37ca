"""Slowdowns under open loads: a neighbour slows a tenant down only while it is busy, which is part of the time."""

import numpy as np

from cotenant.prediction.kernels.columns import Floats

_ROUNDS = 30


def stretched(solo_s: Floats, slowdown: Floats, weights: Floats, rate_rps: Floats) -> Floats:
    """Service times of the tenants of one mix under their loads.

    Args:
        solo_s: Service time alone.
        slowdown: Slowdown beside neighbours that are always busy.
        weights: Tenants x tenants: fraction of a slowdown due to each neighbour; rows sum to 1.
        rate_rps: Arrivals per second; NaN: always busy.
    """
    service = solo_s * slowdown
    for _ in range(_ROUNDS):
        busy = np.where(np.isnan(rate_rps), 1.0, np.minimum(rate_rps * service, 1.0))
        service = solo_s * (1 + (slowdown - 1) * (weights @ busy))
    return np.asarray(service)
