"""Set partitioning by column generation: add columns that gain until none does, then solve for whole columns.

The relaxation's prices, scaled so that no group is worth more than it costs, prove `Solved.bound`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.planning.solver.master import Relaxed, choose, relax
from cotenant.planning.solver.pricing import price
from cotenant.planning.solver.problem import (
    NOBODY,
    Floats,
    Ints,
    PlacedGroup,
    Problem,
    columns_of,
    cost_of,
    devices_used,
    singles,
)

Clock = Callable[[], float]
"""Seconds from an arbitrary start; injected, since planning reads no clock."""

PROOF = "prices of the relaxation; one more tenant never frees room"
UNKNOWN = "none: not enough time"
INTERRUPTED = "none: interrupted"
PER_ROUND = 400
BEAM = 120
BEAM_KEPT = 150
FEW = 4
"""Devices that are tried for a unit when time is up."""
WHOLE_SHARE = 0.5
"""Fraction of the time reserved for choosing whole columns."""


@dataclass(frozen=True, slots=True)
class Solved:
    """A plan in the solver's terms."""

    columns: tuple[PlacedGroup, ...]
    left_out: tuple[int, ...]
    cost: float
    bound: float
    """Lower bound on the cost; 0 if unknown."""
    proof: str
    """Basis of the bound."""
    worth: tuple[float, ...] = ()
    """By unit, the marginal cost of placing it; empty if unknown."""

    @property
    def gap(self) -> float:
        """Relative distance of the cost from the bound."""
        return (self.cost - self.bound) / self.bound if self.bound > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class FirstPlan:
    """State before the first column is generated."""

    columns: tuple[PlacedGroup, ...]
    left_out: tuple[int, ...]


def start(problem: Problem, more: Callable[[], bool] = lambda: True) -> FirstPlan:
    """Best-fit decreasing; first fit among the latest devices once time is up."""
    columns, missing = best_fit_decreasing(problem, more)
    return FirstPlan(tuple(columns), tuple(missing))


def generate(
    problem: Problem, begun: FirstPlan, *, clock: Clock, seconds: float, proven: bool = True, gap: float = 1e-4
) -> Solved:
    """Improve on a plan until it is optimal, within the gap, or out of time.

    Args:
        problem: The units to place.
        begun: A plan to start from.
        clock: Returns seconds.
        seconds: Approximate time limit.
        proven: If False, spend no time on a bound.
        gap: Stop within this relative distance from the bound.
    """
    pool = _Pool(problem, begun)
    end = clock() + seconds
    prices_end = end - WHOLE_SHARE * seconds

    def more() -> bool:
        return clock() < prices_end

    bound, relaxed, beam = 0.0, relax(problem, pool.columns), BEAM
    while more():
        added, _, _ = _round(problem, pool, relaxed, beam=beam, more=more)
        if not added and beam < 8 * BEAM:
            beam *= 4
            continue
        if not added:
            if not proven:
                break
            added, ratio, complete = _round(problem, pool, relaxed, beam=None, more=more)
            bound = max(bound, _bound(problem, relaxed, ratio))
            if complete and not added:
                bound = max(bound, relaxed.cost)
            if not added:
                break
        relaxed = relax(problem, pool.columns)
    if proven and bound == 0.0:
        _, ratio, _ = _round(problem, pool, relaxed, beam=None, more=lambda: clock() < prices_end)
        bound = max(bound, _bound(problem, relaxed, ratio))
    best = _whole(problem, pool, begun, relaxed, seconds=end - clock(), gap=gap)
    if relaxed.left_out.max(initial=0.0) > 1e-6 or best.left_out:
        bound = 0.0  # prices of units that can't be placed don't bound the cost of the rest
    cost = cost_of(best.columns)
    worth = tuple(float(price) for price in relaxed.worth)
    return Solved(best.columns, best.left_out, cost, min(bound, cost), PROOF if bound > 0 else UNKNOWN, worth)


class _Pool:
    """Columns without repetition."""

    def __init__(self, problem: Problem, begun: FirstPlan) -> None:
        self.columns: list[PlacedGroup] = []
        self._known: set[tuple[int, tuple[int, ...]]] = set()
        self.add([*singles(problem), *begun.columns])

    def add(self, columns: Sequence[PlacedGroup]) -> int:
        before = len(self.columns)
        for column in columns:
            key = (column.option, tuple(sorted(column.members)))
            if key not in self._known:
                self._known.add(key)
                self.columns.append(column)
        return len(self.columns) - before


def _round(
    problem: Problem, pool: _Pool, relaxed: Relaxed, *, beam: int | None, more: Callable[[], bool]
) -> tuple[int, float, bool]:
    """Price every option once. Returns the number of columns added, the largest worth over cost, and completeness."""
    added, ratio, complete = 0, 0.0, True
    for number, option in enumerate(problem.options):
        keep = BEAM_KEPT if beam is not None else PER_ROUND
        scarce = float(relaxed.scarce[option.kind])
        least = 1e-6 * max(option.floor, 1e-9)
        priced = price(problem, number, relaxed.worth, scarce, keep=keep, beam=beam, more=more, least_gain=least)
        added += pool.add(columns_of(problem, number, _varied(priced.groups, keep)))
        ratio, complete = max(ratio, priced.most_ratio), complete and priced.complete
    return added, ratio, complete


def _varied(groups: Ints, count: int) -> Ints:
    """The best columns, limiting each unit to a third of them for variety."""
    used: dict[int, int] = {}
    rows: list[int] = []
    for row, group in enumerate(groups):
        members = [int(unit) for unit in group if unit >= 0]
        if len(rows) >= 20 and any(used.get(unit, 0) > count // 3 for unit in members):
            continue
        for unit in members:
            used[unit] = used.get(unit, 0) + 1
        rows.append(row)
    return groups[rows]


def _bound(problem: Problem, relaxed: Relaxed, ratio: float) -> float:
    """Scale prices so that no group is worth more than it costs; they then bound every plan from below."""
    given: list[float] = [
        relaxed.worth[list(column.members)].sum()
        / max(column.cost + column.devices * relaxed.scarce[problem.options[column.option].kind], 1e-12)
        for column in problem.given
    ]
    scale = float(max([1.0, ratio, *given]))
    scarcity = float(relaxed.scarce @ np.asarray(problem.available, float)) if relaxed.scarce.any() else 0.0
    return float(relaxed.worth.sum()) / scale - scarcity


def _whole(
    problem: Problem, pool: _Pool, begun: FirstPlan, relaxed: Relaxed, *, seconds: float, gap: float
) -> FirstPlan:
    """Solve for whole columns, pre-selected by reduced cost since few are ever chosen."""
    cost = np.array([column.cost for column in pool.columns])
    value = np.array([relaxed.worth[list(column.members)].sum() for column in pool.columns])
    kinds = np.array([problem.options[column.option].kind for column in pool.columns])
    devices = np.array([column.devices for column in pool.columns])
    reduced = cost + relaxed.scarce[kinds] * devices - value
    best = begun
    slack = max(cost_of(begun.columns) - relaxed.cost, 0.0) if not begun.left_out else np.inf
    useful = [column for column, over in zip(pool.columns, reduced, strict=True) if over <= slack + 1e-9]
    useful = list({*useful, *begun.columns, *(c for c in pool.columns if len(c.members) == 1)})
    chosen = choose(problem, useful, seconds=seconds, gap=gap)
    if chosen is not None:
        columns = thinned(problem, list(chosen.columns))
        better = len(chosen.left_out) < len(begun.left_out)
        same = len(chosen.left_out) == len(begun.left_out)
        if better or (same and cost_of(columns) < cost_of(best.columns) - 1e-12):
            best = FirstPlan(tuple(columns), chosen.left_out)
    return best


# --- best-fit decreasing: a quick plan, and the start for better ones


def best_fit_decreasing(
    problem: Problem, more: Callable[[], bool] = lambda: True
) -> tuple[list[PlacedGroup], list[int]]:
    """Place units from largest to smallest, each where the least room is left; else on a new device.

    Returns:
        The columns, and the units that did not fit.
    """
    alone = np.arange(problem.units, dtype=np.int64)[:, None]
    judged = [problem.judge(option, alone) for option in range(len(problem.options))]
    floors = np.array([option.floor for option in problem.options])
    need = np.array([np.where(option.fits, option.busy, np.inf) for option in judged])
    price = np.where(np.isfinite(need), need, np.inf) * np.maximum(floors, 1e-12)[:, None]
    given = {column.members: column for column in problem.given}
    smallest = price.min(axis=0)
    order = np.argsort(-np.where(np.isfinite(smallest), smallest, -1.0), kind="stable")
    opened = _Opened(problem)
    columns: list[PlacedGroup] = []
    missing: list[int] = []
    for unit in order:
        if (wide := given.get((int(unit),))) is not None and not np.isfinite(smallest[unit]):
            if opened.take(problem.options[wide.option].kind, wide.devices):
                columns.append(wide)
            else:
                missing.append(int(unit))
        elif not opened.join(int(unit), None if more() else FEW) and not opened.begin(int(unit), price[:, unit]):
            missing.append(int(unit))
    return [*columns, *opened.columns()], missing


class _Opened:
    """Devices in use, by option."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        size = sum(min(count, problem.units) for count in problem.available)
        self.groups: Ints = np.full((size, problem.most), NOBODY, np.int64)
        self.option: Ints = np.full(size, NOBODY, np.int64)
        self.kind: Ints = np.full(size, NOBODY, np.int64)
        self.size: Ints = np.zeros(size, np.int64)
        self.count = 0
        self.left = list(problem.available)

    def take(self, kind: int, devices: int) -> bool:
        if self.left[kind] < devices:
            return False
        self.left[kind] -= devices
        return True

    def join(self, unit: int, latest: int | None = None) -> bool:
        """The best fit, allowing the device to switch to another way to share; among the latest devices if given."""
        best: tuple[float, int, int] | None = None
        for number, option in enumerate(self.problem.options):
            if latest is not None and best is not None:
                break
            open_there = (self.kind[: self.count] == option.kind) & (self.size[: self.count] < self.problem.most)
            places = np.flatnonzero(open_there)[-latest if latest else 0 :]
            if not places.size:
                continue
            groups = self.groups[places]
            groups[np.arange(places.size), self.size[places]] = unit
            judged = self.problem.judge(number, groups)
            busy = np.where(judged.fits, judged.busy, -1.0)
            fullest = int(np.argmax(busy))
            if busy[fullest] >= 0 and (best is None or busy[fullest] > best[0]):
                best = (float(busy[fullest]), int(places[fullest]), number)
        if best is None:
            return False
        _, device, number = best
        self.groups[device, self.size[device]] = unit
        self.size[device] += 1
        self.option[device] = number
        return True

    def begin(self, unit: int, price: Floats) -> bool:
        for number in np.argsort(price, kind="stable"):
            kind = self.problem.options[number].kind
            if np.isfinite(price[number]) and self.take(kind, 1):
                self.groups[self.count, 0], self.size[self.count] = unit, 1
                self.option[self.count], self.kind[self.count] = number, kind
                self.count += 1
                return True
        return False

    def columns(self) -> list[PlacedGroup]:
        columns: list[PlacedGroup] = []
        for number in range(len(self.problem.options)):
            places = np.flatnonzero(self.option[: self.count] == number)
            if not places.size:
                continue
            judged = self.problem.judge(number, self.groups[places])
            columns += [
                PlacedGroup(
                    number, tuple(sorted(int(unit) for unit in self.groups[device] if unit != NOBODY)), float(cost)
                )
                for device, cost in zip(places, judged.cost, strict=True)
            ]
        return columns


def thinned(problem: Problem, columns: list[PlacedGroup]) -> list[PlacedGroup]:
    """Keep every unit only in its first column; drop empty columns."""
    seen: set[int] = set()
    kept = []
    for column in sorted(columns, key=lambda group: -len(group.members)):
        members = tuple(unit for unit in column.members if unit not in seen)
        seen |= set(members)
        if members == column.members:
            kept.append(column)
        elif members:
            cost = float(problem.judge(column.option, np.array([members], np.int64)).cost[0])
            kept.append(PlacedGroup(column.option, members, cost))
    assert all(used <= there for used, there in zip(devices_used(problem, kept), problem.available, strict=True))
    return kept
