"""Best-fit decreasing: a quick plan, and the start for better ones."""

import numpy as np

from cotenant.planning.solver.problem import NOBODY, Column, Floats, Ints, Problem, devices_used


def best_fit_decreasing(problem: Problem) -> tuple[list[Column], list[int]]:
    """Place units from largest to smallest, each where the least room is left; else on a new device.

    Returns:
        The columns, and the units that did not fit.
    """
    alone = np.arange(problem.units, dtype=np.int64)[:, None]
    judged = [problem.judge(option, alone) for option in range(len(problem.options))]
    floors = np.array([option.floor for option in problem.options])
    need = np.array([np.where(one.fits, one.busy, np.inf) for one in judged])
    price = np.where(np.isfinite(need), need, np.inf) * np.maximum(floors, 1e-12)[:, None]
    given = {column.members: column for column in problem.given}
    smallest = price.min(axis=0)
    order = np.argsort(-np.where(np.isfinite(smallest), smallest, -1.0), kind="stable")
    opened = _Opened(problem)
    columns: list[Column] = []
    missing: list[int] = []
    for unit in order:
        if (wide := given.get((int(unit),))) is not None and not np.isfinite(smallest[unit]):
            if opened.take(problem.options[wide.option].kind, wide.devices):
                columns.append(wide)
            else:
                missing.append(int(unit))
        elif not opened.join(int(unit)) and not opened.begin(int(unit), price[:, unit]):
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

    def join(self, unit: int) -> bool:
        """The best fit, allowing the device to switch to another way to share."""
        best: tuple[float, int, int] | None = None
        for number, option in enumerate(self.problem.options):
            open_there = (self.kind[: self.count] == option.kind) & (self.size[: self.count] < self.problem.most)
            places = np.flatnonzero(open_there)
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
        _, place, number = best
        self.groups[place, self.size[place]] = unit
        self.size[place] += 1
        self.option[place] = number
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

    def columns(self) -> list[Column]:
        found: list[Column] = []
        for number in range(len(self.problem.options)):
            places = np.flatnonzero(self.option[: self.count] == number)
            if not places.size:
                continue
            judged = self.problem.judge(number, self.groups[places])
            found += [
                Column(number, tuple(int(unit) for unit in self.groups[place] if unit != NOBODY), float(cost))
                for place, cost in zip(places, judged.cost, strict=True)
            ]
        return found


def thinned(problem: Problem, columns: list[Column]) -> list[Column]:
    """Keep every unit only in its first column; drop empty columns."""
    seen: set[int] = set()
    kept = []
    for column in sorted(columns, key=lambda one: -len(one.members)):
        members = tuple(unit for unit in column.members if unit not in seen)
        seen |= set(members)
        if members == column.members:
            kept.append(column)
        elif members:
            cost = float(problem.judge(column.option, np.array([members], np.int64)).cost[0])
            kept.append(Column(column.option, members, cost))
    assert all(used <= there for used, there in zip(devices_used(problem, kept), problem.available, strict=True))
    return kept
