"""A server that batches what waits: up to a number of requests start together as soon as the previous batch is done.

The time of a batch grows linearly from a single request to the largest batch. In closed form for all mixes; mixes a
plan would use are simulated request by request (`scheduling.simulation.lines`).
"""

from typing import NamedTuple

import numpy as np

from cotenant.planning.solver.problem import Floats, Ints

SERVICE_CV2 = 0.1
"""Squared variation of service times beside neighbours, in the closed form."""
LARGE_BATCHES = 3.0
"""Weight of the variance of batches in a request's own: more requests are in large ones. Fitted to the queue."""


class BatchService(NamedTuple):
    """Time of a batch, in the unit of 1/rate."""

    single: Floats
    """With a single request."""
    full: Floats
    """With the largest batch."""
    largest: Ints

    def time(self, size: Floats) -> Floats:
        """Time of a batch of this size."""
        return np.asarray(self.single + self.each * (size - 1))

    def usual(self, rate: Floats) -> Floats:
        """Mean batch: as many as arrive during a batch."""
        fixed = self.single - self.each
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.where(rate * self.each < 1, rate * fixed / (1 - rate * self.each), np.inf)
        return np.asarray(np.clip(size, 1.0, self.largest))

    @property
    def each(self) -> Floats:
        """Time per further request."""
        return np.where(self.largest > 1, (self.full - self.single) / np.maximum(self.largest - 1, 1), 0.0)


def quantile(service: BatchService, rate: Floats, cv: Floats | float, level: Floats | float) -> Floats:
    """A request's time from arrival to answer; infinite where the largest batch can't keep up.

    The sum of the running batch's rest and its own batch, as a gamma distribution with their mean and variance, and of
    full batches ahead of it in bursts (heavy traffic). Within 15 % of the simulated queue on average for Poisson
    arrivals.

    Args:
        service: Times of batches.
        rate: Requests per unit of time.
        cv: Variation of the gaps between requests.
        level: The quantile, for example 0.99.
    """
    from scipy.special import gammaincinv

    largest, full = service.largest, service.full
    load = rate * full / largest
    size = service.usual(rate)
    usual = service.time(size)
    during = rate * usual
    busy = np.minimum(during / size, 1.0)
    sizes = (during * cv**2 + during**2 * SERVICE_CV2) / (1 - np.minimum(rate * service.each, 0.98) ** 2)
    growth = np.minimum(service.each**2 * sizes, (full - service.single) ** 2 / 4)
    relative = growth / usual**2 + SERVICE_CV2
    rest = busy * usual * (1 + relative) / 2
    with_it = np.maximum(1 + busy * during * (1 + relative) / 2, size)
    own = service.time(np.minimum(with_it, largest))
    mean = rest + own
    variance = busy * usual**2 * (1 + 3 * relative) / 3 - rest**2 + LARGE_BATCHES * busy * growth + own**2 * SERVICE_CV2
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.log(np.maximum(busy / (1 - level), 1.0))
        ahead = (cv**2 / largest + SERVICE_CV2) / 2 / (1 - load) * tail - 1
    gamma = gammaincinv(mean**2 / variance, level) * variance / mean
    return np.where(load < 1, gamma + full * np.maximum(ahead, 0.0), np.inf)
