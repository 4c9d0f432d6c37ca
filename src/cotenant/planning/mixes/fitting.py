"""Tenants that don't all fit, and devices whose tenants can be joined after a closer look."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from cotenant.planning.mixes.judge import MOST_ON_ONE, MixJudge
from cotenant.planning.mixes.second_opinion import SecondOpinion, seats_of
from cotenant.planning.mixes.tenants import Unit
from cotenant.planning.solver.generation import Solved
from cotenant.planning.solver.problem import NOBODY, PlacedGroup, cost_of

MOST_JOINED = 14
"""Largest number of devices of which pairs are joined."""
MOST_EMPTIED = 3
"""Devices, those of the fewest units, whose units are tried on others."""

Units = tuple[Unit, ...]


def fitting(units: Units, solved: Solved, solve: Callable[[Units], Solved | None]) -> Units:
    """The units of tenants that fit together with all their replicas, for as many tenants as possible.

    Tenants with a replica that was left out go first, and those with more replicas, whose devices may serve several
    others; then each is given another chance, those of few replicas first.

    Args:
        units: All of them.
        solved: The best plan for them.
        solve: The best plan for some of them; None when time is up.
    """
    parts = _parted(units)
    out = [part for part in parts if any(number in solved.left_out for number in part)]
    fewest = min(len(part) for part in out)
    whole = [part for part in parts if part not in out]
    kept = [part for part in whole if len(part) <= fewest]
    for part in sorted((part for part in parts if part not in kept), key=len):
        solution = solve(_of(units, [*kept, part]))
        if solution is None:
            break
        if not solution.left_out:
            kept.append(part)
    return _of(units, kept if len(kept) > len(whole) else whole)


def _of(units: Units, parts: Sequence[Sequence[int]]) -> Units:
    """The units of some parts, in their order."""
    return tuple(units[number] for number in sorted(number for part in parts for number in part))


def _parted(units: Sequence[Unit]) -> list[list[int]]:
    """Numbers of the units, those of the same tenants together."""
    by_tenants: dict[frozenset[int], list[int]] = {}
    for number, unit in enumerate(units):
        by_tenants.setdefault(frozenset(seat.tenant for seat in unit.seats), []).append(number)
    return list(by_tenants.values())


def joined_devices(judge: MixJudge, solved: Solved, opinion: SecondOpinion, more: Callable[[], bool]) -> Solved:
    """Join devices that the fast predictor keeps apart only because its range is wide, and place units left out."""
    columns, missing = list(solved.columns), list(solved.left_out)
    for unit in list(missing):
        joined = _joined(judge, [*columns, PlacedGroup(NOBODY, (unit,), 0.0)], opinion, more, last=True)
        if joined is not None:
            columns, missing = joined, [other for other in missing if other != unit]
    while len(columns) <= MOST_JOINED and (joined := _joined(judge, columns, opinion, more)) is not None:
        columns = joined
    while (emptied := _emptied(judge, columns, opinion, more)) is not None:
        columns = emptied
    cost = cost_of(columns)
    return replace(solved, columns=tuple(columns), left_out=tuple(missing), cost=cost, bound=min(solved.bound, cost))


def _joined(
    judge: MixJudge,
    columns: Sequence[PlacedGroup],
    opinion: SecondOpinion,
    more: Callable[[], bool],
    *,
    last: bool = False,
) -> list[PlacedGroup] | None:
    """The columns with two of them joined; None if no two can be. ``last``: the last column has no device yet."""
    pairs = [pair for pair in combinations(range(len(columns)), 2) if not last or pair[1] == len(columns) - 1]
    for first, other in pairs:
        members = tuple(sorted((*columns[first].members, *columns[other].members)))
        if not more() or columns[first].devices > 1 or columns[other].devices > 1 or len(members) > MOST_ON_ONE:
            continue
        kinds = {
            judge.ways[column.option].kind for column in (columns[first], columns[other]) if column.option != NOBODY
        }
        seats = seats_of(judge.units[unit] for unit in members)
        opinion.also.add(seats)
        for option, way in enumerate(judge.ways):
            if way.kind in kinds and bool((laid := judge.lay_out(option, np.array([members], np.int64))).fits[0]):
                cost = float(judge.cost(option, laid)[0])
                if last or cost < columns[first].cost + columns[other].cost:
                    rest = [column for index, column in enumerate(columns) if index not in (first, other)]
                    return [*rest, PlacedGroup(option, members, cost)]
        opinion.also.discard(seats)
    return None


def _emptied(
    judge: MixJudge, columns: Sequence[PlacedGroup], opinion: SecondOpinion, more: Callable[[], bool]
) -> list[PlacedGroup] | None:
    """The columns without the smallest of those whose units all find a place on others; None if there is none."""
    small = sorted((column for column in columns if column.devices == 1), key=lambda column: len(column.members))
    for column in small[:MOST_EMPTIED]:
        rest = [other for other in columns if other is not column]
        for unit in column.members:
            moved = [*rest, PlacedGroup(NOBODY, (unit,), 0.0)]
            # The device that becomes free pays for nothing: its units go where they cost less than it did.
            joined = _joined(judge, moved, opinion, more, last=True)
            if joined is None:
                break
            rest = joined
        else:
            if cost_of(rest) < cost_of(columns) - 1e-9:
                return rest
    return None
