"""Latency under open loads: given arrivals, one queue per tenant, and service times stretched by neighbours.

A neighbour slows a tenant down only while it is busy: part of the time under an open load. Service times are assumed
constant, so real tails are longer where they vary. Not validated against measured tails.
"""

from collections.abc import Sequence

import numpy as np

from cotenant.prediction.kernels.columns import Floats, Ints

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


def latencies(arrivals_ns: Ints, service_s: float) -> Floats:
    """Seconds from arrival to completion of each request, served in order of arrival."""
    service = service_s * 1e9
    count = np.arange(arrivals_ns.size)
    # Completion = latest start of a busy period so far + service of all arrivals since.
    done = np.maximum.accumulate(arrivals_ns - count * service) + (count + 1) * service
    return np.asarray((done - arrivals_ns) / 1e9)


def quantiles(values: Floats, at: Sequence[float]) -> tuple[float, ...]:
    """Quantiles of latencies."""
    return tuple(float(one) for one in np.quantile(values, at))
