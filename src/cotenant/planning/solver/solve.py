"""Choose the solver by the number of units."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import numpy as np

from cotenant.planning.solver.generation import INTERRUPTED, PROOF, UNKNOWN, Clock, FirstPlan, Solved, generate, start
from cotenant.planning.solver.master import choose
from cotenant.planning.solver.pricing import price
from cotenant.planning.solver.problem import (
    EVERY_GROUP,
    Floats,
    PlacedGroup,
    Problem,
    as_groups,
    columns_of,
    cost_of,
    devices_used,
)

AT_ONCE = 200
"""Up to this many units are solved as a single problem."""
QUICK_SHARE = 0.6
"""Fraction of the time left when the first plan stops looking for the best fit and takes the first."""
LEAST_S = 0.2


def solve(
    problem: Problem,
    *,
    clock: Clock,
    seconds: float,
    begun: FirstPlan | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Solved:
    """The best plan found in time, with a bound.

    Args:
        problem: The units to place.
        clock: Returns seconds; planning never reads the system clock itself.
        seconds: Approximate time limit.
        begun: A plan to improve on.
        progress: Called with the cost of each better plan of a large problem.
    """
    end = clock() + seconds
    if begun is None or begun.left_out:
        begun = start(problem, lambda: clock() < end - QUICK_SHARE * seconds)
    progress(cost_of(begun.columns))
    left = max(end - clock(), LEAST_S)
    try:
        if problem.units <= EVERY_GROUP:
            return enumerate_groups(problem, begun, seconds=left)
        if problem.units <= AT_ONCE:
            return _raised(problem, generate(problem, begun, clock=clock, seconds=left))
        return _raised(problem, improve_in_blocks(problem, begun, clock=clock, seconds=left, progress=progress))
    except KeyboardInterrupt:
        return Solved(begun.columns, begun.left_out, cost_of(begun.columns), 0.0, INTERRUPTED)


def _raised(problem: Problem, solved: Solved) -> Solved:
    """With the bounds that hold for every plan, where they are higher."""
    if solved.left_out or solved.proof == INTERRUPTED:
        return solved
    room, number = bound_by_room(problem), bound_by_number(problem)
    if max(room, number) <= solved.bound:
        return solved
    proof = f"no device holds more than {problem.most}" if number >= room else "the room that each takes alone"
    return replace(solved, bound=min(max(room, number), solved.cost), proof=proof)


# --- few units: judge every group, then choose. Assumes nothing about the judge


def enumerate_groups(problem: Problem, begun: FirstPlan, *, seconds: float) -> Solved:
    """The optimal plan, with proof unless time runs out."""
    groups = [
        group
        for size in range(1, min(problem.units, problem.most) + 1)
        for group in combinations(range(problem.units), size)
    ]
    columns: list[PlacedGroup] = list(problem.given)
    for option in range(len(problem.options)):
        columns += columns_of(problem, option, as_groups(groups, problem.most))
    chosen = choose(problem, columns, seconds=seconds, exactly=True)
    if chosen is None:
        return Solved(begun.columns, begun.left_out, cost_of(begun.columns), 0.0, "none: time ran out")
    cost = cost_of(chosen.columns)
    bound = chosen.bound - chosen.penalty * len(chosen.left_out)
    bound = cost if np.isclose(bound, cost, rtol=1e-6) else min(bound, cost)
    return Solved(chosen.columns, chosen.left_out, cost, bound, "every group was examined")


# --- many units: a quick plan, then block-by-block improvement

BLOCK_UNITS = 80
BLOCK_S = 6.0
BOUND_SHARE = 0.08
"""Fraction of the time reserved for a global bound."""
STRETCH = 1.1
"""Prices are divided by this before searching for a group worth more than it costs."""


def improve_in_blocks(
    problem: Problem,
    begun: FirstPlan,
    *,
    clock: Clock,
    seconds: float,
    seed: int = 0,
    block_units: int = BLOCK_UNITS,
    progress: Callable[[float], None] = lambda _: None,
) -> Solved:
    """Improve on a plan until time runs out.

    Args:
        problem: The units to place.
        begun: A complete plan.
        clock: Returns seconds.
        seconds: Approximate time limit.
        seed: Seed of the blocks.
        block_units: Approximate units per block.
        progress: Called with the cost after each block.
    """
    random = np.random.default_rng(seed)
    end = clock() + seconds * (1 - BOUND_SHARE)
    columns, missing = list(begun.columns), list(begun.left_out)
    worth: Floats = np.full(problem.units, np.nan)
    interrupted = False
    while clock() < end and not interrupted:
        blocks = _blocks([columns[index] for index in random.permutation(len(columns))], block_units)
        for number, mine in enumerate(list(blocks)):
            if clock() >= end:
                break
            rest = [column for other, block in enumerate(blocks) if other != number for column in block]
            left = min(BLOCK_S, end - clock())
            try:
                blocks[number], missing = _solved(problem, mine, missing, rest, worth=worth, clock=clock, seconds=left)
            except KeyboardInterrupt:
                interrupted = True
                break
            if blocks[number] is not mine:
                progress(cost_of([*rest, *blocks[number]]))
        columns = [column for block in blocks for column in block]
    settled = not interrupted and not missing and not np.isnan(worth).any()
    bound = bound_of_all(problem, worth, clock=clock, seconds=seconds * BOUND_SHARE) if settled else 0.0
    cost = cost_of(columns)
    proof = INTERRUPTED if interrupted else PROOF if bound > 0 else UNKNOWN
    return Solved(tuple(columns), tuple(missing), cost, min(bound, cost), proof)


def _blocks(columns: list[PlacedGroup], units: int) -> list[list[PlacedGroup]]:
    """Columns in the given order, split once a block has enough units."""
    blocks: list[list[PlacedGroup]] = [[]]
    held = 0
    for column in columns:
        if held >= units:
            blocks.append([])
            held = 0
        blocks[-1].append(column)
        held += len(column.members)
    return blocks


def _solved(
    problem: Problem,
    mine: list[PlacedGroup],
    missing: list[int],
    rest: list[PlacedGroup],
    *,
    worth: Floats,
    clock: Clock,
    seconds: float,
) -> tuple[list[PlacedGroup], list[int]]:
    """Solve a block, keeping the old solution if no better. Unplaced units get another chance in every block.

    Stores each unit's worth in its block in ``worth``.
    """
    units = [unit for column in mine for unit in column.members] + missing
    number = {unit: index for index, unit in enumerate(units)}
    used = devices_used(problem, rest)
    part = problem.restricted(units, [there - taken for there, taken in zip(problem.available, used, strict=True)])
    known = tuple(
        PlacedGroup(column.option, tuple(number[unit] for unit in column.members), column.cost, column.devices)
        for column in mine
    )
    begun = FirstPlan(known, tuple(number[unit] for unit in missing))
    solved = generate(part, begun, clock=clock, seconds=seconds, proven=False, gap=1e-3)
    worth[units] = solved.worth
    still = [units[index] for index in solved.left_out]
    if len(still) >= len(missing) and solved.cost >= cost_of(mine) - 1e-9:
        return mine, missing
    named = [
        PlacedGroup(column.option, tuple(units[index] for index in column.members), column.cost, column.devices)
        for column in solved.columns
    ]
    return named, still


def bound_of_all(problem: Problem, worth: Floats, *, clock: Clock, seconds: float) -> float:
    """A global bound from the prices that blocks settled on; 0 if there isn't enough time.

    Any prices give a bound once scaled so that no group is worth more than it costs. After scaling by `STRETCH`, few
    groups gain anything; the largest gain gives the remaining factor. If time runs out, the room that units take alone
    is the bound.
    """
    end = clock() + seconds
    given = [worth[list(column.members)].sum() / max(column.cost, 1e-12) for column in problem.given]
    searches = [
        price(problem, option, worth / STRETCH, 0.0, keep=1, beam=None, more=lambda: clock() < end)
        for option in range(len(problem.options))
    ]
    ratio = float(max([STRETCH * max(search.most_ratio for search in searches), *given]))
    return max(bound_by_room(problem), float(worth.sum()) / ratio)


def bound_by_number(problem: Problem) -> float:
    """Cost of as many of the cheapest devices as hold all units that don't span several."""
    spanning = {unit for column in problem.given for unit in column.members}
    floor = min(option.floor for option in problem.options)
    return -(-(problem.units - len(spanning)) // problem.most) * floor


def bound_by_room(problem: Problem) -> float:
    """Cost of all units if devices could be rented by the share that each takes alone.

    If all devices cost the same, whole ones.
    """
    alone = np.arange(problem.units, dtype=np.int64)[:, None]
    least: Floats = np.full(problem.units, np.inf)
    for number, option in enumerate(problem.options):
        judged = problem.judge(number, alone)
        least = np.minimum(least, np.where(judged.fits, judged.busy * option.floor, np.inf))
    for column in problem.given:
        least[list(column.members)] = np.minimum(least[list(column.members)], column.cost / len(column.members))
    bound = float(least[np.isfinite(least)].sum())
    floors = {option.floor for option in problem.options}
    floor = floors.pop()
    # Where a device costs more than its floor, whatever runs on it counts too.
    whole = not floors and floor > 0 and all(column.cost % floor == 0 for column in problem.given)
    return float(np.ceil(bound / floor - 1e-6) * floor) if whole and not _dearer(problem, floor) else bound


def _dearer(problem: Problem, floor: float) -> bool:
    """Whether some unit alone on a device costs more than the device itself."""
    alone = np.arange(problem.units, dtype=np.int64)[:, None]
    judged = [problem.judge(option, alone) for option in range(len(problem.options))]
    return any(bool((each.cost[each.fits] > floor * (1 + 1e-9)).any()) for each in judged)
