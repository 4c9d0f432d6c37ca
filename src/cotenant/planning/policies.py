"""Which free GPUs a job gets: the published ways, and ours."""

from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.intervals import Floats
from cotenant.planning.fleet import Fleet, Numbers
from cotenant.planning.jobs import JobClass
from cotenant.planning.pal import cluster_factors

Free = npt.NDArray[np.bool_]


class Policy(Protocol):
    """Places one job at a time among the GPUs that are free."""

    slows_waiting_gpus: bool
    """Lowers the clock of GPUs that would only wait for the slowest of their job."""

    def rank(self, kind: JobClass) -> float:
        """Of the jobs that could start now, those with the lowest rank choose first; equal ones in their order."""
        ...

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """``count`` of the free GPUs, of which there are enough."""
        ...


class Random:
    """Any free GPUs."""

    slows_waiting_gpus = False

    def __init__(self, fleet: Fleet, seed: int = 0) -> None:
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
    """As few nodes as possible; which GPUs of a node doesn't matter."""

    slows_waiting_gpus = False

    def __init__(self, fleet: Fleet, seed: int = 0) -> None:
        del seed
        self._nodes = Nodes(fleet)

    def rank(self, kind: JobClass) -> float:
        """First come, first served."""
        del kind
        return 0.0

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """The node that is left with the least, or the emptiest nodes together."""
        del kind
        return self._nodes.packed(count, free)


class PmFirst:
    """The fastest free GPUs, wherever they stand (PM-First of PAL)."""

    slows_waiting_gpus = False

    def __init__(self, fleet: Fleet, seed: int = 0) -> None:
        del seed
        self._fleet = fleet

    def rank(self, kind: JobClass) -> float:
        """First come, first served."""
        del kind
        return 0.0

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """From the top of the list."""
        order = self._fleet.work(kind).order
        return order[free[order]][:count]


class Pal:
    """The product of a cluster's slowdown and the cost of leaving a node, lowest first (PAL)."""

    slows_waiting_gpus = False

    def __init__(self, fleet: Fleet, seed: int = 0) -> None:
        del seed
        self._fleet, self._nodes = fleet, Nodes(fleet)
        self._factors: dict[JobClass, Floats] = {}

    def rank(self, kind: JobClass) -> float:
        """Classes that vary most choose first."""
        return -float(np.ptp(self._factor(kind)))

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """Within a node if that is no worse than the fastest clusters across nodes."""
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
    """Ours: each job where it ends soonest, but priced: fast GPUs and whole nodes are worth something to others.

    Times are used as measured, not by cluster. Work that hardly feels a slow GPU, or that may leave a node at no cost,
    takes what others need least. The clocks of GPUs that would only wait for the slowest of their job are lowered until
    they arrive with it, which costs no time and saves energy.
    """

    slows_waiting_gpus = True
    WORTH = 0.35
    """Price of a GPU that is 1 % faster than the median, in percent of a job's time."""
    WHOLENESS = 0.02
    """Price of taking GPUs out of a node that is all free, as a share of a job's time; less where it is broken."""
    BOUNDS = (0.0, 0.004, 0.012, 0.04)
    """How much slower than the fastest free GPUs a job may be placed, if that is cheaper."""

    MOST_SETS = 200
    """Sets of one node's GPUs that are all looked at; of larger nodes the fastest for their price are taken."""

    def __init__(self, fleet: Fleet, seed: int = 0) -> None:
        del seed
        self._fleet, self._nodes = fleet, Nodes(fleet)
        self._worth = self.WORTH * (1.0 - fleet.relative_time)
        self._within: dict[tuple[JobClass, int], tuple[Numbers, Floats]] = {}

    def rank(self, kind: JobClass) -> float:
        """Work that feels slow GPUs most chooses first."""
        return -float(np.std(self._fleet.work(kind).time))

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """The set whose time and mean price together are lowest."""
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
        """Of all sets within one node; None: no node has enough."""
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
    """Positions of the cheapest set for several bounds on its slowest member, and of these sets the best."""
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
    """Choosing GPUs with an eye on where they stand."""

    def __init__(self, fleet: Fleet) -> None:
        self._of, self._rows = fleet.node, fleet.nodes
        self.size = self._rows.shape[1]

    def several(self, gpus: Numbers) -> bool:
        """Whether they are in more than one node."""
        return bool((self._of[gpus] != self._of[gpus[0]]).any())

    def left(self, free: Free) -> Numbers:
        """Free GPUs of each node."""
        return np.bincount(self._of[free], minlength=self._rows.shape[0])

    def packed(self, count: int, free: Free) -> Numbers:
        """The node with the fewest free ones that are enough; else nodes with the most."""
        left = self.left(free)
        enough = np.flatnonzero(left >= count)
        if enough.size:
            node = enough[left[enough].argmin()]
            return np.flatnonzero(free & (self._of == node))[:count]
        candidates = np.flatnonzero(free)
        crowd = -left[self._of[candidates]]
        return candidates[np.lexsort((self._of[candidates], crowd))][:count]

    def by_factor(self, factor: Floats, count: int, free: Free) -> Numbers:
        """The lowest factors; among equal ones those whose node has about as many free as are needed."""
        candidates = np.flatnonzero(free)
        fit = np.abs(self.left(free)[self._of[candidates]] - count)
        return candidates[np.lexsort((fit, factor[candidates]))][:count]

    def sets(self, count: int) -> Numbers:
        """Every set of so many GPUs of one node: nodes x sets x GPUs; -1 in front where a node has too few."""
        picks = np.array(list(combinations(range(self.size), count)))
        sets = self._rows[:, picks]
        return np.asarray(np.where((sets >= 0).all(axis=2, keepdims=True), sets, -1))

    def best_within(self, factor: Floats, count: int, free: Free) -> Numbers | None:
        """The lowest factors within one node, by the highest among them; None: no node has enough."""
        if count > self.size:
            return None
        rows = self._rows
        costs = np.where((rows >= 0) & free[rows], factor[rows], np.inf)
        order = np.argsort(costs, axis=1, kind="stable")
        worst = np.take_along_axis(costs, order[:, count - 1 : count], axis=1)[:, 0]
        node = int(worst.argmin())
        return rows[node, order[node, :count]] if np.isfinite(worst[node]) else None


POLICIES: dict[str, Callable[[Fleet, int], Policy]] = {
    "random": Random,
    "packed": Packed,
    "pm-first": PmFirst,
    "pal": Pal,
    "slack": Slack,
}
"""By name; `slack` is ours."""
