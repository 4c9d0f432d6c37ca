"""Latency under open loads: given arrivals, one queue per tenant, and service times that neighbours stretch.

A neighbour slows a tenant down while it is busy: under an open load only for a part of the time. Service times are
taken as constant, so that real tails are longer where they vary; nothing here was compared with measured tails.
"""

from collections.abc import Sequence

import numpy as np

from cotenant.prediction.kernels.columns import Floats, Ints

_ROUNDS = 30


def stretched(solo_s: Floats, slowdown: Floats, weights: Floats, rate_rps: Floats) -> Floats:
    """Service times of the tenants of one mix under their loads.

    Args:
        solo_s: Service time alone.
        slowdown: With neighbours that are always busy.
        weights: Tenants x tenants: how much of a slowdown is due to each neighbour; rows add up to 1.
        rate_rps: Arrivals; NaN: always busy.
    """
    service = solo_s * slowdown
    for _ in range(_ROUNDS):
        busy = np.where(np.isnan(rate_rps), 1.0, np.minimum(rate_rps * service, 1.0))
        service = solo_s * (1 + (slowdown - 1) * (weights @ busy))
    return np.asarray(service)


def latencies(arrivals_ns: Ints, service_s: float) -> Floats:
    """Seconds from arrival to end of each request, one after the other in the order in which they came."""
    service = service_s * 1e9
    count = np.arange(arrivals_ns.size)
    # Done at the latest begin of a busy period so far, plus the service of all who came since.
    done = np.maximum.accumulate(arrivals_ns - count * service) + (count + 1) * service
    return np.asarray((done - arrivals_ns) / 1e9)


def quantiles(values: Floats, at: Sequence[float]) -> tuple[float, ...]:
    """Of latencies."""
    return tuple(float(one) for one in np.quantile(values, at))
