"""The solver's model: numbered units, ways to use a device, and a judge of groups. It knows nothing of tenants.

The judge takes many groups per call. Proofs assume two properties, which hold wherever a neighbour never helps: every
subset of a group that fits also fits, and a unit takes more of a device the more is on it already. Up to `EVERY_GROUP`
units, every group is examined and nothing is assumed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NOBODY = -1
"""Padding for rows of smaller groups."""
EVERY_GROUP = 10
"""Up to this many units, every group is judged."""


@dataclass(frozen=True, slots=True)
class JudgedGroups:
    """Judgement of groups on an option; an entry per group."""

    fits: Bools
    busy: Floats
    """Fraction of the device that the group takes; above 1 it doesn't fit."""
    cost: Floats


Judge = Callable[[int, Ints], JudgedGroups]
"""Judge groups (rows of unit indices padded with `NOBODY`) on the option with this index."""


@dataclass(frozen=True, slots=True)
class WayToUse:
    """A way to use a kind of device."""

    kind: int
    floor: float
    """Lower bound on the cost of a group there."""


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """A group on a device, or on several that a unit spans."""

    option: int
    members: tuple[int, ...]
    cost: float
    devices: int = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """Units to place, and the options for them."""

    units: int
    options: tuple[WayToUse, ...]
    available: tuple[int, ...]
    """Available devices by kind."""
    judge: Judge
    most: int = 7
    """Maximum units per device."""
    given: tuple[PlacedGroup, ...] = ()
    """Columns supplied by the caller, e.g. a unit that spans several devices."""

    def restricted(self, units: Sequence[int], available: Sequence[int]) -> "Problem":
        """The problem restricted to some units, renumbered from 0."""
        names = np.append(np.asarray(units, np.int64), NOBODY)
        number = {unit: index for index, unit in enumerate(units)}
        given = tuple(
            PlacedGroup(column.option, tuple(number[unit] for unit in column.members), column.cost, column.devices)
            for column in self.given
            if all(unit in number for unit in column.members)
        )

        def judge(option: int, groups: Ints) -> JudgedGroups:
            return self.judge(option, names[groups])

        return Problem(len(units), self.options, tuple(available), judge, self.most, given)


def as_groups(members: Sequence[Sequence[int]], width: int | None = None) -> Ints:
    """Pad rows to equal length."""
    longest = max((len(group) for group in members), default=1) if width is None else width
    rows = np.full((len(members), max(longest, 1)), NOBODY, np.int64)
    for row, group in zip(rows, members, strict=True):
        row[: len(group)] = group
    return rows


def columns_of(problem: Problem, option: int, groups: Ints) -> list[PlacedGroup]:
    """The groups that fit, as columns."""
    if not len(groups):
        return []
    judged = problem.judge(option, groups)
    return [
        PlacedGroup(option, tuple(sorted(int(unit) for unit in groups[row] if unit != NOBODY)), float(judged.cost[row]))
        for row in np.flatnonzero(judged.fits)
    ]


def singles(problem: Problem) -> list[PlacedGroup]:
    """Every unit alone wherever it fits, plus the supplied columns."""
    alone = np.arange(problem.units, dtype=np.int64)[:, None]
    columns = [column for option in range(len(problem.options)) for column in columns_of(problem, option, alone)]
    return [*problem.given, *columns]


def cost_of(columns: Iterable[PlacedGroup]) -> float:
    """Of all together."""
    return sum(column.cost for column in columns)


def devices_used(problem: Problem, columns: Iterable[PlacedGroup]) -> list[int]:
    """By kind."""
    used = [0] * len(problem.available)
    for column in columns:
        used[problem.options[column.option].kind] += column.devices
    return used
