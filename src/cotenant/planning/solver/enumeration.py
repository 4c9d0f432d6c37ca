"""Few units: judge every group, then choose. Assumes nothing about the judge."""

from itertools import combinations

import numpy as np

from cotenant.planning.solver.generation import Solved, Start
from cotenant.planning.solver.master import choose
from cotenant.planning.solver.problem import Column, Problem, as_groups, columns_of, cost_of


def enumerate_groups(problem: Problem, begun: Start, *, seconds: float) -> Solved:
    """The optimal plan, with proof unless time runs out."""
    groups = [
        group
        for size in range(1, min(problem.units, problem.most) + 1)
        for group in combinations(range(problem.units), size)
    ]
    columns: list[Column] = list(problem.given)
    for option in range(len(problem.options)):
        columns += columns_of(problem, option, as_groups(groups, problem.most))
    chosen = choose(problem, columns, seconds=seconds, exactly=True)
    if chosen is None:
        return Solved(begun.columns, begun.left_out, cost_of(begun.columns), 0.0, "none: time ran out")
    cost = cost_of(chosen.columns)
    bound = chosen.bound - chosen.penalty * len(chosen.left_out)
    bound = cost if np.isclose(bound, cost, rtol=1e-6) else min(bound, cost)
    return Solved(chosen.columns, chosen.left_out, cost, bound, "every group was examined")
