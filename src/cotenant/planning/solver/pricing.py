"""Find groups that would make the plan cheaper, given the worth of placing each unit.

Searches a tree of groups: a node is a group that fits, a child adds a candidate. A child's candidates are
those after it in its parent's list, so every group occurs once. The worth below a node is bounded by a fractional
knapsack of its candidates, each weighing at least what it would take now; nodes that can't gain are pruned. Levels are
judged in batches.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cotenant.planning.solver.problem import NOBODY, Bools, Floats, Ints, Problem

BATCH = 200_000
"""Groups judged per call."""
_ROOM = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Priced:
    """Groups that gain, best first, and the largest worth of any group relative to its cost."""

    groups: Ints
    gain: Floats
    most_ratio: float
    """Upper bound on the worth of a group over its cost, including the worth of its device."""
    complete: bool
    """Whether everything that could gain was examined."""


@dataclass(slots=True)
class _Level:
    """Nodes of the same depth."""

    groups: Ints
    value: Floats
    busy: Floats
    cost: Floats
    candidates: Ints
    """By node, in order of expansion."""
    bound: Floats
    """By node, an upper bound on the worth of anything below it."""


def price(
    problem: Problem,
    option: int,
    worth: Floats,
    scarce: float,
    *,
    keep: int,
    beam: int | None,
    more: Callable[[], bool],
    least_gain: float = 1e-6,
) -> Priced:
    """Search an option.

    Args:
        problem: The units and their judge.
        option: The option to search.
        worth: By unit.
        scarce: Worth of a device of this kind beyond its cost.
        keep: Return at most this many groups.
        beam: Examine this many of the most promising nodes per level; None: all, which makes it a proof.
        more: Returns False to stop.
        least_gain: Ignore groups that gain less.
    """
    search = _Search(problem, option, worth, scarce, keep=keep, least_gain=least_gain, more=more)
    level = search.root()
    complete = True
    for _ in range(problem.most - 1):
        if level is None or search.stopped:
            break
        if beam is not None and len(level.groups) > beam:
            complete, level = False, search.most_promising(level, beam)
        level = search.children(level)
    groups, gain = search.found()
    return Priced(groups, gain, search.most_ratio(), complete and not search.stopped)


class _Search:
    def __init__(
        self,
        problem: Problem,
        option: int,
        worth: Floats,
        scarce: float,
        *,
        keep: int,
        least_gain: float,
        more: Callable[[], bool],
    ) -> None:
        self.problem, self.option, self.worth = problem, option, np.append(worth, 0.0)
        self.scarce, self.keep, self.least, self.more = scarce, keep, least_gain, more
        self.parts: list[tuple[Ints, Floats]] = []
        self.best_ratio = 0.0
        self.open_ratio = 0.0
        """Upper bound on worth over cost below nodes skipped for lack of time."""

    @property
    def stopped(self) -> bool:
        """Whether time ran out before everything was examined."""
        return self.open_ratio > 0

    def most_ratio(self) -> float:
        """Groups that gain nothing are worth no more than they cost."""
        return max(1.0, self.best_ratio, self.open_ratio)

    def root(self) -> _Level | None:
        """Every unit that has worth and fits alone, best worth per room first."""
        units = np.flatnonzero(self.worth[:-1] > 1e-12)
        if not units.size:
            return None
        judged = self.problem.judge(self.option, units[:, None])
        units, busy, cost = units[judged.fits], judged.busy[judged.fits], judged.cost[judged.fits]
        if not units.size:
            return None
        order = np.argsort(-self.worth[units] / np.maximum(busy, 1e-9), kind="stable")
        units, busy, cost = units[order], busy[order], cost[order]
        self._note(units[:, None], self.worth[units], cost)
        behind = np.full((units.size, units.size), NOBODY, np.int64)
        for index in range(units.size - 1):
            behind[index, : units.size - index - 1] = units[index + 1 :]
        value = self.worth[units]
        weights = np.append(np.maximum(busy, 1e-9), 0.0)
        number = np.full(self.worth.size, units.size)
        number[units] = np.arange(units.size)
        bound = value + _filling(self.worth[behind], weights[number[behind]], _ROOM - busy)
        return self._pruned(_Level(units[:, None], value, busy, cost, behind, bound))

    def children(self, level: _Level) -> _Level | None:
        """The next level, in chunks, since a node has as many children as candidates."""
        chunk = max(1, BATCH // max(level.candidates.shape[1], 1))
        grown: list[_Level] = []
        for at in range(0, len(level.groups), chunk):
            if not self.more():
                self._leave(_rows(level, slice(at, None)))
                break
            part = self._grown(_rows(level, slice(at, at + chunk)))
            grown += [] if part is None else [part]
        if not grown:
            return None
        width = max(part.candidates.shape[1] for part in grown)
        return _Level(
            np.concatenate([part.groups for part in grown]),
            np.concatenate([part.value for part in grown]),
            np.concatenate([part.busy for part in grown]),
            np.concatenate([part.cost for part in grown]),
            np.concatenate([_widened(part.candidates, width) for part in grown]),
            np.concatenate([part.bound for part in grown]),
        )

    def _grown(self, level: _Level) -> _Level | None:
        nodes, width = level.candidates.shape
        node, column = np.nonzero(level.candidates != NOBODY)
        if not node.size:
            return None
        joined = level.candidates[node, column]
        groups = np.column_stack([level.groups[node], joined])
        judged = self.problem.judge(self.option, groups)
        value = level.value[node] + self.worth[joined]
        fits = judged.fits
        self._note(groups[fits], value[fits], judged.cost[fits])
        # Only candidates that fit now can fit later. Best worth per room first within each node.
        marginal = np.full((nodes, width), np.inf)
        marginal[node[fits], column[fits]] = np.maximum(judged.busy[fits] - level.busy[node[fits]], 1e-9)
        gains = np.where(np.isfinite(marginal), self.worth[level.candidates] / marginal, -1.0)
        order = np.argsort(-gains, axis=1, kind="stable")
        sorted_marginal = np.take_along_axis(marginal, order, axis=1)
        sorted_units = np.where(
            np.isfinite(sorted_marginal), np.take_along_axis(level.candidates, order, axis=1), NOBODY
        )
        count = np.isfinite(sorted_marginal).sum(axis=1)
        if not count.any():
            return None
        widest = int(count.max())
        sorted_marginal, sorted_units = sorted_marginal[:, :widest], sorted_units[:, :widest]
        position = np.empty((nodes, width), np.int64)
        np.put_along_axis(position, order, np.arange(width)[None, :].repeat(nodes, 0), axis=1)
        node, column, groups, value = node[fits], column[fits], groups[fits], value[fits]
        rank = position[node, column]
        room = _ROOM - judged.busy[fits]
        bound = value + _filling_behind(self.worth[sorted_units], sorted_marginal, node, rank, room)
        most_more = self.problem.most - groups.shape[1]
        bound = np.minimum(bound, value + most_more * self.worth.max())
        cost = judged.cost[fits]
        keep = (bound - cost - self.scarce > self.least) & (rank + 1 < count[node]) & (most_more > 0)
        if not keep.any():
            return None
        node, rank = node[keep], rank[keep]
        columns = rank[:, None] + 1 + np.arange(widest)[None, :]
        behind = np.where(columns < widest, sorted_units[node[:, None], np.minimum(columns, widest - 1)], NOBODY)
        longest = int((behind != NOBODY).sum(axis=1).max())
        return _Level(groups[keep], value[keep], judged.busy[fits][keep], cost[keep], behind[:, :longest], bound[keep])

    def most_promising(self, level: _Level, count: int) -> _Level:
        """The nodes with the most worth per room."""
        score = level.value / np.maximum(level.busy, 1e-9)
        return _rows(level, np.argsort(-score, kind="stable")[:count])

    def _leave(self, level: _Level) -> None:
        ratio = level.bound / np.maximum(level.cost + self.scarce, 1e-12)
        self.open_ratio = max(self.open_ratio, float(ratio.max()))

    def found(self) -> tuple[Ints, Floats]:
        """All groups that gain, best first."""
        if not self.parts:
            return np.empty((0, 1), np.int64), np.empty(0)
        width = max(groups.shape[1] for groups, _ in self.parts)
        groups = np.concatenate([_widened(groups, width) for groups, _ in self.parts])
        gain = np.concatenate([gain for _, gain in self.parts])
        best = np.argsort(-gain, kind="stable")[: self.keep]
        return groups[best], gain[best]

    def _note(self, groups: Ints, value: Floats, cost: Floats) -> None:
        if not len(groups):
            return
        whole = cost + self.scarce
        gain = value - whole
        self.best_ratio = max(self.best_ratio, float((value / np.maximum(whole, 1e-12)).max()))
        rows = np.flatnonzero(gain > self.least)
        if rows.size > self.keep:
            rows = rows[np.argpartition(-gain[rows], self.keep)[: self.keep]]
        if rows.size:
            self.parts.append((groups[rows], gain[rows]))

    def _pruned(self, level: _Level) -> _Level | None:
        keep: Bools = (level.bound - level.cost - self.scarce > self.least) & (level.candidates != NOBODY).any(axis=1)
        return _rows(level, keep) if keep.any() else None


def _rows(level: _Level, which: slice | Ints | Bools) -> _Level:
    return _Level(
        level.groups[which],
        level.value[which],
        level.busy[which],
        level.cost[which],
        level.candidates[which],
        level.bound[which],
    )


def _widened(rows: Ints, width: int) -> Ints:
    missing = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, missing)), constant_values=NOBODY) if missing else rows


def _filling(worth: Floats, weight: Floats, room: Floats) -> Floats:
    """Fractional knapsack by row; items are sorted by worth per weight."""
    total = np.cumsum(weight, axis=1)
    before = total - weight
    part = np.clip((room[:, None] - before) / np.maximum(weight, 1e-12), 0.0, 1.0)
    return np.asarray((part * worth).sum(axis=1))


def _filling_behind(worth: Floats, weight: Floats, row: Ints, rank: Ints, room: Floats) -> Floats:
    """The same for many children at once: only items after the rank count."""
    finite = np.isfinite(weight)
    weight = np.where(finite, weight, 0.0)
    worth = np.where(finite, worth, 0.0)
    total, value = np.cumsum(weight, axis=1), np.cumsum(worth, axis=1)
    width, room = total.shape[1], np.maximum(room, 0.0)
    span = float(total[:, -1].max() + room.max()) + 1.0
    flat = (total + span * np.arange(total.shape[0])[:, None]).ravel()
    filled = total[row, rank] + room
    end = np.searchsorted(flat, filled + span * row, side="right") - row * width  # items that fit entirely
    end = np.clip(end, rank + 1, width)
    whole = value[row, end - 1] - value[row, rank]
    left = filled - total[row, end - 1]
    following = np.minimum(end, width - 1)
    share = np.clip(left / np.maximum(weight[row, following], 1e-12), 0.0, 1.0)
    return np.asarray(whole + share * np.where(end < width, worth[row, following], 0.0))
