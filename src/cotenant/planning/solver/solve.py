"""Choose the solver by the number of units."""

from collections.abc import Callable

from cotenant.planning.solver.blocks import improve_in_blocks
from cotenant.planning.solver.enumeration import enumerate_groups
from cotenant.planning.solver.generation import Clock, Solved, generate, start
from cotenant.planning.solver.problem import EVERY_GROUP, Problem

AT_ONCE = 200
"""Up to this many units are solved as one problem."""


def solve(
    problem: Problem, *, clock: Clock, seconds: float, progress: Callable[[float], None] = lambda _: None
) -> Solved:
    """The best plan found in time, with a bound.

    Args:
        problem: The units to place.
        clock: Returns seconds; planning never reads the system clock itself.
        seconds: Approximate time limit.
        progress: Called with the cost of each better plan of a large problem.
    """
    begun = start(problem)
    if problem.units <= EVERY_GROUP:
        return enumerate_groups(problem, begun, seconds=seconds)
    if problem.units <= AT_ONCE:
        return generate(problem, begun, clock=clock, seconds=seconds)
    return improve_in_blocks(problem, begun, clock=clock, seconds=seconds, progress=progress)
