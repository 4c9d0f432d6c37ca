"""Policies that choose a job's GPUs among the free ones: published ones, and ours."""

from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.intervals import Floats
from cotenant.planning.gpu_fleet import GpuFleet, Numbers
from cotenant.planning.jobs import JobClass

Free = npt.NDArray[np.bool_]


class PlacementPolicy(Protocol):
    """Places jobs one at a time on free GPUs."""

    slows_waiting_gpus: bool
    """Whether it lowers the clocks of GPUs that would only wait for the slowest of their job."""

    def rank(self, kind: JobClass) -> float:
        """Among jobs that could start now, the lowest rank chooses first; ties in order of arrival."""
        ...

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """Choose ``count`` of the free GPUs; enough are free."""
        ...


class Random:
    """Any free GPUs."""

    slows_waiting_gpus = False

    def __init__(self, fleet: GpuFleet, seed: int = 0) -> None:
        del fleet
        self._rng = np.random.default_rng(seed)

    def rank(self, kind: JobClass) -> float:
        """First come, first served."""
        del kind
        return 0.0

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """Drawn evenly."""
        del kind
        return np.asarray(self._rng.choice(np.flatnonzero(free), count, replace=False))


class Packed:
    """As few nodes as possible; any GPUs within a node."""

    slows_waiting_gpus = False

    def __init__(self, fleet: GpuFleet, seed: int = 0) -> None:
        del seed
        self._nodes = Nodes(fleet)

    def rank(self, kind: JobClass) -> float:
        """First come, first served."""
        del kind
        return 0.0

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """The node left with the fewest free GPUs, else the emptiest nodes together."""
        del kind
        return self._nodes.packed(count, free)


class PmFirst:
    """The fastest free GPUs on any node (PM-First of PAL)."""

    slows_waiting_gpus = False

    def __init__(self, fleet: GpuFleet, seed: int = 0) -> None:
        del seed
        self._fleet = fleet

    def rank(self, kind: JobClass) -> float:
        """First come, first served."""
        del kind
        return 0.0

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """The first of the list."""
        order = self._fleet.work(kind).order
        return order[free[order]][:count]


class Pal:
    """The product of a cluster's slowdown and the cost of leaving a node, lowest first (PAL)."""

    slows_waiting_gpus = False

    def __init__(self, fleet: GpuFleet, seed: int = 0) -> None:
        del seed
        self._fleet, self._nodes = fleet, Nodes(fleet)
        self._factors: dict[JobClass, Floats] = {}

    def rank(self, kind: JobClass) -> float:
        """The most variable classes choose first."""
        return -float(np.ptp(self._factor(kind)))

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """Within a node if that is no slower than the fastest clusters across nodes."""
        factor = self._factor(kind)
        anywhere = self._nodes.by_factor(factor, count, free)
        if count > self._nodes.size:
            return anywhere
        within = self._nodes.best_within(factor, count, free)
        if within is None:
            return anywhere
        spread = kind.across if self._nodes.several(anywhere) else 1.0
        return within if factor[within].max() <= factor[anywhere].max() * spread else anywhere

    def _factor(self, kind: JobClass) -> Floats:
        if kind not in self._factors:
            self._factors[kind] = cluster_factors(self._fleet.work(kind).time)
        return self._factors[kind]


class Slack:
    """Ours: the GPUs on which a job ends soonest, at a price for fast GPUs and intact nodes that others may need.

    Uses measured times rather than clusters. Work that is insensitive to slow GPUs, or can span nodes at no cost, takes
    the GPUs others need least. GPUs that would only wait for the slowest of their job get a lower clock so that they
    finish together, which saves energy at no cost in time.
    """

    slows_waiting_gpus = True
    WORTH = 0.35
    """Price of a GPU that is 1 % faster than the median, in percent of a job's time."""
    WHOLENESS = 0.02
    """Price of breaking up an entirely free node, as a fraction of a job's time; less if it is already broken up."""
    BOUNDS = (0.0, 0.004, 0.012, 0.04)
    """How much slower than on the fastest free GPUs a job may be placed, if that is cheaper."""

    MOST_SETS = 200
    """Maximum sets within a node that are enumerated; in larger nodes, the fastest for their price are taken."""

    def __init__(self, fleet: GpuFleet, seed: int = 0) -> None:
        del seed
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

    def several(self, gpus: Numbers) -> bool:
        """Whether they span several nodes."""
        return bool((self._of[gpus] != self._of[gpus[0]]).any())

    def left(self, free: Free) -> Numbers:
        """Free GPUs by node."""
        return np.bincount(self._of[free], minlength=self._rows.shape[0])

    def packed(self, count: int, free: Free) -> Numbers:
        """The node with the fewest free GPUs that suffices; else the nodes with the most."""
        left = self.left(free)
        enough = np.flatnonzero(left >= count)
        if enough.size:
            node = enough[left[enough].argmin()]
            return np.flatnonzero(free & (self._of == node))[:count]
        candidates = np.flatnonzero(free)
        crowd = -left[self._of[candidates]]
        return candidates[np.lexsort((self._of[candidates], crowd))][:count]

    def by_factor(self, factor: Floats, count: int, free: Free) -> Numbers:
        """The lowest factors; ties go to the node with the closest number of free GPUs."""
        candidates = np.flatnonzero(free)
        fit = np.abs(self.left(free)[self._of[candidates]] - count)
        return candidates[np.lexsort((fit, factor[candidates]))][:count]

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


POLICIES: dict[str, Callable[[GpuFleet, int], PlacementPolicy]] = {
    "random": Random,
    "packed": Packed,
    "pm-first": PmFirst,
    "pal": Pal,
    "slack": Slack,
}
"""Policies by name; `slack` is ours."""


# --- PAL's view of a fleet (SC'24): GPUs in clusters of similar speed, their number chosen by silhouette

FEWEST, MOST = 2, 10
OUTLIER_SIGMAS = 3.0
_ROUNDS = 50
_SAMPLE = 1000
"""Sample size for large fleets, since a silhouette needs all pairs."""


def cluster_factors(times: Floats) -> Floats:
    """Each GPU's cluster centre over the median centre; outliers are clusters of their own."""
    outlier = times > times.mean() + OUTLIER_SIGMAS * times.std()
    inside = times[~outlier]
    centres = _best(inside)
    labels = np.abs(inside[:, None] - centres[None, :]).argmin(axis=1)
    factors = times.copy()
    factors[~outlier] = centres[labels]
    return np.asarray(factors / np.median(np.concatenate((centres, times[outlier]))))


def _best(values: Floats) -> Floats:
    distinct = np.unique(values)
    if distinct.size <= FEWEST:
        return distinct
    tried = [_means(values, count) for count in range(FEWEST, min(MOST, distinct.size - 1) + 1)]
    return max(tried, key=lambda centres: silhouette(values, centres))


def _means(values: Floats, count: int) -> Floats:
    """One-dimensional k-means starting from even quantiles; deterministic."""
    centres = np.unique(np.quantile(values, (np.arange(count) + 0.5) / count))
    for _ in range(_ROUNDS):
        labels = np.abs(values[:, None] - centres[None, :]).argmin(axis=1)
        counts = np.bincount(labels, minlength=centres.size)
        moved = np.bincount(labels, values, centres.size)[counts > 0] / counts[counts > 0]
        if moved.size == centres.size and np.allclose(moved, centres):
            break
        centres = moved
    return np.asarray(centres)


def silhouette(values: Floats, centres: Floats) -> float:
    """Mean silhouette of one-dimensional values, each with its nearest centre."""
    values = np.sort(values)[:: max(1, values.size // _SAMPLE)]
    labels = np.abs(values[:, None] - centres[None, :]).argmin(axis=1)
    apart = np.abs(values[:, None] - values[None, :])
    member: npt.NDArray[np.bool_] = labels[:, None] == np.unique(labels)[None, :]
    counts = member.sum(axis=0)
    to_cluster = apart @ member / np.maximum(counts, 1)
    own = member.argmax(axis=1)
    row = np.arange(values.size)
    inside = to_cluster[row, own] * counts[own] / np.maximum(counts[own] - 1, 1)
    to_cluster[row, own] = np.inf
    outside = to_cluster.min(axis=1)
    alone = counts[own] == 1
    widest = np.maximum(inside, outside)
    undefined = alone | (widest == 0) | ~np.isfinite(widest)
    score = np.where(undefined, 0.0, (outside - inside) / np.where(undefined, 1.0, widest))
    return float(score.mean())
