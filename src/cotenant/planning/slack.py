"""The policy that chooses a job's GPUs among the free ones."""

from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates import Floats
from cotenant.planning.gpu_fleet import GpuFleet, Numbers
from cotenant.tenancy.jobs import JobClass

Free = npt.NDArray[np.bool_]


class Slack:
    """The GPUs on which a job ends soonest, at a price for fast GPUs and intact nodes that others may need.

    Uses measured times rather than clusters. Work that is insensitive to slow GPUs, or can span nodes at no cost, takes
    the GPUs others need least. GPUs that would only wait for the slowest of their job get a lower clock so that they
    finish together, which saves energy at no cost in time.
    """

    WORTH = 0.35
    """Price of a GPU that is 1 % faster than the median, in percent of a job's time."""
    WHOLENESS = 0.02
    """Price of breaking up an entirely free node, as a fraction of a job's time; less if it is already broken up."""
    BOUNDS = (0.0, 0.004, 0.012, 0.04)
    """How much slower than on the fastest free GPUs a job may be placed, if that is cheaper."""

    MOST_SETS = 200
    """Maximum sets within a node that are enumerated; in larger nodes, the fastest for their price are taken."""

    def __init__(self, fleet: GpuFleet) -> None:
        self._fleet, self._nodes = fleet, Nodes(fleet)
        self._worth = self.WORTH * (1.0 - fleet.relative_time)
        self._within: dict[tuple[JobClass, int], tuple[Numbers, Floats]] = {}

    def rank(self, kind: JobClass) -> float:
        """Work that is most sensitive to slow GPUs chooses first."""
        return -float(np.std(self._fleet.work(kind).time))

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """The set with the lowest time plus mean price."""
        time = self._fleet.work(kind).time
        wholeness = self.WHOLENESS * self._nodes.left(free) / self._nodes.size
        if 1 < count <= self._nodes.size and kind.across > 1.0:
            few = comb(self._nodes.size, count) <= self.MOST_SETS
            together = (
                self._cheapest_node(kind, count, free, wholeness)
                if few
                else self._nodes.best_within(time + self._worth, count, free)
            )
            if together is not None:
                return together
        candidates = np.flatnonzero(free)
        times, prices = time[candidates], (self._worth + wholeness[self._fleet.node])[candidates]
        if count == 1:
            return candidates[[int((times + prices).argmin())]]
        return candidates[_cheapest(times, prices, count)]

    def _cheapest_node(self, kind: JobClass, count: int, free: Free, wholeness: Floats) -> Numbers | None:
        """The best set within a node; None if no node has enough."""
        if (kind, count) not in self._within:
            sets = self._nodes.sets(count)
            self._within[kind, count] = (
                sets,
                self._fleet.work(kind).time[sets].max(axis=2) + self._worth[sets].mean(axis=2),
            )
        sets, costs = self._within[kind, count]
        allowed = free[sets].all(axis=2) & (sets[:, :, 0] >= 0)
        total = np.where(allowed, costs + wholeness[:, None], np.inf)
        best = int(total.argmin())
        node, number = divmod(best, total.shape[1])
        return sets[node, number] if np.isfinite(total[node, number]) else None


def _cheapest(times: Floats, prices: Floats, count: int) -> Numbers:
    """Positions of the cheapest set for several limits on its slowest member; the best of these sets."""
    fastest = float(np.partition(times, count - 1)[count - 1])
    best, least = np.arange(0), np.inf
    for bound in Slack.BOUNDS:
        allowed = np.flatnonzero(times <= fastest * (1 + bound))
        chosen = allowed[np.argpartition(prices[allowed], count - 1)[:count]]
        cost = float(times[chosen].max()) + float(prices[chosen].mean())
        if cost < least:
            best, least = chosen, cost
        if allowed.size == times.size:
            break
    return best


class Nodes:
    """Choices of GPUs that take nodes into account."""

    def __init__(self, fleet: GpuFleet) -> None:
        self._of, self._rows = fleet.node, fleet.nodes
        self.size = self._rows.shape[1]

    def left(self, free: Free) -> Numbers:
        """Free GPUs by node."""
        return np.bincount(self._of[free], minlength=self._rows.shape[0])

    def sets(self, count: int) -> Numbers:
        """Every set of this many GPUs of the same node: nodes x sets x GPUs; padded with -1 in front."""
        picks = np.array(list(combinations(range(self.size), count)))
        sets = self._rows[:, picks]
        return np.asarray(np.where((sets >= 0).all(axis=2, keepdims=True), sets, -1))

    def best_within(self, factor: Floats, count: int, free: Free) -> Numbers | None:
        """The set within a node with the lowest maximum factor; None if no node has enough."""
        if count > self.size:
            return None
        rows = self._rows
        costs = np.where((rows >= 0) & free[rows], factor[rows], np.inf)
        order = np.argsort(costs, axis=1, kind="stable")
        worst = np.take_along_axis(costs, order[:, count - 1 : count], axis=1)[:, 0]
        node = int(worst.argmin())
        return rows[node, order[node, :count]] if np.isfinite(worst[node]) else None
