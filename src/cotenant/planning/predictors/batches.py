"""Batches of a tenant measured alone at several sizes: what waits is served together, up to the planned batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cotenant.planning.mixes.batching import Service
from cotenant.planning.solver.problem import Floats

if TYPE_CHECKING:
    from cotenant.planning.predictors.solo import Solo


@dataclass(frozen=True, slots=True)
class Batches:
    """The measured batches of one tenant up to the planned one."""

    solos: "Mapping[int, Solo]"
    """By batch; the planned one is the largest."""
    largest: int

    @classmethod
    def of(cls, solos: "Mapping[tuple[int, int], Solo]", tenant: int, batch: int) -> "Batches | None":
        """Those of a tenant; None if the planned batch was not measured."""
        if (tenant, batch) not in solos:
            return None
        mine = {size: solo for (who, size), solo in solos.items() if who == tenant and size <= batch}
        return cls(mine, batch)

    @property
    def growth(self) -> Floats:
        """By number of requests: the batch's time over a single request's. Below the smallest batch, its time."""
        sizes = sorted(self.solos)
        times = np.interp(np.arange(1, self.largest + 1), sizes, [self.solos[size].mean_s for size in sizes])
        return np.asarray(np.maximum.accumulate(times) / times[0])

    @property
    def single(self) -> "Solo":
        """The smallest measured batch: what a lone request takes."""
        return self.solos[min(self.solos)]

    def service(self, stretch: float = 1.0) -> Service:
        """Times of batches, in seconds, slowed down by neighbours."""
        growth = self.growth
        one = np.array(self.single.mean_s * stretch)
        return Service(one, one * growth[-1], np.array(self.largest))

    def usual(self, rate_rps: float, stretch: float = 1.0) -> float:
        """Requests that usually run together; a job's batches are full."""
        if rate_rps <= 0:
            return float(self.largest)
        return float(self.service(stretch).usual(np.array(rate_rps)))

    def mean_s(self, size: float) -> float:
        """Mean time alone of a batch of this size."""
        return float(self.single.mean_s * np.interp(size, np.arange(1, self.largest + 1), self.growth))

    def like(self, size: float) -> "Solo":
        """The largest measured batch that is not above this size, else the smallest."""
        return self.solos[max((one for one in self.solos if one <= size), default=min(self.solos))]
