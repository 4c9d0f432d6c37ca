"""Many units: a quick plan, then block-by-block improvement.

A block is a set of devices with everything on them. It is solved separately, and any saving is kept. Blocks are redrawn
each round so that units meet new neighbours.
"""

from collections.abc import Callable

import numpy as np

from cotenant.planning.solver.generation import PROOF, UNKNOWN, Clock, Solved, Start, generate
from cotenant.planning.solver.pricing import price
from cotenant.planning.solver.problem import Column, Floats, Problem, cost_of, devices_used

BLOCK_UNITS = 80
BLOCK_S = 6.0
BOUND_SHARE = 0.08
"""Fraction of the time reserved for a global bound."""
STRETCH = 1.1
"""Prices are divided by this before searching for a group worth more than it costs."""


def improve_in_blocks(
    problem: Problem,
    begun: Start,
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
    while clock() < end:
        blocks = _blocks([columns[place] for place in random.permutation(len(columns))], block_units)
        for number, mine in enumerate(list(blocks)):
            if clock() >= end:
                break
            rest = [column for other, block in enumerate(blocks) if other != number for column in block]
            left = min(BLOCK_S, end - clock())
            blocks[number], missing = _solved(problem, mine, missing, rest, worth=worth, clock=clock, seconds=left)
            if blocks[number] is not mine:
                progress(cost_of([*rest, *blocks[number]]))
        columns = [column for block in blocks for column in block]
    settled = not missing and not np.isnan(worth).any()
    bound = bound_of_all(problem, worth, clock=clock, seconds=seconds * BOUND_SHARE) if settled else 0.0
    cost = cost_of(columns)
    return Solved(tuple(columns), tuple(missing), cost, min(bound, cost), PROOF if bound > 0 else UNKNOWN)


def _blocks(columns: list[Column], units: int) -> list[list[Column]]:
    """Columns in the given order, split once a block has enough units."""
    blocks: list[list[Column]] = [[]]
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
    mine: list[Column],
    missing: list[int],
    rest: list[Column],
    *,
    worth: Floats,
    clock: Clock,
    seconds: float,
) -> tuple[list[Column], list[int]]:
    """Solve a block, keeping the old one if no better. Unplaced units get another chance in every block.

    Stores each unit's worth in its block in ``worth``.
    """
    units = [unit for column in mine for unit in column.members] + missing
    number = {unit: place for place, unit in enumerate(units)}
    used = devices_used(problem, rest)
    part = problem.restricted(units, [there - taken for there, taken in zip(problem.available, used, strict=True)])
    known = tuple(
        Column(column.option, tuple(number[unit] for unit in column.members), column.cost, column.devices)
        for column in mine
    )
    begun = Start(known, tuple(number[unit] for unit in missing))
    solved = generate(part, begun, clock=clock, seconds=seconds, proven=False, gap=1e-3)
    worth[units] = solved.worth
    still = [units[place] for place in solved.left_out]
    if len(still) >= len(missing) and solved.cost >= cost_of(mine) - 1e-9:
        return mine, missing
    named = [
        Column(column.option, tuple(units[place] for place in column.members), column.cost, column.devices)
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
    given = [worth[list(one.members)].sum() / max(one.cost, 1e-12) for one in problem.given]
    found = [
        price(problem, option, worth / STRETCH, 0.0, keep=1, beam=None, more=lambda: clock() < end)
        for option in range(len(problem.options))
    ]
    ratio = float(max([STRETCH * max(one.most_ratio for one in found), *given]))
    return max(bound_by_room(problem), float(worth.sum()) / ratio)


def bound_by_room(problem: Problem) -> float:
    """Cost of all units if devices could be rented by the share that each takes alone."""
    alone = np.arange(problem.units, dtype=np.int64)[:, None]
    least: Floats = np.full(problem.units, np.inf)
    for number, option in enumerate(problem.options):
        judged = problem.judge(number, alone)
        least = np.minimum(least, np.where(judged.fits, judged.busy * option.floor, np.inf))
    for column in problem.given:
        least[list(column.members)] = np.minimum(least[list(column.members)], column.cost / len(column.members))
    return float(least[np.isfinite(least)].sum())
