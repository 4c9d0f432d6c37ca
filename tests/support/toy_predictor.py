"""A predictor simple enough to check by hand.

A tenant takes `ms` of the entire device per item, less per item in batches. Neighbours stretch its time by `press` per
share of the device they use. Requests wait in a single-server queue.
"""

from dataclasses import dataclass

import numpy as np

from cotenant.planning.mixes.predictor import Mixes, PredictedMix, Range

GIB = 2**30


@dataclass(frozen=True)
class Work:
    ms: float
    gib: float = 4.0
    press: float = 0.2
    wide: float = 1.0
    """Fraction of the device below which it gets slower."""


def toy(works, *, margin=0.1, speed=None, basis="simulated"):
    """A predictor for these tenants; ``margin`` is the half-width of the interval."""
    ms = np.array([work.ms for work in works] + [0.0])
    gib = np.array([work.gib for work in works] + [0.0])
    press = np.array([work.press for work in works] + [0.0])
    wide = np.array([work.wide for work in works] + [1.0])
    slices = np.array([1, 2, 3, 4, 7, 7]) / 7

    def predict(mixes: Mixes) -> PredictedMix:
        there = mixes.there
        pace = (speed or {}).get(mixes.device, 1.0)
        part = np.ones(mixes.tenants.shape)
        if mixes.sharing == "mig":
            part = slices[np.where(np.isnan(mixes.share), 4, mixes.share).astype(int)]
        elif np.isfinite(mixes.share).any():
            part = np.where(np.isnan(mixes.share), 1.0, mixes.share / 100)
        slower = np.maximum(wide[mixes.tenants] / part, 1.0)
        service = ms[mixes.tenants] * (0.5 + 0.5 * mixes.batch) * slower / pace
        use = np.where(there, mixes.rate_rps * service / mixes.batch / 1e3, 0.0)
        share_of_device = use * np.where(mixes.sharing == "mig", part, 1.0)
        others = use.sum(axis=1, keepdims=True) - use
        slowdown = 1 + (0.0 if mixes.sharing == "mig" else 1.0) * press[mixes.tenants] * others
        busy = (share_of_device * slowdown).sum(axis=1)
        own = np.minimum(use * slowdown if mixes.sharing == "mig" else busy[:, None] * np.ones_like(use), 2.0)

        def latency(factor):
            load = own * factor
            with np.errstate(divide="ignore"):
                wait = np.where(load < 1, service * slowdown * factor * load / np.maximum(1 - load, 1e-9), np.inf)
            return np.where(there, service * slowdown * factor + wait, 0.0)[..., None]

        ranges = Range(latency(1 - margin), latency(1.0), latency(1 + margin))
        stretch = Range(slowdown * (1 - margin), slowdown, slowdown * (1 + margin))
        memory = np.where(there, gib[mixes.tenants] * GIB, 0.0)
        rows = len(mixes.tenants)
        return PredictedMix(ranges, stretch, memory, busy, busy / 2, 100 + 200 * busy, (basis,) * rows)

    return predict
