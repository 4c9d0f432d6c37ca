"""Many units: a plan at once, then better ones block by block.

A block is some devices of the plan with everything on them. It is solved on its own, and what it saves is kept. Blocks
are drawn anew each round, so that units meet others than before.
"""

from collections.abc import Callable

import numpy as np

from cotenant.planning.solver.generation import Clock, Solved, Start, generate
from cotenant.planning.solver.master import relax
from cotenant.planning.solver.pricing import price
from cotenant.planning.solver.problem import Column, Problem, cost_of, devices_used

BLOCK_UNITS = 60
BLOCK_S = 6.0
BOUND_SHARE = 0.2
"""Of the time, for a bound of the whole."""
UNKNOWN = "none: there are too many groups to look at"


def improve_in_blocks(
    problem: Problem,
    begun: Start,
    *,
    clock: Clock,
    seconds: float,
    seed: int = 0,
    block_units: int = BLOCK_UNITS,
    told: Callable[[float], None] = lambda _: None,
) -> Solved:
    """Improve on a plan until the time is over.

    Args:
        problem: What is to be placed.
        begun: A plan of all of it.
        clock: Seconds.
        seconds: At most, about.
        seed: Of the blocks.
        block_units: About how many units a block has.
        told: Called with the cost after each block.
    """
    random = np.random.default_rng(seed)
    end = clock() + seconds * (1 - BOUND_SHARE)
    columns, missing = list(begun.columns), list(begun.left_out)
    while clock() < end:
        order = random.permutation(len(columns))
        at = 0
        while at < len(order) and clock() < end:
            block, at = _block(columns, order, at, block_units)
            rest = [columns[place] for place in range(len(columns)) if place not in block]
            mine = [columns[place] for place in sorted(block)]
            left = min(BLOCK_S, end - clock())
            better, missing = _solved(problem, mine, missing, rest, clock, left)
            if better is not None:
                columns = rest + better
                order, at = random.permutation(len(columns)), _past(at, len(order), len(columns))
                told(cost_of(columns))
    bound = bound_of_all(problem, columns, clock=clock, seconds=seconds * BOUND_SHARE) if not missing else 0.0
    cost = cost_of(columns)
    proof = "prices of the relaxation; one more tenant never frees room" if bound > 0 else UNKNOWN
    return Solved(tuple(columns), tuple(missing), cost, min(bound, cost), proof)


def _past(at: int, before: int, after: int) -> int:
    """As far through the new order as through the old one."""
    return after if at >= before else int(at * after / before)


def _block(columns: list[Column], order: np.ndarray, at: int, units: int) -> tuple[set[int], int]:
    block: set[int] = set()
    held = 0
    while at < len(order) and held < units:
        block.add(int(order[at]))
        held += len(columns[int(order[at])].members)
        at += 1
    return block, at


def _solved(
    problem: Problem, mine: list[Column], missing: list[int], rest: list[Column], clock: Clock, seconds: float
) -> tuple[list[Column] | None, list[int]]:
    """A block on its own; None where it is no better. Units without a place have another chance in every block."""
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
    still = [units[place] for place in solved.left_out]
    if len(still) >= len(missing) and solved.cost >= cost_of(mine) - 1e-9:
        return None, missing
    named = [
        Column(column.option, tuple(units[place] for place in column.members), column.cost, column.devices)
        for column in solved.columns
    ]
    return named, still


def bound_of_all(problem: Problem, columns: list[Column], *, clock: Clock, seconds: float) -> float:
    """A bound for everything from the prices of the plan's own columns; 0 where the time isn't enough."""
    end = clock() + seconds
    pool = list(dict.fromkeys([*columns, *problem.given]))
    best = 0.0
    beam: int | None = 400
    while clock() < end:
        relaxed = relax(problem, pool)
        ratio, complete, added = 1.0, True, 0
        for option, where in enumerate(problem.options):
            scarce = float(relaxed.scarce[where.kind])
            found = price(
                problem, option, relaxed.worth, scarce, keep=2000, beam=beam, more=lambda: clock() < end
            )
            ratio, complete = max(ratio, found.most_ratio), complete and found.complete
            cost = problem.judge(option, found.groups).cost if len(found.groups) else []
            fresh = [
                Column(option, tuple(int(unit) for unit in row if unit >= 0), float(one))
                for row, one in zip(found.groups, cost, strict=True)
            ]
            added += len(fresh)
            pool += fresh
        if complete:
            scarcity = float(relaxed.scarce @ np.asarray(problem.available, float))
            best = max(best, float(relaxed.worth.sum()) / ratio - scarcity)
        if not added:
            if beam is None:
                break
            beam = None
    return best
