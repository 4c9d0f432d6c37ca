"""What planning asks of a predictor, and what it gets: arrays, since a plan asks about many thousands of mixes.

A predictor is a function. Planning knows none in particular: the simulation, a model learnt from runs and a table of
measurements all fit.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cotenant.planning.solver.problem import NOBODY, Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Mixes:
    """Mixes on one kind of device under one way to share; a row is a mix, a column a seat."""

    device: str
    sharing: str
    tenants: Ints
    """Numbers of tenants; `NOBODY` where a mix has fewer than the largest."""
    rate_rps: Floats
    batch: Ints
    share: Floats
    """Percent of the device that the seat is held to; NaN: none. Under `mig`: the number of the profile."""
    clock_mhz: float | None = None

    @property
    def there(self) -> Bools:
        """Which seats are taken."""
        return np.asarray(self.tenants != NOBODY)


@dataclass(frozen=True, slots=True)
class Range:
    """An estimate and the ends of its interval."""

    lower: Floats
    estimate: Floats
    upper: Floats


@dataclass(frozen=True, slots=True)
class Predicted:
    """What would happen in each mix."""

    latency_ms: Range
    """Mixes x seats x objectives: the objective's quantile; infinite where the seat can't keep up with its rate."""
    slowdown: Range
    """Mixes x seats: time of a request beside the others over alone on the whole device."""
    memory_bytes: Floats
    """Mixes x seats: at most."""
    busy: Floats
    """By mix: share of the device that is taken; above 1 it can't keep up. Grows with every tenant."""
    bandwidth: Floats
    """By mix: share of the memory bandwidth."""
    power_w: Floats
    """By mix, on average."""
    basis: tuple[str, ...]
    """By mix: `measured`, `2 pairs`, `prior only`, `simulated`."""


class Predictor(Protocol):
    """Answers for many mixes at once."""

    def __call__(self, mixes: Mixes, /) -> Predicted:
        """What would happen."""
        ...
